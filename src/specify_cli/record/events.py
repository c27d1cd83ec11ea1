"""One frozen model per event, a union on `event` (docs/format.md §4): validation at the edges, and schemas.

Writers build lines as plain values because loading these models costs more than writing a record; a test
feeds every line the writers emit through `parse_event`. Unknown keys are kept: a reader of version 1 accepts
what later writers add.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

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
    """Who wrote a line, where that is not who opened the record: a session, or an actor without one."""

    harness: str | None = None
    session_id: str | None = None
    actor_id: str | None = None
    actor_type: Literal["human", "llm", "service"] | None = None


class _Event(_Value):
    v: Literal[1]
    seq: Count
    invocation_id: InvocationId
    prev: Digest
    dedupe: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    by: Writer | None = None
    seal: Digest = Field(alias="~")


class _At(_Event):
    at: Time


class Started(_Event):
    """The record opens."""

    event: Literal["started"]
    started_at: Time
    profile_id: ProfileId
    action: str
    request_text: str | None
    request_object: Digest | None = None
    tombstone: Literal[True] | None = None
    governance_context_hash: Digest | None
    governance_context_available: bool
    actor: Actor
    mode_of_work: Literal["advisory", "task_execution"]
    router_confidence: Literal["exact", "canonical_verb", "domain_keyword"]
    match_reason: str | None
    trace_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    run_kind: Literal["live", "as_of_replay", "reexecution"]
    verb: Literal["advise", "ask", "do"]
    parent_invocation_id: InvocationId | None = None
    requested_profile: str | None = None
    first_load: bool
    snapshot: Digest | None
    execution_hash: Digest | None
    capture: Capture
    limits: Limits | None = None
    tools: dict[str, Digest] | None = None
    program: Digest | None = None
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


class _Inside(_At):
    """A run event: it may say in which step and by which agent of several it happened."""

    step: Name | None = None
    ordinal: Positive | None = None
    agent: Name | None = None
    redactions: dict[str, Count] | None = None
    export_safe: Literal[False] | None = None
    digest_key: str | None = None
    truncated: Literal[True] | None = None


class StageTransition(_Inside):
    """The work goes from one stage to the next."""

    event: Literal["stage_transition"]
    from_: str | None = Field(default=None, alias="from")
    to: Name


class Checkpoint(_At):
    """A point to replay against."""

    event: Literal["checkpoint"]
    label: str | None = None
    manual: bool
    state_hash: Digest
    corpus: Digest


class _OfStep(_Inside):
    step: Name
    ordinal: Positive
    step_type: Name


class StepStarted(_OfStep):
    """A unit of work begins."""

    event: Literal["step_started"]
    input_hash: Digest | None = None
    input: Kept | None = None
    input_size: Count | None = None


class StepCompleted(_OfStep):
    """A unit of work ended and decided."""

    event: Literal["step_completed"]
    decision: Literal["PASS", "FAIL", "WARN", "SKIP", "PENDING"]
    output_hash: Digest | None = None
    output: Kept | None = None
    output_size: Count | None = None
    duration_ms: Count | None = None


class StepFailed(_OfStep):
    """A unit of work ended in an error."""

    event: Literal["step_failed"]
    error_code: Name
    message: str | None = None
    message_hash: Digest | None = None
    message_size: Count | None = None
    attempt: Count
    retryable: bool
    duration_ms: Count | None = None


class ToolCall(_Inside):
    """A tool is about to run."""

    event: Literal["tool_call"]
    call_id: Name
    tool: Name
    args_hash: Digest | None = None
    args: Kept | None = None
    args_size: Count | None = None
    side_effect: Literal["none", "idempotent", "external"]
    idempotency_key: Name
    cwd: Name | None = None


class ToolResult(_Inside):
    """What a tool gave."""

    event: Literal["tool_result"]
    call_id: Name
    tool: Name | None = None
    status: Literal["ok", "error", "denied", "unknown", "replayed"]
    output_hash: Digest | None = None
    output: Kept | None = None
    output_size: Count | None = None
    duration_ms: Count | None = None


class PatchApply(_Inside):
    """A file was made, changed or deleted."""

    event: Literal["patch_apply"]
    path: Name
    kind: Literal["create", "modify", "delete"]
    before_hash: Digest | None = None
    before: Kept | None = None
    before_size: Count | None = None
    after_hash: Digest | None = None
    after: Kept | None = None
    after_size: Count | None = None
    diff_hash: Digest | None = None
    diff: Kept | None = None
    diff_size: Count | None = None
    ok: bool
    call_id: Name | None = None


class GateDecision(_Inside):
    """A rule was asked and answered."""

    event: Literal["gate_decision"]
    gate: Name
    rule_ref: Name
    rule_digest: Digest | None = None
    inputs: Digest | None = None
    inputs_hash: Digest | None = None
    inputs_size: Count | None = None
    outcome: Literal["pass", "fail", "warn", "skip"]
    blocking: bool
    reason_code: Name
    override: str | None = None


class ModelCall(_Inside):
    """The host asked its model."""

    event: Literal["model_call"]
    call_id: Name
    model: Name
    prompt_hash: Digest | None = None
    prompt: Kept | None = None
    prompt_size: Count | None = None
    response_hash: Digest | None = None
    response: Kept | None = None
    response_size: Count | None = None
    tokens: dict[str, Count] | None = None
    duration_ms: Count | None = None
    ok: bool


class Error(_Inside):
    """Something went wrong outside any one step."""

    event: Literal["error"]
    error_code: Name
    message: str | None = None
    message_hash: Digest | None = None
    message_size: Count | None = None
    severity: Literal["error", "warning", "info"]


class PolicyViolation(_Inside):
    """A rule or limit was broken; for a limit nothing runs after it."""

    event: Literal["policy_violation"]
    rule_id: Name
    message: str
    severity: Literal["error", "warning", "info"]
    allowed: Count | None = None
    found: Count | None = None


class CaptureGap(_At):
    """What could not be written, and why."""

    event: Literal["capture_gap"]
    reason: Name
    what: Name
    count: Count
    message: str
    redactions: dict[str, Count] | None = None


class Resumed(_At):
    """The seam where a later process went on with an unfinished run."""

    event: Literal["resumed"]
    from_seq: Count
    state_hash: Digest
    program: str | None = None
    in_doubt: list[str]
    rerun: list[str]


class Exported(_At):
    """An annex: the record left in a portable file."""

    event: Literal["exported"]
    object: Digest
    safe: bool


class Replayed(_At):
    """An annex: the record was replayed, and this report came of it."""

    event: Literal["replayed"]
    object: Digest
    match: bool
    page: Blob | None = None


class ArtifactLink(_At):
    """A file the work made or changed."""

    event: Literal["artifact_link"]
    ref: str
    digest: Digest
    redactions: dict[str, Count] | None = None


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
    redactions: dict[str, Count] | None = None


Event = Annotated[
    Started
    | PolicySnapshotRef
    | RetrievalRequest
    | RetrievalResponse
    | StageTransition
    | Checkpoint
    | StepStarted
    | StepCompleted
    | StepFailed
    | ToolCall
    | ToolResult
    | PatchApply
    | GateDecision
    | ModelCall
    | Error
    | PolicyViolation
    | CaptureGap
    | Recovered
    | Resumed
    | ArtifactLink
    | CommitLink
    | Completed
    | Exported
    | Replayed,
    Field(discriminator="event"),
]
_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def parse_event(line: bytes) -> Event:
    """The event a whole line is. Raises pydantic.ValidationError naming every field that is off."""
    return _ADAPTER.validate_json(line)


def schema_of_event(name: str) -> dict[str, Any] | None:
    """The JSON Schema 2020-12 of one event, by its wire name or its class; None for no event of ours."""
    for model in get_args(get_args(Event)[0]):
        if name in (model.__name__, get_args(model.model_fields["event"].annotation)[0]):
            return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return None


def event_schema() -> dict[str, Any]:
    """The JSON Schema 2020-12 of one line."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Event", **_ADAPTER.json_schema()}
