"""What other installed packages bring to every project: masking rules, and stores in addition to
the files (docs/extending.md).

    read_brought().masks        # (("acme-badge", "ACME-[0-9]{8}"),)

What was found of the packages is a file of the user's cache folder, one for each interpreter and
`sys.path`. It counts while no folder of `sys.path` has changed. Otherwise they are searched again
at once, by a hook too: a masking rule must not lapse because something else was installed. Where no
package brings a room, that takes a millisecond.

Whoever may write the file may write this user's home: it is trusted as the user's own settings are,
and a file of another user is not read.
"""

from __future__ import annotations

import json
import sys

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GROUP = "spec_kitty.features"
_FORMAT = 4
# The kernel imports declarations. It stands above the core, so it is loaded by its name, and only
# where a package brings a room.
_KERNEL = "specify_cli.cli.tables.strangers"
_NOTHING: Mapping[str, Any] = {
    "sources": {},
    "broken": {},
    "tables": None,
    "masks": [],
    "backends": [],
    "developed": [],
}
# So many files stay in the cache folder: each environment that was removed leaves one.
_MOST_FILES = 16
# What this process has found.
_found_here: dict[str, Mapping[str, Any]] = {}


class PackageRules(NamedTuple):
    """What installed packages bring to recording: `masks` are rules as (id, RE2 pattern), whose
    matches are masked in every project, and `backends` values of `memory_backend`. `left_out` maps
    the names of rooms that could not be loaded to the reasons; of those nothing counts.

    All are empty where no package was looked for yet: then recording masks by the shipped rules
    and the project's own alone.
    """

    masks: tuple[tuple[str, str], ...]
    backends: tuple[str, ...]
    left_out: Mapping[str, str]


def read_brought() -> PackageRules:
    """Return what the packages bring that are installed now."""
    value = read_found()
    masks = tuple((str(rule_id), str(pattern)) for rule_id, pattern in value["masks"])
    return PackageRules(masks, tuple(map(str, value["backends"])), value["broken"])


def read_found(*, anew: bool = False) -> Mapping[str, Any]:
    """Return what the installed packages bring, as members of `strangers.Strangers`: from the cache
    if it is of the packages installed now, else from the packages. With `anew` always from them."""
    stamp, base = read_stamp(), os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    key = repr((base, stamp))
    # from the file once: a session's transcript is read with thousands of questions
    cached = None if anew else _found_here.get(key) or read_cache(_find_cache(base, stamp), stamp)
    rules, is_kept = cached or _NOTHING, True
    must_search = cached["developed"] if cached else _is_brought(stamp)
    if must_search:
        __import__(_KERNEL)
        rules, is_kept = sys.modules[_KERNEL].search(cached)
    if is_kept:
        _found_here[key] = rules
        if rules is not cached:
            _write_cache(_find_cache(base, stamp), {"stamp": stamp, **rules})
    return rules


def _find_cache(base: str, stamp: list[list[object]]) -> str | None:
    """Return the path of the cache file below a folder; None where the user has no home folder."""
    places = json.dumps([[sys.prefix], *(row[:1] for row in stamp[1:])])
    name = hash_bytes(places.encode("utf-8", "surrogatepass"))[:16]
    return f"{base}/spec-kitty/rooms-{name}.json" if os.path.isabs(base) else None


def read_stamp() -> list[list[object]]:
    """Return when each folder that modules are imported from was changed last, in nanoseconds."""
    stamp = [[_FORMAT, sys.prefix, os.path.getmtime(__file__)]]
    for path in sys.path:
        try:
            stamp.append([path, os.stat(path).st_mtime_ns] if path else [])
        except OSError:
            pass  # not there: nothing is imported from it
    return stamp


def _is_brought(stamp: list[list[object]]) -> bool:
    """Return whether the metadata of an installed package names our entry points, or lies where
    only the standard library finds it: in a zip file, an egg or the current folder.

    `importlib.metadata` says the same, but loading it takes 30 ms.
    """
    for row in stamp[1:]:
        folder = str(row[0]) if row else "."
        try:
            names = os.listdir(folder)
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for name in names:
            if name.endswith(".egg"):
                return True
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            try:
                with open(f"{folder}/{name}/entry_points.txt", "rb") as file:
                    if GROUP.encode() in file.read():
                        return True
            except OSError:
                pass  # it has none
    return False


def read_cache(path: str | None, stamp: list[list[object]]) -> dict[str, Any] | None:
    """Return what a cache file holds of these installed packages; None for nothing, or for a file
    that is not ours.

    `path` is that of `_find_cache`. A file that others may write is not ours: its rules could be
    patterns that mask nothing.
    """
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            owner = os.fstat(file.fileno())
            is_ours = owner.st_uid == os.getuid() and not owner.st_mode & 0o022
            value: dict[str, Any] = json.load(file) if is_ours else {}
        is_whole = value.get("stamp") == stamp and value.keys() >= _NOTHING.keys()
    except (OSError, ValueError, AttributeError):
        return None
    return value if is_whole else None


def _write_cache(path: str | None, value: Mapping[str, object]) -> None:
    from doctrine.load import replace_file  # once after an install

    if path is None:
        return
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace_file(path, json.dumps(value).encode(), 0o600, sync=False)
        files = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("rooms")]
        for old in sorted(files, key=os.path.getmtime)[:-_MOST_FILES]:
            os.unlink(old)
    except OSError:
        pass  # the packages are searched again next time
