"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from specify_cli.cli.schemas.shapes import Shape, derived, one_of, shape_of
from specify_cli.features.replay import citation
from specify_cli.features.replay.judge import Note, NotEvaluated
from specify_cli.features.replay.many import Again
from specify_cli.features.replay.outcomes import FINDINGS, Finding, Point
from specify_cli.record.event_models import FilterApplied


@derived(Finding)
class ReplayFinding:
    """One difference between what was recorded and what came out again."""

    code: Annotated[str, one_of(FINDINGS)]
    severity: Literal["error", "warning"]
    part: Literal[
        "router",
        "execution",
        "retrieval",
        "context",
        "policy",
        "gate",
        "patch",
        "state",
        "record",
    ]
    expected: Any
    actual: Any


class ReplayedInvocation(Shape):
    """What was replayed."""

    invocation_id: str
    request: str
    request_chars: int
    profile_id: str | None
    action: str | None
    verb: str | None
    run_kind: str
    parent_invocation_id: str | None
    started_at: str | None
    outcome: str | None


@derived(Point)
class ReplayPoint:
    """A checkpoint."""


@derived(Note)
class ReplayNote:
    """What verify found that forbids no replay."""


class ReplayIntegrity(Shape):
    """The record was verified before it was replayed."""

    intact: Literal[True]
    lines: int
    tip: str | None
    objects: int
    notes: list[ReplayNote]


class ReplayCode(Shape):
    """The code that decided and the code that replayed."""

    recorded: dict[str, int | str | None]
    current: dict[str, int | str | None]


class ReplayDecision(Shape):
    """One field of the routing."""

    field: str
    recorded: str | None
    replayed: str | None


class RankedHit(Shape):
    """A hit on one side."""

    rank: int | None
    score: str | None
    digest: str | None
    explain: dict[str, str] | None


class ReplayHit(Shape):
    """One artifact on both sides; null where it is not there."""

    uri: str
    recorded: RankedHit | None
    replayed: RankedHit | None


class BothTexts(Shape):
    """A value on both sides."""

    recorded: str | None
    replayed: str | None


class BothFilters(Shape):
    """What policy decided, on both sides."""

    recorded: list[FilterApplied] | None
    replayed: list[FilterApplied]


class ReplayRetrieval(Shape):
    """One retrieval made again."""

    request_id: str
    seq: int
    query: str
    corpus: BothTexts
    match: bool
    hits: list[ReplayHit]
    filters_applied: BothFilters
    context_hash: BothTexts
    error: BothTexts


class GateAnswer(Shape):
    """What a gate said."""

    outcome: str | None
    reason_code: str | None


class ReplayGate(Shape):
    """One gate asked again."""

    seq: int
    gate: str
    rule_ref: str
    blocking: bool | None
    override: str | None
    status: Literal["reproduced", "differs", "not_reevaluated"]
    reason: str
    recorded: GateAnswer
    replayed: GateAnswer | None


class ReplayTool(Shape):
    """One tool call; `injected` where its recorded result is held whole."""

    seq: int
    call_id: str
    tool: str
    side_effect: str | None
    status: str | None
    result_seq: int | None
    injected: bool
    reason: str


class ReplayPatch(Shape):
    """One change made again in memory."""

    seq: int
    path: str
    kind: str
    status: Literal["reproduced", "differs", "not_reapplied"]
    reason: str
    recorded: str | None
    replayed: str | None


class ModelGap(Shape):
    """Why a side of a model step is not held whole."""

    side: Literal["prompt", "response"] | None
    mode: str
    reason: str


class ModelStep(Shape):
    """One model call."""

    seq: int
    call_id: str
    model: str
    step: str | None
    gaps: list[ModelGap]


class ModelSteps(Shape):
    """The model calls, by whether they can be reconstructed exactly."""

    reconstructable: list[ModelStep]
    not_reconstructable: list[ModelStep]


@derived(NotEvaluated)
class NotReevaluated:
    """Something that was not asked again, and why."""


class Reference(Shape):
    """A line or an object that is there."""

    ref: str
    what: str


class ReplayReport(Shape):
    """Printed by replay; the same value as replay_report.json."""

    v: Literal[1]
    match: bool | None
    verdict: str
    invocation: ReplayedInvocation
    as_of: ReplayPoint | None
    compare_to: ReplayPoint | None
    until: ReplayPoint | None
    epsilon: str
    integrity: ReplayIntegrity
    code: ReplayCode
    findings: list[ReplayFinding]
    decisions: list[ReplayDecision]
    retrievals: list[ReplayRetrieval]
    gates: list[ReplayGate]
    tools: list[ReplayTool]
    patches: list[ReplayPatch]
    model_steps: ModelSteps
    states_refolded: int
    not_reevaluated: list[NotReevaluated]
    references: list[Reference]


@derived(Again)
class AgainRow:
    """How one record came out; `code` says why it was refused."""

    verdict: Literal["match", "differs", "not_evaluated", "refused"]


class ReplayedAgain(Shape):
    """Printed by replay --all: of how many records which verdict, and each."""

    records: int
    match: int
    differs: int
    not_evaluated: int
    refused: int
    rows: list[AgainRow]


SHAPES = {
    "replayed-again": ReplayedAgain,
    "replay-report": ReplayReport,
    "cited": shape_of(citation.Cited),
}
