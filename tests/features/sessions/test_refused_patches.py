"""A patch that Codex refused is one call that failed: its hook is told the begin alone, by another id than the
transcript names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook
from support import Cli

SESSION = "01a2130c-2021-7343-af54-734cd8880b21"
PATCH = "*** Begin Patch\n*** Update File: src/pay.js\n@@\n-const random\n+const chance\n*** End Patch\n"
REFUSED = "Script error:\napply_patch verification failed: Failed to find expected lines in src/pay.js:\nconst random"


class Codex:
    """A session of Codex: the lines of its transcript, and what it tells its hooks."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.transcript = home / f".codex/sessions/2026/11/25/rollout-2026-11-25T14-11-31-{SESSION}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.write("session_meta", id=SESSION, session_id=SESSION, cwd=str(root), cli_version="0.169.0")

    def write(self, kind: str, **payload: Any) -> None:
        line = {"timestamp": "2026-11-25T14:11:32.198Z", "type": kind, "payload": payload}
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def tell(self, event: str, **more: Any) -> None:
        payload = {"hook_event_name": event, "session_id": SESSION, "cwd": str(self.root), **more}
        payload |= {"transcript_path": str(self.transcript), "turn_id": "t1"}
        run_hook("codex", json.dumps(payload).encode(), str(self.root), str(self.home))

    def ask(self) -> None:
        item = {"type": "UserMessage", "id": "u1", "content": [{"type": "text", "text": "fix it"}]}
        self.write("event_msg", type="item_completed", item=item)
        self.tell("UserPromptSubmit", prompt="fix it")

    def patch(self, made: str, ran: str, *, told: bool = True) -> None:
        """Try the patch; its hook is told no end."""
        script = f"text(await tools.apply_patch({json.dumps(PATCH)}));"
        self.write("response_item", type="custom_tool_call", call_id=made, name="exec", input=script)
        if told:
            self.tell("PreToolUse", tool_name="apply_patch", tool_input={"command": PATCH}, tool_use_id=ran)
        output = [{"type": "input_text", "text": text} for text in ("Script failed\nOutput:\n", REFUSED)]
        self.write("response_item", type="custom_tool_call_output", call_id=made, output=output)

    def stop(self) -> None:
        self.write("event_msg", type="task_complete", turn_id="t1")
        self.tell("Stop", last_assistant_message="It did not fit.")


@pytest.fixture
def codex(chartered: Path, home: Path, cli: Cli) -> Codex:
    cli("do", "fix the login test", "--json", env={"CODEX_THREAD_ID": SESSION})
    return Codex(chartered, home)


def read_calls(cli: Cli) -> list[tuple[str, str, str]]:
    """Return (call, tool, status) of each call of the newest record, a later status in place of an earlier one."""
    events = cli("invocations", "show", "last", "--json").json()["events"]
    calls = {line["call_id"]: line["tool"] for line in events if line["event"] == "tool_call"}
    results = {line["call_id"]: line["status"] for line in events if line["event"] == "tool_result"}
    return [(call_id, tool, results.get(call_id, "none")) for call_id, tool in calls.items()]


def test_it_is_recorded_once_and_as_failed(codex: Codex, cli: Cli) -> None:
    codex.ask()
    codex.patch("call_1", "exec-1")
    codex.stop()

    assert [("exec-1", "apply_patch", "error")] == read_calls(cli)


def test_each_of_two_equal_tries_is_a_call_of_its_own(codex: Codex, cli: Cli) -> None:
    codex.ask()
    codex.patch("call_1", "exec-1")
    codex.patch("call_2", "exec-2")
    codex.patch("call_3", "exec-3", told=False)
    codex.stop()

    assert [
        ("exec-1", "apply_patch", "error"),
        ("exec-2", "apply_patch", "error"),
        ("call_3", "apply_patch", "error"),
    ] == read_calls(cli)


@pytest.mark.parametrize("closing", [False, True])
def test_what_the_transcript_told_of_it_once_is_not_told_again(codex: Codex, cli: Cli, closing: bool) -> None:
    codex.ask()
    codex.patch("call_1", "exec-1")
    codex.stop()
    if closing:
        cli("profile-invocation", "complete", "last")
    codex.stop()
    cli("import", "sessions", "--harness", "codex")

    assert [("exec-1", "apply_patch", "error")] == read_calls(cli)


def test_a_command_whose_item_is_gone_from_the_transcript_is_there_once(codex: Codex, cli: Cli) -> None:
    codex.ask()
    for number in (1, 2):
        call = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": f"exec-{number}"}
        script = 'text(await tools.exec_command({"cmd": "make"}));'
        codex.write("response_item", type="custom_tool_call", call_id=f"call_{number}", name="exec", input=script)
        codex.tell("PreToolUse", **call)
        item = {"type": "CommandExecution", "id": f"exec-{number}", "command": ["bash", "-c", "make"]}
        codex.write("event_msg", type="item_completed", item={**item, "status": "completed", "exit_code": 0})
        codex.tell("PostToolUse", **call, tool_response="done")
        output = [{"type": "input_text", "text": "Script completed\nOutput:\n"}]
        codex.write("response_item", type="custom_tool_call_output", call_id=f"call_{number}", output=output)
    lines = codex.transcript.read_text().splitlines(keepends=True)
    codex.transcript.write_text("".join(line for line in lines if '"exec-2"' not in line))
    os.utime(codex.transcript, (1_600_000_000,) * 2)
    cli("import", "sessions", "--harness", "codex")

    assert [("exec-1", "Bash", "ok"), ("exec-2", "Bash", "ok")] == read_calls(cli)


def test_its_story_says_that_the_edit_failed(codex: Codex, cli: Cli) -> None:  # room: story
    codex.ask()
    codex.patch("call_1", "exec-1")
    codex.stop()
    shown = cli("invocations", "show", "last").out

    assert "✗ edited src/pay.js" in shown and "Begin Patch" not in shown
    assert "ended in an error when last run: apply_patch src/pay.js" in shown


def test_a_patch_whose_end_nobody_told_names_its_file(codex: Codex, cli: Cli) -> None:  # room: story
    codex.ask()
    codex.patch("call_1", "exec-1")
    shown = cli("invocations", "show", "last").out

    assert "src/pay.js" in shown and "Begin Patch" not in shown
