"""No list and no search is cut without saying so, and a range of time has two ends."""

from __future__ import annotations

import json
import re

import pytest

from support import Cli


@pytest.fixture
def many(cli: Cli) -> list[str]:
    """Seven records of one word, the oldest first."""
    made = [cli("do", f"fix the parser number {number}", "--json").json()["invocation_id"] for number in range(7)]
    return list(map(str, made))


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_list_that_is_cut_says_by_how_much(cli: Cli, many: list[str], as_json: tuple[str, ...]) -> None:
    cut = cli("invocations", "list", "--limit", "3", *as_json)
    whole = cli("invocations", "list", "--limit", "7", *as_json)

    assert "the newest 3" in cut.err and "4 older records were not looked at" in cut.err
    assert whole.err == ""
    assert len(many) == 7


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.usefixtures("many")
def test_a_search_that_is_cut_says_by_how_much(cli: Cli, as_json: tuple[str, ...]) -> None:
    cut = cli("invocations", "search", "parser", "--limit", "2", *as_json)
    whole = cli("invocations", "search", "parser", "--limit", "100", *as_json)

    assert re.search(r"; \d+ records hold more: --limit", cut.err)
    assert whole.err == ""


def test_a_list_under_a_search_filter_says_it_too(cli: Cli, many: list[str]) -> None:
    for one in many:
        event = {"event": "tool_call", "call_id": one, "tool": "Bash", "args": {"command": "ls"}}
        cli("profile-invocation", "record", "--invocation-id", one, stdin=json.dumps(event).encode())
    cut = cli("invocations", "list", "--tool", "Bash", "--limit", "3", "--json")

    assert len(cut.json()) == 3
    assert "4 older records were not looked at" in cut.err


def test_until_ends_a_range(cli: Cli, many: list[str]) -> None:
    rows = cli("invocations", "list", "--json").json()
    middle = next(row["started_at"] for row in rows if row["invocation_id"] == many[3])
    before = cli("invocations", "list", "--until", middle, "--json").json()
    between = cli("invocations", "list", "--since", middle, "--until", rows[0]["started_at"], "--json").json()
    found = cli("invocations", "search", "parser", "--until", middle, "--json").json()

    assert [row["invocation_id"] for row in before] == many[2::-1]
    assert [row["invocation_id"] for row in between] == many[5:2:-1]
    assert {hit["invocation_id"] for hit in found} == set(many[:3])
    assert "--until: expected a time" in cli("invocations", "list", "--until", "never").err
    for none in (cli("invocations", "list", "--limit", "0"), cli("invocations", "search", "parser", "--limit", "0")):
        assert (none.out.strip(), none.err) == ("--limit 0 shows nothing", "")
