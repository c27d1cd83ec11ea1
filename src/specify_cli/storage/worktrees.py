"""Keep the records of a linked worktree when the worktree is removed (docs/adr/0008).

`git worktree remove` deletes the ignored files of a worktree, and with them its open and private
records. So each record, annex and object of a linked worktree has a second name below the git
directory that all worktrees share:

    <git dir>/kittify/worktrees/<project>/<worktree>/.kittify/events/…

A second name is the same file: what is appended later is there too, and nothing is written or
synced twice. Where that folder cannot be written or is another file system nothing fails, and
doctor says that the records go with the worktree. A record whose second name is its only one is
*left behind*; `invocation.ends.adoption` brings it into the project that asks. The main worktree,
which nobody removes, has no second names.
"""

from __future__ import annotations

from doctrine import os
from doctrine.git import find_worktree, git_directory, own_git_directory
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256
from specify_cli import durable
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.storage.cold import ENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_MAX_WORKTREES = 64
_FOLDERS = (layout.OBJECTS, layout.LOCAL_OBJECTS, layout.ANNEXES, layout.RECORDS)


class LeftBehind(NamedTuple):
    """A record, or an archive of them, that no worktree holds any more: the worktree it was of,
    that one's folder of second names, its name.

    `home` is a whole path, `name` that of a file below the folder of records.
    """

    worktree: str
    home: str
    name: str


def _find_homes(root: str) -> tuple[str, str | None]:
    """Return (the folder of the second names of this project's worktrees, that of this one if it is
    linked); outside git both are empty."""
    top = find_worktree(root)
    shared, own = (None, None) if top is None else (git_directory(top), own_git_directory(top))
    if top is None or shared is None or own is None:
        return "", None
    place = os.path.relpath(root, top)
    project = (
        "top" if place == "." else sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    )
    homes = f"{shared}/kittify/worktrees/{project}"
    linked = os.path.realpath(own) != os.path.realpath(shared)
    return homes, f"{homes}/{os.path.basename(own)}" if linked else None


def _find_own(root: str) -> str | None:
    """Return the folder of the second names of this worktree; None where it is not linked."""
    return _find_homes(root)[1]


def find_homes(root: str) -> list[str]:
    """Return the folders of second names of this project's worktrees, as whole paths; none where
    they cannot be listed."""
    base = _find_homes(root)[0]
    try:
        return [f"{base}/{name}" for name in sorted(os.listdir(base))]
    except OSError:
        return []


def find_sibling_roots(root: str) -> list[str]:
    """Return where records of this project lie beside this worktree: second names of linked ones,
    the main worktree.

    They are whole paths; this worktree's own are not among them.
    """
    homes, top = _find_homes(root), find_worktree(root)
    if top is None:
        return []
    roots, shared = find_homes(root), shared_directory(homes[0])
    if os.path.basename(shared) == ".git":
        main = os.path.normpath(os.path.join(os.path.dirname(shared), os.path.relpath(root, top)))
        roots.append(main)
    own = {os.path.realpath(path) for path in (root, homes[1] or root)}
    return [path for path in roots if os.path.realpath(path) not in own]


def link_second_names(root: str, paths: Iterable[str]) -> None:
    """Give files of a linked worktree, named below its root, their second names; the first time all
    that are there.

    Nothing is raised: where a link cannot be made, doctor finds the record without one. A name
    that is there already stays.
    """
    home = _find_own(root)
    if home is None:
        return
    try:
        everything = not os.path.isdir(home)
        os.makedirs(home, 0o700, exist_ok=True)
        for path in list_files(root) if everything else paths:
            _link_second(root, home, path)
    except (OSError, InvocationError):
        return  # doctor says that these go with the worktree


def keep_all(root: str) -> None:
    """Give every file of a linked worktree that lacks it its second name."""
    link_second_names(root, list_files(root))


def _link_second(root: str, home: str, path: str) -> None:
    folder, _, name = path.rpartition("/")
    os.makedirs(f"{home}/{folder}", 0o700, exist_ok=True)
    with durable.folder(root, folder) as fd:
        try:
            os.link(name, f"{home}/{path}", src_dir_fd=fd, follow_symlinks=False)
        except FileExistsError:
            return


def list_files(root: str) -> Iterator[str]:
    """Yield the records, annexes and objects below a root, what a record needs before the
    record.

    Paths are below the root: objects, annexes, then records.
    """
    for folder in _FOLDERS:
        for top, folders, names in os.walk(f"{root}/{folder}"):
            folders.sort()
            for name in sorted(names):
                if not name.startswith("."):
                    yield os.path.relpath(f"{top}/{name}", root)


