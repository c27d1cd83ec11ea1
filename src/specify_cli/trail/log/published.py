"""The part of a log that a committed trail carries: pieces of its leaves and its checkpoints, one
immutable file each.

    .kittify/trail/log/<log>/<first>-<after the last>.leaves
    .kittify/trail/log/<log>/<size>-<8 hex of its digest>.checkpoint

A name is unique to its content, so branches merge without conflict; pieces can overlap, and then
they agree. If the name of another clone's log stands beside this clone's own, a merge has brought
it, and the next record cites the records in it.

    publish_leaves(root, generation)
    list_segments(root, generation.name)         # [("0-17.leaves", 0, 17)]

Nothing published is ever changed or removed here: a log that other clones have seen can only grow
(docs/format.md §11).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from doctrine import os
from doctrine.light_imports import hash_bytes
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.storage.publishing import find_hidden_annexes, find_never_published
from specify_cli.storage.store import FileRecordStore
from specify_cli.trail.log.leaves import (
    ANNEX,
    CLOSE,
    LEAF_BYTES,
    Generation,
    Leaf,
    LogDamagedError,
    list_names,
    parse_leaf,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specify_cli.project.config import Project

# How many leaves one piece holds at most.
MAX_PIECE = 100_000
# How many of the newest leaves of another clone are read after a merge.
_MERGED = 8

_SEGMENT = re.compile(r"([0-9]{1,12})-([0-9]{1,12})\.leaves")


def list_segments(root: str, name: str) -> list[tuple[str, int, int]]:
    """Return (file name, number of its first leaf, number after its last) of each published piece
    of a log.

    `name` is the log's. They are sorted by number; names of another form are left out. Contents are
    not read.

    `root` is the project's folder. A file whose range is empty is no piece.
    """
    segments = [
        (match[0], int(match[1]), int(match[2]))
        for file in list_names(f"{root}/{layout.TRAIL_LOG}/{name}")
        if (match := _SEGMENT.fullmatch(file))
    ]
    return sorted((item for item in segments if item[1] < item[2]), key=lambda item: item[1:])


def find_difference(root: str, generation: Generation, *, newest: bool = False) -> int | None:
    """Return the number of the first published leaf that the log itself does not hold as it was
    published; None if it holds all of them so.

    With `newest` only the last piece is compared, which shows that the two went on apart. A piece
    that is too large, or no plain file, holds no leaf. One that is longer or shorter than its name
    says differs where it should end, or where it ends.

    `root` is the project's folder. Raises OSError.
    """
    for file, first, after in list_segments(root, generation.name)[-1 if newest else 0 :]:
        if after - first > MAX_PIECE:
            return first
        size = (after - first) * LEAF_BYTES
        try:
            path = f"{layout.TRAIL_LOG}/{generation.name}/{file}"
            data = durable.read_below(root, path, size)
        except InvocationError:
            return first
        own = generation.read_bytes(first, size)
        if data != own:
            pairs = enumerate(zip(data, own, strict=False))
            same = next((at for at, (one, two) in pairs if one != two), min(len(data), len(own)))
            return first + same // LEAF_BYTES
    return None


def read_unpublished(
    project: Project, generation: Generation, start: int | None = None
) -> tuple[list[Leaf], list[Leaf]]:
    """Return the leaves of a log that this branch does not hold yet, and those of them that are not
    private.

    Leaves of a record that was closed while the trail was not committed, and of an annex that git
    does not see, are private. `start` is the number of the first leaf that this branch does not
    hold, where the two went on apart.
    """
    if start is None:
        start = count_published(project.root, generation.name)
    leaves = list(generation.read_leaves(start))
    closed = {leaf.invocation_id for leaf in leaves if leaf.kind == CLOSE}
    private = find_never_published(project.root, project.git_dir, closed)
    annexed = {leaf.invocation_id for leaf in leaves if leaf.kind == ANNEX}
    hidden = {seal for name in annexed for seal in find_hidden_annexes(project.root, name)}
    return leaves, [
        leaf for leaf in leaves if leaf.invocation_id not in private and leaf.seal not in hidden
    ]


def count_published(root: str, name: str) -> int:
    """Return how many of a log's first leaves this branch holds."""
    count = 0
    for _, first, end in list_segments(root, name):
        if first <= count:
            count = max(count, end)
    return count


def publish_leaves(root: str, generation: Generation) -> None:
    """Publish the leaves of a log that this branch does not hold yet. Raises OSError.

    Each piece has at most 100,000 leaves and is durable, mode 0644. What is published already is
    not written again.

    `root` is the project's folder. A crash between two pieces leaves the earlier ones, which the
    next call continues.
    """
    start, size = count_published(root, generation.name), generation.count_leaves()
    while start < size:
        end = min(size, start + MAX_PIECE)
        _publish(
            root,
            generation,
            f"{start}-{end}.leaves",
            generation.read_bytes(start, (end - start) * LEAF_BYTES),
        )
        start = end


def publish_checkpoint(root: str, generation: Generation, size: int, note: bytes) -> None:
    """Publish a signed state of a log and the leaves it is of. Raises OSError.

    `note` is the checkpoint's bytes and `size` its number of leaves. The leaves come first: a
    state without them proves nothing.

    `root` is the project's folder.
    """
    publish_leaves(root, generation)
    _publish(root, generation, f"{size}-{hash_bytes(note)[:8]}.checkpoint", note)


def publish_file(root: str, generation: Generation, kind: str, data: bytes) -> None:
    """Publish a file of a log under a name that is unique to its content. Raises OSError.

    `kind` is the name's ending, such as `enrolled`.

    `root` is the project's folder, and `data` the file's whole content.
    """
    _publish(root, generation, f"{hash_bytes(data)[:16]}.{kind}", data)


def _publish(root: str, generation: Generation, name: str, data: bytes) -> None:
    """Write a file of a log durably, mode 0644; one of this name is left as it is."""
    with durable.folder(root, f"{layout.TRAIL_LOG}/{generation.name}", create=True) as fd:
        FileRecordStore(root, "committed").shield_trail()
        try:
            durable.create_exclusive(fd, name, data, durable.SHARED)
        except FileExistsError:
            os.fsync(fd)  # another command made the same file and may not have come to that


def read_newest(root: str, folder: str, name: str) -> Iterator[Leaf]:
    """Yield the newest leaves of another clone's log. Malformed lines are skipped here, and verify
    reports them."""
    for file, start, end in list_segments(root, name)[-1:]:
        size = min(end - start, _MERGED) * LEAF_BYTES
        try:
            with durable.opened(root, f"{folder}/{file}") as opened:
                data = os.pread(opened, size, max(0, os.fstat(opened).st_size - size))
        except (OSError, InvocationError):
            continue
        for raw in data.split(b"\n"):
            try:
                yield parse_leaf(raw)
            except LogDamagedError:
                continue


def find_published(root: str, invocation_id: str) -> str | None:
    """Return the path of a published record, if it is here."""
    folder = f"{root}/{layout.trail_folder(invocation_id)}"
    return next(
        (
            f"{folder}/{name}"
            for name in list_names(folder)
            if name.endswith(f"-{invocation_id}.jsonl")
        ),
        None,
    )
