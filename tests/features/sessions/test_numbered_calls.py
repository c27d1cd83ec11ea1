"""Models that number their calls anew in each answer (`functions.Bash:0`) name several calls of a session alike: each
of them is recorded."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from features.sessions.test_import_sessions import LONG_AGO, fill_database, read_lines
from hooking import run_hook
from specify_cli.features.hooks.payload import calls
from specify_cli.features.hooks.payload.values import HookEvent
from specify_cli.features.sessions.reading import parse_time
from specify_cli.features.sessions.reconciling import ReportedEvent, SessionRecord, match_unnamed, sign_call
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from support import Cli

SESSION = "s-numbered"
# Of each call: its arguments, what was printed, and whether it failed. One command is run twice.
CALLS = (
    ({"command": "npm test"}, "1 failed", True),
    ({"command": "sed -i s/a/b/ src/cart.py"}, "", False),
    ({"command": "npm test"}, "3 passed", False),
    ({"command": "ls"}, "README.md", False),
)
STATUSES = ["error", "ok", "ok", "ok"]


def tell_claude_code(root: Path, at: int) -> list[dict[str, Any]]:
    args, printed, failed = CALLS[at]
    begin = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": args}
    response = {"stdout": printed, "stderr": "", "interrupted": False}
    end = {"hook_event_name": "PostToolUse", "tool_response": response}
    failure = {"hook_event_name": "PostToolUseFailure", "error": f"Exit code 1\n{printed}", "is_interrupt": False}
    named = {"session_id": SESSION, "cwd": str(root), "tool_use_id": "functions.Bash:0"}
    return [{**named, **begin}, {**named, **begin, **(failure if failed else end)}]


def tell_opencode(root: Path, at: int) -> list[dict[str, Any]]:
    args, printed, failed = CALLS[at]
    begin = {"hook_event_name": "tool.execute.before", "tool_name": "bash", "tool_input": args}
    response = {"title": "", "output": printed, "metadata": {"exit": int(failed), "output": printed}}
    end = {"hook_event_name": "tool.execute.after", "tool_response": response}
    named = {"session_id": SESSION, "cwd": str(root), "tool_use_id": "bash_0"}
    return [{**named, **begin}, {**named, **begin, **end}]


PROGRAMS = {"claude-code": tell_claude_code, "opencode": tell_opencode}


def keep_claude_code(root: Path, home: Path, begun: Sequence[int]) -> None:
    lines: list[dict[str, Any]] = []

    def add(kind: str, content: Any, at: int) -> None:
        shared = {"sessionId": SESSION, "cwd": str(root), "version": "2.1.300", "isSidechain": False}
        moment = rfc3339(at)
        message = {"role": kind, "content": content, "id": f"m{len(lines)}", "model": "kimi"}
        lines.append({"type": kind, "uuid": f"u{len(lines)}", "timestamp": moment, "message": message, **shared})

    add("user", "make the tests pass", begun[0] - 999)
    for at, (args, printed, failed) in zip(begun, CALLS, strict=True):
        add("assistant", [{"type": "tool_use", "id": "functions.Bash:0", "name": "Bash", "input": args}], at)
        text = f"Exit code 1\n{printed}" if failed else printed
        result = {"type": "tool_result", "tool_use_id": "functions.Bash:0", "content": text, "is_error": failed}
        add("user", [result], at + 1)
        lines[-1]["toolUseResult"] = f"Error: {text}" if failed else {"stdout": printed, "stderr": ""}
    add("assistant", [{"type": "text", "text": "Done."}], begun[-1] + 2)
    folder = home / ".claude/projects" / "".join(c if c.isalnum() else "-" for c in str(root))
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(folder / f"{SESSION}.jsonl", LONG_AGO)


def keep_opencode(root: Path, home: Path, begun: Sequence[int]) -> None:
    rows: list[dict[str, Any]] = [
        {"table": "session", "id": SESSION, "directory": str(root), "version": "1.18.0", "time_created": begun[0] - 999}
    ]

    def add(role: str, part: dict[str, Any], at: int) -> None:
        name = f"m{len(rows):03d}"
        rows.append({"table": "message", "id": name, "session_id": SESSION, "time_created": at, "data": {"role": role}})
        row = {"table": "part", "id": f"p{name}", "message_id": name, "session_id": SESSION, "time_created": at}
        rows.append({**row, "data": part})

    add("user", {"type": "text", "text": "make the tests pass"}, begun[0] - 999)
    for at, (args, printed, failed) in zip(begun, CALLS, strict=True):
        state = {"status": "completed", "input": args, "title": "", "output": printed}
        state |= {"metadata": {"exit": int(failed), "output": printed}, "time": {"start": at, "end": at + 1}}
        add("assistant", {"type": "tool", "callID": "bash_0", "tool": "bash", "state": state}, at)
    add("assistant", {"type": "text", "text": "Done."}, begun[-1] + 2)
    fill_database(home / ".local/share/opencode/opencode.db", rows)


KEPT = {"claude-code": keep_claude_code, "opencode": keep_opencode}


@pytest.fixture
def begin(chartered: Path, cli: Cli) -> Callable[[str], str]:
    """Begin a record in a session of a program; returns its id."""
    names = {"claude-code": "CLAUDE_CODE_SESSION_ID", "opencode": "SPEC_KITTY_OPENCODE_SESSION"}

    def run(harness: str) -> str:
        done = cli("do", "make the tests pass", "--json", cwd=chartered, env={names[harness]: SESSION})
        return str(done.json()["invocation_id"])

    return run


def list_statuses(lines: list[dict[str, Any]]) -> list[str]:
    """The statuses of calls, which are told once each; of equal ones each has the next result."""
    assert not [line for line in lines if line["event"] == "capture_gap"]
    begun = [(line["call_id"], line["args"]["head"]) for line in lines if line["event"] == "tool_call"]
    ended = [(line["call_id"], line["status"]) for line in lines if line["event"] == "tool_result"]
    assert Counter(name for name, _ in begun) == Counter(name for name, _ in ended)
    told = [json.loads(args) for _, args in begun]
    assert sorted(map(str, told)) == sorted(str(args) for args, _, _ in CALLS)
    return [status for _, status in ended]


@pytest.mark.parametrize("harness", PROGRAMS)
def test_hooks_record_each_call_under_a_number_that_comes_again(
    harness: str, chartered: Path, cli: Cli, home: Path, begin: Callable[[str], str]
) -> None:
    invocation_id = begin(harness)
    for at in range(len(CALLS)):
        for payload in PROGRAMS[harness](chartered, at):
            run_hook(harness, json.dumps(payload).encode(), str(chartered), str(home))

    assert list_statuses(read_lines(chartered, layout.RECORDS)) == STATUSES
    verified = cli("invocations", "verify", invocation_id, "--json").json()
    assert [item["code"] for item in verified["findings"] if item["severity"] == "error"] == []


@pytest.mark.parametrize("harness", PROGRAMS)
def test_the_next_record_of_a_session_holds_numbered_calls_that_the_one_before_held(
    harness: str, chartered: Path, cli: Cli, home: Path, begin: Callable[[str], str]
) -> None:
    ids = []
    for _ in range(2):
        ids.append(begin(harness))
        for at in range(len(CALLS)):
            for payload in PROGRAMS[harness](chartered, at):
                run_hook(harness, json.dumps(payload).encode(), str(chartered), str(home))
        cli("profile-invocation", "complete", "--invocation-id", ids[-1], "--outcome", "done", cwd=chartered)

    files = [next((chartered / layout.RECORDS).glob(f"*{name}.jsonl")) for name in ids]
    told = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    assert [list_statuses(lines) for lines in told] == [STATUSES, STATUSES]


def test_a_numbered_call_that_comes_again_after_many_others_is_recorded(
    chartered: Path, home: Path, begin: Callable[[str], str]
) -> None:
    """More than 16 KiB of the log of equal calls lie between them."""
    begin("opencode")
    tests = tell_opencode(chartered, 0)
    read = {**tests[0], "tool_name": "read", "tool_use_id": "read_0"}
    others = [{**read, "tool_input": {"filePath": f"{at}.md"}} for at in range(520)]

    for payload in (*tests, *others, *tests):
        run_hook("opencode", json.dumps(payload).encode(), str(chartered), str(home))

    told = Counter(line["event"] for line in read_lines(chartered, layout.RECORDS))
    assert (told["tool_call"], told["tool_result"], told["capture_gap"]) == (522, 2, 0)


def test_a_numbered_call_of_a_tool_with_a_hyphen_is_recorded(
    chartered: Path, home: Path, begin: Callable[[str], str]
) -> None:
    begin("claude-code")
    tool = "mcp__chrome-devtools__click"
    for at in range(2):
        for payload in tell_claude_code(chartered, 3):
            args = {"tool_name": tool, "tool_use_id": f"functions.{tool}:0", "tool_input": {"uid": at}}
            run_hook("claude-code", json.dumps({**payload, **args}).encode(), str(chartered), str(home))

    told = Counter(line["event"] for line in read_lines(chartered, layout.RECORDS))
    assert (told["tool_call"], told["tool_result"], told["capture_gap"]) == (2, 2, 0)


def test_equal_numbered_calls_of_two_subagents_end_as_their_own_did(
    chartered: Path, home: Path, begin: Callable[[str], str]
) -> None:
    begin("claude-code")
    one = [{**payload, "agent_id": "one", "agent_type": "test"} for payload in tell_claude_code(chartered, 0)]
    two = [{**payload, "agent_id": "two", "agent_type": "test"} for payload in tell_claude_code(chartered, 2)]

    for payload in (one[0], two[0], two[1], one[1]):
        run_hook("claude-code", json.dumps(payload).encode(), str(chartered), str(home))

    lines = read_lines(chartered, layout.RECORDS)
    begun = {line["call_id"]: line["agent"] for line in lines if line["event"] == "tool_call"}
    ended = {line["call_id"]: (line["agent"], line["status"]) for line in lines if line["event"] == "tool_result"}
    assert sorted(begun.values()) == ["one", "two"]
    assert ended == {name: (agent, {"one": "error", "two": "ok"}[agent]) for name, agent in begun.items()}


def test_equal_calls_of_one_answer_end_as_their_numbers_say(
    chartered: Path, home: Path, begin: Callable[[str], str]
) -> None:
    begin("claude-code")
    one, two = tell_claude_code(chartered, 0), tell_claude_code(chartered, 2)
    two = [{**payload, "tool_use_id": "functions.Bash:1"} for payload in two]

    for payload in (one[0], two[0], two[1], one[1]):
        run_hook("claude-code", json.dumps(payload).encode(), str(chartered), str(home))

    lines = read_lines(chartered, layout.RECORDS)
    first, second = (line["call_id"] for line in lines if line["event"] == "tool_call")
    ended = {line["call_id"]: line["status"] for line in lines if line["event"] == "tool_result"}
    assert ended == {first: "error", second: "ok"}


def test_equal_calls_of_subagents_are_matched_with_their_own_though_hooks_ran_in_another_order() -> None:
    name, agents = "Bash:0123456789abcdef", ("one", "two")
    lines = [
        {"event": "tool_call", "call_id": f"{name}{mark}", "tool": "Bash", "agent": agent, "at": rfc3339(at)}
        for agent, mark, at in zip(agents, ("", "#2"), (1000, 1002), strict=True)
    ]
    told = [
        ReportedEvent(at, HookEvent("tool_call", {"call_id": agent, "tool": "Bash", "agent": agent}), 0, True)
        for agent, at in zip(agents, (1002, 1000), strict=True)
    ]
    record = SessionRecord("X", 0, None, None, lines)

    matches = match_unnamed([record], told, lambda *_: [sign_call(lines[0])], has_other_ids=False)
    assert {agent: match.lines[0]["agent"] for agent, match in matches.items()} == dict(
        zip(agents, agents, strict=True)
    )


@pytest.mark.parametrize("ends", [("ok", "error"), ("error", "ok"), ("ok", "unknown")])
def test_equal_calls_within_a_moment_keep_their_order_unless_they_ended_the_other_way(ends: tuple[str, str]) -> None:
    """The transcript dates both a little earlier: the second is nearest to the first of the record."""
    name, names = "Bash:0123456789abcdef", ("first", "second")
    line = {"tool": "Bash", "args_hash": "a", "at": rfc3339(1004)}
    lines: list[dict[str, Any]] = []
    for mark, status, at in zip(("", "#2"), ends, (1004, 1009), strict=True):
        line |= {"call_id": f"{name}{mark}", "at": rfc3339(at)}
        lines += [{**line, "event": "tool_call"}, {**line, "event": "tool_result", "status": status}]
    told = [
        ReportedEvent(at, HookEvent(event, {"call_id": call, "tool": "Bash", **more}), 0, True)
        for call, status, at in zip(names, ("ok", "error"), (1000, 1005), strict=True)
        for event, more in (("tool_call", {}), ("tool_result", {"status": status}))
    ]
    record = SessionRecord("X", 0, None, None, lines)

    matches = match_unnamed([record], told, lambda *_: [sign_call(lines[0])], has_other_ids=False)
    expected = ("", "#2") if ends[0] == "ok" else ("#2", "")
    assert [matches[call].lines[0]["call_id"] for call in names] == [f"{name}{mark}" for mark in expected]


@pytest.mark.parametrize("harness", PROGRAMS)
def test_a_transcript_doubles_no_numbered_call_of_a_record_that_names_it_so(
    harness: str,
    chartered: Path,
    cli: Cli,
    home: Path,
    begin: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Versions before recorded the first call of each number under that number."""
    begin(harness)
    begun = []
    with monkeypatch.context() as before:
        before.setattr(calls, "is_numbered", lambda *_: False)
        for at in range(len(CALLS)):
            begun.append(time.time_ns() // 1_000_000)
            for payload in PROGRAMS[harness](chartered, at):
                named = {"tool_use_id": payload["tool_use_id"].replace("0", str(at))}
                run_hook(harness, json.dumps({**payload, **named}).encode(), str(chartered), str(home))
    KEPT[harness](chartered, home, begun)

    cli("import", "sessions", cwd=chartered)

    assert list_statuses(read_lines(chartered, layout.RECORDS)) == STATUSES


@pytest.mark.parametrize("harness", PROGRAMS)
def test_a_transcript_tells_each_call_under_a_number_that_comes_again(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    KEPT[harness](chartered, home, [1_763_632_800_000 + 1000 * at for at in range(len(CALLS))])

    cli("import", "sessions", cwd=chartered)

    assert list_statuses(read_lines(chartered, layout.IMPORTED)) == STATUSES


@pytest.mark.parametrize("lost", [range(0), range(2, 4), range(1, 8, 2), range(4), range(4, 8)])
@pytest.mark.parametrize("harness", PROGRAMS)
def test_numbered_calls_of_hooks_and_transcript_are_told_once(
    harness: str, lost: range, chartered: Path, cli: Cli, home: Path, begin: Callable[[str], str]
) -> None:
    """`lost` are the payloads whose hooks did not run."""
    begin(harness)
    begun = []
    for number in range(2 * len(CALLS)):
        if number not in lost:
            payload = PROGRAMS[harness](chartered, number // 2)[number % 2]
            run_hook(harness, json.dumps(payload).encode(), str(chartered), str(home))
        if number % 2 == 0:
            # A busy machine can take longer for a hook than lies between two calls: what it recorded counts.
            told = [line["at"] for line in read_lines(chartered, layout.RECORDS) if line["event"] == "tool_call"]
            begun.append(time.time_ns() // 1_000_000 if number in lost else parse_time(told[-1]))
            time.sleep(0.02)
    KEPT[harness](chartered, home, begun)

    for _ in range(2):
        cli("import", "sessions", cwd=chartered)

    lines = read_lines(chartered, layout.RECORDS)
    assert sorted(list_statuses(lines)) == sorted(STATUSES)
    assert not list((chartered / layout.IMPORTED).glob("*.jsonl"))
