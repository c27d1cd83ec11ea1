"""What git takes away from a committed trail, and what is taken away in the middle of a run, is not lost unseen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hooking import run_hook
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import CLOSE
from support import Cli, accept, git

SESSION = "5f1d2c3b-0000-4000-8000-000000000002"


def work(cli: Cli) -> str:
    run = str(cli("do", "implement WP03", "--json").json()["invocation_id"])
    assert cli("profile-invocation", "complete", run).code == 0
    return run


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "work")


def begin_committed(cli: Cli, root: Path) -> None:
    cli("init", "--trail", "committed")
    accept(root)
    work(cli)
    commit(root)


def begin_with_answers(cli: Cli, root: Path) -> None:
    """Begin a project whose records hold answers whole."""
    cli("init", "--trail", "committed")
    config = root / ".kittify/config.yaml"
    config.write_text(config.read_text().replace("capture_llm_io: summary", "capture_llm_io: full"))
    accept(root)


def say_last_words(cli: Cli, run: str) -> None:
    """Record an answer behind the close that is too long for its line."""
    words = json.dumps({"text": "word " * 20_000}).encode()
    assert cli("profile-invocation", "record", run, "--event", "turn", "--json-payload", "-", stdin=words).code == 0


def test_a_dropped_commit_is_told_its_owner_and_no_alarm_in_a_clone(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    begin_committed(cli, chartered)
    dropped = work(cli)
    commit(chartered)
    git(chartered, "reset", "-q", "--hard", "HEAD~1")
    told = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "UNPUBLISHED"]
    unproven = cli("invocations", "verify", "--all", "--json").json()["not_proven"]  # room: witness
    work(cli)
    commit(chartered)
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    cloned = cli("invocations", "verify", "--all", cwd=tmp_path / "clone")

    assert [dropped in item["message"] for item in told] == [True]
    assert any("not on this branch any more" in what for what in unproven)
    assert cloned.code == 0, cloned.out
    assert list((tmp_path / "clone").glob(f".kittify/trail/*/*{dropped}.jsonl"))


def test_a_commit_that_was_reverted_is_told_its_owner_and_no_alarm_in_a_clone(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    begin_committed(cli, chartered)
    reverted = work(cli)
    commit(chartered)
    git(chartered, "revert", "--no-edit", "HEAD")
    told = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "UNPUBLISHED"]
    work(cli)
    commit(chartered)
    git(chartered, "sparse-checkout", "set", "--no-cone", "/*", "!/.kittify/trail/20*")
    sparse = cli("doctor", "--json").json()["findings"]
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    cloned = cli("invocations", "verify", "--all", cwd=tmp_path / "clone")

    assert [reverted in item["message"] for item in told] == [True]
    assert not list(chartered.glob(".kittify/trail/*/*.jsonl"))
    assert "UNPUBLISHED" not in {item["code"] for item in sparse}
    assert cloned.code == 0, cloned.out


@pytest.mark.parametrize("signed", ["never", "after", "before and after"])
def test_records_of_before_the_trail_was_committed_are_no_alarm_in_a_clone(
    cli: Cli, chartered: Path, tmp_path: Path, signed: str
) -> None:
    """Nothing that is published names them; their owner goes on being asked for them."""
    private = work(cli)
    work(cli)
    open_ = str(cli("do", "implement WP04", "--json").json()["invocation_id"])
    if "before" in signed:
        assert cli("trail", "checkpoint").code == 0
    cli("init", "--trail", "committed")
    accept(chartered)
    if "before" in signed:
        assert cli("trail", "checkpoint").code == 0
    work(cli)
    assert cli("profile-invocation", "complete", open_).code == 0
    if "after" in signed:
        assert cli("trail", "checkpoint").code == 0
    commit(chartered)
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    cloned = cli("invocations", "verify", "--all", "--json", cwd=tmp_path / "clone")
    own = cli("invocations", "verify", "--all", "--json")
    published = b"".join(path.read_bytes() for path in chartered.glob(".kittify/trail/log/*/*"))
    (path,) = (chartered / layout.RECORDS).glob(f"*{private}.jsonl")
    path.unlink()
    robbed = cli("invocations", "verify", "--all", "--json")

    assert cloned.code == 0, cloned.out
    assert cloned.json()["records"] == 2
    assert private.encode() not in published
    assert own.code == 0, own.out
    assert own.json()["level"] == ("linked" if signed == "never" else "logged")
    assert "LOGGED_RECORD_MISSING" in robbed.out


@pytest.mark.parametrize("signed", [False, True])
def test_records_that_were_closed_while_the_trail_was_private_again_are_no_alarm_in_a_clone(
    cli: Cli, chartered: Path, tmp_path: Path, signed: bool
) -> None:
    begin_committed(cli, chartered)
    config = chartered / ".kittify/config.yaml"
    stated = config.read_text()
    open_ = str(cli("do", "implement WP04", "--json").json()["invocation_id"])
    work(cli)
    config.write_text(stated.replace("trail: committed", "trail: private"))
    private = work(cli)
    assert cli("profile-invocation", "complete", open_).code == 0
    config.write_text(stated)
    accept(chartered)
    if signed:
        assert cli("trail", "checkpoint").code == 0
    work(cli)
    if signed:
        assert cli("trail", "checkpoint").code == 0
    commit(chartered)
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    cloned = cli("invocations", "verify", "--all", "--json", cwd=tmp_path / "clone")
    published = b"".join(path.read_bytes() for path in chartered.glob(".kittify/trail/log/*/*"))
    own = cli("invocations", "verify", "--all", "--json")

    assert (cloned.code, cloned.json()["records"]) == (0, 3), cloned.out
    assert private.encode() not in published
    assert f"close {open_}".encode() not in published
    assert (own.code, own.json()["level"]) == (0, "logged" if signed else "linked"), own.out


@pytest.mark.parametrize("accepted", ["before the hold", "before the close", "after the close"])
def test_what_is_said_of_a_record_before_it_is_published_leaves_with_it(
    cli: Cli, chartered: Path, tmp_path: Path, accepted: str
) -> None:
    cli("init", "--trail", "committed")
    commit(chartered)
    run = str(cli("do", "implement WP03", "--json").json()["invocation_id"])
    if accepted == "before the hold":
        accept(chartered)
    assert cli("hold", "add", run, "--reason", "case 7").code == 0
    if accepted == "before the close":
        accept(chartered)
    assert cli("profile-invocation", "complete", run).code == 0
    accept(chartered)
    assert cli("profile-invocation", "complete", run).code == 0
    work(cli)
    commit(chartered)
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    cloned = cli("invocations", "verify", "--all", cwd=tmp_path / "clone")

    assert (cloned.code, "ERROR" in cloned.out) == (0, False), cloned.out
    assert run in cli("hold", "list", cwd=tmp_path / "clone").out


def test_what_a_clone_said_of_published_records_before_it_accepted_the_trail_is_no_alarm_in_others(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    begin_committed(cli, chartered)
    run = work(cli)
    commit(chartered)
    clone, other = tmp_path / "clone", tmp_path / "other"
    git(tmp_path, "clone", "-q", str(chartered), str(clone))
    assert cli("hold", "add", run, "--reason", "case 7", cwd=clone).code == 0
    accept(clone)
    own = str(cli("do", "fix it", "--json", cwd=clone).json()["invocation_id"])
    assert cli("profile-invocation", "complete", own, cwd=clone).code == 0
    commit(clone)
    git(tmp_path, "clone", "-q", str(clone), str(other))
    found = cli("invocations", "verify", "--all", cwd=other)

    assert found.code == 0, found.out
    assert "case 7" not in cli("hold", "list", cwd=other).out


def test_the_objects_of_what_is_said_of_a_published_record_leave_with_it(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    """An agent closes the record and then says its last words, which a hook adds."""
    begin_with_answers(cli, chartered)
    run = work(cli)
    say_last_words(cli, run)
    commit(chartered)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(chartered), str(clone))
    found = cli("invocations", "verify", "--all", cwd=clone)
    assert cli("do", "fix it", cwd=clone).code == 0
    accept(clone)
    assert cli("do", "fix it again", cwd=clone).code == 0

    assert found.code == 0, found.out
    assert git(clone, "status", "--porcelain") == "", "who accepts the trail takes nothing out of it"


def test_the_report_of_a_replay_leaves_with_the_published_record_that_it_is_of(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    begin_committed(cli, chartered)
    run = work(cli)
    assert cli("replay", run, "--record").code == 0
    commit(chartered)
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    found = cli("invocations", "verify", "--all", cwd=tmp_path / "clone")

    assert found.code == 0, found.out


def test_an_archive_brings_what_is_said_of_a_published_record_with_its_objects(  # room: archives
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    begin_with_answers(cli, chartered)
    run = work(cli)
    commit(chartered)
    clone, other = tmp_path / "clone", tmp_path / "other"
    git(tmp_path, "clone", "-q", str(chartered), str(clone))
    say_last_words(cli, run)
    assert cli("invocations", "export", run, "-o", "run.tar").code == 0
    accept(clone)
    assert cli("invocations", "import", str(chartered / "run.tar"), cwd=clone).code == 0
    commit(clone)
    git(tmp_path, "clone", "-q", str(clone), str(other))
    found = cli("invocations", "verify", "--all", cwd=other)

    assert found.code == 0, found.out


def test_what_another_branch_holds_is_not_published_again(cli: Cli, chartered: Path) -> None:
    begin_committed(cli, chartered)
    git(chartered, "checkout", "-qb", "feature")
    there = work(cli)
    commit(chartered)
    git(chartered, "checkout", "-q", "-")
    work(cli)

    assert not list(chartered.glob(f".kittify/trail/*/*{there}.jsonl"))
    assert "UNPUBLISHED" not in {item["code"] for item in cli("doctor", "--json").json()["findings"]}


def test_hook_events_after_the_events_were_removed_are_kept_and_doctor_says_so(
    cli: Cli, chartered: Path, home: Path
) -> None:
    env = {"CLAUDE_CODE_SESSION_ID": SESSION}
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]
    shutil.rmtree(chartered / layout.EVENTS)
    payload: dict[str, object] = {"session_id": SESSION, "cwd": str(chartered), "tool_name": "Bash", "tool_use_id": "1"}
    payload |= {"hook_event_name": "PreToolUse", "tool_input": {"command": "ls"}}
    run_hook("claude-code", json.dumps(payload).encode(), str(chartered), str(home))
    found = {item["code"]: item["message"] for item in cli("doctor", "--json").json()["findings"]}

    assert "1 hook event found no invocation" in found["HOOK_ORPHANS"]
    assert run in found["LOGGED_RECORD_MISSING"]


def test_doctor_agrees_with_verify_and_advises_to_remove_nothing_that_a_record_elsewhere_needs(
    cli: Cli, chartered: Path
) -> None:
    run = work(cli)
    work(cli)
    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    path.rename(chartered / "away.jsonl")
    report = cli("doctor", "--json")
    found = [item["code"] for item in report.json()["findings"]]

    assert cli("invocations", "verify", "--all").code == 3
    assert report.json()["ok"] is False
    assert "LOGGED_RECORD_MISSING" in found
    assert "DANGLING_OBJECT" not in found


def test_a_close_that_was_announced_before_the_turn_is_in_the_log_that_began_meanwhile(
    cli: Cli, chartered: Path, home: Path
) -> None:
    """Else its own publication would begin a third log, or leave its leaf out."""
    work(cli)
    first, second = [str(cli("do", "implement WP04", "--json").json()["invocation_id"]) for _ in range(2)]
    cli("init", "--trail", "committed")
    accept(chartered)
    log = open_log(load_project(str(chartered), str(home))[0])
    with log.announce(CLOSE, first) as entry:
        assert cli("profile-invocation", "complete", "--invocation-id", second).code == 0
        entry.commit("ab" * 32, str(chartered))
    older, newer = log.generations()

    assert first not in [leaf.invocation_id for leaf in older.read_leaves() if leaf.kind == CLOSE]
    assert [second, first] == [leaf.invocation_id for leaf in newer.read_leaves() if leaf.kind == CLOSE]
