"""A story as lines for a terminal; and its changes alone, as one diff.

    write_lines(render_story(story))

What it all means is decided in `libraries.story`; here it is cut to lines, indented and painted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, paint
from specify_cli.cli.terminal.render import describe_span, local_clock, read_local
from specify_cli.errors import InvocationError
from specify_cli.features.story.changes import join_changes
from specify_cli.libraries.story.story import Story, StoryPart
from specify_cli.libraries.story.summary import ToldLine
from specify_cli.libraries.story.words import BAD, NAMELESS, read_printed, read_text
from specify_cli.record.reading.done_note import list_unseen_changes
from specify_cli.record.reading.patch_lines import (
    ADDED,
    REMOVED,
    digest_line,
    read_lines_member,
)
from specify_cli.record.seal import erased_members

# Of a text so many characters are shown, and of an output so many lines, where it is not whole.
_LONGEST_ANSWER = 300
_NAMED = 4
_STYLES = {"+": "added", "-": "failed"}
Get = Callable[[str], bytes]


def render_story(
    story: Story, lines: Sequence[Mapping[str, object]] | None = None
) -> Iterator[str]:
    """Yield the lines of a story's chapters and open points. With the record's lines, texts and
    outputs are shown whole."""
    full = None if lines is None else {line.get("seq"): line for line in lines}
    if story.before:
        yield f"  earlier in this turn: {one_line(story.before, 400)}"
    began = read_local(story.asked.at)
    for part in story.done:
        yield from _render_part(part, "  ", full, began)
    if not story.done:
        when = "yet" if story.outcome == "open" else "between the start and the end"
        yield f"  nothing was recorded {when}"
    for fact in story.left:
        yield paint(f"left:     {one_line(fact.text, 400)}", "failed")


def name_columns() -> str:
    """Return the heading of the lines of `render_lines`, which names the zone of their times."""
    return paint(f"line  {datetime.now().astimezone():%Z}".ljust(16) + "what happened", "head")


def render_lines(lines: Iterable[ToldLine]) -> Iterator[str]:
    """Yield one line for each line of a record: number, time (with the date and the zone that are
    not today's), words, duration.

    `lines` are those of `tell_lines`, in order.
    """
    now = datetime.now().astimezone()
    for line in lines:
        is_bad = line.outcome in BAD
        agent = f"[{one_line(line.agent, 20)}] " if line.agent else ""
        text = f": {one_line(line.text, _LONGEST_ANSWER)}" if line.text else ""
        title = f"{'✗ ' if is_bad else ''}{one_line(line.title, 160)}{text}"
        open_ = " …" if line.outcome == "open" else ""
        took = f"  {describe_span(line.duration_ms)}" if line.duration_ms else ""
        limits = _say_limits(line.limits, line.title)
        painted = paint(f"{title}{open_}", "failed" if is_bad else None)
        head = f"{line.seq:>4}  {local_clock(line.at, now)}  {agent}"
        yield f"{head}{painted}{took}{limits}".rstrip()


def _say_limits(limits: Sequence[str], title: str) -> str:
    """Return the limits of a part for the end of its title; "" if the title states them itself."""
    text = "; ".join(limit for limit in limits if limit != title)
    return paint(f"  ({one_line(text, 200)})", "dim") if text else ""


def render_changes(lines: Sequence[Mapping[str, object]], get: Get | None = None) -> Iterator[str]:
    """Yield the recorded changes of files as diffs, file by file: several of one as one diff, or
    each step where too little is kept. Then what changed while no recorded tool ran.

    `lines` are the fields of a record's lines, `get` returns the bytes of an object.
    """
    files: dict[object, list[int]] = {}
    hidden, has_gaps = 0, False
    for number, line in enumerate(lines):
        hidden += "withheld" in line
        has_gaps |= line.get("reason") == "unseen_change"
        if line.get("event") == "patch_apply":
            # What failed changed nothing, and of two files without a name nobody knows whether
            # they are one.
            is_own = line.get("ok") is False or line.get("path") is None
            files.setdefault(number if is_own else line["path"], []).append(number)

    def read(value: object) -> str | None:
        return _read_whole(value, get)

    for places in files.values():
        changes, number = [lines[place] for place in places], len(places)
        path = one_line(changes[0].get("path") or NAMELESS)
        rows = join_changes(changes, read) if number > 1 else None
        if rows is not None:
            came, gone = (sum(row[0] == sign for row in rows) for sign in "+-")
            kinds = [change.get("kind") for change in changes]
            kind = "delete" if "delete" in kinds else kinds[0]
            yield paint(f"{kind} {path} +{came} −{gone} ({number} changes as one)", "head")
            yield from (paint(row, _STYLES.get(row[0])) for row in rows)
            yield ""
            continue
        for line in changes:
            step = f" (one of {number} steps)" if number > 1 else ""
            failed = ": failed, so nothing of this was changed" if line.get("ok") is False else ""
            yield paint(f"{line.get('kind')} {path}{step}{failed}", "head")
            for mark, row in _read_rows(line, read):
                yield paint(f"{mark}{row}", _STYLES.get((mark or row)[:1]))
    for name in (unseen := list_unseen_changes(lines) if has_gaps else ()):
        yield f"changed while no recorded tool ran: {one_line(name)}: what changed is not recorded"
    if hidden:
        yield f"a safe export left out {count(hidden, 'line')} of the record"
    elif not files and not unseen:
        yield "no change of a file is recorded"


def _read_whole(value: object, get: Get | None) -> str | None:
    """Return a captured text if its line or its object holds it whole, otherwise None."""
    if not isinstance(value, dict) or not isinstance(value.get("head"), str):
        return None
    if "object" in value and get:
        with suppress(InvocationError, UnicodeDecodeError):
            return get(str(value["object"])).decode()
    is_cut = any(value.get(name) for name in ("tail", "object", "truncated"))
    return None if is_cut else str(value["head"])


def _read_rows(
    line: Mapping[str, object], read: Callable[[object], str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the rows of a change, each with the mark before it, and a blank one after a text.

    Of a file whose text afterwards alone is kept, rows that did not come with the change have none.
    """
    text, name = read(line.get("diff")) or read_text(line.get("diff")), "diff"
    if "mode" in line:
        yield "", f"nothing but its mode changed, to {one_line(line['mode'])}"
        return
    if not text:
        text, name = read(line.get("after")) or read_text(line.get("after")), "after"
    if not text:
        after = line.get("after")
        is_empty = isinstance(after, dict) and after.get("size") == 0
        is_erased = not {"diff", "after"}.isdisjoint(erased_members(line))
        gone = "its text was erased" if is_erased else "its text was not kept"
        yield "", "it is empty" if is_empty else gone
    elif name == "diff":
        # The path stands above; what a diff says of it before its first hunk may be another's.
        hunks = text.find("@@") if text.startswith(("--- ", "Index: ")) else 0
        yield from (("", row) for row in text[max(hunks, 0) :].split("\n"))
    else:
        rows = text.removesuffix("\n").split("\n")
        came = [one.mark for hunk in read_lines_member(line.get("lines")) for one in hunk]
        # What the work tree shows as new can have been moved there: then its lines say so, or none.
        is_new = line.get("kind") == "create" and (
            line.get("witness") != "tree" or set(came) == {ADDED}
        )
        yield from zip("+" * len(rows) if is_new else _mark_rows(rows, line), rows, strict=True)
        yield "", ""


def _mark_rows(rows: Sequence[str], line: Mapping[str, object]) -> list[str]:
    """Return the mark of each row of a text after a change: what came, where its hunks stand."""
    marks, at = [" "] * len(rows), 0
    digests = list(map(digest_line, rows))
    end = rows.index("[…]") - 1 if "[…]" in rows else len(rows)  # the row before it may be cut, too
    for hunk in read_lines_member(line.get("lines")):
        after = [one for one in hunk if one.mark != REMOVED]
        after_digests = [one.digest for one in after]
        for place in range(at, end):
            until = min(end, place + len(after_digests))
            if digests[place:until] == after_digests[: until - place]:
                came = (one.mark for one in after[: until - place])
                marks[place:until] = ["+" if mark == ADDED else " " for mark in came]
                at = until
                break
    return marks


def _render_part(
    part: StoryPart,
    indent: str,
    full: Mapping[object, Mapping[str, object]] | None,
    began: datetime | None,
) -> Iterator[str]:
    """Yield the lines of a part of the story, with those of the parts inside it indented.

    `full` maps the seq of each line to its fields, None where texts are only begun. `began`
    is the moment whose date and zone are not repeated.
    """
    if part.kind == "opening":
        for inner in part.parts:
            yield from _render_part(inner, indent, full, began)
        return
    is_bad = part.outcome in BAD
    title = one_line(part.title, 160)
    title = paint(f"✗ {title}", "failed") if is_bad else title
    if part.text and full is None:
        title += f": {one_line(part.text, _LONGEST_ANSWER)}"
    elif part.outcome == "open" and part.kind != "step":
        title += " (no end is recorded)"
    took = f"  {describe_span(part.duration_ms)}" if part.duration_ms else ""
    limits = _say_limits(part.limits, part.title)
    line = f"{indent}{local_clock(part.at, began)}  {title}{took}{limits}".rstrip()
    yield paint(line, "head") if part.kind == "prompt" else line
    deeper = f"{indent}  "
    if full is not None and part.text:
        yield from (f"{deeper}{row}" for row in part.text.split("\n"))
    names = part.acts if len({act.what for act in part.acts}) > 1 else ()
    if part.kind == "read":  # the same file twice is one, as the title counts it
        names = tuple({(act.what, act.result): act for act in names}.values())
    bad = [act for act in names[_NAMED:] if act.outcome in BAD]
    acts = names if full is not None else [*names[:_NAMED], *bad]
    for act in acts:
        lines = "" if act.added is None else f" +{act.added} −{act.removed}"
        came = f": {one_line(act.result)}" if act.result else ""
        sign = "✗ " if act.outcome in BAD else ""
        text = f"{deeper}{' ' * 10}{sign}{one_line(act.what, 120)}{lines}{came}"
        yield paint(text, "failed" if sign else "dim")
    if len(names) > len(acts):
        yield paint(f"{deeper}{' ' * 10}and {len(names) - len(acts)} more", "dim")
    if full is not None:
        for act in part.acts:
            fields = full.get(act.seqs[-1], {})  # of a tool its output, of a model its answer
            output = read_printed(fields.get("output", fields.get("response")))
            yield from (f"{deeper}  | {row}" for row in output.split("\n") if output)
    for inner in part.parts:
        yield from _render_part(inner, deeper, full, began)
