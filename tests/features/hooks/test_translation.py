"""What harnesses send, as run events: every documented payload, and whatever else may come."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.features.hooks.harnesses import find_sender, translate
from specify_cli.features.hooks.payload.outputs import find_printed
from specify_cli.features.hooks.payload.values import MAX_NAME, MAX_PATH, HookInput
from specify_cli.features.hooks.settings.harnesses import HARNESSES
from specify_cli.features.replay.strict_patch import apply_diff
from specify_cli.invocation.events.event_body import Settings, compose_event
from specify_cli.redaction.json_values import parse_foreign
from specify_cli.redaction.redact import shipped_rule_set
from support import count_calls

FIXTURES = Path(__file__).parents[2] / "fixtures/hooks"
REAL_FIXTURES = FIXTURES.parent / "real_hooks"
SETTINGS = Settings(dict.fromkeys(("prompt", "response", "tool_args", "tool_output"), "full"), shipped_rule_set(), None)
ULID = "01K6Z3Q8R00000000000000ABC"


def payload(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def told(name: str) -> HookInput:
    return translate(name.partition("/")[0], payload(name))


def recorded() -> dict[str, tuple[str, Any]]:
    """Every payload the real programs sent, by harness and name: the harness whose hook got it, and the payload."""
    found = {}
    for path in sorted(REAL_FIXTURES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            found[f"{path.stem}/{item['name']}"] = (path.stem, item["payload"])
    return found


REAL = recorded()


def names() -> list[str]:
    return sorted(f"{path.parent.name}/{path.name}" for path in FIXTURES.glob("*/[!_]*.json"))


# fixture → the events in order, each with what tells it: tool or path or stage, and status, kind or side effect.
EXPECTED: dict[str, list[tuple[str, ...]]] = {
    "claude-code/pre-bash.json": [("tool_call", "Bash", "external")],
    "claude-code/pre-read.json": [("tool_call", "Read", "none")],
    "claude-code/pre-mcp.json": [("tool_call", "mcp__memory__create_entities", "external")],
    "claude-code/post-bash.json": [("tool_result", "Bash", "ok")],
    "claude-code/post-write.json": [("tool_result", "Write", "ok"), ("patch_apply", "/work/shop/NOTES.md", "modify")],
    "claude-code/post-write-create.json": [
        ("tool_result", "Write", "ok"),
        ("patch_apply", "/work/shop/new.py", "create"),
    ],
    "claude-code/post-edit.json": [("tool_result", "Edit", "ok"), ("patch_apply", "/work/shop/src/login.py", "modify")],
    "claude-code/post-failure.json": [("tool_result", "Bash", "error")],
    "claude-code/post-do.json": [("tool_call", "Bash", "external"), ("tool_result", "Bash", "ok")],
    "claude-code/permission-denied.json": [("tool_result", "Bash", "denied"), ("approval", "deny")],
    "claude-code/in-subagent.json": [("tool_call", "Grep", "none")],
    "claude-code/subagent-start.json": [("stage_transition", "subagent:Explore")],
    "claude-code/subagent-stop.json": [("stage_transition", "main")],
    "claude-code/stop-failure.json": [("error", "rate_limit")],
    "claude-code/session-start.json": [],
    "claude-code/prompt.json": [],
    "codex/pre-bash.json": [("tool_call", "Bash", "external")],
    "codex/post-bash.json": [("tool_result", "Bash", "unknown")],
    "codex/post-apply-patch.json": [
        ("tool_result", "apply_patch", "ok"),
        ("patch_apply", "src/login.py", "modify"),
        ("patch_apply", "NOTES.md", "create"),
        ("patch_apply", "old.txt", "delete"),
    ],
    "codex/post-do.json": [("tool_call", "Bash", "external"), ("tool_result", "Bash", "unknown")],
    "codex/subagent-start.json": [("stage_transition", "subagent:worker")],
    "codex/subagent-stop.json": [("stage_transition", "main")],
    "cursor/pre-shell.json": [("tool_call", "Shell", "external")],
    "cursor/post-shell.json": [("tool_result", "Shell", "ok")],
    "cursor/post-write.json": [("tool_result", "Write", "ok")],
    "cursor/post-failure.json": [("tool_result", "Shell", "error")],
    "cursor/post-denied.json": [("tool_result", "Shell", "denied"), ("approval", "deny")],
    "cursor/file-edit.json": [("patch_apply", "/work/shop/src/login.py", "modify")],
    "cursor/subagent-start.json": [("stage_transition", "subagent:explore")],
    "cursor/subagent-stop.json": [("stage_transition", "main")],
    "copilot/pre-bash.json": [("tool_call", "Bash", "external")],
    "copilot/post-bash.json": [("tool_result", "Bash", "ok")],
    "copilot/post-write.json": [("tool_result", "Write", "ok"), ("patch_apply", "/work/shop/NOTES.md", "create")],
    "copilot/post-failure.json": [("tool_result", "Bash", "error")],
    "copilot/post-do.json": [("tool_call", "Bash", "external"), ("tool_result", "Bash", "ok")],
    "copilot/vscode-pre.json": [("tool_call", "editFiles", "external")],
    "copilot/vscode-post.json": [("tool_result", "create_file", "ok"), ("patch_apply", "src/main.ts", "modify")],
    "copilot/subagent-stop.json": [("stage_transition", "main")],
    "copilot/error.json": [("error", "ModelError")],
    "gemini/before-shell.json": [("tool_call", "run_shell_command", "external")],
    "gemini/after-shell.json": [("tool_result", "run_shell_command", "ok")],
    "gemini/after-error.json": [("tool_result", "read_file", "error")],
    "gemini/after-replace.json": [("tool_result", "replace", "ok"), ("patch_apply", "/work/shop/a.py", "modify")],
    "gemini/after-write.json": [("tool_result", "write_file", "ok"), ("patch_apply", "/work/shop/b.py", "create")],
    "antigravity/post-command.json": [
        ("tool_call", "run_command", "external"),
        ("tool_result", "run_command", "unknown"),
    ],
    "antigravity/post-write.json": [
        ("tool_call", "write_to_file", "external"),
        ("tool_result", "write_to_file", "ok"),
        ("patch_apply", "/work/shop/NOTES.md", "modify"),
    ],
    "antigravity/post-error.json": [("tool_call", "run_command", "external"), ("tool_result", "run_command", "error")],
    "antigravity/post-bare.json": [],
    "opencode/before.json": [("tool_call", "bash", "external")],
    "opencode/after.json": [("tool_result", "bash", "ok")],
    "opencode/after-edit.json": [("tool_result", "edit", "ok"), ("patch_apply", "/work/shop/a.py", "modify")],
    "opencode/in-child.json": [("tool_call", "grep", "none")],
    "opencode/error.json": [("error", "ProviderAuthError")],
}
_TELLING = {
    "approval": ("decision",),
    "tool_call": ("tool", "side_effect"),
    "tool_result": ("tool", "status"),
    "patch_apply": ("path", "kind"),
    "stage_transition": ("to",),
    "error": ("error_code",),
}


def _read_real(name: str) -> HookInput:
    harness, value = REAL[name]
    return translate(find_sender(harness, value), value)


def test_what_the_real_programs_send_is_read_as_the_list_beside_it_says() -> None:
    found = []
    for name in REAL:
        events = [
            " ".join((event.event, *(str(event.payload[key]) for key in _TELLING[event.event])))
            for event in _read_real(name).events
        ]
        found.append(f"{name}: {'; '.join(events)}".rstrip())

    expected = (REAL_FIXTURES / "_expected.txt").read_text(encoding="utf-8").splitlines()
    assert found == expected


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("gemini/AfterTool-run_shell_command", "ok"),
        ("gemini/AfterTool-run_shell_command-testfails", "error"),
        ("gemini/AfterTool-run_shell_command-cancelled", "error"),
        ("gemini/AfterTool-run_shell_command-fails", "unknown"),  # it went to the background
        ("gemini/AfterTool-invoke_agent-error", "error"),
        ("copilot/PostToolUse-Bash", "ok"),
        ("copilot/PostToolUse-Bash-fails", "error"),
        ("codex/PostToolUse-apply_patch", "ok"),
        ("codex/PostToolUse-Bash-fails", "unknown"),  # only the transcript says it
        ("opencode/tool.execute.after-bash", "ok"),
        ("opencode/tool.execute.after-bash-fails", "error"),
        ("opencode/tool.execute.after-bash-cancelled", "error"),
        ("opencode/tool.execute.after-invalid", "error"),
        ("claude-code/PostToolUse-Bash-fails", "unknown"),  # it went to the background
        ("claude-code/PostToolUseFailure-Bash-fails", "error"),
        ("qwen/PostToolUse-run_shell_command", "ok"),
        ("qwen/PostToolUseFailure-run_shell_command-fails", "error"),
    ],
)
def test_a_command_that_failed_is_never_recorded_as_ok(name: str, status: str) -> None:
    assert [event.payload["status"] for event in _read_real(name).events if event.event == "tool_result"] == [status]


@pytest.mark.parametrize(
    ("harness", "response", "status"),
    [
        ("gemini", "Output: x\nExit Code: 0\nExit Code: 3\nProcess Group PGID: 7", "error"),
        ("gemini", "Output: x\nSignal: 9\nProcess Group PGID: 7", "error"),
        ("gemini", "Output: x\nSignal: (none)\nProcess Group PGID: 7", "ok"),
        # as versions of January 2026 wrote it after each command
        (
            "gemini",
            "Output: x\nError: (none)\nExit Code: 0\nSignal: 0\nBackground PIDs: (none)\nProcess Group PGID: 7",
            "ok",
        ),
        ("gemini", "Output: x\nExit Code: 2\nSignal: 0\nBackground PIDs: (none)\nProcess Group PGID: 7", "error"),
        ("gemini", "Output: Exit Code: 3\nand more\nProcess Group PGID: 7", "ok"),
        ("gemini", "Command was automatically cancelled because it exceeded the timeout", "error"),
        ("gemini", "words of another release", "unknown"),
        ("copilot", "<shellId: 5 completed with exit code 3>\n<shellId: 5 completed with exit code 0>", "ok"),
        ("copilot", "<shellId: 5 completed with exit code 0>\nand more", "unknown"),
        ("copilot", "<shellId: 5 is still running>", "unknown"),
        ("copilot", "Output: x\nExit Code: 0\nProcess Group PGID: 7", "unknown"),
        ("opencode", None, "unknown"),
    ],
)
def test_how_a_command_ended_is_read_where_the_program_writes_it_and_nowhere_in_its_output(
    harness: str, response: str | None, status: str
) -> None:
    event, member = {"gemini": ("AfterTool", "llmContent"), "copilot": ("PostToolUse", "text_result_for_llm")}.get(
        harness, ("tool.execute.after", "output")
    )
    hook = {"hook_event_name": event, "tool_name": "shell", "tool_input": {"command": "x"}}
    more = {"metadata": {"exit": None}} if harness == "opencode" else {}
    (result,) = translate(harness, {**hook, "tool_response": {member: response, **more}}).events

    assert result.payload["status"] == status


@pytest.mark.parametrize(
    "printed",
    ["Exit Code: 0", "Exit Code: 3", "<shellId: 5 completed with exit code 0>", '{"exitCode": 0}', "Signal: 9"],
)
def test_what_a_command_of_codex_printed_says_nothing_of_how_it_ended(printed: str) -> None:
    hook = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "x"}}
    call = translate("codex", {**hook, "tool_response": printed, "transcript_path": "/home/me/rollout.jsonl"})

    assert call.events[0].payload["status"] == "unknown"
    assert call.session_transcript == "/home/me/rollout.jsonl"


# --- texts in pieces


def screen(*lines: str, width: int = 80) -> list[list[dict[str, Any]]]:
    """A terminal's screen as Gemini CLI sends it: lines of cells, padded to the width."""
    return [[{"text": line[:3], "bold": False}, {"text": line[3:].ljust(width - 3), "bg": ""}] for line in lines]


