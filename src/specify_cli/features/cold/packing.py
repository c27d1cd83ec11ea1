"""What of a month can be moved into its archive, making the archive, and taking it apart.

    months = survey(project, now)
    packed = pack_months(project, months)
    unpack_month(project.root, "2026-10")

Durable in this order: the archive under a name of its own, compared with the files it is made of ·
its final name · only then the files go. A crash before leaves the files, one after leaves both, and
packing again removes them. Unpacking is the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import ERROR, RecordReport
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import open_line
from specify_cli.record.verifying.named_objects import named_objects
from specify_cli.storage.checking import annex_files, verify_file
from specify_cli.storage.cold import (
    ENDING,
    ENTRY,
    FOOTER,
    MAGIC,
    TABLES,
    Archive,
    list_months,
    make_key,
    make_unpacker,
    open_month,
)
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import FileRecordStore, Place, list_folders, places
from specify_cli.storage.worktrees import is_linked

_LEVEL = 12
_DICTIONARY_BYTES = 112 * 1024
# Of how many records and objects of a month the dictionary is made, and of which of their texts.
_SAMPLED = 400
_LONGEST_SAMPLE = 64 * 1024
Tables = dict[str, dict[str, Callable[[], bytes]]]


class Month(NamedTuple):
    """A month of records: those that lie loose, their bytes, and how many its archive holds."""

    month: str
    loose: tuple[Place, ...]
    loose_bytes: int
    packed: int
    packed_bytes: int
    is_over: bool


class Packed(NamedTuple):
    """What packing a month did: the records and objects moved, why others stay, and the bytes
    before and after."""

    month: str
    records: int
    objects: int
    stay: tuple[str, ...]
    before: int
    after: int


class _Sorted(NamedTuple):
    """The records that go, by month; why the others of these months stay; and for each object the
    last month that leads to it, or `_STAYS`."""

    going: dict[str, list[Place]]
    stay: dict[str, list[str]]
    owners: dict[str, str]


# Comes behind every month.
_STAYS = "~"


def survey(project: Project, now: int) -> list[Month]:
    """Return the months of this project's own records, oldest first; `now` is in milliseconds."""
    root, current = project.root, rfc3339(now)[:7]
    loose: dict[str, list[Place]] = {month: [] for month in list_months(root)}
    for place in sorted(places(root, [layout.RECORDS])):
        loose.setdefault(_read_month(place), []).append(place)
    return [_measure(root, month, of, month < current) for month, of in sorted(loose.items())]


def _read_month(place: Place) -> str:
    return layout.cold_folder(place.invocation_id).rpartition("/")[2]


def _measure(root: str, month: str, of: Sequence[Place], is_over: bool) -> Month:
    archive, path = open_month(root, month), f"{root}/{layout.COLD}/{month}{ENDING}"
    packed = [] if archive is None else archive.list_keys("record")
    size = os.stat(path).st_size if archive is not None else 0
    loose = sum(os.lstat(f"{root}/{place.path}").st_size for place in of)
    return Month(month, tuple(of), loose, len(packed), size, is_over)


def pack_months(project: Project, months: Sequence[Month]) -> list[Packed]:
    """Move the closed and sound records of months, and the objects that only they name, into
    their archives.

    Every record of the project is read once, to see which objects may go with which month. Raises
    CallerError COLD_REFUSED, EnvironmentFault, StoredDataError where a file changed meanwhile.
    """
    refuse_unfit(project)
    make_unpacker(b"")  # says which extra is missing, before anything is read
    with _lock(project.root):
        sorted_records = _sort_records(project.root, months)
        return [_pack_month(project.root, month, sorted_records) for month in months]


def _pack_month(root: str, month: Month, of: _Sorted) -> Packed:
    records, stay = of.going[month.month], tuple(of.stay[month.month])
    if not records:
        return Packed(month.month, 0, 0, stay, 0, month.packed_bytes)
    names = [digest for digest, owner in sorted(of.owners.items()) if owner == month.month]
    names = [name for name in names if os.path.isfile(f"{root}/{layout.object_path(name)}")]
    before = sum(os.lstat(f"{root}/{place.path}").st_size for place in records)
    before += sum(os.lstat(f"{root}/{layout.object_path(name)}").st_size for name in names)
    _write_archive(root, month.month, _collect(root, month.month, records, names))
    archive = open_month(root, month.month)
    assert archive is not None
    _remove_records(root, records, archive)
    _remove_objects(root, names)
    after = os.stat(archive.path).st_size
    return Packed(month.month, len(records), len(names), stay, before, after)


