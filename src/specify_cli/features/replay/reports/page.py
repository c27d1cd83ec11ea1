"""The report of a replay as Markdown, and its first screen at a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape

from doctrine.text import count
from specify_cli.features.replay.reports.report import REQUEST, Json

_LONGEST = 300
_LISTED = 20
# What Markdown, GitHub's dialect of it or HTML would act on in the middle of a line.
_MARKUP = re.compile(r"[\\`*_{}\[\]#~$^]|:(?=\S)")
# C0, DEL, C1, separators and marks that reorder text.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def page_of(value: Json) -> str:
    """Return the report as Markdown for a reader who was not there."""
    about = value["invocation"]
    lines = [
        f"# Replay of {_mark_code(about['invocation_id'])}",
        "",
        f"**{_render_text(value['verdict'])}**",
        "",
    ]
    lines += _render_findings(value["findings"])
    lines += _render_gaps(value["model_steps"]["not_reconstructable"])
    lines += _render_subject(value)
    lines += _render_integrity(value["integrity"])
    rows = [_render_cells(item, "field", "recorded", "replayed") for item in value["decisions"]]
    lines += _render_table("## Decisions", ("", "recorded", "replayed"), rows)
    for item in value["retrievals"]:
        lines += _render_retrieval(item)
    lines += _render_work(value)
    lines += ["## Not evaluated again", ""]
    lines += [
        f"- seq {item['seq']}: {_render_text(item['what'])}: {_render_text(item['reason'])}"
        for item in value["not_reevaluated"]
    ]
    lines += [] if value["not_reevaluated"] else ["Nothing."]
    lines += ["", "## References", ""]
    lines += [
        f"- {_mark_code(item['ref'])}: {_render_text(item['what'])}" for item in value["references"]
    ]
    lines += [
        "",
        f"`spec-kitty invocations show {about['invocation_id']}` prints the record whole.",
        "",
    ]
    return "\n".join(lines)


def first_screen(value: Json) -> list[str]:
    """Render a report for a terminal.

    It shows the verdict, the differences, and what cannot be reconstructed or asked again.
    """
    lines = [str(value["verdict"])]
    for item in value["findings"]:
        seq = "" if item["seq"] is None else f" seq {item['seq']}"
        lines.append(
            f"  {item['severity']}: {item['code']}{seq}: {_escape_markdown(item['message'])}"
        )
        if item["expected"] is not None or item["actual"] is not None:
            lines.append(f"    recorded: {_escape_markdown(_render_value(item['expected']))}")
            lines.append(f"    replayed: {_escape_markdown(_render_value(item['actual']))}")
    gaps = value["model_steps"]["not_reconstructable"]
    if gaps:
        lines.append("model steps that cannot be reconstructed exactly:")
    for item in gaps:
        why = "; ".join(str(gap["reason"]) for gap in item["gaps"])
        lines.append(
            f"  seq {item['seq']} {_escape_markdown(item['model'])}: {_escape_markdown(why)}"
        )
    left = value["not_reevaluated"]
    if left:
        lines.append("not evaluated again:")
    lines += [
        f"  seq {item['seq']} {_escape_markdown(item['what'])}: {_escape_markdown(item['reason'])}"
        for item in left[:_LISTED]
    ]
    if len(left) > _LISTED:
        lines.append(f"  and {len(left) - _LISTED} more: --json lists them")
    lines += [
        f"note: {item['code']}: {_escape_markdown(item['message'])}"
        for item in value["integrity"]["notes"]
    ]
    return lines


def _render_subject(value: Json) -> list[str]:
    """Return the section that says which run was replayed, on what, and by which code."""
    about, outcome = value["invocation"], value["invocation"]["outcome"]
    end = "not closed yet" if outcome is None else f"closed as {_render_text(outcome)}"
    return [
        "## What was replayed",
        "",
        f"- Request: {_render_text(about['request'], REQUEST)}",
        f"- Routed to profile {_render_text(about['profile_id'])}, action "
        f"{_render_text(about['action'])}"
        f" (asked with {_render_text(about['verb'])}; kind {_render_text(about['run_kind'])})",
        f"- Begun {_render_text(about['started_at'])}; {end}",
        *(
            []
            if value["until"] is None
            else [f"- Only what came up to checkpoint seq {value['until']['seq']}"]
        ),
        f"- Retrievals on {_describe_ground(value['as_of'], 'the corpus each was made on')},"
        f" held against {_describe_ground(value['compare_to'], 'what is recorded')}; epsilon "
        f"{value['epsilon']}",
        f"- Decided by code {_render_versions(value['code']['recorded'])}; replayed by code"
        f" {_render_versions(value['code']['current'])}",
        "",
        "The router, the retrievals and the gates were run again on what the record kept, with "
        "the network denied;"
        " recorded tool and model results were taken as they are. Nothing live was read.",
        "",
    ]


def _render_findings(findings: Sequence[Json]) -> list[str]:
    rows = [
        (
            _render_text(item["code"]),
            "" if item["seq"] is None else str(item["seq"]),
            _render_text(item["message"]),
            _render_text(_render_value(item["expected"])),
            _render_text(_render_value(item["actual"])),
        )
        for item in findings
    ]
    return _render_table("## Differences", ("finding", "seq", "what", "recorded", "replayed"), rows)


def _render_gaps(steps: Sequence[Json]) -> list[str]:
    rows = [
        (
            *_render_cells(item, "seq", "model"),
            "; ".join(_render_text(gap["reason"]) for gap in item["gaps"]),
        )
        for item in steps
    ]
    title = "## Model steps that cannot be reconstructed exactly"
    return _render_table(title, ("seq", "model", "why"), rows)


def _describe_ground(point: Json | None, otherwise: str) -> str:
    if point is None:
        return otherwise
    return f"the corpus as of {_render_text(point['label'] or 'checkpoint')} (seq {point['seq']})"


def _render_versions(code: Json) -> str:
    return _render_text(
        ", ".join(
            f"{name} {'unknown' if version is None else str(version)[:12]}"
            for name, version in sorted(code.items())
        )
    )


def _render_integrity(integrity: Json) -> list[str]:
    lines = [
        "## Integrity",
        "",
        f"Intact: {integrity['lines']} lines, every seal and the chain hold, and "
        f"{integrity['objects']} objects hash to"
        f" their names. Last seal {_mark_code(str(integrity['tip']))}.",
        "",
    ]
    lines += [
        f"- {_render_text(item['code'])}: {_render_text(item['message'])}"
        for item in integrity["notes"]
    ]
    return [*lines, ""] if integrity["notes"] else lines


def _render_retrieval(item: Json) -> list[str]:
    verdict = "as before" if item["match"] else "differs, or has nothing to be held against"
    lines = [f"## Retrieval {_render_text(item['request_id'])} (seq {item['seq']}): {verdict}", ""]
    lines += [f"Query: {_render_text(item['query'])}", ""]
    error = item["error"]
    if error["recorded"] is not None or error["replayed"] is not None:
        lines += [
            f"Error: recorded {_render_text(error['recorded'])}, replayed "
            f"{_render_text(error['replayed'])}",
            "",
        ]
    rows = [
        (
            _render_text(hit["uri"]),
            _render_ranked(hit["recorded"]),
            _render_ranked(hit["replayed"]),
            _render_change(hit["recorded"], hit["replayed"]),
        )
        for hit in item["hits"]
    ]
    head = ("artifact", "recorded", "replayed", "difference")
    lines += _render_table("", head, rows) or ["No hits.", ""]
    then, now = item["filters_applied"]["recorded"] or [], item["filters_applied"]["replayed"]
    added = [(entry, "replayed") for entry in now if entry not in then]
    filter_rows = [*((entry, "recorded") for entry in then if entry not in now), *added]
    same = len(now) - len(added)
    lines.append(
        f"Policy: {count(same, 'decision')} the same."
        if same or filter_rows
        else "Policy: nothing to decide."
    )
    for entry, side in filter_rows:
        uri, rule, action = (_render_text(entry.get(key)) for key in ("uri", "rule_id", "action"))
        lines.append(f"- only {side}: {action} {uri} by rule {rule}")
    hashes = item["context_hash"]
    if hashes["replayed"] is not None or hashes["recorded"] is not None:
        same_text = hashes["recorded"] == hashes["replayed"]
        text_hashes = (
            "the same" if same_text else f"recorded {_mark_code(str(hashes['recorded']))}, replayed"
        )
        lines += ["", f"Governance text: {text_hashes} {_mark_code(str(hashes['replayed']))}."]
    return [*lines, ""]


def _render_ranked(hit: Json | None) -> str:
    return (
        "not there"
        if hit is None
        else f"rank {_render_text(hit['rank'])}, {_render_text(hit['score'])}"
    )


def _render_change(then: Json | None, now: Json | None) -> str:
    if then is None or now is None:
        return "missing" if now is None else "extra"
    names = [name for name in ("rank", "score", "digest", "explain") if then[name] != now[name]]
    return ", ".join(names)


def _render_work(value: Json) -> list[str]:
    gates = [
        (
            *_render_cells(item, "seq", "gate", "rule_ref"),
            _render_verdict(item["recorded"]),
            _render_verdict(item["replayed"]),
            _render_text(item["status"]),
        )
        for item in value["gates"]
    ]
    tools = [
        (
            *_render_cells(item, "seq", "tool", "side_effect"),
            _render_text(item["status"] or "no result"),
            "recorded result held whole" if item["injected"] else _render_text(item["reason"]),
        )
        for item in value["tools"]
    ]
    patches = [
        _render_cells(item, "seq", "path", "kind", "status", "reason") for item in value["patches"]
    ]
    lines = _render_table("## Gates", ("seq", "gate", "rule", "recorded", "replayed", ""), gates)
    title = "## Tools, none of which was run"
    lines += _render_table(title, ("seq", "tool", "side effect", "status", ""), tools)
    lines += _render_table("## Patches", ("seq", "file", "kind", "", ""), patches)
    whole = value["model_steps"]["reconstructable"]
    if whole:
        lines += ["## Model steps held whole", ""]
        lines += [f"- seq {item['seq']}: {_render_text(item['model'])}" for item in whole]
        lines.append("")
    return lines


def _render_verdict(verdict: Json | None) -> str:
    return (
        ""
        if verdict is None
        else f"{_render_text(verdict['outcome'])} ({_render_text(verdict['reason_code'])})"
    )


def _render_cells(item: Json, *names: str) -> list[str]:
    return [_render_text(item[name]) for name in names]


def _render_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table, under its title if it has one; nothing for no rows."""
    if not rows:
        return []
    lines = [title, ""] if title else []
    lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return [*lines, ""]


def _render_value(value: object) -> str:
    """Return a value of a finding in a few words."""
    if isinstance(value, str):
        return value
    if value is None:
        return "nothing"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _escape_markdown(text: object) -> str:
    return _clip(" ".join(str(text).split()), _LONGEST)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}… ({len(text)} characters)"


def _render_text(value: object, limit: int = _LONGEST) -> str:
    """Recorded text in the middle of a line: one line, and nothing of it acts as Markdown or
    HTML."""
    text = _clip(str("none" if value is None else value), limit)
    text = text.replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", " ")
    text = _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    text = _MARKUP.sub(r"\\\g<0>", text)
    text = escape(text, quote=False).replace("|", "&#124;")
    # Bare addresses become links in some dialects: neither `www.` nor an `@` between words is left
    # as it is.
    text = re.sub(r"(?i)\b(www)\.", r"\1\\.", text)
    return text.replace("@", "@\u2060")


def _mark_code(text: str) -> str:
    """Return an id, digest or reference as a code span; anything else as text."""
    return f"`{text}`" if re.fullmatch(r"[A-Za-z0-9:/._-]+", text) else _render_text(text)
