"""The JSON every command prints, as models; docs/schemas/ is generated from them.

`python -m specify_cli.cli.schemas.shapes docs` writes the schemas and the tables of events; tests compare them with the
folder and validate what the real commands print.
"""

from __future__ import annotations

import builtins
import collections.abc
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from doctrine.agent_profiles import profile
from specify_cli.features.archives import many as archives
from specify_cli.features.capsule import filling
from specify_cli.features.charter_setup import lint, synthesize
from specify_cli.features.doctor import doctor
from specify_cli.features.hooks.settings import detection
from specify_cli.features.models import other_model
from specify_cli.features.replay import citation, judge
from specify_cli.features.search import database, why
from specify_cli.features.sessions import importer
from specify_cli.features.skills import skills
from specify_cli.features.sync import status
from specify_cli.features.sync.sending import outbox, push, records
from specify_cli.features.sync.status import TokenState
from specify_cli.features.view import page
from specify_cli.features.what_if import backtest, bisect
from specify_cli.invocation.caller import HOOKED
from specify_cli.invocation.ends import closing, opening
from specify_cli.libraries.archive import archive
from specify_cli.libraries.comparison import compare
from specify_cli.libraries.wire import contract
from specify_cli.record import state as run_state
from specify_cli.record import verify as verification
from specify_cli.record.event_models import FilterApplied, Hit, described_row, event_schema, line_row
from specify_cli.record.event_table import EVENTS
from specify_cli.record.reading import done_note
from specify_cli.routing import router
from specify_cli.storage import queries

DIALECT = "https://json-schema.org/draft/2020-12/schema"
T = TypeVar("T")
Outcome = Literal["done", "failed", "abandoned"]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def derived(source: Any) -> Callable[[type[T]], type[T]]:
    """Make a shape of a value the library returns; the class names only the members that say more, or are added."""

    def build(stated: type[T]) -> type[T]:
        own = {
            name: _evaluate(annotation, vars(sys.modules[__name__]))
            for name, annotation in stated.__annotations__.items()
        }
        defaults = {name: getattr(stated, name) for name in own if hasattr(stated, name)}
        _SHAPES_OF[source] = _make_shape(source, stated.__name__, stated.__doc__, own, defaults)
        return _SHAPES_OF[source]  # type: ignore[return-value]

    return build


_SHAPES_OF: dict[object, type[BaseModel]] = {}


def shape_of(source: Any) -> type[BaseModel]:
    """Return the shape of a value the library returns: an object of its members, and so are NamedTuples among them."""
    if source not in _SHAPES_OF:
        _SHAPES_OF[source] = _make_shape(source, source.__name__, source.__doc__, {}, {})
    return _SHAPES_OF[source]


def _make_shape(
    source: Any, name: str, about: str | None, own: dict[str, Any], defaults: dict[str, Any]
) -> type[BaseModel]:
    known = _Names(source)
    of_source = {name: _evaluate(text, known) for name, text in source.__annotations__.items() if name not in own}
    fields: dict[str, Any] = {
        name: (own.get(name, of_source.get(name)), defaults.get(name, ...))
        for name in dict.fromkeys((*source.__annotations__, *own))
    }
    return create_model(name, __base__=_Shape, __doc__=about, __module__=__name__, **fields)


class _Names(dict[str, Any]):
    """The names in a module, each NamedTuple and TypedDict among them as its shape."""

    def __init__(self, source: Any) -> None:
        self._modules = (vars(sys.modules[source.__module__]), vars(typing), vars(collections.abc), vars(builtins))

    def __missing__(self, name: str) -> Any:
        value = next(module[name] for module in self._modules if name in module)
        named = isinstance(value, type) and (hasattr(value, "_fields") or typing.is_typeddict(value))
        return shape_of(value) if named else value


def _evaluate(annotation: Any, known: Any) -> Any:
    text = getattr(annotation, "__forward_arg__", annotation)
    return eval(text, {}, known) if isinstance(text, str) else text


def _one_of(names: Iterable[str]) -> Any:
    """Describe a text out of these; a schema lists them."""
    return Field(json_schema_extra={"enum": list(names)})


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
    findings: list[Finding]


