"""Changes of the work tree that no event of a record explains: looked for at its checkpoints and
when it is closed.

A file that changed while the record was open, and not while one of its tools ran, was changed by
somebody else: a person, another program, or the agent where its hooks did not tell. Each is a
`capture_gap` *unseen_change*. Of a file that is gone nobody knows when it went: it is named where
no call can have taken it, and else by who looks at the tree between calls.
"""

from __future__ import annotations

import os
import time

from doctrine.git import ask_git, find_worktree
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import make_encodable
from specify_cli.invocation.ends.activity import read_activity, read_moment, read_others
from specify_cli.invocation.events.event_body import gap
from specify_cli.record import layout
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.record.reading.views import fields_of
from specify_cli.redaction.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specify_cli.invocation.ends.activity import Activity
    from specify_cli.record.record import Record
    from specify_cli.redaction.redact import RuleSet

MAX_NAMED = 100
_MAX_PATH = 512


class _Change(NamedTuple):
    """When (ms) a file changed; of one that is gone, at most when it went."""

    moment: int
    is_gone: bool

    def is_of(self, path: str, activity: Activity) -> bool:
        """Return whether what a record tells explains the change of a file."""
        explains = activity.can_explain_gone if self.is_gone else activity.explains
        return explains(path, self.moment)


def find_unseen(
    root: str, record: Record, invocation_id: str, rules: RuleSet, *, is_off: bool = False
) -> list[dict[str, object]]:
    """Return the gaps for files that changed since a record was begun while none of its tools ran.

    A change that another record of the project explains is that record's. Where hooks are off,
    nobody tells when a call ends, so one that is open excuses nothing. What was named before is
    named again only where it changed again. Nothing outside git, where nobody says which files are
    the project's.

    `root` is the project's folder. The answer is bodies of `capture_gap`, without their time. At
    most 100 files are named, and the rest counted. git is asked twice: for what differs from the
    last commit, and for what was committed since.
    """
    lines = fields_of(record)
    off = is_off or any(line.get("reason") == "hooks_off" for line in lines)
    began, now = millis_of(invocation_id), time.time_ns() // 1_000_000
    own = read_activity(lines, now, with_open=not off)
    named = {
        str(line.get("what")): read_moment(line.get("at"))
        for line in lines
        if line.get("reason") == "unseen_change"
    }
    changes: dict[str, _Change] = {}
    for path in _list_changed(root, began):
        change = _read_change(root, path)
        masked = mask_path(path, rules)
        if change is None or change.moment < began or change.is_of(masked, own):
            continue
        if change.moment > (named.get(masked) or -1):
            changes[masked] = change
    others = list(read_others(root, invocation_id, began, now)) if changes else []
    return describe_unseen(
        {
            path: change.moment
            for path, change in changes.items()
            if not any(change.is_of(path, other) for other in others)
        }
    )


def describe_unseen(changes: dict[str, int]) -> list[dict[str, object]]:
    """Return the gaps for changes, by path and moment (ms), that no record explains.

    `changes` maps masked paths to ms since 1970. The gaps are in the order of the mapping.
    """
    gaps = [
        gap(
            "unseen_change",
            path,
            message=f"it changed at {rfc3339(changed)}, while no tool of this record ran",
        )
        for path, changed in list(changes.items())[:MAX_NAMED]
    ]
    if len(changes) > MAX_NAMED:
        more, message = len(changes) - MAX_NAMED, "they changed while no tool ran"
        gaps.append(gap("unseen_change", "further files", count=more, message=message))
    return gaps


def mask_path(path: str, rules: RuleSet) -> str:
    """Return a path as lines name it.

    At most 512 characters. Changes are compared with recorded paths in this form.
    """
    return redact(make_encodable(path), rules).text[:_MAX_PATH]


def list_uncommitted(top: str, below: str) -> list[str]:
    """Return the files below a folder that differ from the last commit, named from the top.

    `top` is the worktree's top. Untracked files are among them, ignored ones are not. Raises
    OSError.
    """
    words = ("--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all", "--", below)
    return [entry[3:] for entry in (ask_git(top, "status", *words) or "").split("\0")]


def _list_changed(root: str, since: int) -> Iterator[str]:
    """Yield the files, named from the project's top, that may have changed since a moment (ms).

    They differ from the last commit or are not in it, or a commit made here since then changed
    them.
    """
    top = find_worktree(root)
    if top is None:
        return
    below = os.path.relpath(root, top)
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
        entries = list_uncommitted(top, below)
        entries += (ask_git(top, *commits) or "").split("\0")
    except OSError:
        return
    for path in dict.fromkeys(entries):
        named = os.path.relpath(path, below) if path else ""
        if named and not named.startswith((f"{layout.KITTIFY}/", "../")):
            yield named


def _read_change(root: str, path: str) -> _Change | None:
    """Return when a file changed; of a deleted one when its folder did."""
    try:
        return _Change(os.lstat(f"{root}/{path}").st_mtime_ns // 1_000_000, False)
    except OSError:
        pass
    try:
        folder = os.lstat(os.path.dirname(f"{root}/{path}"))
        return _Change(folder.st_mtime_ns // 1_000_000, True)
    except OSError:
        return None
