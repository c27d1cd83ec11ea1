"""The verdict of a gate for a terminal and as a comment in Markdown.

Everything recorded is escaped: a request may hold control characters, Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, paint
from specify_cli.features.gate.findings import GateFinding
from specify_cli.features.gate.judging import Judged
from specify_cli.features.origin.rendering import say_end, say_lines, say_tests

_SAID = {
    "pass": "PASS: nothing stands against this merge",
    "fail": "FAIL: this merge breaks a rule of the base",
    "damaged": "DAMAGED: a record of this range is not what was written",
}
# A comment has at most 60 lines beside what is folded.
_MOST_SHOWN, _MOST_FOLDED, _MOST_WRITERS = 12, 200, 8
# Marks our comment, so that it is updated in place.
MARK = "<!-- spec-kitty gate -->"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+.!|~@:/-])")


def say_verdict(judged: Judged) -> str:
    """Return the verdict as one sentence."""
    said = _SAID[judged.verdict]
    warned = judged.count("warn")
    if judged.verdict == "pass" and warned:
        return f"PASS, with {count(warned, 'warning')}"
    return said


def render_gate(judged: Judged) -> Iterator[str]:
    """Yield the verdict with its findings, for 80 columns."""
    style = {"pass": "done", "fail": "failed", "damaged": "failed"}[judged.verdict]
    yield paint(say_verdict(judged), style)
    yield f"range {judged.base[:10]}..{judged.head[:10]}, judged by {judged.rules_from}"
    yield say_lines(judged.origin.lines)
    yield judged.claims
    for item in judged.findings:
        yield ""
        yield from _render_finding(item)
    if judged.waivers or judged.refused_waivers:
        yield ""
    for used in judged.waivers:
        said = f"{count(used.findings, 'finding')} of {used.rule}"
        yield f"waived by {one_line(used.by)} until {used.until}: {said}: {one_line(used.reason)}"
    yield from (f"waiver not counted: {one_line(text)}" for text in judged.refused_waivers)
    yield from (f"not known: {one_line(text)}" for text in judged.origin.not_known)


def _render_finding(item: GateFinding) -> Iterator[str]:
    level = "waived" if item.waived_by else item.level if item.known else f"{item.level}, not known"
    colour = "dim" if item.waived_by else "failed" if item.level == "fail" else None
    yield f"{paint(f'{item.code} ({level})', colour)} {one_line(item.place)}"
    yield f"  {one_line(item.message, 300)}"
    if item.waived_by is None:
        yield f"  {item.next}"


def make_comment(judged: Judged) -> str:
    """Return the verdict as a comment of at most 60 lines, the rest folded."""
    signs = {"pass": "✅", "fail": "❌", "damaged": "❌"}
    lines = [MARK, f"### {signs[judged.verdict]} spec-kitty gate: {say_verdict(judged)}", ""]
    lines += [_escape(f"{say_lines(judged.origin.lines)}."), "", _escape(f"{judged.claims}."), ""]
    open_findings = [item for item in judged.findings if item.waived_by is None]
    if open_findings:
        lines += ["| | what | where | what to do |", "|---|---|---|---|"]
        lines += [_make_row(item) for item in open_findings[:_MOST_SHOWN]]
        lines.append("")
    lines += _fold(
        f"{len(open_findings) - _MOST_SHOWN} more findings",
        [f"- {_escape(_say(item))}" for item in open_findings[_MOST_SHOWN:]],
    )
    writers = judged.origin.writers
    lines += _fold(
        f"{count(len(writers), 'invocation')} of this range",
        [
            f"- `{writer.invocation_id}` {_escape(one_line(writer.request or '', 120))}: "
            f"{_escape(say_end(writer))}, tests {_escape(say_tests(writer))}"
            for writer in writers
        ],
    )
    waived = [
        f"- {_escape(f'{used.rule}, {used.findings}: {used.reason}')} "
        f"({_escape(used.by)}, until {used.until})"
        for used in judged.waivers
    ]
    waived += [f"- not counted: {_escape(text)}" for text in judged.refused_waivers]
    lines += _fold(f"{len(waived)} waivers", waived)
    lines += _fold(
        "What is not known", [f"- {_escape(one_line(text))}" for text in judged.origin.not_known]
    )
    lines.append(
        f"<sub>{judged.base[:10]}..{judged.head[:10]}, judged by {judged.rules_from} "
        f"({judged.base_tip[:10]})</sub>"
    )
    return "".join(f"{line}\n" for line in lines)


def _make_row(item: GateFinding) -> str:
    sign = "❌" if item.level == "fail" else "⚠️"
    unknown = "" if item.known else " (not known)"
    what = f"**{item.code}**{unknown}<br>{_escape(one_line(item.message, 160))}"
    return f"| {sign} | {what} | {_escape(one_line(item.place, 120))} | {_escape(item.next)} |"


def _say(item: GateFinding) -> str:
    return f"{item.level} {item.code} {one_line(item.place, 120)}: {one_line(item.message, 160)}"


def _fold(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines that a reader has to open; nothing for none."""
    if not lines:
        return []
    more = [f"- and {len(lines) - _MOST_FOLDED} more"] if len(lines) > _MOST_FOLDED else []
    shown = [f"<details><summary>{title}</summary>", "", *lines[:_MOST_FOLDED], *more, ""]
    return [*shown, "</details>", ""]


def _escape(text: str) -> str:
    """Return a text in which no character means anything to Markdown or HTML."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match[1])};", text.replace("&", "&amp;"))
