"""Read finished months where they lie: one compressed archive each (docs/format.md §14).

    for month in list_months(root):
        open_month(root, month).list_records()
    read_record(root, "…/cold/2026-10", "builder-bea-01K….jsonl")   # the bytes that went in

An archive is a file that is never changed: zstd frames that share a dictionary, and two sorted
tables of their places. Records, annexes and objects come out as the bytes that went in, so their
seals and names prove them as before; the archive itself is not trusted. The room `cold` makes
archives.

Why sorted tables: one lookup reads some 20 entries of 56 bytes from the end of the file and
unpacks one frame, so nothing but that frame is in memory, however large the archive is. Why a
dictionary: records are short and alike, and alone each would hardly shrink.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes, sha256
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, StoredDataError
from specify_cli.record import layout
from specify_cli.record.record import is_invocation_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Unpack = Callable[[int, bytes], bytes]

ENDING = ".cold"
MAGIC = b"SKCOLD2\n"
# The first ones held no imported records and no annexes.
_MAGICS = (b"SKCOLD1\n", MAGIC)
# Offset and length of the dictionary, then of the names; offset and number of the entries of
# records, then of objects; the magic.
FOOTER = struct.Struct(">8Q8s")
# A key, and the offset, length and unpacked size of its frame.
ENTRY = struct.Struct(">32s3Q")
TABLES = ("record", "object")
# No record or object is larger; a frame that says so is not unpacked.
_MAX_SIZE = 512 * 1024 * 1024
_REMEMBERED = 32
# Prefixes of the names of imported records, and of annexes. A record of this clone has neither.
_IMPORTED, _ANNEXES = "imported/", "annexes/"


class Footer(NamedTuple):
    """The end of an archive, as `FOOTER` packs it without the magic.

    `dictionary`, `names`, `records` and `objects` are byte offsets in the file. Lengths are in
    bytes, counts in entries of `ENTRY` (docs/format.md §14).
    """

    dictionary: int
    dictionary_length: int
    names: int
    names_length: int
    records: int
    record_count: int
    objects: int
    object_count: int


def make_key(table: str, key: str) -> bytes:
    """Return the key of an entry: an object's digest, or the SHA-256 of a name.

    `table` is one of `TABLES`; `key` the name of a record or of a record's annexes, or the digest
    of an object in hex.
    """
    return bytes.fromhex(key) if table == "object" else sha256(key.encode()).digest()


class Archive:
    """One month's archive, open for reading; the descriptor is closed with the object.

    Raises StoredDataError COLD_DAMAGED or FORMAT_TOO_NEW, EnvironmentFault EXTRA_MISSING.

    Errors name `path`. Only the beginning and the end of the file are checked here. A damaged frame
    is found when it is read, and seals or digests prove its content.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path, self._fd = path, fd
        size = os.fstat(fd).st_size
        tail = os.pread(fd, FOOTER.size, max(0, size - FOOTER.size))
        if tail[-8:] not in _MAGICS and tail[-8:-2] == MAGIC[:-2]:
            raise StoredDataError(
                "FORMAT_TOO_NEW",
                f"{path} was packed by a newer version: it ends with {tail[-8:]!r}, this version "
                f"knows {MAGIC!r}",
                "install that version; this one leaves the file as it is",
            )
        if len(tail) != FOOTER.size or os.pread(fd, 8, 0) != tail[-8:] not in _MAGICS:
            raise self._describe_damage("it does not begin and end as an archive does")
        footer = self._footer = Footer(*FOOTER.unpack(tail)[:8])
        entries = footer.record_count + footer.object_count
        if max(footer) > size or entries * ENTRY.size > size:
            raise self._describe_damage("its end names places outside it")

    def __del__(self) -> None:
        os.close(self._fd)

    def read(self, table: str, key: str) -> bytes | None:
        """Return the bytes of a record or a record's annexes, by their name, or of an object; None
        where it is not in here.

        Raises StoredDataError COLD_DAMAGED, EnvironmentFault EXTRA_MISSING.

        `table` and `key` are as for `make_key`. An object's bytes are not hashed here: `get` does
        it.
        """
        entry = self._find(table, make_key(table, key))
        return entry and self._unpack_frame(key, *entry)

    def get(self, table: str, key: str) -> bytes:
        """Return the bytes of an entry that the archive lists.

        `table` and `key` are as for `make_key`. Raises as `read` does, and COLD_DAMAGED if it is
        missing, or if an object does not hash to its name.
        """
        data = self.read(table, key)
        if data is None or (table == "object" and hash_bytes(data) != key):
            raise self._describe_damage(f"it names {key} and does not hold it")
        return data

    def holds(self, name: str) -> bool:
        """Return whether the archive holds an entry of this name."""
        return self._find("record", make_key("record", name)) is not None

    def measure(self, digest: str) -> int | None:
        """Return how many bytes an object has when unpacked; None where it is not in here.

        `digest` is its name. The number is that of the table, and the frame must agree when it is
        read.
        """
        entry = self._find("object", make_key("object", digest))
        return entry and entry[2]

    def list_keys(self, table: str) -> list[str]:
        """Return the names of records and annexes, or the digests of objects, in order.

        Names come from a list of their own, because an entry holds only the digest of a name.

        `table` is one of `TABLES`. All names are in memory at once. Raises
        StoredDataError COLD_DAMAGED if their number is not that of the frames.
        """
        footer = self._footer
        if table == "record":
            data = os.pread(self._fd, footer.names_length, footer.names)
            names = data.decode("utf-8", "replace").split("\n")[:-1]
            if len(set(names)) != footer.record_count:
                raise self._describe_damage(f"it has {footer.record_count} frames of such names")
            return names
        data = os.pread(self._fd, footer.object_count * ENTRY.size, footer.objects)
        whole = len(data) // ENTRY.size * ENTRY.size
        return [key.hex() for key, *_ in ENTRY.iter_unpack(data[:whole])]

    def list_records(self) -> Iterator[tuple[str, str]]:
        """Yield each record in here: the folder it came from, and its file name. Raises
        StoredDataError COLD_DAMAGED at a name that neither a record nor annexes have."""
        for key in self.list_keys("record"):
            name = key.removeprefix(_IMPORTED)
            if layout.parse_record_name(name):
                yield layout.RECORDS if name == key else layout.IMPORTED, name
            elif not is_invocation_id(key.removeprefix(_ANNEXES)):
                raise self._describe_damage(f"it names {key}")

    def list_annexed(self) -> Iterator[str]:
        """Yield the invocations whose annexes are in here."""
        for key in self.list_keys("record"):
            if key.startswith(_ANNEXES) and is_invocation_id(key.removeprefix(_ANNEXES)):
                yield key.removeprefix(_ANNEXES)

    def _find(self, table: str, key: bytes) -> tuple[int, int, int] | None:
        """Return where the frame of a key lies: offset, length, unpacked size."""
        footer = self._footer
        is_record = table == "record"
        start = footer.records if is_record else footer.objects
        low, high = 0, footer.record_count if is_record else footer.object_count
        while low < high:
            middle = (low + high) // 2
            data = os.pread(self._fd, ENTRY.size, start + middle * ENTRY.size)
            if len(data) < ENTRY.size:
                raise self._describe_damage("an entry lies outside it")
            entry_key, *place = ENTRY.unpack(data)
            if entry_key == key:
                return place[0], place[1], place[2]
            low, high = (middle + 1, high) if entry_key < key else (low, middle)
        return None

    def _unpack_frame(self, key: str, offset: int, length: int, size: int) -> bytes:
        """Return the bytes of a frame. A size beyond 512 MiB is damage: no record or object has
        it."""
        if max(length, size) > _MAX_SIZE:
            raise self._describe_damage(f"{key} has a frame of {size} bytes")
        footer = self._footer
        dictionary = os.pread(self._fd, footer.dictionary_length, footer.dictionary)
        try:
            return make_unpacker(dictionary)(size, os.pread(self._fd, length, offset))
        except (ValueError, OverflowError) as error:  # no file reaches to such an offset
            raise self._describe_damage(f"{key}: {error}") from error

    def _describe_damage(self, what: str) -> StoredDataError:
        """Return the error for an archive that is not whole; `what` says what was found."""
        return StoredDataError(
            "COLD_DAMAGED",
            f"{self.path} is not a whole archive: {what[:300]}",
            "restore the file from a backup; what is missing: spec-kitty invocations verify --all",
        )


