"""Records and objects: two Protocols, and the files that keep both (`memory` holds them in memory).

Guarantees of both: a record is created whole or not at all; an append continues one unbroken chain
however many writers race; an object's bytes hash to its name on every read. The file store adds:
what it returned from is on stable storage (docs/format.md §6).

An append depends on the record's end: `compose` is called under the lock with the tip that the new
lines follow. So its decisions (is the record open, was this event recorded before) still hold when
its lines are written. All stores share `plan_append` and `compose_bytes`; the file store adds these
steps:

1. Open, lock, and check that the name still leads to the locked file: the month may have been
   packed meanwhile.
2. Read the end only: 4 KiB, then 64 KiB, then all of it. Zeros near the end have the whole file
   read, because a power cut may have met it.
3. One write of all lines, and `fdatasync` where one of them is of a durable kind.
4. Unlock. Reading takes no lock: a reader sees whole lines and perhaps a tail, which it leaves
   out.

    records = FileRecordStore(project.root, project.config.trail)
    records.create(layout.record_name(profile_id, invocation_id), lines)
    records.append(place_of(profile_id, invocation_id), lambda locked: [body], at)

After `create` or `append` returned, a power cut loses nothing of it (an append with `sync=False`
excepted). After an error nothing was written, unless the message says that lines may be there.
"""

from __future__ import annotations

import time

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, Protocol, hash_bytes
from specify_cli import durable
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.record.record import (
    AppendPlan,
    Record,
    Refusal,
    Tip,
    chain,
    is_stand_in,
    plan_after_power_cut,
    plan_append,
)
from specify_cli.record.seal import MAX_LINE, open_line, read_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Compose = Callable[["LockedRecord"], Sequence["Body"]]
    Blobs = Sequence[bytes] | dict[str, bytes]


MAX_OBJECT = 64 * 1024 * 1024
# The file system's own periodic flush has taken an older folder entry to the disk, even if its
# writer never came to the fsync.
SETTLED_SECONDS = 60.0

# How many bytes from the end a writer reads to find the last line: the first window holds most
# lines, the second all ordinary ones.
_LINE_WINDOW = 4 * 1024
_WINDOW = 64 * 1024
# How many bytes of a record's end a power cut can have damaged; the file system itself has flushed
# everything before.
_UNSYNCED = 1024 * 1024
GITATTRIBUTES = b"* -text -eol -ident -filter -merge\n"
_IGNORE_ALL = b"*\n"
_IGNORE_DERIVED = b"/invocation-index.*\n.tmp-*\n"

Body = dict[str, object]


class Place(NamedTuple):
    """Where a record lies: folder below the root, file name, the ids its name holds.

    `folder` has `/` between its parts. It may be the name of an archived month
    (`layout.cold_folder`), which is no folder. `profile_id` is None for records of older writers.
    """

    folder: str
    name: str
    invocation_id: str
    profile_id: str | None

    @property
    def path(self) -> str:
        """Return the record's path below the root."""
        return f"{self.folder}/{self.name}"


def place_of(profile_id: str, invocation_id: str) -> Place:
    """Return where a record of this clone lies. Raises layout.PathError.

    The ids are those of the new record; imported, published and older records lie elsewhere
    (`Index.place`).
    """
    return Place(
        layout.RECORDS, layout.record_name(profile_id, invocation_id), invocation_id, profile_id
    )


def is_young(state: os.stat_result) -> bool:
    """Return whether a folder's entry is so new that it may not be on the disk yet.

    `state` is that of the entry. A young entry and its folder are fsynced again before anybody
    relies on it.

    The clock is the machine's: after it was set back, an old entry can count as young, which costs
    one fsync and no data.
    """
    return time.time() - state.st_ctime < SETTLED_SECONDS


class LockedRecord(NamedTuple):
    """A record under its writer's lock: its last line, its bytes from an offset on, and whether it
    holds some bytes.

    `read` and `holds` are good only while the lock is held: inside `compose`.

    `tip` is the line that the new lines will follow. `read(offset)` returns the bytes from an
    offset to the end, and `holds(needle)` whether the record contains some bytes anywhere, which a
    writer asks for a dedupe key.
    """

    tip: Tip
    read: Callable[[int], bytes]
    holds: Callable[[bytes], bool]


