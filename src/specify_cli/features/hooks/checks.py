"""What is wrong with the hooks of a project, for doctor."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from shlex import quote

from doctrine import os
from doctrine.text import count, say
from specify_cli import durable
from specify_cli.cli.tables.points import list_fills
from specify_cli.errors import InvocationError, say_failure
from specify_cli.features.hooks.conversation.take_in import list_keys, read_adopted
from specify_cli.features.hooks.losses import LogLine, list_logs, logged
from specify_cli.features.hooks.settings.detection import (
    explain_off,
    find_program,
    fit_to_program,
    lies_below,
    list_harnesses,
    list_places,
)
from specify_cli.features.hooks.settings.install import SettingsPlace, standing
from specify_cli.features.hooks.silence import describe_silence, find_installed
from specify_cli.invocation.bindings import opens_by_itself
from specify_cli.project.checks import Finding, list_names
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import INFO, WARNING, RecordReport
from specify_cli.storage.index import Index

_LITTLE = 16 * 1024
_HOOK_SECONDS = 60


def check_hooks(project: Project, home: str | None) -> Iterator[Finding]:
    """Yield what hooks could not record, and why."""
    yield from _check_lost(project)
    # The folders in which nothing can be written: hooks could not say so.
    for folder in (layout.LOCAL, layout.RECORDS):
        why = _find_unwritable(project.root, folder)
        if why is not None:
            what = f"nothing can be recorded here, and hooks cannot say so: {why}"
            repair = f"free space or make {folder} writable"
            yield Finding("HOOK_UNWRITABLE", WARNING, folder, what, repair)
    yield from _check_hooks_off(project, home)


def _check_lost(project: Project) -> Iterator[Finding]:
    """Yield the events and hook calls that are in no record."""
    lines = logged(project.root, layout.ORPHANS)
    adopted = read_adopted(lines)
    orphans, full = _read_reported_lines(project.root, layout.ORPHANS, adopted)
    if orphans or full:
        last = _describe_last(orphans, "why")
        what = f"{count(len(orphans), 'hook event')} found no invocation to belong to{last}{full}"
        late = sum("closed" in line for line in orphans)
        if late:
            what += f"; {late} came after their record was closed, so it does not show them"
        yield Finding(
            "HOOK_ORPHANS",
            WARNING if late else INFO,
            layout.ORPHANS,
            what,
            _advise_on_orphans(orphans),
        )
    stored = adopted.union(*map(list_keys, lines))
    for top, path in list_logs(project.root, project.git_dir):
        label = path if top == project.root else f"{top}/{path}"
        failures, full = _read_reported_lines(top, path, stored)
        if failures or full:
            what = (
                f"{count(len(failures), 'hook call')} "
                f"failed{_describe_last(failures, 'code', 'message')}"
            )
            file, kept = quote(label), quote(f"{label}.old")
            # Nothing else says which calls are in no record.
            repair = f"fix the cause, then: cat {file} >> {kept} && rm {file}"
            yield Finding("HOOK_FAILED", WARNING, label, what + full, repair)
    names = list_names(project.root, layout.BEGUN)
    marks = (_describe_killed(project.root, name) for name in names)
    killed = [mark for mark in marks if mark is not None]
    if killed:
        what = (
            f"{count(len(killed), 'hook')} began with a large payload and never ended; the "
            f"last: {killed[-1]}"
        )
        yield Finding(
            "HOOK_KILLED",
            WARNING,
            layout.BEGUN,
            what,
            f"what they told is lost; then rm -r {layout.BEGUN}",
        )


def _advise_on_orphans(orphans: list[LogLine]) -> str:
    """Return what can be done with events that stand nowhere else."""
    named = {str(line.get("harness")) for line in orphans}
    known = [fill.name for fill in list_fills("transcripts") if fill.name in named]
    if known:
        return " ".join(["spec-kitty import sessions", *(f"--harness {name}" for name in known)])
    return f"they stand in {layout.ORPHANS} alone: keep it, or look at them there"


def _check_hooks_off(project: Project, home: str | None) -> Iterator[Finding]:
    installed = find_installed(project.root, home)
    planted = lies_below(shutil.which("spec-kitty"), project.root)
    program = find_program(project.root) if installed or planted else None
    if program and program.warning is not None:
        yield Finding(
            "HOOK_PROGRAM",
            WARNING,
            program.path or "PATH",
            program.warning,
            "spec-kitty hooks status",
        )
    harnesses = {one.name: one for one in list_harnesses(quiet=True)}
    marked = {name for name in harnesses if opens_by_itself(project.root, name)}
    for name in sorted(marked.union(installed)):
        places = list_places(harnesses[name], project.root, home)
        off = explain_off(places)
        if off is None:
            yield from _check_outdated(places)
            continue
        is_broken = any(standing(place).problem == off for place in places)
        repair = "repair that file" if is_broken else "remove that setting"
        yield Finding(
            "HOOKS_OFF",
            WARNING,
            layout.RECORDS,
            f"{harnesses[name].title} runs no hooks: {off}",
            f"{repair}, install them again, or: spec-kitty hooks uninstall",
        )


def _check_outdated(places: list[SettingsPlace]) -> Iterator[Finding]:
    """Yield the settings files that lack some of the hooks that this version installs."""
    for place in places:
        # The program is asked what it can receive only where something is missing.
        if standing(place).state != "outdated" or (
            standing(place._replace(harness=fit_to_program(place.harness))).state != "outdated"
        ):
            continue
        scope = " --scope user" if place.scope == "user" else ""
        yield Finding(
            "HOOKS_OUTDATED",
            WARNING,
            place.path,
            f"hooks of {place.harness.title} are missing: what they would tell is not recorded",
            f"spec-kitty hooks install --harness {place.harness.name}{scope}",
        )


def watch_silence(
    project: Project, home: str | None
) -> Callable[[RecordReport], Iterator[Finding]]:
    """Return a check of each record: did a harness whose hooks are installed report nothing of
    it?"""
    installed = find_installed(project.root, home)

    def check(report: RecordReport) -> Iterator[Finding]:
        if installed and report.sealed and report.status == "closed":
            place = Index(project.root).resolve(str(report.invocation_id))
            silence = describe_silence(project.root, place, installed)
            if silence is not None:
                what, _, repair = silence.partition(". ")
                yield Finding("NO_HOOK_EVENTS", WARNING, report.file, what, repair)

    return check


def _describe_killed(root: str, name: str) -> str | None:
    """Return what the mark of a hook that is over says; None for one that still runs."""
    pid = name.partition("-")[0]
    try:
        data = durable.read_below(root, f"{layout.BEGUN}/{name}", _LITTLE)
        written = os.stat(f"{root}/{layout.BEGUN}/{name}", follow_symlinks=False).st_mtime
        if time.time() - written < _HOOK_SECONDS and _is_running(int(pid)):
            return None
        mark = json.loads(data)
        return " ".join(str(mark[key])[:64] for key in ("at", "harness", "event"))
    except (OSError, InvocationError, ValueError, RecursionError, KeyError, TypeError):
        return "an unreadable mark"


def _is_running(pid: int) -> bool:
    """Return whether a process lives, another user's too; of a system that cannot say, that it
    does. Raises ValueError for what is no process's number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _read_reported_lines(top: str, path: str, known: set[str]) -> tuple[list[LogLine], str]:
    """Return the lines of a hook's log whose keys are not known from elsewhere, and what to add
    where it is full."""
    waiting = [
        line
        for line in logged(top, path)
        if "taken" not in line and known.isdisjoint(list_keys(line))
    ]
    reported = [line for line in waiting if line.get("full") is not True]
    is_full = len(reported) < len(waiting)
    return reported, "; the log is full and later ones are not kept" if is_full else ""


def _describe_last(lines: list[LogLine], *keys: str) -> str:
    """Return what the last line of a hook's log says under these keys, as the end of a sentence."""
    parts = [say(lines[-1][key]) for key in keys if lines and lines[-1].get(key) not in (None, "")]
    return f"; the last: {' '.join(parts)}" if parts else "; the last cannot be read"


def _find_unwritable(root: str, folder: str) -> str | None:
    """Return why nothing can be written to a folder, as far as asking shows; None where nothing
    speaks against it."""
    path = f"{root}/{folder}"
    while not os.path.lexists(path) and path != root:
        path = os.path.dirname(path)
    try:
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            return "it is no folder"
        if os.path.isdir(path) and not os.access(path, os.W_OK | os.X_OK):
            return "the file system or its permissions refuse it"
        disk = shutil.disk_usage(path)
    except OSError as error:
        return say_failure(error)
    # Some file systems count neither blocks nor files.
    return "the disk is full" if disk.total and disk.free < _LITTLE else None
