"""Complete a command line at the Tab key: commands, options, choices, ids, profiles, actions,
schemas.

Answers the scripts that `spec-kitty --install-completion` puts into bash, zsh and fish, from the
command table and without Typer: a Tab costs what reading the index costs.
"""

from __future__ import annotations

import os
import re
import shlex

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.cli import shell
from specify_cli.cli.schemas import list_schemas
from specify_cli.cli.tables.command_table import Command, find_command, list_commands, list_groups
from specify_cli.errors import InvocationError
from specify_cli.project.config import load_project
from specify_cli.room import Param
from specify_cli.routing.registry import ProfileRegistry, shipped_table
from specify_cli.storage.index import Index
from specify_cli.storage.queries import Filters, list_invocations, read_row

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELLS = ("complete_bash", "complete_zsh", "complete_fish")

_IDS = 30
# zsh evaluates what it is given, and a record can say anything: of a description only these
# characters are kept.
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,_-]+")
_VALUE = re.compile(r"[A-Za-z0-9@._:/-]+")

Item = tuple[str, str]


def complete(instruction: str) -> int:
    """Print the completions that a shell requests in its variables. Return 1 if fish must complete
    files instead.

    If records cannot be read, nothing is printed: an error would stand in the line that a person is
    typing.

    `instruction` names the shell, one of `SHELLS`. What was typed so far stands in the environment.
    """
    try:
        return _complete(instruction)
    except (InvocationError, OSError):
        return 1


def _complete(shell: str) -> int:
    """Print the completions in the form of a shell."""
    before, prefix = _read_words(shell)
    items = [item for item in find_items(before, prefix) if _VALUE.fullmatch(item[0])]
    lines = [_spell(shell, value, _UNSAFE.sub(" ", about).strip()) for value, about in items]
    if shell == "complete_zsh":
        text = "_arguments '*: :(({}))'".format("\n".join(lines)) if lines else "_files"
    elif os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if lines else 1
    else:
        text = "\n".join(lines)
    os.write(1, text.encode())
    return 0


def _read_words(shell: str) -> tuple[list[str], str]:
    """Return the words before the one that is being typed, and its beginning."""

    text = os.environ.get("COMP_WORDS" if shell == "complete_bash" else "_TYPER_COMPLETE_ARGS", "")
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if shell == "complete_bash":
        place = os.environ.get("COMP_CWORD", "")
        at = int(place) if place.isdecimal() else len(words)
        return words[1:at], words[at] if at < len(words) else ""
    if text.endswith((" ", "\n")) or len(words) < 2:
        return words[1:], ""
    return words[1:-1], words[-1]


def _spell(shell: str, value: str, about: str) -> str:
    """Return one completion in the form of a shell."""
    if shell == "complete_zsh":
        value = value.replace(":", r"\\:")
        return f'"{value}":"{about}"' if about else f'"{value}"'
    return f"{value}\t{about}" if shell == "complete_fish" and about else value


def find_items(before: list[str], prefix: str) -> list[Item]:
    """Return the words that can follow `before` and begin with `prefix`, each with an
    explanation."""
    matched = find_command(before)
    if not matched:
        items = _find_names(before)
    else:
        command, words = matched
        open_param = _find_param(command, words, prefix)
        if not open_param:
            items = (
                (param.option, param.help) for param in command.params if param.kind != "argument"
            )
        elif open_param.choices:
            items = ((choice, "") for choice in open_param.choices)
        else:
            items = _find_values(open_param, prefix)
    matching = list(items)
    return [item for item in matching if item[0].lower().startswith(prefix.lower())] or [
        item
        for item in matching
        if len(prefix) > 1 and item[0].startswith("0") and prefix.upper() in item[0]
    ]


def _find_names(before: list[str]) -> Iterator[Item]:
    """Yield the groups and commands that can follow."""
    named = [(group.split(), about) for group, about in list_groups().items()]
    for path, about in [*named, *((command.path, command.help) for command in list_commands())]:
        if [*path[:-1]] == before:
            yield path[-1], about


def _find_param(command: Command, words: list[str], prefix: str) -> Param | None:
    """Return the param whose value is being typed; None where an option's name is."""
    options = {param.option: param for param in command.params if param.kind == "option"}
    last = options.get(words[-1]) if words else None
    if last:
        return last
    if prefix.startswith("-"):
        return None
    placed = 0
    values = iter(words)
    for word in values:
        if word in options:
            next(values, None)
        elif not word.startswith("-"):
            placed += 1
    arguments = [param for param in command.params if param.kind == "argument"]
    if placed < len(arguments):
        return arguments[placed]
    return arguments[-1] if arguments and arguments[-1].multiple else None


def _find_values(param: Param, prefix: str) -> Iterator[Item]:
    """Yield what can stand as the value of a param: ids, profiles, actions or schemas."""
    if param.name in ("invocation_id", "ids", "target", "targets", "parent", "session"):
        yield from _find_ids(prefix, param.values)
    elif param.name == "profile":
        project, cache = load_project(shell.here(), shell.home(), lenient=True)
        for profile in ProfileRegistry(project.root, cache).all():
            yield profile.profile_id, profile.name
    elif param.name == "action":
        yield from ((action, "") for action in shipped_table().action_roles)
    elif param.name == "name":
        yield from ((name, "") for name in list_schemas())


def _find_ids(prefix: str, state: str) -> Iterator[Item]:
    """Yield `last`, and the newest ids with their rows of the list; those of open records alone
    where `state` is open. If none of these begins with `prefix`, yield the newest ids that do,
    whatever their state."""
    yield "last", "the newest invocation"
    project, _ = load_project(shell.here(), shell.home(), lenient=True)
    # No more than these are read, so that a Tab does not wait where hardly any record is open.
    read = list_invocations(project, Filters(), _IDS * (10 if state == "open" else 1)).rows
    rows = tuple(row for row in read if row.status == "open" or state != "open")[:_IDS]
    if prefix.isalnum() and not any(row.invocation_id.startswith(prefix.upper()) for row in rows):
        index = Index(project.root)
        keys = sorted(index.lookup(prefix.upper()), key=lambda key: key.invocation_id)[-_IDS:]
        places = filter(None, map(index.place, reversed(keys)))
        rows = (*rows, *filter(None, (read_row(project.root, place) for place in places)))
    for row in rows:
        yield (
            row.invocation_id,
            f"{row.profile_id} {row.action} {row.outcome or row.status} {row.request or ''}"[:60],
        )
