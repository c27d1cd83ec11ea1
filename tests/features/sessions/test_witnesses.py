"""What a transcript that grows, is cut, doubled or edited leaves on a record, turn by turn."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.reading.timeline import make_timeline
from specify_cli.storage.queries import annex_events
from support import Cli, git

SESSION = "5f1d2c3b-0000-4000-8000-000000000001"


class Agent:
    """A session of Claude Code: what its program writes into the transcript, and what it tells its hooks."""

    def __init__(self, root: Path, home: Path, cli: Cli, where: Path | None = None) -> None:
        self.root, self.home, self.cli = root, home, cli
        self.transcript = home / f".claude/projects/-shop/{SESSION}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.transcript.touch()
        self.env = {"CLAUDE_CODE_SESSION_ID": SESSION}
        done = cli("do", "fix the login test", "--json", env=self.env, cwd=where or root)
        self.run = done.json()["invocation_id"]

    def write(self, kind: str, content: Any, **more: Any) -> None:
        line = {"type": kind, "sessionId": SESSION, "cwd": str(self.root), "timestamp": self._now(), **more}
        with self.transcript.open("a") as file:
            message = {"id": f"m{time.time_ns()}", "content": content, "usage": more.get("usage")}
            file.write(json.dumps({**line, "message": message}) + "\n")

    def _now(self) -> str:
        return rfc3339(time.time_ns() // 1_000_000)

    def tell(self, event: str, **more: Any) -> None:
        payload = {"hook_event_name": event, "session_id": SESSION, "cwd": str(self.root), **more}
        payload["transcript_path"] = str(self.transcript)
        run_hook("claude-code", json.dumps(payload).encode(), str(self.root), str(self.home))

    def ask(self, text: str, *, hooks: bool = True) -> None:
        self.write("user", text)
        if hooks:
            self.tell("UserPromptSubmit", prompt=text, prompt_id=text)

    def call(
        self, name: str, command: str, output: str | Callable[[], str], *, hooks: bool = True, error: bool = False
    ) -> None:
        """Play a command; where its output is made by a function, that is called while the command runs."""
        call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": name}
        self.write("assistant", [{"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}])
        if hooks:
            self.tell("PreToolUse", **call)
        output = output if isinstance(output, str) else output()
        self.write("user", [{"type": "tool_result", "tool_use_id": name, "content": output, "is_error": error}])
        if hooks and error:
            self.tell("PostToolUseFailure", **call, error=output)
        elif hooks:
            self.tell("PostToolUse", **call, tool_response={"stdout": output})

    def stop(self, text: str = "Done.") -> None:
        self.write("assistant", [{"type": "text", "text": text}], usage={"input_tokens": 5})
        self.tell("Stop", last_assistant_message=text)

    def read(self) -> list[dict[str, Any]]:
        (path,) = (self.root / layout.RECORDS).glob(f"*{self.run}.jsonl")
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]][4:]

    def read_annexes(self) -> list[dict[str, Any]]:
        paths = sorted((self.root / layout.annex_folder(self.run)).glob("*.jsonl"))
        return [json.loads(path.read_bytes()) for path in paths]

    def list_calls(self) -> list[tuple[str, str | None]]:
        return [(line["call_id"], line.get("witness")) for line in self.read() if line["event"] == "tool_call"]

    def statuses(self) -> dict[str, str]:
        """The status of each call, as far as the record says it."""
        results = [line for line in self.read() if line["event"] == "tool_result" and line["status"] != "unknown"]
        return {line["call_id"]: line["status"] for line in results}

    def texts(self, event: str) -> list[str]:
        return sorted(line["text"]["head"] for line in self.read() if line["event"] == event and "text" in line)

    def verify(self) -> list[str]:
        report = self.cli("invocations", "verify", self.run, "--json").json()
        assert report["verdict"] == "intact"
        return [item["code"] for item in report["findings"]]


@pytest.fixture
def agent(chartered: Path, home: Path, cli: Cli) -> Agent:
    return Agent(chartered, home, cli)


def test_a_turn_whose_hooks_were_dead_is_told_by_the_next_one(agent: Agent) -> None:
    agent.ask("look", hooks=False)
    agent.call("t1", "ls", "src", hooks=False)
    agent.call("t2", "cat nothing", "no such file", hooks=False, error=True)
    agent.write("assistant", [{"type": "text", "text": "I looked."}])
    agent.ask("go on")
    agent.call("t3", "ls", "src")
    agent.stop()

    assert sorted(agent.list_calls()) == [("t1", "transcript"), ("t2", "transcript"), ("t3", None)]
    assert agent.statuses() == {"t3": "ok", "t1": "ok", "t2": "error"}
    assert agent.texts("prompt") == ["go on", "look"]
    assert agent.texts("turn") == ["Done.", "I looked."]
    assert agent.verify() == []


def _fail_at_a_call(agent: Agent) -> None:
    """Have an agent look twice; the hooks of the second call fail."""
    agent.ask("look")
    agent.call("t1", "ls", "src")
    (path,) = (agent.root / layout.RECORDS).glob(f"*{agent.run}.jsonl")
    kept = path.rename(path.with_suffix(".kept"))
    path.mkdir()  # what stands there is no file, so nothing is recorded
    agent.call("t2", "ls", "src")
    path.rmdir()
    kept.rename(path)


def test_the_calls_of_hooks_that_failed_in_a_session_are_counted_once_on_its_record(agent: Agent, cli: Cli) -> None:
    """Doctor counted them for the project, and the record of the session they are missing from said nothing."""
    _fail_at_a_call(agent)
    agent.stop()
    agent.ask("go on")
    agent.call("t3", "ls", "src")
    agent.stop()

    failed = [line for line in agent.read() if line.get("reason") == "hook_failed"]
    assert [(line["what"], line["count"]) for line in failed] == [("2 calls of hooks", 2)]
    assert agent.list_calls() == [("t1", None), ("t2", "transcript"), ("t3", None)]
    assert "not recorded: 2 calls of hooks (hook failed)" in cli("invocations", "show", agent.run).out
    assert agent.verify() == []


def test_hooks_that_failed_around_the_close_of_a_record_are_counted_once_behind_it(agent: Agent, cli: Cli) -> None:
    _fail_at_a_call(agent)
    cli("profile-invocation", "complete", "--invocation-id", agent.run)
    agent.stop()
    for days in (3, 2):
        os.utime(agent.transcript, (time.time() - days * 24 * 3600,) * 2)
        cli("import", "sessions", "--harness", "claude-code")

    failed = [line for line in agent.read_annexes() if line.get("reason") == "hook_failed"]
    assert [(line["what"], line["count"]) for line in failed] == [("2 calls of hooks", 2)]
    assert "not recorded: 2 calls of hooks (hook failed)" in cli("invocations", "show", agent.run).out
    assert agent.verify() == []


def test_a_command_in_the_background_ends_as_its_program_says_and_is_no_prompt(agent: Agent) -> None:
    started = {"stdout": "", "backgroundTaskId": "b1"}
    call = {"tool_name": "Bash", "tool_input": {"command": "make", "run_in_background": True}, "tool_use_id": "t1"}
    part = {"type": "tool_use", "id": "t1", "name": "Bash", "input": call["tool_input"]}
    agent.ask("build it")
    agent.write("assistant", [part])
    agent.tell("PreToolUse", **call)
    agent.write("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "started"}], toolUseResult=started)
    agent.tell("PostToolUse", **call, tool_response=started)
    agent.stop("It runs.")
    told = (
        "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>t1</tool-use-id>\n<status>failed</status>\n"
        '<summary>Background command "make" failed with exit code 7</summary>\n</task-notification>'
    )
    agent.ask(told)
    agent.stop("It failed.")

    assert agent.statuses() == {"t1": "error"}
    assert agent.texts("prompt") == ["build it"]
    assert agent.verify() == []


def test_a_call_that_only_the_transcript_says_was_refused_has_its_denial(agent: Agent) -> None:
    part = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "rm -rf /"}}
    call = {"tool_name": "Bash", "tool_input": part["input"], "tool_use_id": "t1"}
    agent.ask("clean up")
    for hooks in (True, False):
        name = part["id"] = call["tool_use_id"] = "told" if hooks else "untold"
        agent.write("assistant", [part])
        if hooks:
            agent.tell("PreToolUse", **call)
        result = {"type": "tool_result", "tool_use_id": name, "content": "no", "is_error": True}
        agent.write("user", [result], toolDenialKind="user-rejected", toolDenialBeforeRun=True)
    agent.stop()
    agent.ask("go on")
    agent.stop("Fine.")
    denials = [line for line in agent.read() if line["event"] == "approval"]

    assert agent.statuses() == {"told": "denied", "untold": "denied"}
    assert [(line["call_id"], line["decision"], line["witness"]) for line in denials] == [
        ("told", "deny", "transcript"),
        ("untold", "deny", "transcript"),
    ]
    assert agent.verify() == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def double(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def replace(path: Path) -> None:
    """Leave another file in its place, as a program that rotates it does."""
    text = path.read_text()
    path.unlink()
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


def spoil(path: Path) -> None:
    path.write_bytes(b"\x00{" + path.read_bytes().replace(b"tool_use", b"tool\xff", 1) + b'{"type":"user"')


@pytest.mark.parametrize("change", [cut, double, replace, remove, spoil])
def test_a_transcript_that_was_cut_doubled_or_spoilt_doubles_nothing_and_contradicts_nothing(
    agent: Agent, change: Callable[[Path], None]
) -> None:
    agent.ask("look")
    agent.call("t1", "ls", "src")
    agent.call("t2", "ls", "src", hooks=False)
    agent.stop()
    change(agent.transcript)
    agent.ask("again")
    agent.call("t3", "ls", "src")
    agent.stop("Again.")

    assert sorted(agent.list_calls()) == [("t1", None), ("t2", "transcript"), ("t3", None)]
    assert agent.texts("turn") == ["Again.", "Done."]
    assert agent.verify() == []


def test_a_transcript_edited_by_hand_is_named_with_both_sides(agent: Agent) -> None:
    agent.ask("look")
    agent.call("t1", "make test", "1 failed", error=True)
    text = agent.transcript.read_text().replace('"is_error": true', '"is_error": false')
    agent.transcript.write_text(text)
    agent.stop()

    (gap,) = [line for line in agent.read() if line["event"] == "capture_gap"]
    assert (gap["reason"], gap["what"]) == ("contradiction", "tool_result t1")
    assert gap["message"] == "the record says error, the transcript ok"
    assert agent.statuses() == {"t1": "error"}
    assert agent.verify() == ["CONTRADICTION_TOLD"]
    agent.stop("Again.")
    assert len([line for line in agent.read() if line["event"] == "capture_gap"]) == 1


def test_verify_names_what_a_transcript_contradicts_of_a_record_that_is_closed(agent: Agent, cli: Cli) -> None:
    agent.ask("look")
    agent.call("t1", "make", "it broke", error=True)
    cli("profile-invocation", "complete", "--invocation-id", agent.run)
    text = agent.transcript.read_text().replace('"is_error": true', '"is_error": false')
    agent.transcript.write_text(text)
    agent.stop()

    assert agent.verify() == ["CONTRADICTION_TOLD"]


def test_the_sweep_reads_the_transcript_before_it_closes_a_record(agent: Agent, cli: Cli) -> None:
    agent.ask("look", hooks=False)
    agent.call("t1", "ls", "src", hooks=False)
    agent.write("assistant", [{"type": "text", "text": "I looked."}])
    (record,) = (agent.root / layout.RECORDS).glob(f"*{agent.run}.jsonl")
    for path in (record, agent.transcript):
        os.utime(path, (time.time() - 3 * 24 * 3600,) * 2)
    cli("doctor", "--sweep")

    assert agent.list_calls() == [("t1", "transcript")]
    first = agent.read()
    os.utime(agent.transcript, (time.time() - 3 * 24 * 3600,) * 2)
    cli("doctor", "--sweep")
    assert agent.read() == first


def test_doctor_names_an_open_session_whose_hooks_died_until_its_import(agent: Agent, cli: Cli) -> None:
    def find() -> list[str]:
        findings = cli("doctor", "--json").json()["findings"]
        return [item["repair"] for item in findings if item["code"] == "SESSION_NOT_RECORDED"]

    agent.ask("look")
    agent.call("t1", "ls", "src")
    agent.stop()
    (record,) = (agent.root / layout.RECORDS).glob(f"*{agent.run}.jsonl")
    os.utime(agent.transcript, (time.time() - 400,) * 2)
    whole = find()
    os.utime(record, (time.time() - 900,) * 2)
    agent.call("t2", "ls", "src", hooks=False)
    os.utime(agent.transcript, (time.time() - 400,) * 2)
    found = find()
    cli("import", "sessions", "--harness", "claude-code")

    assert found == ["spec-kitty import sessions --harness claude-code"]
    assert agent.list_calls() == [("t1", None), ("t2", "transcript")]
    assert whole == find() == []


@pytest.mark.parametrize("heard", [0, 1])
def test_a_close_of_which_no_hook_reports_reads_the_transcript_first(agent: Agent, cli: Cli, heard: int) -> None:
    """Of hooks that are dead, or died: what they did not tell is on the record. Of those that never ran it warns."""
    cli("hooks", "install", "--harness", "claude-code")
    agent.run = cli("do", "fix the login test", "--json", env=agent.env).json()["invocation_id"]
    agent.ask("look", hooks=bool(heard))
    agent.call("t0", "ls src", "login.py", hooks=bool(heard))
    agent.call("t1", "cat nothing", "no such file", hooks=False, error=True)
    close = {"command": f"spec-kitty profile-invocation complete --invocation-id {agent.run}"}
    agent.write("assistant", [{"type": "tool_use", "id": "t2", "name": "Bash", "input": close}])
    done = cli("profile-invocation", "complete", "--invocation-id", agent.run, "--json", env=agent.env).json()

    assert agent.list_calls() == [("t0", None if heard else "transcript"), ("t1", "transcript")]
    assert agent.statuses() == {"t0": "ok", "t1": "error"} and agent.texts("prompt") == ["look"]
    assert [warning.partition(":")[0] for warning in done["warnings"]] == ([] if heard else ["NO_HOOK_EVENTS"])
    assert "NO_HOOK_EVENTS" not in cli("doctor", "--json").out
    assert agent.verify() == []


def test_doctor_names_the_import_of_what_dead_hooks_did_not_tell_until_it_is_done(agent: Agent, cli: Cli) -> None:
    cli("hooks", "install", "--harness", "claude-code")
    agent.run = cli("do", "fix the login test", "--json", env=agent.env).json()["invocation_id"]
    agent.ask("look", hooks=False)
    agent.call("t1", "ls src", "login.py", hooks=False)
    away = agent.transcript.rename(agent.home / "away")
    cli("profile-invocation", "complete", "--invocation-id", agent.run, env=agent.env)
    away.rename(agent.transcript)

    def read_repairs() -> list[str]:
        findings = cli("doctor", "--json").json()["findings"]
        return [item["repair"] for item in findings if item["code"] == "NO_HOOK_EVENTS"]

    before = read_repairs()
    os.utime(agent.transcript, (time.time() - 900,) * 2)
    cli("import", "sessions", "--harness", "claude-code")

    assert ["spec-kitty import sessions --harness claude-code" in repair for repair in before] == [True]
    assert [line["call_id"] for line in agent.read_annexes() if line["event"] == "tool_call"] == ["t1"]
    assert read_repairs() == []
    assert agent.verify() == []


def test_verify_says_which_calls_one_witness_alone_tells(agent: Agent, cli: Cli) -> None:
    def read_doubts() -> list[str]:
        report = cli("invocations", "verify", agent.run, "--json").json()
        return [what for what in report["not_proven"] if "one witness" in what]

    agent.ask("look")
    agent.call("t1", "ls", "src")
    alone = read_doubts()
    agent.stop()

    assert len(alone) == 1 and alone[0].startswith("that 1 call happened as one witness alone tells")
    assert read_doubts() == []


def test_verify_counts_what_a_transcript_confirms_of_a_record_that_is_closed(agent: Agent, cli: Cli) -> None:
    agent.ask("look")
    agent.call("t1", "ls", "src")
    agent.call("t2", "ls src", "")
    cli("profile-invocation", "complete", "--invocation-id", agent.run)
    agent.call("t3", "ls docs", "", hooks=False)
    agent.stop()
    shown = cli("invocations", "show", agent.run, "--json").json()["witnesses"]
    doubts = cli("invocations", "verify", agent.run, "--json").json()["not_proven"]

    assert (shown["hooks"], shown["transcript"], shown["both"]) == (2, 3, 2)
    assert [what.split()[1] for what in doubts if "one witness" in what] == ["1"]


def test_a_record_in_a_worktree_that_the_agent_made_is_told_by_the_sessions_transcript(
    chartered: Path, home: Path, cli: Cli
) -> None:
    cli("init", cwd=chartered)
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "first")
    other = chartered.parent / "other"
    git(chartered, "worktree", "add", "-q", str(other), "-b", "other")
    agent = Agent(chartered, home, cli, where=other)
    agent.root = other
    agent.ask("work there", hooks=False)
    agent.call("t1", "ls", "src", hooks=False)
    agent.root = chartered
    agent.stop("Done there.")
    agent.root = other

    assert agent.list_calls() == [("t1", "transcript")]
    assert agent.texts("prompt") == ["work there"]

    agent.transcript.write_text(agent.transcript.read_text().replace(str(other), str(chartered)))
    os.utime(agent.transcript, (time.time() - 3600,) * 2)
    missed = {item["code"] for item in cli("doctor", "--json", cwd=chartered).json()["findings"]}
    answer = cli("import", "sessions", "--harness", "claude-code", "--json", cwd=chartered).json()

    assert "SESSION_NOT_RECORDED" not in missed
    assert (answer["imported"], answer["harnesses"][0]["live"]) == ([], 1), "the other worktree has it"


def test_what_a_turn_used_is_counted_whole_though_it_was_read_in_the_middle(agent: Agent) -> None:
    """A record that is closed in the middle of a turn has the transcript read there."""
    used = {"input_tokens": 100, "output_tokens": 10}
    for number in range(3):
        agent.ask(f"turn {number}")
        agent.write("assistant", [{"type": "text", "text": "one moment"}], usage=used)
        agent.call(f"t{number}", "ls", "src")
        closing = {"command": "spec-kitty profile-invocation complete --invocation-id 01M88"}
        agent.tell("PreToolUse", tool_name="Bash", tool_input=closing, tool_use_id=f"c{number}")
        agent.write("assistant", [{"type": "text", "text": f"Done {number}."}], usage=used)
        agent.tell("Stop", last_assistant_message=f"Done {number}.")

    turns = [line for line in agent.read() if line["event"] == "turn"]
    assert [line["text"]["head"] for line in turns] == ["Done 0.", "Done 1.", "Done 2."]
    assert [line.get("tokens") for line in turns] == [{"input": 200, "output": 20}] * 3


def test_what_an_interrupted_turn_used_is_counted_once_though_it_ended_without_words(agent: Agent) -> None:
    used = {"input_tokens": 100, "output_tokens": 10}
    agent.ask("look")
    agent.stop("I looked.")
    agent.ask("build it")
    agent.write(
        "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}], usage=used
    )
    agent.tell("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="t1")
    agent.write("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    for text in ("go on", "and on"):
        agent.ask(text)
        agent.stop(text)
    agent.tell("SessionEnd", reason="other")

    turns = [(line.get("text", {}).get("head"), line.get("tokens")) for line in agent.read() if line["event"] == "turn"]
    assert turns == [
        ("I looked.", {"input": 5}),
        (None, {"input": 100, "output": 10}),
        ("go on", {"input": 5}),
        ("and on", {"input": 5}),
    ]
    assert agent.verify() == []


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_a_turn_used_is_counted_once_though_its_transcript_was_cut_behind_a_line_of_it(
    agent: Agent, cli: Cli, is_closed: bool
) -> None:
    """What is left looks as a turn that ended without words, and used less."""
    agent.ask("look")
    part = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    agent.write("assistant", [part], usage={"input_tokens": 100})
    left = agent.transcript.read_bytes()
    agent.stop()
    if is_closed:
        cli("profile-invocation", "complete", "--invocation-id", agent.run)
    agent.transcript.write_bytes(left)
    for days in (3, 2):
        os.utime(agent.transcript, (time.time() - days * 24 * 3600,) * 2)
        cli("import", "sessions", "--harness", "claude-code")

    lines = [*agent.read(), *agent.read_annexes()]
    assert [line["tokens"] for line in lines if line["event"] == "turn"] == [{"input": 105}]
    assert agent.verify() == []


def test_the_tokens_of_a_turn_are_not_given_to_the_one_a_moment_before(agent: Agent) -> None:
    agent.ask("look")
    agent.transcript.write_bytes(b"")
    agent.tell("Stop", last_assistant_message="I looked.", prompt_id="look")
    agent.ask("go on")
    agent.stop()
    agent.tell("SessionEnd", reason="other")

    turns = [(line.get("text", {}).get("head"), line.get("tokens")) for line in agent.read() if line["event"] == "turn"]
    assert turns == [("I looked.", None), ("Done.", {"input": 5})]


def test_a_prompt_that_its_hook_tells_behind_the_end_of_its_session_begins_no_record(
    chartered: Path, home: Path, cli: Cli
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    agent = Agent(chartered, home, cli)
    cli("profile-invocation", "complete", "--invocation-id", agent.run)
    agent.ask("look", hooks=False)
    agent.call("t1", "ls", "src")
    agent.stop()
    agent.tell("SessionEnd", reason="other")
    before = [*(chartered / layout.RECORDS).glob("*.jsonl")]
    agent.tell("UserPromptSubmit", prompt="look", prompt_id="look")

    assert [*(chartered / layout.RECORDS).glob("*.jsonl")] == before


def test_a_prompt_that_its_hook_tells_behind_the_transcript_is_told_once(agent: Agent) -> None:
    agent.ask("look", hooks=False)
    agent.call("t1", "ls", "src")
    agent.stop()
    agent.tell("UserPromptSubmit", prompt="look", prompt_id="p1")
    once = agent.texts("prompt")
    agent.ask("look", hooks=False)
    agent.tell("UserPromptSubmit", prompt="look", prompt_id="p2")
    agent.stop("Done again.")

    assert (once, agent.texts("prompt")) == (["look"], ["look", "look"])


def test_an_answer_in_a_doubled_transcript_is_left_to_its_hook(agent: Agent) -> None:
    agent.ask("look")
    agent.write("assistant", [{"type": "text", "text": "I looked."}], usage={"input_tokens": 5})
    double(agent.transcript)
    agent.tell("Stop", last_assistant_message="I looked.", prompt_id="look")

    assert [line["tokens"] for line in agent.read() if line["event"] == "turn"] == [{"input": 5}]


def test_a_result_that_its_hook_tells_behind_the_transcript_is_told_once(agent: Agent) -> None:
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    agent.ask("look")
    agent.write("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": call["tool_input"]}])
    agent.tell("PreToolUse", **call)
    agent.write("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "src"}])
    agent.ask("go on")
    agent.stop()
    agent.tell("PostToolUse", **call, tool_response={"stdout": "src"})

    results = [(line["status"], line.get("witness")) for line in agent.read() if line["event"] == "tool_result"]
    assert results == [("unknown", None), ("ok", "transcript")]
    assert agent.verify() == []


@pytest.mark.parametrize("is_told_before", [False, True])
def test_a_turn_whose_transcript_lost_all_its_times_is_told_once_and_claims_none(
    agent: Agent, cli: Cli, is_told_before: bool
) -> None:
    def spoil() -> None:
        text = re.sub(r'"timestamp": "[^"]*"', '"timestamp": "x"', agent.transcript.read_text())
        agent.transcript.write_text(text)

    for number, used in enumerate((5, 70)):
        agent.ask(f"turn {number}")
        agent.call(f"t{number}", "ls", "src")
        agent.write("assistant", [{"type": "text", "text": f"Done {number}."}], usage={"input_tokens": used})
        if number == is_told_before:
            spoil()
    whole = agent.transcript.read_text()
    agent.transcript.write_text("")
    agent.tell("Stop", last_assistant_message="Done 1.", prompt_id="turn 1")
    agent.transcript.write_text(whole)
    agent.tell("SessionEnd", reason="other")
    spoil()
    for days in (1, 2):
        os.utime(agent.transcript, (time.time() - days * 900,) * 2)
        cli("import", "sessions", "--harness", "claude-code")

    turns = [line for line in [*agent.read(), *agent.read_annexes()] if line["event"] == "turn"]
    assert sorted(line["text"]["head"] for line in turns if "text" in line) == ["Done 0.", "Done 1."]
    assert sorted(line["tokens"]["input"] for line in turns if "tokens" in line) == [5, 70]
    assert not [line for line in agent.read() if str(line.get("claimed_at")) < "2026"]


@pytest.mark.parametrize("opens", [False, True])
def test_what_its_hook_tells_behind_the_transcript_of_a_closed_record_is_told_once(
    agent: Agent, cli: Cli, opens: bool
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open" if opens else "--no-open")
    agent.ask("look")
    cli("profile-invocation", "complete", "--invocation-id", agent.run, "--outcome", "done")
    agent.call("t1", "ls", "src", hooks=False)
    os.utime(agent.transcript, (time.time() - 900,) * 2)
    cli("import", "sessions", "--harness", "claude-code")
    before = [*(agent.root / layout.RECORDS).glob("*.jsonl")]
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    agent.tell("PreToolUse", **call)
    agent.tell("PostToolUse", **call, tool_response={"stdout": "src"})

    told = [line["event"] for line in agent.read_annexes() if line.get("call_id") == "t1"]
    assert told == ["tool_call", "tool_result"]
    assert [*(agent.root / layout.RECORDS).glob("*.jsonl")] == before
    assert not (agent.root / layout.ORPHANS).exists()


@pytest.mark.parametrize("opens", [False, True])
def test_what_hooks_tell_behind_the_import_of_their_session_is_told_once(agent: Agent, cli: Cli, opens: bool) -> None:
    cli("profile-invocation", "complete", "--invocation-id", agent.run, "--outcome", "done")
    (agent.root / layout.LOCAL / "bindings").rename(agent.root / "gone")
    (path,) = (agent.root / layout.RECORDS).glob("*.jsonl")
    path.unlink()
    cli("hooks", "install", "--harness", "claude-code", "--open" if opens else "--no-open")
    agent.ask("look", hooks=False)
    agent.call("t1", "ls", "src", hooks=False)
    agent.write("assistant", [{"type": "text", "text": "Done."}], usage={"input_tokens": 5})
    os.utime(agent.transcript, (time.time() - 900,) * 2)
    assert cli("import", "sessions", "--harness", "claude-code", "--json").json()["imported"]
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    agent.tell("UserPromptSubmit", prompt="look", prompt_id="look")
    agent.tell("PreToolUse", **call)
    agent.tell("PostToolUse", **call, tool_response={"stdout": "src"})
    agent.tell("Stop", last_assistant_message="Done.", prompt_id="look")
    agent.tell("SessionEnd", reason="other")

    assert [*(agent.root / layout.RECORDS).glob("*.jsonl")] == []
    assert not (agent.root / layout.ORPHANS).exists()


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_end_of_a_turn_that_is_told_late_and_again_is_one_turn(agent: Agent, cli: Cli, is_closed: bool) -> None:
    for number, used in enumerate((5, 70)):
        agent.ask(f"turn {number}")
        agent.call(f"t{number}", "ls", "src")
        words = [{"type": "text", "text": f"Done {number}."}]
        agent.write("assistant", words, usage={"input_tokens": used})
    agent.tell("Stop", last_assistant_message="Done 1.", prompt_id="turn 1")
    if is_closed:
        cli("profile-invocation", "complete", "--invocation-id", agent.run, "--outcome", "done")
    else:
        agent.ask("turn 2")
        agent.call("t2", "ls", "src")
    for number in (0, 1, 0):
        agent.tell("Stop", last_assistant_message=f"Done {number}.", prompt_id=f"turn {number}")

    turns = [line for line in [*agent.read(), *agent.read_annexes()] if line["event"] == "turn"]
    found = sorted((line["text"]["head"], line["tokens"]["input"]) for line in turns)
    assert found == [("Done 0.", 5), ("Done 1.", 70)]


def test_a_call_under_way_at_the_end_of_a_turn_is_left_to_its_hook(chartered: Path, home: Path, cli: Cli) -> None:
    """A subagent in the background goes on, and its program's hooks may name the call otherwise."""
    agent = Agent(chartered, home, cli)
    agent.ask("fix it")
    agent.write("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}])
    agent.stop()
    before = agent.list_calls()
    agent.tell("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="t1")

    assert (before, agent.list_calls()) == ([], [("t1", None)])


class GeminiAgent(Agent):
    """A session of Gemini CLI, whose hooks name no call."""

    def __init__(self, root: Path, home: Path, cli: Cli) -> None:
        self.root, self.home, self.cli = root, home, cli
        self.main = self.transcript = home / ".gemini/tmp/project/chats/session-1.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.transcript.write_text(json.dumps({"sessionId": SESSION, "kind": "main"}) + "\n")
        (home / ".gemini/tmp/project/.project_root").write_text(str(root))
        self.env = {"GEMINI_CLI": "1"}
        self.run = cli("do", "fix the login test", "--json", env=self.env).json()["invocation_id"]

    def write(self, kind: str, content: Any, **more: Any) -> None:
        line = {"id": f"m{time.time_ns()}", "timestamp": self._now(), "type": kind, "content": content, **more}
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def tell(self, event: str, **more: Any) -> None:
        payload = {"hook_event_name": event, "session_id": SESSION, "cwd": str(self.root), "timestamp": self._now()}
        payload |= {"transcript_path": str(self.main), **more}
        run_hook("gemini", json.dumps(payload).encode(), str(self.root), str(self.home))

    def ask(self, text: str, *, hooks: bool = True) -> None:
        self.write("user", [{"text": text}])
        if hooks:
            self.tell("BeforeAgent", prompt=text)

    def call(
        self, name: str, command: str, output: str | Callable[[], str], *, hooks: bool = True, error: bool = False
    ) -> None:
        call = {"tool_name": "run_shell_command", "tool_input": {"command": command}}
        at = self._now()
        if hooks:
            self.tell("BeforeTool", **call)
        output = output if isinstance(output, str) else output()
        text = f"Output: {output}\n" + ("Exit Code: 1\n" if error else "") + "Process Group PGID: 1"
        if hooks:
            self.tell("AfterTool", **call, tool_response={"llmContent": text, "returnDisplay": output})
        response: Any = {"functionResponse": {"id": name, "response": {"output": text}}}
        kept: dict[str, Any] = {
            "id": name,
            "name": "run_shell_command",
            "args": call["tool_input"],
            "status": "success",
        }
        kept |= {"result": [response], "timestamp": self._now()}
        self.write("gemini", "", toolCalls=[kept], timestamp=at)

    def stop(self, text: str = "Done.") -> None:
        self.write("gemini", text, tokens={"input": 5})
        self.tell("AfterAgent", prompt_response=text)


@pytest.fixture
def gemini(chartered: Path, home: Path, cli: Cli) -> GeminiAgent:
    return GeminiAgent(chartered, home, cli)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_call_of_a_subagent_that_no_hook_names_is_told_as_its_own(
    gemini: GeminiAgent, cli: Cli, is_closed: bool
) -> None:
    """Its hooks tell of no subagents, and name equal calls alike; each subagent has a transcript."""
    cli("hooks", "install", "--harness", "gemini", "--open")
    gemini.ask("fix it")
    gemini.run = max(path.stem[-26:] for path in (gemini.root / layout.RECORDS).glob("*.jsonl"))
    gemini.call("t1", "cat a.py", "a")
    gemini.transcript = gemini.main.parent / SESSION / "sub1.jsonl"
    gemini.transcript.parent.mkdir()
    gemini.transcript.write_text(json.dumps({"sessionId": "sub1", "kind": "subagent"}) + "\n")
    for name in ("s1", "s2"):
        gemini.call(name, "ls", "src")
    gemini.call("s3", "make", "gone", error=True)
    gemini.transcript = gemini.main
    gemini.call("t2", "make all", "done")
    if is_closed:
        cli("profile-invocation", "complete", "--invocation-id", gemini.run)
    gemini.stop()
    for days in (3, 2):
        os.utime(gemini.main, (time.time() - days * 24 * 3600,) * 2)
        cli("import", "sessions", "--harness", "gemini")
    lines = [*gemini.read(), *gemini.read_annexes()]
    calls = [entry for entry in make_timeline(lines) if entry.kind == "tool_call"]

    assert [(entry.agent, entry.fields.get("witness"), entry.status) for entry in calls] == [
        (None, None, "ok"),
        ("sub1", None, "ok"),
        ("sub1", None, "ok"),
        ("sub1", None, "error"),
        (None, None, "ok"),
    ]
    assert len([line for line in lines if "agents" in line]) == 1
    assert "which agent made a call" not in cli("invocations", "show", gemini.run).out
    assert gemini.verify() == []


def test_a_call_of_a_subagent_that_its_hook_tells_behind_the_end_of_its_record_is_told_as_its_own(
    gemini: GeminiAgent, cli: Cli
) -> None:
    cli("hooks", "install", "--harness", "gemini", "--open")
    gemini.ask("fix it")
    gemini.run = max(path.stem[-26:] for path in (gemini.root / layout.RECORDS).glob("*.jsonl"))
    gemini.tell("SessionEnd", reason="exit")
    gemini.transcript = gemini.main.parent / SESSION / "sub1.jsonl"
    gemini.transcript.parent.mkdir()
    gemini.transcript.write_text(json.dumps({"sessionId": "sub1", "kind": "subagent"}) + "\n")
    gemini.call("s1", "ls", "src")
    for days in (3, 2):
        os.utime(gemini.main, (time.time() - days * 24 * 3600,) * 2)
        os.utime(gemini.transcript, (time.time() - days * 24 * 3600,) * 2)
        cli("import", "sessions", "--harness", "gemini")
    annexes = gemini.read_annexes()
    lines = [*gemini.read(), *annex_events(str(gemini.root), gemini.run)]
    calls = [entry for entry in make_timeline(lines) if entry.kind == "tool_call"]

    assert [(entry.agent, entry.fields.get("witness")) for entry in calls] == [("sub1", None)]
    assert len([line for line in annexes if "agents" in line]) == 1
    assert gemini.verify() == []


def test_equal_calls_without_a_name_are_not_taken_for_those_of_earlier_turns(gemini: GeminiAgent) -> None:
    gemini.ask("fix it")
    gemini.call("do", "spec-kitty do 'fix the login test' --json", json.dumps({"invocation_id": gemini.run}))
    gemini.stop("It begins.")
    for number in range(6):
        gemini.ask(f"turn {number}")
        gemini.call(f"t{number}", "make test", "it ran", error=number < 3, hooks=number < 5)
        gemini.stop(f"Done {number}.")

    assert len([line for line in gemini.read() if line["event"] == "tool_call"]) == 7
    assert gemini.verify() == []


def test_a_call_without_a_name_that_began_a_record_is_told_once(gemini: GeminiAgent, cli: Cli) -> None:
    """By the transcript it came before that record, when the one of its `do` was open."""
    cli("hooks", "install", "--harness", "gemini", "--open")
    gemini.write("user", [{"text": "fix it"}])
    answer = json.dumps({"invocation_id": gemini.run})
    gemini.call("do", "spec-kitty do 'fix the login test' --json", answer, hooks=False)
    gemini.call("t1", "make test", "it ran")
    gemini.stop()
    records = (gemini.root / layout.RECORDS).glob("*.jsonl")
    lines = [json.loads(raw) for path in records for raw in path.read_bytes().split(b"\n")[:-1]]

    assert sorted(line["call_id"].partition(":")[0] for line in lines if line["event"] == "tool_call") == [
        "do",
        "run_shell_command",
    ]


@pytest.mark.parametrize("is_told", [True, False])
def test_what_the_last_turn_of_a_session_used_is_counted_once_though_it_ended_without_words(
    gemini: GeminiAgent, cli: Cli, is_told: bool
) -> None:
    gemini.ask("look")
    gemini.call("do", "spec-kitty do 'fix the login test' --json", json.dumps({"invocation_id": gemini.run}))
    gemini.stop("I looked.")
    gemini.ask("build it")
    gemini.write("gemini", "", tokens={"input": 70})
    if is_told:
        gemini.tell("SessionEnd", reason="exit")
    for days in (2, 3):
        os.utime(gemini.transcript, (time.time() - days * 24 * 3600,) * 2)
        cli("import", "sessions", "--harness", "gemini")

    def list_used() -> list[dict[str, int]]:
        return [line["tokens"] for line in gemini.read() if line["event"] == "turn"]

    at_the_end = list_used()
    gemini.ask("go on")
    gemini.stop("Done.")

    assert at_the_end == [{"input": 5}, {"input": 70}]
    assert list_used() == [{"input": 5}, {"input": 70}, {"input": 5}]


def test_the_call_that_closed_a_record_is_no_call_of_the_next_one_when_hooks_tell_it_late(
    chartered: Path, home: Path, cli: Cli
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    agent = Agent(chartered, home, cli)
    command = f"spec-kitty profile-invocation complete --invocation-id {agent.run}"
    agent.ask("look")
    agent.call("t1", command, lambda: cli("profile-invocation", "complete", agent.run).out, hooks=False)
    agent.stop()
    agent.ask("go on")
    agent.call("t2", "ls", "src")
    call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t1"}
    agent.tell("PreToolUse", **call)
    agent.tell("PostToolUse", **call, tool_response={"stdout": "closed"})
    agent.stop("Fine.")
    paths = sorted((chartered / layout.RECORDS).glob("*.jsonl"))
    calls = [line for path in paths for line in map(json.loads, path.read_text().splitlines()) if "call_id" in line]

    assert [line["call_id"] for line in calls if line["event"].startswith("tool_")] == ["t2", "t2"]
    assert sorted(line["event"] for line in agent.read_annexes() if "call_id" in line) == ["tool_call", "tool_result"]


@pytest.mark.parametrize("program", ["claude-code", "gemini"])
def test_a_transcript_confirms_the_call_that_began_a_record_in_both_records_that_hold_it(
    chartered: Path, home: Path, cli: Cli, program: str
) -> None:
    """The record that the prompt began holds the call of the `do`, and so does the record that the `do` began."""
    cli("hooks", "install", "--harness", program, "--open")
    agent = GeminiAgent(chartered, home, cli) if program == "gemini" else Agent(chartered, home, cli)
    cli("profile-invocation", "complete", "--invocation-id", agent.run)
    agent.ask("fix it")

    def begin() -> str:
        return cli("do", "fix the login test", "--json", env=agent.env).out

    agent.call("do", "spec-kitty do 'fix the login test' --json", begin)
    agent.call("t1", "ls", "src")
    agent.stop()
    records = {path.stem[-26:]: path.read_text() for path in (chartered / layout.RECORDS).glob("*.jsonl")}
    holders = [name for name, text in records.items() if "login test' --json" in text]
    told = [cli("invocations", "show", name, "--json").json()["witnesses"] for name in holders]

    assert sorted((one["hooks"], one["transcript"], one["both"]) for one in told) == [(1, 1, 1), (2, 2, 2)]
