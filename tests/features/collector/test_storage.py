"""One suite for every engine behind the collector's Protocol, and what SQLite alone promises."""

from __future__ import annotations

import itertools
import json
import os
import random
import sqlite3
import stat
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collecting import record_of
from envelopes import OTHER_PROJECT, PROJECT, completed, id_of, started
from memory_storage import MemoryStorage
from postgres import Server, free_port
from specify_cli.features.collector.engines import orders
from specify_cli.features.collector.engines.database import read_steps
from specify_cli.features.collector.engines.ledger import open_database, open_ledger
from specify_cli.features.collector.engines.postgres import PostgresDatabase
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.engines.sqlite import SqliteDatabase
from specify_cli.features.collector.holdings import decode_report, encode_report, read_record
from specify_cli.features.collector.orders import read_order
from specify_cli.features.collector.reception import Refused
from specify_cli.features.collector.storage import (
    APART,
    CLOSED,
    CONFLICT,
    DUPLICATE,
    ERASURE,
    HELD,
    OPEN,
    OWNED,
    STORED,
    UNKNOWN,
    Filter,
    ListPosition,
    LogPiece,
    Order,
    Row,
    StorageError,
    StorageUnusable,
    Totals,
    compute_digest,
    compute_edge,
)
from specify_cli.libraries.signed_log.notes import encode
from specify_cli.libraries.wire.contract import EXTENSION, canonical, compose
from specify_cli.record.seal import erase_members, open_line, seal_line
from specify_cli.trail.log.leaves import LEAF_BYTES
from support import draws, run_together
from victims import drain, fork

# Every engine is held to these claims, in `make stress` as well.
pytestmark = pytest.mark.stress
NOW, LATER = "2026-11-21T12:00:00.000Z", "2026-11-21T13:00:00.000Z"
ALL = Filter()
MANY = [f"00000000-0000-4000-8000-{number:012}" for number in range(64)]


Storage = MemoryStorage | SqlStorage


def open_file(path: Path | str) -> SqlStorage:
    return SqlStorage(SqliteDatabase(str(path)))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    engine: Storage
    if request.param == "memory":
        engine = MemoryStorage()
    elif request.param == "sqlite":
        engine = open_file(tmp_path / "events.db")
    else:
        server: Server = request.getfixturevalue("postgres")
        engine = SqlStorage(PostgresDatabase(server.make_schema(tmp_path.name)))
    yield engine
    engine.close()


def ids(storage: Storage, wanted: Filter = ALL, limit: int = 200, after: ListPosition | None = None) -> list[str]:
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
    assert [(one.phase, one.client, one.held_sha256) for one in storage.conflicts(9, None, id_of(1))] == [
        ("completed", "mallory", "")
    ]
    assert [held.client for held in storage.phases(id_of(1))[PROJECT]] == ["ada", "ada"]
    assert storage.conflicts(9, None, id_of(2)) == []


def test_of_two_clients_that_disagree_the_first_stays_and_the_other_is_named(storage: Storage) -> None:
    storage.accept([started(1)], NOW, "ada")

    assert storage.accept([started(1, action="review")], LATER, "bob") == [CONFLICT]
    assert [one.client for one in storage.conflicts(9)] == ["bob"]


def test_a_whole_record_is_kept_once_beside_its_events_and_only_annexes_are_added(storage: Storage) -> None:
    piece, events = record_of(1)
    assert storage.keep_record(PROJECT, piece, NOW, "ada") == (UNKNOWN, [])
    storage.accept(events, NOW, "ada")
    grown, other = record_of(1, annexes=2)[0], record_of(2)[0]
    changed = other._replace(invocation_id=piece.invocation_id)
    said = [
        storage.keep_record(PROJECT, one, NOW, client)[0]
        for one, client in (
            (piece, "bob"),
            (piece, "ada"),
            (changed, "ada"),
            (grown, "bob"),
            (grown, "ada"),
            (piece, "bob"),
        )
    ]
    [row] = storage.projects(None, 9)
    [bare], [whole] = storage.records(PROJECT, 9), storage.records(PROJECT, 9, bodies=True)

    assert said == [STORED, DUPLICATE, CONFLICT, OWNED, STORED, DUPLICATE]
    assert (row.project_uuid, row.invocations, row.events, row.records, row.revision) == (PROJECT, 1, 2, 1, 2)
    assert (bare.body, whole.body, decode_report(bare.report)) == ("", grown.body, grown.report)
    assert [(one.phase, one.client) for one in storage.conflicts(9)] == [("record", "bob"), ("record", "ada")]
    assert row.conflicts == storage.totals().conflicts == 2
    assert storage.records(PROJECT, 9, piece.invocation_id) == storage.records(OTHER_PROJECT, 9) == []
    here, elsewhere = ListPosition(piece.invocation_id, PROJECT), ListPosition(piece.invocation_id, OTHER_PROJECT)
    assert storage.bodies([elsewhere, here, ListPosition(id_of(7), PROJECT)]) == {here: grown.body}


def test_an_open_record_grows_and_what_does_not_continue_it_is_a_conflict(storage: Storage) -> None:
    def send(client: str = "ada", **given: Any) -> str:
        return storage.keep_record(PROJECT, record_of(1, **given)[0], NOW, client)[0]

    first, events = record_of(1, steps=1, closed=False)
    assert storage.keep_record(PROJECT, first, NOW, "ada") == (UNKNOWN, [])
    storage.accept(events, NOW, "ada")
    other = record_of(2, steps=3, closed=False)[0]._replace(invocation_id=first.invocation_id)
    said = [
        send("bob", steps=1, closed=False),
        send(steps=1, closed=False),
        send(steps=2, closed=False),
        send(steps=1, closed=False),
        send("bob", steps=3, closed=False),
        storage.keep_record(PROJECT, other, NOW, "ada")[0],
        send(steps=2),
    ]
    storage.accept(record_of(1, steps=2)[1], NOW, "ada")
    [row] = storage.projects(None, 9)
    said += [send(steps=2), send(steps=2, closed=False), send(steps=4, closed=False), send("bob", steps=2)]
    [closed] = storage.projects(None, 9)

    assert said[:7] == [OWNED, STORED, STORED, DUPLICATE, OWNED, CONFLICT, UNKNOWN]
    assert said[7:] == [STORED, DUPLICATE, CONFLICT, DUPLICATE]
    assert (row.records, row.whole, closed.records, closed.whole) == (1, 0, 1, 1)
    assert {(one.phase, one.client) for one in storage.conflicts(9)} == {("record", "ada"), ("record", "bob")}


def test_what_is_withheld_later_is_known_by_its_seal(storage: Storage) -> None:
    first, events = record_of(1, steps=1, closed=False)
    storage.accept(events, NOW, "ada")
    storage.keep_record(PROJECT, first, NOW, "ada")
    value = json.loads(record_of(1, steps=2, closed=False)[0].body)
    lines = value["lines"].splitlines()

    def send(seal: str) -> str:
        hidden = json.dumps({"seq": 1, "withheld": "redaction", "~": seal}, separators=(",", ":"))
        body = json.dumps({**value, "lines": "\n".join([lines[0], hidden, lines[2], ""])})
        try:
            return storage.keep_record(PROJECT, read_record(body.encode(), first.invocation_id), NOW, "ada")[0]
        except Refused as refused:
            return refused.problem.kind

    assert (send("0" * 64), send(json.loads(lines[1])["~"])) == ("invalid-record", STORED)


