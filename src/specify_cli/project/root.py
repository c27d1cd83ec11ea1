"""Find where a project begins: the nearest `.kittify/` upwards, within the git worktree
(docs/adr/0001).

A folder of another user is never the project. If this clone has worked in a project before, that
stays the project, whatever folders a branch adds or removes. A project inside a project counts
after a person has accepted it.

    locate("src/app").root

The search goes upwards and stops at the git worktree's top, because a checkout inside another one
is a project of its own. It reads only names and owners and never starts git, because every hook
runs it. Like git, it does not trust a folder of another user, whose config could switch off what
protects this user.
"""

from __future__ import annotations

from doctrine import os
from doctrine.git import find_worktree, git_directory
from doctrine.light_imports import NamedTuple
from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.project.protection import remembered_places
from specify_cli.record import layout


class Location(NamedTuple):
    """A project's top folder, its git directory, its place in the worktree ("" for the top).

    `passed` is a folder with a `.kittify/` that was not taken: an inner project nobody accepted,
    or, outside git, one above.

    `root` and `git_dir` are whole paths; `git_dir` is None outside git.
    """

    root: str
    git_dir: str | None
    place: str = ""
    passed: str | None = None


def find_root(start: str, home: str | None = None) -> tuple[str, str | None]:
    """Return (project root, git directory) for a folder: design §4. Raises EnvironmentFault
    FOREIGN_OWNER.

    Use `locate` where the place in the worktree is needed as well.

    `start` is any folder and need not be the root. `home` is the user's home folder.
    """
    return locate(start, home)[:2]


def require_worktree(root: str, why: str) -> str:
    """Return the top of the git worktree a project lies in; `why` says what is missing without one.

    Raises CallerError NOT_A_REPOSITORY.

    `why` ends the message. The path is whole.

    `root` is the project's folder.
    """
    top = find_worktree(root)
    if top is None:
        from shlex import quote  # for a refusal only

        what, step = f"{root} is in no git repository: {why}", f"git init {quote(root)}"
        if os.path.isfile(f"{root}/HEAD") and os.path.isdir(f"{root}/objects"):
            what = f"{root} is a bare repository: it has no work tree, where records lie"
            beside = quote(f"{root.removesuffix('.git')}-checked-out")
            step = f"git worktree add --detach {beside}, and ask there"
        raise CallerError("NOT_A_REPOSITORY", what, step)
    return top


def locate(start: str, home: str | None = None) -> Location:
    """Return the location of a folder's project. Raises EnvironmentFault FOREIGN_OWNER.

    `start` can be any folder. If several folders above it have a `.kittify/`, the one that this
    clone remembers counts, or else the outermost within the worktree. If none has one, the root is
    the worktree's top. Outside git, folders above are not used. The folder `home` is never the
    project of a folder below it.
    """
    first = here = os.path.abspath(start)
    candidates: list[str] = []
    while True:
        kittify, git = f"{here}/{layout.KITTIFY}", f"{here}/.git"
        begins = (here == first or here != home) and os.path.isdir(kittify)
        ends = os.path.lexists(git)
        if begins or ends:
            foreign = _find_foreign_owner(
                here, *([kittify] if begins else []), *([git] if ends else [])
            )
            if foreign:
                if here == first:
                    raise foreign
                return _locate_outside_git(first, candidates)
        if begins:
            candidates.append(here)
        if ends:
            return _choose(first, candidates or [here], here)
        parent = os.path.dirname(here)
        if parent == here:
            return _locate_outside_git(first, candidates)
        here = parent


def _locate_outside_git(first: str, candidates: list[str]) -> Location:
    """Return the location of a folder outside git: the folder itself, and the project above it,
    if any."""
    return Location(first, None, passed=next((root for root in candidates if root != first), None))


def _choose(first: str, candidates: list[str], top: str) -> Location:
    """Return the innermost project above `first` that this clone remembers, or else the outermost
    candidate."""
    git_dir = git_directory(top)
    root = candidates[-1]
    remembered = remembered_places(git_dir) if first != top else ()
    place = place_below(first, top)
    while remembered:
        if place in remembered:
            root = f"{top}/{place}" if place else top
            break
        if not place:
            break
        place = os.path.dirname(place)
    passed = candidates[0] if candidates[0].startswith(f"{root}/") else None
    return Location(root, git_dir, place_below(root, top), passed)


def place_below(folder: str, top: str) -> str:
    """Return the path of a folder below a worktree's top, "" for the top itself. Accepted settings
    are stored under it.

    Both are absolute paths, the one inside the other.
    """
    return "" if folder == top else os.path.relpath(folder, top)


def _find_foreign_owner(folder: str, *paths: str) -> EnvironmentFault | None:
    """Return the error for a project another user could have planted; None for one of this user's
    or the system's."""
    for path in (folder, *paths):
        owner = os.lstat(path).st_uid
        if owner not in (0, os.geteuid()) and not _is_declared_safe(folder):
            from shlex import quote  # for a refusal only

            return EnvironmentFault(
                "FOREIGN_OWNER",
                f"{path} belongs to user {owner}, not to you (user {os.geteuid()}); its files "
                "are not trusted",
                f"if you trust them: git config --global --add safe.directory {quote(folder)}",
            )
    return None


def _is_declared_safe(folder: str) -> bool:
    """Return whether the user told git that a folder of another owner is safe (git-config,
    `safe.directory`)."""
    import subprocess  # for a folder of another owner

    argv = ["git", "-C", "/", "config", "--get-all", "safe.directory"]
    try:
        listed = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=10
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return False
    # An empty entry takes back what stands before it.
    if "" in listed:
        listed = listed[len(listed) - listed[::-1].index("") :]
    return "*" in listed or os.path.realpath(folder) in map(os.path.realpath, listed)
