"""What is wrong with one CloudEvent by docs/sync-contract.md, every fault with its place. Pure.

The Event and the Started payload are judged by the public package `spec-kitty-events`, everything else by the
table of `contract`: a member the table does not let out in that phase at that level is a fault. Loads the
package and pydantic; nothing on the local path imports this.
"""

import datetime
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pydantic import ValidationError
from spec_kitty_events.conformance import validate_event
from spec_kitty_events.models import Event

from specify_cli.sync import contract
from specify_cli.sync.contract import COMPLETED, EXTENSION, FIELDS, LEVELS, PHASES, STARTED

MAX_DEPTH = 16
MAX_VALUES = 1000  # an envelope has some fifty
_MAX_INTEGER = 2**53 - 1
_SOURCE = "/spec-kitty/projects/"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ATTRIBUTES = tuple(dict.fromkeys(field.path.partition(".")[0] for field in FIELDS))
_ENVELOPE = (*dict.fromkeys(p[1] for field in FIELDS if (p := field.path.split("."))[0] == "data"),)


class Fault(NamedTuple):
    """One thing that is wrong: where, as an RFC 6901 pointer into the CloudEvent, and what was expected."""

    pointer: str
    detail: str


class _Form(NamedTuple):
    """What a member of the extension must look like."""

    expected: str
    holds: Callable[[object], bool]


def _match_hex(digits: int) -> _Form:
    form = re.compile(rf"[0-9a-f]{{{digits}}}")
    return _Form(f"{digits} lowercase hex digits", lambda value: isinstance(value, str) and bool(form.fullmatch(value)))


