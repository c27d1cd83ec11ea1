"""What of a month can be moved into its archive, making the archive, and taking it apart.

    months = survey(project, now)
    packed = pack_months(project, months)
    unpack_month(project, "2026-10")

Durable in this order: the archive under a name of its own, compared with the files it is made of ·
its final name · only then the files go. A crash before leaves the files, one after leaves both, and
packing again removes them. Unpacking is the other way round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.invocation.ends.adoption import lay_out
from specify_cli.project.checks import list_names
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import ERROR, NamedObject, RecordReport
from specify_cli.record.ids import rfc3339
from specify_cli.record.record import is_invocation_id
from specify_cli.record.seal import Fields, open_line
from specify_cli.record.verifying.named_objects import named_objects
from specify_cli.storage.checking import annex_files, read_annex_files, verify_lines
from specify_cli.storage.cold import (
    ENDING,
    ENTRY,
    FOOTER,
    MAGIC,
    TABLES,
    Archive,
    join_annexes,
    list_months,
    make_key,
    make_unpacker,
    name_annexes,
    name_record,
    open_each,
    open_month,
    split_annexes,
)
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import (
    FileRecordStore,
    Place,
    list_folders,
    list_trail_folders,
    places,
)
from specify_cli.storage.worktrees import (
    has_second_name,
    remove_with_second_names,
    replace_second_name,
)
from specify_cli.trail.log.entries import open_log

_LEVEL = 12
_DICTIONARY_BYTES = 112 * 1024
# Of how many records and objects of a month the dictionary is made, and of which of their texts.
_SAMPLED = 400
_LONGEST_SAMPLE = 64 * 1024
Tables = dict[str, dict[str, Callable[[], bytes]]]


class Month(NamedTuple):
    """A month of records: those that lie loose, the annexes that lie beside its archive, their
    bytes, and how many records its archive holds."""

    month: str
    loose: tuple[Place, ...]
    annexed: tuple[str, ...]
    loose_bytes: int
    packed: int
    packed_bytes: int
    is_over: bool


class PackedMonth(NamedTuple):
    """What packing a month did: the records and objects moved, why others stay, and the bytes
    before and after."""

    month: str
    records: int
    objects: int
    stay: tuple[str, ...]
    before: int
    after: int


class _Sorted(NamedTuple):
    """The records that go, by month; why the others of these months stay; the records whose annexes
    go; and for each object the last month that leads to it, or `_STAYS`."""

    going: dict[str, list[Place]]
    stay: dict[str, list[str]]
    annexed: dict[str, list[str]]
    owners: dict[str, str]


# Comes behind every month.
_STAYS = "~"
_FOLDERS = (layout.RECORDS, layout.IMPORTED)


def survey(project: Project, now: int) -> list[Month]:
    """Return the months of this project's records, made here or imported, oldest first; `now` is in
    milliseconds."""
    root, current = project.root, rfc3339(now)[:7]
    loose: dict[str, list[Place]] = {month: [] for month in list_months(root)}
    for place in sorted(places(root, _FOLDERS)):
        month = layout.cold_folder(place.invocation_id).rpartition("/")[2]
        loose.setdefault(month, []).append(place)
    beside, months = _list_beside(project), list[Month]()
    for month, of in sorted(loose.items()):
        archive = open_month(root, month)
        packed = [name[-32:-6] for _, name in archive.list_records()] if archive else []
        months.append(
            Month(
                month,
                tuple(of),
                tuple(sorted(beside.intersection(packed))),
                sum(os.lstat(f"{root}/{place.path}").st_size for place in of),
                len(packed),
                os.stat(archive.path).st_size if archive else 0,
                month < current,
            )
        )
    return months


def _list_beside(project: Project) -> set[str]:
    """Return the records whose annexes lie in a folder, and may go: those of a published record are
    git's."""
    root = project.root
    published = {place.invocation_id for place in places(root, list_trail_folders(root))}
    return set(_list_annexed(root)) - published


def _list_annexed(root: str) -> list[str]:
    names = list_names(root, layout.ANNEXES)
    return [one for one in names if is_invocation_id(one) and _list_annexes(root, one)]


def _list_annexes(root: str, invocation_id: str) -> list[str]:
    """Return the file names of the annexes that lie in a folder."""
    names = list_names(root, layout.annex_folder(invocation_id))
    return sorted(name for name in names if not name.startswith("."))


def pack_months(project: Project, months: Sequence[Month]) -> list[PackedMonth]:
    """Move the closed and sound records of months, with their annexes and the objects that only
    they name, into their archives.

    Every record of the project is read once, to see which objects may go with which month. Of a
    committed trail what git tracks stays: published copies, their annexes and objects. Raises
    CallerError COLD_REFUSED, EnvironmentFault, StoredDataError where a file changed meanwhile.
    """
    make_unpacker(b"")  # says which extra is missing, before anything is read
    with _lock(project.root):
        remove_cut_short(project.root)
        sorted_records = _sort_records(project, months)
        packed = [_pack_month(project, month, sorted_records) for month in months]
        if project.config.trail != "committed":  # there a folder's own file keeps it from git
            _remove_folders(project.root)
        return packed


