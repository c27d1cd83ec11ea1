"""Transcripts in forms that the played programs write no more, or seldom, are read as far as they go."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.turn_from_transcript import read_facts, read_turns
from specify_cli.features.sessions.readers import read_session
from specify_cli.features.sessions.reading import Session, parse_time
from specify_cli.features.sessions.telling import iter_events
from specify_cli.features.sessions.transcripts import read_head
from specify_cli.record.ids import rfc3339

AT = "2025-11-20T09:00:0{}.000Z"


def lines(*values: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def told(session: Session | None) -> list[tuple[str, Any, Any]]:
    assert session is not None
    return [(item.payload["hook_event_name"], item.payload.get("tool_name"), item.status) for item in session.events]


def whole(session: Session | None) -> list[tuple[Any, ...]]:
    assert session is not None
    used = [item.facts and (item.facts.text, item.facts.model, item.facts.tokens) for item in session.events]
    events = [(item.at, item.payload, item.status) for item in session.events]
    return [session._replace(events=()), *zip(events, used, strict=True)]


def codex(*payloads: dict[str, Any], kind: str = "response_item") -> bytes:
    meta = {"id": "s", "cwd": "/p", "cli_version": "0.42.0"}
    head = {"timestamp": AT.format(0), "type": "session_meta", "payload": meta}
    asked = {"timestamp": AT.format(1), "type": "event_msg", "payload": {"type": "user_message", "message": "fix it"}}
    return lines(head, asked, *({"timestamp": AT.format(2), "type": kind, "payload": item} for item in payloads))


def test_a_time_that_no_line_can_state_is_one_that_a_line_can() -> None:
    stated = ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00Z", 10**20, -1)

    assert [len(rfc3339(parse_time(value))) for value in stated] == [24] * 4


def codex_call(name: str, args: dict[str, Any], output: str) -> tuple[str, Any, str | None]:
    """Return tool, arguments and status of a call that Codex tells as its model made it."""
    call = {"type": "function_call", "name": name, "arguments": json.dumps(args), "call_id": "c1"}
    session = read_session(
        "codex", codex(call, {"type": "function_call_output", "call_id": "c1", "output": output}), {}
    )
    assert session is not None
    _, begin, end = session.events
    return begin.payload["tool_name"], begin.payload["tool_input"], end.status


def test_codex_that_tells_commands_only_as_its_model_made_them_has_them_as_its_hooks_do() -> None:
    """A command is the text that a shell is given, and the program states how it ended."""
    exited = json.dumps({"output": "a.py\n", "metadata": {"exit_code": 2, "duration_seconds": 0.1}})
    words = [["ls", "a b"], ["bash", "-lc", "ls"], ["C:\\Program Files\\pwsh.exe", "-NoProfile", "-Command", "ls"]]
    chunk = "Chunk ID: 0a1b\nWall time: 0.0511 seconds\nProcess exited with code {}\nOutput:\nExit code: 1\n"

    shells = [codex_call("shell", {"command": each}, exited) for each in words]

    assert shells == [("Bash", {"command": text}, "error") for text in ("ls 'a b'", "ls", "ls")]
    assert [
        codex_call("shell_command", {"command": "ls"}, "Exit code: 1\nWall time: 0 seconds\nOutput:\n"),
        codex_call("exec_command", {"cmd": "ls"}, chunk.format(0)),
        codex_call("exec_command", {"cmd": "ls"}, chunk.format(3)),
        codex_call("exec_command", {"cmd": "ls"}, "Wall time: 1.0000 seconds\nProcess running with session ID 5\n"),
        codex_call("shell", {"command": ["ls"]}, "exec command rejected by user"),
        codex_call("shell", {"command": ["ls"]}, "failed in sandbox: Operation not permitted"),
        codex_call("shell", {"command": ["ls"]}, "aborted by user after 3.1s"),
    ] == [
        ("Bash", {"command": "ls"}, "error"),
        ("Bash", {"command": "ls", "cmd": "ls"}, "ok"),
        ("Bash", {"command": "ls", "cmd": "ls"}, "error"),
        ("Bash", {"command": "ls", "cmd": "ls"}, None),
        ("Bash", {"command": "ls"}, "denied"),
        ("Bash", {"command": "ls"}, "error"),
        ("Bash", {"command": "ls"}, "unknown"),
    ]


@pytest.mark.parametrize(
    ("last", "status", "printed"),
    [
        ("Process exited with code 0\nOutput:\n3 passed\n", "ok", "3 passed"),
        ("Process exited with code 1\nOutput:\n1 failed\n", "error", "1 failed"),
        ("Process running with session ID 5\nOutput:\n...\n", None, "..."),
    ],
)
def test_a_command_of_codex_that_goes_on_ends_as_the_call_says_that_waits_for_it(
    last: str, status: str | None, printed: str
) -> None:
    head = "Chunk ID: 0a1b\nWall time: 10.0 seconds\n"
    outputs = [f"{head}Process running with session ID 5\nOutput:\ncollecting\n", head + last]
    args = [("exec_command", {"cmd": "pytest -q"}), ("write_stdin", {"session_id": 5, "chars": ""})]
    items: list[dict[str, Any]] = []
    for number, ((name, given), output) in enumerate(zip(args, outputs, strict=True)):
        call = {"type": "function_call", "name": name, "arguments": json.dumps(given), "call_id": f"c{number}"}
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": output}]
    session = read_session("codex", codex(*items), {})
    assert session is not None
    ends = {e.payload["tool_use_id"]: e for e in session.events if e.payload["hook_event_name"] == "PostToolUse"}

    assert sorted(ends) == ["c0", "c1"] and len(session.events) == 5
    assert ends["c0"].status == status
    assert "collecting" in ends["c0"].payload["tool_response"]
    assert (printed in ends["c0"].payload["tool_response"]) is (status is not None)


def test_a_patch_that_codex_was_given_as_a_command_is_one() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 'a'\n+x = 'b'\n*** End Patch"
    done = json.dumps({"output": "Success.", "metadata": {"exit_code": 0}})
    refused = "apply_patch verification failed: Failed to find expected lines in a.py"
    aborted = "Wall time: 11.7 seconds\naborted by user"
    commands = (["apply_patch", patch], ["bash", "-lc", f"apply_patch <<'PATCH'\n{patch}\nPATCH\n"])

    calls = [
        codex_call("shell", {"command": command}, output) for command in commands for output in (done, refused, aborted)
    ]

    assert calls == [
        ("apply_patch", {"command": patch}, status) for _ in commands for status in ("ok", "error", "unknown")
    ]


def test_a_session_of_codex_with_twice_as_many_calls_and_items_takes_twice_as_many_steps() -> None:
    """Each item that ran was told to each call that had not ended, and looked for its patch in all of them: a session
    of 100,000 calls took hours."""

    def count(number: int) -> int:
        calls = [
            {"type": "custom_tool_call", "name": "exec", "input": "x", "call_id": f"c{each}"} for each in range(number)
        ]
        changes = [
            {"type": "item_completed", "item": {"type": "FileChange", "id": f"i{each}", "changes": {}}}
            for each in range(number)
        ]
        taken = 0

        def trace(frame: Any, event: str, _: object) -> Any:
            nonlocal taken
            taken += event == "line"
            return trace if frame.f_code.co_filename.endswith("codex.py") else None

        sys.settrace(trace)
        try:
            session = read_session("codex", codex(*calls, *changes), {})
        finally:
            sys.settrace(None)
        assert len(told(session)) == 2 * number
        return taken

    assert count(60) < 3 * count(30)


def test_each_patch_of_a_script_of_codex_is_the_call_that_made_its_changes() -> None:
    patches = [f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\n" for name in ("a/x.py", "x.py", "b/x.py")]
    script = "\n".join(f"text(await tools.apply_patch({json.dumps(patch)}));" for patch in patches)
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": script}
    items = [
        {"type": "FileChange", "id": f"exec-{name}", "changes": {f"/shop/{name}": {"type": "add", "content": "x\n"}}}
        for name in ("b/x.py", "a/x.py", "x.py")
    ]
    meta = {"type": "session_meta", "payload": {"id": "s", "cwd": "/shop"}}
    ran = [{"type": "item_completed", "item": item} for item in items]
    data = json.dumps(meta).encode() + b"\n" + codex(call) + codex(*ran, kind="event_msg")

    session = read_session("codex", data, {})

    assert session is not None
    events = session.events
    told = {e.payload["tool_use_id"]: e.payload["tool_input"]["command"] for e in events if "tool_input" in e.payload}
    assert told == {"exec-a/x.py": patches[0], "exec-x.py": patches[1], "exec-b/x.py": patches[2]}


def test_a_patch_of_codex_that_did_not_fit_changed_nothing() -> None:
    call = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c1"}
    refused = "apply_patch verification failed: Failed to find expected lines in a.py"
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": refused}

    assert told(read_session("codex", codex(call, output), {}))[-1] == ("PostToolUse", "apply_patch", "error")


def test_a_command_of_codex_that_was_refused_in_a_script_was_denied() -> None:
    refused = 'exec_command failed: CreateProcess { message: "Rejected(\\"`rm -rf x` rejected: not permitted\\")" }'
    for error, expected in ((refused, "denied"), ("exec_command failed: no such shell", "error")):
        script = 'text(await tools.exec_command({"cmd": "rm -rf x"}));'
        call = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": script}
        texts = [
            {"type": "input_text", "text": text} for text in ("Script failed\nOutput:\n", f"Script error:\n{error}")
        ]
        output = {"type": "custom_tool_call_output", "call_id": "c1", "output": texts}

        assert told(read_session("codex", codex(call, output), {}))[-1] == ("PostToolUse", "Bash", expected)


@pytest.mark.parametrize(("began", "expected"), [(1, ["exec-1"]), (5, ["c1", "exec-1"])])
def test_a_command_of_codex_whose_item_comes_after_the_interruption_is_told_once(
    began: int, expected: list[str]
) -> None:
    """An equal one that began later is another."""
    script = 'text(await tools.exec_command({"cmd": "make"}));'
    moments = [parse_time(AT.format(number)) for number in range(7)]
    item = {"type": "CommandExecution", "id": "exec-1", "command": ["/bin/bash", "-lc", "make"], "exit_code": -1}
    made = (
        {"type": "custom_tool_call", "name": "exec", "input": script, "call_id": "c1"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "aborted by user after 1.3s"},
        {"type": "item_completed", "item": item, "started_at_ms": moments[began], "completed_at_ms": moments[6]},
    )
    told = [
        {"timestamp": AT.format(at), "type": "event_msg", "payload": one}
        for at, one in zip((1, 3, 6), made, strict=True)
    ]
    meta = {"timestamp": AT.format(0), "type": "session_meta", "payload": {"id": "s", "cwd": "/shop"}}
    session = read_session("codex", lines(meta, *told), {})

    assert session is not None
    assert (
        sorted({str(event.payload["tool_use_id"]) for event in session.events if "tool_name" in event.payload})
        == expected
    )


def test_a_command_of_codex_that_was_interrupted_is_told_as_its_hook_is() -> None:
    script = 'text(await tools.exec_command({"cmd": "make"}));'
    call = {"type": "custom_tool_call", "name": "exec", "input": script, "call_id": "c1"}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "aborted by user after 0.2s"}
    session = read_session("codex", codex(call, output), {})

    assert told(session)[1:] == [("PreToolUse", "Bash", None), ("PostToolUse", "Bash", None)]
    assert session is not None and session.events[1].payload["tool_input"] == {"command": "make"}


def test_a_search_of_codex_in_the_web_is_a_call() -> None:
    action = {"type": "search", "query": "teb planner", "queries": ["teb planner", "teb planner github"]}
    search = {"type": "web_search_end", "call_id": "ws_1", "query": "teb planner", "action": action}
    page = {"type": "web_search_end", "call_id": "ws_2", "query": "https://example.org"}

    session = read_session("codex", codex(search, page, kind="event_msg"), {})
    assert session is not None
    calls = [event.payload for event in session.events if "tool_use_id" in event.payload]

    assert [(one["hook_event_name"], one["tool_use_id"], one["tool_input"]) for one in calls] == [
        ("PreToolUse", "ws_1", action),
        ("PostToolUse", "ws_1", action),
        ("PreToolUse", "ws_2", {"query": "https://example.org"}),
        ("PostToolUse", "ws_2", {"query": "https://example.org"}),
    ]


def test_a_search_of_codex_for_a_tool_is_a_call() -> None:
    asked = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "wiki"}}
    found = {"type": "tool_search_output", "call_id": "c1", "status": "completed", "tools": [{"name": "mcp__wiki"}]}
    session = read_session("codex", codex(asked, found), {})

    assert told(session)[1:] == [("PreToolUse", "tool_search", None), ("PostToolUse", "tool_search", None)]
    assert session is not None and session.events[1].payload["tool_input"] == {"query": "wiki"}


def test_a_call_of_codex_in_which_its_session_ended_began_and_did_not_end() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": '{"cmd": "./walk"}'}

    over = read_session("codex", codex(call), {}, is_over=True)
    going_on = read_session("codex", codex(call), {})

    assert told(over)[1:] == [("PreToolUse", "Bash", None)]
    assert told(going_on)[1:] == []


def test_a_call_of_codex_whose_arguments_are_no_text_is_told_where_its_session_ended_in_it() -> None:
    calls = [
        {"type": "function_call", "call_id": f"c{i}", "name": "exec", "arguments": value}
        for i, value in enumerate((5, ["ls"], None))
    ]

    assert told(read_session("codex", codex(*calls), {}, is_over=True))[1:] == [("PreToolUse", "exec", None)] * 3


def test_what_a_turn_of_codex_used_is_told_though_it_was_aborted_without_a_word() -> None:
    used = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 7, "output_tokens": 2}}}
    aborted = {"type": "turn_aborted", "reason": "interrupted"}
    session = read_session("codex", codex(used, aborted, kind="event_msg"), {})

    assert [name for name, _, _ in told(session)] == ["UserPromptSubmit", "Stop", "Interrupt"]
    assert session is not None and session.events[1].facts is not None
    assert (session.events[1].facts.text, session.events[1].facts.tokens) == (None, {"input": 7, "output": 2})


def test_a_patch_of_codex_without_its_text_is_made_of_its_changes() -> None:
    changes = {"/p/a.py": {"type": "add", "content": "x = 1\n"}, "/p/b.py": {"type": "delete"}}
    item = {"type": "FileChange", "id": "f1", "changes": changes, "status": "completed"}
    event = {"type": "item_completed", "item": item, "started_at_ms": 1, "completed_at_ms": 2}
    session = read_session("codex", codex(event, kind="event_msg"), {})

    assert session is not None
    (call,) = (item.payload for item in session.events if item.payload["hook_event_name"] == "PreToolUse")
    patch = "*** Begin Patch\n*** Add File: a.py\n+x = 1\n*** Delete File: b.py\n*** End Patch\n"
    assert call["tool_input"] == {"command": patch}


def test_what_a_resumed_session_of_codex_copied_is_left_to_the_session_that_told_it() -> None:
    """Versions until 2025 write all of it into a new file, at once, behind the line that began it."""
    name, at = "2025-11-20T09:{:02}:{:06.3f}Z", iter(range(1000))

    def write(kind: str, minute: int = 0, **payload: Any) -> dict[str, Any]:
        return {"timestamp": name.format(minute, next(at) / 1000), "type": kind, "payload": payload}

    def work(minute: int = 0) -> list[dict[str, Any]]:
        used = {"last_token_usage": {"input_tokens": 7, "output_tokens": 2}, "total_token_usage": {"n": minute}}
        return [
            write("event_msg", minute, type="user_message", message=f"fix {minute}"),
            write("turn_context", minute, model="m"),
            write("response_item", minute, type="function_call", call_id=f"c{minute}", name="x", arguments="{}"),
            write("response_item", minute, type="function_call_output", call_id=f"c{minute}", output="y"),
            write("event_msg", minute, type="token_count", info=used),
            write("event_msg", minute, type="agent_message", message="done"),
        ]

    head = [write("session_meta", id=own, cwd="/p") for own in ("new", "old")]

    begun, answered = work()[:2], work(3)[2:]  # the prompt of `codex exec resume` is there at once
    for own, prompts in (([*work(3), *work(4)], ["fix 3", "fix 4"]), ([*begun, *answered], ["fix 0"])):
        session = read_session("codex", lines(*head, *work(), *own), {}, is_over=True)
        assert session is not None

        asked = [item.payload["prompt"] for item in session.events if "prompt" in item.payload]
        facts = [(item.facts.model, item.facts.tokens) for item in session.events if item.facts]
        assert (session.session_id, asked) == ("new", prompts)
        assert facts == [("m", {"input": 7, "output": 2})] * len(prompts)


@pytest.mark.parametrize("output", ["Script failed", "Exit code: " + "9" * 5000 + "\n"])
def test_a_call_of_codex_that_no_program_wrote_is_told_as_it_stands(output: str) -> None:
    """Arguments in 100,000 brackets, an exit code of 5,000 digits."""
    calls = [
        ("custom_tool_call", {"name": "exec", "input": "tools.apply_patch(" + "[" * 100_000}),
        ("function_call", {"name": "shell", "arguments": json.dumps({"command": ["bash", "-lc", "ls"]})}),
    ]
    for kind, call in calls:
        made = [
            {"type": "session_meta", "payload": {"id": "s", "cwd": "/p"}},
            {"type": "response_item", "payload": {"type": kind, "call_id": "c", **call}},
            {"type": "response_item", "payload": {"type": f"{kind}_output", "call_id": "c", "output": output}},
        ]
        session = read_session("codex", lines(*made), {}, is_over=True)

        assert session is not None
        assert [item.payload["hook_event_name"] for item in session.events] == ["PreToolUse", "PostToolUse"]


@pytest.mark.parametrize("name", ["shell", "container.exec", "local_shell", "shell_command"])
def test_codex_calls_the_tool_that_runs_commands_by_many_names(name: str) -> None:
    made = [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/p"}},
        {"type": "response_item", "payload": {"type": "function_call", "call_id": "c", "name": name}},
    ]
    made[1]["payload"]["arguments"] = json.dumps({"command": ["bash", "-lc", "ls"]})  # type: ignore[index]
    session = read_session("codex", lines(*made), {}, is_over=True)

    assert session is not None
    assert (session.events[0].payload["tool_name"], session.events[0].payload["tool_input"]) == (
        "Bash",
        {"command": "ls"},
    )


def test_codex_that_compacts_before_a_prompt_names_the_model_that_answers_it() -> None:
    said = {"type": "UserMessage", "content": [{"type": "text", "text": "go on"}]}
    answer = {"type": "AgentMessage", "content": [{"type": "Text", "text": "done"}]}
    used = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 7}}}
    session = read_session(
        "codex",
        lines(
            {"timestamp": AT.format(0), "type": "session_meta", "payload": {"id": "s", "cwd": "/p"}},
            {"timestamp": AT.format(1), "type": "event_msg", "payload": used},
            {"timestamp": AT.format(1), "type": "compacted", "payload": {"message": "before"}},
            {"timestamp": AT.format(1), "type": "turn_context", "payload": {"model": "gpt-6-sol"}},
            {"timestamp": AT.format(2), "type": "event_msg", "payload": {"type": "item_completed", "item": said}},
            {"timestamp": AT.format(3), "type": "event_msg", "payload": {"type": "item_completed", "item": answer}},
            {"timestamp": AT.format(3), "type": "event_msg", "payload": used},
            {"timestamp": AT.format(4), "type": "event_msg", "payload": {"type": "task_complete"}},
        ),
        {},
    )

    assert told(session) == [("PreCompact", None, None), ("UserPromptSubmit", None, None), ("Stop", None, None)]
    assert session is not None and session.events[-1].facts is not None
    assert (session.events[-1].facts.model, session.events[-1].facts.tokens) == ("gpt-6-sol", {"input": 7})


def test_a_command_that_a_person_typed_into_codex_is_no_call_of_the_agent() -> None:
    item = {"type": "CommandExecution", "id": "c1", "command": ["/bin/bash", "-lc", "ls"], "status": "completed"}
    events = [
        {"type": "item_completed", "item": {**item, "id": source, "source": source}}
        for source in ("user_shell", "unified_exec_startup")
    ]
    session = read_session("codex", codex(*events, kind="event_msg"), {})

    assert session is not None
    calls = [event.payload["tool_use_id"] for event in session.events if "tool_use_id" in event.payload]
    assert set(calls) == {"unified_exec_startup"}


def test_a_command_that_codex_leaves_running_is_told_once_when_it_has_ended() -> None:
    script = 'text(await tools.exec_command({"cmd": "make watch", "yield_time_ms": 300}));'
    call = {"type": "custom_tool_call", "name": "exec", "input": script, "call_id": "call_1"}
    printed = 'Script completed\nOutput:\n{"chunk_id":"82d04d","session_id":83728,"output":"begun\\n"}'
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": printed}
    item = {"type": "CommandExecution", "id": "exec-1", "command": ["make watch"], "status": "completed"}
    made, ended = codex(call, output), codex({"type": "item_completed", "item": item}, kind="event_msg")
    made = made.replace(b"0.42.0", b"0.171.0")
    running = read_session("codex", made, {})
    over = read_session("codex", made + ended, {})

    assert [name for name, _, _ in told(running)] == ["UserPromptSubmit"]
    assert over is not None
    calls = [event.payload.get("tool_use_id") for event in over.events if "tool_use_id" in event.payload]
    assert calls == ["exec-1", "exec-1"]


def test_what_codex_used_for_a_compaction_is_of_the_turn_that_needed_it() -> None:
    """A resumed session reports its last count again, before the first request of a turn."""

    def use(name: str, tokens: int) -> list[dict[str, Any]]:
        record = {"type": "token_usage_record", "payload": {"response_id": name, "usage": {"input_tokens": tokens}}}
        return [record, count(tokens)]

    def count(tokens: int) -> dict[str, Any]:
        return event(type="token_count", info={"last_token_usage": {"input_tokens": tokens}})

    def item(kind: str, text: str) -> dict[str, Any]:
        return event(type="item_completed", item={"type": kind, "content": [{"type": "text", "text": text}]})

    def event(**payload: Any) -> dict[str, Any]:
        return {"type": "event_msg", "payload": payload}

    begin, end = event(type="task_started"), event(type="task_complete")
    first = [begin, item("UserMessage", "go"), *use("r1", 90), item("AgentMessage", "done"), end]
    again = [begin, count(90), *use("r2", 60), count(0), item("UserMessage", "go on"), *use("r3", 7)]
    more = [item("UserMessage", "and that"), *use("r4", 3), item("AgentMessage", "done too"), end]
    meta = {"type": "session_meta", "payload": {"id": "s", "cwd": "/p"}}
    data = lines(*({"timestamp": AT.format(1), **line} for line in (meta, *first, *again, *more)))
    session = read_session("codex", data, {})
    *_, before, last = read_turns(find_dialect("codex"), data)

    assert session is not None
    stops = [event.facts.tokens for event in session.events if event.facts is not None]
    prompts = [event.payload["prompt"] for event in session.events if "prompt" in event.payload]
    assert (stops, prompts) == ([{"input": 90}, {"input": 70}], ["go", "go on", "and that"])
    assert (before.tokens, last.tokens) == ({"input": 90}, {"input": 70})


def test_a_session_of_gemini_that_is_one_object() -> None:
    answer = {"functionResponse": {"response": {"output": "Output: x\nExit Code: 3\n"}}}
    call = {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}, "result": [answer], "status": "success"}
    messages = [
        {"id": "1", "timestamp": AT.format(1), "type": "user", "content": "fix it"},
        {"id": "2", "timestamp": AT.format(2), "type": "gemini", "content": "done", "toolCalls": [call]},
    ]
    session = read_session("gemini", json.dumps({"sessionId": "s", "messages": messages}, indent=2).encode(), {}, "/p")

    assert [name for name, _, _ in told(session)] == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
    assert session is not None and session.cwd == "/p"


def test_the_last_turn_of_a_session_that_is_over_has_no_end_where_its_transcript_was_cut() -> None:
    """What was cut may come back, and would be counted twice."""
    asked = {"id": "1", "timestamp": AT.format(1), "type": "user", "content": "fix it", "sessionId": "s"}
    answer = {"id": "2", "timestamp": AT.format(2), "type": "gemini", "content": "", "tokens": {"input": 5}}
    data = lines(asked, answer)
    sessions = [read_session("gemini", read, {}, is_over=True) for read in (data, data + b'{"id": "3", "ti')]

    assert [[name for name, _, _ in told(session)] for session in sessions] == [
        ["UserPromptSubmit", "Stop"],
        ["UserPromptSubmit"],
    ]


def _say(second: int, name: str, used: int, *parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": used}
    message = {"id": name, "role": "assistant", "model": "claude-x", "content": list(parts), "usage": usage}
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(second), "type": "assistant"}
    return {**head, "message": message, **members}


def _ask(second: int, content: object, **members: Any) -> dict[str, Any]:
    head = {"type": "user", "sessionId": "s", "cwd": "/p", "timestamp": AT.format(second)}
    return {**head, "message": {"role": "user", "content": content}, **members}


def _used(session: Session | None) -> list[tuple[str, int]]:
    assert session is not None
    turns = [(item.payload["hook_event_name"], item.facts.tokens) for item in session.events if item.facts]
    return [(name, tokens["output"]) for name, tokens in turns if tokens]


def test_a_question_beside_the_conversation_is_not_told_with_the_copy_of_the_conversation_it_begins_with() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a.py"}}
    result = [{"type": "tool_result", "tool_use_id": "c1", "content": "a"}]
    text = {"type": "text", "text": "done"}
    main = [_ask(0, "fix it"), _say(1, "m1", 30, call), _ask(2, result), _say(3, "m2", 40, text)]
    aside = [*main, _ask(4, "This is a side question"), _say(5, "m3", 7, text)]

    session = read_session("claude-code", lines(*main), {"aside_question-1": lines(*aside)})

    assert _used(session) == [("Stop", 70), ("SubagentStop", 7)]
    assert [name for name, _, _ in told(session)].count("PreToolUse") == 1


def test_what_a_turn_used_that_ended_in_an_error_of_the_service_is_told_once_it_cannot_go_on() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a.py"}}
    result = [{"type": "tool_result", "tool_use_id": "c1", "content": "a"}]
    failed = _say(3, "e1", 0, {"type": "text", "text": "API Error: 403"}, isApiErrorMessage=True)
    turn = [_ask(0, "fix it"), _say(1, "m1", 30, call), _ask(2, result), failed]

    going_on = read_session("claude-code", lines(*turn), {})
    over = read_session("claude-code", lines(*turn, _ask(4, "again")), {})

    assert _used(going_on) == []
    assert _used(over) == [("Stop", 30)]
    assert [name for name, _, _ in told(over)][-2:] == ["Stop", "UserPromptSubmit"]


def test_what_claude_code_writes_under_a_persons_name_is_no_prompt() -> None:
    head = {"type": "user", "sessionId": "s", "cwd": "/p", "timestamp": AT.format(0)}
    typed = [
        "<command-name>/compact</command-name>",
        "<local-command-stdout>Compacted</local-command-stdout>",
        "<bash-input>make</bash-input>",
        "<bash-stdout>all of it is made</bash-stdout><bash-stderr></bash-stderr>",
        "[Request interrupted by user]",
        "<ide_selection>The user selected a line.</ide_selection>",
        [
            {"type": "text", "text": "<ide_opened_file>The user opened a.py.\n</ide_opened_file>"},
            {"type": "text", "text": "fix it"},
        ],
    ]
    data = lines(
        *({**head, "message": {"role": "user", "content": text}} for text in typed),
        {**head, "isMeta": True, "message": {"content": "a reminder"}},
        {**head, "isCompactSummary": True, "message": {"content": "This session is being continued"}},
        {**head, "isSidechain": True, "message": {"content": "of a subagent"}},
        {**head, "type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}},
    )

    session = read_session("claude-code", data, {})
    assert session is not None
    assert [name for name, _, _ in told(session)] == ["Interrupt", "UserPromptSubmit", "PreCompact"]
    assert session.events[1].payload["prompt"] == "fix it"


def test_a_command_of_claude_code_that_the_model_is_told_is_a_prompt() -> None:
    """The program's own begin with the name; a skill that the model loads has no slash."""
    asked = "<command-message>commit</command-message>\n<command-name>/commit</command-name>"
    typed = [
        f"{asked}\n<command-args>the login test</command-args>",
        asked,
        "<command-message>pdf</command-message>\n<command-name>pdf</command-name>",
        "<command-name>/model</command-name>\n<command-message>model</command-message>",
    ]

    session = read_session("claude-code", lines(*(_ask(at, text) for at, text in enumerate(typed))), {})
    assert session is not None

    assert [item.payload["prompt"] for item in session.events] == ["/commit the login test", "/commit"]


