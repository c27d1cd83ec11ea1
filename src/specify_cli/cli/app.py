"""The Typer app, built from the command table: help, completion, and an answer to every mistake.

    run_typer(["invocations", "show", "--help"])       # prints, and returns the exit code

A command line that is right never comes here: `tables.command_table.parse_plain` reads it without
Typer. So nothing may be decided here that a plain command line would decide otherwise.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from specify_cli import VERSION
from specify_cli.cli.mistakes import find_meant
from specify_cli.cli.run import run
from specify_cli.cli.shell import MISSING_ID
from specify_cli.cli.tables.command_table import (
    Command,
    list_commands,
    list_groups,
    list_guesses,
    list_sections,
)
from specify_cli.cli.terminal.output import write_error, write_text
from specify_cli.errors import CallerError
from specify_cli.room import Param

# Begins the name of the hidden option that means the same as an argument.
_OPTION_OF = "option_"


def build_app() -> typer.Typer:
    """Return the whole command tree."""
    app = typer.Typer(
        name="spec-kitty",
        help="A flight recorder for AI agents' governed work.",
        cls=_Root,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option(
                "--version", help="Print the version.", callback=_print_version, is_eager=True
            ),
        ] = False,
    ) -> None:
        """A flight recorder for AI agents' governed work."""

    words = {" ".join(command.path) for command in list_commands()}
    groups = {
        path: typer.Typer(help=text, no_args_is_help=path not in words)
        for path, text in list_groups().items()
    }
    for command in list_commands():
        own = groups.get(" ".join(command.path))
        if own is not None:
            # A word that is a command and has others after it, such as `gate`.
            own.callback(invoke_without_command=True, help=_render_help(command))(
                _make_callback(command, leads=True)
            )
            continue
        parent = app if len(command.path) == 1 else groups[" ".join(command.path[:-1])]
        parent.command(command.path[-1], help=_render_help(command), short_help=command.help)(
            _make_callback(command)
        )
    for path, group in groups.items():
        above, _, name = path.rpartition(" ")
        (groups[above] if above else app).add_typer(group, name=name)
    return app


# The sections of help in the order people need them; what names none stands after them.
_SECTIONS = ("Begin", "Close", "Read", "Prove", "Replay", "Share", "Keep", "Set up", "More")


