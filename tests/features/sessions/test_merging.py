"""Hooks and transcript held against each other: what one of them lost is recorded, once, and says who told it."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from features.sessions.test_import_sessions import (
    LONG_AGO,
    TimedSession,
    fill_database,
    forget,
    lay,
    play_with_transcript,
    read_lines,
)
from harness.importing import reduce
from hooking import run_hook
from specify_cli.features.sessions.merging import SessionMerger
from specify_cli.features.sessions.readers import list_names, read_session
from specify_cli.project.config import load_project
from specify_cli.record import layout
from support import FULL, Cli

RESULTS = (b'"PostToolUse', b"tool.execute.after", b"AfterTool")


def spread(*values: Any) -> list[Any]:
    """Each of these with every second or third harness, in turn, so that each harness has some; with all under make
    stress."""
    pairs = [(name, value) for name in list_names() for value in values]
    turns = 1 if FULL else min(3, len(values))
    chosen = [pair for at, pair in enumerate(pairs) if (at // len(values) + at % len(values)) % turns == 0]
    return [pytest.param(name, *(value if isinstance(value, tuple) else (value,))) for name, value in chosen]


def lose(what: str, number: int, data: bytes) -> bool:
    """Whether the hook of this payload of a session was not run."""
    if what == "results":
        return any(name in data for name in RESULTS)
    halves = {"all": range(1000), "first half": range(20), "second half": range(20, 1000)}
    return number in halves[what] if what in halves else random.Random(f"{what} {number}").random() < 0.5


LOSSES = (
    "all",
    "first half",
    "second half",
    "results",
    *(f"half at random {seed}" for seed in range(4 if FULL else 1)),
)


def read_all(root: Path) -> list[dict[str, Any]]:
    return [line for folder in (layout.RECORDS, layout.ANNEXES, layout.IMPORTED) for line in read_lines(root, folder)]


def list_calls(lines: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Count each call with the status that is known of it; equal calls without names stand for one another."""
    statuses: dict[str, str] = {}
    begun: Counter[str] = Counter()
    tools: dict[str, str] = {}
    for line in lines:
        if line["event"] == "tool_call":
            begun[line["call_id"]] += 1
            tools[line["call_id"]] = f"{line['tool']} {line.get('args_hash')}"
        elif line["event"] == "tool_result" and (line["status"] != "unknown" or line["call_id"] not in statuses):
            statuses[line["call_id"]] = line["status"]
    found: Counter[tuple[str, str]] = Counter()
    for call, count in begun.items():
        found[tools[call], statuses.get(call, "open")] += count
    return found


@pytest.mark.stress
@pytest.mark.parametrize(("harness", "lost"), spread(*LOSSES))
def test_what_hooks_lost_comes_from_the_transcript_once(
    harness: str, lost: str, chartered: Path, cli: Cli, home: Path
) -> None:
    session = play_with_transcript(harness, chartered, cli, home, partial(lose, lost), now=True)

    first = cli("import", "sessions", "--harness", harness, "--json").json()
    merged = read_all(chartered)
    second = cli("import", "sessions", "--harness", harness, "--json").json()
    again = read_all(chartered)
    verified = cli("invocations", "verify", "--all", "--json")
    forget(chartered)
    lay(harness, home, session)
    cli("import", "sessions", "--harness", harness)
    whole = read_all(chartered)

    assert first["imported"] == second["imported"] == [], "the session has a record: nothing of it is left over"
    assert list_calls(merged) == list_calls(whole)
    assert [line for line in merged if line.get("reason") == "contradiction"] == []
    assert reduce(harness, merged).keys() >= {
        event for event in reduce(harness, whole) if event[0] in ("prompt", "patch_apply")
    }
    assert again == merged
    assert verified.code == 0 and [item for item in verified.json()["findings"] if item["severity"] == "error"] == []


