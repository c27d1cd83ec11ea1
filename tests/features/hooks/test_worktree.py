"""What a call changes in the work tree is its own, though no payload holds it; what is not sure nobody claims."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hooking import run_hook
from specify_cli import durable
from specify_cli.features.hooks.worktree.judge import OWN, judge_change
from specify_cli.features.hooks.worktree.listing import find_entry, read_index
from specify_cli.invocation.ends.activity import Activity, Call, Span
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.reading.patch_lines import digest_line, read_lines_member
from support import CHARTER, Cli, git

SESSION = "5f1d2c3b-0000-4000-8000-000000000001"


class Agent:
    """An agent of Claude Code in its session; what its tools do is really done between their hooks."""

    def __init__(self, cli: Cli, root: Path, home: Path, session: str = SESSION) -> None:
        self.cli, self.root, self.home, self.session = cli, root, home, session
        self.env = {"CLAUDE_CODE_SESSION_ID": session}
        self.run = str(cli("do", "implement WP03", "--json", cwd=root, env=self.env).json()["invocation_id"])
        self.calls = 0

    def tell(self, event: str, **payload: Any) -> None:
        body = {"hook_event_name": event, "session_id": self.session, "cwd": str(self.root), **payload}
        run_hook("claude-code", json.dumps(body).encode(), str(self.root), str(self.home))

    def begin(self, tool: str, args: dict[str, Any], **more: str) -> dict[str, Any]:
        self.calls += 1
        call = {"tool_name": tool, "tool_input": args, "tool_use_id": f"call-{self.session[-1]}-{self.calls}"}
        self.tell("PreToolUse", **call, **more)
        tick()
        return call

    def end(self, call: dict[str, Any], response: Any = "ok", **more: str) -> None:
        tick()
        self.tell("PostToolUse", **call, tool_response=response, **more)
        tick()

    def shell(self, command: str, act: Callable[[], object] | None = None) -> None:
        call = self.begin("Bash", {"command": command})
        if act is None:
            subprocess.run(["sh", "-c", command], cwd=self.root, check=True, env={**os.environ, **AUTHOR})
        else:
            act()
        self.end(call)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        before = path.read_text() if path.exists() else None
        call = self.begin("Write", {"file_path": str(path), "content": text})
        path.write_text(text)
        self.end(call, {"type": "create" if before is None else "update", "originalFile": before})

    def stop(self) -> None:
        self.tell("Stop", last_assistant_message="done", turn_id=f"{self.calls}")

    def lines(self) -> list[dict[str, Any]]:
        (path,) = (self.root / layout.RECORDS).glob(f"*{self.run}.jsonl")
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def seen(self) -> list[tuple[str, str]]:
        """The changes whose witness is the tree: kind and path."""
        return [
            (line["kind"], line["path"])
            for line in self.lines()
            if line["event"] == "patch_apply" and line.get("witness") == "tree"
        ]

    def unseen(self) -> list[str]:
        return [line["what"] for line in self.lines() if line.get("reason") == "unseen_change"]

    def came(self, path: str) -> set[str]:
        """The digests of the lines that came with the newest change of a path."""
        found = [line for line in self.lines() if line["event"] == "patch_apply" and line["path"] == path]
        hunks = read_lines_member(found[-1].get("lines")) if found else []
        return {line.digest for hunk in hunks for line in hunk if line.mark == "+"}


AUTHOR = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def tick() -> None:
    """Wait until a file system's clock has gone on."""
    time.sleep(0.012)


def aside() -> None:
    """Wait until nothing is beside the last call any more."""
    time.sleep(0.15)