def test_what_a_fork_copied_is_left_to_the_session_that_told_it() -> None:
    """Claude Code writes all of a session into its fork, and says on each answer whose it was."""
    head = {"sessionId": "fork", "cwd": "/p", "timestamp": AT.format(0)}
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "src"}
    own = [
        {**head, "type": "user", "message": {"content": "another way"}},
        {**head, "type": "assistant", "message": {"id": "m3", "content": [{"type": "text", "text": "Done."}]}},
    ]
    for mark in ({"requestSessionId": "first"}, {"forkedFrom": {"sessionId": "first", "messageUuid": "u"}}):
        data = lines(
            {**head, "type": "user", "message": {"content": "fix it"}},
            {**head, "type": "assistant", **mark, "message": {"id": "m1", "content": [used]}},
            {**head, "type": "user", "message": {"content": [result]}},
            {**head, "type": "assistant", **mark, "message": {"id": "m2", "usage": {"input_tokens": 5}}},
            *own,
        )

        assert whole(read_session("claude-code", data, {})) == whole(read_session("claude-code", lines(*own), {}))


def test_a_command_of_claude_code_that_a_person_interrupted_was_not_refused() -> None:
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(0)}
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "The tool use was rejected"}
    for more, name in (({}, "PostToolUseFailure"), ({"toolDenialBeforeRun": True}, "PermissionDenied"),
                       ({"permissionDecision": {"decision": "reject"}}, "PermissionDenied")):  # fmt: skip
        data = lines(
            {**head, "type": "assistant", "message": {"id": "m", "content": [used]}},
            {**head, "type": "user", "toolDenialKind": "user-rejected", **more, "message": {"content": [result]}},
        )

        assert [event for event, _, _ in told(read_session("claude-code", data, {}))] == ["PreToolUse", name]


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("To tell you how to proceed, the user said:\nUse git.", ("PermissionDenied", "Bash", None)),
        ("", ("PostToolUseFailure", "Bash", "unknown")),
    ],
)
def test_a_call_was_refused_by_whoever_said_why_to_versions_of_claude_code_that_name_no_kind(
    said: str, ended: tuple[str, str, str | None]
) -> None:
    """Of one without a word they say the same where it ran until a person stopped it."""
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(0), "version": "2.1.44"}
    text = f"The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …). {said}"
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": text}
    told_as = f"Error: {text}" if said else "User rejected tool use"
    data = lines(
        {**head, "type": "assistant", "message": {"id": "m", "content": [used]}},
        {**head, "type": "user", "toolUseResult": told_as, "message": {"content": [result]}},
    )

    assert told(read_session("claude-code", data, {}))[-1] == ended


