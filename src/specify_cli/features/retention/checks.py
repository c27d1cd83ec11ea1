"""What `doctor` says of rules that cannot be used, and what `doctor --sweep` does where the config
says so: erase what is due."""

from __future__ import annotations

import time
from collections.abc import Iterator

from doctrine.load import ParseCache
from specify_cli.cli.commands.project.config import judge_settings
from specify_cli.cli.terminal.output import write_note
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError
from specify_cli.features.forget import erasing
from specify_cli.features.forget.orders import Order
from specify_cli.features.retention.due import Survey, survey
from specify_cli.features.retention.rules import read_rules, require_agreement
from specify_cli.project.checks import Finding
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import ERROR


def check_rules(project: Project, _: str | None) -> Iterator[Finding]:
    """Yield why rules in force or stated cannot be used, or not on a sweep: then none erases
    anything, and no person can accept them."""
    try:
        judge_settings(project.config.document)
        require_agreement(read_rules(project.config.retention))
    except CallerError as error:
        yield Finding(error.code, ERROR, layout.CONFIG, error.message, error.suggestion)


def erase_due(project: Project, cache: ParseCache, home: str | None) -> None:
    """Erase what is due by rules that a person accepted, where `retention_on_sweep` is true.

    Nothing is erased where rules contradict each other, or where the clock is doubted.
    """
    del cache, home
    if (
        project.config.document.get("retention_on_sweep") is not True
        or not project.config.retention
    ):
        return
    now = read_clock(time.time_ns)
    try:
        overview = survey(project, now)
    except CallerError as error:
        write_note(f"warning: retention erased nothing: {error.message}; {error.suggestion}")
        return
    if overview.plan.records and not overview.contradictions:
        path = erasing.erase(project, overview.plan, name_order(overview), now)
        write_note(f"retention erased {erasing.count_values(overview.plan)}; certificate: {path}")


def name_order(overview: Survey) -> Order:
    """Return the order of an erasure that rules demand."""
    names = sorted({name for row in overview.rows for name in row.due.values()})
    return Order("spec-kitty retention", "its time is over", None, ", ".join(names))
