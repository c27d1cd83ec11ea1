"""Write every record of many sources into an archive of its own.

for row in archive_each(find_sources("."), "/backup/runs", Engine(workers=4)):
    print(row.archive or row.message)
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.libraries.archive.archive import MANIFEST, Leaving, export
from specify_cli.libraries.work.sharing import HERE, Engine, share_out
from specify_cli.libraries.work.sources import Item, Source, group_items, iter_opened, list_items
from specify_cli.project.config import Project, load_project
from specify_cli.record.seal import seal_at_end
from specify_cli.storage.checking import annex_files
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore

# A folder that holds this is one that a run has not finished.
UNFINISHED = ".unfinished"


class Archived(NamedTuple):
    """What became of one record: its archive below the folder, or the code and message of what
    stopped it."""

    source: str
    invocation_id: str | None
    archive: str | None
    sha256: str | None = None
    size: int = 0
    code: str | None = None
    message: str | None = None


def archive_each(
    sources: Sequence[Source], folder: str, engine: Engine = HERE, *, safe: bool = False
) -> Iterator[Archived]:
    """Write each record of these sources into a file of a new folder and yield what became of it,
    in their order.

    The same records give the same files. A run that was killed leaves its mark in the folder, and
    the same run again goes on there: a whole archive of a record that is as it was stays. (Safe
    ones are written anew, since what they may hold can have changed.) Raises CallerError
    FILE_EXISTS, EnvironmentFault where the engine does.
    """
    mark = os.path.join(folder, UNFINISHED)
    try:
        os.makedirs(folder, exist_ok=os.path.isfile(mark))
        os.close(os.open(mark, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise CallerError(
            "FILE_EXISTS", f"--archives {folder}: it is there", "name a new folder"
        ) from error
    except OSError as error:
        raise durable.write_failed(folder, error) from error
    items = [item for source in sources for item in list_items(source)]
    for rows in share_out(
        engine, partial(_archive_items, os.path.abspath(folder), safe), items, _fail
    ):
        yield from rows
    with suppress(OSError):
        os.unlink(mark)


def _archive_items(folder: str, safe: bool, items: Iterable[Item]) -> Iterator[list[Archived]]:
    for source, group in group_items(items):
        leaving: Leaving | None = None
        for item in group:
            rows = []
            try:
                for root, places, failure in iter_opened(item):
                    if failure:
                        rows += _fail(Item(source, places), failure.message, failure.code)
                        continue
                    if not leaving or leaving.project.root != root:
                        project = load_project(root, lenient=True)[0]
                        leaving = Leaving(project, safe=safe or project.config.is_sealed)
                    ids = sorted({place.invocation_id for place in places})
                    rows += [_archive_one(source, leaving, name, folder, safe) for name in ids]
            except InvocationError as error:
                rows = _fail(item, error.message, error.code)
            yield rows


def _archive_one(
    source: Source, leaving: Leaving, invocation_id: str, folder: str, safe: bool
) -> Archived:
    project = leaving.project
    name = os.path.normpath(f"{source.name.removesuffix('.tar')}/{invocation_id}.tar")
    path = f"{folder}/{name}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            # of a worker or a run that was killed
            there = None if safe else _find_whole(project, invocation_id, path)
            if there:
                return Archived(source.name, invocation_id, name, *there)
            os.unlink(path)
        done = export(project, [invocation_id], path, safe=safe, leaving=leaving)
    except InvocationError as error:
        why = error.code, error.message
    except OSError as error:
        why = "WRITE_FAILED", str(error.strerror)
    else:
        return Archived(source.name, invocation_id, name, done.sha256, done.size)
    return Archived(source.name, invocation_id, None, None, 0, *why)


def _find_whole(project: Project, invocation_id: str, path: str) -> tuple[str, int] | None:
    """Return the SHA-256 and the size of a whole archive of this record as it is now; None for
    anything else."""
    record = FileRecordStore(project.root).read(Index(project.root).resolve(invocation_id))
    annexes = {name for name, _ in annex_files(project.root, invocation_id)}
    try:
        with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            files = {member.name for member in archive}
            manifest = archive.extractfile(MANIFEST)
            (row,) = json.loads(manifest.read() if manifest is not None else b"")["records"]
            file.seek(0)
            hashed = hashlib.file_digest(file, "sha256")
            size = file.tell()
    except (OSError, ValueError, LookupError, TypeError, tarfile.TarError):
        return None
    as_now = row["tip"] == seal_at_end(record) and annexes <= files
    whole = size % tarfile.RECORDSIZE == 0
    return (hashed.hexdigest(), size) if as_now and whole else None


def _fail(item: Item, why: str, code: str = "NOT_CHECKED") -> list[Archived]:
    ids: list[str | None] = [*dict.fromkeys(place.invocation_id for place in item.places)] or [None]
    return [Archived(item.source.name, one, None, None, 0, code, why) for one in ids]