@lru_cache(maxsize=_REMEMBERED)
def make_unpacker(dictionary: bytes) -> Unpack:
    """Return a function from (size, frame) to the unpacked bytes of a frame with this dictionary.

    `size` is the number of bytes in the entry of the frame. The function raises ValueError if the
    frame states another size or is damaged. Raises EnvironmentFault EXTRA_MISSING.
    """
    try:
        import zstandard  # where records lie in cold storage
    except ImportError as error:
        from specify_cli.installation import advise_install

        raise EnvironmentFault(
            "EXTRA_MISSING", "cold storage needs the extra `cold`", advise_install("cold")
        ) from error

    data = zstandard.ZstdCompressionDict(dictionary) if dictionary else None

    def unpack(size: int, frame: bytes) -> bytes:
        try:
            unpacker = zstandard.ZstdDecompressor(dict_data=data)  # not safe for several threads
            if zstandard.frame_content_size(frame) != size:
                raise ValueError(f"a frame says another size than {size}")
            return unpacker.decompress(frame, max_output_size=size)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error

    return unpack


def list_months(root: str) -> list[str]:
    """Return the months that lie in archives, oldest first, as `2026-10`.

    The folder is `cold/` below the records; other names in it are left out. Raises StoredDataError
    UNSAFE_PATH.

    `root` is the project's folder. Nothing is opened, so a damaged archive is listed too.
    """
    try:
        with durable.folder(root, layout.COLD) as fd:
            names = os.listdir(fd)
    except FileNotFoundError:
        return []
    months = (name.removesuffix(ENDING) for name in names if name.endswith(ENDING))
    return sorted(month for month in months if layout.is_month(month))


