"""A page of the list costs the same however much a collector holds, for every filter and every pair of filters."""

from __future__ import annotations

import itertools
import math
import random
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from envelopes import completed, started
from specify_cli.features.collector.engines.database import Database
from specify_cli.features.collector.engines.ledger import open_database
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.storage import CLOSED, Filter, ListPosition
from specify_cli.libraries.wire.contract import canonical
from support import FULL

SMALL, LARGE, ROUNDS, MOST = (10_000, 1_000_000, 41, 1.3) if FULL else (4_000, 24_000, 7, 3.0)
LOADED_AT_ONCE = 50_000
# Profile and action, and action and outcome, are frequent and never meet: what has no index of both reads everything.
ROWS = """
INSERT INTO invocation (project_uuid, invocation_id, status, profile_id, action, request, actor_id, actor_type, level,
  started_at, completed_at, outcome, received_at, digest, state)
SELECT '00000000-0000-4000-8000-' || (100000000000 + i % 50), '00000' || (10000000 + i) || '0000000000000',
  CASE WHEN i % 5 = 0 THEN 'open' ELSE 'closed' END, CASE WHEN i % 2 = 0 THEN 'builder' ELSE 'reviewer' END,
  CASE WHEN i % 2 = 0 THEN 'implement' ELSE 'review' END, 'fix the login test', 'agent ' || (i % 20), 'llm', 'full',
  '2026-11-21T09:00:00.000Z', NULL, CASE WHEN i % 5 = 0 THEN NULL WHEN i % 2 = 0 THEN 'done' ELSE 'failed' END,
  '2026-11-21T09:00:00.000Z', '', CASE WHEN i % 5 = 0 THEN 'open' WHEN i % 2 = 0 THEN 'done' ELSE 'failed' END
FROM """
SERIES = {
    "sqlite": "(WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n) AS n",
    "postgres": "generate_series(CAST(? AS INTEGER), CAST(? AS INTEGER)) AS n(i)",
}


def _name_id(number: int) -> str:
    return f"{10_000_000 + number:013}{0:013}"


WORDS = """
INSERT INTO word (rowid, words)
SELECT place_of(invocation_id), list_words(project_uuid, profile_id, action, actor_id, state) FROM invocation
ORDER BY invocation_id
"""


def _fill(database: Database, engine: str, count: int) -> None:
    for first in range(1, count + 1, LOADED_AT_ONCE):
        ends = (first, min(first + LOADED_AT_ONCE - 1, count))
        database.write(lambda transaction, ends=ends: transaction.run(ROWS + SERIES[engine], ends))  # type: ignore[misc]
    names = [(f"agent {number}", f"agent {number}") for number in range(20)]
    database.write(lambda transaction: transaction.run_many("INSERT INTO actor VALUES (?, ?)", names))
    if engine == "sqlite":
        database.write(lambda transaction: transaction.run(WORDS))
    else:
        # As autovacuum does after a while.
        database.read(lambda transaction: transaction.run("VACUUM ANALYZE invocation"))