def test_replays_and_imports_have_no_events_and_belong_to_who_sent_them_first(storage: Storage) -> None:
    replay, imported = record_of(1, kind="replay")[0], record_of(2, kind="imported")[0]
    said = [
        storage.keep_record(PROJECT, piece, NOW, client)[0]
        for piece, client in (
            (replay, "ada"),
            (imported, "ada"),
            (replay, "bob"),
            (record_of(1, kind="replay", annexes=1)[0], "bob"),
            (record_of(1, kind="replay", annexes=1)[0], "ada"),
        )
    ]
    [row] = storage.projects(None, 9)

    assert said == [STORED, STORED, DUPLICATE, OWNED, STORED]
    assert (row.invocations, row.records, row.whole) == (0, 2, 0)
    assert {one.file.rpartition("/")[0] for one in (replay.report, imported.report)} == {"", ".kittify/events/imported"}


def test_what_a_clone_delivers_of_another_ones_record_belongs_to_who_wrote_it(storage: Storage) -> None:
    """It came to bob with git, and he delivers it first."""
    events = record_of(1)[1]

    assert storage.accept([as_copy(events[0])], NOW, "bob") == [STORED]
    assert storage.accept(events, NOW, "ada") == [STORED, STORED]
    late = record_of(2)[1]
    assert storage.accept([as_copy(event) for event in late], NOW, "bob") == [STORED] * 2
    said = [storage.accept(events, LATER, "bob"), storage.accept(late, LATER, "ada")]
    records = [
        storage.keep_record(PROJECT, record_of(number, annexes=annexes)[0], LATER, client)[0]
        for number, annexes, client in (
            (1, 0, "bob"), (1, 1, "bob"), (1, 1, "ada"),
            (2, 0, "bob"), (2, 1, "ada"), (2, 0, "bob"),
        )
    ]  # fmt: skip

    assert said == [[DUPLICATE] * 2, [STORED, DUPLICATE]]
    assert records == [STORED, OWNED, STORED, STORED, STORED, DUPLICATE]
    assert [one.client for one in storage.conflicts(9)] == ["bob"]


def as_copy(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, EXTENSION: canonical({**json.loads(event[EXTENSION]), "origin": "merged"})}


@pytest.mark.parametrize("closes", ["own", "copy"])
@pytest.mark.parametrize("is_claimed", [True, False])
def test_a_false_end_of_what_came_with_git_gives_way_to_the_owner(
    storage: Storage, closes: str, is_claimed: bool
) -> None:
    """bob has ada's Started from git, and mallory closes it with another line; ada comes before that, or after."""
    (false, false_events), (true, events) = record_of(1, steps=2), record_of(1, steps=1)
    end = as_copy(false_events[1]) if closes == "copy" else false_events[1]
    assert storage.accept([as_copy(events[0])], NOW, "bob") == [STORED]
    grown = record_of(1, steps=3, closed=False)[0]
    said: list[Any] = [storage.keep_record(PROJECT, grown, NOW, "mallory")[0]]
    if is_claimed:
        said += storage.accept(events[:1], NOW, "ada")
    said += storage.accept([end], NOW, "mallory")
    said += [storage.keep_record(PROJECT, false, NOW, "mallory")[0]]
    said += storage.accept(events, LATER, "ada") + storage.accept([end], LATER, "mallory")
    said += [storage.keep_record(PROJECT, true, LATER, "ada")[0]]
    (held,) = storage.phases(id_of(1)).values()
    [row], [project] = storage.rows(ALL, 9), storage.projects(None, 9)
    [record] = storage.records(PROJECT, 9, bodies=True)

    refused = UNKNOWN if closes == "copy" else OWNED
    assert said == [
        UNKNOWN,
        *([STORED, refused, UNKNOWN, DUPLICATE, STORED] if is_claimed else [STORED, STORED, STORED, STORED]),
        CONFLICT, STORED,
    ]  # fmt: skip
    assert [(one.client, one.event) for one in held] == [("ada", event) for event in events]
    assert (row.status, record.body) == ("closed", true.body)
    assert (project.events, project.records, project.whole, project.open) == (2, 1, 1, 0)
    assert {(one.phase, one.client) for one in storage.conflicts(9)} == {("completed", "mallory")}


def test_an_owner_whose_start_only_others_delivered_is_refused_nothing(storage: Storage) -> None:
    """As after a backup was put back: ada does not send her Started again, and eve adds to it what no log names."""
    piece, events = record_of(1, annexes=1)
    said = storage.accept([as_copy(events[0])], NOW, "bob") + storage.accept(events[1:], NOW, "ada")
    said += [storage.keep_record(PROJECT, record_of(1)[0], NOW, "ada")[0]]
    said += [storage.keep_record(PROJECT, piece, NOW, name)[0] for name in ("eve", "ada")]
    said += storage.accept(events, LATER, "ada") + storage.accept(events, LATER, "ada")
    said += storage.accept([completed(1)], LATER, "eve")

    assert said == [STORED, STORED, STORED, OWNED, STORED, STORED, DUPLICATE, DUPLICATE, DUPLICATE, CONFLICT]


def test_what_clones_said_of_one_record_is_stored_together_where_a_log_names_it(storage: Storage) -> None:
    """Neither knows what the other said; ada sent the record first, and eve's words are in no log."""
    piece, events = record_of(1, annexes=3)
    value = json.loads(piece.body)
    seals = [json.loads(line)["~"] for line in value["annexes"].values()]

    def send(client: str, *chosen: int, merged: bool = False) -> str:
        annexes = {file: line for n, (file, line) in enumerate(value["annexes"].items()) if n in chosen}
        sent = read_record(json.dumps({**value, "annexes": annexes}).encode(), piece.invocation_id)
        return storage.keep_record(PROJECT, sent, NOW, client, is_merged=merged)[0]

    for name, client, seal in (("1-0e7563e2", "bob", seals[1]), ("1-1e7563e2", "ada", seals[0])):
        leaves = f"annex {piece.invocation_id} {seal}\n"
        edge = compute_edge(leaves)
        note = f"spec-kitty/p/{name}\n1\n{encode(edge.root())}\n\n\u2014 x AAAAAAAA\n"
        assert storage.keep_leaves(PROJECT, LogPiece(name, 0, leaves, "k", note), NOW, client) == (STORED, 1)
    storage.accept(events, NOW, "ada")
    said = [send("ada"), send("bob", 1), send("ada", 0), send("bob", 1), send("eve", 2), send("bob", 0, 1)]
    said += [send("bob", 2, merged=True)]  # of ada's, whose log is not here yet
    [held] = storage.bodies([ListPosition(piece.invocation_id, PROJECT)]).values()

    assert said == [STORED, STORED, STORED, DUPLICATE, OWNED, DUPLICATE, UNKNOWN]
    assert json.loads(held)["annexes"].keys() == {*list(value["annexes"])[:2]}
    assert [one.client for one in storage.conflicts(9)] == ["eve"]


