"""Sessions of this project that are in no record, for doctor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from doctrine.load import ParseCache
from doctrine.text import count
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.harnesses import translate
from specify_cli.features.hooks.silence import find_installed
from specify_cli.features.sessions.importer import AT_WORK_MILLIS
from specify_cli.features.sessions.merging import SessionMerger
from specify_cli.features.sessions.readers import find_transcripts, list_names, read_session
from specify_cli.features.sessions.reconciling import TOGETHER_MILLIS
from specify_cli.features.sessions.transcripts import DAY_MILLIS, Transcript
from specify_cli.invocation.bindings import is_record_open, list_bindings, short_digest
from specify_cli.project.checks import Finding
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import INFO, WARNING

_DAYS = 30


def check_sessions(project: Project, home: str | None) -> Iterator[Finding]:
    """Yield for each program the sessions of the last 30 days that no hook reported.

    Its hooks may be dead, uninstalled, not trusted, or run with another PATH. A warning where they
    are installed; there also a session under way counts of which no hook reported the prompt.
    """
    if home is None:
        return
    merger = SessionMerger(project, ParseCache(None))
    now = time.time_ns() // 1_000_000
    installed = find_installed(project.root, home)
    for harness in list_names():
        try:
            missing = [
                transcript
                for transcript in _iter_recent(
                    project, harness, home, now, begun=harness in installed
                )
                if not _is_covered(merger, project.root, harness, transcript)
            ]
        except InvocationError as error:
            yield Finding(error.code, WARNING, harness, error.message, error.suggestion)
            continue
        if missing:
            newest = max(missing, key=lambda transcript: transcript.changed)
            what = (
                f"{count(len(missing), 'session')} of {harness} in this project "
                f"{'is' if len(missing) == 1 else 'are'} in no record, or not to the end; "
                f"the newest: {newest.name}"
            )
            yield Finding(
                "SESSION_NOT_RECORDED",
                WARNING if newest.changed > installed.get(harness, now) else INFO,
                newest.name,
                what,
                f"spec-kitty import sessions --harness {harness}",
            )


def merge_sessions(project: Project, cache: ParseCache, home: str | None) -> None:
    """Bring every record of a session to what its transcript reports, before `doctor --sweep`
    closes any; what cannot be read or continued is left to the checks. Raises OSError."""
    if home is None:
        return
    merger = SessionMerger(project, cache)
    now = time.time_ns() // 1_000_000
    for harness in list_names():
        for transcript in _iter_recent(project, harness, home, now):
            try:
                session = read_session(
                    harness, *transcript.read(), transcript.cwd, is_over=transcript.is_over(now)
                )
                if session:
                    merger.merge(session)
            except InvocationError:
                continue


def _iter_recent(
    project: Project, harness: str, home: str, now: int, *, begun: bool = False
) -> Iterator[Transcript]:
    """Yield the sessions of a project that were over at `now` (ms), of the last 30 days; none where
    they cannot be read, which `import sessions` names. With `begun` also those that may be under
    way, if no hook reported their prompt."""
    try:
        for found in find_transcripts(harness, home, os.environ):
            age = now - found.changed
            name = short_digest(harness, found.session_id or "")
            is_told = not begun or os.path.lexists(f"{project.root}/{layout.PROMPTS}/{name}")
            is_recent = (AT_WORK_MILLIS if is_told else 0) < age < _DAYS * DAY_MILLIS
            if is_recent and not found.is_left and (transcript := found.find_in(project.root)):
                yield transcript
    except InvocationError:
        return


def _is_covered(merger: SessionMerger, root: str, harness: str, transcript: Transcript) -> bool:
    """Return whether a record reports a session; while one is open, also whether hooks reported the
    last call. One that only printed the id of its record is read to the end."""
    last = 0.0
    if transcript.session_id and merger.is_known(harness, transcript.session_id):
        for one in list_bindings(root, harness, transcript.session_id, None):
            if one.place and is_record_open(root, one):
                last = max(last, os.stat(f"{root}/{one.place.path}").st_mtime)
        if not last:
            return True
    session = read_session(harness, *transcript.read(), transcript.cwd)
    if not session or not last:
        return not session or merger.has_records(session)
    return not any(
        event.event == "tool_call"
        for item in session.events
        if item.at > 1000 * last + TOGETHER_MILLIS
        for event in translate(harness, item.payload).events
    )
