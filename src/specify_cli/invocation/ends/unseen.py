"""Find changes of the work tree that no event of a record explains: at its checkpoints, and when it
is closed.

If a file changed while the record was open and none of its tools ran, somebody else changed it: a
person, another program, or the agent in a call that its hooks did not report. Each such change is a
`capture_gap` *unseen_change*. Nobody knows when a missing file was deleted. It is named here only
if no call can have deleted it; otherwise the hooks find it, which look at the tree between calls.

    gaps = find_unseen(root, record, record.invocation_id, rules)     # bodies of capture_gap

The question is asked of times: a file whose time lies outside every call of every record was
changed by nobody who is recorded. A program that sets a file's time back escapes it, so a record
without such gaps does not prove that nobody else wrote.
"""

from __future__ import annotations

import os
import stat
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
    """When (ms since 1970) a file changed; for a deleted file the latest possible time."""

    moment: int
    is_gone: bool

    def is_of(self, path: str, activity: Activity) -> bool:
        """Return whether the activity of a record explains this change of a file."""
        explains = activity.can_explain_gone if self.is_gone else activity.explains
        return explains(path, self.moment)


def find_unseen(
    root: str, record: Record, invocation_id: str, rules: RuleSet, *, is_off: bool
) -> list[dict[str, object]]:
    """Return the gaps for files that changed since a record was begun while none of its tools ran.

    `root` is the project's folder. The gaps are bodies of `capture_gap` without their time; at most
    100 files are named, and the rest counted. With `is_off` (hooks are off) open calls explain
    nothing, because no hook reports their end. A change that another record of the project explains
    is left out. A file with an earlier gap is named only if it changed again. Outside git there are
    no gaps, because nobody knows which files belong to the project. git runs twice: for the
    difference from the last commit, and for the commits since.

    `invocation_id` is the record's: its time is when the record was begun. `rules` mask the paths.
    """
    lines = fields_of(record)
    off = is_off or any(line.get("reason") == "hooks_off" for line in lines)
    began, now = millis_of(invocation_id), time.time_ns() // 1_000_000
    own = read_activity(lines, now, with_open=not off)
    earlier_gaps = {
        str(line.get("what")): read_moment(line.get("at"))
        for line in lines
        if line.get("reason") == "unseen_change"
    }
    changes = {}
    for path in _list_changed(root, began):
        change = _read_change(root, path)
        masked = mask_path(path, rules)
        if not change or change.moment < began or change.is_of(masked, own):
            continue
        if change.moment > (earlier_gaps.get(masked) or -1):
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
    """Return the gaps for changes that no record explains, in the order of the mapping.

    `changes` maps masked paths to ms since 1970.
    """
    gaps = [
        gap(
            "unseen_change",
            path,
            message=f"it changed at {rfc3339(changed)}, while no tool of this record ran",
        )
        | {"claimed_at": rfc3339(changed)}
        for path, changed in list(changes.items())[:MAX_NAMED]
    ]
    if len(changes) > MAX_NAMED:
        more, message = len(changes) - MAX_NAMED, "they changed while no tool ran"
        gaps.append(gap("unseen_change", "further files", count=more, message=message))
    return gaps


def mask_path(path: str, rules: RuleSet) -> str:
    """Return a path as lines name it: masked, and at most 512 characters.

    Changes are compared with recorded paths in this form.
    """
    return redact(make_encodable(path), rules).text[:_MAX_PATH]


def list_uncommitted(top: str, below: str) -> list[str]:
    """Return the files below a folder that differ from the last commit, as paths from `top`.

    `top` is the worktree's top. Untracked files are included, ignored ones are not. Raises OSError
    if git cannot be started.
    """
    words = ("--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all", "--", below)
    return [entry[3:] for entry in (ask_git(top, "status", *words) or "").split("\0")]


def _list_changed(root: str, since: int) -> Iterator[str]:
    """Yield the files that may have changed since a moment (ms), as paths from the project's
    folder.

    They differ from the last commit or are not in it, or a commit made here since then changed
    them.
    """
    top = find_worktree(root)
    if top is None:
        return
    below = os.path.relpath(root, top)
    # HEAD as it was one second earlier, because the reflog counts in seconds.
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
        name = os.path.relpath(path, below) if path else ""
        if name and not name.startswith((f"{layout.KITTIFY}/", "../")):
            yield name


def _read_change(root: str, path: str) -> _Change | None:
    """Return when a file changed; for a deleted file the time of its folder. A folder, which git
    names where it is another repository or worktree, is none."""
    try:
        state = os.lstat(f"{root}/{path}")
        moment = state.st_mtime_ns // 1_000_000
        return None if stat.S_ISDIR(state.st_mode) else _Change(moment, False)
    except OSError:
        pass
    try:
        folder = os.lstat(os.path.dirname(f"{root}/{path}"))
        return _Change(folder.st_mtime_ns // 1_000_000, True)
    except OSError:
        return None