def shown(display: object) -> object:
    hook = {"hook_event_name": "AfterTool", "tool_name": "shell", "tool_response": {"returnDisplay": display}}
    output = translate("gemini", hook).events[0].payload["output"]
    assert isinstance(output, dict)
    return output["returnDisplay"]


def test_a_screen_of_cells_is_one_text_whose_full_lines_go_on_in_the_next() -> None:
    assert shown(screen("one", "x" * 80, "y", "", "")) == "one\n" + "x" * 80 + "y"
    assert shown(screen("wide: " + "\u4e16" * 37 + "z", "y", width=44)) == "wide: " + "\u4e16" * 37 + "zy"


@pytest.mark.parametrize("value", [[], [[]], [[1]], ["a", "b"], [{"text": "a"}], [[{"text": 1}]], {"text": "a"}, "x"])
def test_what_is_no_screen_stays_as_it_came(value: object) -> None:
    assert shown(value) == value


@pytest.mark.parametrize("mode", ["summary", "full"])
def test_no_secret_survives_on_a_screen(mode: str) -> None:
    _, hook = REAL["gemini/AfterTool-run_shell_command-pty"]
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    wrapped = ("token " + token).rjust(103)
    screens = [hook["tool_response"]["returnDisplay"], screen(wrapped[:80], wrapped[80:])]
    settings = SETTINGS._replace(capture=dict.fromkeys(SETTINGS.capture, mode))
    for display in screens:
        (event,) = translate("gemini", {**hook, "tool_response": {"returnDisplay": display}}).events
        done = compose_event(event.event, event.payload, settings, new_id=lambda: "", trace_id="0" * 32)
        text = json.dumps(done.body)

        for secret in (
            "MIIEowIBAAKCAQEAx4fZ",
            "kQ2ZxW7vTn4RbL8mYc1J",
            "2ZxW7vTn4RbL8mYc1JdP",
            token[8:20],
            token[-20:],
        ):
            assert secret not in text


