"""A person's SSH key vouches for a log, and only the verifier's own file says whose key counts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from keys import allow, make_key, revoke
from specify_cli.features.witness.enrollment import NAMESPACE, Enrollment, enroll
from specify_cli.features.witness.logs import Trust
from specify_cli.libraries.ssh.signatures import Signers
from support import Cli, accept, git, run_main, valid
from trails import codes, grow, load, make_repository, sign, verify


def find_vouchers(made: Enrollment, allowed: str, revoked: str | None = None) -> tuple[str, ...]:
    return Signers(allowed, revoked).find(made.signature, NAMESPACE, made.statement)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "trail", "committed")
    accept(root)
    grow(root, random.Random(8), 4)
    return root


def test_a_clone_that_knows_the_person_trusts_the_log(root: Path, home: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path, "ada")
    made = run_main(["trail", "enroll", "--key", str(key), "--json"], cwd=root, home=home)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    git(tmp_path, "clone", "-q", str(root), "clone")
    clone = tmp_path / "clone"
    known = verify(clone, Trust(signers=Signers(allow(tmp_path, key))))
    stranger = verify(clone, Trust(signers=Signers(allow(tmp_path, make_key(tmp_path, "eve")))))
    argv = ["invocations", "verify", "--all", "--require", "logged", "--allowed-signers", allow(tmp_path, key)]

    assert len(valid(made.json(), "trail-enrolled")["keys"]) == 2
    assert (known.level, codes(known)) == ("logged", set())
    assert any("beyond the word of ada@example.org" in text for text in known.not_proven)
    assert (stranger.level, verify(clone).level) == ("linked", "linked")
    assert run_main(argv, cwd=clone, home=home).code == 0


def test_a_record_that_went_with_its_piece_of_the_log_leaves_nothing_behind_it_logged(
    root: Path, home: Path, tmp_path: Path
) -> None:
    """The root that was signed cannot be computed without the piece."""
    first = {*root.glob(".kittify/trail/*/*.jsonl")}
    before = {*root.glob(".kittify/trail/log/*/*.leaves")}
    grow(root, random.Random(9), 1)
    records = {*root.glob(".kittify/trail/*/*.jsonl")} - first
    pieces = {*root.glob(".kittify/trail/log/*/*.leaves")} - before
    grow(root, random.Random(10), 2)
    key = make_key(tmp_path, "ada")
    assert run_main(["trail", "enroll", "--key", str(key)], cwd=root, home=home).code == 0
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    git(tmp_path, "clone", "-q", str(root), "clone")
    clone = tmp_path / "clone"
    remember = ["invocations", "verify", "--all", "--remember", str(tmp_path / "memory")]
    assert run_main(remember, cwd=clone, home=home).code == 0
    for path in (*records, *pieces):
        (clone / path.relative_to(root)).unlink()
    known = verify(clone, Trust(signers=Signers(allow(tmp_path, key))))

    assert records and pieces
    assert "LOG_ROLLED_BACK" in run_main(remember, cwd=clone, home=home).out
    assert known.level == "linked"
    assert any("newest records" in text for text in known.not_proven)


@pytest.mark.parametrize(
    "options",
    ['namespaces="file"', 'valid-before="20200101"', 'valid-after="20990101"'],
)
def test_a_key_that_may_not_vouch_does_not(root: Path, tmp_path: Path, options: str) -> None:
    key = make_key(tmp_path, "ada")
    made = enroll(load(root), str(key))

    assert find_vouchers(made, allow(tmp_path, key)) == ("ada@example.org",)
    assert find_vouchers(made, allow(tmp_path, key, 'namespaces="spec-kitty-log"')) == ("ada@example.org",)
    assert find_vouchers(made, allow(tmp_path, key, options)) == ()


def test_a_revoked_key_vouches_for_nothing(root: Path, home: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path, "ada")
    made = enroll(load(root), str(key))
    other = make_key(tmp_path, "eve")
    argv = ["invocations", "verify", "--all", "--allowed-signers", allow(tmp_path, key), "--revoked"]

    assert find_vouchers(made, allow(tmp_path, key), revoke(tmp_path, other)) == ("ada@example.org",)
    assert find_vouchers(made, allow(tmp_path, key), revoke(tmp_path, key)) == ()
    assert "beyond the word of" not in run_main([*argv, revoke(tmp_path, key)], cwd=root, home=home).out
    assert "beyond the word of" in run_main([*argv, revoke(tmp_path, other)], cwd=root, home=home).out


def test_revoked_keys_are_not_passed_over_where_no_signers_are_named(root: Path, home: Path) -> None:
    ran = run_main(["invocations", "verify", "--all", "--revoked", "revoked", "--json"], cwd=root, home=home)

    assert (ran.code, ran.error()["error_code"]) == (2, "USAGE")


def test_a_statement_that_was_changed_vouches_for_nothing(root: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path, "ada")
    made = enroll(load(root), str(key))
    allowed = allow(tmp_path, key)
    for at in range(0, len(made.statement), 31):
        changed = made.statement[:at] + chr(ord(made.statement[at]) ^ 1) + made.statement[at + 1 :]
        assert find_vouchers(made._replace(statement=changed), allowed) == ()
    (path,) = root.glob(".kittify/trail/log/*/*.enrolled")
    path.write_text("nothing", encoding="utf-8")
    clone = tmp_path / "clone"
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    git(tmp_path, "clone", "-q", str(root), "clone")
    assert codes(verify(clone, Trust(signers=Signers(allowed)))) == {"LOG_UNVERIFIED"}


def test_a_key_that_is_not_there_is_said(root: Path, cli: Cli) -> None:
    sign(root)
    refused = run_main(["trail", "enroll", "--key", "/nowhere"], cwd=root, home=root)

    assert refused.code == 1
    assert "there is no file /nowhere" in refused.err
    assert cli("invocations", "verify", "--all", "--allowed-signers", "/nowhere").code == 1
