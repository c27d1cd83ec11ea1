"""A replay in words: one value, and its two renderings, JSON and Markdown.  [pure]

Guarantees: the verdict comes first; nothing of a clock, a path of this machine or a random number is in it, so a report
made twice is the same bytes; recorded text is shown as text and never as markup; every reference resolves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from doctrine.text import say
from specify_cli.features.replay.judge import (
    ERROR,
    Asked,
    Fields,
    Outcome,
    Point,
    Replayed,
    Rerun,
    plain,
)
from specify_cli.record.reading.views import as_lists, change, find_places, join, json_pieces, pick

REPORT_VERSION = 1
_SHOWN = 300
_LISTED = 20
_REQUEST = 4000
# What Markdown, GitHub's dialect of it or HTML would act on in the middle of a line.
_MARKUP = re.compile(r"[\\`*_{}\[\]#~$^]|:(?=\S)")
# C0, DEL, C1, separators and marks that reorder text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


# --- the value


def report_value(replayed: Replayed) -> dict[str, Any]:
    """Return the report as a plain value: the JSON shape `docs/schemas/replay-report.json`."""
    value: dict[str, Any] = as_lists(view_report(replayed))
    return value


def view_report(replayed: Replayed) -> dict[str, Any]:
    """As `report_value`, for `json_pieces`: what is as long as the record is made when it is asked for."""
    past = replayed.past
    models = change(replayed.models, lambda item: _describe_model(*item))
    return {
        "v": REPORT_VERSION,
        "match": replayed.match,
        "verdict": describe_verdict(replayed),
        "invocation": _describe_invocation(replayed),
        "as_of": _describe_point(replayed.as_of),
        "compare_to": _describe_point(replayed.compare_to),
        "until": _describe_point(replayed.until),
        "epsilon": plain(replayed.epsilon),
        "integrity": {
            "intact": True,
            "lines": past.lines,
            "tip": replayed.integrity.tip,
            "objects": replayed.integrity.objects,
            "notes": [
                {"code": code, "severity": severity, "seq": seq, "message": message}
                for code, severity, seq, message in replayed.integrity.notes
            ],
        },
        "code": {"recorded": dict(replayed.code.recorded), "current": dict(replayed.code.current)},
        "findings": [item.as_value() for item in replayed.findings],
        "decisions": [
            {"field": name, "recorded": value, "replayed": replayed.router[1][name]}
            for name, value in replayed.router[0].items()
        ],
        "retrievals": [_describe_retrieval(item) for item in replayed.reruns],
        "gates": [_describe_gate(item) for item in replayed.gates],
        "tools": change(replayed.tools, lambda item: _describe_tool(*item)),
        "patches": [
            {
                "seq": item.fields.get("seq"),
                "path": item.fields.get("path"),
                "kind": item.fields.get("kind"),
                "status": item.status,
                "reason": item.why,
                "recorded": item.fields.get("after_hash"),
                "replayed": item.after_hash,
            }
            for item in replayed.patches
        ],
        "model_steps": {
            "reconstructable": pick(models, find_places(replayed.models, lambda item: not item[1])),
            "not_reconstructable": pick(models, find_places(replayed.models, lambda item: item[1])),
        },
        "states_refolded": replayed.states,
        "not_reevaluated": [item._asdict() for item in replayed.not_evaluated],
        "references": _list_references(replayed),
    }


def _describe_invocation(replayed: Replayed) -> dict[str, object]:
    past, started = replayed.past, replayed.past.started
    return {
        "invocation_id": past.invocation_id,
        "request": replayed.request[:_REQUEST],
        "request_chars": len(replayed.request),
        "profile_id": started.get("profile_id"),
        "action": started.get("action"),
        "verb": started.get("verb"),
        "run_kind": started.get("run_kind") or "live",
        "parent_invocation_id": started.get("parent_invocation_id"),
        "started_at": started.get("started_at"),
        "outcome": None if past.completed is None else past.completed.get("outcome"),
    }


def report_bytes(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of replay_report.json: the same value gives the same bytes everywhere."""
    return ("".join(json_pieces(value, sort_keys=True)) + "\n").encode("utf-8")


