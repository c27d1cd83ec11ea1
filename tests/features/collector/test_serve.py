"""The collector over real HTTP, in its own process, asked well and badly."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import hashlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from spec_kitty_events.conformance.loader import FixtureCase, load_fixtures
from standardwebhooks import Webhook

from collecting import Collector, add_token, record_of, serve_command, serving, shown, token_file
from envelopes import OTHER_PROJECT, PROJECT, TOKEN, completed, id_of, started
from postgres import Server
from specify_cli.libraries.web.server import bind
from specify_cli.libraries.wire.contract import CONTENT_TYPE, EXTENSION, canonical
from support import PATIENCE, Cli, environment, run_together, wait_until

SECRET = "whsec_" + base64.b64encode(b"a signing secret of the tests").decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Collector]:
    """One collector for the tests that store nothing, and for those whose `collector` is emptied after them."""
    with serving(folder) as running:
        yield running


@pytest.fixture
def collector(shared: Collector, folder: Path) -> Iterator[Collector]:
    """A collector that holds nothing yet."""
    yield shared
    with contextlib.closing(sqlite3.connect(folder / "events.db")) as database, database:
        for table in ("event", "invocation", "conflict", "actor", "totals"):
            database.execute(f"DELETE FROM {table}")


def statuses(answer: Any) -> list[str]:
    return [result["status"] for result in answer.json()["results"]]


def test_events_are_answered_one_by_one_in_their_order(collector: Collector) -> None:
    answer = collector.post([started(1), {**started(2), "extra": 1}, completed(1), started(1)])

    assert 200 == answer.status
    assert ["stored", "refused", "stored", "duplicate"] == statuses(answer)
    assert [started(1)["id"], started(2)["id"], completed(1)["id"], started(1)["id"]] == [
        result["id"] for result in answer.json()["results"]
    ]
    problem = answer.json()["results"][1]["problem"]
    assert {"type", "title", "status", "detail", "errors"} == problem.keys()
    assert [{"pointer": "/extra", "detail": "is not a member the contract knows here"}] == problem["errors"]


def test_an_event_alone_that_is_refused_is_answered_with_the_problem_itself(collector: Collector) -> None:
    wrong = collector.post([{**started(1), "time": "now"}])
    collector.post([completed(2)])
    other = collector.post([completed(2, outcome="failed")])

    assert (422, "application/problem+json", "/time") == (
        wrong.status,
        wrong.headers["content-type"],
        wrong.json()["errors"][0]["pointer"],
    )
    assert (409, "application/problem+json") == (other.status, other.headers["content-type"])


FIXTURES = [case for case in load_fixtures("profile_invocation") if case.event_type == "ProfileInvocationStarted"]
FIELDS = {"missing-slug": "/data/payload/profile_slug", "empty-action": "/data/payload/action"}


@pytest.mark.parametrize("case", FIXTURES, ids=lambda case: str(case.id))
def test_the_packages_own_fixtures_wrapped_are_taken_or_refused_as_it_says(
    case: FixtureCase, collector: Collector
) -> None:
    """A valid payload is stored; of an invalid one the answer names the field."""
    event = started(1)
    answer = collector.post([{**event, "data": {**event["data"], "payload": case.payload}}])

    if case.expected_valid:
        assert (answer.status, statuses(answer)) == (200, ["stored"])
    else:
        assert answer.status == 422
        field = next(field for name, field in FIELDS.items() if case.id.endswith(name))
        assert field in [item["pointer"] for item in answer.json()["errors"]]


def test_a_conflict_is_logged_and_listed_and_what_came_first_stays(tmp_path: Path) -> None:
    with serving(tmp_path) as collector:
        collector.post([completed(2)])
        answer = collector.post([completed(2, outcome="failed"), completed(3)])
        listed = collector.get("/v1/conflicts").json()
        (conflict,) = listed["items"]
        held = collector.get(f"/v1/invocations/{id_of(2)}").json()

    assert ["refused", "stored"] == statuses(answer)
    assert (id_of(2), "completed", 1) == (conflict["invocation_id"], conflict["phase"], conflict["times"])
    assert listed["total"] == 1
    assert completed(2) == held["phases"]["completed"]["event"]
    assert '"refused": 1' in shown(tmp_path)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_who_sends_a_false_end_of_what_came_with_git_does_not_shut_its_owner_out(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """bob's clone sends a copy of ada's Started, mallory's closes it, then ada's own arrives: her end is told."""
    database = str(tmp_path / "events.db")
    if engine == "postgres":
        database = request.getfixturevalue("postgres").make_schema(tmp_path.name[-40:])
    for name in ("ada", "bob", "mallory"):
        add_token(database, name, f"{name}-token-0123456789")

    def send(name: str, *events: dict[str, Any]) -> list[str]:
        results = asked.post(events, Authorization=f"Bearer {name}-token-0123456789").json().get("results")
        return [str(one["status"]) for one in results or ()]

    with serving(tmp_path, "--db", database) as asked:
        begun = started(1)
        node = json.loads(begun[EXTENSION])
        said = [send("bob", {**begun, EXTENSION: canonical({**node, "origin": "merged"})})]
        said += [send("mallory", completed(1, outcome="abandoned", **{"~": "0" * 64}))]
        said += [send("ada", begun), send("ada", completed(1))]
        told = asked.get(f"/v1/invocations/{id_of(1)}").json()
        [row] = asked.get("/v1/invocations").json()["items"]
        [conflict] = asked.get("/v1/conflicts").json()["items"]

    assert said == [["stored"]] * 4
    assert (told["phases"]["completed"]["client"], told["phases"]["completed"]["event"]) == ("ada", completed(1))
    assert (row["outcome"], conflict["client"], conflict["phase"]) == ("done", "mallory", "completed")


def test_a_single_event_is_taken_by_its_own_content_type(collector: Collector) -> None:
    body = json.dumps(started(1)).encode()

    answer = collector.post(body, Content_Type="application/cloudevents+json; charset=utf-8")

    assert ["stored"] == statuses(answer)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Basic !!!", f"Digest {TOKEN}", TOKEN],
)
def test_without_the_token_nothing_is_read_or_stored(shared: Collector, authorization: str | None) -> None:
    headers = {"Content-Type": CONTENT_TYPE} | ({} if authorization is None else {"Authorization": authorization})
    post = shared.ask("POST", "/v1/events", json.dumps([started(1)]), headers, token=None)
    read = shared.ask("GET", "/v1/invocations", headers=headers, token=None)
    paths = ("/", "/projects", "/pictures", "/report", "/rules", "/compare", f"/invocations/{id_of(1)}")
    pages = [shared.ask("GET", path, headers=headers, token=None) for path in paths]

    assert (401, 401) == (post.status, read.status)
    assert post.headers["www-authenticate"].startswith("Bearer ")
    assert [(401, True)] * len(paths) == [
        (page.status, page.headers["www-authenticate"].startswith("Basic ")) for page in pages
    ]
    assert [] == shared.get("/v1/invocations").json()["items"]


def test_a_browser_reads_with_the_token_as_password_but_does_not_post_with_it(shared: Collector) -> None:
    basic = {"Authorization": "Basic " + base64.b64encode(f"anybody:{TOKEN}".encode()).decode()}

    assert 200 == shared.ask("GET", "/", headers=basic, token=None).status
    posted = shared.ask("POST", "/v1/events", b"[]", {**basic, "Content-Type": CONTENT_TYPE}, token=None)
    assert 401 == posted.status


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "", "application/cloudevents+json-seq"])
def test_another_content_type_is_refused(shared: Collector, kind: str) -> None:
    assert 415 == shared.post([started(1)], Content_Type=kind).status


def test_a_compressed_body_is_refused(shared: Collector) -> None:
    assert 415 == shared.post([started(1)], Content_Encoding="gzip").status


DEEP = b"[" * 200_000
BAD_BODIES = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'["\xff"]',
    "a byte order mark": b"\xef\xbb\xbf[]",
    "no array": b"{}",
    "no events": b"[]",
    "two documents": b"[][]",
    "NaN": b'[{"id":NaN}]',
    "infinity": b'[{"id":-Infinity}]',
    "a member twice": b'[{"id":"a","id":"b"}]',
    "too deep": DEEP,
    "an integer of 5,000 digits": b"[" + b"1" * 5000 + b"]",
    "101 events": json.dumps([{}] * 101).encode(),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_body_that_is_no_batch_is_a_400(shared: Collector, name: str) -> None:
    answer = shared.post(BAD_BODIES[name])

    assert (400, "application/problem+json") == (answer.status, answer.headers["content-type"])


@pytest.mark.parametrize(
    "event",
    [
        None,
        1,
        "x",
        [],
        {},
        {"id": "\ud800"},
        {"id": 1e999},
        {"id": 10**400},
        {"a" * 10_000: 1},
        {f"m{n}": n for n in range(5000)},
        json.loads("[" * 300 + "]" * 300),
    ],
    ids=lambda event: str(event)[:20],
)
def test_an_event_of_any_shape_is_a_422_of_bounded_size(shared: Collector, event: object) -> None:
    body = json.dumps([event]).replace("Infinity", "1e999").encode()

    answer = shared.post(body)

    assert 422 == answer.status
    assert len(answer.body) < 40_000


def test_the_largest_batch_is_taken(collector: Collector) -> None:
    assert ["stored"] * 100 == statuses(collector.post([started(n) for n in range(100)]))


def test_a_body_over_the_limit_is_a_413_whether_or_not_its_length_is_said(tmp_path: Path) -> None:
    with serving(tmp_path, "--max-body", "20000") as collector:
        said = collector.post(b" " * 20_001)

        endless = socket.create_connection((collector.host, collector.port), timeout=PATIENCE)
        endless.sendall(
            f"POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {CONTENT_TYPE}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        sent = 0
        try:
            while sent < 50_000_000:
                sent += endless.send(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
        except OSError:
            pass  # the collector has stopped reading
        endless.close()

        assert 413 == said.status
        assert sent < 50_000_000
        assert "POST /v1/events 413" in shown(tmp_path)
        assert ["stored"] == statuses(collector.post([started(1)]))


def test_a_sender_of_a_large_body_gets_to_read_the_413(tmp_path: Path) -> None:
    with serving(tmp_path, "--max-body", "20000") as collector:
        assert [413] * 5 == [collector.post(b" " * 8_000_000).status for _ in range(5)]


def test_a_signature_is_asked_for_where_a_secret_is_set(tmp_path: Path) -> None:
    secret = token_file(tmp_path, SECRET, "secret")
    body = json.dumps([started(1)]).encode()
    now = datetime.datetime.now(tz=datetime.UTC)

    def signed(moment: datetime.datetime, over: bytes, key: str = SECRET) -> dict[str, str]:
        name = hashlib.sha256(body).hexdigest()
        return {
            "webhook_id": name,
            "webhook_timestamp": str(int(moment.timestamp())),
            "webhook_signature": Webhook(key).sign(name, moment, over.decode()),
        }

    with serving(tmp_path, "--secret-file", str(secret)) as collector:
        old = now - datetime.timedelta(hours=1)
        refused = [
            collector.post(body),
            collector.post(body, **signed(now, b"[]")),
            collector.post(body, **signed(old, body)),
            collector.post(body, **signed(now, body, "whsec_" + base64.b64encode(b"another").decode())),
            collector.post(body, **{**signed(now, body), "webhook_signature": "v1"}),
            collector.post(body, **{**signed(now, body), "webhook_signature": "v1,é"}),
            collector.post(b"\xff", **signed(now, body)),
        ]
        taken = collector.post(body, **signed(now, body))

    assert [401] * len(refused) == [answer.status for answer in refused]
    assert "urn:spec-kitty:problem:bad-signature" == refused[0].json()["type"]
    assert refused[2].json()["detail"].endswith("signature of this body: Message timestamp too old")
    assert ["stored"] == statuses(taken)


def test_the_list_leads_to_the_projects_and_each_of_them_to_its_invocations(collector: Collector) -> None:
    collector.post([started(1)])

    assert 'href="/projects"' in collector.get("/").body.decode()
    assert f'href="/?project={PROJECT}"' in collector.get("/projects").body.decode()


def test_the_list_is_filtered_and_paged(collector: Collector) -> None:
    collector.post([started(n) for n in range(50)])
    collector.post([completed(n, outcome="failed") for n in range(0, 50, 5)])
    collector.post([started(7, project=OTHER_PROJECT)])

    def ids(query: str) -> list[str]:
        return [item["invocation_id"] for item in collector.get(f"/v1/invocations?{query}").json()["items"]]

    pages: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = collector.get(f"/v1/invocations?limit=7&project={PROJECT}&cursor={cursor}").json()
        pages += [item["invocation_id"] for item in page["items"]]
        cursor = page["next"]

    assert [id_of(n) for n in reversed(range(50))] == pages
    assert [id_of(n) for n in range(45, -1, -5)] == ids("outcome=failed")
    assert 41 == len(ids("status=open&limit=200"))
    assert [id_of(7)] == ids(f"project={OTHER_PROJECT}")
    assert [id_of(2), id_of(1)] == ids("since=2026-11-21T09:00:01Z&until=2026-11-21T10:00:03%2B01:00")
    assert [] == ids("until=2026-11-20")
    assert 51 == len(ids("since=2026-11-21&until=2026-11-21&limit=200"))
    assert 51 == len(ids("until=9999-12-31&limit=200"))
    assert [] == ids("actor=nobody")
    assert 50 == len(ids("profile=builder&action=implement&actor=ANN"))


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("limit=%D9%A1", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=%C3%A9", "cursor"),
        ("cursor=" + base64.urlsafe_b64encode(b"' OR 1=1 --").decode(), "cursor"),
        ("status=ajar", "status"),
        ("outcome=fine", "outcome"),
        ("since=yesterday", "since"),
        ("until=20261121", "until"),
        ("project=x", "project"),
        ("actor=%00", "actor"),
        ("profile=" + "x" * 301, "profile"),
        ("nonsense=1", "nonsense"),
        ("status=open&status=closed", "status"),
    ],
)
def test_a_bad_parameter_is_a_400_that_names_it(shared: Collector, query: str, name: str) -> None:
    answer = shared.get(f"/v1/invocations?{query}")

    assert 400 == answer.status
    assert [name] == [error["parameter"] for error in answer.json()["errors"]]
    assert 400 == shared.get(f"/?{query}").status


def test_pages_hold_while_events_arrive(collector: Collector) -> None:
    collector.post([started(n) for n in range(0, 100, 2)])
    halt = threading.Event()

    def insert() -> None:
        for number in range(1, 400, 2):
            if halt.is_set():
                return
            collector.post([started(number)])

    thread = threading.Thread(target=insert)
    thread.start()
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = collector.get(f"/v1/invocations?limit=3&cursor={cursor}").json()
        seen += [item["invocation_id"] for item in page["items"]]
        cursor = page["next"]
    halt.set()
    thread.join()

    assert seen == sorted(set(seen), reverse=True)
    assert {id_of(n) for n in range(0, 100, 2)} <= set(seen)


def test_an_invocation_is_given_as_received_or_not_found(collector: Collector) -> None:
    collector.post([started(1, level="metadata"), completed(1)])

    found = collector.get(f"/v1/invocations/{id_of(1)}").json()

    assert (PROJECT, id_of(1)) == (found["project_uuid"], found["invocation_id"])
    assert (started(1, level="metadata"), "metadata") == (
        found["phases"]["started"]["event"],
        found["phases"]["started"]["level"],
    )
    assert completed(1) == found["phases"]["completed"]["event"]
    for name in (id_of(2), "x", "%00", "%ED%A0%80", ".." * 50):
        assert 404 == collector.get(f"/v1/invocations/{name}").status


def test_an_id_that_two_projects_hold_asks_for_the_project(collector: Collector) -> None:
    collector.post([started(1), started(1, project=OTHER_PROJECT)])

    assert 409 == collector.get(f"/v1/invocations/{id_of(1)}").status
    answer = collector.get(f"/v1/invocations/{id_of(1)}?project={OTHER_PROJECT}")
    assert OTHER_PROJECT == answer.json()["project_uuid"]
    assert 400 == collector.get(f"/v1/invocations/{id_of(1)}?project=x").status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/events/", 404),
        ("GET", "/v1/events", 405),
        ("DELETE", "/v1/invocations", 405),
        ("POST", "/", 405),
        ("PUT", "/v1/events", 405),
        ("TRACE", "/v1/events", 405),
    ],
)
def test_what_is_not_there_is_a_problem(shared: Collector, method: str, path: str, status: int) -> None:
    assert status == shared.ask(method, path).status


def test_health_needs_no_token(shared: Collector) -> None:
    for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
        answer = shared.ask("GET", path, token=None)

        assert (200, {"status": status}) == (answer.status, answer.json())


def test_every_answer_forbids_what_a_page_does_not_need(collector: Collector) -> None:
    collector.post([started(1)])
    for path in ("/", f"/invocations/{id_of(1)}", "/invocations/x", "/style.css", "/v1/invocations", "/nothing"):
        headers = collector.get(path).headers

        assert (
            "default-src 'none'; style-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'" == headers["content-security-policy"]
        )
        assert ("nosniff", "no-referrer", "no-store") == (
            headers["x-content-type-options"],
            headers["referrer-policy"],
            headers["cache-control"],
        )


HOSTILE = "<script>boom()</script>\"><img src=x onerror=boom()>'\u202e\u2066\x1b[31m\x00\u200b{{7*7}}"


def test_recorded_text_is_text_in_every_page(collector: Collector) -> None:
    actor = {"actor_id": HOSTILE, "actor_type": "human", "model": HOSTILE, "tool": "javascript:boom()"}
    collector.post([started(1, request_text=HOSTILE, match_reason=HOSTILE, profile_id=HOSTILE, actor=actor)])

    for path in ("/", f"/invocations/{id_of(1)}", "/?profile=%22%3E%3Cscript%3E"):
        text = collector.get(path).body.decode()

        assert not re.findall(r"<(script|img|iframe|style)", text)
        assert not re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
        assert 'href="javascript' not in text
    assert "\\u202e" in collector.get("/").body.decode()


def test_the_empty_timeline_says_how_to_begin(shared: Collector) -> None:
    page = shared.get("/").body.decode()

    assert f"spec-kitty sync enable --endpoint http://{shared.host}:{shared.port}/v1/events" in page


def test_neither_the_token_nor_what_was_sent_is_in_the_log(tmp_path: Path) -> None:
    with serving(tmp_path) as collector:
        collector.post([started(1, request_text="a planted text")])
        collector.post([{**started(2), "planted": "a planted text"}])
        collector.post(b'["a planted text"')
        collector.ask("GET", "/v1/invocations?actor=planted", headers={"Authorization": "Bearer planted"}, token=None)
        collector.ask("GET", f"/?token={TOKEN}")
        collector.get(f"/invocations/{id_of(1)}")
    log = shown(tmp_path)

    assert 6 == log.count('"level": "INFO"')
    assert "planted" not in log
    assert TOKEN not in log


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    """Collectors are killed in the middle of posting, several times over one file."""
    acknowledged: set[str] = set()
    numbers = iter(range(100_000))
    for _ in range(3):
        with serving(tmp_path) as collector:
            after = len(acknowledged) + 40

            def post(collector: Collector = collector) -> None:
                while True:
                    sent = [started(next(numbers)) for _ in range(3)]
                    try:
                        answer = collector.post(sent)
                    except (OSError, HTTPException):
                        return
                    acknowledged.update(event["subject"] for event in sent)
                    assert ["stored"] * 3 == statuses(answer)

            thread = threading.Thread(target=post)
            thread.start()
            while len(acknowledged) < after:
                thread.join(0.01)
            collector.process.send_signal(signal.SIGKILL)
            thread.join()
    with serving(tmp_path) as collector:
        held: set[str] = set()
        cursor: str | None = ""
        while cursor is not None:
            page = collector.get(f"/v1/invocations?limit=200&cursor={cursor}").json()
            held |= {item["invocation_id"] for item in page["items"]}
            cursor = page["next"]

    assert acknowledged <= held


def test_two_collectors_on_one_file_keep_each_event_once(tmp_path: Path) -> None:
    said: list[str] = []
    with serving(tmp_path) as one, serving(tmp_path) as other:

        def post(collector: Collector) -> None:
            for at in range(0, 60, 5):
                said.extend(statuses(collector.post([started(n) for n in range(at, at + 5)])))

        run_together(post, (one, other, one, other))
        assert one.get("/v1/invocations").json() == other.get("/v1/invocations").json()

    assert (60, 180) == (said.count("stored"), said.count("duplicate"))


def test_collectors_on_one_postgresql_database_are_one_collector(postgres: Server, tmp_path: Path) -> None:
    """Events, list and the witness's key are in the database: each of two processes has all of them."""
    options = ("--db", postgres.make_schema(tmp_path.name), "--witness", "w.example")
    with serving(tmp_path, *options) as one, serving(tmp_path, *options) as other:
        assert ["stored"] == statuses(one.post([started(1)]))
        assert ["duplicate"] == statuses(other.post([started(1)]))
        assert one.get("/v1/invocations").json() == other.get("/v1/invocations").json()
        assert one.get("/witness/key").body == other.get("/witness/key").body
        assert id_of(1).encode() in other.get(f"/invocations/{id_of(1)}").body
    assert not (tmp_path / "events.db").exists()


