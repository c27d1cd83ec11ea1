"""Bring in the records that removed worktrees left behind (docs/adr/0008), and those of an
archive.

    take_in(project)                        # ".kittify/events/profile-invocations/….jsonl", …
    lay_out(archive, records, objects)      # an archive's records as files again

Both can be stopped anywhere and run again: a file is written before its source is removed, and a
file that is there already is compared and not written again.
"""

from __future__ import annotations

import shutil
from itertools import groupby

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.record import layout
from specify_cli.storage.cold import (
    ENDING,
    Archive,
    name_annexes,
    name_record,
    open_month,
    split_annexes,
)
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import FileRecordStore, keep
from specify_cli.storage.worktrees import (
    find_left_behind,
    list_files,
    list_records,
    shared_directory,
)

if TYPE_CHECKING:
    from specify_cli.project.config import Project


def take_in(project: Project) -> list[str]:
    """Bring the records that removed worktrees left behind into this project; return their paths
    below the root.

    Objects come first, then annexes, then the record, so everything that an adopted record names is
    there. The copy in the git directory is removed once its record is here. If the work stops
    anywhere, the next call brings in the rest. Raises InvocationError.

    A record stays behind if another record here has its name and other bytes.
    """
    left_behind = find_left_behind(project.root)
    if not left_behind:
        return []
    records = FileRecordStore(project.root, project.config.trail)
    objects = FileObjectStore(project.root, project.config.trail)
    prepare(records)
    for home in sorted({item.home for item in left_behind}):
        for path in list_files(home):
            folder, _, name = path.rpartition("/")
            if folder.startswith((layout.OBJECTS, layout.LOCAL_OBJECTS)) and not name.endswith(
                layout.WITHHELD
            ):
                objects.put((), [durable.read_below(home, path)])
            elif folder.startswith(layout.ANNEXES):
                try:
                    records.annex(
                        os.path.basename(folder),
                        name.removesuffix(".jsonl"),
                        durable.read_below(home, path),
                    )
                except FileExistsError:
                    continue
    adopted = []
    for item in left_behind:
        path = f"{layout.RECORDS}/{item.name}"
        if path.startswith(layout.COLD):
            try:
                archive = open_month(item.home, path.rpartition("/")[2].removesuffix(ENDING))
                if archive:
                    adopted += lay_out(archive, records, objects)
                    os.unlink(archive.path)
            except StoredDataError:
                pass  # a damaged archive stays behind
            continue
        data = durable.read_below(item.home, path)
        try:
            records.create(item.name, data)
        except FileExistsError:
            if durable.read_below(project.root, path) != data:
                continue  # both stay; doctor still reports the one that is left behind
        adopted.append(path)
        os.unlink(f"{item.home}/{path}")
    for worktree, home in sorted({item[:2] for item in left_behind}):
        if not list(list_records(home)) and not os.path.lexists(
            f"{shared_directory(home)}/worktrees/{worktree}"
        ):
            shutil.rmtree(home, ignore_errors=True)
    return adopted


def lay_out(archive: Archive, records: FileRecordStore, objects: FileObjectStore) -> list[str]:
    """Write the contents of an archive to disk, each record after its objects and annexes; return
    the paths of the records.

    A second call writes what is still missing. Raises StoredDataError COLD_DAMAGED if the archive
    lacks something that it names, and at the end if a file of a name exists with other bytes;
    EnvironmentFault.
    """
    root, laid, differing = records.root, list[str](), list[str]()

    def compare(path: str, data: bytes) -> None:
        differing.extend([path] if durable.read_below(root, path) != data else [])

    objects.put_each(archive.get("object", key) for key in archive.list_keys("object"))
    for invocation_id in archive.list_annexed():
        for name, line in split_annexes(archive.get("record", name_annexes(invocation_id))).items():
            try:
                records.annex(invocation_id, name.removesuffix(".jsonl"), line)
            except FileExistsError:
                compare(f"{layout.annex_folder(invocation_id)}/{name}", line)
    for folder, names in groupby(archive.list_records(), key=lambda record: record[0]):
        records.hide_folder(folder)
        with durable.folder(root, folder) as fd:
            for _, name in names:
                data = archive.get("record", name_record(folder, name))
                try:
                    durable.Staged(fd, data, durable.PRIVATE).publish(name)
                except FileExistsError:
                    compare(f"{folder}/{name}", data)
                laid.append(f"{folder}/{name}")
            os.fsync(fd)
    keep(root, laid)
    if differing:
        raise StoredDataError(
            "COLD_DAMAGED",
            f"{differing[0]} lies beside its archive with other bytes",
            "spec-kitty invocations verify --all",
        )
    return laid