@pytest.fixture(scope="module")
def begun(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a charter, some files and a commit, to copy from."""
    root = Path(shutil.copytree(repository, tmp_path_factory.mktemp("begun") / "project"))
    for name in ("a.py", "b.py", "sub/c.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("".join(f"{name} line {number}\n" for number in range(6)))
    (root / ".kittify/charter").mkdir(parents=True)
    (root / ".kittify/charter/charter.md").write_text(CHARTER, encoding="utf-8")
    (root / ".gitignore").write_text("*.pyc\nbuild/\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


@pytest.fixture
def agent(cli: Cli, begun: Path, project: Path, home: Path) -> Agent:
    shutil.rmtree(project)
    shutil.copytree(begun, project)
    agent = Agent(cli, project, home)
    agent.shell("true")
    return agent


@pytest.mark.parametrize("at_end", [False, True])
def test_a_file_that_a_person_removes_behind_an_edit_is_unseen(agent: Agent, at_end: bool) -> None:
    """An edit tells which files it removes: what else is gone since the last look was not removed by it."""
    agent.write("a.py", "first\n")
    agent.write("sub/new.py", "second\n")
    aside()
    (agent.root / "b.py").unlink()
    aside()
    agent.write("a.py", "third\n") if at_end else agent.shell("true")
    agent.stop()

    assert (agent.unseen(), agent.seen()) == (["b.py"], [])


def test_what_changes_in_a_call_of_which_only_the_end_is_told_is_not_unseen(agent: Agent) -> None:
    """The hook of its begin was killed, or its program tells none: it may have changed the file."""
    aside()
    (agent.root / "a.py").write_text("changed\n")
    agent.end({"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "lost"})
    told = agent.unseen()
    aside()
    (agent.root / "b.py").write_text("by hand\n")
    aside()
    agent.shell("true")

    assert (told, agent.seen(), agent.unseen()) == ([], [], ["b.py"])


def test_what_changes_behind_an_end_that_the_transcript_alone_tells_is_not_the_calls(
    agent: Agent, tmp_path: Path
) -> None:
    transcript = tmp_path / "transcript.jsonl"

    def note(name: object, kind: str) -> None:
        part = {"type": kind, "id" if kind == "tool_use" else "tool_use_id": name}
        line = {"type": "user", "timestamp": rfc3339(time.time_ns() // 1_000_000), "message": {"content": [part]}}
        with transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    call = agent.begin("Bash", {"command": "echo own >> b.py"})
    note(call["tool_use_id"], "tool_use")
    (agent.root / "b.py").write_text("own\n")
    tick()
    note(call["tool_use_id"], "tool_result")
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    tick()
    following = {"tool_name": "Bash", "tool_input": {"command": "true"}, "tool_use_id": "following"}
    agent.tell("PreToolUse", **following, transcript_path=str(transcript))

    assert agent.seen() == [("modify", "b.py")]


@pytest.mark.parametrize(("loaded_by", "name"), [("user", "0b7c:inner:preamble-0"), ("claude", "toolu_1:preamble-0")])
def test_a_command_in_the_text_of_a_skill_is_a_call_until_that_text_is_complete(
    agent: Agent, tmp_path: Path, loaded_by: str, name: str
) -> None:
    transcript = tmp_path / "transcript.jsonl"
    command = {"tool_name": "Bash", "tool_input": {"command": "sh make.sh"}, "tool_use_id": name}
    agent.tell("UserPromptSubmit", prompt="/survey", prompt_id="p1")
    agent.tell("PreSkillShellCommand", **command, command_name="survey", invoked_by=loaded_by, prompt_id="p1")
    tick()
    (agent.root / "made.txt").write_text("by the skill\n")
    tick()
    text = {"type": "text", "text": "Base directory for this skill: skills/survey\n\nmade"}
    stamp = rfc3339(time.time_ns() // 1_000_000)
    line = {"type": "user", "isMeta": True, "timestamp": stamp, "promptId": "p1", "message": {"content": [text]}}
    transcript.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    tick()
    path = str(transcript)
    agent.tell("PreToolUse", tool_name="Bash", tool_input={"command": "true"}, tool_use_id="t1", transcript_path=path)
    agent.tell("Stop", last_assistant_message="done", turn_id="1", transcript_path=path)

    ends = {line["call_id"]: line for line in agent.lines() if line["event"] == "tool_result"}
    changes = [line for line in agent.lines() if line["event"] == "patch_apply"]
    assert [(line["path"], line["call_id"], line["kind"]) for line in changes] == [("made.txt", name, "create")]
    assert (ends[name]["status"], ends[name]["inferred"], ends[name]["claimed_at"]) == ("unknown", True, stamp)
    assert not any(line.get("reason") == "unknown_payload" for line in agent.lines())


def test_a_prompt_that_is_sent_while_a_call_runs_ends_it_only_where_the_transcript_says_so(
    agent: Agent, tmp_path: Path
) -> None:
    transcript = tmp_path / "transcript.jsonl"
    call = agent.begin("Bash", {"command": "make slow"})
    line = {"timestamp": rfc3339(time.time_ns() // 1_000_000), "message": {"id": call["tool_use_id"]}}
    transcript.write_text(json.dumps(line) + "\n")
    agent.tell("UserPromptSubmit", prompt="and that", prompt_id="p2", transcript_path=str(transcript))
    aside()
    other = agent.begin("Read", {"file_path": str(agent.root / "b.py")})
    (agent.root / "slow.txt").write_text("made\n")
    tick()
    agent.end(other)
    agent.shell("true")
    agent.end(call, transcript_path=str(transcript))

    results = [one for one in agent.lines() if one["event"] == "tool_result" and one["call_id"] == call["tool_use_id"]]
    assert (agent.seen(), agent.unseen()) == ([("create", "slow.txt")], [])
    assert [one.get("inferred") for one in results] == [None]


def test_a_command_that_codex_leaves_running_excuses_a_change_behind_its_turn(
    cli: Cli, agent: Agent, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "rollout.jsonl").write_text('{"type": "session_meta", "payload": {"id": "s1"}}\n')
    run = str(cli("do", "implement WP04", "--json", env={"CODEX_THREAD_ID": "s1"}).json()["invocation_id"])

    def tell(event: str, **payload: Any) -> None:
        about = {"session_id": "s1", "cwd": str(agent.root), "transcript_path": str(tmp_path / "rollout.jsonl")}
        body = json.dumps({"hook_event_name": event, **about, **payload})
        run_hook("codex", body.encode(), str(agent.root), str(home))

    for number, command in enumerate(("true", "make watch")):
        call = {"tool_name": "Bash", "tool_use_id": f"c{number}", "tool_input": {"command": command}}
        tell("PreToolUse", **call)
        if number == 0:
            tell("PostToolUse", **call, tool_response="")
    tell("Stop", last_assistant_message="it is running", turn_id="1")
    aside()
    (agent.root / "built.txt").write_text("by the watcher, or by a person\n")
    tick()
    tell("UserPromptSubmit", prompt="go on", turn_id="2")
    tell("Stop", last_assistant_message="done", turn_id="2")
    (path,) = (agent.root / layout.RECORDS).glob(f"*{run}.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    assert [line for line in lines if line.get("reason") == "unseen_change" or line.get("inferred")] == []


def test_what_goes_on_in_the_background_excuses_a_change_and_claims_none(agent: Agent) -> None:
    call = agent.begin("Bash", {"command": "make watch", "run_in_background": True})
    agent.end(call, {"stdout": "", "interrupted": False, "backgroundTaskId": "b1"})
    aside()
    (agent.root / "built.txt").write_text("by the watcher, or by a person\n")
    tick()
    agent.stop()
    agent.shell("true")
    (result,) = (line for line in agent.lines() if line.get("background"))

    assert (result["call_id"], result["status"]) == (call["tool_use_id"], "unknown")
    assert (agent.seen(), agent.unseen()) == ([], [])


@pytest.mark.parametrize("is_over", [False, True])
def test_what_changes_in_a_call_beside_what_goes_on_in_the_background_names_no_call(
    agent: Agent, tmp_path: Path, is_over: bool
) -> None:
    transcript = tmp_path / "transcript.jsonl"
    call = agent.begin("Bash", {"command": "make watch", "run_in_background": True})
    agent.end(call, {"stdout": "", "interrupted": False, "backgroundTaskId": "b1"})
    said = f"<task-notification><tool-use-id>{call['tool_use_id']}</tool-use-id></task-notification>"
    line = {"type": "queue-operation", "timestamp": rfc3339(time.time_ns() // 1_000_000), "content": said}
    transcript.write_text(json.dumps(line if is_over else {**line, "content": call["tool_use_id"]}) + "\n")
    aside()
    other = agent.begin("Bash", {"command": "make"}, transcript_path=str(transcript))
    (agent.root / "built.txt").write_text("by the watcher, or by the call\n")
    agent.end(other, transcript_path=str(transcript))
    (line,) = [line for line in agent.lines() if line.get("witness") == "tree"]

    assert (line["path"], line.get("call_id")) == ("built.txt", other["tool_use_id"] if is_over else None)


@pytest.mark.parametrize("is_forged", [False, True])
def test_a_command_in_the_background_is_over_when_its_notification_was_first_written_and_not_where_others_say_it(
    agent: Agent, tmp_path: Path, is_forged: bool
) -> None:
    """A tool can print what a notification looks like, and what a command is called stands in its own."""
    transcript = tmp_path / "transcript.jsonl"
    call = agent.begin("Bash", {"command": "make watch", "run_in_background": True})
    agent.end(call, {"stdout": "", "interrupted": False, "backgroundTaskId": "b1"})
    told = "<task-notification><tool-use-id>{}</tool-use-id><summary>{}</summary></task-notification>"
    said = told.format(call["tool_use_id"], "")
    printed = {"type": "tool_result", "tool_use_id": "other", "content": said}
    forged: list[dict[str, Any]] = [
        {"type": "user", "toolUseResult": {"stdout": said}, "message": {"content": [printed]}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": said}]}},
        {"type": "queue-operation", "content": told.format("other", said)},
    ]

    def note(*lines: dict[str, Any]) -> None:
        with transcript.open("a") as file:
            stamp = rfc3339(time.time_ns() // 1_000_000)
            file.write("".join(json.dumps({"timestamp": stamp, **line}) + "\n" for line in lines))

    note(*([] if is_forged else [{"type": "queue-operation", "content": said}]))
    aside()
    (agent.root / "a.py").write_text("by the watcher, or by a person\n")
    tick()
    note(*forged)
    aside()
    other = agent.begin("Bash", {"command": "make"}, transcript_path=str(transcript))
    (agent.root / "b.py").write_text("by the watcher, or by the call\n")
    agent.end(other, transcript_path=str(transcript))
    (line,) = [line for line in agent.lines() if line.get("witness") == "tree"]

    assert agent.unseen() == ([] if is_forged else ["a.py"])
    assert (line["path"], line.get("call_id")) == ("b.py", None if is_forged else other["tool_use_id"])


def test_what_a_call_did_behind_an_end_that_was_inferred_is_its_own_once_its_end_is_told(agent: Agent) -> None:
    """A session can be resumed while another process still runs it."""
    call = agent.begin("Bash", {"command": "make slow"})
    agent.tell("SessionStart", source="resume")
    aside()
    (agent.root / "slow.txt").write_text("made\n")
    aside()
    agent.end(call)
    agent.stop()

    assert (agent.seen(), agent.unseen()) == ([("create", "slow.txt")], [])


FAILED = {"type": "item_completed", "item": {"type": "McpToolCall", "id": "exec-1", "status": "failed"}}
REFUSED = {"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "Script failed\nOutput:\n"}]}


ASKED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Script failed: why?"}]}


@pytest.mark.parametrize(("end", "named"), [(FAILED, "exec-2"), (REFUSED, "exec-2"), (ASKED, None)])
def test_a_call_of_codex_whose_end_its_transcript_alone_says_leaves_later_changes_to_their_calls(
    cli: Cli, agent: Agent, home: Path, tmp_path: Path, end: dict[str, Any], named: str | None
) -> None:
    transcript = tmp_path / "rollout.jsonl"
    run = str(cli("do", "implement WP04", "--json", env={"CODEX_THREAD_ID": "s1"}).json()["invocation_id"])

    def tell(event: str, name: str, tool: str, **payload: Any) -> None:
        about = {"session_id": "s1", "cwd": str(agent.root), "transcript_path": str(transcript)}
        call = {"tool_name": tool, "tool_use_id": name, "tool_input": {"command": "echo own >> a.py"}}
        run_hook(
            "codex",
            json.dumps({"hook_event_name": event, **about, **call, **payload}).encode(),
            str(agent.root),
            str(home),
        )
        tick()

    tell("PreToolUse", "exec-1", "mcp__spy__fail")
    line = {"timestamp": rfc3339(time.time_ns() // 1_000_000), "type": "event_msg", "payload": end}
    transcript.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    aside()
    tell("PreToolUse", "exec-2", "Bash")
    (agent.root / "a.py").write_text("own\n")
    tick()
    tell("PostToolUse", "exec-2", "Bash", tool_response="")
    (path,) = (agent.root / layout.RECORDS).glob(f"*{run}.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    assert [line.get("call_id") for line in lines if line["event"] == "patch_apply"] == [named]


def test_a_call_whose_end_nobody_told_claims_nothing_that_it_alone_could_have_done(agent: Agent) -> None:
    agent.begin("Bash", {"command": "true"})
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    agent.shell("echo own >> b.py")
    agent.stop()
    agent.shell("true")

    assert agent.seen() == [("modify", "b.py")]


def test_what_a_long_call_did_before_another_began_is_its_own_once_its_end_is_told(agent: Agent) -> None:
    call = agent.begin("Bash", {"command": "make all"})
    (agent.root / "a.py").write_text("by the long call\n")
    (agent.root / "b.py").unlink()
    aside()
    agent.shell("true")
    aside()
    agent.end(call)
    agent.stop()

    named = {line["path"]: line.get("call_id") for line in agent.lines() if line.get("witness") == "tree"}
    assert agent.seen() == [("modify", "a.py"), ("delete", "b.py")]
    assert named["a.py"] == call["tool_use_id"]


@pytest.mark.parametrize("ends", ["SubagentStop", "Stop"])
def test_what_a_call_did_before_the_turn_of_another_agent_ended_is_its_own(agent: Agent, ends: str) -> None:
    """A subagent in the background and the agent that began it end their turns while a call of the other runs."""
    inner = {"agent_id": "sub-1", "agent_type": "general-purpose"}
    agent.end(agent.begin("Bash", {"command": "true"}, **inner), **inner)
    mine, theirs = ({}, inner) if ends == "SubagentStop" else (inner, {})
    call = agent.begin("Bash", {"command": "echo x > made.txt"}, **mine)
    (agent.root / "made.txt").write_text("x\n")
    aside()
    agent.tell(ends, last_assistant_message="done", **theirs)
    aside()
    agent.end(call, **mine)

    assert (agent.seen(), agent.unseen()) == ([("create", "made.txt")], [])
    assert {line["call_id"] for line in agent.lines() if line.get("path") == "made.txt"} == {call["tool_use_id"]}


def test_what_changes_while_a_look_waits_for_another_is_of_the_call_that_runs(agent: Agent) -> None:
    inner = {"agent_id": "sub-1", "agent_type": "general-purpose"}
    agent.end(agent.begin("Bash", {"command": "true"}, **inner), **inner)
    call = agent.begin("Bash", {"command": "echo x > made.txt"})
    with durable.folder(str(agent.root), layout.TREE, create=True, wait=1):
        other = Thread(target=agent.tell, args=("SubagentStop",), kwargs={"last_assistant_message": "done", **inner})
        other.start()
        aside()
        (agent.root / "made.txt").write_text("x\n")
    other.join()
    agent.end(call)

    assert (agent.seen(), agent.unseen()) == ([("create", "made.txt")], [])


@pytest.mark.parametrize("ends", [True, False])
def test_what_an_edit_writes_beside_the_call_of_another_agent_is_told_once(agent: Agent, ends: bool) -> None:
    """A look between an edit and what its hook tells leaves the file to that; where nothing is told, nobody knows."""
    inner = {"agent_id": "sub-1", "agent_type": "general-purpose"}
    shell = agent.begin("Bash", {"command": "make"}, **inner)
    path = str(agent.root / "help.md")
    edit = agent.begin("Write", {"file_path": path, "content": "one\ntwo\n"})
    (agent.root / "help.md").write_text("one\ntwo\n")
    (agent.root / "made.txt").write_text("x\n")
    agent.end(shell, **inner)
    if ends:
        agent.end(edit, {"type": "create", "originalFile": None})
    aside()
    agent.stop()
    agent.shell("true")
    agent.stop()

    told = [line["path"] for line in agent.lines() if line["event"] == "patch_apply"]
    assert (sorted(told), agent.unseen()) == (["help.md", "made.txt"] if ends else ["made.txt"], []), told


def digests(*lines: str) -> set[str]:
    return set(map(digest_line, lines))


def test_what_a_shell_changed_creates_and_deletes_is_its_own(agent: Agent) -> None:
    agent.shell("sed -i 's/line 3/three/' a.py; echo new > new.py; mkdir -p d/e; echo x > d/e/f.py; rm b.py")
    agent.stop()

    assert sorted(agent.seen()) == [
        ("create", "d/e/f.py"),
        ("create", "new.py"),
        ("delete", "b.py"),
        ("modify", "a.py"),
    ]
    assert agent.came("a.py") == digests("a.py three")
    assert agent.came("d/e/f.py") == digests("x")
    assert agent.unseen() == []
    tells = [line for line in agent.lines() if line.get("witness") == "tree"]
    assert {line["call_id"] for line in tells} == {"call-1-2"}
    assert agent.cli("invocations", "verify", "--all").code == 0


def test_the_tree_is_looked_at_however_deep_the_arguments_of_a_call_are(agent: Agent) -> None:
    deep = "[" * 3000 + "]" * 3000

    def tell(event: str) -> None:
        body = {"hook_event_name": event, "session_id": agent.session, "cwd": str(agent.root), "tool_use_id": "deep"}
        text = json.dumps({**body, "tool_name": "mcp__x__make", "tool_input": {"v": "DEEP"}}).replace('"DEEP"', deep)
        run_hook("claude-code", text.encode(), str(agent.root), str(agent.home))
        tick()

    tell("PreToolUse")
    (agent.root / "made.py").write_text("made = 1\n")
    tick()
    tell("PostToolUse")
    agent.stop()

    assert (agent.seen(), agent.unseen()) == ([("create", "made.py")], [])


def test_a_change_of_a_changed_file_is_what_changed_since(agent: Agent) -> None:
    agent.write("a.py", "one\ntwo\nthree\n")
    agent.shell("echo four >> a.py")
    agent.shell("sed -i s/one/uno/ a.py")
    agent.stop()

    assert agent.came("a.py") == digests("uno")
    assert agent.seen() == [("modify", "a.py"), ("modify", "a.py")]


def test_a_hand_between_two_calls_is_named_and_gives_the_next_call_none_of_its_lines(agent: Agent) -> None:
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    agent.shell("echo by the agent >> a.py")
    agent.stop()

    assert agent.unseen() == ["a.py"]
    assert agent.came("a.py") == digests("by the agent")


def reject(agent: Agent, call: dict[str, Any], **more: Any) -> str:
    """Write what Claude Code writes of a call that a person refused or interrupted; no hook is told."""
    name, path = call["tool_use_id"], agent.home / "rejected.jsonl"
    part = {"type": "tool_result", "tool_use_id": name, "is_error": True, "content": "no"}
    begun = {"timestamp": rfc3339(time.time_ns() // 1_000_000), "message": {"content": [{"id": name}]}}
    line = {**begun, "type": "user", "toolDenialKind": "user-rejected", **more, "message": {"content": [part]}}
    path.write_text("".join(json.dumps(value) + "\n" for value in (begun, line)))
    return str(path)


def test_a_hand_behind_a_refused_call_is_named_and_later_calls_have_their_own_changes(agent: Agent) -> None:
    path = reject(agent, agent.begin("Bash", {"command": "rm -rf sub"}), toolDenialBeforeRun=True)
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    call = {"tool_name": "Bash", "tool_input": {"command": "edit b"}, "tool_use_id": "next", "transcript_path": path}
    agent.tell("PreToolUse", **call)
    tick()
    (agent.root / "b.py").write_text("by the agent\n")
    tick()
    agent.tell("PostToolUse", **call, tool_response="ok")
    agent.tell("Stop", last_assistant_message="done", turn_id="1", transcript_path=path)
    (change,) = [line for line in agent.lines() if line.get("witness") == "tree"]

    assert agent.unseen() == ["a.py"]
    assert (change["path"], change["call_id"]) == ("b.py", "next")


@pytest.mark.parametrize("is_told", [True, False])
def test_a_hand_between_an_interrupted_call_and_the_next_prompt_is_no_work_of_the_agent(
    agent: Agent, is_told: bool
) -> None:
    call = agent.begin("Bash", {"command": "make"})
    (agent.root / "b.py").write_text("by the command\n")
    tick()
    path = reject(agent, call) if is_told else None
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    agent.tell("UserPromptSubmit", prompt="go on", prompt_id="p2", transcript_path=path)
    agent.shell("true")
    agent.stop()
    (result,) = (line for line in agent.lines() if line.get("inferred"))

    assert (agent.seen(), agent.unseen()) == (([("modify", "b.py")], ["a.py"]) if is_told else ([], []))
    assert not agent.came("a.py")
    assert result["status"] == "unknown"


def test_a_hand_before_an_edit_of_the_same_file_is_named(agent: Agent) -> None:
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    agent.write("a.py", "by the agent\n")
    agent.stop()

    assert agent.unseen() == ["a.py"]
    assert agent.seen() == []


def test_a_shell_before_an_edit_of_the_same_file_has_its_change(agent: Agent) -> None:
    agent.shell("echo seven >> a.py")
    agent.write("a.py", "all new\n")
    agent.stop()

    assert agent.seen() == [("modify", "a.py")]
    assert agent.unseen() == []


def test_what_a_shell_wrote_is_its_own_though_a_hand_wrote_there_before_the_next_call(agent: Agent) -> None:
    agent.shell("echo new >> a.py")
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    agent.shell("true")

    assert (agent.seen(), agent.unseen()) == ([("modify", "a.py")], ["a.py"])


def test_what_a_shell_took_away_is_its_own_though_an_edit_moved_the_folder_after_it(agent: Agent) -> None:
    """When a file went is known by its folder's time alone."""
    agent.shell("rm b.py")
    agent.write("other.py", "x = 1\n")
    agent.shell("true")

    assert (agent.seen(), agent.unseen()) == ([("delete", "b.py")], [])


def test_a_file_that_calls_took_away_was_not_taken_by_who_changed_its_folder_later(
    agent: Agent, project: Path, home: Path
) -> None:
    """A folder's time says at most when a file went; a second record looks at the tree that the first one left."""
    other = Agent(agent.cli, project, home, f"{SESSION[:-1]}2")
    other.shell("true")
    agent.shell("rm b.py")
    agent.shell("git mv a.py c.py")
    time.sleep(0.15)
    (project / "by-hand").mkdir()
    time.sleep(0.15)
    other.shell("true")
    agent.shell("true")
    for one in (agent, other):
        one.stop()
        assert agent.cli("profile-invocation", "complete", one.run, env=one.env).code == 0

    assert (agent.unseen(), other.unseen(), other.seen()) == ([], [], [])


def test_what_a_person_took_away_is_named(agent: Agent, project: Path) -> None:
    agent.shell("true")
    time.sleep(0.15)
    (project / "b.py").unlink()
    time.sleep(0.15)
    agent.shell("true")
    agent.stop()

    assert (agent.unseen(), agent.seen()) == (["b.py"], [])


def test_a_move_takes_no_line_and_what_changed_in_it_is_new(agent: Agent) -> None:
    agent.shell("git mv a.py moved.py; mv b.py sub/b.py; echo eight >> sub/b.py")
    agent.stop()

    assert sorted(agent.seen()) == [
        ("create", "moved.py"),
        ("create", "sub/b.py"),
        ("delete", "a.py"),
        ("delete", "b.py"),
    ]
    assert agent.came("moved.py") == set()
    assert agent.came("sub/b.py") == digests("eight")


def test_a_file_that_was_moved_and_changed_in_one_command_leaves_its_record_intact(agent: Agent) -> None:
    agent.shell("git mv a.py moved.py; sed -i 's/line 3/three/' moved.py")
    agent.stop()
    (made,) = [line for line in agent.lines() if line.get("kind") == "create"]

    assert {line.mark for hunk in read_lines_member(made["lines"]) for line in hunk} == {"=", "-", "+"}
    assert agent.cli("invocations", "verify", "--all").code == 0


@pytest.mark.parametrize("command", ["mv sub moved", "git mv sub moved"])
def test_a_folder_that_was_moved_has_its_files_at_their_new_place(agent: Agent, command: str) -> None:
    aside()
    agent.shell(command)
    aside()
    agent.shell("sed -i 's/line 3/three/' moved/c.py")
    agent.stop()

    assert sorted(agent.seen()) == [("create", "moved/c.py"), ("delete", "sub/c.py"), ("modify", "moved/c.py")]
    assert agent.came("moved/c.py") == digests("sub/c.py three")
    assert agent.unseen() == []


def test_a_folder_that_a_hand_moved_is_unseen_at_both_places(agent: Agent) -> None:
    agent.shell("mkdir made; echo new > made/new.py")
    agent.stop()
    aside()
    (agent.root / "made").rename(agent.root / "moved")
    aside()
    agent.shell("true")
    agent.stop()

    assert agent.seen() == [("create", "made/new.py")]
    assert sorted(agent.unseen()) == ["made/new.py", "moved/new.py"]


def test_a_new_file_in_a_folder_that_git_did_not_know_is_seen(cli: Cli, chartered: Path, home: Path) -> None:
    (chartered / ".gitignore").write_text("*.log\n")
    for name in ("empty/below/", "logs/one.log", "known/a.py"):
        (chartered / name).parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            (chartered / name).touch()
    (chartered / "empty/below").mkdir()
    git(chartered, "add", "known", ".gitignore", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    agent = Agent(cli, chartered, home)
    agent.shell("true")
    agent.shell("echo 1 > empty/below/new.py; echo 2 > logs/new.py; echo 3 > logs/two.log; echo 4 > known/b.py")

    created = ("empty/below/new.py", "known/b.py", "logs/new.py")
    assert sorted(agent.seen()) == [("create", path) for path in created]


def test_what_git_ignores_and_what_only_got_new_times_is_no_change(agent: Agent) -> None:
    agent.shell("touch a.py b.py; mkdir build; echo x > build/out; echo x > sub/c.pyc")
    agent.shell("echo y > build/more; chmod -x a.py")
    agent.stop()

    assert (agent.seen(), agent.unseen()) == ([], [])


def test_what_this_program_writes_into_a_committed_trail_is_no_change(cli: Cli, chartered: Path, home: Path) -> None:
    config = chartered / ".kittify/config.yaml"
    config.write_text((config.read_text() if config.exists() else "") + "trail: committed\n")
    assert cli("config", "accept", "--yes").code == 0
    agent = Agent(cli, chartered, home)
    agent.shell("git add -A")
    agent.stop()
    aside()
    other = cli("do", "implement WP04", "--json", env={"CLAUDE_CODE_SESSION_ID": "another"}).json()["invocation_id"]
    assert cli("profile-invocation", "complete", "--invocation-id", other).code == 0
    aside()
    agent.shell("git add -A")
    agent.stop()

    assert list((chartered / ".kittify/trail").glob("*/*.jsonl"))
    assert (agent.seen(), agent.unseen()) == ([], [])


def test_a_mode_is_a_change_without_lines(agent: Agent) -> None:
    agent.shell("chmod +x a.py")
    agent.stop()

    assert agent.seen() == [("modify", "a.py")]
    assert agent.came("a.py") == set()
    assert [line["mode"] for line in agent.lines() if "mode" in line] == ["100755"]


def test_a_binary_file_is_told_by_its_digest(agent: Agent) -> None:
    data = b"\0\1\2" * 100
    agent.shell("make picture", lambda: (agent.root / "picture.png").write_bytes(data))
    agent.stop()
    (line,) = [line for line in agent.lines() if line.get("witness") == "tree"]

    assert line["after_hash"] == __import__("hashlib").sha256(data).hexdigest()
    assert not {"after", "lines"} & set(line)


def test_older_files_that_are_moved_or_copied_here_are_new(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("old\n")
    os.utime(tmp_path / "old.py", (1, 1))
    agent.shell(f"cp -p {tmp_path}/old.py copied.py; mv {tmp_path}/old.py moved.py")
    agent.stop()

    assert agent.seen() == [("create", "copied.py"), ("create", "moved.py")]


def test_what_git_brings_is_nobodys(agent: Agent) -> None:
    """Of a branch, of the commit before, of the stash: others may have written it."""
    root, home = agent.root, agent.home
    git(root, "switch", "-qc", "other", home=home)
    (root / "a.py").write_text("of another\n")
    git(root, "commit", "-qam", "other", home=home)
    git(root, "switch", "-q", "-", home=home)
    tick()
    agent.shell("true")
    agent.shell("git merge -q other")
    agent.shell("git checkout -q HEAD~1 -- a.py")
    agent.shell("./switch.sh", lambda: git(root, "checkout", "-q", "other", "--", "a.py", home=home))
    agent.shell("./reset.sh", lambda: git(root, "reset", "-q", "--hard", "HEAD~1", home=home))
    agent.stop()

    assert [line for line in agent.lines() if line["event"] == "patch_apply" and "lines" in line] == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("git checkout -q other; echo x > f; git add f; git commit -qm f", {"f"}),
        ("git switch -qc own; echo x > f; git add f; git commit -qm f; git switch -q -; git merge -q own", {"f"}),
        ("echo mine > a.py; git commit -qam mine; git rebase -q other || echo x > a.py && git add a.py && "
         "GIT_EDITOR=true git rebase --continue", {"a.py"}),
        ("git checkout -q other", set()),
    ],
)  # fmt: skip
def test_what_a_call_commits_is_a_change_of_it_also_where_git_brings_more(
    agent: Agent, script: str, expected: set[str]
) -> None:
    root, home = agent.root, agent.home
    git(root, "switch", "-qc", "other", home=home)
    (root / "a.py").write_text("of another\n")
    (root / "o.py").write_text("of another\n")
    git(root, "add", "-A", home=home)
    git(root, "commit", "-qm", "other", home=home)
    git(root, "switch", "-q", "-", home=home)
    aside()
    agent.shell("true")
    agent.shell(script)
    agent.stop()
    lines = [line for line in agent.lines() if line["event"] == "patch_apply"]

    assert ({line["path"] for line in lines}, agent.unseen()) == (expected, [])
    assert [line for line in lines if "lines" in line or line["call_id"] != "call-1-3"] == []


def test_what_a_call_writes_in_the_second_of_a_switch_before_it_is_its_own(agent: Agent) -> None:
    git(agent.root, "branch", "other", home=agent.home)
    agent.shell("git commit -qm more --allow-empty")
    agent.shell("git switch -q other")
    agent.shell("echo seven >> b.py")
    agent.stop()

    assert agent.came("b.py") == digests("seven")


def test_what_a_commit_hook_rewrote_is_of_the_call_that_committed(agent: Agent) -> None:
    hook = agent.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsed -i 's/$/;/' a.py && git add a.py\n")
    hook.chmod(0o755)
    agent.shell("echo seven >> a.py")
    agent.shell("git commit -qam more")
    agent.stop()

    assert agent.came("a.py") == digests("seven;", *(f"a.py line {number};" for number in range(6)))


def test_calls_at_once_in_one_session_are_one_invocation_and_name_no_call(agent: Agent) -> None:
    first, second = agent.begin("Bash", {"command": "one"}), agent.begin("Bash", {"command": "two"})
    (agent.root / "a.py").write_text("of one of them\n")
    agent.end(first)
    agent.end(second)
    agent.stop()
    (line,) = [line for line in agent.lines() if line.get("witness") == "tree"]

    assert (line["path"], "call_id" in line) == ("a.py", False)


def test_what_another_record_tells_is_its_own_and_what_two_could_have_done_is_nobodys(
    agent: Agent, cli: Cli, home: Path
) -> None:
    other = Agent(cli, agent.root, home, "5f1d2c3b-0000-4000-8000-000000000002")
    other.shell("true")
    long = agent.begin("Bash", {"command": "make"})
    other.write("b.py", "of the other\n")
    beside = other.begin("Bash", {"command": "x"})
    (agent.root / "a.py").write_text("of either\n")
    agent.end(long)
    other.end(beside)
    agent.stop()
    other.stop()

    assert (agent.seen(), other.seen()) == ([], [])
    assert (agent.unseen(), other.unseen()) == ([], [])


def test_an_edit_that_reports_no_lines_has_those_it_wrote_before_another_record_edits_the_file(
    agent: Agent, cli: Cli, home: Path
) -> None:
    """opencode does not tell what stood in a file that its `write` replaced."""
    other = Agent(cli, agent.root, home, "5f1d2c3b-0000-4000-8000-000000000002")
    agent.write("a.py", "first = 1\nsecond = 2\n")
    agent.shell("true")
    other.shell("true")
    call = agent.begin("Write", {"file_path": str(agent.root / "a.py"), "content": "first = 1\nsecond = 3\n"})
    (agent.root / "a.py").write_text("first = 1\nsecond = 3\n")
    agent.end(call, {"success": True})
    other.write("a.py", "first = 4\nsecond = 3\n")
    agent.stop()
    (seen,) = [line for line in agent.lines() if line.get("witness") == "tree"]
    (hunk,) = read_lines_member(seen["lines"])

    assert [line.mark for line in hunk] == ["=", "-", "+"] and hunk[2].digest == digest_line("second = 3")
    assert (seen["call_id"], agent.unseen(), other.unseen()) == (call["tool_use_id"], [], [])


def test_what_a_call_of_another_record_could_have_done_that_runs_for_long_is_nobodys(
    agent: Agent, cli: Cli, home: Path
) -> None:
    other = Agent(cli, agent.root, home, SESSION[:-1] + "2")
    other.begin("Bash", {"command": "make"})
    (record,) = (agent.root / layout.RECORDS).glob(f"*{other.run}.jsonl")
    for age, expected in ((60, []), (3600, [("modify", "b.py")])):
        os.utime(record, (time.time() - age,) * 2)
        agent.shell(f"echo {age} >> b.py")

        assert (agent.seen(), agent.unseen()) == (expected, [])


@pytest.mark.parametrize("told", [True, False])
def test_a_long_call_of_a_subagent_explains_what_changed_in_it_only_where_its_own_calls_are_not_told(
    agent: Agent, told: bool
) -> None:
    task = agent.begin("Agent", {"prompt": "x"})
    if told:
        inner = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "inner", "agent_id": "agent-1"}
        agent.tell("PreToolUse", **inner)
        tick()
        (agent.root / "by_subagent.py").write_text("x\n")
        tick()
        agent.tell("PostToolUse", **inner, tool_response="ok")
    aside()
    (agent.root / "a.py").write_text("by hand\n")
    aside()
    agent.end(task)
    agent.stop()

    assert agent.unseen() == (["a.py"] if told else [])
    assert agent.seen() == ([("create", "by_subagent.py")] if told else [])
    assert [line["agent"] for line in agent.lines() if "witness" in line] == (["agent-1"] if told else [])


