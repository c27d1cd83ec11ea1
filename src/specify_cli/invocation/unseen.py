"""Changes of the work tree that no event of a record explains: looked for when a record is closed.

A file that changed while the record was open, and not while one of its tools ran, was changed by somebody else: a
person, another program, or the agent where its hooks did not tell. Each is a `capture_gap` *unseen_change*.
"""

from __future__ import annotations

import os
import time
from datetime import datetime

from doctrine.git import ask_git, find_worktree
from doctrine.light import TYPE_CHECKING, NamedTuple
from specify_cli.invocation.event_body import gap
from specify_cli.record import layout
from specify_cli.record.ids import millis_of
from specify_cli.redaction.capture import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specify_cli.record.record import Record
    from specify_cli.redaction.capture import RuleSet

MAX_NAMED = 100
# A file system's clock runs behind by a tick, and a hook begins and ends a moment beside its tool.
_SLACK_MILLIS = 100
# How long a tool ran whose begin nobody told: most edits take less.
_UNTOLD_MILLIS = 5000


class Span(NamedTuple):
    """When (ms) a tool that can change files ran."""

    begin: int
    end: int


def find_unseen(root: str, record: Record, invocation_id: str, rules: RuleSet) -> list[dict[str, object]]:
    """Return the gaps for files that changed since a record was begun while none of its tools ran.

    Nothing outside git, where nobody says which files are the project's.
    """
    lines = [{**entry.fields, "event": entry.event} for entry in record.entries]
    began, spans = millis_of(invocation_id), list_spans(lines)
    found: list[str] = []
    for path in _list_changed(root):
        changed = _read_change(root, path)
        if changed is None or changed < began:
            continue
        if any(span.begin - _SLACK_MILLIS <= changed <= span.end + _SLACK_MILLIS for span in spans):
            continue
        found.append(path)
    gaps = [_describe(redact(path, rules).text) for path in found[:MAX_NAMED]]
    if len(found) > MAX_NAMED:
        more = len(found) - MAX_NAMED
        gaps.append(gap("unseen_change", "further files", count=more, message="they changed while no tool ran"))
    return gaps


def list_spans(lines: list[dict[str, object]]) -> list[Span]:
    """Return when the tools of a record ran that can change files; one that nobody ended runs still.

    Of a result without its call, and of a change without either, only the moment is known.
    """
    spans: list[Span] = []
    begun: dict[object, int] = {}
    for line in lines:
        try:
            moment = round(datetime.fromisoformat(str(line.get("at"))).timestamp() * 1000)
        except ValueError:
            continue
        if line["event"] == "tool_call" and line.get("side_effect") != "none":
            begun[line.get("call_id")] = moment
        elif line["event"] == "tool_result":
            begin = begun.pop(line.get("call_id"), None)
            took = line.get("duration_ms")
            if line.get("status") == "denied":
                continue
            if begin is None:
                begin = moment - (took if type(took) is int else _UNTOLD_MILLIS)
            spans.append(Span(begin, moment))
    now = time.time_ns() // 1_000_000
    return [*spans, *(Span(begin, now) for begin in begun.values())]


def _describe(path: str) -> dict[str, object]:
    return gap("unseen_change", path[:512], message="it changed while no tool of this record ran")


def _list_changed(root: str) -> Iterator[str]:
    """Yield the files of the work tree that differ from git's index, named from the project's top."""
    top = find_worktree(root)
    if top is None:
        return
    below = os.path.relpath(root, top)
    try:
        listed = ask_git(top, "ls-files", "-z", "-m", "-d", "-o", "--exclude-standard", "--", below)
    except OSError:
        return
    for path in dict.fromkeys((listed or "").split("\0")):
        named = os.path.relpath(path, below) if path else ""
        if named and not named.startswith((f"{layout.KITTIFY}/", "../")):
            yield named


def _read_change(root: str, path: str) -> int | None:
    """Return when (ms) a file changed; of a deleted one when its folder did."""
    try:
        return os.lstat(f"{root}/{path}").st_mtime_ns // 1_000_000
    except OSError:
        pass
    try:
        return os.lstat(os.path.dirname(f"{root}/{path}")).st_mtime_ns // 1_000_000
    except OSError:
        return None
