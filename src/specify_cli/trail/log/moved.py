"""Find the log of a project that was moved inside its repository.

    find_moved(git_dir, root, place)             # "2391be9d75d7f401", or None
    follow_move(git_dir, root, place)            # its folders have the name of the place now

The folder of a log is named after the project's place, so after `git mv tools/app services/app` it
has the name of the old one. Its ends of the trail name records by their paths: a log is this
project's if such a record is here, and if no project lies at the old place in any worktree. So a
copy of the project's folder takes over nothing.
"""

from __future__ import annotations

from doctrine import os
from specify_cli.record import layout
from specify_cli.storage.worktrees import find_worktrees
from specify_cli.trail.log.leaves import list_names, read_tips


def find_moved(git_dir: str, root: str, place: str) -> str | None:
    """Return the name of the folder of the log that a project kept at an earlier place; None if
    there is none.

    `git_dir` is the directory that all worktrees share, `root` the project's folder, and `place`
    its path below the top of the worktree.
    """
    records, top = set(list_names(f"{root}/{layout.RECORDS}")), root.removesuffix(f"/{place}")
    for name in list_names(f"{git_dir}/kittify/log") if records else ():
        for tip in read_tips(f"{git_dir}/kittify/log/{name}")[0].values():
            old, _, file = tip.path.rpartition(f"/{layout.RECORDS}/")
            earlier = _find_place(old, name) if file in records else None
            if (
                earlier is not None
                and not os.path.isdir(os.path.join(top, earlier, layout.KITTIFY))
                and not find_worktrees(os.path.join(top, earlier))
            ):
                return name
    return None


def follow_move(git_dir: str, root: str, place: str) -> None:
    """Give what the git directory holds of a project that was moved the name of its place now: its
    log, and the records of its removed worktrees.

    The arguments are as for `find_moved`. Nothing is raised: another command may have done it.
    """
    former = find_moved(git_dir, root, place)
    for kind in ("worktrees", "log") if former is not None else ():
        folder = f"{git_dir}/kittify/{kind}"
        try:
            os.rename(f"{folder}/{former}", f"{folder}/{layout.name_place(place)}")
        except OSError:
            continue  # there is none, or it cannot be written: a log in the project begins


def _find_place(root: str, name: str) -> str | None:
    """Return the place of a project below the top of its worktree, after which a log is named."""
    parts = root.split("/")
    places = ("/".join(parts[at:]) for at in range(1, len(parts) + 1))
    return next((place for place in places if layout.name_place(place) == name), None)
