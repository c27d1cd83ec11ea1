"""doctor: what is wrong here and the command that fixes it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from specify_cli.cli import shell
from specify_cli.cli.command_table import Values
from specify_cli.cli.terminal.output import one_line, write_json, write_lines
from specify_cli.features.doctor.doctor import DoctorReport, Finding, examine, sweep
from specify_cli.features.sync.status import find_problems
from specify_cli.features.sync.trigger import CONSENT, sync_folder
from specify_cli.project.config import Project, load_project
from specify_cli.record.verify import ERROR

_LISTED = 5


def _sync(project: Project) -> Iterator[Finding]:
    """Yield what is wrong with delivery, where somebody agreed to one."""
    folder = sync_folder(project.root)
    if folder is not None and os.path.exists(f"{folder}/{CONSENT}"):
        yield from find_problems(project, os.environ)


def doctor(values: Values) -> int:
    """Name every finding; 1 if one is an error."""
    project, cache = load_project(shell.here(), shell.home(), lenient=True)
    swept = []
    if values["sweep"]:
        swept = list(sweep(project, shell.home(), shell.caller(), time.time_ns() // 1_000_000))
    findings = [*examine(project, cache, home=shell.home()), *_sync(project)]
    errors = sum(item.severity == ERROR for item in findings)
    if values["json"]:
        write_json(DoctorReport(errors == 0, findings, swept))
        return 1 if errors else 0
    lines = [f"closed as {item.outcome}: {item.invocation_id}" for item in swept]
    counts: dict[str, int] = {}
    for item in findings:
        counts[item.code] = counts.get(item.code, 0) + 1
        if counts[item.code] <= _LISTED:
            lines.append(f"{item.severity}: {item.code} {one_line(item.path)}: {one_line(item.message)}")
            lines += [f"  next: {one_line(item.repair)}"] if item.repair else []
    lines += [f"  … and {count - _LISTED} more {code}" for code, count in counts.items() if count > _LISTED]
    lines.append("nothing is wrong" if not findings else f"{errors} of {len(findings)} are errors")
    write_lines(lines)
    return 1 if errors else 0
