"""The verdict of a gate for a terminal and as a comment in Markdown.

Everything recorded is escaped: a request may hold control characters, Markdown or HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from doctrine.text import count
from specify_cli.cli.terminal.output import escape_markdown, one_line, paint, say_request
from specify_cli.features.gate.findings import KINDS, GateFinding
from specify_cli.features.gate.judging import Judged
from specify_cli.features.origin.rendering import (
    say_approvals,
    say_end,
    say_lines,
    say_tests,
    say_witnesses,
)
from specify_cli.features.origin.writers import Writer

_SAID = {
    "pass": "PASS: nothing stands against this merge",
    "fail": "FAIL: this merge breaks a rule of the base",
    "damaged": "DAMAGED: a record of this range is not what was written",
}
_MOST_LISTED = 20
# A comment has at most 60 lines beside what is folded: so many places of a finding, and so many
# folded lines; the first of these that fits.
_SIZES = ((5, 200), (5, 50), (5, 10), (5, 0), (0, 0))
# GitHub takes 65,536 characters.
_LONGEST = 60_000
# Marks our comment, so that it is updated in place.
MARK = "<!-- spec-kitty gate -->"


def say_verdict(judged: Judged) -> str:
    """Return the verdict as one sentence."""
    warned = judged.count("warn")
    if judged.verdict == "pass" and warned:
        return f"PASS, with {count(warned, 'warning')}"
    return _SAID[judged.verdict]


def render_gate(judged: Judged) -> Iterator[str]:
    """Yield the verdict with its findings, for 80 columns."""
    style = {"pass": "done", "fail": "failed", "damaged": "failed"}[judged.verdict]
    yield paint(say_verdict(judged), style)
    yield f"range {judged.base[:10]}..{judged.head[:10]}, judged by {judged.rules_from}"
    yield say_lines(judged.origin.lines)
    yield judged.claims
    if alone := say_witnesses(judged.origin.writers):
        yield alone
    for group in _group(judged.findings):
        yield ""
        yield from _render_group(judged, group)
    if judged.waivers or judged.refused_waivers:
        yield ""
    for used in judged.waivers:
        said = f"{count(used.findings, 'finding')} of {used.rule}"
        yield f"waived by {one_line(used.by)} until {used.until}: {said}: {one_line(used.reason)}"
    yield from (f"waiver not counted: {one_line(text)}" for text in judged.refused_waivers)
    yield from (f"not known: {one_line(text)}" for text in judged.origin.not_known)


def _group(findings: Iterable[GateFinding]) -> list[list[GateFinding]]:
    """Return the findings of one code and level together, in their order."""
    groups: dict[tuple[object, ...], list[GateFinding]] = {}
    for item in findings:
        groups.setdefault((item.code, item.level, item.waived_by is None), []).append(item)
    return list(groups.values())


def _render_group(judged: Judged, group: Sequence[GateFinding]) -> Iterator[str]:
    first = group[0]
    level = "waived" if first.waived_by else first.level
    colour = "dim" if first.waived_by else "failed" if first.level == "fail" else None
    yield paint(f"{level}  {first.code}: {KINDS[first.code].meaning}", colour)
    for item in group[:_MOST_LISTED]:
        detail = f": {one_line(item.detail, 200)}" if item.detail else ""
        yield f"  {_name_place(judged, item)}{detail}"
    if len(group) > _MOST_LISTED:
        yield f"  and {len(group) - _MOST_LISTED} more: --json names all"
    if first.waived_by is None:
        yield f"  {first.next}"


def _name_place(judged: Judged, item: GateFinding) -> str:
    """Return where a finding is; of an invocation what was asked, and the end of its id."""
    if item.path is not None or item.invocation_id is None:
        return one_line(item.place, 100)
    requests = {writer.invocation_id: writer.request for writer in judged.origin.writers}
    asked = one_line(requests.get(item.invocation_id) or "request not known", 60)
    return f"“{asked}” ({item.invocation_id[-6:]})"


def make_comment(judged: Judged) -> str:
    """Return the verdict as a comment of at most 60 lines, the rest folded, as far as it fits."""
    comments = (_compose_comment(judged, rows, most) for rows, most in _SIZES)
    return next(text for text in comments if len(text) <= _LONGEST)


def _compose_comment(judged: Judged, rows: int, most: int) -> str:
    signs = {"pass": "✅", "fail": "❌", "damaged": "❌"}
    lines = [MARK, f"### {signs[judged.verdict]} spec-kitty gate: {say_verdict(judged)}", ""]
    alone = say_witnesses(judged.origin.writers)
    said = (say_lines(judged.origin.lines), judged.claims, *([alone] if alone else []))
    lines += [
        "What the records of AI agents' work say of this change:",
        "",
        *(f"- {escape_markdown(text)}" for text in said),
        "",
    ]
    groups = _group(item for item in judged.findings if item.waived_by is None)
    if groups:
        lines += ["| | what | where | what to do |", "|---|---|---|---|"]
        lines += [_make_row(judged, group, rows) for group in groups]
        lines.append("")
    rest = [
        f"- {item.code} {_say_place(judged, item, 200)}"
        for group in groups
        for item in group[rows:]
    ]
    lines += _fold(count(len(rest), "more place"), rest, most)
    work_lines = [_tell_work(writer) for writer in judged.origin.writers]
    lines += _fold(f"{count(len(work_lines), 'invocation')} of this range", work_lines, most)
    waived = [
        f"- {escape_markdown(f'{used.rule}, {used.findings}: {used.reason}')} "
        f"({escape_markdown(used.by)}, until {used.until})"
        for used in judged.waivers
    ]
    waived += [f"- not counted: {escape_markdown(text)}" for text in judged.refused_waivers]
    lines += _fold(f"{len(waived)} waivers", waived, most)
    unknown = [f"- {escape_markdown(one_line(text, 300))}" for text in judged.origin.not_known]
    lines += _fold("What is not known", unknown, most)
    lines.append(
        f"<sub>{judged.base[:10]}..{judged.head[:10]}, judged by {judged.rules_from} "
        f"({judged.base_tip[:10]})</sub>"
    )
    return "".join(f"{line}\n" for line in lines)


def _tell_work(writer: Writer) -> str:
    """Return the story of an invocation in a few words, as one entry of a list."""
    summary = writer.summary
    request = say_request(writer.request, 120)
    asked = f"{request} (asked by {one_line(writer.asked_by or 'unknown', 60)})"
    parts = [
        ("done", summary.done),
        ("said", summary.said),
        ("left", "; ".join(summary.left)),
        ("judged", "; ".join(summary.judged)),
        ("told by", writer.witnesses),
    ]
    ended = f"{say_end(writer)}, tests {say_tests(writer)}"
    ended += f", {say_approvals(writer)}" if writer.approvals else ""
    lines = [asked, ended, *(f"{name}: {text}" for name, text in parts if text)]
    text = "<br>".join(escape_markdown(one_line(line)) for line in lines)
    return f"- `{writer.invocation_id}` {text}"


def _make_row(judged: Judged, group: Sequence[GateFinding], rows: int) -> str:
    first = group[0]
    sign = "❌" if first.level == "fail" else "⚠️"
    size = 0 if len(group) == 1 else 80
    places = [_say_place(judged, item, size) for item in group[:rows]]
    rest = f"and {len(group) - rows} more" if rows else count(len(group), "place")
    more = [rest] if len(group) > rows else []
    alone = rows and len(group) == 1 and first.detail
    detail = f": {escape_markdown(one_line(first.detail, 120))}" if alone else ""
    what = f"**{first.code}**<br>{escape_markdown(KINDS[first.code].meaning)}{detail}"
    return f"| {sign} | {what} | {'<br>'.join([*places, *more])} | {escape_markdown(first.next)} |"


def _say_place(judged: Judged, item: GateFinding, size: int) -> str:
    """Return where a finding is, and so much of what it is there."""
    detail = f": {one_line(item.detail, size)}" if size and item.detail else ""
    return escape_markdown(f"{_name_place(judged, item)}{detail}")


def _fold(title: str, lines: Sequence[str], most: int) -> list[str]:
    """Return lines that a reader has to open; nothing for none."""
    if not lines:
        return []
    more = [f"- and {len(lines) - most} more: --json names all"] if len(lines) > most else []
    block = [f"<details><summary>{title}</summary>", "", *lines[:most], *more, ""]
    return [*block, "</details>", ""]
