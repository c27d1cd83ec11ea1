"""Who may ask a collector: tokens with scopes and projects, and that one tenant learns nothing of another."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import signal
import socket
import sqlite3
import string
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg
import pytest
from jsonschema import Draft202012Validator

from collecting import Answer, Collector, add_token, record_of, running, serve_command, serving, shown
from envelopes import OTHER_PROJECT, PROJECT, completed, id_of, started
from postgres import Server, serving_postgres
from specify_cli.features.collector.engines.ledger import open_database
from specify_cli.features.collector.reception import cursor_of
from specify_cli.features.collector.storage import ListPosition, RecordPiece
from specify_cli.features.collector.tokens import RateLimit, Token, Tokens
from specify_cli.libraries.signed_log.notes import ED25519, VerifierKey
from specify_cli.libraries.wire.contract import CONTENT_TYPE
from support import PATIENCE, Cli, environment, run_main, wait_until

NOW = "2026-11-21T12:00:00.000Z"
SECRETS = {name: f"{name}-{'x' * 20}" for name in ("ada", "mallory", "auditor", "sender", "slow", "bob")}
SCHEMAS = Path(__file__).parents[3] / "docs/schemas"


@pytest.fixture(params=["sqlite", "postgres"])
def tokens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tokens]:
    address = str(tmp_path / "events.db")
    if request.param == "postgres":
        address = request.getfixturevalue("postgres").make_schema(tmp_path.name)
    database = open_database(address)
    yield Tokens(database)
    database.close()


def test_a_token_is_found_by_its_secret_until_it_is_revoked(tokens: Tokens) -> None:
    token, secret = tokens.create("ada", ["send", "read"], frozenset({PROJECT}), rate=60, now=NOW)
    other, other_secret = tokens.create("ada", ["read"], None, rate=None, now=NOW)

    assert (Token(token.id, "ada", frozenset({"send", "read"}), frozenset({PROJECT}), 60, NOW), other) == (
        tokens.find(secret),
        tokens.find(other_secret),
    )
    assert {token, other} == set(tokens.list_all())
    assert [None] * 4 == [tokens.find(wrong) for wrong in ("", secret[:-1], secret + "x", "\x00\ud800é")]
    revoked = tokens.revoke(token.id, NOW)
    assert (NOW, None, other) == (revoked and revoked.revoked_at, tokens.find(secret), tokens.find(other_secret))
    assert tokens.revoke("none", NOW) is None


def test_no_secret_is_in_the_database(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "events.db"))
    _, secret = Tokens(database).create("ada", ["send"], None, rate=None, now=NOW)
    database.close()

    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_no_wrong_token_is_found_however_near_it_is(tokens: Tokens) -> None:
    """Each place of the secret is changed to each other character of its alphabet, once."""
    _, secret = tokens.create("ada", ["send"], None, rate=None, now=NOW)
    near = [
        secret[:place] + other + secret[place + 1 :]
        for place in range(0, len(secret), 7)
        for other in string.ascii_letters + string.digits + "-_"
        if other != secret[place]
    ]

    assert {None} == {tokens.find(wrong) for wrong in (*near, secret[:-1], secret + "A", "")}


def test_a_rate_fills_again_evenly() -> None:
    limit, token = RateLimit(), Token("1", "ada", rate=6)

    assert [0.0] * 6 == [limit.take(token, 100) for _ in range(6)]
    assert 10 == pytest.approx(limit.take(token, 100))
    assert 0.0 == limit.take(token, 110)
    assert 5 == pytest.approx(limit.take(token, 115))
    assert [0.0] * 6 == [limit.take(token, 1_000) for _ in range(6)]
    assert 0.0 < limit.take(token, 1_000)
    assert 0.0 == limit.take(Token("2", "bob"), 100)


# --- over HTTP

Ask = Callable[..., Answer]


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[tuple[Collector, Ask]]:
    """A collector with the tokens of two tenants, and a way to ask it as one of them."""
    address = str(tmp_path / "events.db")
    ours, theirs = frozenset({PROJECT}), frozenset({OTHER_PROJECT})
    add_token(address, "ada", SECRETS["ada"], projects=ours)
    add_token(address, "bob", SECRETS["bob"], projects=ours)
    add_token(address, "mallory", SECRETS["mallory"], projects=theirs)
    add_token(address, "auditor", SECRETS["auditor"], scopes=["read"])
    add_token(address, "sender", SECRETS["sender"], scopes=["send"], projects=ours)
    add_token(address, "slow", SECRETS["slow"], rate=2)
    with serving(tmp_path, "--witness", "w.example") as collector:

        def ask(name: str, path: str, events: object = None) -> Answer:
            method, body = ("GET", None) if events is None else ("POST", json.dumps(events))
            return collector.ask(method, path, body, {"Content-Type": CONTENT_TYPE}, token=SECRETS[name])

        yield collector, ask


def statuses(answer: Answer) -> list[Any]:
    return [one["status"] for one in answer.json()["results"]]


def test_a_token_owns_what_its_name_sent_first_and_does_what_its_scope_says(tenants: tuple[Collector, Ask]) -> None:
    _, ask = tenants
    begun = ask("ada", "/v1/events", [started(1)])
    forged = ask("bob", "/v1/events", [completed(1, outcome="done")])
    ended = ask("ada", "/v1/events", [completed(1, outcome="failed")])
    page = ask("auditor", f"/invocations/{id_of(1)}").body.decode()
    value = ask("auditor", f"/v1/invocations/{id_of(1)}").json()
    refused = [
        ask("auditor", "/v1/events", [started(2)]),
        ask("auditor", "/witness/add-log", "x"),
        ask("sender", "/v1/invocations"),
        ask("sender", "/"),
        ask("sender", "/metrics"),
    ]

    assert (["stored"], ["stored"]) == (statuses(begun), statuses(ended))
    assert (409, "urn:spec-kitty:problem:owned") == (forged.status, forged.json()["type"])
    assert [403] * 5 == [answer.status for answer in refused]
    assert "Refused for this invocation" in page and "bob" in page
    assert [("completed", "bob")] == [(one["phase"], one["client"]) for one in value["conflicts"]]
    assert "ada" == value["phases"]["completed"]["client"]


@pytest.mark.stress
def test_one_tenant_learns_nothing_of_another(tenants: tuple[Collector, Ask]) -> None:
    """Everything is asked with the other's ids, cursors, names and projects: each answer is as if nothing were held."""
    collector, ask = tenants

    def learn() -> list[tuple[int, bytes]]:
        cursor = cursor_of(ListPosition(id_of(9), PROJECT))
        paths = [
            *("/v1/projects", f"/v1/projects/{PROJECT}", f"/v1/projects?cursor={OTHER_PROJECT}", "/projects"),
            *("/v1/invocations", "/v1/conflicts", "/v1/logs", "/metrics", "/", "/?profile=builder", "/?status=open"),
            *("/pictures", "/pictures?profile=builder", f"/pictures?project={PROJECT}"),
            *(f"/invocations/{id_of(5)}/page{query}" for query in ("", f"?project={PROJECT}")),
            *(f"/compare?a={project}/{id_of(5)}&b={PROJECT}/{id_of(5)}" for project in (PROJECT, OTHER_PROJECT)),
            *(f"/v1/invocations?{query}" for query in (f"project={PROJECT}", f"cursor={cursor}", "actor=ann")),
            *(f"{at}/{id_of(n)}{query}" for at in ("/v1/invocations", "/invocations") for n in (1, 2, 3)
              for query in ("", f"?project={PROJECT}", f"?project={OTHER_PROJECT}")),
        ]  # fmt: skip
        read = [ask("mallory", path) for path in paths]
        sent = [
            ask("mallory", "/v1/events", [event])
            for event in (started(1), completed(1), completed(3), started(1, action="review"))
        ]
        kept = [
            keep("mallory", PROJECT, record_of(5)[0]),
            keep("mallory", OTHER_PROJECT, record_of(5)[0]),
            *(
                collector.ask("PUT", f"/v1/projects/{project}/objects", json.dumps(held), token=SECRETS["mallory"])
                for project in (PROJECT, OTHER_PROJECT)
            ),
        ]
        logged = [register("mallory", project, 1) for project in (PROJECT, "project")]
        return [(answer.status, answer.body) for answer in read + sent + kept + logged]

    def register(name: str, project: str, key: int) -> Answer:
        origin = f"spec-kitty/{project}/1-0e7563e{'0' if project == PROJECT else '1'}"
        body = f"{VerifierKey(origin, ED25519, bytes([key] * 32))}\n"
        return collector.ask("POST", "/witness/add-log", body, token=SECRETS[name])

    def keep(name: str, project: str, piece: RecordPiece) -> Answer:
        path = f"/v1/projects/{project}/records/{piece.invocation_id}"
        return collector.ask("PUT", path, piece.body, token=SECRETS[name])

    held = {hashlib.sha256(b"a rule of ada's").hexdigest(): "a rule of ada's"}
    before = learn()
    assert 200 == register("ada", PROJECT, 2).status
    piece, events = record_of(5, objects=held)
    ask("ada", "/v1/events", events[:1])
    ask("ada", "/v1/events", events[1:])
    assert 200 == keep("ada", PROJECT, piece).status
    ask("ada", "/v1/events", [started(n) for n in range(1, 5)])
    ask("ada", "/v1/events", [completed(1), started(2, action="review")])
    assert before == learn()
    assert ["stored"] == statuses(ask("mallory", "/v1/events", [started(1, project=OTHER_PROJECT)]))
    mixed = ask("mallory", "/v1/events", [started(1), started(2, project=OTHER_PROJECT)])

    assert {PROJECT} == {row["project_uuid"] for row in ask("ada", "/v1/invocations").json()["items"]}
    assert b"5 invocations, 3 open" in ask("ada", "/").body
    assert 200 == ask("ada", f"/v1/invocations/{id_of(1)}").status
    assert 409 == ask("auditor", f"/v1/invocations/{id_of(1)}").status
    assert ["refused", "stored"] == statuses(mixed)
    assert "urn:spec-kitty:problem:foreign-project" == mixed.json()["results"][0]["problem"]["type"]


