"""report: many runs at once."""

from __future__ import annotations

from typing import NamedTuple

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_json, write_lines, write_note
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
    project = shell.read_project()
    since = str(values["since"])
    unread: list[str] = []
    told = add_up_runs(read_runs(project, parse_moment(since), unread))
    if values["json"]:
        write_json(RunsReport(since, told, tuple(unread)))
    else:
        render = render_markdown if values["format"] == "markdown" else render_report
        write_lines(render(told, since))
    for text in unread:
        write_note(f"not read: {one_line(text)}")
    return 1 if unread else 0