class RecordReport(_Shape):
    """What verify says of one record it was asked for."""

    file: str
    invocation_id: str | None
    sealed: bool
    status: Literal["open", "closed"]
    lines: int
    tip: str | None
    verdict: Literal["intact", "not_intact", "unsealed"]
    proven: Literal["seals and chain", "nothing"]


class Verdicts(_Shape):
    """Of how many records verify says what."""

    intact: int
    not_intact: int
    unsealed: int


class VerifyReport(_Shape):
    """Printed by invocations verify; `reports` is filled when a target was named."""

    ok: bool
    verdict: Literal["intact", "incomplete", "not_intact", "unsealed", "partly_sealed", "empty"]
    verdicts: Verdicts
    records: int
    errors: int
    warnings: int
    level: Literal["none", "intact", "linked", "logged", "witnessed"]
    proven: str
    not_proven: list[str]
    findings: list[Finding]
    reports: list[RecordReport]


class _SignedState(_Shape):
    origin: str
    size: int
    root: str


class SignedCheckpoint(_SignedState):
    """Printed by trail checkpoint: `checkpoint` is the signed note, `keys` are its verifier keys."""

    keys: list[str]
    checkpoint: str


class TrailEnrolled(_Shape):
    """Printed by trail enroll: the keys an SSH key vouches for, and the signed statement."""

    keys: list[str]
    enrollment: str


class TrailProof(_SignedState):
    """Printed by trail proof: `proof` is a C2SP tlog-proof of the leaf with this number."""

    invocation_id: str
    kind: Literal["start", "close"]
    seal: str
    number: int
    proof: str


class TestimonyWritten(_Shape):
    """Printed by invocations export --format testimony."""

    path: str
    invocation_id: str
    approvals: int
    sha256: str


class TraceWritten(_Shape):
    """Printed by invocations export --format otlp, perfetto and agent-trace."""

    format: Literal["otlp", "perfetto", "agent-trace"]
    path: str | None
    endpoint: str | None
    invocation_ids: list[str]
    size: int
    sha256: str
    not_carried: list[str]
    not_seen: dict[str, list[str]]
    withheld_lines: int


class TrailExported(_SignedState):
    """Printed by trail export."""

    folder: str
    files: int


@derived(profile.ProfileRow)
class ProfileRow:
    """One element of what profiles list prints."""

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


@derived(synthesize.Answers)
class InterviewAnswers:
    """What a charter was synthesized from."""


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


@derived(compare.Mismatch)
class Mismatch:
    """One difference between two runs."""

    code: Annotated[str, _one_of(compare.MISMATCHES)]
    expected: str | int | None
    actual: str | int | None


@derived(compare.Details)
class ComparisonDetails:
    """A comparison in its parts."""


@derived(compare.Warned)
class Warned:
    """What is no mismatch and should be known."""

    code: Annotated[str, _one_of(compare.WARNINGS)]


@derived(compare.Difference)
class Difference:
    """What a mismatch is of, and the lines by which its texts differ."""

    code: Annotated[str, _one_of(compare.MISMATCHES)]
    seqs: list[int | None]
    diff: list[str]


@derived(compare.ReplayResult)
class Comparison:
    """Printed by invocations compare; the last three members stand where both sides are records of ours."""

    details: ComparisonDetails
    compared: list[str] | None = None
    not_compared: list[str] | None = None
    differences: list[Difference] | None = None


class Recorded(_Shape):
    """Printed by profile-invocation record and commit; each event with its line, or as it would be written."""

    invocation_id: str
    recorded: int
    duplicates: int
    durable: bool
    events: list[dict[str, Any]]
    annexes: list[str]
    warnings: list[str]


@derived(run_state.Usage)
class Usage:
    """What a run has spent."""


class StepPlace(_Shape):
    """A step and which time it is."""

    step: str
    ordinal: int


@derived(run_state.StepEnd)
class StepEnd:
    """A step that ended."""


@derived(run_state.ExecutionState)
class StateOfRun:
    """Where a run stands."""

    status: Literal["none", "open", "closed"]
    current_step: StepPlace | None
    failed_steps: list[StepPlace]
    open_steps: list[StepPlace]


class State(StateOfRun):
    """Printed by invocations state."""

    state_hash: str


class CallInDoubt(_Shape):
    """A call that began and has no result."""

    call_id: str
    attempt: str
    tool: str
    step: str | None
    side_effect: str
    safe_again: bool


