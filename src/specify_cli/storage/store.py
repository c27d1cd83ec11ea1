"""Records and objects: two Protocols, and the files that keep both (`memory` holds them in memory).

Guarantees of both: a record is created whole or not at all; an append continues one unbroken chain
however many writers race; an object's bytes hash to its name on every read. The file store adds:
what it returned from is on stable storage (docs/format.md §6).

An append is a function of the record's end: `compose` is called under the lock with the tip that
the new lines follow, so what it decides (is the record open, was this event recorded before) still
holds when its lines are written. The decision itself is `plan_append` and `compose_bytes`, which
every store shares; the file store adds the steps:

1. Open, lock, and look whether the name still leads to the locked file: a month may have been
   packed meanwhile.
2. Read the end only: 4 KiB, then 64 KiB, then all of it. Zeros near the end have the whole file
   read, because a power cut may have met it.
3. One write of all lines, and `fdatasync` where one of them is of a durable kind.
4. Unlock. Reading takes no lock: a reader sees whole lines and perhaps a tail, which it leaves
   out.
"""

from __future__ import annotations

import time

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, Protocol, sha256
from specify_cli import durable
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.record.record import (
    AppendPlan,
    Record,
    Refusal,
    Tip,
    chain,
    plan_after_power_cut,
    plan_append,
)
from specify_cli.record.seal import MAX_LINE, open_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Compose = Callable[["LockedRecord"], Sequence["Body"]]
    Blobs = Sequence[bytes] | dict[str, bytes]


MAX_OBJECT = 64 * 1024 * 1024
# A folder entry older than this has reached the disk with the file system's own periodic flush,
# whether or not the writer that made it came to its fsync.
SETTLED_SECONDS = 60.0

# How far back a writer looks for the last line: most lines fit the first, all ordinary ones the
# second.
_LINE_WINDOW = 4 * 1024
_WINDOW = 64 * 1024
# How much of a record's end a power cut can have met: what is older was flushed by the file system
# itself.
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
    """Return where a record of this clone lies. Raises layout.PathError."""
    return Place(
        layout.RECORDS, layout.record_name(profile_id, invocation_id), invocation_id, profile_id
    )


def is_young(state: os.stat_result) -> bool:
    """Return whether the writer of a folder's entry may not have come to its fsync, nor the file
    system to its own.

    `state` is of the entry. A young one is fsynced again with its folder before anybody relies on
    it.
    """
    return time.time() - state.st_ctime < SETTLED_SECONDS


class LockedRecord(NamedTuple):
    """A record under its writer's lock: its last line, its bytes from an offset on, and whether it
    holds some bytes.

    `read` and `holds` are good only while the lock is held: inside `compose`.
    """

    tip: Tip
    read: Callable[[int], bytes]
    holds: Callable[[bytes], bool]


class RecordStore(Protocol):
    """Where records live.

    A store of your own implements this, and passes the tests of `contract.py`. A record that is
    not there is FileNotFoundError, from `read` and `append` alike.
    """

    def create(self, name: str, data: bytes) -> None:
        """Create a record with all its bytes. Raises FileExistsError, InvocationError.

        `name` is the file name that `layout.record_name` gives, and `data` whole sealed lines.
        Durable with its name on return.
        """

    def read(self, place: Place) -> bytes:
        """Return the bytes of a record. Raises FileNotFoundError, StoredDataError."""

    def append(self, place: Place, compose: Compose, at: str, *, sync: bool = True) -> Tip:
        """Seal the bodies `compose` gives for the held record behind its last line.

        `compose` may raise to refuse; nothing is written then. Raises StoredDataError
        RECORD_DAMAGED, RECORD_UNSEALED, FORMAT_TOO_NEW.

        `at` is the time of a `recovered` line, should one be due. With `sync` the lines are on
        stable storage on return, and so are those that were there already. Returns the new tip;
        where `compose` gives nothing, the tip as it is.
        """


class ObjectStore(Protocol):
    """Immutable bytes by their SHA-256."""

    def put(self, members: Blobs, roots: Sequence[bytes] = ()) -> None:
        """Keep these; whoever sees a root later may rely on every member. A mapping gives them
        under their digests.

        `members` and `roots` are durable on return, members first. An object that is there already
        is compared and not written again. Raises EnvironmentFault WRITE_FAILED.
        """

    def get(self, digest: str) -> bytes:
        """Return the bytes, hashed again. Raises StoredDataError OBJECT_MISSING, OBJECT_CORRUPT.

        `digest` may be any text that a record names: one that is no digest is OBJECT_MISSING.
        """

    def why_withheld(self, digest: str, field: str) -> str | None:
        """Return why an object was left out on purpose, if it was.

        The object is not here, and a line names it in this field.
        """


