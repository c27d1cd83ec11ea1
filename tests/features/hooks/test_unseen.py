"""Changes of the work tree that no event explains are named when a record is closed; what a tool did is not."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook
from specify_cli.record import layout
from support import FULL, Cli, git

SESSION = "5f1d2c3b-0000-4000-8000-000000000001"
ENV = {"CLAUDE_CODE_SESSION_ID": SESSION}
SESSIONS = 1000 if FULL else 5


class Agent:
    """An agent whose hooks are told, dropped, doubled or late; its files change when its tools run."""

    def __init__(self, root: Path, home: Path, session: str, chance: random.Random | None = None) -> None:
        self.root, self.home, self.session, self.chance = root, home, session, chance
        self.calls = 0
        self.late: list[bytes] = []

    def run(self, tool: str, args: dict[str, Any], act: Callable[[], None] | None = None, response: Any = "ok") -> bool:
        """Run a tool between its two hooks; whether anything of it was told."""
        self.calls += 1
        body = {"tool_name": tool, "tool_input": args, "tool_use_id": f"{self.session}-{self.calls}"}
        before = self._tell({**body, "hook_event_name": "PreToolUse"})
        if act is not None:
            act()
        return self._tell({**body, "hook_event_name": "PostToolUse", "tool_response": response}) or before

    def _tell(self, payload: dict[str, Any]) -> bool:
        data = json.dumps({"session_id": self.session, "cwd": str(self.root), **payload}).encode()
        fate = 1.0 if self.chance is None else self.chance.random()
        if fate < 0.10:
            return False
        late, self.late = self.late, []
        if 0.15 <= fate < 0.20:
            self.late = [data]
        else:
            for _ in range(2 if fate < 0.15 else 1):
                run_hook("claude-code", data, str(self.root), str(self.home))
        for earlier in late:
            run_hook("claude-code", earlier, str(self.root), str(self.home))
        return True


def begin(cli: Cli, session: str = SESSION) -> str:
    env = {"CLAUDE_CODE_SESSION_ID": session}
    return str(cli("do", "implement WP03", "--json", env=env).json()["invocation_id"])


def close(cli: Cli, root: Path, run: str) -> list[str]:
    """Close a record and give the files that changed unseen."""
    assert cli("profile-invocation", "complete", run, env=ENV).code == 0
    (path,) = (root / layout.RECORDS).glob(f"*{run}.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return sorted(line["what"] for line in lines if line.get("reason") == "unseen_change")


@pytest.fixture
def repository_with_files(chartered: Path, home: Path) -> Path:
    for name in ("a.py", "b.py", "c.py"):
        (chartered / name).write_text("x = 1\n")
        os.utime(chartered / name, (1, 1))
    git(chartered, "add", "-A", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    return chartered


def write(path: Path, text: str) -> None:
    path.write_text(text)


def later(path: Path, text: str, seconds: float) -> None:
    """Write a file as if some time had passed."""
    path.write_text(text)
    moment = time.time() + seconds
    os.utime(path, (moment, moment))


def test_what_a_tool_changed_is_not_named(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    run = begin(cli)
    agent = Agent(root, home, SESSION)
    agent.run("Edit", {"file_path": str(root / "a.py")}, (root / "a.py").touch)
    agent.run("Bash", {"command": "make"}, (root / "made.py").touch)

    assert close(cli, root, run) == []


def test_what_changed_while_no_tool_ran_is_named(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    run = begin(cli)
    Agent(root, home, SESSION).run("Bash", {"command": "ls"})
    later(root / "b.py", "x = 3\n", 60)
    later(root / "new.py", "x = 3\n", 60)

    assert close(cli, root, run) == ["b.py", "new.py"]


def test_a_file_that_a_tool_changed_and_somebody_else_after_it_is_named(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    run = begin(cli)
    agent = Agent(root, home, SESSION)
    agent.run("Edit", {"file_path": str(root / "a.py")}, (root / "a.py").touch)
    later(root / "a.py", "x = 3\n", 60)

    assert close(cli, root, run) == ["a.py"]


def test_a_secret_in_a_file_name_is_masked(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    run = begin(cli)
    Agent(root, home, SESSION).run("Bash", {"command": "ls"})
    later(root / ("ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"), "", 60)

    assert close(cli, root, run) == ["⟦github-token⟧"]


def test_a_file_name_that_is_not_utf8_is_spelt(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    run = begin(cli)
    Agent(root, home, SESSION).run("Bash", {"command": "ls"})
    later(root / os.fsdecode(b"caf\xe9.py"), "", 60)

    assert close(cli, root, run) == ["caf\\udce9.py"]


def test_what_somebody_else_changed_and_staged_or_committed_is_named(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    run = begin(cli)
    Agent(root, home, SESSION).run("Bash", {"command": "ls"})
    for name in ("a.py", "b.py", "new.py"):
        later(root / name, "x = 4\n", 60)
    git(root, "add", "a.py", "new.py", home=home)
    git(root, "commit", "-qm", "of a person", "b.py", home=home)

    assert close(cli, root, run) == ["a.py", "b.py", "new.py"]


def test_what_a_tool_changed_and_committed_is_not_named(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    run = begin(cli)

    def act() -> None:
        (root / "a.py").write_text("x = 5\n")
        git(root, "commit", "-qam", "of the agent", home=home)

    Agent(root, home, SESSION).run("Bash", {"command": "git commit"}, act)

    assert close(cli, root, run) == []


def test_a_checkpoint_names_what_changed_by_then_and_the_close_what_changed_since(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    run = begin(cli)
    Agent(root, home, SESSION).run("Bash", {"command": "ls"})
    time.sleep(0.2)  # beside no tool any more
    (root / "a.py").write_text("x = 3\n")
    time.sleep(0.2)
    assert cli("profile-invocation", "commit", run, "--label", "here", env=ENV).code == 0
    (root / "b.py").write_text("x = 3\n")

    assert close(cli, root, run) == ["a.py", "b.py"]
    (path,) = (root / layout.RECORDS).glob(f"*{run}.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    told = [line.get("what", line["event"]) for line in lines if line["event"] in ("capture_gap", "checkpoint")]
    assert told == ["a.py", "checkpoint", "b.py"]


def test_what_was_changed_before_the_record_was_begun_is_none_of_its(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    later(root / "a.py", "x = 0\n", -3600)
    run = begin(cli)
    Agent(root, home, SESSION).run("Bash", {"command": "ls"})

    assert close(cli, root, run) == []


def test_where_no_hook_told_anything_no_file_is_named(cli: Cli, repository_with_files: Path) -> None:
    run = begin(cli)
    later(repository_with_files / "a.py", "x = 3\n", 60)

    assert close(cli, repository_with_files, run) == []


def test_a_reading_tool_excuses_no_change_beside_it(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    run = begin(cli)
    agent = Agent(root, home, SESSION)
    agent.run("Bash", {"command": "ls"})
    time.sleep(0.2)
    (root / "b.py").write_text("x = 3\n")
    time.sleep(0.2)
    agent.run("Read", {"file_path": "a.py"})

    assert close(cli, root, run) == ["b.py"]


def test_a_reading_tool_whose_begin_was_lost_excuses_no_change_before_it(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    for tool, named in (("Read", ["Read.txt"]), ("Bash", [])):
        run = begin(cli)
        Agent(root, home, SESSION).run("Grep", {"pattern": tool})
        time.sleep(0.2)
        (root / f"{tool}.txt").write_text("by hand\n")
        time.sleep(0.2)
        body: dict[str, Any] = {"session_id": SESSION, "cwd": str(root), "hook_event_name": "PostToolUse"}
        body |= {
            "tool_name": tool,
            "tool_use_id": f"lost {tool}",
            "tool_input": {"file_path": "a.py"},
            "tool_response": "x",
        }
        run_hook("claude-code", json.dumps(body).encode(), str(root), str(home))

        assert close(cli, root, run) == named


def test_a_change_that_another_record_explains_is_that_records(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    run, other = begin(cli), begin(cli, "another")
    agent, neighbour = Agent(root, home, SESSION), Agent(root, home, "another")
    agent.run("Bash", {"command": "ls"})
    time.sleep(0.2)
    neighbour.run("Edit", {"file_path": str(root / "a.py")}, lambda: write(root / "a.py", "1"))
    neighbour.run("Bash", {"command": "x"}, lambda: write(root / "b.py", "1"))
    time.sleep(0.2)
    (root / "c.py").write_text("by hand")
    named = close(cli, root, run)

    assert named == ["c.py"]
    assert close(cli, root, other) == ["c.py"]


@pytest.mark.stress
def test_of_many_played_sessions_every_unseen_path_is_named_and_nothing_else(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    """Of the hooks 10 % are dropped, 5 % doubled, 5 % late; 5 % of the edits are made behind the agent's back."""
    root = repository_with_files
    chance = random.Random(7)
    wrong = []
    for number in range(SESSIONS):
        session = f"session-{number}"
        clean = number % 2 == 0
        run = begin(cli, session)
        agent = Agent(root, home, session, None if clean else chance)
        expected, told = set(), 0
        for step in range(8):
            name = f"file{number}-{step}.py"
            if chance.random() < 0.05:
                later(root / name, "x = 1\n", 60 + step)
                expected.add(name)
            elif agent.run("Write", {"file_path": str(root / name), "content": "x"}, (root / name).touch):
                told += 1
            else:
                later(root / name, "x = 1\n", 60 + step)  # nobody told of it, long after any other call
                expected.add(name)
        found = close(cli, root, run)
        (path,) = (root / layout.RECORDS).glob(f"*{run}.jsonl")
        calls = [
            line["call_id"] for line in map(json.loads, path.read_text().splitlines()) if line["event"] == "tool_call"
        ]
        wrong += (
            [(number, found, expected)] if told and (set(found) != expected or len(calls) != len(set(calls))) else []
        )
        for file in root.glob(f"file{number}-*"):
            file.unlink()

    assert wrong == []