@pytest.mark.parametrize(
    ("version", "failed", "ended"), [("2.1.44", False, "PostToolUse"), ("2.1.180", True, "PostToolUseFailure")]
)
def test_what_a_tool_says_of_a_refusal_is_none(version: str, failed: bool, ended: str) -> None:
    """A tool of an MCP server can print what the program writes of a call that a person refused."""
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(0), "version": version}
    text = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …)"
    used = {"type": "tool_use", "id": "t1", "name": "mcp__x__ask", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": failed, "content": text}
    data = lines(
        {**head, "type": "assistant", "message": {"id": "m", "content": [used]}},
        {**head, "type": "user", "toolUseResult": f"Error: {text}", "message": {"content": [result]}},
    )

    assert told(read_session("claude-code", data, {}))[-1][0] == ended


def test_a_command_of_claude_code_that_ends_in_the_background_amid_a_turn_ends_when_that_is_queued() -> None:
    head = {"sessionId": "s", "cwd": "/p"}
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make", "run_in_background": True}}
    begun = {"type": "tool_result", "tool_use_id": "t1", "content": "running"}
    told = "<task-notification>\n<tool-use-id>t1</tool-use-id>\n<status>completed</status>\n<summary>{}</summary>"
    queued = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"}
    data = lines(
        {**head, "timestamp": AT.format(0), "type": "assistant", "message": {"id": "m", "content": [used]}},
        {**head, "timestamp": AT.format(1), "type": "user", "toolUseResult": {"backgroundTaskId": "b1"},
         "message": {"content": [begun]}},
        {**queued, "timestamp": AT.format(2), "content": f"and then {told}"},
        {**queued, "timestamp": AT.format(3), "content": told.format('"make" failed (exit code 2)')},
        {**queued, "timestamp": AT.format(4), "operation": "remove", "content": told.format("")},
    )  # fmt: skip
    session = read_session("claude-code", data, {})

    assert session is not None
    assert [(item.at, item.status) for item in session.events][2:] == [(parse_time(AT.format(3)), "error")]


def _run_in_background() -> list[dict[str, Any]]:
    """A turn that begins a command in the background, and ends while that runs."""
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make", "run_in_background": True}}
    begun = [{"type": "tool_result", "tool_use_id": "t1", "content": "running"}]
    return [
        _ask(0, "make it"),
        _say(1, "m1", 3, used),
        _ask(2, begun, toolUseResult={"backgroundTaskId": "b1"}),
        _say(3, "m2", 5, {"type": "text", "text": "It runs."}),
    ]


@pytest.mark.parametrize(("name", "code"), [("", 2), ("<tool-use-id>t1</tool-use-id>\n", 0)])
def test_what_claude_code_is_told_of_a_command_in_the_background_begins_a_turn(name: str, code: int) -> None:
    """What it had answered before was lost; versions until 2.1.42 name the task and not the call."""
    ended = f'<status>completed</status>\n<summary>"make" ended (exit code {code})</summary>'
    notice = f"<task-notification>\n<task-id>b1</task-id>\n{name}{ended}\n</task-notification>"
    data = lines(*_run_in_background(), _ask(4, notice), _say(5, "m3", 7, {"type": "text", "text": "It is made."}))
    session = read_session("claude-code", data, {})

    assert session is not None
    assert _used(session) == [("Stop", 8), ("Stop", 7)]
    words = [item.payload.get("last_assistant_message") for item in session.events]
    assert [word for word in words if word] == ["It runs.", "It is made."]
    assert [item.status for item in session.events if item.status] == ["error" if code else "ok"]


def test_a_command_in_the_background_that_waits_for_an_answer_has_not_ended() -> None:
    """Claude Code tells its model so since 2.1.84, without a status: the command was said to have failed."""
    waits = '<summary>Background command "make" appears to be waiting for interactive input</summary>'
    stuck = f"<task-notification>\n<task-id>b1</task-id>\n{waits}\n</task-notification>\nLast:\n<status>failed</status>"
    made = '<status>completed</status>\n<summary>"make" completed (exit code 0)</summary>'
    ended = f"<task-notification>\n<task-id>b1</task-id>\n{made}\n</task-notification>"
    session = read_session("claude-code", lines(*_run_in_background(), _ask(4, stuck), _ask(6, ended)), {})

    assert session is not None
    assert [(item.at, item.status) for item in session.events if item.status] == [(parse_time(AT.format(6)), "ok")]


def test_a_command_in_the_background_that_claude_code_waits_for_ended_as_the_task_says() -> None:
    waited = {"type": "tool_use", "id": "t2", "name": "TaskOutput", "input": {"task_id": "b1", "block": True}}
    answer = [{"type": "tool_result", "tool_use_id": "t2", "content": "<exit_code>5</exit_code>"}]
    for task, status in (
        ({"exitCode": None}, []),
        ({"exitCode": 5}, ["error"]),
        ({"exitCode": 5, "task_id": "b9"}, []),
    ):
        result = {"retrieval_status": "success", "task": {"task_id": "b1", **task}}
        asked = [_ask(4, "and?"), _say(5, "m3", 7, waited), _ask(6, answer, toolUseResult=result)]
        session = read_session("claude-code", lines(*_run_in_background(), *asked), {})

        assert session is not None
        assert [item.status for item in session.events if item.status] == status


def test_an_image_without_a_word_begins_a_turn_of_claude_code() -> None:
    """The answer before it was lost."""
    said = [_say(place, f"m{place}", place, {"type": "text", "text": f"Answer {place}."}) for place in (1, 3)]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    session = read_session("claude-code", lines(_ask(0, "fix it"), said[0], _ask(2, [image]), said[1]), {})

    assert _used(session) == [("Stop", 1), ("Stop", 3)]


def test_what_another_agent_of_its_team_wrote_to_claude_code_was_asked_by_no_person() -> None:
    wrote = '<teammate-message teammate_id="team-lead">\nYou tune the cache.\n</teammate-message>'
    answer = _say(3, "m2", 7, {"type": "text", "text": "Tuned."})
    lead = [_ask(0, "make it fast"), _say(1, "m1", 3, {"type": "text", "text": "Begun."}), _ask(2, wrote), answer]
    session = read_session("claude-code", lines(*lead), {})
    of_a_member = read_session("claude-code", lines(_ask(2, wrote), answer), {})

    assert session is not None and of_a_member is not None
    assert [item.event.event for item in iter_events(session, "/p")] == ["prompt", "turn", "turn"]
    assert [item.event.event for item in iter_events(of_a_member, "/p")] == ["turn"]
    assert of_a_member.events[0].payload["prompt"] == wrote, "what its record says that it was to do"


@pytest.mark.parametrize("kind", ["interrupted", "cancelled"])
def test_a_call_of_claude_code_whose_program_ended_first_was_not_refused_and_has_no_known_end(kind: str) -> None:
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(0)}
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "its outcome is unknown"}
    data = lines(
        {**head, "type": "assistant", "message": {"id": "m", "content": [used]}},
        {**head, "type": "user", "toolDenialKind": kind, "message": {"content": [result]}},
    )

    assert told(read_session("claude-code", data, {}))[-1] == ("PostToolUseFailure", "Bash", "unknown")
    assert read_facts(find_dialect("claude-code"), data).denied == {}


