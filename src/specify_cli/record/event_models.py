"""The table of events as frozen models, one union on `event` (docs/format.md §4): validation at the
edges, and schemas.

    parse_event(line).model_dump()

Writers build lines as plain values because loading these models costs more than writing a record; a
test feeds every line the writers emit through `parse_event`. Unknown keys are kept: a reader of
version 1 accepts what later writers add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from specify_cli.record.event_table import EVENTS, EventType, Member
from specify_cli.record.record import PROFILE_ID_PATTERN, ULID_PATTERN
from specify_cli.record.seal import TIME_PATTERN

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
InvocationId = Annotated[str, Field(pattern=rf"^{ULID_PATTERN}$")]
ProfileId = Annotated[str, Field(pattern=rf"^{PROFILE_ID_PATTERN}$")]
Time = Annotated[str, Field(pattern=rf"^{TIME_PATTERN}$")]
Decimal9 = Annotated[str, Field(pattern=r"^\d+\.\d{9}$")]
Count = Annotated[int, Field(ge=0)]
CaptureMode = Literal["off", "hash", "summary", "full"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class Erasure(_Value):
    """What was erased of one line: its members, and the SHA-256 of what is left of it."""

    seq: Count
    seal: Digest
    members: list[str]
    digest: Digest


class Actor(_Value):
    """Who asked."""

    actor_id: str
    actor_type: Literal["human", "llm", "service"]
    provider: str | None = None
    model: str | None = None
    tool: str | None = None


class Capture(_Value):
    """How much of each side is kept."""

    prompt: CaptureMode
    response: CaptureMode
    tool_args: CaptureMode
    tool_output: CaptureMode


class Explain(_Value):
    """Why an artifact scored as it did."""

    lexical: Decimal9
    graph: Decimal9
    tag: Decimal9


class Hit(_Value):
    """One artifact put in front of the agent."""

    uri: str
    digest: Digest
    rank: Annotated[int, Field(ge=1)]
    score: Decimal9
    explain: Explain
    shown: Literal["always", "whole", "part", "line"] | None = None
    because: list[str] | None = None


class FilterApplied(_Value):
    """One decision of policy about one artifact."""

    rule_id: str
    uri: str
    action: Literal["allow", "deny", "redact"]


class Summary(_Value):
    """The beginning and end of a text, its size in bytes of UTF-8."""

    head: str
    tail: str | None = None
    size: Count


class Blob(_Value):
    """A text kept as an object; `kept` bytes of it where it was longer than is kept."""

    object: Digest | None = None
    size: Count
    media_type: str
    head: str
    truncated: bool | None = None
    kept: Count | None = None


Kept = str | Blob | Summary
Name = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]


class Limits(_Value):
    """What a run may spend."""

    steps: Count | None = None
    tool_calls: Count | None = None
    tokens: Count | None = None
    seconds: Count | None = None


class Writer(_Value):
    """Who wrote a line, where that is not who opened the record: a session, or an actor without
    one."""

    harness: str | None = None
    session_id: str | None = None
    actor_id: str | None = None
    actor_type: Literal["human", "llm", "service"] | None = None


class EventLine(_Value):
    """The envelope of every line."""

    v: Literal[1, 2]
    seq: Count
    invocation_id: InvocationId
    prev: Digest
    dedupe: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    by: Writer | None = None
    seal: Digest = Field(alias="~")
    event: str


# The kinds of the table as types; choice, captured and message depend on their member.
_TYPES: Mapping[str, Any] = {
    "name": Name,
    "path": Name,
    "text": str,
    "note": str,
    "time": Time,
    "profile": ProfileId,
    "ulid": InvocationId,
    "hex32": Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")],
    "sha": Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")],
    "digest": Digest,
    "object": Digest,
    "integer": Count,
    "positive": Positive,
    "boolean": bool,
    "true": Literal[True],
    "false": Literal[False],
    "counts": dict[str, Count],
    "digests": dict[str, Digest],
    "texts": dict[str, str],
    "json": dict[str, Any],
    "names": list[str],
    "seals": list[Digest],
    "erasures": list[Erasure],
    "ulids": list[InvocationId],
    "hits": list[Hit],
    "filters": list[FilterApplied],
    "actor": Actor,
    "capture": Capture,
    "limits": Limits,
    "blob": Blob,
}
_OWN_TIMES = {"started_at", "completed_at"}


def _derive_fields(name: str, member: Member) -> Iterator[tuple[str, Any]]:
    """Yield what of a member can stand in a line, as pydantic's field definitions."""
    if member.kind == "source":
        return
    if member.kind == "digested":
        yield f"{name}_hash", (Digest | None, None)
        yield f"{name}_size", (Count | None, None)
        return
    if member.kind in ("captured", "message") or (member.kind == "object" and member.side):
        summary_type: Any = {"captured": Kept, "message": str}.get(member.kind, Digest)
        yield name, (summary_type | None, None)
        yield f"{name}_hash", (Digest | None, None)
        yield f"{name}_size", (Count | None, None)
        return
    plain_type: Any = Literal[member.choices] if member.kind == "choice" else _TYPES[member.kind]
    full_type = plain_type | None if member.nullable or not member.every else plain_type
    if name == "from":  # a word of Python
        yield "from_", (full_type, Field(alias=name, default=None))
    else:
        yield name, (full_type, ... if member.every else None)


def class_name(event: str) -> str:
    """Return the name of an event's model: ToolCall for tool_call."""
    return event.title().replace("_", "")


def _derive_model(name: str, event: EventType) -> type[EventLine]:
    fields: dict[str, Any] = {"event": (Literal[name], ...)}
    if not _OWN_TIMES & event.members.keys():
        fields["at"] = (Time, ...)
    for member, of in event.members.items():
        fields.update(_derive_fields(member, of))
    return create_model(class_name(name), __base__=EventLine, __doc__=event.about, **fields)


MODELS: Mapping[str, type[EventLine]] = {
    name: _derive_model(name, event) for name, event in EVENTS.items()
}
_ADAPTER: TypeAdapter[EventLine] = TypeAdapter(
    Annotated[reduce(or_, MODELS.values()), Field(discriminator="event")]  # type: ignore[arg-type]
)


def parse_event(line: bytes) -> EventLine:
    """Return the event a whole line is. Raises pydantic.ValidationError naming every member that is
    off.

    `line` may keep its LF. Its seal is not checked: use `open_line` of `seal.py` for that.
    """
    return _ADAPTER.validate_json(line)


def schema_of_event(name: str) -> dict[str, Any] | None:
    """Return the JSON Schema 2020-12 of one event, by its wire name or its class; None for no event
    of ours."""
    for event, model in MODELS.items():
        if name in (event, model.__name__):
            return {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **model.model_json_schema(),
            }
    return None


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of one line.

    It is the union of all events, told apart by `event`; `make docs` writes it to docs/schemas.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        **_ADAPTER.json_schema(),
    }
