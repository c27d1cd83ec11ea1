"""The JSON every command prints, as models; docs/schemas/ is generated from them.

`python -m specify_cli.cli.shapes FOLDER` writes the schemas; a test compares them with the folder and
validates what the real commands print.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from specify_cli.invocation.event import FilterApplied, Hit, event_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Outcome = Literal["done", "failed", "abandoned"]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CloseContract(_Shape):
    """How the host closes the record."""

    argv: list[str]
    outcomes: list[Outcome]
    evidence_allowed: bool


class InvocationPayload(_Shape):
    """Printed by do, ask and advise."""

    invocation_id: str
    profile_id: str
    profile_friendly_name: str
    action: str
    governance_context_text: str
    governance_context_hash: str
    governance_context_available: bool
    router_confidence: Literal["exact", "canonical_verb", "domain_keyword"]
    match_reason: str
    mode_of_work: Literal["advisory", "task_execution"]
    warnings: list[str]
    close_contract: CloseContract
    trace_id: str
    started_at: str
    record_path: str


class Completion(_Shape):
    """Printed by profile-invocation complete."""

    invocation_id: str
    profile_id: str
    action: str
    outcome: str
    completed_at: str
    already_completed: bool
    evidence_ref: str | None
    artifacts: list[str]
    commit: str | None
    published: str | None
    warnings: list[str]


class RouteDecision(_Shape):
    """Printed by route; the last four only with --explain."""

    profile_id: str
    action: str
    confidence: Literal["exact", "canonical_verb", "domain_keyword"]
    match_reason: str
    token: str | None = None
    rule: str | None = None
    languages: list[str] | None = None
    considered: list[dict[str, Any]] | None = None


class InvocationRow(_Shape):
    """One element of what invocations list prints."""

    invocation_id: str
    profile_id: str | None
    action: str | None
    started_at: str | None
    completed_at: str | None
    status: Literal["open", "closed"]
    outcome: str | None
    run_kind: str | None
    sealed: bool
    request: str | None
    mode_of_work: str | None
    parent_invocation_id: str | None
    path: str


class Context(_Shape):
    """Where an invocation's governance context came from."""

    hash: str | None
    available: bool
    snapshot: str | None
    query: str | None
    hits: list[Hit]
    filters_applied: list[FilterApplied]
    error: str | None


class Artifact(_Shape):
    """A linked file."""

    ref: str
    digest: str


class Evidence(_Shape):
    """What an invocation left as proof of work."""

    evidence_ref: str | None
    evidence_name: str | None
    artifacts: list[Artifact]
    commits: list[str]


class Finding(_Shape):
    """One problem at one place."""

    code: str
    severity: Literal["error", "warning", "info"]
    file: str
    seq: int | None
    offset: int
    message: str
    repair: str


class Invocation(InvocationRow):
    """Printed by invocations show."""

    context: Context
    evidence: Evidence
    events: list[dict[str, Any]]
    annexes: list[dict[str, Any]]
    findings: list[Finding]


class RecordReport(_Shape):
    """What verify says of one record it was asked for."""

    file: str
    invocation_id: str | None
    sealed: bool
    status: Literal["open", "closed"]
    lines: int
    tip: str | None


class VerifyReport(_Shape):
    """Printed by invocations verify; `reports` is filled when a target was named."""

    ok: bool
    records: int
    errors: int
    warnings: int
    proven: str
    not_proven: list[str]
    findings: list[Finding]
    reports: list[RecordReport]


class ProfileRow(_Shape):
    """One element of what profiles list prints."""

    profile_id: str
    name: str
    description: str
    roles: list[str]
    capabilities: list[str]
    languages: list[str]
    frameworks: list[str]
    domain_keywords: list[str]
    routing_priority: int
    sentinel: bool
    origin: Literal["shipped", "project"]


class Profile(ProfileRow):
    """Printed by profiles show."""

    digest: str
    document: dict[str, Any]


class CharterContext(_Shape):
    """Printed by charter context."""

    action: str
    mode: Literal["bootstrap", "compact", "missing"]
    first_load: bool
    depth: int
    available: bool
    references_count: int
    text: str
    hits: list[Hit]
    filters_applied: list[FilterApplied]
    omitted: list[dict[str, Any]]
    config: dict[str, Any]
    error: str | None
    warnings: list[str]


class Deciding(_Shape):
    """The policy rule that decided on an artifact."""

    rule_id: str
    action: Literal["allow", "redact"]
    reason: str


class CharterArtifact(_Shape):
    """Printed by charter context with --uri."""

    uri: str
    digest: str
    title: str
    text: str
    policy: Deciding | None


class InterviewAnswers(_Shape):
    """What a charter was synthesized from."""

    languages: list[str]
    test_command: str
    test_rule: str
    review_rule: str
    approver: str
    forbidden: list[str]


class SynthesizedFile(_Shape):
    """One planned file; `diff` is there where another one is in its place."""

    path: str
    state: Literal["new", "unchanged", "different", "kept", "left_out"]
    written: bool
    content: str
    diff: str | None


class CharterSynthesis(_Shape):
    """Printed by charter synthesize."""

    dry_run: bool
    answers: InterviewAnswers
    files: list[SynthesizedFile]
    notes: list[str]


