"""What a record says a run has asked for, line by line, by the place in the program where it did
it.

    work = RecordedWork(lines, objects.get)
    Recorded(work, 0).fields        # the first line that asked for something
    shape_of("tool_call", ("plan", 2), "grep", fields)      # how one asking differs from another

A place is a step with its ordinal and the how-manieth call of its kind there, so a tool polled
three times has three places. `history.py` finds what is asked for again. Reads nothing but the
lines, and of a broken-off question its text.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from specify_cli.invocation.events.event_body import MAX_NAME
from specify_cli.libraries.comparison.expected import OF_THE_RUN, TOP, Place, place_of
from specify_cli.libraries.comparison.run_parts import names_step
from specify_cli.record.seal import ALWAYS_LEFT, SEAL_KEY, Fields
from specify_cli.record.verifying.hash_table import HashTable
from specify_cli.redaction.captured import read_captured_text

# What a program only tells: it has no place in the order, and is found by what it says.
TOLD = ("prompt", "turn", "approval", "session_change", "policy_violation", "capture_gap")
LINKS = ("artifact_link", "commit_link")
# What the envelope of a line adds to that.
_OF_THE_LINE = {*ALWAYS_LEFT, SEAL_KEY, "salt", "by", "within"}
# What a program asks a run for: event → the member that names it.
ASKS: Mapping[str, str] = {
    "step_started": "step",
    "tool_call": "tool",
    "model_call": "model",
    "gate_decision": "gate",
    "checkpoint": "label",
    **dict.fromkeys(
        ("error", "patch_apply", "stage_transition", "retrieval_request", *LINKS, *TOLD), ""
    ),
}
# Where something is asked for: its event, the step it is in, the tool call it is made by, its name.
Key = tuple[str, Place, str, str]
# What an event that is asked for again has to have in common with the recorded one.
AGREED = (
    *("to", "tool", "step_type", "query", "path", "kind", "error_code", "input_hash", "args_hash"),
    *("prompt_hash", "inputs", "inputs_hash", "before_hash", "after_hash", "diff_hash"),
)
_INTERRUPTS = {
    "KeyboardInterrupt",
    "SystemExit",
    "GeneratorExit",
    "CancelledError",
    "LIMIT_EXCEEDED",
    "LimitExceeded",
}
# Events as numbers, and what is marked of something that was asked for.
NAMES = tuple(ASKS)
STEP, TOOL_CALL, MODEL_CALL = map(NAMES.index, ("step_started", "tool_call", "model_call"))
WORK = (STEP, TOOL_CALL, MODEL_CALL)
STAGE = NAMES.index("stage_transition")
ORDERED, PARALLEL, USED, REMOVED, UNANSWERED = 1, 2, 4, 8, 16


def shape_of(event: str, place: Place, name: str, fields: Fields) -> tuple[object, ...]:
    """Return what two askings at one place have to have in common to be alike."""
    members = sorted(fields.keys() - _OF_THE_LINE) if event in TOLD else (*AGREED, "digest_key")
    said = {member: fields.get(member) for member in members}
    return (event, place, name, json.dumps(said, sort_keys=True, default=str))


class ByHash:
    """Numbers by the hash of what they are found by, those of one hash in their order."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        hashes, numbers = array("q"), array("I")
        for hashed, number in pairs:
            hashes.append(hashed)
            numbers.append(number)
        # Sorted a part at a time: all of a million at once take a hundred bytes each.
        parts = [array("I") for _ in range(256)]
        for at, hashed in enumerate(hashes):
            parts[128 + (hashed >> 56)].append(at)
        self._hashes, self.numbers = array("q"), array("I")
        self._starts: dict[int, int] = {}
        for part in parts:
            for at in sorted(part, key=hashes.__getitem__):
                self._hashes.append(hashes[at])
                self.numbers.append(numbers[at])

    def find(self, hashed: int) -> range:
        """Return the places of the numbers that have this hash and were not passed over."""
        start = self._starts.get(hashed, 0) or bisect_left(self._hashes, hashed)
        return range(start, bisect_right(self._hashes, hashed))

    def pass_over(self, hashed: int, at: int) -> None:
        """Leave out the number at a place from now on, if it is the first of its hash."""
        if at == self.find(hashed).start:
            self._starts[hashed] = at + 1


