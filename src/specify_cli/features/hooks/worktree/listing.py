"""Which files of a work tree moved since a moment: asked of the file system, with git's index for
the names.

A file moved where its time of change (ctime) is later: what sets a file's times, or moves an older
file to its place, cannot hide that. A folder is listed only where its own time moved. git is
started only where a name is new (is it ignored?), or the index is in a form not read here.
"""

from __future__ import annotations

import re
import stat

from doctrine import os
from doctrine.git import own_git_directory, read_git
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.record import layout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from specify_cli.features.hooks.worktree.known import KnownTree

# git and the kernel stamp with a clock that is late by a tick.
TICK = 10_000_000
_ENTRY = 62
_MAX_ASKED = 1000
# What this program writes while it records, in this project or one in a folder of it.
_OWN = re.compile(r"(?:^|/)\.kittify/(?:events|trail|evidence|local)/")


class Index(NamedTuple):
    """What git's index names: the files below a project's `root`, each with `prefix` before it, the
    index's bytes, how many files it names in all, and what distinguishes it from another."""

    root: str
    top: str
    prefix: str
    paths: list[bytes]
    data: bytes
    total: int
    stamp: str


class Moved(NamedTuple):
    """What moved: files with how they are now, files that are gone with the moment (ns), the
    folders to watch and the ignored paths that git's index does not know."""

    files: dict[str, os.stat_result]
    gone: dict[str, int]
    folders: list[str]
    ignored: list[str]


def read_index(root: str, top: str) -> Index:
    """Return the index of the worktree at `top` for the project below it; an empty one where none
    is there."""
    data, stamp = b"", ""
    try:
        with open(f"{own_git_directory(top)}/index", "rb") as file:
            data, state = file.read(), os.fstat(file.fileno())
            stamp = f"{state.st_ino} {state.st_mtime_ns} {state.st_size}"
    except OSError:
        pass
    below = os.path.relpath(root, top)
    prefix = "" if below == "." else f"{below}/"
    paths = _parse(data)
    if paths is None:
        paths, data = _list_paths(top, "ls-files", "-z"), b""
    return Index(root, top, prefix, _strip(paths, prefix), data, len(paths), stamp)


def _list_paths(top: str, *words: str) -> list[bytes]:
    return (read_git(top, *words) or b"").split(b"\0")[:-1]


def _strip(paths: list[bytes], prefix: str) -> list[bytes]:
    """Return the paths below a prefix, without it."""
    below = os.fsencode(prefix)
    return [path[len(below) :] for path in paths if path.startswith(below)] if prefix else paths


def _parse(index: bytes) -> list[bytes] | None:
    """Return the paths of an index of version 2 or 3; None for another form, or one in parts (git's
    index-format.txt)."""
    version = int.from_bytes(index[4:8], "big")
    if not index:
        return []
    if index[:4] != b"DIRC" or version not in (2, 3):
        return None
    paths: list[bytes] = []
    at, find, add = 12, index.find, paths.append
    for _ in range(int.from_bytes(index[8:12], "big")):
        begin = at + _ENTRY + (2 if version == 3 and index[at + 60] & 0x40 else 0)
        end = find(b"\0", begin)
        if end < 0:
            return None
        add(index[begin:end])
        at += (end - at + 8) & ~7
    # An index whose entries are longer names its blobs by SHA-256.
    is_read = not paths or int.from_bytes(index[72:74], "big") & 0xFFF == min(len(paths[0]), 0xFFF)
    return paths if is_read and index[at : at + 4] not in (b"link", b"sdir") else None


class Entry(NamedTuple):
    """What an index says of a file: its blob, its mode, and whether the file is as git left or
    found it."""

    blob: str
    mode: int
    is_current: bool


def find_entry(index: Index, path: str, state: os.stat_result | None) -> Entry | None:
    """Return what the index says of a file; None where it does not name it."""
    whole = os.fsencode(f"{index.prefix}{path}") + b"\0"
    at = index.data.find(whole)
    while at >= 0:
        # Extended flags (version 3: `git add -N`, skip-worktree) lie before the path.
        for end, extended in ((at, 0), (at - 2, 0x4000)):
            entry = index.data[max(0, end - _ENTRY) : end]
            flags = int.from_bytes(entry[60:62], "big")
            if (
                len(entry) < _ENTRY
                or flags & 0x4000 != extended
                or flags & 0xFFF != min(len(whole) - 1, 0xFFF)
            ):
                continue
            numbers = [int.from_bytes(entry[place : place + 4], "big") for place in (8, 12, 36)]
            seconds, nanos = divmod(state.st_mtime_ns if state else 0, 10**9)
            size = state.st_size if state else 0
            return Entry(
                entry[40:60].hex(),
                int.from_bytes(entry[24:28], "big"),
                numbers == [seconds & 0xFFFFFFFF, nanos, size & 0xFFFFFFFF],
            )
        at = index.data.find(whole, at + 1)
    return None


