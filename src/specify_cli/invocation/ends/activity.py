"""Find the calls and edits of records that can explain why a file changed at a moment.

    activity = read_activity(fields_of(record), now)
    activity.explains("src/login.py", moment)     # a call ran then, or an edit of this file says so

Every moment here is in milliseconds.
"""

from __future__ import annotations

import os
from datetime import datetime
from itertools import islice

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.durable import YEAR_10000
from specify_cli.errors import InvocationError
from specify_cli.record.record import lines_in_force
from specify_cli.record.seal import Fields, read_fields
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# A file system's clock runs behind by a tick, and a hook begins and ends a moment beside its tool.
SLACK_MILLIS = 100
# How long a tool is assumed to have run if only its end is recorded; most edits take less.
_UNTOLD_MILLIS = 5000
# How many of the newest records are searched for an explanation of a change.
_MAX_RECORDS = 200
# How long a call of another record can run without a line about it: its session may have died.
_LONGEST_MILLIS = 15 * 60 * 1000


class Span(NamedTuple):
    """When something happened that can change files: `begin` and `end` are in ms since 1970."""

    begin: int
    end: int

    def holds(self, moment: int, slack: int = SLACK_MILLIS) -> bool:
        """Return whether a moment lies in the span, or at most `slack` ms before or after it."""
        return self.begin - slack <= moment <= self.end + slack


class Call(NamedTuple):
    """A call of a tool that can change files, by the agent with this id.

    `agent` is None for the main one. `tool` is the harness's name of the tool. What goes on behind
    the end of a call has that call's id behind a `#`.
    """

    call_id: str
    tool: str
    span: Span
    agent: str | None


class Edit(NamedTuple):
    """When a path was edited, and by which call. `has_lines` says whether the event has the member
    `lines`, `is_delete` whether the file was deleted."""

    span: Span
    call_id: str
    has_lines: bool
    is_delete: bool


class Activity(NamedTuple):
    """The calls of a record that can change files, and its edits by path.

    `calls` are those that ended, and open ones if requested. The paths of `edits` are masked, as in
    the lines.
    """

    calls: list[Call]
    edits: Mapping[str, list[Edit]]

    def explains(self, path: str, moment: int) -> bool:
        """Return whether a call ran at a moment, or an edit of the file explains its change.

        A later edit explains it too: the file had this time before it was moved or copied there.

        `path` is masked as lines name it (`unseen.mask_path`), and `moment` is in ms since 1970.
        """
        return any(call.span.holds(moment) for call in self.calls) or any(
            edit.span.end + SLACK_MILLIS >= moment for edit in self.edits.get(path, ())
        )

    def can_explain_gone(self, path: str, moment: int) -> bool:
        """Return whether a call can have removed a file, or a recorded edit deleted it.

        `moment` is the time of the file's folder. Later changes in the folder move it, so the file
        was removed at that time or earlier.

        `path` is masked as lines name it.
        """
        return any(call.span.begin - SLACK_MILLIS <= moment for call in self.calls) or any(
            edit.is_delete for edit in self.edits.get(path, ())
        )