def test_a_token_that_asks_too_often_waits_and_others_do_not(tenants: tuple[Collector, Ask]) -> None:
    _, ask = tenants
    said = [ask("slow", "/v1/invocations") for _ in range(4)]

    assert [200, 200, 429, 429] == [answer.status for answer in said]
    assert 1 <= int(said[-1].headers["retry-after"]) <= 30
    assert 200 == ask("ada", "/v1/invocations").status


def test_a_revoked_token_is_refused_at_the_next_request(
    tenants: tuple[Collector, Ask], cli: Cli, tmp_path: Path
) -> None:
    _, ask = tenants
    assert 200 == ask("ada", "/v1/invocations").status
    database = str(tmp_path / "events.db")
    rows = cli("collector", "token", "list", "--db", database, "--json").json()
    (token,) = (row["id"] for row in rows if row["name"] == "ada")
    revoked = cli("collector", "token", "revoke", token, "--db", database, "--json")

    assert 401 == ask("ada", "/v1/invocations").status
    assert revoked.json()["revoked_at"]
    schema = json.loads((SCHEMAS / "collector-token.json").read_text())
    for row in (*rows, revoked.json()):
        Draft202012Validator(schema).validate(row)


def test_a_token_made_at_the_command_line_works_and_is_never_shown_again(tmp_path: Path, cli: Cli) -> None:
    database = ("--db", str(tmp_path / "events.db"))
    made = cli("collector", "token", "create", "ada", *database, "--project", PROJECT, "--scope", "read", "--json")
    plain = cli("collector", "token", "create", "bob", *database, "--project", "all", "--rate", "90")
    listed = cli("collector", "token", "list", *database)
    with serving(tmp_path) as collector:
        basic = base64.b64encode(f"x:{made.json()['token']}".encode()).decode()
        read = collector.ask("GET", "/", headers={"Authorization": f"Basic {basic}"}, token=None)
        sent = collector.ask("GET", "/v1/invocations", token=plain.out.strip())

    Draft202012Validator(json.loads((SCHEMAS / "collector-token-created.json").read_text())).validate(made.json())
    assert (200, 403) == (read.status, sent.status)
    assert plain.out.startswith("skc_") and plain.out.count("\n") == 1
    assert "shown this once" in plain.err
    assert 0 == cli(*plain.err.partition("to end it: spec-kitty ")[2].split()).code
    assert made.json()["token"] not in listed.out and plain.out.strip() not in listed.out
    assert f"ada  read  {PROJECT}" in listed.out
    assert "bob  send  all projects, 90 requests a minute, never used" in listed.out
    wrong = [("a b", "all"), ("ada", "x"), ("ada", PROJECT.upper())]
    assert [1, 1, 1] == [
        cli("collector", "token", "create", name, *database, "--project", project).code for name, project in wrong
    ]
    assert 1 == cli("collector", "token", "create", "ada", *database, "--project", "all", "--rate", "0").code