@pytest.mark.parametrize("name", names())
def test_a_documented_payload_is_these_events(name: str) -> None:
    found = [(event.event, *(str(event.payload[key]) for key in _TELLING[event.event])) for event in told(name).events]

    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", names())
def test_every_event_is_taken_by_the_record(name: str) -> None:
    for event in told(name).events:
        body = compose_event(event.event, event.payload, SETTINGS, new_id=lambda: "", trace_id="0" * 32).body

        assert body["event"] == event.event


def test_every_harness_has_payloads_and_every_payload_names_where_it_is_documented() -> None:
    played = {path.stem for path in REAL_FIXTURES.glob("*.jsonl")}
    assert {path.name for path in FIXTURES.iterdir()} | played == set(HARNESSES)
    assert sorted(EXPECTED) == names()
    for folder in FIXTURES.iterdir():
        sources = json.loads((folder / "_source.json").read_text(encoding="utf-8"))

        assert sorted(sources) == sorted(path.name for path in folder.glob("[!_]*.json*"))
        assert all(entry["source"].startswith("https://") for entry in sources.values())


@pytest.mark.parametrize(
    ("name", "session", "subagent", "cwd"),
    [
        ("claude-code/in-subagent.json", "9f1c2a6e-0001", "agent-7", "/work/shop"),
        ("codex/pre-bash.json", "019a-77", None, "/work/shop"),
        ("cursor/file-edit.json", "conv-1", None, "/work/shop"),
        ("cursor/subagent-start.json", "conv-1", "sub-1", "/work/shop"),
        ("copilot/vscode-pre.json", "vs-1", None, "/work/shop"),
        ("antigravity/post-command.json", "agy-1", None, "/work/shop"),
        ("opencode/in-child.json", "ses_1", "ses_2", "/work/shop"),
    ],
)
def test_session_subagent_and_folder_are_found(name: str, session: str, subagent: str | None, cwd: str) -> None:
    found = told(name)

    assert (found.session_id, found.subagent, found.cwd) == (session, subagent, cwd)


