"""What is wrong in a project, each with the command that fixes it. Changes nothing but the derived
index.

Records are walked once, one at a time; what is kept of them is the set of objects they lead to.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from shlex import quote
from typing import Any, NamedTuple, Protocol

from ulid import ULID

from charter.inputs import exposures, files_of, load_inputs
from charter.state import state_problem
from doctrine.git import GitNotStarted
from doctrine.load import ParseCache, Problem
from doctrine.text import count
from specify_cli import durable
from specify_cli.cli.run import explain_access
from specify_cli.errors import InvocationError
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.checks import Finding, list_names
from specify_cli.project.config import Project
from specify_cli.project.decisions import read_decisions
from specify_cli.project.tracked import tracked_private
from specify_cli.record import findings, layout
from specify_cli.record.findings import ERROR, INFO, WARNING, RecordReport
from specify_cli.record.reading.done_note import judge_end
from specify_cli.record.reading.views import fields_of
from specify_cli.record.record import is_invocation_id
from specify_cli.routing.registry import ProfileRegistry
from specify_cli.storage.checking import verify_all
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import (
    find_ignored_objects,
    find_unpublished,
)
from specify_cli.storage.queries import read_record
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import GITATTRIBUTES, Place
from specify_cli.storage.worktrees import find_left_behind, find_unkept

STALE_OPEN_HOURS = 24
_LITTLE = 16 * 1024
_HOOK_SECONDS = 60
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")

_MOST_NAMED = 10
_UNKNOWN = "a check failed, so what it looks for is not known: "
# Folders whose absence is no problem, and whose place nothing else may take.
_FOLDERS = (
    *(layout.OBJECTS, layout.ANNEXES, layout.IMPORTED, layout.COLD),
    *(layout.LOCAL, layout.LOCAL_OBJECTS, layout.TRAIL),
)
_LOGS = "kittify/log"  # below the git directory
# What verify mentions and nobody has to fix.
_NOT_REPORTED = {"UNSEALED_RECORD", "RECOVERED"}


RecordCheck = tuple[str, Callable[[RecordReport], Iterator[Finding]]]


class Stream(Protocol):
    """What looks at all records as they pass, and says something of them together at their end."""

    def follow(self, reports: Iterable[RecordReport]) -> Iterator[RecordReport]:
        """Yield the reports as they come, each taken in."""

    def findings(self) -> Iterable[findings.Finding]:
        """Return what was found when all have passed."""


class Rooms(NamedTuple):
    """The checks that other rooms bring: of each record, of the project, and of all records as they
    pass.

    The first two come with the name of their function.
    """

    of_records: Sequence[RecordCheck] = ()
    of_project: Sequence[tuple[str, Callable[[Project], Iterator[Finding]]]] = ()
    streams: Sequence[Stream] = ()


class Swept(NamedTuple):
    """A record that an agent left open, and the outcome it was closed with."""

    invocation_id: str
    outcome: str


class DoctorReport(NamedTuple):
    """Everything that is wrong, and what was closed; `ok` where nothing is an error."""

    ok: bool
    findings: list[Finding]
    swept: list[Swept]


def sweep(
    project: Project, home: str | None, caller: Caller, now: int
) -> Iterator[Swept | Finding]:
    """Close the records of agents in which nothing happened for a day before `now` (ms). One that
    cannot be closed is a finding and costs only itself.

    What a hook began ends by what was told of it last; what an agent asked for, and did not close,
    is abandoned.
    """
    executor = ProfileInvocationExecutor(project.root, home=home)

    def close(place: Place) -> Iterator[Swept]:
        try:
            idle = now - os.stat(f"{project.root}/{place.path}").st_mtime_ns // 1_000_000
        except FileNotFoundError:  # another one closed it, and its folder is another one now
            return
        is_stale = idle >= STALE_OPEN_HOURS * 3_600_000
        record = read_record(project.root, place) if is_stale else None
        if record is None or record.completed is not None or not record.sealed:
            return
        actor = record.started.get("actor")
        if not isinstance(actor, dict) or actor.get("actor_type") != "llm":
            return
        by_hook = record.started.get("opened_by") == "hook"
        outcome = judge_end(fields_of(record)) if by_hook else "abandoned"
        closed = executor.complete(
            place.invocation_id, outcome=outcome, closed_by="doctor", caller=caller
        )
        if not closed.already_completed:
            yield Swept(place.invocation_id, outcome)

    for place in list(Index(project.root).places()):
        if place.folder == layout.RECORDS:
            yield from guard(place.path, close, place)


def examine(
    project: Project, cache: ParseCache, rooms: Rooms, clock: Callable[[], int] = time.time_ns
) -> Iterator[Finding]:
    """Yield everything that is wrong, cheapest checks first, then what the checks of other rooms
    find.

    A check that fails is named and costs only itself.
    """
    now = clock() // 1_000_000
    checks: list[tuple[str, Callable[[Project], Iterator[Finding]]]] = [
        (layout.CONFIG, partial(_check_sources, cache=cache)),
        (layout.EVENTS, _check_shields),
        (layout.OBJECTS, _check_ignored_objects),
        *((path, partial(_check_folder, top=project.root, path=path)) for path in _FOLDERS),
        (_LOGS, partial(_check_folder, top=project.git_dir or project.root, path=_LOGS)),
        (layout.RECORDS, _check_index),
        (layout.RECORDS, _check_worktrees),
        (layout.RECORDS, partial(_check_records, now=now, rooms=rooms)),
        (layout.TRAIL, _check_unpublished),
        *rooms.of_project,
        (layout.CONFIG, _check_decisions),
    ]
    for name, check in checks:
        yield from guard(name, check, project)


def guard(
    name: str, check: Callable[[Any], Iterable[Any] | None], subject: object
) -> Iterator[Any]:
    """Yield what a check finds; where it fails, that it did. `name` is the room's function, or
    the file or folder that a check of ours looks at."""
    findings = []
    try:
        with redirect_stdout(sys.stderr):  # what a check prints stands in no answer of ours
            for item in check(subject) or ():
                if not isinstance(item, Finding | Swept) or not all(
                    isinstance(member, str) for member in item
                ):
                    raise TypeError(f"expected a Finding of texts, found {item!r:.200}")
                findings.append(item)
    except InvocationError as error:
        findings.append(Finding(error.code, ERROR, name, error.message, error.suggestion))
    except OSError as error:
        fault = explain_access(error)
        findings.append(
            Finding(
                "CHECK_FAILED",
                WARNING if isinstance(error, GitNotStarted) else ERROR,
                name,
                _UNKNOWN + fault.message,
                fault.suggestion,
            )
        )
    except KeyboardInterrupt:
        raise
    # what one does wrong must not hide what the others find
    except BaseException as error:
        what, repair = f"{_UNKNOWN}{type(error).__name__}: {error}", "report it to whoever wrote it"
        findings.append(Finding("CHECK_FAILED", WARNING, name, what, repair))
    yield from findings


def _check_sources(project: Project, cache: ParseCache) -> Iterator[Finding]:
    if project.config.error is not None:
        error = project.config.error
        message = error.message.removeprefix(f"{layout.CONFIG}: ")
        yield Finding(error.code, ERROR, layout.CONFIG, message, error.suggestion)
    for notice in project.notices:
        code, _, what = notice.replace(f": {layout.CONFIG}: ", ": ", 1).partition(": ")
        yield Finding(code, WARNING, layout.CONFIG, *what.partition("; ")[::2])
    for path in tracked_private(project.root):
        what = (
            "git tracks this private file, so the next commit would publish what is written to it"
        )
        repair = f"git rm -f --cached {quote(path)}"
        yield Finding("TRACKED_PRIVATE", ERROR, path, what, repair)
    registry = ProfileRegistry(project.root, cache)
    for problem in registry.problems:
        yield _convert_problem("PROFILE_INVALID", problem)
    inputs = load_inputs(project.root, cache)
    for problem in inputs.problems:
        yield _convert_problem("BROKEN_SOURCE", problem)
    for problem in exposures((*files_of(inputs), *registry.files), project.secrets, cache):
        yield _convert_problem("SECRET", problem)
    forgotten = state_problem(project.root)
    if forgotten is not None:
        what = f"{forgotten.reason}: every context is a first one until it is gone"
        yield Finding("CONTEXT_STATE", WARNING, forgotten.place, what, forgotten.repair)
    if inputs.charter_state == "missing":
        yield Finding(
            "NO_CHARTER",
            INFO,
            ".kittify/charter/charter.md",
            "this project states no rules, so agents receive no governance context",
            "spec-kitty charter synthesize",
        )


def _convert_problem(code: str, problem: Problem) -> Finding:
    return Finding(code, ERROR, problem.place, problem.reason, problem.repair)


def _check_shields(project: Project) -> Iterator[Finding]:
    folders = [layout.EVENTS, *([layout.TRAIL] if project.config.trail == "committed" else [])]
    for folder in folders:
        path = f"{folder}/.gitattributes"
        if not os.path.isdir(f"{project.root}/{folder}"):
            continue
        try:
            unchanged = durable.read_below(project.root, path, 4096) == GITATTRIBUTES
        except OSError:
            unchanged = False
        if not unchanged:
            what = "missing or changed: git may convert line endings, which breaks seals"
            yield Finding("GITATTRIBUTES", WARNING, path, what, "spec-kitty init")


def _check_ignored_objects(project: Project) -> Iterator[Finding]:
    ignored = find_ignored_objects(project.root) if project.config.trail != "committed" else []
    if ignored:
        what = (
            f"git ignores {count(len(ignored), 'object')} of published records since the trail "
            "is private: a clone "
            "would have those records without what they name"
        )
        yield Finding(
            "OBJECTS_IGNORED", WARNING, layout.OBJECTS, what, f"git add -f {' '.join(ignored)}"
        )


def _check_folder(_: Project, top: str, path: str) -> Iterator[Finding]:
    """Yield nothing. Raises where something else than a folder stands there."""
    with suppress(FileNotFoundError), durable.folder(top, path):
        yield from ()


def _check_index(project: Project) -> Iterator[Finding]:
    if not os.path.isdir(f"{project.root}/{layout.EVENTS}"):
        return
    index = Index(project.root)
    before = index.rows_recorded()
    rows = len(index.reconcile())
    unwritten = (layout.INDEX, layout.INDEX_STAMP)
    if before != rows or any(item.startswith(unwritten) for item in index.problems):
        end = "; ".join(index.problems) or "looking at it made it right"
        what = f"it held {before} rows for {rows} records; {end}"
        repair = "spec-kitty invocations reindex; if it cannot write there: chmod u+w "
        yield Finding("STALE_INDEX", INFO, layout.INDEX, what, repair + layout.EVENTS)


def _check_worktrees(project: Project) -> Iterator[Finding]:
    in_worktrees = find_left_behind(project.root)
    if in_worktrees:
        names = ", ".join(sorted({item.worktree for item in in_worktrees}))
        what = (
            f"the git directory keeps {count(len(in_worktrees), 'record')} of worktrees that "
            f"were removed: {names}"
        )
        yield Finding(
            "LEFT_BEHIND",
            WARNING,
            layout.RECORDS,
            what,
            "spec-kitty invocations reindex",
        )
    unkept, why = find_unkept(project.root)
    if unkept or why:
        what = (
            "without a second name in the git directory, so lost with this worktree: "
            f"{count(unkept, 'record')}"
        )
        repair = "spec-kitty invocations reindex"
        if why:
            what += f": {why}"
            repair = "before you remove the worktree: spec-kitty invocations export ID -o FILE"
        yield Finding("GOES_WITH_WORKTREE", WARNING, layout.RECORDS, what, repair)


def _check_long_open(report: RecordReport, now: int) -> Iterator[Finding]:
    """Yield a warning for a record that has been open for longer than a day."""
    name = report.invocation_id or ""
    if not report.sealed or report.status != "open" or not is_invocation_id(name):
        return
    hours = (now - ULID.from_str(name).milliseconds) // 3_600_000
    if hours >= STALE_OPEN_HOURS:
        close = f"spec-kitty profile-invocation complete --invocation-id {name}"
        yield Finding(
            "LONG_OPEN",
            WARNING,
            report.file,
            f"open for {count(hours, 'hour')}",
            f"{close} --outcome abandoned",
        )


def _check_records(project: Project, now: int, rooms: Rooms) -> Iterator[Finding]:
    reach = Reach(FileObjectStore(project.root))
    reached: set[str] = set()
    reported: set[str] = set()
    partial = False
    reports = verify_all(project)
    for stream in rooms.streams:
        reports = stream.follow(reports)
    try:
        for report in reports:
            for finding in report.findings:
                # One harmed object is one finding, however many records lead to it.
                if (
                    finding.severity == INFO
                    or finding.code in _NOT_REPORTED
                    or finding.message in reported
                ):
                    continue
                if finding.code.startswith("OBJECT_"):
                    reported.add(finding.message)
                yield Finding(
                    finding.code,
                    finding.severity,
                    finding.file,
                    finding.message,
                    _suggest_next(project, report, finding),
                )
            reached.update(item.digest for item in reach.of(report.objects))
            # What cannot be read may lead to objects that then look as if nothing did.
            partial = partial or any(
                f.severity == ERROR and f.code != "TORN_TAIL" for f in report.findings
            )
            for name, check in rooms.of_records:
                yield from guard(name, check, report)
            yield from _check_long_open(report, now)
        for finding in [finding for stream in rooms.streams for finding in stream.findings()]:
            # A record that lies elsewhere, or nowhere, may lead to objects that are here.
            partial = partial or finding.code.endswith(("_MISSING", "_ELSEWHERE"))
            if finding.severity != INFO:
                yield Finding(
                    finding.code, finding.severity, finding.file, finding.message, finding.repair
                )
    except InvocationError as error:
        partial = True
        yield Finding(error.code, ERROR, layout.RECORDS, error.message, error.suggestion)
    yield from _check_leftovers(project, None if partial else reached)


def _check_unpublished(project: Project) -> Iterator[Finding]:
    ids = (
        find_unpublished(project.root, project.git_dir)
        if project.config.trail == "committed"
        else []
    )
    if ids:
        what = (
            f"this clone published {count(len(ids), 'record')} that no branch holds any more, "
            "so every clone would "
            f"miss what the log names: {', '.join(ids[:_MOST_NAMED])}"
        )
        repair = (
            "git stash pop, if you stashed them; the next close publishes them, and so does: "
            f"spec-kitty profile-invocation complete {ids[0]}"
        )
        yield Finding("UNPUBLISHED", WARNING, layout.TRAIL, what, repair)


def _suggest_next(project: Project, report: RecordReport, finding: findings.Finding) -> str:
    """Return what to do about a finding here, where that is more than it can say of itself."""
    if finding.code == "TORN_TAIL":
        if report.tip is None:
            return findings.finding("UNREADABLE_LINE", finding.file, None, 0).repair
        if report.status != "open":
            return f"truncate -s {finding.offset} {finding.file}"
        tail = durable.read_below(project.root, finding.file)[finding.offset :]
        said = re.search(rb'"outcome":"(done|failed|abandoned)"', tail)
        outcome = said[1].decode() if said else "abandoned"
        return (
            f"spec-kitty profile-invocation complete --invocation-id {report.invocation_id} "
            f"--outcome {outcome}  (or done, failed or abandoned, as it ended; if it is still at "
            "work, its next event does it)"
        )
    own_name = re.search(r"its lines say (\S+\.jsonl)", finding.message)
    if finding.code == "NAME_MISMATCH" and own_name:
        to = quote(f"{os.path.dirname(finding.file)}/{own_name[1]}")
        return f"mv -n {finding.file} {to}"
    named = _DIGEST.search(finding.message)
    if (
        finding.code in ("OBJECT_MISSING", "OBJECT_ALTERED", "SNAPSHOT_INVALID")
        and named is not None
    ):
        digest = named.group()
        if project.config.trail == "committed" and report.status != "open":
            path = layout.object_path(digest)
            return f"take it from the clone that wrote it, or: git checkout -- {path}"
        folder = layout.LOCAL_OBJECTS if project.config.trail == "committed" else layout.OBJECTS
        path = layout.object_path(digest, folder)
        return (
            f"copy {path} from a backup of this clone; a `do` under the same rules writes "
            "what they share anew"
        )
    return finding.repair


def _check_decisions(project: Project) -> Iterator[Finding]:
    """Name what was decided without a terminal, the newest of a kind alone."""
    newest = {
        decision.what.partition(" (")[0]: decision for decision in read_decisions(project.git_dir)
    }
    for decision in newest.values():
        if not decision.terminal:
            what = f"{decision.what}, at {decision.at}, was decided without a terminal"
            repair = "if that was not you, undo it; otherwise decide it again at a terminal"
            yield Finding("NO_TERMINAL", INFO, layout.CONFIG, what, repair)


def _check_leftovers(project: Project, reached: set[str] | None) -> Iterator[Finding]:
    shards = [
        f"{folder}/{shard}"
        for folder in (layout.OBJECTS, layout.LOCAL_OBJECTS)
        for shard in list_names(project.root, folder)
    ]
    for folder in (*shards, layout.RECORDS):
        for name in list_names(project.root, folder):
            path = f"{folder}/{name}"
            digest = (os.path.basename(folder) + name).removesuffix(layout.WITHHELD)
            if name.startswith(".tmp-"):
                yield Finding(
                    "LEFTOVER", INFO, path, "a writer was stopped here", f"rm {quote(path)}"
                )
            elif reached is not None and folder in shards and digest not in reached:
                what = (
                    "no record leads to this object; a writer was stopped, or the record "
                    "is elsewhere"
                )
                # It can be the only copy of what that record names.
                repair = f"mv -n {quote(path)} {layout.LOCAL}/"
                yield Finding("DANGLING_OBJECT", INFO, path, what, repair)
