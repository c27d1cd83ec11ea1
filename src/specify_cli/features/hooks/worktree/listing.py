"""Which files of a work tree moved since a moment: asked of the file system, with git's index for
the names.

A file moved where its time of change (ctime) is later: what sets a file's times, or moves an older
file to its place, cannot hide that. A folder is listed only where its own time moved. git is
started only where a name is new (is it ignored?), or the index is in a form not read here.
"""

from __future__ import annotations

import os
import stat

from doctrine.git import read_git
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.record import layout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from specify_cli.features.hooks.worktree.known import Known

# git and the kernel stamp with a clock that runs behind by a tick.
TICK = 10_000_000
_ENTRY = 62
_MAX_ASKED = 1000


class Names(NamedTuple):
    """The files below a project that git's index names, the index's bytes, and what it names before
    each."""

    paths: list[bytes]
    data: bytes
    prefix: bytes


class Moved(NamedTuple):
    """What moved: files with how they are now, files that are gone with the moment (ns), the
    folders to watch and the ignored paths that git's index does not know."""

    files: dict[str, os.stat_result]
    gone: dict[str, int]
    folders: list[str]
    ignored: list[str]


def count_files(index: bytes) -> int:
    """Return how many files an index names, by its first bytes."""
    return int.from_bytes(index[8:12], "big")


def read_names(top: str, prefix: str, index: bytes) -> Names:
    """Return what an index names below `prefix`, which is empty or ends in a slash."""
    below = os.fsencode(prefix)
    paths = _parse(index)
    if paths is None:
        paths = (read_git(top, "ls-files", "-z") or b"").split(b"\0")[:-1]
        index = b""
    if below:
        paths = [path[len(below) :] for path in paths if path.startswith(below)]
    return Names(paths, index, below)


def _parse(index: bytes) -> list[bytes] | None:
    """Return the paths of an index of version 2 or 3; None for another form, or one in parts (git's
    index-format.txt)."""
    version = int.from_bytes(index[4:8], "big")
    if index[:4] != b"DIRC" or version not in (2, 3):
        return None
    paths: list[bytes] = []
    at, find, add = 12, index.find, paths.append
    for _ in range(count_files(index)):
        begin = at + _ENTRY + (2 if version == 3 and index[at + 60] & 0x40 else 0)
        end = find(b"\0", begin)
        if end < 0:
            return None
        add(index[begin:end])
        at += (end - at + 8) & ~7
    return None if index[at : at + 4] in (b"link", b"sdir") else paths


class Entry(NamedTuple):
    """What an index says of a file: its blob, its mode, and whether the file is as git left or
    found it."""

    blob: str
    mode: int
    is_current: bool


def find_entry(names: Names, path: str, state: os.stat_result | None) -> Entry | None:
    """Return what the index says of a file; None where it does not name it."""
    whole = names.prefix + os.fsencode(path) + b"\0"
    at = names.data.find(whole)
    while at >= 0:
        entry = names.data[at - _ENTRY : at]
        if len(entry) == _ENTRY and int.from_bytes(entry[60:62], "big") & 0xFFF == len(whole) - 1:
            numbers = [int.from_bytes(entry[at : at + 4], "big") for at in (8, 12, 36)]
            seconds, nanos = divmod(0 if state is None else state.st_mtime_ns, 10**9)
            size = 0 if state is None else state.st_size
            return Entry(
                entry[40:60].hex(),
                int.from_bytes(entry[24:28], "big"),
                numbers == [seconds & 0xFFFFFFFF, nanos, size & 0xFFFFFFFF],
            )
        at = names.data.find(whole, at + 1)
    return None


def find_moved(root: str, top: str, names: Names, known: Known, *, asks_base: bool) -> Moved:
    """Return what moved since a work tree was looked at; with `asks_base` also files of its first
    commit that are in the index no more."""
    since = known.at - TICK
    tracked = set(names.paths)
    others = {os.fsencode(path) for path in known.files}
    if asks_base:
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", known.base)
        listed = (read_git(top, *words) or b"").split(b"\0")[:-1]
        others |= {p[len(names.prefix) :] for p in listed if p.startswith(names.prefix)}
    beside = others - tracked
    files, gone, folders = _find_moved_files(root, [*names.paths, *beside], since)
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
    for path in _ask_untracked(top, os.fsdecode(names.prefix), new, watched, ignored, root):
        try:
            files[path] = os.lstat(f"{root}/{path}")
        except OSError:
            continue
    moments = {
        path: _find_moment(root, path)
        for path in gone
        if path not in known.files or known.files[path].changed
    }
    moved = {
        path: state
        for path, state in files.items()
        if path not in known.files or known.files[path].changed != state.st_ctime_ns
    }
    return Moved(moved, moments, sorted(watched), sorted(ignored))


def list_gone(root: str, names: Names) -> list[str]:
    """Return the files that an index names and that are not there."""
    return _find_moved_files(root, names.paths, 2**63)[1]


def look_at_file(root: str, path: str, known: Known) -> Moved:
    """Return whether one file moved since a work tree was looked at."""
    before, files, gone = known.files.get(path), {}, {}
    try:
        state = os.lstat(f"{root}/{path}")
        if state.st_ctime_ns != (known.at if before is None else before.changed):
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
    files: dict[str, os.stat_result] = {}
    gone: list[str] = []
    heads: set[bytes] = set()
    look = os.lstat
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            heads.add(path[: path.rfind(b"/") + 1])
            try:
                state = look(path, dir_fd=fd)
            except OSError:
                gone.append(os.fsdecode(path))
                continue
            if state.st_ctime_ns >= since and not stat.S_ISDIR(state.st_mode):
                files[os.fsdecode(path)] = state
    finally:
        os.close(fd)
    folders = {""}
    for head in heads:
        folder = os.fsdecode(head[:-1])
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return files, gone, folders


def _ask_untracked(
    top: str, prefix: str, new: Collection[str], watched: set[str], ignored: set[str], root: str
) -> Iterator[str]:
    """Yield the files among and below new names that git does not ignore.

    Adds the folders that hold them, or are empty, to `watched`, and the rest to `ignored`.
    """
    if not new:
        return
    asked = [f"{prefix}{path}" for path in new] if len(new) <= _MAX_ASKED else [prefix or "."]
    words = ("--literal-pathspecs", "ls-files", "-o", "--exclude-standard", "-z", "--", *asked)
    found = {
        os.fsdecode(path)[len(prefix) :] for path in (read_git(top, *words) or b"").split(b"\0")
    }
    yield from (path for path in found if path and not path.endswith("/"))
    for path in found:
        folder = path.rpartition("/")[0]
        while folder and folder not in watched:
            watched.add(folder)
            folder = folder.rpartition("/")[0]
    for path in new:
        if path in found or path in watched:
            continue
        if os.path.isdir(f"{root}/{path}") and not _is_ignored(top, f"{prefix}{path}/"):
            for folder, _, _ in os.walk(f"{root}/{path}"):
                watched.add(folder[len(root) + 1 :])
        else:
            ignored.add(path)


def _is_ignored(top: str, path: str) -> bool:
    return read_git(top, "check-ignore", "-q", "--", path) is not None


def _find_moment(root: str, path: str) -> int:
    """Return when (ns) a file went at the latest: when the nearest folder that is left moved."""
    while path:
        path = path.rpartition("/")[0]
        try:
            return os.lstat(f"{root}/{path}").st_mtime_ns
        except OSError:
            continue
    return 0