def replace_second_name(root: str, path: str, name: str) -> None:
    """Give an archive of a linked worktree, that is to have this path, its second name in place of
    the one before it; `name` is what it has now beside that path.

    Durable on return. Raises StoredDataError COLD_DAMAGED where the name is that of an archive
    which another worktree of this name left behind, OSError.
    """
    home = _find_own(root)
    if home is None:
        return
    folder, _, last = path.rpartition("/")
    second = f"{home}/{path}"
    if os.path.lexists(second) and os.lstat(second).st_nlink == 1:
        raise StoredDataError(
            "COLD_DAMAGED",
            f"{second} was left behind by another worktree of this name",
            "spec-kitty invocations reindex in the main worktree, which takes it in",
        )
    os.makedirs(home, 0o700, exist_ok=True)
    with durable.folder(root, folder) as own, durable.folder(home, folder, create=True) as fd:
        os.link(name, name, src_dir_fd=own, dst_dir_fd=fd, follow_symlinks=False)
        os.rename(name, last, src_dir_fd=fd, dst_dir_fd=fd)
        os.fsync(fd)


def has_second_name(root: str, path: str, own: str) -> bool:
    """Return whether the second name of a path below a linked worktree is one of the file `own`."""
    second = f"{_find_own(root) or os.devnull}/{path}"
    return os.path.exists(second) and os.path.samefile(second, f"{root}/{own}")


def remove_with_second_names(root: str, folder: str, names: Iterable[str]) -> None:
    """Remove files of one folder durably, and the second names they have.

    ext4 with data=writeback gives the blocks of a removed file to the next one at once: until the
    removal is durable, a power cut would bring the name back with another file's bytes.
    """
    names = list(names)
    for base in (_find_own(root), root):
        if base is not None and os.path.isdir(f"{base}/{folder}"):
            with durable.folder(base, folder) as fd:
                for name in names:
                    try:
                        os.unlink(name, dir_fd=fd)
                    except FileNotFoundError:
                        continue
                os.fsync(fd)


def list_records(home: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (name, state) of each record and archive below a root; nothing where its folder is
    absent.

    A name is below the folder of records: `cold/2026-10.cold` is that of an archive.
    """
    for folder in ("", "cold/"):
        try:
            with os.scandir(f"{home}/{layout.RECORDS}/{folder}") as entries:
                for entry in entries:
                    is_record = layout.parse_record_name(entry.name) is not None
                    if (entry.name.endswith(ENDING) if folder else is_record) and entry.is_file(
                        follow_symlinks=False
                    ):
                        yield f"{folder}{entry.name}", entry.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            continue


def find_worktrees(root: str) -> list[str]:
    """Return where this project lies in the other worktrees of its repository, as git's own folder
    lists them.

    Whole paths; this one is left out, and so is a worktree that has no records. At most 64 are
    looked at.
    """
    top = find_worktree(root)
    shared = None if top is None else git_directory(top)
    if top is None or shared is None:
        return []
    tops = [os.path.dirname(shared)] if os.path.basename(shared) == ".git" else []
    try:
        for name in sorted(os.listdir(f"{shared}/worktrees"))[:_MAX_WORKTREES]:
            with open(f"{shared}/worktrees/{name}/gitdir", encoding="utf-8") as file:
                tops.append(os.path.dirname(file.read(4096).strip()))
    except (OSError, ValueError):
        pass
    place = os.path.relpath(root, top)
    folders = [
        os.path.normpath(os.path.join(other, place)) for other in tops if os.path.isabs(other)
    ]
    return [
        other for other in folders if other != root and os.path.isdir(f"{other}/{layout.EVENTS}")
    ]


def find_left_behind(root: str) -> list[LeftBehind]:
    """Return the records of this project whose worktrees are gone.

    A record whose file has one name alone has lost the one in its worktree.
    """
    return [
        LeftBehind(os.path.basename(home), home, record)
        for home in find_homes(root)
        for record, state in sorted(list_records(home))
        if state.st_nlink == 1
    ]


def find_unkept(root: str) -> tuple[int, str]:
    """Return how many records of a linked worktree have no second name, and why none can be given
    now ("": it can).

    The reason is a sentence for people. A main worktree gives 0.
    """
    there = _find_own(root)
    if there is None:
        return 0, ""
    count = sum(state.st_nlink == 1 for _, state in list_records(root))
    shared = shared_directory(there)
    try:
        if os.stat(shared).st_dev != os.stat(root).st_dev:
            return count, f"{shared} is on another file system"
    except OSError as error:
        return count, f"{shared} cannot be read: {error.strerror}"
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    usable = os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)
    return count, "" if usable else f"{there} cannot be written"


def shared_directory(home: str) -> str:
    """Return the git directory that a folder of second names lies in."""
    return home.rpartition("/kittify/worktrees/")[0]


def find_above(root: str, sought: str) -> str | None:
    """Return the project around this one whose records have an id with these letters: whoever
    changed into a repository inside it asks here for what is there."""
    here, above = "", os.path.realpath(root)
    while above != here:
        here, above = above, os.path.dirname(above)
        try:
            if any(sought in name for name in os.listdir(f"{above}/{layout.RECORDS}")):
                return above
        except OSError:
            continue
    return None
