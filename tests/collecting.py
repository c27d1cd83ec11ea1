"""What the collector's tests share: whole records, tokens, and a real collector in its own process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from envelopes import BEGIN, PROJECT, TOKEN, id_of, make_line
from preloaded import Preloaded
from specify_cli.features.collector.engines.ledger import open_database
from specify_cli.features.collector.holdings import read_record
from specify_cli.features.collector.storage import RecordPiece
from specify_cli.features.collector.tokens import SCOPES, Tokens
from specify_cli.libraries.wire.contract import CONTENT_TYPE, LIVE, compose
from specify_cli.record.ids import rfc3339
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.seal import seal_line
from support import PATIENCE, SPEC_KITTY, environment


def record_of(
    number: int,
    *,
    project: str = PROJECT,
    annexes: int = 0,
    steps: int = 0,
    closed: bool = True,
    kind: str = LIVE,
    objects: Iterable[str] = (),
    work: Iterable[dict[str, object]] = (),
    told: Mapping[str, object] = MappingProxyType({}),
) -> tuple[RecordPiece, list[dict[str, Any]]]:
    """A whole record of so many steps as a collector takes it, and its two envelopes."""
    invocation_id, at = id_of(number), rfc3339(BEGIN + 1000 * number)
    first = {key: value for key, value in make_line(number, told).items() if key not in ("invocation_id", "seq", "~")}
    bodies: list[dict[str, object]] = [{"event": "started", **first, **_OF_KIND.get(kind, {})}]
    bodies += [{"event": "stage_transition", "at": at, "to": f"s{step}", "manual": True} for step in range(steps)]
    bodies += [{"at": at, **body} for body in work]
    if closed:
        bodies.append({"event": "completed", "completed_at": at, "outcome": "done", "closed_by": "agent"})
    data, _ = chain(genesis_tip(), invocation_id, bodies)
    lines = [json.loads(line) for line in data.splitlines()]
    annexed = {"v": 1, "event": "commit_link", "invocation_id": invocation_id, "prev": lines[-1]["~"], "at": at}
    made = {
        f"{id_of(one)}.jsonl": seal_line({**annexed, "seq": one, "sha": f"{one:040x}"}).decode()
        for one in range(annexes)
    }
    value: dict[str, Any] = {"name": f"builder-{invocation_id}.jsonl", "lines": data.decode(), "annexes": made}
    value |= {"kind": kind, "objects": sorted(objects), "withheld": {}}
    events = [compose(project, "records", lines[0])]
    events += [compose(project, "records", lines[0], lines[-1])] if closed else []
    return read_record(json.dumps(value).encode(), invocation_id), events


_OF_KIND: Mapping[str, dict[str, object]] = {
    "replay": {"run_kind": "as_of_replay", "parent_invocation_id": "01KB000000000000000000000A"},
    "imported": {"imported": {"at": "2026-11-21T09:00:00.000Z", "harness": "codex", "transcript": "d" * 64}},
}


class Answer(NamedTuple):
    """One answer of the collector."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Collector(NamedTuple):
    """A collector that runs: its process and where it listens."""

    process: subprocess.Popen[bytes] | Preloaded
    host: str
    port: int

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = TOKEN,
    ) -> Answer:
        sent: dict[str, str] = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})  # type: ignore[arg-type]
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, events: Sequence[object] | bytes, **headers: str) -> Answer:
        body = events if isinstance(events, bytes) else json.dumps(events).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", "/v1/events", body, {"Content-Type": CONTENT_TYPE, **named})


def token_file(folder: Path, text: str = TOKEN, name: str = "token") -> Path:
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def add_token(address: str, name: str = "default", secret: str = TOKEN, **given: Any) -> None:
    """Store a token whose secret the tests know; nothing where it is there."""
    with closing(open_database(address)) as database:
        tokens = Tokens(database)
        if tokens.find(secret) is None:
            rights = {"scopes": SCOPES, "projects": None, "rate": None, **given}
            tokens.create(name, **rights, now="2026-11-21T08:00:00.000Z", secret=secret)


def serve_command(folder: Path, *options: str, listen: str = "127.0.0.1:0") -> list[str]:
    """A collector over the database in a folder, or the one that is named; TOKEN may do everything there."""
    if "--db" not in options:
        options = ("--db", str(folder / "events.db"), *options)
    add_token(options[options.index("--db") + 1])
    return [SPEC_KITTY, "collector", "serve", "--listen", listen, "--json", *options]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Collector]:
    """A real `spec-kitty collector serve` on a port of its own; ended when the test is."""
    with running(folder, serve_command(folder, *options)) as collector:
        yield collector


@contextmanager
def running(folder: Path, command: Sequence[str]) -> Iterator[Collector]:
    """The collector that a command starts, once it has said where it listens; ended when the test is."""
    process = Preloaded(list(command[1:]), folder, environment(folder), folder / "collector.log")
    try:
        line = process.stdout.readline()
        assert line, (folder / "collector.log").read_text()
        said = json.loads(line)
        yield Collector(process, said["host"], said["port"])
    finally:
        process.stdout.close()
        process.terminate()
        process.wait(timeout=PATIENCE)


def shown(folder: Path) -> str:
    """What the collector has written to its log."""
    return (folder / "collector.log").read_text(encoding="utf-8")
