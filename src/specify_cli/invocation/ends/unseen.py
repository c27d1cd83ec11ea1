"""Changes of the work tree that no event of a record explains: looked for at its checkpoints and
when it is closed.

A file that changed while the record was open, and not while one of its tools ran, was changed by
somebody else: a person, another program, or the agent where its hooks did not tell. Each is a
`capture_gap` *unseen_change*.
"""

from __future__ import annotations

import os
import time
from datetime import datetime

from doctrine.git import ask_git, find_worktree
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import make_encodable
from specify_cli.invocation.events.event_body import gap
from specify_cli.record import layout
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.record.reading.views import fields_of
from specify_cli.redaction.capture import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from specify_cli.record.record import Record
    from specify_cli.redaction.capture import RuleSet

MAX_NAMED = 100
_MAX_PATH = 512
# A file system's clock runs behind by a tick, and a hook begins and ends a moment beside its tool.
_SLACK_MILLIS = 100
# How long a tool ran whose begin nobody told: most edits take less.
_UNTOLD_MILLIS = 5000


class Span(NamedTuple):
    """When (ms) a tool that can change files ran."""

    begin: int
    end: int


def find_unseen(
    root: str, record: Record, invocation_id: str, rules: RuleSet, *, is_off: bool = False
) -> list[dict[str, object]]:
    """Return the gaps for files that changed since a record was begun while none of its tools ran.

    Where hooks are off, nobody tells when a call ends, so one that is open excuses nothing. What an
    earlier checkpoint named is named again only where it changed again. Nothing outside git, where
    nobody says which files are the project's.
    """
    lines = fields_of(record)
    off = is_off or any(line.get("reason") == "hooks_off" for line in lines)
    began, spans = millis_of(invocation_id), list_spans(lines, with_open=not off)
    named = {
        str(line.get("what")): _read_moment(line)
        for line in lines
        if line.get("reason") == "unseen_change"
    }
    paths: list[str] = []
    for path in _list_changed(root, began):
        changed = _read_change(root, path)
        if changed is None or changed < began:
            continue
        if any(span.begin - _SLACK_MILLIS <= changed <= span.end + _SLACK_MILLIS for span in spans):
            continue
        masked = redact(make_encodable(path), rules).text[:_MAX_PATH]
        if changed > (named.get(masked) or -1):
            paths.append(masked)
    gaps = [_describe(path) for path in paths[:MAX_NAMED]]
    if len(paths) > MAX_NAMED:
        more = len(paths) - MAX_NAMED
        gaps.append(
            gap(
                "unseen_change",
                "further files",
                count=more,
                message="they changed while no tool ran",
            )
        )
    return gaps


def list_spans(lines: Iterable[Mapping[str, object]], *, with_open: bool = True) -> list[Span]:
    """Return when the tools of a record ran that can change files; `with_open`, one that nobody
    ended runs still.

    Of a result without its call, and of a change without either, only the moment is known.
    """
    spans: list[Span] = []
    begun: dict[str, int] = {}
    for line in lines:
        moment = _read_moment(line)
        if moment is None:
            continue
        if line.get("event") == "tool_call" and line.get("side_effect") != "none":
            begun[str(line.get("call_id"))] = moment
        elif line.get("event") == "tool_result":
            begin = begun.pop(str(line.get("call_id")), None)
            took = line.get("duration_ms")
            if line.get("status") == "denied":
                continue
            if begin is None:
                begin = moment - (took if type(took) is int else _UNTOLD_MILLIS)
            spans.append(Span(begin, moment))
    now = time.time_ns() // 1_000_000
    return [*spans, *(Span(begin, now) for begin in begun.values() if with_open)]


def _read_moment(line: Mapping[str, object]) -> int | None:
    """Return when (ms) a line was written, as it says."""
    try:
        return round(datetime.fromisoformat(str(line.get("at"))).timestamp() * 1000)
    except ValueError:
        return None


def _describe(path: str) -> dict[str, object]:
    return gap("unseen_change", path, message="it changed while no tool of this record ran")


def _list_changed(root: str, since: int) -> Iterator[str]:
    """Yield the files, named from the project's top, that may have changed since a moment (ms).

    They differ from the last commit or are not in it, or a commit made here since then changed
    them.
    """
    top = find_worktree(root)
    if top is None:
        return
    below = os.path.relpath(root, top)
    status = (
        "status",
        "--porcelain",
        "-z",
        "-uall",
        "--no-renames",
        "--ignore-submodules=all",
        "--",
        below,
    )
    # What HEAD was: the reflog counts seconds.
    commits = (
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        f"HEAD@{{{rfc3339(since - 1000)}}}",
        "HEAD",
        "--",
        below,
    )
    try:
        entries = [entry[3:] for entry in (ask_git(top, *status) or "").split("\0")]
        entries += (ask_git(top, *commits) or "").split("\0")
    except OSError:
        return
    for path in dict.fromkeys(entries):
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
