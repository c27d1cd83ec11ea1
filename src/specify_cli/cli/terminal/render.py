"""Tables and pages for a terminal; the only module that knows rich.

Everything recorded passes through `escape` or `one_line` first, and markup is off, so recorded text
is shown and never interpreted.

    write_lines(table(["profile", "roles"], [["implementer-ivan", "implementer"]]))
"""

from __future__ import annotations

import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, paint, terminal_width
from specify_cli.record import layout
from specify_cli.record.reading.coverage import say_unseen
from specify_cli.record.reading.done_note import Remark
from specify_cli.record.reading.evidence import Evidence, describe_outcome
from specify_cli.record.reading.printed_context import UNREAD, describe_printed
from specify_cli.record.reading.timeline import Entry, make_timeline, measure
from specify_cli.record.reading.usage import describe_usage
from specify_cli.record.reading.views import View, join, list_objects
from specify_cli.record.seal import erased_members

if TYPE_CHECKING:
    from specify_cli.record.findings import Finding

_WIDE = 160
# How many seconds a work may take before a bar tells of it.
_PATIENCE = 1.0
_KINDS = {"as_of_replay": "replay", "reexecution": "rerun"}
_OF_A_SESSION = {"session_id": "session", "agent_id": "subagent"}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, each no wider than the terminal.

    `rows` have as many cells as `headings`. Cells are escaped here.
    """
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
            place = f"{one_line(item.file)}{seq} byte {item.offset}"
            painted_code = paint(code, "failed" if item.severity == "error" else "head")
            yield f"{item.severity}: {painted_code} {place}: {one_line(item.message)}"
            yield f"  next: {item.repair}"
        more = len(items) - _LISTED
        if more > 0:
            yield f"  and {more} more of {code} ({len(items)} in all); --json lists them"


_LISTED = 5


class Column(NamedTuple):
    """One column of a ledger: its heading, and the fewest cells it may be cut to.

    `least` is in cells of a terminal, of which a wide character takes two.
    """

    heading: str
    least: int


def ledger(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return headings and rows as cells of equal width, every row on one line of at most `width`
    cells.

    A column is as wide as its widest cell. If the row is too wide, columns are cut to their
    minimum, the widest first, and then dropped from the right. The last column stays and takes the
    remaining width. Empty columns are dropped too.
    """
    from rich.cells import cell_len, set_cell_size  # `show` and others have no columns

    used = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    while len(used) > 2 and _add_gaps(columns[place].least for place in used) > width:
        del used[-2]
    table = [[columns[place].heading for place in used]]
    table += [[one_line(row[place]) for place in used] for row in rows]
    widest = [max(map(cell_len, cells)) for cells in zip(*table, strict=True)]
    widths = _fit_widths(widest, [columns[place].least for place in used], width)

    def cut(cell: str, size: int) -> str:
        if cell_len(cell) <= size:
            return set_cell_size(cell, size)
        return set_cell_size(cell, size - 1) + "…"

    return [[cut(cell, size) for cell, size in zip(row, widths, strict=True)] for row in table]


def _add_gaps(widths: Iterable[int]) -> int:
    """Return how wide columns are together, with two blanks between them."""
    sizes = list(widths)
    return sum(sizes) + 2 * (len(sizes) - 1)


