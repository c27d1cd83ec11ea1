"""What is wrong in a project, each with the command that fixes it. Changes nothing but the derived index.

Records are walked once, one at a time; what is kept of them is the set of objects they lead to.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from ulid import ULID

from charter.context import exposures, files_of, load_inputs
from charter.state import state_problem
from doctrine.text import count, say
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.conversation.take_in import list_taken
from specify_cli.features.hooks.losses import logged
from specify_cli.features.hooks.settings.detection import describe_off, find_program
from specify_cli.features.hooks.settings.harnesses import HARNESSES
from specify_cli.features.hooks.settings.install import SettingsPlace, standing
from specify_cli.features.hooks.silence import describe_silence, find_installed
from specify_cli.features.witness.levels import TrailWatch, Trust
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.decisions import read_decisions
from specify_cli.project.tracked import tracked_private
from specify_cli.record import layout
from specify_cli.record.reading.done_note import judge_end
from specify_cli.record.reading.views import fields_of, read_file
from specify_cli.record.record import is_invocation_id
from specify_cli.record.verify import ERROR, INFO, WARNING
from specify_cli.routing.registry import ProfileRegistry
from specify_cli.storage.index import Index
from specify_cli.storage.publishing import find_ignored_objects, find_unpublished
from specify_cli.storage.queries import verify_all
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import GITATTRIBUTES, FileObjectStore, FileRecordStore
from specify_cli.storage.worktrees import find_left_behind, find_unkept

if TYPE_CHECKING:
    from doctrine.load import ParseCache, Problem
    from specify_cli.invocation.caller import Caller
    from specify_cli.project.config import Project
    from specify_cli.record import verify
    from specify_cli.record.verify import RecordReport

STALE_OPEN_HOURS = 24
_LITTLE = 16 * 1024
_HOOK_SECONDS = 60
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")

_MOST_NAMED = 10
# What verify says of records that are not here.
_RECORD_ELSEWHERE = frozenset(
    ("LOGGED_RECORD_MISSING", "LOGGED_ELSEWHERE", "LOGGED_LINE_MISSING", "LINK_MISSING", "LINK_ELSEWHERE")
)
# What verify mentions and nobody has to fix.
_NOT_REPORTED = {"UNSEALED_RECORD", "RECOVERED"}


class Finding(NamedTuple):
    """One thing that is wrong: a code, how bad, where, what, and the command that fixes it."""

    code: str
    severity: Literal["error", "warning", "info"]
    path: str
    message: str
    repair: str


class Swept(NamedTuple):
    """A record that an agent left open, and the outcome it was closed with."""

    invocation_id: str
    outcome: str


class DoctorReport(NamedTuple):
    """Everything that is wrong, and what was closed; `ok` where nothing is an error."""

    ok: bool
    findings: list[Finding]
    swept: list[Swept]


def sweep(project: Project, home: str | None, caller: Caller, now: int) -> Iterator[Swept]:
    """Close the records of agents in which nothing happened for a day before `now` (ms). Raises InvocationError.

    What a hook began ends by what was told of it last; what an agent asked for, and did not close, is abandoned.
    """
    index, store = Index(project.root), FileRecordStore(project.root)
    for key in list(index.newest()):
        place = index.place(key)
        if place is None or place.folder != layout.RECORDS:
            continue
        idle = now - os.stat(f"{project.root}/{place.path}").st_mtime_ns // 1_000_000
        record = read_file(store.hold(place)) if idle >= STALE_OPEN_HOURS * 3_600_000 else None
        if record is None or record.completed is not None or not record.sealed:
            continue
        actor = record.started.get("actor")
        if not isinstance(actor, dict) or actor.get("actor_type") != "llm":
            continue
        by_hook = record.started.get("opened_by") == "hook"
        outcome = judge_end(fields_of(record)) if by_hook else "abandoned"
        executor = ProfileInvocationExecutor(project.root, home=home)
        executor.complete(place.invocation_id, outcome=outcome, closed_by="doctor", caller=caller)
        yield Swept(place.invocation_id, outcome)


def examine(
    project: Project, cache: ParseCache, clock: Callable[[], int] = time.time_ns, home: str | None = None
) -> Iterator[Finding]:
    """Yield everything that is wrong, cheapest checks first; `home` holds the user's own settings of harnesses."""
    yield from _check_sources(project, cache)
    yield from _check_shields(project)
    yield from _check_ignored_objects(project)
    yield from _check_index(project)
    yield from _check_worktrees(project)
    yield from _check_records(project, clock() // 1_000_000, find_installed(project.root, home))
    yield from _check_unpublished(project)
    yield from _check_hooks(project)
    yield from _check_hooks_off(project, home)
    yield from _check_decisions(project)


def _check_sources(project: Project, cache: ParseCache) -> Iterator[Finding]:
    if project.config.error is not None:
        error = project.config.error
        yield Finding(error.code, ERROR, layout.CONFIG, error.message, error.suggestion)
    for notice in project.notices:
        code, _, what = notice.partition(": ")
        yield Finding(code, WARNING, layout.CONFIG, *what.partition("; ")[::2])
    for path in tracked_private(project.root):
        what = "git tracks this private file, so the next commit would publish what is written to it"
        yield Finding("TRACKED_PRIVATE", ERROR, path, what, f"git rm -f --cached {path}")
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
            with open(f"{project.root}/{path}", "rb") as file:
                unchanged = file.read(4096) == GITATTRIBUTES
        except OSError:
            unchanged = False
        if not unchanged:
            what = "missing or changed: git may convert line endings, which breaks seals"
            yield Finding("GITATTRIBUTES", WARNING, path, what, "spec-kitty init")


def _check_ignored_objects(project: Project) -> Iterator[Finding]:
    ignored = find_ignored_objects(project.root) if project.config.trail == "private" else []
    if ignored:
        what = (
            f"git ignores {count(len(ignored), 'object')} of published records since the trail is private: a clone "
            "would have those records without what they name"
        )
        yield Finding("OBJECTS_IGNORED", WARNING, layout.OBJECTS, what, f"git add -f {' '.join(ignored)}")


def _check_index(project: Project) -> Iterator[Finding]:
    if not os.path.isdir(f"{project.root}/{layout.EVENTS}"):
        return
    index = Index(project.root)
    try:
        before = index.rows_recorded()
        rows = len(index.reconcile())
    except InvocationError as error:
        yield Finding(error.code, ERROR, layout.RECORDS, error.message, error.suggestion)
        return
    if before != rows:
        what = f"it held {before} rows for {rows} records; looking at it made it right"
        yield Finding("STALE_INDEX", INFO, layout.INDEX, what, "spec-kitty invocations reindex")


def _check_worktrees(project: Project) -> Iterator[Finding]:
    in_worktrees = find_left_behind(project.root)
    if in_worktrees:
        names = ", ".join(sorted({item.worktree for item in in_worktrees}))
        what = f"the git directory keeps {count(len(in_worktrees), 'record')} of worktrees that were removed: {names}"
        yield Finding("LEFT_BEHIND", WARNING, layout.RECORDS, what, "spec-kitty invocations reindex takes them in")
    unkept, why = find_unkept(project.root)
    if unkept or why:
        what = f"without a second name in the git directory, so lost with this worktree: {count(unkept, 'record')}"
        repair = "spec-kitty invocations reindex gives them one"
        if why:
            what, repair = f"{what}: {why}", "spec-kitty invocations export ID -o FILE before you remove the worktree"
        yield Finding("GOES_WITH_WORKTREE", WARNING, layout.RECORDS, what, repair)


def _check_records(project: Project, now: int, installed: Mapping[str, int]) -> Iterator[Finding]:
    reach = Reach(FileObjectStore(project.root))
    reached: set[str] = set()
    reported: set[str] = set()
    partial = False
    watch = TrailWatch(project, Trust())
    try:
        for report in watch.follow(verify_all(project)):
            for finding in report.findings:
                # One harmed object is one finding, however many records lead to it.
                if finding.severity == INFO or finding.code in _NOT_REPORTED or finding.message in reported:
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
            partial = partial or any(f.severity == ERROR and f.code != "TORN_TAIL" for f in report.findings)
            if installed and report.sealed and report.status == "closed":
                silence = describe_silence(
                    project.root, Index(project.root).resolve(str(report.invocation_id)), installed
                )
                if silence is not None:
                    what, _, repair = silence.partition(". ")
                    yield Finding("NO_HOOK_EVENTS", WARNING, report.file, what, repair)
            if report.sealed and report.status == "open" and is_invocation_id(report.invocation_id or ""):
                hours = (now - ULID.from_str(str(report.invocation_id)).milliseconds) // 3_600_000
                if hours >= STALE_OPEN_HOURS:
                    close = f"spec-kitty profile-invocation complete --invocation-id {report.invocation_id}"
                    yield Finding(
                        "LONG_OPEN",
                        WARNING,
                        report.file,
                        f"open for {count(hours, 'hour')}",
                        f"{close} --outcome abandoned",
                    )
        for finding in watch.findings():
            # A record that lies elsewhere, or nowhere, may lead to objects that are here.
            partial = partial or finding.code in _RECORD_ELSEWHERE
            if finding.severity != INFO:
                yield Finding(finding.code, finding.severity, finding.file, finding.message, finding.repair)
    except InvocationError as error:
        partial = True
        yield Finding(error.code, ERROR, layout.RECORDS, error.message, error.suggestion)
    yield from _check_leftovers(project, None if partial else reached)


def _check_unpublished(project: Project) -> Iterator[Finding]:
    ids = find_unpublished(project.root, project.git_dir) if project.config.trail == "committed" else []
    if ids:
        what = (
            f"this clone published {count(len(ids), 'record')} that no branch holds any more, so every clone would "
            f"miss what the log names: {', '.join(ids[:_MOST_NAMED])}"
        )
        repair = f"spec-kitty profile-invocation complete {ids[0]} publishes again; so does the next close"
        yield Finding("UNPUBLISHED", WARNING, layout.TRAIL, what, repair)


def _suggest_next(project: Project, report: RecordReport, finding: verify.Finding) -> str:
    """Return what to do about a finding here, where that is more than it can say of itself."""
    if finding.code == "TORN_TAIL" and report.sealed and report.invocation_id is not None:
        if report.status != "open":
            return f"truncate -s {finding.offset} {finding.file}  (the record is closed above it)"
        close = f"spec-kitty profile-invocation complete --invocation-id {report.invocation_id}"
        return f"{close}  (or any other line the run still appends: it recovers the tail)"
    named = _DIGEST.search(finding.message)
    if finding.code in ("OBJECT_MISSING", "OBJECT_ALTERED", "SNAPSHOT_INVALID") and named is not None:
        shard, rest = layout.object_parts(named.group())
        if project.config.trail == "committed" and report.status != "open":
            path = f"{layout.OBJECTS}/{shard}/{rest}"
            return f"git checkout -- {path}  (or take it from the clone that wrote it)"
        path = f"{layout.OBJECTS if project.config.trail == 'private' else layout.LOCAL_OBJECTS}/{shard}/{rest}"
        return f"copy {path} from a backup of this clone; a `do` under the same rules writes what they share anew"
    return finding.repair


def _check_hooks_off(project: Project, home: str | None) -> Iterator[Finding]:
    installed = find_installed(project.root, home)
    program = find_program(project.root) if installed else None
    if program is not None and program.warning is not None:
        yield Finding("HOOK_PROGRAM", WARNING, program.path or "PATH", program.warning, "spec-kitty hooks status")
    for name in installed:
        off = describe_off(name, project.root, home)
        if off is not None:
            what = f"{HARNESSES[name].title} runs no hooks: {off}"
            yield Finding("HOOKS_OFF", WARNING, layout.RECORDS, what, "remove that setting, or uninstall the hooks")


def _check_decisions(project: Project) -> Iterator[Finding]:
    """Name what was decided without a terminal, the newest of a kind alone."""
    newest = {decision.what.partition(" (")[0]: decision for decision in read_decisions(project.git_dir)}
    for decision in newest.values():
        if not decision.terminal:
            what = f"{decision.what}, at {decision.at}, was decided without a terminal"
            repair = "if that was not you, undo it; otherwise decide it again at a terminal"
            yield Finding("NO_TERMINAL", INFO, layout.CONFIG, what, repair)


def _check_hooks(project: Project) -> Iterator[Finding]:
    orphans, full = _read_told_lines(project.root, layout.ORPHANS)
    if orphans or full:
        last = _describe_last(orphans, "why")
        what = f"{count(len(orphans), 'hook event')} found no invocation to belong to{last}{full}"
        late = sum("closed" in line for line in orphans)
        if late:
            what += f"; {late} came after their record was closed, so it does not show them"
        yield Finding(
            "HOOK_ORPHANS", WARNING if late else INFO, layout.ORPHANS, what, f"look at them, then rm {layout.ORPHANS}"
        )
    lines = logged(project.root, layout.ORPHANS)
    held = {key for line in lines for key in (*_list_keys(line), *list_taken(line))}
    for top, path, label in _read_failure_logs(project):
        failures, full = _read_told_lines(top, path)
        # The orphan is still there, or a record took it in.
        failures = [line for line in failures if not (_list_keys(line) and held.issuperset(_list_keys(line)))]
        if failures or full:
            what = f"{count(len(failures), 'hook call')} failed{_describe_last(failures, 'code', 'message')}"
            yield Finding("HOOK_FAILED", WARNING, label, what + full, f"fix the cause, then rm {label}")
    killed = [
        mark
        for name in _list_names(project.root, layout.BEGUN)
        if (mark := _describe_killed(project.root, name)) is not None
    ]
    if killed:
        what = f"{count(len(killed), 'hook')} began with a large payload and never ended; the last: {killed[-1]}"
        yield Finding("HOOK_KILLED", WARNING, layout.BEGUN, what, f"what they told is lost; then rm -r {layout.BEGUN}")
    local = f"{project.root}/{layout.LOCAL}"
    in_use = "bindings" in _list_names(project.root, layout.LOCAL) or any(
        standing(SettingsPlace(harness, "project", project.root, harness.project)).state in ("current", "outdated")
        for harness in HARNESSES.values()
    )
    if in_use or (os.path.lexists(local) and (os.path.islink(local) or not os.path.isdir(local))):
        for folder in (layout.LOCAL, layout.RECORDS):
            why = _find_unwritable(project.root, folder)
            if why is not None:
                what = f"hooks can record nothing here, and cannot say so: {why}"
                yield Finding("HOOK_UNWRITABLE", WARNING, folder, what, f"free space or make {folder} writable")


def _describe_killed(root: str, name: str) -> str | None:
    """Return what the mark of a hook that is over says; None for one that still runs."""
    pid = name.partition("-")[0]
    try:
        data = durable.read_below(root, f"{layout.BEGUN}/{name}", _LITTLE)
        written = os.stat(f"{root}/{layout.BEGUN}/{name}", follow_symlinks=False).st_mtime
        if time.time() - written < _HOOK_SECONDS and os.path.isdir(f"/proc/{pid}"):
            return None
        mark = json.loads(data)
        return " ".join(str(mark[key])[:64] for key in ("at", "harness", "event"))
    except (OSError, InvocationError, ValueError, RecursionError, KeyError, TypeError):
        return "an unreadable mark"


def _read_failure_logs(project: Project) -> Iterator[tuple[str, str, str]]:
    """Yield where hooks note their own failures: folder, path below it, and the path as people name it."""
    yield project.root, layout.HOOK_FAILURES, layout.HOOK_FAILURES
    if project.git_dir is not None:
        yield project.git_dir, layout.LOST_IN_GIT, f"{project.git_dir}/{layout.LOST_IN_GIT}"


def _read_told_lines(top: str, path: str) -> tuple[list[Mapping[str, object]], str]:
    """Return the lines of a hook's log, and what to add where it is full."""
    lines = logged(top, path)
    adopted = {key for line in lines for key in list_taken(line)}
    waiting = [line for line in lines if "taken" not in line and adopted.isdisjoint(_list_keys(line))]
    reported = [line for line in waiting if line.get("full") is not True]
    return reported, "" if len(reported) == len(waiting) else "; the log is full and later ones are not kept"


def _list_keys(line: Mapping[str, object]) -> list[str]:
    keys = line.get("keys")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _describe_last(lines: list[Mapping[str, object]], *keys: str) -> str:
    """Return what the last line of a hook's log says under these keys, as the end of a sentence."""
    parts = [say(lines[-1][key]) for key in keys if lines and lines[-1].get(key) not in (None, "")]
    return f"; the last: {' '.join(parts)}" if parts else "; the last cannot be read"


def _find_unwritable(root: str, folder: str) -> str | None:
    """Return why nothing can be written to a folder, as far as asking tells; None where nothing speaks against it."""
    path = f"{root}/{folder}"
    try:
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            return "it is no folder"
        if os.path.isdir(path) and not os.access(path, os.W_OK | os.X_OK):
            return "the file system or its permissions refuse it"
        disk = os.statvfs(path if os.path.isdir(path) else root)
    except OSError as error:
        return error.strerror or str(error)
    # Some file systems count neither blocks nor files.
    return "the disk is full" if disk.f_blocks and disk.f_bavail * disk.f_frsize < _LITTLE else None


def _check_leftovers(project: Project, reached: set[str] | None) -> Iterator[Finding]:
    for folder in (layout.OBJECTS, layout.LOCAL_OBJECTS):
        for shard in _list_names(project.root, folder):
            for name in _list_names(project.root, f"{folder}/{shard}"):
                path = f"{folder}/{shard}/{name}"
                if name.startswith(".tmp-"):
                    yield Finding("LEFTOVER", INFO, path, "a writer was stopped here", f"rm {path}")
                elif reached is not None and (shard + name).removesuffix(layout.WITHHELD) not in reached:
                    what = "no record leads to this object; a writer was stopped, or the record is elsewhere"
                    yield Finding("DANGLING_OBJECT", INFO, path, what, f"rm {path}")
    for name in _list_names(project.root, layout.RECORDS):
        if name.startswith(".tmp-"):
            path = f"{layout.RECORDS}/{name}"
            yield Finding("LEFTOVER", INFO, path, "a writer was stopped here", f"rm {path}")


def _list_names(root: str, folder: str) -> list[str]:
    try:
        with durable.folder(root, folder) as fd:
            return sorted(os.listdir(fd))
    except (FileNotFoundError, NotADirectoryError, InvocationError):
        return []