@pytest.mark.parametrize("first", ["ada", "bob"])
@pytest.mark.parametrize("older", [True, False])
def test_who_adds_an_annex_to_another_ones_record_takes_nothing_of_it_away(
    storage: Storage, older: bool, first: str
) -> None:
    """bob's rules withhold more than ada's; an older sender, or one that keeps objects, names none."""
    piece, events = record_of(1, annexes=2, steps=2, objects=["a" * 64])
    value = json.loads(piece.body)
    (one, two), lines = value["annexes"].items(), value["lines"].splitlines()
    seals = [json.loads(line)["~"] for line in lines]
    hidden = [canonical({"seq": n, "withheld": "redaction", "~": seal}) for n, seal in enumerate(seals[:-1])]
    told = {} if older else {"kind": "live", "objects": ["b" * 64], "withheld": {"a" * 64: "binary"}}
    sent = {"name": value["name"], "lines": "\n".join([*hidden, lines[-1], ""]), "annexes": dict([two]), **told}
    leaves = f"annex {piece.invocation_id} {json.loads(two[1])['~']}\n"
    note = f"spec-kitty/p/1-0e7563e2\n1\n{encode(compute_edge(leaves).root())}\n\n\u2014 x AAAAAAAA\n"
    storage.keep_leaves(PROJECT, LogPiece("1-0e7563e2", 0, leaves, "k", note), NOW, "bob")
    storage.accept(events, NOW, "ada")
    copies = [({**value, "annexes": dict([one])}, "ada"), (sent, "bob")]
    said = [
        storage.keep_record(PROJECT, read_record(json.dumps(body).encode(), piece.invocation_id), NOW, client)[0]
        for body, client in [*copies[:: 1 if first == "ada" else -1], (value, "ada"), (sent, "bob")]
    ]
    [held] = storage.bodies([ListPosition(piece.invocation_id, PROJECT)]).values()

    assert said == [STORED, STORED, DUPLICATE, DUPLICATE]
    assert json.loads(held) == {
        **value,
        "objects": ["a" * 64, *([] if older else ["b" * 64])],
        "withheld": {} if older else {"a" * 64: "binary"},
    }


def test_objects_that_records_name_are_held_once_for_each_project_and_no_others(storage: Storage) -> None:
    texts = ["a rule", "\u0000 and \U0001f600", "not named"]
    named = {compute_digest(text): text for text in texts}
    wanted = [digest for digest, text in named.items() if text != "not named"]
    piece, events = record_of(1, objects=wanted)
    storage.accept([*events, *record_of(1, project=OTHER_PROJECT)[1]], NOW, "ada")
    first = storage.keep_record(PROJECT, piece, NOW, "ada")
    [before] = storage.projects(frozenset({PROJECT}), 9)
    stored = [storage.keep_objects(PROJECT, part) for part in ({wanted[0]: named[wanted[0]]}, named, named, {})]
    again, elsewhere = storage.keep_record(PROJECT, piece, NOW, "ada"), storage.keep_objects(OTHER_PROJECT, named)
    [after] = storage.projects(frozenset({PROJECT}), 9)

    assert (first, again) == ((STORED, sorted(wanted)), (DUPLICATE, []))
    assert (stored, elsewhere) == ([1, 1, 0, 0], 0)
    assert (before.objects, before.missing, after.objects, after.missing) == (0, 2, 2, 0)
    assert storage.objects(PROJECT, list(named)) == {digest: named[digest] for digest in wanted}
    assert storage.objects(OTHER_PROJECT, list(named)) == {} and after.revision > before.revision


def test_leaves_follow_those_that_are_held(storage: Storage) -> None:
    def leaves(start: int, count: int, *, keys: str = "k", size: int | None = None, other: bool = False) -> LogPiece:
        lines = [f"start {id_of(number)} {number + other:064x}\n" for number in range(start + count)]
        edge = compute_edge("".join(lines), size)
        note = f"spec-kitty/p/1-0e7563e2\n{edge.size}\n{encode(edge.root())}\n\n\u2014 x AAAAAAAA\n"
        return LogPiece("1-0e7563e2", start, "".join(lines[start:]), keys, note)

    storage.accept([started(1)], NOW, "ada")
    sent = (
        (leaves(0, 2), "ada"), (leaves(0, 2), "ada"), (leaves(3, 1), "ada"), (leaves(2, 1), "eve"),
        (leaves(2, 1, keys="other"), "ada"), (leaves(2, 1), "ada"), (leaves(3, 0), "ada"),
        # An older state of this log, and states of one that went another way.
        (leaves(3, 0, size=2), "ada"), (leaves(3, 0, size=2, other=True), "ada"), (leaves(3, 2, other=True), "ada"),
        (leaves(2, 1), "eve"),
    )  # fmt: skip
    said = [
        storage.keep_leaves(PROJECT, piece, now, client)
        for (piece, client), now in zip(sent, "abcdefghijk", strict=True)
    ]
    [log] = storage.logs(PROJECT)
    found = storage.log_conflicts(PROJECT)

    assert said == [
        (STORED, 2), (APART, 2), (APART, 2), (OWNED, 2), (CONFLICT, 2), (STORED, 3), (DUPLICATE, 3),
        (APART, 3), (CONFLICT, 3), (CONFLICT, 3), (OWNED, 3),
    ]  # fmt: skip
    assert (log.client, log.checkpoint, log.leaves) == ("ada", leaves(0, 3).checkpoint, leaves(0, 3).leaves)
    assert [(one.client, one.verdict, one.first_at, one.last_at, one.times) for one in found] == [
        ("eve", OWNED, "d", "k", 2), ("ada", CONFLICT, "e", "e", 1), ("ada", CONFLICT, "i", "i", 1),
        ("ada", CONFLICT, "j", "j", 1),
    ]  # fmt: skip
    assert found[0].held == leaves(0, 2).checkpoint and found[0].sent == leaves(2, 1).checkpoint
    assert not storage.logs(OTHER_PROJECT) and not storage.log_conflicts(OTHER_PROJECT)


def test_projects_come_page_by_page_and_only_those_asked_for(storage: Storage) -> None:
    storage.accept([started(1), started(1, project=OTHER_PROJECT)], NOW, "ada")
    names = sorted((PROJECT, OTHER_PROJECT))

    assert [row.project_uuid for row in storage.projects(None, 9)] == names
    assert [row.project_uuid for row in storage.projects(None, 1)] == names[:1]
    assert [row.project_uuid for row in storage.projects(None, 9, names[0])] == names[1:]
    assert [row.project_uuid for row in storage.projects(frozenset({PROJECT}), 9)] == [PROJECT]
    assert storage.projects(frozenset(), 9) == []


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
    assert [OTHER_PROJECT] == list(storage.phases(id_of(1), frozenset({OTHER_PROJECT})))
    assert {} == storage.phases(id_of(2))


