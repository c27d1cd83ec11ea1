"""A collector's database as a source of records for `--source`; what reads it is loaded when one is
named."""

from __future__ import annotations

from collections.abc import Iterator

from specify_cli.libraries.signed_log.notes import Policy
from specify_cli.libraries.work.sharing import Engine
from specify_cli.libraries.work.sources import Source, SourceKind
from specify_cli.record.findings import SetReport


def recognize(source: str) -> bool:
    """Return whether a text names a collector's database and no folder or archive."""
    if source.startswith(("postgresql://", "postgres://")):
        return True
    try:
        with open(source, "rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def list_sources(source: str) -> list[Source]:
    """Return each project of which the database holds whole records. Raises StoredDataError."""
    from specify_cli.features.collector.reading import list_sources  # of the extra `collector`

    return list_sources(source)


def verify(source: str, engine: Engine, policy: Policy | None) -> Iterator[tuple[str, SetReport]]:
    """Yield each project with what its records prove. Raises StoredDataError, EnvironmentFault."""
    from specify_cli.features.collector.reading import verify_ledger  # as above

    yield from verify_ledger(source, engine, policy)


LEDGER = SourceKind(recognize, list_sources, verify)