def describe_verdict(replayed: Replayed) -> str:
    errors = [item for item in replayed.findings if item.severity == ERROR]
    warnings = len(replayed.findings) - len(errors)
    done = [
        "routing",
        _count(len([item for item in replayed.reruns if item.expected is not None]), "retrieval"),
        _count(len([item for item in replayed.gates if item.status != "not_reevaluated"]), "gate"),
        _count(len([item for item in replayed.patches if item.status != "not_reapplied"]), "patch", "patches"),
    ]
    asked = ", ".join(part for part in done if not part.startswith("0 "))
    if replayed.compare_to is not None:
        against = f"as of {_name_point(replayed.compare_to)}"
    else:
        against = "as recorded"
    if replayed.until is not None:
        against += f" up to {_name_point(replayed.until)}"
    if errors:
        codes = list(dict.fromkeys(item.code for item in errors))
        text = f"DIFFERS: {_count(len(errors), 'difference')} ({', '.join(codes)}); run again: {asked}"
    else:
        text = f"{'MATCH' if replayed.match else 'NOT FULLY EVALUATED'}: {asked} come out {against}"
    if warnings:
        text += f"; {_count(warnings, 'warning')}"
    gaps = sum(bool(gaps) for _, gaps in replayed.models)
    if gaps:
        text += f"; {_count(gaps, 'model step')} cannot be reconstructed exactly"
    if replayed.not_evaluated:
        text += f"; {len(replayed.not_evaluated)} not evaluated again"
    return text


def _count(number: int, word: str, many: str = "") -> str:
    return f"{number} {word if number == 1 else many or word + 's'}"


def _name_point(point: Point) -> str:
    return str(point.label or point.stage or point.seq)


def _describe_point(point: Point | None) -> dict[str, object] | None:
    return None if point is None else point._asdict()


def _describe_retrieval(rerun: Rerun) -> dict[str, Any]:
    expected, actual, request = rerun.expected, rerun.actual, rerun.retrieval.request
    return {
        "request_id": rerun.retrieval.request_id,
        "seq": rerun.retrieval.seq,
        "query": str(request.get("query"))[:_REQUEST],
        "corpus": {"recorded": rerun.corpora[0], "replayed": rerun.corpora[1]},
        "match": expected is not None and not any(item.severity == ERROR for item in rerun.findings),
        "hits": [] if expected is None else _pair_hits(expected, actual),
        "filters_applied": {
            "recorded": None if expected is None else [dict(item) for item in expected.filters_applied],
            "replayed": [dict(item) for item in actual.filters_applied],
        },
        "context_hash": {
            "recorded": None if expected is None else expected.text_hash,
            "replayed": actual.text_hash,
        },
        "error": {"recorded": None if expected is None else expected.error, "replayed": actual.failure or actual.error},
    }


def _pair_hits(expected: Outcome, actual: Outcome) -> list[dict[str, object]]:
    then = {str(hit.get("uri")): hit for hit in expected.hits}
    now = {str(hit.get("uri")): hit for hit in actual.hits}
    return [
        {
            "uri": uri,
            "recorded": _describe_hit(then.get(uri)),
            "replayed": _describe_hit(now.get(uri)),
        }
        for uri in dict.fromkeys((*then, *now))
    ]


def _describe_hit(hit: Fields | None) -> dict[str, object] | None:
    return None if hit is None else {key: hit.get(key) for key in ("rank", "score", "digest", "explain")}


def _describe_gate(asked: Asked) -> dict[str, object]:
    fields = asked.fields
    return {
        "seq": fields.get("seq"),
        "gate": fields.get("gate"),
        "rule_ref": fields.get("rule_ref"),
        "blocking": fields.get("blocking"),
        "override": fields.get("override"),
        "status": asked.status,
        "reason": asked.why,
        "recorded": {key: fields.get(key) for key in ("outcome", "reason_code")},
        "replayed": None if asked.outcome is None else {"outcome": asked.outcome, "reason_code": asked.reason_code},
    }


def _describe_tool(call: Fields, result: Fields | None, why: str) -> dict[str, object]:
    return {
        "seq": call.get("seq"),
        "call_id": call.get("call_id"),
        "tool": call.get("tool"),
        "side_effect": call.get("side_effect"),
        "status": None if result is None else result.get("status"),
        "result_seq": None if result is None else result.get("seq"),
        "injected": not why,
        "reason": why,
    }


