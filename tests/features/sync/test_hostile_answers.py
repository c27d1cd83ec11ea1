"""Every answer of an endpoint is hostile input: whatever stands in one, a push ends as the documentation says."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from delivering import ENV, run
from receiving import Answer, Receiver, Request
from specify_cli.features.sync.sending import push as pushing
from specify_cli.libraries.signed_log.notes import ED25519_COSIGNATURE, VerifierKey
from support import FULL, Cli, git

KINDS = ("events", "records", "objects", "orders", "logs", "witness/key", "witness/add-log", "witness/add-checkpoint")
HOSTILE = (
    "null", "true", "-1", "0", "1.5", "1e999", "NaN", "9" * 30, "9" * 4300, "9" * 5000, '""', '"x"', "{}", "[[]]",
    r'"\ud800"', r'"a\u0000b\u001b[31m"', '"' + "x" * 100_000 + '"', '{"": null}',
    *("[" * n + "]" * n for n in (90_000, 500)), *('{"a":' * n + "1" + "}" * n for n in (500, *range(860, 1000, 20))),
)  # fmt: skip
MEMBERS = (
    "results", "id", "status", "problem", "type", "title", "detail", "errors", "pointer", "missing", "stored", "size",
    "purged", "of",
)  # fmt: skip


class Endpoint:
    """A receiver that takes everything, until one kind of its answers is another one."""

    def __init__(self) -> None:
        self.kind, self.text, self.status, self.members = "", "", 200, frozenset[str]()

    def answer(self, request: Request) -> Answer:
        kind = name_kind(request.path)
        value = compose(kind, request)
        text = value if isinstance(value, str) else json.dumps(value)
        if kind != self.kind:
            return Answer(200, text.encode())
        for name in self.members:
            said = f'"{name}": {self.text}'.replace("\\", r"\\")
            text = re.sub(rf'"{name}": ("[^"]*"|[0-9]+|true|\[[^]]*\])', said, text)
        return Answer(self.status, (text if self.members else self.text).encode())


def name_kind(path: str) -> str:
    found = re.search(r"/(events|records|objects|orders|logs|witness/[a-z-]+)", path)
    assert found, path
    return found[1]


def compose(kind: str, request: Request) -> Any:
    problem = {"type": "urn:x", "title": "t", "status": 409, "detail": "d", "errors": [{"pointer": "/"}]}
    said = {**problem, "of": sha256(request.body).hexdigest(), "status": "stored"}
    if kind == "events":
        return {
            **said,
            "results": [{"id": event["id"], "status": "stored", "problem": problem} for event in request.events],
        }
    if kind == "records":
        return {**said, "missing": json.loads(request.body)["objects"]}
    if kind == "logs":
        value = json.loads(request.body)
        return {**said, "size": value["start"] + value["leaves"].count("\n")}
    if kind == "witness/key":
        return str(VerifierKey("w.example.org", ED25519_COSIGNATURE, bytes(range(32))))
    return "" if kind.startswith("witness") else {**said, "stored": 1, "purged": True}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as found:
        found.is_witness = True
        yield found


@pytest.fixture
def site(cli: Cli, chartered: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pushing, "REQUEST_PAUSE", wait_none())
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    run(cli)
    assert cli("hold", "add", run(cli, "implement WP02"), "--reason", "a dispute").code == 0
    argv = ("sync", "enable", "--endpoint", receiver.url, "--level", "records", "--yes")
    assert cli(*argv, env=ENV).code == 0
    return chartered


@pytest.mark.stress
@pytest.mark.parametrize("kind", KINDS)
def test_a_push_ends_in_order_whatever_an_answer_holds(cli: Cli, site: Path, receiver: Receiver, kind: str) -> None:
    endpoint, wrong = Endpoint(), []
    receiver.answer = endpoint.answer
    # All at once, and each alone; behind an order that was delivered, and with everything due.
    chosen = [
        (text, status, members)
        for text in HOSTILE
        for status in (200, 403, 409, 500)
        for members in ((), MEMBERS[1:], *((name,) for name in MEMBERS))
    ]
    # A number too long to be read, lists too deep to be, and what is no object are among them each time.
    always = [("9" * 5000, 409, ()), ("[" * 90_000 + "]" * 90_000, 200, ()), ("[[]]", 200, ())]
    drawn = [*always, *random.Random(kind).sample(chosen, 40 if FULL else 2)]
    for number, (text, status, members) in enumerate(drawn):
        if number % 2:
            for path in (site / ".git/kittify/sync").rglob("cursor-*"):
                path.unlink()
        endpoint.kind, endpoint.text, endpoint.status, endpoint.members = kind, text, status, frozenset(members)
        for argv in (("sync", "push", "--json"), ("sync", "status", "--json")):
            done = cli(*argv, env=ENV)
            if done.code not in (0, 1) or not done.out or "INTERNAL" in done.err:
                wrong.append((text[:20], len(text), status, members, argv[1], done.err[:300]))
        endpoint.kind = ""
        cli("sync", "push", env=ENV)

    assert wrong == []
    assert any(name_kind(request.path) == kind for request in receiver.requests)