def open_month(root: str, month: str) -> Archive | None:
    """Return the archive of a month; None where there is none. Raises StoredDataError,
    EnvironmentFault EXTRA_MISSING.

    `month` is as `2026-10`. The file stays open for as long as the `Archive` is held.

    `root` is the project's folder. An archive is replaced as a whole, never changed, so what was
    opened stays consistent.
    """
    name = f"{month}{ENDING}"
    try:
        with durable.folder(root, layout.COLD) as folder_fd:
            fd = durable.open_regular(folder_fd, name, os.O_RDONLY, f"{layout.COLD}/{name}")
    except FileNotFoundError:
        return None
    return Archive(f"{root}/{layout.COLD}/{name}", fd)


def find_month(root: str, name: str, invocation_id: str) -> str | None:
    """Return the folder in the `Place` of a record that lies in its month's archive; None if it is
    in none.

    `name` is the record's file name; the month is that of the id. Raises as `open_month` does.

    `root` is the project's folder. Both places are tried, as the record's own and as an imported
    one.
    """
    archive = _open_month_of(root, invocation_id)
    for folder in (layout.RECORDS, layout.IMPORTED):
        if archive and archive.holds(name_record(folder, name)):
            return layout.cold_folder(invocation_id, folder)
    return None


def name_record(folder: str, name: str) -> str:
    """Return the name of a record inside an archive, from its folder and file name."""
    return f"{_IMPORTED}{name}" if layout.is_imported(folder) else name


def name_annexes(invocation_id: str) -> str:
    """Return the name of a record's annexes inside an archive.

    `invocation_id` is the record's. All annexes of a record are one entry.
    """
    return f"{_ANNEXES}{invocation_id}"


def join_annexes(annexes: Iterable[tuple[str, bytes]]) -> bytes:
    """Return annexes, given as (path, line with LF), as one text for an archive: file name, blank,
    line."""
    return b"".join(b"%b %b" % (path[-32:].encode(), line) for path, line in annexes)


def split_annexes(data: bytes) -> dict[str, bytes]:
    """Return the annexes that one text holds, by file name; names of another form are left out.

    `data` is what `join_annexes` returned.
    """
    lines = (raw.partition(b" ") for raw in data.split(b"\n")[:-1])
    annexes = {name.decode("ascii", "replace"): line + b"\n" for name, _, line in lines}
    return {name: line for name, line in annexes.items() if is_invocation_id(name[:-6])}


def read_annexes(root: str, invocation_id: str) -> dict[str, bytes]:
    """Return the annexes of a record that lie in the archive of its month, by file name.

    `root` is the project's folder and `invocation_id` the record's. The result is empty where there
    is no archive or it holds none of them. Raises as `open_month` does.
    """
    archive = _open_month_of(root, invocation_id)
    data = archive and archive.read("record", name_annexes(invocation_id))
    return split_annexes(data or b"")


def open_each(root: str) -> Iterator[Archive]:
    """Yield the archive of each month, oldest first. Raises as `open_month` does.

    `root` is the project's folder. Each archive is opened when it is asked for and closed with its
    object.
    """
    return filter(None, (open_month(root, month) for month in list_months(root)))


def _open_month_of(root: str, invocation_id: str) -> Archive | None:
    """Return the archive of an invocation's month; None where there is none."""
    folder = layout.cold_folder(invocation_id)
    if not os.path.lexists(f"{root}/{folder}{ENDING}"):
        return None
    return open_month(root, folder.rpartition("/")[2])


def read_record(root: str, folder: str, name: str) -> bytes:
    """Return the bytes of a record that lies in an archive.

    `root` is the project's folder, `folder` that of `layout.cold_folder`, and `name` the file name
    of the record. Raises FileNotFoundError, StoredDataError, EnvironmentFault.
    """
    archive = open_month(root, folder.rpartition("/")[2])
    data = None if archive is None else archive.read("record", name_record(folder, name))
    if data is None:
        raise FileNotFoundError(2, "not in the archive", f"{root}/{folder}/{name}")
    return data


def find_object(root: str, digest: str) -> bytes | None:
    """Return the bytes of an object from the newest archive that holds it; None if none does. The
    caller must hash them.

    Archives are opened one after another, because an object can be in any month. Raises as
    `open_month` does.

    `root` is the project's folder, and `digest` the object's name.
    """
    for archive in reversed(list(open_each(root))):
        data = archive.read("object", digest)
        if data is not None:
            return data
    return None