class RecordStore(Protocol):
    """Where records live.

    A store of your own implements this protocol, and must pass the tests of `contract.py`. `read`
    and `append` raise FileNotFoundError for a record that does not exist.
    """

    def create(self, name: str, data: bytes) -> None:
        """Create a record with all its bytes. Raises FileExistsError, InvocationError.

        `name` is the file name that `layout.record_name` gives, and `data` whole sealed lines.
        Durable with its name on return.
        """

    def read(self, place: Place) -> bytes:
        """Return the bytes of a record. Raises FileNotFoundError, StoredDataError."""

    def append(self, place: Place, compose: Compose, at: str, *, sync: bool = True) -> Tip:
        """Seal the bodies that `compose` returns and append them after the record's last line.

        `compose` gets the locked record. It can raise to refuse the append; then nothing is
        written. `at` is the time of a `recovered` line, if one is needed. With `sync` the new
        lines, and those before them, are on stable storage on return. Returns the new tip; if
        `compose` returns nothing, the old one. Raises StoredDataError RECORD_DAMAGED,
        RECORD_UNSEALED, FORMAT_TOO_NEW.
        """


class ObjectStore(Protocol):
    """Immutable bytes by their SHA-256.

        objects.put([policy, charter], [manifest])      # members before the root that names them
        objects.get(digest)

    Nobody deletes by this protocol: an object belongs to every record that names it.
    """

    def put(self, members: Blobs, roots: Sequence[bytes] = ()) -> None:
        """Store objects: members first, then roots. A reader that sees a root can rely on its
        members. A mapping gives objects by their digests.

        All are durable on return. An object that exists already is compared and not written again.
        Raises EnvironmentFault WRITE_FAILED.
        """

    def get(self, digest: str) -> bytes:
        """Return the bytes, hashed again. Raises StoredDataError OBJECT_MISSING, OBJECT_CORRUPT.

        `digest` can be any text in a record; a text that is no digest is OBJECT_MISSING.
        """

    def why_withheld(self, digest: str, field: str) -> str | None:
        """Return why a missing object was left out on purpose; None if it was not.

        `digest` is its name. `field` is the member of the line that names the object: which notes
        count depends on it (docs/format.md §5).
        """


def name_blobs(blobs: Blobs) -> Iterator[tuple[str, bytes]]:
    """Yield (digest, bytes) of each object. A mapping holds the digests already, so they are not
    computed again.

    They are trusted here, because `get` hashes every object it reads.
    """
    if isinstance(blobs, dict):
        yield from blobs.items()
    else:
        yield from ((hash_bytes(data), data) for data in blobs)


def refused(place: Place, refusal: Refusal) -> StoredDataError:
    """Return the error for an append that the record's end does not allow.

    `refusal` is what `plan_append` gave; its code is the error's. The advice is to verify the
    record.
    """
    return StoredDataError(
        refusal.code,
        f"{place.path} cannot be continued: {refusal.message}",
        f"spec-kitty invocations verify {place.invocation_id}",
    )


def compose_bytes(
    place: Place,
    plan: AppendPlan,
    compose: Compose,
    read: Callable[[int], bytes],
    holds: Callable[[bytes], bool],
) -> tuple[bytes, Tip]:
    """Return the bytes to append and the new tip; all stores share this decision.

    `read` returns the record's bytes from an offset on, and `holds` whether the record contains
    some bytes. If `compose` returns nothing, the result is empty, and a torn tail stays as it is.
    """
    if plan.skipped_bytes == 0 and plan.prefix and plan.tip.event == "completed":
        # The adopted line closes the record, so it gets its LF whatever the caller decides.
        return plan.prefix, plan.tip
    bodies = compose(LockedRecord(plan.tip, read, holds))
    if not bodies:
        return b"", plan.tip
    data, tip = chain(plan.tip, place.invocation_id, bodies, os.urandom)
    return plan.prefix + data, tip


def keep(root: str, paths: Sequence[str]) -> None:
    """Give files of a linked worktree a second name, so that they survive its removal. In the main
    worktree nothing is done.

    `paths` are below the root. A failure is ignored, because the record is durable already.
    """
    if paths and not os.path.isdir(f"{root}/.git"):
        from specify_cli.storage.worktrees import link_second_names  # for a linked worktree

        link_second_names(root, paths)


