"""Find the mission and work packages of a request: by its words, or else by the caller's folder.

    find_work("implement WP03", "/p/.worktrees/042-login-WP03", "/p/.worktrees/042-login-WP03")
    # Work("042-login", "WP03")

Missions are the folders of kitty-specs, their work packages the files `WP03-….md` in the folder
tasks there; a worktree made for one is called `<mission>-WP03` or `<mission>-lane-a`. What is not
certain is left out: a package that two missions have names neither.

For a record of spec-kitty, `find_older_work` uses `mission_id` and `wp_id`, the files it links, its
request, or the lifecycle file `kitty-ops/lifecycle.jsonl`, which has one line for each start and
end of a mission's action.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.record.record import is_invocation_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SPECS = "kitty-specs"
_MAX_LIFECYCLE = 8 * 1024 * 1024
_MAX_META = 64 * 1024
# How many folders of missions are read, highest numbers first: a branch can bring any number.
_MOST = 1_000
# Compiled where they are used: most requests are part of no mission, and `do` has no time for them.
_SLUG = r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"
_PACKAGE = r"(?<![A-Za-z0-9_])[Ww][Pp][0-9]{2,3}(?![A-Za-z0-9_])"
_NUMBERED = r"(?i)\b(?:mission|feature)\s+#?([0-9]{3})\b"
_WORKTREE = r"(.+?)-(WP[0-9]{2,3}|lane-[a-z0-9]+)"
_BELOW_SPECS = rf"(?<![\w-])kitty-specs/({_SLUG})/"


class Work(NamedTuple):
    """The mission and work packages of a request; None if not known.

    `mission` is a folder's name, such as `042-login`. `packages` are upper case, such as `WP03`;
    several are joined by commas, in the order of the request.
    """

    mission: str | None = None
    packages: str | None = None


def find_work(request: str, start: str, root: str) -> Work:
    """Return the mission and work packages of a request from the folder `start` of a project.

    `request` is the masked text. The folder counts if the words name no mission. Without missions
    this costs one look for the folder kitty-specs. Nothing is raised.

    `root` is the project's folder.
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


def find_older_work(lines: Sequence[Mapping[str, object]], root: str) -> Work:
    """Return the mission and work packages of a record of spec-kitty, from its lines, kitty-specs
    and the lifecycle file. The first line must be `started`.

    If the mission's folder is not here, its name comes from the record, or else it is its id.
    Nothing is raised.

    `root` is the project's folder.
    """
    started, missions = lines[0], _list_missions(root)
    request = str(started.get("request_text") or "")
    linked = [str(line.get("ref")) for line in lines if line.get("event") == "artifact_link"]
    packages = name_packages(str(started.get("wp_id") or "")) or name_packages(request)
    if packages is None:
        packages = name_packages(",".join(ref for ref in linked if ref.startswith(SPECS)))
    missions_below = {*re.findall(_BELOW_SPECS, "\n".join([request, *linked]))}
    mission = (
        _name_by_id(root, started.get("mission_id"), missions)
        or (missions_below.pop() if len(missions_below) == 1 else None)
        or name_mission(request, missions)
        or _name_by_id(root, _read_lifecycle(root, started), missions)
    )
    return Work(mission, packages)


def _name_by_id(root: str, mission_id: object, missions: Sequence[str]) -> str | None:
    """Return the folder of the mission with an id; the id itself if no folder fits; None without an
    id.

    A folder's name ends in the first eight letters of the id; older ones have it in `meta.json`.
    """
    if not isinstance(mission_id, str) or not is_invocation_id(mission_id):
        return None
    for each in missions:
        if each.endswith(f"-{mission_id[:8]}"):
            return each
    for each in missions:
        try:
            meta = durable.read_below(root, f"{SPECS}/{each}/meta.json", _MAX_META)
        except (OSError, InvocationError):
            continue
        if b'"%b"' % mission_id.encode() in meta:
            return each
    return mission_id


def _read_lifecycle(root: str, started: Mapping[str, object]) -> str | None:
    """Return the id of the mission whose action a record belongs to.

    It is that of the last line before the record began, if the line is of the same action and no
    other mission was in that action then.
    """
    at, action = str(started.get("started_at") or ""), started.get("action")
    last: str | None = None
    running = set()
    for moment, of, phase, mission_id in _parse_lifecycle(_read_older(root)):
        if moment > at:
            continue
        same = of == action
        last = mission_id if same else None
        if same and phase == "started":
            running.add(mission_id)
        elif same:
            running.discard(mission_id)
    return last if running <= {last} else None


@lru_cache(maxsize=2)
def _parse_lifecycle(data: bytes) -> tuple[tuple[str, str, object, str | None], ...]:
    """Return (time, action, phase, mission id) of each line. The result is cached, because a list
    of many records needs it for each of them."""
    rows = []
    for raw in data.split(b"\n"):
        try:
            line = json.loads(raw)
            action = str(line["canonical_action_id"]).rpartition("::")[2]
            mission_id = line["mission_id"]
            mission = mission_id if isinstance(mission_id, str) else None
            rows.append((str(line["at"]), action, line.get("phase"), mission))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return tuple(rows)


def _read_older(root: str) -> bytes:
    """Return the lifecycle file of either version of spec-kitty; no bytes where there is none."""
    for name in (layout.OLDER_LIFECYCLE, layout.OLDEST_LIFECYCLE):
        try:
            return durable.read_below(root, name, _MAX_LIFECYCLE)
        except (OSError, InvocationError):
            continue
    return b""


def name_packages(request: str) -> str | None:
    """Return the work packages in a request, joined by commas; None if there are none.

    Each stands once, in upper case, in the order of the request.
    """
    return ",".join(dict.fromkeys(name.upper() for name in re.findall(_PACKAGE, request))) or None


def name_mission(request: str, missions: Sequence[str]) -> str | None:
    """Return the one mission that a request names, by its whole name or as `mission 042`; None if
    it names none, or several. `missions` are the names of their folders.

    A number alone, such as `042`, names no mission: it can be anything in a sentence.
    """
    words = set(re.split(r"[\s,;:()\[\]'\"`/]+", request))
    numbers = tuple(f"{number}-" for number in re.findall(_NUMBERED, request))
    # A name at the end of a sentence has its full stop.
    matches = [each for each in missions if each in words or f"{each}." in words]
    matches = matches or [each for each in missions if numbers and each.startswith(numbers)]
    return matches[0] if len(matches) == 1 else None


def read_worktree_name(name: str, missions: Iterable[str]) -> tuple[str | None, str | None]:
    """Return (mission, work package) of a worktree that was made for one, by its folder's name.

    A lane names a mission and no package. Both are None for a name of another form.

    `missions` are the names of the missions' folders. A worktree that is called like one is its
    own.
    """
    if name in missions:
        return name, None
    match = re.fullmatch(_WORKTREE, name)
    if not match or match[1] not in missions:
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
    task_packages = {match.group().upper() for name in names if (match := re.match(_PACKAGE, name))}
    return task_packages.issuperset(packages)
