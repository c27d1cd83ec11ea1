"""Where a worktree's git directory is, found by reading files; git is never started."""

from __future__ import annotations

import os


def git_directory(top: str) -> str | None:
    """The git directory of a worktree, shared by all of one repository; found by reading, git is not started."""
    path = f"{top}/.git"
    if not os.path.isdir(path):
        pointer = _small_text(path)
        if pointer is None or not pointer.startswith("gitdir: "):
            return None
        path = os.path.normpath(os.path.join(top, pointer[8:].strip()))
    common = _small_text(f"{path}/commondir")
    if common is not None:
        path = os.path.normpath(os.path.join(path, common.strip()))
    return path if os.path.isdir(path) else None


def _small_text(path: str) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 4096).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(descriptor)