def require_started(root: str, record: Record | None, place: Place) -> Record:
    """Return a record whose first line can be read. Raises as `describe_unstarted` says."""
    if not record:
        raise describe_unstarted(root, place)
    return record


def describe_unstarted(root: str, place: Place) -> StoredDataError:
    """Return the error for a record without its first line: WITHHELD where a safe export left it
    out, else RECORD_DAMAGED."""
    if is_stand_in(read_fields(FileRecordStore(root).head(place))):
        return StoredDataError(
            "WITHHELD",
            f"{place.path}: the safe export that it came in left its first line out",
            "ask its owner for an export without --safe",
        )
    return StoredDataError(
        "RECORD_DAMAGED",
        f"{place.path}: no started line can be read",
        f"spec-kitty invocations verify {place.invocation_id}",
    )


def open_place(root: str, place: Place) -> int:
    """Return a descriptor of a record's bytes, from its own file or from its month's archive.

    `root` is the project's folder. Both are tried, because the record may have been moved since its
    place was listed. The caller closes the descriptor; a record of an archive is unpacked into
    memory before. Raises FileNotFoundError, StoredDataError, EnvironmentFault EXTRA_MISSING.
    """
    first, second = _open_loose, _open_cold
    if layout.is_cold(place.folder):
        first, second = second, first
    try:
        return first(root, place)
    except FileNotFoundError as error:
        if layout.loose_folder(place.folder) not in (layout.RECORDS, layout.IMPORTED):
            raise
        try:
            return second(root, place)
        except FileNotFoundError:
            raise error from None


def _open_cold(root: str, place: Place) -> int:
    """Return a descriptor of a record's bytes in its month's archive."""
    return durable.hold_bytes(read_cold(root, place))


def _open_loose(root: str, place: Place) -> int:
    """Return a descriptor of a record's own file. No link on the way is followed."""
    folder = layout.loose_folder(place.folder)
    with durable.folder(root, folder) as folder_fd:
        return durable.open_regular(folder_fd, place.name, os.O_RDONLY, f"{folder}/{place.name}")


def read_cold(root: str, place: Place) -> bytes:
    """Return the bytes of a record in the archive of its month. Raises as `open_place` does.

    `root` is the project's folder; the month is that of the record's id, whatever `place.folder`
    says.
    """
    from specify_cli.storage.cold import read_record  # for old months alone

    folder = layout.loose_folder(place.folder)
    return read_record(root, layout.cold_folder(place.invocation_id, folder), place.name)


