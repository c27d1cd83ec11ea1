"""Prepare a project's folders, and move private objects out of the tracked ones after a change of
the trail.

In committed mode a record is private while it is open and public once it is closed. Until then its
objects lie in `.kittify/local/objects`, because git tracks the other folder, and they would be in
the next commit. Each clone notes in its git directory which records it published. So a record whose
commit was dropped later can be distinguished from one that was never published.
"""

from __future__ import annotations

from doctrine import os
from doctrine.git import ask_git, find_worktree
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.record.seal import seal_at_end
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import FileRecordStore, list_trail_folders, places

# A file below the git directory: the paths of the records that this clone published, from the top
# of the worktree.
_PUBLISHED = "published"
_MAX_PUBLISHED = 64 * 1024 * 1024


def prepare(records: FileRecordStore) -> None:
    """Make the project's folders and ignore rules, as its trail setting requires. Raises
    InvocationError.

    It runs at each start. A `.gitignore` in the folder of objects means that a change from private
    to committed is not finished yet.
    """
    records.prepare()
    if records.trail == "committed" and os.path.lexists(
        f"{records.root}/{layout.OBJECTS}/.gitignore"
    ):
        withdraw_private_objects(records.root)


def withdraw_private_objects(root: str) -> None:
    """Move the objects that only private records name out of the tracked folder, after a change
    from private to committed.

    Objects of published records stay where they are, and so does what git tracks, because annexes
    name objects too. The folder's own `.gitignore` hides everything until the last object has
    moved, so a crash here exposes nothing, and the next start continues. Raises OSError,
    StoredDataError.

    `root` is the project's folder. Each object is renamed, so it is never in both folders or in
    none; both folders are synced before the next two letters.
    """
    public, tracked = objects_of_trail(root), _list_tracked(root)
    with durable.folder(root, layout.OBJECTS) as objects_fd:
        for shard in sorted(name for name in os.listdir(objects_fd) if len(name) == 2):
            with (
                durable.folder(root, f"{layout.OBJECTS}/{shard}") as old,
                durable.folder(root, f"{layout.LOCAL_OBJECTS}/{shard}", create=True) as new,
            ):
                for name in sorted(os.listdir(old)):
                    digest = (shard + name).removesuffix(layout.WITHHELD)
                    if digest not in public and f"{layout.OBJECTS}/{shard}/{name}" not in tracked:
                        os.rename(name, name, src_dir_fd=old, dst_dir_fd=new)
                os.fsync(new)
                os.fsync(old)
        os.unlink(".gitignore", dir_fd=objects_fd)


def find_ignored_objects(root: str) -> list[str]:
    """Return the objects of this clone's published records that git ignores and does not track:
    every other clone would miss them.

    This happens when the trail changes from committed to private before the objects are committed.
    Records that a branch brought into the trail do not count, because they could name objects that
    were never published. Paths are below the root, sorted; outside git there are none.
    """
    if find_worktree(root) is None or not (
        os.path.isdir(f"{root}/{layout.TRAIL}") and os.path.isdir(f"{root}/{layout.RECORDS}")
    ):
        return []
    paths = {
        f"{layout.OBJECTS}/{d[:2]}/{d[2:]}"
        for d in objects_of_trail(root, of=set(os.listdir(f"{root}/{layout.RECORDS}")))
    }
    return sorted(path for path in paths - _list_tracked(root) if os.path.exists(f"{root}/{path}"))


def _list_tracked(root: str) -> set[str]:
    """Return the paths of the objects that git tracks, below the root."""
    return set((ask_git(root, "ls-files", "-z", "--", layout.OBJECTS) or "").split("\0"))


