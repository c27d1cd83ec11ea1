"""Putting our hooks into a harness's settings file, taking them out again, and saying how things stand.

Guarantees: a settings file is replaced whole or not at all, and only where it is as it was read; a file that is not
of its form, or not a plain file, is refused and left alone. What an install put in is remembered by digests and
places, without a copy of anybody's settings, so taking it out gives the very bytes back while the file is untouched.
The memory is believed only where the file bears it out. A crash between the two writes leaves a memory that matches
no file; taking out then goes by what is ours.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from doctrine.light import NamedTuple
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, StoredDataError
from specify_cli.hooks.harnesses import (
    EARLIER_PLUGINS,
    PLUGIN,
    PLUGIN_MARK,
    Harness,
    left_over,
    presence,
    with_hooks,
    without_hooks,
)
from specify_cli.hooks.json_text import JsonTextError, is_blank, read, taken_out
from specify_cli.record import layout
from specify_cli.storage.store import FileRecordStore

MAX_SETTINGS = 4 * 1024 * 1024
_MEMORY = layout.LOCAL_HOOKS.rpartition("/")[2]
_MAX_MEMORY = 256 * 1024
Spans = tuple[tuple[int, int], ...]


class Place(NamedTuple):
    """Where a harness's settings are for a scope, and where it is remembered what was done to them."""

    harness: Harness
    scope: str
    root: str
    relative: str
    memory: str  # the folder of hooks.json; below the root for a project

    @property
    def path(self) -> str:
        """The settings file as people name it."""
        return self.relative if self.scope == "project" else f"{self.root}/{self.relative}"


class Change(NamedTuple):
    """What an install or uninstall did, or would do. `text` is None where the file goes."""

    place: Place
    state: str  # installed · updated · unchanged · restored · removed · deleted · absent
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The change as a unified diff, empty where there is none."""
        return difference(self.place.path, self.before, self.after)


def difference(path: str, before: str | None, after: str | None) -> str:
    """Two states of a file as a unified diff; None is no file."""
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    parts = difflib.unified_diff(_lines(before or ""), _lines(after or ""), *names)
    return "".join(part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts)


def _lines(text: str) -> list[str]:
    """The lines of a text with their line feeds."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


class Standing(NamedTuple):
    """How things stand at one place."""

    place: Place
    state: str  # absent · current · outdated · edited · foreign · invalid
    problem: str | None


class _Memory(NamedTuple):
    """What an install left: digests of the file before and after, what it put in where, the folders it made."""

    before: str | None
    after: str
    spans: Spans | None
    folders: tuple[str, ...]


def install(place: Place, *, dry_run: bool = False) -> Change:
    """Put in what is missing. Raises StoredDataError, EnvironmentFault; then nothing was changed."""
    # 1. The file as it is, and as it was before us where that can still be told.
    data = _read(place)
    text = None if data is None else _text(place, data)
    memory = _recall(place)
    if place.harness.form == "plugin":
        return _install_plugin(place, data, text, memory, dry_run=dry_run)
    try:
        original = None if memory is None else _original(place, data, text, memory)
        exact = True
        if original is not None:
            base = original.text
        elif text is None or (state := presence(text, place.harness)) == "absent":
            base = text
        elif state == "current":
            return Change(place, "unchanged", text, text)
        else:
            base, exact = without_hooks(text, place.harness), False
        # 2. The file as it is to be.
        done = with_hooks(base or "", place.harness)
    except JsonTextError as error:
        raise _invalid(place, error) from error
    if done.text == text:
        return Change(place, "unchanged", text, text)
    change = Change(place, "installed" if text == base else "updated", text, done.text)
    if not dry_run:
        # 3. Memory, then the file.
        folders = memory.folders if memory is not None and original is not None else _absent_folders(place)
        before = None if base is None else _digest(base)
        _remember(place, _Memory(before, _digest(done.text), done.spans if exact else None, folders))
        _write(place, data, done.text)
    return change


