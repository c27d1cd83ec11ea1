"""The collector as a witness: it cosigns what continues, refuses what does not, and keeps both sides of a fork."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from collecting import Collector, serving, shown, token_file
from envelopes import TOKEN
from postgres import Server
from specify_cli.features.collector.engines.postgres import PostgresDatabase
from specify_cli.features.collector.engines.sqlite import SqliteDatabase
from specify_cli.features.collector.storage import StorageUnusable
from specify_cli.features.collector.witness import State, Witness, judge, parse_request
from specify_cli.libraries.signed_log.merkle import prove_consistency
from specify_cli.libraries.signed_log.notes import (
    ED25519_COSIGNATURE,
    Checkpoint,
    NoteError,
    VerifierKey,
    encode,
    parse_checkpoint,
    parse_signature,
    signed_at,
)
from specify_cli.libraries.signed_log.signing import LevelFiles, make_checkpoint, read_keys
from specify_cli.trail.log.entries import open_log
from support import Ran, run_main
from trails import grow, hide_copy, load, make_repository, verify


class Clone:
    """A clone with a log, and what it sends to a witness."""

    def __init__(self, root: Path) -> None:
        self.root = make_repository(root)
        self._dice = random.Random(root.name)

    def grow(self, records: int = 2) -> Checkpoint:
        grow(self.root, self._dice, records)
        return make_checkpoint(load(self.root))

    @property
    def keys(self) -> list[VerifierKey]:
        (generation,) = open_log(load(self.root)).generations()
        return [key for key, _ in read_keys(generation)]

    def request(self, old: int, checkpoint: Checkpoint) -> bytes:
        (generation,) = open_log(load(self.root)).generations()
        proof = prove_consistency(LevelFiles(generation).read, old, checkpoint.size)
        return "\n".join([f"old {old}", *map(encode, proof), "", str(checkpoint)]).encode()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def open_witness(path: Path) -> Witness:
    return Witness(SqliteDatabase(str(path), schema="witness"), "w.example")


@pytest.fixture(params=["sqlite", "postgres"])
def witness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Witness]:
    if request.param == "sqlite":
        opened = open_witness(tmp_path / "witness.db")
    else:
        server: Server = request.getfixturevalue("postgres")
        opened = Witness(PostgresDatabase(server.make_schema(tmp_path.name[-40:])), "w.example")
    yield opened
    opened.close()


def _known(clone: Clone, witness: Witness) -> None:
    assert witness.add_log("".join(f"{key}\n" for key in clone.keys).encode(), "ada").status == 200


def test_a_log_that_continues_is_cosigned_at_each_size(clone: Clone, witness: Witness) -> None:
    old = 0
    for _ in range(4):
        checkpoint = clone.grow()
        if not old:
            _known(clone, witness)
        answer = witness.add_checkpoint(clone.request(old, checkpoint), 1_790_000_000)
        cosigned = checkpoint._replace(signatures=(*checkpoint.signatures, parse_signature(answer.body)))

        assert answer.status == 200
        assert signed_at(witness.key, cosigned) == 1_790_000_000
        assert [state.size for state in witness.list_states()] == [checkpoint.size]
        old = checkpoint.size
    again = witness.add_checkpoint(clone.request(old, checkpoint), 1_790_000_001)
    assert again.status == 200
    assert witness.list_forks() == []


def test_each_refusal_has_its_status(clone: Clone, witness: Witness, tmp_path: Path) -> None:
    first = clone.grow()
    unknown = witness.add_checkpoint(clone.request(0, first), 1)
    _known(clone, witness)
    stranger = Clone(tmp_path / "stranger")
    stranger.grow()
    forged = first._replace(signatures=stranger.grow().signatures)
    unsigned = witness.add_checkpoint(clone.request(0, forged), 1)
    assert witness.add_checkpoint(clone.request(0, first), 1).status == 200
    second = clone.grow()
    stale = witness.add_checkpoint(clone.request(0, second), 1)
    beyond = witness.add_checkpoint(f"old {second.size + 1}\n\n{second}".encode(), 1)
    wrong = clone.request(first.size, second).replace(b"\n", b"\n" + encode(b"x" * 32).encode() + b"\n", 1)
    unproven = witness.add_checkpoint(wrong, 1)

    assert [answer.status for answer in (unknown, unsigned, stale, beyond, unproven)] == [404, 403, 409, 400, 422]
    assert (stale.body, stale.media_type) == (f"{first.size}\n", "text/x.tlog.size")
    for bad in (b"", b"old x\n\n", b"old 01\n\n" + str(first).encode(), b"old 0\n\nnothing"):
        assert witness.add_checkpoint(bad, 1).status == 400


def test_a_fork_is_refused_and_both_sides_are_kept(clone: Clone, witness: Witness, tmp_path: Path) -> None:
    clone.grow()
    _known(clone, witness)
    shutil.copytree(clone.root, tmp_path / "copy")
    hide_copy(tmp_path / "copy")
    copy = object.__new__(Clone)
    copy.root, copy._dice = tmp_path / "copy", random.Random("other")
    ours, theirs = clone.grow(1), copy.grow(1)
    while theirs.size != ours.size:
        ours, theirs = (clone.grow(1), theirs) if ours.size < theirs.size else (ours, copy.grow(1))
    assert witness.add_checkpoint(clone.request(0, ours), 5).status == 200
    same_size = witness.add_checkpoint(copy.request(ours.size, theirs), 6)
    longer = copy.grow(1)
    continued = witness.add_checkpoint(copy.request(ours.size, longer), 7)

    assert (same_size.status, continued.status) == (409, 422)
    assert [(fork.held, fork.sent, fork.at) for fork in witness.list_forks()] == [
        (str(ours), str(theirs), 6),
        (str(ours), str(longer), 7),
    ]
    for fork in witness.list_forks():
        assert all(
            signed_at(key, parse_checkpoint(side.encode())) is not None for key in clone.keys for side in fork[2:]
        )


def test_the_keys_of_a_log_are_those_that_came_first(clone: Clone, witness: Witness) -> None:
    clone.grow()
    _known(clone, witness)
    other = VerifierKey(clone.keys[0].name, clone.keys[0].kind, bytes(32))

    assert witness.add_log(f"{other}\n".encode(), "eve").status == 409
    assert witness.add_log(b"nothing", "eve").status == 400
    _known(clone, witness)


def test_a_witness_that_comes_back_has_its_key_and_its_memory(clone: Clone, tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    first = open_witness(path)
    checkpoint = clone.grow()
    _known(clone, first)
    first.add_checkpoint(clone.request(0, checkpoint), 1)
    first.close()
    again = open_witness(path)

    assert again.key == first.key
    assert again.add_checkpoint(clone.request(0, checkpoint), 2).body == f"{checkpoint.size}\n"
    assert (tmp_path / "w.db").stat().st_mode & 0o777 == 0o600
    again.close()
    (tmp_path / "other").write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageUnusable):
        open_witness(tmp_path / "other")


def test_the_decision_needs_nothing_but_values(clone: Clone) -> None:
    checkpoint = clone.grow()
    request = parse_request(clone.request(0, checkpoint))
    state = State(tuple(clone.keys), None)

    assert judge(state, request) is None
    with pytest.raises(NoteError):
        parse_request(b"old 0\n" + b"AA==\n" * 64 + b"\n")


# --- from sync push to verify


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    folder = tmp_path / "collector"
    folder.mkdir()
    with serving(folder, "--witness", "w.example") as running:
        yield running


def _run(clone: Clone, home: Path, *argv: str) -> Ran:
    return run_main(argv, cwd=clone.root, home=home)


def _enable(clone: Clone, home: Path, collector: Collector) -> None:
    endpoint = f"http://{collector.host}:{collector.port}/v1/events"
    argv = ["sync", "enable", "--endpoint", endpoint, "--yes", "--token-file", str(token_file(home)), "--reuse-token"]
    assert _run(clone, home, *argv).code == 0


def test_a_push_brings_the_trail_to_witnessed(clone: Clone, collector: Collector, home: Path) -> None:
    clone.grow(3)
    _enable(clone, home, collector)
    pushed = _run(clone, home, "sync", "push", "--json")
    first = verify(clone.root)
    grow(clone.root, random.Random(1), 1)
    newer = verify(clone.root)
    again = _run(clone, home, "sync", "push", "--json")
    key = VerifierKey.parse(collector.get("/witness/key").body.decode().strip())

    assert pushed.json()["witness"].startswith("cosigned: ")
    assert (first.level, newer.level) == ("witnessed", "linked")
    assert any("newer than the last witnessed checkpoint of 20" in text for text in newer.not_proven)
    assert (again.json()["witness"] or "").startswith("cosigned: ")
    assert _run(clone, home, "invocations", "verify", "--all", "--require", "witnessed").code == 0
    assert (key.name, key.kind) == ("w.example", ED25519_COSIGNATURE)
    assert [item["size"] for item in collector.get("/v1/logs").json()["items"]]


def test_a_policy_asks_for_its_own_witnesses(clone: Clone, collector: Collector, home: Path, tmp_path: Path) -> None:
    clone.grow(3)
    _enable(clone, home, collector)
    _run(clone, home, "sync", "push")
    witness = collector.get("/witness/key").body.decode().strip()
    stranger = VerifierKey("w.example/other", ED25519_COSIGNATURE, bytes(range(32)))
    logs = "".join(f"log {key}\n" for key in clone.keys)
    levels = []
    for lines in (
        f"witness w {witness}\nquorum w\n",
        f"witness w {stranger}\nquorum w\n",
        f"witness w {witness}\nwitness x {stranger}\ngroup both all w x\nquorum both\n",
        f"witness w {witness}\nwitness x {stranger}\ngroup one any w x\nquorum one\n",
    ):
        (tmp_path / "policy").write_text(logs + lines, encoding="utf-8")
        ran = _run(clone, home, "invocations", "verify", "--all", "--json", "--policy", str(tmp_path / "policy"))
        levels.append(ran.json()["level"])

    assert levels == ["witnessed", "logged", "logged", "witnessed"]


def test_a_copied_clone_that_hides_it_is_refused_by_the_witness(
    clone: Clone, collector: Collector, home: Path, tmp_path: Path
) -> None:
    clone.grow(2)
    _enable(clone, home, collector)
    shutil.copytree(clone.root, tmp_path / "copy")
    hide_copy(tmp_path / "copy")
    clone.grow(4)
    _run(clone, home, "sync", "push")
    copy = object.__new__(Clone)
    copy.root, copy._dice = tmp_path / "copy", random.Random("other")
    copy.grow(1)
    pushed = _run(copy, home, "sync", "push", "--json")

    assert "cosigned another state" in pushed.json()["witness"] or "409" in pushed.json()["witness"]
    assert "witness" in shown(tmp_path / "collector")


def test_without_the_agreement_or_a_witness_nothing_of_the_log_leaves(clone: Clone, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    clone.grow(2)
    with serving(folder) as plain:
        _enable(clone, home, plain)
        pushed = _run(clone, home, "sync", "push", "--json")
        assert plain.get("/witness/key").status == 404
    with serving(folder, "--witness", "w.example") as running:
        _enable(clone, home, running)
        (consent,) = clone.root.glob(".git/kittify/sync/**/consent.json")
        value = json.loads(consent.read_text())
        del value["log"]  # as an earlier version wrote it
        consent.write_text(json.dumps(value))
        grow(clone.root, random.Random(4), 1)
        older = _run(clone, home, "sync", "push", "--json")

        assert running.ask("POST", "/witness/add-log", b"x", token=None).status == 401
        assert running.ask("POST", "/witness/add-checkpoint", b"x", token=None).status == 400
        assert running.get("/v1/logs").json() == {"items": [], "forks": []}
    assert (pushed.json()["witness"], older.json()["witness"]) == (None, None)
    assert TOKEN not in shown(folder)
