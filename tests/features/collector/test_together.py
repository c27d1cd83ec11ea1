"""What senders bring while SQLite commits becomes one transaction, and each is answered for itself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from envelopes import completed, id_of, started
from specify_cli.features.collector.engines.database import Transaction
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.engines.sqlite import SqliteDatabase
from specify_cli.features.collector.storage import Filter, StorageError
from support import wait_until

NOW = "2026-11-21T12:00:00.000Z"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with closing(SqliteDatabase(str(tmp_path / "events.db"))) as opened:
        yield opened


def ask_together(database: SqliteDatabase, acts: Sequence[Callable[[], object]]) -> tuple[list[Future[object]], int]:
    """Let each act be asked for by a thread of its own, in order, while the writer is busy; return what came of them
    and the number of commits."""
    commits: list[str] = []
    begun, free = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        begun.set()
        free.wait()

    database._writer.raw.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    with ThreadPoolExecutor(len(acts) + 1) as pool:
        pool.submit(database.write, hold)
        begun.wait()
        asked = []
        for number, act in enumerate(acts, 1):
            asked.append(pool.submit(act))
            wait_until(partial(_is_queued, database, number))
        free.set()
    return asked, len(commits)


def _is_queued(database: SqliteDatabase, number: int) -> bool:
    return len(database._asked) == number


def test_what_is_asked_for_during_a_commit_is_one_transaction(database: SqliteDatabase) -> None:
    storage = SqlStorage(database)

    asked, commits = ask_together(
        database, [partial(storage.accept, [started(n)], NOW, f"clone {n}") for n in range(20)]
    )

    assert [one.result() for one in asked] == [["stored"]] * 20
    assert commits == 2  # that of the first one, and that of the twenty
    assert [row.invocation_id for row in storage.rows(Filter(), 99)] == [id_of(n) for n in reversed(range(20))]


def test_a_start_and_its_close_in_one_transaction_are_found_by_what_holds_after_it(database: SqliteDatabase) -> None:
    storage = SqlStorage(database)

    asked, _ = ask_together(
        database,
        [partial(storage.accept, [event], NOW, "ada") for event in (started(1), completed(1), started(1))],
    )

    assert [one.result() for one in asked] == [["stored"], ["stored"], ["duplicate"]]
    assert [row.invocation_id for row in storage.rows(Filter(outcome="done", action="implement"), 9)] == [id_of(1)]
    assert storage.rows(Filter(status="open", action="implement"), 9) == []


@pytest.mark.parametrize("error", [StorageError("damaged"), sqlite3.DataError("damaged"), SystemExit("damaged")])
def test_an_act_that_fails_fails_alone(database: SqliteDatabase, error: BaseException) -> None:
    storage = SqlStorage(database)

    def fail(transaction: Transaction) -> None:
        transaction.run("DELETE FROM invocation")
        raise error

    acts: list[Callable[[], object]] = [partial(storage.accept, [started(n)], NOW, "ada") for n in range(4)]
    acts.insert(2, partial(database.write, fail))
    asked, _ = ask_together(database, acts)

    with pytest.raises((StorageError, SystemExit), match="damaged"):
        asked.pop(2).result()
    assert [one.result() for one in asked] == [["stored"]] * 4
    assert len(storage.rows(Filter(), 9)) == 4
    assert storage.accept([started(9)], NOW, "ada") == ["stored"]


def test_a_file_that_another_process_holds_is_waited_for_once_by_all(database: SqliteDatabase, tmp_path: Path) -> None:
    begun: list[str] = []
    database._writer.raw.execute("PRAGMA busy_timeout = 0")
    database._writer.raw.set_trace_callback(lambda text: begun.append(text) if text.startswith("BEGIN") else None)
    with (
        closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as other,
        ThreadPoolExecutor(20) as pool,
    ):
        other.execute("BEGIN IMMEDIATE")
        with database._writer.lock:
            asked = [pool.submit(database.write, lambda _: None) for _ in range(20)]
            # The first turn waits here, with one act or more.
            wait_until(lambda: database._turns._work_queue.qsize() == 19)
        errors = [str(one.exception()) for one in asked]

    assert errors == ["database is locked"] * 20
    assert len(begun) <= 2


def test_a_disk_without_room_for_a_body_is_not_ready(tmp_path: Path) -> None:
    """The little that is written to find out may fit where a batch does not."""
    path = str(tmp_path / "events.db")
    with closing(SqliteDatabase(path, room=2**62)) as small, closing(SqliteDatabase(path)) as large:
        SqlStorage(large).probe()
        with pytest.raises(StorageError, match="the disk is full"):
            SqlStorage(small).probe()


def test_where_the_disk_is_full_each_sender_hears_what_became_of_its_own(database: SqliteDatabase) -> None:
    storage = SqlStorage(database)
    [(pages,)] = database._writer.run("PRAGMA page_count")
    database._writer.run(f"PRAGMA max_page_count = {pages + 2}")

    asked, _ = ask_together(database, [partial(storage.accept, [started(n)], NOW, "ada") for n in range(30)])
    stored = {id_of(n) for n, one in enumerate(asked) if one.exception() is None}
    database._writer.run("PRAGMA max_page_count = 9999")

    assert {row.invocation_id for row in storage.rows(Filter(), 99)} == stored
    assert {str(one.exception()) for one in asked} - {"None"} == {"database or disk is full"}
    assert storage.accept([started(99)], NOW, "ada") == ["stored"]
