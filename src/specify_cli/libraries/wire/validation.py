"""What is wrong with one CloudEvent by docs/sync-contract.md, every fault with its place. Pure.

The Event and the Started payload are judged by the public package `spec-kitty-events`, everything
else by the table of `contract`: a member the table does not let out in that phase at that level is
a fault. Loads the package and pydantic; nothing on the local path imports this.
"""

import datetime
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from pydantic import ValidationError
from spec_kitty_events.conformance import validate_event
from spec_kitty_events.models import Event

from doctrine.text import name_kind
from specify_cli.libraries.wire import contract
from specify_cli.libraries.wire.contract import (
    COMPLETED,
    EXTENSION,
    FIELDS,
    LEVELS,
    PHASES,
    STARTED,
)

MAX_DEPTH = 16
MAX_VALUES = 1000  # an envelope has some fifty
# The mark of one more value outside strings; the possessive repeat keeps this linear.
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{,]')
_SMALL = 256 * 1024
_MAX_INTEGER = 2**53 - 1
_SOURCE = "/spec-kitty/projects/"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_NOBODY = str(uuid.UUID(int=0))
# What each member holds, in words.
_SOURCES = {field.path: field.source for field in FIELDS}
_Found = tuple[tuple[str | int, ...], str]


class Fault(NamedTuple):
    """One thing that is wrong: where, as an RFC 6901 pointer into the CloudEvent, and what was
    expected."""

    pointer: str
    detail: str


def _is_ulid(value: object) -> bool:
    return isinstance(value, str) and _ULID.fullmatch(value) is not None


class _Form(NamedTuple):
    """What a member of the extension must look like."""

    expected: str
    holds: Callable[[object], bool]


def _match_hex(digits: int) -> _Form:
    form = re.compile(rf"[0-9a-f]{{{digits}}}")
    return _Form(
        f"{digits} lowercase hex digits",
        lambda value: isinstance(value, str) and bool(form.fullmatch(value)),
    )


def _match_one_of(*values: str) -> _Form:
    return _Form(
        f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values
    )


_TEXT = _Form("a string", lambda value: isinstance(value, str))
_FORMS = {
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
    "parent_invocation_id": _Form("a ULID", _is_ulid),
    "mission": _TEXT,
    "work_package": _TEXT,
    "match_reason": _TEXT,
    "request_text": _TEXT,
}


def faults(event: object) -> list[Fault]:
    """Return everything wrong with one CloudEvent; empty if it is as the contract says. Never
    raises on a JSON value.

    What an envelope says is composed again, by the table: a member that comes out otherwise is a
    fault.
    """
    unfit = _find_unfit(event)
    if unfit:
        return [unfit]
    if not isinstance(event, dict):
        return [Fault("", f"expected a JSON object, found {name_kind(event)}")]
    phase = next((phase for phase in PHASES if event.get("type") == contract.TYPES[phase]), None)
    node = _read_extension(event.get(EXTENSION))
    level = next(
        (level for level in LEVELS if node is not None and node.get("level") == level), None
    )
    expected = _compose_again(event, node or {}, phase, level)
    all_faults = [*_compare_members(event, expected, ())]
    for place, holds, form in (
        (("subject",), _is_ulid, "the invocation id, a ULID"),
        (("time",), _is_time, "RFC 3339 in UTC, as 2026-11-21T09:00:00.000Z"),
        (
            ("data", "lamport_clock"),
            lambda value: type(value) is int and 0 <= value <= _MAX_INTEGER,
            "the seq of the line, an integer from 0 to 2^53-1",
        ),
    ):
        value = _get(event, place)
        all_faults += [] if value is None or holds(value) else [(place, f"expected {form}")]
    data = event.get("data")
    if isinstance(data, dict):
        all_faults += _compare_members(data, _get(expected, ("data",)), ("data",))
        all_faults += _judge_event(data)
        all_faults += _judge_payload(data.get("payload"), phase, level)
    elif "data" in event:
        all_faults.append((("data",), f"expected a JSON object, found {name_kind(data)}"))
    if node is not None:
        wrong = "; ".join(
            _judge_extension(node, json.loads(str(expected[EXTENSION])), phase, level)
        )
        all_faults += [((EXTENSION,), wrong)] if wrong else []
    elif EXTENSION in event:
        all_faults.append(
            (
                (EXTENSION,),
                "expected one canonical JSON object (RFC 8785) of at most"
                f" {MAX_VALUES} values, as a string",
            )
        )
    first: dict[str, str] = {}
    for path, detail in all_faults:
        first.setdefault(pointer(path), detail)
    return [Fault(*item) for item in first.items()]