def test_what_a_subagent_does_names_it() -> None:
    (event,) = told("claude-code/in-subagent.json").events

    assert event.payload["agent"] == "agent-7"


def test_values_pass_as_they_came() -> None:
    (event,) = told("claude-code/post-bash.json").events

    assert event.payload["output"] == payload("claude-code/post-bash.json")["tool_response"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("claude-code/pre-bash.json", "claude-code/post-bash.json"),
        ("codex/pre-bash.json", "codex/post-bash.json"),
        ("cursor/pre-shell.json", "cursor/post-shell.json"),
        ("copilot/pre-bash.json", "copilot/post-failure.json"),
        ("gemini/before-shell.json", "gemini/after-shell.json"),
        ("opencode/before.json", "opencode/after.json"),
    ],
)
def test_a_result_names_its_call(before: str, after: str) -> None:
    one, other = payload(before), payload(after)
    other["tool_input"] = one["tool_input"]
    (call,) = translate(before.partition("/")[0], one).events
    result = translate(after.partition("/")[0], other).events[0]

    assert call.payload["call_id"] == result.payload["call_id"]
    assert (call.phase, result.phase) == ("pre", "post")


@pytest.mark.parametrize("name", ["copilot/pre-bash.json", "gemini/before-shell.json"])
def test_without_ids_the_same_call_at_another_time_is_another(name: str) -> None:
    one = payload(name)
    harness = name.partition("/")[0]
    again = translate(harness, one).events[0]
    later = translate(harness, {**one, "timestamp": "2026-11-02T10:00:09.000Z"}).events[0]

    assert told(name).events[0].call_id == again.call_id != later.call_id