class HeldFile:
    """An open file that is read at any offset: `file(offset, size)`. It is closed with the object.

    It stays readable when its name is removed or given to another file. `os.pread` shares no
    position, so several threads can read at the same time.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def measure(self) -> int:
        """Return how many bytes the file has now."""
        return os.fstat(self._fd).st_size

    def settle(self, label: str) -> None:
        """Wait for the writer of the file, and sync its bytes to stable storage.

        `label` names the file in errors. The lock is released again before this returns, so what
        other writers append later is not covered. Raises EnvironmentFault LOCK_TIMEOUT, OSError.
        """
        durable.lock(self._fd, label)
        durable.sync_data(self._fd)
        durable.unlock(self._fd)

    def __del__(self) -> None:
        os.close(self._fd)


class FileRecordStore:
    """Records as files below `.kittify/events/profile-invocations/`, published to
    `.kittify/trail/`.

        records = FileRecordStore(root, "private")
        records.create(name, data)
        records.append(place, lambda locked: [body], at)

    `root` is the project's folder, and `trail` its setting: private, ref or committed. Only
    `committed` changes git's ignore files and publishes records.
    """

    def __init__(self, root: str, trail: str = "private") -> None:
        self.root = root
        self.trail = trail

    def prepare(self) -> None:
        """Make the records' folder and the files that keep git away from it, before a first write.

        It can run before every start, because correct files are not changed. Raises
        EnvironmentFault WRITE_FAILED.
        """
        with durable.Writing(layout.RECORDS):
            with durable.folder(self.root, layout.RECORDS, create=True):
                self.shield()
            if self.trail != "committed":
                self.hide_folder(layout.OBJECTS)

    def create(self, name: str, data: bytes) -> None:
        """Create a record, mode 0600, durable with its name on return; as `RecordStore.create`.

        `data` is the opening: whole sealed lines. Raises FileExistsError where the name is taken
        (the caller draws a new id), EnvironmentFault WRITE_FAILED and DURABILITY_UNSUPPORTED. A
        crash leaves no file, or the whole one (docs/format.md §6).
        """
        with (
            durable.Writing(f"{layout.RECORDS}/{name}", FileExistsError),
            durable.folder(self.root, layout.RECORDS, create=True) as fd,
        ):
            durable.create_exclusive(fd, name, data, durable.PRIVATE)
        keep(self.root, [f"{layout.RECORDS}/{name}"])

    def read(self, place: Place) -> bytes:
        """Return the bytes of a record, from its own file or its month's archive.

        Raises FileNotFoundError, StoredDataError (UNSAFE_PATH, NOT_A_REGULAR_FILE, COLD_DAMAGED),
        EnvironmentFault EXTRA_MISSING.
        """
        fd = open_place(self.root, place)
        try:
            return durable.read_all(fd)
        finally:
            os.close(fd)

    def hold(self, place: Place) -> HeldFile:
        """Return a record's file, to be read a part at a time. Raises as `read` does."""
        return HeldFile(open_place(self.root, place))

    def hold_durably(self, place: Place) -> HeldFile:
        """Return a record's file after its bytes and its name are on stable storage.

        Use it for an answer that relies on a line of another writer, who may not have synced it
        yet, or may still remove it. Raises as `read` does, and EnvironmentFault LOCK_TIMEOUT,
        WRITE_FAILED.
        """
        if layout.is_cold(place.folder):
            return self.hold(place)
        with (
            durable.Writing(place.path, FileNotFoundError),
            durable.folder(self.root, place.folder) as folder_fd,
        ):
            file = HeldFile(durable.open_regular(folder_fd, place.name, os.O_RDONLY, place.path))
            file.settle(place.path)
            os.fsync(folder_fd)
            return file

    def head(self, place: Place) -> bytes:
        """Return the first line of a record without its LF. Raises as `read` does.

        A first line over 2 MiB comes back in part, and then has no seal that fits.
        """
        fd = open_place(self.root, place)
        try:
            return _read_first_line(fd)
        finally:
            os.close(fd)

    def append(self, place: Place, compose: Compose, at: str, *, sync: bool = True) -> Tip:
        """Append once, as `RecordStore.append` says; for several in a row take `writer`.

        `at` is the time of a `recovered` line. Without `sync` the lines survive the death of this
        process and not a power cut.
        """
        writer = self.writer(place)
        try:
            return writer.append(compose, at, sync=sync)
        finally:
            writer.close()

    def writer(self, place: Place) -> RecordWriter:
        """Return a writer for several appends to one record. The caller must close it.

        Raises as `append` does, and StoredDataError RECORD_UNSEALED for a record of kitty-ops,
        RECORD_IMPORTED for an imported one.
        """
        if place.folder == layout.OLDER_RECORDS:
            raise refused(
                place, Refusal("RECORD_UNSEALED", f"nothing is ever written to {place.folder}/")
            )
        if layout.is_imported(place.folder):
            raise refused(place, Refusal("RECORD_IMPORTED", "it was imported and is read-only"))
        return RecordWriter(self.root, place)

    def annex(
        self, invocation_id: str, name: str, line: bytes, *, with_record: bool = False
    ) -> str:
        """Write a new annex file, durable on return, and return its path below the root.

        `name` is a new ULID, and `line` one sealed line with its LF (docs/format.md §4, Annexes).
        With `with_record` it goes with the published record also where the trail is not committed.
        Raises FileExistsError, EnvironmentFault WRITE_FAILED.

        The record itself is not read: whether the annex fits, the caller has checked, and
        `verify` checks again. A crash leaves no annex, or the whole one.
        """
        folder = layout.annex_folder(invocation_id)
        mode = durable.SHARED if self.trail == "committed" or with_record else durable.PRIVATE
        with durable.Writing(f"{folder}/{name}.jsonl", FileExistsError):
            self.prepare()
            self.hide_annexes(invocation_id, with_record=with_record)
            with durable.folder(self.root, folder, create=True) as fd:
                durable.create_exclusive(fd, f"{name}.jsonl", line, mode)
        keep(self.root, [f"{folder}/{name}.jsonl"])
        return f"{folder}/{name}.jsonl"

    def hide_annexes(self, invocation_id: str, *, with_record: bool = False) -> None:
        """Hide the annexes of a record that is not published from git, also after a later change of
        the mode.

        An annex without its record is of no use. Of a published record those stay hidden that were,
        and the next ones are not: where the trail is committed, and with `with_record`.

        `invocation_id` is the record's. Raises OSError, StoredDataError UNSAFE_PATH.
        """
        folder = layout.annex_folder(invocation_id)
        leaves = with_record or self.trail == "committed"
        if not (leaves and self.is_published(invocation_id)):
            self.hide_folder(folder)
        elif os.path.lexists(f"{self.root}/{folder}/.gitignore"):
            with durable.folder(self.root, folder) as fd:
                if small_file(fd, ".gitignore") == _IGNORE_ALL:
                    hidden = "".join(f"/{name}\n" for name in sorted(os.listdir(fd)))
                    durable.replace(fd, ".gitignore", hidden.encode(), durable.SHARED)

    def is_published(self, invocation_id: str) -> bool:
        """Return whether the trail of this branch holds a record."""
        there = places(self.root, [layout.trail_folder(invocation_id)])
        return any(place.invocation_id == invocation_id for place in there)

    def publish(self, place: Place) -> str | None:
        """Copy a finished record to the trail, and return the path of the copy. Return None if the
        trail is not committed, or the record or its copy is there already.

        The copy is created whole or not at all and never overwritten, so after a crash call this
        again. It has mode 0644 and is durable with its name. The record's objects must be published
        before, because readers of the copy rely on them. What was said of the record so far leaves
        with it: its annexes are hidden no longer. Raises EnvironmentFault WRITE_FAILED.
        """
        folder = layout.trail_folder(place.invocation_id)
        if self.trail != "committed" or place.folder == folder:
            return None
        data = self.read(place)
        annexes = layout.annex_folder(place.invocation_id)
        with durable.Writing(f"{folder}/{place.name}"):
            if os.path.lexists(f"{self.root}/{annexes}/.gitignore") and not self.is_published(
                place.invocation_id
            ):
                with durable.folder(self.root, annexes) as fd:
                    os.unlink(".gitignore", dir_fd=fd)
                    os.fsync(fd)
            with durable.folder(self.root, folder, create=True) as fd:
                self.shield_trail()
                try:
                    durable.create_exclusive(fd, place.name, data, durable.SHARED)
                except FileExistsError:
                    os.fsync(fd)  # the writer of the copy may have died before its own fsync
                    return None
        return f"{folder}/{place.name}"

    def shield_trail(self) -> None:
        """Write the `.gitattributes` that keep git from converting published files."""
        self.shield_folder(layout.TRAIL, {".gitattributes": GITATTRIBUTES})

    def shield(self) -> None:
        """Write the files that keep git away from open records, for any trail setting
        (docs/format.md §2)."""
        private = self.trail != "committed"
        # If a committed trail was proposed but not accepted, its tracked `.gitignore` stays; each
        # private folder below has one of its own.
        ignore = (_IGNORE_ALL, _IGNORE_DERIVED) if private else (_IGNORE_DERIVED,)
        self.shield_folder(layout.EVENTS, {".gitignore": ignore, ".gitattributes": GITATTRIBUTES})
        self.hide_folder(layout.RECORDS)
        self.hide_folder(layout.LOCAL)

    def hide_folder(self, relative: str) -> None:
        """Make a folder if it is absent, with a `.gitignore` for all of it, as `shield_folder`
        does.

        `relative` is its path below the root. The file ignores itself too, so `git stash -u` leaves
        it.
        """
        self.shield_folder(relative, {".gitignore": _IGNORE_ALL})

    def shield_folder(self, relative: str, files: Mapping[str, bytes | tuple[bytes, ...]]) -> None:
        """Write a folder's nested git files where they are absent or differ; they are durable on
        return.

        `files` maps names to their content. For a tuple of contents, a file with any of them stays
        as it is, and otherwise the first is written. The files are durable before anything that
        they hide is written, so a power cut exposes nothing; a young file is fsynced again with its
        folder, because its writer may have died before that. Raises OSError, StoredDataError
        UNSAFE_PATH.

        `relative` is the folder's path below the root.
        """
        with durable.folder(self.root, relative, create=True) as fd:
            young = False
            for name, content in files.items():
                allowed = content if isinstance(content, tuple) else (content,)
                if small_file(fd, name) not in allowed:
                    durable.replace(fd, name, allowed[0], durable.SHARED)
                else:
                    young = young or is_young(os.stat(name, dir_fd=fd, follow_symlinks=False))
            if young:
                os.fsync(fd)