def _list_filters(count: int) -> dict[str, Filter]:
    """Every filter and every pair of filters, with a project set and an older page besides."""
    one: Mapping[str, Any] = {
        "projects": frozenset({"00000000-0000-4000-8000-100000000008"}),
        "profile": "builder",
        "action": "review",
        "outcome": "done",
        "status": CLOSED,
        "actor": "GENT 1",
        "since": _name_id(count // 4),
        "until": _name_id(count * 3 // 4),
    }
    pairs = {f"{a}+{b}": Filter(**{a: one[a], b: one[b]}) for a, b in itertools.combinations(one, 2)}
    some = frozenset(f"00000000-0000-4000-8000-{100_000_000_000 + number}" for number in range(20))
    alone = {name: Filter(**{name: value}) for name, value in one.items()}
    return {"none": Filter(), "20 projects": Filter(some), **alone, **pairs}


def _pair_filters() -> list[tuple[str, Filter, Filter]]:
    every = [(name, small, _list_filters(LARGE)[name]) for name, small in _list_filters(SMALL).items()]
    # Of the short version each fourth, and those that never meet.
    return [
        one for at, one in enumerate(every) if FULL or at % 4 == 0 or one[0] in ("profile+action", "action+outcome")
    ]


def _time_page(storage: SqlStorage, filters: Filter, after: ListPosition | None) -> float:
    begun = time.perf_counter()
    storage.rows(filters, 51, after)
    return time.perf_counter() - begun


def _time_ingest(storage: SqlStorage) -> float:
    batches = [
        [make(at + n, project=f"10000000-0000-4000-8000-{at:012}") for n in range(50) for make in (started, completed)]
        for at in range(0, 1_000, 50)
    ]
    begun = time.perf_counter()
    for batch in batches:
        storage.accept(batch, "2026-11-21T12:00:00.000Z", "ada")
    return time.perf_counter() - begun


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_page_costs_the_same_at_any_size(
    engine: str, tmp_path: Path, request: Any, say: Callable[[str], None]
) -> None:
    storages: list[SqlStorage] = []
    for count in (SMALL, LARGE):
        address = str(tmp_path / f"{count}.db")
        if engine == "postgres":
            address = request.getfixturevalue("postgres").make_schema(f"{tmp_path.name}_{count}")
        database = open_database(address)
        _fill(database, engine, count)
        storages.append(SqlStorage(database))
    pages: dict[str, list[tuple[SqlStorage, Filter, ListPosition | None]]] = {}
    for name, *both in _pair_filters():
        for page in ("", ", an older page"):
            ends = [ListPosition(_name_id(count // 2), "z") if page else None for count in (SMALL, LARGE)]
            pages[name + page] = list(zip(storages, both, ends, strict=True))
    # The least of many that lie apart: what the engine needs, without what the machine did besides.
    least = {(name, size): math.inf for name in pages for size in (0, 1)}
    for _ in range(ROUNDS):
        for name, both_sizes in pages.items():
            for size, page_of in enumerate(both_sizes):
                least[name, size] = min(least[name, size], _time_page(*page_of))
    ratios = {name: least[name, 1] / least[name, 0] for name in pages}
    ingest = [_time_ingest(storage) for storage in storages]
    for storage in storages:
        storage.close()
    # SQLite finds rows in pieces of one table, whose number grows as the logarithm of what it holds.
    most = max(MOST, 4.0) if engine == "sqlite" else MOST
    worst = sorted(ratios, key=lambda name: -ratios[name])[:3]
    said = (
        f"list on {engine}: {len(ratios)} pages of {LARGE:,} invocations cost {min(ratios.values()):.2f} to "
        f"{max(ratios.values()):.2f} x those of {SMALL:,} (at most {most}; dearest: "
        f"{', '.join(f'{name} {ratios[name]:.2f}' for name in worst)}); ingest {ingest[1] / ingest[0]:.2f} x, "
        f"{2_000 / ingest[1]:.0f} events/s"
    )
    say(said)

    assert {name: ratio for name, ratio in ratios.items() if ratio > most} == {}, said


def _count_written() -> int:
    """Bytes this process has passed to the system to write, whatever lies below."""
    return int(Path("/proc/self/io").read_text().partition("wchar: ")[2].split()[0])


def test_an_event_is_written_once_and_a_little_more(benchmark: Any, tmp_path: Path, say: Callable[[str], None]) -> None:
    count = 1_000_000 if FULL else 100_000
    ours, reference, written = benchmark.pedantic(lambda: _measure_writing(tmp_path, count), rounds=1)
    said = (
        f"sqlite at {count:,} invocations: {written / 9_950 / 1024:.1f} KiB written an event (at most 8), "
        f"{ours / reference:.1f} x the CPU of inserting its JSON into one table (at most 12), "
        f"{9_950 / ours:,.0f} events/s"
    )
    say(said)

    assert written / 9_950 <= 8 * 1024, said
    assert ours / reference <= 12, said


def _measure_writing(tmp_path: Path, count: int) -> tuple[float, float, int]:
    """Return the CPU seconds of storing 9,950 events and of inserting their JSON, and the bytes written for them.

    Of 500 actors in 50 projects, each batch from one project's clone: closes of the batch before, and new starts.
    """
    database = open_database(str(tmp_path / "events.db"))
    _fill(database, "sqlite", count)
    storage, plain = SqlStorage(database), sqlite3.connect(tmp_path / "plain.db", isolation_level=None)
    plain.executescript("PRAGMA journal_mode = WAL; CREATE TABLE event (key TEXT PRIMARY KEY, body TEXT)")
    draw, written = random.Random(1), 0
    before: list[dict[str, Any]] = []
    ours = reference = 0.0
    for first in range(1_000, 6_000, 50):
        project = f"00000000-0000-4000-8000-{100_000_000_000 + draw.randrange(50)}"
        actors = [{"actor_id": f"dev{draw.randrange(500)}@example.org", "actor_type": "human"} for _ in range(50)]
        fresh = [started(first + at, project=project, actor=actor) for at, actor in enumerate(actors)]
        at, begun = _count_written(), time.process_time()
        storage.accept([*before, *fresh], "2026-11-21T12:00:00.000Z", "ada")
        ours, written = ours + time.process_time() - begun, written + _count_written() - at
        begun = time.process_time()
        plain.execute("BEGIN")
        bodies = [(f"{event['subject']} {event['type']}", canonical(event)) for event in [*before, *fresh]]
        plain.executemany("INSERT INTO event VALUES (?, ?)", [(key, body) for key, body in bodies])
        plain.execute("COMMIT")
        reference += time.process_time() - begun
        before = [completed(first + at, project=project) for at in range(50)]
    plain.close()
    storage.close()
    return ours, reference, written
