"""What hooks tell of a session besides its calls: prompts, ends of turns, refusals, compaction, its end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.features.hooks.harnesses import find_dialect, translate
from specify_cli.features.hooks.payload.turn_from_transcript import read_facts
from specify_cli.record import layout
from support import PATIENCE, Cli, accept

TRANSCRIPTS = Path(__file__).parents[2] / "fixtures/transcripts"
SESSION = "5f1d2c3b-0000-4000-8000-000000000001"
ENV = {"CLAUDE_CODE_SESSION_ID": SESSION}
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
LAST_WORDS = "All of it is done, said the scripted model."
Tell = Callable[..., None]


@pytest.fixture
def tell(cli: Cli, chartered: Path) -> Tell:
    """Run the hook of Claude Code with an event; the project uses spec-kitty already."""
    cli("init")

    def run(event: str, **more: Any) -> None:
        payload = {"session_id": SESSION, "cwd": str(chartered), "hook_event_name": event, **more}
        done = cli("hook", "claude-code", stdin=json.dumps(payload).encode())
        assert (done.code, done.out, done.err) == (0, "", "")

    return run


def begin(cli: Cli, tell: Tell, call: str = "t0") -> str:
    """A `do` of the session, as its hooks tell it."""
    command = {"tool_name": "Bash", "tool_input": {"command": "spec-kitty do 'implement WP03'"}, "tool_use_id": call}
    tell("PreToolUse", **command)
    answer = cli("do", "implement WP03", "--json", env=ENV)
    tell("PostToolUse", **command, tool_response={"stdout": answer.out})
    return str(answer.json()["invocation_id"])


def events(root: Path, invocation_id: str) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]][4:]


def annexes(root: Path, invocation_id: str) -> list[dict[str, Any]]:
    folder = root / layout.annex_folder(invocation_id)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.jsonl"))]


def call(name: str) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}, "tool_use_id": name}


# --- what a transcript says


@pytest.mark.parametrize("harness", sorted(path.stem for path in TRANSCRIPTS.glob("*.jsonl")))
def test_the_end_of_a_real_transcript_says_answer_model_and_tokens(harness: str) -> None:
    facts = read_facts(find_dialect(harness), (TRANSCRIPTS / f"{harness}.jsonl").read_bytes())

    assert (facts.text, facts.requests, facts.tokens) == (LAST_WORDS, 5, {"input": 500, "output": 50})
    assert facts.model in ("claude-sonnet-4-5", "gpt-6-sol", "gemini-2.5-pro", "fake-1")


def test_a_transcript_of_claude_code_says_what_was_refused_and_why() -> None:
    facts = read_facts(find_dialect("claude-code"), (TRANSCRIPTS / "claude-code.jsonl").read_bytes())

    assert [text[:6] for text in facts.denied.values()] == ["rm in "]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "payload", "item", "data", "usage", "tokens", "id"]), inner
        )
    ),
    max_leaves=15,
)


@given(
    st.sampled_from(["claude-code", "codex", "gemini", "qwen", "copilot", "opencode", "cursor"]),
    st.lists(values, max_size=4),
)
def test_no_transcript_whatever_breaks_the_hook(harness: str, lines: list[Any]) -> None:
    facts = read_facts(find_dialect(harness), "\n".join(json.dumps(line) for line in lines).encode())

    assert facts.requests >= 0 and facts.cost >= 0 and isinstance((facts.tokens, facts.thinking), tuple)


# --- what is recorded


def test_the_prompt_before_a_do_is_in_the_record_it_begins(tell: Tell, cli: Cli, chartered: Path) -> None:
    tell("UserPromptSubmit", prompt=f"fix it with {SECRET}", prompt_id="p1")
    run = begin(cli, tell)
    first = events(chartered, run)[0]

    assert (first["event"], first["text"]["head"]) == ("prompt", "fix it with ⟦github-token⟧")
    assert SECRET not in "".join(path.read_text() for path in (chartered / ".kittify").rglob("*") if path.is_file())


def test_a_prompt_in_an_open_record_is_there_once(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    for _ in range(2):
        tell("UserPromptSubmit", prompt="and now?", prompt_id="p2")

    assert [e["event"] for e in events(chartered, run)].count("prompt") == 1


def test_what_capture_leaves_out_of_a_prompt_waits_nowhere(tell: Tell, cli: Cli, chartered: Path) -> None:
    (chartered / layout.CONFIG).write_text("audit: {capture_llm_io: 'off'}\n")
    accept(chartered)
    tell("UserPromptSubmit", prompt="a very particular wish", prompt_id="p1")
    run = begin(cli, tell)

    assert {"event", "seq"} <= events(chartered, run)[0].keys() and "text" not in events(chartered, run)[0]
    assert "particular" not in "".join(p.read_text() for p in (chartered / layout.LOCAL).rglob("*") if p.is_file())


def test_a_call_without_a_result_ends_with_its_turn(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    tell("Stop", last_assistant_message="done", prompt_id="p1")
    *_, result, turn = events(chartered, run)

    assert (result["call_id"], result["status"], result["inferred"]) == ("t1", "unknown", True)
    assert (turn["event"], turn["text"]["head"]) == ("turn", "done")


@pytest.mark.parametrize(
    ("start", "statuses"),
    [
        ({"source": "resume"}, ["unknown"]),
        ({"source": "compact"}, []),
        ({"source": "resume", "agent_id": "sub-1"}, []),
    ],
)
def test_a_call_that_its_program_died_in_ends_where_its_session_is_resumed(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path, start: dict[str, str], statuses: list[str]
) -> None:
    run, transcript = begin(cli, tell), tmp_path / "t.jsonl"
    transcript.write_text("{}\n")
    tell("PreToolUse", **call("t1"))
    tell("SessionStart", transcript_path=str(transcript), **start)
    results = [line for line in events(chartered, run) if line["event"] == "tool_result"]

    assert [line["status"] for line in results if line["call_id"] == "t1"] == statuses


def test_a_refusal_in_the_transcript_ends_the_call_as_denied(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    part = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": f"no, {SECRET} stays"}
    line = {"type": "user", "toolDenialKind": "rule", "message": {"role": "user", "content": [part]}}
    (tmp_path / "t.jsonl").write_text(json.dumps(line) + "\n")
    tell("Stop", transcript_path=str(tmp_path / "t.jsonl"), last_assistant_message="ok", prompt_id="p1")
    *_, result, denial, _ = events(chartered, run)

    assert (result["status"], result["output"]["head"]) == ("denied", "no, ⟦github-token⟧ stays")
    assert (denial["event"], denial["decision"], denial["call_id"]) == ("approval", "deny", "t1")


@pytest.mark.parametrize("stated", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
def test_a_time_of_a_transcript_that_no_line_can_state_is_not_claimed(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path, stated: str
) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    line = {"timestamp": stated, "type": "system", "toolUseID": "t1"}
    (tmp_path / "t.jsonl").write_text(2 * (json.dumps(line) + "\n"))
    tell("Stop", transcript_path=str(tmp_path / "t.jsonl"), last_assistant_message="ok", prompt_id="p1")
    *_, result, _ = events(chartered, run)

    assert result["inferred"] and "claimed_at" not in result
    assert cli("invocations", "verify", run).code == 0


def test_whoever_closes_a_record_waits_for_no_call(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    close = {"tool_input": {"command": f"spec-kitty profile-invocation complete {run}"}, "tool_use_id": "t2"}
    tell("PreToolUse", tool_name="Bash", **close)
    *_, result, closing = events(chartered, run)

    assert (result["call_id"], result["inferred"], closing["call_id"]) == ("t1", True, "t2")


def test_a_result_that_is_told_late_counts_and_contradicts_nothing(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    tell("Stop", prompt_id="p1")
    tell("PostToolUse", **call("t1"), tool_response={"stdout": "gone"})
    report = cli("invocations", "verify", run, "--json").json()

    assert events(chartered, run)[-1]["status"] == "ok"
    assert report["findings"] == []


def test_half_a_line_that_a_killed_hook_left_is_no_call_that_was_told(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'"event"')])
    tell("PreToolUse", **call("t1"))
    report = cli("invocations", "verify", run, "--json").json()
    shown = cli("invocations", "show", run, "--json").json()["events"]

    assert [line["call_id"] for line in shown if line["event"] == "tool_call"][-1] == "t1"
    assert [item["severity"] for item in report["findings"]] == ["warning"]


def test_a_call_whose_result_was_told_first_has_ended(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PostToolUse", **call("t1"), tool_response={"stdout": "gone"})
    tell("PreToolUse", **call("t1"))
    tell("Stop", prompt_id="p1")

    assert not [e for e in events(chartered, run) if e.get("inferred")]


def test_another_agents_calls_do_not_end_with_the_turn(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"), agent_id="in-the-background")
    tell("Stop", prompt_id="p1")

    assert not [e for e in events(chartered, run) if e.get("inferred")]


def test_the_last_words_after_a_close_are_an_annex_once(tell: Tell, cli: Cli, chartered: Path) -> None:
    tell("UserPromptSubmit", prompt="fix it", prompt_id="p1")
    run = begin(cli, tell)
    cli("profile-invocation", "complete", run, env=ENV)
    for _ in range(2):
        tell("Stop", last_assistant_message="all done", prompt_id="p1")
    (annex,) = annexes(chartered, run)

    assert (annex["event"], annex["text"]["head"]) == ("turn", "all done")
    assert cli("invocations", "verify", run, "--json").json()["findings"] == []


def test_two_turns_that_end_in_equal_words_are_two_where_the_program_gives_them_no_id(
    tell: Tell, cli: Cli, chartered: Path
) -> None:
    run = begin(cli, tell)
    for prompt in ("fix it", "fix it more"):
        tell("UserPromptSubmit", prompt=prompt)
        for _ in range(2):
            tell("Stop", last_assistant_message="done")
    told = [line["text"]["head"] for line in events(chartered, run) if line["event"] in ("prompt", "turn")]

    assert told == ["fix it", "done", "fix it more", "done"]


def test_a_turn_whose_transcript_counts_more_tokens_when_its_end_is_told_again_is_a_contradiction(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    run, transcript = begin(cli, tell), tmp_path / "t.jsonl"
    transcript.write_text(json.dumps({"type": "user", "message": {"role": "user", "content": "fix it"}}) + "\n")
    for number in range(2):
        message: dict[str, Any] = {"id": f"m{number}", "model": "m", "content": [{"type": "text", "text": "done"}]}
        message["usage"] = {"input_tokens": 100, "output_tokens": 10}
        with transcript.open("a") as file:
            file.write(json.dumps({"type": "assistant", "message": message}) + "\n")
        for _ in range(2):
            tell("Stop", transcript_path=str(transcript), last_assistant_message="done", prompt_id="p1")
    told = [line for line in events(chartered, run) if line["event"] in ("turn", "capture_gap")]

    assert [line["event"] for line in told] == ["turn", "capture_gap"]
    assert told[0]["tokens"]["input"] == 100 and '"input": 200' in told[1]["message"]
    assert cli("invocations", "verify", run).code == 0


def test_the_tokens_of_a_turn_are_all_of_it_however_long_its_transcript_is(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # room: sessions
    monkeypatch.setattr("specify_cli.features.hooks.conversation.turn.MAX_TURN", 1000)
    run = begin(cli, tell)
    folder = tmp_path / "home/.claude/projects/-shop"
    folder.mkdir(parents=True)
    transcript = folder / f"{SESSION}.jsonl"
    head = {"sessionId": SESSION, "cwd": str(chartered), "timestamp": "2026-11-30T10:00:00.000Z"}
    asked = {"type": "user", "message": {"role": "user", "content": "fix it"}, **head}
    said = [
        {
            "type": "assistant",
            "message": {"id": f"m{number}", "content": content, "usage": {"input_tokens": 100}},
            **head,
        }
        for number, content in enumerate(([{"type": "text", "text": "x" * 900}], [{"type": "text", "text": "done"}]))
    ]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in (asked, *said)))
    tell("Stop", last_assistant_message="done", prompt_id="p1", transcript_path=str(transcript))
    tell("SessionEnd", reason="exit", transcript_path=str(transcript))
    told = [line["tokens"] for line in events(chartered, run) if line["event"] == "turn" and "tokens" in line]

    assert told == [{"input": 200}]


@pytest.mark.parametrize("is_told_before", [False, True])
def test_a_turn_that_is_told_again_behind_the_close_with_more_tokens_is_a_contradiction_too(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path, is_told_before: bool
) -> None:
    """The first end of the turn came before or behind the close; only the second saw all of the transcript."""
    run, transcript = begin(cli, tell), tmp_path / "t.jsonl"

    def stop() -> None:
        tell("Stop", transcript_path=str(transcript), last_assistant_message="done", prompt_id="p1")

    transcript.write_text(json.dumps({"type": "user", "message": {"role": "user", "content": "fix it"}}) + "\n")
    for number in range(2):
        told_text = [{"type": "text", "text": "done"}]
        usage = {"input_tokens": 100, "output_tokens": 10}
        message = {"id": f"m{number}", "model": "m", "content": told_text, "usage": usage}
        with transcript.open("a") as file:
            file.write(json.dumps({"type": "assistant", "message": message}) + "\n")
        if is_told_before and number == 0:
            stop()
        cli("profile-invocation", "complete", run, env=ENV)
        stop()
        stop()
    told = [*events(chartered, run), *annexes(chartered, run)]
    told = [line for line in told if line["event"] in ("turn", "capture_gap")]

    assert [line["event"] for line in told] == ["turn", "capture_gap"]
    assert told[0]["tokens"]["input"] == 100 and '"input": 200' in told[1]["message"]
    report = cli("invocations", "verify", run, "--json").json()
    assert [finding["code"] for finding in report["findings"]] == ["CONTRADICTION_TOLD"]


def test_a_turn_that_goes_on_under_its_prompt_and_ends_in_equal_words_is_another(
    tell: Tell, cli: Cli, chartered: Path
) -> None:
    """A background command ended: the program asks the model again, and nobody prompts."""
    run = begin(cli, tell)
    tell("UserPromptSubmit", prompt="fix it", prompt_id="p1")
    for number in range(2):
        tell("PreToolUse", **call(f"c{number}"))
        tell("PostToolUse", **call(f"c{number}"), tool_response={"stdout": ""})
        for _ in range(2):
            tell("Stop", last_assistant_message="done", prompt_id="p1")
    told = [line["event"] for line in events(chartered, run) if line["event"] in ("tool_call", "turn")]

    assert told == ["tool_call", "tool_call", "turn", "tool_call", "turn"]


def test_the_last_words_after_each_close_of_a_session_are_told_where_the_program_gives_turns_no_id(
    tell: Tell, cli: Cli, chartered: Path
) -> None:
    runs = []
    for number in range(2):
        tell("UserPromptSubmit", prompt="fix it")
        runs.append(begin(cli, tell, f"t{number}"))
        cli("profile-invocation", "complete", runs[-1], env=ENV)
        for _ in range(2):
            tell("Stop", last_assistant_message="done")

    assert [[line["event"] for line in annexes(chartered, run)] for run in runs] == [["turn"], ["turn"]]


def test_a_second_turn_in_equal_words_is_told_behind_the_close_where_the_transcript_alone_has_the_words(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    """Copilot's end of a turn states no words, and its transcript holds lines before the first turn."""
    cli("init")
    transcript = tmp_path / "events.jsonl"

    def tell(event: str, minute: int, **more: Any) -> None:
        where = {"session_id": SESSION, "cwd": str(chartered), "transcript_path": str(transcript)}
        payload = {"hook_event_name": event, "timestamp": f"2026-11-27T04:0{minute}:00.000Z", **where, **more}
        cli("hook", "copilot", stdin=json.dumps(payload).encode())

    def write(kind: str, minute: int, **data: Any) -> None:
        line = {"type": kind, "data": data, "id": f"i{minute}", "timestamp": f"2026-11-27T04:0{minute}:00.000Z"}
        with transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    write("session.start", 0, sessionId=SESSION)
    call = {"tool_name": "Bash", "tool_input": {"command": "spec-kitty do 'implement WP03'"}}
    tell("UserPromptSubmit", 1, prompt="fix it")
    tell("PreToolUse", 1, **call)
    answer = cli("do", "implement WP03", "--json", env={"COPILOT_AGENT_SESSION_ID": SESSION})
    tell("PostToolUse", 1, **call, tool_result={"result_type": "success", "text_result_for_llm": answer.out})
    run = answer.json()["invocation_id"]
    for minute in (2, 4):
        tell("UserPromptSubmit", minute, prompt=f"fix it {minute}")
        write("user.message", minute, content=f"fix it {minute}")
        write("assistant.message", minute + 1, content=LAST_WORDS)
        if minute == 4:
            cli("profile-invocation", "complete", run)
        tell("Stop", minute + 1, stop_reason="end_turn")

    told = [line for line in (*events(chartered, run), *annexes(chartered, run)) if line["event"] == "turn"]
    assert [line["text"]["head"] for line in told] == [LAST_WORDS] * 2


