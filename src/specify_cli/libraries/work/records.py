"""The records of one project, checked on any engine."""

from __future__ import annotations

from collections.abc import Iterator

from specify_cli.libraries.work.sharing import Engine, share_out
from specify_cli.project.config import Project
from specify_cli.record.findings import RecordReport
from specify_cli.storage.checking import list_groups, report_lost, verify_groups


def verify_shared(project: Project, engine: Engine) -> Iterator[RecordReport]:
    """Yield a report for every record the project's folders hold, in the order of their ids, each
    read once and let go.

    Raises EnvironmentFault where the engine does.
    """
    items = [(project.root, group) for group in list_groups(project.root)]
    for reports in share_out(
        engine, verify_groups, items, lambda item, why: report_lost(item[1], why)
    ):
        yield from reports
