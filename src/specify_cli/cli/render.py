"""Tables and pages for a terminal; the only module that knows rich.

Everything recorded passes through `escape` or `one_line` first, and markup is off, so recorded text is
shown and never interpreted.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from specify_cli.cli.output import one_line
from specify_cli.record.event_table import EVENTS

_WIDE = 160
_OF_A_SESSION = {"session_id": "session", "agent_id": "subagent"}
_TIME_KEYS = ("started_at", "completed_at", "at")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a plain table; the last column wraps, the others keep their width."""
    # Rich takes longer to load than the rest of a command, and `--json` has no table.
    from rich import box, console, text
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, heading in enumerate(headings):
        shown.add_column(heading, no_wrap=place == 0, overflow="fold")
    for row in rows:
        shown.add_row(*(text.Text(one_line(cell)) for cell in row))
    colour = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if colour else _WIDE
    out = io.StringIO()
    page = console.Console(file=out, width=width, force_terminal=colour, markup=False, highlight=False, emoji=False)
    page.print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).rstrip("\n")


def invocation_page(value: Mapping[str, object]) -> list[str]:
    """Return the lines of one invocation for a reader: head, request, context, timeline, evidence, findings."""
    completed = value.get("completed_at") or _describe_open(value.get("events"))
    head = value.get("profile_id"), value.get("action"), value.get("outcome") or value.get("status")
    lines = [
        f"{value['invocation_id']}  {' · '.join(one_line(part) for part in head if part is not None)}",
        f"request:  {one_line(value.get('request') or '', 400)}",
        f"started:  {value.get('started_at') or '—'}    completed: {completed}",
        f"asked by: {_describe_caller(value)}",
        *([f"parent:   {value['parent_invocation_id']}"] if value.get("parent_invocation_id") else []),
        f"record:   {value.get('path')}{'' if value.get('sealed') else '  (unsealed, from an older writer)'}",
        "",
        *_render_context(value.get("context"), sealed=bool(value.get("sealed"))),
        "",
        "timeline",
    ]
    events = value.get("events")
    for event in events if isinstance(events, list) else []:
        lines.append("  " + event_line(event))
    annexes = value.get("annexes")
    if isinstance(annexes, list) and annexes:
        lines += ["", "after it was closed", *("  " + event_line(event) for event in annexes)]
    lines += _render_evidence(value.get("evidence"))
    findings = value.get("findings")
    if isinstance(findings, list) and findings:
        lines += ["", "findings"]
        lines += [f"  {item['severity']}: {item['code']} {one_line(item['message'])}" for item in findings]
    return lines


def _describe_open(events: object) -> str:
    """Return what stands where a closed record has its end: when the open one was last heard of."""
    last = events[-1] if isinstance(events, list) and events else {}
    moment = next((last[key] for key in _TIME_KEYS if isinstance(last.get(key), str)), None)
    return "—" if moment is None else f"— (last event {moment})"


def _describe_caller(value: Mapping[str, object]) -> str:
    """Return who asked, and in which session of which harness where one is known."""
    asked = one_line(value.get("actor_id") or "unknown", 80)
    if value.get("model"):
        asked = f"{asked} ({one_line(value['model'], 80)})"
    session = value.get("session")
    if not isinstance(session, dict):
        return asked
    told = [f"{name} {session[key]}" for key, name in _OF_A_SESSION.items() if session.get(key)]
    harness = [] if session.get("harness") in (None, asked) else [str(session["harness"])]
    return one_line(" · ".join([asked, *harness, *told]))


def event_line(event: Mapping[str, object]) -> str:
    """Return one event on one line: number, time, name, the subagent it is of where it is one's, what it says."""
    moment = next((str(event[key]) for key in _TIME_KEYS if isinstance(event.get(key), str)), "")
    name = one_line(event.get("event", ""))
    if name == "retrieval_response":
        hits, filters = event.get("hits"), event.get("filters_applied")
        told = f"{_count_items(hits)} hits, {_count_items(filters)} filtered"
    else:
        shown = EVENTS[name].shown if name in EVENTS else ()
        told = " ".join(_shorten(key, event[key]) for key in shown if event.get(key) is not None)
    if event.get("agent") is not None:
        told = f"[{_shorten('agent', event['agent'])}] {told}"
    by = event.get("by")
    if isinstance(by, dict):
        told = f"{told} (by {_shorten('by', by.get('session_id') or by.get('actor_id'))})"
    clock = re.split("[Z+-]", moment[11:])[0][:12]
    return f"{one_line(event.get('seq', '-')):>4}  {clock:<12}  {name:<20} {told}".rstrip()


def _shorten(key: str, value: object) -> str:
    """Return a value as it stands in one line: of a captured text its beginning, of a yes or no what it is about."""
    if isinstance(value, bool):
        return key if value else f"no {key}"
    return one_line(value.get("head", "") if isinstance(value, dict) else value, 80)


def _render_context(context: object, *, sealed: bool) -> list[str]:
    if not isinstance(context, dict):
        return []
    if context.get("hash") is None:
        why = "the invocation was begun with the trail off" if sealed else "the older writer did not keep it"
        return [f"context   not kept: {why}"]
    if not context.get("available"):
        return [f"context   none ({context.get('error') or 'no charter'})"]
    lines = [f"context   {_name_digest(context['hash'])}"]
    hits = context.get("hits")
    for hit in _filter_objects(hits):
        explain = hit.get("explain")
        why = ", ".join(f"{key} {value}" for key, value in explain.items()) if isinstance(explain, dict) else ""
        rank, score = one_line(hit.get("rank"), 80), one_line(hit.get("score"), 80)
        lines.append(f"  {rank:>3}  {score}  {one_line(hit.get('uri'))}  ({one_line(why)})")
    for item in _filter_objects(context.get("filters_applied")):
        action, rule, uri = (one_line(item.get(key)) for key in ("action", "rule_id", "uri"))
        lines.append(f"       {action} by rule {rule}: {uri}")
    return lines


def _filter_objects(value: object) -> list[dict[str, object]]:
    """Return the JSON objects in a recorded list; what else stands there is not shown."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _render_evidence(evidence: object) -> list[str]:
    if not isinstance(evidence, dict) or not any(evidence.values()):
        return []
    lines = ["", "evidence"]
    if evidence.get("evidence_ref"):
        lines.append(f"  {one_line(evidence.get('evidence_name'))}  {_name_digest(evidence['evidence_ref'])}")
    for item in evidence.get("artifacts") or []:
        digest = "" if item["digest"] is None else f"  {_name_digest(item['digest'])}"
        lines.append(f"  artifact {one_line(item['ref'])}{digest}")
    for sha in evidence.get("commits") or []:
        lines.append(f"  commit {sha}")
    return lines


def _name_digest(digest: object) -> str:
    """Return a digest with the name its width tells; records of older writers keep 16 digits of theirs."""
    text = one_line(digest, 80)
    return f"SHA-256 {text}" if len(text) == 64 else f"hash {text}"


def _count_items(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr that is told (done, of how many) and goes away at the end."""
    from rich import console, progress

    columns = (progress.TextColumn(what), progress.BarColumn(), progress.MofNCompleteColumn())
    clock = progress.TimeRemainingColumn()
    with progress.Progress(*columns, clock, console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