def objects_of_trail(root: str, of: set[str] | None = None) -> set[str]:
    """Return the digests of all objects of published records that no policy withholds.

    `of` limits the records to these file names.

    `root` is the project's folder. Every published record is read, one at a time.
    """
    # A `do` comes here only after a change of the trail.
    from specify_cli.storage.checking import verify_file
    from specify_cli.storage.reachability import Reach, Reached, policy_withholds

    reach = Reach(FileObjectStore(root))
    reached: list[Reached] = []
    for place in places(root, list_trail_folders(root)):
        if of is None or place.name in of:
            reached += reach.of(verify_file(root, place).objects)
    return {item.digest for item in reached} - policy_withholds(
        FileObjectStore(root), reached
    ).keys()


def note_published(root: str, git_dir: str | None, path: str) -> None:
    """Note in the git directory that this clone published a record. A failure is ignored.

    `path` is that of the copy, below the root. The note is not synced: it is a help, not a proof.

    `git_dir` is the git directory that all worktrees share, None outside git.
    """
    top = find_worktree(root)
    if git_dir is None or top is None:
        return
    try:
        with (
            durable.folder(f"{git_dir}/kittify") as fd,
            durable.appended(fd, _PUBLISHED) as out,
        ):
            durable.write_all(out, f"{os.path.relpath(f'{root}/{path}', top)}\n".encode())
    except (OSError, InvocationError):
        return


def _list_published(git_dir: str | None) -> list[str]:
    """Return the path of every record that this clone published, below the top of its worktree."""
    try:
        data = (
            None
            if git_dir is None
            else durable.read_own(f"{git_dir}/kittify", _PUBLISHED, _MAX_PUBLISHED)
        )
    except (OSError, InvocationError):
        return []
    return sorted({path for path in (data or b"").decode("utf-8", "replace").split("\n") if path})


def find_never_published(root: str, git_dir: str | None, closed: set[str]) -> set[str]:
    """Return the ids in `closed` of records that this clone never published and that are not in
    this branch's trail. They were closed before the trail was committed.

    `root` is the project's folder, and `git_dir` the git directory, None outside git.
    """
    paths = _list_published(git_dir)
    paths += [name for _, _, names in os.walk(f"{root}/{layout.TRAIL}") for name in names]
    return closed - {path.removesuffix(".jsonl")[-26:] for path in paths}


def find_hidden_annexes(root: str, invocation_id: str) -> set[str | None]:
    """Return the seals of a record's annexes that git ignores, or that an archive alone holds.

    `root` is the project's folder.
    """
    # Only a log with annexes that are not published yet comes here.
    from specify_cli.storage.checking import read_annex_files

    folder = f"{root}/{layout.annex_folder(invocation_id)}"
    seen = ask_git(root, "ls-files", "-co", "--exclude-standard", "--", folder) or ""
    return {
        seal_at_end(data)
        for path, data in read_annex_files(root, invocation_id)
        if os.path.basename(path) not in seen
    }


def find_unpublished(root: str, git_dir: str | None) -> list[str]:
    """Return the ids of records that this clone published and still has, but whose commit was
    dropped from all branches, or taken back by a later commit of this one.

    The published part of the log still names them, so every other clone would miss them. git is
    asked only where the work tree lacks a record that this clone published.

    `root` is the project's folder, and `git_dir` the git directory, None outside git.
    """
    top = find_worktree(root)
    paths = _list_published(git_dir)
    try:
        here = set(os.listdir(f"{root}/{layout.RECORDS}")) if paths and top else set()
    except OSError:
        return []
    lost = [
        path
        for path in paths
        if os.path.basename(path) in here
        and f"{top}/{path}".startswith(f"{root}/{layout.TRAIL}/")
        and not os.path.lexists(f"{top}/{path}")
    ]
    if not lost or top is None:
        return []
    trail = f"{root}/{layout.TRAIL}"
    words = ("log", "--all", "--not", "HEAD", "-z", "--format=", "--name-only", "--")
    output = f"{ask_git(top, *words, trail)}\0{ask_git(top, 'ls-files', '-z', '--', trail)}"
    known = set(output.split("\0"))
    names = [layout.parse_record_name(os.path.basename(path)) for path in lost if path not in known]
    return [name[1] for name in names if name]
