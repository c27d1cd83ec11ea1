"""report: many runs at once."""

from __future__ import annotations

from typing import NamedTuple

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer, write_note
from specify_cli.features.report.reading import read_runs
from specify_cli.features.report.rendering import render_markdown, render_report
from specify_cli.features.report.summing import Report, add_up_runs
from specify_cli.room import Values
from specify_cli.storage.queries import parse_moment


class RunsReport(NamedTuple):
    """A report over the runs since a moment, and the records that could not be read."""

    since: str
    report: Report
    unread: tuple[str, ...]


def report(values: Values) -> int:
    """Tell of the runs since a moment; 1 where a record could not be read."""
    runs_report = gather_runs(values)
    render = render_markdown if values["format"] == "markdown" else render_report
    write_answer(values, runs_report, render(runs_report.report, runs_report.since))
    return name_unread(runs_report)


def gather_runs(values: Values) -> RunsReport:
    """Return the report that a command asks for."""
    project, since = shell.read_project(), str(values["since"])
    unread: list[str] = []
    summary = add_up_runs(read_runs(project, parse_moment(since), unread))
    return RunsReport(since, summary, tuple(unread))


def name_unread(report: RunsReport) -> int:
    """Name the records that could not be read, and return the exit code."""
    for text in report.unread:
        write_note(f"not read: {one_line(text)}")
    return 1 if report.unread else 0