class Recorded:
    """Something a program asked a run for: a step, a call, a decision; `result` is the line that
    answered it.

    `ordered` says that its place follows from the order of the program alone; what ran in parallel
    has none. It is the `number`th that its history has, made when it is read: a long run has a
    million.
    """

    __slots__ = ("_work", "number")

    def __init__(self, work: RecordedWork, number: int) -> None:
        self._work, self.number = work, number

    @property
    def fields(self) -> Fields:
        """Return the line that asked."""
        return self._work.lines[self._work.asked[self.number]]

    @property
    def result(self) -> Fields | None:
        """Return the line that answered; None where none did."""
        at = self._work.answered[self.number]
        return self._work.lines[at] if at else None

    @property
    def attempts(self) -> int:
        """Return how often it was asked for: a call that was run once more is one call."""
        return self._work.attempts[self.number]

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


class RecordedWork:
    """What a run asked for, by number: of each thing numbers are kept, of a step its place as well.

    `get` reads an object by its digest. With `whole` steps that have ended are run again.
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
        # Steps and tool calls that have begun and not ended, where the order of the program tells
        # what is in them.
        self._running: list[Place] = []
        self._calling: dict[int, list[int]] = {}
        # The ids of model calls whose functions have made something and whose own lines, which
        # come at their ends, have not come.
        self._asking: dict[int, str] = {}
        # An older writer did not mark what ran in parallel.
        self._unmarked = True
        for at, fields in enumerate(lines):
            self._take(at, fields)

    def _has(self, number: int, mark: int) -> bool:
        return self._marks[number] & mark > 0

    def _iter_present(self) -> Iterator[int]:
        return (number for number, marks in enumerate(self._marks) if not marks & REMOVED)

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
        if "within" in fields:
            self._note_asking(at, place, fields)
        begun = self._find_begun(place) if event == "step_started" else -1
        call = self._find_call(fields.get("call_id")) - 1
        if begun >= 0:
            self.answered[begun] = 0
            self._failed[self._places[place]] = 0
            if self._has(begun, ORDERED):
                self._running.append(place)
        elif event in ("step_completed", "step_failed"):
            self._end_step(event, place, at, fields)
        elif event == "tool_call" and self._is_repeated(call):
            self.asked[call], self.answered[call] = at, 0
            self.attempts[call] = min(self.attempts[call] + 1, 255)
            self._mark(call, PARALLEL, fields.get("beside") is True)
        elif event == "tool_result" and call >= 0:
            self.answered[call] = at
            open_calls = self._calling.get(self._steps[call], [])
            del open_calls[bisect_left(open_calls, call) : bisect_right(open_calls, call)]
        elif event == "retrieval_response":
            asked = self._requests.get(str(fields.get("request_id")))
            if asked is not None:
                self.answered[asked] = at
                self._mark(asked, REMOVED, False)
        elif event == "checkpoint" and fields.get("manual") is False:
            if self._events and self._events[-1] == STAGE:
                self.answered[-1] = at
        elif event == "model_call" and self._is_interrupted(fields):
            pass  # nobody knows the answer, and asking again does no harm
        elif event in ASKS and fields.get("request_id") != "context":
            self._ask(event, place, at, fields)

    def _is_interrupted(self, fields: Fields) -> bool:
        """Return whether a question was broken off, not answered."""
        if fields.get("ok") is not False:
            return False
        text = read_captured_text(fields, "response", self._get)[0] or ""
        return text.strip('"').partition(":")[0] in _INTERRUPTS

    def _find_begun(self, place: Place) -> int:
        """Return the number of a step that began; -1 where none did."""
        return self._begun[self._places.get(place, 0)] - 1

    def _is_repeated(self, call: int) -> bool:
        """Return whether a call with the id of this one is that once more; one in a step that has
        ended is not."""
        return call >= 0 and self._events[call] == TOOL_CALL and not self._is_behind(call)

    def _is_behind(self, number: int) -> bool:
        """Return whether the step that something was asked for in has ended since."""
        return self._find_end(self._steps[number]) > self.asked[number]

    def _find_call(self, call_id: object) -> int:
        """Return one more than the number of the call that has this id; 0 where none has."""
        return self._calls.get(hash(str(call_id))) if call_id else 0

    def _mark(self, number: int, mark: int, is_set: bool) -> None:
        self._marks[number] = self._marks[number] & ~mark | mark * is_set

    def _end_step(self, event: str, place: Place, at: int, fields: Fields) -> None:
        if place in self._running:
            self._running.remove(place)
        begun, number = self._find_begun(place), self._number_of(place)
        if begun >= 0:
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
                    self._steps[inner] = above = self._steps[max(begun, 0)]
                    self._callers[inner] = called_by = self._callers[max(begun, 0)]
                    caller = self._name_caller(called_by)
                    key = ("step_started", self._place_of[above], caller, step[0])
                    self._keys[inner] = hash(key)

    def _note_asking(self, at: int, place: Place, fields: Fields) -> None:
        """Give a number to the model call whose function made a line, and to the one around it:
        their own lines come later, or never."""
        call_id = str(fields["within"])
        if not call_id or names_step(call_id) or self._find_call(call_id):
            return
        if fields.get("event") in OF_THE_RUN:
            place = self._running[-1] if self._running else TOP
        outer = call_id.rpartition(".")[0] if len(call_id) <= MAX_NAME else ""
        if outer:
            self._note_asking(at, place, {"within": outer})
        where, called_by = self._number_of(place), self._find_call(outer)
        number = self._add(at, "model_call", where)
        self._callers[number] = self._find_caller(where, called_by, number)
        self._marks[number] = REMOVED
        self._asking[number] = call_id
        self._calls.put(hash(call_id), number + 1)

    def _find_caller(self, where: int, called_by: int, number: int) -> int:
        """Return one more than the number of the call that makes what has or would have this
        number: the last that goes on at its place, if it is not around the call that is named."""
        open_calls = self._calling.get(where, [])
        # What has a higher number was made by it, as by a model call, whose line comes at its end.
        before = bisect_left(open_calls, number)
        return max(called_by, open_calls[before - 1] + 1 if before else 0)

    def _is_made_by(self, number: int, calls: Container[int]) -> bool:
        """Return whether something is one of some calls or was made by one, however deep."""
        while number not in calls and self._callers[number]:
            number = self._callers[number] - 1  # which is lower
        return number in calls

    def _name_caller(self, called_by: int) -> str:
        """Return the id of a call, by one more than its number; of 0 nothing."""
        if not called_by:
            return ""
        return self._asking.get(called_by - 1) or Recorded(self, called_by - 1).call_id

    def _add(self, at: int, event: str, where: int) -> int:
        """Return the number of something more that was asked for, at a place."""
        number = len(self.asked)
        self.asked.append(at)
        self.answered.append(0)
        self.attempts.append(1)
        self._events.append(NAMES.index(event))
        self._marks.append(0)
        self._keys.append(0)
        self._steps.append(where)
        self._callers.append(0)
        return number

    def _ask(self, event: str, place: Place, at: int, fields: Fields) -> None:
        step, parallel = place, fields.get("beside") is True
        self._unmarked = self._unmarked and not fields.get("beside")
        begun = self._find_begun(place)
        called_by = self._find_call(fields.get("within"))
        if event not in OF_THE_RUN:
            ordered = not parallel and (begun < 0 or self._has(begun, ORDERED))
        else:
            ordered = not parallel
            within = str(fields.get("within", ""))
            name, _, ordinal = within.rpartition(" ")
            step = (name, int(ordinal)) if parallel and names_step(within) else TOP
            step = self._running[-1] if ordered and self._running else step
            if ordered and called_by:
                step = self._place_of[self._steps[called_by - 1]]
        where = self._steps[called_by - 1] if called_by else self._number_of(step)
        asking = self._find_call(fields.get("call_id")) - 1 if event == "model_call" else -1
        number = asking if asking in self._asking else len(self.asked)
        if called_by > number:
            called_by = 0  # a program cannot have written this
        if not parallel:
            called_by = self._find_caller(where, called_by, number)
        key = (event, step, self._name_caller(called_by), str(fields.get(ASKS[event], "")))
        if number == len(self.asked):
            self._add(at, event, where)
        else:  # it ended: what its function made is behind it
            del self._asking[number]
            self.asked[number] = self.answered[number] = at
            self._steps[number] = where
        # A question that a model did not answer changed nothing: a program need not come to it
        # again.
        unanswered = event == "model_call" and fields.get("ok") is False
        marks = ORDERED * ordered | PARALLEL * parallel | UNANSWERED * unanswered
        # A search that a crash cut off from its answer is made anew.
        self._marks[number] = marks | REMOVED * (event == "retrieval_request")
        self._keys[number] = hash(key)
        self._callers[number] = called_by
        if event == "tool_call" and not parallel:
            self._calling.setdefault(where, []).append(number)
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

    def is_ended(self, place: Place) -> bool:
        """Return whether a step has completed or failed for good."""
        return self.find_end(place) is not None

    def find_end(self, place: Place) -> Fields | None:
        """Return the line that says what a step gave, or failed with for good."""
        at = self._find_end(self._places.get(place, 0))
        return self.lines[at] if at else None

    def _find_end(self, number: int) -> int:
        return self._completed[number] or self._failed[number]
