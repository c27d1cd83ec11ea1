"""doctor: what is wrong here and the command that fixes it."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from specify_cli.cli import shell
from specify_cli.cli.tables.points import call_fill, is_own, list_fills, load, run_briefly
from specify_cli.cli.tables.strangers import read_strangers
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import InvocationError
from specify_cli.features.doctor.doctor import DoctorReport, Rooms, Swept, examine, guard, sweep
from specify_cli.project.checks import Finding
from specify_cli.project.config import Project, load_project
from specify_cli.record.findings import ERROR, WARNING
from specify_cli.room import Values

_LISTED = 5
# A check of another package may take so many times as long as what an agent waits for.
_PATIENCE = 12


def _read_rooms(project: Project) -> Rooms:
    """Return the checks that rooms bring. What cannot begin is a check that fails."""
    home = shell.home()
    call = partial(_call_in_time, set())

    def check(run: str, subject: Project) -> Any:
        return call(run, lambda: load(run)(subject, home))

    of_project = [(fill.run, partial(check, fill.run)) for fill in list_fills("checks")]

    def list_begun(point: str, *arguments: object) -> Iterator[tuple[str, Any]]:
        for fill in list_fills(point):
            begin = partial(call_fill, fill, project, *arguments)
            try:
                begun = call(fill.run, begin)
            except (OSError, InvocationError, RuntimeError) as error:
                of_project.append((fill.run, partial(_fail, error)))
                continue
            if begun is not None:
                yield fill.run, begun

    of_records = [
        (run, lambda report, run=run, begun=begun: call(run, partial(begun, report)))
        for run, begun in list_begun("record_checks", home)
    ]
    streams = [stream for _, stream in list_begun("record_streams")]
    return Rooms(of_records, of_project, streams)


def _fail(error: Exception, _: Project) -> Iterator[Finding]:
    raise error


def _call_in_time(late: set[str], run: str, work: Callable[[], Any]) -> Any:
    """Return what a function of a room returns, and of another package within a minute: then a list
    of what it yields. One that was `late` is called no more. Raises what fails in it, RuntimeError
    where it does not end."""
    if is_own(run):
        return work()

    def finish() -> Any:
        value = work()
        return list(value) if hasattr(value, "__next__") else value

    if run in late:
        return ()
    try:
        with redirect_stdout(sys.stderr):
            return run_briefly(finish, _PATIENCE)
    except TimeoutError as error:
        late.add(run)
        raise RuntimeError(error) from error


def _list_left_out() -> list[Finding]:
    """Return a finding for each room of another package that is left out."""
    strangers = read_strangers(anew=True)
    repair = "repair or uninstall the package, or report it to whoever wrote it"
    left_out = strangers.broken.items()
    return [Finding("ROOM_LEFT_OUT", WARNING, name, why, repair) for name, why in left_out]


def doctor(values: Values) -> int:
    """Name every finding; 1 if one is an error."""
    project, cache = load_project(shell.here(), shell.home(), lenient=True)
    done: list[Swept | Finding] = []
    if values["sweep"]:
        for fill in list_fills("sweep"):
            done += guard(fill.run, partial(call_fill, fill, project, cache), shell.home())
        done += sweep(project, shell.home(), shell.caller(), time.time_ns() // 1_000_000)
    swept = [item for item in done if isinstance(item, Swept)]
    left_out = _list_left_out()  # first: what was repaired counts at once
    findings = [
        item._replace(repair=shell.reach(item.repair))
        for item in (*done, *examine(project, cache, _read_rooms(project)), *left_out)
        if isinstance(item, Finding)
    ]
    errors = sum(item.severity == ERROR for item in findings)
    lines = [f"closed as {item.outcome}: {item.invocation_id}" for item in swept]
    counts: Counter[str] = Counter()
    for item in findings:
        counts[item.code] += 1
        if counts[item.code] <= _LISTED:
            lines.append(
                f"{item.severity}: {item.code} {one_line(item.path)}: {one_line(item.message)}"
            )
            lines += [f"  next: {one_line(item.repair)}"] if item.repair else []
    lines += [
        f"  … and {count - _LISTED} more {code}"
        for code, count in counts.items()
        if count > _LISTED
    ]
    lines.append("nothing is wrong" if not findings else f"{errors} of {len(findings)} are errors")
    write_answer(values, DoctorReport(errors == 0, findings, swept), lines)
    return 1 if errors else 0