def read_activity(lines: Iterable[Fields], now: int, *, with_open: bool = True) -> Activity:
    """Return the calls of a record that can change files, with their times, and its edits.

    `lines` are fields in order, and `now` is in ms. With `with_open`, a call without an end still
    runs at `now`. What goes on in the background until a later result is a call of its own: it
    explains a change, and claims none. A call without an effect on files (`side_effect` none) is
    left out. If a result has no recorded call, a tool whose name says that it reads is left out,
    too; another that states no duration is assumed to have run for five seconds.
    """
    calls = []
    open_calls = {}
    readers = set()
    left_running: dict[str, Call] = {}
    spans = {}
    edits: dict[str, list[Edit]] = {}
    for line in lines:
        call_id = str(line.get("call_id"))
        moment = read_moment(line.get("claimed_at", line.get("at")))
        if moment is None:
            continue
        if line.get("event") == "tool_call":
            if line.get("side_effect") == "none":
                readers.add(call_id)
            else:
                open_calls[call_id] = line
        elif line.get("event") == "tool_result":
            call = open_calls.pop(call_id, None)
            if line.get("status") == "denied" or (call is None and call_id in readers):
                continue
            if call is None and _is_read(str(line.get("tool"))):
                continue
            took = line.get("duration_ms")
            begin = moment - (took if type(took) is int else _UNTOLD_MILLIS)
            if call_id in left_running:
                calls.append(_run_until(left_running.pop(call_id), moment))
            calls.append(_make_call(line if call is None else call, begin, moment))
            spans[call_id] = calls[-1].span
            if line.get("background") is True:
                left_running[call_id] = calls[-1]
        elif line.get("event") == "patch_apply" and line.get("ok") is not False:
            # an edit without a recorded call gets the same assumed duration
            span = spans.get(call_id) or Span(moment - _UNTOLD_MILLIS, moment)
            if line.get("witness") == "tree":
                span = Span(moment, moment)
            edit = Edit(span, call_id, "lines" in line, line.get("kind") == "delete")
            edits.setdefault(str(line.get("path")), []).append(edit)
    if with_open:
        calls += [_make_call(call, now, now) for call in open_calls.values()]
        calls += [_run_until(call, now) for call in left_running.values()]
    return Activity(calls, edits)


def _is_read(tool: str) -> bool:
    from specify_cli.record.reading.deeds import (
        name_deed,  # a hook rarely loses the begin of a call
    )

    return name_deed(tool) in ("read", "search", "plan")


def _make_call(line: Fields, begin: int, end: int) -> Call:
    """Return the call in a line. `begin` counts if the line is that of its result."""
    if line.get("event") == "tool_call":
        begin = read_moment(line.get("claimed_at", line.get("at"))) or begin
    agent = line.get("agent")
    agent_id = agent if isinstance(agent, str) else None
    return Call(str(line.get("call_id")), str(line.get("tool")), Span(begin, end), agent_id)


def _run_until(call: Call, end: int) -> Call:
    """Return what goes on behind the reported end of a call, until a moment (ms)."""
    return call._replace(
        call_id=f"#{call.call_id}", span=Span(call.span.end, max(call.span.end, end))
    )


def read_others(root: str, invocation_id: str, since: int, now: int) -> Iterator[Activity]:
    """Yield the activity of a project's other records, without `invocation_id`.

    These are records that were written since a moment (ms), and open records that were written up
    to 15 minutes before it, because one of their calls may still run. At most 200 of the newest
    records are read; those that cannot be read are left out.

    `root` is the project's folder, and `now` is in ms: until then their open calls count as
    running.
    """
    index, store = Index(root), FileRecordStore(root)
    for key in islice(index.newest(), _MAX_RECORDS):
        try:
            place = None if key.invocation_id == invocation_id else index.place(key)
            if not place:
                continue
            idle = since - os.stat(f"{root}/{place.path}").st_mtime * 1000
            if idle > _LONGEST_MILLIS:
                continue
            lines = [read_fields(raw) for _, raw in lines_in_force(store.hold(place))]
        except (OSError, InvocationError):
            continue
        is_closed = any(line.get("event") == "completed" for line in lines)
        if idle <= 0 or not is_closed:
            if is_closed:
                from specify_cli.storage.queries import annex_events  # loads what verifies

                # the result of the call that closed the record stands in an annex
                lines += annex_events(root, place.invocation_id)
            yield read_activity(lines, now)


def read_moment(value: object) -> int | None:
    """Return the milliseconds since 1970 of a time in a line; None if it is missing, malformed, or
    outside of 1970 to 9999. `value` is RFC 3339."""
    try:
        millis = round(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return millis if 0 <= millis < YEAR_10000 else None