def _fit_widths(widest: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return the width of each column: its widest cell, cut if the row is too wide; the last column
    takes the remaining width."""
    widths, smallest = list(widest), list(map(min, least, widest))
    before_last = range(len(widths) - 1)
    while _add_gaps([*widths[:-1], least[-1]]) > width and widths[:-1] != smallest[:-1]:
        longest = max(before_last, key=lambda place: widths[place] - smallest[place])
        widths[longest] -= 1
    widths[-1] = width - _add_gaps([*widths[:-1], 0])
    return widths


def shown_width() -> int:
    """Return how wide a table may be: a terminal's columns, or plenty."""
    return terminal_width() or _WIDE


def describe_span(millis: int | None) -> str:
    """Return a duration in the unit a person would use; "" if it is not known.

    `millis` is the duration in milliseconds.
    """
    if millis is None:
        return ""
    if millis < 1000:
        return f"{millis} ms"
    seconds = millis / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def local_clock(moment: str | None, near: datetime | None = None) -> str:
    """Return a recorded moment as the local time of day, with the date and the zone that are not
    those of `near`."""
    there = read_local(moment)
    if not there:
        return "        "
    near = near or there
    clock = "%H:%M:%S" if there.date() == near.date() else "%m-%d %H:%M:%S"
    return there.strftime(clock) + name_zone(there, near)


def read_local(moment: str | None) -> datetime | None:
    """Return a recorded moment in local time; None if it is missing or malformed."""
    try:
        return datetime.fromisoformat(moment or "").astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def local_time(moment: str | None, near: datetime | None = None) -> str:
    """Return a moment as local time with minutes; with the day if it is not today, the year if it
    is not this one, and the zone if it is not that of `near`."""
    there = read_local(moment)
    if not there:
        return one_line(moment or "", 16)
    now = datetime.now()
    if there.year != now.year:
        return there.strftime("%Y-%m-%d")
    clock = "%H:%M" if there.date() == now.date() else "%m-%d %H:%M"
    return there.strftime(clock) + name_zone(there, near or there)


def zoned_time(moment: str | None) -> str:
    """Return a moment as `local_time` does, with its zone."""
    return local_time(moment) + name_zone(read_local(moment))


def name_zone(there: datetime | None, near: datetime | None = None) -> str:
    """Return the name of a moment's zone after a blank; "" without a moment, and where the same is
    in force at `near`: another is where the clocks changed between the two."""
    is_same = not there or (near and there.tzname() == near.tzname())
    return "" if is_same else f" {there:%Z}"


def name_kind(path: object, mode_of_work: object, run_kind: object) -> str:
    """Return one word for a record that is not one of work: import, advice, replay or rerun."""
    if run_kind in _KINDS:
        return _KINDS[str(run_kind)]
    if layout.IMPORTED in str(path):
        return "import"
    return "advice" if mode_of_work == "advisory" else ""


class PageStory(NamedTuple):
    """The story of a record as its page shows it: why no request is there, which work package it is
    of, how many calls it has, what is known of rules being kept, and its lines, which stand in
    place of the timeline."""

    missing: str
    work: str
    calls: str
    judged: str
    lines: Iterable[str]


def invocation_page(
    value: Mapping[str, object], story: PageStory | None, *, explain: bool
) -> Iterator[str]:
    """Yield the lines of one invocation for a reader: request, outcome, evidence, what was done,
    context, findings.

    With `explain`, and without a story, every line of the record is shown; with `explain` each rule
    has its rank and scores, too.

    `value` is what `view_invocation` returned. The lines of the record are read while they are
    yielded.
    """
    entries = make_timeline(read_events(value))
    outcome = str(value.get("outcome") or value.get("status"))
    kind = name_kind(*(value.get(key) for key in ("path", "mode_of_work", "run_kind")))
    head = (value.get("profile_id"), value.get("action"), outcome, kind or None)
    yield paint(" · ".join(one_line(part) for part in head if part is not None), "head")
    request = value.get("request") or (story.missing if story else "not kept")
    yield f"request:  {one_line(request, 400)}"
    calls = f" · {story.calls}" if story and story.calls else ""
    yield f"outcome:  {_describe_end(value, entries)}{calls}"
    begun = zoned_time(_text(value.get("started_at")))
    yield f"asked by: {_describe_caller(value)} at {begun}"
    if story and story.work:
        yield f"part of:  {one_line(story.work)}"
    if value.get("parent_invocation_id"):
        yield f"parent:   {value['parent_invocation_id']}"
    writer = "" if value.get("sealed") else "  (unsealed, from an older writer)"
    yield f"record:   {value['invocation_id']}{writer}"
    decided = next(iter(read_events(value)), {}).get("decisions")
    if decided is not None:
        yield f"decided:  {one_line(decided, 400)}  (for this clone, before it)"
    if explain:
        yield f"file:     {value.get('path')}"
    yield from _render_import(value.get("imported"))
    yield from _render_evidence(value.get("evidence"))
    yield from _render_note(value.get("note"))
    for row in list_objects(value.get("usage")):
        yield f"used:     {one_line(describe_usage(row), 400)}"
    witnesses = value.get("witnesses")
    if isinstance(witnesses, dict):
        yield f"told by:  {one_line(Evidence(**witnesses).describe())}"
    unseen = value.get("not_seen")
    if isinstance(unseen, list) and unseen:
        yield f"not seen: {say_unseen(unseen)}"
    if explain or not story:
        yield from ("", "timeline")
        yield from _render_timeline(entries)
    else:
        yield from ("", "what was done")
        yield from story.lines
    yield ""
    is_unread = isinstance(unseen, list) and UNREAD in unseen
    yield from _render_context(value, explain=explain, is_unread=is_unread)
    if story and story.judged:
        yield f"  {one_line(story.judged, 400)}"
    yield from _render_counted(list_objects(value.get("findings")))


def _render_counted(findings: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield findings that say the same as one line with their number."""
    if not findings:
        return
    yield from ("", "findings")
    counts = Counter(
        (item["severity"], item["code"], one_line(item["message"])) for item in findings
    )
    for (severity, code, message), number in counts.items():
        times = f" ×{number}" if number > 1 else ""
        yield f"  {severity}: {code}{times} {message}"


def read_events(value: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    """Return the lines of a record, which are read when they are looked at, and those of its
    annexes."""
    events = value.get("events")
    return join(
        events if isinstance(events, View) else list_objects(events),
        list_objects(value.get("annexes")),
    )


def _text(value: object) -> str | None:
    """Return a value if it is a text."""
    return value if isinstance(value, str) else None


def _describe_end(value: Mapping[str, object], entries: Sequence[Entry]) -> str:
    """Return how the invocation ended and its duration; for an open one the time of its last
    line."""
    started, completed = _text(value.get("started_at")), _text(value.get("completed_at"))
    if value.get("completed_at") is None:
        last = next((entry.at for entry in reversed(entries) if entry.at), None)
        end = f"open, last event {local_time(last)}" if last else "open"
    else:
        took = describe_span(measure(started, completed))
        closing = next((entry for entry in reversed(entries) if entry.kind == "completed"), None)
        end = one_line(describe_outcome(closing.fields if closing else value))
        end += f" at {local_time(completed)}"
        end += f", after {took}" if took else ""
    return end


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
    """Return one entry on one line: number of its line, time, name, status, duration and
    subject."""
    status = entry.status or ""
    if entry.bad and status:
        status = paint(f"✗ {status}", "failed")
    by = entry.fields.get("by")
    writer = (by.get("session_id") or by.get("actor_id")) if isinstance(by, dict) else None
    is_open = entry.kind == "tool_call" and status == "open"  # `approve --call` takes its id
    parts = (
        one_line(entry.name, 24),
        status,
        describe_span(entry.duration_ms),
        f"[{one_line(entry.agent, 20)}]" if entry.agent else "",
        one_line(entry.about, 100),
        f"call {one_line(entry.fields.get('call_id'), 80)}" if is_open else "",
        f"(by {one_line(writer, 40)})" if isinstance(by, dict) else "",
    )
    return f"{entry.seq:>4}  {local_clock(entry.at)}  {'  '.join(filter(None, parts))}".rstrip()


def _describe_caller(value: Mapping[str, object]) -> str:
    """Return the caller of a record, with session and harness if they are known."""
    text = one_line(value.get("actor_id") or "unknown", 80)
    if value.get("model"):
        text = f"{text} ({one_line(value['model'], 80)})"
    session = value.get("session")
    if not isinstance(session, dict):
        return text
    members = [f"{name} {session[key]}" for key, name in _OF_A_SESSION.items() if session.get(key)]
    harness = [] if session.get("harness") in (None, text) else [str(session["harness"])]
    return one_line(" · ".join([text, *harness, *members]))


def _say_bearing(hit: Mapping[str, object]) -> str:
    """Return which file or kind of work brought a rule, as far as the record says it."""
    because = hit.get("because")
    reasons = [one_line(one, 80) for one in because] if isinstance(because, list) else []
    reasons = [one for one in reasons if one.startswith(("file ", "kind "))]
    return f" ({', '.join(reasons)})" if reasons else ""


def _render_context(
    value: Mapping[str, object], *, explain: bool, is_unread: bool
) -> Iterator[str]:
    """Yield the lines about the rules that the agent was shown, and those that the policy withheld.

    With `explain` each rule has its rank, score and reasons; otherwise only the first few are
    named. What was erased is said, as far as `value`, what `view_invocation` returned, tells it.
    """
    context = value.get("context")
    if not isinstance(context, dict):
        return
    opening = list(islice(read_events(value), _OPENING))
    if context.get("hash") is None:
        why = "it was erased, or left out of this copy"
        if not value.get("sealed"):
            why = "the older writer did not keep it"
        elif any(line.get("tombstone") for line in opening):
            why = "the invocation was begun with the trail off"
        yield f"context   not kept: {why}"
        return
    if not context.get("available"):
        yield f"context   none ({context.get('error') or 'no charter'})"
        return
    hits = list_objects(context.get("hits"))
    # Records before the scorer of version 3 showed each rule whole.
    hits.sort(key=lambda hit: hit.get("shown") == "line")
    offered = sum(hit.get("shown") == "line" for hit in hits)
    summary = f"{count(len(hits) - offered, 'rule')} in front of the agent"
    if any("hits" in erased_members(line) for line in opening):
        summary = "which rules were in front of the agent was erased"
    elif is_unread:
        summary = f"{count(len(hits), 'rule')} found, and given to nobody: a hook began it"
    elif offered:
        summary += f", {offered} on demand"
    yield f"context   {summary}, {_name_digest(context['hash'], cut=not explain)}"
    printed = describe_printed(context.get("printed"))
    if printed:
        yield f"  {printed}"
    if explain:
        yield from map(_explain_hit, hits)
    else:
        for hit in hits[:_RULES]:
            yield f"  {one_line(hit.get('uri'))}{_say_bearing(hit)}"
        if len(hits) > _RULES:
            yield f"  and {len(hits) - _RULES} more; --explain shows all, with scores"
    for item in list_objects(context.get("filters_applied")):
        action, rule, uri = (one_line(item.get(key)) for key in ("action", "rule_id", "uri"))
        yield f"  {action} by rule {rule}: {uri}"


def _explain_hit(hit: Mapping[str, object]) -> str:
    """Return a rule with its rank, its score, the parts of the score, and the reasons for it."""
    rank, score = one_line(hit.get("rank"), 80), one_line(hit.get("score"), 80)
    form = f"  {one_line(hit['shown'], 10)}" if "shown" in hit else ""
    scores, because = hit.get("explain"), hit.get("because")
    why = ""
    if isinstance(scores, dict):
        why = ", ".join(f"{key} {value}" for key, value in scores.items())
    if isinstance(because, list) and because:
        why += f"; {', '.join(map(str, because))}"
    return f"  {rank:>3}  {score}{form}  {one_line(hit.get('uri'))}  ({one_line(why)})"


# A record that was asked for begins with so many lines, which say what its context was.
_OPENING = 4
_RULES = 6


def _render_evidence(evidence: object) -> list[str]:
    """Return a line for each piece of evidence of the work: a file, artifacts, commits."""
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
    """Return a digest with its name, which follows from its length: records of older writers hold
    only 16 digits of theirs."""
    text = one_line(digest, 80)
    if len(text) != 64:
        return f"hash {text}"
    return f"SHA-256 {text[:16]}…" if cut else f"SHA-256 {text}"


def _render_note(note: object) -> list[str]:
    """Return a line for each remark about a record that was closed as done."""
    lines: list[str] = []
    for item in list_objects(note):
        seqs = item["seqs"] if isinstance(item["seqs"], list) else []
        remark = Remark("", one_line(item["text"], 400), tuple(seqs)).line
        lines.append(f"{'' if lines else 'note:':<9} {remark}")
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
    """Yield a function (number, total) that shows a progress bar once the work takes longer than a
    moment; None if stderr is no terminal.

    `what` stands before the bar. The function may be called as often as wanted.
    """
    if not sys.stderr.isatty():
        yield None
        return
    began, bar = time.monotonic(), list[Callable[[int, int], None]]()
    with ExitStack() as stack:

        def tell(number: int, total: int) -> None:
            if not bar and time.monotonic() - began > _PATIENCE:
                bar.append(stack.enter_context(progress_bar(what)))
            for show in bar:
                show(number, total)

        yield tell


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr, with speed and remaining time, and yield a function (number,
    total) that moves it. The bar is removed at the end.

    `what` stands before the bar.
    """
    from rich import console, progress  # slow to load

    columns = (progress.TextColumn(what), progress.BarColumn(), progress.MofNCompleteColumn())
    rate, clock = progress.TextColumn("{task.fields[rate]}"), progress.TimeRemainingColumn()
    with progress.Progress(
        *columns, rate, clock, console=console.Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=None, rate="")
        [shown_task] = bar.tasks

        def show(number: int, total: int) -> None:
            rate = "" if shown_task.speed is None else f"{shown_task.speed:,.0f}/s"
            bar.update(task, completed=number, total=total, rate=rate)

        yield show


@contextmanager
def progress_at_terminal(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar at a terminal and yield the function that moves it; elsewhere yield None.

    `what` stands before the bar. With `quiet` there is none either, as for `--json`.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with progress_bar(what) as advance:
        yield advance