def uninstall(place: Place, *, dry_run: bool = False) -> Change:
    """Give back the bytes from before where the file is untouched since, else take out what is ours."""
    data = _read(place)
    memory = _recall(place)
    if data is None:
        if not dry_run:
            _remember(place, None)
        return Change(place, "absent", None, None)
    text = _text(place, data)
    try:
        change = _taken_out(place, data, text, memory)
    except JsonTextError as error:
        raise _invalid(place, error) from error
    if dry_run:
        return change
    if change.after is None:
        _delete(place, data, () if memory is None else memory.folders)
    elif change.after != text:
        _write(place, data, change.after)
    _remember(place, None)
    return change


def standing(place: Place) -> Standing:
    """How things stand at one place; a file that cannot be used is a state, not an error."""
    try:
        data = _read(place)
        if data is None:
            return Standing(place, "absent", None)
        text = _text(place, data)
        if place.harness.form == "plugin":
            state = "current" if text == PLUGIN else "outdated" if text.startswith(PLUGIN_MARK) else "foreign"
        else:
            found = presence(text, place.harness)
            state = "outdated" if found == "partial" else found
    except JsonTextError as error:
        return Standing(place, "invalid", _invalid(place, error).message)
    except StoredDataError as error:
        return Standing(place, "invalid", error.message)
    memory = _recall(place)
    known = _digest(text) in EARLIER_PLUGINS
    if state == "outdated" and not known and memory is not None and memory.after != _digest(text):
        state = "edited"
    return Standing(place, state, None)


# --- what is to be done


class _Original(NamedTuple):
    text: str | None


def _original(place: Place, data: bytes | None, text: str | None, memory: _Memory) -> _Original | None:
    """The file as it was before the install that is remembered; None where that cannot be told for certain."""
    if data is None or text is None or _digest(text) != memory.after:
        return None
    # Whatever the memory says, only our own entries may go.
    harness = place.harness
    rest = without_hooks(text, harness)
    if memory.before is None:
        return _Original(None) if _says_nothing(rest, harness) else None
    if memory.spans is None or (memory.spans and memory.spans[-1][1] > len(text)):
        return None
    before = taken_out(text, memory.spans)
    if _digest(before) != memory.before:
        return None
    if _plain(without_hooks(before, harness), harness) != _plain(rest, harness):
        return None
    return _Original(before)


def _says_nothing(text: str, harness: Harness) -> bool:
    return is_blank(text) or left_over(read(text, comments=harness.comments).value, harness)


def _plain(text: str, harness: Harness) -> object:
    """The value of a text without what an install makes around its entries."""
    value = {} if is_blank(text) else read(text, comments=harness.comments).value
    if not isinstance(value, dict):
        return value
    inner = {
        key: {name: item for name, item in kept.items() if item != []} if isinstance(kept, dict) else kept
        for key, kept in value.items()
    }
    bare = {key: kept for key, kept in inner.items() if kept not in ({}, [])}
    if harness.form == "flat" and bare.get("version") == 1:
        del bare["version"]
    return bare


def _taken_out(place: Place, data: bytes, text: str, memory: _Memory | None) -> Change:
    harness = place.harness
    untouched = memory is not None and memory.after == _digest(text)
    if harness.form == "plugin":
        if text == PLUGIN or untouched or _digest(text) in EARLIER_PLUGINS:
            return Change(place, "deleted", text, None)
        if text.startswith(PLUGIN_MARK):
            raise _edited_plugin(place)
        return Change(place, "absent", text, text)
    original = None if memory is None else _original(place, data, text, memory)
    if original is not None:
        return Change(place, "deleted" if original.text is None else "restored", text, original.text)
    if presence(text, harness) == "absent":
        return Change(place, "absent", text, text)
    rest = without_hooks(text, harness)
    if memory is not None and memory.before is None and _says_nothing(rest, harness):
        return Change(place, "deleted", text, None)
    return Change(place, "removed", text, rest)


