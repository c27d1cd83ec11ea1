"""One suite for every engine behind the collector's Protocol, and what SQLite alone promises."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collecting import OTHER_PROJECT, PROJECT, completed, id_of, started
from memory_storage import MemoryStorage
from specify_cli.collector.storage import (
    CLOSED,
    CONFLICT,
    DUPLICATE,
    OPEN,
    OWNED,
    STORED,
    Filter,
    Place,
    SqliteStorage,
    Storage,
    StorageError,
    StorageUnusable,
    Totals,
)

NOW, LATER = "2026-11-21T12:00:00.000Z", "2026-11-21T13:00:00.000Z"
ALL = Filter()


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    engine: Storage = MemoryStorage() if request.param == "memory" else SqliteStorage(str(tmp_path / "events.db"))
    yield engine
    engine.close()


def ids(storage: Storage, wanted: Filter = ALL, limit: int = 200, after: Place | None = None) -> list[str]:
    return [row.invocation_id for row in storage.rows(wanted, limit, after)]


def test_an_event_is_stored_once_and_then_a_duplicate(storage: Storage) -> None:
    assert [STORED, STORED] == storage.accept([started(1), completed(1)], NOW)
    assert [DUPLICATE, DUPLICATE] == storage.accept([completed(1), started(1)], LATER)
    assert Totals(1, 0, 2, 0) == storage.totals()


def test_a_batch_that_repeats_an_event_stores_it_once(storage: Storage) -> None:
    assert [STORED, DUPLICATE, STORED] == storage.accept([started(1), started(1), started(2)], NOW)


def test_events_are_kept_as_received_with_the_time_they_came(storage: Storage) -> None:
    storage.accept([started(1)], NOW)
    storage.accept([completed(1)], LATER)

    (held,) = storage.phases(id_of(1)).values()

    assert [("started", NOW, started(1)), ("completed", LATER, completed(1))] == [tuple(one)[:3] for one in held]


def test_the_client_that_sent_an_invocation_first_owns_it(storage: Storage) -> None:
    storage.accept([started(1)], NOW, "ada")

    assert storage.accept([completed(1, outcome="done")], LATER, "mallory") == [OWNED]
    assert storage.accept([started(1)], LATER, "mallory") == [DUPLICATE]
    assert storage.accept([completed(1, outcome="failed")], LATER, "ada") == [STORED]
    assert [(one.phase, one.client, one.held_sha256) for one in storage.conflicts(9, id_of(1))] == [
        ("completed", "mallory", "")
    ]
    assert [held.client for held in storage.phases(id_of(1))[PROJECT]] == ["ada", "ada"]
    assert storage.conflicts(9, id_of(2)) == []


def test_of_two_clients_that_disagree_the_first_stays_and_the_other_is_named(storage: Storage) -> None:
    storage.accept([started(1)], NOW, "ada")

    assert storage.accept([started(1, action="review")], LATER, "bob") == [CONFLICT]
    assert [one.client for one in storage.conflicts(9)] == ["bob"]


def test_the_same_key_with_other_content_is_a_conflict_and_what_came_first_stays(storage: Storage) -> None:
    storage.accept([completed(1)], NOW)

    assert [CONFLICT] == storage.accept([completed(1, outcome="failed")], LATER)
    (held,) = storage.phases(id_of(1))[PROJECT]
    (seen,) = storage.conflicts(10)
    assert completed(1) == held.event
    assert (PROJECT, id_of(1), "completed", LATER, 1) == (
        seen.project_uuid,
        seen.invocation_id,
        seen.phase,
        seen.last_at,
        seen.times,
    )
    assert seen.held_sha256 != seen.sent_sha256


def test_the_same_conflict_again_is_counted_not_listed_again(storage: Storage) -> None:
    storage.accept([started(1), started(2)], NOW)
    for moment in (NOW, LATER):
        storage.accept([started(1, action="review")], moment)
    storage.accept([started(2, action="review")], NOW)
    storage.accept([started(1, action="review")], LATER)

    found = [(seen.invocation_id, seen.first_at, seen.last_at, seen.times) for seen in storage.conflicts(10)]

    assert [(id_of(1), NOW, LATER, 3), (id_of(2), NOW, NOW, 1)] == found
    assert 2 == storage.totals().conflicts
    assert found[:1] == [(s.invocation_id, s.first_at, s.last_at, s.times) for s in storage.conflicts(1)]


def test_the_same_phase_at_another_level_is_a_duplicate(storage: Storage) -> None:
    storage.accept([started(1, level="metadata")], NOW)

    assert [DUPLICATE, DUPLICATE] == storage.accept([started(1, level="full"), started(1, level="ids")], NOW)


def test_two_projects_may_hold_the_same_invocation_id(storage: Storage) -> None:
    assert [STORED, STORED] == storage.accept([started(1), started(1, project=OTHER_PROJECT)], NOW)
    assert [PROJECT, OTHER_PROJECT] == sorted(storage.phases(id_of(1)))
    assert [OTHER_PROJECT] == list(storage.phases(id_of(1), OTHER_PROJECT))
    assert {} == storage.phases(id_of(2))


def test_a_completed_without_its_started_is_shown_as_that(storage: Storage) -> None:
    storage.accept([completed(1)], NOW)

    (row,) = storage.rows(ALL, 10)

    assert (CLOSED, None, None, "done") == (row.status, row.started_at, row.profile_id, row.outcome)
    assert Totals(1, 0, 1, 0) == storage.totals()
    storage.accept([started(1)], LATER)
    (row,) = storage.rows(ALL, 10)
    assert (CLOSED, "builder", "done", NOW) == (row.status, row.profile_id, row.outcome, row.received_at)
    assert Totals(1, 0, 2, 0) == storage.totals()


def test_filters_choose_and_combine(storage: Storage) -> None:
    storage.accept(
        [
            started(1, profile_id="reviewer", action="review"),
            started(2, actor={"actor_id": "Berta Ö", "actor_type": "human"}),
            started(3, project=OTHER_PROJECT),
            completed(2, outcome="failed"),
            completed(3, project=OTHER_PROJECT),
        ],
        NOW,
    )

    assert [id_of(3), id_of(2), id_of(1)] == ids(storage)
    assert [id_of(1)] == ids(storage, Filter(profile="reviewer"))
    assert [id_of(1)] == ids(storage, Filter(action="review"))
    assert [id_of(2)] == ids(storage, Filter(outcome="failed"))
    assert [id_of(1)] == ids(storage, Filter(status=OPEN))
    assert [id_of(3), id_of(2)] == ids(storage, Filter(status=CLOSED))
    assert [id_of(3)] == ids(storage, Filter(project=OTHER_PROJECT))
    assert [id_of(2)] == ids(storage, Filter(actor="rta ö"))
    assert [] == ids(storage, Filter(actor="%"))
    assert [id_of(3), id_of(1)] == ids(storage, Filter(actor="nn"))
    assert [id_of(2), id_of(1)] == ids(storage, Filter(until=id_of(3)))
    assert [id_of(3), id_of(2)] == ids(storage, Filter(since=id_of(2)))
    assert [id_of(2)] == ids(storage, Filter(profile="builder", status=CLOSED, project=PROJECT, actor="b"))
    assert [] == ids(storage, Filter(profile="nobody"))


def test_an_actor_filter_that_many_actors_meet_finds_them_all(storage: Storage) -> None:
    storage.accept([started(n, actor={"actor_id": f"agent {n}", "actor_type": "llm"}) for n in range(40)], NOW)

    assert [id_of(n) for n in reversed(range(40))] == ids(storage, Filter(actor="GENT"))
    assert [id_of(n) for n in (5, 4)] == ids(storage, Filter(actor="agent"), 2, Place(id_of(6), PROJECT))


def test_pages_follow_one_another_while_events_arrive(storage: Storage) -> None:
    storage.accept([started(n, project=p) for n in range(10, 30, 2) for p in (PROJECT, OTHER_PROJECT)], NOW)
    before = [row.place for row in storage.rows(ALL, 200)]

    seen: list[Place] = []
    late = iter(range(11, 60, 2))
    while page := storage.rows(ALL, 3, seen[-1] if seen else None):
        seen += [row.place for row in page]
        storage.accept([started(next(late)), started(next(late))], NOW)

    assert len(seen) == len(set(seen))
    assert before == [place for place in seen if place in set(before)]
    assert seen == sorted(seen, reverse=True)


def test_many_threads_store_each_key_once(storage: Storage) -> None:
    said: list[str] = []

    def deliver() -> None:
        for start in range(0, 60, 6):
            said.extend(storage.accept([started(n) for n in range(start, start + 6)], NOW))

    threads = [threading.Thread(target=deliver) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (60, 300) == (said.count(STORED), said.count(DUPLICATE))
    assert Totals(60, 60, 60, 0) == storage.totals()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.booleans(),
            st.sampled_from(("done", "failed")),
            st.sampled_from(("ids", "metadata", "full")),
            st.sampled_from((PROJECT, OTHER_PROJECT)),
        ),
        max_size=25,
    )
)
@settings(max_examples=40, deadline=None)
def test_both_engines_give_the_same_verdicts_rows_and_totals(arrivals: list[tuple[int, bool, str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, disk = MemoryStorage(), SqliteStorage(f"{folder}/events.db")
        for number, is_end, outcome, level, project in arrivals:
            event = (
                completed(number, outcome=outcome, level=level, project=project)
                if is_end
                else started(number, action=outcome, level=level, project=project)
            )
            assert memory.accept([event], NOW) == disk.accept([event], NOW)
        assert memory.totals() == disk.totals()
        assert memory.rows(ALL, 200) == disk.rows(ALL, 200)
        assert memory.conflicts(200) == disk.conflicts(200)
        disk.close()


def test_what_was_accepted_is_there_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "events.db")
    first = SqliteStorage(path)
    first.accept([started(1)], NOW)
    first.close()

    again = SqliteStorage(path)

    assert [DUPLICATE] == again.accept([started(1)], NOW)
    again.close()


def test_the_database_and_its_log_are_their_owners_alone(tmp_path: Path) -> None:
    os.umask(mask := os.umask(0))
    del mask
    storage = SqliteStorage(str(tmp_path / "events.db"))
    storage.accept([started(1)], NOW)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    storage.close()
    assert {0o600} == modes


def test_writes_are_synced_before_they_are_acknowledged(tmp_path: Path) -> None:
    storage = SqliteStorage(str(tmp_path / "events.db"))

    found = [storage._writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]

    storage.close()
    assert [2, "wal"] == found


def test_a_batch_that_fails_in_the_middle_stores_nothing(tmp_path: Path) -> None:
    storage = SqliteStorage(str(tmp_path / "events.db"))
    broken = {**started(2), "data": {**started(2)["data"], "project_uuid": "\ud800"}}

    with pytest.raises(UnicodeEncodeError):
        storage.accept([started(1), broken], NOW)

    assert Totals(0, 0, 0, 0) == storage.totals()
    assert [STORED] == storage.accept([started(1)], NOW)
    storage.close()


def _newer(path: Path) -> None:
    SqliteStorage(str(path)).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()


def _anothers(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
    database.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_newer, "schema version 3"),
        (_anothers, "another program"),
        (lambda path: path.write_text("not a database, but long enough to be read as one\n" * 50), "not a database"),
        (lambda path: path.mkdir(), "directory"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    path = tmp_path / "events.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""

    with pytest.raises(StorageUnusable, match=says):
        SqliteStorage(str(path))

    assert before == (path.read_bytes() if path.is_file() else b"")


def test_a_disk_that_refuses_is_a_storage_error(tmp_path: Path) -> None:
    storage = SqliteStorage(str(tmp_path / "events.db"))
    storage._writer.execute("PRAGMA max_page_count = 1")

    with pytest.raises(StorageError, match="full"):
        storage.accept([started(n) for n in range(100)], NOW)

    storage.close()


WRITER = """
import json, sys
from specify_cli.collector.storage import SqliteStorage
storage = SqliteStorage(sys.argv[1])
said = []
for line in sys.stdin:
    said += storage.accept(json.loads(line), "2026-11-21T12:00:00.000Z")