class RecordWriter:
    """Appends to one record; its folder and file stay open between appends, its lock does not.

    After a fork the child opens both again, because processes that share a descriptor would share
    its lock too.

    `size` is the length of the file, in bytes, after the last append of this writer. While the file
    has that length, the tip is known and nothing is read. That makes consecutive appends cheap.

        writer = records.writer(place)
        try:
            writer.append(compose, at)
            writer.append(compose, at, sync=False)
        finally:
            writer.close()

    Any number of writers, in any number of processes, can be open on one record: each append takes
    the lock anew.
    """

    def __init__(self, root: str, place: Place) -> None:
        self.place = place
        self._root = root
        self._folder = self._file = self._pid = -1
        self._tip: Tip | None = None
        self.size = 0

    def append(self, compose: Compose, at: str, *, sync: bool = True) -> Tip:
        """Append to the writer's record, as `RecordStore.append` says.

        After an error the tip counts as unknown and is read again. Raises FileNotFoundError where
        the record is gone, EnvironmentFault LOCK_TIMEOUT and WRITE_FAILED, and StoredDataError as
        `RecordStore.append` does.

        With `sync` the lines are on stable storage on return, together with all that stood before
        them. If `compose` returns nothing, existing lines are synced all the same, because the
        caller will answer for them.
        """
        place = self.place
        if layout.is_cold(place.folder):
            return self._look_at_cold(compose, at)
        with durable.Writing(place.path, FileNotFoundError):
            self._open_locked()
        try:
            plan = self._plan(at)
            self._tip = None
            data, tip = compose_bytes(
                place,
                plan,
                compose,
                lambda offset: durable.read_all(self._file, offset),
                lambda needle: durable.holds(self._file, needle),
            )
            if data:
                self.size = durable.append(self._file, data, sync=sync)
                self._tip = tip
            elif sync:
                # The answer relies on existing lines, whose writer may have died before its sync.
                durable.sync_data(self._file)
            return tip
        except OSError as error:
            raise durable.write_failed(place.path, error) from error
        finally:
            durable.unlock(self._file)

    def _look_at_cold(self, compose: Compose, at: str) -> Tip:
        """Return the tip of a record in an archive. Raises StoredDataError RECORD_CLOSED if
        `compose` returns a line: only annexes can be added to such a record."""
        data = read_cold(self._root, self.place)
        plan = plan_append(data, self.place.invocation_id, at)
        if isinstance(plan, Refusal):
            raise refused(self.place, plan)
        locked = LockedRecord(plan.tip, lambda offset: data[offset:], lambda needle: needle in data)
        if compose(locked):
            raise refused(self.place, Refusal("RECORD_CLOSED", "it lies in an archive"))
        return plan.tip

    def close(self) -> None:
        """Close the record's file and folder."""
        for fd in (self._file, self._folder):
            if fd >= 0:
                os.close(fd)
        self._folder = self._file = -1
        self._tip = None

    def _open_locked(self) -> None:
        """Open and lock the file that has the record's name now.

        The lock belongs to the file, not to its name. While this writer waited, another process may
        have moved the record away. So once the lock is held, the inode behind the name is compared,
        and if it differs the name is opened again.
        """
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        name = self.place.name
        while True:
            if self._folder < 0:
                self._folder = durable.open_folder(self._root, self.place.folder.split("/"))
            if self._file < 0:
                flags = os.O_RDWR | os.O_APPEND
                self._file = durable.open_regular(self._folder, name, flags, self.place.path)
            try:
                durable.lock(self._file, self.place.path)
                opened, there = (
                    os.fstat(self._file),
                    os.stat(name, dir_fd=self._folder, follow_symlinks=False),
                )
            except FileNotFoundError:
                # The folder itself may have been moved away with the record; look again by its
                # path.
                self.close()
                raise
            if (opened.st_dev, opened.st_ino) == (there.st_dev, there.st_ino):
                return
            os.close(self._file)
            self._file = -1
            self._tip = None

    def _plan(self, at: str) -> AppendPlan:
        """Return how to continue after the record's end. Raises StoredDataError.

        The window that is read grows from 4 KiB to the whole file, because a window without a whole
        line gives RECORD_DAMAGED, which only the whole file can confirm.
        """
        fd, place = self._file, self.place
        size = os.fstat(fd).st_size
        # A record that ends where this writer's last line ended still ends with that line.
        if self._tip and size == self.size:
            return AppendPlan(b"", self._tip, 0)
        if durable.holds(fd, b"\0", max(0, size - _UNSYNCED)):
            cut = plan_after_power_cut(durable.read_all(fd), place.invocation_id, at)
            if isinstance(cut, Refusal):
                raise refused(place, cut)
            if cut:
                return cut
        refusal = Refusal("RECORD_DAMAGED", "no complete line")
        for reach in (_LINE_WINDOW, _WINDOW, size):
            start = max(0, size - reach)
            window = os.pread(fd, reach, start) if start else durable.read_all(fd)
            plan = plan_append(
                window[window.find(b"\n") + 1 :] if start else window, place.invocation_id, at
            )
            if not isinstance(plan, Refusal):
                return plan
            refusal = plan
            if not start:
                break
        if refusal.code == "RECORD_UNSEALED" and open_line(_read_first_line(fd)).seal is not None:
            refusal = Refusal("RECORD_DAMAGED", "an unsealed line stands at its end")
        raise refused(place, refusal)


