"""A report for people: as text for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctrine.text import count
from specify_cli.cli.terminal.output import escape_markdown, one_line, say_request
from specify_cli.features.report.summing import HotFile, Report, Run, Share
from specify_cli.record.reading.usage import show_cost

_MOST_ROWS = 10
# What lists the records behind a number.
_LISTED = {
    "asked by": "spec-kitty invocations list --actor NAME",
    "profiles": "spec-kitty invocations list --profile NAME",
    "rules in front of agents": "spec-kitty invocations list --rule NAME",
}


def render_report(report: Report, since: str, time: str) -> Iterator[str]:
    """Yield the report as lines of text; ids are cut to their last six characters.

    `time` are the options of a command that lists its runs.
    """
    yield from (line for line, _ in say_whole(report, since))
    for title, ids in list_kinds(report):
        if ids:
            yield ""
            yield f"{title}: {len(ids)}"
            yield from (f"  {_describe_run(run)}" for run in pick_runs(report, ids)[:_MOST_ROWS])
            yield from _say_rest(len(ids), _MOST_ROWS, "  ")
    for title, shares in list_shares(report):
        yield ""
        yield title
        yield from (f"  {_describe_share(share)}" for share in shares[:_MOST_ROWS])
        yield from _say_rest(len(shares), _MOST_ROWS, "  ")
        yield f"  each: {_LISTED.get(title, 'spec-kitty report --json')} {time}"
    if report.files:
        yield ""
        yield "files changed most"
        for one in report.files[:_MOST_ROWS]:
            runs = count(one.runs, "run")
            yield f"  {one_line(one.path, 60)}  {runs}, {say_size(one)}"
        yield from _say_rest(len(report.files), _MOST_ROWS, "  ")
        yield f"  each: spec-kitty invocations list --path FILE {time}"


def render_markdown(report: Report, since: str) -> Iterator[str]:
    """Yield the report as Markdown; whatever a record says means nothing to Markdown or HTML."""
    yield "# What agents did"
    yield ""
    yield from (f"- {_escape(line)}" for line, _ in say_whole(report, since))
    for title, ids in list_kinds(report):
        if ids:
            yield from ("", f"## {title.capitalize()} ({len(ids)})", "")
            yield from (f"- {_escape(_describe_run(run))}" for run in pick_runs(report, ids))
    for title, shares in list_shares(report):
        yield from ("", f"## {title.capitalize()}", "")
        yield "| name | runs | ended badly | tokens | cost |"
        yield "|---|---|---|---|---|"
        for one in shares:
            cost = "" if one.cost is None else show_cost(one.cost)
            tokens = f"{one.tokens:,}" if one.tokens else ""  # a record that tells none used some
            yield f"| {_escape(one.name)} | {one.runs} | {one.bad} | {tokens} | {cost} |"
    if report.files:
        yield from ("", "## Files changed most", "", "| file | runs | lines |", "|---|---|---|")
        for file in report.files[: 3 * _MOST_ROWS]:
            yield f"| {_escape(file.path)} | {file.runs} | {say_size(file)} |"
        yield from _say_rest(len(report.files), 3 * _MOST_ROWS, "\n")


def _say_rest(number: int, most: int, before: str) -> Iterator[str]:
    if number > most:
        yield f"{before}and {number - most} more: --json names all"


def say_size(file: HotFile) -> str:
    """Return how many lines of a file came and went; that it is not known where no record tells."""
    return "lines not known" if file.added is None else f"+{file.added} −{file.removed or 0}"


def say_whole(report: Report, since: str) -> Iterator[tuple[str, Sequence[Run]]]:
    """Yield what is told of all runs at once, each with the runs that it counts."""
    runs, opened, of = report.runs, len(report.open), count(len(report.runs), "run")
    yield f"{of} since {since}: {len(runs) - opened} closed, {opened} open", runs
    if changing := [run for run in runs if run.changed]:
        green = sum(run.tests.startswith("passed") for run in changing)
        changed = count(len(changing), "run")
        yield f"green tests after the last change: {green} of {changed}", changing
    if report.tokens:
        told = [run for run in runs if run.tokens is not None]
        yield f"{report.tokens:,} tokens, told by {len(told)} of {of}", told
    if report.cost is not None:
        reckoned = " (some of it estimated)" if report.estimated else ""
        paid = [run for run in runs if run.cost is not None]
        yield f"{show_cost(report.cost)}{reckoned}, known of {len(paid)} of {of}", paid


def list_kinds(report: Report) -> Sequence[tuple[str, tuple[str, ...]]]:
    return (
        ("ended badly", report.bad),
        ("open", report.open),
        ("changed files without a green test run after the last change", report.untested),
        ("had changes that no recorded tool made", report.unseen),
        ("failed on the way and ended with green tests", report.mended),
    )


def list_shares(report: Report) -> Sequence[tuple[str, tuple[Share, ...]]]:
    named = (
        ("asked by", report.people),
        ("profiles", report.profiles),
        ("models", report.models),
        ("rules in front of agents", report.rules),
    )
    return [(title, shares) for title, shares in named if shares]


def pick_runs(report: Report, ids: Sequence[str]) -> list[Run]:
    id_set = set(ids)
    return [run for run in report.runs if run.invocation_id in id_set]


def _describe_run(run: Run) -> str:
    files = f", {count(len(run.changed), 'file')}" if run.changed else ""
    asked = say_request(run.request, 60)
    return f"{run.invocation_id[-6:]}  {asked} ({one_line(run.by, 20)}, {run.outcome}{files})"


def _describe_share(share: Share) -> str:
    bad = f", {share.bad} ended badly" if share.bad else ""
    cost = "" if share.cost is None else f", {show_cost(share.cost)}"
    tokens = f", {share.tokens:,} tokens{cost}" if share.tokens else ""
    return f"{one_line(share.name, 40)}  {count(share.runs, 'run')}{bad}{tokens}"


def _escape(text: str) -> str:
    return escape_markdown(one_line(text))
