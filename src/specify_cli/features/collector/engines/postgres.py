"""A collector's database on PostgreSQL (extra `postgres`): many collectors, one ledger.

    database = PostgresDatabase("postgresql://db1,db2/spec_kitty?target_session_attrs=read-write")

A connection that is lost is opened anew, at whichever host of the list takes writes, and the
transaction runs again: what it stored before the loss it finds, and calls a duplicate. PostgreSQL
takes no U+0000 in a text, so texts are escaped: U+FFFF begins an escape, which no filter can hold.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from specify_cli.features.collector.engines.database import (
    Act,
    Changed,
    Rows,
    Transaction,
    read_steps,
)
from specify_cli.features.collector.storage import StorageError, StorageUnreachable, StorageUnusable

T = TypeVar("T")
_LOCK = 0x534B4331  # locked while a schema is migrated
_CONNECTIONS = 8
# A transaction runs again while its connections are lost, so long; a sender then gets the answer to
# come again.
_RETRY_SECONDS = 4.0
_DEFAULTS = {
    "connect_timeout": "2",
    "tcp_user_timeout": "4000",
    "keepalives_idle": "10",
    "target_session_attrs": "read-write",
    "application_name": "spec-kitty collector",
}
_LOST = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
# Nobody answers, or a server that is starting, stopping or has no connection left.
_MAY_BE_STARTING = (None, "57P03", "57P01", "53300")
# Beyond the server's limits: of a value, not of the server.
_OF_WHAT_WAS_SENT = "54"
# The tables that hold values of records.
_VALUES = "event", "invocation", "actor", "conflict", "record", "record_order", "object"
_ESCAPED = re.compile("\uffff(.)")


def _escape(value: object) -> object:
    return (
        value.replace("\uffff", "\uffff\uffff").replace("\0", "\uffff\ufffe")
        if isinstance(value, str)
        else value
    )


def _unescape(value: object) -> object:
    if not isinstance(value, str) or "\uffff" not in value:
        return value
    return _ESCAPED.sub(lambda match: "\0" if match[1] == "\ufffe" else "\uffff", value)


class _Statements:
    """A Transaction on one connection."""

    # A cast to JSON refuses a NUL anywhere in the body. Quotes within strings are escaped.
    OBJECTS = r"""substring(body from '"objects":(\[[^]]*\])')"""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self.changed: Changed = []

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        escaped = [_escape(value) for value in values]
        cursor = self._connection.execute(_translate(statement), escaped)
        if cursor.description is None:
            return []
        return [tuple(map(_unescape, row)) for row in cursor.fetchall()]

    def run_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        escaped = [[_escape(value) for value in row] for row in rows]
        with self._connection.cursor() as cursor:
            cursor.executemany(_translate(statement), escaped)


def _translate(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


class PostgresDatabase:
    """A schema of a PostgreSQL database, through connections that stay open.

    Raises StorageUnusable for a schema that is not a collector's, StorageError where no server
    takes writes.
    """

    HAS_WORDS = False

    def __init__(self, dsn: str) -> None:
        try:
            options = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            raise StorageUnusable(f"not an address of a PostgreSQL database: {error}") from error
        self._place = f"{options.get('host', 'this machine')}/{options.get('dbname', '')}"
        self._options: dict[str, Any] = {**_DEFAULTS, **options}
        self._idle: list[psycopg.Connection[Any]] = []
        self._turns = threading.BoundedSemaphore(_CONNECTIONS)
        self._closing = threading.Event()
        try:
            self._idle.append(self._connect())
            self.write(lambda transaction: _migrate(transaction, self._place))
        except psycopg.Error as error:
            kind = StorageUnreachable if error.sqlstate in _MAY_BE_STARTING else StorageUnusable
            raise kind(f"{self._place}: {' '.join(str(error).split())}") from error
        except StorageError as error:
            self.close()
            raise StorageUnusable(str(error)) from error

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)
        # Every commit waits for the disk, and for the standbys that the server calls synchronous.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
        )
        connection.execute("SET statement_timeout = '30s'")
        return connection

    def write(self, act: Act[T]) -> T:
        def run(connection: "psycopg.Connection[Any]") -> T:
            # Ends with COMMIT, after which the result counts.
            with connection.transaction():
                return act(_Statements(connection))

        return self._run(run)

    def read(self, act: Act[T]) -> T:
        return self._run(lambda connection: act(_Statements(connection)))

    def _run(self, run: Callable[["psycopg.Connection[Any]"], T]) -> T:
        end = time.monotonic() + _RETRY_SECONDS
        while True:
            connection: psycopg.Connection[Any] | None = None
            try:
                with self._turns:
                    connection = self._take()
                    result = run(connection)
                    self._idle.append(connection)
                    return result
            except (*_LOST, psycopg.errors.DeadlockDetected) as error:
                _drop(connection)
                if str(getattr(error, "sqlstate", None)).startswith(_OF_WHAT_WAS_SENT):
                    raise StorageError(f"{self._place}: {type(error).__name__}") from error
                if time.monotonic() > end or self._closing.wait(0.1):
                    raise StorageError(
                        f"{self._place}: no server answers ({type(error).__name__})"
                    ) from error
            except psycopg.Error as error:
                _drop(connection)
                # The message of a constraint would quote what was sent.
                raise StorageError(
                    f"{self._place}: {type(error).__name__} {error.sqlstate or ''}".strip()
                ) from error
            except BaseException:
                _drop(connection)
                raise

    def _take(self) -> "psycopg.Connection[Any]":
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def require_room(self) -> None:
        """Do nothing: the disk is the server's, which refuses by itself."""

    def purge(self) -> bool:
        """Rewrite the tables, so that no dead row is left in them, and what the planner noted of
        their values; the server's log and backups are its own.

        A row that another transaction, begun before, may still read is written again: the oldest
        row that may be left, `relfrozenxid`, has to be younger than the erasure.
        """

        def vacuum(connection: "psycopg.Connection[Any]") -> bool:
            [mark] = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchall()
            try:
                # Who does not own the database gets a warning, and keeps what the planner noted.
                for table in (*_VALUES, "pg_statistic"):
                    connection.execute(f"VACUUM (FULL, ANALYZE) {table}")
            except psycopg.errors.QueryCanceled:  # larger than the time of a statement
                return False
            return not connection.execute(
                "SELECT 1 FROM pg_class WHERE oid = ANY(%s::regclass[])"
                " AND age(relfrozenxid) > age(%s::xid)",
                (list(_VALUES), *mark),
            ).fetchall()

        return self._run(vacuum)

    def close(self) -> None:
        self._closing.set()
        while self._idle:
            _drop(self._idle.pop())


def _drop(connection: "psycopg.Connection[Any] | None") -> None:
    if connection is not None:
        connection.close()


def _migrate(transaction: Transaction, place: str) -> None:
    """Bring a schema to the newest version; of several collectors that begin at once one does
    it."""
    transaction.run("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
    [(encoding,)] = transaction.run("SHOW server_encoding")
    if encoding != "UTF8":
        raise StorageUnusable(f"{place}: expected a database in UTF8, found {encoding}")
    transaction.run("CREATE TABLE IF NOT EXISTS collector (version INTEGER NOT NULL)")
    rows = transaction.run("SELECT version FROM collector")
    version, steps = rows[0][0] if rows else 0, read_steps("postgres")
    if version > len(steps):
        raise StorageUnusable(
            f"{place} has schema version {version}, this collector knows {len(steps)}: a newer "
            "spec-kitty made it"
        )
    try:
        for statement in (statement for step in steps[version:] for statement in step):
            transaction.run(statement)
    except psycopg.errors.DuplicateTable as error:
        raise StorageUnusable(f"{place} holds tables of another program") from error
    if version < len(steps):
        transaction.run("DELETE FROM collector")
        transaction.run("INSERT INTO collector VALUES (?)", (len(steps),))
