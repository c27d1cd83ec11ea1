"""Where a command's work over many records is done, what it is about, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from specify_cli.cli import shell
from specify_cli.cli.tables.points import excuse_package, list_fills, load
from specify_cli.cli.terminal.render import bar_when_long
from specify_cli.errors import CallerError
from specify_cli.libraries.work.sharing import Engine, parse_scheduler
from specify_cli.libraries.work.sources import Source, SourceKind, find_sources
from specify_cli.room import Values


@contextmanager
def open_engine(values: Values, what: str) -> Iterator[Engine]:
    """Open the engine that `--workers` and `--engine` name, with a bar where a person watches and
    has to wait.

    Raises CallerError USAGE, INVALID_VALUE.
    """
    workers, address = values["workers"], shell.get_text(values, "engine")
    assert isinstance(workers, int)
    if not 1 <= workers <= 1024:
        raise CallerError(
            "INVALID_VALUE", f"--workers: expected 1 to 1024, found {workers}", "--workers 2"
        )
    if address is not None and workers > 1:
        raise CallerError(
            "USAGE", "--workers and --engine exclude each other", "give one of the two"
        )
    scheduler = None if address is None else parse_scheduler(address)
    with bar_when_long(what) as tell:
        yield Engine(workers, scheduler, tell)


def list_sources(values: Values, root: str) -> list[Source]:
    """Return the sources that `--source` names; without it the project here."""
    source, kind = shell.get_text(values, "source"), find_kind(values)
    if source is None:
        return [Source(".", root)]
    return kind.list_sources(source) if kind else find_sources(source)


def find_kind(values: Values) -> SourceKind | None:
    """Return the kind of source that `--source` names where a room brought it; None for a folder or
    an archive."""
    source = shell.get_text(values, "source")
    if source is None:
        return None

    def recognize(run: str) -> SourceKind | None:
        kind: SourceKind = load(run)
        return kind if kind.recognizes(source) else None

    # one that fails must not keep others from a folder
    kinds = (excuse_package(run, partial(recognize, run)) for _, run, _ in list_fills("sources"))
    return next((kind for kind in kinds if kind is not None), None)
