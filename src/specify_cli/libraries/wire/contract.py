"""What an envelope is made of and which of its members leave at which level
(docs/sync-contract.md). Pure.

`FIELDS` is the one table: an envelope is composed from its rows and from nothing else, so what is
missing from it is not sent. `GAPS` are the places where the public contract `spec-kitty-events` has
none for what a record knows; those members travel in the CloudEvents extension
`speckittyinvocation`.
"""

import base64
import json
import uuid
from typing import NamedTuple

from doctrine.text import get_object
from specify_cli.record.seal import Fields

STARTED, COMPLETED = "started", "completed"
PHASES = (STARTED, COMPLETED)
LEVELS = ("ids", "metadata", "full", "records")
# At this level each record follows its envelopes whole, with the objects it leads to
# (docs/sync-contract.md §6).
RECORDS = LEVELS[3]
# What a whole record is of. Of the first alone there are envelopes.
KINDS = LIVE, REPLAY, REEXECUTION, IMPORTED = ("live", "replay", "reexecution", "imported")
DEFAULT_LEVEL = "metadata"
EXTENSION = "speckittyinvocation"
EXTENSION_VERSION = 1
EVENT_TYPES = {STARTED: "ProfileInvocationStarted", COMPLETED: "ProfileInvocationCompleted"}
TYPES = {phase: f"ai.spec-kitty.profileinvocation.{phase}.v1" for phase in PHASES}
CONTENT_TYPE = "application/cloudevents-batch+json"
SCHEMA_VERSION = "3.0.0"
MAX_EVENTS = 100
MAX_BODY = 1024 * 1024

_ALL = LEVELS
_METADATA = LEVELS[1:]
_FULL = LEVELS[2:]


class Field(NamedTuple):
    """One member that leaves: its path in the CloudEvent, what it holds, in which phases, at which
    levels."""

    path: str
    source: str
    phases: tuple[str, ...] = PHASES
    levels: tuple[str, ...] = _ALL


class Gap(NamedTuple):
    """One thing a record knows and the public contract has no place for."""

    number: int
    what: str
    travels: str


_S, _C = (STARTED,), (COMPLETED,)
# What an event says in place of an action and an actor that were erased; it has to state both.
GONE: Fields = {"action": "erased", "actor": {"actor_id": "erased", "actor_type": "service"}}
_ACTOR = "data.payload.actor"

FIELDS: tuple[Field, ...] = (
    Field("specversion", "1.0"),
    Field("id", "event id"),
    Field("source", "/spec-kitty/projects/ and the project uuid"),
    Field("type", "event type, as a CloudEvents type"),
    Field("subject", "invocation id"),
    Field("time", "time of the phase"),
    Field("datacontenttype", "application/json"),
    Field("data.event_id", "event id"),
    Field("data.event_type", "event type"),
    Field("data.aggregate_id", "invocation id"),
    Field("data.timestamp", "time of the phase"),
    Field("data.correlation_id", "invocation id"),
    Field("data.causation_id", "event id of the Started, or null"),
    Field("data.lamport_clock", "seq of the line"),
    Field("data.node_id", "invocation id"),
    Field("data.build_id", "project uuid"),
    Field("data.project_uuid", "project uuid"),
    Field("data.project_slug", "null"),
    Field("data.schema_version", "3.0.0"),
    Field("data.data_tier", "the level as a number"),
    Field("data.payload.mission_id", "invocation id", _S),
    Field("data.payload.run_id", "invocation id", _S),
    Field("data.payload.step_id", "action", _S),
    Field("data.payload.action", "action", _S),
    Field("data.payload.profile_slug", "profile id", _S),
    Field(
        f"{_ACTOR}.actor_id",
        "pseudonym of the actor: UUIDv5(project uuid, actor/<id>)",
        _S,
        LEVELS[:1],
    ),
    Field(f"{_ACTOR}.actor_id", "actor id", _S, _METADATA),
    Field(f"{_ACTOR}.actor_type", "actor type", _S),
    Field(f"{_ACTOR}.provider", "actor provider", _S, _METADATA),
    Field(f"{_ACTOR}.model", "actor model", _S, _METADATA),
    Field(f"{_ACTOR}.tool", "actor tool", _S, _METADATA),
    Field(f"{EXTENSION}.v", "1"),
    Field(f"{EXTENSION}.phase", "phase"),
    Field(f"{EXTENSION}.level", "level"),
    Field(f"{EXTENSION}.seal", "seal of the line"),
    Field(f"{EXTENSION}.origin", "merged, where the record came with git; else left out"),
    Field(f"{EXTENSION}.outcome", "outcome", _C),
    Field(f"{EXTENSION}.closed_by", "closed by", _C, _METADATA),
    Field(f"{EXTENSION}.evidence_ref", "evidence digest", _C, _METADATA),
    Field(f"{EXTENSION}.governance_context_hash", "context digest", _S, _METADATA),
    Field(f"{EXTENSION}.governance_context_available", "context available", _S, _METADATA),
    Field(f"{EXTENSION}.verb", "verb", _S, _METADATA),
    Field(f"{EXTENSION}.mode_of_work", "mode of work", _S, _METADATA),
    Field(f"{EXTENSION}.router_confidence", "router confidence", _S, _METADATA),
    Field(f"{EXTENSION}.trace_id", "trace id", _S, _METADATA),
    Field(f"{EXTENSION}.parent_invocation_id", "parent invocation id", _S, _METADATA),
    Field(f"{EXTENSION}.mission", "mission", _S, _METADATA),
    Field(f"{EXTENSION}.work_package", "work package", _S, _METADATA),
    Field(f"{EXTENSION}.match_reason", "match reason, redacted again", _S, _FULL),
    Field(f"{EXTENSION}.request_text", "request text, redacted again", _S, _FULL),
)

