"""Write a log in the form that other people's software reads: C2SP tlog-tiles."""

from __future__ import annotations

from collections.abc import Iterator

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.libraries.signed_log.merkle import WIDTH
from specify_cli.libraries.signed_log.notes import Checkpoint
from specify_cli.libraries.signed_log.signing import LevelFiles
from specify_cli.trail.log.leaves import Generation


def export_tiles(generation: Generation, checkpoint: Checkpoint, folder: str) -> int:
    """Write checkpoint, tiles and entry bundles of a signed log into a new folder; return how many
    files.

    The checkpoint comes last: a folder without one is not whole. Raises CallerError FILE_EXISTS,
    EnvironmentFault.
    """
    try:
        os.mkdir(folder)
        written = 0
        for path, data in (
            *_read_tiles(LevelFiles(generation), checkpoint.size),
            *_bundle(generation, checkpoint.size),
        ):
            head, _, name = path.rpartition("/")
            with durable.folder(folder, head, create=True) as fd:
                durable.create_exclusive(fd, name, data, durable.SHARED)
            written += 1
        with durable.folder(folder) as fd:
            durable.create_exclusive(fd, "checkpoint", str(checkpoint).encode(), durable.SHARED)
        return written + 1
    except FileExistsError as error:
        raise CallerError(
            "FILE_EXISTS", f"{folder} exists; nothing is overwritten", "name a new folder"
        ) from error
    except OSError as error:
        raise durable.write_failed(folder, error) from error


def _read_tiles(levels: LevelFiles, size: int) -> Iterator[tuple[str, bytes]]:
    level = 0
    while size:
        for start in range(0, size, WIDTH):
            width = min(WIDTH, size - start)
            yield _name(f"tile/{level}", start // WIDTH, width), levels.read(level, start, width)
        level, size = level + 1, size // WIDTH


def _bundle(generation: Generation, size: int) -> Iterator[tuple[str, bytes]]:
    for start in range(0, size, WIDTH):
        width = min(WIDTH, size - start)
        entries = [leaf.entry for leaf in generation.read_leaves(start, width)]
        data = b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
        yield _name("tile/entries", start // WIDTH, width), data


def _name(prefix: str, number: int, width: int) -> str:
    """Return a tile's path: its number in groups of three digits, all but the last after an x
    (tlog-tiles)."""
    groups = [f"{number % 1000:03d}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03d}")
    partial = f".p/{width}" if width < WIDTH else ""
    return f"{prefix}/{'/'.join(groups)}{partial}"
