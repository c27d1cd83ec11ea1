"""Prepare a project's folders, and take what is private out of the tracked ones after a change of the trail."""

from __future__ import annotations

import os

from doctrine.git import ask_git, find_worktree
from specify_cli import durable
from specify_cli.record import layout
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import FileRecordStore, places


def prepare(records: FileRecordStore) -> None:
    """Give the project its folders and ignore rules, as its trail wants them. Raises InvocationError."""
    records.prepare()
    if records.trail == "committed" and os.path.lexists(f"{records.root}/{layout.OBJECTS}/.gitignore"):
        withdraw_private_objects(records.root)


def withdraw_private_objects(root: str) -> None:
    """After a change from private to committed: what only private records name leaves the tracked folder.

    The folder's own `.gitignore` hides everything until the last object has moved, so a crash here
    exposes nothing and the next start goes on.
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
    """Return the objects of records published here that git neither holds nor shows: every clone would miss them.

    They are what a change from committed to private leaves when nobody committed before it. What a branch brought to
    the trail does not count, because it could name objects that were never published.
    """
    top = find_worktree(root)
    if top is None or not (os.path.isdir(f"{root}/{layout.TRAIL}") and os.path.isdir(f"{root}/{layout.RECORDS}")):
        return []
    paths = {
        f"{layout.OBJECTS}/{d[:2]}/{d[2:]}"
        for d in objects_of_trail(root, of=set(os.listdir(f"{root}/{layout.RECORDS}")))
    }
    listed = ask_git(top, "ls-files", "-z", "--", f"{root}/{layout.OBJECTS}") or ""
    tracked = {os.path.relpath(f"{top}/{name}", root) for name in listed.split("\0") if name}
    return sorted(path for path in paths - tracked if os.path.exists(f"{root}/{path}"))


def objects_of_trail(root: str, of: set[str] | None = None) -> set[str]:
    """Return every object the published records, or those `of` these names, lead to and a policy does not keep back."""
    # A `do` comes here only after a change of the trail.
    from specify_cli.storage.checking import verify_file
    from specify_cli.storage.reachability import Reach, Reached, policy_withholds

    reach = Reach(FileObjectStore(root))
    reached: list[Reached] = []
    for month in sorted(os.listdir(f"{root}/{layout.TRAIL}")) if os.path.isdir(f"{root}/{layout.TRAIL}") else ():
        for place in places(root, [f"{layout.TRAIL}/{month}"]):
            if of is None or place.name in of:
                reached += reach.of(verify_file(root, place).objects)
    return {item.digest for item in reached} - policy_withholds(FileObjectStore(root), reached).keys()
