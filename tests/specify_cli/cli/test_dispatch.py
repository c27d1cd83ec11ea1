"""The dispatcher and the Typer app are built from one table and read the same command lines alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from absent_rooms import ABSENT
from specify_cli.cli import app
from specify_cli.cli.tables import command_table
from specify_cli.cli.tables.assemble import read_rooms
from specify_cli.cli.tables.command_table import Command, list_commands, parse_plain
from specify_cli.cli.tables.points import load

ID = "01JD4Q3S0000000000000000A1"

PLAIN: list[list[str]] = [
    ["do", "fix the login test"],
    ["do", "fix", "the", "login", "test"],
    ["do", "--json", "fix it"],
    ["do", "fix it", "--json", "--profile", "builder"],
    ["do", "fix it", "--profile=builder"],
    ["do", "fix it", "--profile="],
    ["do", "-"],
    ["do", ""],
    ["ask", "builder", "fix it"],
    ["ask", "builder", "fix", "it", "--json"],
    ["advise", "should we?"],
    ["route", "review it", "--explain"],
    ["profiles", "list"],
    ["profiles", "show", "builder"],
    ["charter", "context", "--action", "review", "--request", "x"],
    ["profile-invocation", "complete", "--invocation-id", ID],
    ["profile-invocation", "complete", "--invocation-id", ID, "--artifact", "a", "--artifact", "b", "--commit", "c"],
    ["profile-invocation", "complete", "--outcome", "failed", "--invocation-id", ID, "--allow-outside"],
    ["invocations", "list", "--limit", "5", "--status", "open", "--json"],
    ["invocations", "show", ID],
    ["invocations", "tail"],
    ["invocations", "tail", ID, "--lines", "3"],
    ["invocations", "verify"],
    ["invocations", "verify", ID, "--json"],
    ["invocations", "verify", "--all"],
    ["invocations", "reindex"],
    ["init", "--trail", "committed"],
    ["schema"],
    ["schema", "event"],
]

FOR_TYPER: list[list[str]] = [
    [],
    ["--help"],
    ["do"],
    ["do", "--help"],
    ["do", "x", "--nope"],
    ["do", "x", "--profile"],
    ["do", "x", "--profile", "--json"],
    ["do", "x", "--json=yes"],
    ["do", "x", "-h"],
    ["do", "--", "-x"],
    ["do", "x", "--profile", "a", "--profile", "b"],
    ["nonsense"],
    ["invocations"],
    ["invocations", "list", "--limit", "many"],
    ["invocations", "list", "--limit", "-1"],
    ["invocations", "list", "--status", "ajar"],
    ["invocations", "show"],
    ["invocations", "show", "a", "b"],
    ["profile-invocation", "complete"],
    ["ask"],
    ["ask", "builder"],
]


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Command, dict[str, Any]]]:
    """Every command that would have run, with its values."""
    ran: list[tuple[Command, dict[str, Any]]] = []

    def note(command: Command, values: dict[str, Any]) -> int:
        ran.append((command, values))
        return 0

    monkeypatch.setattr("specify_cli.cli.run.run", note)
    monkeypatch.setattr(app, "run", note)
    return ran


@pytest.mark.parametrize("argv", PLAIN, ids=" ".join)
def test_both_readers_give_a_command_the_same_values(
    argv: list[str], captured: list[tuple[Command, dict[str, Any]]]
) -> None:
    plain = parse_plain(argv)
    assert app.run_typer(argv) == 0

    assert plain is not None
    assert captured == [plain]


@pytest.mark.parametrize("argv", FOR_TYPER, ids=lambda argv: " ".join(argv) or "nothing")
def test_what_is_not_plain_is_left_to_typer(argv: list[str]) -> None:
    assert parse_plain(argv) is None


WORDS = """do ask route invocations list show --json --limit 5 --profile x - -- -h --all verify --profile=y
--artifact complete profile-invocation --invocation-id"""
words = st.sampled_from([*WORDS.split(), ""])


@example(["profile-invocation", "complete", "do"])
@given(st.lists(words, max_size=7))
def test_a_command_line_never_means_two_things(argv: list[str]) -> None:
    plain = parse_plain(argv)
    ran: list[tuple[Command, dict[str, Any]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "run", lambda command, values: ran.append((command, values)) or 0)  # type: ignore[func-returns-value]
        if plain is not None:
            app.run_typer(argv)

    assert ran == ([] if plain is None else [plain])


def test_every_command_says_examples_and_exit_codes() -> None:
    for command in list_commands():
        assert command.examples
        assert all(example.startswith("spec-kitty " + " ".join(command.path)) for example in command.examples)
        assert command.exits[0] == "0"


def test_every_command_has_a_function_and_json() -> None:
    for command in list_commands():
        module, _, function = command.run.partition(":")
        __import__(module)

        assert callable(getattr(sys.modules[module], function))
        assert any(param.name == "json" for param in command.params)


def test_every_group_is_described() -> None:
    assert {" ".join(command.path[:-1]) for command in list_commands() if len(command.path) > 1} == set(
        command_table.list_groups()
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["do", "implement WP03", "--json"],
        ["route", "implement WP03"],
        ["profile-invocation", "complete", "--invocation-id", "7"],
    ],
)
def test_everyday_commands_load_nothing_heavy(argv: list[str], project: Path) -> None:
    program = (
        "import sys\nbefore = set(sys.modules)\nfrom specify_cli.cli.main import main\n"
        f"main({argv!r})\n"
        "heavy = {'typer', 'click', 'pydantic', 'rich', 'ruamel', 'dataclasses', 'inspect', 'subprocess', 'asyncio',\n"
        "         'typing', 'contextlib', 'hashlib', '_hashlib'}\n"
        "print(sorted(heavy & set(sys.modules) - before), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=True)

    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_every_form_and_fill_of_a_room_names_what_is_there() -> None:
    rooms = read_rooms()
    commands = {command.path for room in rooms for command in room.feature.commands}
    commands |= {tuple(command.split()) for command in ABSENT.get("commands", ())}
    wrong = [form.path for room in rooms for form in room.feature.forms if form.path not in commands]
    runs = [f"{room.package}.{run}" for room in rooms for run in room.feature.direct.values()]
    runs += [f"{room.package}.{fill.run}" for room in rooms for fill in room.feature.fills]
    runs += [f"{room.package}.{form.run}" for room in rooms for form in room.feature.forms if form.run]

    assert wrong == []
    assert [run for run in runs if load(run) is None] == []