def test_the_last_words_are_of_the_record_that_was_closed_last(tell: Tell, cli: Cli, chartered: Path) -> None:
    """A record that began inside another and was closed before it gets no answer of the session's."""
    tell("UserPromptSubmit", prompt="fix it", prompt_id="p1")
    outer = begin(cli, tell)
    inner = begin(cli, tell, "t1")
    cli("profile-invocation", "complete", inner, env=ENV)
    tell("PreToolUse", **call("t2"))
    cli("profile-invocation", "complete", outer, env=ENV)
    tell("Stop", last_assistant_message="all done", prompt_id="p1")

    assert [line["event"] for line in annexes(chartered, inner)] == []
    assert [line["text"]["head"] for line in annexes(chartered, outer) if line["event"] == "turn"] == ["all done"]


# --- subagents of subagents


def begin_nested(cli: Cli, tell: Tell) -> tuple[str, str]:
    """A session whose subagent `a1` has a record of its own and has just called for another, `a2`."""
    outer = begin(cli, tell)
    tell("PreToolUse", tool_name="Agent", tool_input={"prompt": "review"}, tool_use_id="t1")
    tell("SubagentStart", agent_id="a1", agent_type="reviewer")
    command = {"tool_name": "Bash", "tool_input": {"command": "spec-kitty do 'review it'"}, "tool_use_id": "t2"}
    tell("PreToolUse", agent_id="a1", **command)
    answer = cli("do", "review the login code", "--json", env=ENV)
    tell("PostToolUse", agent_id="a1", **command, tool_response={"stdout": answer.out})
    tell("PreToolUse", agent_id="a1", tool_name="Agent", tool_input={"prompt": "look"}, tool_use_id="t3")
    tell("SubagentStart", agent_id="a2", agent_type="looker")
    return outer, str(answer.json()["invocation_id"])


