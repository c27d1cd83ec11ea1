"""`hooks install --open`: a session that begins work without a `do` gets a record, which ends with it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from support import Cli, git, run_together

FIXTURES = Path(__file__).parents[2] / "fixtures/sessions"
HARNESSES = ("claude-code", "codex", "gemini", "opencode", "copilot", "qwen")
# What tells no end of a session: opencode never, Qwen Code not with -p.
ENDLESS = ("opencode", "qwen")
ENV = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s-1"}
Tell = Callable[..., None]


def read_records(root: Path) -> list[list[dict[str, Any]]]:
    paths = sorted((root / layout.RECORDS).glob("*.jsonl"), key=lambda path: path.name[-32:])
    return [[json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] for path in paths]


def read_annexes(root: Path, invocation_id: str) -> list[dict[str, Any]]:
    paths = sorted((root / layout.annex_folder(invocation_id)).glob("*.jsonl"))
    return [json.loads(path.read_bytes()) for path in paths]


def work_without_asking(harness: str, root: Path) -> list[dict[str, Any]]:
    """The real session of a harness without the calls that begin and close a record."""
    text = (FIXTURES / f"{harness}/job.jsonl").read_text(encoding="utf-8").replace("/home/dev/shop", str(root))
    return [json.loads(line) for line in text.splitlines() if "spec-kitty" not in line and "@ANSWER" not in line]


def call(number: int, command: str = "ls") -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"toolu_{number}"}


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_real_session_that_never_asked_is_on_a_record_of_its_own(
    harness: str, chartered: Path, home: Path, cli: Cli
) -> None:
    assert cli("hooks", "install", "--harness", harness, "--open").code == 0
    payloads = work_without_asking(harness, chartered)
    for payload in payloads:
        run_hook(harness, json.dumps(payload).encode(), str(chartered), str(home))

    (lines,) = read_records(chartered)
    started, last = lines[0], lines[-1]
    begun = [payload for payload in payloads if payload.get("hook_event_name", "").lower() in BEGINS]
    assert (started["opened_by"], started["mode_of_work"], started["verb"]) == ("hook", "advisory", "advise")
    assert "the login test fails, please fix it" in started["request_text"]
    assert started["actor"] == {"actor_id": harness, "actor_type": "llm", "tool": harness}
    assert [line["event"] for line in lines[:5]][4] == "prompt"
    assert sum(line["event"] == "tool_call" for line in lines) == len(begun) > 8
    assert not (chartered / layout.ORPHANS).exists()
    if harness in ENDLESS:
        assert last["event"] == "turn"
    else:
        assert (last["event"], last["closed_by"], last["outcome"]) == ("completed", "hook", "done")
    report = cli("invocations", "verify", "--all", "--json").json()
    assert [item for item in report["findings"] if item["severity"] != "info"] == []
    shown = cli("invocations", "show", started["invocation_id"], "--json").json()
    assert "who read its context (a hook began it)" in shown["not_seen"]


BEGINS = ("pretooluse", "beforetool", "tool.execute.before")


def test_without_the_mark_nothing_is_begun(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--no-open")
    cli("init")
    tell("UserPromptSubmit", prompt="fix it")
    tell("PreToolUse", **call(1))

    assert read_records(chartered) == []
    assert (chartered / layout.ORPHANS).exists()


def test_a_persons_no_lasts_until_they_say_otherwise(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code")
    cli("hooks", "install", "--harness", "claude-code", "--no-open")
    cli("hooks", "install", "--harness", "claude-code")
    tell("UserPromptSubmit", prompt="fix it")
    refused = cli("hooks", "install", "--open", "--no-open", "--json")

    assert read_records(chartered) == []
    assert (refused.code, refused.error()["error_code"]) == (2, "USAGE")


def test_a_session_of_questions_has_a_record_too(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code")
    tell("SessionStart", source="startup")
    tell("UserPromptSubmit", prompt="what does this do?")
    tell("Stop", last_assistant_message="It folds names.")
    tell("SessionEnd", reason="other")

    (lines,) = read_records(chartered)
    assert [line["event"] for line in lines[4:]] == ["prompt", "turn", "session_change", "completed"]
    assert (lines[0]["opened_by"], lines[-1]["outcome"]) == ("hook", "done")


def test_what_a_person_changes_before_the_first_call_is_nobodys(chartered: Path, cli: Cli, tell: Tell) -> None:
    """The tree is looked at with the prompt that begins a record, so that there is a state to compare with."""
    changed = chartered / "src/login.py"
    changed.parent.mkdir()
    changed.write_text("value = 1\n")
    git(chartered, "add", "src")
    cli("hooks", "install", "--harness", "claude-code")
    tell("UserPromptSubmit", prompt="fix it")
    time.sleep(0.02)
    changed.write_text("value = 2  # by hand\n")
    tell("PreToolUse", **call(1))
    tell("PostToolUse", **call(1), tool_response={"stdout": ""})

    (lines,) = read_records(chartered)
    assert [line["what"] for line in lines if line.get("reason") == "unseen_change"] == ["src/login.py"]


def test_a_session_in_a_linked_worktree_has_a_record_there_as_the_main_one_says(
    chartered: Path, cli: Cli, home: Path, tmp_path: Path
) -> None:
    cli("hooks", "install", "--harness", "claude-code")
    git(chartered, "add", ".", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    git(chartered, "worktree", "add", "-q", str(tmp_path / "linked"), home=home)
    linked = tmp_path / "linked"

    def tell(event: str, **payload: Any) -> None:
        value = {"session_id": "s-1", "cwd": str(linked), "hook_event_name": event, "prompt_id": "p", **payload}
        run_hook("claude-code", json.dumps(value).encode(), str(linked), str(home))

    tell("UserPromptSubmit", prompt="fix it")
    tell("PreToolUse", **call(1))
    tell("SessionEnd", reason="other")

    (lines,) = read_records(linked)
    assert read_records(chartered) == []
    assert (lines[0]["request_text"], lines[0]["opened_by"], lines[-1]["event"]) == ("fix it", "hook", "completed")
    assert git(linked, "status", "--short", home=home) == ""


@pytest.mark.parametrize(
    ("prompt", "code", "action", "english"),
    [
        ("hello", "ROUTER_NO_MATCH", "analyze", "no action covers it"),
        ("???", "EMPTY_REQUEST", "analyze", "it says nothing to choose by"),
        ("deploy it to production", "ROUTER_NO_MATCH", "analyze", "no action covers it"),
        ("plan the tests and review the docs", "ROUTER_AMBIGUOUS", "plan", "it can be read in several ways"),
    ],
)
def test_a_prompt_that_no_rule_routes_begins_a_record_that_says_so(
    prompt: str, code: str, action: str, english: str, chartered: Path, cli: Cli, tell: Tell
) -> None:
    """Nobody named the profile that stands in, and a replay comes to the same one."""
    cli("hooks", "install", "--harness", "claude-code", "--open")
    tell("UserPromptSubmit", prompt=prompt)
    tell("PreToolUse", **call(1))

    (lines,) = read_records(chartered)
    started = lines[0]
    replayed = cli("replay", started["invocation_id"], "--json").json()
    story = cli("invocations", "show", started["invocation_id"], "--story", "--json").json()
    child = cli("replay", started["invocation_id"], "--against", "current", "--json").json()["replay_invocation_id"]
    again = cli("replay", child, "--json").json()
    assert (started["request_text"], started["opened_by"], started["action"]) == (prompt, "hook", action)
    assert started["match_reason"] == f"not routed: {code}; {started['profile_id']} stands in"
    assert (started["router_confidence"], started.get("requested_profile")) == ("domain_keyword", None)
    assert "routing, 1 retrieval come out as recorded" in replayed["verdict"]
    assert again["verdict"].startswith("MATCH: routing"), again["verdict"]
    assert story["asked"]["why"] == f"{english}, so {started['profile_id']} stands in"


def test_what_is_told_again_after_the_end_of_its_session_begins_no_second_record(
    chartered: Path, cli: Cli, tell: Tell
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    told: list[tuple[str, dict[str, Any]]] = []
    for number in range(2):
        told += [
            ("UserPromptSubmit", {"prompt": f"fix it {number}", "prompt_id": f"p{number}"}),
            ("PreToolUse", call(number)),
            ("PostToolUse", {**call(number), "tool_response": {"stdout": "src"}}),
        ]
    for event, more in [*told, ("SessionEnd", {"reason": "other"}), *told]:
        tell(event, **more)

    assert len(read_records(chartered)) == 1


def test_calls_made_together_begin_one_record(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    tell("UserPromptSubmit", prompt="fix the login test")
    run_together(lambda number: tell("PreToolUse", **call(number)), range(8))

    (lines,) = read_records(chartered)
    assert sum(line["event"] == "tool_call" for line in lines) == 8


def test_a_do_begins_its_own_record_and_gives_the_session_back(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    tell("UserPromptSubmit", prompt="look around, then fix the login test")
    tell("PreToolUse", **call(1))
    tell("PostToolUse", **call(1), tool_response="a.py")
    tell("PreToolUse", **call(2, "spec-kitty do 'fix the login test' --json"))
    begun = cli("do", "fix the login test", "--json", env=ENV)
    tell("PostToolUse", **call(2, "spec-kitty do 'fix the login test' --json"), tool_response={"stdout": begun.out})
    tell("PreToolUse", **call(3))
    closing = f"spec-kitty profile-invocation complete --invocation-id {begun.json()['invocation_id']}"
    tell("PreToolUse", **call(4, closing))
    cli("profile-invocation", "complete", begun.json()["invocation_id"], env=ENV)
    tell("PostToolUse", **call(4, closing), tool_response="closed")
    tell("PreToolUse", **call(5))
    tell("SessionEnd", reason="other")

    own, asked = read_records(chartered)
    calls = [[line["call_id"] for line in lines if line["event"] == "tool_call"] for lines in (own, asked)]
    assert calls == [["toolu_1", "toolu_2", "toolu_5"], ["toolu_2", "toolu_3", "toolu_4"]] or calls == [
        ["toolu_1", "toolu_5"],
        ["toolu_2", "toolu_3", "toolu_4"],
    ]
    assert (own[-1]["outcome"], own[-1]["closed_by"]) == ("abandoned", "hook")
    assert (asked[-1]["outcome"], asked[-1]["closed_by"]) == ("done", "agent")


def test_what_was_done_in_the_turn_before_its_do_is_told_in_its_story(
    chartered: Path, cli: Cli, tell: Tell, tmp_path: Path
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    for number, prompt in ((1, "look around"), (2, "fix the login test")):
        tell("UserPromptSubmit", prompt=prompt)
        tell("PreToolUse", **call(number, f"cat file{number}.py"))
        tell("PostToolUse", **call(number, f"cat file{number}.py"), tool_response="x = 1")
    asking = call(3, "spec-kitty do 'fix the login test' --json")
    tell("PreToolUse", **asking)
    begun = cli("do", "fix the login test", "--json", env=ENV)
    tell("PostToolUse", **asking, tool_response={"stdout": begun.out})
    tell("SessionEnd", reason="other")
    own, asked = (lines[0]["invocation_id"] for lines in read_records(chartered))
    cli("profile-invocation", "complete", asked)
    page = tmp_path / "page.html"
    cli("invocations", "export", asked, "--html", str(page))

    before = f"1 call: ran cat file2.py (in {own})"
    assert cli("invocations", "show", asked, "--story", "--json").json()["before"] == before
    assert f"  earlier in this turn: {before}\n" in cli("invocations", "show", asked).out
    assert f'"before": "{before}"' in page.read_text()
    assert cli("invocations", "show", own, "--story", "--json").json()["before"] == ""


def test_a_session_that_came_to_its_end_is_done_though_the_record_it_asked_for_was_left_open(
    chartered: Path, cli: Cli, tell: Tell
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    tell("UserPromptSubmit", prompt="fix the login test")
    tell("PreToolUse", **call(1, "spec-kitty do 'fix the login test' --json"))
    begun = cli("do", "fix the login test", "--json", env=ENV)
    tell("PostToolUse", **call(1, "spec-kitty do 'fix the login test' --json"), tool_response={"stdout": begun.out})
    tell("PreToolUse", **call(2))
    tell("PostToolUse", **call(2), tool_response="a.py")
    tell("Stop", last_assistant_message="It works.", turn_id="1")
    tell("SessionEnd", reason="other")

    own, asked = read_records(chartered)
    assert (own[-1]["event"], own[-1]["outcome"]) == ("completed", "done")
    assert "completed" not in {line["event"] for line in asked}


def test_what_an_agent_asked_for_stays_open_when_its_session_ends_and_is_swept_a_day_later(
    chartered: Path, cli: Cli, tell: Tell
) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    invocation_id = cli("do", "fix the login test", "--json", env=ENV).json()["invocation_id"]
    cli("do", "review it", env={"USER": "ada"})
    tell("PreToolUse", **call(1))
    tell("SessionEnd", reason="other")
    assert [lines[-1]["event"] for lines in read_records(chartered)] == ["session_change", "retrieval_response"]
    assert cli("doctor", "--sweep", "--json").json()["swept"] == []
    for path in (chartered / layout.RECORDS).glob("*.jsonl"):
        os.utime(path, (time.time() - 90_000,) * 2)

    swept = cli("doctor", "--sweep")

    assert f"closed as abandoned: {invocation_id}\n" in swept.out
    ends = [lines[-1] for lines in read_records(chartered)]
    assert (ends[0]["closed_by"], ends[0]["outcome"]) == ("doctor", "abandoned")
    assert ends[1]["event"] == "retrieval_response"  # a person's is theirs to close


def test_the_next_session_is_told_what_an_ended_one_left_open(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    left = cli("do", "fix the login test", "--json", env=ENV).json()["invocation_id"]
    tell("PreToolUse", **call(1))
    assert cli("do", "review it", "--json", env={"USER": "ada"}).json()["warnings"] == []
    tell("SessionEnd", reason="other")

    # The session itself may be resumed; another one, and a person, are told until it is closed.
    assert not any(left in text for text in cli("do", "review it", "--json", env=ENV).json()["warnings"])
    for env in ({**ENV, "CLAUDE_CODE_SESSION_ID": "s-2"}, {"USER": "ada"}):
        assert any(f"LEFT_OPEN: {left}" in text for text in cli("do", "review", "--json", env=env).json()["warnings"])
    assert f"warning: LEFT_OPEN: {left}" in cli("do", "review it", env={"USER": "ada"}).err
    cli("profile-invocation", "complete", left, "--outcome", "abandoned")
    assert left not in str(cli("do", "review it", "--json", env={"USER": "ada"}).json()["warnings"])
    assert list((chartered / layout.LEFT_OPEN).iterdir()) == []


def test_the_mark_is_shown_and_goes_with_the_hooks(chartered: Path, cli: Cli) -> None:
    cli("hooks", "install", "--harness", "codex", "--open", "--dry-run")
    assert not (chartered / layout.OPEN).exists()
    cli("hooks", "install", "--harness", "codex", "--open")
    assert "Codex (codex) · in use here · its sessions get records by themselves" in cli("hooks", "status").out

    cli("hooks", "uninstall", "--harness", "codex")

    assert "by themselves" not in cli("hooks", "status").out


def test_a_do_in_a_session_that_has_a_record_names_it_and_the_answer_is_told_once(
    chartered: Path, cli: Cli, tell: Tell, tmp_path: Path
) -> None:
    """The transcript holds the closing call and the answer before the hooks that tell them run."""
    cli("hooks", "install", "--harness", "claude-code")
    transcript = tmp_path / "s-1.jsonl"

    def write(**line: Any) -> None:
        said = {"sessionId": "s-1", "cwd": str(chartered), "timestamp": rfc3339(time.time_ns() // 1_000_000), **line}
        with transcript.open("a") as file:
            file.write(json.dumps(said) + "\n")

    def ask(number: int, command: str) -> None:
        part = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
        write(type="assistant", message={"id": f"m{number}", "content": [part]})

    where = {"transcript_path": str(transcript)}
    write(type="user", message={"content": "fix the login test"})
    tell("UserPromptSubmit", prompt="fix the login test", **where)
    session = read_records(chartered)[0][0]["invocation_id"]
    ask(1, "spec-kitty do 'fix the login test'")
    tell("PreToolUse", **call(1, "spec-kitty do 'fix the login test'"), **where)
    done = cli("do", "fix the login test", "--json", env={"CLAUDE_CODE_SESSION_ID": "s-1"})
    run = done.json()["invocation_id"]
    tell("PostToolUse", **call(1, "spec-kitty do 'fix the login test'"), tool_response={"stdout": done.out}, **where)
    closing = f"spec-kitty profile-invocation complete --invocation-id {run}"
    ask(2, closing)
    tell("PreToolUse", **call(2, closing), **where)
    cli("profile-invocation", "complete", "--invocation-id", run, env={"CLAUDE_CODE_SESSION_ID": "s-1"})
    tell("PostToolUse", **call(2, closing), tool_response={"stdout": "closed"}, **where)
    write(type="assistant", message={"id": "m3", "model": "m", "content": [{"type": "text", "text": "Done."}]})
    tell("Stop", last_assistant_message="Done.", **where)
    tell("SessionEnd", reason="other", **where)

    records = {lines[0]["invocation_id"]: lines for lines in read_records(chartered)}
    whole = [line for lines in records.values() for line in lines]
    assert records[run][0]["parent_invocation_id"] == session
    assert [line["event"] for line in whole].count("turn") == 1
    assert [line for line in whole if line["event"] == "capture_gap"] == []
    assert [line.get("witness") for line in whole if line["event"] == "tool_call"] == [None, None, None]


def test_two_turns_of_one_prompt_that_end_in_equal_words_are_two(chartered: Path, home: Path, cli: Cli) -> None:
    """Qwen Code goes on under the same prompt when a subagent in the background is done, and stamps each payload."""
    cli("hooks", "install", "--harness", "qwen", "--open")
    for name, moment, more in (
        ("UserPromptSubmit", "10.000", {"prompt": "fix it"}),
        *[("Stop", moment, {"last_assistant_message": "Done."}) for moment in ("11.000", "12.000", "12.000")],
    ):
        told = {"hook_event_name": name, "session_id": "s-1", "prompt_id": "p-1", "cwd": str(chartered), **more}
        told["timestamp"] = f"2026-11-25T10:00:{moment}Z"
        run_hook("qwen", json.dumps(told).encode(), str(chartered), str(home))

    (lines,) = read_records(chartered)
    assert [line["event"] for line in lines[4:]] == ["prompt", "turn", "turn"]


def test_what_is_told_first_after_its_session_ended_is_said_of_its_record_once(
    chartered: Path, cli: Cli, tell: Tell
) -> None:
    """A hook that hangs is told behind the end: no second record takes it and what is told again."""
    cli("hooks", "install", "--harness", "claude-code", "--open")
    told: list[tuple[str, dict[str, Any]]] = [
        ("UserPromptSubmit", {"prompt": "fix it"}),
        ("PreToolUse", call(1)),
        ("PostToolUse", {**call(1), "tool_response": {"stdout": "src"}}),
        ("Stop", {"last_assistant_message": "I looked."}),
    ]
    late: list[tuple[str, dict[str, Any]]] = [
        ("PreToolUse", call(2)),
        ("PostToolUse", {**call(2), "tool_response": {"stdout": "src"}}),
    ]
    for event, more in [*told, ("SessionEnd", {"reason": "other"}), *late, *told, *late]:
        tell(event, **more)

    (lines,) = read_records(chartered)
    annexes = read_annexes(chartered, lines[0]["invocation_id"])
    assert [line["call_id"] for line in lines if line["event"] == "tool_call"] == ["toolu_1"]
    assert [(line["event"], line["call_id"]) for line in annexes] == [
        ("tool_call", "toolu_2"),
        ("tool_result", "toolu_2"),
    ]
    assert not (chartered / layout.ORPHANS).exists()
    report = cli("invocations", "verify", "--all", "--json").json()
    assert [item for item in report["findings"] if item["severity"] != "info"] == []


def test_a_session_that_goes_on_behind_its_end_has_a_second_record(chartered: Path, cli: Cli, tell: Tell) -> None:
    cli("hooks", "install", "--harness", "claude-code", "--open")
    for number in (1, 2):
        tell("UserPromptSubmit", prompt=f"fix it {number}", prompt_id=f"p{number}")
        tell("PreToolUse", **call(number), prompt_id=f"p{number}")
        tell("SessionEnd", reason="other", prompt_id=f"p{number}")

    calls = [[line["call_id"] for line in lines if line["event"] == "tool_call"] for lines in read_records(chartered)]
    assert calls == [["toolu_1"], ["toolu_2"]]


@pytest.mark.parametrize("lost", [(), ("PostToolUse",), ("PreToolUse", "PostToolUse")])
def test_what_is_told_again_of_a_part_that_ended_is_not_of_the_part_that_is_under_way(
    chartered: Path, cli: Cli, tell: Tell, lost: tuple[str, ...]
) -> None:
    """A part is what a session does until its end; of the first the hooks that hung come late as well."""
    cli("hooks", "install", "--harness", "claude-code", "--open")
    parts: list[list[tuple[str, dict[str, Any]]]] = [
        [
            ("UserPromptSubmit", {"prompt": f"fix it {number}", "prompt_id": f"p{number}"}),
            ("PreToolUse", {**call(number), "prompt_id": f"p{number}"}),
            ("PostToolUse", {**call(number), "prompt_id": f"p{number}", "tool_response": {"stdout": "src"}}),
            ("Stop", {"last_assistant_message": "Done.", "prompt_id": f"p{number}"}),
            ("SessionEnd", {"reason": "other", "prompt_id": f"p{number}"}),
        ]
        for number in (1, 2)
    ]
    first = [one for one in parts[0] if one[0] not in lost]
    for event, more in [*first, *parts[1][:2], *parts[0], *parts[0], *parts[1][2:]]:
        tell(event, **more)

    records = read_records(chartered)
    annexes = [read_annexes(chartered, lines[0]["invocation_id"]) for lines in records]
    told = [
        Counter((line["event"], line.get("call_id")) for line in [*lines[4:], *more])
        for lines, more in zip(records, annexes, strict=True)
    ]
    wanted = [
        Counter(
            [
                *((event, None) for event in ("prompt", "turn", "session_change", "completed")),
                *((event, f"toolu_{number}") for event in ("tool_call", "tool_result")),
            ]
        )
        for number in (1, 2)
    ]
    if lost == ("PostToolUse",):
        wanted[0][("tool_result", "toolu_1")] = 2  # the end of the turn calls it unknown, the late hook ok
    assert told == wanted
    assert not (chartered / layout.ORPHANS).exists()


def test_copilots_payloads_that_are_told_again_behind_the_end_are_no_twins(
    chartered: Path, cli: Cli, home: Path
) -> None:
    cli("hooks", "install", "--harness", "copilot", "--open")
    payloads = work_without_asking("copilot", chartered)
    for payload in payloads * 2:
        run_hook("copilot", json.dumps(payload).encode(), str(chartered), str(home))

    (lines,) = read_records(chartered)
    assert read_annexes(chartered, lines[0]["invocation_id"]) == []
    assert not (chartered / layout.ORPHANS).exists()
