"""Notes, keys, checkpoints, proofs and policies are those of C2SP."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from specify_cli.libraries.signed_log.notes import (
    ED25519,
    ED25519_COSIGNATURE,
    ML_DSA_44,
    Checkpoint,
    NoteError,
    Policy,
    VerifierKey,
    encode,
    parse_checkpoint,
    parse_policy,
    parse_proof,
    signed_at,
)
from specify_cli.libraries.signed_log.signing import make_checkpoint, prove, read_keys
from specify_cli.project.config import Project
from specify_cli.trail.log.entries import open_log
from trails import grow, load, make_repository

# The example of c2sp.org/signed-note's own test key, as Go's `note` package documents it.
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Project, Checkpoint]:
    root = make_repository(tmp_path / "trail")
    grow(root, random.Random(5), 4)
    project = load(root)
    return project, make_checkpoint(project)


def _keys(project: Project) -> list[VerifierKey]:
    return [key for generation in open_log(project).generations() for key, _ in read_keys(generation)]


def test_a_key_and_a_note_of_go_verify() -> None:
    text, _, line = GO_NOTE.rpartition("\n\n")
    from specify_cli.libraries.signed_log.notes import parse_signature

    note = Checkpoint("", 0, b"", f"{text}\n", (parse_signature(line),))

    assert str(VerifierKey.parse(GO_KEY)) == GO_KEY
    assert signed_at(VerifierKey.parse(GO_KEY), note) == 0
    with pytest.raises(NoteError, match="does not verify"):
        signed_at(VerifierKey.parse(GO_KEY), note._replace(text=text))


def test_every_bit_of_a_checkpoint_counts(signed: tuple[Project, Checkpoint]) -> None:
    project, checkpoint = signed
    keys, note = _keys(project), str(checkpoint).encode()
    body = len(checkpoint.text)
    ends = body + 1 + len(str(checkpoint.signatures[0]).encode())
    places = [*range(ends), *random.Random(2).sample(range(ends, len(note)), 200)]

    assert [signed_at(key, checkpoint) is not None for key in keys] == [True, True]
    for at in places:
        for bit in range(at % 4, 8, 4):
            data = bytearray(note)
            data[at] ^= 1 << bit
            try:
                changed = parse_checkpoint(bytes(data))
                seen = [signed_at(key, changed) for key in keys]
            except NoteError:
                continue
            # A line whose name or key id was changed is one of an unknown key.
            assert None in seen and changed.text == checkpoint.text, (at, bit)


def test_a_size_is_signed_once(signed: tuple[Project, Checkpoint]) -> None:
    project, checkpoint = signed

    assert make_checkpoint(project) == checkpoint


def test_openssl_verifies_the_first_signature(signed: tuple[Project, Checkpoint], tmp_path: Path) -> None:
    project, checkpoint = signed
    (tmp_path / "text").write_text(checkpoint.text, encoding="utf-8")
    (tmp_path / "signature").write_bytes(checkpoint.signatures[0].value)
    (tmp_path / "key").write_bytes(bytes.fromhex("302a300506032b6570032100") + _keys(project)[0].public)
    argv = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key", "-rawin"]
    argv += ["-in", "text", "-sigfile", "signature"]

    assert subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "text").write_text(checkpoint.text.replace("spec", "Spec"), encoding="utf-8")
    assert subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def test_a_proof_is_read_back_as_it_was_written(signed: tuple[Project, Checkpoint]) -> None:
    project, _ = signed
    for generation in open_log(project).generations():
        for leaf in generation.read_leaves():
            for item in prove(generation, {leaf.invocation_id}):
                assert parse_proof(str(item.proof).encode()) == item.proof


@pytest.mark.parametrize("bad", ["", "\n\n", "a\n1\nAA==\n\n— a AAAAAAA=\n", "a\n01\n", GO_NOTE, "x" * 300_000])
def test_what_is_no_checkpoint_is_refused(bad: str) -> None:
    with pytest.raises(NoteError):
        parse_checkpoint(bad.encode())


# --- policies


def _key(name: str, kind: int) -> VerifierKey:
    size = 1312 if kind == ML_DSA_44 else 32
    return VerifierKey(name, kind, random.Random(name).randbytes(size))


def _policy(*lines: str) -> Policy:
    return parse_policy("\n".join(lines).encode())


W = {name: _key(f"w.example/{name}", ED25519_COSIGNATURE) for name in ("x1", "x2", "x3", "y1", "y2")}
WITNESSES = [f"witness {name} {key}" for name, key in W.items()]


def test_a_quorum_of_groups_is_counted() -> None:
    policy = _policy(
        "# two of the first, one of the second",
        f"log {_key('l.example', ED25519)} https://l.example",
        *WITNESSES,
        "group X 2 x1 x2 x3",
        "group Y any y1 y2",
        "group both all X Y",
        "quorum both",
    )

    assert policy.is_reached({"x1", "x3", "y2"})
    assert not policy.is_reached({"x1", "y1", "y2"})
    assert not policy.is_reached({"x1", "x2", "x3"})
    assert _policy("quorum none").is_reached(())


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "quorum"),
        (["quorum none", "quorum none"], "line 2"),
        ([*WITNESSES, "group none any x1", "quorum none"], "taken"),
        ([*WITNESSES, "group X any x9", "quorum X"], "unknown"),
        ([*WITNESSES, "group X 3 x1 x2", "quorum X"], "threshold"),
        ([*WITNESSES, "group X any x1", "group Y any x1", "quorum X"], "repeated"),
        ([WITNESSES[0], f"witness other {W['x1']}", "quorum none"], "twice"),
        ([f"log {W['x1']}", "quorum none"], "type 4"),
        ([f"log {_key('l', ED25519)}".replace("+", "+0", 1), "quorum none"], "id"),
        ([f"log l+00000000+{encode(b'x')}", "quorum none"], "verifier key"),
        (["quorum x1", *WITNESSES], "defined above"),
    ],
)
def test_a_policy_that_is_none_is_refused(lines: list[str], says: str) -> None:
    with pytest.raises(NoteError, match=says):
        _policy(*lines)
