"""What a record says a run has already done, by the place in the program where it did it (docs/replay.md).

A place is a step with its ordinal and the how-manieth call of its kind there, so a tool polled three times has
three places. Guarantees: a value is given back only as it was, byte for byte; what was cut, masked or not kept
is refused by name. Running and writing are the runtime's.
"""

from __future__ import annotations

import builtins
import hashlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from doctrine.text import say
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.record.event_table import EVENTS
from specify_cli.redaction.json_values import ForeignError, foreign_text, parse_foreign
from specify_cli.redaction.redact import NO_RULES

Fields = Mapping[str, object]
Place = tuple[str, int]
TOP: Place = ("", 0)
_INTERRUPTS = {"KeyboardInterrupt", "SystemExit", "GeneratorExit", "LIMIT_EXCEEDED", "LimitExceeded"}
# What a program asks a run for: event → the member that names it. Those of the run stand in no step.
ASKS: Mapping[str, str] = {
    "step_started": "step",
    "tool_call": "tool",
    "model_call": "model",
    "gate_decision": "gate",
    "checkpoint": "label",
    **dict.fromkeys(("error", "patch_apply", "stage_transition", "retrieval_request", "artifact_link"), ""),
}
OF_THE_RUN = ("step_started", "checkpoint", "stage_transition", "retrieval_request", "artifact_link")
# Where something is asked for: its event, the step it is in, the tool call it is made by, its name.
Key = tuple[str, Place, str, str]
# What an event that is asked for again has to have in common with the recorded one.
AGREED: tuple[str, ...] = (
    *("to", "tool", "step_type", "query", "path", "kind", "error_code", "input_hash", "args_hash", "prompt_hash"),
    *("inputs", "inputs_hash", "before_hash", "after_hash", "diff_hash"),
)


class Recorded:
    """Something a program asked a run for: a step, a call, a decision; `result` is the line that answered it.

    `ordered` says that its place follows from the order of the program alone; what ran beside it has none. Its lines
    are named by their places among those of the record, and read when they are asked for.
    """

    __slots__ = ("_asked", "_lines", "answer", "attempts", "key", "ordered", "taken")

    def __init__(self, lines: Sequence[Fields], asked: int, key: Key, ordered: bool) -> None:
        self._lines, self._asked = lines, asked
        self.key = key
        self.ordered = ordered
        self.answer: int | None = None
        self.attempts = 1
        self.taken = False

    @property
    def fields(self) -> Fields:
        return self._lines[self._asked]

    @property
    def result(self) -> Fields | None:
        return None if self.answer is None else self._lines[self.answer]

    def ask_again(self, asked: int) -> None:
        """Take the line that asks for it once more."""
        self._asked, self.answer, self.attempts = asked, None, self.attempts + 1

    @property
    def call_id(self) -> str:
        return str(self.fields.get("call_id"))

    @property
    def safe_again(self) -> bool:
        """Return whether running it once more does no harm."""
        return self.fields.get("side_effect") in ("none", "idempotent")

    @property
    def attempt(self) -> str:
        """Return what consent to run it once more names: this attempt, and no later one."""
        return f"{self.call_id}:{self.fields.get('seq')}"


class NotKept(NamedTuple):
    """A result that cannot be given back; `needed` where the program is sure to ask for it."""

    seq: int
    what: str
    reason: str
    needed: bool