def test_the_files_of_one_patch_have_keys_of_their_own() -> None:
    events = told("codex/post-apply-patch.json").events

    assert len({(event.phase, event.call_id) for event in events}) == 4


def test_an_edit_carries_the_text_from_before_and_a_diff_that_fits_it() -> None:
    patch = told("claude-code/post-edit.json").events[1].payload

    assert apply_diff(str(patch["before"]), str(patch["diff"])).endswith("strip().lower()\n")
    assert "after" not in patch


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("claude-code/post-write.json", {"after"}),
        ("claude-code/post-write-create.json", {"after"}),
        ("cursor/file-edit.json", {"diff"}),
        ("gemini/after-replace.json", {"before", "after", "diff"}),
        ("gemini/after-write.json", {"after", "diff"}),
        ("opencode/after-edit.json", {"diff"}),
        ("codex/post-apply-patch.json", {"diff"}),
    ],
)
def test_a_patch_holds_texts_only_where_the_payload_does(name: str, keys: set[str]) -> None:
    patch = next(event.payload for event in told(name).events if event.event == "patch_apply")

    assert {"before", "after", "diff"} & set(patch) == keys


@pytest.mark.parametrize("name", ["claude-code/post-do.json", "codex/post-do.json", "copilot/post-do.json"])
def test_a_call_that_begins_an_invocation_names_it(name: str) -> None:
    assert told(name).started_invocation == ULID
    assert [event.event for event in told(name).events] == ["tool_call", "tool_result"]