def _install_plugin(
    place: Place, data: bytes | None, text: str | None, memory: _Memory | None, *, dry_run: bool
) -> Change:
    if text == PLUGIN:
        return Change(place, "unchanged", text, text)
    known = {*EARLIER_PLUGINS, *(() if memory is None else (memory.after,))}
    if text is not None and _digest(text) not in known:
        if text.startswith(PLUGIN_MARK):
            raise _edited_plugin(place)
        raise StoredDataError(
            "SETTINGS_INVALID",
            f"{place.path} is not ours; it was left as it is",
            f"give {place.path} another name, then install again",
        )
    change = Change(place, "installed" if text is None else "updated", text, PLUGIN)
    if not dry_run:
        folders = _absent_folders(place) if memory is None or text is None else memory.folders
        _remember(place, _Memory(None, _digest(PLUGIN), None, folders))
        _write(place, data, PLUGIN)
    return change


def _edited_plugin(place: Place) -> StoredDataError:
    return StoredDataError(
        "SETTINGS_INVALID",
        f"{place.path} was edited, or written by another release; it was left as it is",
        f"look at it, then remove it: rm {place.path}",
    )


def _invalid(place: Place, error: JsonTextError) -> StoredDataError:
    return StoredDataError(
        "SETTINGS_INVALID",
        f"{place.path}:{error.line}: {error.problem}; it was left as it is",
        f"mend line {error.line} of {place.path}, then run the same command again",
    )


# --- files


@contextmanager
def _folder(place: Place, *, create: bool = False) -> Iterator[int]:
    head = place.relative.rpartition("/")[0]
    fd = durable.open_folder(place.root, head.split("/") if head else [], create=create)
    try:
        yield fd
    finally:
        os.close(fd)


def _name(place: Place) -> str:
    return place.relative.rpartition("/")[2]


def _read(place: Place) -> bytes | None:
    """The settings file's bytes; None where there is none. Raises StoredDataError, EnvironmentFault."""
    try:
        with _folder(place) as folder_fd:
            fd = durable.open_regular(folder_fd, _name(place), os.O_RDONLY, place.path)
            try:
                if os.fstat(fd).st_size > MAX_SETTINGS:
                    raise StoredDataError(
                        "SETTINGS_INVALID",
                        f"{place.path} has more than {MAX_SETTINGS} bytes; it was left as it is",
                        f"look at {place.path}: it holds more than settings",
                    )
                return durable.read_all(fd)
            finally:
                os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentFault(
            "ACCESS_FAILED", f"cannot read {place.path}: {error.strerror or error}", f"ls -l {place.path}"
        ) from error