def test_a_command_of_a_persons_own_ends_a_turn_of_claude_code() -> None:
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(0)}
    said = [{**head, "type": "assistant", "message": {"id": text, "content": [{"type": "text", "text": text}]}}
            for text in ("First.", "Second.")]  # fmt: skip
    typed = [
        {**head, "type": "user", "message": {"content": text}} for text in ("fix it", "<bash-input>ls</bash-input>")
    ]
    session = read_session("claude-code", lines(typed[0], said[0], typed[1], said[1]), {})

    assert session is not None
    assert [item.payload.get("last_assistant_message") for item in session.events] == [None, "First.", "Second."]


def test_a_subagent_names_the_one_that_began_it_and_leads_back_to_its_stage() -> None:
    """Claude Code says it in a file beside the transcript, whose line is read before the others."""
    used = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    turn = {"type": "assistant", "message": {"id": "m", "content": [used]}}
    common = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(2)}
    main = lines({**common, "type": "user", "message": {"content": "fix it"}})
    others = {
        "a2": lines({"agentType": "looker", "parentAgentId": "a1"}, {**common, **turn}),
        "a1": lines({"agentType": "reviewer"}, {**common, **turn}),
    }
    session = read_session("claude-code", main, others)

    assert session is not None
    ends = [item.payload for item in session.events if item.payload["hook_event_name"] == "SubagentStop"]
    assert session.above == {"a2": "a1"}
    assert {end["agent_id"]: (end["agent_type"], end.get("returns_to")) for end in ends} == {
        "a1": ("reviewer", None),
        "a2": ("looker", "subagent:reviewer"),
    }


