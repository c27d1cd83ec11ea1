"""Rooms of other installed packages, found by the entry point group `spec_kitty.features`
(docs/extending.md).

    found = read_strangers()  # its `tables` are None where no other package brings a room

To import declarations, and to assemble the tables of our rooms and theirs together, takes some 70
ms. So what was found is cached (`specify_cli.package_rules` says where, and when it counts). A
package in the work tree of the project is not used: a branch must not decide what a command or a
hook runs.
"""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, NamedTuple

from doctrine import os
from specify_cli.errors import InvocationError
from specify_cli.package_rules import GROUP, read_found
from specify_cli.project.root import find_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    from specify_cli.cli.tables.assemble import Room
    from specify_cli.room import Feature, Param


# Points whose functions are found by the name of what fills them.
_NAMED = frozenset((
    "api", "config_keys", "harness", "list_filters", "merge_rules", "page_rows", "transcripts",
))  # fmt: skip
# Programs that people's own commands run below.
_EVERYBODYS = (
    " bash bun code dash deno fish init java login node python python3 ruby screen sh sshd su sudo "
    "systemd tmux zsh "
)


class Strangers(NamedTuple):
    """The rooms of other packages. `sources` maps each room to the folder it is developed in (""
    for an ordinary install).

    `broken` maps rooms that are left out to the reason. `tables` hold all rooms together; None if
    only ours exist. `masks` and `backends` are what `package_rules` passes to the core. `developed`
    has for each room with such a folder: the folder, the file of its declaration and when that was
    changed (ns); no file where the room was left out because it lies in the work tree.
    """

    sources: Mapping[str, str]
    broken: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Any]] | None
    masks: Sequence[tuple[str, str]] = ()
    backends: Sequence[str] = ()
    developed: Sequence[tuple[str, str, int]] = ()


def read_strangers(*, anew: bool = False) -> Strangers:
    """Return the rooms of the packages that are installed now; with `anew` without the cache."""
    members = read_found(anew=anew)
    return Strangers(*(members[name] for name in Strangers._fields))


def search(cached: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], bool]:
    """Return what the packages bring, and whether that can be cached; `cached` itself where it is
    right for the project here and what is developed has not changed."""
    if cached is not None and all(_is_current(*row) for row in cached["developed"]):
        return cached, True
    strangers, is_whole = find_strangers()
    return strangers._asdict(), is_whole


def _is_current(folder: str, file: str, at: int) -> bool:
    try:
        is_same = not file or os.stat(file).st_mtime_ns == at
    except OSError:
        return False
    return is_same and _is_ours_to_judge(folder) == (not file)


def find_strangers() -> tuple[Strangers, bool]:
    """Read the entry points, and assemble their rooms with our own; rooms that cannot be used are
    in `broken`.

    The second value is false if one of these is developed somewhere: it can be repaired there, and
    no folder of `sys.path` changes.
    """
    from importlib.metadata import entry_points  # once after an install, as all below

    from specify_cli.cli.tables.assemble import read_rooms

    ours = read_rooms()
    loaded = []
    sources, broken = dict[str, str](), dict[str, str]()
    developed = []
    is_whole = True
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        source = _find_source(point)
        name = point.name if point.dist is None else f"{point.name} of {point.dist.name}"
        if _is_ours_to_judge(source):
            what = "it is developed in this work tree, which must not say what is run here"
            broken[name] = f"{what}; in other projects it counts"
            developed.append((source, "", 0))
            continue
        # whatever a package of others does costs only itself
        try:
            room = _load_room(point)
            if source:
                file = str(sys.modules[point.module].__file__)
                developed.append((source, file, os.stat(file).st_mtime_ns))
        except Exception as error:
            broken[name] = _describe_failure(error)
            is_whole = is_whole and not source
            continue
        loaded.append((name, source, room))
    theirs, tables = _add_rooms(ours, loaded, broken)
    is_whole = is_whole and not any(source and name in broken for name, source, _ in loaded)
    sources = {room.feature.name: source for _, source, room in loaded if room in theirs}
    return Strangers(
        sources,
        broken,
        tables,
        [(rule_id, mask) for room in theirs for rule_id, mask in room.feature.masks.items()],
        [name for room in theirs for name in room.feature.backends],
        developed,
    ), is_whole