def remove_cut_short(root: str) -> None:
    """Remove what a killed command left of archives, under the lock; one that has its second name
    is whole, and gets its own."""
    names = [one for one in list_names(root, layout.COLD) if one[0] == "."]
    for name in names:
        path = f"{layout.COLD}/{name[5:12]}{ENDING}"
        if has_second_name(root, path, f"{layout.COLD}/{name}"):
            os.rename(f"{root}/{layout.COLD}/{name}", f"{root}/{path}")
    if names:
        remove_with_second_names(root, layout.COLD, names)


def _pack_month(project: Project, month: Month, of: _Sorted) -> PackedMonth:
    root, records, annexed = project.root, of.going[month.month], of.annexed[month.month]
    stay = tuple(of.stay[month.month])
    if not records and not annexed:
        return PackedMonth(month.month, 0, 0, stay, 0, month.packed_bytes)
    objects = FileObjectStore(root, project.config.trail).folder
    names = [
        name
        for name, owner in sorted(of.owners.items())
        if owner == month.month and os.path.isfile(f"{root}/{layout.object_path(name, objects)}")
    ]
    files = [place.path for place in records]
    files += [
        f"{layout.annex_folder(one)}/{name}" for one in annexed for name in _list_annexes(root, one)
    ]
    before = sum(
        os.lstat(f"{root}/{path}").st_size
        for path in (*files, *(layout.object_path(name, objects) for name in names))
    )
    _write_archive(root, month.month, _collect(root, month.month, records, annexed, names))
    archive = open_month(root, month.month)
    assert archive
    _remove_files(root, files, archive)
    _remove_objects(root, objects, names)
    return PackedMonth(
        month.month, len(records), len(names), stay, before, os.stat(archive.path).st_size
    )


def _lock(root: str) -> durable.folder:
    """Return the folder whose lock an erasure holds too, so that neither meets the other."""
    return durable.folder(root, layout.FORGET, create=True, wait=durable.LOCK_WAIT_SECONDS)


def _sort_records(project: Project, months: Sequence[Month]) -> _Sorted:
    """Return which records of these months go, why the others stay, and the last month that leads
    to each object."""
    root = project.root
    open_log(project).settle()  # a leaf that a killed writer left needs its file
    month_of = {place.path: month.month for month in months for place in month.loose}
    records = _Sorted(defaultdict(list), defaultdict(list), defaultdict(list), {})
    reach = Reach(FileObjectStore(root, project.config.trail))

    def lead(objects: Iterable[NamedObject], owner: str) -> None:
        for item in reach.of(objects):
            if item.code is None:
                records.owners[item.digest] = max(records.owners.get(item.digest, ""), owner)

    going = {one: month.month for month in months for one in month.annexed}
    # What git tracks lies in a folder of its own.
    folders = _FOLDERS if project.config.trail == "committed" else list_folders(root)
    for place in places(root, folders):
        report = verify_lines(root, place, list_withheld=False)
        owner, month = _STAYS, month_of.get(place.path)
        if month is not None:
            why = _say_why_it_stays(report)
            if why is None:
                records.going[month].append(place)
                going[place.invocation_id] = owner = month
            else:
                records.stay[month].append(f"{place.invocation_id}: {why}")
        lead(report.objects, owner)
    beside = _list_beside(project)
    for one in _list_annexed(root):
        for fields, owner in _read_annexes(root, one, going.get(one) if one in beside else None):
            lead(named_objects(fields, None, 0), owner)
            if owner != _STAYS and one not in records.annexed[owner]:
                records.annexed[owner].append(one)
    return records


def _say_why_it_stays(report: RecordReport) -> str | None:
    if not report.sealed:
        return "it is unsealed"
    if report.status != "closed":
        return "it is open"
    if any(item.severity == ERROR for item in report.findings):
        return "it is not intact"
    return None


def _read_annexes(root: str, invocation_id: str, month: str | None) -> Iterator[tuple[Fields, str]]:
    """Yield what each annex says, and with which month it goes: all of them, or none where one is
    no sealed line or has no annex's name, so that an archive would not give it back."""
    annexes = {path[-32:]: data for path, data in annex_files(root, invocation_id)}
    lines = [open_line(data[:-1]) for data in annexes.values() if isinstance(data, bytes)]
    sound = not any(line.problems for line in lines)
    sound = sound and split_annexes(_join_annexes(root, invocation_id)) == annexes
    for line in lines:
        yield line.fields or {}, month if month is not None and sound else _STAYS


