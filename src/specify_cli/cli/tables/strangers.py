"""Rooms of other installed packages, found by the entry point group `spec_kitty.features`
(docs/extending.md).

    found = read_strangers(look=True)  # its `tables` are None where no other package brings a room

Reading entry points takes 20 ms, so what was found is kept in a file of the user's cache folder,
with what `assemble` makes of our rooms and theirs together, and read again while the folders of
`sys.path` are as they were. A package that lies in the work tree of the project is left out there:
a branch must not decide what a command or a hook runs.

What is kept is read in `specify_cli.brought`.
"""

from __future__ import annotations

import json

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.brought import find_cache, read_cache, read_stamp
from specify_cli.errors import InvocationError
from specify_cli.project.root import find_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    from specify_cli.cli.tables.assemble import Room
    from specify_cli.room import Feature

GROUP = "spec_kitty.features"


class Strangers(NamedTuple):
    """What was found: `sources` maps each room to the folder it is developed in ("" for an ordinary
    install).

    `broken` maps the rooms that are left out to why; `tables` hold all rooms together, None where
    there is none else. `masks` and `backends` are what `brought` hands to the core.
    """

    sources: Mapping[str, str]
    broken: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Any]] | None
    masks: Sequence[tuple[str, str]] = ()
    backends: Sequence[str] = ()


# What this process has looked for itself, where no file can keep it.
_found_here: dict[str, Strangers] = {}


def read_strangers(*, look: bool) -> Strangers | None:
    """Return what other packages bring, as it is kept; None where nothing is kept for these
    installed packages.

    With `look` they are looked for then. Everyday commands do not: they cost nothing more without
    the cache file.
    """
    path, stamp = find_cache(), read_stamp()
    kept = None if path is None else _read_cache(path, stamp)
    if kept is None:
        kept = _found_here.get(repr(stamp))
    if kept is not None and not any(_is_ours_to_judge(source) for source in kept.sources.values()):
        # What is developed somewhere can change there at any time.
        if not look or not any(kept.sources.values()):
            return kept
    elif kept is None and not look:
        return None
    found, is_whole = find_strangers()
    if is_whole:
        _found_here[repr(stamp)] = found
        if path is not None:
            _write_cache(path, stamp, found)
    return found


def _read_cache(path: str, stamp: list[list[object]]) -> Strangers | None:
    """Return what is kept there for these installed packages."""
    value = read_cache(path, stamp)
    return None if value is None else Strangers(*(value[name] for name in Strangers._fields))


def _write_cache(path: str, stamp: list[list[object]], found: Strangers) -> None:
    from doctrine.load import replace_file  # once after an install

    data = json.dumps({"stamp": stamp, **found._asdict()}).encode()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, data, 0o600, sync=False)
    except OSError:
        pass  # looked for again next time


def find_strangers() -> tuple[Strangers, bool]:
    """Look at the entry points and assemble what they bring with our own rooms; name what cannot be
    used.

    The second value is false where a room was left out because it is developed in this project's
    work tree.
    """
    from importlib.metadata import entry_points  # as above

    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    if not points:
        return Strangers({}, {}, None), True
    from specify_cli.cli.tables.assemble import assemble, compose_files, read_rooms

    rooms, sources, broken, tables = read_rooms(), dict[str, str](), dict[str, str](), None
    is_whole = True
    for point in points:
        source = _find_source(point)
        if _is_ours_to_judge(source):
            broken[point.name] = (
                "it is developed in this work tree, which must not say what is run here"
            )
            is_whole = False
            continue
        try:
            room = _load_room(point, [room.feature.name for room in rooms])
            tables = assemble([*rooms, room])
        # whatever a package of others does costs only itself
        except (Exception, SystemExit) as error:
            broken[point.name] = f"{type(error).__name__}: {error}"[:300]
            continue
        rooms.append(room)
        sources[point.name] = source
    brought = [room.feature for room in rooms if room.feature.name in sources]
    return Strangers(
        sources,
        broken,
        None if tables is None or not sources else compose_files(tables, None),
        [(rule_id, mask) for feature in brought for rule_id, mask in feature.masks.items()],
        [name for feature in brought for name in feature.backends],
    ), is_whole


def _load_room(point: EntryPoint, taken: Sequence[str]) -> Room:
    """Return the room behind an entry point. Raises whatever importing it raises; TypeError where
    it is none."""
    from specify_cli.cli.tables.assemble import Room
    from specify_cli.room import Feature

    feature = point.load()
    if not isinstance(feature, Feature):
        raise TypeError(
            f"{point.value}: expected a specify_cli.room.Feature, found {type(feature).__name__}"
        )
    if feature.name != point.name or feature.name in taken:
        raise ValueError(
            f"the room is named {feature.name!r}: expected {point.name!r}, and a name that is free"
        )
    missing = sorted(set(feature.needs) - set(taken))
    if missing or feature.direct:
        what = (
            f"it needs {', '.join(missing)}"
            if missing
            else "`direct` is for rooms of spec-kitty alone"
        )
        raise ValueError(what)
    _refuse_masks(feature)
    return Room(feature, point.module.rpartition(".")[0] or point.module)


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
    """Return the folder that an editable package is developed in (direct_url.json, PEP 610); "" for
    another."""
    from urllib.parse import unquote, urlsplit  # as above

    text = None if point.dist is None else point.dist.read_text("direct_url.json")
    stated = json.loads(text or "{}")
    editable = stated.get("dir_info", {}).get("editable")
    return unquote(urlsplit(stated.get("url", "")).path) if editable else ""


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
