"""Which records exist, newest first, without reading them and usually without listing their
folders.

The folders are the truth. `invocation-index.jsonl` is derived from their file names. The stamp,
`invocation-index.stamp`, holds the state of the folders (inode, change time) and of the index when
the two last agreed. While both match the stamp, the index is read; otherwise the names are listed
once, and index and stamp are corrected. Both files can be deleted at any time. Whoever edits them
gets a slower or incomplete list until the next change, but never a changed record. If two changes
could have the same change time, no stamp is written: a race costs a listing, never a row.

Three states of index and stamp, from cheap to dear:

- *Current*: inodes, change times and sizes are as the stamp says. The index is read from its end,
  so the newest rows cost the same among a million.
- *Confirmed*: something changed, and the names listed now are those of the stamp plus the rows
  appended since. A writer that creates a record and adds its row leaves this state. One listing
  and three digests, and a new stamp.
- *Reconciled*: anything else. The names are listed, sorted, and index and stamp written anew.

`add` appends without a sync and under a lock of the folder. If a crash loses a row, the next list
finds the record, because the folder has a name without a row.

    index = Index(project.root)
    index.resolve("last")                        # the Place of the newest record
    for key in index.newest(): index.place(key)

Reading order: `newest`, `lookup` and `resolve` (what callers ask), `reconcile` and `_confirm` (how
the index is put right), `_list` (when a listing can be trusted).
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.record.ids import millis_of, new_ulid, rfc3339
from specify_cli.record.record import PROFILE_ID_PATTERN, ULID_PATTERN, is_replay
from specify_cli.storage.store import FileRecordStore, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO


STAMP_VERSION = 1

_BLOCK = 64 * 1024
# Limits, in bytes, for files that anybody may have planted: the stamp, and the rows appended since
# the stamp (some 60,000).
_MAX_STAMP = 256 * 1024
_APPENDED = 8 * 1024 * 1024
_DAY_MILLIS = 24 * 3600 * 1000
_PART = r"[0-9A-HJKMNP-TV-Z]{1,26}"
# The path of a record, as `do` prints it; it ends with the id. The pattern is not compiled here,
# because a `do` would pay for that and never uses it.
_FILE = rf"(?s:(?:.*[/\\-])?({ULID_PATTERN})\.JSONL)"
_ORDINAL = r"LAST|@([1-9][0-9]{0,8})"
_LINE = (
    rf'\{{"invocation_id":"({ULID_PATTERN})","profile_id":(?:null|"({PROFILE_ID_PATTERN})"),'
    r'"started_at":"[0-9TZ:.-]{24,26}"\}\n'
).encode("ascii")
# Two changes closer than this may carry the same change time: a kernel tick where times have
# fractions, a second or two where they do not.
_TICK_NANOS = 100_000_000
_COARSE_NANOS = 2_000_000_000


class Key(NamedTuple):
    """One row of the index: enough to find the record, ordered by time.

    `profile_id` is empty for older records. Keys sort by their ids, and so by time.
    """

    invocation_id: str
    profile_id: str

    def line(self) -> str:
        """Return the row as the index holds it, with its LF (docs/format.md §8); the time is the
        ULID's own."""
        profile = f'"{self.profile_id}"' if self.profile_id else "null"
        started_at = rfc3339(millis_of(self.invocation_id))
        return (
            f'{{"invocation_id":"{self.invocation_id}","profile_id":{profile},'
            f'"started_at":"{started_at}"}}\n'
        )

    def names(self) -> tuple[str, ...]:
        """Return the file names a record of this row may have, its own form first."""
        older = f"{self.invocation_id}.jsonl"
        return (
            (layout.record_name(self.profile_id, self.invocation_id), older)
            if self.profile_id
            else (older,)
        )


def names_place(text: str) -> bool:
    """Return whether a text names a record by its place in the list, and not by its id.

    Such a name, `last` or `@3`, means another record after the next `do`: resolve it once.
    """
    return re.fullmatch(_ORDINAL, text.strip().upper()) is not None


class _Listed(NamedTuple):
    """One listing: the sorted names, the states of the folders before it, and whether these states
    would show any later change (`settled`)."""

    names: list[str]
    states: list[list[object]]
    settled: bool