def test_a_subagent_works_on_the_record_of_the_one_that_began_it(tell: Tell, cli: Cli, chartered: Path) -> None:
    outer, inner = begin_nested(cli, tell)
    tell("PreToolUse", agent_id="a2", **call("t4"))
    tell("SubagentStop", agent_id="a2", agent_type="looker")
    agents = [{line.get("agent") for line in events(chartered, run) if "agent" in line} for run in (outer, inner)]

    assert agents == [{"a1"}, {"a1", "a2"}]


def test_a_subagent_that_ends_leads_back_to_the_one_that_began_it(tell: Tell, cli: Cli, chartered: Path) -> None:
    """Only when that one is over, too, the session itself goes on."""
    run = begin(cli, tell)
    tell("PreToolUse", tool_name="Agent", tool_input={"prompt": "review"}, tool_use_id="t1")
    tell("SubagentStart", agent_id="a1", agent_type="reviewer")
    tell("PreToolUse", agent_id="a1", tool_name="Agent", tool_input={"prompt": "look"}, tool_use_id="t3")
    tell("SubagentStart", agent_id="a2", agent_type="looker")
    tell("SubagentStop", agent_id="a2", agent_type="looker")
    tell("SubagentStop", agent_id="a1", agent_type="reviewer")
    stages = [line["to"] for line in events(chartered, run) if line["event"] == "stage_transition"]

    assert stages == ["subagent:reviewer", "subagent:looker", "subagent:reviewer", "main"]