GAPS: tuple[Gap, ...] = (
    Gap(
        1,
        "request_text has no place in ProfileInvocationStarted",
        "in the extension, at level full only",
    ),
    Gap(
        2,
        "governance_context_hash and _available have no place in ProfileInvocationStarted",
        "in the extension",
    ),
    Gap(
        3,
        "ProfileInvocationCompleted has no payload; outcome and closed_by have no place",
        "in the extension",
    ),
    Gap(
        4,
        "evidence_ref has no place in ProfileInvocationCompleted",
        "in the extension, as a digest",
    ),
    Gap(5, "the seal of the record's line has no place in either", "in the extension"),
    Gap(6, "build_id is required and a record names no checkout", "as the project's uuid"),
    Gap(7, "data_tier 1 to 3 are not described", "as 1 ids, 2 metadata, 3 full and records"),
    Gap(8, "profile_version has no rule for profiles that have digests", "not at all"),
    Gap(
        9,
        "the producer registry has no CloudEvents type for this family",
        f"as {TYPES[STARTED]} and …completed.v1",
    ),
    Gap(
        10,
        "the producer envelope requires dataschema, schemaversion, lamportclock and nodeid",
        "not at all",
    ),
)

# Members that may be null and are then left out: the contract's optional ones and the extension's.
_OMIT_NULL = (f"{_ACTOR}.", f"{EXTENSION}.")


def event_id(project_uuid: str, invocation_id: str, phase: str) -> str:
    """UUIDv5(project uuid, "<invocation_id>/<phase>"). Raises ValueError for a project uuid that is
    none."""
    return str(uuid.uuid5(uuid.UUID(project_uuid), f"{invocation_id}/{phase}"))


