"""An export can carry proofs that its records are in a signed log; who gets it checks them by a policy of their own."""

from __future__ import annotations

import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from specify_cli.libraries.archive.archive import _iter_archive
from specify_cli.libraries.signed_log import signing
from specify_cli.trail.log import leaves
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import Leaf
from support import Ran, run_main
from trails import grow, load, make_repository, sign


class Sent(NamedTuple):
    """An archive with proofs, on a desk elsewhere, and the policy that trusts its log."""

    path: Path
    policy: Path
    home: Path

    def verify(self, *more: str) -> Ran:
        argv = ["invocations", "verify", str(self.path), "--json", *more]
        return run_main(argv, cwd=self.path.parent, home=self.home)

    def codes(self) -> list[str]:
        return [item["code"] for item in self.verify("--policy", str(self.policy)).json()["findings"]]

    def change(self, member: str, edit: Callable[[bytes], bytes | None]) -> None:
        """Write the archive again with one member changed, or taken out."""
        with tarfile.open(self.path) as tar:
            files = {item.name: tar.extractfile(item).read() for item in tar}  # type: ignore[union-attr]
        name = next(name for name in files if member in name)
        changed = edit(files.pop(name))
        if changed is not None:
            files[name] = changed
        self.path.write_bytes(b"".join(_iter_archive(files)))


def _export(root: Path, home: Path, *argv: str) -> bytes:
    path = root / "out.tar"
    path.unlink(missing_ok=True)
    done = run_main(["invocations", "export", *argv, "-o", str(path)], cwd=root, home=home)
    assert done.code == 0, done.err
    return path.read_bytes()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "trail")
    grow(root, random.Random(4), 6)
    return root


@pytest.fixture
def ids(root: Path, home: Path) -> list[str]:
    rows = run_main(["invocations", "list", "--status", "closed", "--json"], cwd=root, home=home).json()
    return [row["invocation_id"] for row in rows][:2]


@pytest.fixture
def sent(root: Path, home: Path, ids: list[str], tmp_path: Path) -> Sent:
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "run.tar").write_bytes(_export(root, home, *ids, "--proofs"))
    key = run_main(["trail", "checkpoint", "--json"], cwd=root, home=home).json()["keys"][0]
    (desk / "policy").write_text(f"log {key}\nquorum none\n", encoding="utf-8")
    return Sent(desk / "run.tar", desk / "policy", home)


def test_who_gets_an_export_sees_that_its_records_are_in_a_signed_log(sent: Sent) -> None:
    known, unknown = sent.verify("--policy", str(sent.policy)), sent.verify()

    assert (known.code, unknown.code) == (0, 0)
    assert known.json()["proven"].endswith("that a log signed by a trusted key holds 2 of 2 records")
    assert unknown.json()["proven"].endswith("signed by a key nobody vouches for (--policy)")


def test_a_signature_by_a_key_the_policy_does_not_name_is_not_proven(sent: Sent, root: Path, home: Path) -> None:
    some = sent.verify("--policy", str(sent.policy))
    keys = run_main(["trail", "checkpoint", "--json"], cwd=root, home=home).json()["keys"]
    sent.policy.write_text("".join(f"log {key}\n" for key in keys) + "quorum none\n", encoding="utf-8")
    every = sent.verify("--policy", str(sent.policy))

    assert (some.code, every.code) == (0, 0)
    assert any("ML-DSA-44" in text for text in some.json()["not_proven"])
    assert not any("ML-DSA-44" in text for text in every.json()["not_proven"])


def test_a_pipe_in_the_place_of_a_checkpoint_is_named_with_its_folder(root: Path, home: Path) -> None:
    sign(root)
    (path,) = (root / ".git/kittify").rglob("checkpoint")
    path.unlink()
    os.mkfifo(path)
    refused = run_main(["trail", "checkpoint"], cwd=root, home=home)

    assert refused.code == 1 and str(path) in refused.err


def test_without_proofs_the_bytes_are_those_that_earlier_versions_read(root: Path, home: Path, ids: list[str]) -> None:
    before = _export(root, home, *ids)
    run_main(["trail", "checkpoint"], cwd=root, home=home)

    assert _export(root, home, *ids) == before
    assert b'"v": 1' in before
    assert b'"v": 2' in _export(root, home, *ids, "--proofs")


def test_a_proof_that_was_changed_or_is_of_another_line_is_a_finding(sent: Sent) -> None:
    before = sent.path.read_bytes()
    for edit in (
        lambda data: data.replace(b"index ", b"index 1", 1),
        lambda data: data.replace(b"\nspec-kitty/", b"\nspec-kitty2/", 1),
        lambda data: data[: data.index(b"\n\n") - 4] + b"AAA=" + data[data.index(b"\n\n") :],
        lambda _: b"nothing",
    ):
        sent.change("/close-", edit)
        assert sent.codes() in (["PROOF_INVALID"], []), sent.codes()
        assert "a trusted key holds 2 of 2" not in sent.verify("--policy", str(sent.policy)).json()["proven"]
        sent.path.write_bytes(before)
    other: list[bytes] = []
    sent.change("/start-", lambda data: other.append(data) or data)  # type: ignore[func-returns-value]
    sent.change("/close-", lambda _: other[0])
    assert sent.codes() == ["PROOF_INVALID"]


def test_a_record_whose_proofs_were_taken_out_is_not_counted(sent: Sent) -> None:
    sent.change("/close-", lambda _: None)

    assert "a trusted key holds 1 of 2" in sent.verify("--policy", str(sent.policy)).json()["proven"]


def test_a_proof_in_an_archive_of_the_version_without_is_refused(sent: Sent) -> None:
    sent.change("EXPORT.json", lambda data: data.replace(b'"v": 2', b'"v": 1'))

    assert sent.verify().error()["error_code"] == "EXPORT_INVALID"


def test_a_safe_export_is_proven_though_lines_are_withheld(root: Path, home: Path, ids: list[str], sent: Sent) -> None:
    sent.path.write_bytes(_export(root, home, *ids, "--safe", "--proofs"))

    assert "a trusted key holds 2 of 2" in sent.verify("--policy", str(sent.policy)).json()["proven"]


def test_an_export_with_proofs_is_imported(sent: Sent, home: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    done = run_main(["invocations", "import", str(sent.path), "--json"], cwd=other, home=home)

    assert len(json.loads(done.out)["records"]) == 2
    assert not (other / ".kittify/events/proofs").exists()


def test_what_no_log_holds_has_no_proof(home: Path, ids: list[str], sent: Sent, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    run_main(["invocations", "import", str(sent.path)], cwd=other, home=home)
    run_main(["do", "fix the login test"], cwd=other, home=home)
    refused = run_main(["invocations", "export", ids[0], "--proofs", "-o", "x.tar", "--json"], cwd=other, home=home)

    assert refused.error()["error_code"] == "NOTHING_LOGGED"


def test_the_proofs_of_one_record_parse_none_of_the_leaves_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repository(tmp_path / "p")
    one, *_ = grow(root, random.Random(7), 12)
    sign(root)
    parsed: list[str] = []
    parse = signing.parse_leaf

    def note(raw: bytes) -> Leaf:
        parsed.append(parse(raw).invocation_id)
        return parse(raw)

    for module in (signing, leaves):
        monkeypatch.setattr(module, "parse_leaf", note)
    project = load(root)
    found = [item for log in open_log(project).generations() for item in signing.prove(log, {one})]

    assert found and set(parsed) == {one}
