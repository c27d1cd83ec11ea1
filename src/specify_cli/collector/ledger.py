"""What the addresses of a collector's databases open: a storage over all of them, and the home of everything else."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from specify_cli.collector.engines.database import Database
from specify_cli.collector.engines.shards import ShardedStorage
from specify_cli.collector.engines.sql_storage import SqlStorage
from specify_cli.collector.engines.sqlite import SqliteDatabase
from specify_cli.collector.storage import StorageUnusable


class Ledger(NamedTuple):
    """A collector's databases: events on every shard; tokens, and on PostgreSQL the witness, in the first, its home."""

    home: Database
    storage: ShardedStorage


def open_ledger(addresses: Sequence[str]) -> Ledger:
    """Open the databases of a collector, the home first.

    Raises StorageUnusable; ModuleNotFoundError where the extra of PostgreSQL is missing.
    """
    databases: list[Database] = []
    try:
        for address in addresses:
            databases.append(open_database(address))
        shards = {storage.get_name(): storage for storage in map(SqlStorage, databases)}
        if len(shards) < len(databases):
            raise StorageUnusable("two of the databases are one")
    except BaseException:
        for database in databases:
            database.close()
        raise
    return Ledger(databases[0], ShardedStorage(databases[0], next(iter(shards)), shards))


def open_database(address: str) -> Database:
    """Open the database of a collector: a `postgresql://` address, else a SQLite file.

    Raises StorageUnusable; ModuleNotFoundError where the extra of PostgreSQL is missing.
    """
    if not address.startswith(("postgresql://", "postgres://")):
        return SqliteDatabase(address)
    from specify_cli.collector.engines.postgres import PostgresDatabase  # loads libpq

    return PostgresDatabase(address)


def read_now() -> str:
    """Return the time as what is received is marked with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
