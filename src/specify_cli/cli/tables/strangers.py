"""Rooms of other installed packages, found by the entry point group `spec_kitty.features`
(docs/extending.md).

    found = read_strangers(look=True)  # its `tables` are None where no other package brings a room

Reading entry points takes 20 ms, so what was found is kept in a file of the user's cache folder,
with what `assemble` makes of our rooms and theirs together, and read again while the folders of
`sys.path` are as they were. A package that lies in the work tree of the project is left out there:
a branch must not decide what a command or a hook runs.

Whoever may write the cache file may write this user's home: it is trusted as the user's own
settings are, and a file of another user is not read.
"""

from __future__ import annotations

import json
import sys

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.errors import InvocationError
from specify_cli.project.root import find_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    from specify_cli.cli.tables.assemble import Room

GROUP = "spec_kitty.features"
_FORMAT = 2


class Strangers(NamedTuple):
    """What was found: `sources` maps each room to the folder it is developed in ("" for an ordinary
    install).

    `broken` maps the rooms that are left out to why; `tables` hold all rooms together, None where
    there is none else.
    """

    sources: Mapping[str, str]
    broken: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Any]] | None


# What this process has looked for itself, where no file can keep it.
_found_here: dict[str, Strangers] = {}


def read_strangers(*, look: bool) -> Strangers | None:
    """Return what other packages bring, as it is kept; None where nothing is kept for these
    installed packages.

    With `look` they are looked for then. Everyday commands do not: they cost nothing more without
    the cache file.
    """
    path, stamp = _find_cache(), _read_stamp()
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


def _find_cache() -> str | None:
    """Return the path of the cache file; None where the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/spec-kitty/rooms.json" if os.path.isabs(base) else None


def _read_stamp() -> list[list[object]]:
    """Return when each folder that modules are imported from was changed last, in nanoseconds."""
    stamp: list[list[object]] = [[_FORMAT, sys.prefix, os.path.getmtime(__file__)]]
    for path in sys.path:
        try:
            stamp.append([path, os.stat(path).st_mtime_ns] if path else [])
        except OSError:
            pass  # not there: nothing is imported from it
    return stamp


def _read_cache(path: str, stamp: list[list[object]]) -> Strangers | None:
    """Return what is kept there for these installed packages; None for nothing, or for a file that
    is not ours."""
    try:
        with open(path, "rb") as file:
            owner = os.fstat(file.fileno())
            value = (
                json.load(file) if owner.st_uid == os.getuid() and not owner.st_mode & 0o022 else {}
            )
        if value.get("stamp") == stamp:
            return Strangers(value["sources"], value["broken"], value["tables"])
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    return None


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
    return Strangers(
        sources, broken, None if tables is None or not sources else compose_files(tables, None)
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
    return Room(feature, point.module.rpartition(".")[0] or point.module)


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