def test_subagents_that_work_side_by_side_do_not_begin_inside_each_other(tell: Tell, cli: Cli, chartered: Path) -> None:
    """Each goes out from the stage of the one that called for it, whatever else works meanwhile."""
    run = begin(cli, tell)
    for number, agent in enumerate(("a1", "c3")):
        tell("PreToolUse", tool_name="Agent", tool_input={"prompt": "review"}, tool_use_id=f"t{number + 1}")
        tell("SubagentStart", agent_id=agent, agent_type="reviewer")
    tell("PreToolUse", agent_id="a1", tool_name="Agent", tool_input={"prompt": "look"}, tool_use_id="t3")
    tell("SubagentStart", agent_id="a2", agent_type="looker")
    lines = [line for line in events(chartered, run) if line["event"] == "stage_transition"]

    assert [(line["agent"], line["from"]) for line in lines] == [
        ("a1", "main"),
        ("c3", "main"),
        ("a2", "subagent:reviewer"),
    ]


def test_who_began_a_subagent_is_not_guessed(tell: Tell, cli: Cli, chartered: Path) -> None:
    """Two agents called for a subagent, and one began: it works on the session's record."""
    outer, inner = begin_nested(cli, tell)
    for agent in ({}, {"agent_id": "a1"}):
        tell("PreToolUse", tool_name="Agent", tool_input={"prompt": "more"}, tool_use_id=f"t5{agent}", **agent)
    tell("SubagentStart", agent_id="a3", agent_type="looker")
    holders = [run for run in (outer, inner) if any(line.get("agent") == "a3" for line in events(chartered, run))]

    assert holders == [outer]


