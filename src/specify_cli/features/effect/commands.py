"""charter effect: how each rule fared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.filters import read_times
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.features.effect.facts import Effect, Fate, RuleFacts
from specify_cli.features.effect.reading import judge_in_force, read_uses
from specify_cli.room import Values

_MOST_ROWS = 20


class EffectReport(NamedTuple):
    """How rules fared, and the records that could not be asked."""

    effect: Effect
    unread: tuple[str, ...]


def effect(values: Values) -> int:
    """Tell how rules fared; 1 where a record could not be read."""
    project, cache = shell.reading_project()
    unread: list[str] = []
    uses = list(read_uses(project, read_times(values), unread))
    report = EffectReport(judge_in_force(project, cache, uses), tuple(unread))
    write_answer(values, report, _render(report, every=bool(values["all"])))
    return 1 if unread else 0


def _render(report: EffectReport, *, every: bool) -> Iterator[str]:
    effect = report.effect
    yield f"{count(effect.invocations, 'invocation')}: {_describe(effect.all)}"
    yield ""
    yield "  shown  line  opened  tokens   each  failed  again  untested  rule"
    rules = effect.rules[: None if every else _MOST_ROWS]
    yield from map(_render_rule, rules)
    if len(rules) < len(effect.rules):
        yield f"  … and {len(effect.rules) - len(rules)} more: --all shows them"
    if effect.invocations:
        yield ""
        yield from _render_names("in at least 95 % of all contexts", effect.always)
        yield from _render_names("in none", effect.never)
    for said, pairs in (
        ("say the same", effect.alike),
        ("are set against each other", effect.apart),
    ):
        yield from _render_names(said, [f"{pair.one} and {pair.two}" for pair in pairs])
    yield from (f"not read: {one_line(text)}" for text in report.unread)
    yield "counts, not causes: what stands before hard work stands before failures (--json: ids)"


def _describe(fate: Fate) -> str:
    return (
        f"{len(fate.failed)} ended badly, {len(fate.edited_again)} edited again within a day, "
        f"{len(fate.untested)} without a green test run at the end, "
        f"{len(fate.unapproved)} against a gate"
    )


def _render_rule(rule: RuleFacts) -> str:
    fate = rule.fate
    return (
        f"  {rule.shown:>5} {rule.offered:>5} {rule.opened:>7} {rule.tokens:>7} "
        f"{rule.median_tokens:>6} {len(fate.failed):>7} {len(fate.edited_again):>6} "
        f"{len(fate.untested):>9}  {one_line(rule.uri)}"
    )


def _render_names(said: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield f"{said}: {', '.join(map(one_line, names[:8]))}{more}"
