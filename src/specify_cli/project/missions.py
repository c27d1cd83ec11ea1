"""Which mission and work packages a request is for: by its words, else by the folder it was asked
in.

    find_work("implement WP03", "/p/.worktrees/042-login-WP03", "/p/.worktrees/042-login-WP03")
    # Work("042-login", "WP03")

Missions are the folders of kitty-specs, their work packages the files `WP03-….md` in the folder
tasks there; a worktree made for one is called `<mission>-WP03` or `<mission>-lane-a`. What is not
certain is left out: a package that two missions have names neither.
"""

from __future__ import annotations

import re

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SPECS = "kitty-specs"
# So many folders of missions are looked at, newest numbers first: a branch can bring any number.
_MOST = 1_000
# Compiled where they are used: most requests are part of no mission, and `do` has no time for them.
_SLUG = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"
_PACKAGE = r"(?<![A-Za-z0-9_])[Ww][Pp][0-9]{2,3}(?![A-Za-z0-9_])"
_NUMBERED = r"(?i)\b(?:mission|feature)\s+#?([0-9]{3})\b"
_WORKTREE = r"(.+?)-(WP[0-9]{2,3}|lane-[a-z0-9]+)"


class Work(NamedTuple):
    """What a request is part of; None where that is not known. Several packages are joined by
    commas, in the order of the request.

    `mission` is a folder's name, such as `042-login`; packages are upper case, such as `WP03`.
    """

    mission: str | None = None
    packages: str | None = None


def find_work(request: str, start: str, root: str) -> Work:
    """Return the mission and work packages of a request asked in the folder `start` of a project.

    Where nothing speaks of one, this costs one look for the folder kitty-specs.

    `request` is the masked text. `start` counts where the words name no mission. Nothing is
    raised.
    """
    missions = _list_missions(root)
    if not missions:
        return Work(None, name_packages(request)) if "wp" in request.lower() else Work()
    worktree = os.path.basename(os.path.realpath(root))
    inside = os.path.relpath(os.path.realpath(start), os.path.realpath(root)).split(os.sep)
    folder, own_package = read_worktree_name(worktree, missions)
    if len(inside) > 1 and inside[0] == SPECS and inside[1] in missions:
        folder = inside[1]
    packages = name_packages(request) or own_package
    mission = name_mission(request, missions) or folder
    if mission is None and packages is not None:
        holding = [each for each in missions if _holds_packages(root, each, packages.split(","))]
        mission = holding[0] if len(holding) == 1 else None
    return Work(mission, packages)


def name_packages(request: str) -> str | None:
    """Return the work packages a request names, joined by commas; None where it names none.

    Each once, upper case, in the order of the request.
    """
    found = re.findall(_PACKAGE, request)
    return ",".join(dict.fromkeys(name.upper() for name in found)) or None


def name_mission(request: str, missions: Sequence[str]) -> str | None:
    """Return the one mission a request names, by its whole name or as `mission 042`.

    None where it names none, or two. `missions` are the names of their folders.
    """
    words = set(re.split(r"[\s,;:()\[\]'\"`/]+", request))
    numbers = tuple(f"{number}-" for number in re.findall(_NUMBERED, request))
    # A name at the end of a sentence has its full stop.
    named = [each for each in missions if each in words or f"{each}." in words]
    named = named or [each for each in missions if numbers and each.startswith(numbers)]
    return named[0] if len(named) == 1 else None


def read_worktree_name(name: str, missions: Iterable[str]) -> tuple[str | None, str | None]:
    """Return (mission, work package) of a worktree that was made for one, by its folder's name.

    A lane names a mission and no package. Both are None for a name of another form.
    """
    if name in missions:
        return name, None
    match = re.fullmatch(_WORKTREE, name)
    if match is None or match[1] not in missions:
        return None, None
    return match[1], match[2] if match[2].startswith("WP") else None


def _list_missions(root: str) -> list[str]:
    """Return the names of the missions' folders, those with the highest numbers first."""
    specs = os.path.join(root, SPECS)
    if os.path.islink(specs):
        return []
    try:
        with os.scandir(specs) as entries:
            names = [
                entry.name
                for entry in entries
                if re.fullmatch(_SLUG, entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return sorted(names, reverse=True)[:_MOST]


def _holds_packages(root: str, mission: str, packages: Sequence[str]) -> bool:
    """Return whether a mission has a file of tasks for each of these packages."""
    try:
        names = os.listdir(os.path.join(root, SPECS, mission, "tasks"))
    except OSError:
        return False
    held = {found.group().upper() for name in names if (found := re.match(_PACKAGE, name))}
    return held.issuperset(packages)