@pytest.mark.parametrize("harness", ["claude-code", "codex", "gemini", "qwen"])
def test_what_hooks_lost_comes_from_the_transcript_though_something_else_was_erased(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    session = play_with_transcript(harness, chartered, cli, home, partial(lose, "second half"), now=True)
    (record,) = (chartered / layout.RECORDS).glob("*.jsonl")
    erased = cli("forget", "--invocation-id", record.stem[-26:], "--member", "request_text", "--yes")

    cli("import", "sessions", "--harness", harness)
    merged = read_all(chartered)
    forget(chartered)
    lay(harness, home, session)
    cli("import", "sessions", "--harness", harness)

    assert erased.code == 0
    assert list_calls(merged) == list_calls(read_all(chartered))


def test_a_call_whose_result_a_clock_that_went_back_dates_before_it_is_told_at_once(
    chartered: Path, cli: Cli, home: Path
) -> None:
    play_with_transcript("copilot", chartered, cli, home, partial(lose, "second half"), now=True)
    (path,) = home.rglob("events.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    results = [line for line in lines if line["type"] == "tool.execution_complete"]
    for line in results:
        line["timestamp"] = "2026-01-01" + line["timestamp"][10:]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, LONG_AGO)

    cli("import", "sessions", "--harness", "copilot")
    once = read_all(chartered)
    cli("import", "sessions", "--harness", "copilot")

    assert len(results) > 5
    assert once == read_all(chartered)
    assert [call for (call, status) in list_calls(once) if status == "open"] == []


@pytest.mark.stress
@pytest.mark.parametrize(("harness", "opens"), spread(False, True))
def test_what_hooks_tell_behind_the_import_of_their_session_is_told_once(
    harness: str, opens: bool, chartered: Path, cli: Cli, home: Path
) -> None:
    """Copilot and Gemini CLI name no call to their hooks, so tool, arguments and time say which one is meant."""
    told: list[bytes] = []

    def keep(_: int, data: bytes) -> bool:
        told.append(data)
        return True

    session = play_with_transcript(harness, chartered, cli, home, keep, now=True)
    forget(chartered)
    lay(harness, home, session)
    cli("hooks", "install", "--harness", harness, "--open" if opens else "--no-open")
    cli("import", "sessions", "--harness", harness)
    imported = read_all(chartered)
    for data in told * 2:
        run_hook(harness, data, str(chartered), str(home))

    assert len(list_calls(imported)) > 10
    assert read_all(chartered) == imported
    assert not (chartered / layout.ORPHANS).exists()


@pytest.mark.stress
@pytest.mark.parametrize(
    ("harness", "lost", "opens"),
    spread(("all", True), ("first half", False), ("second half", True), ("results", False), ("results", True)),
)
def test_what_hooks_tell_behind_their_transcript_is_told_once(
    harness: str, lost: str, opens: bool, chartered: Path, cli: Cli, home: Path
) -> None:
    late: list[bytes] = []
    cli("hooks", "install", "--harness", harness, "--open" if opens else "--no-open")

    def drop(number: int, data: bytes) -> bool:
        late.extend([data] * lose(lost, number, data))
        return lose(lost, number, data)

    session = play_with_transcript(harness, chartered, cli, home, drop, now=True)
    cli("import", "sessions", "--harness", harness)
    merged = read_all(chartered)
    for data in late * 2:
        run_hook(harness, session.retime(data.decode()).encode(), str(chartered), str(home))
    after = read_all(chartered)

    assert list_calls(after) == list_calls(merged)
    once = ("prompt", "patch_apply", "turn")
    counts = [Counter(line["event"] for line in lines if line["event"] in once) for lines in (after, merged)]
    assert counts[0] == counts[1]
    assert [line for line in after if line.get("reason") == "contradiction"] == []


def test_turns_of_opencode_that_end_in_equal_words_are_told_once_each(chartered: Path, cli: Cli, home: Path) -> None:
    """No hook told the first one's end in time, the second one's was told when it was over."""
    now, session = time.time_ns() // 1_000_000, "ses_1"
    run = cli("do", "look", "--json", env={"SPEC_KITTY_OPENCODE_SESSION": session}).json()["invocation_id"]
    rows: list[dict[str, Any]] = [{"table": "session", "id": session, "directory": str(chartered), "time_created": now}]

    def say(role: str, text: str, at: int, **more: Any) -> None:
        name = f"m{len(rows)}"
        rows.append({"table": "message", "id": name, "time_created": at, "data": {"role": role, **more}})
        part = {"type": "text", "text": text}
        rows.append({"table": "part", "id": f"p{name}", "message_id": name, "time_created": at, "data": part})
        fill_database(home / ".local/share/opencode/opencode.db", rows)

    def tell(event: str, **more: Any) -> None:
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(chartered), **more}
        run_hook("opencode", json.dumps(payload).encode(), str(chartered), str(home))

    ends = [{"timestamp": f"{now + at}-1-{at}", "last_assistant_message": "Done."} for at in (-9_890, 10_110)]
    for at, asked in ((-10_000, "look"), (10_000, "look again")):
        say("user", asked, now + at)
        tell("chat.message", prompt=asked, prompt_id=f"m{at}")
        say("assistant", "Done.", now + at + 100, tokens={"input": 5})
    tell("session.idle", **ends[1], tokens={"input": 70})
    for end in (*ends, *ends):
        tell("session.idle", **end, tokens={"input": 9})
    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    assert [line["tokens"]["input"] for line in lines if line["event"] == "turn"] == [5, 70]


