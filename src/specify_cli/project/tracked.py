"""Notice private files that git tracks although it was told to ignore them: a branch can ship them
that way.

A `.gitignore` does not untrack a file that is tracked already. So a branch can bring a file with
the name of a private one, and every line that is appended to it would be in the next commit (design
§4). Commands that write check for that first. They read git's index themselves, because to start
git costs more than the whole command.

    refuse_tracked_private(project.root)        # before anything private is written
"""

from __future__ import annotations

import os

from doctrine.git import ask_git, find_worktree, own_git_directory
from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.record import layout

_PRIVATE = (f"{layout.LOCAL}/", f"{layout.RECORDS}/", layout.INDEX, layout.INDEX_STAMP)
_SHIELDS = ("/.gitignore", "/.gitattributes")
_MAX_INDEX = 64 * 1024 * 1024


def tracked_private(root: str) -> list[str]:
    """Return the private files of a project that git tracks, relative to its root.

    Shields (`.gitignore`, `.gitattributes`) are meant to be tracked. None are found outside git,
    or without git.

    `root` is the project's folder. git is started only where the index may hold such a path.
    """
    top = find_worktree(root)
    if top is None or not _may_track(top, os.path.relpath(root, top)):
        return []
    # Where case is folded, a branch brings them under any spelling.
    magic = ":(icase)" if durable.is_case_folded(root) else ""
    try:
        paths = (f"{magic}{os.path.join(root, path)}" for path in _PRIVATE)
        listed = ask_git(top, "ls-files", "-z", "--", *paths)
    except OSError:
        listed = None
    names = [os.path.relpath(f"{top}/{name}", root) for name in (listed or "").split("\0") if name]
    return [name for name in names if not name.endswith(_SHIELDS)]


def shipped_records(root: str) -> frozenset[str]:
    """Return the private records, relative to the root, that any commit of any branch ever held.

    git reads the whole history for this, which takes a moment. Nothing is raised.
    """
    top = find_worktree(root)
    if top is None:
        return frozenset()
    argv = (
        "log",
        "--all",
        "-m",
        "--format=",
        "--name-only",
        "--diff-filter=A",
        "-z",
        "--",
        f"{root}/{layout.RECORDS}",
    )
    try:
        listed = ask_git(top, *argv) or ""
    except OSError:
        return frozenset()
    return frozenset(os.path.relpath(f"{top}/{name}", root) for name in listed.split("\0") if name)


def refuse_tracked_private(root: str) -> None:
    """Raise StoredDataError TRACKED_PRIVATE if git tracks private files of the project.

    The message names three of them; the fix untracks them and leaves the files.

    `root` is the project's folder.
    """
    paths = tracked_private(root)
    if paths:
        listed = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        raise StoredDataError(
            "TRACKED_PRIVATE",
            f"git tracks files that hold private data: {listed}; the next commit would publish "
            "what is written there",
            f"git rm -rf --cached --ignore-unmatch {layout.LOCAL} {layout.RECORDS} "
            f"{layout.INDEX} {layout.INDEX_STAMP}",
        )


def _may_track(top: str, inside: str) -> bool:
    """Return False if the index certainly holds no private path; otherwise the caller asks git.

    An index of version 2 or 3 holds each path whole; version 4 shortens them and a split index lies
    in two files (git's Documentation/gitformat-index).
    """
    directory = own_git_directory(top)
    try:
        with open(f"{directory}/index", "rb") as file:
            data = file.read(_MAX_INDEX + 1)
    except OSError:
        return False
    if (
        len(data) > _MAX_INDEX
        or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3")
        or b"link\0\0" in data[-4096:]
    ):
        return True
    if durable.is_case_folded(top):
        data, inside = data.lower(), inside.lower()
    prefix = b"" if inside == "." else os.fsencode(inside) + b"/"
    first = data.find(prefix + layout.KITTIFY.encode() + b"/")
    return first >= 0 and any(data.find(prefix + path.encode(), first) >= 0 for path in _PRIVATE)
