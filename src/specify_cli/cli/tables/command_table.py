"""Every command as data, compiled from what the rooms declare: the dispatcher and the Typer app are
built from it.

    command, values = parse_plain(["invocations", "list", "--limit", "5"])
    choose_run(command, values)          # "specify_cli.cli.commands.records.listing:list_rows"

The module that runs a command is imported when the command runs and not before.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.cli.tables.points import read_tables
from specify_cli.errors import CallerError
from specify_cli.room import Param, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_CHOICES = Param._fields.index("choices")


class Command(NamedTuple):
    """One command with what other rooms add to it; `forms` are (options that choose it,
    function)."""

    path: tuple[str, ...]
    run: str
    help: str
    params: tuple[Param, ...]
    examples: tuple[str, ...]
    exits: str
    forms: tuple[tuple[tuple[str, ...], str], ...]


def list_commands() -> Iterator[Command]:
    """Yield every command, in the order in which help shows them."""
    return map(_make_command, read_tables("commands")["COMMANDS"])


def list_groups() -> dict[str, str]:
    """Return the words that commands stand after, each with what it is for."""
    return dict(read_tables("commands")["GROUPS"])


def list_sections() -> dict[str, str]:
    """Return the section of help under which each word stands."""
    return dict(read_tables("commands")["SECTIONS"])


def list_guesses() -> dict[str, str]:
    """Return the words that newcomers type for a command, each with the command's own."""
    return dict(read_tables("commands")["GUESSES"])


def _make_command(row: Sequence[Any]) -> Command:
    """Return the command in a row of the compiled table."""
    path, run, help, params, examples, exits, forms = row
    typed_params = [Param(*param)._replace(choices=tuple(param[_CHOICES])) for param in params]
    typed_forms = tuple((tuple(by), form) for by, form in forms)
    return Command(tuple(path), run, help, tuple(typed_params), tuple(examples), exits, typed_forms)


def choose_run(command: Command, values: Values) -> str:
    """Return the function for these values: of the form whose option was given, else of the form
    that takes the command over, else the command's own.

    Raises CallerError USAGE where options of two forms were given.
    """
    otherwise, choices = command.run, dict[str, str]()
    for by, run in command.forms:
        for one in by:
            name, equals, value = one.partition("=")
            if not name:
                otherwise = run
            elif values[name] == value if equals else values[name] not in (None, False, []):
                choices.setdefault(run, f"--{name.replace('_', '-')}{f' {value}' * bool(equals)}")
    if len(choices) > 1:
        first, second, *_ = choices.values()
        path = " ".join(("spec-kitty", *command.path, "--help"))
        raise CallerError("USAGE", f"{first} and {second} exclude each other", path)
    return next(iter(choices), otherwise)


def find_command(argv: list[str]) -> tuple[Command, list[str]] | None:
    """Return the command these words name and the words after it.

    `argv` are the words after the program's name.
    """
    for row in read_tables("commands")["COMMANDS"]:
        if argv[: len(row[0])] == list(row[0]):
            return _make_command(row), argv[len(row[0]) :]
    return None


def parse_plain(argv: list[str]) -> tuple[Command, Values] | None:
    """Read the plain form of a command line; None hands it to Typer, which explains what is wrong.

    Plain: known options once each (repeatable ones as often as wanted), `--option value` or
    `--option=value`, values that do not begin with `-` (a lone `-` may), everything required
    present.

    `argv` are the words after the program's name. Nothing is printed and nothing raised.
    """
    matched = find_command(argv)
    if not matched:
        return None
    command, words = matched
    options = {
        param.option: param
        for param in command.params
        if param.kind != "argument" or param.spelled_out
    }
    values: Values = {
        param.name: [] if param.multiple else param.default for param in command.params
    }
    for param in command.params:
        if param.kind == "flag":
            values[param.name] = False
    positional = []
    passed = set()
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        name, equals, inline = word.partition("=")
        option = options.get(name)
        if (
            option is None
            or (option.name in passed and not option.multiple)
            or (option.kind == "flag" and equals)
        ):
            return None
        passed.add(option.name)
        if option.kind == "flag":
            values[option.name] = True
            continue
        text = inline if equals else next(rest, None)
        if (
            text is None
            or (not equals and text.startswith("-") and text != "-")
            or not _take(values, option, text)
        ):
            return None
    return (command, values) if _place(command, values, positional, passed) else None


def _take(values: Values, param: Param, text: str) -> bool:
    """Note the value of an option. Return False where it is none of the choices, or no number."""
    if param.choices and text not in param.choices:
        return False
    value: str | int = text
    if param.integer:
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            return False
        value = int(text)
    current = values[param.name]
    if isinstance(current, list):
        current.append(value)
    else:
        values[param.name] = value
    return True


def _place(command: Command, values: Values, positional: list[str], passed: set[str]) -> bool:
    """Note the arguments by their place. Return whether each that is required is there and none
    is over."""
    arguments: Iterator[Param] = (param for param in command.params if param.kind == "argument")
    for param in arguments:
        if param.spelled_out and param.name in passed:
            continue
        if param.multiple:
            values[param.name], positional = positional, []
        elif positional:
            values[param.name] = positional.pop(0)
        if param.required and values[param.name] in (None, []):
            return False
    missing = any(
        param.required and param.kind == "option" and param.name not in passed
        for param in command.params
    )
    return not positional and not missing