def small_file(folder_fd: int, name: str) -> bytes | None:
    """Return at most the first 4,096 bytes of a regular file; None if it is absent or no regular
    file.

    It is for files that decide something by a few bytes, such as a `.gitignore`. `folder_fd` is a
    descriptor of the folder, and no link is followed.
    """
    try:
        fd = durable.open_regular(folder_fd, name, os.O_RDONLY, name)
    except (FileNotFoundError, InvocationError):
        return None
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def check_object(name: str, data: bytes) -> bytes:
    """Return an object's bytes if they hash to its name. Raises StoredDataError OBJECT_CORRUPT.

    `name` is its digest. The advice of the error is to restore it: bytes of this hash cannot be
    made.
    """
    if hash_bytes(data) != name:
        raise StoredDataError(
            "OBJECT_CORRUPT",
            f"object {name} holds other bytes (they hash to {hash_bytes(data)}); it is not used",
            "restore it from a clone that has it; its name says what it must hash to",
        )
    return data


def missing(name: str) -> StoredDataError:
    """Return the error for an object that no place holds.

    `name` is the digest as the line states it, which may be any text.
    """
    return StoredDataError(
        "OBJECT_MISSING",
        f"object {name} is not in {layout.OBJECTS}",
        "fetch it from the clone that wrote the record",
    )


