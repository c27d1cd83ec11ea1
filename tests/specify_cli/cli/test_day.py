"""A day with hooks: three sessions, two harnesses, two worktrees, a subagent, a crash; the trail tells the story."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from specify_cli.record import layout
from support import SPEC_KITTY, Cli, environment, git

FIXTURES = Path(__file__).parents[2] / "fixtures/hooks"


def payload(kind: str, root: Path, session: str, call: str = "", **more: Any) -> bytes:
    """A fixture as it would come from a project at `root`, in a session of our own."""
    text = (FIXTURES / f"{kind}.json").read_text(encoding="utf-8").replace("/work/shop", str(root))
    value = json.loads(text)
    value["conversation_id" if kind.startswith("cursor/") else "session_id"] = session
    if call:
        value["tool_use_id"] = call
    return json.dumps({**value, **more}).encode()


def told(root: Path, invocation_id: str) -> list[tuple[str, str]]:
    """What the record says of the work: event and what it is about."""
    (path,) = (root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    found = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]][4:]
    return [
        (line["event"], str(line.get("tool") or line.get("path") or line.get("to") or line.get("outcome")))
        for line in found
    ]


def test_a_day_of_three_sessions(cli: Cli, chartered: Path, home: Path) -> None:  # room: story
    (chartered / "src").mkdir()
    (chartered / "src/login.py").write_text("def login(name):\n    return name.strip().lower()\n")
    git(chartered, "add", ".kittify/charter", "src", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    tree = chartered.parent / "tree"
    git(chartered, "worktree", "add", "-q", str(tree), home=home)

    def do(request: str, root: Path, **env: str) -> str:
        return str(cli("do", request, "--json", cwd=root, env=env).json()["invocation_id"])

    def hook(harness: str, data: bytes, root: Path) -> None:
        done = cli("hook", harness, stdin=data, cwd=root)
        assert (done.code, done.out, done.err) == (0, "", "")

    # Morning: Claude Code mends the login, a subagent looks around, the work is closed.
    one = do("fix the failing login test", chartered, CLAUDE_CODE_SESSION_ID="morning")
    hook("claude-code", payload("claude-code/subagent-start", chartered, "morning"), chartered)
    hook("claude-code", payload("claude-code/in-subagent", chartered, "morning", "t1"), chartered)
    hook("claude-code", payload("claude-code/subagent-stop", chartered, "morning"), chartered)
    edit = payload("claude-code/post-edit", chartered, "morning", "t2")
    hook("claude-code", edit, chartered)
    hook("claude-code", edit, chartered)
    # At the same time another session of the same harness reviews in its own worktree.
    two = do("review the login change", tree, CLAUDE_CODE_SESSION_ID="review")
    hook("claude-code", payload("claude-code/pre-read", tree, "review", "t3"), tree)
    cli("profile-invocation", "complete", "--invocation-id", one, "--artifact", "src/login.py")
    hook("claude-code", payload("claude-code/pre-read", chartered, "morning", "t4"), chartered)
    # Afternoon: Cursor in the first worktree; the agent asks for governance in its own shell, and dies in a tool call.
    answer = cli("do", "implement WP04", "--json", cwd=chartered)
    three = str(answer.json()["invocation_id"])
    shell = {"tool_input": {"command": 'spec-kitty do "implement WP04" --json'}}
    output = json.dumps({"exitCode": 0, "stdout": answer.out})
    hook("cursor", payload("cursor/post-shell", chartered, "afternoon", "c1", tool_output=output, **shell), chartered)
    hook("cursor", payload("cursor/pre-shell", chartered, "afternoon", "c2"), chartered)
    # Hooks are killed with their payload in hand, early and late; told again, each event is there once.
    calls = [f"k{number}" for number in range(12)]
    for number, call in enumerate(calls):
        data = payload("cursor/pre-shell", chartered, "afternoon", call)
        child = subprocess.Popen(
            [SPEC_KITTY, "hook", "cursor"], cwd=chartered, env=environment(home), stdin=subprocess.PIPE
        )
        assert child.stdin is not None
        child.stdin.write(data)
        child.stdin.close()
        time.sleep(0.008 * number)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        hook("cursor", data, chartered)
    hook("cursor", payload("cursor/post-shell", chartered, "afternoon", "c2"), chartered)
    # And then the agent itself is gone: nobody ends these calls, nobody closes the record.

    story = told(chartered, one)
    rows = {row["invocation_id"]: row for row in cli("invocations", "list", "--json").json()}
    assert [event for event, _ in story] == [
        "stage_transition", "tool_call", "tool_result", "turn", "stage_transition",
        "tool_result", "patch_apply", "artifact_link", "completed",
    ]  # fmt: skip
    assert ("patch_apply", "src/login.py") in story
    assert told(tree, two) == [("tool_call", "Read")]
    assert told(chartered, three) == [
        ("tool_call", "Shell"),
        ("tool_result", "Shell"),
        ("tool_call", "Shell"),
        *[("tool_call", "Shell")] * len(calls),
        ("tool_result", "Shell"),
    ]
    assert len(cli("invocations", "state", three, "--json").json()["open_calls"]) == len(calls)
    # A reader who was not there sees whose session each was, what is open, and since when nothing came.
    shown = cli("invocations", "list").out.splitlines()
    assert [("claude-code" in line, "done" in line) for line in shown if one in line] == [(True, True)]
    page = cli("invocations", "show", one).out
    assert "asked by: claude-code · session morning" in page
    assert "  subagent Explore (agent-7)\n" in page and "  edited src/login.py +1 −1\n" in page
    assert "outcome:  open, last event " in cli("invocations", "show", three).out
    assert "session review" in cli("invocations", "show", two, cwd=tree).out
    assert (rows[one]["outcome"], rows[three]["status"]) == ("done", "open")
    assert two not in rows and cli("invocations", "list", "--json", cwd=tree).json()[0]["invocation_id"] == two
    for root in (chartered, tree):
        assert cli("invocations", "verify", cwd=root).code == 0
    assert [line["why"] for line in _orphans(chartered)] == [f"the bound invocation {one} is closed or read-only"]
    assert cli("replay", one, "--json").json()["findings"] == []


def _orphans(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / layout.ORPHANS).read_text().splitlines()]
