"""One frozen model per event, a union on `event` (docs/format.md §4): validation at the edges, and schemas.

Writers build lines as plain values because loading these models costs more than writing a record; a test
feeds every line the writers emit through `parse_event`. Unknown keys are kept: a reader of version 1 accepts
what later writers add.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from specify_cli.invocation.record import PROFILE_ID_PATTERN, ULID_PATTERN
from specify_cli.invocation.seal import TIME_PATTERN

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
InvocationId = Annotated[str, Field(pattern=rf"^{ULID_PATTERN}$")]
ProfileId = Annotated[str, Field(pattern=rf"^{PROFILE_ID_PATTERN}$")]
Time = Annotated[str, Field(pattern=rf"^{TIME_PATTERN}$")]
Decimal9 = Annotated[str, Field(pattern=r"^\d+\.\d{9}$")]
Count = Annotated[int, Field(ge=0)]
CaptureMode = Literal["off", "hash", "summary", "full"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


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


class FilterApplied(_Value):
    """One decision of policy about one artifact."""

    rule_id: str
    uri: str
    action: Literal["allow", "deny", "redact"]


class _Event(_Value):
    v: Literal[1]
    seq: Count
    invocation_id: InvocationId
    prev: Digest
    dedupe: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    seal: Digest = Field(alias="~")


class _At(_Event):
    at: Time


class Started(_Event):
    """The record opens."""

    event: Literal["started"]
    started_at: Time
    profile_id: ProfileId
    action: str
    request_text: str
    request_object: Digest | None = None
    governance_context_hash: Digest
    governance_context_available: bool
    actor: Actor
    mode_of_work: Literal["advisory", "task_execution"]
    router_confidence: Literal["exact", "canonical_verb", "domain_keyword"]
    match_reason: str
    trace_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    run_kind: Literal["live", "as_of_replay", "reexecution"]
    verb: Literal["advise", "ask", "do"]
    parent_invocation_id: InvocationId | None = None
    requested_profile: str | None = None
    first_load: bool
    snapshot: Digest
    execution_hash: Digest
    capture: Capture
    session: dict[str, str] | None = None
    redactions: dict[str, Count] | None = None


class PolicySnapshotRef(_At):
    """Which policy was in force."""

    event: Literal["policy_snapshot_ref"]
    bundle: Digest | None
    bundle_hash: Digest | None
    policy_hash: Digest | None
    reason: Literal["start", "drift", "manual"]
    replaces: Digest | None = None
    error: str | None = None


class RetrievalRequest(_At):
    """What was asked of the corpus."""

    event: Literal["retrieval_request"]
    request_id: str
    query: str
    query_hash: Digest
    config: dict[str, Any]
    corpus: Digest


class RetrievalResponse(_At):
    """What came back, why, and what policy took away."""

    event: Literal["retrieval_response"]
    request_id: str
    hits: list[Hit]
    filters_applied: list[FilterApplied]
    result_hash: Digest
    error: str | None = None


class ArtifactLink(_At):
    """A file the work made or changed."""

    event: Literal["artifact_link"]
    ref: str
    digest: Digest


class CommitLink(_At):
    """The commit that holds the work."""

    event: Literal["commit_link"]
    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]


class Recovered(_At):
    """A writer crashed before this line; the next one went on."""

    event: Literal["recovered"]
    skipped_bytes: Annotated[int, Field(ge=1)]
    skipped_sha256: Digest


class Completed(_Event):
    """The last line, for good."""

    event: Literal["completed"]
    completed_at: Time
    outcome: Literal["done", "failed", "abandoned"]
    closed_by: Literal["agent", "person", "hook", "doctor"]
    evidence_ref: Digest | None
    evidence_name: str | None = None
    evidence_size: Count | None = None


Event = Annotated[
    Started
    | PolicySnapshotRef
    | RetrievalRequest
    | RetrievalResponse
    | ArtifactLink
    | CommitLink
    | Recovered
    | Completed,
    Field(discriminator="event"),
]
_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def parse_event(line: bytes) -> Event:
    """The event a whole line is. Raises pydantic.ValidationError naming every field that is off."""
    return _ADAPTER.validate_json(line)


def event_schema() -> dict[str, Any]:
    """The JSON Schema 2020-12 of one line."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Event", **_ADAPTER.json_schema()}
