"""What a collector reads from a request and says to it: events, list parameters, problems. Pure."""

import base64
import binascii
import datetime
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from doctrine.text import as_object
from specify_cli.features.collector.storage import (
    CLOSED,
    CONFLICT,
    LONGEST,
    OPEN,
    OWNED,
    UNKNOWN,
    Filter,
    ListPosition,
)
from specify_cli.libraries.wire.contract import CONTENT_TYPE, MAX_EVENTS, canonical
from specify_cli.libraries.wire.validation import Fault, faults, holds_more
from specify_cli.record.ids import new_ulid

Json = dict[str, object]
Query = Sequence[tuple[str, str]]
Parsers = Mapping[str, Callable[[str], object]]
"""The parameters that are known, each with what reads its value, which raises ValueError."""
ONE_EVENT = "application/cloudevents+json"
MAX_LIMIT, DEFAULT_LIMIT = 200, 50
_LISTED = 50  # faults named in one problem
_TITLES = {
    "bad-request": (400, "The request cannot be read"),
    "bad-parameter": (400, "A parameter is not as it should be"),
    "unauthorized": (401, "A token is needed"),
    "bad-signature": (401, "The signature does not fit the body"),
    "forbidden": (403, "This token may not do that"),
    "foreign-project": (403, "This token is not for this project"),
    "not-found": (404, "There is no such thing here"),
    "method-not-allowed": (405, "This cannot be done here"),
    "too-slow": (408, "The body did not come in time"),
    "conflict": (409, "Another event with this key is held"),
    "owned": (409, "Another client began this invocation"),
    "several-projects": (409, "Several projects hold this invocation"),
    "held": (409, "The record is held: nothing of it may be erased"),
    "too-large": (413, "The body is too large"),
    "wrong-type": (415, "The content type is not one for events"),
    "invalid-event": (422, "The event is not as the contract says"),
    "too-many": (429, "This token asks too often"),
    "internal": (500, "The collector has failed"),
    "unknown-invocation": (409, "Its events have not arrived"),
    "invalid-record": (422, "The record or log does not verify"),
    "invalid-object": (422, "The object is not what its name says"),
    "unavailable": (503, "The collector cannot store or read now"),
}
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Problem(NamedTuple):
    """An RFC 9457 problem: its kind, what happened this time, and the members or parameters at
    fault."""

    kind: str
    detail: str
    errors: tuple[dict[str, str], ...] = ()
    retry_after: int = 0

    @property
    def status(self) -> int:
        return _TITLES[self.kind][0]

    @property
    def title(self) -> str:
        return _TITLES[self.kind][1]

    def as_value(self) -> Json:
        value = {
            "type": f"urn:spec-kitty:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        return {**value, "errors": list(self.errors)} if self.errors else value


class Refused(Exception):
    """The request ends with a problem, which is made of the same values."""

    def __init__(
        self,
        kind: str,
        detail: str,
        errors: tuple[dict[str, str], ...] = (),
        retry_after: int = 0,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(kind, detail, errors, retry_after)


class ListRequest(NamedTuple):
    """What a list request asks for."""

    filter: Filter
    limit: int
    after: ListPosition | None


class Received(NamedTuple):
    """One event of a batch: its id, if it has one, and what is wrong with it."""

    id: str | None
    event: Json
    problem: Problem | None


# --- events


def read_events(body: bytes, content_type: str) -> list[Received]:
    """Return the events of a body, each judged on its own. Raises Refused where the body is no
    batch of events."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (CONTENT_TYPE, ONE_EVENT):
        raise Refused("wrong-type", f"expected Content-Type {CONTENT_TYPE} or {ONE_EVENT}")
    value = _parse(body)
    if kind == ONE_EVENT:
        value = [value]
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_EVENTS:
        found = f"{len(value)} events" if isinstance(value, list) else "no array"
        raise Refused(
            "bad-request", f"expected a JSON array of 1 to {MAX_EVENTS} events, found {found}"
        )
    return [_read_item(item) for item in value]


_MAX_VALUES = 100_000


def _parse(body: bytes) -> Any:
    """Return the JSON value of a body. Raises Refused."""
    if holds_more(body.decode("latin-1"), _MAX_VALUES):
        raise Refused("bad-request", f"expected at most {_MAX_VALUES} values in a body, found more")
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_read_members, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise Refused("bad-request", f"the body is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise Refused(
            "bad-request", f"the body is not JSON at character {error.pos}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise Refused("bad-request", "the body is nested too deeply") from error
    except ValueError as error:
        # An integer of more digits than Python reads.
        raise Refused("bad-request", "the body holds a number that is too long") from error


_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_object(body: bytes, names: Sequence[str] | None, more: Sequence[str] = ()) -> Json:
    """Return the JSON object of a body, which has these members, all of `more` or none, and no
    other. Raises Refused.

    Without names its members may be any.
    """
    value = _parse(body)
    # In UTF-8 half of a character can only be escaped, and hardly a body escapes any.
    if _HALF.search(body):
        try:
            canonical(value).encode()
        except UnicodeEncodeError as error:
            raise Refused("invalid-record", "the body holds half of a character") from error
    if not isinstance(value, dict) or (
        names is not None and value.keys() not in (set(names), {*names, *more})
    ):
        raise Refused(
            "bad-request", f"expected a JSON object of {', '.join(names or ('any members',))}"
        )
    return value


def _read_members(pairs: list[tuple[str, object]]) -> Json:
    stored = dict(pairs)
    if len(stored) != len(pairs):
        raise Refused("bad-request", "an object in the body names a member twice")
    return stored


def _refuse_constant(name: str) -> object:
    raise Refused("bad-request", f"the body holds {name}, which JSON does not have")


def _read_item(item: object) -> Received:
    faults_found = faults(item)
    event = as_object(item)
    named = event.get("id")
    return Received(
        named if isinstance(named, str) else None,
        event,
        _invalid(faults_found) if faults_found else None,
    )


def _invalid(faults_found: Sequence[Fault]) -> Problem:
    first = faults_found[0]
    more = f" (and {len(faults_found) - 1} more)" if len(faults_found) > 1 else ""
    listed = tuple(
        {"pointer": fault.pointer[:300], "detail": fault.detail[:500]}
        for fault in faults_found[:_LISTED]
    )
    return Problem(
        "invalid-event", f"{first.pointer[:300] or 'the event'}: {first.detail[:500]}{more}", listed
    )


_PROBLEMS = {
    CONFLICT: Problem("conflict", "an event with this key and other content came first, and stays"),
    OWNED: Problem(
        "owned", "another client sent this invocation first, and it alone may add to it"
    ),
    UNKNOWN: Problem("unknown-invocation", "its owner has yet to send it; send it again later"),
}


def results(
    received: Sequence[Received], verdicts: Sequence[str]
) -> list[tuple[Json, Problem | None]]:
    """Return what became of each event, in the order of the request.

    `verdicts` are the storage's for the events without a fault.
    """
    remaining = iter(verdicts)
    answers: list[tuple[Json, Problem | None]] = []
    for one in received:
        problem = one.problem
        verdict = "" if problem else next(remaining)
        problem = problem or _PROBLEMS.get(verdict)
        value: Json = {"id": one.id, "status": verdict}
        if problem:
            value |= {"status": "refused", "problem": problem.as_value()}
        answers.append((value, problem))
    return answers


# --- lists


def read_parameters(parameters: Query, known: Parsers) -> dict[str, Any]:
    """Return the values of a query by their names; an empty one is none. Raises Refused naming
    every bad parameter."""
    query = {}
    wrong = []

    def fault(name: str, detail: str) -> None:
        wrong.append({"parameter": name[:100], "detail": detail})

    for name, value in parameters:
        if name not in known:
            fault(name, f"is not one of {', '.join(known)}")
        elif name in query:
            fault(name, "is given twice")
        elif value:
            query[name] = value
    read = {}
    for name, value in query.items():
        try:
            read[name] = known[name](value)
        except ValueError as error:
            fault(name, str(error))
    if wrong:
        detail = "; ".join(f"{one['parameter']}: {one['detail']}" for one in wrong)
        raise Refused("bad-parameter", detail[:500], tuple(wrong[:_LISTED]))
    return read


def read_list_request(parameters: Query) -> ListRequest:
    """Return filters, limit and cursor from a query. Raises Refused."""
    read = read_parameters(parameters, PARAMETERS)
    limit, after = read.pop("limit", DEFAULT_LIMIT), read.pop("cursor", None)
    return ListRequest(Filter(read.pop("project", None), **read), limit, after)


def cursor_of(place: ListPosition) -> str:
    """Return the opaque text by which a client asks for what follows a place."""
    return base64.urlsafe_b64encode(" ".join(place).encode("ascii")).decode("ascii").rstrip("=")


def _parse_cursor(value: str) -> ListPosition:
    try:
        text = base64.b64decode(
            value + "=" * (-len(value) % 4), altchars=b"-_", validate=True
        ).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise ValueError("is not a cursor this collector gave") from error
    invocation_id, _, project = text.partition(" ")
    if not _ULID.fullmatch(invocation_id) or not _UUID.fullmatch(project):
        raise ValueError("is not a cursor this collector gave")
    return ListPosition(invocation_id, project)


def _parse_limit(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", value) or not 1 <= int(value) <= MAX_LIMIT:
        raise ValueError(f"expected a number from 1 to {MAX_LIMIT}")
    return int(value)


def project_uuid(value: str) -> str:
    """Return a project's uuid as it was sent. Raises ValueError for another text."""
    if not _UUID.fullmatch(value):
        raise ValueError("expected a project's uuid in lowercase")
    return value


def _parse_text(value: str) -> str:
    if len(value) > LONGEST or not value.isprintable():
        raise ValueError(f"expected at most {LONGEST} printable characters")
    return value


def _parse_choice(values: tuple[str, ...], value: str) -> str:
    if value not in values:
        raise ValueError(f"expected one of {', '.join(values)}")
    return value


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(T|$)", re.ASCII)


def _parse_bound(value: str, *, end_of_day: bool) -> str:
    """Return the least invocation id of a time; of a day its beginning, or the beginning of the
    next."""
    try:
        if not _DAY.match(value):
            raise ValueError(value)
        moment = datetime.datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        millis = (moment - _EPOCH) // datetime.timedelta(milliseconds=1)
        if len(value) == 10 and end_of_day:
            millis += 24 * 3600 * 1000
    except (ValueError, OverflowError) as error:
        raise ValueError(
            "expected a day or an RFC 3339 time, as 2026-11-21 or 2026-11-21T09:00:00Z"
        ) from error
    return new_ulid(max(0, millis), bytes(10))


PARAMETERS: Parsers = {
    "project": lambda value: frozenset({project_uuid(value)}),
    "profile": _parse_text,
    "action": _parse_text,
    "outcome": partial(_parse_choice, ("done", "failed", "abandoned")),
    "status": partial(_parse_choice, (OPEN, CLOSED)),
    "actor": _parse_text,
    "since": partial(_parse_bound, end_of_day=False),
    "until": partial(_parse_bound, end_of_day=True),
    "limit": _parse_limit,
    "cursor": _parse_cursor,
}