class History:
    """What a record has of a run, by place. `get` reads an object by its digest.

    With `whole` it holds what is in steps that have ended too: whoever runs those again asks for it.
    """

    def __init__(self, lines: Sequence[Fields], get: Callable[[str], bytes], *, whole: bool = False) -> None:
        self._lines = lines
        self._get = get
        self._whole = whole
        # Steps that ended, by the place of the line that says so.
        self._completed: dict[Place, int] = {}
        self._failed: dict[Place, int] = {}
        self.begun: dict[Place, Recorded] = {}
        # The highest number a step of each name has.
        self.ordinals: dict[str, int] = {}
        self.calls: dict[str, Recorded] = {}
        # The hashes of the idempotency keys of all calls.
        self.keys: set[int] = set()
        self._requests: dict[str, Recorded] = {}
        # What was asked for, by the place of its line; and which of it in a step that has not ended.
        self._asked: dict[int, Recorded] = {}
        self._inside: dict[Place, list[int]] = {}
        self._keys: dict[Key, Key] = {}
        # Steps and tool calls that have begun and not ended, where the order of the program tells what is in them.
        self._running: list[Place] = []
        self._calling: dict[Place, list[str]] = {}
        # An older writer did not mark what ran beside other work.
        self._unmarked = True
        for at, fields in enumerate(lines):
            self._take(at, fields)
        self._in_order: dict[Key, list[Recorded]] = {}
        self._alike: dict[tuple[object, ...], list[Recorded]] | None = None
        self._due: deque[Recorded] = deque()
        for entry in self._asked.values():
            parallel = not self._unmarked and entry.fields.get("beside") is True
            if not parallel:
                self._in_order.setdefault(entry.key, []).append(entry)
            if entry.ordered and entry.key[0] in ("step_started", "stage_transition"):
                self._due.append(entry)

    def _take(self, at: int, fields: Fields) -> None:
        event = str(fields.get("event"))
        place = place_of(fields)
        if event == "step_started" and place in self.begun:
            self.begun[place].answer = None
            self._failed.pop(place, None)
            if self.begun[place].ordered:
                self._running.append(place)
        elif event in ("step_completed", "step_failed"):
            self._end_step(event, place, at, fields)
        elif event == "tool_call" and str(fields.get("call_id")) in self.calls:
            self.calls[str(fields.get("call_id"))].ask_again(at)
        elif event == "tool_result":
            call = self.calls.get(str(fields.get("call_id")))
            if call is not None:
                call.answer = at
                open_calls = self._calling.get(place_of(call.fields), [])
                if call.call_id in open_calls:
                    open_calls.remove(call.call_id)
        elif event == "retrieval_response":
            asked = self._requests.get(str(fields.get("request_id")))
            if asked is not None:
                asked.answer = at
        elif event in ASKS and fields.get("request_id") != "context" and fields.get("manual") is not False:
            self._ask(event, place, at, fields)

    def _end_step(self, event: str, place: Place, at: int, fields: Fields) -> None:
        if place in self._running:
            self._running.remove(place)
        if place in self.begun:
            self.begun[place].answer = at
        # An interrupt, or what its writer calls retryable, is a step that has not ended.
        if event == "step_completed":
            self._completed[place] = at
        elif not fields.get("retryable") and fields.get("error_code") not in _INTERRUPTS:
            self._failed[place] = at
        if not self._whole and self.is_ended(place):
            # What it gave stands for what is in it.
            for inner in self._inside.pop(place, ()):
                entry = self._asked.pop(inner, None)
                if entry is not None and entry.key[0] == "tool_call":
                    self.calls.pop(entry.call_id, None)

    def _ask(self, event: str, place: Place, at: int, fields: Fields) -> None:
        step, parallel = place, fields.get("beside") is True
        self._unmarked = self._unmarked and not fields.get("beside")
        if event not in OF_THE_RUN:
            ordered = not parallel and (place not in self.begun or self.begun[place].ordered)
        else:
            ordered = not parallel
            name, _, ordinal = str(fields.get("within", "")).rpartition(" ")
            step = (name, int(ordinal)) if parallel and ordinal.isdecimal() else TOP
            step = self._running[-1] if ordered and self._running else step
        open_calls = self._calling.setdefault(step, [])
        caller = open_calls[-1] if open_calls and not parallel else ""
        if event == "tool_call" and not parallel:
            open_calls.append(str(fields.get("call_id")))
        key = (event, step, caller, str(fields.get(ASKS[event], "")))
        entry = Recorded(self._lines, at, self._keys.setdefault(key, key), ordered)
        self._asked[at] = entry
        if not self._whole and event != "step_started" and step != TOP:
            self._inside.setdefault(step, []).append(at)
        if event == "step_started":
            self.begun[place] = entry
            self.ordinals[place[0]] = max(place[1], self.ordinals.get(place[0], 0))
            if ordered:
                self._running.append(place)
        elif event == "tool_call":
            self.calls[entry.call_id] = entry
            self.keys.add(hash(str(fields.get("idempotency_key"))))
        elif event == "retrieval_request":
            self._requests[str(fields.get("request_id"))] = entry

    def take(self, key: Key, body: Fields, number: int | None) -> Recorded | None:
        """Return what the record has of this, and take it: the `number`th of its kind at its place.

        Without a number, of what ran beside other work, the first that was asked for in the same way.
        """
        in_order = self._in_order.get(key, ()) if number is not None else ()
        recorded = in_order[number - 1] if number is not None and number <= len(in_order) else None
        if recorded is None:
            alike = self._list_alike().get(_shape(key, body), ())
            equal = (entry for entry in alike if not entry.taken and (number is None or entry.fields.get("beside")))
            recorded = next(equal, None)
        if recorded is not None:
            recorded.taken = True
        return recorded

    def _list_alike(self) -> Mapping[tuple[object, ...], Sequence[Recorded]]:
        """Return what ran beside other work by how it was asked for, collected when it is first needed."""
        if self._alike is None:
            self._alike = {}
            for entry in self._asked.values():
                if self._unmarked or entry.fields.get("beside") is True:
                    self._alike.setdefault(_shape(entry.key, entry.fields), []).append(entry)
        return self._alike

    @property
    def due(self) -> Recorded | None:
        """Return the first step or stage that a program which goes on has yet to come to."""
        while self._due and (self._due[0].taken or self._is_given_back(self._due[0])):
            self._due.popleft()
        return self._due[0] if self._due else None

    @property
    def unasked(self) -> Recorded | None:
        """Return what a program that has ended did not come to, though the record has it."""
        rest = (entry for place, entry in self.begun.items() if self.is_ended(place) and not entry.taken)
        return self.due or next((entry for entry in rest if not self._is_given_back(entry)), None)

    def is_ended(self, place: Place) -> bool:
        """Return whether a step has completed or failed for good."""
        return place in self._completed or place in self._failed

    def completed(self, place: Place) -> Fields | None:
        """Return the line that says what a step gave; None where it has not completed."""
        at = self._completed.get(place)
        return None if at is None else self._lines[at]

    def failed(self, place: Place) -> Fields | None:
        """Return the line that says what a step failed with; None where it has not failed for good."""
        at = self._failed.get(place)
        return None if at is None else self._lines[at]

    def _is_given_back(self, entry: Recorded) -> bool:
        """Return whether a step or call that has its result stands for this, so that nobody asks for it."""
        _, step, caller, _ = entry.key
        if self.is_ended(step) or (caller in self.calls and self.calls[caller].result is not None):
            return True
        return step in self.begun and step != TOP and self._is_given_back(self.begun[step])

    @property
    def in_doubt(self) -> tuple[Recorded, ...]:
        """Calls that began and have no result: nobody can tell from here whether they took effect."""
        return tuple(
            item for item in self.calls.values() if item.result is None and place_of(item.fields) not in self._completed
        )

    @property
    def first_incomplete(self) -> Place | None:
        """Return the first step that began and has no end."""
        return next((place for place in self.begun if not self.is_ended(place)), None)

    def list_not_kept(self) -> Iterator[NotKept]:
        """Yield the results that a program which goes on may ask for and that cannot be given back."""
        for entry in self._asked.values():
            event = entry.key[0]
            if event not in ("step_started", "model_call", "tool_call") or self._is_given_back(entry):
                continue
            line, name = entry.result, "output"
            if event == "step_started":
                line = self.completed(place_of(entry.fields))
            elif event == "model_call":
                line, name = entry.fields, "response"
            if line is None:
                continue
            try:
                self.value(line, name)
            except StoredDataError as error:
                seq = line.get("seq")
                yield NotKept(seq if type(seq) is int else -1, str(line["event"]), error.message, event != "tool_call")

    @property
    def retrievals(self) -> int:
        """Return how many searches the program has made."""
        return len(self._requests)

    def value(self, fields: Fields, name: str) -> object:
        """Return the value a line holds under a captured name, exactly. Raises StoredDataError RESULT_NOT_KEPT."""
        where = f"{fields.get('event')} at seq {fields.get('seq')}"
        if fields.get("redactions"):
            raise _not_kept(where, name, "a secret in it was masked")
        text, why = held_text(fields, name, self._get)
        if text is None:
            raise _not_kept(where, name, why)
        try:
            return parse_foreign(text)
        except ForeignError as error:
            raise _not_kept(where, name, str(error)) from error