storage.close()
print(said.count("stored"))
"""


def test_two_processes_on_one_file_store_each_key_once(tmp_path: Path) -> None:
    path = str(tmp_path / "events.db")
    lines = "".join(json.dumps([started(n) for n in range(at, at + 5)]) + "\n" for at in range(0, 100, 5))
    command = [sys.executable, "-c", WRITER, path]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs: list[str] = []

    def talk(process: subprocess.Popen[str]) -> None:
        out, err = process.communicate(lines)
        outputs.append(out or err)

    threads = [threading.Thread(target=talk, args=(process,)) for process in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 100 == sum(map(int, outputs))


def test_a_database_of_schema_version_1_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    SqliteStorage(str(path)).close()
    with sqlite3.connect(path) as database:
        for table, column in (
            ("invocation", "digest"),
            ("event", "client"),
            ("event", "digest"),
            ("conflict", "client"),
        ):
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        database.execute("PRAGMA user_version = 1")
    database.close()
    storage = SqliteStorage(str(path))

    assert storage.accept([started(1)], NOW, "ada") == [STORED]
    assert [row.invocation_id for row in storage.rows(Filter(), 9)] == [id_of(1)]
    storage.close()


@pytest.mark.parametrize("table", ["event", "invocation"])
def test_a_damaged_row_is_an_error_and_never_shown(tmp_path: Path, table: str) -> None:
    path = tmp_path / "events.db"
    storage = SqliteStorage(str(path))
    storage.accept([started(1)], NOW)
    storage.close()
    column = {"event": "body", "invocation": "profile_id"}[table]
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE {table} SET {column} = replace({column}, 'e', 'f')")
    database.close()
    storage = SqliteStorage(str(path))

    with pytest.raises(StorageError, match="damaged"):
        storage.phases(id_of(1)) if table == "event" else storage.rows(Filter(), 9)
    storage.close()