def test_of_two_rows_of_one_id_the_open_one_is_found_after_the_other_was_closed(storage: Storage) -> None:
    storage.accept([started(1), started(1, project=OTHER_PROJECT)], NOW)
    storage.accept([completed(1)], NOW)

    [row] = storage.rows(Filter(status=OPEN), 9)
    assert row.project_uuid == OTHER_PROJECT
    assert [PROJECT] == [row.project_uuid for row in storage.rows(Filter(status=CLOSED, action="implement"), 9)]


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
    assert [id_of(3)] == ids(storage, Filter(projects=frozenset({OTHER_PROJECT})))
    assert [id_of(2)] == ids(storage, Filter(actor="rta ö"))
    assert [] == ids(storage, Filter(actor="%"))
    assert [id_of(3), id_of(1)] == ids(storage, Filter(actor="nn"))
    assert [id_of(2), id_of(1)] == ids(storage, Filter(until=id_of(3)))
    assert [id_of(3), id_of(2)] == ids(storage, Filter(since=id_of(2)))
    assert [id_of(2)] == ids(
        storage, Filter(profile="builder", status=CLOSED, projects=frozenset({PROJECT}), actor="b")
    )
    assert [] == ids(storage, Filter(profile="nobody"))


def test_an_actor_filter_that_many_actors_meet_finds_them_all(storage: Storage) -> None:
    storage.accept([started(n, actor={"actor_id": f"agent {n}", "actor_type": "llm"}) for n in range(40)], NOW)

    assert [id_of(n) for n in reversed(range(40))] == ids(storage, Filter(actor="GENT"))
    assert [id_of(n) for n in (5, 4)] == ids(storage, Filter(actor="agent"), 2, ListPosition(id_of(6), PROJECT))


def test_a_question_of_more_lists_than_are_merged_is_answered_too(storage: Storage) -> None:
    projects = [f"00000000-0000-4000-8000-{number:012}" for number in range(500)]
    actors = [{"actor_id": f"agent {n}", "actor_type": "llm"} for n in range(30)]
    storage.accept([started(n, project=projects[n], actor=actors[n]) for n in range(30)], NOW)
    storage.accept([completed(n, project=projects[n]) for n in range(0, 30, 2)], NOW)

    assert [id_of(n) for n in range(28, 10, -2)] == ids(
        storage, Filter(frozenset(projects), status=CLOSED, actor="AGENT", since=id_of(11))
    )
    assert [id_of(7)] == ids(storage, Filter(frozenset(projects), actor="agent 7"))
    assert 30 == len(ids(storage, Filter(frozenset(projects))))


def test_pages_follow_one_another_while_events_arrive(storage: Storage) -> None:
    storage.accept([started(n, project=p) for n in range(10, 30, 2) for p in (PROJECT, OTHER_PROJECT)], NOW)
    before = [row.place for row in storage.rows(ALL, 200)]

    seen: list[ListPosition] = []
    late = iter(range(11, 60, 2))
    while page := storage.rows(ALL, 3, seen[-1] if seen else None):
        seen += [row.place for row in page]
        storage.accept([started(next(late)), started(next(late))], NOW)

    assert len(seen) == len(set(seen))
    assert before == [place for place in seen if place in set(before)]
    assert seen == sorted(seen, reverse=True)


def test_a_text_may_hold_anything_and_be_of_any_length(storage: Storage) -> None:
    """U+0000, which PostgreSQL takes in no text, and what stands for it there; texts that no index holds."""
    odd = "a\x00b\uffffc\uffff\ufffed\\0"
    events = [
        started(1, profile_id=odd, action=odd, request_text=odd, actor={"actor_id": odd, "actor_type": "llm"}),
        started(
            2,
            profile_id="\x00" * 9_000,
            action="x" * 9_000,
            request_text="y" * 9_000,
            actor={"actor_id": "ß\U0010ffff" * 9_000},
        ),
    ]
    storage.accept(events, NOW)

    long, short = storage.rows(ALL, 9)

    assert (odd, odd, odd, odd) == (short.profile_id, short.action, short.request, short.actor_id)
    assert long.request == "y" * 200 + "…"
    assert (200, 200, 200) == tuple(len(text or "") for text in (long.profile_id, long.action, long.actor_id))
    assert events == [storage.phases(id_of(n))[PROJECT][0].event for n in (1, 2)]
    assert [] == ids(storage, Filter(actor="\\1")) == ids(storage, Filter(actor="a0"))
    assert [id_of(2)] == ids(storage, Filter(action="x" * 200)) == ids(storage, Filter(actor="SS"))
    assert [DUPLICATE, DUPLICATE] == storage.accept(events, NOW)


def test_what_is_asked_of_some_projects_neither_shows_nor_counts_others(storage: Storage) -> None:
    ours, third = frozenset({PROJECT}), "00000000-0000-4000-8000-000000000000"
    for project in (PROJECT, OTHER_PROJECT, third):
        storage.accept([started(n, project=project) for n in range(4)], NOW, project)
        storage.accept([completed(1, project=project), started(2, project=project, action="review")], LATER, project)
    both = frozenset({PROJECT, third})

    assert {PROJECT} == {row.project_uuid for row in storage.rows(Filter(projects=ours), 99)}
    assert [PROJECT, third] * 4 == [row.project_uuid for row in storage.rows(Filter(projects=both), 99)]
    assert [third] == [
        row.project_uuid for row in storage.rows(Filter(projects=both), 1, ListPosition(id_of(3), PROJECT))
    ]
    assert [] == storage.rows(Filter(projects=frozenset()), 99)
    assert [PROJECT] == list(storage.phases(id_of(2), ours))
    assert {} == storage.phases(id_of(2), frozenset())
    assert [PROJECT] == [one.project_uuid for one in storage.conflicts(9, ours)]
    assert [] == storage.conflicts(9, frozenset(), id_of(2))
    assert (Totals(4, 3, 5, 1), Totals(0, 0, 0, 0)) == (storage.totals(ours), storage.totals(frozenset()))
    assert Totals(12, 9, 15, 3) == storage.totals()


def test_every_pair_of_filters_finds_what_meets_both(storage: Storage) -> None:
    dice = random.Random(7)
    for n in range(120):
        project, who = dice.choice((PROJECT, OTHER_PROJECT)), {"actor_id": f"agent {dice.randrange(9)}"}
        events = [started(n, project=project, profile_id=dice.choice("pq"), action=dice.choice("ab"), actor=who)]
        if dice.random() < 0.6:
            events.append(completed(n, project=project, outcome=dice.choice(("done", "failed"))))
        storage.accept(events, NOW)
    rows = storage.rows(ALL, 200)
    chosen: dict[str, tuple[object, Callable[[Row], bool]]] = {
        "projects": (frozenset({PROJECT}), lambda row: row.project_uuid == PROJECT),
        "profile": ("p", lambda row: row.profile_id == "p"),
        "action": ("b", lambda row: row.action == "b"),
        "outcome": ("done", lambda row: row.outcome == "done"),
        "status": (CLOSED, lambda row: row.status == CLOSED),
        "actor": ("GENT 3", lambda row: row.actor_id == "agent 3"),
        "since": (id_of(40), lambda row: row.invocation_id >= id_of(40)),
        "until": (id_of(90), lambda row: row.invocation_id < id_of(90)),
    }
    wrong = []
    for one, other in itertools.combinations(chosen, 2):
        wanted = Filter(**{name: chosen[name][0] for name in (one, other)})  # type: ignore[arg-type]
        expected = [row for row in rows if chosen[one][1](row) and chosen[other][1](row)]
        paged = storage.rows(wanted, 5)
        paged += storage.rows(wanted, 200, paged[-1].place)
        if not expected or paged != expected:
            wrong.append((one, other))

    assert [] == wrong