def test_a_storage_that_cannot_answer_is_a_503_without_internals(tmp_path: Path) -> None:
    with serving(tmp_path) as collector:
        collector.post([started(1)])
        with closing(sqlite3.connect(tmp_path / "events.db")) as database, database:
            database.execute("DROP TABLE conflict")
        database.close()

        answer = collector.get("/v1/conflicts")

    assert (503, "5") == (answer.status, answer.headers["retry-after"])
    assert "conflict" not in answer.body.decode()


def test_a_row_that_is_no_text_any_more_is_quoted_nowhere(cli: Cli, tmp_path: Path) -> None:
    """SQLite's own message would hold all of it."""
    piece, events = record_of(1)
    with serving(tmp_path) as collector:
        collector.post(events[:1])
        collector.post(events[1:])
        collector.ask("PUT", f"/v1/projects/{PROJECT}/records/{id_of(1)}", piece.body)
        with closing(sqlite3.connect(tmp_path / "events.db")) as database, database:
            for table in ("event", "record"):
                database.execute(f"UPDATE {table} SET body = CAST(CAST(body AS BLOB) || x'ff' AS TEXT)")
        answer = collector.get(f"/v1/invocations/{id_of(1)}")
    verified = cli("invocations", "verify", "--source", str(tmp_path / "events.db"))

    assert answer.status == 503
    assert (verified.code, "its backup" in verified.err) == (1, True)
    assert "builder" not in shown(tmp_path) + verified.out + verified.err


