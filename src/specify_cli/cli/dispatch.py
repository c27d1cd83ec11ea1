"""Send a command line where it belongs: a plain one to its function, a Tab to completion, the rest
to Typer.

    dispatch(["invocations", "list", "--limit", "5"])        # the exit code

The order matters for start-up: a plain command line loads neither Typer nor pydantic, which take
longer than a whole `do` (tests/benchmarks).
"""

from __future__ import annotations

import os

from specify_cli import VERSION
from specify_cli.cli.run import run
from specify_cli.cli.tables.command_table import Command, parse_plain
from specify_cli.cli.terminal.output import write_error, write_note, write_text
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.project.root import find_root

_COMPLETION = "_SPEC_KITTY_COMPLETE"
# What commands were called before, or are called by spec-kitty itself.
_OLD_NAMES = {"dispatch": "do"}
# A module that only spec-kitty-cli brings, into a package of the same name as ours.
_OF_OTHERS = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/manifest.py"


# What is said where nothing is asked.
_TODAY = Command(
    ("spec-kitty",), "specify_cli.cli.commands.records.today:show_today", "", (), (), "", ()
)


def _is_in_project() -> bool:
    """Return whether the current directory belongs to a project that was set up."""
    try:
        return os.path.isdir(f"{find_root(os.getcwd())[0]}/.kittify")
    except (OSError, InvocationError):
        return False


def dispatch(words: list[str]) -> int:
    """Run a command line that is no hook's; return its exit code.

    `words` are those after the program's name. Nothing is raised for what a user can do wrong.
    """
    if os.path.exists(_OF_OTHERS):
        write_note(
            "warning: SHARED_ENVIRONMENT: spec-kitty-cli is installed here too, and both have "
            "modules and a program of the same names, so either may run the other's; install each "
            "with pipx, in an environment of its own"
        )
    words = [_OLD_NAMES.get(word, word) for word in words[:1]] + words[1:]
    try:
        return _run_words(words)
    except EnvironmentFault as error:  # stdout takes no help and no version
        write_error(error, "--json" in words)
        return 1


def _run_words(words: list[str]) -> int:
    if words == ["--version"]:
        write_text(f"spec-kitty {VERSION}")
        return 0
    instruction = os.environ.get(_COMPLETION)
    if instruction is not None:
        from specify_cli.cli.completion import SHELLS, complete  # for a shell's Tab only

        if instruction in SHELLS:
            return complete(instruction)
    plain = None if instruction is not None else parse_plain(words)
    if plain:
        return run(*plain)
    if not words and instruction is None and _is_in_project():
        return run(_TODAY, {"json": False})
    from specify_cli.cli.app import run_typer  # loads Typer: help, completion and mistakes only

    return run_typer(words)
