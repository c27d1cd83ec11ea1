"""The ref `refs/kittify/trail`: commits whose trees hold immutable files, merged by union.

    ref = name_ref(top, root)
    found = fetch_ref(top, ref, "origin")
    push_files(top, ref, "origin", [("2026-11/01J….tar", data)], found)

Each project of a repository has a ref of its own. No branch, index or work tree is touched. Files
are only ever added: a tree without a file that was seen before was cut, and a tip that does not
continue the one seen before was rewritten.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote

from doctrine.git import read_git, run_git
from doctrine.text import count
from specify_cli.errors import EnvironmentFault, StoredDataError

REF = "refs/kittify/trail"
NAME = re.compile(r"[0-9]{4}-[0-9]{2}/[0-9A-Z]{26}-[0-9a-f]{16}\.tar")
# So many bytes of archives are written at once.
_AT_ONCE = 32 * 1024 * 1024
# How often a push tries again where somebody else was quicker.
_TRIES = 8
_WHO = {
    "GIT_AUTHOR_NAME": "spec-kitty",
    "GIT_AUTHOR_EMAIL": "spec-kitty@localhost",
    "GIT_COMMITTER_NAME": "spec-kitty",
    "GIT_COMMITTER_EMAIL": "spec-kitty@localhost",
}


class Fetched(NamedTuple):
    """What a remote has: the tip of its ref (None where it has none), the blob of each file, and
    what of the state seen before is not there any more."""

    tip: str | None
    files: Mapping[str, str]
    lost: tuple[str, ...]
    rewritten: bool


def name_ref(top: str, root: str) -> str:
    """Return the ref of a project: `refs/kittify/trail` of the one at the worktree's top, and
    `refs/kittify/trail-of-packages%2Fweb` of one in a folder. [pure]"""
    below = os.path.relpath(root, top)
    if below == ".":
        return REF
    # what git refuses in the name of a ref, too: `..`, `.lock` at the end
    return f"{REF}-of-{quote(os.fsencode(below), safe='').replace('.', '%2E').replace('~', '%7E')}"


def list_files(top: str, tip: str) -> dict[str, str]:
    """Return the blob of each file of a state; names that none of ours has are left out."""
    listed = read_git(top, "ls-tree", "-r", "-z", tip) or b""
    files = {}
    for row in os.fsdecode(listed).split("\0"):
        head, _, name = row.partition("\t")
        if NAME.fullmatch(name) and head.startswith("100644 "):
            files[name] = head.split(" ")[2]
    return files


def read_tip(top: str, ref: str) -> str | None:
    """Return the commit a ref stands at; None where there is none."""
    tip = read_git(top, "rev-parse", "--verify", "-q", f"{ref}^{{commit}}")
    return None if tip is None else tip.decode().strip()


def fetch_ref(top: str, ref: str, remote: str) -> Fetched:
    """Return what a remote has now. The ref here is not moved. Raises EnvironmentFault
    REMOTE_FAILED."""
    if ref not in _list_remote(top, ref, remote):
        seen = read_tip(top, ref)
        return Fetched(None, {}, () if seen is None else tuple(list_files(top, seen)), bool(seen))
    incoming = f"{ref}-incoming"
    flags = "--quiet --no-filter --no-tags --no-write-fetch-head"
    _run_git(top, "fetch", *flags.split(), remote, f"+{ref}:{incoming}")
    tip = read_tip(top, incoming)
    if tip is None:
        raise EnvironmentFault(
            "REMOTE_FAILED", f"{remote}: {ref} is no commit", f"git ls-remote {remote}"
        )
    return compare_states(top, read_tip(top, ref), tip)


def compare_states(top: str, seen: str | None, tip: str) -> Fetched:
    """Return a state with what it lacks of the one that was seen before."""
    files = list_files(top, tip)
    if seen is None:
        return Fetched(tip, files, (), False)
    before = list_files(top, seen)
    lost = tuple(name for name, blob in sorted(before.items()) if files.get(name) != blob)
    rewritten = read_git(top, "merge-base", "--is-ancestor", seen, tip) is None
    return Fetched(tip, files, lost, rewritten)


def remember(top: str, ref: str, tip: str) -> None:
    """Move the ref here to a state that holds all that the one before held."""
    _run_git(top, "update-ref", ref, tip)


def push_files(
    top: str, ref: str, remote: str, new: Iterable[tuple[str, bytes]], fetched: Fetched
) -> Fetched:
    """Add files to the remote's ref, which was found like this, and return its state then; another
    clone's are kept.

    Raises EnvironmentFault REMOTE_FAILED, StoredDataError TRAIL_REWRITTEN where the remote lost
    what was seen there before: nothing is pushed then.
    """
    refuse_rewritten(remote, ref, fetched)
    blobs = _write_blobs(top, new)
    for _ in range(_TRIES):
        if blobs.items() <= fetched.files.items():
            if fetched.tip is not None:
                remember(top, ref, fetched.tip)
            return fetched
        tip = _commit(top, fetched.tip, blobs)
        try:
            _run_git(top, "push", "--quiet", "--no-verify", remote, f"{tip}:{ref}")
        except EnvironmentFault as error:
            tips = _list_remote(top, ref, remote)
            for other in tips.keys() & {f"refs/heads/{ref}", f"refs/tags/{ref}"}:
                raise EnvironmentFault(
                    "REMOTE_FAILED",
                    f"{remote} has {other}, which git takes for {ref}",
                    f"git push {remote} --delete {other}",
                ) from error
            if tips.get(ref) == fetched.tip:
                raise  # nobody was quicker: the remote refuses
            fetched = fetch_ref(top, ref, remote)
            refuse_rewritten(remote, ref, fetched)
            continue
        remember(top, ref, tip)
        return compare_states(top, None, tip)
    raise EnvironmentFault(
        "REMOTE_FAILED", f"{remote}: other clones pushed {_TRIES} times meanwhile", "push again"
    )


def refuse_rewritten(remote: str, ref: str, fetched: Fetched) -> None:
    """Raise StoredDataError TRAIL_REWRITTEN for a ref that lacks what was seen there before."""
    if not fetched.rewritten and not fetched.lost:
        return
    what = "its history is another one"
    if fetched.lost:
        what = f"gone or changed: {count(len(fetched.lost), 'file')}, first {fetched.lost[0]}"
    raise StoredDataError(
        "TRAIL_REWRITTEN",
        f"{remote}: {ref} was rewritten or cut since it was seen last: {what}",
        f"ask who did it; `git push {remote} {ref}:{ref} --force` puts back the state seen here",
    )


def _commit(top: str, parent: str | None, blobs: Mapping[str, str]) -> str:
    """Return a commit that holds the files of its parent and these."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        if parent is not None:
            _run_git(top, "read-tree", parent, more=index)
        rows = "".join(f"100644 {blob}\t{name}\0" for name, blob in sorted(blobs.items()))
        _run_git(top, "update-index", "-z", "--index-info", given=rows.encode(), more=index)
        tree = _run_git(top, "write-tree", more=index).strip()
    parents = ["-p", parent] if parent is not None else []
    return _run_git(top, "commit-tree", tree, *parents, "-m", "records", more=_WHO).strip()


