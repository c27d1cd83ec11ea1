"""Git and the trail: an open record survives every everyday git command, committed trails merge."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from support import Cli, git

RECORDS = ".kittify/events/profile-invocations"


def _begun(cli: Cli, project: Path, trail: str) -> str:
    cli("init", "--trail", trail)
    (project / "app.py").write_text("x = 1\n")
    (project / ".gitattributes").write_text("* text=auto eol=crlf\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    return str(cli("do", "implement WP01", "--json").json()["invocation_id"])


def _ids(cli: Cli, cwd: Path) -> list[str]:
    return sorted(row["invocation_id"] for row in cli("invocations", "list", "--json", cwd=cwd).json())


@pytest.mark.parametrize("trail", ["private", "committed"])
@pytest.mark.parametrize(
    "commands",
    [
        [["stash", "-u"], ["stash", "pop"]],
        [["stash", "-u"]],
        [["clean", "-fdq"]],
        [["clean", "-ffdq"]],
        [["checkout", "-qb", "other"], ["checkout", "-q", "main"]],
        [["checkout", "-q", "--", "."]],
        [["reset", "-q", "--hard"]],
        [["add", "-A"], ["commit", "-qm", "all"]],
    ],
    ids=lambda commands: "; ".join(" ".join(argv) for argv in commands),
)
def test_an_open_record_survives_everyday_git(cli: Cli, project: Path, trail: str, commands: list[list[str]]) -> None:
    one = _begun(cli, project, trail)
    (project / "app.py").write_text("x = 2\n")
    (project / "new.py").write_text("y = 1\n")
    for argv in commands:
        git(project, *argv)

    assert _ids(cli, project) == [one]
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    assert cli("invocations", "verify").code == 0


@pytest.mark.parametrize("trail", ["private", "committed"])
def test_git_never_sees_an_open_record(cli: Cli, project: Path, trail: str) -> None:
    one = _begun(cli, project, trail)

    assert one not in git(project, "status", "--porcelain", "-uall")
    assert "profile-invocations" not in git(project, "status", "--porcelain", "-uall")


def test_without_init_a_private_trail_is_invisible_to_git(cli: Cli, project: Path) -> None:
    cli("do", "implement WP01")

    assert git(project, "status", "--porcelain", "-uall") == ""


def test_two_branches_of_a_committed_trail_merge_without_conflict(cli: Cli, project: Path) -> None:
    first = _begun(cli, project, "committed")
    cli("profile-invocation", "complete", "--invocation-id", first)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    ids = [first]
    for branch in ("left", "right"):
        git(project, "checkout", "-qb", branch, "main")
        one = cli("do", f"implement WP-{branch}", "--json").json()["invocation_id"]
        cli("profile-invocation", "complete", "--invocation-id", one)
        ids.append(one)
        git(project, "add", "-A")
        git(project, "commit", "-qm", branch)
    git(project, "checkout", "-q", "left")
    git(project, "merge", "-q", "--no-edit", "right")

    assert _ids(cli, project) == sorted(ids)
    assert cli("invocations", "verify").code == 0
    for path in (project / ".kittify/trail").rglob("*.jsonl"):
        assert b"<<<<<<<" not in path.read_bytes()
        assert b"\r" not in path.read_bytes()


def test_a_fresh_clone_lists_and_verifies_what_was_committed(cli: Cli, project: Path, tmp_path: Path) -> None:
    one = _begun(cli, project, "committed")
    cli("profile-invocation", "complete", "--invocation-id", one)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "trail")
    clone = tmp_path / "clone"
    git(tmp_path, "-c", "core.autocrlf=true", "clone", "-q", str(project), str(clone))

    assert _ids(cli, clone) == [one]
    ran = cli("invocations", "verify", "--json", cwd=clone)
    assert (ran.code, ran.json()["findings"]) == (0, [])
    assert cli("invocations", "show", one, "--json", cwd=clone).json()["status"] == "closed"
    assert "warning: ALREADY_COMPLETED" in cli("profile-invocation", "complete", "--invocation-id", one, cwd=clone).err
    assert git(clone, "status", "--porcelain", "-uall") == ""


def test_a_record_between_file_and_index_line_is_listed(cli: Cli, project: Path) -> None:
    one = cli("do", "implement WP01", "--json").json()["invocation_id"]
    (project / ".kittify/events/invocation-index.jsonl").unlink()

    assert _ids(cli, project) == [one]


def test_a_record_copied_in_by_hand_is_listed(cli: Cli, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    one = cli("do", "implement WP01", "--json").json()["invocation_id"]
    two = cli("do", "review WP02", "--json", cwd=other).json()
    cli("invocations", "list")
    shutil.copy2(other / two["record_path"], project / RECORDS)

    assert _ids(cli, project) == sorted([one, two["invocation_id"]])


def test_a_trail_set_to_committed_later_still_hides_open_records(cli: Cli, project: Path) -> None:
    one = cli("do", "implement WP01", "--json").json()["invocation_id"]
    cli("init", "--trail", "committed")
    seen = git(project, "status", "--porcelain", "-uall")

    assert one not in seen
    assert ".kittify/events/objects/" not in seen
    done = cli("profile-invocation", "complete", "--invocation-id", one, "--json").json()
    seen = git(project, "status", "--porcelain", "-uall")
    assert done["published"] in seen
    assert ".kittify/events/objects/" in seen
    assert cli("invocations", "verify").code == 0
    assert json.loads((project / done["published"]).read_bytes().split(b"\n")[0])["invocation_id"] == one


def test_a_fifo_where_published_records_are_named_keeps_no_close_waiting(cli: Cli, project: Path) -> None:
    cli("init", "--trail", "committed")
    one = cli("do", "implement WP01", "--json").json()["invocation_id"]
    os.mkfifo(project / ".git/kittify/published")
    done = cli("profile-invocation", "complete", "--invocation-id", one, "--json").json()

    assert (project / done["published"]).exists()


def test_going_committed_publishes_nothing_that_was_private(cli: Cli, project: Path) -> None:
    (project / "proof.md").write_text("a private proof")
    one = cli("do", "implement WP01", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", one, "--evidence", "proof.md")
    opened = cli("do", "implement WP02", "--json").json()["invocation_id"]
    (project / "proof.md").unlink()
    ran = cli("init", "--trail", "committed")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "all")

    assert "stay private" in ran.out
    tracked = git(project, "ls-files")
    assert ".kittify/events/objects/" not in tracked
    assert ".kittify/evidence/" not in tracked
    git(project, "stash", "-u") if git(project, "status", "--porcelain") else None
    assert _ids(cli, project) == sorted([one, opened])
    assert cli("invocations", "verify").code == 0


def test_going_back_to_private_and_forth_again_keeps_what_is_published(cli: Cli, project: Path) -> None:
    one = _begun(cli, project, "committed")
    done = cli("profile-invocation", "complete", "--invocation-id", one, "--json").json()
    git(project, "add", "-A")
    git(project, "commit", "-qm", "trail")
    cli("init", "--trail", "private")
    two = cli("do", "implement WP02", "--json").json()["invocation_id"]
    cli("init", "--trail", "committed")

    assert (project / done["published"]).exists()
    assert git(project, "status", "--porcelain", "-uall") == ""
    assert _ids(cli, project) == sorted([one, two])
    assert cli("invocations", "verify").code == 0


def test_objects_that_a_change_to_private_hides_are_named_with_the_command_that_shows_them(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    one = _begun(cli, project, "committed")
    cli("profile-invocation", "complete", "--invocation-id", one)
    cli("init", "--trail", "private")
    two = cli("do", "implement WP02", "--json").json()["invocation_id"]
    named = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "OBJECTS_IGNORED"]
    git(project, *named[0]["repair"].split()[1:])
    git(project, "add", "-A")
    git(project, "commit", "-qm", "all")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))

    assert "OBJECTS_IGNORED" not in cli("doctor").out
    assert _ids(cli, clone) == [one]
    assert cli("invocations", "verify", cwd=clone).code == 0
    assert two not in git(project, "ls-files")


@pytest.mark.parametrize(
    "words",
    [("origin", "HEAD"), ("gate", "--base", "HEAD"), ("packs", "add", "https://example.org/house.git")],
    ids=" ".join,
)
def test_where_git_is_not_installed_a_command_that_needs_it_says_so(
    cli: Cli, project: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "start")
    # room: origin, # room: gate, # room: packs
    refused = cli(*words, "--json", env={"PATH": str(tmp_path)}).error()

    assert "git cannot be run" in refused["message"]
    assert refused["suggestion"] == "install git, or put it on PATH, then run the command again"


def test_where_git_is_not_installed_doctor_says_what_is_not_known_and_goes_on(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    one = _begun(cli, project, "committed")
    cli("profile-invocation", "complete", "--invocation-id", one)
    cli("init", "--trail", "private")
    (project / ".kittify/profiles").mkdir()
    (project / ".kittify/profiles/x.agent.yaml").write_text("[")
    ran = cli("doctor", env={"PATH": str(tmp_path)})

    assert "CHECK_FAILED" in ran.out and "git cannot be run" in ran.out
    assert "PROFILE_INVALID" in ran.out


def test_a_checkout_that_changes_the_trail_setting_leaves_open_records_alone(cli: Cli, project: Path) -> None:
    (project / "app.py").write_text("x = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    git(project, "checkout", "-qb", "tracked")
    cli("init", "--trail", "committed")
    done = cli("do", "implement WP01", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", done)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "committed trail")
    git(project, "checkout", "-q", "main")
    one = cli("do", "fix the private bug", "--json").json()["invocation_id"]
    git(project, "checkout", "-q", "tracked")
    (project / "new.py").write_text("y = 1\n")
    git(project, "stash", "-u")

    assert _ids(cli, project) == sorted([one, done])
    assert cli("invocations", "verify").code == 0


def _linked(cli: Cli, project: Path, run: str) -> None:
    (project / "made.txt").write_text("made")
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "artifact_link", "--json-payload")
    assert cli(*argv, '{"path":"made.txt"}').code == 0


def test_an_annex_of_a_record_that_was_never_published_is_not_either(cli: Cli, project: Path) -> None:
    run = _begun(cli, project, "private")
    cli("profile-invocation", "complete", "--invocation-id", run)
    cli("init", "--trail", "committed")
    _linked(cli, project, run)
    other = str(cli("do", "implement WP02", "--json").json()["invocation_id"])
    cli("profile-invocation", "complete", "--invocation-id", other)
    _linked(cli, project, other)
    git(project, "add", "-A")
    added = git(project, "diff", "--cached", "--name-only").splitlines()

    assert [name for name in added if f"annexes/{run}/" in name] == []
    assert len([name for name in added if f"annexes/{other}/" in name]) == 1


def test_an_annex_whose_record_is_not_here_is_said_to_be_one_and_no_damage(cli: Cli, project: Path) -> None:
    run = _begun(cli, project, "committed")
    cli("profile-invocation", "complete", "--invocation-id", run)
    _linked(cli, project, run)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "trail")
    git(project, "rm", "-rq", ".kittify/trail")
    git(project, "commit", "-qm", "the record goes its own way")
    git(project.parent, "clone", "-q", str(project), "clone")
    clone = project.parent / "clone"
    found = cli("invocations", "verify", "--all", "--json", cwd=clone)
    (annex,) = (clone / ".kittify/events/annexes" / run).glob("*.jsonl")
    annex.write_bytes(annex.read_bytes().replace(b"made.txt", b"mode.txt"))
    changed = cli("invocations", "verify", "--all", "--json", cwd=clone)

    assert (found.code, found.json()["verdict"]) == (0, "empty")
    assert [(item["code"], item["severity"]) for item in found.json()["findings"]] == [("RECORD_NOT_HERE", "info")]
    assert changed.code == 3
    assert [item["code"] for item in changed.json()["findings"]] == ["RECORD_NOT_HERE", "HASH_MISMATCH"]


def test_an_imported_annex_is_no_more_published_than_its_record(cli: Cli, project: Path) -> None:
    run = _begun(cli, project, "committed")
    cli("profile-invocation", "complete", "--invocation-id", run)
    _linked(cli, project, run)
    cli("invocations", "export", run, "-o", "run.tar")
    there = project.parent / "there"
    there.mkdir()
    git(there, "init", "-q")
    cli("init", "--trail", "committed", cwd=there)
    imported = cli("invocations", "import", str(project / "run.tar"), cwd=there)

    assert imported.code == 0, imported.err
    assert "annexes" not in git(there, "status", "--porcelain", "-uall")
