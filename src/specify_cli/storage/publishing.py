"""Prepare a project's folders, and take what is private out of the tracked ones after a change of
the trail.

In committed mode a record is private while it is open and public once it is closed. Its objects
lie in `.kittify/local/objects` until then, because git tracks the other folder: what lies there
would be in the next commit. Each clone notes in its git directory what it published, so that a
commit which was dropped later can be told from a record that was never published.
"""

from __future__ import annotations

from doctrine import os
from doctrine.git import ask_git, find_worktree
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import FileRecordStore, list_trail_folders, places

# Below the git directory: the paths of what this clone published, from the top of the worktree.
_PUBLISHED = "published"
_MAX_PUBLISHED = 64 * 1024 * 1024
# So many paths go into one question to git.
_AT_ONCE = 500


def prepare(records: FileRecordStore) -> None:
    """Give the project its folders and ignore rules, as its trail wants them. Raises
    InvocationError.

    It runs at each start. The folder's `.gitignore` marks a change of the trail that is not
    carried out yet.
    """
    records.prepare()
    if records.trail == "committed" and os.path.lexists(
        f"{records.root}/{layout.OBJECTS}/.gitignore"
    ):
        withdraw_private_objects(records.root)


def withdraw_private_objects(root: str) -> None:
    """After a change from private to committed: what only private records name leaves the tracked
    folder.

    The folder's own `.gitignore` hides everything until the last object has moved, so a crash here
    exposes nothing and the next start goes on.

    Raises OSError, StoredDataError. What published records lead to stays where it is.
    """
    public = objects_of_trail(root)
    with durable.folder(root, layout.OBJECTS) as objects_fd:
        for shard in sorted(name for name in os.listdir(objects_fd) if len(name) == 2):
            with (
                durable.folder(root, f"{layout.OBJECTS}/{shard}") as old,
                durable.folder(root, f"{layout.LOCAL_OBJECTS}/{shard}", create=True) as new,
            ):
                for name in sorted(os.listdir(old)):
                    if (shard + name).removesuffix(layout.WITHHELD) not in public:
                        os.rename(name, name, src_dir_fd=old, dst_dir_fd=new)
                os.fsync(new)
                os.fsync(old)
        os.unlink(".gitignore", dir_fd=objects_fd)


def find_ignored_objects(root: str) -> list[str]:
    """Return the objects of records published here that git neither holds nor shows: every clone
    would miss them.

    They are what a change from committed to private leaves when nobody committed before it. What a
    branch brought to the trail does not count, because it could name objects that were never
    published.

    Paths are below the root, sorted. None are named outside git.
    """
    top = find_worktree(root)
    if top is None or not (
        os.path.isdir(f"{root}/{layout.TRAIL}") and os.path.isdir(f"{root}/{layout.RECORDS}")
    ):
        return []
    paths = {
        f"{layout.OBJECTS}/{d[:2]}/{d[2:]}"
        for d in objects_of_trail(root, of=set(os.listdir(f"{root}/{layout.RECORDS}")))
    }
    listed = ask_git(top, "ls-files", "-z", "--", f"{root}/{layout.OBJECTS}") or ""
    tracked = {os.path.relpath(f"{top}/{name}", root) for name in listed.split("\0") if name}
    return sorted(path for path in paths - tracked if os.path.exists(f"{root}/{path}"))


def objects_of_trail(root: str, of: set[str] | None = None) -> set[str]:
    """Return every object the published records, or those `of` these names, lead to and a policy
    does not keep back.

    `of` holds file names of records. The answer is digests.
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
    """Remember in the git directory that this clone published a record; where it cannot be written
    nothing is.

    `path` is that of the copy, below the root. The note has no sync: it is a help, not a proof.
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
    """Return those of some closed records, by their ids, that neither this branch's trail holds nor
    this clone ever published: of before the trail was committed."""
    paths = _list_published(git_dir)
    paths += [name for _, _, names in os.walk(f"{root}/{layout.TRAIL}") for name in names]
    return closed - {path.removesuffix(".jsonl")[-26:] for path in paths}


def find_unpublished(root: str, git_dir: str | None) -> list[str]:
    """Return the ids of records that lie here and that this clone published, but no branch of it
    holds any more.

    Their commit was dropped. The published part of the log still names them, so every clone would
    miss them.

    git is asked about 500 paths at a time, over all its branches.
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
    for at in range(0, len(lost), _AT_ONCE):
        part = lost[at : at + _AT_ONCE]
        held = (
            ask_git(str(top), "log", "--all", "-z", "--format=", "--name-only", "--", *part) or ""
        )
        lost[at : at + _AT_ONCE] = [path if path not in held.split("\0") else "" for path in part]
    names = [layout.parse_record_name(os.path.basename(path)) for path in lost if path]
    return [name[1] for name in names if name is not None]