def _write_blobs(top: str, new: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """Return by name the ids of these files, which git keeps from then on; only so many bytes of
    them are in memory at once."""
    blobs: dict[str, str] = {}
    batch = {}
    size = 0
    for name, data in new:
        batch[name] = data
        size += len(data)
        if size >= _AT_ONCE:
            blobs |= _write_some(top, batch)
            batch, size = {}, 0
    return blobs | _write_some(top, batch)


def _write_some(top: str, batch: Mapping[str, bytes]) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        paths = [f"{folder}/{number}" for number in range(len(batch))]
        for path, data in zip(paths, batch.values(), strict=True):
            with open(path, "wb") as file:
                file.write(data)
        stdin = "".join(f"{path}\n" for path in paths).encode()
        words = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        ids = _run_git(top, *words, given=stdin).split() if paths else []
        return dict(zip(batch, ids, strict=True))


def _list_remote(top: str, ref: str, remote: str) -> dict[str, str]:
    """Return what the refs of a remote stand at that this name fits: itself, and all whose names
    end like it."""
    words = _run_git(top, "ls-remote", remote, ref).split()
    return dict(zip(words[1::2], words[::2], strict=True))


def _run_git(
    top: str, *words: str, given: bytes = b"", more: Mapping[str, str] | None = None
) -> str:
    """Run git with the user's own access to remotes. Raises EnvironmentFault REMOTE_FAILED."""
    try:
        done = run_git(top, words, stdin=given, more=more, network=True)
    except TimeoutError as error:
        raise EnvironmentFault(
            "REMOTE_FAILED", str(error), "check the remote: git remote -v"
        ) from error
    if not done or done.returncode:
        said = done.stderr.decode("utf-8", "replace") if done else "no worktree"
        said = " ".join(said.split())
        raise EnvironmentFault(
            "REMOTE_FAILED", f"git {words[0]}: {said[-300:]}", "check the remote: git remote -v"
        )
    return done.stdout.decode("utf-8", "replace")
