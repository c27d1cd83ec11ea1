"""An erasure and a hold reach the collector: nothing of what was erased is left there, or comes back."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from collecting import Collector, add_token, running, serve_command, serving
from delivering import ENV, enable, endpoint, project_of, push, run
from planting import make_values, write_record
from postgres import Server
from specify_cli.features.collector.orders import read_order
from specify_cli.features.collector.reception import Refused
from specify_cli.features.forget import erasing, finding
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.libraries.archive.withholding import Search
from specify_cli.project.config import load_project
from specify_cli.record.seal import seal_line
from support import FULL, Cli, accept, git

pytestmark = pytest.mark.stress  # there on both engines

NAME = "zoe.quill@example.org"
AUDIT = "audit: {capture_llm_io: full, capture_tool_io: full}\n"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "served").mkdir()
    if request.param == "sqlite":
        return str(tmp_path / "served/events.db")
    server: Server = request.getfixturevalue("postgres")
    return server.make_schema(tmp_path.name[-40:])


def tell(cli: Cli, who: str) -> str:
    """Record a request, a call and a long output about somebody."""
    one = str(cli("do", f"fix the login test for {who}", "--json").json()["invocation_id"])
    for event, payload in (
        ("tool_call", {"tool": "sh", "call_id": "c", "args": {"to": who}}),
        ("tool_result", {"call_id": "c", "status": "ok", "output": f"{'x' * 40_000} {who}"}),
    ):
        cli("profile-invocation", "record", one, "--event", event, "--json-payload", json.dumps(payload))
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    return one


@pytest.fixture
def site(cli: Cli, chartered: Path, collector: Collector) -> Path:
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    config = chartered / ".kittify/config.yaml"
    config.write_text(config.read_text().partition("audit:")[0] + AUDIT)
    accept(chartered)
    enable(cli, collector)
    return chartered


def read_event(collector: Collector, invocation_id: str) -> Any:
    """Return the Started of an invocation as the collector holds it."""
    return collector.get(f"/v1/invocations/{invocation_id}").json()["phases"]["started"]["event"]


def list_holding(database: str, text: str = NAME) -> list[str]:
    """Return the tables, or the database's files, that hold a text."""
    if not database.startswith("postgresql"):
        files = Path(database).parent.glob(Path(database).name + "*")
        return [path.name for path in files if text.encode() in path.read_bytes()]
    found = []
    with psycopg.connect(database) as connection:
        for (table,) in connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        ).fetchall():
            rows = connection.execute(f"SELECT t::text FROM {table} t").fetchall()
            found += [str(table) for (row,) in rows if text in row]
            dead = connection.execute("SELECT pg_stat_get_dead_tuples(%s::regclass)", (table,)).fetchone()
            assert dead is not None
    return found


def back_up(database: Path, copy: Path) -> None:
    with closing(sqlite3.connect(database)) as live, closing(sqlite3.connect(copy)) as other:
        live.backup(other)


def serving_backup(database: Path, copy: Path, before: Collector) -> AbstractContextManager[Collector]:
    """Serve what a collector held when it was backed up, where it was served before."""
    for path in database.parent.glob("events.db*"):
        path.unlink()
    shutil.copy(copy, database)
    return running(database.parent, serve_command(database.parent, listen=f"{before.host}:{before.port}"))


def test_what_is_erased_here_is_erased_there_and_never_comes_back(
    cli: Cli, site: Path, collector: Collector, database: str, tmp_path: Path
) -> None:
    one, other = tell(cli, NAME), tell(cli, "nobody")
    first = push(cli)
    clone = tmp_path / "clone"
    shutil.copytree(site, clone, symlinks=True)
    held = list_holding(database)
    assert cli("forget", "--subject", NAME, "--reason", "asked for it", "--yes").code == 0
    done, again = push(cli), push(cli)
    left = list_holding(database)
    event = collector.get(f"/v1/invocations/{one}").json()
    pages = [collector.get(path).body for path in ("/", f"/invocations/{one}", f"/invocations/{one}/page", "/pictures")]
    project = project_of(collector)
    # A clone that knows of no erasure sends everything again, from its beginning.
    for path in (clone / ".git/kittify/sync").rglob("*outbox*"):
        path.unlink()
    cli("sync", "push", "--json", env=ENV, cwd=clone)

    assert held and first["orders"] is None
    assert b"erased or not kept" in pages[0] and b"not shared" not in pages[0]
    assert done["orders"] == {"delivered": 1, "refused": 0, "unpurged": 0, "why": None}
    assert again["orders"] == {"delivered": 0, "refused": 0, "unpurged": 0, "why": None}
    assert left == list_holding(database) == []
    assert NAME not in json.dumps(event) and all(NAME.encode() not in page for page in pages)
    assert (project["verdict"], project["records"], project["gaps"]) == ("intact", 2, 0)
    assert project["level"] == "witnessed"
    assert b"erased" in pages[2]
    assert collector.get(f"/v1/invocations/{other}").status == 200
    assert [row for row in collector.get("/v1/conflicts").json()["items"] if row["phase"] != "record"] == []


