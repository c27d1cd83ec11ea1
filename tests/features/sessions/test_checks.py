"""What doctor says of sessions that no hook told of."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from features.sessions.test_import_sessions import SUBAGENTS, forget, play_with_transcript, read_lines
from specify_cli.features.sessions.readers import list_names
from specify_cli.record import layout
from support import Cli


def find(cli: Cli) -> list[dict[str, Any]]:
    return [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "SESSION_NOT_RECORDED"]


def touch(home: Path, days: float) -> None:
    """Let every transcript be written to last so many days ago."""
    then = time.time() - days * 24 * 3600
    for path in home.rglob("*.jsonl"):
        os.utime(path, (then, then))


@pytest.mark.parametrize("harness", [name for name in list_names() if name != "opencode"])
def test_doctor_names_a_session_that_is_in_no_record_and_its_import(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    play_with_transcript(harness, chartered, cli, home, now=True)
    touch(home, 0.1)
    recorded = find(cli)
    forget(chartered)

    (found,) = find(cli)
    cli("import", "sessions", "--harness", harness)
    imported = find(cli)

    assert recorded == imported == []
    assert (found["severity"], found["repair"]) == ("info", f"spec-kitty import sessions --harness {harness}")
    assert "1 session" in found["message"]


@pytest.mark.parametrize("harness", ["claude-code", "codex"])
def test_a_subagent_whose_session_is_gone_is_no_session_and_adds_nothing_to_its_record(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    play_with_transcript(harness, chartered, cli, home, lose=lambda place, _: place > 12, now=True)
    for path in home.rglob("*.jsonl"):
        if SUBAGENTS[harness] not in str(path):
            path.unlink()
    touch(home, 0.1)
    told = sum("witness" in line for line in read_lines(chartered, layout.RECORDS))
    cli("doctor", "--sweep")
    told_now = sum("witness" in line for line in read_lines(chartered, layout.RECORDS))
    forget(chartered)

    assert told_now == told
    assert find(cli) == []


def test_where_hooks_are_installed_a_session_without_a_record_is_a_warning(
    chartered: Path, cli: Cli, home: Path
) -> None:
    play_with_transcript("claude-code", chartered, cli, home, now=True)
    forget(chartered)
    cli("hooks", "install", "--harness", "claude-code")
    settings = chartered / ".claude/settings.json"
    os.utime(settings, (time.time() - 2 * 24 * 3600,) * 2)
    touch(home, 1)
    (dead,) = find(cli)
    touch(home, 40)

    assert dead["severity"] == "warning"
    assert find(cli) == [], "sessions of long ago are not missed"


def test_a_session_under_way_of_which_no_hook_reported_the_prompt_is_named_at_once(
    chartered: Path, cli: Cli, home: Path
) -> None:
    """With spec-kitty gone from PATH the agent works on undisturbed, and nothing else tells a person so."""
    play_with_transcript("claude-code", chartered, cli, home, now=True)
    prompts = chartered / layout.PROMPTS
    told = prompts.rename(chartered.parent / "told")
    forget(chartered)
    touch(home, 0)
    without_hooks = find(cli)
    cli("hooks", "install", "--harness", "claude-code")
    dead = find(cli)
    prompts.parent.mkdir(exist_ok=True)
    told.rename(prompts)

    assert [len(without_hooks), len(dead), len(find(cli))] == [0, 1, 0]


def test_a_transcript_that_does_not_say_where_it_worked_is_of_no_project(
    chartered: Path, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_with_transcript("claude-code", chartered, cli, home, now=True)
    forget(chartered)
    for path in home.rglob("*.jsonl"):
        path.write_text(path.read_text().replace('"cwd"', '"was"'))
    touch(home, 1)
    monkeypatch.chdir(chartered)

    assert find(cli) == []


def test_a_store_that_cannot_be_read_keeps_no_record_from_being_swept(chartered: Path, cli: Cli, home: Path) -> None:
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database")
    run = cli("do", "fix it", "--json", env={"CLAUDE_CODE_SESSION_ID": "s1"}).json()["invocation_id"]
    (record,) = chartered.rglob(f"*{run}.jsonl")
    os.utime(record, (time.time() - 3 * 24 * 3600,) * 2)

    assert [item["invocation_id"] for item in cli("doctor", "--sweep", "--json").json()["swept"]] == [run]
