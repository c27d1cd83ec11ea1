"""What other installed packages bring to every project: masking rules, and stores in addition to
the files (docs/extending.md).

    read_brought().masks        # (("acme-badge", "ACME-[0-9]{8}"),)

The kernel of the command line looks for packages and keeps what it found in a file of the user's
cache folder (`cli/tables/strangers.py`); the core reads that file and runs nothing of theirs.
Whoever may write it may write this user's home: it is trusted as the user's own settings are, and a
file of another user is not read.
"""

from __future__ import annotations

import json
import sys

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

_FORMAT = 3


class PackageRules(NamedTuple):
    """Rules as (id, RE2 pattern), whose matches are masked in every project, and the values of
    `memory_backend` that a package takes.

    Both are empty where no package was looked for yet: then recording masks by the shipped rules
    and the project's own alone.
    """

    masks: tuple[tuple[str, str], ...] = ()
    backends: tuple[str, ...] = ()


def read_brought() -> PackageRules:
    """Return what the installed packages bring, as far as it was looked for; `spec-kitty doctor`
    looks."""
    path = find_cache()
    value = None if path is None else read_cache(path, read_stamp())
    if value is None:
        return PackageRules()
    masks = tuple((str(rule_id), str(pattern)) for rule_id, pattern in value["masks"])
    return PackageRules(masks, tuple(map(str, value["backends"])))


def find_cache() -> str | None:
    """Return the path of the cache file; None where the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/spec-kitty/rooms.json" if os.path.isabs(base) else None


def read_stamp() -> list[list[object]]:
    """Return when each folder that modules are imported from was changed last, in nanoseconds."""
    stamp: list[list[object]] = [[_FORMAT, sys.prefix, os.path.getmtime(__file__)]]
    for path in sys.path:
        try:
            stamp.append([path, os.stat(path).st_mtime_ns] if path else [])
        except OSError:
            pass  # not there: nothing is imported from it
    return stamp


def read_cache(path: str, stamp: list[list[object]]) -> dict[str, Any] | None:
    """Return what is kept there for these installed packages; None for nothing, or for a file that
    is not ours.

    `path` is that of `find_cache`. A file that others may write is not ours: its rules could be
    patterns that mask nothing.
    """
    try:
        with open(path, "rb") as file:
            owner = os.fstat(file.fileno())
            value: dict[str, Any] = (
                json.load(file) if owner.st_uid == os.getuid() and not owner.st_mode & 0o022 else {}
            )
        return value if value.get("stamp") == stamp else None
    except (OSError, ValueError, AttributeError):
        return None