def test_the_list_says_which_token_is_over(tmp_path: Path, cli: Cli) -> None:
    address = str(tmp_path / "events.db")
    with contextlib.closing(open_database(address)) as database:
        for name, end in (("past", "2020-01-01T00:00:00.000Z"), ("coming", "9999-01-01T00:00:00.000Z")):
            Tokens(database).create(name, ["send"], None, rate=None, now=NOW, expires_at=end)
    listed = cli("collector", "token", "list", "--db", address).out

    assert "ended 2020-01-01" in listed and "ends 9999-01-01" in listed


def test_a_database_that_is_not_there_is_named_and_not_made_by_what_reads(tmp_path: Path, cli: Cli) -> None:
    """A mistyped name is no empty ledger."""
    path = tmp_path / "evnts.db"
    ran = [cli("collector", "token", *argv, "--db", str(path)) for argv in (("list",), ("revoke", "x"))]

    assert [(one.code, str(path) in one.err) for one in ran] == [(1, True)] * 2
    assert not path.exists()


def test_no_parquet_is_made_of_a_database_that_is_not_there(tmp_path: Path, cli: Cli) -> None:
    path, folder = tmp_path / "evnts.db", tmp_path / "tables"
    words = ("collector", "export", "--parquet", str(folder), "--db", str(path))
    ran = [cli(*words, *since) for since in ((), ("--since", "1969-12-31"), ("--since", "99999d"))]

    assert [(one.code, str(path) in one.err) for one in ran] == [(1, True)] * 3
    assert not path.exists() and not folder.exists()


