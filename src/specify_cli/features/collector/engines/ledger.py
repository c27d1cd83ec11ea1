"""What the address of a collector's database opens: its ledger, and the database itself for tokens
and the witness."""

import time
from typing import NamedTuple

from specify_cli.features.collector.engines.database import Database
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.engines.sqlite import SqliteDatabase
from specify_cli.record.ids import rfc3339


class Ledger(NamedTuple):
    """A collector's database with the storage of events on it; tokens, and on PostgreSQL the
    witness, lie there too."""

    home: Database
    storage: SqlStorage


def open_ledger(address: str) -> Ledger:
    """Open the database of a collector, as `open_database` does, and raise as that."""
    database = open_database(address)
    try:
        storage = SqlStorage(database)
        storage.require_whole(address)
    except BaseException:
        database.close()
        raise
    return Ledger(database, storage)


def open_database(address: str) -> Database:
    """Open the database of a collector: a `postgresql://` address, else a SQLite file.

    Raises StorageUnusable; ModuleNotFoundError where the extra of PostgreSQL is missing.
    """
    if not address.startswith(("postgresql://", "postgres://")):
        return SqliteDatabase(address)
    from specify_cli.features.collector.engines.postgres import PostgresDatabase  # loads libpq

    return PostgresDatabase(address)


def read_now() -> str:
    """Return the time as what is received is marked with it."""
    return rfc3339(time.time_ns() // 1_000_000)