@pytest.mark.parametrize("told", [(2, 3, 53), (52, 53)])
def test_each_of_two_turns_that_end_at_nearly_the_same_time_counts_once(
    told: tuple[int, ...], chartered: Path, cli: Cli, home: Path
) -> None:
    """Qwen Code ends a turn again when its subagent is over. Hooks told the `do` and the second end, or both ends."""
    numbers = itertools.count()

    def deliver(name: str, data: bytes) -> None:
        number = next(numbers)
        if number in told:
            lay(name, home, session, until="<task-notification>" if number < 53 else None)
            run_hook(name, data, str(chartered), str(home))

    session = TimedSession("qwen/job", chartered, cli, deliver)
    session.begin_now()
    session.play()
    cli("import", "sessions", "--harness", "qwen")
    turns = [line for line in read_all(chartered) if line["event"] == "turn" and "agent" not in line]

    assert [line["tokens"]["input"] for line in sorted(turns, key=lambda line: line["text"]["size"])] == [1500, 100]


def test_what_a_subagent_used_that_goes_on_while_its_session_is_merged_counts_once(
    chartered: Path, cli: Cli, home: Path
) -> None:
    """Each merge reads its transcript from the begin, and adds what it used since the merge before."""
    cli("do", "look", env={"CLAUDE_CODE_SESSION_ID": "s1"})
    now = datetime.now(UTC)

    def line(at: int, kind: str, **message: Any) -> dict[str, Any]:
        stated = (now + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
        session = {"sessionId": "s1", "cwd": str(chartered), "timestamp": stated, "uuid": f"u{at}"}
        return {"type": kind, **session, "message": message}

    def answer(number: int) -> dict[str, Any]:
        usage = {"input_tokens": 100 + number, "output_tokens": 10}
        content = [{"type": "text", "text": f"look {number}"}]
        return line(
            number, "assistant", role="assistant", id=f"m{number}", model="fake-1", usage=usage, content=content
        )

    main = lay_lines([line(0, "user", role="user", content="look")])
    project, cache = load_project(str(chartered), str(home))
    for until in (1, 1, 3, 4, 4):
        inner = lay_lines([{**answer(number), "isSidechain": True, "agentId": "a1"} for number in range(until)])
        session = read_session("claude-code", main, {"a1": inner})
        assert session is not None
        SessionMerger(project, cache).merge(session)
    turns = [line for line in read_all(chartered) if line["event"] == "turn"]

    assert {line["agent"] for line in turns} == {"a1"}
    assert [sum(line.get("requests", 0) for line in turns), len(turns)] == [4, 3]
    assert sum(line["tokens"]["input"] for line in turns if "tokens" in line) == 406


def lay_lines(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
