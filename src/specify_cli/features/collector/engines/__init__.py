"""The collector's storage on a database: SQLite for one machine, PostgreSQL for several collectors.

    from specify_cli.features.collector.engines.ledger import open_database
    open_database(f"{root}/ledger.db")

Reading order: `database.py` (what is asked of a database), `sql_storage.py` (events and the rows of
a list, written together), `sqlite.py`, `postgres.py` (extra `postgres`), `words.py` (by which words
SQLite finds the rows of a list), `schema/` (the tables), `ledger.py` (which engine an address
opens).

Both engines pass one suite of tests. An event, its rows and its totals are one transaction. Older
databases are migrated at the first start. Only `features/collector` imports it.
"""