def test_times_that_are_none_or_go_back_leave_the_order_of_the_lines() -> None:
    head = {"type": "user", "sessionId": "s", "cwd": "/p", "timestamp": "yesterday"}
    data = lines(*({**head, "message": {"content": text}} for text in ("one", "two", "three")))
    session = read_session("claude-code", data, {})

    assert session is not None
    assert [item.payload["prompt"] for item in session.events] == ["one", "two", "three"]


def test_the_first_bytes_of_what_is_no_plain_file_are_none(tmp_path: Path) -> None:
    """A hook names the transcript: it would wait for good at a FIFO that nobody writes to."""
    plain, pipe = tmp_path / "plain.jsonl", tmp_path / "pipe.jsonl"
    plain.write_bytes(b"x" * 64)
    os.mkfifo(pipe)
    fd = os.open(pipe, os.O_RDWR)
    os.write(fd, b"x" * 64)
    read = [read_head(str(path), 64) for path in (plain, pipe, tmp_path, tmp_path / "none")]
    os.close(fd)

    assert read == [b"x" * 64, b"", b"", b""]


def gemini(*values: dict[str, Any]) -> bytes:
    return lines({"sessionId": "s", "startTime": AT.format(0)}, *({"timestamp": AT.format(1), **one} for one in values))


def list_prompts(session: Session | None) -> list[str]:
    assert session is not None
    return [item.payload["prompt"] for item in session.events if "prompt" in item.payload]


def list_ends(session: Session | None) -> list[tuple[str, str | None]]:
    assert session is not None
    return [
        (item.payload["tool_use_id"], item.status or item.payload["hook_event_name"])
        for item in session.events
        if "tool_use_id" in item.payload and item.payload["hook_event_name"] != "PreToolUse"
    ]


def list_used(session: Session | None) -> list[dict[str, int]]:
    assert session is not None
    return [item.facts.tokens for item in session.events if item.facts is not None]