def digest(data: bytes) -> str:
    """Return the name of an object: SHA-256, lowercase hex."""
    return sha256(data).hexdigest()


def name_blobs(blobs: Blobs) -> Iterator[tuple[str, bytes]]:
    """Yield (digest, bytes) of each; who has the digests of what it read need not have them made
    again.

    The digests of a mapping are believed: `get` hashes again whatever is read.
    """
    if isinstance(blobs, dict):
        yield from blobs.items()
    else:
        yield from ((digest(data), data) for data in blobs)


def refused(place: Place, refusal: Refusal) -> StoredDataError:
    """Return the error for an append that the record's end does not allow."""
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
    """Return the bytes to append and the new tip: the one decision both stores share.

    `read` gives the bytes from an offset on, and `holds` says whether the record has some bytes.
    The bytes are empty where `compose` gives nothing: then a torn tail stays as it is too, for
    nobody writes behind it.
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
    """Let files of a linked worktree outlive it; the main worktree, which nobody removes, pays one
    look.

    `paths` are below the root. What fails here is not an error of the write: the record is durable
    without.
    """
    if paths and not os.path.isdir(f"{root}/.git"):
        from specify_cli.storage.worktrees import link_second_names  # for a linked worktree

        link_second_names(root, paths)


def require_started(record: Record | None, place: Place) -> Record:
    """Return a record whose first line can be read. Raises StoredDataError RECORD_DAMAGED."""
    if record is None:
        raise StoredDataError(
            "RECORD_DAMAGED",
            f"{place.path}: no started line can be read",
            f"spec-kitty invocations verify {place.invocation_id}",
        )
    return record


def open_place(root: str, place: Place) -> int:
    """Return a descriptor of a record's bytes, whether it lies in a file of its own or in its
    month's archive; it may have been moved since its place was listed. Raises FileNotFoundError,
    StoredDataError, EnvironmentFault EXTRA_MISSING."""
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
    return durable.hold_bytes(read_cold(root, place))


def _open_loose(root: str, place: Place) -> int:
    folder = layout.loose_folder(place.folder)
    with durable.folder(root, folder) as folder_fd:
        return durable.open_regular(folder_fd, place.name, os.O_RDONLY, f"{folder}/{place.name}")


def read_cold(root: str, place: Place) -> bytes:
    """Return the bytes of a record in the archive of its month. Raises as `open_place` does."""
    from specify_cli.storage.cold import read_record  # for old months alone

    folder = layout.loose_folder(place.folder)
    return read_record(root, layout.cold_folder(place.invocation_id, folder), place.name)


class HeldFile:
    """A file held open to be read at any place: `held(offset, size)`; closed when nobody holds it
    any more.

    What is held stays readable when its name is removed or goes to another file. `os.pread` shares
    no position, so threads may read one at the same time.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def measure(self) -> int:
        """Return how many bytes the file has now."""
        return os.fstat(self._fd).st_size

    def settle(self, label: str) -> None:
        """Wait for whoever writes the file, and bring its bytes to stable storage. Raises
        LOCK_TIMEOUT."""
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

    `root` is the project's folder, `trail` its setting: private, ref or committed. Only with
    `committed` are git's files different and records published.
    """

    def __init__(self, root: str, trail: str = "private") -> None:
        self.root = root
        self.trail = trail

    def prepare(self) -> None:
        """Make the records' folder and keep git away from it; what every first write needs.

        Raises EnvironmentFault WRITE_FAILED. It can run before every start: what is right is left
        alone.
        """
        try:
            with durable.folder(self.root, layout.RECORDS, create=True):
                self.shield()
            if self.trail != "committed":
                self.hide_folder(layout.OBJECTS)
        except OSError as error:
            raise durable.write_failed(layout.RECORDS, error) from error

    def create(self, name: str, data: bytes) -> None:
        """Create a record, mode 0600, durable with its name on return; as `RecordStore.create`.

        Raises FileExistsError where the name is taken, EnvironmentFault WRITE_FAILED and
        DURABILITY_UNSUPPORTED. A crash leaves no file, or the whole one (docs/format.md §6).
        """
        try:
            with durable.folder(self.root, layout.RECORDS, create=True) as fd:
                durable.create_exclusive(fd, name, data, durable.PRIVATE)
        except FileExistsError:
            raise
        except OSError as error:
            raise durable.write_failed(f"{layout.RECORDS}/{name}", error) from error
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
        """Return a record's file once its bytes and its name are on stable storage, whoever wrote
        them.

        For an answer that rests on a line of another writer, who may not have come to its own
        fdatasync, or may yet take the line back. Raises as `read` does, EnvironmentFault
        LOCK_TIMEOUT, WRITE_FAILED.
        """
        if layout.is_cold(place.folder):
            return self.hold(place)
        try:
            with durable.folder(self.root, place.folder) as folder_fd:
                file = HeldFile(
                    durable.open_regular(folder_fd, place.name, os.O_RDONLY, place.path)
                )
                file.settle(place.path)
                os.fsync(folder_fd)
                return file
        except FileNotFoundError:
            raise
        except OSError as error:
            raise durable.write_failed(place.path, error) from error

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
        """Append once, as `RecordStore.append` says; for several in a row take `writer`."""
        writer = self.writer(place)
        try:
            return writer.append(compose, at, sync=sync)
        finally:
            writer.close()

    def writer(self, place: Place) -> RecordWriter:
        """Return one record opened for appends that follow one another. Raises as `append` does.

        Raises StoredDataError RECORD_UNSEALED for a record of kitty-ops, RECORD_IMPORTED for
        one that came from elsewhere. The caller closes it.
        """
        if place.folder == layout.OLDER_RECORDS:
            raise refused(
                place, Refusal("RECORD_UNSEALED", f"nothing is ever written to {place.folder}/")
            )
        if layout.is_imported(place.folder):
            raise refused(place, Refusal("RECORD_IMPORTED", "it was imported and is read-only"))
        return RecordWriter(self.root, place)

    def annex(self, invocation_id: str, name: str, line: bytes) -> str:
        """Return a new annex file with its one line, durable; its path. Raises FileExistsError.

        `name` is a new ULID and `line` one sealed line with its LF (docs/format.md §4, Annexes).
        The path is below the root. Raises EnvironmentFault WRITE_FAILED too.
        """
        folder = layout.annex_folder(invocation_id)
        mode = durable.SHARED if self.trail == "committed" else durable.PRIVATE
        try:
            self.prepare()
            self.hide_annexes(invocation_id)
            with durable.folder(self.root, folder, create=True) as fd:
                durable.create_exclusive(fd, f"{name}.jsonl", line, mode)
        except FileExistsError:
            raise
        except OSError as error:
            raise durable.write_failed(f"{folder}/{name}.jsonl", error) from error
        keep(self.root, [f"{folder}/{name}.jsonl"])
        return f"{folder}/{name}.jsonl"

    def hide_annexes(self, invocation_id: str) -> None:
        """Keep the annexes of a record that is not published from git, whatever mode comes later.

        Who has an annex and not its record can make nothing of it.
        """
        published = places(
            self.root, [layout.trail_folder(invocation_id)] if self.trail == "committed" else []
        )
        if all(place.invocation_id != invocation_id for place in published):
            self.hide_folder(layout.annex_folder(invocation_id))

    def publish(self, place: Place) -> str | None:
        """Copy a finished record to the trail if it is not there; the path of the copy if made now.

        Recovery is calling it again: the copy is created whole or not at all and never overwritten.

        None where the trail is not committed, the record lies there already, or the copy was
        there. The copy has mode 0644 and is durable with its name. Its objects must have been
        published before: whoever has a copy relies on them. Raises EnvironmentFault WRITE_FAILED.
        """
        folder = layout.trail_folder(place.invocation_id)
        if self.trail != "committed" or place.folder == folder:
            return None
        data = self.read(place)
        try:
            with durable.folder(self.root, folder, create=True) as fd:
                self.shield_trail()
                try:
                    durable.create_exclusive(fd, place.name, data, durable.SHARED)
                except FileExistsError:
                    os.fsync(fd)  # whoever made it may not have come to that
                    return None
        except OSError as error:
            raise durable.write_failed(f"{folder}/{place.name}", error) from error
        return f"{folder}/{place.name}"

    def shield_trail(self) -> None:
        """Keep git from converting what is published."""
        self.shield_folder(layout.TRAIL, {".gitattributes": GITATTRIBUTES})

    def shield(self) -> None:
        """Keep git away from open records, whichever trail the project has (docs/format.md §2)."""
        private = self.trail != "committed"
        # Where nobody accepted a committed trail its tracked file stays; each private folder below
        # has one of its own.
        ignore = (_IGNORE_ALL, _IGNORE_DERIVED) if private else (_IGNORE_DERIVED,)
        self.shield_folder(layout.EVENTS, {".gitignore": ignore, ".gitattributes": GITATTRIBUTES})
        self.hide_folder(layout.RECORDS)
        self.hide_folder(layout.LOCAL)

    def hide_folder(self, relative: str) -> None:
        """Make a folder if it is absent and keep all of it from git, as `shield_folder` does."""
        self.shield_folder(relative, {".gitignore": _IGNORE_ALL})

    def shield_folder(self, relative: str, files: Mapping[str, bytes | tuple[bytes, ...]]) -> None:
        """Give a folder its nested git files where they are absent or differ; they are durable on
        return.

        Of several contents the first is written, and each of them is left as it is.

        What they keep from git comes after them, so no power cut leaves it without them. A file
        that is there but young may be one whose writer has not come to its own fsync of the folder.

        `files` maps names to their content. Raises OSError, StoredDataError UNSAFE_PATH.
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

    After a fork the child opens both anew: a lock taken through a shared descriptor would be shared
    too.

    `size` is the file's length in bytes behind the last append here. While the file still has it,
    the tip is known and nothing is read: that is what makes appends one after another cheap.
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
        """
        place = self.place
        if layout.is_cold(place.folder):
            return self._look_at_cold(compose, at)
        try:
            self._open_locked()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise durable.write_failed(place.path, error) from error
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
                # The answer rests on lines that are there already, and their writer may have died
                # before its sync.
                durable.sync_data(self._file)
            return tip
        except OSError as error:
            raise durable.write_failed(place.path, error) from error
        finally:
            durable.unlock(self._file)

    def _look_at_cold(self, compose: Compose, at: str) -> Tip:
        """Return the tip of a record in an archive, to which no line is added: what may still be
        said of it is an annex, as `compose` sees by the tip."""
        data = read_cold(self._root, self.place)
        plan = plan_append(data, self.place.invocation_id, at)
        if isinstance(plan, Refusal):
            raise refused(self.place, plan)
        locked = LockedRecord(plan.tip, lambda offset: data[offset:], lambda needle: needle in data)
        if compose(locked):
            raise refused(self.place, Refusal("RECORD_CLOSED", "it lies in an archive"))
        return plan.tip

    def close(self) -> None:
        """Let go of the record."""
        for fd in (self._file, self._folder):
            if fd >= 0:
                os.close(fd)
        self._folder = self._file = -1
        self._tip = None

    def _open_locked(self) -> None:
        """Open and lock the file that has the record's name now.

        The lock is of the file, not of its name. While this writer waited another may have moved
        the record away, so the inode behind the name is compared once the lock is held, and the
        name is opened again where it is another.
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
        """Return how to go on behind the record's end, as cheaply as the end allows.

        Windows grow from 4 KiB to the whole file: a window in which no line is whole says
        RECORD_DAMAGED, which only the whole file can confirm.
        """
        fd, place = self._file, self.place
        size = os.fstat(fd).st_size
        # A record that ends where this writer's last line ended still ends with that line.
        if self._tip is not None and size == self.size:
            return AppendPlan(b"", self._tip, 0)
        if durable.holds(fd, b"\0", max(0, size - _UNSYNCED)):
            cut = plan_after_power_cut(durable.read_all(fd), place.invocation_id, at)
            if isinstance(cut, Refusal):
                raise refused(place, cut)
            if cut is not None:
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
    """Return the first bytes of a plain file; None for anything else, which a replace then takes
    the place of.

    At most 4,096 bytes.
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
    """Return an object's bytes if they hash to its name. Raises StoredDataError OBJECT_CORRUPT."""
    if digest(data) != name:
        raise StoredDataError(
            "OBJECT_CORRUPT",
            f"object {name} holds other bytes (they hash to {digest(data)}); it is not used",
            "restore it from a clone that has it; its name says what it must hash to",
        )
    return data


def missing(name: str) -> StoredDataError:
    """Return the error for an object that is in none of the places where it is looked for."""
    return StoredDataError(
        "OBJECT_MISSING",
        f"object {name} is not in {layout.OBJECTS}",
        "fetch it from the clone that wrote the record",
    )


def _read_first_line(fd: int) -> bytes:
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
    """Return the folder of each month of the published trail, oldest first."""
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

    Names of another form are passed over, and so are folders that do not exist. The order is the
    folder's own.
    """
    for folder in folders:
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    ids = layout.parse_record_name(entry.name)
                    if ids is not None:
                        yield Place(folder, entry.name, ids[1], ids[0])
        except (FileNotFoundError, NotADirectoryError):
            continue