def find_moved(index: Index, known: KnownTree) -> Moved:
    """Return what moved since the last look at a work tree, but records and what they lead to."""
    root, since = index.root, known.at - TICK
    tracked = set(index.paths)
    others = {os.fsencode(path) for path in known.files}
    arrived = set()
    if known.base and index.stamp != known.indexed:
        # What git itself moved or took away is in its index no more.
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", known.base)
        others |= {*_strip(_list_paths(index.top, *words), index.prefix)}
        arrived = tracked - others
    files, gone, folders = _find_moved_files(root, [*index.paths, *(others - tracked)], since)
    watched, ignored = set(known.folders), set(known.ignored)
    new = []
    for folder in sorted({*folders, *watched}):
        try:
            state = os.lstat(f"{root}/{folder}")
            if not stat.S_ISDIR(state.st_mode):
                continue
            # One that a look before did not know can hold files that are older.
            if state.st_mtime_ns < since and state.st_ctime_ns < since:
                continue
            children = os.listdir(f"{root}/{folder}")
        except OSError:
            watched.discard(folder)
            continue
        for child in children:
            path = f"{folder}/{child}" if folder else child
            there = path in folders or path in watched or path in ignored or path in known.files
            if not (there or os.fsencode(path) in tracked or path in (layout.KITTIFY, ".git")):
                new.append(path)
    for path in (*map(os.fsdecode, arrived), *_ask_untracked(index, new, watched, ignored)):
        try:
            state = os.lstat(f"{root}/{path}")
        except OSError:
            continue
        if not stat.S_ISDIR(state.st_mode):
            files[path] = state
    stood = {path: file.changed for path, file in known.files.items()}
    moments = {
        path: _find_moment(root, path)
        for path in gone
        if stood.get(path) != 0 and not _OWN.search(path)
    }
    moved = {
        path: now
        for path, now in files.items()
        if stood.get(path) != now.st_ctime_ns and not _OWN.search(path)
    }
    return Moved(moved, moments, sorted(watched), sorted(ignored))


def list_unknown_folders(index: Index) -> tuple[list[str], list[str]]:
    """Return the folders in which git's index names no file, and the ignored paths among them."""
    words = ("ls-files", "-o", "--directory", "--exclude-standard", "-z")
    names = map(os.fsdecode, _strip(_list_paths(index.top, *words), index.prefix))
    new = {name.rstrip("/") for name in names if name.endswith("/")} - {layout.KITTIFY}
    watched: set[str] = set()
    ignored: set[str] = set()
    for _ in _ask_untracked(index, new, watched, ignored):
        pass  # the files are known
    return sorted(watched), sorted(ignored)


def list_gone(index: Index) -> list[str]:
    """Return the files that an index names and that are not there."""
    return _find_moved_files(index.root, index.paths, 2**63)[1]


def look_at_file(root: str, path: str, known: KnownTree) -> Moved:
    """Return whether one file moved since the last look at a work tree."""
    before, files, gone = known.files.get(path), {}, {}
    try:
        state = os.lstat(f"{root}/{path}")
        if state.st_ctime_ns != (before.changed if before else known.at):
            files[path] = state
    except OSError:
        gone[path] = _find_moment(root, path)
    return Moved(files, gone, known.folders, known.ignored)


def _find_moved_files(
    root: str, paths: Iterable[bytes], since: int
) -> tuple[dict[str, os.stat_result], list[str], set[str]]:
    """Return the files that moved, those that are gone, and the folders of all of them.

    This loop is nearly all that a look costs (`tests/benchmarks/test_bench_tree.py`).
    """
    files = {}
    gone = []
    names, look = list(paths), os.lstat
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    rest = iter(names)
    try:
        while True:
            try:
                for path in rest:
                    state = look(path, dir_fd=fd)
                    if state.st_ctime_ns >= since and not stat.S_ISDIR(state.st_mode):
                        files[os.fsdecode(path)] = state
                break
            except OSError:  # asked once a file that is gone, and not once a file
                gone.append(os.fsdecode(path))
    finally:
        os.close(fd)
    folders = {""}
    for head in {path.rpartition(b"/")[0] for path in names}:
        _add_folders(folders, os.fsdecode(head))
    return files, gone, folders


def _add_folders(folders: set[str], folder: str) -> None:
    """Add a folder and those above it, up to one that is there already."""
    while folder and folder not in folders:
        folders.add(folder)
        folder = folder.rpartition("/")[0]


def _ask_untracked(
    index: Index, new: Collection[str], watched: set[str], ignored: set[str]
) -> Iterator[str]:
    """Yield the files among and below new names that git does not ignore.

    Adds the folders that hold them, or are empty, to `watched`, and the rest to `ignored`.
    """
    if not new:
        return
    root, top, prefix = index.root, index.top, index.prefix
    asked = [f"{prefix}{path}" for path in new] if len(new) <= _MAX_ASKED else [prefix or "."]
    words = ("--literal-pathspecs", "ls-files", "-o", "--exclude-standard", "-z", "--", *asked)
    paths = set(map(os.fsdecode, _strip(_list_paths(top, *words), prefix)))
    yield from (path for path in paths if path and not path.endswith("/"))
    for path in paths:
        _add_folders(watched, path.rpartition("/")[0])
    for path in new:
        if path in paths or path in watched:
            continue
        asked = ["check-ignore", "-q", "--", f"{prefix}{path}/"]
        if os.path.isdir(f"{root}/{path}") and read_git(top, *asked) is None:
            for folder, _, _ in os.walk(f"{root}/{path}"):
                watched.add(folder[len(root) + 1 :])
        else:
            ignored.add(path)


def find_arrival(root: str, path: str, state: os.stat_result, since: int) -> int:
    """Return when (ns) a file that is as `state` says came to be so, at the latest.

    Where its folder was moved it has no new time itself, one before `since`, but a folder has.
    """
    moment = state.st_ctime_ns
    while moment < since and (path := path.rpartition("/")[0]):
        try:
            moment = max(moment, os.lstat(f"{root}/{path}").st_ctime_ns)
        except OSError:
            break
    return moment


def _find_moment(root: str, path: str) -> int:
    """Return when (ns) a file went at the latest: when the nearest folder that is left moved."""
    while path:
        path = path.rpartition("/")[0]
        try:
            return os.lstat(f"{root}/{path}").st_mtime_ns
        except OSError:
            continue
    return 0
