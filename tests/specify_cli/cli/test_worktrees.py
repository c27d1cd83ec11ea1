"""Records of a linked worktree survive `git worktree remove`, and are taken into the project that asks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specify_cli.record import layout
from support import Cli, accept, git

KEPT = ".git/kittify/worktrees"


@pytest.fixture
def worktree(cli: Cli, chartered: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A linked worktree of a project whose trail is private, or what the test's parameter says."""
    trail = getattr(request, "param", "private")
    (chartered / ".kittify/config.yaml").write_text(f"trail: {trail}\n")
    accept(chartered)
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "start")
    git(chartered, "worktree", "add", "-q", str(tmp_path / "wt"))
    assert cli("invocations", "list", cwd=tmp_path / "wt").code == 0
    return tmp_path / "wt"


def begun(cli: Cli, folder: Path, request: str = "fix the login") -> str:
    return str(cli("do", request, "--json", cwd=folder).json()["invocation_id"])


def told(cli: Cli, folder: Path) -> list[str]:
    codes = [item["code"] for item in cli("doctor", "--json", cwd=folder).json()["findings"]]
    return [code for code in codes if code in ("LEFT_BEHIND", "GOES_WITH_WORKTREE")]


@pytest.mark.parametrize("worktree", ["private", "committed"], indirect=True)
def test_open_and_closed_records_survive_the_removal_of_their_worktree(
    cli: Cli, chartered: Path, worktree: Path
) -> None:
    opened, closed = begun(cli, worktree), begun(cli, worktree, "review WP01")
    (worktree / "proof.md").write_text("all tests pass\n")
    argv = ("profile-invocation", "record", "--invocation-id", opened, "--event", "error", "--json-payload")
    cli(*argv, '{"error_code": "X", "message": "appended later", "severity": "error"}', cwd=worktree)
    cli("profile-invocation", "complete", "--invocation-id", closed, "--evidence", "proof.md", cwd=worktree)
    cli("replay", closed, "--record", cwd=worktree)
    git(chartered, "worktree", "remove", "--force", str(worktree))
    listed = cli("invocations", "list")
    findings = told(cli, chartered)
    missed = cli("invocations", "show", closed, "--json").error()
    (path,) = (chartered / KEPT).glob(f"top/wt/{layout.RECORDS}/*{closed}.jsonl")
    by_path = cli("invocations", "verify", str(worktree / layout.RECORDS / path.name), "--json").error()
    taken = cli("invocations", "reindex", "--json")

    assert (missed["error_code"], missed["suggestion"][:30]) == (
        "INVOCATION_NOT_FOUND",
        "spec-kitty invocations reindex",
    )
    assert by_path == missed
    assert "2 records of removed worktrees kept" in listed.err
    assert findings == ["LEFT_BEHIND"]
    assert len(taken.json()["taken_in"]) == 2
    verified = cli("invocations", "verify", "--all", "--json")
    assert (verified.code, verified.json()["verdicts"]["intact"], verified.json()["findings"]) == (0, 2, [])
    assert {row["invocation_id"] for row in cli("invocations", "list", "--json").json()} == {opened, closed}
    assert "appended later" in cli("invocations", "show", opened).out
    assert len(cli("invocations", "show", closed, "--json").json()["annexes"]) == 1
    assert cli("replay", closed).code == 0
    assert cli("profile-invocation", "complete", "--invocation-id", opened).code == 0
    assert told(cli, chartered) == [] and cli("invocations", "list").err == ""
    assert not list((chartered / KEPT).glob("*/*"))
    assert cli("invocations", "reindex", "--json").json()["taken_in"] == []


def test_verify_says_how_the_records_of_a_removed_worktree_come_back(cli: Cli, chartered: Path, worktree: Path) -> None:
    begun(cli, worktree)
    git(chartered, "worktree", "remove", "--force", str(worktree))
    said = cli("invocations", "verify", "--all").out  # room: witness

    assert "is kept of a removed worktree: spec-kitty invocations reindex takes it in" in said


def test_records_of_a_worktree_that_is_there_stay_its_own(cli: Cli, chartered: Path, worktree: Path) -> None:
    begun(cli, worktree)

    assert cli("invocations", "reindex", "--json").json()["taken_in"] == []
    assert told(cli, chartered) == told(cli, worktree) == []
    assert cli("invocations", "list").err == ""


def test_a_second_name_is_the_same_file_and_costs_no_copy(cli: Cli, chartered: Path, worktree: Path) -> None:
    begun(cli, worktree)
    (record,) = (worktree / layout.RECORDS).glob("*.jsonl")
    second = chartered / KEPT / "top" / "wt" / layout.RECORDS / record.name

    assert os.path.samefile(record, second)
    assert git(chartered, "status", "--porcelain") == git(worktree, "status", "--porcelain") == ""


def test_the_main_worktree_has_no_second_names(cli: Cli, chartered: Path) -> None:
    begun(cli, chartered)

    assert not (chartered / KEPT).exists()


def test_where_no_second_name_can_be_given_nothing_fails_and_doctor_warns(
    cli: Cli, chartered: Path, worktree: Path
) -> None:
    (chartered / ".git/kittify").mkdir(exist_ok=True)
    (chartered / KEPT).write_text("in the way")
    run = begun(cli, worktree)

    assert cli("profile-invocation", "complete", "--invocation-id", run, cwd=worktree).code == 0
    assert told(cli, worktree) == ["GOES_WITH_WORKTREE"]
    (chartered / KEPT).unlink()
    assert cli("invocations", "reindex", cwd=worktree).code == 0
    assert told(cli, worktree) == []


def test_a_worktree_under_a_name_used_before_takes_nothing_of_the_older_one(
    cli: Cli, chartered: Path, worktree: Path
) -> None:
    older = begun(cli, worktree)
    git(chartered, "worktree", "remove", "--force", str(worktree))
    git(chartered, "branch", "-q", "-D", "wt")
    git(chartered, "worktree", "add", "-q", str(worktree))
    newer = begun(cli, worktree)
    taken = cli("invocations", "reindex", "--json").json()["taken_in"]
    git(chartered, "worktree", "remove", "--force", str(worktree))
    later = cli("invocations", "reindex", "--json").json()["taken_in"]

    assert [older in path for path in taken] == [True]
    assert [newer in path for path in later] == [True]
    assert cli("invocations", "verify", "--all").code == 0
