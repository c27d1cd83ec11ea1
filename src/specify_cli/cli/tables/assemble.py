"""Make the tables of commands and points from what the rooms declare.

    write_tables(compose_tables(None))  # for an installed package: what is written holds for good
    tables = assemble(read_rooms())

`cli/tables/compiled/` holds what was made as JSON, so that a command reads one file and no
declaration. A wheel brings it; a checkout writes it when a declaration has changed (`points.py`
notices).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import specify_cli
from doctrine import os
from doctrine.load import replace_file
from specify_cli.cli.tables.core_commands import CORE
from specify_cli.cli.tables.params import JSON
from specify_cli.room import EXAMPLES_OF_FORMS, Command, Feature, Form, Group, Marks, flag

FEATURES = "specify_cli.features"
# A choice that stands for the names of everything that fills a point.
_NAMES_OF = "*"
# What every command has besides its params.
_HELP = flag("help", "Show this message and exit.")._replace(short="-h")


class Room(NamedTuple):
    """A declaration and the package it stands in.

    `package` is the package that its functions are named below, such as
    `specify_cli.features.search`.
    """

    feature: Feature
    package: str


class Tables(NamedTuple):
    """What commands are found in, as plain values.

    `commands` are rows of `Command` with the forms after them; `points` maps each point to (name,
    function, marker), `sections` each first word to where help lists it, `harnesses` each by name
    to its `Marks`, `guesses` what newcomers type to the command it is meant for.
    """

    groups: dict[str, str]
    commands: tuple[tuple[object, ...], ...]
    points: dict[str, tuple[tuple[str, str, str], ...]]
    direct: dict[str, str]
    sections: Mapping[str, str]
    harnesses: Mapping[str, Marks]
    guesses: Mapping[str, str]


def read_rooms() -> list[Room]:
    """Return the core and every room of this package, by name. Raises ValueError where two
    contradict each other."""
    folder = os.path.join(os.path.dirname(specify_cli.__file__), "features")
    names = sorted(
        name for name in os.listdir(folder) if os.path.isfile(f"{folder}/{name}/feature.py")
    )
    rooms = [Room(CORE, "specify_cli.cli.commands")]
    rooms += (
        Room(import_module(f"{FEATURES}.{name}.feature").FEATURE, f"{FEATURES}.{name}")
        for name in names
    )
    order_rooms(rooms)
    return rooms


def order_rooms(rooms: Sequence[Room]) -> list[Room]:
    """Return the rooms with each after those that it needs. Raises ValueError for a missing one
    and for a circle."""
    by_name = {room.feature.name: room for room in rooms}
    ordered = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"rooms need each other in a circle: {' → '.join((*path, name))}")
        if name not in by_name:
            raise ValueError(f"the room {path[-1]} needs {name}, which is not there")
        if name not in ordered:
            for need in by_name[name].feature.needs:
                add(need, (*path, name))
            ordered[name] = by_name[name]

    for name in by_name:
        add(name, ())
    return list(ordered.values())


def assemble(rooms: Sequence[Room]) -> Tables:
    """Return the tables that these rooms make together. Raises ValueError where two bring the same.

    A form of a command that is not here does nothing: a room may add to one that it does not need.
    """
    fills = [(room, fill) for room in rooms for fill in room.feature.fills]
    points: dict[str, tuple[tuple[str, str, str], ...]] = {}
    for room, fill in sorted(fills, key=lambda pair: pair[1].rank):
        points[fill.point] = (
            *points.get(fill.point, ()),
            (fill.name, _locate(room, fill.run), fill.marker),
        )
    names = {point: tuple(name for name, _, _ in rows) for point, rows in points.items()}
    groups = sorted(
        (group for room in rooms for group in room.feature.groups), key=lambda group: group.rank
    )
    forms = [(room, form) for room in rooms for form in room.feature.forms]
    declared = [(room, command) for room in rooms for command in room.feature.commands]
    _refuse_twice(rooms)
    commands = tuple(
        _make_row(room, command, [pair for pair in forms if pair[1].path == command.path], names)
        for room, command in sorted(declared, key=lambda pair: pair[1].rank)
    )
    direct = {
        word: _locate(room, run) for room in rooms for word, run in room.feature.direct.items()
    }
    leads: list[Group | Command] = [*groups, *(command for _, command in declared)]
    leads.sort(key=lambda one: one.rank)
    sections = {
        " ".join(one.path) if isinstance(one, Command) else one.path: one.section
        for one in leads
        if one.section
    }
    helps = {group.path: group.help for group in groups}
    words = [" ".join(command.path) for _, command in declared]
    lost = [path for path in words if path.rpartition(" ")[0] not in {"", *helps}]
    if lost:
        raise ValueError(f"no group is declared for {', '.join(lost)}")
    harnesses = {name: marks for room in rooms for name, marks in room.feature.harnesses.items()}
    guesses = {guess: " ".join(one.path) for _, one in declared for guess in one.guesses}
    return Tables(helps, commands, points, direct, sections, harnesses, guesses)


def _refuse_twice(rooms: Sequence[Room]) -> None:
    """Raise ValueError where two rooms bring the same command, group, option, value or name."""
    paths: list[tuple[str, ...]] = []
    groups = set()  # several rooms may declare one, in the same words
    for feature in (room.feature for room in rooms):
        own = [command.path for command in feature.commands]
        paths += [(word,) for word in feature.direct]
        # a word may be a command and a group of one room, such as `gate`
        groups |= {one for one in feature.groups if tuple(one.path.split()) not in own}
        paths += own
        # A value such as `format=csv` chooses one form, an option stands once, and what fills a
        # point under a name is found by it.
        paths += [(fill.point, fill.name) for fill in feature.fills if fill.name]
        paths += [("marks of", name) for name in feature.harnesses]
        options = [(command.path, (*command.params, JSON, _HELP)) for command in feature.commands]
        options += [(form.path, form.params) for form in feature.forms]
        for path, params in options:
            paths += [(*path, word) for one in params for word in (one.name, one.short) if word]
        paths += [(*form.path, by) for form in feature.forms for by in form.by if "=" in by]
    paths += [tuple(group.path.split()) for group in groups]
    twice = {" ".join(path) for path, number in Counter(paths).items() if number > 1}
    if twice:
        raise ValueError(f"declared twice: {', '.join(sorted(twice))}")


def _locate(room: Room, run: str) -> str:
    """Return the whole name of a function of a room."""
    return f"{room.package}.{run}"


def _make_row(
    room: Room,
    command: Command,
    forms: Iterable[tuple[Room, Form]],
    names: Mapping[str, tuple[str, ...]],
) -> tuple[object, ...]:
    """Return a command with what other rooms add to it: params, choices, examples, and the
    functions of its forms."""
    params, examples = list(command.params), list(command.examples)
    at = examples.index(EXAMPLES_OF_FORMS) if EXAMPLES_OF_FORMS in examples else len(examples)
    examples[at : at + 1] = []
    runs = []
    words = " ".join(command.path)
    for of, form in sorted(forms, key=lambda pair: pair[1].rank):
        place = next(
            (i + 1 for i, param in enumerate(params) if param.name == form.after), len(params)
        )
        params[place:place] = form.params
        for by in form.by:
            name, equals, value = by.partition("=")
            if equals:
                if name not in {param.name for param in params}:
                    raise ValueError(f"`{words}` has no option {name!r}, for which a form runs")
                if not next(param.choices for param in params if param.name == name):
                    raise ValueError(f"`{words}` takes any --{name}: a form cannot add a value")
                params = [
                    param._replace(
                        choices=(*param.choices, value), help=f"{param.help} {value}: {form.about}"
                    )
                    if param.name == name
                    else param
                    for param in params
                ]
        examples[at:at] = form.examples
        at += len(form.examples)
        if form.run:
            runs.append((form.by, _locate(of, form.run)))
        command = command._replace(
            help=form.help or command.help, exits=form.exits or command.exits
        )
    rows = tuple(
        tuple(param._replace(choices=_expand(param.choices, names))) for param in (*params, JSON)
    )
    return (
        command.path,
        _locate(room, command.run),
        command.help,
        rows,
        tuple(examples),
        command.exits,
        tuple(runs),
    )


def _expand(choices: tuple[str, ...], names: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return choices in which `*point` stands for the names of everything that fills the point."""
    expanded: list[str] = []
    for choice in choices:
        expanded += names.get(choice[1:], ()) if choice.startswith(_NAMES_OF) else (choice,)
    return tuple(expanded)


