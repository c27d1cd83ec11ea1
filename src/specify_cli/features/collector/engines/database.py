"""What a collector asks of the database that its ledger, tokens and witness lie in.

    database.write(lambda transaction: transaction.run("UPDATE totals SET open = ?", (1,)))

Statements are written once for all engines, with `?` where a value goes. A step of the schema is a
part of a file in `schema/` that begins with `-- version N`; `-- include NAME` stands for the
statements of another file.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from specify_cli.features.collector.storage import Row

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Changed = list[tuple[Row, Row | None]]
"""Rows of the list that were written, each with the one before."""


class Transaction(Protocol):
    """Statements that count together or not at all.

    An engine that finds rows by words writes those of `changed` at the end.
    """

    OBJECTS: str
    """The objects that the body of a record names, as JSON: bodies may be large."""
    changed: Changed

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """Run one statement and return its rows."""

    def run_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row of values."""


Act = Callable[[Transaction], T]
"""What is run as one transaction."""


class Database(Protocol):
    """Where statements run. Methods may be called from several threads at once and raise
    StorageError."""

    HAS_WORDS: bool
    """Whether rows of a list are found by the table `word` (`words.py`), or by indexes of pairs of
    columns."""

    def write(self, act: Act[T]) -> T:
        """Run an act as one transaction and return its result once that is durable; it may run more
        than once."""

    def read(self, act: Act[T]) -> T:
        """Run an act that changes nothing."""

    def require_room(self) -> None:
        """Raise StorageError where a disk of this machine has no room for what a request brings."""

    def purge(self) -> bool:
        """Let nothing of what was deleted be left in tables and the engine's own files; return
        whether that was done in the time there is."""

    def close(self) -> None:
        """Release the connections or the file."""


def read_steps(name: str) -> list[list[str]]:
    """Return the statements of each version of a schema, the first version first."""
    folder = Path(__file__).parent / "schema"
    text = re.sub(
        "^-- include (.*)$",
        lambda found: (folder / f"{found[1]}.sql").read_text(encoding="utf-8"),
        (folder / f"{name}.sql").read_text(encoding="utf-8"),
        flags=re.M,
    )
    steps = [
        re.sub("^--.*", "", step.partition("\n")[2], flags=re.M)
        for step in text.split("\n-- version ")[1:]
    ]
    return [[statement for statement in step.split(";") if statement.strip()] for step in steps]