def test_a_later_turn_is_not_of_the_closed_record(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    cli("profile-invocation", "complete", run, env=ENV)
    tell("UserPromptSubmit", prompt="something else", prompt_id="p2")
    tell("Stop", last_assistant_message="that too", prompt_id="p2")

    assert annexes(chartered, run) == []


def test_compaction_and_the_end_of_a_session_are_told(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreCompact", trigger="manual", prompt_id="p1")
    tell("SessionEnd", reason="other", prompt_id="p1")
    told = [(e["change"], e["reason"]) for e in events(chartered, run) if e["event"] == "session_change"]

    assert told == [("compacted", "manual"), ("ended", "other")]


def test_what_a_session_works_with_becomes_another(tell: Tell, cli: Cli, chartered: Path) -> None:
    """The model, the folder, settings, instructions: once each, however often it is told."""
    run = begin(cli, tell)
    for _ in range(2):
        tell("PostModelSwitch", from_model="a", to_model="b", requested_model="b", source="command", prompt_id="p1")
    tell("CwdChanged", old_cwd=str(chartered), new_cwd=str(chartered / "src"))
    tell("ConfigChange", source="local_settings", file_path="/home/ada/.claude/settings.local.json")
    tell("InstructionsLoaded", file_path="/p/src/CLAUDE.md", memory_type="Project", load_reason="nested_traversal")
    tell("ElicitationResult", mcp_server_name="spy", action="decline", prompt_id="p1")
    tell("DirectoryAdded", directory="/srv/other", source="slash_command")
    tell("WorktreeCreate", name="wt")
    changes = [line for line in events(chartered, run) if line["event"] == "session_change"]

    assert [(line["change"], line.get("reason"), line["detail"]) for line in changes] == [
        ("model_switched", "command", "b"),
        ("folder_changed", None, str(chartered / "src")),
        ("settings_changed", "local_settings", "/home/ada/.claude/settings.local.json"),
        ("instructions_loaded", "nested_traversal", "/p/src/CLAUDE.md"),
        ("question_answered", "decline", "spy"),
        ("folder_added", "slash_command", "/srv/other"),
    ]
    assert [line for line in events(chartered, run) if line["event"] == "capture_gap"] == []


def test_a_call_says_under_which_permissions_it_was_made(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", permission_mode="bypassPermissions", **call("t1"))

    assert events(chartered, run)[-1]["permission_mode"] == "bypassPermissions"


def test_events_that_other_programs_send_now_are_read() -> None:
    """Qwen Code's automatic mode refuses a call and its session is deleted; Codex is interrupted."""
    refused = {"hook_event_name": "PermissionDenied", "tool_name": "run_shell_command", "tool_use_id": "c1"}
    result, denial = translate("qwen", {**refused, "session_id": "s", "reason": "too risky"}).events
    deleted = translate("qwen", {"hook_event_name": "SessionDelete", "session_id": "s", "deleted_session_id": "d"})
    stopped = translate("codex", {"hook_event_name": "Interrupt", "session_id": "s", "turn_id": "t"})

    assert (result.payload["status"], result.payload["output"], denial.event) == ("denied", "too risky", "approval")
    assert deleted.moment is not None and (deleted.moment.kind, deleted.moment.detail) == ("session_deleted", "d")
    assert stopped.moment is not None and stopped.moment.kind == "interrupted"


API_ERROR = {
    "type": "assistant",
    "uuid": "21263220-2d0e-433a-b577-5d8d05149262",
    "message": {
        "model": "<synthetic>",
        "role": "assistant",
        "content": [{"type": "text", "text": "API Error: 529 Overloaded, said the scripted model."}],
        "usage": {"input_tokens": 0, "output_tokens": 0},
    },
    "error": "server_error",
    "isApiErrorMessage": True,
    "apiErrorStatus": 529,
}


@pytest.mark.parametrize("hook_lived", [False, True])
def test_an_error_that_ended_a_session_is_told_once_whether_its_hook_lived_or_not(
    tell: Tell, cli: Cli, chartered: Path, tmp_path: Path, hook_lived: bool
) -> None:
    """`claude -p` ends its hooks with itself, but for those of the session's end."""
    tell("UserPromptSubmit", prompt="fix it", prompt_id="p1")
    run = begin(cli, tell)
    (tmp_path / "t.jsonl").write_text(json.dumps(API_ERROR) + "\n")
    if hook_lived:
        tell("StopFailure", error="server_error", last_assistant_message="API Error: 529", prompt_id="p1")
    for _ in range(2):
        tell("SessionEnd", reason="other", transcript_path=str(tmp_path / "t.jsonl"), prompt_id="p1")
    errors = [event for event in events(chartered, run) if event["event"] == "error"]

    assert [error["error_code"] for error in errors] == ["server_error"]
    assert errors[0]["message"].startswith("API Error: 529")


def test_an_event_of_a_later_version_is_said_to_be_unknown_once(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    for _ in range(2):
        tell("PostThought", tool_name="Bash", thought=SECRET)
    tell("Post\ud800", tool_name="Bash")
    tell("PostToolBatch", results=[])
    tell("FileChanged", file_path="a.py")  # passed over, and that is known
    tell("PreToolUse", **call("t1"), brand_new={"member": 1})
    told = events(chartered, run)

    gaps = [(event["reason"], event["what"]) for event in told if event["event"] == "capture_gap"]
    assert gaps == [("unknown_payload", "PostThought"), ("unknown_payload", "Post\\ud800")]
    assert told[-1]["call_id"] == "t1" and SECRET not in json.dumps(told)


def test_of_thinking_a_record_keeps_the_digest_alone(tell: Tell, cli: Cli, chartered: Path, tmp_path: Path) -> None:
    run = begin(cli, tell)
    content = [{"type": "thinking", "thinking": "perhaps the other file"}, {"type": "text", "text": "yes"}]
    line = {"type": "assistant", "message": {"id": "m", "model": "opus", "content": content, "usage": {}}}
    (tmp_path / "t.jsonl").write_text(json.dumps(line) + "\n")
    tell("Stop", transcript_path=str(tmp_path / "t.jsonl"), prompt_id="p1")
    turn = events(chartered, run)[-1]

    assert (turn["model"], turn["thinking_size"], len(turn["thinking_hash"])) == ("opus", 22, 64)
    assert "perhaps" not in json.dumps(turn)


def test_show_says_what_nobody_told(tell: Tell, cli: Cli) -> None:
    tell("UserPromptSubmit", prompt="fix it", prompt_id="p1")
    run = begin(cli, tell)
    shown = cli("invocations", "show", run, "--json").json()

    assert shown["not_seen"] == ["answers", "model", "tokens", "cost", "thinking", "permissions"]
    assert (
        "not seen: answers, model, tokens, cost as billed, thinking, permissions" in cli("invocations", "show", run).out
    )


def test_nothing_of_a_persons_record_is_missing(cli: Cli, chartered: Path) -> None:
    assert chartered
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]

    assert cli("invocations", "show", run, "--json").json()["not_seen"] == []


# --- what a person was asked and allowed


def approvals(root: Path, run: str) -> list[tuple[str, str]]:
    return [(item["decision"], item["call_id"]) for item in events(root, run) if item["event"] == "approval"]


def test_a_call_a_person_was_asked_for_and_that_ran_was_allowed(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    asked = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
    tell("PreToolUse", **call("t1"))
    tell("PermissionRequest", **asked, permission_suggestions=[])
    tell("PostToolUse", **call("t1"), tool_response={"stdout": ""})
    tell("PreToolUse", **call("t2"))  # the same again, which nobody was asked for
    tell("PostToolUse", **call("t2"), tool_response={"stdout": ""})

    assert approvals(chartered, run) == [("allow", "t1")]
    names = [item["event"] for item in events(chartered, run)]
    assert names[names.index("approval") + 1] == "tool_result"
    assert cli("invocations", "verify", run).code == 0


def test_equal_calls_that_were_asked_for_are_each_allowed(tell: Tell, cli: Cli, chartered: Path) -> None:
    run = begin(cli, tell)
    for name in ("t1", "t2"):
        tell("PreToolUse", **call(name))
        tell("PermissionRequest", tool_name="Bash", tool_input={"command": "rm -rf build"})
    for name in ("t1", "t2"):
        tell("PostToolUse", **call(name), tool_response={"stdout": ""})

    assert approvals(chartered, run) == [("allow", "t1"), ("allow", "t2")]


@pytest.mark.parametrize("ending", ["PermissionDenied", "UserPromptSubmit", "SessionEnd"])
def test_what_was_asked_and_not_allowed_allows_no_later_call(
    tell: Tell, cli: Cli, chartered: Path, ending: str
) -> None:
    run = begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    tell("PermissionRequest", tool_name="Bash", tool_input={"command": "rm -rf build"})
    tell(ending, **(call("t1") if ending == "PermissionDenied" else {"prompt": "No.", "prompt_id": "p2"}))
    tell("PreToolUse", **call("t2"))
    tell("PostToolUse", **call("t2"), tool_response={"stdout": ""})

    assert [item for item in approvals(chartered, run) if item[0] == "allow"] == []


def test_a_hook_looks_for_questions_only_while_one_waits(tell: Tell, cli: Cli, chartered: Path) -> None:
    begin(cli, tell)
    tell("PreToolUse", **call("t1"))
    tell("PermissionRequest", tool_name="Bash", tool_input={"command": "rm -rf build"})
    waiting = [*(chartered / layout.ASKED).iterdir()]
    tell("UserPromptSubmit", prompt="No.", prompt_id="p2")

    assert (len(waiting), [*(chartered / layout.ASKED).iterdir()]) == (1, [])


def test_gemini_tells_what_it_asks_by_the_command(cli: Cli, chartered: Path) -> None:
    cli("init")
    answer = cli("do", "implement WP03", "--json", env={"GEMINI_CLI": "1", "GEMINI_CLI_SESSION_ID": SESSION})
    run = answer.json()["invocation_id"]
    session = {"session_id": SESSION, "cwd": str(chartered), "timestamp": "2026-11-22T08:22:37.216Z"}
    begun = {"tool_name": "run_shell_command", "tool_input": {"command": "spec-kitty do 'implement WP03'"}}
    details = {"type": "exec", "title": "Confirm", "command": "make all", "rootCommand": "make"}
    made = {"tool_name": "run_shell_command", "tool_input": {"command": "make all"}}
    ran = {"tool_response": {"llmContent": "Output: done", "returnDisplay": "done"}}
    printed = {"tool_response": {"llmContent": f'Output: {{"invocation_id": "{run}"}}', "returnDisplay": ""}}
    for event, more in (
        ("AfterTool", begun | printed),
        ("BeforeTool", made),
        ("Notification", {"notification_type": "ToolPermission", "message": "?", "details": details}),
        ("AfterTool", made | ran),
    ):
        done = cli("hook", "gemini", stdin=json.dumps({**session, "hook_event_name": event, **more}).encode())
        assert (done.code, done.err) == (0, "")

    assert [decision for decision, _ in approvals(chartered, run)] == ["allow"]


@pytest.mark.parametrize(
    ("cost", "spelled"),
    [(0.0123, "0.0123"), (1.2e-05, "0.000012"), (3, "3"), (0, None), (-1, None), ("1", None), (1e300, None)],
)
def test_opencode_tells_what_a_turn_cost(cost: Any, spelled: str | None, cli: Cli, chartered: Path) -> None:
    env = {"OPENCODE": "1", "SPEC_KITTY_OPENCODE_SESSION": SESSION}
    run = str(cli("do", "implement WP03", "--json", env=env).json()["invocation_id"])
    told = {"session_id": SESSION, "cwd": str(chartered), "hook_event_name": "session.idle", "timestamp": "1-2-3"}
    cli("hook", "opencode", stdin=json.dumps({**told, "cost": cost}).encode())
    (turn,) = (event for event in events(chartered, run) if event["event"] == "turn")

    assert turn.get("cost") == spelled
    assert ("cost" in cli("invocations", "show", run, "--json").json()["not_seen"]) == (spelled is None)


def test_opencode_tells_the_answer_by_the_id_of_the_call() -> None:
    told = {"session_id": SESSION, "tool_use_id": "call_1"}
    answer = translate("opencode", {**told, "hook_event_name": "permission.allowed"})
    result = translate("opencode", {**told, "hook_event_name": "tool.execute.after", "tool_name": "bash"})

    assert (answer.asked, result.asked) == ("call_1", "call_1")


def test_copilot_asks_its_hooks_also_where_it_asks_nobody() -> None:
    asked = {"hookName": "permissionRequest", "sessionId": SESSION, "toolName": "bash", "toolInput": {"command": "ls"}}

    assert translate("copilot", asked).asked is None


def test_what_a_program_tells_its_model_of_a_task_in_the_background_is_no_prompt() -> None:
    for harness, text in (("claude-code", "<task-notification>\n"), ("copilot", "<system_notification>\nShell")):
        told = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": text}

        assert translate(harness, told).moment.kind == ""


def test_an_edit_that_was_denied_changed_no_file_and_did_not_fail_to() -> None:
    told = {"session_id": SESSION, "tool_use_id": "c1", "tool_name": "edit", "tool_input": {"filePath": "a.py"}}
    error = "The user rejected permission to use this specific tool call."
    call = translate("opencode", {**told, "hook_event_name": "tool.execute.failed", "error": error})

    assert [event.event for event in call.events] == ["tool_result", "approval"]


# --- a `do` that comes late


def test_a_late_do_takes_over_the_calls_of_its_turn(tell: Tell, cli: Cli, chartered: Path) -> None:
    tell("UserPromptSubmit", prompt="what is there?", prompt_id="p1")
    tell("PreToolUse", **call("t0"))
    tell("PostToolUse", **call("t0"), tool_response={"hits": 1})
    tell("UserPromptSubmit", prompt="the login test fails", prompt_id="p2")
    for name in ("t1", "t2", "t3"):
        tell("PreToolUse", **call(name))
        tell("PostToolUse", **call(name), tool_response={"hits": 3})
    run = begin(cli, tell, "t9")

    lines = events(chartered, run)
    early = [line for line in lines if "claimed_at" in line]
    assert [line["call_id"] for line in early] == ["t1", "t1", "t2", "t2", "t3", "t3"]
    assert all(line["claimed_at"] <= line["at"] for line in early)
    kinds = [line["event"] for line in lines]
    assert kinds.count("prompt") == 1 and kinds.index("prompt") < kinds.index("tool_call"), "the calls followed it"
    doctor = [item["message"] for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_ORPHANS"]
    assert len(doctor) == 1 and doctor[0].startswith("2 hook events"), "of the turn before, which no record is of"


def test_doctor_never_advises_to_remove_what_stands_nowhere_else(tell: Tell, cli: Cli) -> None:
    tell("PreToolUse", **call("t0"))

    (found,) = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "HOOK_ORPHANS"]
    assert "rm " not in found["repair"] and "import sessions --harness claude-code" in found["repair"]


def test_a_turn_of_a_million_requests_is_read_to_its_end() -> None:
    """What all of them used was copied for each: it took most of an hour, in a hook."""
    code = (
        "from specify_cli.features.hooks.harnesses import find_dialect\n"
        "from specify_cli.features.hooks.payload.turn_from_transcript import Turn\n"
        "turn, counts = Turn(find_dialect('codex')), {'input_tokens': 1}\n"
        "for number in range(1_000_000): turn.add_request(str(number), counts)\n"
        "print(turn.requests)"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=PATIENCE, check=False)

    assert (done.stdout, done.stderr) == ("1000000\n", "")
