"""Software nobody here wrote accepts our checkpoints and proofs, and refuses them with one bit changed.

Go's `golang.org/x/mod/sumdb` comes from Debian (golang-go, golang-golang-x-mod-dev); without it these tests skip and
say so. OpenSSL judges in test_notes, ssh-keygen in test_enrollment, pymerkle in test_merkle, coreutils in
docs/test_trail.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from specify_cli.record.ids import new_ulid
from specify_cli.trail import merkle
from specify_cli.trail.leaves import Generation, Leaf
from specify_cli.trail.log import open_log
from specify_cli.trail.notes import NoteError, encode, parse_checkpoint
from specify_cli.trail.signing import LevelFiles, make_checkpoint, read_keys
from specify_cli.trail.tiles import export_tiles
from support import FULL
from trails import load, make_repository

PACKAGES = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog")
SIZE = 66_000 if FULL else 700

pytestmark = pytest.mark.skipif(
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
