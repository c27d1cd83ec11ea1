"""Keep the records of a linked worktree when the worktree is removed (docs/adr/0008).

`git worktree remove` deletes the ignored files of a worktree, and with them its open and private
records. So each record, annex and object of a linked worktree has a second name below the git
directory that all worktrees share:

    <git dir>/kittify/worktrees/<project>/<worktree>/.kittify/events/…

A second name is a hard link to the same file: later appends are there too, and nothing is written
or synced twice. If that folder cannot be written, or is on another file system, nothing fails, and
doctor reports that the records will be lost with the worktree. A record whose second name is its
only one is *left behind*; `invocation.ends.adoption` brings it into another worktree. The main
worktree, which nobody removes, has no second names.
"""

from __future__ import annotations

from doctrine import os
from doctrine.git import find_in_main, find_worktree, git_directory, own_git_directory
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.storage.cold import ENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FOLDERS = (layout.OBJECTS, layout.LOCAL_OBJECTS, layout.ANNEXES, layout.RECORDS)


class LeftBehind(NamedTuple):
    """A record or archive whose worktree was removed: the name of that worktree, its folder of
    second names (an absolute path), and the file's name below the folder of records."""

    worktree: str
    home: str
    name: str


def _find_homes(root: str) -> tuple[str, str | None]:
    """Return (folder of all second names of this project, folder of this worktree if it is linked);
    outside git ("", None)."""
    top = find_worktree(root)
    shared, own = (None, None) if top is None else (git_directory(top), own_git_directory(top))
    if top is None or shared is None or own is None:
        return "", None
    place = os.path.relpath(root, top)
    homes = f"{shared}/kittify/worktrees/{layout.name_place('' if place == '.' else place)}"
    linked = os.path.realpath(own) != os.path.realpath(shared)
    return homes, f"{homes}/{os.path.basename(own)}" if linked else None


def _find_own(root: str) -> str | None:
    """Return the folder of the second names of this worktree; None where it is not linked."""
    return _find_homes(root)[1]


def find_homes(root: str) -> list[str]:
    """Return the folders of second names of this project's worktrees, as absolute paths; [] if they
    cannot be listed.

    `root` is the project's folder. Folders of worktrees that were removed are among them.
    """
    base = _find_homes(root)[0]
    return [f"{base}/{name}" for name in list_folder(base)]


def list_folder(path: str) -> list[str]:
    """Return the sorted names in a folder; none of one that cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def find_sibling_roots(root: str) -> list[str]:
    """Return the other roots that hold records of this project: the folders of second names of
    linked worktrees, and the main worktree.

    They are absolute paths; those of this worktree are left out.
    """
    own = {os.path.realpath(path) for path in (root, _find_own(root) or root)}
    roots = (*find_homes(root), find_in_main(root))
    return [path for path in roots if os.path.realpath(path) not in own]


def link_second_names(root: str, paths: Iterable[str]) -> None:
    """Give files of a linked worktree their second names; the first time, all files that exist.

    `paths` are below the root. Nothing is raised: if a link cannot be made, doctor reports the
    record without one. An existing name stays.
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
        return  # doctor reports that these will be lost with the worktree


def keep_all(root: str) -> None:
    """Give a second name to every file of a linked worktree that has none.

    `root` is the project's folder. It is for records made while the folder of second names could
    not be written.
    """
    link_second_names(root, list_files(root))


def _link_second(root: str, home: str, path: str) -> None:
    """Give one file its second name. An existing second name stays, whatever it leads to."""
    folder, _, name = path.rpartition("/")
    os.makedirs(f"{home}/{folder}", 0o700, exist_ok=True)
    with durable.folder(root, folder) as fd:
        try:
            os.link(name, f"{home}/{path}", src_dir_fd=fd, follow_symlinks=False)
        except FileExistsError:
            return


def list_files(root: str) -> Iterator[str]:
    """Yield the paths, below a root, of its objects, then annexes, then records: a record comes
    after everything it names."""
    for folder in _FOLDERS:
        for top, folders, names in os.walk(f"{root}/{folder}"):
            folders.sort()
            for name in sorted(names):
                if not name.startswith("."):
                    yield os.path.relpath(f"{top}/{name}", root)