def _describe_failure(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _add_rooms(
    ours: Sequence[Room], loaded: Sequence[tuple[str, str, Room]], broken: dict[str, str]
) -> tuple[list[Room], Mapping[str, Mapping[str, Any]] | None]:
    """Return the rooms that fit together, each behind those that it needs, and the tables that they
    make with ours; the others are put into `broken`."""
    from specify_cli.cli.tables.assemble import assemble, compose_files

    rooms = list(ours)
    tables: Mapping[str, Mapping[str, Any]] | None = None
    waiting = list(loaded)
    while waiting:
        names = {room.feature.name for room in rooms}
        ready = (one for one in waiting if names.issuperset(one[2].feature.needs))
        name, _, room = one = next(ready, waiting[0])
        waiting.remove(one)
        missing = sorted(set(room.feature.needs) - names)
        try:
            if missing:
                raise ValueError(f"it needs {', '.join(missing)}")
            if room.feature.name in names:
                raise ValueError(f"another room is named {room.feature.name!r}")
            files = compose_files(assemble([*rooms, room]), None)
            json.dumps(files)
        except Exception as error:
            broken[name] = _describe_failure(error)
            continue
        rooms.append(room)
        tables = files
    return rooms[len(ours) :], tables


def _load_room(point: EntryPoint) -> Room:
    """Return the room behind an entry point. Raises whatever importing it raises, TimeoutError
    where that does not end; TypeError where it is none."""
    from contextlib import redirect_stdout

    from specify_cli.cli.tables.assemble import Room
    from specify_cli.cli.tables.points import run_briefly
    from specify_cli.room import POINTS, Feature

    with redirect_stdout(io.StringIO()):  # nothing of theirs stands among answers or errors
        feature = run_briefly(point.load)
    if not isinstance(feature, Feature):
        raise TypeError(
            f"{point.value}: expected a specify_cli.room.Feature, found {type(feature).__name__}"
        )
    _refuse_types(feature)
    if feature.name != point.name:
        raise ValueError(f"the room is named {feature.name!r}: expected {point.name!r}")
    if feature.direct:
        raise ValueError("`direct` is for rooms of spec-kitty alone")
    # A command that would answer for others, or that Typer would refuse.
    for command in feature.commands:
        words = [word for word in command.path if word and not word.startswith("-")]
        if not words or len(words) < len(command.path):
            raise ValueError(f"a command has the words {command.path!r}: expected words to type")
        rest = [one.name for one in command.params if one.kind == "argument" and one.multiple]
        if len(rest) > 1:
            raise ValueError(f"{', '.join(rest)}: only one argument can take all words")
        _refuse_params(command.params)
    _refuse_params([param for form in feature.forms for param in form.params])
    _refuse_forms(feature)
    _refuse_masks(feature)
    _refuse_marks(feature)
    unnamed = [fill.point for fill in feature.fills if fill.point in _NAMED and not fill.name]
    if unnamed:
        raise ValueError(f"a Fill at {unnamed[0]!r} needs a name, by which it is found")
    points = {fill.point for fill in feature.fills}
    unasked = sorted(points - POINTS)
    if unasked:
        raise ValueError(f"nothing asks the point {unasked[0]!r}: docs/extending.md lists them")
    if "record_streams" in points:  # every record would pass through it on to the other checks
        what = "`record_checks` sees each record, and `checks` is called after it"
        raise ValueError(f"`record_streams` is for rooms of spec-kitty alone: {what}")
    return Room(feature, point.module.rpartition(".")[0] or point.module)


def _refuse_types(value: Any) -> None:
    """Raise TypeError where a member of a declaration is not of the type that it states."""
    kinds = {"str": str, "int": int, "bool": bool, "tuple": tuple, "Mapping": dict}
    for name, stated in type(value).__annotations__.items():
        kind, _, inner = stated.partition("[")
        member: Any = getattr(value, name)
        whole = kinds.get(kind, object)
        of = inner.partition(",")[0] if whole is tuple else inner[:-1].rpartition(" ")[2]
        if not isinstance(getattr(value, name), whole):
            raise TypeError(f"{type(value).__name__}.{name}: expected {stated}, found {member!r}")
        items = member if whole is tuple else member.values() if whole is dict else ()
        for one in items:
            if type(one).__name__ != of:
                raise TypeError(f"{type(value).__name__}.{name}: expected {stated}, found {one!r}")
            if of != "str":
                _refuse_types(one)


def _refuse_params(params: Sequence[Param]) -> None:
    """Raise ValueError for a param that Typer would refuse when help is asked for."""
    from keyword import iskeyword  # once after an install

    for param in params:
        if param.kind not in ("argument", "option", "flag"):
            what = f"expected argument, option or flag, found {param.kind!r}"
            raise ValueError(f"{param.name}: {what}")
        is_named = param.name.isidentifier() and not iskeyword(param.name)
        is_short = not param.short or (len(param.short) == 2 and param.short[0] == "-")
        is_chosen = not param.choices or param.default in (None, *param.choices)
        if not (is_named and is_short and is_chosen):
            what = "a name of Python, a short of the form -x, and a default among the choices"
            raise ValueError(f"{param.name}: expected {what}")


def _refuse_forms(feature: Feature) -> None:
    """Raise ValueError for a form that takes a command of others over, or asks more of its users:
    one runs for an option or a value that the room brings."""
    for param in (param for form in feature.forms for param in form.params):
        if param.required or param.kind == "argument":
            raise ValueError(f"{param.name}: expected an option that users of others can leave out")
    own_params = {(form.path, param.name) for form in feature.forms for param in form.params}
    for form in feature.forms:
        if form.run and any("=" not in by and (form.path, by) not in own_params for by in form.by):
            what = f"`{' '.join(form.path)}` runs a form for {form.by[0] or 'everything'!r}"
            raise ValueError(f"{what}: expected an option or a value that this room adds")


def _refuse_masks(feature: Feature) -> None:
    """Raise RuleError for a masking rule that is none, or that masks plain words; ValueError for an
    id or a store that is not named after the room, so that none hides another's."""
    from specify_cli.redaction.redact import refuse_catch_all, rule_set  # once after an install

    names = [*feature.masks, *feature.backends]
    odd = [name for name in names if not f"{name}-".startswith(f"{feature.name}-")]
    if odd:
        raise ValueError(f"expected names that begin with {feature.name}-, found {', '.join(odd)}")
    refuse_catch_all(rule_set(tuple(feature.masks.items())))


def _refuse_marks(feature: Feature) -> None:
    """Raise ValueError where what tells a harness's commands from a person's is true of a
    person's too."""
    for harness, marks in feature.harnesses.items():
        names = tuple(word.upper() for word in (*harness.split("-"), *marks.programs))
        variables = filter(None, (*marks.session, *marks.marks, marks.call))
        odd = [one for one in variables if not one.upper().startswith(names)]
        what = f"a variable that begins with {names[0]}"
        if not odd:
            what = "a program of its own"
            odd = [one for one in marks.programs if f" {one} " in _EVERYBODYS]
        if odd:
            raise ValueError(f"the marks of {harness}: expected {what}, found {', '.join(odd)}")


def _find_source(point: EntryPoint) -> str:
    """Return the folder that an editable package is developed in (direct_url.json, PEP 610), or the
    one on `sys.path` that is no place of installed packages; "" for another."""
    import site  # as above
    from urllib.parse import unquote, urlsplit  # as above

    text = None if point.dist is None else point.dist.read_text("direct_url.json")
    stated = json.loads(text or "{}")
    if stated.get("dir_info", {}).get("editable"):
        return unquote(urlsplit(stated.get("url", "")).path)
    folder = "" if point.dist is None else str(point.dist.locate_file(""))
    installed = (*site.getsitepackages(), site.getusersitepackages())
    return "" if os.path.realpath(folder) in map(os.path.realpath, installed) else folder


def _is_ours_to_judge(source: str) -> bool:
    """Return whether a room is developed in the work tree of the project here, which a branch can
    change."""
    if not source:
        return False
    here = os.getcwd()
    try:
        root = find_root(here, os.path.expanduser("~"))[0]
    except InvocationError:
        root = here
    return f"{os.path.realpath(source)}/".startswith(f"{os.path.realpath(root)}/")