def held_text(fields: Fields, name: str, get: Callable[[str], bytes]) -> tuple[str | None, str]:
    """Return the whole text a line holds under a captured name, or None and why it is not whole."""
    captured, recorded = fields.get(name), fields.get(f"{name}_hash")
    if isinstance(captured, str):
        return captured, ""
    if not isinstance(captured, Mapping):
        if recorded is not None or f"{name}_size" in fields:
            return None, "captured as hash, so only its digest and size are kept"
        return None, "nothing of it is kept"
    if captured.get("truncated"):
        return None, f"of {say(captured.get('size'))} bytes {say(captured.get('kept'))} are kept"
    if isinstance(captured.get("object"), str):
        try:
            return get(str(captured["object"])).decode("utf-8"), ""
        except (InvocationError, UnicodeDecodeError) as error:
            return None, str(error)
    head = captured.get("head")
    if isinstance(head, str) and "object" not in captured and "tail" not in captured:
        # A summary that holds everything: of a text the text itself, of other JSON its canonical form.
        for whole in (head, foreign_text(head, NO_RULES).text):
            if hashlib.sha256(whole.encode("utf-8")).hexdigest() == recorded:
                return whole, ""
    return None, f"captured as summary, so a part of its {say(captured.get('size'))} bytes is kept"