class ResultNotKept(_Shape):
    """A result that a resume cannot give back; `needed` where the program is sure to ask for it."""

    seq: int
    what: str
    reason: str
    needed: bool


class ResumePlan(_Shape):
    """Printed by resume without a program."""

    invocation_id: str
    resumable: bool
    first_incomplete: StepPlace | None
    in_doubt: list[CallInDoubt]
    not_kept: list[ResultNotKept]
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


class WithheldLine(_Shape):
    """A line a safe export left out, or with `file` an annex."""

    seq: int
    event: str
    why: Literal["redaction", "captured-in-full", "recovered", "closing-line-withheld"]
    rules: dict[str, int]
    file: str | None


class ExportedRecord(_Shape):
    """A record in an export."""

    invocation_id: str
    file: str
    lines: int
    tip: str | None
    status: Literal["open", "closed"]
    withheld: list[WithheldLine]


class WithheldObject(_Shape):
    """An object an export left out."""

    digest: str
    why: str


@derived(archive.Exported)
class Exported:
    """Printed by invocations export."""

    records: list[ExportedRecord]
    withheld_objects: list[WithheldObject]


@derived(archive.Imported)
class Imported:
    """Printed by invocations import."""


@derived(judge.Finding)
class ReplayFinding:
    """One difference between what was recorded and what came out again."""

    code: Annotated[str, _one_of(judge.FINDINGS)]
    severity: Literal["error", "warning"]
    part: Literal["router", "execution", "retrieval", "context", "policy", "gate", "patch", "state"]
    expected: Any
    actual: Any


class ReplayedInvocation(_Shape):
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


class ReplayPoint(_Shape):
    """A checkpoint."""

    seq: int
    label: str | None
    corpus: str
    stage: str | None


class ReplayNote(_Shape):
    """What verify found that forbids no replay."""

    code: str
    severity: str
    seq: int | None
    message: str


class ReplayIntegrity(_Shape):
    """The record was verified before it was replayed."""

    intact: Literal[True]
    lines: int
    tip: str | None
    objects: int
    notes: list[ReplayNote]


class ReplayCode(_Shape):
    """The code that decided and the code that replayed."""

    recorded: dict[str, int | str | None]
    current: dict[str, int | str | None]


class ReplayDecision(_Shape):
    """One field of the routing."""

    field: str
    recorded: str | None
    replayed: str | None


class RankedHit(_Shape):
    """A hit on one side."""

    rank: int | None
    score: str | None
    digest: str | None
    explain: dict[str, str] | None


class ReplayHit(_Shape):
    """One artifact on both sides; null where it is not there."""

    uri: str
    recorded: RankedHit | None
    replayed: RankedHit | None


class BothTexts(_Shape):
    """A value on both sides."""

    recorded: str | None
    replayed: str | None


class BothFilters(_Shape):
    """What policy decided, on both sides."""

    recorded: list[FilterApplied] | None
    replayed: list[FilterApplied]


class ReplayRetrieval(_Shape):
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


class GateAnswer(_Shape):
    """What a gate said."""

    outcome: str | None
    reason_code: str | None


class ReplayGate(_Shape):
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


class ReplayTool(_Shape):
    """One tool call; `injected` where its recorded result is held whole."""

    seq: int
    call_id: str
    tool: str
    side_effect: str | None
    status: str | None
    result_seq: int | None
    injected: bool
    reason: str


class ReplayPatch(_Shape):
    """One change made again in memory."""

    seq: int
    path: str
    kind: str
    status: Literal["reproduced", "differs", "not_reapplied"]
    reason: str
    recorded: str | None
    replayed: str | None


class ModelGap(_Shape):
    """Why a side of a model step is not held whole."""

    side: Literal["prompt", "response"] | None
    mode: str
    reason: str


class ModelStep(_Shape):
    """One model call."""

    seq: int
    call_id: str
    model: str
    step: str | None
    gaps: list[ModelGap]


class ModelSteps(_Shape):
    """The model calls, by whether they can be reconstructed exactly."""

    reconstructable: list[ModelStep]
    not_reconstructable: list[ModelStep]


class NotReevaluated(_Shape):
    """Something that was not asked again, and why."""

    seq: int | None
    what: str
    reason: str