def test_what_gemini_writes_again_when_a_person_denied_a_call_and_what_they_ran_is_no_prompt() -> None:
    ran = "I ran the following shell command:\n```sh\nls\n```\n\nThis produced the following result:\n```\n```"
    context = [{"text": "<session_context>\nThis is the Gemini CLI."}]
    asked = [{"text": text} for text in ("fix it", ran, "remove it")]
    error = {"functionResponse": {"response": {"error": "[Operation Cancelled] Reason: User denied execution."}}}
    denied = {"id": "c1", "name": "run_shell_command", "args": {"command": "rm a"}, "status": "cancelled"}
    answer = {"type": "gemini", "content": "Done.", "tokens": {"input": 7}}
    again: list[dict[str, Any]] = [
        {"type": "user", "content": context},
        {"type": "user", "content": [asked[0]]},
        {"type": "gemini", "content": [{"text": "Done."}], "tokens": None},
        {"type": "user", "content": asked[1:]},
    ]
    data = gemini(
        {"$set": {"messages": [{"type": "user", "content": context}]}},
        {"type": "user", "content": [asked[0]]},
        {"id": "a1", **answer},
        {"type": "user", "content": [asked[1]]},
        {"type": "user", "content": [asked[2]]},
        {"id": "a2", **answer, "content": "", "toolCalls": [{**denied, "result": [error]}]},
        *again,
        {"$set": {"messages": again}},
        {"type": "user", "content": [{"text": "go on"}]},
        {"id": "a3", **answer},
    )
    session = read_session("gemini", data, {})

    assert list_prompts(session) == ["fix it", "remove it", "go on"]
    assert (list_used(session), list_ends(session)) == ([{"input": 7}] * 3, [("c1", "denied")])
    assert [turn.text for turn in read_turns(find_dialect("gemini"), data) if turn.text] == ["Done.", "Done."]


def test_a_command_that_a_person_interrupted_was_not_denied() -> None:
    """Gemini CLI writes the line of a call that was interrupted when it has ended."""
    reasons = {"c1": "User denied execution.", "c2": "Operation cancelled by user"}
    calls = [
        {"id": name, "name": "run_shell_command", "status": "cancelled", "timestamp": AT.format(1), "result": [part]}
        for name, reason in reasons.items()
        for part in [{"functionResponse": {"response": {"error": f"[Operation Cancelled] Reason: {reason}"}}}]
    ]
    answer = {"type": "gemini", "content": "", "timestamp": AT.format(2), "toolCalls": calls}
    session = read_session("gemini", gemini({"type": "user", "content": "go"}, answer), {})

    assert list_ends(session) == [("c1", "denied"), ("c2", "error")]
    names = [name for name, _, _ in told(session)]
    assert names == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "PreToolUse", "PostToolUse"]

    error = "requires permission, but background agents cannot prompt for confirmation. The tool call was denied."
    ends = [
        {"callId": "c1", "status": "cancelled", "executionStatus": "not_started"},
        {"callId": "c2", "status": "cancelled", "executionStatus": "cancelled"},
        {"callId": "c3"},
    ]
    made = [{"functionCall": {"id": f"c{number}", "name": "run_shell_command", "args": {}}} for number in (1, 2, 3)]
    head = {"sessionId": "s", "cwd": "/p", "timestamp": AT.format(1)}
    results = [
        {**head, "type": "tool_result", "toolCallResult": end, "message": {"parts": [{"functionResponse": response}]}}
        for end in ends
        for response in [{"response": {"error": error if len(end) == 1 else "[Operation Cancelled] Reason: …"}}]
    ]
    session = read_session("qwen", lines({**head, "type": "assistant", "message": {"parts": made}}, *results), {})

    assert list_ends(session) == [("c1", "denied"), ("c2", "error"), ("c3", "denied")]


def test_an_edit_that_was_denied_by_a_transcript_is_no_patch() -> None:
    error = {"error": "[Operation Cancelled] Reason: User denied execution."}
    call: dict[str, Any] = {
        "id": "c1",
        "name": "replace",
        "args": {"file_path": "/p/a.py", "old_string": "a", "new_string": "b"},
    }
    call |= {"status": "cancelled", "result": [{"functionResponse": {"response": error}}]}
    session = read_session("gemini", gemini({"type": "gemini", "content": "", "toolCalls": [call]}), {}, "/p")

    assert session is not None
    assert [item.kind for item in iter_events(session, "/p")] == ["tool_call", "tool_result", "approval"]


def test_what_copilot_says_at_its_end_of_what_each_model_used_is_told() -> None:
    """Versions until 1.0.60 say it of no request, and count what went into a cache as input, too."""
    usage = {"inputTokens": 30, "outputTokens": 4, "cacheReadTokens": 20, "cacheWriteTokens": 7, "reasoningTokens": 1}
    ended = {"modelMetrics": {"m": {"usage": usage}, "small": {"usage": {"inputTokens": 5, "outputTokens": 2}}}}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("session.start", {"sessionId": "s", "context": {"cwd": "/p"}}),
        ("user.message", {"content": "fix it"}),
        ("assistant.message", {"content": "Done."}),
        ("session.shutdown", ended),
        ("session.resume", {}),
        ("session.shutdown", {"modelMetrics": {}}),
    ]
    told_by_request = [("session.usage_record", {"usage": {"model": "m", "inputTokens": 1}})]

    def read(steps: list[tuple[str, dict[str, Any]]]) -> list[tuple[Any, ...]]:
        stamped = [{"timestamp": AT.format(at), "type": kind, "data": data} for at, (kind, data) in enumerate(steps)]
        session = read_session("copilot", lines(*stamped), {})
        assert session is not None
        return [(item.facts.text, item.facts.model, item.facts.tokens) for item in session.events if item.facts]

    used = {"input": 3, "cache_read": 20, "cache_write": 7, "output": 4, "thinking": 1}
    assert read(steps) == [("Done.", "m", used), (None, "small", {"input": 5, "output": 2})]
    assert read(steps[:3] + told_by_request + steps[3:]) == [("Done.", "m", {"input": 1})]


def test_what_copilot_is_told_of_a_command_in_the_background_is_a_turn_and_an_abort_an_interruption() -> None:
    def use(tokens: int) -> dict[str, Any]:
        return {"type": "session.usage_record", "data": {"usage": {"model": "m", "inputTokens": tokens}}}

    def begin(name: str) -> dict[str, Any]:
        data = {"toolCallId": name, "toolName": "bash", "arguments": {"command": name}}
        return {"type": "tool.execution_start", "data": data}

    refused = {"toolCallId": "rm b", "result": {"kind": "cancelled", "reason": "Session aborted"}}
    values = (
        {"type": "session.start", "data": {"sessionId": "s", "context": {"cwd": "/p"}}},
        {"type": "user.message", "data": {"content": "go"}},
        use(5),
        {"type": "assistant.message", "data": {"content": "Done."}},
        {"type": "system.notification", "data": {"content": "<system_notification>\nShell command completed"}},
        use(7),
        {"type": "assistant.message", "data": {"content": "It ran."}},
        {"type": "user.message", "data": {"content": "go on"}},
        begin("sleep 9"),
        begin("rm b"),
        {"type": "permission.completed", "data": refused},
        {"type": "abort", "data": {"reason": "user_initiated"}},
    )
    data = lines(*({"timestamp": AT.format(1), **value} for value in values))
    session = read_session("copilot", data, {})

    assert (list_prompts(session), list_used(session)) == (["go", "go on"], [{"input": 5}, {"input": 7}])
    assert list_ends(session) == [("rm b", "PermissionDenied")]
    assert told(session)[-1] == ("Interrupt", None, None)
    assert [turn.tokens for turn in read_turns(find_dialect("copilot"), data)][1:3] == [{"input": 5}, {"input": 7}]


def test_what_a_person_ran_in_opencode_is_no_call_and_a_prompt_that_waited_begins_no_turn() -> None:
    by_hand = {"type": "text", "text": "The following tool was executed by the user", "synthetic": True}

    def call(name: str) -> dict[str, Any]:
        return {"type": "tool", "tool": "bash", "callID": name, "state": {"status": "completed", "input": {}}}

    def answer(parent: str, tokens: int, completed: int) -> dict[str, Any]:
        return {"role": "assistant", "parentID": parent, "tokens": {"input": tokens}, "time": {"completed": completed}}

    rows: list[dict[str, Any]] = [{"table": "session", "id": "s", "directory": "/p", "time_created": 1}]
    for name, at, message, part in (
        ("m1", 2, {"role": "user"}, {"type": "text", "text": "go"}),
        ("m2", 3, answer("m1", 5, 9), call("c1")),
        ("m3", 6, {"role": "user"}, {"type": "text", "text": "and that"}),
        ("m4", 10, answer("m3", 7, 11), {"type": "text", "text": "Done."}),
        ("m5", 12, {"role": "user"}, by_hand),
        ("m6", 13, answer("m5", 0, 14), call("c2")),
    ):
        rows.append({"table": "message", "id": name, "time_created": at, "data": message})
        rows.append({"table": "part", "id": f"p{name}", "message_id": name, "time_created": at, "data": part})
    session = read_session("opencode", lines(*rows), {})

    assert (list_prompts(session), list_used(session)) == (["go", "and that"], [{"input": 12}])
    assert session is not None
    assert {item.payload.get("tool_use_id") for item in session.events} == {"c1", None}