class _Root(TyperGroup):
    """The top of the tree, whose help lists commands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """List commands as click does, a section each."""
        stated = list_sections()
        rows: dict[str, list[tuple[str, str]]] = {name: [] for name in _SECTIONS}
        for word in dict.fromkeys((*filter(self.commands.get, stated), *self.commands)):
            command = self.commands[word]
            section = stated.get(word, _SECTIONS[-1])
            rows.setdefault(section, []).append((word, command.get_short_help_str(limit=400)))
        for name, listed in rows.items():
            if listed:
                with formatter.section(name):
                    formatter.write_dl(listed)


@functools.cache
def _get_command() -> Any:
    """Return the command tree, built once: a program may run many command lines."""
    return typer.main.get_command(build_app())


def run_typer(argv: list[str]) -> int:
    """Run a command line through Typer; usage errors are ours to print.

    `argv` are the words after the program's name. Return the exit code: 0, that of the command, 2
    for a usage error, 130 for an interruption. A word that no command has is answered with the
    command line that was most likely meant.
    """
    as_json = "--json" in argv
    try:
        result = _get_command()(args=argv, prog_name="spec-kitty", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except TyperException as error:
        message = error.format_message()
        if not message.strip() or message.lstrip().startswith("Usage:"):
            write_text(message)
            return 2
        context = getattr(error, "ctx", None)
        # The message about an option without its value does not name the command.
        paths = (one.path for one in list_commands() if argv[: len(one.path)] == [*one.path])
        words = ("spec-kitty", *max(paths, key=len, default=()))
        path = " ".join(words) if context is None else context.command_path
        # Beside a word that no command has stands what it may mean.
        guessed, meant = find_meant(argv)
        guessed = guessed if message.startswith("No such command") else []
        if not guessed and meant == ["do", " ".join(argv)]:
            guessed = ["do"]
        if guessed and (path == "spec-kitty" or " ".join(argv[:2]) in list_guesses()):
            message = f"{message.split('.')[0]}. Did you mean {' or '.join(map(repr, guessed))}?"
            path = f"spec-kitty {guessed[0]}"
        next_command = f"{path} --help" if meant is None else shlex.join(("spec-kitty", *meant))
        write_error(CallerError("USAGE", _reword(message), next_command), as_json)
        return 2
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        write_error(CallerError("INTERRUPTED", "interrupted", "run the command again"), as_json)
        return 130


def _reword(message: str) -> str:
    """Return a usage error on one line, without the phrases of the validator that Typer uses."""
    # The list of choices stands on lines of its own.
    message = re.sub(r"(Choose from:|,)\n\t", r"\1 ", message)
    message = re.sub(
        r"Input should be a valid (integer|number)[^.]*", r"expected a whole number", message
    )
    message = re.sub(r"Input should be ([^.]+)", r"expected a value \1", message)
    message = re.sub(
        r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", r"unexpected argument: \1", message
    )
    message = message.replace("Missing argument 'ID'.", MISSING_ID)
    return message.replace("Value error, ", "")


def _print_version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        write_text(f"spec-kitty {VERSION}")
        raise typer.Exit()


def _render_help(command: Command) -> str:
    """Return the help text of a command: what it does, its examples, its exit codes."""
    examples = "\n".join(f"  {example}" for example in command.examples)
    return f"{command.help}\n\n\b\nExamples:\n{examples}\n\n\b\nExit codes: {command.exits}"


def _make_callback(command: Command, *, leads: bool = False) -> Callable[..., int]:
    """Return what runs a command; where it `leads` others, only if none of them is asked for."""

    def call(**arguments: Any) -> int:
        if leads and arguments.pop("context").invoked_subcommand is not None:
            return 0
        values = {
            key: list(map(_get_plain, value)) if isinstance(value, list) else _get_plain(value)
            for key, value in arguments.items()
        }
        for param in command.params:
            if param.multiple and values[param.name] is None:
                values[param.name] = []
            if param.spelled_out:
                spelled = values.pop(_OPTION_OF + param.name)
                values[param.name] = values[param.name] or spelled
                if values[param.name] is None:
                    path = " ".join(("spec-kitty", *command.path))
                    message = _reword(f"Missing argument '{param.metavar}'.")
                    error = CallerError("USAGE", message, f"{path} --help")
                    write_error(error, bool(values.get("json")))
                    return 2
        return run(command, values)

    parameters = [each for param in command.params for each in _make_parameters(param)]
    if leads:
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.insert(0, inspect.Parameter("context", kind, annotation=typer.Context))
    call.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__name__ = "_".join(command.path).replace("-", "_")
    return call


def _get_plain(value: Any) -> Any:
    """Return a value as commands take it: of a choice its text."""
    return value.value if isinstance(value, enum.Enum) else value


def _make_choice(choices: tuple[str, ...]) -> Any:
    """Return an enum of these values: what Typer takes for a closed set."""
    make: Any = enum.Enum
    return make("Choice", {choice: choice for choice in choices}, type=str)


def _make_parameters(param: Param) -> Iterator[inspect.Parameter]:
    """Yield a param as Typer takes it; an argument that is also taken as an option needs a hidden
    one beside it."""
    if param.spelled_out:
        yield _make_parameter(param._replace(required=False))
        hidden: Any = Annotated[str | None, typer.Option(param.option, hidden=True)]
        yield inspect.Parameter(
            _OPTION_OF + param.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hidden
        )
    else:
        yield _make_parameter(param)


def _make_parameter(param: Param) -> inspect.Parameter:
    """Return one param as Typer takes it."""
    kind: Any = str
    if param.kind == "flag":
        kind = bool
    elif param.integer:
        kind = int
    elif param.choices:
        kind = _make_choice(param.choices)
    default: Any = ... if param.required else param.default
    if param.kind == "flag":
        default = False
    if param.multiple:
        kind = list[kind]
        default = ... if param.required else None
    if param.choices and param.default is not None:
        default = kind(param.default)
    declared: Any
    if param.kind == "argument":
        declared = typer.Argument(help=param.help, metavar=param.metavar or None)
    elif param.integer:
        declared = typer.Option(param.option, help=param.help, metavar=param.metavar or None, min=0)
    else:
        names = (param.option, param.short) if param.short else (param.option,)
        declared = typer.Option(*names, help=param.help, metavar=param.metavar or None)
    annotated: Any = kind if default is not None else kind | None
    annotation: Any = Annotated[annotated, declared]
    return inspect.Parameter(
        param.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=annotation,
    )