def compose_tables(stamp: object) -> dict[str, dict[str, object]]:
    """Return what the files of `compiled/` hold, by name; a `stamp` of None says that they hold for
    good."""
    return compose_files(assemble(read_rooms()), stamp)


def compose_files(tables: Tables, stamp: object) -> dict[str, dict[str, object]]:
    """Return tables as their files hold them: what a hook asks for apart from what commands do."""
    return {
        "commands": {
            "STAMP": stamp,
            "GROUPS": tables.groups,
            "COMMANDS": tables.commands,
            "SECTIONS": dict(tables.sections),
            "HARNESSES": dict(tables.harnesses),
            "GUESSES": dict(tables.guesses),
        },
        "points": {"STAMP": stamp, "POINTS": tables.points, "DIRECT": tables.direct},
    }


def write_tables(tables: Mapping[str, Mapping[str, object]]) -> None:
    """Write the files of `compiled/`, each replaced whole. Raises OSError.

    `tables` are those of `compose_tables`, by the name of their file.
    """
    folder = os.path.join(os.path.dirname(__file__), "compiled")
    os.makedirs(folder, exist_ok=True)
    for name, value in tables.items():
        replace_file(
            f"{folder}/{name}.json",
            json.dumps(value, ensure_ascii=False).encode(),
            0o644,
            sync=False,
        )