def test_an_erasure_goes_before_the_envelopes_that_come_again_without_what_was_erased(
    cli: Cli, site: Path, collector: Collector, database: str
) -> None:
    one = tell(cli, NAME)
    push(cli)
    for path in (site / ".git/kittify/sync").rglob("cursor-*"):
        path.unlink()
    assert cli("forget", "--subject", NAME, "--reason", "asked for it", "--yes").code == 0
    done = push(cli)

    assert (done["delivered"], done["refused"], done["orders"]["delivered"]) == (2, 0, 1)
    assert collector.get("/v1/conflicts").json()["items"] == [] and list_holding(database) == []
    assert collector.get(f"/v1/invocations/{one}").status == 200


def test_a_collector_put_back_to_a_backup_is_given_again_what_it_lost(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    """The next push behind a new record finds that the log there is shorter than was acknowledged."""
    (tmp_path / "served").mkdir()
    database = tmp_path / "served/events.db"
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    with serving(tmp_path / "served") as before:
        enable(cli, before)
        tell(cli, NAME)
        push(cli)
        back_up(database, tmp_path / "copy.db")
        run(cli)
        assert cli("forget", "--subject", NAME, "--reason", "asked for it", "--yes").code == 0
        push(cli)
    with serving_backup(database, tmp_path / "copy.db", before) as after:
        held = list_holding(str(database))
        run(cli)
        done, status = push(cli), cli("sync", "status", "--json", env=ENV).json()
        again = push(cli)
        project, conflicts = project_of(after), after.get("/v1/conflicts").json()["items"]

    assert held and list_holding(str(database)) == [] == conflicts
    assert (project["records"], project["verdict"], project["gaps"], project["errors"]) == (3, "intact", 0, 0)
    assert (done["state"], done["refused"], done["left"]["pending"]) == ("delivered", 0, 0)
    assert done["why"] == status["why"] and "less than it acknowledged" in done["why"]
    assert (again["delivered"], again["why"]) == (0, None)


def test_a_collector_put_back_to_a_backup_is_given_what_it_lost_of_envelopes_too(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    database = tmp_path / "served/events.db"
    (tmp_path / "served").mkdir()
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    with serving(tmp_path / "served") as before:
        enable(cli, before, "metadata")
        first = run(cli)
        push(cli)
        back_up(database, tmp_path / "copy.db")
        lost = run(cli, f"review what {NAME} wrote")
        assert (push(cli)["delivered"], push(cli)["why"]) == (2, None)
    with serving_backup(database, tmp_path / "copy.db", before) as after:
        newest = run(cli)
        done, again = push(cli), push(cli)
        rows = {row["invocation_id"]: row["status"] for row in after.get("/v1/invocations").json()["items"]}
        conflicts = after.get("/v1/conflicts").json()["items"]

    assert (rows, conflicts) == (dict.fromkeys((first, lost, newest), "closed"), [])
    assert (done["state"], done["refused"], "less than it acknowledged" in done["why"]) == ("delivered", 0, True)
    assert (again["delivered"], again["why"]) == (0, None)


def test_a_collector_put_back_to_before_an_erasure_is_given_the_order_again(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    """Nothing was acknowledged since."""
    database = tmp_path / "served/events.db"
    (tmp_path / "served").mkdir()
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    with serving(tmp_path / "served") as before:
        enable(cli, before, "full")
        run(cli, f"review what {NAME} wrote")
        run(cli)
        push(cli)
        back_up(database, tmp_path / "copy.db")
        assert cli("forget", "--subject", NAME, "--yes").code == 0
        erased = push(cli)
        left = list_holding(str(database))
    with serving_backup(database, tmp_path / "copy.db", before) as after:
        held = list_holding(str(database))
        done, again = push(cli), push(cli)
        rows = [row["status"] for row in after.get("/v1/invocations").json()["items"]]

    assert (erased["orders"]["delivered"], left, bool(held)) == (1, [], True)
    assert (done["orders"]["delivered"], list_holding(str(database))) == (1, [])
    assert "less than it acknowledged" in done["why"] and done["left"]["refused"] == 0
    assert (again["delivered"], again["why"], rows) == (0, None, ["closed", "closed"])


@pytest.mark.parametrize("level", ["metadata", "full", "records"])
@pytest.mark.parametrize("order", ["hold", "erasure"])
def test_a_collector_put_back_is_given_an_order_that_no_envelope_tells_of(
    cli: Cli, chartered: Path, tmp_path: Path, order: str, level: str
) -> None:
    """A hold changes none, and what was captured of a call stands in none."""
    database = tmp_path / "served/events.db"
    (tmp_path / "served").mkdir()
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    with serving(tmp_path / "served") as before:
        enable(cli, before, level)
        one = run(cli, f"review what {NAME} wrote" if level == "metadata" else "implement WP01")
        tool = {"tool": "sh", "call_id": "c", "args": {"to": NAME}}
        open_one = cli("do", "implement WP02", "--json").json()["invocation_id"]
        cli("profile-invocation", "record", open_one, "--event", "tool_call", "--json-payload", json.dumps(tool))
        cli("profile-invocation", "complete", "--invocation-id", open_one)
        push(cli)
        back_up(database, tmp_path / "copy.db")
        argv = ("forget", "--subject", NAME, "--yes") if order == "erasure" else ("hold", "add", one, "--reason", "x")
        assert cli(*argv).code == 0
        orders = [push(cli)["orders"]["delivered"], list_orders(database)]
    with serving_backup(database, tmp_path / "copy.db", before):
        orders += [list_orders(database)]
        done, again = push(cli), push(cli)
        orders += [list_orders(database)]

    assert (orders[0], orders[2], orders[3]) == (len(orders[1]), [], orders[1]) and orders[1]
    assert "less than it acknowledged" in done["why"] and done["left"]["refused"] == 0
    assert (again["delivered"], again["why"]) == (0, None)


def list_orders(database: Path) -> list[Any]:
    with closing(sqlite3.connect(database)) as ledger:
        return ledger.execute("SELECT invocation_id, file FROM record_order ORDER BY file").fetchall()


def test_no_planted_value_is_left_on_the_collector(
    cli: Cli, site: Path, home: Path, collector: Collector, database: str
) -> None:
    """`make stress` plants 2,000. What is captured in full never leaves, so summaries are."""
    config = site / ".kittify/config.yaml"
    config.write_text(config.read_text().replace(AUDIT, ""))
    number = 2_000 if FULL else 20
    dice = random.Random("planted for a collector")
    values = make_values(dice, number)
    for at in range(0, number, 20):
        write_record(site, home, values[at : at + 20], time.time_ns(), dice)
    push(cli)
    # Each value has a word of its own, which no way of spelling text changes but for its case.
    words = [match[0].encode() for value in values if (match := re.search("[0-9a-f]{12}", value.lower()))]
    if database.startswith("postgresql"):
        with psycopg.connect(database) as connection:
            connection.execute("ANALYZE")  # as the server does by itself after a while
    held = dump(database)
    project, _ = load_project(str(site), str(home))
    plan = finding.make_plan(project, Query(texts=tuple(values)))
    order = Order("ada", "asked for it")
    erasing.erase(project, plan, order, time.time_ns() // 1_000_000)
    done = push(cli)
    left = dump(database)

    assert len(words) == number and sum(word in held for word in words) > number // 2
    assert (done["orders"]["delivered"], done["orders"]["refused"], done["orders"]["unpurged"]) == (number // 20, 0, 0)
    assert [word for word in words if word in left] == []
    assert (project_of(collector)["verdict"], project_of(collector)["gaps"]) == ("intact", 0)


def dump(database: str) -> bytes:
    """Return every byte of a database's files, or every row of its tables and statistics."""
    if not database.startswith("postgresql"):
        files = sorted(Path(database).parent.glob(Path(database).name + "*"))
        return b"".join(path.read_bytes() for path in files).lower()
    with psycopg.connect(database) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        ).fetchall()
        rows = [row for (name,) in names for row in connection.execute(f"SELECT t::text FROM {name} t").fetchall()]
        # What the server noted of the columns, to plan by.
        rows += connection.execute("SELECT s::text FROM pg_stats s WHERE schemaname = current_schema()").fetchall()
    return "\n".join(str(row) for (row,) in rows).lower().encode()


def test_what_leaves_sealed_is_ciphertext_there_and_goes_with_its_key(
    cli: Cli, site: Path, collector: Collector, database: str
) -> None:
    config = site / ".kittify/config.yaml"
    config.write_text(config.read_text() + "capture: {sealed: per-record}\n")
    accept(site)
    one = tell(cli, NAME)
    push(cli)
    open_one = cli("do", f"call {NAME}, then fix it", "--json").json()["invocation_id"]
    push(cli)
    cli("profile-invocation", "complete", "--invocation-id", open_one)
    push(cli)
    held, project, event = list_holding(database), project_of(collector), read_event(collector, one)
    page = collector.get(f"/invocations/{one}/page")
    assert cli("forget", "--subject", NAME, "--reason", "asked for it", "--yes").code == 0
    done = push(cli)

    errors = site / ".git/kittify/sync/top/propagation-errors.jsonl"
    assert not errors.exists()
    assert held == [] and NAME not in json.dumps(event) and "fix the login" not in json.dumps(event)
    assert (project["verdict"], project["records"], project["gaps"]) == ("intact", 2, 0)
    assert page.status == 200 and b"capture.sealed" in page.body
    assert done["orders"]["refused"] == 0 and len(list((site / ".git/kittify/sealed").glob("*.gone"))) == 2
    assert project_of(collector)["verdict"] == "intact"
    assert project_of(collector)["conflicts"] == 0, "an erasure is no contradiction"


def test_a_held_record_is_erased_by_no_clone_and_the_attempt_is_kept(
    cli: Cli, site: Path, collector: Collector, database: str, tmp_path: Path
) -> None:
    one = tell(cli, NAME)
    push(cli)
    clone = tmp_path / "clone"
    shutil.copytree(site, clone, symlinks=True)
    assert cli("hold", "add", one, "--reason", "case 7").code == 0
    hold = push(cli)
    assert cli("forget", "--subject", NAME, "--yes", cwd=clone).code == 0
    tried = cli("sync", "push", "--json", env=ENV, cwd=clone)

    assert hold["orders"]["delivered"] == 1
    assert (tried.code, tried.json()["orders"]["refused"]) == (1, 1)
    assert list_holding(database)
    assert "erasure" in {row["phase"] for row in collector.get("/v1/conflicts").json()["items"]}
    assert cli("hold", "release", one, "--reason", "closed").code == 0
    push(cli)
    assert cli("sync", "retry", "--json", env=ENV, cwd=clone).json()["orders"]["delivered"] == 1
    assert list_holding(database) == []


@pytest.mark.usefixtures("site")
def test_a_later_erasure_goes_from_the_lines_that_an_earlier_one_brought(cli: Cli, database: str) -> None:
    """Both are about one line, which the first brought as it was then, with what the second erases."""
    other = "quentin.other@example.org"
    ran = cli("do", f"fix the login test for {NAME}", "--json", env={"USER": other})
    one = str(ran.json()["invocation_id"])
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    push(cli)
    left = []
    for text in (NAME, other):
        assert cli("forget", "--subject", text, "--yes").code == 0
        left.append((push(cli)["orders"]["delivered"], list_holding(database, text)))

    assert left == [(1, []), (1, [])]


def test_clones_that_erased_different_members_of_one_line_leave_neither_and_bring_neither_back(
    cli: Cli, site: Path, collector: Collector, database: str, tmp_path: Path
) -> None:
    other = "quentin.other@example.org"
    ran = cli("do", f"fix the login test for {NAME}", "--json", env={"USER": other})
    one = str(ran.json()["invocation_id"])
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    push(cli)
    clone = tmp_path / "clone"
    shutil.copytree(site, clone, symlinks=True)
    held = [bool(list_holding(database, text)) for text in (NAME, other)]
    left = []
    for folder, text in ((site, NAME), (clone, other)):
        assert cli("forget", "--subject", text, "--yes", cwd=folder).code == 0
        ran = cli("sync", "push", "--json", env=ENV, cwd=folder)
        left.append((ran.json()["orders"], list_holding(database, NAME)))
    left_of_both = [list_holding(database, text) for text in (NAME, other)]
    verdicts = [project_of(collector)["verdict"]]
    for annex in (clone / ".kittify/events/annexes" / one).glob("*.jsonl"):
        shutil.copy(annex, site / ".kittify/events/annexes" / one / annex.name)
    assert cli("forget", "--resume", "--yes").code == 0
    done = push(cli)

    assert held == [True, True]
    assert left == [({"delivered": 1, "refused": 0, "unpurged": 0, "why": None}, [])] * 2
    assert left_of_both == [[], []]
    assert done["orders"]["refused"] == 0
    assert [*verdicts, project_of(collector)["verdict"]] == ["intact", "intact"]


def test_envelopes_alone_lose_the_request_and_its_actor(
    cli: Cli, chartered: Path, collector: Collector, database: str
) -> None:
    git(chartered, "init", "-q")
    cli("init")
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "full", "--yes")
    assert cli(*argv, env=ENV).code == 0
    one = run(cli, f"fix the login test for {NAME}")
    push(cli)
    event = read_event(collector, one)
    actor = event["data"]["payload"]["actor"]["actor_id"]
    before = [bool(list_holding(database, text)) for text in (NAME, actor)]
    cli("forget", "--subject", NAME, "--yes")
    cli("forget", "--invocation-id", one, "--member", "actor", "--yes")
    done = push(cli)
    shown = read_event(collector, one)

    assert before == [True, True]
    assert done["orders"]["delivered"] == 2
    assert list_holding(database, NAME) == []
    assert shown["data"]["payload"]["actor"]["actor_id"] == "erased"
    assert actor not in json.dumps(shown)
    assert collector.get(f"/v1/invocations?actor={actor}").json()["items"] == []


@pytest.mark.parametrize("level", ["metadata", "records"])
def test_who_asked_and_what_for_can_be_erased_before_the_first_delivery_and_delivered_again(
    cli: Cli, chartered: Path, collector: Collector, level: str
) -> None:
    """Else the contract refuses the Started for ever, and what is behind it waits."""
    git(chartered, "init", "-q")
    cli("init")
    one = run(cli)
    for member in ("actor", "action"):
        assert cli("forget", "--invocation-id", one, "--member", member, "--yes").code == 0
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", level, "--yes")
    assert cli(*argv, env=ENV).code == 0
    first = push(cli)
    for path in (chartered / ".git/kittify/sync").rglob("cursor-*"):
        path.unlink()
    second = push(cli)
    payload = read_event(collector, one)["data"]["payload"]

    assert [done["state"] for done in (first, second)] == ["delivered", "delivered"]
    assert [done["left"]["refused"] for done in (first, second)] == [0, 0]
    assert (payload["actor"]["actor_id"], payload["action"]) == ("erased", "erased")
    assert collector.get("/v1/conflicts").json()["items"] == []


def test_who_asked_and_what_for_that_is_erased_after_a_delivery_is_no_conflict_when_it_comes_again(
    cli: Cli, site: Path, collector: Collector
) -> None:
    one = run(cli)
    push(cli)
    for member in ("actor", "action"):
        assert cli("forget", "--invocation-id", one, "--member", member, "--yes").code == 0
    push(cli)
    for path in (site / ".git/kittify/sync").rglob("cursor-*"):
        path.unlink()
    done = push(cli)
    payload = read_event(collector, one)["data"]["payload"]

    assert (done["state"], done["left"]["refused"]) == ("delivered", 0)
    assert (payload["actor"]["actor_id"], payload["action"]) == ("erased", "erased")
    assert collector.get("/v1/conflicts").json()["items"] == []


def test_an_order_waits_until_it_is_delivered_and_a_clock_that_went_back_loses_none(
    cli: Cli, site: Path, database: str
) -> None:
    def list_pending() -> int:
        return int(cli("sync", "status", "--json").json()["orders_pending"])

    assert database
    one, other = tell(cli, NAME), tell(cli, "nobody")
    push(cli)
    before = cli("sync", "status", "--json").json()["last_success"]
    cli("hold", "add", other, "--reason", "case 12")
    waiting, foreseen = cli("sync", "status").out, cli("sync", "push", "--dry-run", env=ENV).out
    ahead = time.time() + 365 * 24 * 3600
    os.utime(site / ".kittify/events/annexes" / other, (ahead, ahead))  # by a clock that was a year ahead
    push(cli)
    delivered = list_pending()
    cli("forget", "--invocation-id", one, "--yes")
    erased = list_pending()
    done = push(cli)

    assert before < cli("sync", "status", "--json").json()["last_success"]
    assert "1 pending: erasures and holds" in waiting and "1 erasure or hold would go too" in foreseen
    assert (delivered, erased, list_pending()) == (0, 1, 0)
    assert done["orders"]["delivered"] == 1


@pytest.mark.usefixtures("site")
def test_orders_that_no_longer_go_at_a_lower_level_are_told(cli: Cli, collector: Collector) -> None:
    tell(cli, NAME)
    push(cli)
    assert cli("forget", "--subject", NAME, "--yes").code == 0
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "ids", "--yes")
    assert cli(*argv, env=ENV).code == 0
    push(cli)
    shown = cli("sync", "status", env=ENV).out

    assert "1 pending: erasures and holds, which do not go at level ids: sync enable --level metadata" in shown
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "metadata", "--yes")
    assert cli(*argv, env=ENV).code == 0
    assert push(cli)["orders"]["delivered"] == 1
    assert cli("sync", "status", "--json", env=ENV).json()["orders_pending"] == 0


@pytest.mark.usefixtures("site")
def test_an_object_that_many_erased_records_lead_to_is_judged_once_a_push(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[bytes] = []
    judge = Search.judge_object

    def note(search: Search, data: bytes) -> str | None:
        judged.append(data)
        return judge(search, data)

    for _ in range(3):
        tell(cli, NAME)
    push(cli)
    assert cli("forget", "--subject", NAME, "--yes").code == 0
    monkeypatch.setattr(Search, "judge_object", note)
    done = push(cli)

    assert done["orders"]["delivered"] == 3
    # Once for the orders, and once for the records that changed.
    assert max(judged.count(data) for data in judged) == 2


def test_a_token_that_only_sends_erases_nothing(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    database = str(tmp_path / "served/events.db")
    add_token(database, scopes={"send"})
    with serving(tmp_path / "served", "--db", database) as collector:
        git(chartered, "init", "-q")
        cli("init")
        enable(cli, collector)
        one = run(cli, f"fix the login test for {NAME}")
        push(cli)
        cli("forget", "--subject", NAME, "--yes")
        done = cli("sync", "push", "--json", env=ENV)
        again = cli("sync", "push", "--json", env=ENV)
    (log,) = chartered.rglob("propagation-errors.jsonl")
    with sqlite3.connect(database) as connection:
        bodies = "".join(body for (body,) in connection.execute("SELECT body FROM event"))

    assert (done.code, done.json()["orders"]["refused"]) == (1, 1)
    assert "not for erase" in log.read_text() and one in log.read_text()
    # The order stays refused until somebody has it tried again, as the record without the name does.
    assert (again.code, cli("sync", "status", "--json", env=ENV).json()["refused"]) == (1, 2)
    assert "the endpoint refused 2 of what was sent to it" in cli("doctor", env=ENV).out
    assert NAME in bodies


def test_who_agreed_before_there_were_orders_is_asked_again(
    cli: Cli, site: Path, collector: Collector, database: str
) -> None:
    tell(cli, NAME)
    push(cli)
    (consent,) = site.rglob("consent.json")
    agreed = json.loads(consent.read_text())
    assert agreed.pop("orders") == "orders"
    consent.write_text(json.dumps(agreed))
    cli("forget", "--subject", NAME, "--yes")
    unasked, said = push(cli), cli("sync", "status").out
    enable(cli, collector)
    push(cli)

    assert unasked["orders"] is None
    assert "erasures and holds" in said
    assert list_holding(database) == []


@pytest.mark.parametrize(
    "change",
    [
        {"annex": "{}\n"},
        {"annex": seal_line({"event": ["erased"]}).decode()},
        {"annex": None},
        {"lines": {"0" * 64: "{}"}},
        {"lines": []},
        {"objects": "all"},
        {"more": 1},
    ],
)
def test_an_order_that_does_not_verify_is_refused(cli: Cli, project: Path, change: dict[str, Any]) -> None:
    one = run(cli, f"fix the login test for {NAME}")
    cli("forget", "--subject", NAME, "--yes")
    (annex,) = (project / ".kittify/events/annexes" / one).glob("*.jsonl")
    sound: dict[str, Any] = {"annex": annex.read_text(), "lines": {}, "objects": None}

    assert read_order(json.dumps(sound).encode(), one, annex.name).event == "erased"
    with pytest.raises(Refused):
        read_order(json.dumps({**sound, **change}).encode(), one, annex.name)
    with pytest.raises(Refused):
        read_order(json.dumps(sound).encode(), "01KB000000000000000000000A", annex.name)


@pytest.fixture
def collector(database: str, tmp_path: Path) -> Iterator[Collector]:
    with serving(tmp_path / "served", "--witness", "w.example.org", "--db", database) as running:
        yield running