def _describe_model(fields: Fields, gaps: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    return {
        "seq": fields.get("seq"),
        "call_id": fields.get("call_id"),
        "model": fields.get("model"),
        "step": fields.get("step"),
        "gaps": [dict(gap) for gap in gaps],
    }


def _list_references(replayed: Replayed) -> Sequence[dict[str, str]]:
    """Return where to look: lines of the record and objects that are held, each once."""
    past = replayed.past
    lines: dict[str, str] = {}
    objects: dict[str, str] = {}

    def uri(fields: Fields) -> str:
        return f"inv://{past.invocation_id}/event/{say(fields.get('seq'))}"

    def line(fields: Fields, what: str) -> None:
        lines.setdefault(uri(fields), what)

    def obj(name: object, what: str) -> None:
        if isinstance(name, str) and name in replayed.held:
            objects.setdefault(f"obj://sha256/{name}", what)

    line(past.started, "the invocation")
    obj(past.started.get("snapshot"), "snapshot")
    obj(past.started.get("governance_context_hash"), "governance context, as it was given")
    obj(past.started.get("request_object"), "request")
    for reference in past.references:
        line(reference, "policy reference")
        obj(reference.get("bundle"), "policy")
    for rerun in replayed.reruns:
        line(rerun.retrieval.request, f"retrieval {rerun.retrieval.request_id}")
        for corpus in rerun.corpora:
            obj(corpus, "corpus")
    for point in past.points:
        lines.setdefault(f"inv://{past.invocation_id}/event/{point.seq}", f"checkpoint {point.label or point.seq}")
    for gate in replayed.gates:
        line(gate.fields, f"gate {say(gate.fields.get('gate'))}")
        obj(gate.fields.get("inputs"), f"inputs of gate {say(gate.fields.get('gate'))}")
    for patch in replayed.patches:
        line(patch.fields, f"patch {say(patch.fields.get('path'))}")
    before = list(lines.items())
    end = [] if past.completed is None else [(uri(past.completed), "the end")]
    obj(None if past.completed is None else past.completed.get("evidence_ref"), "evidence")
    references = join(
        before,
        change(past.tools, lambda pair: (uri(pair[0]), f"tool {say(pair[0].get('tool'))}")),
        change(past.models, lambda fields: (uri(fields), f"model {say(fields.get('model'))}")),
        end,
        list(objects.items()),
    )
    return change(references, lambda item: {"ref": item[0], "what": item[1]})


# --- the page


def page_of(value: Mapping[str, Any]) -> str:
    """Return the report as Markdown for a reader who was not there."""
    about = value["invocation"]
    lines = [f"# Replay of {_mark_code(about['invocation_id'])}", "", f"**{_render_text(value['verdict'])}**", ""]
    lines += _render_findings(value["findings"])
    lines += _render_gaps(value["model_steps"]["not_reconstructable"])
    lines += ["## What was replayed", ""]
    lines += [
        f"- Request: {_render_text(about['request'], _REQUEST)}",
        f"- Routed to profile {_render_text(about['profile_id'])}, action {_render_text(about['action'])}"
        f" (asked with {_render_text(about['verb'])}; kind {_render_text(about['run_kind'])})",
        f"- Begun {_render_text(about['started_at'])}; {_describe_end(about)}",
        *([] if value["until"] is None else [f"- Only what came up to checkpoint seq {value['until']['seq']}"]),
        f"- Retrievals on {_describe_ground(value['as_of'], 'the corpus each was made on')},"
        f" held against {_describe_ground(value['compare_to'], 'what is recorded')}; epsilon {value['epsilon']}",
        f"- Decided by code {_render_versions(value['code']['recorded'])}; replayed by code"
        f" {_render_versions(value['code']['current'])}",
        "",
        "The router, the retrievals and the gates were run again on what the record kept, with the network denied;"
        " recorded tool and model results were taken as they are. Nothing live was read.",
        "",
    ]
    lines += _render_integrity(value["integrity"])
    lines += ["## Decisions", ""]
    lines += _render_table(
        ("", "recorded", "replayed"),
        [
            (_render_text(item["field"]), _render_text(item["recorded"]), _render_text(item["replayed"]))
            for item in value["decisions"]
        ],
    )
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
    lines += [f"- {_mark_code(item['ref'])}: {_render_text(item['what'])}" for item in value["references"]]
    lines += ["", f"`spec-kitty invocations show {about['invocation_id']}` prints the record whole.", ""]
    return "\n".join(lines)


def first_screen(value: Mapping[str, Any]) -> list[str]:
    """Render a report for a terminal.

    It shows the verdict, the differences, and what cannot be reconstructed or asked again.
    """
    lines = [str(value["verdict"])]
    for item in value["findings"]:
        seq = "" if item["seq"] is None else f" seq {item['seq']}"
        lines.append(f"  {item['severity']}: {item['code']}{seq}: {_escape_markdown(item['message'])}")
        if item["expected"] is not None or item["actual"] is not None:
            lines.append(f"    recorded: {_escape_markdown(_render_value(item['expected']))}")
            lines.append(f"    replayed: {_escape_markdown(_render_value(item['actual']))}")
    gaps = value["model_steps"]["not_reconstructable"]
    if gaps:
        lines.append("model steps that cannot be reconstructed exactly:")
    for item in gaps:
        why = "; ".join(str(gap["reason"]) for gap in item["gaps"])
        lines.append(f"  seq {item['seq']} {_escape_markdown(str(item['model']))}: {_escape_markdown(why)}")
    left = value["not_reevaluated"]
    if left:
        lines.append("not evaluated again:")
    lines += [
        f"  seq {item['seq']} {_escape_markdown(str(item['what']))}: {_escape_markdown(str(item['reason']))}"
        for item in left[:_LISTED]
    ]
    if len(left) > _LISTED:
        lines.append(f"  and {len(left) - _LISTED} more: --json lists them")
    lines += [f"note: {item['code']}: {_escape_markdown(str(item['message']))}" for item in value["integrity"]["notes"]]
    return lines


def _render_findings(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    if not findings:
        return []
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
    return ["## Differences", "", *_render_table(("finding", "seq", "what", "recorded", "replayed"), rows)]


def _render_gaps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    if not steps:
        return []
    rows = [
        (str(item["seq"]), _render_text(item["model"]), "; ".join(_render_text(gap["reason"]) for gap in item["gaps"]))
        for item in steps
    ]
    return ["## Model steps that cannot be reconstructed exactly", "", *_render_table(("seq", "model", "why"), rows)]


def _describe_end(about: Mapping[str, Any]) -> str:
    return "not closed yet" if about["outcome"] is None else f"closed as {_render_text(about['outcome'])}"


def _describe_ground(point: Mapping[str, Any] | None, otherwise: str) -> str:
    if point is None:
        return otherwise
    return f"the corpus as of {_render_text(point['label'] or 'checkpoint')} (seq {point['seq']})"


def _render_versions(code: Mapping[str, Any]) -> str:
    return _render_text(", ".join(f"{name} {str(version)[:12]}" for name, version in sorted(code.items())))


def _render_integrity(integrity: Mapping[str, Any]) -> list[str]:
    lines = [
        "## Integrity",
        "",
        f"Intact: {integrity['lines']} lines, every seal and the chain hold, and {integrity['objects']} objects hash to"
        f" their names. Last seal {_mark_code(str(integrity['tip']))}.",
        "",
    ]
    lines += [f"- {_render_text(item['code'])}: {_render_text(item['message'])}" for item in integrity["notes"]]
    return [*lines, ""] if integrity["notes"] else lines


def _render_retrieval(item: Mapping[str, Any]) -> list[str]:
    verdict = "as before" if item["match"] else "differs, or has nothing to be held against"
    lines = [f"## Retrieval {_render_text(item['request_id'])} (seq {item['seq']}): {verdict}", ""]
    lines += [f"Query: {_render_text(item['query'])}", ""]
    error = item["error"]
    if error["recorded"] is not None or error["replayed"] is not None:
        lines += [f"Error: recorded {_render_text(error['recorded'])}, replayed {_render_text(error['replayed'])}", ""]
    rows = []
    for hit in item["hits"]:
        then, now = hit["recorded"], hit["replayed"]
        rows.append((_render_text(hit["uri"]), _render_ranked(then), _render_ranked(now), _render_change(then, now)))
    lines += _render_table(("artifact", "recorded", "replayed", "difference"), rows) if rows else ["No hits.", ""]
    filters = item["filters_applied"]
    filter_rows = [(entry, "recorded") for entry in filters["recorded"] or [] if entry not in filters["replayed"]]
    filter_rows += [(entry, "replayed") for entry in filters["replayed"] if entry not in (filters["recorded"] or [])]
    same = len(filters["replayed"]) - sum(side == "replayed" for _, side in filter_rows)
    lines.append(
        f"Policy: {_count(same, 'decision')} the same." if same or filter_rows else "Policy: nothing to decide."
    )
    for entry, side in filter_rows:
        uri, rule, action = (_render_text(entry.get(key)) for key in ("uri", "rule_id", "action"))
        lines.append(f"- only {side}: {action} {uri} by rule {rule}")
    hashes = item["context_hash"]
    if hashes["replayed"] is not None or hashes["recorded"] is not None:
        same_text = hashes["recorded"] == hashes["replayed"]
        told_text = "the same" if same_text else f"recorded {_mark_code(str(hashes['recorded']))}, replayed"
        lines += ["", f"Governance text: {told_text} {_mark_code(str(hashes['replayed']))}."]
    return [*lines, ""]


def _render_ranked(hit: Mapping[str, Any] | None) -> str:
    return "not there" if hit is None else f"rank {_render_text(hit['rank'])}, {_render_text(hit['score'])}"


def _render_change(then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    if then is None or now is None:
        return "missing" if now is None else "extra"
    names = [name for name in ("rank", "score", "digest", "explain") if then[name] != now[name]]
    return ", ".join(names)


def _render_work(value: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if value["gates"]:
        rows = [
            (
                str(item["seq"]),
                _render_text(item["gate"]),
                _render_text(item["rule_ref"]),
                _render_verdict(item["recorded"]),
                _render_verdict(item["replayed"]),
                _render_text(item["status"]),
            )
            for item in value["gates"]
        ]
        lines += ["## Gates", "", *_render_table(("seq", "gate", "rule", "recorded", "replayed", ""), rows)]
    if value["tools"]:
        gate_rows = [
            (
                str(item["seq"]),
                _render_text(item["tool"]),
                _render_text(item["side_effect"]),
                _render_text(item["status"] or "no result"),
                "recorded result held whole" if item["injected"] else _render_text(item["reason"]),
            )
            for item in value["tools"]
        ]
        lines += [
            "## Tools, none of which was run",
            "",
            *_render_table(("seq", "tool", "side effect", "status", ""), gate_rows),
        ]
    if value["patches"]:
        patch_rows = [
            (
                str(item["seq"]),
                _render_text(item["path"]),
                _render_text(item["kind"]),
                _render_text(item["status"]),
                _render_text(item["reason"]),
            )
            for item in value["patches"]
        ]
        lines += ["## Patches", "", *_render_table(("seq", "file", "kind", "", ""), patch_rows)]
    whole = value["model_steps"]["reconstructable"]
    if whole:
        lines += ["## Model steps held whole", ""]
        lines += [f"- seq {item['seq']}: {_render_text(item['model'])}" for item in whole]
        lines.append("")
    return lines


def _render_verdict(verdict: Mapping[str, Any] | None) -> str:
    return "" if verdict is None else f"{_render_text(verdict['outcome'])} ({_render_text(verdict['reason_code'])})"


def _render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return [*lines, ""]


def _render_value(value: object) -> str:
    """Return a value of a finding in a few words."""
    if isinstance(value, str):
        return value
    if value is None:
        return "nothing"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _escape_markdown(text: str) -> str:
    return _clip(" ".join(text.split()), _SHOWN)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}… ({len(text)} characters)"


def _render_text(value: object, limit: int = _SHOWN) -> str:
    """Recorded text in the middle of a line: one line, and nothing of it acts as Markdown or HTML."""
    text = _clip(str("none" if value is None else value), limit)
    text = text.replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", " ")
    text = _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    text = _MARKUP.sub(lambda found: f"\\{found.group()}", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    # Bare addresses become links in some dialects: neither `www.` nor an `@` between words is left as it is.
    text = re.sub(r"(?i)\bwww\.", lambda found: found.group()[:-1] + "\\.", text)
    return text.replace("@", "@\u2060")


def _mark_code(text: str) -> str:
    """Return an id, digest or reference as a code span; anything else as text."""
    return f"`{text}`" if re.fullmatch(r"[A-Za-z0-9:/._-]+", text) else _render_text(text)