def test_what_earlier_versions_of_codex_say_is_their_answer_and_a_count_that_is_repeated_is_one() -> None:
    def count(total: int, last: int) -> dict[str, Any]:
        stated = {"total_token_usage": {"output_tokens": total}, "last_token_usage": {"output_tokens": last}}
        return {"type": "token_count", "info": stated}

    begun: list[dict[str, Any]] = [{"type": "task_started"}, {"type": "token_count", "info": None}]
    first = [*begun, count(3, 3), count(3, 3)]
    said = [{"type": "agent_message", "message": "fixed"}, count(7, 4), {"type": "task_complete"}]
    again = [*begun, {"type": "user_message", "message": "again"}, count(7, 4), count(12, 5)]
    session = read_session("codex", codex(*first, *said, *again, said[0], said[-1], kind="event_msg"), {})

    assert _used(session) == [("Stop", 7), ("Stop", 5)]
    assert session is not None
    assert [item.facts.text for item in session.events if item.facts] == ["fixed", "fixed"]


def test_what_a_turn_of_codex_used_is_told_though_it_failed_without_a_word() -> None:
    used = {"type": "token_count", "info": {"last_token_usage": {"output_tokens": 2}}}
    error = {"type": "error", "message": "429"}
    failed: list[dict[str, Any]] = [used, error, {"type": "task_complete", "last_agent_message": None}]
    again = [{"type": "task_started"}, {"type": "user_message", "message": "again"}]

    assert _used(read_session("codex", codex(*failed, kind="event_msg"), {}, is_over=True)) == [("Stop", 2)]
    assert _used(read_session("codex", codex(*failed, *again, kind="event_msg"), {})) == [("Stop", 2)]


def test_what_turns_of_codex_without_a_word_used_is_counted_once_each() -> None:
    used = {"type": "token_count", "info": {"last_token_usage": {"output_tokens": 2}}}
    asked = {"type": "user_message", "message": "again"}
    session = read_session("codex", codex(used, asked, used, asked, used, kind="event_msg"), {}, is_over=True)

    assert _used(session) == [("Stop", 2)] * 3


def test_the_summary_of_a_conversation_is_told_without_the_copy_of_the_conversation_it_begins_with() -> None:
    main = [_ask(0, "fix it"), _say(1, "m1", 30, {"type": "text", "text": "done"})]
    summary = [*main, _ask(2, "Respond with TEXT ONLY."), _say(3, "m2", 7, {"type": "text", "text": "It was fixed."})]
    session = read_session("claude-code", lines(*main), {"acompact-1": lines(*summary)})

    assert _used(session) == [("Stop", 30), ("SubagentStop", 7)]


def test_what_claude_code_writes_again_when_a_session_is_resumed_is_told_once() -> None:
    turn = [_ask(0, "fix it"), _say(1, "m1", 30, {"type": "text", "text": "done"})]
    again = [{**line, "uuid": f"copy-{place}", "version": "2.1.11"} for place, line in enumerate(turn)]
    asked = [_ask(2, "and that"), _say(3, "m2", 4, {"type": "text", "text": "done"})]
    session = read_session("claude-code", lines(*turn, *again, *asked), {})

    assert _used(session) == [("Stop", 30), ("Stop", 4)]
    assert [name for name, _, _ in told(session)] == ["UserPromptSubmit", "Stop"] * 2


def test_the_end_of_a_subagent_that_works_on_is_no_second_end_of_the_call_that_began_it() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Task", "input": {"prompt": "look", "run_in_background": True}}
    launched = {"status": "async_launched", "isAsync": True, "agentId": "a1"}
    result = _ask(2, [{"type": "tool_result", "tool_use_id": "c1", "content": "launched"}], toolUseResult=launched)
    notice = "<task-notification>\n<tool-use-id>c1</tool-use-id>\n<status>completed</status>\n</task-notification>"
    session = read_session("claude-code", lines(_ask(0, "fix it"), _say(1, "m1", 3, call), result, _ask(3, notice)), {})

    assert [name for name, _, _ in told(session)] == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]


def test_the_last_turn_of_a_session_that_is_over_is_told_though_it_failed_or_its_transcript_is_one_object() -> None:
    text = {"type": "text", "text": "done"}
    failed = _say(2, "e1", 0, {"type": "text", "text": "You're out of usage"}, isApiErrorMessage=True)
    claude = lines(_ask(0, "fix it"), _say(1, "m1", 30, text), failed)
    asked = {"id": "1", "timestamp": AT.format(1), "type": "user", "content": "fix it"}
    answer = {"id": "2", "timestamp": AT.format(2), "type": "gemini", "content": "", "tokens": {"output": 5}}
    gemini = json.dumps({"sessionId": "s", "messages": [asked, answer]}).encode()

    assert _used(read_session("claude-code", claude, {}, is_over=True)) == [("Stop", 30)]
    assert _used(read_session("gemini", gemini, {}, is_over=True)) == [("Stop", 5)]
    assert read_session("gemini", gemini[:-4], {}, is_over=True) is None


def test_what_a_subagent_used_that_ended_without_a_word_is_told() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Task", "input": {}}
    inner = [_ask(1, "look"), _say(2, "m2", 7, {"type": "tool_use", "id": "c2", "name": "Read", "input": {}})]
    session = read_session("claude-code", lines(_ask(0, "fix it"), _say(1, "m1", 3, call)), {"a1": lines(*inner)})
    assert session is not None
    turns = [item.event.payload for item in iter_events(session, "/p") if item.event.event == "turn"]

    assert [(turn["agent"], turn["tokens"]) for turn in turns] == [("a1", {"input": 1, "output": 7})]


@pytest.mark.parametrize("source", ["user", "command-review", "schedule-3"])
def test_what_copilot_says_in_a_person_s_name_amid_a_turn_is_no_prompt_and_ends_no_turn(source: str) -> None:
    def say(kind: str, **data: object) -> dict[str, object]:
        return {"type": kind, "timestamp": AT.format(0), "data": data}

    data = lines(
        say("session.start", sessionId="s", context={"cwd": "/p"}),
        say("user.message", content="fix the flaky test", delivery="idle"),
        say("assistant.message", content="I trace it.", model="gpt-5.6-sol"),
        say("user.message", content="", source="system", delivery="steering"),
        say("user.message", content="<system_reminder>AGENTS.md</system_reminder>", source="instruction-discovery"),
        say("assistant.message", content="Fixed.", model="gpt-5.6-sol"),
        say("user.message", content="commit it", source=source),
        say("assistant.message", content="Done.", model="gpt-5.6-sol"),
    )
    session = read_session("copilot", data, {})

    assert session is not None
    said = [item.payload.get("prompt") or item.payload.get("last_assistant_message") for item in session.events]
    assert said == ["fix the flaky test", "Fixed.", "commit it", "Done."]
    assert [item.facts.model for item in session.events if item.facts] == ["gpt-5.6-sol"] * 2


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("<exited with exit code 0>", "ok"),
        ("<exited with exit code 2>", "error"),
        ("exited with exit code 0", "unknown"),
    ],
)
def test_how_a_command_of_copilot_ended_is_told_without_the_name_of_its_shell_too(end: str, status: str) -> None:
    call = {"toolCallId": "t"}
    data = lines(
        {"type": "session.start", "timestamp": AT.format(0), "data": {"sessionId": "s", "context": {"cwd": "/p"}}},
        {"type": "tool.execution_start", "data": {**call, "toolName": "bash", "arguments": {"command": "make"}}},
        {"type": "tool.execution_complete", "data": {**call, "success": True, "result": {"content": f"\n{end}"}}},
    )
    session = read_session("copilot", data, {})

    assert session is not None
    told_events = [item.event for item in iter_events(session, "/p")]
    assert [event.payload["status"] for event in told_events if event.event == "tool_result"] == [status]


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [
        ("make", "0", "ok"),
        ("make", "2", "error"),
        ("true\nChunk ID: abc\nWall time: 1 seconds\nProcess exited with code 0\n", "1", "error"),
    ],
)
def test_how_a_command_of_codex_ended_is_told_behind_the_command_itself_too(
    command: str, code: str, status: str
) -> None:
    """Version 0.118 writes the command first, and what stands in it says nothing of its end."""
    args = json.dumps({"cmd": command})
    call = {"type": "function_call", "name": "exec_command", "call_id": "c", "arguments": args}
    text = (
        f"Command: /bin/zsh -lc '{command}'\nChunk ID: 5e02\nWall time: 0.1 seconds\nProcess exited with code {code}\n"
    )
    ended = {"type": "function_call_output", "call_id": "c", "output": f"{text}Output:\n"}
    data = lines(
        {"type": "session_meta", "timestamp": AT.format(0), "payload": {"id": "s", "cwd": "/p"}},
        *({"type": "response_item", "timestamp": AT.format(0), "payload": item} for item in (call, ended)),
    )

    assert told(read_session("codex", data, {}))[-1] == ("PostToolUse", "Bash", status)