def list_gaps(root: Path, run: str) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob(f"*{run}.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return [line for line in lines if line["event"] == "capture_gap"]


def test_hooks_taken_out_during_a_run_stand_on_its_record_at_once(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    cli("hooks", "install", "--harness", "claude-code")
    run = begin(cli)
    agent = Agent(root, home, SESSION)
    agent.run("Read", {"file_path": "a.py"})
    call = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "1"}
    agent._tell({**call, "hook_event_name": "PreToolUse"})
    cli("hooks", "uninstall", "--harness", "claude-code")
    [gap] = list_gaps(root, run)
    later(root / "b.py", "x = 2\n", 5)
    named = close(cli, root, run)
    verified = [cli("invocations", "verify", of).out for of in ("--all", run)]

    assert (gap["reason"], gap["what"]) == ("hooks_off", "claude-code")
    assert named == ["b.py"]
    assert [gap["reason"] for gap in list_gaps(root, run)] == ["hooks_off", "unseen_change"]
    for said in verified:
        assert "what 1 record's agent did after its hooks were taken out or switched off" in said


@pytest.mark.parametrize("path", [".claude/settings.json", ".claude/settings.local.json"])
def test_hooks_that_a_setting_switches_off_are_named(
    cli: Cli, repository_with_files: Path, home: Path, path: str
) -> None:
    root = repository_with_files
    cli("hooks", "install", "--harness", "claude-code")
    run = begin(cli)
    Agent(root, home, SESSION).run("Read", {"file_path": "a.py"})
    settings = root / path
    value = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps({**value, "disableAllHooks": True}))
    close(cli, root, run)
    status = cli("hooks", "status", "--json").json()["harnesses"]
    states = [place["state"] for row in status if row["harness"] == "claude-code" for place in row["places"]]

    assert [(gap["reason"], gap["what"]) for gap in list_gaps(root, run)] == [
        ("hooks_off", "claude-code"),
        ("unseen_change", path),
    ]
    for words in (("hooks", "install", "--harness", "claude-code"), ("setup", "--yes")):
        assert "Claude Code runs no hooks: disableAllHooks is set in" in cli(*words).err
    assert states == ["disabled", "absent"]
    assert "HOOKS_OFF" in {item["code"] for item in cli("doctor", "--json").json()["findings"]}


