"""Where many records lie: projects and archives in a folder, cut into items that workers share.

    items = [item for source in find_sources("/srv/projects") for item in list_items(source)]
    for root, places, failure in iter_opened(items[0]): ...

An item is all that has one invocation id, one archive whole, or some records that a holder has. The
folders of a source have to be where its workers are: on a cluster, on a file system that all of
them see under the same path.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple, Protocol

from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.libraries.archive.unpacking import (
    check_manifest,
    is_member,
    require_order,
    unpacked,
)
from specify_cli.libraries.signed_log.notes import Policy
from specify_cli.libraries.work.sharing import Engine
from specify_cli.record import layout
from specify_cli.record.findings import SetReport
from specify_cli.storage.checking import list_groups, require_here
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import Place, places


class Source(NamedTuple):
    """A project or an archive, by the name reports give it and the path it lies at; or what a
    `holder` has of one."""

    name: str
    path: str
    is_archive: bool = False
    holder: Holder | None = None


class Holder(Protocol):
    """What holds records of projects in no folder; it is sent to workers, which find the same
    there."""

    def list_items(self, source: Source) -> list[Item]:
        """Return some records of a source at a time, in the order of their ids. Raises
        StoredDataError."""

    def iter_opened(self, item: Item) -> Iterator[Opened]:
        """Yield each record of an item, laid out until the next is asked for; one that cannot be is
        named."""

    def read_log(self, source: Source) -> SourceLog | None:
        """Return the newest log of a source as it is stored. Raises StoredDataError."""


class SourceKind(NamedTuple):
    """Sources that are neither folder nor archive, as a room brings them to the point `sources`.

    `verify` yields each project by name with what its records prove.
    """

    recognizes: Callable[[str], bool]
    list_sources: Callable[[str], list[Source]]
    verify: Callable[[str, Engine, Policy | None], Iterator[tuple[str, SetReport]]]


class Item(NamedTuple):
    """One invocation of a source, with all files that hold its id; several of a holder; without
    places the source, or why it cannot be read."""

    source: Source
    places: tuple[Place, ...] = ()
    failure: Failure | None = None


class Failure(NamedTuple):
    """Why nothing could be said of an item: a code of `errors.CODES`, or NOT_CHECKED where no
    worker survived it."""

    code: str
    message: str


class Opened(NamedTuple):
    """Where records can be read: a project's root and their places; or why they cannot."""

    root: str
    places: tuple[Place, ...]
    failure: Failure | None = None


class SourceLog(NamedTuple):
    """A log as a holder has it: its name, size and root (32 bytes), and the invocations that logs
    there say began."""

    origin: str
    size: int
    root: bytes
    started: frozenset[str]


def find_sources(folder: str) -> list[Source]:
    """Return the projects and archives in a folder, or the folder itself, sorted by name; links are
    not followed. A folder in it that cannot be read is among them, for `list_items` to say why.

    Raises CallerError INVALID_VALUE where there are none, or the folder itself cannot be read.
    """
    top = os.path.abspath(folder)
    if os.path.isfile(top):
        return [Source(os.path.basename(top), top, True)]
    sources = []

    def note(error: OSError) -> None:
        if error.filename != top:
            return sources.append(Source(os.path.relpath(error.filename, top), error.filename))
        raise CallerError(
            "INVALID_VALUE",
            f"--source {folder}: {error.filename}: {error.strerror}",
            "name a project, an archive, a folder or a database that can be read",
        )

    for path, folders, files in os.walk(top, onerror=note):
        name = os.path.relpath(path, top)
        if os.path.isdir(f"{path}/.kittify") and not os.path.islink(f"{path}/.kittify"):
            sources.append(Source(name, path))
            folders.clear()
            continue
        folders[:] = [one for one in folders if not one.startswith(".")]
        archives = [
            one for one in files if one.endswith(".tar") and not os.path.islink(f"{path}/{one}")
        ]
        sources += [
            Source(os.path.normpath(f"{name}/{one}"), f"{path}/{one}", True) for one in archives
        ]
    if not sources:
        what = "expected a project, an archive, or a folder with projects or archives (.tar) in it"
        raise CallerError(
            "INVALID_VALUE", f"--source {folder}: {what}", "name the folder your projects lie in"
        )
    return sorted(sources)


def list_items(source: Source) -> list[Item]:
    """Return the items of a source in the order of their ids. Raises StoredDataError where a holder
    does."""
    if source.holder is not None:
        return source.holder.list_items(source)
    if source.is_archive:
        return [Item(source)]
    try:
        return [Item(source, group) for group in list_groups(source.path)]
    except InvocationError as error:
        failure = Failure(error.code, error.message)
    except OSError as error:
        failure = Failure("ACCESS_FAILED", f"cannot read {error.filename}: {error.strerror}")
    return [Item(source, (), failure)]


def iter_opened(item: Item) -> Iterator[Opened]:
    """Yield what an item holds, each where it can be read until the next is asked for; a sent
    record lies alone.

    Raises EnvironmentFault where the project is not to be seen from here.
    """
    if item.source.holder is not None:
        yield from item.source.holder.iter_opened(item)
        return
    if not item.source.is_archive:
        require_here(item.source.path)
        yield Opened(item.source.path, item.places, item.failure)
        return
    try:
        with unpacked(item.source.path) as contents:
            for place in (
                records := tuple(sorted(places(contents.project.root, [layout.IMPORTED])))
            ):
                check_manifest(contents, place)
            yield Opened(contents.project.root, records)
    except InvocationError as error:
        yield Opened("", (), Failure(error.code, error.message))


class SentRecord(NamedTuple):
    """A record as it was sent: its lines, its annexes by their files, its objects by their digests.

    `withheld` says of the objects that were not sent why.
    """

    place: Place
    lines: bytes
    annexes: Mapping[str, bytes]
    objects: Mapping[str, bytes]
    withheld: Mapping[str, str]


@contextmanager
def unfolded(record: SentRecord) -> Iterator[Opened]:
    """Lay a record out as a project in a temporary folder.

    Raises StoredDataError EXPORT_INVALID where a name is none that such a file has,
    EnvironmentFault WRITE_FAILED.
    """
    files = {record.place.path: record.lines}
    of = record.place.invocation_id
    files |= {f"{layout.ANNEXES}/{of}/{name}": data for name, data in record.annexes.items()}
    for digest, data in record.objects.items():
        files[f"{layout.OBJECTS}/{digest[:2]}/{digest[2:]}"] = data
    record_path, *others = files
    # It came over a network and lay in a database: no name of it may lead elsewhere.
    names = [f"{layout.IMPORTED}/{record.place.name}", *others]
    names += [f"{layout.OBJECTS}/{digest[:2]}/{digest[2:]}" for digest in record.withheld]
    if record.place.folder not in (layout.RECORDS, layout.IMPORTED) or not all(
        map(is_member, names)
    ):
        odd = next((name for name in names if not is_member(name)), record_path)
        what = f"what is held of {of} names the file {odd[:200]!r}, which no record has"
        raise StoredDataError("EXPORT_INVALID", what, "ask its sender")
    with require_order(), tempfile.TemporaryDirectory(prefix="spec-kitty-") as root:
        with durable.Writing(root):
            for path, data in files.items():
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
                with open(f"{root}/{path}", "xb") as out:
                    out.write(data)
        FileObjectStore(root).withhold(record.withheld, tracked=False)
        yield Opened(root, (record.place,))


def group_items(items: Iterable[Item]) -> Iterator[tuple[Source, Iterator[Item]]]:
    """Yield the items that follow one another by their source."""
    return groupby(items, key=lambda item: item.source)