def _compose_again(
    event: Mapping[str, object], node: Mapping[str, object], phase: str | None, level: str | None
) -> dict[str, object]:
    """Return the envelope that the contract makes of what this one says; what it does not say well
    stays as it is."""
    project = str(event.get("source")).removeprefix(_SOURCE)
    line = {
        **node,
        "invocation_id": event.get("subject"),
        "started_at": event.get("time"),
        "completed_at": event.get("time"),
        "seq": _get(event, ("data", "lamport_clock")),
        "~": node.get("seal"),
    }
    closing = line if phase == COMPLETED else None
    composed = contract.compose(
        project if _is_uuid(project) else _NOBODY, level or LEVELS[-1], line, closing
    )
    data = composed["data"]
    assert isinstance(data, dict)
    data["data_tier"] = data["data_tier"] if level else _get(event, ("data", "data_tier"))
    return composed


def _compare_members(
    part: Mapping[str, object], expected: object, path: tuple[str, ...]
) -> Iterator[_Found]:
    """Yield every member that is missing, unknown, or another than what was composed again."""
    assert isinstance(expected, dict)
    for name in part:
        if name not in expected:
            yield (*path, name), "is not a member the contract knows here"
    for name, value in expected.items():
        if name not in part:
            yield (*path, name), "is missing"
        elif ".".join((*path, name)) in _SOURCES and (
            type(part[name]) is not type(value) or part[name] != value
        ):
            yield (*path, name), f"expected {_SOURCES['.'.join((*path, name))]}"


def _judge_event(data: Mapping[str, object]) -> Iterator[_Found]:
    try:
        Event.model_validate(data)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            yield ("data", *item["loc"]), item["msg"]


def _judge_payload(payload: object, phase: str | None, level: str | None) -> Iterator[_Found]:
    """Started: by the package, then by the table. Completed: nothing, for the package reserves the
    name."""
    at = ("data", "payload")
    if not isinstance(payload, dict):
        return  # the Event has said so
    if phase == COMPLETED:
        for name in payload:
            yield (
                (*at, name),
                "the contract reserves ProfileInvocationCompleted and gives it no payload; "
                "expected an empty object",
            )
    if phase != STARTED:
        return
    # The validator takes {"event_type", "payload"} for an envelope and would judge what is inside.
    for name in sorted({"event_type", "payload"} & payload.keys()):
        yield (*at, name), "is not a member the contract knows here"
    if not {"event_type", "payload"} <= payload.keys():
        judged = validate_event(payload, contract.EVENT_TYPES[STARTED])
        for violation in judged.model_violations:
            yield (*at, *violation.field.split(".")), violation.message
        if not judged.model_violations:
            for item in judged.schema_violations:
                yield (*at, *item.json_path.lstrip("$.").split(".")), "is not as the schema says"
    # What the table does not name is the package's to judge; what it names leaves at its levels
    # only.
    sent = {field.path for field in FIELDS if level is None or level in field.levels}
    for path in contract.flat({"data": {"payload": payload}}):
        if path in _SOURCES and path not in sent:
            yield tuple(path.split(".")), f"is not sent at level {level}"


def holds_more(text: str, limit: int) -> bool:
    """Return whether a long JSON text holds more values than a limit, before it is parsed.

    A value takes some fifty bytes of memory however short it is in the text. Strings are passed
    over as a whole, so a record that travels as one is a single value; what is no JSON the parser
    names.
    """
    return len(text) > _SMALL and any(islice(_VALUE.finditer(text), limit, None))


def _read_extension(text: object) -> dict[str, object] | None:
    """Return what the extension holds; None where it is not one canonical JSON object as a
    string."""
    if not isinstance(text, str) or holds_more(text, MAX_VALUES):
        return None
    try:
        node = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    fit = isinstance(node, dict) and _find_unfit(node) is None and contract.canonical(node) == text
    return node if fit else None


def _judge_extension(
    node: Mapping[str, object], expected: Mapping[str, object], phase: str | None, level: str | None
) -> Iterator[str]:
    """Yield what is wrong inside the extension, in words: a pointer ends at the attribute."""
    for name in ("v", "phase", "level", "seal", *(("outcome",) if phase == COMPLETED else ())):
        if name not in node:
            yield f"{name} is missing"
    for name, value in node.items():
        if name not in _FORMS:
            yield f"{name} is not a member the contract knows"
        elif name not in expected and name not in ("seal", "origin"):
            yield f"{name} is not sent on {phase or 'this type'} at level {level or 'given'}"
        elif not _FORMS[name].holds(value):
            yield f"{name}: expected {_FORMS[name].expected}"
        elif name == "phase" and phase is not None and value != phase:
            yield f"phase: expected {phase}, as type says"


def _get(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def pointer(path: Iterable[str | int]) -> str:
    """Return an RFC 6901 pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _find_unfit(value: object) -> Fault | None:
    """Return what keeps a value from being read: too large, too deep, no Unicode, a number
    that is not ours."""
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
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(
            _TIME.fullmatch(value) and datetime.datetime.fromisoformat(value)
        )
    except ValueError:
        return False


def _is_uuid(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return str(uuid.UUID(value)) == value
    except ValueError:
        return False


def _refuse_constant(name: str) -> object:
    raise ValueError(name)
