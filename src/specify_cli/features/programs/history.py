"""What a record says a run has already done, by the place in the program where it did it
(docs/replay.md).

A place is a step with its ordinal and the how-manieth call of its kind there, so a tool polled
three times has three places. Guarantees: a value is given back only as it was, byte for byte; what
was cut, masked or not stored is refused by name. Running and writing are the runtime's.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from specify_cli.errors import StoredDataError
from specify_cli.features.programs.event_places import ASKS, TOLD, ByHash, Fields, Key, shape_of
from specify_cli.features.programs.values import read_value
from specify_cli.libraries.comparison.expected import OF_THE_RUN, TOP, Place, place_of
from specify_cli.record.reading.views import get_seq
from specify_cli.record.verifying.hash_table import HashTable
from specify_cli.redaction.captured import read_captured_text

_INTERRUPTS = {
    "KeyboardInterrupt",
    "SystemExit",
    "GeneratorExit",
    "CancelledError",
    "LIMIT_EXCEEDED",
    "LimitExceeded",
}
# Events as numbers, and what is marked of something that was asked for.
_NAMES = tuple(ASKS)
_STEP, _TOOL_CALL, _MODEL_CALL = map(_NAMES.index, ("step_started", "tool_call", "model_call"))
_WORK = (_STEP, _TOOL_CALL, _MODEL_CALL)
# What a program that goes on has to come to again; the rest a person may have added from a shell.
_DUE = (*_WORK, *map(_NAMES.index, ("stage_transition", "retrieval_request")))
_ORDERED, _PARALLEL, _USED, _REMOVED, _UNANSWERED = 1, 2, 4, 8, 16


class Recorded:
    """Something a program asked a run for: a step, a call, a decision; `result` is the line that
    answered it.

    `ordered` says that its place follows from the order of the program alone; what ran in parallel
    has none. It is the `number`th that its history has, made when it is read: a long run has a
    million.
    """

    __slots__ = ("_history", "number")

    def __init__(self, history: History, number: int) -> None:
        self._history, self.number = history, number

    @property
    def fields(self) -> Fields:
        """Return the line that asked."""
        return self._history.lines[self._history.asked[self.number]]

    @property
    def result(self) -> Fields | None:
        """Return the line that answered; None where none did."""
        at = self._history.answered[self.number]
        return self._history.lines[at] if at else None

    @property
    def attempts(self) -> int:
        """Return how often it was asked for: a call that was run once more is one call."""
        return self._history.attempts[self.number]

    @property
    def call_id(self) -> str:
        """Return the id of the call, as its line has it."""
        return str(self.fields.get("call_id"))

    @property
    def safe_again(self) -> bool:
        """Return whether running it once more does no harm."""
        return self.fields.get("side_effect") in ("none", "idempotent")

    @property
    def attempt(self) -> str:
        """Return what consent to run it once more names: this attempt, and no later one."""
        return f"{self.call_id}:{self.fields.get('seq')}"


class UnstoredResult(NamedTuple):
    """A result that cannot be given back; `needed` where the program is sure to ask for it."""

    seq: int
    what: str
    reason: str
    needed: bool


class History:
    """What a record has of a run, by place. `get` reads an object by its digest.

    With `whole` it holds what is in steps that have ended too: whoever runs those again asks for
    it. Of each thing that was asked for it keeps numbers, of a step its place as well.
    """

    def __init__(
        self, lines: Sequence[Fields], get: Callable[[str], bytes], *, whole: bool = False
    ) -> None:
        self.lines = lines
        self._get = get
        self._whole = whole
        # Of each thing that was asked for its line, the line that answered it (0 where none did),
        # how often it was asked for; its event, its marks, its key's hash, its step's place, one
        # more than the number of its caller.
        self.asked, self.answered, self.attempts = array("I"), array("I"), bytearray()
        self._events, self._marks, self._keys = bytearray(), bytearray(), array("q")
        self._steps, self._callers = array("I"), array("I")
        # The places of steps, and of each the lines that say it completed or failed, and one more
        # than its number.
        self._places: dict[Place, int] = {TOP: 0}
        self._place_of = [TOP]
        self._completed, self._failed, self._begun = (array("I", [0]) for _ in range(3))
        # The highest number a step of each name has.
        self.ordinals: dict[str, int] = {}
        # One more than the numbers of calls by the hashes of their ids, and the hashes of all
        # idempotency keys.
        self._calls, self.keys = HashTable(), HashTable()
        self._requests: dict[str, int] = {}
        # What was asked for in a step that has not ended.
        self._inside: dict[int, list[int]] = {}
        # Steps and tool calls that have begun and not ended, where the order of the program tells
        # what is in them.
        self._running: list[Place] = []
        self._calling: dict[int, list[int]] = {}
        # An older writer did not mark what ran in parallel.
        self._unmarked = True
        for at, fields in enumerate(lines):
            self._take(at, fields)
        in_order = (
            number
            for number in self._iter_present()
            if self._unmarked or not self._has(number, _PARALLEL)
        )
        self._in_order = ByHash((self._keys[number], number) for number in in_order)
        # Of each step the last that the program came to in its order: what it only tells and that
        # stands before it was told in what was given back.
        self._latest: dict[int, int] = {}
        due = (
            number
            for number in self._iter_present()
            if self._has(number, _ORDERED) and self._events[number] in _DUE
        )
        self._due, self._next_due = array("I", due), 0

    def _has(self, number: int, mark: int) -> bool:
        return self._marks[number] & mark > 0

    def _iter_present(self) -> Iterator[int]:
        return (number for number, marks in enumerate(self._marks) if not marks & _REMOVED)

    def _number_of(self, place: Place) -> int:
        """Return the number of a place, which it has from now on."""
        number = self._places.get(place)
        if number is None:
            number = len(self._completed)
            self._places[place] = number
            self._place_of.append(place)
            for lines in (self._completed, self._failed, self._begun):
                lines.append(0)
        return number

    def _take(self, at: int, fields: Fields) -> None:
        event = str(fields.get("event"))
        place = place_of(fields)
        begun = self._find_begun(place) if event == "step_started" else None
        if begun is not None:
            self.answered[begun] = 0
            self._failed[self._places[place]] = 0
            if self._has(begun, _ORDERED):
                self._running.append(place)
        elif event in ("step_completed", "step_failed"):
            self._end_step(event, place, at, fields)
        elif event == "tool_call" and (call := self._find_call(fields)) is not None:
            self.asked[call], self.answered[call] = at, 0
            self.attempts[call] = min(self.attempts[call] + 1, 255)
            self._mark(call, _PARALLEL, fields.get("beside") is True)
        elif event == "tool_result" and (call := self._find_call(fields)) is not None:
            self.answered[call] = at
            open_calls = self._calling.get(self._steps[call], [])
            if call in open_calls:
                open_calls.remove(call)
                if not open_calls:
                    del self._calling[self._steps[call]]
        elif event == "retrieval_response":
            asked = self._requests.get(str(fields.get("request_id")))
            if asked is not None:
                self.answered[asked] = at
                self._mark(asked, _REMOVED, False)
        elif event == "model_call" and self._is_interrupted(fields):
            pass  # nobody knows the answer, and asking again does no harm
        elif (
            event in ASKS
            and fields.get("request_id") != "context"
            and fields.get("manual") is not False
        ):
            self._ask(event, place, at, fields)

    def _is_interrupted(self, fields: Fields) -> bool:
        """Return whether a question was broken off, not answered."""
        if fields.get("ok") is not False:
            return False
        text = read_captured_text(fields, "response", self._get)[0] or ""
        return text.strip('"').partition(":")[0] in _INTERRUPTS

    def _find_begun(self, place: Place) -> int | None:
        """Return the number of a step that began."""
        number = self._places.get(place)
        return None if number is None or not self._begun[number] else self._begun[number] - 1

    def _find_call(self, fields: Fields) -> int | None:
        """Return the number of the call that a line is of."""
        number = self._calls.get(hash(str(fields.get("call_id"))))
        return number - 1 if number else None

    def _mark(self, number: int, mark: int, is_set: bool) -> None:
        self._marks[number] = self._marks[number] & ~mark | mark * is_set

    def _end_step(self, event: str, place: Place, at: int, fields: Fields) -> None:
        if place in self._running:
            self._running.remove(place)
        begun, number = self._find_begun(place), self._number_of(place)
        if begun is not None:
            self.answered[begun] = at
        # An interrupt, or what its writer calls retryable, is a step that has not ended.
        if event == "step_completed":
            self._completed[number] = at
        elif not fields.get("retryable") and fields.get("error_code") not in _INTERRUPTS:
            self._failed[number] = at
        if not self._whole and self.is_ended(place):
            for step in self._running:
                inner = self._begun[self._places[step]] - 1
                if self._steps[inner] == number:
                    # It goes on, so a program that is given this step's end begins it outside.
                    self._steps[inner] = above = self._steps[begun or 0]
                    self._callers[inner] = called_by = self._callers[begun or 0]
                    caller = Recorded(self, called_by - 1).call_id if called_by else ""
                    key = ("step_started", self._place_of[above], caller, step[0])
                    self._keys[inner] = hash(key)
            # What it gave stands for what is in it.
            for inner in self._inside.pop(number, ()):
                if self._events[inner] == _TOOL_CALL and not self._has(inner, _REMOVED):
                    self._calls.drop(hash(Recorded(self, inner).call_id))
                self._mark(inner, _REMOVED, True)

    def _ask(self, event: str, place: Place, at: int, fields: Fields) -> None:
        step, parallel = place, fields.get("beside") is True
        self._unmarked = self._unmarked and not fields.get("beside")
        begun = self._find_begun(place)
        if event not in OF_THE_RUN:
            ordered = not parallel and (begun is None or self._has(begun, _ORDERED))
        else:
            ordered = not parallel
            name, _, ordinal = str(fields.get("within", "")).rpartition(" ")
            step = (name, int(ordinal)) if parallel and ordinal.isdecimal() else TOP
            step = self._running[-1] if ordered and self._running else step
        called_by = None
        if parallel and "within" in fields:
            called_by = self._find_call({"call_id": fields["within"]})
        where = self._number_of(step) if called_by is None else self._steps[called_by]
        open_calls = self._calling.get(where, [])
        if open_calls and not parallel:
            called_by = open_calls[-1]
        caller = "" if called_by is None else Recorded(self, called_by).call_id
        key = (event, step, caller, str(fields.get(ASKS[event], "")))
        number = len(self.asked)
        self.asked.append(at)
        self.answered.append(0)
        self.attempts.append(1)
        self._events.append(_NAMES.index(event))
        # A question that a model did not answer changed nothing: a program need not come to it
        # again.
        unanswered = event == "model_call" and fields.get("ok") is False
        marks = _ORDERED * ordered | _PARALLEL * parallel | _UNANSWERED * unanswered
        # A search that a crash cut off from its answer is made anew.
        self._marks.append(marks | _REMOVED * (event == "retrieval_request"))
        self._keys.append(hash(key))
        self._steps.append(where)
        self._callers.append(0 if called_by is None else called_by + 1)
        if event == "tool_call" and not parallel:
            self._calling.setdefault(where, []).append(number)
        if not self._whole and event != "step_started" and step != TOP:
            self._inside.setdefault(where, []).append(number)
        if event == "step_started":
            self._begun[self._number_of(place)] = number + 1
            self.ordinals[place[0]] = max(place[1], self.ordinals.get(place[0], 0))
            if ordered:
                self._running.append(place)
        elif event == "tool_call":
            self._calls.put(hash(str(fields.get("call_id"))), number + 1)
            self.keys.put(hash(str(fields.get("idempotency_key"))))
        elif event == "retrieval_request":
            self._requests[str(fields.get("request_id"))] = number

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
        self._mark(recorded_number, _USED, True)
        if not self._has(recorded_number, _PARALLEL):
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
            if self._has(one, _USED) or (is_past and not self._has(one, _PARALLEL)):
                self._alike.pass_over(hashed, at)
                continue
            caller = self._callers[one]
            is_other = caller > 0 and Recorded(self, caller - 1).call_id != key[2]
            if not is_other and (not marked or self._has(one, _PARALLEL)):
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
            event = _NAMES[self._events[number]]
            if self._unmarked or self._has(number, _PARALLEL) or event in TOLD:
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
                if self._is_outstanding(self._named.numbers[at]):
                    return Recorded(self, self._named.numbers[at])
                self._named.pass_over(hashed, at)
        return None

    def _iter_named(self) -> Iterator[tuple[int, int]]:
        """Yield steps and calls by place and name, calls once more by the place alone."""
        for number in self._iter_present():
            event, place = self._events[number], self._place_of[self._steps[number]]
            if event in _WORK:
                name = _NAMES[event]
                named = str(Recorded(self, number).fields.get(ASKS[name], ""))
                yield hash((name, place, named)), number
                if event != _STEP:
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
        return not self._has(number, _USED | _UNANSWERED) and not self._is_given_back(number)

    def find_result(self, call_id: object) -> Fields | None:
        """Return the recorded result of a call, if it is known and has one."""
        call = self._find_call({"call_id": call_id})
        return None if call is None else Recorded(self, call).result

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
            if self._events[number] in _WORK and self._is_outstanding(number):
                fields = Recorded(self, number).fields
                if self._events[number] != _STEP or self.is_ended(place_of(fields)):
                    return Recorded(self, number)
        return None

    def is_ended(self, place: Place) -> bool:
        """Return whether a step has completed or failed for good."""
        return self.find_end(place) is not None

    def find_end(self, place: Place) -> Fields | None:
        """Return the line that says what a step gave, or failed with for good."""
        at = self._find_end(self._places.get(place, 0))
        return self.lines[at] if at else None

    def find_last_end(self, place: Place) -> Fields | None:
        """Return the line that ended a step last, though it be tried again."""
        begun = self._find_begun(place)
        return None if begun is None else Recorded(self, begun).result

    def _find_end(self, number: int) -> int:
        return self._completed[number] or self._failed[number]

    def _is_given_back(self, number: int) -> bool:
        """Return whether a step or call that has its result stands for this, so that nobody asks
        for it."""
        step, caller = self._steps[number], self._callers[number] - 1
        if self._find_end(step) or (
            caller >= 0 and self.answered[caller] and not self._has(caller, _REMOVED)
        ):
            return True
        return step > 0 and self._begun[step] > 0 and self._is_given_back(self._begun[step] - 1)

    def find_passed_over(self, asked: Recorded | None) -> Recorded | None:
        """Return what a program that goes on has yet to come to before it begins something: what is
        new, or what the record has and would not give back."""
        due = self.due
        if asked and due:
            event, is_known = self._events[asked.number], asked.result is not None
            begins = event in (_STEP, _TOOL_CALL) and is_known == (event == _STEP)
            is_late = asked.number > due.number and not self._has(asked.number, _PARALLEL)
            if not (is_late and begins) or self.is_ended(place_of(asked.fields)):
                return None
        return due

    def is_within(self, asked: Recorded, place: Place) -> bool:
        """Return whether something was asked for in a step, however deep."""
        step, wanted = self._steps[asked.number], self._places.get(place)
        while step and step != wanted and self._begun[step]:
            step = self._steps[self._begun[step] - 1]
        return step > 0 and step == wanted

    @property
    def in_doubt(self) -> tuple[Recorded, ...]:
        """Calls that began and have no result: nobody can know from here whether they took
        effect."""
        return tuple(
            Recorded(self, number)
            for number in self._iter_present()
            if self._events[number] == _TOOL_CALL and not self.answered[number]
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
            if self._events[number] not in _WORK or self._is_given_back(number):
                continue
            entry = Recorded(self, number)
            line, name = entry.result, "output"
            if self._events[number] == _MODEL_CALL:
                line, name = entry.fields, "response"
            if line is None or line["event"] == "step_failed":
                continue
            try:
                self.value(line, name)
            except StoredDataError as error:
                needed = self._events[number] != _TOOL_CALL
                yield UnstoredResult(get_seq(line), str(line["event"]), error.message, needed)

    @property
    def retrievals(self) -> int:
        """Return how many searches the program has made."""
        return len(self._requests)

    def value(self, fields: Fields, name: str) -> object:
        """Return the value a line holds under a captured name, exactly. Raises StoredDataError
        RESULT_NOT_KEPT."""
        return read_value(fields, name, self._get)
