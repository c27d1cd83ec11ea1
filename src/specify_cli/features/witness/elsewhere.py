"""Where a record's lines stand that are not here: worktrees, branches, and copies in git."""

from __future__ import annotations

from doctrine.git import ask_git, find_worktree, read_blobs
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.record.record import genesis_tip, is_invocation_id, lines_in_force
from specify_cli.record.seal import open_line
from specify_cli.storage.checking import annex_files
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore

# Records by their ids, each with its files in git: (commit, path).
Committed = dict[str, list[tuple[str, str]]]
# Each file of another branch is read up to this size.
_MAX_BLOB = 64 * 1024 * 1024


def holds(data: bytes, seal: str) -> bool:
    return f'"~":"{seal}"'.encode() in data


def chain_seals(data: bytes) -> set[str]:
    """Return the seals of a record and its annexes as far as each line is sealed and follows a line
    before it.

    A line behind an altered one hashes to its seal still; that the record is here it does not say.
    """
    seals = {genesis_tip().seal}
    for _, raw in lines_in_force(data):
        line = open_line(raw)
        if (
            not line.problems
            and line.seal
            and line.fields is not None
            and line.fields.get("prev") in seals
        ):
            seals.add(line.seal)
    return seals


def list_committed(root: str) -> Committed:
    """Return the files of records that other branches brought and this one never had, by record:
    (commit, path).

    What a commit of this branch ever held has to be here: without it, it was deleted.
    """
    here = {path for files in list_added(root, "HEAD").values() for _, path in files}
    every = list_added(root, "--all")
    return {key: [one for one in files if one[1] not in here] for key, files in every.items()}


def list_added(root: str, *revisions: str) -> Committed:
    """Return the files of records that commits brought, by record, the newest commit first."""
    top = find_worktree(root)
    folders = (f"{root}/{layout.TRAIL}", f"{root}/{layout.ANNEXES}")
    argv = ("log", *revisions, "--format=%x00%h", "--name-only", "--diff-filter=AM")
    try:
        output = None if top is None else ask_git(top, *argv, "--", *folders)
    except OSError:
        return {}
    added: Committed = {}
    for entry in (output or "").split("\0"):
        commit, *paths = entry.split("\n")
        for path in paths:
            folder, _, name = path.rpartition("/")
            ids = layout.parse_record_name(name)
            annexed = folder.rpartition("/")[2]
            key = annexed if is_invocation_id(annexed) else ids[1] if ids else None
            if key is not None:
                added.setdefault(key, []).append((commit, path))
    return added


def read_blob(root: str, name: str) -> bytes:
    """Return the bytes of a file in a commit, `<commit>:<path>`; none where it is not there or too
    large."""
    top = find_worktree(root)
    try:
        data = None if top is None else next(read_blobs(top, [name], _MAX_BLOB))
        return data or b""
    except OSError:
        return b""


def read_with_annexes(root: str, invocation_id: str) -> bytes | None:
    if not is_invocation_id(invocation_id):
        return None
    index = Index(root)
    try:
        places = [place for key in index.lookup(invocation_id) if (place := index.place(key))]
        data = b"".join(FileRecordStore(root).read(place) for place in places)
        annexes = [annex for _, annex in annex_files(root, invocation_id)]
    except (OSError, InvocationError, ValueError):
        return None
    if not places:
        return None
    return data + b"".join(annex for annex in annexes if isinstance(annex, bytes))
