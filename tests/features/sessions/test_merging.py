"""Hooks and transcript held against each other: what one of them lost is recorded, once, and says who told it."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from features.sessions.test_import_sessions import forget, lay, play_with_transcript, read_lines
from harness.importing import reduce
from specify_cli.features.hooks.handler import run_hook
from specify_cli.features.sessions.readers import list_names
from specify_cli.record import layout
from support import FULL, Cli

each = pytest.mark.parametrize("harness", list_names())
RESULTS = (b'"PostToolUse', b"tool.execute.after", b"AfterTool")


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
    *(f"half at random {seed}" for seed in range(4 if FULL else 2)),
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


@each
@pytest.mark.parametrize("lost", LOSSES)
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


@each
@pytest.mark.parametrize("opens", [False, True])
def test_what_hooks_tell_behind_the_import_of_their_session_is_told_once(
    harness: str, opens: bool, chartered: Path, cli: Cli, home: Path
) -> None:
    """Copilot and Gemini CLI name no call to their hooks, so tool, arguments and time say which one is meant."""
    told: list[bytes] = []

    def keep(_: int, data: bytes) -> bool:
        told.append(data)
        return False

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


@each
@pytest.mark.parametrize(
    ("lost", "opens"), [("all", True), ("first half", False), ("second half", True), ("results", False), ("results", True)]
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
    # opencode keeps its transcript in a database, so the end of a turn is not held against it
    once = ("prompt", "patch_apply", *(("turn",) if harness != "opencode" else ()))
    counts = [Counter(line["event"] for line in lines if line["event"] in once) for lines in (after, merged)]
    assert counts[0] == counts[1]
    assert [line for line in after if line.get("reason") == "contradiction"] == []
