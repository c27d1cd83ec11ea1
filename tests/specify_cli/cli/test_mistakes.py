"""What a newcomer types by guess is answered with the command line that was meant."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from specify_cli.cli.tables.command_table import list_commands
from support import Cli

MEANT = {
    "a command of a group, typed without the group": {"show last": "invocations show last"},
    "words of other programs": {
        "log": "invocations list",
        "status": "invocations list",
        "start tidy": "do tidy",
        "blame a.py": "why a.py",
        "close last": "profile-invocation complete last",
        "profile-invocation done last": "profile-invocation complete last",
        "install": "hooks install",
        "hooks remove cursor": "hooks uninstall --harness cursor",
        "trail verify": "invocations verify",
    },
    "a command that needs more than was typed": {
        "finish": "profile-invocation complete --help",
        "delete last": "forget --help",
        "config set trail committed": "init --help",
    },
    "slips of the hand": {
        "doo tidy": "do tidy",
        "verfy last": "invocations verify last",
        "Do tidy": "do tidy",
        "hoks instal": "hooks install",
        "invocation lst --limt 3": "invocations list --limit 3",
        "do tidy -p builder-bea": "do tidy --profile builder-bea",
        "do tidy --profle=builder-bea": "do tidy --profile=builder-bea",
    },
    "a value": {
        "invocations list --status Open": "invocations list --status open",
        "hooks install --harness claude": "hooks install --harness claude-code",
        "hooks install claude-code --dry-run": "hooks install --harness claude-code --dry-run",
        "profile-invocation complete last failed": "profile-invocation complete last --outcome failed",
    },
    "a file, and a branch": {
        "export last run.html": "invocations export last --html run.html",
        "gate main": "gate --base main",
    },
    "a time": {"report today": "report --since today", "invocations list 7d": "invocations list --since 7d"},
    "a word that an argument takes": {"hold add last 2026 --reasn x": "hold add last 2026 --reason x"},
    "options at another place": {"invocations --all list": "invocations list --all"},
    "a request without `do`": {
        "fix the bug": "do 'fix the bug'",
        "'fix the bug'": "do 'fix the bug'",
        "fix tests": "do 'fix tests'",
        "bundle exec": "--help",
    },
    "what other programs have as options or commands": {
        "-v": "--version",
        "version": "--version",
        "help": "--help",
        "help do": "do --help",
    },
    "what erases is never filled in from its last word alone": {"run": "retention run --help"},
    "a group without such a command": {"trail prove": "trail --help"},
    "what nothing is like": {"frobnicate": "--help", "--limit 3 invocations list": "--help"},
}


@pytest.mark.parametrize("kind", MEANT)
def test_the_next_command_is_the_one_that_was_meant(cli: Cli, project: Path, kind: str) -> None:
    words = {command.path[0] for command in list_commands()}
    for typed, meant in MEANT[kind].items():
        if not meant.startswith("-") and meant.split()[0] not in words:
            continue  # its room was taken out of this tree
        ran = cli(*shlex.split(typed))

        assert ran.code == 2 and ran.err.splitlines()[-1] == f"next: spec-kitty {meant}", typed
    assert not (project / ".kittify").exists()


def test_json_asked_for_too_early_is_answered_as_json(cli: Cli) -> None:
    told = cli("--json", "invocations", "list").error()
    missing = json.loads(cli("profile-invocation", "complete", "--json").err)

    assert told["suggestion"] == "spec-kitty invocations list --json"
    assert missing["message"] == "Missing argument 'ID': expected an id, a part of one, last or @N."


@pytest.mark.parametrize("command", ["replay", "invocations export", "invocations show"])
def test_every_command_says_what_an_id_is_where_none_is_given(cli: Cli, command: str) -> None:
    if command.split()[0] in {path[0] for path in (one.path for one in list_commands())}:
        said = cli(*command.split()).err

        assert said.startswith("USAGE: Missing argument 'ID': expected an id, a part of one, last or @N.\n")


def test_a_time_that_ends_before_it_begins_is_refused(cli: Cli) -> None:
    told = cli("invocations", "list", "--since", "1h", "--until", "2h", "--json").error()

    assert told["message"] == "--since 1h is later than --until 2h: nothing lies between them"
    assert told["suggestion"] == "for example --since 2h --until 1h"


def test_a_part_of_a_profiles_id_proposes_that_profile_first(cli: Cli) -> None:
    told = cli("do", "fix it", "--profile", "bea", "--json").error()

    assert told["candidates"][0]["profile_id"] == "builder-bea"
    assert told["suggestion"] == "Did you mean builder-bea?"


def test_a_long_word_is_answered_at_once(cli: Cli) -> None:
    assert cli("x" * 200_000).err.endswith("next: spec-kitty --help\n")