def test_a_batch_that_fails_in_the_middle_stores_nothing(storage: Storage) -> None:
    broken = {**started(2), "data": {**started(2)["data"], "project_uuid": "\ud800"}}

    with pytest.raises(UnicodeEncodeError):
        storage.accept([started(1), broken], NOW)

    assert Totals(0, 0, 0, 0) == storage.totals()
    assert [STORED] == storage.accept([started(1)], NOW)


def test_many_threads_store_each_key_once(storage: Storage) -> None:
    def deliver(_: int) -> list[str]:
        return [
            answer for at in range(0, 60, 6) for answer in storage.accept([started(n) for n in range(at, at + 6)], NOW)
        ]

    said = [answer for answers in run_together(deliver, range(6)) for answer in answers]

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
@settings(max_examples=draws(40), deadline=None)
def test_engines_give_the_same_verdicts_rows_and_totals(arrivals: list[tuple[int, bool, str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, disk = MemoryStorage(), open_file(f"{folder}/events.db")
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
    first = open_file(path)
    first.accept([started(1)], NOW)
    first.close()

    again = open_file(path)

    assert [DUPLICATE] == again.accept([started(1)], NOW)
    again.close()


def test_a_batch_is_held_against_what_it_names_and_never_against_all(tmp_path: Path) -> None:
    """SQLite walks a whole table for pairs of values where no index is named for one of them."""
    database = SqliteDatabase(str(tmp_path / "events.db"))
    storage = SqlStorage(database)
    asked: list[str] = []
    database._writer.raw.set_trace_callback(asked.append)
    storage.accept([event for number in range(5) for event in (started(number), completed(number))], NOW)
    database._writer.raw.set_trace_callback(None)
    statements = [one for one in asked if one.lstrip().startswith("SELECT")]
    plans = [row[3] for one in statements for row in database._writer.run(f"EXPLAIN QUERY PLAN {one}")]
    storage.close()

    assert [plan for plan in plans if plan.startswith("SCAN") and "CONSTANT" not in plan] == []
    assert any(plan.startswith("SEARCH event ") for plan in plans)
    assert any(plan.startswith("SEARCH record_order ") for plan in plans)


def test_the_database_and_its_log_are_their_owners_alone(tmp_path: Path) -> None:
    os.umask(mask := os.umask(0))
    del mask
    storage = open_file(tmp_path / "events.db")
    storage.accept([started(1)], NOW)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    storage.close()
    assert {0o600} == modes


def test_writes_are_synced_before_they_are_acknowledged(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "events.db"))

    found = [database._writer.run(f"PRAGMA {name}")[0][0] for name in ("synchronous", "journal_mode")]

    database.close()
    assert [2, "wal"] == found


def _newer(path: Path) -> None:
    open_file(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def _anothers(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (x)")
    database.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_newer, "schema version 99"),
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
        open_file(path)

    assert before == (path.read_bytes() if path.is_file() else b"")


def test_a_disk_that_refuses_is_a_storage_error(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "events.db"))
    database._writer.run("PRAGMA max_page_count = 1")
    storage = SqlStorage(database)

    with pytest.raises(StorageError, match="full"):
        storage.accept([started(n) for n in range(100)], NOW)

    storage.close()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_two_processes_on_one_database_store_each_key_once(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = str(tmp_path / "events.db")
    if engine == "postgres":
        path = request.getfixturevalue("postgres").make_schema(tmp_path.name)

    def write(pipe: int) -> None:
        storage = SqlStorage(open_database(path))
        said = [
            one
            for at in range(0, 100, 5)
            for one in storage.accept([started(number) for number in range(at, at + 5)], "2026-11-21T12:00:00.000Z")
        ]
        storage.close()
        os.write(pipe, f"{said.count(STORED)}\n".encode())

    both = [fork(write) for _ in range(2)]
    stored = [int(line) for _, reading in both for line in drain(reading)]

    assert [os.waitpid(pid, 0)[1] for pid, _ in both] == [0, 0]
    assert 100 == sum(stored)


@pytest.mark.parametrize("version", [1, 2])
def test_a_database_of_an_older_schema_is_taken_over(tmp_path: Path, version: int) -> None:
    path = tmp_path / "events.db"
    event, end = canonical(started(1)), canonical(completed(2, outcome="failed"))
    with closing(sqlite3.connect(path)) as database, database:
        for statement in (statement for step in read_steps("sqlite")[:version] for statement in step):
            database.execute(statement)
        row = (PROJECT, id_of(1), OPEN, "builder", "implement", "r", "ann", "human", "full", "t", None, None, NOW)
        closed = (PROJECT, id_of(2), CLOSED, *[None] * 5, "full", None, "t", "failed", NOW)
        for one in (row, closed):
            database.execute(
                f"INSERT INTO invocation VALUES ({', '.join('?' * 13)}{', ?' * (version - 1)})",
                (*one, *[""] * (version - 1)),
            )
        for key, phase, body in ((id_of(1), "started", event), (id_of(2), "completed", end)):
            older = "" if version == 1 else ", 'ada', ''"
            database.execute(f"INSERT INTO event VALUES (?, ?, ?, ?, ?{older})", (key, PROJECT, phase, NOW, body))
        conflict = (1, PROJECT, id_of(1), "started", "a", "b", NOW, LATER, 3, *[""] * (version - 1))
        database.execute(f"INSERT INTO conflict VALUES ({', '.join('?' * len(conflict))})", conflict)
        database.execute("INSERT INTO actor VALUES ('ann', 'ann')")
        database.execute(f"PRAGMA application_id = {0x534B4331}")
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    storage = open_file(path)

    assert [DUPLICATE] == storage.accept([started(1)], NOW, "ada")
    assert Totals(2, 1, 2, 1) == storage.totals(frozenset({PROJECT}))
    assert [id_of(2)] == ids(storage, Filter(outcome="failed")) == ids(storage, Filter(status=CLOSED))
    assert [id_of(1)] == ids(storage, Filter(status=OPEN, actor="nn"))
    assert [3] == [one.times for one in storage.conflicts(9)]
    assert [STORED] == storage.accept([started(3)], NOW, "ada")
    assert Totals(3, 2, 3, 1) == storage.totals()
    storage.close()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_records_and_logs_of_before_objects_are_taken_over_and_go_on(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    piece, events = record_of(1)
    value = {name: text for name, text in json.loads(piece.body).items() if name in ("name", "lines", "annexes")}
    body, leaves = json.dumps(value), "".join(f"start {id_of(one)} {one:064x}\n" for one in range(3))
    rows = (
        (
            "INSERT INTO record (project_uuid, invocation_id, received_at, client, report, body, digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (PROJECT, piece.invocation_id, NOW, "ada", encode_report(piece.report), body, compute_digest(body)),
        ),
        (
            "INSERT INTO log (project_uuid, name, client, keys, checkpoint, size) VALUES (?, ?, ?, ?, ?, ?)",
            (PROJECT, "1-0e7563e2", "ada", "k", "a state of before", 2),
        ),
        ("INSERT INTO leaves VALUES (?, ?, ?, ?)", (PROJECT, "1-0e7563e2", 0, leaves[: 2 * LEAF_BYTES])),
        ("UPDATE totals SET records = 1, revision = 2 WHERE project_uuid = ?", (PROJECT,)),
    )
    address = str(tmp_path / "events.db")
    if engine == "postgres":
        server: Server = request.getfixturevalue("postgres")
        address = server.make_schema(tmp_path.name[-40:])
    opened = open_ledger(address)
    opened.storage.accept(events, NOW, "ada")
    # As a collector of the version before left it.
    undo = [
        "DROP TABLE record_order",
        "DROP TABLE object",
        "DROP TABLE log_conflict",
        "ALTER TABLE log DROP COLUMN edge",
    ]
    undo += [f"ALTER TABLE totals DROP COLUMN {name}" for name in ("whole", "objects", "missing")]
    undo += [f"ALTER TABLE token DROP COLUMN {name}" for name in ("expires_at", "last_used_at")]
    if engine == "postgres":
        undo += ["ALTER TABLE forks DROP CONSTRAINT forks_once", "UPDATE collector SET version = 2"]
        undo += ["ALTER TABLE forks ADD CONSTRAINT forks_pkey PRIMARY KEY (origin, held, sent)"]
    else:
        undo += ["PRAGMA user_version = 4"]
    for statement, values in (*((one, ()) for one in undo), *rows):
        opened.home.write(lambda transaction: transaction.run(statement, values))  # noqa: B023  # called at once
    opened.storage.close()
    storage = open_ledger(address).storage
    edge = compute_edge(leaves)
    note = f"spec-kitty/p/1-0e7563e2\n3\n{encode(edge.root())}\n\n\u2014 x AAAAAAAA\n"
    grown = storage.keep_leaves(PROJECT, LogPiece("1-0e7563e2", 2, leaves[2 * LEAF_BYTES :], "k", note), NOW, "ada")
    objects = record_of(1, objects=["d" * 64])[0]
    [row] = storage.projects(None, 9)
    again = storage.keep_record(PROJECT, objects, NOW, "ada")
    storage.close()

    assert (grown, row.records, row.whole, row.missing) == ((STORED, 3), 1, 1, 0)
    assert again == (DUPLICATE, ["d" * 64])


@pytest.mark.parametrize("table", ["event", "invocation"])
def test_a_damaged_row_is_an_error_and_never_shown(tmp_path: Path, table: str) -> None:
    path = tmp_path / "events.db"
    storage = open_file(path)
    storage.accept([started(1)], NOW)
    storage.close()
    column = {"event": "body", "invocation": "profile_id"}[table]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {table} SET {column} = replace({column}, 'e', 'f')")
    database.close()
    storage = open_file(path)

    with pytest.raises(StorageError, match="damaged"):
        storage.phases(id_of(1)) if table == "event" else storage.rows(Filter(), 9)
    storage.close()


# --- ledgers of older versions in several databases

MERGE = Path(__file__).parents[3] / "docs/adr/0017-one-database-a-ledger.md"


def test_a_ledger_whose_projects_lie_in_other_databases_is_refused_until_they_are_merged(tmp_path: Path) -> None:
    """As the documentation says, by its own statements."""
    home, other = tmp_path / "events.db", tmp_path / "other.db"
    for path, number in ((home, 1), (other, 2)):
        storage = open_file(path)
        storage.accept([started(number, project=MANY[number]), completed(number, project=MANY[number])], NOW)
        storage.close()
    with closing(sqlite3.connect(home)) as one, closing(sqlite3.connect(other)) as two:
        [(name,)] = two.execute("SELECT name FROM shard")
        one.execute("INSERT INTO placement VALUES (?, ?)", (MANY[2], name))
        one.commit()
    with pytest.raises(StorageUnusable, match="1 of its projects lie in other databases"):
        open_ledger(str(home))
    statements = MERGE.read_text(encoding="utf-8").partition("```sql\nATTACH")[2].partition("```")[0]
    with closing(sqlite3.connect(home, isolation_level=None)) as one:
        one.executescript(f"ATTACH{statements}".replace("other.db", str(other)))
    merged = open_ledger(str(home)).storage

    assert Totals(2, 0, 4, 0) == merged.totals()
    assert {MANY[1], MANY[2]} == {row.project_uuid for row in merged.rows(ALL, 9)}
    assert {MANY[1], MANY[2]} == {row.project_uuid for row in merged.rows(Filter(action="implement"), 9)}
    merged.close()


# --- PostgreSQL


def test_a_schema_of_another_program_or_a_newer_collector_is_refused(postgres: Server, tmp_path: Path) -> None:
    other, newer = (postgres.make_schema(f"{tmp_path.name}_{name}") for name in ("other", "newer"))
    SqlStorage(PostgresDatabase(newer)).close()
    with psycopg.connect(other) as one, psycopg.connect(newer) as two:
        one.execute("CREATE TABLE event (x int)")
        two.execute("UPDATE collector SET version = 9")
    for address, says in (
        (other, "another program"),
        (newer, "schema version 9"),
        (f"postgresql://127.0.0.1:{free_port()}/none", "refused"),
        ("postgresql://%zz", "not an address"),
    ):
        with pytest.raises(StorageUnusable, match=says):
            PostgresDatabase(address)
    with psycopg.connect(other) as one:
        assert [("event",)] == one.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' OR schemaname = current_schema()"
        ).fetchall()


def test_many_collectors_that_begin_at_once_make_one_schema(postgres: Server, tmp_path: Path) -> None:
    address = postgres.make_schema(tmp_path.name)

    def begin(number: int) -> str:
        del number
        with closing(PostgresDatabase(address)) as database:
            [(name,)] = database.read(lambda transaction: transaction.run("SELECT name FROM shard"))
            return str(name)

    with ThreadPoolExecutor(8) as pool:
        assert 1 == len(set(pool.map(begin, range(8))))


def test_a_commit_waits_for_the_disk_whatever_the_server_says(postgres: Server, tmp_path: Path) -> None:
    address = postgres.make_schema(tmp_path.name) + "%20-csynchronous_commit%3Doff"
    database = PostgresDatabase(address)

    assert [("on",)] == database.read(lambda transaction: transaction.run("SHOW synchronous_commit"))
    database.close()


def test_a_lost_connection_is_opened_anew_and_the_batch_stored_once(postgres: Server, tmp_path: Path) -> None:
    storage = SqlStorage(PostgresDatabase(postgres.make_schema(tmp_path.name)))
    storage.accept([started(1)], NOW)
    with psycopg.connect(postgres.address()) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'spec-kitty collector'"
        )

    assert [DUPLICATE, STORED] == storage.accept([started(1), started(2)], NOW)
    assert Totals(2, 2, 2, 0) == storage.totals()
    storage.close()


def test_batches_with_the_same_keys_in_other_orders_never_wait_for_each_other(postgres: Server, tmp_path: Path) -> None:
    address = postgres.make_schema(tmp_path.name)
    storages = [SqlStorage(PostgresDatabase(address)) for _ in range(4)]
    events = [started(n, project=project) for n in range(10) for project in (PROJECT, OTHER_PROJECT)]

    def deliver(number: int) -> list[str]:
        mixed = random.Random(number).sample(events, len(events))
        return [
            verdict for one in range(0, 20, 5) for verdict in storages[number % 4].accept(mixed[one : one + 5], NOW)
        ]

    with ThreadPoolExecutor(8) as pool:
        said = [verdict for verdicts in pool.map(deliver, range(16)) for verdict in verdicts]

    for storage in storages:
        storage.close()
    assert 20 == said.count(STORED)
    assert 300 == said.count(DUPLICATE)
    with psycopg.connect(postgres.address()) as one:
        assert [(0,)] == one.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'").fetchall()


def order_of(
    lines: list[dict[str, Any]],
    number: int,
    event: str = "erased",
    members: tuple[str, ...] = ("match_reason", "request_text"),
    **more: object,
) -> Order:
    """An order about the first line of a record, and what is left of that line."""
    first = {key: value for key, value in lines[0].items() if key != "~"}
    left = erase_members(first, lines[0]["~"], set(members), "5" * 32).decode()
    digest = open_line(left.encode().removesuffix(b"\n")).digest
    row = {"seq": 0, "seal": lines[0]["~"], "members": list(members), "digest": digest}
    said: dict[str, object] = {"lines": [row], "objects": []} if event == "erased" else {}
    said |= {"event": event, "v": 1, "seq": len(lines), "prev": lines[-1]["~"], "at": "2026-11-22T09:00:00.000Z"}
    said |= {"ordered_by": "ada", "reason": "asked", "identity": "claim", "invocation_id": lines[0]["invocation_id"]}
    annex = seal_line({**said, **more}).decode()
    body = {"annex": annex, "lines": {lines[0]["~"]: left[:-1]} if event == "erased" else {}, "objects": None}
    return read_order(json.dumps(body).encode(), lines[0]["invocation_id"], f"{id_of(900 + number)}.jsonl")


def test_what_a_version_before_left_of_an_erasure_goes_when_the_events_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left the action, so what comes without it was a conflict."""
    piece, events = record_of(1)
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    order = order_of(lines, 1, members=("action", "actor"))
    with closing(open_file(tmp_path / "events.db")) as storage:
        storage.accept(events, NOW)
        with monkeypatch.context() as patch:
            patch.setattr(orders, "erase_event", lambda event, _: dict(event))
            storage.keep_order(PROJECT, id_of(1), order, NOW, "ada")
        before = storage.phases(id_of(1))[PROJECT][0].event
        verdicts = storage.accept(events, LATER)
        after: Any = storage.phases(id_of(1))[PROJECT][0].event

    assert (before, verdicts) == (events[0], [DUPLICATE, DUPLICATE])
    assert (after["data"]["payload"]["action"], after["data"]["payload"]["actor"]["actor_id"]) == ("erased", "erased")


def test_what_an_order_erased_comes_back_with_nothing_that_is_sent(storage: Storage) -> None:
    piece, events = record_of(1)
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    request = lines[0]["request_text"]
    storage.accept(events, NOW)
    storage.keep_record(PROJECT, piece, NOW, "")
    order = order_of(lines, 1)

    assert [(STORED, True), (DUPLICATE, True)] == [
        storage.keep_order(PROJECT, id_of(1), order, NOW, "ada") for _ in range(2)
    ]
    assert [DUPLICATE, DUPLICATE] == storage.accept(events, LATER)
    assert (DUPLICATE, []) == storage.keep_record(PROJECT, piece, LATER, "")
    (held,) = storage.records(PROJECT, 9, bodies=True)
    assert decode_report(held.report).findings[-1].code == "ERASED"
    kept = json.dumps([held, storage.rows(ALL, 9), [one.event for one in storage.phases(id_of(1))[PROJECT]]])
    assert request and request not in kept
    assert storage.totals().conflicts == 0


def test_no_digest_tells_of_what_was_refused_of_an_erased_record(storage: Storage) -> None:
    """Also where what is stored never held it: the events here are of a level that has no request."""
    piece, _ = record_of(1)
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    storage.accept([compose(PROJECT, "metadata", lines[0])], NOW, "ada")
    refused = compose(PROJECT, "full", {**lines[0], "verb": "ask"})
    verdicts = storage.accept([refused], NOW, "bob")
    before = [one.sent_sha256 for one in storage.conflicts(9)]
    storage.keep_order(PROJECT, id_of(1), order_of(lines, 1), NOW, "ada")
    (after,) = storage.conflicts(9)

    assert (verdicts, before) == ([CONFLICT], [compute_digest(canonical(refused))])
    assert after.sent_sha256 not in before and after.held_sha256 == ""


def files_hold(server: Server, text: str) -> bool:
    """Whether the bytes of a server's tables hold a text, in rows of now or of before."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    return any(text.encode() in path.read_bytes() for path in (server.data / "base").rglob("*") if path.is_file())


def make_words(*said: str) -> list[str]:
    """Words that stand in no other test, nor a run of them."""
    return [f"{one}{random.SystemRandom().getrandbits(64):016x}" for one in said]


def test_what_a_later_erasure_takes_from_an_earlier_one_leaves_the_servers_files(
    postgres: Server, tmp_path: Path
) -> None:
    """The first brings the line with what the second erases."""
    request, reason = make_words("asked", "why")
    piece, events = record_of(1, told={"request_text": request, "match_reason": reason})
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    with closing(SqlStorage(PostgresDatabase(postgres.make_schema(tmp_path.name)))) as storage:
        storage.accept(events, NOW)
        held, said = files_hold(postgres, reason), []
        for number, member in enumerate(("request_text", "match_reason")):
            order = order_of(lines, number, members=(member,))
            said.append(storage.keep_order(PROJECT, id_of(1), order, NOW, "ada"))

    assert (held, said) == (True, [(STORED, True)] * 2)
    assert [files_hold(postgres, text) for text in (request, reason)] == [False, False]


def test_an_erasure_that_somebody_else_may_still_read_is_not_called_purged(postgres: Server, tmp_path: Path) -> None:
    """A transaction of before it, whatever it is about, keeps the rows that were; the sender comes again."""
    (request,) = make_words("asked")
    piece, events = record_of(1, told={"request_text": request})
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    order = order_of(lines, 1)
    with closing(SqlStorage(PostgresDatabase(postgres.make_schema(tmp_path.name)))) as storage:
        storage.accept(events, NOW)
        with psycopg.connect(postgres.address()) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")
            first = storage.keep_order(PROJECT, id_of(1), order, NOW, "ada")
            held = files_hold(postgres, request)
        second = storage.keep_order(PROJECT, id_of(1), order, NOW, "ada")

    assert (first, held) == ((STORED, False), True)
    assert (second, files_hold(postgres, request)) == ((DUPLICATE, True), False)


def test_an_order_that_came_first_counts_for_what_follows(storage: Storage) -> None:
    piece, events = record_of(1)
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    storage.keep_order(PROJECT, id_of(1), order_of(lines, 1), NOW, "ada")
    storage.accept(events, NOW)
    storage.keep_record(PROJECT, piece, NOW, "")
    (held,) = storage.records(PROJECT, 9, bodies=True)

    assert lines[0]["request_text"] not in json.dumps([held, storage.rows(ALL, 9)])


def test_a_copy_from_git_with_an_order_that_is_stored_here_waits_for_no_log(storage: Storage) -> None:
    """Who ordered it sends orders and no log; bob brings ada's record with that order, or without."""
    piece, events = record_of(1, steps=1)
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    storage.accept(events, NOW, "ada")
    storage.keep_order(PROJECT, piece.invocation_id, order_of(lines, 1), NOW, "eve")
    said = [storage.keep_record(PROJECT, piece, LATER, "bob", is_merged=True)[0] for _ in range(2)]
    [held] = storage.bodies([ListPosition(piece.invocation_id, PROJECT)]).values()

    assert said == [STORED, DUPLICATE]
    assert lines[0]["request_text"] not in held


@pytest.mark.parametrize("event", ["erased", "held"])
def test_a_log_of_ones_own_gives_no_order_about_another_ones_record(storage: Storage, event: str) -> None:
    """bob's token may not erase. His copy comes first, so that ada's would be other content."""
    piece, events = record_of(1, steps=1)
    value = json.loads(piece.body)
    lines = value["lines"].splitlines()
    order = order_of([json.loads(line) for line in lines], 1, event)
    lines[0] = "".join(order.lines.values()) or lines[0]
    forged = {**value, "lines": "\n".join([*lines, ""]), "annexes": {order.file: order.annex}}
    leaves = f"annex {piece.invocation_id} {order.fields['~']}\n"
    note = f"spec-kitty/p/1-0e7563e2\n1\n{encode(compute_edge(leaves).root())}\n\n\u2014 x AAAAAAAA\n"
    storage.keep_leaves(PROJECT, LogPiece("1-0e7563e2", 0, leaves, "k", note), NOW, "bob")
    storage.accept(events, NOW, "ada")
    sent = read_record(json.dumps(forged).encode(), piece.invocation_id)
    said = [storage.keep_record(PROJECT, one, NOW, client)[0] for one, client in ((sent, "bob"), (piece, "ada"))]
    [held] = storage.records(PROJECT, 9, bodies=True)

    assert said == [OWNED, STORED]
    assert (held.body, held.report) == (piece.body, encode_report(piece.report))


def test_what_is_held_is_not_erased_until_it_is_released(storage: Storage) -> None:
    piece, events = record_of(1)
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    storage.accept(events, NOW)
    hold = order_of(lines, 1, "held")
    erasure, release = order_of(lines, 2), order_of(lines, 3, "released", hold=hold.annex[-67:-3])
    verdicts = [storage.keep_order(PROJECT, id_of(1), one, NOW, "ada")[0] for one in (hold, erasure, release, erasure)]

    assert verdicts == [STORED, HELD, STORED, STORED]
    assert [one.phase for one in storage.conflicts(9)] == [ERASURE]


def test_a_hold_on_an_open_record_costs_none_of_the_objects_that_come_later(storage: Storage) -> None:
    """An order says what a record led to when it was given; only an erasure takes objects away."""
    one, two = (compute_digest(text) for text in ("one", "two"))
    begun, events = record_of(1, closed=False, objects=[one])
    grown, _ = record_of(1, closed=False, steps=1, objects=[one, two])
    lines = [json.loads(line) for line in json.loads(begun.body)["lines"].splitlines()]
    storage.accept(events, NOW)
    storage.keep_record(PROJECT, begun, NOW, "")
    hold = order_of(lines, 1, "held")._replace(objects=(one,))
    storage.keep_order(PROJECT, id_of(1), hold, NOW, "")

    assert (STORED, sorted([one, two])) == storage.keep_record(PROJECT, grown, NOW, "")


def test_an_object_that_went_with_an_erasure_is_not_asked_for_again(storage: Storage) -> None:
    one, two = (compute_digest(text) for text in ("one", "two"))
    piece, events = record_of(1, objects=[one, two])
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    storage.accept(events, NOW)
    storage.keep_record(PROJECT, piece, NOW, "")
    storage.keep_objects(PROJECT, {one: "one", two: "two"})
    storage.keep_order(PROJECT, id_of(1), order_of(lines, 1)._replace(objects=(one,)), NOW, "")
    storage.keep_order(PROJECT, id_of(1), order_of(lines, 2, "held"), NOW, "")

    assert storage.objects(PROJECT, [one, two]) == {one: "one"}
    assert (DUPLICATE, []) == storage.keep_record(PROJECT, piece, NOW, "")


def test_an_object_that_another_record_names_stays_when_one_is_erased(storage: Storage) -> None:
    """Whatever its lines say, and beside a record of before objects."""
    one, two = (compute_digest(text) for text in ("one", "two"))
    piece, events = record_of(1, objects=[one, two])
    named, more = record_of(2, objects=[two])
    value = {**json.loads(named.body), "withheld": {"d" * 64: '\0 "objects":[] ]'}}
    older, others = record_of(3)
    before = {key: text for key, text in json.loads(older.body).items() if key in ("annexes", "lines", "name")}
    storage.accept(events + more + others, NOW)
    storage.keep_record(PROJECT, piece, NOW, "")
    storage.keep_record(PROJECT, named._replace(body=canonical(value)), NOW, "")
    storage.keep_record(PROJECT, older._replace(body=canonical(before)), NOW, "")
    storage.keep_objects(PROJECT, {one: "one", two: "two"})
    lines = [json.loads(line) for line in json.loads(piece.body)["lines"].splitlines()]
    storage.keep_order(PROJECT, id_of(1), order_of(lines, 1)._replace(objects=()), NOW, "")

    assert storage.objects(PROJECT, [one, two]) == {two: "two"}


def test_an_erasure_reads_no_bodies_of_other_records(tmp_path: Path) -> None:
    with closing(open_file(tmp_path / "events.db")) as storage:
        one = compute_digest("one")
        pieces = [
            record_of(number, steps=0 if number == 1 else 300, objects=[one][: number == 1]) for number in range(1, 20)
        ]
        for piece, events in pieces:
            storage.accept(events, NOW)
            storage.keep_record(PROJECT, piece, NOW, "")
        lines = [json.loads(line) for line in json.loads(pieces[0][0].body)["lines"].splitlines()]
        order = order_of(lines, 1)._replace(objects=())
        tracemalloc.start()
        storage.keep_order(PROJECT, id_of(1), order, NOW, "")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < sum(len(piece.body) for piece, _ in pieces) / 3
