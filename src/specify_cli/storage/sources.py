"""Where many records lie: projects and archives in a folder, cut into items that workers share.

    items = [item for source in find_sources("/srv/projects") for item in list_items(source)]
    with opened(items[0]) as (root, places): ...

An item is all that has one invocation id, or one archive whole. The folders of a source have to be where its workers
are: on a cluster, on a file system that all of them see under the same path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple

from specify_cli.errors import CallerError
from specify_cli.record import layout
from specify_cli.storage import archive, queries
from specify_cli.storage.store import Place, places


class Source(NamedTuple):
    """A project or an archive, by the name reports give it and the path it lies at."""

    name: str
    path: str
    is_archive: bool = False


class Item(NamedTuple):
    """One invocation of a source, with all files that hold its id; without places the whole source."""

    source: Source
    places: tuple[Place, ...] = ()


class Failure(NamedTuple):
    """Why nothing could be said of an item: a code of `errors.CODES`, or NOT_CHECKED where no worker survived it."""

    code: str
    message: str


def find_sources(folder: str) -> list[Source]:
    """Return the projects and archives in a folder, or the folder itself, sorted by name; links are not followed.

    Raises CallerError INVALID_VALUE where there are none, or a folder cannot be read.
    """
    top = os.path.abspath(folder)
    if os.path.isfile(top):
        return [Source(os.path.basename(top), top, True)]
    found: list[Source] = []

    def refuse(error: OSError) -> None:
        raise CallerError("INVALID_VALUE", f"--source {folder}: {error.filename}: {error.strerror}", "make it readable")

    for path, folders, files in os.walk(top, onerror=refuse):
        name = os.path.relpath(path, top)
        if os.path.isdir(f"{path}/.kittify") and not os.path.islink(f"{path}/.kittify"):
            found.append(Source(name, path))
            folders.clear()
            continue
        folders[:] = [one for one in folders if not one.startswith(".")]
        archives = [one for one in files if one.endswith(".tar") and not os.path.islink(f"{path}/{one}")]
        found += [Source(os.path.normpath(f"{name}/{one}"), f"{path}/{one}", True) for one in archives]
    if not found:
        what = "expected a project, an archive, or a folder with projects or archives (.tar) in it"
        raise CallerError("INVALID_VALUE", f"--source {folder}: {what}", "name the folder your projects lie in")
    return sorted(found)


def list_items(source: Source) -> list[Item]:
    """Return the items of a source in the order of their ids."""
    if source.is_archive:
        return [Item(source)]
    return [Item(source, group) for group in queries.list_groups(source.path)]


@contextmanager
def opened(item: Item) -> Iterator[tuple[str, tuple[Place, ...]]]:
    """Open an item: a project's root and the places of its records; an archive is unpacked in a temporary folder.

    Raises StoredDataError EXPORT_INVALID, and EnvironmentFault where the project is not to be seen from here.
    """
    if not item.source.is_archive:
        queries.require_here(item.source.path)
        yield item.source.path, item.places
        return
    with archive.unpacked(item.source.path) as contents:
        for place in (held := tuple(sorted(places(contents.project.root, [layout.IMPORTED])))):
            archive.check_manifest(contents, place)
        yield contents.project.root, held


def group_items(items: Iterable[Item]) -> Iterator[tuple[Source, Iterator[Item]]]:
    """Yield the items that follow one another by their source."""
    return groupby(items, key=lambda item: item.source)