@pytest.mark.parametrize(
    "words",
    [("token", "list"), ("token", "create", "ada", "--project", "all"), ("export", "--parquet", "out")],
    ids=["list", "create", "parquet"],
)
def test_a_server_of_postgres_that_does_not_answer_is_to_be_started_and_no_file_named(
    cli: Cli, words: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = cli("collector", *words, "--db", f"postgresql://kitty@127.0.0.1:{port}/none", "--json").error()

    assert error["error_code"] == "ACCESS_FAILED"
    assert error["suggestion"] == "start the database server, or correct its address"


def test_a_collector_without_tokens_says_how_to_make_one(cli: Cli, tmp_path: Path) -> None:
    path = str(tmp_path / "events.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        argv = ("collector", "serve", "--db", path, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        without = cli(*argv)
        add_token(path)
        having = cli(*argv)

    said = "spec-kitty collector token create NAME"
    assert (True, False) == (said in without.err, said in having.err)


# --- operating it


def test_metrics_count_events_and_requests_and_name_nobody(tenants: tuple[Collector, Ask]) -> None:
    _, ask = tenants
    ask("ada", "/v1/events", [started(1), started(1), {**started(2), "extra": 1}])
    ask("ada", "/v1/events", [started(1, action="review"), started(1, project=OTHER_PROJECT)])
    ask("ada", "/nothing")
    text = ask("auditor", "/metrics").body.decode()

    found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines())
             if not name.startswith("#")}  # fmt: skip
    event = 'spec_kitty_collector_events_total{result="%s"}'
    kinds = ("stored", "duplicate", "conflict", "owned", "foreign-project", "invalid-event")
    assert [1, 1, 1, 0, 1, 1] == [found[event % kind] for kind in kinds]
    request = 'spec_kitty_collector_request_seconds_count{method="%s",route="%s",status="%s"}'
    assert 2 == found[request % ("POST", "/v1/events", 200)]
    assert 1 == found[request % ("GET", "none", 404)]
    assert 0 == found["spec_kitty_collector_waiting"]
    assert not any(secret in text for secret in ("ada", PROJECT, id_of(1)))
    assert 403 == ask("ada", "/metrics").status


def test_a_log_line_is_one_json_object_without_content(tenants: tuple[Collector, Ask], tmp_path: Path) -> None:
    _, ask = tenants
    ask("ada", "/v1/events", [started(1, request_text="a planted text")] * 2)
    ask("ada", "/v1/invocations?actor=planted")
    lines = [json.loads(line) for line in shown(tmp_path).splitlines()]

    facts = ("level", "method", "path", "status", "client", "stored", "duplicate", "refused")
    assert ["INFO", "POST", "/v1/events", 200, "ada", 1, 1, 0] == [lines[0][fact] for fact in facts]
    assert {"at", "message", "milliseconds"} < lines[0].keys()
    assert "planted" not in shown(tmp_path)