def replace_second_name(root: str, path: str, name: str) -> None:
    """Give a new archive of a linked worktree its second name, in place of the archive it replaces.

    `path` is the archive's later path below the root, and `name` its present file name in the same
    folder. The second name is durable on return. Raises StoredDataError COLD_DAMAGED if another
    worktree of this name left an archive behind there, OSError.
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
            "take it in, in the main worktree: spec-kitty invocations reindex",
        )
    os.makedirs(home, 0o700, exist_ok=True)
    with durable.folder(root, folder) as own, durable.folder(home, folder, create=True) as fd:
        os.link(name, name, src_dir_fd=own, dst_dir_fd=fd, follow_symlinks=False)
        os.rename(name, last, src_dir_fd=fd, dst_dir_fd=fd)
        os.fsync(fd)


def has_second_name(root: str, path: str, own: str) -> bool:
    """Return whether the second name of a path below a linked worktree leads to the file `own`.

    `root` is the worktree's project, and both paths are below it. Without a second name it is
    False.
    """
    second = f"{_find_own(root) or os.devnull}/{path}"
    return os.path.exists(second) and os.path.samefile(second, f"{root}/{own}")


def remove_with_second_names(root: str, folder: str, names: Iterable[str]) -> None:
    """Remove files of one folder durably, together with their second names.

    ext4 with data=writeback reuses the blocks of a removed file at once. Until the removal is
    durable, a power cut could bring the name back with the bytes of another file.

    `root` is the project's folder, `folder` is below it. The second name goes first: a crash
    between the two leaves the file in its worktree, where the next call finds it.
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

    `home` is a project's folder or one of second names. A state is that of the file itself; its
    link count says whether it has two names.
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
    """Return those of the other worktrees that have records, as `list_worktrees` does."""
    return [one for one in list_worktrees(root) if os.path.isdir(f"{one}/{layout.EVENTS}")]


def list_worktrees(root: str) -> list[str]:
    """Return the absolute paths of this project in the other worktrees of its repository, which
    git's own folder lists.

    Entries of git's that lead to what is not theirs are left out: of a copied project they name the
    worktrees of the first one.

    `root` is the project's folder. A worktree on a disk that is not mounted is left out.
    """
    top = find_worktree(root)
    shared = None if top is None else git_directory(top)
    if top is None or shared is None:
        return []
    place, folders = os.path.relpath(root, top), [find_in_main(root)]
    for name in list_folder(f"{shared}/worktrees"):
        entry = f"{shared}/worktrees/{name}"
        try:
            with open(f"{entry}/gitdir", encoding="utf-8") as file:
                # Since version 2.48 git can write a path from there.
                other = os.path.dirname(os.path.join(entry, file.read(4096).strip()))
            if _leads_to(other, entry) and not os.path.samefile(other, top):
                folders.append(os.path.normpath(os.path.join(other, place)))
        except (OSError, ValueError):
            continue
    return list(dict.fromkeys(one for one in folders if one != root))


def _leads_to(top: str, entry: str) -> bool:
    """Return whether a worktree is the one of git's entry; after its repository was moved, it leads
    nowhere until `git worktree repair`. Raises OSError."""
    own = own_git_directory(top)
    return os.path.samefile(own, entry) if own else os.path.isfile(f"{top}/.git")


def find_left_behind(root: str) -> list[LeftBehind]:
    """Return the records of this project whose worktrees were removed.

    A file with only one name (link count 1) has lost the name in its worktree.

    `root` is the project's folder in any of its worktrees.
    """
    return [
        LeftBehind(os.path.basename(home), home, record)
        for home in find_homes(root)
        for record, state in sorted(list_records(home))
        if state.st_nlink == 1
    ]


def find_unkept(root: str) -> tuple[int, str]:
    """Return how many records of a linked worktree have no second name, and why they cannot get one
    now ("" if they can).

    The reason is a sentence for people. For a main worktree the number is 0.

    `root` is the project's folder in the worktree.
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
    """Return the git directory that a folder of second names lies in.

    `home` is an absolute path, as `find_homes` returns it.
    """
    return home.rpartition("/kittify/worktrees/")[0]


def find_above(root: str, part: str) -> str | None:
    """Return the nearest folder above the root whose records have `part` in their names; None if
    there is none. A caller inside a nested repository may ask for a record of the project around
    it."""
    here, above = "", os.path.realpath(root)
    while above != here:
        here, above = above, os.path.dirname(above)
        try:
            if any(part in name for name in os.listdir(f"{above}/{layout.RECORDS}")):
                return above
        except OSError:
            continue
    return None