def test_a_change_whose_clock_runs_a_tick_behind_the_call_is_the_calls() -> None:
    own = Activity([Call("c", "Bash", Span(1000, 1050), None)], {})

    assert judge_change("a.py", 997, own, (), {"c": OWN}).whose == "own"
    assert judge_change("a.py", 980, own, (), {"c": OWN}).whose == "unsure"


def test_a_secret_in_a_file_is_masked_and_nothing_of_it_is_kept_beside(agent: Agent) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    agent.shell("make", lambda: (agent.root / ".env").write_text(f"TOKEN={token}\n"))
    agent.stop()
    kept = b"".join(path.read_bytes() for path in (agent.root / ".kittify").rglob("*") if path.is_file())

    assert agent.seen() == [("create", ".env")]
    assert token[4:16].encode() not in kept
    assert digest_line(f"TOKEN={token}").encode() not in kept


@pytest.mark.parametrize("harm", ["forged", "torn", "gone"])
def test_what_is_known_of_the_tree_counts_only_as_this_clone_kept_it(agent: Agent, harm: str) -> None:
    state = agent.root / layout.TREE / agent.run
    call = agent.begin("Bash", {"command": "x"})
    (agent.root / "a.py").write_text("new\n")
    data = state.read_bytes()
    if harm == "gone":
        state.unlink()
    elif harm == "torn":
        state.write_bytes(data[:-9])
    else:
        known = json.loads(data[64:])  # behind its seal; files that moved within a tick can be among it
        known["files"]["a.py"] = [1, 0, 0, "", []]
        state.write_bytes(data[:64] + json.dumps(known).encode())
    agent.end(call)
    agent.stop()

    assert (agent.seen(), agent.unseen()) == ([], [])


