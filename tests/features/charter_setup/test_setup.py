"""`setup` as a new user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from support import Cli, at_a_terminal, valid


def test_at_a_terminal_each_part_is_asked_for_and_the_answers_are_followed(project: Path, home: Path) -> None:
    (project / ".claude").mkdir()
    (project / "AGENTS.md").write_text("# Ours\n")
    ran = at_a_terminal(project, home, "setup", typed=b"y\n\nn\n\ny\n")

    assert ran.code == 0 and ran.err.count("?") == 5
    assert "settings  .kittify/config.yaml (trail: committed)" in ran.out and "hooks     none" in ran.out
    assert (project / ".kittify/charter/charter.md").is_file() and not (project / ".claude/settings.json").exists()
    assert "spec-kitty do" in (project / "AGENTS.md").read_text()


def test_the_end_of_the_input_agrees_to_nothing(project: Path, home: Path) -> None:
    (project / ".claude").mkdir()
    ran = at_a_terminal(project, home, "setup", typed=b"")

    assert ran.code == 0
    assert not (project / ".kittify/charter").exists() and not (project / ".agents").exists()
    assert not (project / ".claude/settings.json").exists()


def test_with_yes_nothing_is_asked_and_twice_is_as_once(cli: Cli, project: Path) -> None:
    (project / ".claude").mkdir()
    first = valid(cli("setup", "--yes", "--json").json(), "set-up")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    again = cli("setup", "--yes", "--json").json()

    assert first["trail"] == "private" and first["config_created"] and ".kittify/charter/charter.md" in first["charter"]
    assert "claude-code" in {change["harness"] for change in first["hooks"]}
    assert {file["state"] for file in first["skills"]} == {"new"}
    assert again["charter"] == [] and {file["state"] for file in again["skills"]} == {"unchanged"}
    assert {change["state"] for change in again["hooks"]} == {"unchanged"}
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert cli("do", "review the change", "--json").json()["governance_context_available"] is True


def test_parts_are_left_out_and_settings_that_are_refused_are_named(cli: Cli, project: Path) -> None:
    (project / ".claude").mkdir()
    (project / ".claude/settings.json").write_text("{broken")
    ran = cli("setup", "--yes", "--skip", "charter", "--skip", "skills", "--json")

    assert ran.code == 1 and json.loads(ran.out)["refused"][0]["error_code"] == "SETTINGS_INVALID"
    assert (project / ".claude/settings.json").read_text() == "{broken"
    assert not (project / ".kittify/charter").exists() and not (project / ".agents").exists()


def test_without_a_terminal_nobody_is_asked(cli: Cli, project: Path) -> None:
    ran = cli("setup", "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert not (project / ".kittify").exists()
