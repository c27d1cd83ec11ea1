"""Software nobody here wrote accepts our checkpoints and proofs, and refuses them with one bit changed.

Go's `golang.org/x/mod/sumdb` comes from Debian (golang-go, golang-golang-x-mod-dev), sigstore's verifier from
`make judges`; without them these tests skip and say so. OpenSSL judges in test_notes, ssh-keygen in test_enrollment and
test_approvals, pymerkle in test_merkle, coreutils in docs/test_trail, the validator of Testimony Records in
test_testimony.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from planting import BEGUN, NAME, plant, record_of
from specify_cli.features.forget.erasing import erase
from specify_cli.features.forget.finding import make_plan
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.features.witness.log.tiles import export_tiles
from specify_cli.libraries.signed_log import merkle
from specify_cli.libraries.signed_log.notes import (
    NoteError,
    VerifierKey,
    encode,
    parse_checkpoint,
    parse_proof,
    signed_at,
)
from specify_cli.libraries.signed_log.signing import LevelFiles, make_checkpoint, prove, read_keys
from specify_cli.record.ids import new_ulid
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import Generation, Leaf
from support import FULL
from trails import load, make_repository

PACKAGES = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog")
SIZE = 66_000 if FULL else 700

SIGSTORE = Path(__file__).parents[3] / ".venv-judges/bin/python"
needs_go = pytest.mark.skipif(
    shutil.which("go") is None or not PACKAGES.is_dir(),
    reason="Go's own judge is not here: apt-get install golang-go golang-golang-x-mod-dev",
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    """A signed log of many leaves."""
    root = make_repository(tmp_path_factory.mktemp("trail") / "trail")
    folder = root / ".git/kittify/log/top/1-00000000"
    folder.mkdir(parents=True)
    dice = random.Random(11)
    kinds = ("start", "close", "annex")
    leaves = [Leaf(dice.choice(kinds), new_ulid(n, dice.randbytes(10)), dice.randbytes(32).hex()) for n in range(SIZE)]
    (folder / "leaves").write_bytes(b"".join(leaf.entry + b"\n" for leaf in leaves))
    make_checkpoint(load(root))
    return open_log(load(root)).generations()[0]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(folder / "cache")}
    source = Path(__file__).parents[2] / "judges/judge.go"
    subprocess.run(["go", "build", "-o", str(folder / "judge"), str(source)], env=env, check=True, cwd=folder)
    return folder / "judge"


def _ask(judge: Path, lines: list[str]) -> list[bool]:
    done = subprocess.run([str(judge)], input="\n".join(lines), capture_output=True, text=True, check=True)
    return [line == "true" for line in done.stdout.split()]


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@needs_go
def test_go_accepts_a_checkpoint_and_no_other_bits(log: Generation, judge: Path) -> None:
    key, _ = read_keys(log)[0]
    checkpoint = Path(log.path, "checkpoint").read_bytes()
    # The second signature is of a kind that this version of Go's package passes over.
    note = checkpoint[: checkpoint.index(b"\n", checkpoint.index("—".encode())) + 1]
    good = f"note {key} {encode(note)}"
    flipped = [f"note {key} {encode(_flip(note, bit))}" for bit in range(8 * len(note))]

    assert _ask(judge, [good, f"note {key} {encode(checkpoint)}"]) == [True, True]
    accepted = [bit for bit, said in enumerate(_ask(judge, flipped)) if said]
    # Go reads base64 whose last bits, which stand for nothing, are not zero; we refuse it.
    assert len(accepted) <= 2
    for bit in accepted:
        with pytest.raises(NoteError, match="canonical"):
            parse_checkpoint(_flip(note, bit))


@pytest.mark.stress
@needs_go
def test_go_accepts_every_kind_of_proof_and_none_that_was_changed(log: Generation, judge: Path) -> None:
    dice, levels = random.Random(12), LevelFiles(log)
    leaves = list(log.read_leaves())
    good, bad = list[str](), list[str]()
    for _ in range(60):
        size = dice.randrange(2, SIZE + 1)
        number, old = dice.randrange(size), dice.randrange(1, size)
        root, old_root = (encode(merkle.compute_root(levels.read, count)) for count in (size, old))
        leaf = merkle.hash_leaf(leaves[number].entry)
        good.append(f"leaf {encode(leaves[number].entry)} {encode(leaf)}")
        for head, path in (
            (f"inclusion {size} {root} {number} {encode(leaf)}", merkle.prove_inclusion(levels.read, number, size)),
            (f"consistency {size} {root} {old} {old_root}", merkle.prove_consistency(levels.read, old, size)),
        ):
            good.append(" ".join([head, *map(encode, path)]))
            for at in range(len(path)):
                changed = [*path[:at], _flip(path[at], dice.randrange(256)), *path[at + 1 :]]
                bad.append(" ".join([head, *map(encode, changed)]))
                bad.append(" ".join([head, *map(encode, path[:at] + path[at + 1 :])]))

    assert all(_ask(judge, good))
    assert not any(_ask(judge, bad))
    assert len(bad) > 500


@pytest.mark.stress
@needs_go
def test_exported_tiles_hold_the_hashes_that_go_computes(log: Generation, judge: Path, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "other")
    shutil.copytree(log.home, root / ".git/kittify/log/top", dirs_exist_ok=True)
    checkpoint = make_checkpoint(load(root))
    export_tiles(log, checkpoint, str(tmp_path / "tiles"))
    asked = []
    for start in range(0, SIZE, merkle.WIDTH):
        width = min(merkle.WIDTH, SIZE - start)
        name = f"{start // merkle.WIDTH:03d}" + ("" if width == merkle.WIDTH else f".p/{width}")
        entries = (tmp_path / "tiles/tile/entries" / name).read_bytes()
        hashes = merkle.split_hashes((tmp_path / "tiles/tile/0" / name).read_bytes())
        for node in hashes:
            size = int.from_bytes(entries[:2], "big")
            asked.append(f"leaf {encode(entries[2 : 2 + size])} {encode(node)}")
            entries = entries[2 + size :]
        assert entries == b""

    assert len(asked) == SIZE
    assert all(_ask(judge, asked))


def _verify_ourselves(keys: list[VerifierKey], entry: bytes, data: bytes) -> bool:
    try:
        proof = parse_proof(data)
        state = proof.checkpoint
        leads = merkle.verify_inclusion(merkle.hash_leaf(entry), proof.number, state.size, proof.path, state.root)
        return leads and proof.extra == entry and all(signed_at(key, state) is not None for key in keys)
    except NoteError:
        return False


@pytest.mark.stress
@pytest.mark.skipif(
    not SIGSTORE.parents[1].joinpath(".ready").exists(), reason="sigstore's verifier is not here: make judges"
)
def test_sigstore_accepts_a_proof_and_every_bit_of_it_counts(log: Generation) -> None:
    keys = [key for key, _ in read_keys(log)]
    leaf = next(leaf for number, leaf in enumerate(log.read_leaves()) if number == SIZE // 3)
    (item, *_) = prove(log, {leaf.invocation_id})
    proof = str(item.proof).encode()
    text = proof.decode()
    # What sigstore reads: from the index to the signature of the one kind it knows.
    start, end = text.index("index "), text.index("\n", text.index("—"))
    name = text[text.index("—") : text.rindex(" ", 0, end)]
    read = range(len(text[:start].encode()), len(text[:end].encode()))
    flips = {8 * at + bit: _flip(proof, 8 * at + bit) for at in read for bit in range(8)}
    said = _ask_sigstore(str(keys[0]), leaf.entry, [proof, *flips.values()])
    accepted = [bit for bit, good in zip(flips, said[1:], strict=True) if good]

    assert said[0] is True
    # It takes the key's name, the trailing bits of base64 and blanks around a number for what they were; we do not.
    assert len(accepted) < 8 * (len(name) + 40)
    assert not any(_verify_ourselves(keys, leaf.entry, flips[bit]) for bit in accepted)


@pytest.mark.stress
def test_no_proof_with_one_bit_changed_is_accepted_here(log: Generation) -> None:
    keys = [key for key, _ in read_keys(log)]
    leaf = next(log.read_leaves())
    (item, *_) = prove(log, {leaf.invocation_id})
    proof = str(item.proof).encode()

    assert _verify_ourselves(keys, leaf.entry, proof)
    for bit in range(0, 8 * len(proof), 1 if FULL else 101):
        assert not _verify_ourselves(keys, leaf.entry, _flip(proof, bit)), bit
    for bit in range(8 * len(leaf.entry)):
        assert not _verify_ourselves(keys, _flip(leaf.entry, bit), proof), bit


def _ask_sigstore(key: str, entry: bytes, proofs: list[bytes]) -> list[bool]:
    script = Path(__file__).parents[2] / "judges/judge_sigstore.py"
    asked = "".join(
        json.dumps({"key": key, "entry": entry.decode(), "proof": encode(proof)}) + "\n" for proof in proofs
    )
    done = subprocess.run([str(SIGSTORE), str(script)], input=asked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split()]


@needs_go
def test_go_accepts_proofs_of_records_of_which_values_were_erased_since(judge: Path, tmp_path: Path) -> None:
    """The proof of before stands for the line as it lies now: an erased line keeps its seal, a leaf of the log."""
    root = tmp_path / "p"
    runs = plant(root, records=9, every=3)
    make_checkpoint(load(root))
    generation = open_log(load(root)).generations()[0]
    before = list(prove(generation, set(runs)))
    top = before[0].proof.checkpoint
    plan = make_plan(load(root), Query(texts=(NAME,)))
    erase(load(root), plan, Order("ada", "asked for it"), (BEGUN + 10_000) * 1000)
    after = make_checkpoint(load(root))
    asked = []
    for logged in before:
        lines = record_of(root, logged.invocation_id).read_bytes().split(b"\n")[:-1]
        (seal,) = (line["~"] for line in map(json.loads, lines) if line["~"] == logged.seal)
        leaf = merkle.hash_leaf(Leaf(logged.kind, logged.invocation_id, seal).entry)
        head = f"inclusion {top.size} {encode(top.root)} {logged.proof.number} {encode(leaf)}"
        asked.append(" ".join([head, *map(encode, logged.proof.path)]))
    levels = LevelFiles(open_log(load(root)).generations()[0])
    head = f"consistency {after.size} {encode(after.root)} {top.size} {encode(top.root)}"
    asked.append(" ".join([head, *map(encode, merkle.prove_consistency(levels.read, top.size, after.size))]))

    assert {"start", "close"} <= {logged.kind for logged in before} and len(before) >= 18
    assert len(plan.records) == 3 and after.size > top.size
    assert all(_ask(judge, asked))