class Reference(_Shape):
    """A line or an object that is there."""

    ref: str
    what: str


class ReplayReport(_Shape):
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


class ContextHashes(_Shape):
    """The governance context then and now."""

    original: str | None
    replay: str | None
    changed: bool


class Entry(_Shape):
    """An artifact on one side."""

    uri: str
    digest: str | None


class ChangedEntry(_Shape):
    """An artifact on both sides with other bytes."""

    uri: str
    original: str | None
    replay: str | None


class SelectedEntries(_Shape):
    """The artifacts of both contexts, by uri."""

    added: list[Entry]
    removed: list[Entry]
    changed: list[ChangedEntry]
    common: int


class FilterChanges(_Shape):
    """What policy did on one side alone, by rule, uri and action."""

    added: list[FilterApplied]
    removed: list[FilterApplied]


class ContextDiff(_Shape):
    """What changed between two contexts."""

    context_hash: ContextHashes
    selected_entries: SelectedEntries
    filters_applied: FilterChanges


class Changed(_Shape):
    """One thing that is another today."""

    what: Literal[
        "routing",
        "rank",
        "score",
        "code",
        "artifact",
        "unreadable",
        "shipped",
        "profile",
        "router",
        "facts",
        "policy",
        "settings",
        "redaction",
        "capture",
    ]
    name: str
    original: str | None
    today: str | None


class Cause(_Shape):
    """Why the answer differs; policy and config are listed and not applied."""

    cause: Literal["code", "data", "policy", "config"]
    applied: bool
    message: str
    changed: list[Changed]


class ChangedRule(_Shape):
    """A rule in front of the agent whose text is another today, and the lines by which it differs."""

    uri: str
    diff: list[str]


class ReplayDiff(_Shape):
    """Printed by replay with --against current; `reason` where the child could not be written."""

    original_invocation_id: str
    replay_invocation_id: str | None
    recorded: bool
    reason: str | None
    diff: ContextDiff
    causes: list[Cause]
    changed_rules: list[ChangedRule]
    transitions: list[shape_of(backtest.Transition)]  # type: ignore[valid-type]
    not_evaluated: list[shape_of(backtest.Skipped)]  # type: ignore[valid-type]


@derived(other_model.AnswerDiff)
class AnswerDiff:
    """How two answers differ."""


@derived(other_model.AnswerCompared)
class AnswerCompared:
    """A model call and how another model answered it; `reason` says why it was not evaluated."""

    verdict: Literal["same", "differs", "not_evaluated"]


@derived(other_model.ModelReplay)
class ModelReplay:
    """Printed by replay with --ab."""


class SourceFailure(_Shape):
    """Why nothing can be said of a source: a code of errors, or NOT_CHECKED where no worker survived it."""

    code: str
    message: str


class SourceVerified(_Shape):
    """Printed by invocations verify --source, for each project and archive: its report, or why there is none."""

    source: str
    report: VerifyReport | None
    failure: SourceFailure | None


class SourceBacktested(_Shape):
    """A project or an archive: its report, or why there is none."""

    source: str
    report: shape_of(backtest.Backtest) | None  # type: ignore[valid-type]
    failure: SourceFailure | None


class SourcesBacktested(_Shape):
    """Printed by backtest with --source; the table is of all of them."""

    sources: list[SourceBacktested]
    table: list[shape_of(backtest.Row)]  # type: ignore[valid-type]


class AgainRow(_Shape):
    """How one record came out; `code` says why it was refused."""

    source: str
    invocation_id: str | None
    file: str
    verdict: Literal["match", "differs", "not_evaluated", "refused"]
    code: str | None
    message: str


class ReplayedAgain(_Shape):
    """Printed by replay --all: of how many records which verdict, and each."""

    records: int
    match: int
    differs: int
    not_evaluated: int
    refused: int
    rows: list[AgainRow]


class Initialised(_Shape):
    """Printed by init."""

    root: str
    created: bool
    changed: bool
    project_uuid: str | None
    trail: Literal["private", "committed"]
    config: str


class Accepted(_Shape):
    """Printed by config accept: what was weaker than what counted before."""

    root: str
    accepted: list[str]


class Reindexed(_Shape):
    """Printed by invocations reindex."""

    rows: int
    index: str
    taken_in: list[str]


