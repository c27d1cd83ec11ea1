"""What sends data away or lowers protection asks a person; below an agent's harness it is refused."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from specify_cli.cli.terminal.person import name_harness
from specify_cli.room import Marks
from support import SPEC_KITTY, Cli, environment

URL = "http://127.0.0.1:9/v1/events"
COMMANDS = {
    "config accept": ("config", "accept", "--yes"),
    "sync enable": ("sync", "enable", "--endpoint", URL, "--level", "records", "--yes"),
    "otlp": ("invocations", "export", "last", "--format", "otlp", "--endpoint", "http://127.0.0.1:9/v1/traces"),
    "hooks uninstall": ("hooks", "uninstall", "--harness", "claude-code"),
}


@pytest.fixture
def weaker(cli: Cli, project: Path) -> Path:
    """A project with a record and hooks, whose config asks for less protection."""
    cli("init")
    cli("do", "fix the parser")
    cli("hooks", "install", "--harness", "claude-code")
    config = project / ".kittify/config.yaml"
    uuid = next(line for line in config.read_text().splitlines() if line.strip().startswith("uuid:"))
    config.write_text(f"project:\n  {uuid.strip()}\naudit:\n  capture_tool_io: full\n")
    return project


@pytest.mark.parametrize("name", COMMANDS)
def test_a_harness_that_says_so_is_refused(cli: Cli, weaker: Path, name: str) -> None:
    refused = cli(*COMMANDS[name], "--json", env={"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s"})

    assert (refused.code, refused.error()["error_code"]) == (1, "ACCEPT_NEEDS_PERSON"), weaker
    assert "claude-code" in refused.error()["message"]


@pytest.mark.parametrize(("program", "name"), list(zip(("claude", "codex") * 2, COMMANDS, strict=True)))
def test_a_harness_above_is_known_however_the_environment_looks(
    weaker: Path, home: Path, tmp_path: Path, program: str, name: str
) -> None:
    harness = tmp_path / "bin" / program
    harness.parent.mkdir()
    harness.write_text('#!/bin/sh\nsh -c "$1"\ncode=$?\nexit $code\n')
    harness.chmod(0o755)
    line = f"env -u CLAUDECODE {shlex.quote(SPEC_KITTY)} {shlex.join(COMMANDS[name])}; exit $?"
    done = subprocess.run(
        [harness, line], cwd=weaker, env=environment(home), capture_output=True, text=True, check=False
    )

    assert (done.returncode, "ACCEPT_NEEDS_PERSON" in done.stderr) == (1, True), done.stderr


@pytest.mark.usefixtures("weaker")
def test_a_person_is_not_refused(cli: Cli) -> None:
    assert cli(*COMMANDS["config accept"]).code == 0
    assert cli(*COMMANDS["hooks uninstall"]).code == 0
    assert "ACCEPT_NEEDS_PERSON" not in cli(*COMMANDS["sync enable"]).err


def test_programs_are_known_by_their_names_alone() -> None:
    known = {
        "claude-code": (["claude"], ["/usr/bin/node", "/usr/lib/bin/claude"], ["/opt/claude", "-p", "x"]),
        "codex": (["/x/codex", "exec"],),
        "gemini": (["node", "/x/gemini.js"],),
    }

    others: tuple[list[str], ...] = (["bash"], ["vim", "notes/claude.d/x"], ["/home/claude/bin/run"], [])
    programs = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
    harnesses = {harness: Marks(programs=(program,)) for harness, program in programs.items()}

    assert all(name_harness(argv, harnesses) == harness for harness, many in known.items() for argv in many)
    assert [name_harness(argv, harnesses) for argv in others] == [None] * 4