class Index:
    """The rows of one project.

    `root` is the project's folder. `scans` counts the listings that this object made; after one, a
    second finds nothing new. `problems` are sentences for people.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.path = f"{root}/{layout.INDEX}"
        self.scans = 0
        # Folders that could not be listed and files that could not be written; the caller shows
        # them.
        self.problems: list[str] = []

    def add(self, key: Key) -> None:
        """Append one row after its record is durable. If the row cannot be written, the next list
        finds the record anyway.

        Nothing is raised: a failure is added to `problems`. It waits half a second at most for the
        lock.
        """
        try:
            with (
                self._lock_folder(0.5) as folder_fd,
                durable.appended(folder_fd, "invocation-index.jsonl") as fd,
            ):
                durable.append(fd, key.line().encode("ascii"), sync=False)
        except (OSError, InvocationError) as error:
            self._note_unwritten(layout.INDEX, error)

    def _note_unwritten(self, path: str, error: OSError | InvocationError) -> None:
        """Note that a derived file could not be written, as a sentence for people."""
        reason: object = error
        if isinstance(error, OSError):
            reason, name = error.strerror, error.filename2
            path = f"{layout.EVENTS}/{name}" if name else path
        self.problems.append(f"{path}: {reason}; it stays as it was: lists are whole, but slower")

    def _lock_folder(self, wait: float) -> durable.folder:
        """Return the folder of the index as a context manager that holds the lock of all writers of
        index and stamp. `wait` is in seconds."""
        return durable.folder(self.root, layout.EVENTS, wait=wait)

    def newest(self) -> Iterator[Key]:
        """Yield the key of every record once, newest first; ids more than a day ahead of the clock
        come last.

        Otherwise a clock that was wrong for a while would put its records before all others. Raises
        as `reconcile` does. A record may be gone by the time its place is looked up (`place`).
        """
        tomorrow = new_ulid(time.time_ns() // 1_000_000 + _DAY_MILLIS, bytes(10))
        ahead = []
        for key in (
            self._read_backwards()
            if self._is_current() or self._confirm()
            else reversed(self.reconcile())
        ):
            if key.invocation_id > tomorrow:
                ahead.append(key)
            else:
                yield key
        yield from ahead

    def rows_since(self, mark: str) -> tuple[Iterable[Key], str]:
        """Return the rows added since `mark`, and a new mark. With it a reader that keeps a
        database of its own reads only new rows.

        `mark` comes from an earlier call; "" means from the start. For a mark that does not fit
        this index all rows are returned. Rows can come again, and in any order. The index is
        corrected before it is read. A mark is opaque: inode, offset, and a digest of the bytes
        before the offset.
        """
        problems_before = len(self.problems)
        listed = () if self._is_current() or self._confirm() else self.reconcile()
        if len(self.problems) > problems_before:
            return listed or self.reconcile(), ""  # the index could not be made right
        try:
            with self._open() as file:
                state = os.fstat(file.fileno())
                inode, _, rest = mark.partition(":")
                offset, _, ending = rest.partition(":")
                start = int(offset) if inode == str(state.st_ino) and offset.isdecimal() else 0
                if start and _read_ending(file, start) != ending:
                    start = 0
                file.seek(start)
                data = file.read()
                end = start + data.rfind(b"\n") + 1
                return _parse_keys(data), f"{state.st_ino}:{end}:{_read_ending(file, end)}"
        except FileNotFoundError:
            return listed, ""

    def lookup(self, prefix: str) -> list[Key]:
        """Return the rows whose id begins with `prefix`. The folders are listed only if the index
        is out of date.

        `prefix` is upper case, of 1 to 26 letters. The whole id of a recent record is found in the
        last 64 KiB of the index without a listing, as the append of a hook needs it.

        An id that another process has just made is found: its name is in the folder, which is then
        newer than the stamp.
        """
        if self._is_current():
            return list(self._from(prefix))
        if len(prefix) == 26:
            near = [key for key in self._read_tail_block() if key.invocation_id == prefix]
            if near:
                return list(dict.fromkeys(near))
        return [key for key in self.reconcile() if key.invocation_id.startswith(prefix)]

    def resolve(self, text: str) -> Place:
        """Return the place of the one record that a text names: by its id, a part of its id, its
        path, or its place in the list.

        The place in the list is `last` or `@N`, the Nth row of `invocations list`. A part must fit
        exactly one id: its beginning; if no id begins so, its end; otherwise its middle. If several
        files hold the id, the one among the records that is named by its profile counts; verify
        reports the others. Case, blanks around the text and the dots of a short id do not matter.
        The index is searched first, then one listing, then parts in the middle of an id.
        Raises CallerError INVALID_ID, INVOCATION_NOT_FOUND, INVOCATION_AMBIGUOUS and
        StoredDataError DUPLICATE_ID.
        """
        part = re.sub(_FILE, r"\1", text.strip().rstrip(".…").upper())
        ordinal = re.fullmatch(_ORDINAL, part)
        if ordinal is None and re.fullmatch(_PART, part) is None:
            raise CallerError(
                "INVALID_ID",
                f"{text!r} names no invocation; expected a ULID (26 letters and digits), a part "
                "of one, last or @N",
                "spec-kitty invocations list",
            )
        places = self._find_places(
            self._find_listed(int(ordinal[1] or 1)) if ordinal else self.lookup(part)
        )
        if not places and not ordinal and not self.scans:
            places = self._find_places(
                key for key in self.reconcile() if key.invocation_id.startswith(part)
            )
        if not places and not ordinal and len(part) < 26:
            keys = [key for key in self.newest() if part in key.invocation_id]
            places = self._find_places(
                [key for key in keys if key.invocation_id.endswith(part)] or keys
            )
        if not places:
            raise self._describe_missing(
                f"stands at {text} of the list"
                if ordinal
                else f"has the id {part}{'…' * (len(part) < 26)}",
                "" if ordinal else part,
            )
        if len({place.invocation_id for place in places}) > 1:
            raise CallerError(
                "INVOCATION_AMBIGUOUS",
                f"{len(places)} records have an id with {part}; expected one",
                "give more letters of the id",
                candidates=[{"invocation_id": place.invocation_id} for place in places[:20]],
            )
        own = [
            place
            for place in places
            if place.folder != layout.OLDER_RECORDS and place.profile_id is not None
        ]
        if len(places) > 1 and len(own) != 1:
            raise StoredDataError(
                "DUPLICATE_ID",
                f"{len(places)} files hold the id {places[0].invocation_id}; expected one",
                "spec-kitty invocations verify --all",
                candidates=[{"name": place.path} for place in places],
            )
        return own[0] if len(places) > 1 else places[0]

    def _describe_missing(self, what: str, part: str) -> CallerError:
        """Return the error for a record that is not here; it names a project that may hold it.

        `what` describes the record. `part` is the id or a part of it; "" for a place in the list.
        """
        import shlex  # for an id that is not here

        from specify_cli.storage.worktrees import find_above, find_left_behind, find_worktrees

        advice = "spec-kitty invocations reindex; "
        left = find_left_behind(self.root)
        if not part and not left and not next(self.newest(), None):
            return CallerError(
                "INVOCATION_NOT_FOUND",
                f"there is no record yet in {self.root}",
                'spec-kitty do "…"',
            )
        above = find_above(self.root, part) if len(part) > 5 else None
        if above is None and len(part) > 5:
            above = next((one for one in find_worktrees(self.root) if _holds(one, part)), None)
        return CallerError(
            "INVOCATION_NOT_FOUND",
            f"no record {what} in {self.root}"
            + (
                f", but one in {above}"
                if above
                else ", and removed worktrees left some" * bool(left)
            ),
            f"cd {shlex.quote(above)}, and there the same command"
            if above
            else f"{advice if left else ''}spec-kitty invocations list",
        )

    def _find_listed(self, number: int) -> Iterator[Key]:
        """Yield the key at this place of the list, counted from 1, without replays."""
        for key in self.newest():
            place = self.place(key)
            try:
                if not place or is_replay(FileRecordStore(self.root).head(place)):
                    continue
            except (OSError, InvocationError):
                continue  # the list names it on stderr and has no row of it
            number -= 1
            if number == 0:
                yield key
                return

    def _find_places(self, keys: Iterable[Key]) -> list[Place]:
        """Return the places of the records that still exist."""
        return [place for key in keys if (place := self.place(key))]

    def place(self, key: Key) -> Place | None:
        """Return the place of a row's record; None if it is gone.

        A record can lie in several places (in its folder, and as a published copy). The first of
        records, trail, imported and kitty-ops counts, then the archive of its month, then another
        month of the trail.
        """
        names = key.names()
        expected = [
            layout.RECORDS,
            layout.trail_folder(key.invocation_id),
            layout.IMPORTED,
            layout.OLDER_RECORDS,
        ]
        for folder in expected:
            for name in names:
                if os.path.lexists(f"{self.root}/{folder}/{name}"):
                    return Place(folder, name, key.invocation_id, key.profile_id or None)
        if os.path.lexists(f"{self.root}/{layout.COLD}"):
            from specify_cli.storage.cold import find_month  # as above

            try:
                cold = find_month(self.root, names[0], key.invocation_id)
            except InvocationError:
                cold = layout.cold_folder(key.invocation_id)  # reading the record raises the error
            if cold is not None:
                return Place(cold, names[0], key.invocation_id, key.profile_id or None)
        # A copy somebody moved to another month of the trail.
        for folder in self._list_folders():
            if folder not in expected and os.path.lexists(f"{self.root}/{folder}/{names[0]}"):
                return Place(folder, names[0], key.invocation_id, key.profile_id or None)
        return None

    def places(self) -> Iterator[Place]:
        """Yield where each record lies, newest first.

        Rows whose records are gone are left out.
        """
        for key in self.newest():
            place = self.place(key)
            if place:
                yield place

    def reconcile(self) -> list[Key]:
        """List the names, correct index and stamp, and return every row, oldest first.

        Names of another form are left out; a name in several folders is one row. Raises
        StoredDataError UNSAFE_PATH if the records' folder itself cannot be listed; other folders
        only add to `problems`.
        """
        listed = self._list()
        keys = sorted(
            {
                Key(ids[1], ids[0] or "")
                for name in listed.names
                if (ids := layout.parse_record_name(name))
            }
        )
        data = "".join(key.line() for key in keys).encode("ascii")
        try:
            with self._lock_folder(2.0) as folder_fd:
                self._rewrite(folder_fd, data)
                self._write_stamp(folder_fd, listed, data)
        except FileNotFoundError:
            pass  # nothing was ever recorded here
        except (OSError, InvocationError) as error:
            # Derived files: a project that cannot be written to is listed from its names each time.
            self._note_unwritten(layout.INDEX, error)
        return keys

    def _confirm(self) -> bool:
        """Return whether the index is still right although something changed; write a new stamp if
        it is.

        It is right if the names are those of the last stamp plus the rows that writers have
        appended since, in order. That takes one listing and three digests instead of a comparison
        row by row.
        """
        stamp = self._read_stamp()
        size, stamped = stamp.get("size"), stamp.get("index")
        state = self._index_state()
        if (
            state is None
            or not isinstance(size, int)
            or not isinstance(stamped, list)
            or stamped[:1] != state[:1]
        ):
            return False  # another file than the one the stamp is about: nobody appended to that
        try:
            data = self._read(size + _APPENDED)
        except (OSError, InvocationError):
            return False
        if len(data) > size + _APPENDED or hash_bytes(data[:size]) != stamp.get("sha256"):
            return False
        begin = max(0, data.rfind(b"\n", 0, size - 1) + 1)
        fresh = list(_parse_keys(data[size:]))
        rows = [*_parse_keys(data[begin:size]), *fresh]  # the last row before, and what came since
        if rows != sorted(set(rows)) or sum(len(key.line()) for key in fresh) != len(data) - size:
            return False
        listed = self._list()
        added = {name for key in fresh for name in key.names() if _has_name(listed.names, name)}
        before = [name for name in listed.names if name not in added] if added else listed.names
        if len(added) != len(fresh) or _digest_names(before) != stamp.get("names"):
            return False
        try:
            with self._lock_folder(2.0) as folder_fd:
                if self._read(len(data)) != data:
                    return False
                self._write_stamp(folder_fd, listed, data)
        except (OSError, InvocationError) as error:
            self._note_unwritten(layout.INDEX_STAMP, error)
        return True

    def _list(self) -> _Listed:
        """Return the names in all folders of records, with the states of the folders before.

        The states are read before and after. If one differs, or changed within a tick of the clock,
        a new name may not show in the recorded time: then the listing is not *settled*, and no
        stamp is written. The same holds if a folder could not be read, so that the next listing
        reports it again.
        """
        self.scans += 1
        now, problems = time.time_ns(), len(self.problems)
        folders = self._list_folders()
        before = self._read_states(folders)
        names = set()
        for folder in folders:
            if folder == layout.TRAIL or folder.startswith(f"{layout.COLD}/"):
                continue
            if folder == layout.COLD:
                names.update(self._list_cold())
                continue
            try:
                with durable.folder(self.root, folder) as fd:
                    names.update(os.listdir(fd))
            except FileNotFoundError:
                continue
            except InvocationError as error:
                if folder == layout.RECORDS:
                    raise
                self.problems.append(f"{folder}: {error}")
        settled = len(self.problems) == problems and all(
            _is_settled(state, now) for state in before
        )
        settled = settled and before == self._read_states(self._list_folders())
        return _Listed(sorted(names), before, settled)

    def _list_folders(self) -> list[str]:
        """Return the folders of records, and the entries inside the folders of archives and of the
        trail: a change inside an entry does not change the state of the folder around it."""
        own = (layout.RECORDS, layout.COLD, *self._list_inner(layout.COLD), layout.TRAIL)
        return [*own, *self._list_inner(layout.TRAIL), layout.IMPORTED, layout.OLDER_RECORDS]

    def _list_inner(self, folder: str) -> list[str]:
        """Return the entries inside a folder; none where it is absent or cannot be listed."""
        try:
            with durable.folder(self.root, folder) as fd:
                names = sorted(os.listdir(fd))
        except FileNotFoundError:
            return []
        except InvocationError as error:
            self.problems.append(f"{folder}: {error}")
            return []
        return [f"{folder}/{name}" for name in names if not name.startswith(".")]

    def _list_cold(self) -> list[str]:
        """Return the names of the records in all archives; an archive that cannot be read is a
        problem."""
        if not os.path.lexists(f"{self.root}/{layout.COLD}"):
            return []
        from specify_cli.storage.cold import list_months, open_month  # for old months alone

        names = []
        for month in list_months(self.root):
            try:
                archive = open_month(self.root, month)
                names += [name for _, name in archive.list_records()] if archive else []
            except InvocationError as error:
                self.problems.append(f"{layout.COLD}: {error}")
        return names

    def _read_states(self, folders: Iterable[str]) -> list[list[object]]:
        """Return (folder, inode, change time in ns) of each folder; None twice where it is absent.

        Its change time moves whenever a name comes or goes in it, and no program can set it back.
        """
        out: list[list[object]] = []
        for folder in folders:
            try:
                state = os.stat(f"{self.root}/{folder}", follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                out.append([folder, None, None])
            else:
                out.append([folder, state.st_ino, state.st_ctime_ns])
        return out

    def _index_state(self) -> list[int] | None:
        """Return inode, size and change time of the index; None where there is none."""
        try:
            state = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return [state.st_ino, state.st_size, state.st_ctime_ns]

    def _is_current(self) -> bool:
        """Return whether index and folders are as the stamp says: then no folder has to be
        listed."""
        stamp = self._read_stamp()
        return bool(
            stamp.get("index") == self._index_state()
            and stamp.get("folders") == self._read_states(self._list_folders())
        )

    def _read_stamp(self) -> dict[str, object]:
        """Return the stamp; one that matches nothing if it is absent or malformed."""
        try:
            stamp = json.loads(durable.read_below(self.root, layout.INDEX_STAMP, _MAX_STAMP))
        except (OSError, ValueError, RecursionError, InvocationError):
            return {"folders": ()}
        return (
            stamp
            if isinstance(stamp, dict) and stamp.get("v") == STAMP_VERSION
            else {"folders": ()}
        )

    def _write_stamp(self, folder_fd: int, listed: _Listed, data: bytes) -> None:
        """Write a stamp: the index with these bytes and the folders with these names agree. The
        caller holds the lock."""
        if not listed.settled:
            return
        stamp = {
            "v": STAMP_VERSION,
            "index": self._index_state(),
            "folders": listed.states,
            "size": len(data),
            "sha256": hash_bytes(data),
            "names": _digest_names(listed.names),
        }
        text = json.dumps(stamp, sort_keys=True).encode()
        durable.replace(folder_fd, "invocation-index.stamp", text, durable.PRIVATE, sync=False)

    def _read(self, limit: int) -> bytes:
        """Return the bytes of the index, at most one more than the limit."""
        return durable.read_below(self.root, layout.INDEX, limit)

    def _rewrite(self, folder_fd: int, data: bytes) -> None:
        """Replace the index unless it holds these bytes already; under the lock."""
        try:
            if self._read(len(data)) == data:
                return
        except (FileNotFoundError, InvocationError):
            pass
        durable.replace(folder_fd, "invocation-index.jsonl", data, durable.PRIVATE, sync=False)

    def forget(self) -> None:
        """Remove index and stamp; the next list makes them again. A folder in their place is moved
        away.

        Raises OSError, StoredDataError, EnvironmentFault LOCK_TIMEOUT.
        """
        with self._lock_folder(2.0) as folder_fd:
            for name in ("invocation-index.jsonl", "invocation-index.stamp"):
                try:
                    os.unlink(name, dir_fd=folder_fd)
                except FileNotFoundError:
                    continue
                except OSError:  # a folder, whatever it holds
                    old = f"{name}.old"
                    os.rename(name, old, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)

    def rows_recorded(self) -> int:
        """Return how many rows the index holds, whether or not they are right.

        0 where there is no index, or it cannot be read.
        """
        try:
            with self._open() as file:
                return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        except (OSError, InvocationError):
            return 0

    def _open(self) -> BinaryIO:
        """Return the index as a file; a link, FIFO or folder in its place is an error, as for a
        record."""
        with durable.folder(self.root, layout.EVENTS) as folder_fd:
            return os.fdopen(
                durable.open_regular(
                    folder_fd, "invocation-index.jsonl", os.O_RDONLY, layout.INDEX
                ),
                "rb",
            )

    def _read_backwards(self) -> Iterator[Key]:
        """Yield the rows of an index that matches its stamp, newest first."""
        try:
            with self._open() as file:
                end = file.seek(0, os.SEEK_END)
                rest = b""
                while end > 0:
                    start = max(0, end - _BLOCK)
                    file.seek(start)
                    block = file.read(end - start) + rest
                    cut = 0 if start == 0 else block.find(b"\n") + 1
                    rest, end = block[:cut], start
                    yield from reversed(list(_parse_keys(block[cut:])))
        except FileNotFoundError:
            return

    def _read_tail_block(self) -> list[Key]:
        """Return the rows in the last 64 KiB of the index, even if the index is out of date."""
        try:
            with self._open() as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - _BLOCK))
                return list(_parse_keys(file.read()))
        except (OSError, InvocationError):
            return []

    def _from(self, prefix: str) -> Iterator[Key]:
        """Yield the rows that begin with `prefix`, found by bisection in the sorted index."""
        try:
            with self._open() as file:
                low, high = 0, file.seek(0, os.SEEK_END)
                while low < high:
                    middle = (low + high) // 2
                    file.seek(middle)
                    if middle:
                        file.readline()
                    row = re.match(_LINE, file.readline())
                    if row and row.group(1).decode("ascii") < prefix:
                        low = middle + 1
                    else:
                        high = middle
                file.seek(low)
                if low:
                    file.readline()
                for raw in file:
                    row = re.match(_LINE, raw)
                    if not row or not row.group(1).decode("ascii").startswith(prefix):
                        return
                    yield _make_key(row)
        except FileNotFoundError:
            return


def _parse_keys(data: bytes) -> Iterator[Key]:
    """Yield the keys of the rows in a part of the index, in order."""
    return map(_make_key, re.finditer(_LINE, data))


def _make_key(row: re.Match[bytes]) -> Key:
    """Return the key of a row of the index."""
    return Key(row.group(1).decode("ascii"), (row.group(2) or b"").decode("ascii"))


def _read_ending(file: BinaryIO, offset: int) -> str:
    """Return the digest of the last 64 KiB before an offset, which shows whether another index was
    put in its place."""
    start = max(0, offset - _BLOCK)
    file.seek(start)
    return hash_bytes(file.read(offset - start))


def _holds(root: str, part: str) -> bool:
    """Return whether another worktree, which may be in any state, has a record of this id."""
    try:
        return bool(Index(root).lookup(part))
    except (OSError, InvocationError):
        return False


def _digest_names(names: list[str]) -> str:
    """Return the digest of sorted file names, by which a stamp recognises a listing."""
    return hash_bytes("\n".join(names).encode("utf-8", "surrogateescape"))


def _has_name(names: list[str], name: str) -> bool:
    """Return whether a sorted list has a name, found by bisection."""
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name


def _is_settled(state: list[object], now: int) -> bool:
    """Return whether a folder changed so long ago that a change now would have another time.

    A time without a fraction may come from a file system that counts in seconds; then the margin is
    two seconds. `now` is in ns.
    """
    changed = state[2]
    if not isinstance(changed, int):
        return True
    margin = _COARSE_NANOS if changed % 1_000_000_000 == 0 else _TICK_NANOS
    return now - changed > margin
