"""What the address of a collector's database opens."""

from specify_cli.collector.database import Database, SqliteDatabase


def open_database(address: str) -> Database:
    """Open the database of a collector: a `postgresql://` address, else a SQLite file.

    Raises StorageUnusable; ModuleNotFoundError where the extra of PostgreSQL is missing.
    """
    if not address.startswith(("postgresql://", "postgres://")):
        return SqliteDatabase(address)
    from specify_cli.collector.postgres import PostgresDatabase  # loads libpq

    return PostgresDatabase(address)