class Brief(_Shape):
    """Printed by intake."""

    path: str
    bytes: int
    sha256: str


HarnessName = Annotated[str, _one_of(HOOKED)]


@derived(detection.HarnessStatus)
class HarnessStatus:
    """A harness; `command` is what it runs, `source` the documentation its settings and payloads are from."""

    harness: HarnessName


class HooksChange(_Shape):
    """What was done to one settings file, or would be."""

    harness: HarnessName
    scope: Literal["project", "user"]
    path: str
    state: Literal["installed", "updated", "unchanged", "removed", "deleted", "absent"]
    diff: str | None
    note: str | None


class HooksRefusal(_Shape):
    """A settings file that was refused and left alone."""

    harness: HarnessName
    error_code: str
    message: str
    suggestion: str
    candidates: list[dict[str, Any]] | None = None


class HooksChanges(_Shape):
    """Printed by hooks install and uninstall."""

    dry_run: bool
    changes: list[HooksChange]
    refused: list[HooksRefusal]


class SkillState(_Shape):
    """A file of ours in a project."""

    path: str
    state: skills.State


class SetUp(_Shape):
    """Printed by setup."""

    root: str
    trail: Literal["private", "committed"]
    config_created: bool
    charter: list[str]
    hooks: list[HooksChange]
    refused: list[HooksRefusal]
    skills: list[SkillState]


class HookedEvent(_Shape):
    """One event a hook call stands for; `phase` and `key` tell it from others of its session."""

    phase: Literal["pre", "post", "other"]
    key: str
    body: dict[str, Any]


class HooksTest(_Shape):
    """Printed by hooks test."""

    harness: HarnessName
    hook_event: str
    session_id: str | None
    subagent: str | None
    cwd: str | None
    started_invocation: str | None
    events: list[HookedEvent]


@derived(outbox.Counts)
class SyncCounts:
    """Envelopes by state; `held` wait behind a refused Started; `excluded` counts records by reason."""


SyncLevel = Literal["ids", "metadata", "full", "records"]


@derived(status.SyncStatus)
class SyncStatus:
    """Printed by sync status; counts are null where nobody agreed to an endpoint. A proposal is unchecked."""

    level: SyncLevel | None


@derived(contract.Gap)
class SyncGap:
    """One thing the public contract has no place for, and how it travels."""


class SyncEnabled(_Shape):
    """Printed by sync enable: what was agreed to, and what leaves for one record."""

    enabled: Literal[True]
    endpoint: str
    level: SyncLevel
    project_uuid: str
    consented_at: str
    listener: str
    log: str
    whole: str
    token: TokenState
    records: int
    preview: list[dict[str, Any]]
    preview_is_real: bool
    preview_record: list[dict[str, Any]]
    preview_objects: list[dict[str, Any]]
    gaps: list[SyncGap]


class SyncDisabled(_Shape):
    """Printed by sync disable."""

    enabled: Literal[False]
    was_enabled: bool


@derived(push.Pushed)
class SyncPushed:
    """Printed by sync push and sync retry."""

    state: Literal["delivered", "partial", "unreachable", "stopped", "disabled"]
    left: SyncCounts
    records: shape_of(records.RecordsDelivered) | None  # type: ignore[valid-type]


class SyncPlanned(_Shape):
    """Printed by sync push --dry-run."""

    endpoint: str
    level: SyncLevel
    pending: int
    records: int | None
    events: list[dict[str, Any]]


class Error(BaseModel):
    """The object on stderr when a command with --json is refused."""

    model_config = ConfigDict(extra="forbid")

    error_code: str
    message: str
    suggestion: str
    candidates: list[dict[str, Any]] | None = None


class CollectorListening(BaseModel):
    """collector serve: the one line it prints once it listens."""

    model_config = ConfigDict(extra="forbid")

    url: str
    host: str
    port: int
    endpoint: str


class LeftOut(_Shape):
    """A record that could not be read for an export."""

    invocation_id: str
    why: str


class TablesExported(_Shape):
    """invocations export --parquet: how many rows each table has, and the records that could not be read."""

    path: str
    tables: dict[str, int]
    left_out: list[LeftOut]


class LedgerExported(_Shape):
    """collector export: how many invocations and whole records in how many files; `left_out` could not be read."""

    path: str
    invocations: int
    records: int
    files: int
    left_out: list[LeftOut]


