"""Fix the tip of an open record outside it while it grows (docs/format.md §11).

    # the tips before and after an append
    if is_tip_due(place.invocation_id, before, after, events):
        fix_tip(root, git_dir, project_place, place)

Whoever can write an open record, such as its agent, can cut off its last lines and write others
with right seals. A tip that is a leaf of the clone's log shows this, because the record must hold
that tip for good. Lines after the last fixed tip can still be rewritten until the close, and verify
says so.
"""

from __future__ import annotations

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable

if TYPE_CHECKING:
    from specify_cli.storage.store import Place


def fix_tip(root: str, git_dir: str | None, project_place: str, place: Place) -> None:
    """Make the tip of a record a leaf of this clone's log. If that fails, the tip is not fixed;
    nothing is raised.

    `root` is the project's folder, `git_dir` its git directory or None, and `project_place` its
    path below the top of the worktree. A hook forks a process for this, because its harness waits
    for the hook, and the fsync of two files can take too long.
    """
    if durable.IN_BACKGROUND and hasattr(os, "fork"):  # Windows has none: the harness waits
        if os.fork():
            return
        try:
            _leave_process_group()
            _add_leaf(root, git_dir, project_place, place)
        finally:
            os._exit(0)
    _add_leaf(root, git_dir, project_place, place)


def _leave_process_group() -> None:
    """Close the pipes and leave the signals of the process that waits for this one."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def _add_leaf(root: str, git_dir: str | None, project_place: str, place: Place) -> None:
    """Add the leaf. What fails here is said by verify, which names how far the tip is fixed."""
    from specify_cli.errors import InvocationError  # not loaded by a hook that fixes nothing
    from specify_cli.trail.log.entries import TrailLog

    try:
        TrailLog(root, git_dir, project_place).fix(place.invocation_id, f"{root}/{place.path}")
    except (OSError, InvocationError):
        pass  # the record itself is sound; verify says up to where its tip is fixed
