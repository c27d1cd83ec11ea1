"""A record that is not here counts as being elsewhere only where the very line that is cited or logged stands there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specify_cli.invocation.executor import ProfileInvocationExecutor
from support import accept, git
from trails import RECORDS, codes, make_repository, sign, verify


def make_record(root: Path) -> str:
    executor = ProfileInvocationExecutor(root)
    made = executor.invoke("fix the login test").invocation_id
    executor.complete(made)
    return made


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, str]:
    """A private trail, signed, of which one closed record that a later one cites was deleted."""
    root = make_repository(tmp_path / "trail")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    one = make_record(root)
    make_record(root)
    sign(root)
    return root, one


def find_file(root: Path, invocation_id: str) -> Path:
    (path,) = (root / RECORDS).glob(f"*{invocation_id}.jsonl")
    return path


JUNK: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "junk": lambda _: b"junk\n",
    "seals in a text": lambda data: b"".join(b'{"x":1' + line[-74:] for line in data.splitlines(keepends=True)),
    "an edited line": lambda data: data.replace(b"login", b"logon"),
    "the first line alone": lambda data: data.splitlines(keepends=True)[0],
}


@pytest.mark.parametrize("kind", JUNK)
@pytest.mark.parametrize("ref", ["refs/heads/side", "refs/hidden/side"])
def test_a_file_of_that_name_on_another_branch_hides_no_deletion(signed: tuple[Path, str], kind: str, ref: str) -> None:
    root, one = signed
    path = find_file(root, one)
    planted = root / ".kittify/trail/2026-11" / path.name
    git(root, "switch", "-q", "-c", "work")
    planted.parent.mkdir(parents=True)
    planted.write_bytes(JUNK[kind](path.read_bytes()))
    git(root, "add", "-f", str(planted))
    git(root, "commit", "-q", "-m", "x")
    git(root, "update-ref", ref, "HEAD")
    git(root, "switch", "-q", "main")
    git(root, "branch", "-q", "-D", "work")
    path.unlink()

    assert {"LINK_MISSING", "LOGGED_RECORD_MISSING"} <= codes(verify(root))


@pytest.mark.parametrize("kind", ["empty", "junk"])
def test_an_emptied_file_in_another_worktree_hides_no_deletion(tmp_path: Path, kind: str) -> None:
    root = make_repository(tmp_path / "trail")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", str(linked))
    one = make_record(linked)
    make_record(root)
    sign(root)
    assert codes(verify(root)) == set()
    find_file(linked, one).write_bytes(JUNK[kind](b""))

    assert "LOGGED_RECORD_MISSING" in codes(verify(root))


def test_a_record_that_another_branch_really_holds_is_elsewhere(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "trail", "committed")
    accept(root)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "switch", "-q", "-c", "side")
    one = make_record(root)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    git(root, "switch", "-q", "main")
    find_file(root, one).unlink()
    make_record(root)
    sign(root)
    found = verify(root)

    assert codes(found) == set()
    assert {"LOGGED_ELSEWHERE"} <= {item.code for item in found.findings}


def test_an_annex_that_another_branch_or_clone_brought_is_no_alarm(tmp_path: Path) -> None:
    """It comes and goes with its branch; of another clone it stands in the log of that one."""
    root, other = make_repository(tmp_path / "trail", "committed"), tmp_path / "other"
    accept(root)
    one = make_record(root)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    git(tmp_path, "clone", "-q", str(root), "other")
    accept(other)
    git(root, "switch", "-q", "-c", "side")
    for place in (root, other):
        (place / "note.txt").write_text("done")
        link = ("artifact_link", {"path": str(place / "note.txt")})
        ProfileInvocationExecutor(place).record(one, [link])
        git(place, "add", "-A")
        git(place, "commit", "-q", "-m", "annex")
    git(root, "switch", "-q", "main")
    away = verify(root)
    git(root, "pull", "-q", "--no-rebase", str(other), "main")
    came = verify(root)
    git(root, "merge", "-q", "--no-edit", "side")
    assert codes(verify(root)) == set()
    for path in root.glob(f".kittify/events/annexes/{one}/*.jsonl"):
        path.unlink()

    assert (codes(away), codes(came)) == (set(), set())
    assert {"LOGGED_ELSEWHERE"} <= {item.code for item in away.findings}
    assert "LOGGED_LINE_MISSING" in codes(verify(root)), "what this branch had was deleted"