def _match_one_of(*values: str) -> _Form:
    return _Form(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


_TEXT = _Form("a string", lambda value: isinstance(value, str))
_FORMS: Mapping[str, _Form] = {
    "v": _Form(
        f"{contract.EXTENSION_VERSION}, the version this receiver knows",
        lambda value: type(value) is int and value == contract.EXTENSION_VERSION,
    ),
    "phase": _match_one_of(*PHASES),
    "level": _match_one_of(*LEVELS),
    "seal": _match_hex(64),
    "origin": _match_one_of("merged"),
    "outcome": _match_one_of("done", "failed", "abandoned"),
    "closed_by": _match_one_of("agent", "person", "hook", "doctor"),
    "evidence_ref": _match_hex(64),
    "governance_context_hash": _match_hex(64),
    "governance_context_available": _Form("true or false", lambda value: isinstance(value, bool)),
    "verb": _match_one_of("advise", "ask", "do"),
    "mode_of_work": _match_one_of("advisory", "task_execution"),
    "router_confidence": _match_one_of("exact", "canonical_verb", "domain_keyword"),
    "trace_id": _match_hex(32),
    "parent_invocation_id": _Form("a ULID", lambda value: isinstance(value, str) and bool(_ULID.fullmatch(value))),
    "match_reason": _TEXT,
    "request_text": _TEXT,
}


class _Faults:
    """Faults in the order they were found, the first for each place."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, path: Iterable[str | int], detail: str) -> None:
        self.found.setdefault(pointer(path), detail)

    def want(self, holds: bool, path: Iterable[str | int], detail: str) -> bool:
        if not holds:
            self.add(path, detail)
        return holds

    def members(self, node: Mapping[str, object], wanted: Iterable[str], *path: str) -> None:
        """Every member that is missing or unknown."""
        names = tuple(wanted)
        for name in names:
            self.want(name in node, (*path, name), "is missing")
        for name in node:
            self.want(name in names, (*path, name), "is not a member the contract knows here")


def faults(event: object) -> list[Fault]:
    """Return everything wrong with one CloudEvent; empty if it is as the contract says.

    Never raises on a JSON value.
    """
    unfit = _find_unfit(event)
    if unfit is not None:
        return [unfit]
    if not isinstance(event, dict):
        return [Fault("", f"expected a JSON object, found {_describe_kind(event)}")]
    seen = _Faults()
    seen.members(event, _ATTRIBUTES)
    phase = next((phase for phase in PHASES if event.get("type") == contract.TYPES[phase]), None)
    if "type" in event:
        seen.want(phase is not None, ("type",), f"expected {contract.TYPES[STARTED]} or {contract.TYPES[COMPLETED]}")
    for name, expected in (("specversion", "1.0"), ("datacontenttype", "application/json")):
        if name in event:
            seen.want(event[name] == expected, (name,), f"expected {expected!r}")
    level = _check_extension(event, phase, seen)
    project = _project(event.get("source"))
    if "source" in event:
        seen.want(project is not None, ("source",), f"expected {_SOURCE} and a lowercase UUID")
    subject = event.get("subject")
    invocation_id = subject if isinstance(subject, str) and _ULID.fullmatch(subject) else None
    if "subject" in event:
        seen.want(invocation_id is not None, ("subject",), "expected the invocation id, a ULID")
    if "time" in event:
        _check_time(event["time"], ("time",), seen)
    ids: dict[str, str] = {}
    if project is not None and invocation_id is not None:
        ids = {phase: contract.event_id(project, invocation_id, phase) for phase in PHASES}
    if phase is not None and ids and "id" in event:
        seen.want(event["id"] == ids[phase], ("id",), f"expected UUIDv5(project uuid, <subject>/{phase})")
    elif "id" in event:
        seen.want(_is_uuid(event["id"]), ("id",), "expected a lowercase UUID")
    data = event.get("data")
    if isinstance(data, dict):
        _check_data(data, event, phase, level, project, invocation_id, ids, seen)
        _check_payload(data.get("payload"), phase, level, seen)
    elif "data" in event:
        seen.add(("data",), f"expected a JSON object, found {_describe_kind(data)}")
    return [Fault(*item) for item in seen.found.items()]


def _check_data(
    data: Mapping[str, object],
    event: Mapping[str, object],
    phase: str | None,
    level: str | None,
    project: str | None,
    invocation_id: str | None,
    ids: Mapping[str, str],
    seen: _Faults,
) -> None:
    """The Event: the members the package lists, each in agreement with the attribute it repeats."""
    seen.members(data, _ENVELOPE, "data")

    def equal(name: str, expected: object, what: str) -> None:
        if name in data:
            node = data[name]
            seen.want(type(node) is type(expected) and node == expected, ("data", name), f"expected {what}")

    equal("event_id", event.get("id"), "the CloudEvent's id")
    if phase is not None and ids:
        equal("event_id", ids[phase], f"UUIDv5(project uuid, <subject>/{phase})")
    if phase is not None:
        equal("event_type", contract.EVENT_TYPES[phase], contract.EVENT_TYPES[phase])
    elif "event_type" in data:
        known = tuple(contract.EVENT_TYPES.values())
        seen.want(data["event_type"] in known, ("data", "event_type"), f"expected {' or '.join(known)}")
    for name in ("aggregate_id", "correlation_id", "node_id"):
        if invocation_id is not None:
            equal(name, invocation_id, "the subject, which is the invocation id")
    if phase == STARTED:
        equal("causation_id", None, "null: a Started has no cause")
    elif phase == COMPLETED and ids:
        equal("causation_id", ids[STARTED], "the event_id of the Started")
    if "timestamp" in data and _check_time(data["timestamp"], ("data", "timestamp"), seen):
        equal("timestamp", event.get("time"), "the CloudEvent's time")
    for name in ("project_uuid", "build_id"):
        if project is not None:
            equal(name, project, "the project's uuid, as in source")
    equal("project_slug", None, "null")
    equal("schema_version", contract.SCHEMA_VERSION, contract.SCHEMA_VERSION)
    if level is not None:
        equal("data_tier", LEVELS.index(level) + 1, f"{LEVELS.index(level) + 1}, which is level {level}")
    clock = data.get("lamport_clock")
    if "lamport_clock" in data:
        holds = type(clock) is int and 0 <= clock <= _MAX_INTEGER
        seen.want(holds, ("data", "lamport_clock"), "expected the seq of the line, an integer from 0 to 2^53-1")
    try:
        Event.model_validate(data)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            seen.add(("data", *item["loc"]), item["msg"])


def _check_payload(payload: object, phase: str | None, level: str | None, seen: _Faults) -> None:
    """Started: by the package, then by the table. Completed: nothing, for the package reserves the name."""
    if not isinstance(payload, dict):
        return  # the Event has said so
    if phase == COMPLETED:
        for name in payload:
            seen.add(
                ("data", "payload", name),
                "the contract reserves ProfileInvocationCompleted and gives it no payload; expected an empty object",
            )
    if phase != STARTED:
        return
    # The validator takes {"event_type", "payload"} for an envelope and would judge what is inside.
    for name in sorted({"event_type", "payload"} & payload.keys()):
        seen.add(("data", "payload", name), "is not a member the contract knows here")
    if not {"event_type", "payload"} <= payload.keys():
        judged = validate_event(payload, contract.EVENT_TYPES[STARTED])
        for violation in judged.model_violations:
            seen.add(("data", "payload", *violation.field.split(".")), violation.message)
        if not judged.model_violations:
            for item in judged.schema_violations:
                seen.add(("data", "payload", *item.json_path.lstrip("$.").split(".")), "is not as the schema says")
    # What the table does not name is the package's to judge; what it names leaves at its levels only.
    withheld = _list_allowed("data.payload", STARTED, None) - _list_allowed("data.payload", STARTED, level)
    for path, _ in _iter_leaves(payload, ()):
        if ".".join(path) in withheld:
            seen.add(("data", "payload", *path), f"is not sent at level {level}")


def _check_extension(event: Mapping[str, object], phase: str | None, seen: _Faults) -> str | None:
    """Judge the extension and give its level, if it has one that is known."""
    text = event.get(EXTENSION)
    if EXTENSION not in event:
        return None
    if not isinstance(text, str):
        seen.add((EXTENSION,), f"expected a canonical JSON object as a string, found {_describe_kind(text)}")
        return None
    try:
        node = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        seen.add((EXTENSION,), "the string is not JSON")
        return None
    unfit = _find_unfit(node)
    if unfit is not None or not isinstance(node, dict) or contract.canonical(node) != text:
        seen.add((EXTENSION,), "expected one canonical JSON object (RFC 8785)")
        return None
    level = node.get("level")
    known = level if isinstance(level, str) and level in LEVELS else None
    allowed = _list_allowed(EXTENSION, phase, known)
    required = ("v", "phase", "level", "seal", *(("outcome",) if phase == COMPLETED else ()))
    # A pointer ends at the attribute: what is inside its string is named in words.
    wrong = [f"{name} is missing" for name in required if name not in node]
    for name, value in node.items():
        if name not in _FORMS:
            wrong.append(f"{name} is not a member the contract knows")
        elif name not in allowed:
            wrong.append(f"{name} is not sent on {phase or 'this type'} at level {known or 'given'}")
        elif not _FORMS[name].holds(value):
            wrong.append(f"{name}: expected {_FORMS[name].expected}")
        elif name == "phase" and phase is not None and value != phase:
            wrong.append(f"phase: expected {phase}, as type says")
    if wrong:
        seen.add((EXTENSION,), "; ".join(wrong))
    return known


def _list_allowed(prefix: str, phase: str | None, level: str | None) -> set[str]:
    """Return the paths below a prefix that may leave in a phase at a level; of what is unknown, all."""
    return {
        field.path.removeprefix(f"{prefix}.")
        for field in FIELDS
        if field.path.startswith(f"{prefix}.")
        and (phase is None or phase in field.phases)
        and (level is None or level in field.levels)
    }


def _iter_leaves(value: Mapping[str, object], path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], object]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _iter_leaves(inner, (*path, name))
        else:
            yield (*path, name), inner


def pointer(path: Iterable[str | int]) -> str:
    """Return an RFC 6901 pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _find_unfit(value: object) -> Fault | None:
    """Return what keeps a value from being looked at: too large, too deep, no Unicode, a number that is not ours."""
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    counted = 1
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, dict | list):
            counted += len(node)
            if counted > MAX_VALUES:
                return Fault("", f"holds more than {MAX_VALUES} values")
        if len(path) > MAX_DEPTH:
            return Fault(pointer(path), f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, str) and not _is_unicode(node):
            return Fault(pointer(path), "holds a lone surrogate, which is no Unicode text")
        if isinstance(node, float) and not -1e308 < node < 1e308:
            return Fault(pointer(path), "is not a number JSON has")
        if isinstance(node, int) and abs(node) > _MAX_INTEGER:
            return Fault(pointer(path), "is an integer beyond 2^53-1")
        if isinstance(node, dict):
            for name in node:
                if not _is_unicode(name):
                    return Fault(pointer(path), "holds a member whose name is no Unicode text")
            waiting.extend((inner, (*path, name)) for name, inner in node.items())
        elif isinstance(node, list):
            waiting.extend((inner, (*path, at)) for at, inner in enumerate(node))
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_time(value: object, path: tuple[str, ...], seen: _Faults) -> bool:
    holds = isinstance(value, str) and _TIME.fullmatch(value) is not None
    if holds:
        try:
            datetime.datetime.fromisoformat(str(value))
        except ValueError:
            holds = False
    return seen.want(holds, path, "expected RFC 3339 in UTC, as 2026-11-21T09:00:00.000Z")


def _project(source: object) -> str | None:
    if not isinstance(source, str) or not source.startswith(_SOURCE):
        return None
    found = source.removeprefix(_SOURCE)
    return found if _is_uuid(found) else None


def _is_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return str(uuid.UUID(value)) == value
    except ValueError:
        return False


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _describe_kind(value: object) -> str:
    if value is None:
        return "null"
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}.get(type(value), "a number")
