"""backtest and bisect: past decisions under a charter that is proposed, and the commit that changed
one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.filters import read_times
from specify_cli.cli.terminal.output import (
    one_line,
    paint,
    write_answer,
    write_json,
    write_lines,
    write_text,
)
from specify_cli.features.what_if import bisect as bisecting
from specify_cli.features.what_if.backtest import (
    Backtest,
    Row,
    Transition,
    backtest_sources,
    tabulate,
)
from specify_cli.features.what_if.backtest import backtest as run_backtest
from specify_cli.features.what_if.candidates import Candidate, read_candidate
from specify_cli.libraries.work.options import list_sources, open_engine
from specify_cli.libraries.work.sharing import Engine
from specify_cli.record.seal import is_digest
from specify_cli.room import Values

_MOST_ROWS = 10


def backtest(values: Values) -> int:
    """Print what would have come out otherwise; 1 where what was kept back would be shown, or not
    all was asked."""
    candidate = read_candidate(str(values["charter"]), shell.get_text(values, "profiles"))
    (moment, _), rules = read_times(values), shell.get_text(values, "rules")
    with open_engine(values, "asking records") as engine:
        if values["source"]:
            return _backtest_sources(values, candidate, moment, rules, engine)
        project = shell.read_project()
        report = run_backtest(project, candidate, since=moment, rules=rules, engine=engine)
    write_answer(values, report, _render(report))
    return int(_fails(report, values))


def _fails(report: Backtest, values: Values) -> bool:
    return report.loosened or (bool(values["strict"]) and not report.is_complete)


def _backtest_sources(
    values: Values, candidate: Candidate, since: int | None, rules: str | None, engine: Engine
) -> int:
    """Print what would have come out otherwise in many projects or archives, and name those that
    could not be asked."""
    sources = list_sources(values, "")
    results = list(backtest_sources(sources, candidate, since=since, rules=rules, engine=engine))
    reports = [one.report for one in results if one.report]
    table = tuple(tabulate(item for report in reports for item in report.transitions))
    if values["json"]:
        write_json({"sources": results, "table": table})
    else:
        for one in results:
            name, report = one_line(one.source), one.report
            if not report:
                write_text(
                    f"{name}: not asked: "
                    f"{one_line(one.failure and f'{one.failure.code}: {one.failure.message}')}"
                )
            else:
                left = len(report.not_evaluated)
                write_text(f"{name}: {_sum_up(report)}{f', not asked: {left}' if left else ''}")
        write_lines(_render_table(table))
    return int(len(reports) < len(results) or any(_fails(report, values) for report in reports))


def _sum_up(report: Backtest) -> str:
    changed = report.records - report.unchanged
    return f"{count(report.records, 'record')} asked again, {changed} would have come out otherwise"


def _render(report: Backtest) -> Iterator[str]:
    yield _sum_up(report)
    yield from _render_table(report.table)
    if report.not_evaluated:
        yield ""
        yield (
            f"not asked: {count(len(report.not_evaluated), 'record or gate', 'records and gates')}"
        )
        for item in report.not_evaluated[:_MOST_ROWS]:
            gate = "" if item.gate is None else f" gate {one_line(item.gate)}"
            yield f"  {item.invocation_id}{gate}: {one_line(item.reason)}"
        if len(report.not_evaluated) > _MOST_ROWS:
            yield f"  and {len(report.not_evaluated) - _MOST_ROWS} more: --json lists them"
    yield ""
    if not report.log:
        yield (
            "log: not signed, so nothing shows whether a record is missing "
            f"({one_line(str(report.unsigned))})"
        )
    else:
        yield (
            f"log: {report.log.origin}, {count(report.log.size, 'leaf', 'leaves')}, root "
            f"{report.log.root}"
        )
        if report.log.missing:
            yield (
                f"missing here: {count(len(report.log.missing), 'record')} of the log, "
                f"{report.log.missing[0]} first"
            )
    if report.loosened:
        yield paint("what was kept back would be shown: see the rows that end in ->allow", "failed")


def _render_table(table: Sequence[Row]) -> Iterator[str]:
    if table:
        yield ""
        yield f"{'transition':18} {'cause':10} {'times':>6} {'records':>8}  first example"
    for row in table:
        first = row.first
        line = (
            f"{row.kind:18} {row.cause:10} {row.transitions:>6} {row.records:>8}  "
            f"{first.invocation_id[-6:]} {_compare(first)}"
        )
        yield paint(line, "failed") if row.kind.endswith("->allow") else line
        yield from (f"    {one_line(text)}" for text in first.diff)
        more = f" and {row.records - _MOST_ROWS} more" if row.records > _MOST_ROWS else ""
        yield f"    in {', '.join(name[-6:] for name in row.invocation_ids[:_MOST_ROWS])}{more}"


def _compare(item: Transition) -> str:
    return f"{one_line(item.name)}: {_shorten(item.then)} -> {_shorten(item.now)}"


def _shorten(value: str | None) -> str:
    """Return a value as it is shown: a digest by its first digits."""
    if value is None:
        return "none"
    return value[:8] if is_digest(value) else one_line(value)


def bisect(values: Values) -> int:
    """Print which commit first changes a record's decision; 1 where one does."""
    culprit = bisecting.find_culprit(shell.read_project(), str(values["invocation_id"]))
    write_answer(values, culprit, _render_culprit(culprit))
    return int(culprit.cause != "none")


def _render_culprit(culprit: bisecting.Culprit) -> Iterator[str]:
    asked = count(culprit.asked, "commit")
    if culprit.cause == "none":
        yield f"nothing up to now changes what {culprit.invocation_id} decided ({asked} asked)"
        return
    if culprit.cause == "code":
        yield (
            "spec-kitty itself decides otherwise; other than then: "
            f"{', '.join(culprit.code) or 'nothing it names'}"
        )
    elif culprit.cause == "work tree":
        yield f"what is not committed yet changes it ({asked} asked before)"
    elif culprit.commit:
        yield f"{culprit.commit.sha} {culprit.commit.at} {one_line(str(culprit.commit.author))}"
        yield f"  {one_line(str(culprit.commit.subject))}"
    for item in culprit.transitions[:_MOST_ROWS]:
        yield f"  {item.kind} ({item.cause}): {_compare(item)}"
        yield from (f"    {one_line(line)}" for line in item.diff)
    if len(culprit.transitions) > _MOST_ROWS:
        yield f"  and {len(culprit.transitions) - _MOST_ROWS} more: --json lists them"
    if culprit.base:
        yield (
            f"decided as then up to: {str(culprit.base.sha)[:12]} "
            f"{one_line(str(culprit.base.subject))}"
        )
