"""Rooms of other installed packages, found by the entry point group `spec_kitty.features`
(docs/extending.md).

    found = read_strangers(look=True)  # its `tables` are None where no other package brings a room

To read entry points takes 20 ms. So the rooms, and the tables that `assemble` makes of ours and
theirs together, are cached in a file of the user's cache folder, which is valid while the folders
of `sys.path` do not change. A package in the work tree of the project is not used: a branch must
not decide what a command or a hook runs.

`specify_cli.package_rules` reads the cache as well.
"""

from __future__ import annotations

import json
import sys

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.errors import InvocationError
from specify_cli.package_rules import find_cache, read_cache, read_stamp
from specify_cli.project.root import find_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    from specify_cli.cli.tables.assemble import Room
    from specify_cli.room import Feature, Param

GROUP = "spec_kitty.features"


class Strangers(NamedTuple):
    """The rooms of other packages. `sources` maps each room to the folder it is developed in (""
    for an ordinary install).

    `broken` maps rooms that are left out to the reason. `tables` hold all rooms together; None if
    only ours exist. `masks` and `backends` are what `package_rules` passes to the core.
    """

    sources: Mapping[str, str]
    broken: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Any]] | None
    masks: Sequence[tuple[str, str]] = ()
    backends: Sequence[str] = ()


# What this process has looked for itself, where no file can keep it.
_found_here: dict[str, Strangers] = {}


def read_strangers(*, look: bool) -> Strangers | None:
    """Return the rooms of other packages from the cache; None if the cache does not hold the
    installed packages.

    With `look` the packages are then searched. Everyday commands do not search, so that they cost
    the same without the cache file.
    """
    path, stamp = find_cache(), read_stamp()
    cached = None if path is None else _read_cache(path, stamp)
    if cached is None:
        cached = _found_here.get(repr(stamp))
    if cached is not None and not any(
        _is_ours_to_judge(source) for source in cached.sources.values()
    ):
        # What is developed somewhere can change there at any time.
        if not look or not any(cached.sources.values()):
            return cached
    elif cached is None and not look:
        return None
    strangers, is_whole = find_strangers()
    if is_whole:
        _found_here[repr(stamp)] = strangers
        if path is not None:
            _write_cache(path, stamp, strangers)
    return strangers


def _read_cache(path: str, stamp: list[list[object]]) -> Strangers | None:
    """Return the cached rooms if the cache is that of the installed packages, otherwise None."""
    value = read_cache(path, stamp)
    return None if value is None else Strangers(*(value[name] for name in Strangers._fields))


def _write_cache(path: str, stamp: list[list[object]], strangers: Strangers) -> None:
    """Write the cache; where that fails, the next command looks again."""
    from doctrine.load import replace_file  # once after an install

    data = json.dumps({"stamp": stamp, **strangers._asdict()}).encode()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, data, 0o600, sync=False)
    except OSError:
        pass  # looked for again next time


def find_strangers() -> tuple[Strangers, bool]:
    """Read the entry points, and assemble their rooms with our own; rooms that cannot be used are
    in `broken`.

    The second value is false if a room was left out because it is developed in this project's work
    tree.

    Nothing is raised for a package of others: what it raises on import is why it is in `broken`.
    Our own rooms still raise ValueError where two contradict each other.
    """
    from importlib.metadata import entry_points  # as above

    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    if not points:
        return Strangers({}, {}, None), True
    from contextlib import redirect_stdout  # as above

    from specify_cli.cli.tables.assemble import assemble, compose_files, read_rooms

    rooms, sources, broken = read_rooms(), dict[str, str](), dict[str, str]()
    tables: Mapping[str, Mapping[str, Any]] | None = None
    is_whole = True
    for point in points:
        source = _find_source(point)
        name = point.name if point.dist is None else f"{point.name} of {point.dist.name}"
        if _is_ours_to_judge(source):
            broken[name] = "it is developed in this work tree, which must not say what is run here"
            is_whole = False
            continue
        try:
            with redirect_stdout(sys.stderr):  # nothing of theirs stands among our answers
                room = _load_room(point, [room.feature.name for room in rooms])
                files = compose_files(assemble([*rooms, room]), None)
                json.dumps(files)
        # whatever a package of others does costs only itself
        except (Exception, SystemExit) as error:
            broken[name] = f"{type(error).__name__}: {error}"[:300]
            continue
        rooms.append(room)
        tables = files
        sources[point.name] = source
    features = [room.feature for room in rooms if room.feature.name in sources]
    return Strangers(
        sources,
        broken,
        tables,
        [(rule_id, mask) for feature in features for rule_id, mask in feature.masks.items()],
        [name for feature in features for name in feature.backends],
    ), is_whole


def _load_room(point: EntryPoint, names: Sequence[str]) -> Room:
    """Return the room behind an entry point. Raises whatever importing it raises; TypeError where
    it is none."""
    from specify_cli.cli.tables.assemble import Room
    from specify_cli.room import POINTS, Feature

    feature = point.load()
    if not isinstance(feature, Feature):
        raise TypeError(
            f"{point.value}: expected a specify_cli.room.Feature, found {type(feature).__name__}"
        )
    _refuse_types(feature)
    if feature.name != point.name:
        raise ValueError(f"the room is named {feature.name!r}: expected {point.name!r}")
    if feature.name in names:
        raise ValueError(f"another room is named {feature.name!r}")
    missing = sorted(set(feature.needs) - set(names))
    if missing or feature.direct:
        what = (
            f"it needs {', '.join(missing)}"
            if missing
            else "`direct` is for rooms of spec-kitty alone"
        )
        raise ValueError(what)
    _refuse_params([param for command in feature.commands for param in command.params])
    _refuse_params([param for form in feature.forms for param in form.params])
    _refuse_forms(feature)
    _refuse_masks(feature)
    unasked = sorted({fill.point for fill in feature.fills} - POINTS)
    if unasked:
        raise ValueError(f"nothing asks the point {unasked[0]!r}: docs/extending.md lists them")
    return Room(feature, point.module.rpartition(".")[0] or point.module)


def _refuse_types(value: Any) -> None:
    """Raise TypeError where a member of a declaration is not of the type that it states."""
    kinds: dict[str, type] = {"str": str, "int": int, "bool": bool, "tuple": tuple, "Mapping": dict}
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
        is_named = param.name.isidentifier() and not iskeyword(param.name)
        is_short = not param.short or (len(param.short) == 2 and param.short[0] == "-")
        is_chosen = not param.choices or param.default in (None, *param.choices)
        if not (is_named and is_short and is_chosen):
            what = "a name of Python, a short of the form -x, and a default among the choices"
            raise ValueError(f"{param.name}: expected {what}")


def _refuse_forms(feature: Feature) -> None:
    """Raise ValueError for a form that takes a command of others over: one runs for an option or a
    value that the room brings."""
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


def _find_source(point: EntryPoint) -> str:
    """Return the folder that an editable package is developed in (direct_url.json, PEP 610), or the
    one on `sys.path` that is no place of installed packages; "" for another."""
    import site  # as above
    from urllib.parse import unquote, urlsplit  # as above

    text = None if point.dist is None else point.dist.read_text("direct_url.json")
    stated = json.loads(text or "{}")
    editable = stated.get("dir_info", {}).get("editable")
    if editable:
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
