"""A masking rule that an installed package brings holds for what hooks record, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hooking import run_hook
from specify_cli import package_rules
from specify_cli.package_rules import read_brought, read_stamp
from support import run_main

BADGE = "BADGE-123456"


@pytest.fixture(autouse=True)
def _brought(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel keeps of a package that brings a rule."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    found = {**package_rules._NOTHING, "masks": [["acme-badge", "BADGE-[0-9]{6}"]]}
    stamp = read_stamp()
    package_rules._write_cache(package_rules._find_cache(str(home / ".cache"), stamp), {"stamp": stamp, **found})


def test_a_rule_of_the_same_id_in_the_config_does_not_take_the_place_of_a_brought_one(
    chartered: Path, home: Path
) -> None:
    """The config is part of a branch, which could otherwise switch off the rule of a package."""
    (chartered / ".kittify/config.yaml").write_text("redaction:\n  rules:\n    acme-badge: 'ZZZ-[0-9]{4}'\n")

    began = run_main(("do", f"fix the login of {BADGE} and ZZZ-1234", "--json"), cwd=chartered, home=home)

    text = (chartered / began.json()["record_path"]).read_text()
    assert "fix the login of ⟦acme-badge⟧ and ⟦acme-badge⟧" in text


def test_a_brought_rule_masks_what_a_hook_tells(chartered: Path, home: Path) -> None:
    def tell(event: str, **payload: object) -> None:
        body = {"hook_event_name": event, "session_id": "s1", "cwd": str(chartered), **payload}
        run_hook("claude-code", json.dumps(body).encode(), str(chartered), str(home))

    env = {"CLAUDE_CODE_SESSION_ID": "s1"}
    began = run_main(("do", f"fix the login of {BADGE}", "--json"), cwd=chartered, home=home, stdin=b"", env=env)
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": f"grep {BADGE} a.py"}}
    tell("PreToolUse", **call)
    tell("PostToolUse", **call, tool_response={"stdout": f"a.py: {BADGE}", "stderr": ""})
    text = (chartered / began.json()["record_path"]).read_text()

    assert read_brought().masks == (("acme-badge", "BADGE-[0-9]{6}"),)
    assert '"event":"tool_result"' in text
    assert BADGE not in text and text.count("⟦acme-badge⟧") >= 3
