"""SQLite below a collector: one file, and any number of processes that have it open.

database = SqliteDatabase("events.db")
"""

import shutil
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from doctrine import os
from specify_cli.features.collector.engines.database import (
    Act,
    Changed,
    Rows,
    Transaction,
    read_steps,
)
from specify_cli.features.collector.engines.rows import write_words
from specify_cli.features.collector.engines.words import COLUMNS, list_words, place_of
from specify_cli.features.collector.storage import StorageError, StorageUnusable

T = TypeVar("T")
_Asked = tuple[Act[Any], Future[Any]]
_APPLICATION_ID = 0x534B4331  # "SKC1": another program's database is never written to
_BUSY_MS = 10_000
# The largest body a collector takes. What is smaller may find room in the log on a full disk.
_ROOM = 8 * 1024 * 1024
# So many acts are one transaction at most.
_TOGETHER = 64


def _join_words(*values: str | None) -> str:
    return " ".join(list_words(dict(zip(COLUMNS, values, strict=True))))


class _Connection:
    """A SQLite connection that several threads take turns at."""

    OBJECTS = "json_extract(body, '$.objects')"

    def __init__(self, path: str) -> None:
        # isolation_level None: transactions begin and end where they are written.
        self.raw = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
        )
        self.lock = threading.Lock()
        self.changed: Changed = []
        # A step of the schema writes the words of rows that were there before.
        self.raw.create_function("place_of", 1, place_of, deterministic=True)
        self.raw.create_function("list_words", len(COLUMNS), _join_words, deterministic=True)

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        return self.raw.execute(statement, values).fetchall()

    def run_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        self.raw.executemany(statement, rows)

    def run_transaction(self, begin: str, act: Act[T]) -> T:
        with self.lock, _explained():
            self.changed = []
            self.raw.execute(begin)
            try:
                result = act(self)
                write_words(self, self.changed)
                self.raw.execute("COMMIT")
            except BaseException:
                if self.raw.in_transaction:
                    self.raw.execute("ROLLBACK")
                raise
            return result