def _read_first_line(fd: int) -> bytes:
    """Return the first line without its LF, or what of it can be read where it is over 2 MiB."""
    size = _WINDOW
    while True:
        head = os.pread(fd, size, 0)
        end = head.find(b"\n")
        if end >= 0:
            return head[:end]
        if len(head) < size or size > MAX_LINE:
            return head
        size *= 8


def list_trail_folders(root: str) -> list[str]:
    """Return the folder of each month of the published trail, oldest first.

    `root` is the project's folder. Names that are no months are listed too: whoever reads records
    in them parses each name anyway.
    """
    trail = f"{root}/{layout.TRAIL}"
    months = sorted(os.listdir(trail)) if os.path.isdir(trail) else []
    return [f"{layout.TRAIL}/{month}" for month in months]


def list_folders(root: str) -> list[str]:
    """Return every folder that holds records as files: those made here, imported and published.

    Archives are not among them. The names are below the root, and may not exist.
    """
    return [layout.RECORDS, layout.IMPORTED, *list_trail_folders(root)]


def places(root: str, folders: Sequence[str]) -> Iterator[Place]:
    """Yield every record by its name in these folders; nothing is opened.

    Other names, and folders that do not exist, are left out. The order is that of the file system.

    `root` is the project's folder. A record in several folders is yielded for each: `Index` gives
    each record once.
    """
    for folder in folders:
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    ids = layout.parse_record_name(entry.name)
                    if ids:
                        yield Place(folder, entry.name, ids[1], ids[0])
        except (FileNotFoundError, NotADirectoryError):
            continue