def _text(place: Place, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StoredDataError(
            "SETTINGS_INVALID",
            f"{place.path}:{line}: expected UTF-8; it was left as it is",
            f"save {place.path} as UTF-8, then run the same command again",
        ) from error


def _write(place: Place, seen: bytes | None, text: str) -> None:
    """The file holds the text or, after a crash, what it held; as private as it was."""
    mode = durable.SHARED if place.scope == "project" else durable.PRIVATE
    try:
        with _folder(place, create=True) as fd:
            if seen is None:
                durable.create_exclusive(fd, _name(place), text.encode("utf-8"), mode)
                return
            _still(place, seen)
            mode = stat.S_IMODE(os.stat(_name(place), dir_fd=fd, follow_symlinks=False).st_mode)
            durable.replace(fd, _name(place), text.encode("utf-8"), mode & 0o600)
            os.chmod(_name(place), mode, dir_fd=fd)
    except FileExistsError as error:
        raise _changed(place) from error
    except OSError as error:
        raise durable.write_failed(place.path, error) from error


def _delete(place: Place, seen: bytes, folders: tuple[str, ...]) -> None:
    """Take the file away, and the folders an install made if nothing else came into them."""
    try:
        with _folder(place) as fd:
            _still(place, seen)
            os.unlink(_name(place), dir_fd=fd)
            os.fsync(fd)
        for folder in sorted(folders, key=len, reverse=True):
            parent, _, name = folder.rpartition("/")
            fd = durable.open_folder(place.root, parent.split("/") if parent else [])
            try:
                os.rmdir(name, dir_fd=fd)
            finally:
                os.close(fd)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise durable.write_failed(place.path, error) from error


def _still(place: Place, seen: bytes) -> None:
    if _read(place) != seen:
        raise _changed(place)


def _changed(place: Place) -> EnvironmentFault:
    return EnvironmentFault(
        "WRITE_FAILED",
        f"{place.path} was changed by another program meanwhile; it was left as that left it",
        "run the same command again",
    )


def _absent_folders(place: Place) -> tuple[str, ...]:
    """The folders on the way to the settings file that are not there yet."""
    head = place.relative.rpartition("/")[0]
    parts = head.split("/") if head else []
    ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    return tuple(way for way in ways if not os.path.lexists(f"{place.root}/{way}"))


# --- memory


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _memories(place: Place) -> dict[str, object]:
    """What is remembered, by harness; read as anybody could have written it."""
    try:
        with _memory_folder(place, create=False) as folder_fd:
            fd = durable.open_regular(folder_fd, _MEMORY, os.O_RDONLY, layout.LOCAL_HOOKS)
            try:
                value = json.loads(os.pread(fd, _MAX_MEMORY, 0))
            finally:
                os.close(fd)
    except (OSError, ValueError, RecursionError, StoredDataError):
        return {}
    found = value.get("files") if isinstance(value, dict) else None
    return dict(found) if isinstance(found, dict) else {}


@contextmanager
def _memory_folder(place: Place, *, create: bool) -> Iterator[int]:
    if place.scope == "project":
        with durable.folder(place.root, layout.LOCAL, create=create) as fd:
            yield fd
        return
    if create:
        os.makedirs(place.memory, mode=0o700, exist_ok=True)
    with durable.folder(place.memory) as fd:
        yield fd


def _recall(place: Place) -> _Memory | None:
    found = _memories(place).get(place.harness.name)
    if not isinstance(found, dict) or found.get("path") != place.path:
        return None
    before, after, spans, folders = (found.get(key) for key in ("before", "after", "spans", "folders"))
    if not isinstance(after, str) or not (before is None or isinstance(before, str)):
        return None
    own = place.relative.split("/")
    known = {"/".join(own[:end]) for end in range(1, len(own))}
    kept = tuple(way for way in folders if way in known) if isinstance(folders, list) else ()
    return _Memory(before, after, _spans(spans), kept)


def _spans(value: object) -> Spans | None:
    """Places in order and apart; None for anything else."""
    if not isinstance(value, list):
        return None
    found: list[tuple[int, int]] = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2 or not all(type(at) is int for at in item):
            return None
        start, end = item
        if not (found[-1][1] if found else 0) <= start < end:
            return None
        found.append((start, end))
    return tuple(found)


def _remember(place: Place, memory: _Memory | None) -> None:
    try:
        if memory is None and place.harness.name not in _memories(place):
            return
        if place.scope == "project":
            FileRecordStore(place.root).shield_folder(layout.LOCAL, {".gitignore": b"*\n"})
        with _memory_folder(place, create=True) as fd:
            # Read and written under one lock: installs of other harnesses may run beside this one.
            durable.lock(fd, place.memory)
            files = _memories(place)
            if memory is not None:
                files[place.harness.name] = _as_value(place, memory)
            elif files.pop(place.harness.name, None) is None:
                return
            if files:
                data = json.dumps({"v": 1, "files": files}, ensure_ascii=False, indent=1).encode("utf-8") + b"\n"
                durable.replace(fd, _MEMORY, data, durable.PRIVATE)
            else:
                os.unlink(_MEMORY, dir_fd=fd)
    except OSError as error:
        raise durable.write_failed(f"{place.memory}/{_MEMORY}", error) from error


def _as_value(place: Place, memory: _Memory) -> Mapping[str, object]:
    return {
        "path": place.path,
        "before": memory.before,
        "after": memory.after,
        "spans": None if memory.spans is None else [list(span) for span in memory.spans],
        "folders": list(memory.folders),
    }