@pytest.mark.parametrize(
    ("tool", "begins", "closes"),
    [
        ("mcp__spec-kitty__do", True, False),
        ("mcp__spec_kitty__advise", True, False),
        ("spec-kitty_do", True, False),
        ("spec-kitty-complete", False, True),
        ("mcp__spec-kitty__search", False, False),
        ("mcp__other__do", False, False),
    ],
)
def test_a_tool_of_our_own_begins_and_closes_as_its_command_does(tool: str, begins: bool, closes: bool) -> None:
    answer = [{"type": "text", "text": json.dumps({"invocation_id": ULID})}]
    payload = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_use_id": "t", "tool_name": tool}
    call = translate("claude-code", {**payload, "tool_input": {"request": "fix it"}, "tool_response": answer})

    assert (call.started_invocation == ULID, call.closes) == (begins, closes)


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("spec-kitty do 'fix it'", True),
        ("spec-kitty advise x --json", True),
        (".venv/bin/spec-kitty ask builder x", True),
        ("cd a && SPEC_KITTY_TRAIL=on spec-kitty do x", True),
        ("uv run spec-kitty do x", True),
        ("bash -lc 'spec-kitty do x'", True),
        ("cat r.txt | spec-kitty do - --json", True),
        ("spec-kitty invocations show 01K6", False),
        ("echo my-spec-kitty do", False),
        ("spec-kitty route x", False),
        ("", False),
        ("timeout 60 spec-kitty do x", True),
        ("timeout -s KILL 60 spec-kitty do x", True),
        ("uv run --quiet spec-kitty do x", True),
        ("uv run --project . spec-kitty do x", True),
        ("poetry run spec-kitty do x", True),
        ("sudo -u me spec-kitty do x", True),
        ("nice -n 5 spec-kitty do x", True),
        ("env A='b c' spec-kitty do x", True),
        ("if spec-kitty do x; then :; fi", True),
        ("! spec-kitty do x", True),
        ("{ spec-kitty do x; }", True),
        ("while true; do spec-kitty do x; done", True),
        ("echo x | xargs -n 1 spec-kitty do", True),
        ("python -m specify_cli do x", True),
        ("python3 -X dev -m specify_cli.cli.main ask bea x", True),
        ('"spec-kitty" do x', True),
        ("\\spec-kitty do x", True),
        ('answer="$(spec-kitty do x --json)"', True),
        ("answer=`spec-kitty do x`", True),
        ("cat <<E | spec-kitty do -\nhello it's me\nE", True),
        ("cat > n.md <<'END'\nx\nEND\nspec-kitty do x", True),
        ("bash -c \"cd a && spec-kitty do 'x'\"", True),
        ("spec-kitty do x 2>&1 | tee out", True),
        ("git commit -m 'note the spec-kitty document'", False),
        ("ls spec-kitty && do", False),
    ],
)
def test_a_command_that_can_begin_one_is_seen_however_it_is_written(command: str, begins: bool) -> None:
    hook = payload("claude-code/post-do.json")
    hook["tool_input"]["command"] = command

    assert (translate("claude-code", hook).started_invocation == ULID) is begins


@pytest.mark.parametrize(
    "printed",
    [
        f'{{"invocation_id": "{ULID}"}}',
        f'{{"invocation_id":"{ULID}"}}',
        f"record: .kittify/events/profile-invocations/builder-bea-{ULID}.jsonl",
        f"close it with: spec-kitty profile-invocation complete --invocation-id {ULID} --outcome done",
    ],
)
@pytest.mark.parametrize("shape", ["text", "stdout", "parts"])
def test_the_invocation_is_read_from_whatever_was_printed(printed: str, shape: str) -> None:
    hook = payload("claude-code/post-do.json")
    hook["tool_response"] = {
        "text": printed,
        "stdout": {"stdout": printed},
        "parts": {"content": [{"type": "text", "text": printed}]},
    }[shape]

    assert translate("claude-code", hook).started_invocation == ULID


def test_of_two_ids_in_one_output_neither_is_taken_for_the_one_begun() -> None:
    other = "01K6Z3Q8R00000000000000XYZ"
    hook = payload("claude-code/post-do.json")
    hook["tool_response"]["stdout"] = f'{{"invocation_id": "{other}"}}\n--invocation-id {ULID}'
    found = translate("claude-code", hook)

    assert found.started_invocation is None
    assert set(found.printed) == {ULID, other}


def test_ids_are_looked_for_only_in_what_was_printed() -> None:
    """Each member that is not there was looked into as deep as an output may be: 7 ms at the hook of each `do`."""
    hook = payload("claude-code/post-do.json")
    steps, found = count_calls(lambda: find_printed(hook))

    assert found == (ULID,)
    assert steps < 500


def test_a_command_given_as_words_is_told_as_one_line() -> None:
    hook = payload("claude-code/post-do.json")
    hook["tool_input"]["command"] = ["bash", "-lc", "spec-kitty do 'it is'"]

    assert translate("codex", hook).started_invocation == ULID


@pytest.mark.parametrize(
    "printed", ["", '{"invocation_id": "01K6"}', '{"invocation_id": "not-a-ulid-not-a-ulid-xxxx"}']
)
def test_what_is_no_id_binds_nothing(printed: str) -> None:
    hook = payload("claude-code/post-do.json")
    hook["tool_response"]["stdout"] = printed

    assert translate("claude-code", hook).started_invocation is None