def refuse_unfit(project: Project) -> None:
    """Refuse where an archive would be of no use, or go with a worktree. Raises CallerError
    COLD_REFUSED."""
    if project.config.trail == "committed":
        raise CallerError(
            "COLD_REFUSED",
            "the trail is committed: git holds these records, and compresses them itself",
            "nothing is to be done",
        )
    if is_linked(project.root):
        raise CallerError(
            "COLD_REFUSED",
            f"{project.root} is a linked worktree, and goes one day with what lies in it",
            "run the command in the main worktree (git worktree list names it first)",
        )


def _lock(root: str) -> durable.folder:
    """Return the folder whose lock an erasure holds too, so that neither meets the other."""
    return durable.folder(root, layout.FORGET, create=True, wait=durable.LOCK_WAIT_SECONDS)


def _sort_records(root: str, months: Sequence[Month]) -> _Sorted:
    """Return which records of these months go, why the others stay, and the last month that leads
    to each object."""
    month_of = {place.path: month.month for month in months for place in month.loose}
    found = _Sorted(
        {month.month: [] for month in months}, {month.month: [] for month in months}, {}
    )
    reach = Reach(FileObjectStore(root))
    for place in places(root, list_folders(root)):
        report = verify_file(root, place, list_withheld=False)
        owner, month = _STAYS, month_of.get(place.path)
        if month is not None:
            why = _say_why_it_stays(report)
            if why is None:
                found.going[month].append(place)
                owner = month
            else:
                found.stay[month].append(f"{place.invocation_id}: {why}")
        for item in reach.of(report.objects):
            if item.code is None:
                found.owners[item.digest] = max(found.owners.get(item.digest, ""), owner)
    for each in _list_annexed(root):
        found.owners.update(dict.fromkeys(each, _STAYS))
    return found


def _say_why_it_stays(report: RecordReport) -> str | None:
    if not report.sealed:
        return "it is unsealed"
    if report.status != "closed":
        return "it is open"
    if any(item.severity == ERROR for item in report.findings):
        return "it is not intact"
    return None


def _list_annexed(root: str) -> Iterator[set[str]]:
    """Yield what each annex names: annexes stay where they lie."""
    folder = f"{root}/{layout.ANNEXES}"
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        try:
            files = list(annex_files(root, name))
        except ValueError:
            continue  # it is named by no invocation; verify says so
        for _, data in files:
            fields = open_line(data.rstrip(b"\n")).fields if isinstance(data, bytes) else None
            yield {item.digest for item in named_objects(fields or {}, None, 0)}


def _collect(root: str, month: str, records: Iterable[Place], objects: Iterable[str]) -> Tables:
    """Return what the archive of a month is to hold, each with what reads it: what is moved now,
    and what one of before holds. Raises StoredDataError COLD_DAMAGED where the two differ."""
    store, object_store = FileRecordStore(root), FileObjectStore(root)
    tables: Tables = {
        "record": {place.name: partial(store.read, place) for place in records},
        "object": {name: partial(object_store.get, name) for name in objects},
    }
    before = open_month(root, month)
    for table, items in tables.items() if before is not None else ():
        assert before is not None
        for key in before.list_keys(table):
            held = partial(_read_held, before, table, key)
            if key in items and items[key]() != held():
                raise StoredDataError(
                    "COLD_DAMAGED",
                    f"{before.path} holds {key} with other bytes than its file",
                    f"spec-kitty invocations verify --all; then move {before.path} away",
                )
            items[key] = held
    return tables


def _read_held(archive: Archive, table: str, key: str) -> bytes:
    data = archive.read(table, key)
    if data is None:
        raise StoredDataError(
            "COLD_DAMAGED", f"{archive.path} names {key} and does not hold it", "try again"
        )
    return data