def test_connections_that_send_no_whole_head_are_closed_and_others_answered(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from specify_cli.libraries.web import server\n"
        "server._HEAD_SECONDS = 0.5\n"
        "from specify_cli.cli.main import script\n"
        "script()\n"
    )
    argv = [sys.executable, "-c", code, *serve_command(tmp_path)[1:]]
    with subprocess.Popen(argv, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        collector = Collector(process, said["host"], said["port"])
        try:
            slow = [socket.create_connection((said["host"], said["port"])) for _ in range(300)]
            for number, one in enumerate(slow):
                with suppress(ConnectionError):  # it ended already
                    one.sendall(b"" if number % 2 else b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow:")
            last_words = [read_to_the_end(one) for one in slow]
            answered = collector.ask("GET", "/healthz", token=None).status
        finally:
            process.terminate()

    assert not any(b"200" in words for words in last_words)
    assert answered == 200


def read_to_the_end(connection: socket.socket) -> bytes:
    """Wait for the end of a connection, which may be a reset, and return what was said before."""
    said = b""
    with connection, suppress(ConnectionError):
        connection.settimeout(PATIENCE)
        while part := connection.recv(4096):
            said += part
    return said


def test_idle_connections_take_nobodys_place(tmp_path: Path) -> None:
    """Where there are too many, the one that has asked for nothing for longest ends, and the newest is answered."""
    with serving(tmp_path) as collector:
        kept = HTTPConnection(collector.host, collector.port, timeout=PATIENCE)
        kept.request("GET", "/healthz")
        first = kept.getresponse()
        first.read()
        idle = [socket.create_connection((collector.host, collector.port)) for _ in range(300)]
        answers = [collector.ask("GET", "/healthz", token=None).status for _ in range(5)]
        stored = statuses(collector.post([started(1)]))
        idle[0].settimeout(PATIENCE)
        ended = idle[0].recv(1)
        kept.close()
        for one in idle:
            one.close()

    assert (first.status, answers, stored, ended) == (200, [200] * 5, ["stored"], b"")


HOSTILE_BODIES = {
    "empty arrays": b"[[" + b"[]," * 2_600_000 + b"[]]]",
    "numbers": b"[[" + b"1," * 4_000_000 + b"1]]",
    "objects": b"[" + b"{}," * 2_600_000 + b"{}]",
    "strings": b"[" + b'"",' * 2_600_000 + b'""]',
    "half a string": b'["' + b"a" * 8_000_000,
    "wide characters": b'["' + "\N{GRINNING FACE}".encode() * 2_000_000 + b'"',
    "lines of a record": json.dumps(
        {"name": f"builder-{id_of(1)}.jsonl", "lines": "\n" * 4_000_000, "annexes": {}}
    ).encode(),
}


def read_memory(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) // 1024


def test_many_hostile_bodies_at_once_take_little_memory_and_give_it_back(tmp_path: Path) -> None:
    """A body of 8 MiB of empty arrays would become some thirty times its size; it is refused before that, and nothing
    of it stays, whatever came before."""

    def send(to: Collector, kind: str) -> int:
        if kind.endswith("record"):
            return to.ask("PUT", f"/v1/projects/{PROJECT}/records/{id_of(1)}", HOSTILE_BODIES[kind]).status
        return to.post(HOSTILE_BODIES[kind]).status

    answers = {}
    with serving(tmp_path) as collector:
        collector.post([started(1)])
        before = read_memory(collector.process.pid, "VmRSS")
        for kind in HOSTILE_BODIES:
            answers[kind] = set(run_together(partial(send, collector), [kind] * 16))
            # The last connections may be closed behind their answers.
            wait_until(lambda: read_memory(collector.process.pid, "VmRSS") - before <= 100)
        most = read_memory(collector.process.pid, "VmHWM")
        alive = collector.post([started(2)]).status

    assert answers.pop("lines of a record") == {422} and alive == 200
    assert all(statuses == {400} for statuses in answers.values())
    assert most - before <= 200, f"{most - before} MB"


def test_an_event_of_a_million_values_in_its_extension_is_refused_before_they_are_parsed(tmp_path: Path) -> None:
    """They are one string in the body, and would be a hundred MB as objects."""
    event = {**started(1), EXTENSION: "[" + "{}," * 1_500_000 + "{}]"}

    with serving(tmp_path) as asked:
        asked.post([started(2)])
        before = read_memory(asked.process.pid, "VmHWM")
        answer = asked.post([event])
        most = read_memory(asked.process.pid, "VmHWM")
        alive = asked.post([started(3, request_text="x, [y] {z} " * 30_000)]).status

    [found] = answer.json()["errors"]
    assert (answer.status, alive, found["pointer"]) == (422, 200, f"/{EXTENSION}")
    assert "at most 1000 values" in found["detail"]
    assert most - before <= 60, f"{most - before} MB"


def test_a_large_batch_of_honest_events_is_taken(collector: Collector) -> None:
    events = [started(100 + n, request_text="x, [y] {z} " * 3_000) for n in range(100)]

    assert ["stored"] * 100 == statuses(collector.post(events))


def test_an_answer_on_a_connection_that_is_kept_is_sent_at_once(tmp_path: Path) -> None:
    """The socket that is accepted has TCP_NODELAY: with it a second answer does not wait for an acknowledgement."""
    del tmp_path

    async def accept() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted = transport.get_extra_info("socket")
                seen.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        bound = bind("127.0.0.1", 0)
        server = await asyncio.get_running_loop().create_server(Protocol, sock=bound)
        with socket.create_connection(bound.getsockname()):
            answer = await seen
        server.close()
        await server.wait_closed()
        return answer

    assert asyncio.run(accept()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as collector:
        idle = HTTPConnection(collector.host, collector.port, timeout=PATIENCE)
        idle.connect()
        collector.process.send_signal(number)
        code = collector.process.wait(timeout=PATIENCE)
        idle.close()

    assert 0 == code


def test_it_says_where_it_listens_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path) as collector:
        schema = json.loads((Path(__file__).parents[3] / "docs/schemas/collector-listening.json").read_text())
        line = {
            "url": f"http://127.0.0.1:{collector.port}/",
            "host": "127.0.0.1",
            "port": collector.port,
            "endpoint": f"http://127.0.0.1:{collector.port}/v1/events",
        }
        Draft202012Validator(schema).validate(line)
    command = [word for word in serve_command(tmp_path, listen="localhost:0") if word != "--json"]
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.terminate()

    assert re.fullmatch(r"listening on http://127\.0\.0\.1:\d+/ \(events: http://127\.0\.0\.1:\d+/v1/events\)\n", said)


def test_a_port_in_use_is_said(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        ran = cli("collector", "serve", "--db", "events.db", "--listen", listen, "--json")

    assert 1 == ran.code
    assert ("ACCESS_FAILED", True) == (ran.error()["error_code"], "another program listens" in ran.error()["message"])


@pytest.mark.parametrize(
    ("listen", "says"),
    [
        ("0.0.0.0:0", "plain HTTP"),
        ("[::]:0", "plain HTTP"),
        ("192.0.2.1:80", "plain HTTP"),
        ("example.org:80", "ADDRESS:PORT"),
        ("127.0.0.1", "ADDRESS:PORT"),
        ("127.0.0.1:", "port"),
        ("127.0.0.1:65536", "port"),
        (":80", "ADDRESS:PORT"),
    ],
)
def test_an_address_beyond_this_machine_or_none_is_refused(cli: Cli, listen: str, says: str) -> None:
    ran = cli("collector", "serve", "--db", "e.db", "--listen", listen)

    assert 1 == ran.code
    assert says in ran.err


def test_a_proxy_that_speaks_tls_may_be_elsewhere(tmp_path: Path) -> None:
    command = serve_command(tmp_path, "--behind-tls-proxy", listen="0.0.0.0:0")
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        process.terminate()

    assert "0.0.0.0" == said["host"]


def test_the_secret_file_is_its_owners_alone_and_long_enough(cli: Cli, tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        ran = cli("collector", "serve", "--db", "e.db", "--secret-file", str(path), "--listen", "127.0.0.1:0")
        assert 1 == ran.code
        return ran.err

    open_to_all = token_file(tmp_path, name="open")
    open_to_all.chmod(0o644)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)

    assert f"chmod 600 {open_to_all}" in refused(open_to_all)
    assert "regular file" in refused(pipe)
    assert "regular file" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "missing")
    short = refused(token_file(tmp_path, "too-short-secret"[:15], "short"))
    assert "at least 16" in short
    assert "too-short" not in short
    assert "printable ASCII" in refused(token_file(tmp_path, "ein geheimes Wört, lang genug", "umlaut"))


def test_a_secret_that_cannot_sign_is_refused(cli: Cli, tmp_path: Path) -> None:
    secret = str(token_file(tmp_path, "whsec_" + "=" * 20, "secret"))

    ran = cli("collector", "serve", "--db", "e.db", "--secret-file", secret)

    assert (1, True) == (ran.code, "Standard Webhooks" in ran.err)


def test_a_database_of_another_program_is_refused(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("something else " * 100)

    ran = cli("collector", "serve", "--db", str(other), "--json")

    assert (1, "ACCESS_FAILED") == (ran.code, ran.error()["error_code"])


def test_a_damaged_or_a_newer_database_is_named_with_what_helps(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    cli("collector", "token", "create", "ada", "--db", str(path), "--project", "all")
    with closing(sqlite3.connect(path)) as database, database:
        [(version,)] = database.execute("PRAGMA user_version")
        database.execute(f"PRAGMA user_version = {version + 1}")
    newer = cli("collector", "token", "list", "--db", str(path))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA writable_schema = 1")
        database.execute("UPDATE sqlite_schema SET name = CAST(x'80ff' AS TEXT), sql = 'nothing' WHERE name = 'object'")
    damaged = cli("collector", "token", "list", "--db", str(path))

    assert "a newer spec-kitty made it" in newer.err
    assert (damaged.code, "ACCESS_FAILED" in damaged.err, "its backup" in damaged.err) == (1, True, True)


def test_without_the_extra_the_next_step_names_it(process: Cli, tmp_path: Path) -> None:
    """A uvicorn that is not there is simulated by one that cannot be found."""
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(\"No module named 'uvicorn'\", name='uvicorn')\n")

    ran = process(
        *("collector", "serve", "--db", "e.db", "--json"),
        env={"PYTHONPATH": str(tmp_path)},
    )

    assert 1 == ran.code
    assert "EXTRA_MISSING" == ran.error()["error_code"]
    assert "-m pip install --editable" in ran.error()["suggestion"] and "[collector]" in ran.error()["suggestion"]
