"""The JSON that the commands of the core print."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from doctrine.agent_profiles import profile
from specify_cli.cli.schemas.shapes import Shape, derived, shape_of
from specify_cli.invocation.ends import closing, opening
from specify_cli.record import findings as verification
from specify_cli.record.event_models import FilterApplied, Hit
from specify_cli.record.reading import done_note, evidence, usage
from specify_cli.routing import router
from specify_cli.storage import queries

Outcome = Literal["done", "failed", "abandoned"]


@derived(opening.CloseContract)
class CloseContract:
    """How the host closes the record."""

    outcomes: list[Outcome]


@derived(opening.InvocationPayload)
class InvocationPayload:
    """Printed by do, ask and advise."""

    router_confidence: Literal["exact", "canonical_verb", "domain_keyword"]
    mode_of_work: Literal["advisory", "task_execution"]


@derived(closing.Completion)
class Completion:
    """Printed by profile-invocation complete."""


@derived(router.RouterDecision)
class RouteDecision:
    """Printed by route; the last four only with --explain."""

    confidence: Literal["exact", "canonical_verb", "domain_keyword"]
    token: str | None = None
    rule: str | None = None
    languages: list[str] | None = None
    considered: list[dict[str, Any]] | None = None


@derived(queries.Row)
class InvocationRow:
    """One element of what invocations list prints."""

    status: Literal["open", "closed"]


class Context(Shape):
    """Where an invocation's governance context came from."""

    hash: str | None
    available: bool
    snapshot: str | None
    query: str | None
    hits: list[Hit]
    filters_applied: list[FilterApplied]
    error: str | None
    printed: dict[str, Any] | None


class Artifact(Shape):
    """A linked file."""

    ref: str
    digest: str


class Evidence(Shape):
    """What an invocation left as proof of work."""

    evidence_ref: str | None
    evidence_name: str | None
    artifacts: list[Artifact]
    commits: list[str]


@derived(verification.Finding)
class Finding:
    """One problem at one place."""

    severity: Literal["error", "warning", "info"]


class Invocation(InvocationRow):
    """Printed by invocations show."""

    context: Context
    evidence: Evidence
    events: list[dict[str, Any]]
    annexes: list[dict[str, Any]]
    imported: dict[str, str] | None
    note: list[shape_of(done_note.Remark)]  # type: ignore[valid-type]
    not_seen: list[str]
    usage: list[shape_of(usage.UsageRow)]  # type: ignore[valid-type]
    witnesses: shape_of(evidence.Evidence) | None  # type: ignore[valid-type]
    findings: list[Finding]


class RecordReport(Shape):
    """What verify says of one record it was asked for."""

    file: str
    invocation_id: str | None
    sealed: bool
    status: Literal["open", "closed"]
    lines: int
    tip: str | None
    erased: int
    verdict: Literal["intact", "not_intact", "unsealed"]
    proven: Literal["seals and chain", "nothing"]


class Verdicts(Shape):
    """Of how many records verify says what."""

    intact: int
    not_intact: int
    unsealed: int


class VerifyReport(Shape):
    """Printed by invocations verify; `reports` is filled when a target was named."""

    ok: bool
    verdict: Literal["intact", "incomplete", "not_intact", "unsealed", "partly_sealed", "empty"]
    verdicts: Verdicts
    records: int
    errors: int
    warnings: int
    level: Literal["none", "intact", "linked", "logged", "witnessed"]
    erased: int
    proven: str
    not_proven: list[str]
    findings: list[Finding]
    reports: list[RecordReport]


@derived(profile.ProfileRow)
class ProfileRow:
    """One element of what profiles list prints."""

    origin: Literal["shipped", "project"]


class Profile(ProfileRow):
    """Printed by profiles show."""

    digest: str
    document: dict[str, Any]


class CharterContext(Shape):
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


class Deciding(Shape):
    """The policy rule that decided on an artifact."""

    rule_id: str
    action: Literal["allow", "redact"]
    reason: str


class CharterArtifact(Shape):
    """Printed by charter context with --uri."""

    uri: str
    digest: str
    title: str
    text: str
    policy: Deciding | None


class Recorded(Shape):
    """Printed by profile-invocation record and commit; each event with its line, or as it would be
    written."""

    invocation_id: str
    recorded: int
    duplicates: int
    durable: bool
    events: list[dict[str, Any]]
    annexes: list[str]
    warnings: list[str]


class Initialised(Shape):
    """Printed by init."""

    root: str
    created: bool
    changed: bool
    project_uuid: str | None
    trail: Literal["private", "committed", "ref", "sealed"]
    config: str


class Accepted(Shape):
    """Printed by config accept: what was weaker than what counted before."""

    root: str
    accepted: list[str]


class Reindexed(Shape):
    """Printed by invocations reindex."""

    rows: int
    index: str
    taken_in: list[str]


class Error(BaseModel):
    """The object on stderr when a command with --json is refused."""

    model_config = ConfigDict(extra="forbid")

    error_code: str
    message: str
    suggestion: str
    candidates: list[dict[str, Any]] | None = None


SHAPES = {
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
    "recorded": Recorded,
    "initialised": Initialised,
    "accepted": Accepted,
    "reindexed": Reindexed,
    "error": Error,
}
