"""What the everyday commands know of sync: where its files lie, and how a push is started after
their answer.

Loads nothing beyond what those commands have loaded. Without consent it costs one `stat` and leaves
nothing.
"""

from __future__ import annotations

import time

from doctrine import os
from doctrine.git import find_worktree, git_directory
from specify_cli import durable
from specify_cli.libraries.processes.detached import start_detached
from specify_cli.project.root import place_below
from specify_cli.record import layout

CONSENT = "consent.json"
REQUEST = "wanted"
PAUSE = "pause"
LONGEST_PAUSE = 24 * 3600.0
LOCK_FD = 3  # where a push that was started by a command finds the lock it begins with


def sync_folder(root: str) -> str | None:
    """Return where consent, token and cursors of a project lie: in its git directory, shared by the
    worktrees.

    None outside.

    One repository may hold several projects, so the folder is named by the project's place in the
    worktree.
    """
    top = find_worktree(root)
    git_dir = None if top is None else git_directory(top)
    if top is None or git_dir is None:
        return None
    return f"{git_dir}/kittify/sync/{layout.name_place(place_below(root, top))}"


def name_of(root: str) -> str:
    """Return the part of a file's name that distinguishes the worktrees of one repository."""
    return layout.name_place(os.path.realpath(root))


def lock_path(folder: str, root: str) -> str:
    """Return the file whose lock says that a push of this worktree is under way."""
    return f"{folder}/push-{name_of(root)}.lock"


def request_path(folder: str, root: str) -> str:
    """Return the file that asks a push that is under way to look once more before it ends."""
    return f"{folder}/{REQUEST}-{name_of(root)}"


def start_push(root: str) -> None:
    """Start a detached push of a project, if it has consent, is not paused and none is running."""
    folder = sync_folder(root)
    if (
        folder is None
        or not os.path.exists(f"{folder}/{CONSENT}")
        or paused_until(folder) is not None
    ):
        return
    try:
        # The wish is on disk before the lock is tried: whoever holds it looks for the wish after
        # letting go.
        os.close(open_lock(request_path(folder, root)))
        path = lock_path(folder, root)
        lock = _try_lock(path)
        if lock is None:
            time.sleep(0.001)  # `is_running` holds it for an instant
            lock = _try_lock(path)
        if lock is None:
            return
        try:
            # The lock goes over to the new process, so however many commands come now, none starts
            # another.
            start_detached("specify_cli.features.sync", root, ((lock, LOCK_FD),))
        finally:
            os.close(lock)
    except (OSError, NotImplementedError):
        return  # delivery is never in the way: `sync push` and the next command try again


def paused_until(folder: str) -> float | None:
    """Until when, in seconds since 1970, no command starts a push; None where none is paused.

    A time further off than any pause can be is a clock that went back, and counts as none.
    """
    try:
        until = os.stat(f"{folder}/{PAUSE}").st_mtime
    except OSError:
        return None
    now = time.time()
    return until if now < until <= now + LONGEST_PAUSE else None


def unpause(folder: str) -> None:
    """Let the next command start a push."""
    try:
        os.unlink(f"{folder}/{PAUSE}")
    except FileNotFoundError:
        pass


def open_lock(path: str) -> int:
    """Return a descriptor of a lock's file. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _try_lock(path: str) -> int | None:
    """Return a descriptor that holds the lock of a push, above every number a new process gives
    away.

    None if another process holds it.
    """
    fds = [open_lock(path)]
    try:
        if not durable.try_lock(fds[0]):
            return None
        while fds[-1] <= LOCK_FD:
            fds.append(os.dup(fds[-1]))
        return fds.pop()
    finally:
        for fd in fds:
            os.close(fd)


def is_running(folder: str, root: str) -> bool:
    """Return whether a push of this worktree holds its lock. Raises OSError where that is
    unknown."""
    lock = _try_lock(lock_path(folder, root))
    if lock is not None:
        os.close(lock)
    return lock is None