@contextmanager
def _explained() -> Iterator[None]:
    """Raise StorageError where SQLite, or the disk below it, refuses. Of a row that is no UTF-8 any
    more SQLite's message holds the whole text, which is left out; its name may be none either."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StorageError(str(error).partition(" with text ")[0]) from error


def _run(
    own: _Connection, asked: Sequence[_Asked], answers: list[Callable[[], None]], _: Transaction
) -> None:
    for act, answer in asked:
        before = len(own.changed)
        own.run("SAVEPOINT act")
        try:
            with _explained():
                answers.append(partial(answer.set_result, act(own)))
        except BaseException as error:
            if not own.raw.in_transaction:
                raise  # the disk is full, and SQLite took back what the others wrote too
            own.run("ROLLBACK TO act")
            del own.changed[before:]
            answers.append(partial(answer.set_exception, error))
        own.run("RELEASE act")


class SqliteDatabase:
    """One SQLite file: write-ahead log, synced before anything is acknowledged.

    Any number of processes may have the file open; SQLite lets one of them write at a time. What
    threads ask for while another commits becomes one transaction, and each is answered when that is
    durable: whole pages are written, and acts that come together share them. Reading has a
    connection of its own, so that a long list never holds up what arrives. Raises StorageUnusable
    for a file that is not a collector's, StorageError where the disk refuses.
    """

    HAS_WORDS = True

    def __init__(self, path: str, *, schema: str = "sqlite", room: int = _ROOM) -> None:
        self._path, self._room = path, room
        try:
            # Created for its owner alone; SQLite gives the log next to it the same mode. A
            # witness's key is no link.
            follow = os.O_NOFOLLOW if schema == "witness" else 0
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | follow, 0o600))
        except OSError as error:
            raise StorageUnusable(f"{path}: {error.strerror}") from error
        self._writer, self._reader = _Connection(path), _Connection(path)
        # What is asked for is settled by one thread, all that there is at a time.
        self._asked: deque[_Asked] = deque()
        self._turns = ThreadPoolExecutor(1, "collector-writer")
        try:
            # Of a new file. A commit writes whole pages: of this size an event by itself writes
            # half as many bytes as of 4096, and a batch a tenth less.
            self._writer.run("PRAGMA page_size = 2048")
            self._writer.run_transaction(
                "BEGIN IMMEDIATE", lambda transaction: _migrate(transaction, path, schema)
            )
            self._writer.run("PRAGMA journal_mode = WAL")
            # Acknowledged means on the disk: every commit waits for it.
            self._writer.run("PRAGMA synchronous = FULL")
            # Pages that every commit writes come to the file once in so many.
            self._writer.run("PRAGMA wal_autocheckpoint = 8000")
            # What is deleted is overwritten, in pages of this connection.
            self._writer.run("PRAGMA secure_delete = 1")
            self._reader.run("PRAGMA query_only = 1")
        except StorageUnusable:
            self.close()
            raise
        except (sqlite3.DatabaseError, StorageError) as error:
            self.close()
            raise StorageUnusable(f"{path}: {error}") from error

    def write(self, act: Act[T]) -> T:
        answer: Future[T] = Future()
        self._asked.append((act, answer))
        try:
            self._turns.submit(self._settle)
        except RuntimeError as error:
            raise StorageError("the database is closed") from error
        return answer.result()

    def _settle(self) -> None:
        """Run what is asked for as one transaction, in which what a failing act wrote is rolled
        back."""
        asked = [self._asked.popleft() for _ in range(min(len(self._asked), _TOGETHER))]
        answers: list[Callable[[], None]] = []
        try:
            if asked:
                # Of two processes one waits here, not in the middle.
                run = partial(_run, self._writer, asked, answers)
                self._writer.run_transaction("BEGIN IMMEDIATE", run)
        except BaseException as error:  # raised again where it was asked for
            answers = [partial(answer.set_exception, error) for _, answer in asked]
        for answer in answers:
            answer()

    def read(self, act: Act[T]) -> T:
        return self._reader.run_transaction("BEGIN", act)

    def require_room(self) -> None:
        try:
            free = shutil.disk_usage(self._path).free
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror}") from error
        if free < self._room:
            raise StorageError(f"the disk is full: it has {free} bytes left")

    def purge(self) -> bool:
        """Write the words anew, which keep what was deleted until then, and empty the log; a reader
        that is in the middle of it keeps the log."""
        with self._writer.lock, _explained():
            self._writer.run("INSERT INTO word (word) VALUES ('optimize')")
            [(busy, *_)] = self._writer.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def close(self) -> None:
        self._turns.shutdown()
        for connection in (self._writer, self._reader):
            with connection.lock:
                connection.raw.close()


def _migrate(transaction: Transaction, path: str, schema: str) -> None:
    """Bring a file to the newest version of its schema. A witness's file has carried neither mark
    nor version."""
    steps = read_steps(schema)
    [(version,)], [(mark,)] = (
        transaction.run("PRAGMA user_version"),
        transaction.run("PRAGMA application_id"),
    )
    [(tables,)] = transaction.run("SELECT count(*) FROM sqlite_schema")
    if schema == "sqlite" and mark != _APPLICATION_ID and tables:
        raise StorageUnusable(f"{path} is a database of another program")
    if version > len(steps):
        raise StorageUnusable(
            f"{path} has schema version {version}, this collector knows {len(steps)}: a newer "
            "spec-kitty made it"
        )
    for statement in (statement for step in steps[version:] for statement in step):
        transaction.run(statement)
    if version < len(steps):
        transaction.run(f"PRAGMA application_id = {_APPLICATION_ID}")
        transaction.run(f"PRAGMA user_version = {len(steps)}")
