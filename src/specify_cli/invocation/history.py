"""What a record says a run has already done, by the place in the program where it did it (docs/replay.md).

A place is a step with its ordinal and the how-manieth call of its kind there, so a tool polled three times has
three places. Guarantees: a value is given back only as it was, byte for byte; what was cut, masked or not kept
is refused by name. Running and writing are the runtime's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.record.event_table import EVENTS
from specify_cli.redaction.json_values import ForeignError, foreign_text, parse_foreign
from specify_cli.redaction.redact import NO_RULES

Fields = Mapping[str, object]
Place = tuple[str, int]
TOP: Place = ("", 0)
_INTERRUPTS = {"KeyboardInterrupt", "SystemExit", "GeneratorExit", "LimitExceeded"}


class RecordedCall(NamedTuple):
    """A tool call and, if it came, its result."""

    call: Fields
    result: Fields | None

    @property
    def call_id(self) -> str:
        return str(self.call.get("call_id"))

    @property
    def safe_again(self) -> bool:
        """Return whether running it once more does no harm."""
        return self.call.get("side_effect") in ("none", "idempotent")


class History:
    """The run events of a record by place. `get` reads an object by its digest."""

    def __init__(self, lines: Iterable[Fields], get: Callable[[str], bytes]) -> None:
        self._get = get
        self.completed: dict[Place, Fields] = {}
        self.failed: dict[Place, Fields] = {}
        self.begun: dict[Place, Fields] = {}
        self.calls: dict[str, RecordedCall] = {}
        self.gates: dict[tuple[Place, str], list[Fields]] = {}
        self.models: dict[tuple[Place, str], list[Fields]] = {}
        self.retrievals: dict[str, tuple[Fields, Fields | None]] = {}
        self.stages: list[str] = []
        self.labels: set[str] = set()
        self.plain: dict[tuple[str, Place], list[Fields]] = {}
        # What an enclosing step's result stands for is not asked for again once that step has completed.
        self._around: dict[Place, frozenset[Place]] = {}
        self._staged: list[tuple[str, frozenset[Place]]] = []
        keys: dict[str, str] = {}
        running: dict[Place, None] = {}
        for fields in lines:
            self._take(fields, keys, running)
        self.stages = [name for name, around in self._staged if not around & self.completed.keys()]

    def _take(self, fields: Fields, keys: dict[str, str], running: dict[Place, None]) -> None:
        event = str(fields.get("event"))
        place = _place(fields)
        if event == "step_started":
            self._around[place] = frozenset(running)
            running[place] = None
            self.begun[place] = fields
            self.failed.pop(place, None)
        elif event == "step_completed":
            running.pop(place, None)
            self.completed[place] = fields
        elif event == "step_failed":
            running.pop(place, None)
            # An interrupt, or what its writer calls retryable, is a step that has not ended.
            if not fields.get("retryable") and fields.get("error_code") not in _INTERRUPTS:
                self.failed[place] = fields
        elif event == "tool_call":
            key = str(fields.get("idempotency_key"))
            keys[str(fields.get("call_id"))] = key
            self.calls[key] = RecordedCall(fields, None)
        elif event == "tool_result":
            key = keys.get(str(fields.get("call_id")), "")
            if key in self.calls:
                self.calls[key] = self.calls[key]._replace(result=fields)
        elif event == "gate_decision":
            self.gates.setdefault((place, str(fields.get("gate"))), []).append(fields)
        elif event == "model_call":
            self.models.setdefault((place, str(fields.get("model"))), []).append(fields)
        elif event == "retrieval_request":
            self.retrievals[str(fields.get("request_id"))] = (fields, None)
        elif event == "retrieval_response":
            request = self.retrievals.get(str(fields.get("request_id")))
            if request is not None:
                self.retrievals[str(fields.get("request_id"))] = (request[0], fields)
        elif event == "stage_transition":
            self._staged.append((str(fields.get("to")), frozenset(running)))
        elif event == "checkpoint" and fields.get("label") is not None:
            self.labels.add(str(fields.get("label")))
        elif event in ("error", "patch_apply", "artifact_link"):
            self.plain.setdefault((event, place), []).append(fields)

    @property
    def in_doubt(self) -> tuple[RecordedCall, ...]:
        """Calls that began and have no result: nobody can tell from here whether they took effect."""
        return tuple(
            item for item in self.calls.values() if item.result is None and _place(item.call) not in self.completed
        )

    @property
    def first_incomplete(self) -> Place | None:
        """Return the first step that began and has no end."""
        return next((place for place in self.begun if place not in self.completed and place not in self.failed), None)

    @property
    def required(self) -> frozenset[Place]:
        """Return the steps that ended and that a program which goes on has to come to again."""
        ended = self.completed.keys() | self.failed.keys()
        return frozenset(place for place in ended if not self._around.get(place, frozenset()) & self.completed.keys())

    def value(self, fields: Fields, name: str) -> object:
        """Return the value a line holds under a captured name, exactly. Raises StoredDataError RESULT_NOT_KEPT."""
        where = f"{fields.get('event')} at seq {fields.get('seq')}"
        if fields.get("redactions"):
            raise _not_kept(where, name, "a secret in it was masked")
        text = self._read_text(fields, name, where)
        try:
            return parse_foreign(text)
        except ForeignError as error:
            raise _not_kept(where, name, str(error)) from error

    def _read_text(self, fields: Fields, name: str, where: str) -> str:
        kept, digest = fields.get(name), fields.get(f"{name}_hash")
        if isinstance(kept, str):
            return kept
        if isinstance(kept, Mapping):
            if isinstance(kept.get("object"), str) and not kept.get("truncated"):
                try:
                    return self._get(str(kept["object"])).decode("utf-8")
                except InvocationError as error:
                    raise _not_kept(where, name, error.message) from error
            head = kept.get("head")
            if isinstance(head, str) and "object" not in kept and not kept.get("tail"):
                # A summary that holds everything: of a text the text itself, of other JSON its canonical form.
                for whole in (head, foreign_text(head, NO_RULES).text):
                    if hashlib.sha256(whole.encode("utf-8")).hexdigest() == digest:
                        return whole
        raise _not_kept(where, name, "the capture mode of its side kept a part or nothing of it")


def _place(fields: Fields) -> Place:
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
    import builtins

    kind = getattr(builtins, code, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass  # this one is not made of a message alone
    return RecordedError(f"{code}: {message}")


class RecordedError(Exception):
    """An error a step or tool ended in when it ran; its text is the recorded one."""


def in_doubt_error(call: RecordedCall, invocation_id: str) -> CallerError:
    """Return the refusal to run again what may have taken effect already."""
    return CallerError(
        "IN_DOUBT",
        f"call {call.call_id} of {call.call.get('tool')} began and has no result: it may have taken effect, and "
        "running it again may do so twice",
        f"if it did not: spec-kitty resume {invocation_id} --rerun {call.call_id}; if it did, record its tool_result",
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


def side_effects_not_allowed(tool: str) -> CallerError:
    """Return the refusal to let a re-execution touch the outside world."""
    return CallerError(
        "SIDE_EFFECTS_NOT_ALLOWED",
        f"{tool} has side effects outside the project and is not idempotent; a re-execution would cause them again",
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


def signature(fields: Fields) -> tuple[tuple[str, object], ...] | None:
    """Return what an event must come to again; None for one that may differ."""
    event = EVENTS.get(str(fields.get("event")))
    if event is None or not event.compared or fields.get("request_id") == "context":
        return None
    return tuple((name, fields[name]) for name in _SIGNATURE if fields.get(name) is not None)


def difference(expected: Sequence[tuple[str, object]], found: Sequence[tuple[str, object]]) -> str:
    """Return the first member in which two signatures differ, in words."""
    one, two = dict(expected), dict(found)
    name = next(name for name in _SIGNATURE if one.get(name) != two.get(name))
    return f"{name}: expected {one.get(name)}, found {two.get(name)}"
