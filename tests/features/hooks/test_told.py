"""A second `do` of a session prints what is new and names the rest by its record; the record holds all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doctrine.light_imports import hash_bytes
from resealing import reseal
from specify_cli.record import layout
from support import Cli

Tell = Callable[..., None]
HELD = "Told before in this session and still in force: "


@pytest.fixture
def do(cli: Cli, tell: Tell) -> Callable[..., str]:
    """A `do` as the agent of a session runs it, its hooks around it; what it printed."""
    count = iter(range(99))
    assert cli("init").code == 0

    def run(request: str, *options: str, **agent: Any) -> str:
        call = {
            "tool_name": "Bash",
            "tool_input": {"command": f"spec-kitty do '{request}'"},
            "tool_use_id": f"toolu_{next(count)}",
        }
        tell("PreToolUse", **call, **agent)
        ran = cli("do", request, *options, env={"CLAUDE_CODE_SESSION_ID": "s-1"})
        assert ran.code == 0, ran.err
        tell("PostToolUse", **call, tool_response={"stdout": ran.out}, **agent)
        return str(ran.out)

    return run


def read_records(root: Path) -> list[list[dict[str, Any]]]:
    paths = sorted((root / layout.RECORDS).glob("*.jsonl"), key=lambda path: path.name[-32:])
    return [[json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] for path in paths]


def test_a_second_do_prints_what_is_new_and_names_the_record_of_the_rest(
    chartered: Path, tell: Tell, do: Callable[..., str], cli: Cli
) -> None:
    tell("SessionStart", source="startup")
    first, second = do("fix the failing login test"), do("fix the crash of the login page")
    one, two = read_records(chartered)
    held = two[0]["printed"]["held"]

    assert HELD not in first and "### Policy Summary" in first and "printed" not in one[0]
    assert HELD in second and "### Policy Summary" not in second
    assert {one[0]["invocation_id"]} == {entry["invocation_id"] for entry in held}
    assert "charter://section/policy-summary" in {entry["uri"] for entry in held}
    assert len(second) < len(first)
    assert two[0]["printed"]["hash"] != two[0]["governance_context_hash"]
    whole = cli("invocations", "context", two[0]["invocation_id"]).out
    assert "### Policy Summary" in whole and hash_bytes(whole.encode()) == two[0]["governance_context_hash"]
    assert {hit["uri"] for hit in two[3]["hits"]} >= {entry["uri"] for entry in held}


def test_what_the_record_of_a_first_prompt_holds_was_told_to_nobody(
    chartered: Path, tell: Tell, do: Callable[..., str], cli: Cli
) -> None:
    assert cli("hooks", "install", "--harness", "claude-code", "--open").code == 0
    tell("SessionStart", source="startup")
    tell("UserPromptSubmit", prompt="fix the failing login test")
    begun, printed = read_records(chartered)[0], do("fix the failing login test")
    shown = cli("invocations", "show", begun[0]["invocation_id"]).out
    rules = {item["name"]: item["runs"] for item in cli("report", "--json").json()["report"]["rules"]}
    effect = cli("charter", "effect", "--json").json()["effect"]["rules"]

    assert begun[0]["opened_by"] == "hook"
    assert HELD not in printed and "### Policy Summary" in printed
    assert "found, and given to nobody: a hook began it" in shown
    assert rules["charter://section/policy-summary"] == 1
    assert {rule["shown"] for rule in effect if rule["uri"] == "charter://section/policy-summary"} == {1}


def test_what_was_printed_replays_and_is_shown(chartered: Path, tell: Tell, do: Callable[..., str], cli: Cli) -> None:
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    do("fix the crash of the login page")
    name = read_records(chartered)[1][0]["invocation_id"]
    report = cli("replay", name, "--json").json()
    shown = cli("invocations", "show", name)

    assert report["findings"] == []
    assert "told before, in " in shown.out
    assert cli("invocations", "verify", "--all").code == 0


def test_another_printed_text_than_the_recorded_one_is_not_reproduced(
    chartered: Path, tell: Tell, do: Callable[..., str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    do("fix the crash of the login page")
    name = read_records(chartered)[1][0]["invocation_id"]
    monkeypatch.setattr("specify_cli.features.replay.replay.join_page", lambda *_: "another")

    assert [item["code"] for item in cli("replay", name, "--json").json()["findings"]] == ["NOT_REPRODUCED"]


def test_a_third_do_names_the_record_that_printed_a_rule(chartered: Path, tell: Tell, do: Callable[..., str]) -> None:
    tell("SessionStart", source="startup")
    for request in ("fix the failing login test", "fix the crash of the login page", "fix the login test again"):
        do(request)
    one, _, three = read_records(chartered)
    holders = {entry["uri"]: entry["invocation_id"] for entry in three[0]["printed"]["held"]}

    assert holders["charter://section/policy-summary"] == one[0]["invocation_id"]


def test_json_and_context_print_all(chartered: Path, tell: Tell, do: Callable[..., str]) -> None:
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    payload = json.loads(do("fix the crash of the login page", "--json"))
    page = do("fix the crash of the login page", "--context")

    assert "### Policy Summary" in payload["governance_context_text"] and HELD not in page
    assert hash_bytes(payload["governance_context_text"].encode()) == payload["governance_context_hash"]
    assert ["printed" in lines[0] for lines in read_records(chartered)] == [False] * 3


def test_after_a_compaction_a_new_start_and_in_a_subagent_nothing_was_told(tell: Tell, do: Callable[..., str]) -> None:
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    tell("PreCompact", trigger="auto")

    assert HELD not in do("fix the crash of the login page")
    assert HELD in do("fix the crash of the login page")
    tell("SessionStart", source="clear")
    assert HELD not in do("fix the crash of the login page")
    assert HELD not in do("fix the crash of the login page", agent_id="a-1", agent_type="general")


def test_where_hooks_do_not_say_when_a_session_begins_all_is_printed(do: Callable[..., str]) -> None:
    do("fix the failing login test")

    assert HELD not in do("fix the crash of the login page")


def test_a_rule_that_has_changed_since_is_new(chartered: Path, tell: Tell, do: Callable[..., str]) -> None:
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    path = chartered / ".kittify/charter/charter.md"
    path.write_text(path.read_text().replace("## Policy Summary\n", "## Policy Summary\n\n- Newly said.\n"))

    assert "- Newly said." in do("fix the crash of the login page")


@pytest.mark.parametrize("planted", [b"", b"[]", b'{"at": "x"}', b'{"at": -1}', b"\xff"])
def test_a_planted_mark_or_record_breaks_nothing(
    chartered: Path, tell: Tell, do: Callable[..., str], planted: bytes
) -> None:
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    for path in (chartered / layout.LOCAL / "bindings").iterdir():
        if b'"at"' in path.read_bytes():
            path.write_bytes(planted)
    (record,) = (chartered / layout.RECORDS).glob("*.jsonl")
    record.write_bytes(b'{"printed": {"form": 1}}\n' * 4)

    assert "### Policy Summary" in do("fix the crash of the login page")


@pytest.mark.parametrize("planted", [{}, {"form": 7}, {"held": [{}]}, "titles"])
def test_a_record_that_says_nonsense_of_what_was_printed_stops_no_do(
    chartered: Path, tell: Tell, do: Callable[..., str], planted: object
) -> None:
    """What lies in the work tree is anybody's."""
    tell("SessionStart", source="startup")
    do("fix the failing login test")
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    path.write_bytes(reseal([{**lines[0], "printed": planted}, *lines[1:]]))

    assert "# Governance context" in do("fix the crash of the login page")