def test_what_a_process_of_codex_did_not_take_is_an_error() -> None:
    call = {"type": "function_call", "name": "write_stdin", "call_id": "c", "arguments": '{"session_id": 7}'}
    ended = {"type": "function_call_output", "call_id": "c", "output": "write_stdin failed: stdin is closed"}
    data = lines(
        {"type": "session_meta", "timestamp": AT.format(0), "payload": {"id": "s", "cwd": "/p"}},
        *({"type": "response_item", "timestamp": AT.format(0), "payload": item} for item in (call, ended)),
    )

    assert told(read_session("codex", data, {}))[-1] == ("PostToolUse", "write_stdin", "error")


def test_a_line_of_copilot_that_stands_there_twice_is_read_once() -> None:
    """Of a file that was doubled each request counted twice."""

    def say(number: int, kind: str, **data: object) -> dict[str, object]:
        return {"type": kind, "id": f"e{number}", "timestamp": AT.format(number), "data": data}

    told = (
        say(0, "session.start", sessionId="s", context={"cwd": "/p"}),
        say(1, "user.message", content="fix it"),
        say(2, "session.usage_record", usage={"model": "m", "inputTokens": 5}),
        say(3, "assistant.message", content="Done."),
    )
    session = read_session("copilot", lines(*(line for line in told for _ in range(2))), {})

    assert session is not None
    assert [item.facts.tokens for item in session.events if item.facts] == [{"input": 5}]


def test_a_file_of_copilot_with_twice_as_many_subagents_takes_twice_as_many_steps() -> None:
    """All of it was read for each of them: 5,000 took minutes."""

    def count(number: int) -> int:
        head = {
            "type": "session.start",
            "timestamp": AT.format(0),
            "data": {"sessionId": "s", "context": {"cwd": "/p"}},
        }
        asked = {"type": "user.message", "timestamp": AT.format(1), "data": {"content": "fix it"}}
        inner = []
        for each in range(number):
            agent = {"agentId": f"a{each}", "timestamp": AT.format(2)}
            call = {"toolName": "bash", "toolCallId": f"c{each}", "arguments": {}}
            inner.append({"type": "subagent.started", "data": {"agentName": "explore"}, **agent})
            inner.append({"type": "tool.execution_start", "data": call, **agent})
        taken = 0

        def trace(frame: Any, event: str, _: object) -> Any:
            nonlocal taken
            taken += event == "line"
            return trace if frame.f_code.co_filename.endswith(("copilot.py", "reading.py")) else None

        sys.settrace(trace)
        try:
            session = read_session("copilot", lines(head, asked, *inner), {})
        finally:
            sys.settrace(None)
        assert len(told(session)) == 1 + 3 * number
        return taken

    assert count(40) < 3 * count(20)


def scripts(*pairs: tuple[str, str]) -> Session:
    """Return the session of a Codex without items whose scripts printed this."""
    items: list[dict[str, Any]] = []
    for number, (script, printed) in enumerate(pairs):
        output = [{"type": "input_text", "text": text} for text in ("Script completed\nOutput:\n", printed)]
        items.append({"type": "custom_tool_call", "name": "exec", "input": script, "call_id": f"c{number}"})
        items.append({"type": "custom_tool_call_output", "call_id": f"c{number}", "output": output})
    session = read_session("codex", codex(*items), {})
    assert session is not None
    return session


def commands_of(session: Session) -> list[object]:
    begun = [event.payload for event in session.events if "tool_input" in event.payload]
    return [payload["tool_input"]["command"] for payload in begun if "tool_response" not in payload]


def test_commands_of_scripts_are_read_as_models_spell_them() -> None:
    given = [
        """const r = await tools.exec_command({cmd:"rg -n \\"a|b\\" \\u00e9", workdir: '/p', tty: true}); text(r)""",
        "const cmd = 'it\\'s';\ntext((await tools.exec_command({cmd: cmd, env: [{a: 1}, 'b',],})).output)",
        'await Promise.all([tools.exec_command({cmd: `ls\n-l`}), tools.exec_command({"cmd": "pwd"})]);',
    ]
    unknown = [
        "tools.exec_command({cmd: `ls ${x}`})",
        "tools.exec_command({cmd})",
        "tools.exec_command({cmd: 'a' + b})",
    ]
    unknown += ["tools.exec_command({})", "tools.exec_command(] 'ls'", "tools.exec_command({cmd: ['ls']})"]
    hostile = ["tools.exec_command({a:" * 2_000, "tools.exec_command('" * 2_000, "tools.exec_command(["]
    read = scripts(*((script, "") for script in given))
    left = scripts(*((script, "") for script in unknown + hostile))

    assert commands_of(read) == ['rg -n "a|b" é', "it's", "ls\n-l\npwd"]
    assert {event.payload["tool_name"] for event in left.events if "tool_name" in event.payload} == {"exec"}


def test_a_patch_that_a_script_names_is_told_with_what_an_older_codex_says_of_it() -> None:
    patch = "*** Begin Patch\n*** Update File: /p/a.py\n*** Move to: /p/b.py\n@@\n-x\n+y\n*** End Patch"
    script = f"const patch = {json.dumps(patch)};\ntext(await tools.apply_patch(patch));"
    call = {"type": "custom_tool_call", "name": "exec", "input": script, "call_id": "c1"}
    changes = {"/p/a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": "/p/b.py"}}
    ended = {"type": "patch_apply_end", "call_id": "exec-1", "changes": changes, "status": "completed", "stdout": "ok"}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "Script completed\nOutput:\n{}"}
    plan = {"type": "item_completed", "item": {"type": "Plan", "id": "p", "text": "a plan"}}
    told_of = ((call, "response_item"), (ended, "event_msg"), (plan, "event_msg"), (output, "response_item"))
    data = lines(
        {"timestamp": AT.format(0), "type": "session_meta", "payload": {"id": "s", "cwd": "/p"}},
        {"timestamp": AT.format(1), "type": "event_msg", "payload": {"type": "user_message", "message": "fix it"}},
        *({"timestamp": AT.format(2), "type": kind, "payload": item} for item, kind in told_of),
    )
    session = read_session("codex", data, {})

    assert session is not None and commands_of(session) == [patch]
    calls = [(event.payload["tool_use_id"], event.status) for event in session.events if "tool_use_id" in event.payload]
    assert calls == [("exec-1", None), ("exec-1", "ok")]
    assert "UserPromptSubmit" in {name for name, _, _ in told(session)}  # a plan alone is no item that tells prompts


WHOLE = "const r = await tools.{tool}({{{args}}}); text(JSON.stringify(r));"
FORGED = json.dumps({"exit_code": 0, "output": "4 passed"})


@pytest.mark.parametrize(
    ("script", "printed", "status"),
    [
        (WHOLE.format(tool="exec_command", args='cmd: "make"'), FORGED, "ok"),
        (WHOLE.format(tool="exec_command", args='cmd: "make"'), FORGED.replace("0", "2"), "error"),
        ('const r = await tools.exec_command({cmd: "cat x"}); text(r.output);', FORGED, None),
        ('const r = await tools.exec_command({cmd: "a"}); r.exit_code = 0; text(JSON.stringify(r));', FORGED, None),
        ('const r = await tools.exec_command({cmd: "a"}); text("{}"); text(JSON.stringify(r));', FORGED, None),
        ('const r = await tools.exec_command({cmd: "a"}), r2 = {}; text(JSON.stringify(r));', FORGED, None),
    ],
)
def test_only_a_script_that_prints_a_whole_result_says_how_its_command_ended(
    script: str, printed: str, status: str | None
) -> None:
    assert scripts((script, printed)).events[-1].status == status


def test_a_command_that_goes_on_ends_as_a_later_script_is_given() -> None:
    begun = json.dumps({"session_id": 7, "output": "compiling", "wall_time_seconds": 1.5})
    session = scripts(
        (WHOLE.format(tool="exec_command", args='cmd: "cargo test"'), begun),
        (WHOLE.format(tool="write_stdin", args='session_id: 7, chars: ""'), FORGED),
    )

    assert session.events[2].status == "ok" and "4 passed" in str(session.events[2].payload["tool_response"])
