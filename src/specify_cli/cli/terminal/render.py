"""Tables and pages for a terminal; the only module that knows rich.

Everything recorded passes through `escape` or `one_line` first, and markup is off, so recorded text
is shown and never interpreted.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, paint, terminal_width
from specify_cli.cli.terminal.story import describe_span, local_clock, render_story
from specify_cli.record.reading.evidence import Evidence
from specify_cli.record.reading.printed import describe_printed
from specify_cli.record.reading.timeline import Entry, make_timeline, measure
from specify_cli.record.reading.usage import describe_usage
from specify_cli.record.reading.views import View, join
from specify_cli.record.story.story import Story

if TYPE_CHECKING:
    from specify_cli.record.findings import Finding

_WIDE = 160
# How many seconds a work may take before a bar tells of it.
_PATIENCE = 1.0
_OF_A_SESSION = {"session_id": "session", "agent_id": "subagent"}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, each no wider than the terminal."""
    cells = ledger([Column(heading, 8) for heading in headings], rows, shown_width())
    head, *body = ("  ".join(line).rstrip() for line in cells)
    return [paint(head, "head"), *body]


def render_findings(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield findings grouped by code: of each the first few with their place, then how many more
    there are."""
    groups: dict[str, list[Finding]] = {}
    for item in findings:
        groups.setdefault(item.code, []).append(item)
    for code, items in groups.items():
        for item in items[:_LISTED]:
            seq = "" if item.seq is None else f" seq {item.seq}"
            message = f"{one_line(item.file)}{seq} byte {item.offset}: {one_line(item.message)}"
            yield (
                f"{item.severity}: "
                f"{paint(code, 'failed' if item.severity == 'error' else 'head')} {message}"
            )
            yield f"  next: {item.repair}"
        if len(items) > _LISTED:
            yield (
                f"  and {len(items) - _LISTED} more of {code} ({len(items)} in all); --json "
                "lists them"
            )


_LISTED = 5


class Column(NamedTuple):
    """One column of a ledger: its heading, and the fewest cells it may be cut to."""

    heading: str
    least: int


def ledger(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return headings and rows as cells of equal width, every row on one line of at most `width`
    cells.

    A column is as wide as its widest cell. Where that is too much, columns are cut towards their
    least, the widest first, and then left out from the right, but for the last; that takes what is
    left. A column in which nothing stands is left out too.
    """
    from rich.cells import cell_len, set_cell_size  # `show` and others have no columns

    used = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    while (
        len(used) > 2 and sum(columns[place].least for place in used) + 2 * (len(used) - 1) > width
    ):
        del used[-2]
    table = [
        [columns[place].heading for place in used],
        *([one_line(row[place]) for place in used] for row in rows),
    ]
    widths = [max(cell_len(row[place]) for row in table) for place in range(len(used))]
    least = [min(columns[place].least, size) for place, size in zip(used, widths, strict=True)]
    room = width - 2 * (len(used) - 1) - columns[used[-1]].least
    while sum(widths[:-1]) > room and widths[:-1] != least[:-1]:
        widths[max(range(len(used) - 1), key=lambda place: widths[place] - least[place])] -= 1
    widths[-1] = width - 2 * (len(used) - 1) - sum(widths[:-1])

    def cut(cell: str, size: int) -> str:
        return (
            set_cell_size(cell, size)
            if cell_len(cell) <= size
            else set_cell_size(cell, size - 1) + "…"
        )

    return [[cut(cell, size) for cell, size in zip(row, widths, strict=True)] for row in table]


def shown_width() -> int:
    """Return how wide a table may be: a terminal's columns, or plenty."""
    return terminal_width() or _WIDE


def local_time(moment: str | None) -> str:
    """Return a moment as local time: the minute, the day where it is not today, the year where it
    is not this one."""
    try:
        there = datetime.fromisoformat(moment or "").astimezone()
    except (ValueError, OverflowError, OSError):
        return one_line(moment or "", 16)
    now = datetime.now()
    today = there.date() == now.date()
    return there.strftime(
        "%H:%M" if today else "%m-%d %H:%M" if there.year == now.year else "%Y-%m-%d"
    )


def invocation_page(
    value: Mapping[str, object], story: Story, *, explain: bool = False, full: bool = False
) -> Iterator[str]:
    """Yield the lines of one invocation for a reader: request, outcome, evidence, what was done,
    context, findings.

    With `explain` every line of the record stands in place of the story, and each rule with its
    rank and scores; with `full` texts and outputs stand whole.
    """
    entries = make_timeline(_read_events(value))
    outcome = str(value.get("outcome") or value.get("status"))
    head = (value.get("profile_id"), value.get("action"))
    yield paint(
        f"{' · '.join(one_line(part) for part in head if part is not None)} · {one_line(outcome)}",
        "head",
    )
    yield f"request:  {one_line(value.get('request') or story.asked.missing, 400)}"
    yield f"outcome:  {_describe_end(value, entries)}"
    yield f"asked by: {_describe_caller(value)} at {local_time(_text(value.get('started_at')))}"
    if story.asked.work:
        yield f"part of:  {one_line(story.asked.work)}"
    if value.get("parent_invocation_id"):
        yield f"parent:   {value['parent_invocation_id']}"
    yield (
        "record:   "
        f"{value['invocation_id']}"
        f"{'' if value.get('sealed') else '  (unsealed, from an older writer)'}"
    )
    decided = next(iter(_read_events(value)), {}).get("decisions")
    if decided is not None:
        yield f"decided:  {one_line(decided, 400)}  (for this clone, before it)"
    if explain:
        yield f"file:     {value.get('path')}"
    yield from _render_import(value.get("imported"))
    yield from _render_evidence(value.get("evidence"))
    yield from _render_note(value.get("note"))
    for row in _filter_objects(value.get("usage")):
        yield f"used:     {one_line(describe_usage(row), 400)}"
    witnesses = value.get("witnesses")
    if isinstance(witnesses, dict):
        yield f"told by:  {one_line(Evidence(**witnesses).describe())}"
    unseen = value.get("not_seen")
    if isinstance(unseen, list) and unseen:
        yield f"not seen: {', '.join(map(str, unseen))}"
    if explain:
        yield from ("", "timeline")
        yield from _render_timeline(entries)
    else:
        yield from ("", "what was done")
        yield from render_story(story, _read_events(value) if full else None)
    yield ""
    yield from _render_context(
        value.get("context"), sealed=bool(value.get("sealed")), explain=explain
    )
    yield from _render_counted(_filter_objects(value.get("findings")))


def _render_counted(findings: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield findings that say the same as one line with their number."""
    yield from ("", "findings") if findings else ()
    counts = Counter(
        (item["severity"], item["code"], one_line(item["message"])) for item in findings
    )
    for (severity, code, message), number in counts.items():
        yield f"  {severity}: {code}{f' ×{number}' if number > 1 else ''} {message}"


def _read_events(value: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    """Return the lines of a record, which are read when they are asked for, and its annexes behind
    them."""
    events = value.get("events")
    return join(
        events if isinstance(events, View) else _filter_objects(events),
        _filter_objects(value.get("annexes")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _describe_end(value: Mapping[str, object], entries: Sequence[Entry]) -> str:
    """Return how the invocation ended and what it took; of an open one when it was last heard
    of."""
    calls = Counter(entry.bad for entry in entries if entry.kind == "tool_call")
    bad = f" ({calls[True]} failed or denied)" if calls[True] else ""
    parts = [count(calls.total(), "call") + bad] if calls else []
    if value.get("completed_at") is None:
        last = next((entry.at for entry in reversed(entries) if entry.at), None)
        return " · ".join([f"open, last event {local_time(last)}" if last else "open", *parts])
    took = describe_span(measure(_text(value.get("started_at")), _text(value.get("completed_at"))))
    ended = f"{one_line(value.get('outcome'))} at {local_time(_text(value.get('completed_at')))}"
    return " · ".join([f"{ended}, after {took}" if took else ended, *parts])


def _render_timeline(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield every entry, the calls of a step below it."""
    inside: dict[int, array[int]] = {}
    for place, entry in enumerate(entries):
        if entry.within is not None:
            inside.setdefault(entry.within, array("I")).append(place)
    for place, entry in enumerate(entries):
        if entry.within is None:
            yield f"  {_render_entry(entry)}"
            yield from (f"    {_render_entry(entries[at])}" for at in inside.get(place, ()))


def _render_entry(entry: Entry) -> str:
    """Return one entry on one line: its line's number, time, name, how it ended, how long it took,
    what it is about."""
    status = entry.status or ""
    agent = f"[{one_line(entry.agent, 20)}]" if entry.agent else ""
    by = entry.fields.get("by")
    by = (
        f"(by {one_line(by.get('session_id') or by.get('actor_id'), 40)})"
        if isinstance(by, dict)
        else ""
    )
    parts = (
        one_line(entry.name, 24),
        paint(f"✗ {status}", "failed") if entry.bad and status else status,
        describe_span(entry.duration_ms),
        agent,
        one_line(entry.about, 100),
        by,
    )
    return f"{entry.seq:>4}  {local_clock(entry.at)}  {'  '.join(filter(None, parts))}".rstrip()


def _describe_caller(value: Mapping[str, object]) -> str:
    """Return who asked, and in which session of which harness where one is known."""
    asked = one_line(value.get("actor_id") or "unknown", 80)
    if value.get("model"):
        asked = f"{asked} ({one_line(value['model'], 80)})"
    session = value.get("session")
    if not isinstance(session, dict):
        return asked
    members = [f"{name} {session[key]}" for key, name in _OF_A_SESSION.items() if session.get(key)]
    harness = [] if session.get("harness") in (None, asked) else [str(session["harness"])]
    return one_line(" · ".join([asked, *harness, *members]))


def _say_bearing(hit: Mapping[str, object]) -> str:
    """Return which file or kind of work brought a rule, as far as the record says it."""
    because = hit.get("because")
    named = [one_line(one, 80) for one in because] if isinstance(because, list) else []
    named = [one for one in named if one.startswith(("file ", "kind "))]
    return f" ({', '.join(named)})" if named else ""


def _render_context(context: object, *, sealed: bool, explain: bool) -> list[str]:
    if not isinstance(context, dict):
        return []
    if context.get("hash") is None:
        why = (
            "the invocation was begun with the trail off"
            if sealed
            else "the older writer did not keep it"
        )
        return [f"context   not kept: {why}"]
    if not context.get("available"):
        return [f"context   none ({context.get('error') or 'no charter'})"]
    hits = _filter_objects(context.get("hits"))
    # Records before the scorer of version 3 showed each rule whole.
    hits.sort(key=lambda hit: hit.get("shown") == "line")
    offered = sum(hit.get("shown") == "line" for hit in hits)
    named = f"{count(len(hits) - offered, 'rule')} in front of the agent"
    lines = [
        f"context   {named}{f', {offered} on demand' if offered else ''}, "
        f"{_name_digest(context['hash'], cut=not explain)}"
    ]
    said = describe_printed(context.get("printed"))
    lines += [f"  {said}"] if said else []
    if not explain:
        lines += [f"  {one_line(hit.get('uri'))}{_say_bearing(hit)}" for hit in hits[:_RULES]]
        lines += (
            [f"  and {len(hits) - _RULES} more; --explain shows all, with scores"]
            if len(hits) > _RULES
            else []
        )
    for hit in hits if explain else []:
        scores = hit.get("explain")
        why = (
            ", ".join(f"{key} {value}" for key, value in scores.items())
            if isinstance(scores, dict)
            else ""
        )
        rank, score = one_line(hit.get("rank"), 80), one_line(hit.get("score"), 80)
        because = hit.get("because")
        said = f"; {', '.join(map(str, because))}" if isinstance(because, list) and because else ""
        shown = f"  {one_line(hit['shown'], 10)}" if "shown" in hit else ""
        lines.append(
            f"  {rank:>3}  {score}{shown}  {one_line(hit.get('uri'))}  ({one_line(why + said)})"
        )
    for item in _filter_objects(context.get("filters_applied")):
        action, rule, uri = (one_line(item.get(key)) for key in ("action", "rule_id", "uri"))
        lines.append(f"  {action} by rule {rule}: {uri}")
    return lines


_RULES = 6


def _filter_objects(value: object) -> list[dict[str, object]]:
    """Return the JSON objects in a recorded list; what else stands there is not shown."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _render_evidence(evidence: object) -> list[str]:
    if not isinstance(evidence, dict) or not any(evidence.values()):
        return []
    lines = ["", "evidence"]
    if evidence.get("evidence_ref"):
        lines.append(
            f"  {one_line(evidence.get('evidence_name'))}  {_name_digest(evidence['evidence_ref'])}"
        )
    for item in evidence.get("artifacts") or []:
        digest = "" if item["digest"] is None else f"  {_name_digest(item['digest'])}"
        lines.append(f"  artifact {one_line(item['ref'])}{digest}")
    for sha in evidence.get("commits") or []:
        lines.append(f"  commit {sha}")
    return lines


def _name_digest(digest: object, *, cut: bool = False) -> str:
    """Return a digest with the name its width tells; records of older writers keep 16 digits of
    theirs."""
    text = one_line(digest, 80)
    return f"SHA-256 {text[:16] + '…' if cut else text}" if len(text) == 64 else f"hash {text}"


def _render_note(note: object) -> list[str]:
    """Return what stands out in a record that was closed as done, a line each."""
    lines: list[str] = []
    for item in _filter_objects(note):
        seqs = item["seqs"] if isinstance(item["seqs"], list) else []
        cited = f" (seq {', '.join(map(str, seqs))})" if seqs else ""
        lines.append(f"{'' if lines else 'note:':<9} {one_line(item['text'], 400)}{cited}")
    return lines


def _render_import(imported: object) -> list[str]:
    """Return the line that says an imported record is one, and what that means for its times."""
    if not isinstance(imported, dict):
        return []
    program = " ".join(
        one_line(imported.get(name) or "") for name in ("harness", "version")
    ).strip()
    at = local_time(_text(imported.get("at")))
    return [
        f"imported: at {at} from a transcript of {program}; its times are that transcript's claims"
    ]


@contextmanager
def bar_when_long(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give what shows a bar once a work takes longer than a moment; None where no person
    watches."""
    if not sys.stderr.isatty():
        yield None
        return
    began, bar = time.monotonic(), list[Callable[[int, int], None]]()
    with ExitStack() as stack:

        def tell(done: int, total: int) -> None:
            if not bar and time.monotonic() - began > _PATIENCE:
                bar.append(stack.enter_context(progress_bar(what)))
            for show in bar:
                show(done, total)

        yield tell


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr that is told (done, of how many) and goes away at the end: how far, how
    fast, how long."""
    from rich import console, progress  # slow to load

    columns = (progress.TextColumn(what), progress.BarColumn(), progress.MofNCompleteColumn())
    rate, clock = progress.TextColumn("{task.fields[rate]}"), progress.TimeRemainingColumn()
    with progress.Progress(
        *columns, rate, clock, console=console.Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=None, rate="")
        [shown_task] = bar.tasks

        def show(done: int, total: int) -> None:
            rate = "" if shown_task.speed is None else f"{shown_task.speed:,.0f}/s"
            bar.update(task, completed=done, total=total, rate=rate)

        yield show


@contextmanager
def progress_at_terminal(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar at a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with progress_bar(what) as advance:
        yield advance