def _shape(key: Key, fields: Fields) -> tuple[object, ...]:
    return (key[0], key[1], key[3], *(say(fields.get(name)) for name in (*AGREED, "digest_key")))


def place_of(fields: Fields) -> Place:
    step, ordinal = fields.get("step"), fields.get("ordinal")
    return TOP if step is None else (str(step), ordinal if type(ordinal) is int else 1)


def _not_kept(where: str, name: str, why: str) -> StoredDataError:
    return StoredDataError(
        "RESULT_NOT_KEPT",
        f"the {name} of {where} cannot be given back as it was: {why}",
        'capture this side in full from the start: audit.capture_tool_io: full, or capture={"tool": "full"}',
    )


def divergence(where: str, expected: object, found: object, *, appended: bool) -> StoredDataError:
    """Return a program that does not do again what the record says it did."""
    after = "what it had done until then is on the record" if appended else "nothing was appended"
    return StoredDataError(
        "STATE_DIVERGENCE",
        f"{where}: the record has {expected}, the program now gives {found}; {after}",
        "resume with the program that began the run, or begin another invocation",
    )


def recorded_error(code: str, message: str) -> Exception:
    """Return the error a step or tool ended in, as the built-in exception of its name, else as a RecordedError."""

    kind = getattr(builtins, code, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass  # this one is not made of a message alone
    return RecordedError(f"{code}: {message}")


class RecordedError(Exception):
    """An error a step or tool ended in when it ran; its text is the recorded one."""


def in_doubt_error(call: Recorded, invocation_id: str) -> CallerError:
    """Return the refusal to run again what may have taken effect already."""
    return CallerError(
        "IN_DOUBT",
        f"call {call.call_id} of {call.fields.get('tool')} began and has no result: it may have taken effect, and "
        "running it again may do so twice",
        f"if it did not: spec-kitty resume {invocation_id} --rerun {call.attempt}; if it did, record its tool_result",
    )


def determinism_violation(what: str, body: Fields) -> StoredDataError:
    """Return a re-execution that did not do what its original did."""
    step = body.get("step")
    place = "outside any step" if step is None else f"in step {step} ({body.get('ordinal')})"
    return StoredDataError(
        "DETERMINISM_VIOLATION",
        f"the re-execution differs {place}, at its {body.get('event')}: {what}",
        "spec-kitty invocations compare shows the two runs; look for a clock, a random choice or an input that changed",
    )


def side_effects_not_allowed(calls: str, *, live: bool = True) -> CallerError:
    """Return the refusal to let a re-execution touch the outside world."""
    what = "would make them again" if live else "gives back what they came to, but cannot see what stands around them"
    return CallerError(
        "SIDE_EFFECTS_NOT_ALLOWED",
        f"calls with side effects outside the project that are not idempotent: {calls}; a re-execution {what}",
        "give --allow-external if that is meant",
    )


def changed_members(recorded: Mapping[str, object], now: Mapping[str, object]) -> Sequence[str]:
    """Return the members of an execution that differ.

    One that is None on either side was not stated and is not compared.
    """
    return [
        name
        for name in recorded
        if now.get(name) is not None and recorded[name] is not None and now[name] != recorded[name]
    ]


class Watch:
    """The events of a run that its re-execution has to come to again.

    What the order of the program places comes in that order; what ran beside other work comes at its place, whenever.
    """

    def __init__(self, lines: Sequence[Fields]) -> None:
        self._lines = lines
        self._places: set[Place] = set()
        # The places of their lines, and which of them are made by a call; those before `_next` have come.
        self._in_order, self._called = array("I"), bytearray()
        self._next = 0
        self._beside: dict[Signature, list[int]] = {}
        self.left = 0
        # What a tool called whose result was given back instead.
        self.passed_over: set[object] = set()
        calling: dict[Place, list[object]] = {}
        for at, fields in enumerate(lines):
            signed, place = signature(fields), place_of(fields)
            calls = calling.setdefault(place, [])
            if fields.get("call_id") in calls:
                calls.remove(fields["call_id"])
            if signed is not None:
                self.left += 1
                if self._is_beside(fields):
                    self._beside.setdefault(signed, []).append(at)
                else:
                    self._in_order.append(at)
                    self._called.append(bool(calls))
            if fields.get("event") == "tool_call" and not fields.get("beside"):
                calls.append(fields.get("call_id"))
            if not calls:
                del calling[place]

    def _is_beside(self, fields: Fields) -> bool:
        place = place_of(fields)
        if fields.get("event") == "step_started" and fields.get("beside"):
            self._places.add(place)
        return fields.get("beside") is True or place in self._places

    def check(self, body: Fields) -> StoredDataError | None:
        """Take the event this one is again; the violation where there is none."""
        actual = signature(body)
        if actual is None:
            return None
        self.left -= 1
        if self._is_beside(body):
            alike = self._beside.get(actual)
            if alike:
                alike.pop()
                return None
            # An older writer did not mark what ran beside other work.
            at = next((at for at in range(self._next, len(self._in_order)) if self._sign(at) == actual), None)
            if at is not None:
                del self._in_order[at], self._called[at]
                return None
            near = next((item for item in self._iter_rest() if _is_near(item, body)), None)
            what = "the run had none like it" if near is None else difference(signature(near) or (), actual)
            return determinism_violation(what, body)
        while self._is_called_next() and self._sign(self._next) != actual:
            self._pass_over()
        if self._next == len(self._in_order):
            return determinism_violation(f"the run had ended there, and now comes {body['event']}", body)
        expected = self._sign(self._next)
        self._next += 1
        return None if expected == actual else determinism_violation(difference(expected or (), actual), body)

    def _sign(self, at: int) -> Signature | None:
        return signature(self._lines[self._in_order[at]])

    def _is_called_next(self) -> bool:
        return self._next < len(self._in_order) and bool(self._called[self._next])

    def _pass_over(self) -> None:
        self.passed_over.add(self._lines[self._in_order[self._next]].get("seq"))
        self._next += 1
        self.left -= 1

    def finish(self) -> StoredDataError | None:
        """Return the violation of a program that has ended before it came to everything."""
        while self._is_called_next():
            self._pass_over()
        if self.left <= 0:
            return None
        return determinism_violation(f"it ended, and its original had {self.left} more events", next(self._iter_rest()))

    def _iter_rest(self) -> Iterator[Fields]:
        parallel = (at for places in self._beside.values() for at in places)
        return (self._lines[at] for at in (*self._in_order[self._next :], *parallel))


def _is_near(one: Fields, two: Fields) -> bool:
    return all(one.get(name) == two.get(name) for name in ("event", "step", "ordinal", "tool", "model", "gate"))


Signature = tuple[tuple[str, object], ...]
# What two runs of one program must agree on, event by event; ids, times and states are not among it.
_SIGNATURE = (
    "event",
    "to",
    "step",
    "ordinal",
    "step_type",
    "decision",
    "tool",
    "side_effect",
    "status",
    "gate",
    "rule_ref",
    "rule_digest",
    "outcome",
    "reason_code",
    "blocking",
    "model",
    "ok",
    "path",
    "kind",
    "error_code",
    "input_hash",
    "output_hash",
    "args_hash",
    "prompt_hash",
    "response_hash",
    "result_hash",
    "query_hash",
    "before_hash",
    "after_hash",
)


# What means the same: a result that was given back, and a name of an older writer.
_RENAMED: Mapping[str, object] = {"replayed": "ok", "LimitExceeded": "LIMIT_EXCEEDED"}


def signature(fields: Fields) -> Signature | None:
    """Return what an event must come to again; None for one that may differ."""
    event = EVENTS.get(str(fields.get("event")))
    if event is None or not event.compared or fields.get("request_id") == "context":
        return None
    return tuple(
        (name, _RENAMED.get(str(fields[name]), fields[name])) for name in _SIGNATURE if fields.get(name) is not None
    )


def difference(expected: Sequence[tuple[str, object]], found: Sequence[tuple[str, object]]) -> str:
    """Return the first member in which two signatures differ, in words."""
    one, two = dict(expected), dict(found)
    name = next(name for name in _SIGNATURE if one.get(name) != two.get(name))
    return f"{name}: expected {one.get(name)}, found {two.get(name)}"