class CollectorToken(BaseModel):
    """collector token list: one token, without its secret; `projects` null is all, `rate` requests a minute.

    `last_used_at` is true to the hour.
    """

    model_config = ConfigDict(extra="forbid")

    id: str
    name: str
    scopes: list[Literal["send", "read", "witness"]]
    projects: list[str] | None
    rate: int | None
    created_at: str
    revoked_at: str | None
    expires_at: str | None
    last_used_at: str | None


class CollectorTokenCreated(CollectorToken):
    """collector token create: the token with its secret, shown this once."""

    token: str


class ViewListening(BaseModel):
    """view: the one line it prints once it listens; the address opens once."""

    model_config = ConfigDict(extra="forbid")

    url: str
    host: str
    port: int


SHAPES: dict[str, Any] = {
    "invocation-payload": InvocationPayload,
    "completion": Completion,
    "route-decision": RouteDecision,
    "invocation-row": InvocationRow,
    "invocation": Invocation,
    "page": shape_of(page.Page),
    "search-hit": shape_of(database.Hit),
    "capsule": shape_of(filling.Capsule),
    "explanation": shape_of(why.Explanation),
    "backtest": shape_of(backtest.Backtest),
    "culprit": shape_of(bisect.Culprit),
    "verify-report": VerifyReport,
    "source-verified": SourceVerified,
    "sources-backtested": SourcesBacktested,
    "replayed-again": ReplayedAgain,
    "archived": shape_of(archives.Archived),
    "signed-checkpoint": SignedCheckpoint,
    "trail-enrolled": TrailEnrolled,
    "trail-proof": TrailProof,
    "trail-exported": TrailExported,
    "testimony-written": TestimonyWritten,
    "trace-written": TraceWritten,
    "profile-row": ProfileRow,
    "profile": Profile,
    "charter-context": CharterContext,
    "charter-artifact": CharterArtifact,
    "charter-synthesis": CharterSynthesis,
    "charter-lint": shape_of(lint.LintReport),
    "recorded": Recorded,
    "comparison": Comparison,
    "execution-state": State,
    "resume-plan": ResumePlan,
    "resumption": Resumption,
    "reexecution": Reexecution,
    "exported": Exported,
    "imported": Imported,
    "sessions-imported": shape_of(importer.SessionsImported),
    "replay-report": ReplayReport,
    "cited": shape_of(citation.Cited),
    "replay-diff": ReplayDiff,
    "model-replay": ModelReplay,
    "hooks-status": shape_of(detection.HooksStatus),
    "hooks-changes": HooksChanges,
    "hooks-test": HooksTest,
    "skills-installed": shape_of(skills.SkillsInstalled),
    "initialised": Initialised,
    "set-up": SetUp,
    "accepted": Accepted,
    "reindexed": Reindexed,
    "brief": Brief,
    "sync-status": SyncStatus,
    "sync-enabled": SyncEnabled,
    "sync-disabled": SyncDisabled,
    "sync-pushed": SyncPushed,
    "sync-planned": SyncPlanned,
    "doctor-report": shape_of(doctor.DoctorReport),
    "collector-listening": CollectorListening,
    "tables-exported": TablesExported,
    "ledger-exported": LedgerExported,
    "collector-token": CollectorToken,
    "collector-token-created": CollectorTokenCreated,
    "view-listening": ViewListening,
    "error": Error,
}


def schemas() -> dict[str, dict[str, Any]]:
    """Return every schema by name."""
    return {name: schema_of(name) for name in SHAPES} | {"event": event_schema()}


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a shape in SHAPES."""
    return {"$schema": DIALECT, **SHAPES[name].model_json_schema()}


def write_schemas(folder: Path) -> None:
    """Write one file per schema."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_event_rows(docs: Path) -> None:
    """Bring the rows of events in docs/format.md and docs/api.md up to the table."""
    for name, row_of in (("format.md", line_row), ("api.md", described_row)):
        text = (docs / name).read_text(encoding="utf-8")
        for event in EVENTS:
            text = re.sub(rf"^\| `{event}` \|.*$", lambda _: row_of(event), text, flags=re.M)  # noqa: B023
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]) / "schemas")
    write_event_rows(Path(sys.argv[1]))