def test_a_collector_that_is_told_to_end_answers_on_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path, "--drain-seconds", "86400") as collector:
        kept = HTTPConnection(collector.host, collector.port, timeout=PATIENCE)
        kept.request("GET", "/readyz")
        ready = kept.getresponse()
        ready.read()
        collector.process.send_signal(signal.SIGTERM)
        wait_until(lambda: collector.ask("GET", "/readyz", token=None).status != 200)
        alive = collector.ask("GET", "/healthz", token=None)
        stored = collector.post([started(1)])
        collector.process.send_signal(signal.SIGTERM)  # told twice, it ends at once
        code = collector.process.wait(timeout=PATIENCE)
        kept.close()

    assert (200, 200, 200, 0) == (ready.status, alive.status, stored.status, code)


def test_a_collector_whose_database_is_gone_is_alive_and_not_ready(tmp_path: Path, request: Any) -> None:
    server: Server = request.getfixturevalue("postgres")
    address = server.make_schema(tmp_path.name)
    with serving(tmp_path, "--db", address) as collector:
        before = collector.ask("GET", "/readyz", token=None).status
        with psycopg.connect(address) as other:
            other.execute("DROP TABLE totals")
        after = [collector.ask("GET", path, token=None).status for path in ("/readyz", "/healthz")]

    assert (200, [503, 200]) == (before, after)


def test_a_collector_waits_for_a_database_server_that_is_starting(tmp_path: Path) -> None:
    with serving_postgres() as server:
        command = serve_command(tmp_path, "--db", server.address())
        server.stop()
        starting = threading.Timer(1.0, server.start)
        starting.start()
        try:
            with running(tmp_path, command) as collector:
                ready = collector.ask("GET", "/readyz", token=None).status
        finally:
            starting.join()

    assert ready == 200
    assert "waiting up to 60 s for the database: 127.0.0.1/postgres" in shown(tmp_path)


def test_a_collector_that_cannot_write_is_alive_and_not_ready(tmp_path: Path) -> None:
    """As with a full disk: what it holds can be read, and nothing can be made durable."""
    with serving(tmp_path) as collector:
        before = collector.ask("GET", "/readyz", token=None).status
        with contextlib.closing(sqlite3.connect(tmp_path / "events.db")) as other:
            other.execute("CREATE TRIGGER full BEFORE UPDATE ON shard BEGIN SELECT RAISE(ABORT, 'full'); END")
            other.commit()
        after = [collector.ask("GET", path, token=None).status for path in ("/readyz", "/healthz")]

    assert (200, [503, 200]) == (before, after)


def test_a_token_sends_and_no_more_unless_that_is_said(tmp_path: Path) -> None:
    made = run_main(
        ["collector", "token", "create", "ada", "--db", "events.db", "--project", "all", "--days", "30", "--json"],
        cwd=tmp_path,
        home=tmp_path,
    ).json()

    assert made["scopes"] == ["send"]
    assert made["expires_at"][:10] == (datetime.fromisoformat(made["created_at"]) + timedelta(days=30)).isoformat()[:10]


def test_a_token_at_its_end_is_not_found_and_its_last_use_is_kept_to_the_hour(tokens: Tokens) -> None:
    _, secret = tokens.create("ada", ["send"], None, rate=None, now=NOW, expires_at="2026-12-01T00:00:00.000Z")
    times = ("2026-11-25T10:01:00.000Z", "2026-11-25T10:59:00.000Z", "2026-11-25T11:00:00.000Z")
    used = []
    for now in times:
        assert tokens.find(secret, now) is not None
        used.append(tokens.list_all()[0].last_used_at)

    assert used == [times[0], times[0], times[2]]
    assert tokens.find(secret, "2026-12-01T00:00:00.000Z") is None


def test_tokens_are_made_without_loading_a_web_server(tmp_path: Path) -> None:
    script = (
        "import sys; from specify_cli.cli.main import main\n"
        "main(['collector', 'token', 'create', 'ada', '--db', 'events.db', '--project', 'all', '--json'])\n"
        "print(sorted({'starlette', 'uvicorn', 'jinja2', 'prometheus_client'} & sys.modules.keys()))"
    )
    env = {**environment(tmp_path), "PYTHONPATH": ""}
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)

    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "[]"), ran.stderr
