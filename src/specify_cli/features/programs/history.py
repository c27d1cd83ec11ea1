"""What a record says a run has already done, found by the place in the program where it did it
(docs/replay.md).

    recorded = History(lines, objects.get).take(key, body, 1)

Guarantees: a value is given back only as it was, byte for byte; what was cut, masked or not stored
is refused by name. Running and writing are the runtime's.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from specify_cli.errors import StoredDataError
from specify_cli.features.programs.recorded import (
    ASKS,
    MODEL_CALL,
    NAMES,
    ORDERED,
    PARALLEL,
    REMOVED,
    STAGE,
    STEP,
    TOLD,
    TOOL_CALL,
    UNANSWERED,
    USED,
    WORK,
    ByHash,
    Key,
    Recorded,
    RecordedWork,
    shape_of,
)
from specify_cli.features.programs.values import read_value
from specify_cli.libraries.comparison.expected import Place, place_of
from specify_cli.record.reading.views import get_seq
from specify_cli.record.seal import Fields

# What a program that goes on has to come to again; the rest a person may have added from a shell.
DUE = (*WORK, STAGE, NAMES.index("retrieval_request"))


class UnstoredResult(NamedTuple):
    """A result that cannot be given back; `needed` where the program is sure to ask for it."""

    seq: int
    what: str
    reason: str
    needed: bool


class History(RecordedWork):
    """What a record has of a run, by place, for a program that goes on or runs again."""

    def __init__(
        self, lines: Sequence[Fields], get: Callable[[str], bytes], *, whole: bool = False
    ) -> None:
        super().__init__(lines, get, whole=whole)
        in_order = (
            number
            for number in self._iter_present()
            if self._unmarked or not self._has(number, PARALLEL)
        )
        self._in_order = ByHash((self._keys[number], number) for number in in_order)
        # Of each step the last that the program came to in its order: what it only tells and that
        # stands before it was told in what was given back.
        self._latest: dict[int, int] = {}
        due = (
            number
            for number in self._iter_present()
            if self._has(number, ORDERED) and self._events[number] in DUE
        )
        self._due, self._next_due = array("I", due), 0

    def take(self, key: Key, body: Fields, number: int | None) -> Recorded | None:
        """Return what the record has of this, and take it: the `number`th of its kind at its place.

        Without a number, of what ran in parallel, the first that was asked for in the same
        way.
        """
        in_order = self._in_order.find(hash(key))
        if number is not None and number <= len(in_order):
            recorded_number: int | None = self._in_order.numbers[in_order[number - 1]]
        else:
            recorded_number = self._find_alike(key, body, marked=number is not None)
        if recorded_number is None:
            return None
        self._mark(recorded_number, USED, True)
        if not self._has(recorded_number, PARALLEL):
            step = self._steps[recorded_number]
            self._latest[step] = max(recorded_number, self._latest.get(step, 0))
        return Recorded(self, recorded_number)

    def _find_alike(self, key: Key, body: Fields, *, marked: bool = False) -> int | None:
        """Return the number of the first that was asked for in the same way and was not used.

        With `marked` only one that the record marks so.
        """
        hashed = hash(shape_of(key[0], key[1], key[3], body))
        for at in self._alike.find(hashed):
            one = self._alike.numbers[at]
            is_past = key[0] in TOLD and one < self._latest.get(self._steps[one], 0)
            if self._has(one, USED) or (is_past and not self._has(one, PARALLEL)):
                self._alike.pass_over(hashed, at)
                continue
            caller = self._callers[one]
            is_other = caller > 0 and self._name_caller(caller) != key[2]
            if not is_other and (not marked or self._has(one, PARALLEL)):
                return one
        return None

    @cached_property
    def _alike(self) -> ByHash:
        """Return what ran in parallel by how it was asked for."""
        return ByHash(self._iter_alike())

    @cached_property
    def _named(self) -> ByHash:
        """Return steps and calls by where and how they are named."""
        return ByHash(self._iter_named())

    def _iter_alike(self) -> Iterator[tuple[int, int]]:
        for number in self._iter_present():
            event = NAMES[self._events[number]]
            if self._unmarked or self._has(number, PARALLEL) or event in TOLD:
                fields = Recorded(self, number).fields
                place, name = self._place_of[self._steps[number]], str(fields.get(ASKS[event], ""))
                yield hash(shape_of(event, place, name, fields)), number

    def find_outstanding(self, key: Key, *, any_call: bool) -> Recorded | None:
        """Return what the record has of this kind and name at this place and the program has not
        come to.

        What is new may run only where there is none: it could be the recorded work with another
        input. With `any_call` every call at the place counts, whatever it is named.
        """
        event, step, _, name = key
        for hashed in (hash((event, step, name)), *([hash(step)] if any_call else [])):
            for at in self._named.find(hashed):
                number = self._named.numbers[at]
                if not self._is_outstanding(number):
                    self._named.pass_over(hashed, at)
                # A question may be the one that a crash broke off, and whose function made this.
                elif event != "model_call" or not self._is_made_by(number, self._asking):
                    return Recorded(self, number)
        return None

    def _iter_named(self) -> Iterator[tuple[int, int]]:
        """Yield steps and calls by place and name, calls once more by the place alone."""
        for number in self._iter_present():
            event, place = self._events[number], self._place_of[self._steps[number]]
            if event in WORK:
                name = NAMES[event]
                named = str(Recorded(self, number).fields.get(ASKS[name], ""))
                yield hash((name, place, named)), number
                if event != STEP:
                    yield hash(place), number

    def waits_for_others(self, key: Key, body: Fields) -> bool:
        """Return whether the record has nothing like this, but other work that the program has yet
        to come to."""
        return (
            self._find_alike(key, body) is None
            and self.find_outstanding(key, any_call=True) is not None
        )

    def _is_outstanding(self, number: int) -> bool:
        """Return whether a program that goes on has yet to come to this."""
        return not self._has(number, USED | UNANSWERED) and not self._given_back[number]

    def find_result(self, call_id: object) -> Fields | None:
        """Return the recorded result of a call, if it is known and has one."""
        call = self._find_call(call_id)
        return Recorded(self, call - 1).result if call else None

    @property
    def due(self) -> Recorded | None:
        """Return the first, in the order of the program, that a program which goes on has yet to
        come to."""
        while self._next_due < len(self._due):
            number = self._due[self._next_due]
            if self._is_outstanding(number):
                return Recorded(self, number)
            self._next_due += 1
        return None

    @property
    def unasked(self) -> Recorded | None:
        """Return what a program that has ended did not come to, though the record has it."""
        if due := self.due:
            return due
        for number in self._iter_present():
            if self._events[number] in WORK and self._is_outstanding(number):
                fields = Recorded(self, number).fields
                if self._events[number] != STEP or self.is_ended(place_of(fields)):
                    return Recorded(self, number)
        return None

    def find_last_end(self, place: Place) -> Fields | None:
        """Return the line that ended a step last, though it be tried again."""
        begun = self._find_begun(place)
        return Recorded(self, begun).result if begun >= 0 else None

    @cached_property
    def _given_back(self) -> bytearray:
        """Return of each thing whether a step or call that has its result stands for it, so that
        nobody asks for it. Of what that is in or was made by it is known before."""
        given_back = bytearray(len(self.asked))
        for number, (step, called_by) in enumerate(zip(self._steps, self._callers, strict=True)):
            caller, begun = called_by - 1, self._begun[step] - 1
            given_back[number] = (
                self._find_end(step) > 0
                or (caller >= 0 and self.answered[caller] > 0 and not self._has(caller, REMOVED))
                or (caller >= 0 and given_back[caller])
                or (begun >= 0 and given_back[begun])
            )
        return given_back

    def take_asking(self, call_id: object, key: Key | None) -> str | None:
        """Return the id of a model call that a crash broke off: this one or, with a key, the first
        that was not taken at this place. None where there is none."""
        number = self._find_call(call_id) - 1
        if key:
            free = (
                one
                for one in self._asking
                if self._place_of[self._steps[one]] == key[1]
                and self._name_caller(self._callers[one]) == key[2]
                and not self._has(one, USED)
            )
            number = next(free, -1)
        if number not in self._asking:
            return None
        self._mark(number, USED, True)
        return self._asking[number]

    def find_passed_over(
        self, asked: Recorded | None, asking: str | None = None
    ) -> Recorded | None:
        """Return what a program that goes on has yet to come to before it begins something: what is
        new, or what the record has and would not give back.

        What a model call made that was broken off comes in it.
        """
        due = self.due
        if due and asking and self._is_made_by(due.number, (self._find_call(asking) - 1,)):
            return None
        if asked and due:
            event, is_known = self._events[asked.number], asked.result is not None
            begins = event in (STEP, TOOL_CALL) and is_known == (event == STEP)
            is_late = asked.number > due.number and not self._has(asked.number, PARALLEL)
            if not (is_late and begins) or self.is_ended(place_of(asked.fields)):
                return None
        return due

    def is_within(self, asked: Recorded, place: Place) -> bool:
        """Return whether something was asked for in a step, however deep."""
        number, wanted = asked.number, self._places.get(place)
        step = self._steps[number]
        # What is around something began before it.
        while step != wanted and 0 < self._begun[step] <= number:
            number = self._begun[step] - 1
            step = self._steps[number]
        return step > 0 and step == wanted

    @property
    def in_doubt(self) -> tuple[Recorded, ...]:
        """Calls that began and have no result: nobody can know from here whether they took
        effect."""
        return tuple(
            Recorded(self, number)
            for number in self._iter_present()
            if self._events[number] == TOOL_CALL
            and not (self.answered[number] or self._is_behind(number))
        )

    @property
    def first_incomplete(self) -> Place | None:
        """Return the first step that began and has no end."""
        open_steps = (
            (self._begun[number], place)
            for place, number in self._places.items()
            if self._begun[number] and not self._find_end(number)
        )
        return min(open_steps, default=(0, None))[1]

    def list_unstored(self) -> Iterator[UnstoredResult]:
        """Yield the results that a program which goes on may ask for and that cannot be given
        back."""
        for number in self._iter_present():
            if self._events[number] not in WORK or self._given_back[number]:
                continue
            entry = Recorded(self, number)
            line, name = entry.result, "output"
            if self._events[number] == MODEL_CALL:
                line, name = entry.fields, "response"
            if line is None or line["event"] == "step_failed":
                continue
            try:
                self.value(line, name)
            except StoredDataError as error:
                needed = self._events[number] != TOOL_CALL
                yield UnstoredResult(get_seq(line), str(line["event"]), error.message, needed)

    def lacks_checkpoint(self, asked: Recorded) -> bool:
        """Return whether a crash came between a stage transition and its checkpoint."""
        is_last = asked.number == len(self.asked) - 1
        return is_last and self._events[-1] == STAGE and not self.answered[-1]

    @property
    def retrievals(self) -> int:
        """Return how many searches the program has made."""
        return len(self._requests)

    def value(self, fields: Fields, name: str) -> object:
        """Return the value a line holds under a captured name, exactly. Raises StoredDataError
        RESULT_NOT_KEPT."""
        return read_value(fields, name, self._get)