def _collect(
    root: str, month: str, records: Iterable[Place], annexed: Iterable[str], objects: Iterable[str]
) -> Tables:
    """Return what the archive of a month is to hold, each with what reads it: what is moved now,
    and what one of before holds. Raises StoredDataError COLD_DAMAGED where the two differ."""
    store, object_store = FileRecordStore(root), FileObjectStore(root)
    tables: Tables = {
        "record": {
            **{
                name_record(place.folder, place.name): partial(store.read, place)
                for place in records
            },
            **{name_annexes(one): partial(_join_annexes, root, one) for one in annexed},
        },
        "object": {name: partial(object_store.get, name) for name in objects},
    }
    before = open_month(root, month)
    if not before:
        return tables
    for table, items in tables.items():
        for key in before.list_keys(table):
            read_old = partial(before.get, table, key)
            # Annexes came since; each that was there is still among them.
            if key in items and not set(read_old().split(b"\n")) <= set(items[key]().split(b"\n")):
                raise StoredDataError(
                    "COLD_DAMAGED",
                    f"{before.path} holds {key} with other bytes than its file",
                    f"spec-kitty invocations verify --all; then move {before.path} away",
                )
            items.setdefault(key, read_old)
    return tables


def _join_annexes(root: str, invocation_id: str) -> bytes:
    return join_annexes(read_annex_files(root, invocation_id))


def _write_archive(root: str, month: str, tables: Tables) -> None:
    """Make the archive of a month durable under its name, compared with what it is made of."""
    name = f".tmp-{month}-{os.urandom(8).hex()}"
    path = f"{root}/{layout.COLD}/{name}"
    with durable.folder(root, layout.COLD, create=True) as folder_fd:
        try:
            _fill(path, tables)
            _compare(path, tables)
            replace_second_name(root, f"{layout.COLD}/{month}{ENDING}", name)
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
    if known is not None:
        known.precompute_compress(level=_LEVEL)  # else each of many small texts does it again
    compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=known, write_checksum=True)
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
        file.flush()
        os.fsync(file.fileno())


def _sample(tables: Tables) -> list[Any]:
    """Return texts to make the dictionary of, evenly over the month: of records their lines."""
    texts = []
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


def _remove_files(root: str, paths: Iterable[str], archive: Archive) -> None:
    """Remove the files of records and annexes, each compared with what the archive has of it."""
    for folder, group in groupby(paths, key=lambda path: path.rpartition("/")[0]):
        names = [path.rpartition("/")[2] for path in group]
        annexes = archive.read("record", name_annexes(folder[-26:])) or b""
        annexed = split_annexes(annexes)
        for name in names:
            data = annexed.get(name) or archive.read("record", name_record(folder, name))
            if durable.read_below(root, f"{folder}/{name}") != data:
                raise StoredDataError(
                    "COLD_DAMAGED", f"{folder}/{name} changed while it was moved", "pack again"
                )
        remove_with_second_names(root, folder, names)


def _remove_folders(root: str) -> None:
    """Remove the folders of annexes that are in archives now; whoever adds one makes it anew."""
    packed = set(chain.from_iterable(archive.list_annexed() for archive in open_each(root)))
    for one in list_names(root, layout.ANNEXES):
        names, path = list_names(root, f"{layout.ANNEXES}/{one}"), f"{root}/{layout.ANNEXES}/{one}"
        if one in packed and names in ([], [".gitignore"]) and not os.path.islink(path):
            for name in names:
                os.unlink(f"{path}/{name}")
            os.rmdir(path)


def _remove_objects(root: str, folder: str, names: Iterable[str]) -> None:
    for shard, group in groupby(sorted(names), key=lambda name: name[:2]):
        remove_with_second_names(root, f"{folder}/{shard}", [name[2:] for name in group])


def unpack_month(project: Project, month: str) -> int:
    """Lay what an archive holds on disk again and remove the archive; return how many records.
    Raises as `unpack_locked` does."""
    with _lock(project.root):
        return unpack_locked(project, month)


def unpack_locked(project: Project, month: str) -> int:
    """Do the same for who holds the lock.

    Raises CallerError COLD_REFUSED where there is none, StoredDataError, EnvironmentFault.
    """
    root, trail = project.root, project.config.trail
    archive = open_month(root, month)
    if not archive:
        raise CallerError(
            "COLD_REFUSED", f"there is no archive of {month}", "spec-kitty cold status"
        )
    laid = lay_out(archive, FileRecordStore(root, trail), FileObjectStore(root, trail))
    remove_with_second_names(root, layout.COLD, [f"{month}{ENDING}"])
    return len(laid)


def find_months(root: str, ids: Iterable[str], digests: Iterable[str]) -> list[str]:
    """Return the months whose archives hold one of these records, its annexes, or an object."""
    sought, objects = {*ids}, {*digests}
    return [
        os.path.basename(archive.path).removesuffix(ENDING)
        for archive in open_each(root)
        if objects & {*archive.list_keys("object")}
        or sought & {key.removesuffix(".jsonl")[-26:] for key in archive.list_keys("record")}
    ]
