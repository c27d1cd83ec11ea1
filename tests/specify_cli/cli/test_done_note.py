"""Whoever closes, shows or exports work that was done reads what stands out in its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import Cli

EVENTS = [
    {"event": "tool_call", "call_id": "1", "tool": "Bash", "args": {"command": "pytest -q"}},
    {"event": "tool_result", "call_id": "1", "status": "ok"},
    {"event": "patch_apply", "path": "src/login.py", "kind": "modify"},
]
SAID = "the last test run (pytest -q, passed) came before the last change (src/login.py)"


@pytest.fixture
def closed(cli: Cli) -> tuple[str, str]:
    """A record whose last edit nobody tested: its id, and what closing it said."""
    invocation_id = cli("do", "fix the login test", "--json").json()["invocation_id"]
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS).encode()
    assert cli("profile-invocation", "record", "--invocation-id", invocation_id, stdin=lines).code == 0
    return invocation_id, cli("profile-invocation", "complete", "--invocation-id", invocation_id).out


def test_closing_says_what_stands_out(closed: tuple[str, str], cli: Cli) -> None:
    again = cli("profile-invocation", "complete", "--invocation-id", closed[0], "--json").json()

    assert f"note: {SAID} (lines 4, 6)\n" in closed[1]
    assert again["note"] == [{"code": "EDITED_AFTER_CHECK", "text": SAID, "seqs": [4, 6]}]


def test_showing_and_the_page_say_the_same(closed: tuple[str, str], cli: Cli, project: Path) -> None:
    shown = cli("invocations", "show", closed[0])
    cli("invocations", "export", closed[0], "--html", "run.html")

    assert f"note:     {SAID} (lines 4, 6)\n" in shown.out
    assert cli("invocations", "show", closed[0], "--json").json()["note"][0]["seqs"] == [4, 6]
    assert f"{SAID} (lines 4, 6)" in (project / "run.html").read_text().replace("\\", "")
