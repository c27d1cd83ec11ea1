"""The store of objects: immutable bytes named by their SHA-256, re-hashed on read.

    objects = FileObjectStore(root)
    objects.put([], [b"text"])
    objects.get(digest(b"text"))            # b"text"

An object has no owner and no lock. Two writers that put the same bytes both succeed, because a name
stands for one content. The file under a name is not trusted: `put` compares its bytes and `get`
hashes them.

The order of writes keeps a record whole after a crash: *members* are durable before a *root* that
names them gets its own name, and roots before the line that names them. So if a root exists, its
members exist (docs/format.md §6).
"""

from __future__ import annotations

import stat

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.record.seal import is_digest
from specify_cli.storage.store import MAX_OBJECT, check_object, is_young, keep, missing, name_blobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Blobs = Sequence[bytes] | dict[str, bytes]


# Bytes of objects that `put_each` holds in memory before it writes them.
_BATCH = 64 * 1024 * 1024
_WHY_BYTES = 1024
# What a policy can keep back from a published trail: files of charter and doctrine, and contexts.
KEPT_BACK = ("corpus", "file", "governance_context_hash")


class FileObjectStore:
    """Objects as files `<folder>/<2 hex>/<62 hex>`.

    In private mode the folder is `.kittify/events/objects`. In committed mode git tracks that
    folder, so objects of an open record lie in `.kittify/local/objects`, where no stash, clean or
    checkout removes them. `publish` copies them over when the record is closed (docs/adr/0002).

    A branch can plant another file under an object's name. `put` replaces such a file by the object
    and adds its name to `replaced`.
    """

    def __init__(self, root: str, trail: str = "private") -> None:
        self.root = root
        self.folder = layout.LOCAL_OBJECTS if trail == "committed" else layout.OBJECTS
        self.replaced: list[str] = []

    def put(self, members: Blobs, roots: Sequence[bytes] = ()) -> None:
        """Store these objects, durable on return, as `ObjectStore.put` says.

        If all roots exist already, their members are durable, so young folders need no fsync. Files
        have mode 0600.
        """
        with durable.Writing(self.folder):
            exist = all(
                self._find_object(name, data) is not None for name, data in name_blobs(roots)
            )
            self._put_group(members, settle=not exist)
            self._put_group(roots, settle=True)

    def put_each(self, blobs: Iterable[bytes]) -> None:
        """Store many objects, with about 64 MiB in memory at a time. Raises as `put` does.

        Each object is a root of its own.

        `blobs` may be an iterator and larger than memory. After a crash some of them are there:
        call it again with all.
        """
        batch = []
        size = 0
        for blob in blobs:
            batch.append(blob)
            size += len(blob)
            if size > _BATCH:
                self.put((), batch)
                batch, size = [], 0
        self.put((), batch)

    def publish(self, digests: Sequence[str]) -> None:
        """Copy objects to the tracked folder, durably; a no-op in private mode. Raises as `get` and
        `put` do.

        `digests` are the objects of a closed record that its policy does not withhold. Copies have
        mode 0644. An object that exists already is not copied again; if it is young, its folder is
        fsynced.
        """
        if self.folder == layout.OBJECTS:
            return
        tracked = FileObjectStore(self.root)
        contents = {}
        young = set()
        for name in digests:
            data = self.get(name)
            state = tracked._find_object(name, data)
            if not state:
                contents[name] = data
            elif is_young(state):
                young.add(name[:2])
        with durable.Writing(layout.OBJECTS):
            tracked._put_group(contents, young, settle=False, mode=durable.SHARED)

    def _put_group(
        self, blobs: Blobs, young: Iterable[str] = (), *, settle: bool, mode: int = durable.PRIVATE
    ) -> None:
        """Write all, fsync all, link all, then fsync each folder once.

        A root that is already there proves its members durable, because it was linked after their
        folders were fsynced. With `settle`, an entry younger than the file system's own flush is
        fsynced again: the writer that made it may not have come to that. So are the folders named
        as `young`.
        """
        absent = {}
        young = set(young)
        for name, data in name_blobs(blobs):
            state = self._find_object(name, data)
            if not state:
                absent[name] = data
            elif settle and is_young(state):
                young.add(name[:2])
        if not absent and not young:
            return
        folders = {}
        staged = []
        try:
            for shard in sorted({name[:2] for name in absent} | young):
                folders[shard] = durable.open_folder(
                    self.root, (*self.folder.split("/"), shard), create=True
                )
            for name, data in absent.items():
                fd = folders[name[:2]]
                staged.append((name, fd, durable.Staged(fd, data, mode)))
            while staged:
                name, fd, file = staged.pop(0)
                try:
                    file.publish(name[2:])
                except FileExistsError:
                    # Either another writer was first, or the file of this name is not the object
                    # and is replaced.
                    if not self._find_object(name, absent[name]):
                        durable.replace(fd, name[2:], absent[name], mode)
                        self.replaced.append(name)
            for fd in folders.values():
                os.fsync(fd)
            keep(self.root, [f"{self.folder}/{name[:2]}/{name[2:]}" for name in absent])
        finally:
            for _, _, file in staged:
                file.discard()
            for fd in folders.values():
                os.close(fd)

    def _find_object(self, name: str, data: bytes) -> os.stat_result | None:
        """Return the state of the file under an object's name if it holds the object.

        Its bytes are compared with `data`: no cached answer is trusted.
        """
        path = f"{self.root}/{layout.object_path(name, self.folder)}"
        try:
            fd = os.open(path, os.O_RDONLY | durable.REGULAR)
        except OSError:
            return None
        try:
            state = os.fstat(fd)
            same = (
                stat.S_ISREG(state.st_mode)
                and state.st_size == len(data)
                and os.pread(fd, len(data) + 1, 0) == data
            )
            return state if same else None
        finally:
            os.close(fd)

    def get(self, digest: str) -> bytes:
        """Return the bytes of an object, hashed again.

        The search goes through `.kittify/events/objects`, `.kittify/local/objects`, and the
        archives, newest first. Raises StoredDataError OBJECT_MISSING; OBJECT_CORRUPT if a file of
        this name has other bytes and no other place holds the object; EnvironmentFault
        OBJECT_MISSING if a file cannot be read.

        `digest` is the name as a line states it. At most 64 MiB are read: a larger file is no
        object.
        """
        if not is_digest(digest):
            raise missing(digest)  # a record can name anything
        altered: StoredDataError | None = None
        for folder in (layout.OBJECTS, layout.LOCAL_OBJECTS):
            path = layout.object_path(digest, folder)
            try:
                return check_object(digest, durable.read_below(self.root, path, MAX_OBJECT))
            except FileNotFoundError:
                continue
            except StoredDataError as error:
                # a file that a branch planted does not hide this clone's own object
                altered = altered or error
            except OSError as error:
                raise EnvironmentFault(
                    "OBJECT_MISSING", f"{path} cannot be read: {error.strerror}", f"ls -l {path}"
                ) from error
        if not altered and os.path.lexists(f"{self.root}/{layout.COLD}"):
            from specify_cli.storage.cold import find_object  # for old months alone

            data = find_object(self.root, digest)
            if data is not None:
                return check_object(digest, data)
        raise altered or missing(digest)

    def withhold(self, reasons: Mapping[str, str], *, tracked: bool) -> None:
        """Write a note in the place of each object that was left out on purpose: in the tracked
        folder, or for this clone alone.

        `reasons` maps digests to texts of at most 1 KiB; an existing note stays as it is. The notes
        are durable on return. Raises EnvironmentFault WRITE_FAILED.
        """
        folder, mode = (
            (layout.OBJECTS, durable.SHARED) if tracked else (layout.LOCAL_OBJECTS, durable.PRIVATE)
        )
        for name, why in sorted(reasons.items()):
            shard, rest = layout.object_parts(name)
            try:
                with durable.folder(self.root, f"{folder}/{shard}", create=True) as fd:
                    durable.create_exclusive(
                        fd, rest + layout.WITHHELD, why.encode("utf-8", "replace"), mode
                    )
            except FileExistsError:
                continue
            except OSError as error:
                raise durable.write_failed(f"{folder}/{shard}", error) from error

    def why_withheld(self, digest: str, field: str) -> str | None:
        """Return the note that says why an object was left out on purpose; None without one.

        A note in the tracked folder can come from a branch, so it counts only for files of charter
        and doctrine and for contexts that quote them. Otherwise a branch could excuse evidence
        that was deleted (docs/format.md §5).

        `digest` is the object's name, `field` the member of the line that names it. At most 1 KiB
        of a note is read.
        """
        if not is_digest(digest):
            return None
        for folder in (
            layout.LOCAL_OBJECTS,
            *([layout.OBJECTS] if field in KEPT_BACK else []),
        ):
            try:
                path = layout.object_path(digest, folder) + layout.WITHHELD
                reason = durable.read_below(self.root, path, _WHY_BYTES)
            except (OSError, InvocationError):
                continue
            return reason[:_WHY_BYTES].decode("utf-8", "replace")
        return None
