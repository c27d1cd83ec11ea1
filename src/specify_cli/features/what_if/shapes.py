"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import Shape, shape_of
from specify_cli.features.what_if import backtest, bisect
from specify_cli.libraries.work.shapes import SourceFailure
from specify_cli.record.event_models import FilterApplied


class ContextHashes(Shape):
    """The governance context then and now."""

    original: str | None
    replay: str | None
    changed: bool


class Entry(Shape):
    """An artifact on one side."""

    uri: str
    digest: str | None


class ChangedEntry(Shape):
    """An artifact on both sides with other bytes."""

    uri: str
    original: str | None
    replay: str | None


class SelectedEntries(Shape):
    """The artifacts of both contexts, by uri."""

    added: list[Entry]
    removed: list[Entry]
    changed: list[ChangedEntry]
    common: int


class FilterChanges(Shape):
    """What policy did on one side alone, by rule, uri and action."""

    added: list[FilterApplied]
    removed: list[FilterApplied]


class ContextDiff(Shape):
    """What changed between two contexts."""

    context_hash: ContextHashes
    selected_entries: SelectedEntries
    filters_applied: FilterChanges


class Changed(Shape):
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


class Cause(Shape):
    """Why the answer differs; policy and config are listed and not applied."""

    cause: Literal["code", "data", "policy", "config"]
    applied: bool
    message: str
    changed: list[Changed]


class ChangedRule(Shape):
    """A rule in front of the agent whose text is another today, and the lines by which it
    differs."""

    uri: str
    diff: list[str]


class ReplayDiff(Shape):
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


class SourceBacktested(Shape):
    """A project or an archive: its report, or why there is none."""

    source: str
    report: shape_of(backtest.Backtest) | None  # type: ignore[valid-type]
    failure: SourceFailure | None


class SourcesBacktested(Shape):
    """Printed by backtest with --source; the table is of all of them."""

    sources: list[SourceBacktested]
    table: list[shape_of(backtest.Row)]  # type: ignore[valid-type]


SHAPES = {
    "backtest": shape_of(backtest.Backtest),
    "culprit": shape_of(bisect.Culprit),
    "sources-backtested": SourcesBacktested,
    "replay-diff": ReplayDiff,
}