def _write_archive(root: str, month: str, tables: Tables) -> None:
    """Make the archive of a month durable under its name, compared with what it is made of."""
    name = f".tmp-{month}-{os.urandom(8).hex()}"
    path = f"{root}/{layout.COLD}/{name}"
    with durable.folder(root, layout.COLD, create=True) as folder_fd:
        try:
            _fill(path, tables)
            _compare(path, tables)
            fd = durable.open_regular(folder_fd, name, os.O_RDONLY, path)
            os.fsync(fd)
            os.close(fd)
            os.rename(name, f"{month}{ENDING}", src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
            os.fsync(folder_fd)
        except BaseException:
            if os.path.lexists(path):
                os.unlink(path)
            raise


def _fill(path: str, tables: Tables) -> None:
    """Write an archive (docs/format.md §14)."""
    import zstandard  # of the extra

    try:
        dictionary = zstandard.train_dictionary(_DICTIONARY_BYTES, _sample(tables)).as_bytes()
    except zstandard.ZstdError:
        dictionary = b""  # too little to learn from
    known = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=known)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, durable.PRIVATE), "wb") as file:
        file.write(MAGIC)
        entries: dict[str, list[bytes]] = {table: [] for table in TABLES}
        for table in TABLES:
            keys = {make_key(table, key): key for key in tables[table]}
            for found in sorted(keys):
                data, place = tables[table][keys[found]](), file.tell()
                length = file.write(compressor.compress(data))
                entries[table].append(ENTRY.pack(found, place, length, len(data)))
        places = [file.tell(), file.write(dictionary)]
        names = "".join(f"{name}\n" for name in sorted(tables["record"])).encode()
        places += [file.tell(), file.write(names)]
        for table in TABLES:
            places += [file.tell(), len(entries[table])]
            file.writelines(entries[table])
        file.write(FOOTER.pack(*places, MAGIC))


def _sample(tables: Tables) -> list[Any]:
    """Return texts to make the dictionary of, evenly over the month: of records their lines."""
    texts: list[bytes] = []
    for table, items in tables.items():
        for read in list(items.values())[:: max(1, len(items) // _SAMPLED)]:
            data = read()
            texts += data.split(b"\n")[:-1] if table == "record" else [data]
    return [text for text in texts if 0 < len(text) < _LONGEST_SAMPLE]


def _compare(path: str, tables: Tables) -> None:
    """Raise StoredDataError COLD_DAMAGED where an archive does not give back what went in."""
    archive = Archive(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    for table, items in tables.items():
        for key, read in items.items():
            if archive.read(table, key) != read():
                raise StoredDataError(
                    "COLD_DAMAGED", f"{path} gives {key} back with other bytes", "try again"
                )


def _remove_records(root: str, records: Iterable[Place], archive: Archive) -> None:
    with durable.folder(root, layout.RECORDS) as fd:
        for place in records:
            if durable.read_below(root, place.path) != archive.read("record", place.name):
                raise StoredDataError(
                    "COLD_DAMAGED", f"{place.path} changed while it was moved", "pack again"
                )
            os.unlink(place.name, dir_fd=fd)
        os.fsync(fd)


def _remove_objects(root: str, names: Iterable[str]) -> None:
    """Remove objects durably.

    ext4 with data=writeback gives the blocks of a removed file to the next one at once: until the
    removal is durable, a power cut would bring the name back with another file's bytes.
    """
    for shard, group in groupby(sorted(names), key=lambda name: name[:2]):
        with durable.folder(root, f"{layout.OBJECTS}/{shard}") as fd:
            for name in group:
                os.unlink(layout.object_parts(name)[1], dir_fd=fd)
            os.fsync(fd)


def unpack_month(root: str, month: str) -> int:
    """Lay what an archive holds on disk again and remove the archive; return how many records.

    Raises CallerError COLD_REFUSED where there is none, StoredDataError, EnvironmentFault.
    """
    with _lock(root):
        return _unpack_month(root, month)


def _unpack_month(root: str, month: str) -> int:
    archive = open_month(root, month)
    if archive is None:
        raise CallerError(
            "COLD_REFUSED", f"there is no archive of {month}", "spec-kitty cold status"
        )
    names = archive.list_keys("record")
    objects = (archive.read("object", key) for key in archive.list_keys("object"))
    FileObjectStore(root).put_each(data for data in objects if data is not None)
    with durable.folder(root, layout.RECORDS) as fd:
        for name in names:
            data = archive.read("record", name)
            if layout.parse_record_name(name) is None or data is None:
                continue
            try:
                durable.Staged(fd, data, durable.PRIVATE).publish(name)
            except FileExistsError:
                if durable.read_below(root, f"{layout.RECORDS}/{name}") != data:
                    raise StoredDataError(
                        "COLD_DAMAGED",
                        f"{name} lies beside its archive with other bytes",
                        "spec-kitty invocations verify --all",
                    ) from None
        os.fsync(fd)
    with durable.folder(root, layout.COLD) as fd:
        os.unlink(f"{month}{ENDING}", dir_fd=fd)
        os.fsync(fd)
    return len(names)


def find_months(root: str, names: Iterable[str], digests: Iterable[str]) -> list[str]:
    """Return the months whose archives hold one of these records, by file name, or objects."""
    sought, found = {"record": set(names), "object": set(digests)}, []
    for month in list_months(root):
        archive = open_month(root, month)
        if archive is not None and any(
            not sought[table].isdisjoint(archive.list_keys(table)) for table in sought
        ):
            found.append(month)
    return found
