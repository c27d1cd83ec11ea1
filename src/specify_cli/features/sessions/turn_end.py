"""Merge what a transcript reports of a turn that has ended, when the harness's hook says so.

A transcript is read from where it was left: `.kittify/local/transcripts/` stores the end of the
turn before the last one. Whoever edits that file can have a part read again or not at all;
`spec-kitty import sessions` reads all of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from doctrine.light_imports import NamedTuple
from doctrine.load import ParseCache
from doctrine.text import get_object
from specify_cli.features.hooks.payload.transcript_end import read_end
from specify_cli.features.hooks.payload.values import TurnOver
from specify_cli.features.hooks.silence import find_installed
from specify_cli.features.sessions.merging import SessionMerger
from specify_cli.features.sessions.readers import (
    find_transcripts,
    locate_transcript,
    read_session,
)
from specify_cli.features.sessions.transcripts import (
    FIRST_BYTES,
    MAX_TRANSCRIPT,
    Transcript,
    TranscriptQuery,
    read_head,
)
from specify_cli.invocation.bindings import (
    read_small,
    short_digest,
    write_small,
)
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.seal import read_fields
from specify_cli.storage.store import FileRecordStore, Place

# The records of a session are among the newest.
_NEWEST = 50


class _Position(NamedTuple):
    """Where a transcript was left at the last turns, and how long those of subagents were."""

    ends: tuple[int, ...]
    subagents: Mapping[str, int]


def merge_turn(project: Project, cache: ParseCache, over: TurnOver) -> None:
    """Bring the records of a session to what its transcript reports of its last turns.

    Raises InvocationError, OSError.
    """
    harness = over.harness
    sought = TranscriptQuery(over.session_id, over.transcript, over.home or "", os.environ)
    transcript = locate_transcript(harness, sought)
    if not transcript:
        return
    name = short_digest(harness, sought.session_id) + ".json"
    position = _read_position(project.root, name)
    main, others, read_to = _read_new(transcript, position)
    session = read_session(harness, main, others, over.cwd, is_over=over.is_over, briefly=True)
    if session:
        if len(position.ends) > 1:
            # A session without the answer before its first prompt: of that turn only the end was
            # read, so what it used is not known.
            events = []
            is_asked = False
            for item in session.events:
                is_asked = is_asked or "prompt" in item.payload
                if is_asked or not item.facts:
                    events.append(item)
            session = session._replace(events=tuple(events))
        merger = SessionMerger(project, cache, newest=_NEWEST)
        if not merger.merge(session, over).has_records:
            merger.merge_elsewhere(session, over.home, over)
    if not over.is_closing:  # else it is the middle of a turn
        write_small(project.root, layout.TRANSCRIPTS, name, read_to._asdict())


def merge_unreported(root: str, home: str | None, place: Place) -> None:
    """Merge what the transcript of the session that began a record reports, before the record is
    closed: hooks should tell the close, and did not.

    Nobody named the transcript's path, so those of every project are searched. Raises
    InvocationError, OSError.
    """
    began = get_object(read_fields(FileRecordStore(root).head(place)), "session")
    harness, session_id = str(began.get("harness")), str(began.get("session_id"))
    if harness not in find_installed(root, home):
        return
    every = find_transcripts(harness, home or "", os.environ)
    path = next((one.name for one in every if one.session_id == session_id), None)
    over = TurnOver(harness, session_id, path, root, home, True, True, False)
    merge_turn(*load_project(root, home), over)


def _read_position(root: str, name: str) -> _Position:
    value = read_small(root, layout.TRANSCRIPTS, name)
    ends = value.get("ends")
    ends = ends if isinstance(ends, list) else []
    return _Position(
        tuple(end for end in ends if type(end) is int and end > 0), get_object(value, "subagents")
    )


def _read_new(
    transcript: Transcript, position: _Position
) -> tuple[bytes, dict[str, bytes], _Position]:
    """Return the part of a transcript since the turn before the last one, the changed ones of its
    subagents, and where they end."""
    if not os.path.isfile(transcript.name):  # rows of a database
        return *transcript.read(), position
    sizes = {agent: _get_size(path) for agent, path in transcript.subagents.items()}
    others = {
        agent: transcript.read_part(path)
        for agent, path in transcript.subagents.items()
        if sizes[agent] != position.subagents.get(agent)
    }
    begin = position.ends[-2] if len(position.ends) > 1 else 0
    if position.ends and _get_size(transcript.name) < position.ends[-1]:
        begin = 0  # it was written anew
    data = read_end(transcript.name, MAX_TRANSCRIPT, begin)
    end = begin + data.rfind(b"\n") + 1
    if begin:
        data = read_head(transcript.name, FIRST_BYTES).partition(b"\n")[0] + b"\n" + data
    before = position.ends if begin or len(position.ends) == 1 else ()
    ends = before if before[-1:] == (end,) else (*before[-1:], end)
    return data, others, _Position(ends, sizes)


def _get_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