def test_that_files_of_a_submodule_are_not_compared_is_said(agent: Agent, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    (other / "x.py").write_text("x = 1\n")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "start")
    git(agent.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib")
    git(agent.root, "commit", "-qam", "a submodule")
    (agent.root / layout.TREE / agent.run).unlink()
    agent.shell("true")
    agent.shell("echo 'x = 2' > lib/x.py; echo seven >> a.py")
    agent.stop()
    said = [(line["reason"], line["what"]) for line in agent.lines() if line["event"] == "capture_gap"]

    assert said == [("submodule", "lib")]
    assert agent.seen() == [("modify", "a.py")]


def test_a_tree_of_too_many_files_is_compared_at_turns_alone_and_that_is_said(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specify_cli.features.hooks.worktree.look.MAX_FILES", 2)
    (agent.root / layout.TREE / agent.run).unlink()
    agent.shell("true")
    agent.shell("echo seven >> a.py")
    agent.shell("true")
    before = agent.seen()
    agent.stop()
    said = [line["reason"] for line in agent.lines() if line["event"] == "capture_gap"]

    assert (before, agent.seen(), said) == ([], [("modify", "a.py")], ["tree_too_large"])
    assert agent.came("a.py") == set()


def test_a_file_that_was_moved_and_then_edited_gives_its_lines_to_nobody(agent: Agent) -> None:
    """The tool's own file alone is not enough to look at: where it came from is gone."""
    agent.shell("git mv a.py moved.py")
    agent.write("moved.py", (agent.root / "moved.py").read_text() + "more\n")
    agent.stop()
    (line, *_) = [line for line in agent.lines() if line.get("path") == "moved.py"]

    assert (line["kind"], line["witness"], "lines" in line) == ("create", "tree", False)


def test_a_copy_gives_its_lines_to_nobody(agent: Agent) -> None:
    agent.shell("cp a.py copied.py; echo new > new.py")
    agent.shell("cp new.py again.py")
    agent.stop()

    agent.shell("cp b.py later.py")
    git(agent.root, "add", "-A", home=agent.home)  # gives the same blob a new time
    agent.stop()

    assert [agent.came(name) for name in ("copied.py", "again.py", "later.py")] == [set(), set(), set()]
    assert agent.came("new.py") == digests("new")


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("cat a.py b.py > c.py", "c.py"),
        ("head -n 4 a.py > c.py; echo own >> c.py", "c.py"),
        ("sed -n 1,4p a.py >> b.py", "b.py"),
        ("python3 -c \"open('c.py', 'a').write(open('sub/c.py').read() + 'own')\"", "c.py"),
        ("true\ncp {older} c.py", "c.py"),
    ],
)
def test_what_a_command_copies_of_an_older_file_that_it_names_gives_its_lines_to_nobody(
    cli: Cli, agent: Agent, tmp_path: Path, command: str, made: str
) -> None:
    (tmp_path / "older.py").write_text("one of older\ntwo of older\n")
    tick()
    copier = Agent(cli, agent.root, agent.home, SESSION.replace("1", "2"))
    copier.shell("true")
    copier.shell(command.format(older=tmp_path / "older.py"))
    copier.stop()

    assert (made in [path for _, path in copier.seen()], copier.came(made)) == (True, set())


