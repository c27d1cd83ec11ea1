"""Delivery through a network that lies and processes that are killed: every phase arrives, once, in order."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from collecting import serve_command
from envelopes import TOKEN
from postgres import free_port
from receiving import Server, running
from specify_cli.features.sync.consent import Consent, write_consent
from specify_cli.features.sync.sending.outbox import Outbox
from specify_cli.features.sync.trigger import sync_folder
from specify_cli.invocation.ends.opening import PLAIN_TERMS
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.record import layout
from support import FULL, REPORT, Cli, environment
from victims import Victim

ROUNDS, PAUSE, PUSHES, COLLECTORS = (25, 1.5, 3, 2) if FULL else (2, 0.8, 1, 1)
# At the level of whole records each invocation is one request more, and its objects another now and then.
INVOCATIONS = {"full": 10_000, "records": 1_000} if FULL else {"full": 40, "records": 20}
# Every so many stay open, so their Completed is never due.
LEFT_OPEN = 10
TROUBLE = 0.30


class Chaos:
    """A proxy before the collector: of what passes, a share is lost, doubled, late, overtaken or answered with lies."""

    def __init__(self, target: int, seed: int) -> None:
        self.trouble = TROUBLE
        self.seen: Counter[str] = Counter()
        self._target = target
        self._random = random.Random(seed)
        self._late: list[threading.Thread] = []
        chaos = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                chaos.handle(self, body, headers)

            do_PUT = do_POST

            def log_message(self, format: str, *args: object) -> None:
                """The test counts instead."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    @property
    def troubles(self) -> int:
        """How many requests did not simply pass."""
        return sum(count for kind, count in self.seen.copy().items() if kind != "passed")

    @contextmanager
    def serving(self) -> Iterator[Chaos]:
        with running(self._server):
            yield self
        for late in self._late:
            late.join()

    def forward(
        self, request: BaseHTTPRequestHandler, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes] | None:
        """The collector's own answer, or None where it is down."""
        connection = HTTPConnection("127.0.0.1", self._target, timeout=10)
        try:
            connection.request(request.command, request.path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except (OSError, HTTPException):
            self.seen["collector down"] += 1
            return None
        finally:
            connection.close()

    def handle(self, request: BaseHTTPRequestHandler, body: bytes, headers: dict[str, str]) -> None:
        kinds = ("lost", "unanswered", "doubled", "late", "overtaken", "500", "429", "garbage")
        # The first ones meet trouble whatever the dice say.
        troubled = self.seen.total() < 3 or self._random.random() < self.trouble
        kind = self._random.choice(kinds) if troubled else "passed"
        self.seen[kind] += 1
        if kind == "lost":
            request.close_connection = True
            return
        if kind == "overtaken":
            # The sender sees a broken connection and tries again; this copy arrives behind what follows.
            def deliver() -> None:
                time.sleep(self._random.uniform(0.2, 2.0))
                self.forward(request, body, headers)

            self._late.append(threading.Thread(target=deliver))
            self._late[-1].start()
            request.close_connection = True
            return
        if kind in ("500", "429", "garbage"):
            status = {"500": 500, "429": 429, "garbage": 200}[kind]
            self._say(request, status, {"Retry-After": "0"}, b"\x00<html>\xff" if kind == "garbage" else b"")
            return
        if kind == "late":
            time.sleep(self._random.uniform(0.05, 0.5))
        answer = self.forward(request, body, headers)
        if kind == "doubled":
            answer = self.forward(request, body, headers)
        if kind == "unanswered" or answer is None:
            request.close_connection = True
            return
        self._say(request, *answer)

    def _say(self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
        kept = {name: value for name, value in headers.items() if name.lower() in ("content-type", "retry-after")}
        try:
            request.send_response(status)
            for name, value in {**kept, "Content-Length": str(len(body))}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            self.seen["sender gone"] += 1


def write(root: Path, count: int) -> tuple[set[str], set[str]]:
    """Records made by the real executor while delivery goes on: (all ids, ids that are closed)."""
    executor = ProfileInvocationExecutor(str(root))
    made: set[str] = set()
    closed: set[str] = set()
    for number in range(count):
        payload = executor.invoke(f"fix test {number}", verb="do", terms=PLAIN_TERMS)
        made.add(payload.invocation_id)
        if number % LEFT_OPEN:
            executor.complete(payload.invocation_id, outcome="done" if number % 3 else "failed")
            closed.add(payload.invocation_id)
    return made, closed


@pytest.mark.stress
@pytest.mark.parametrize("level", INVOCATIONS)
def test_every_phase_arrives_once_and_in_order(level: str, project: Path, home: Path, tmp_path: Path, cli: Cli) -> None:
    seed = int(os.environ.get("SPEC_KITTY_SEED", "0")) or random.randrange(1, 1_000_000)
    dice = random.Random(seed)
    assert cli("init").code == 0
    port = free_port()
    env = {**environment(home), "SPEC_KITTY_SYNC_TOKEN": TOKEN}
    collector = Victim(serve_command(tmp_path, listen=f"127.0.0.1:{port}"), tmp_path, env, preloaded=not FULL)
    began = time.monotonic()
    with Chaos(port, seed).serving() as chaos:
        url = f"http://127.0.0.1:{chaos.port}/v1/events"
        loaded, _ = load_project(str(project))
        folder = sync_folder(str(project))
        assert folder is not None
        assert loaded.config.project_uuid is not None
        agreed = ("2026-11-21T09:00:00.000Z", "", "", "objects" if level == "records" else "")
        write_consent(folder, Consent(url, level, loaded.config.project_uuid, *agreed))
        written: list[tuple[set[str], set[str]]] = []
        writer = threading.Thread(target=lambda: written.append(write(project, INVOCATIONS[level])))
        writer.start()
        pusher = Victim(["spec-kitty", "sync", "push", "--json"], project, env, preloaded=not FULL)
        rounds = 0
        # Until enough has gone wrong, whatever the dice say.
        while (
            writer.is_alive()
            or rounds < ROUNDS
            or (rounds < 300 and (pusher.kills < PUSHES or collector.kills < COLLECTORS or chaos.troubles < 2))
        ):
            rounds += 1
            time.sleep(dice.uniform(0.1, PAUSE))
            if dice.random() < 0.3:
                collector.kill()
                collector.start()
            if dice.random() < 0.5:
                if pusher.process.poll() is not None:
                    pusher.start()
                    time.sleep(dice.uniform(0, 0.3))  # most pushes are over sooner than a round is
                pusher.kill()
            if pusher.process.poll() is not None:
                pusher.start()
        writer.join()
        pusher.kill()
        # The network heals, the processes live: what is left arrives.
        chaos.trouble = 0.0
        for _ in range(20):
            done = cli("sync", "push", "--json", env={"SPEC_KITTY_SYNC_TOKEN": TOKEN})
            if done.code == 0:
                break
        assert done.code == 0, done.err + done.out
    collector.process.send_signal(signal.SIGTERM)
    collector.process.wait(30)
    [(made, closed)] = written
    expected = {(key, "started") for key in made} | {(key, "completed") for key in closed}
    with closing(sqlite3.connect(tmp_path / "events.db")) as db, db:
        rows = db.execute("SELECT invocation_id, phase FROM event ORDER BY rowid").fetchall()
        conflicts = db.execute("SELECT count(*) FROM conflict").fetchone()[0]
        whole = {key: json.loads(body) for key, body in db.execute("SELECT invocation_id, body FROM record")}
        absent = db.execute("SELECT count(*) FROM object WHERE body IS NULL").fetchone()[0]
    records = {path.name[-32:-6]: path.read_text() for path in (project / layout.RECORDS).glob("*.jsonl")}
    other = sum(whole.get(key, {"lines": ""})["lines"] != text for key, text in records.items())
    replayed = cli("replay", "--all", "--source", str(tmp_path / "events.db"), "--json").json()
    lost, doubled = expected - set(rows), len(rows) - len(set(rows))
    begun: set[str] = set()
    disordered = 0
    for key, phase in rows:
        disordered += phase == "completed" and key not in begun
        begun.add(key)
    outbox = Outbox(loaded, folder, url)
    counts = outbox.counts()
    outbox.close()
    REPORT.append(
        f"sync at level {level}: {len(made)} invocations, {len(expected)} phases; {dict(sorted(chaos.seen.items()))}; "
        f"{pusher.kills} pushes and {collector.kills} collectors killed; {len(lost)} lost, {doubled} doubled, "
        f"{disordered} out of order, {conflicts} conflicts; {len(whole)} whole records, {other} not as they are here, "
        f"{absent} objects missing, {replayed['match']} replayed as they were; "
        f"{time.monotonic() - began:.0f} s; seed {seed}"
    )
    assert (lost, set(rows) - expected, doubled, disordered, conflicts) == (set(), set(), 0, 0, 0), f"seed {seed}"
    sent = len(made) if level == "records" else 0
    assert (len(whole), other, absent, replayed["match"]) == (sent, len(made) - sent, 0, sent), f"seed {seed}"
    assert (counts.delivered, counts.pending, counts.refused) == (len(expected), 0, 0), f"seed {seed}"
    assert pusher.kills >= PUSHES, f"seed {seed}"
    assert collector.kills >= COLLECTORS, f"seed {seed}"
    assert chaos.troubles >= 2, f"seed {seed}"
