"""Where a command's work over many records is done, what it is about, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from specify_cli.cli import shell
from specify_cli.cli.command_table import Values
from specify_cli.cli.terminal.render import bar_when_long
from specify_cli.errors import CallerError
from specify_cli.libraries.work.sharing import Engine, parse_scheduler
from specify_cli.libraries.work.sources import Source, find_sources


@contextmanager
def open_engine(values: Values, what: str) -> Iterator[Engine]:
    """Open the engine that `--workers` and `--engine` name, with a bar where a person watches and has to wait.

    Raises CallerError USAGE, INVALID_VALUE.
    """
    workers, address = values["workers"], shell.get_text(values, "engine")
    assert isinstance(workers, int)
    if workers < 1:
        raise CallerError("INVALID_VALUE", f"--workers: expected 1 or more, found {workers}", "--workers 2")
    if address is not None and workers > 1:
        raise CallerError("USAGE", "--workers and --engine exclude each other", "give one of the two")
    scheduler = None if address is None else parse_scheduler(address)
    with bar_when_long(what) as tell:
        yield Engine(workers, scheduler, tell)


def list_sources(values: Values, root: str) -> list[Source]:
    """Return the sources that `--source` names; without it the project here."""
    given = shell.get_text(values, "source")
    if given is not None and names_ledger(values):
        from specify_cli.features.collector.reading import list_held  # loads a collector's storage

        return list_held(given)
    return [Source(".", root)] if given is None else find_sources(given)


def names_ledger(values: Values) -> bool:
    """Return whether `--source` names a collector's database and no folder or archive."""
    given = shell.get_text(values, "source")
    return given is not None and _is_database(given)


def _is_database(source: str) -> bool:
    if source.startswith(("postgresql://", "postgres://")):
        return True
    try:
        with open(source, "rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False