class LintFinding(_Shape):
    """One problem of a governance file."""

    severity: Literal["error", "advice"]
    code: str
    file: str
    line: int | None
    problem: str
    repair: str


class CharterLint(_Shape):
    """Printed by charter lint."""

    ok: bool
    errors: int
    advice: int
    findings: list[LintFinding]


class Mismatch(_Shape):
    """One difference between two runs."""

    code: Literal["STEP_COUNT_MISMATCH", "STEP_TYPE_MISMATCH", "DECISION_MISMATCH", "OUTPUT_MISMATCH"]
    step: int | None
    field: str
    expected: str | int | None
    actual: str | int | None


class ComparisonDetails(_Shape):
    """A comparison in its parts."""

    step_count_match: bool
    step_types_match: bool
    decisions_match: bool
    output_hashes_match: bool
    timing_match: bool | None
    steps_compared: int
    mismatches: list[Mismatch]


class Warned(_Shape):
    """What is no mismatch and should be known."""

    code: Literal["TIMING_DRIFT", "NOTHING_COMPARED", "NOT_COMPARABLE", "INTEGRITY_NOT_CHECKABLE"]
    step: int | None
    message: str


class Comparison(_Shape):
    """Printed by invocations compare."""

    match: bool
    message: str
    details: ComparisonDetails
    warnings: list[Warned]


class Recorded(_Shape):
    """Printed by profile-invocation record and commit; each event with its line, or as it would be written."""

    invocation_id: str
    recorded: int
    duplicates: int
    durable: bool
    events: list[dict[str, Any]]
    annexes: list[str]
    warnings: list[str]


class Usage(_Shape):
    """What a run has spent."""

    steps: int
    tool_calls: int
    tokens: int


class StepPlace(_Shape):
    """A step and which time it is."""

    step: str
    ordinal: int


class StepEnd(StepPlace):
    """A step that ended."""

    decision: str
    output_hash: str | None
    seq: int


class StateOfRun(_Shape):
    """Where a run stands."""

    seq: int
    status: Literal["none", "open", "closed"]
    outcome: str | None
    stage: str | None
    current_step: StepPlace | None
    completed_steps: list[StepEnd]
    failed_steps: list[StepPlace]
    open_steps: list[StepPlace]
    open_calls: list[str]
    usage: Usage
    last_output_hash: str | None
    stopped: bool


class State(StateOfRun):
    """Printed by invocations state."""

    state_hash: str


class CallInDoubt(_Shape):
    """A call that began and has no result."""

    call_id: str
    tool: str
    step: str | None
    side_effect: str
    safe_again: bool


class ResumePlan(_Shape):
    """Printed by resume without a program."""

    invocation_id: str
    resumable: bool
    first_incomplete: StepPlace | None
    in_doubt: list[CallInDoubt]
    changed: list[str]
    unchecked: list[str]
    state: StateOfRun


class Resumption(_Shape):
    """Printed by resume with a program."""

    invocation_id: str
    resumed: bool


class Reexecution(_Shape):
    """Printed by reexecute."""

    original_invocation_id: str
    reexecution_invocation_id: str
    comparison: Comparison


class Initialised(_Shape):
    """Printed by init."""

    root: str
    created: bool
    changed: bool
    project_uuid: str | None
    trail: Literal["private", "committed"]
    config: str


class Reindexed(_Shape):
    """Printed by invocations reindex."""

    rows: int
    index: str


class Brief(_Shape):
    """Printed by intake."""

    path: str
    bytes: int
    sha256: str


class Ailment(_Shape):
    """One thing that is wrong, and what mends it."""

    code: str
    severity: Literal["error", "warning", "info"]
    path: str
    message: str
    repair: str


class DoctorReport(_Shape):
    """Printed by doctor."""

    ok: bool
    ailments: list[Ailment]


class Error(BaseModel):
    """The object on stderr when a command with --json is refused."""

    model_config = ConfigDict(extra="forbid")

    error_code: str
    message: str
    suggestion: str
    candidates: list[dict[str, Any]] | None = None


SHAPES: dict[str, type[BaseModel]] = {
    "invocation-payload": InvocationPayload,
    "completion": Completion,
    "route-decision": RouteDecision,
    "invocation-row": InvocationRow,
    "invocation": Invocation,
    "verify-report": VerifyReport,
    "profile-row": ProfileRow,
    "profile": Profile,
    "charter-context": CharterContext,
    "charter-artifact": CharterArtifact,
    "charter-synthesis": CharterSynthesis,
    "charter-lint": CharterLint,
    "recorded": Recorded,
    "comparison": Comparison,
    "execution-state": State,
    "resume-plan": ResumePlan,
    "resumption": Resumption,
    "reexecution": Reexecution,
    "initialised": Initialised,
    "reindexed": Reindexed,
    "brief": Brief,
    "doctor-report": DoctorReport,
    "error": Error,
}


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by name."""
    found = {name: {"$schema": DIALECT, **shape.model_json_schema()} for name, shape in SHAPES.items()}
    return {**found, "event": event_schema()}


def write_schemas(folder: Path) -> None:
    """One file per schema."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