def test_what_a_script_writes_that_the_agent_wrote_before_is_its_own(agent: Agent, tmp_path: Path) -> None:
    script, lines = tmp_path / "patch.py", "".join(f"own line {number}\n" for number in range(4))
    script.write_text(f"new = '''\n{lines}'''\nopen('b.py', 'a').write(new[1:])\n")
    agent.shell(f"python3 {script}")
    agent.stop()

    assert agent.came("b.py") == digests(*lines.splitlines())


def test_a_copy_of_a_file_that_changes_before_the_next_look_gives_its_lines_to_nobody(agent: Agent) -> None:
    agent.write("a.py", "".join(f"one {number}\n" for number in range(9)))
    agent.shell("cp a.py copied.py")
    agent.write("a.py", "".join(f"one {number}\n" for number in range(1, 9)) + "more\n")
    agent.stop()

    assert agent.came("copied.py") == set()


def test_of_many_files_that_change_at_once_the_rest_is_counted(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specify_cli.features.hooks.worktree.changes._MAX_CHANGED", 3)
    agent.shell("for name in 1 2 3 4 5; do echo $name > new$name.py; done")
    agent.shell("rm new5.py; echo more >> new4.py")
    agent.stop()
    (gap,) = [line for line in agent.lines() if line.get("reason") == "many_changes"]

    assert gap["count"] == 2
    assert agent.seen() == [
        ("create", "new1.py"),
        ("create", "new2.py"),
        ("create", "new3.py"),
        ("modify", "new4.py"),
        ("delete", "new5.py"),
    ]
    assert agent.came("new4.py") == set()


def test_a_long_text_is_an_object_of_the_record_where_texts_are_kept_whole(cli: Cli, agent: Agent, home: Path) -> None:
    (agent.root / layout.CONFIG).write_text("audit:\n  capture_tool_io: full\n")
    cli("accept", "--yes")
    whole = Agent(cli, agent.root, home, "5f1d2c3b-0000-4000-8000-000000000003")
    whole.shell("true")
    whole.shell("make", lambda: (agent.root / "long.py").write_text("x = 1\n" * 9000))
    whole.stop()
    (line,) = [line for line in whole.lines() if line.get("path") == "long.py"]

    assert isinstance(line["after"], dict)
    assert cli("invocations", "verify", "--all").code == 0


def test_a_shell_behind_a_closed_record_is_looked_at_by_nobody(agent: Agent) -> None:
    agent.cli("profile-invocation", "complete", agent.run, env=agent.env)
    agent.shell("echo x > after.py")
    agent.stop()

    assert agent.seen() == []
    assert not (agent.root / layout.HOOK_FAILURES).exists()


def test_a_project_below_the_top_of_its_worktree_is_looked_at_alone(cli: Cli, home: Path, project: Path) -> None:
    inner = project / "inner"
    (inner / ".kittify").mkdir(parents=True)
    (inner / "a.py").write_text("one\n")
    (project / "outer.py").write_text("one\n")
    git(project, "add", "-A", home=home)
    git(project, "commit", "-qm", "start", home=home)
    agent = Agent(cli, inner, home)
    agent.shell("true")
    agent.shell("echo two >> a.py; echo new > new.py; echo two >> ../outer.py")
    agent.stop()

    assert agent.seen() == [("modify", "a.py"), ("create", "new.py")]
    assert agent.came("a.py") == digests("two")


@pytest.mark.parametrize("form", ["version 2", "version 3", "version 4", "split", "sha256"])
def test_an_index_of_each_form_names_its_files(tmp_path: Path, form: str) -> None:
    git(tmp_path, "init", "-q", *(["--object-format=sha256"] if form == "sha256" else []))
    for name in ("a.py", "sub/b.py", "sub/deep/c.py", "new.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", "a.py", "sub")
    git(tmp_path, "add", *(["--intent-to-add"] if form == "version 3" else []), "new.py")
    if form == "version 4":
        git(tmp_path, "update-index", "--index-version", "4")
    if form == "split":
        git(tmp_path, "update-index", "--split-index")
    index = read_index(str(tmp_path), str(tmp_path))
    below = read_index(str(tmp_path / "sub"), str(tmp_path))

    assert (index.total, index.paths) == (4, [b"a.py", b"new.py", b"sub/b.py", b"sub/deep/c.py"])
    assert (below.total, below.paths) == (4, [b"b.py", b"deep/c.py"])


def test_a_file_of_which_only_the_intent_to_add_it_or_to_skip_it_is_noted_stands_in_the_index(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("a.py", "skipped.py", "new.py"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", "a.py", "skipped.py")
    git(tmp_path, "add", "--intent-to-add", "new.py")
    git(tmp_path, "update-index", "--skip-worktree", "skipped.py")
    index = read_index(str(tmp_path), str(tmp_path))
    entries = [find_entry(index, name, (tmp_path / name).lstat()) for name in ("a.py", "skipped.py", "new.py")]

    assert [entry and (entry.mode, entry.is_current) for entry in entries] == [
        (0o100644, True),
        (0o100644, True),
        (0o100644, False),
    ]
    assert find_entry(index, "w.py", None) is None


@pytest.mark.parametrize("other", [False, True], ids=["at once", "after another call"])
def test_what_a_session_changes_behind_a_closed_inner_record_is_of_the_outer_one(
    agent: Agent, cli: Cli, other: bool
) -> None:
    begun = agent.begin("Bash", {"command": 'spec-kitty do "review WP03" --json'})
    answer = cli("do", "review WP03", "--json", env=agent.env).out
    agent.end(begun, {"stdout": answer})
    agent.shell("echo x > inner.py")
    closing = agent.begin("Bash", {"command": "spec-kitty profile-invocation complete; echo x > closing.py"})
    cli("profile-invocation", "complete", json.loads(answer)["invocation_id"], env=agent.env)
    (agent.root / "closing.py").write_text("x\n")
    agent.end(closing)
    if other:
        agent.shell("true")
    agent.shell("echo x > after.py")
    agent.shell("echo x > later.py")
    agent.stop()

    assert agent.seen() == [("create", "after.py"), ("create", "later.py")]
    assert agent.unseen() == []


def _close(agent: Agent) -> None:
    agent.cli("profile-invocation", "complete", "--invocation-id", agent.run, env=agent.env)


def _read_annexes(agent: Agent) -> list[dict[str, Any]]:
    paths = sorted((agent.root / layout.annex_folder(agent.run)).glob("*.jsonl"))
    return [json.loads(path.read_bytes()) for path in paths]


def test_what_was_under_way_when_its_record_closed_is_said_of_that_record(agent: Agent) -> None:
    """An agent's subagent works on, or its calls were made together with the one that closed the record."""
    call = agent.begin("Bash", {"command": "echo own >> a.py; mv b.py d.py"})
    closing = agent.begin("Bash", {"command": f"spec-kitty profile-invocation complete --invocation-id {agent.run}"})
    _close(agent)
    tick()
    with (agent.root / "a.py").open("a") as file:
        file.write("own\n")
    (agent.root / "b.py").rename(agent.root / "d.py")
    for _ in range(2):
        agent.end(call, {"stdout": "", "stderr": ""})
    agent.end(closing, {"stdout": "closed", "stderr": ""})
    lines = _read_annexes(agent)

    told = [
        (line["event"], line.get("path"), line.get("kind")) for line in lines if line["call_id"] == call["tool_use_id"]
    ]
    assert sorted(told, key=str) == [
        ("patch_apply", "a.py", "modify"),
        ("patch_apply", "b.py", "delete"),
        ("patch_apply", "d.py", "create"),
        ("tool_result", None, None),
    ]
    assert {line["witness"] for line in lines if line["event"] == "patch_apply"} == {"tree"}
    assert [line["call_id"] for line in lines if line["call_id"] != call["tool_use_id"]] == [closing["tool_use_id"]]
    assert not (agent.root / layout.ORPHANS).exists()
    report = agent.cli("invocations", "verify", "--all", "--json").json()
    assert [item for item in report["findings"] if item["severity"] == "error"] == []


def test_the_end_of_a_call_of_a_closed_record_is_not_taken_by_the_next(agent: Agent) -> None:
    call = agent.begin("Bash", {"command": "true"})
    _close(agent)
    following = Agent(agent.cli, agent.root, agent.home)
    following.shell("true")
    agent.end(call, {"stdout": "late", "stderr": ""})

    assert [(line["event"], line["call_id"]) for line in _read_annexes(agent)] == [("tool_result", call["tool_use_id"])]
    assert call["tool_use_id"] not in {line.get("call_id") for line in following.lines()}
    report = agent.cli("invocations", "verify", "--all", "--json").json()
    assert [item for item in report["findings"] if item["severity"] == "error"] == []


def test_what_a_subagent_changes_after_its_record_closed_is_said_of_that_record(agent: Agent) -> None:
    """Where nothing else is open, a subagent that goes on in the background is of the record that began it."""
    whose = {"agent_id": "sub-1", "agent_type": "general-purpose"}
    first = agent.begin("Bash", {"command": "true"}, **whose)
    agent.end(first, {"stdout": ""}, **whose)
    _close(agent)
    call = agent.begin("Bash", {"command": "echo own >> a.py"}, **whose)
    with (agent.root / "a.py").open("a") as file:
        file.write("own\n")
    agent.end(call, {"stdout": ""}, **whose)

    told = [(line["event"], line.get("path"), line["call_id"]) for line in _read_annexes(agent)]
    assert told == [
        ("tool_call", None, call["tool_use_id"]),
        ("patch_apply", "a.py", call["tool_use_id"]),
        ("tool_result", None, call["tool_use_id"]),
    ]
    report = agent.cli("invocations", "verify", "--all", "--json").json()
    assert [item for item in report["findings"] if item["severity"] == "error"] == []
    assert agent.run in agent.cli("why", "a.py:7").out


@pytest.mark.parametrize("place", ["../side", ".worktrees/side"])
def test_what_a_shell_changes_in_a_worktree_that_the_agent_made_is_its_own(agent: Agent, place: str) -> None:
    """Also in the call that makes it; there git brings what is not told, and which lines came is not known."""
    name = str((agent.root / place).resolve()) if place.startswith("..") else place
    agent.shell(f"git worktree add -q -b side {place}")
    agent.shell(f"cd {place} && echo one > new.txt && echo more >> a.py")
    agent.shell(f"rm {place}/b.py")
    came = agent.came(f"{name}/new.txt")
    agent.shell(f"git worktree add -q -b third {place}2 && cd {place}2 && echo two > made.txt && echo x >> a.py")
    agent.stop()

    assert agent.seen() == [
        *(("modify", f"{name}/a.py"), ("create", f"{name}/new.txt"), ("delete", f"{name}/b.py")),
        *(("modify", f"{name}2/a.py"), ("create", f"{name}2/made.txt")),
    ]
    assert (came, agent.unseen()) == ({digest_line("one")}, [])


@pytest.mark.parametrize("place", ["../side", ".worktrees/side"])
def test_another_worktree_in_which_a_person_or_another_session_works_is_left_to_them(
    agent: Agent, cli: Cli, home: Path, place: str
) -> None:
    """At the close git names the folder of one that lies in the project as if it were a file."""
    git(agent.root, "worktree", "add", "-q", "-b", "side", place)
    side = (agent.root / place).resolve()
    other = Agent(cli, side, home, SESSION[:-1] + "2")
    (side / "a.py").write_text("by hand\n")
    aside()
    agent.shell(f"git -C {place} log -1")
    aside()
    other.shell("echo two >> b.py; echo new > new.txt")
    agent.stop()
    other.stop()
    cli("profile-invocation", "complete", "--invocation-id", agent.run, env=agent.env)

    assert (agent.seen(), agent.unseen()) == ([], [])
    assert other.seen() == [("modify", "b.py"), ("create", "new.txt")]


def test_another_worktree_that_is_too_large_for_calls_is_compared_at_turns_and_said(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specify_cli.features.hooks.worktree.look.MAX_FILES", 8)
    agent.shell("git worktree add -q -b side .worktrees/side")
    agent.shell("cd .worktrees/side && echo one > new.txt")
    told = agent.seen()
    agent.stop()

    assert (told, agent.seen()) == ([], [("create", ".worktrees/side/new.txt")])
    assert [line["what"] for line in agent.lines() if line.get("reason") == "tree_too_large"] == [".worktrees/side/"]


def test_why_tells_of_what_came_from_a_worktree_that_is_still_there(agent: Agent, cli: Cli) -> None:
    place = ".worktrees/side"
    agent.shell(f"git worktree add -q -b side {place}")
    agent.write(f"{place}/tool.txt", "this is by a tool\n")
    agent.shell(f"echo and this by a shell >> {place}/tool.txt")
    agent.shell(f"cd {place} && git add -A && git commit -qm x && cd ../.. && git merge -q side")
    told = cli("why", "tool.txt", "--json").json()

    assert [one["invocation_id"] for one in told["ranges"]] == [agent.run] * 2