@pytest.mark.parametrize("left", [None, "{}", "{broken"])
def test_hooks_that_were_taken_out_by_hand_are_named(
    cli: Cli, repository_with_files: Path, home: Path, left: str | None
) -> None:
    root = repository_with_files
    cli("hooks", "install", "--harness", "claude-code")
    run = begin(cli)
    Agent(root, home, SESSION).run("Read", {"file_path": "a.py"})
    settings = root / ".claude/settings.json"
    settings.unlink()
    if left is not None:
        settings.write_text(left)
    close(cli, root, run)

    assert ("hooks_off", "claude-code") in [(gap["reason"], gap["what"]) for gap in list_gaps(root, run)]
    (off,) = (item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOKS_OFF")
    assert ("repair that file" in off["repair"]) == (left == "{broken")


def test_hooks_of_which_some_were_taken_out_are_named_and_put_back_as_doctor_says(
    cli: Cli, repository_with_files: Path
) -> None:
    settings = repository_with_files / ".claude/settings.json"

    def ask_doctor() -> list[dict[str, str]]:
        found = cli("doctor", "--json").json()["findings"]
        return [item for item in found if item["code"] == "HOOKS_OUTDATED"]

    cli("hooks", "install", "--harness", "claude-code")
    assert ask_doctor() == []
    value = json.loads(settings.read_text())
    del value["hooks"]["PostToolUse"]
    settings.write_text(json.dumps(value))
    (named,) = ask_doctor()
    assert named["path"] == ".claude/settings.json"
    assert cli(*named["repair"].split()[1:]).code == 0
    assert ask_doctor() == []


def test_hooks_in_a_settings_file_that_is_a_link_are_not_said_to_be_off(
    cli: Cli, repository_with_files: Path, home: Path
) -> None:
    root = repository_with_files
    cli("hooks", "install", "--harness", "claude-code")
    run = begin(cli)
    Agent(root, home, SESSION).run("Read", {"file_path": "a.py"})
    settings = root / ".claude/settings.json"
    settings.rename(home / "settings.json")
    settings.symlink_to(home / "settings.json")
    close(cli, root, run)

    assert "hooks_off" not in {gap["reason"] for gap in list_gaps(root, run)}
    assert "HOOKS_OFF" not in {item["code"] for item in cli("doctor", "--json").json()["findings"]}


def test_hooks_of_the_user_are_not_missed_in_the_project(cli: Cli, repository_with_files: Path, home: Path) -> None:
    root = repository_with_files
    cli("hooks", "install", "--harness", "claude-code", "--scope", "user")
    run = begin(cli)
    Agent(root, home, SESSION).run("Read", {"file_path": "a.py"})
    close(cli, root, run)

    assert list_gaps(root, run) == []
    assert "HOOKS_OFF" not in {item["code"] for item in cli("doctor", "--json").json()["findings"]}
