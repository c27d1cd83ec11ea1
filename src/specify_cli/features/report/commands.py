"""report: many runs at once."""

from __future__ import annotations

from shlex import join
from typing import NamedTuple

from specify_cli.cli import shell
from specify_cli.cli.filters import read_times
from specify_cli.cli.terminal.output import one_line, write_answer, write_note
from specify_cli.features.report.reading import read_runs
from specify_cli.features.report.rendering import render_markdown, render_report
from specify_cli.features.report.summing import Report, add_up_runs
from specify_cli.room import Values


class RunsReport(NamedTuple):
    """A report over the runs of a time, and the records that are not whole. `since` and `until`
    are as they were asked."""

    since: str
    until: str | None
    report: Report
    unread: tuple[str, ...]

    def say_time(self) -> str:
        """Return which time it is about."""
        return self.since if self.until is None else f"{self.since} until {self.until}"

    def spell_options(self) -> str:
        """Return the options of a command that lists the runs of this time."""
        until = () if self.until is None else ("--until", self.until)
        return join(("--since", self.since, *until))


def report(values: Values) -> int:
    """Tell of the runs of a time; 1 where a record is not whole."""
    runs_report = gather_runs(values)
    about = runs_report.report, runs_report.say_time()
    if values["format"] == "markdown":
        lines = render_markdown(*about)
    else:
        lines = render_report(*about, runs_report.spell_options())
    write_answer(values, runs_report, lines)
    return name_unread(runs_report)


def gather_runs(values: Values) -> RunsReport:
    """Return the report that a command asks for."""
    project, times = shell.read_project(), read_times(values)
    unread: list[str] = []
    summary = add_up_runs(read_runs(project, times, unread))
    return RunsReport(str(values["since"]), shell.get_text(values, "until"), summary, tuple(unread))


def name_unread(report: RunsReport) -> int:
    """Name the records that are not whole, and return the exit code."""
    for text in report.unread:
        write_note(f"not whole: {one_line(text)}")
    return 1 if report.unread else 0
