"""Read from git in which commit of a range each changed line came.

    told = RangeCommits(top, since, head, {commit.sha for commit in commits}).read_changes()
    file = told.name_commits(file, old_blob)

`git blame` is started for a file alone that several commits changed, or that one may have moved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Set
from typing import NamedTuple

from doctrine.git import read_git
from specify_cli.features.origin.report import ChangedFile

_BLAMED = re.compile(rb"^([0-9a-f]{40,64}) [0-9]+ ([0-9]+)(?: [0-9]+)?$", re.M)
_LOG = ("log", "--format=format:%x1e%H", "--raw", "-c", "-z", "--no-abbrev", "--no-renames")


class _Change(NamedTuple):
    """What one commit made of a path: the blobs before and after."""

    sha: str
    blobs: tuple[str, str]


class RangeCommits(NamedTuple):
    """The commits of a range, `known` by their ids; where it was read, what each path's only commit
    did: a path that several changed, or one may have moved there, is not among them.
    """

    top: str
    since: str
    head: str
    known: Set[str]
    changes: Mapping[str, _Change] = {}

    def read_changes(self) -> RangeCommits:
        """Return the commits with what they changed: none where git does not say it in time."""
        revisions = (self.head, f"^{self.since}") if self.since else (self.head,)
        output = read_git(self.top, "--no-replace-objects", *_LOG, *revisions, "--")
        single = _find_single(os.fsdecode(output or b""))
        return self._replace(
            changes={path: told for path, told in single.items() if told and told.sha in self.known}
        )

    def name_commits(self, file: ChangedFile, old_blob: str) -> ChangedFile:
        """Return a file with the commit of the range that each of its changed lines came in;
        `old_blob` is the file as it was before the range."""
        only = self.changes.get(file.path)
        if only is None or only.blobs != (old_blob, file.blob) or file.old_path is not None:
            return self._blame(file)
        # what the range did to the file is what this commit did
        return file._replace(commits=dict.fromkeys(file.changed, only.sha))

    def _blame(self, file: ChangedFile) -> ChangedFile:
        revision = f"{self.since}..{self.head}" if self.since else self.head
        words = ["blame", "--porcelain", "--no-textconv", revision, "--", file.path]
        output = read_git(self.top, "--no-replace-objects", *words)
        if output is None:
            return file._replace(problem="git did not say in time in which commits its lines came")
        # Before each line of the file, which begins with a tab, stands where it is from.
        stated = ((int(match[2]) - 1, match[1].decode()) for match in _BLAMED.finditer(output))
        changed = set(file.changed)
        named = {at: sha for at, sha in stated if at in changed and sha in self.known}
        return file._replace(commits=named)


def _find_single(output: str) -> dict[str, _Change | None]:
    """Return each path that commits changed: how, where exactly one did that cannot have moved it.

    Of a merge git lists what it has otherwise than all its parents.
    """
    changes: dict[str, _Change | None] = {}
    sha, came, is_move = "", list[str](), False
    fields = iter(output.split("\0"))
    for field in fields:
        if field.startswith("\x1e"):
            sha, _, field = field[1:].partition("\n")
            came, is_move = [], False
        if not field.startswith(":"):
            continue
        path, (*_, before, after, status) = next(fields), field.split(" ")
        is_new = path not in changes and not field.startswith("::")
        changes[path] = _Change(sha, (before, after)) if is_new else None
        is_move = is_move or status == "D"
        came += [path] * (status == "A")
        if is_move:
            changes.update(dict.fromkeys(came))
            came = []
    return changes
