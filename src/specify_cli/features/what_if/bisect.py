"""The commit of charter, policy, doctrine, profiles or config that first changes what a past record
decided.

Commits are asked one by one, oldest first, so an answer does not depend on later ones that changed
it back. Where today's code alone decides otherwise on what the record kept, no commit of this
repository is to blame, which is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from charter.inputs import CONFIG_PATH, DOCTRINE_FOLDER
from doctrine.agent_profiles.repository import PROJECT_FOLDERS
from doctrine.git import ask_git, read_contents
from doctrine.load import ParseCache
from doctrine.packs import LOCK_PATH, PACKS_FOLDER
from specify_cli.errors import CallerError
from specify_cli.features.replay.opening import Opened, open_past
from specify_cli.features.replay.quiet import network_denied
from specify_cli.features.replay.replay import load_rules
from specify_cli.features.what_if.backtest import Transition, judge_record
from specify_cli.features.what_if.candidates import Candidate, Sights, read_files, read_project
from specify_cli.invocation import gates
from specify_cli.project.config import Project
from specify_cli.project.root import require_worktree
from specify_cli.record.ids import millis_of
from specify_cli.storage.index import Index

_FOLDERS = (
    ".kittify/charter",
    CONFIG_PATH,
    DOCTRINE_FOLDER,
    LOCK_PATH,
    PACKS_FOLDER,
    *PROJECT_FOLDERS,
)
# (path below the project, blob) of each file.
Files = frozenset[tuple[str, str]]


class Commit(NamedTuple):
    """A commit; `sha` is None for what lies in the work tree and is not committed."""

    sha: str | None
    at: str | None
    author: str | None
    subject: str | None


class Culprit(NamedTuple):
    """What first changes a record's decision: a commit, the work tree, our own code, or nothing up
    to now.

    `cause` is commit, work tree, code or none; `base` is the last commit asked that still decides
    as the record does; `code` names what of ours has another version than then.
    """

    invocation_id: str
    cause: str
    commit: Commit | None
    base: Commit | None
    asked: int
    transitions: tuple[Transition, ...]
    code: tuple[str, ...]


def find_culprit(project: Project, invocation_id: str) -> Culprit:
    """Ask each commit since the record. Raises CallerError NOT_A_REPOSITORY, StoredDataError
    unreplayable.*."""
    top = require_worktree(project.root, "there are no commits to ask")
    place = Index(project.root).resolve(invocation_id)
    with network_denied():
        load_rules(None)
        opened = open_past(project.root, place)
        ours = judge_record(opened, Sights(Candidate({}, (), None)), gates.RULES).found
    culprit = Culprit(opened.past.invocation_id, "code", None, None, 0, ours, opened.code.changes)
    return culprit if ours else _ask_commits(project.root, top, opened, culprit)


def _ask_commits(root: str, top: str, opened: Opened, culprit: Culprit) -> Culprit:
    """Ask each commit after the last that is older than the record and decides as it does."""
    began, parsed = millis_of(opened.past.invocation_id) // 1000, ParseCache(None)
    answers = {}
    asked = []
    for commit, seconds in _list_commits(root, top):
        files = frozenset(_list_files(root, top, str(commit.sha)))
        if files not in answers:
            answers[files] = _ask(top, files, opened, parsed)
        asked.append((seconds, commit, answers[files]))
    same = [place for place, (_, _, changed) in enumerate(asked) if not changed]
    older = [place for place in same if asked[place][0] < began]
    # Of one second it is not known whether it came before the record or after it.
    base = older[-1] if older else next((at for at in same if asked[at][0] == began), -1)
    last = asked[base][1] if base >= 0 else None
    for number, (seconds, commit, changed) in enumerate(asked[base + 1 :], 1):
        if changed and (base >= 0 or seconds >= began):
            return culprit._replace(
                cause="commit", commit=commit, base=last, asked=number, transitions=changed
            )
        last = commit if not changed else last
    with network_denied():
        live = judge_record(opened, Sights(read_project(root)), gates.RULES).found
    cause, count = "work tree" if live else "none", len(asked) - base - 1
    return culprit._replace(cause=cause, base=last, asked=count, transitions=live)


def _list_commits(root: str, top: str) -> Iterator[tuple[Commit, int]]:
    """Yield the commits that touch what decisions are made by, each after its parents, with the
    second of it."""
    form = "%H%x00%ct%x00%cI%x00%an%x00%s"
    paths = [f"{root}/{folder}" for folder in _FOLDERS]
    output = ask_git(
        top, "log", "--topo-order", "--reverse", f"--format={form}", "HEAD", "--", *paths
    )
    if output is None:
        if ask_git(top, "rev-parse", "--verify", "--quiet", "HEAD") is None:
            return  # nothing was committed yet
        raise CallerError(
            "NOT_A_REPOSITORY", "git does not list the commits of this project", "git log"
        )
    for line in output.split("\n")[:-1]:
        sha, seconds, at, author, subject = line.split("\0", 4)
        yield Commit(sha, at, author, subject), int(seconds)


def _list_files(root: str, top: str, sha: str) -> Iterator[tuple[str, str]]:
    """Yield (path below the project, blob) of what decisions were made by at a commit; links and
    the like left out."""
    paths = [f"{os.path.relpath(root, top)}/{folder}".removeprefix("./") for folder in _FOLDERS]
    output = ask_git(top, "ls-tree", "-r", "-z", "--full-tree", sha, "--", *paths)
    if output is None:
        raise _unread(sha)
    for entry in output.split("\0"):
        fields, _, path = entry.partition("\t")
        if fields.startswith("100"):
            yield os.path.relpath(f"{top}/{path}", root), fields.split(" ")[2]


def _ask(top: str, files: Files, opened: Opened, parsed: ParseCache) -> tuple[Transition, ...]:
    """Return what would have come out otherwise with these files."""
    rows = sorted(files)
    contents = {}
    read = read_contents(top, [blob for _, blob in rows]) or [None] * len(rows)
    for (path, blob), data in zip(rows, read, strict=True):
        if data is None:
            raise _unread(blob)
        contents[path] = data
    with network_denied():
        return judge_record(opened, Sights(read_files(contents), parsed), gates.RULES).found


def _unread(name: str) -> CallerError:
    """Return the error for what this clone has no bytes of: taken for empty, it would put the blame
    on its commit."""
    return CallerError(
        "COMMIT_NOT_FOUND", f"git cannot read {name} in this clone", "git fetch --refetch"
    )