def compose(
    project_uuid: str,
    level: str,
    started: Fields,
    completed: Fields | None = None,
    *,
    origin: str | None = None,
) -> dict[str, object]:
    """Return one phase of one invocation as a CloudEvent: Completed where its line is given, else
    Started.

    `started` and `completed` are the fields of the record's lines with their seal as `~`, `origin`
    is `merged` where the sender received the record with git. Texts are used as they are: whoever
    calls for level full has redacted them. Raises ValueError for a project uuid that is none.
    """
    phase = STARTED if completed is None else COMPLETED
    line = started if completed is None else completed
    project = str(uuid.UUID(project_uuid))
    invocation_id = str(started["invocation_id"])
    actor = get_object(started, "actor")
    pseudonym = str(uuid.uuid5(uuid.UUID(project), f"actor/{actor.get('actor_id')}"))
    values = {
        "1.0": "1.0",
        "3.0.0": SCHEMA_VERSION,
        "application/json": "application/json",
        "1": EXTENSION_VERSION,
        "null": None,
        "phase": phase,
        "level": level,
        "the level as a number": min(LEVELS.index(level) + 1, 3),
        "event id": event_id(project, invocation_id, phase),
        "event id of the Started, or null": event_id(project, invocation_id, STARTED)
        if phase == COMPLETED
        else None,
        "event type": EVENT_TYPES[phase],
        "event type, as a CloudEvents type": TYPES[phase],
        "project uuid": project,
        "/spec-kitty/projects/ and the project uuid": f"/spec-kitty/projects/{project}",
        "invocation id": invocation_id,
        "time of the phase": line.get("started_at" if phase == STARTED else "completed_at"),
        "seq of the line": line.get("seq"),
        "seal of the line": line.get("~"),
        "merged, where the record came with git; else left out": origin,
        "action": started.get("action"),
        "profile id": started.get("profile_id"),
        "pseudonym of the actor: UUIDv5(project uuid, actor/<id>)": pseudonym,
    }
    event: dict[str, object] = {}
    for field in FIELDS:
        if phase in field.phases and level in field.levels:
            _fill(event, field, values, actor if field.path.startswith(_ACTOR) else line)
    data = event["data"]
    assert isinstance(data, dict)
    data.setdefault("payload", {})
    event[EXTENSION] = canonical(event[EXTENSION])
    return event


def _fill(
    event: dict[str, object],
    field: Field,
    values: Fields,
    own: Fields,
) -> None:
    """Put a field into an event: its derived value, else what stands under its name in `own`."""
    name = field.path.rpartition(".")[2]
    value = values[field.source] if field.source in values else own.get(name)
    if value is not None or not field.path.startswith(_OMIT_NULL):
        _put(event, field.path.split("."), value)


def _put(event: dict[str, object], path: list[str], value: object) -> None:
    for name in path[:-1]:
        inner = event.setdefault(name, {})
        assert isinstance(inner, dict)
        event = inner
    event[path[-1]] = value


def canonical(value: object) -> str:
    """RFC 8785 text of values without floats, which is what the extension holds."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def kind_of(started: Fields) -> str:
    """Return of which kind a record is, by its first line."""
    if started.get("imported"):
        return IMPORTED
    run_kind = str(started.get("run_kind") or LIVE)
    return run_kind if run_kind in (LIVE, REEXECUTION) else REPLAY


def key_of(event: Fields) -> tuple[str, str]:
    """(invocation id, phase) of a composed event."""
    phase = STARTED if event["type"] == TYPES[STARTED] else COMPLETED
    return str(event["subject"]), phase


def same_content(stored: Fields, sent: Fields) -> bool:
    """Return whether two events of one key say the same (docs/sync-contract.md §4).

    Everything counts between equals in level and extension version; else the members both carry,
    but for the level itself, its number, the version, and an actor id that is a pseudonym on one
    side. How a sender came by the record is no part of what it says; nor is the digest of evidence
    where one of them keeps it, as with texts that leave encrypted.
    """
    ours, theirs = ({**flat(event), f"{EXTENSION}.origin": None} for event in (stored, sent))
    if (digest := f"{EXTENSION}.evidence_ref") not in ours.keys() & theirs.keys():
        ours[digest] = theirs[digest] = None
    if all(
        ours.get(f"{EXTENSION}.{name}") == theirs.get(f"{EXTENSION}.{name}")
        for name in ("level", "v")
    ):
        return ours == theirs
    apart = {f"{EXTENSION}.level", f"{EXTENSION}.v", "data.data_tier", f"{_ACTOR}.actor_id"}
    return all(ours[path] == theirs[path] for path in ours.keys() & theirs.keys() - apart)


def flat(event: Fields) -> dict[str, object]:
    """Return every member of a CloudEvent by its path as FIELDS writes it.

    The extension is read as the JSON it holds.
    """
    members = {}

    def walk(path: str, value: object) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                walk(f"{path}.{name}" if path else str(name), inner)
        else:
            members[path] = value

    walk("", {**event, EXTENSION: json.loads(str(event.get(EXTENSION, "{}")))})
    return members


def is_signing_secret(text: str) -> bool:
    """Return whether a text is a Standard Webhooks secret: `whsec_` and Base64 of at least one
    byte."""
    encoded = text.removeprefix("whsec_")
    try:
        return (
            text != encoded
            and len(base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)) > 0
        )
    except ValueError:
        return False