@pytest.mark.parametrize(
    ("harness", "hook", "expected"),
    [
        ("claude-code", "claude-code/pre-bash.json", "claude-code"),
        ("claude-code", "copilot/pre-bash.json", "copilot"),
        ("claude-code", "copilot/vscode-pre.json", "copilot"),
        ("claude-code", "cursor/pre-shell.json", "cursor"),
        ("gemini", "gemini/before-shell.json", "gemini"),
        ("codex", "codex/pre-bash.json", "codex"),
    ],
)
def test_who_really_sent_it_is_told_where_several_read_one_file(harness: str, hook: str, expected: str) -> None:
    assert find_sender(harness, payload(hook)) == expected


def test_names_and_paths_are_cut_to_what_a_record_takes() -> None:
    hook = payload("claude-code/post-edit.json")
    long = "n" * 5000
    hook.update(session_id=long, agent_id=long, tool_use_id=long, cwd=long, tool_name="Write")
    hook["tool_input"]["file_path"] = long
    found = translate("claude-code", hook)

    assert (len(found.session_id or ""), len(found.subagent or "")) == (MAX_NAME, MAX_NAME)
    assert len(str(found.events[1].payload["path"])) == MAX_PATH
    for event in found.events:
        compose_event(event.event, event.payload, SETTINGS, new_id=lambda: "", trace_id="0" * 32)


KEYS = sorted(
    {key for name in names() for key in payload(name)}
    | {"success", "interrupted", "structuredPatch", "originalFile", "toolName", "toolArgs", "command", "lines"}
)
EVENTS = sorted({str(payload(name).get("hook_event_name", "x")) for name in names()})
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(EVENTS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=6),
    max_leaves=20,
)
hooks = st.fixed_dictionaries(
    {"hook_event_name": st.sampled_from(EVENTS) | values},
    optional={key: values for key in KEYS if key != "hook_event_name"},
)


@given(st.sampled_from([*HARNESSES, "unknown"]), values | hooks)
def test_no_json_whatever_breaks_the_hook(harness: str, value: object) -> None:
    found = translate(harness, value)
    find_sender(harness, value)

    for event in found.events:
        assert len(event.call_id) <= MAX_NAME + 16
        compose_event(event.event, event.payload, SETTINGS, new_id=lambda: "", trace_id="0" * 32)


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize(
    "text",
    [
        '{"hook_event_name":"PreToolUse","tool_name":"t","tool_input":' + "[" * 5000 + "]" * 5000 + "}",
        '{"hook_event_name":"BeforeTool","tool_name":"t","timestamp":' + "9" * 6000 + "}",
        '{"hook_event_name":"AfterTool","tool_input":' + "9" * 6000 + ',"tool_response":1e400}',
        '{"hook_event_name":"PostToolUse","tool_name":"\\ud800","tool_input":{"file_path":"\\ud800"},"tool_use_id":"\\ud800"}',
        '{"toolCall":{"name":"t","args":' + '{"a":' * 3000 + "1" + "}" * 3000 + '},"stepIdx":1e400}',
    ],
)
def test_the_depths_and_numbers_of_json_are_survived(harness: str, text: str) -> None:
    for event in translate(harness, parse_foreign(text)).events:
        compose_event(event.event, event.payload, SETTINGS, new_id=lambda: "", trace_id="0" * 32)


def test_it_loads_nothing() -> None:
    """A hook runs at every tool call: reading its payload costs no import but of its harness and the shared parts."""
    program = (
        "import sys, doctrine.light_imports\nbefore = set(sys.modules)\n"
        "from specify_cli.features.hooks.harnesses import translate\n"
        "translate('codex', {'hook_event_name': 'PreToolUse', 'tool_name': 'Bash', 'tool_input': {'command': 'ls'}})\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split("'")[1::2] == [
        "specify_cli",
        "specify_cli.features",
        "specify_cli.features.hooks",
        "specify_cli.features.hooks.harnesses",
        "specify_cli.features.hooks.harnesses.codex",
        "specify_cli.features.hooks.payload",
        "specify_cli.features.hooks.payload.calls",
        "specify_cli.features.hooks.payload.dialect",
        "specify_cli.features.hooks.payload.values",
    ]
