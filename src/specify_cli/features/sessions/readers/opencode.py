"""Transcripts of opencode: rows of its database, of which each session is written out as lines."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from doctrine.text import get_object
from specify_cli.errors import StoredDataError
from specify_cli.features.hooks.payload.outputs import parse_json
from specify_cli.features.sessions.reading import Line, SessionReader, parse_time
from specify_cli.features.sessions.transcripts import KeptSessions, Transcript, TranscriptQuery

_SESSIONS = """SELECT id, directory, time_updated FROM session
    WHERE coalesce(parent_id, '') = '' ORDER BY time_created, id"""
_BELOW = """WITH RECURSIVE below(id) AS (
        SELECT id FROM session WHERE parent_id = ?
        UNION SELECT session.id FROM session JOIN below ON session.parent_id = below.id)
    SELECT id FROM below"""
_SESSION = """SELECT id, directory, version, time_created, 'session' AS "table"
    FROM session WHERE id = ?"""
_MESSAGES = """SELECT 'message' AS "table", id, time_created, data
    FROM message WHERE session_id = ? ORDER BY time_created, id"""
_PARTS = """SELECT 'part' AS "table", id, message_id, time_created, data
    FROM part WHERE session_id = ? ORDER BY time_created, id"""


# The words of the message in front of a command that a person ran.
_RUN_BY_HAND = "The following tool was executed by the user"


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the sessions in opencode's database. Raises StoredDataError ACCESS_FAILED."""
    path = _find_database(home, environment)
    if not os.path.isfile(path):
        return
    for row in _ask(path, _SESSIONS):
        name, changed = str(row["id"]), row["time_updated"]
        moment = changed if isinstance(changed, int) else 0
        parts = _name_parts(path, name)
        where = f"{path}#{name}"
        yield Transcript(where, str(row["directory"]), moment, parts, dump_session, name)


def locate_transcript(query: TranscriptQuery) -> Transcript | None:
    """Return the rows of a session and its subagents; None where the database holds none of it."""
    path = _find_database(query.home, query.environment)
    if not os.path.isfile(path):
        return None
    parts = _name_parts(path, query.session_id)
    return Transcript(f"{path}#{query.session_id}", "", 0, parts, dump_session)


def _name_parts(path: str, session: str) -> dict[str, str]:
    """Return where the rows of a session's subagents are, and of those that these began, by id."""
    agents = [str(row["id"]) for row in _ask(path, _BELOW, session)]
    return {agent: f"{path}#{agent}" for agent in agents}


def _find_database(home: str, environment: Mapping[str, str]) -> str:
    data = environment.get("XDG_DATA_HOME") or f"{home}/.local/share"
    return f"{data}/opencode/opencode.db"


class OpencodeReader(SessionReader):
    """Reads rows of opencode's database: of its session, then its messages and their parts, each as
    one line."""

    _roles: dict[str, str]
    # When the last answer was complete; the message at which a command of the person's own hangs.
    _completed, _by_hand = 0, ""

    def read(self, line: Line) -> None:
        table, data = line.get("table"), get_object(line, "data")
        self.at = parse_time(line.get("time_created")) or self.at
        if table == "session":
            self.session_id, self.cwd = str(line["id"]), str(line["directory"])
            self.version, self._roles = str(line.get("version")), {}
        elif table == "message" and data.get("parentID") != self._by_hand:
            self._roles[str(line["id"])] = str(data.get("role"))
            if data.get("role") == "assistant":
                self._completed = parse_time(get_object(data, "time").get("completed"))
                self.add_to_turn(line)
                if isinstance(data.get("error"), dict):
                    error, ended = data["error"], self._completed
                    self.add_event("session.error", ended, error=error, timestamp=line["id"])
        elif table == "part" and str(line.get("message_id")) in self._roles:
            self._read_part(line, data)

    def _read_part(self, line: Line, data: Line) -> None:
        typed = self._roles[str(line.get("message_id"))] == "user"
        if data.get("type") == "text" and typed and data.get("synthetic") is not True:
            # what was typed before the last answer was complete waited within its turn
            is_within = self.at < self._completed
            self.add_prompt(str(data.get("text")).strip(), is_within=is_within)
        elif typed and data.get("text") == _RUN_BY_HAND:
            self._by_hand = str(line.get("message_id"))
        elif data.get("type") == "compaction":
            self.add_event("session.compacted", timestamp=line["id"])
        elif data.get("type") == "tool":
            self._read_tool(data)
        elif not typed:
            self.add_to_turn(line)

    def _read_tool(self, data: Line) -> None:
        state, call_id = data["state"], str(data["callID"])
        times = get_object(state, "time")
        agent = get_object(state, "metadata").get("sessionId")
        self.begin_call(
            call_id, str(data["tool"]), state.get("input"), parse_time(times.get("start"))
        )
        ended = parse_time(times.get("end"))
        if isinstance(agent, str):
            self.note_agent(agent, get_object(state, "input").get("subagent_type"))
        if state.get("status") == "completed":
            output = {name: state.get(name) for name in ("title", "output", "metadata")}
            self.end_call("tool.execute.after", call_id, ended, tool_response=output)
        elif state.get("status") == "error":
            self.end_call("tool.execute.failed", call_id, ended, error=state.get("error"))


def dump_session(name: str) -> bytes:
    """Return what opencode's database holds of a session: its row, then messages and their parts,
    one JSON a line.

    `name` is the database's path with the session's id after a `#`.
    """
    path, _, session = name.rpartition("#")
    lines = _ask(path, _SESSION, session)
    parts: dict[object, list[dict[str, Any]]] = defaultdict(list)
    for part in _ask(path, _PARTS, session):
        parts[part["message_id"]].append(part)
    for message in _ask(path, _MESSAGES, session):
        lines += [message, *parts[message["id"]]]
    for line in lines:
        if "data" in line:
            line["data"] = parse_json(str(line["data"]))
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _ask(path: str, query: str, *values: str) -> list[dict[str, Any]]:
    try:
        database = sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)
        try:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, values)]
        finally:
            database.close()
    except sqlite3.Error as error:
        raise StoredDataError(
            "ACCESS_FAILED",
            f"{path} cannot be read: {error}",
            "look whether another version of opencode wrote it",
        ) from error


TRANSCRIPTS = KeptSessions(find_transcripts, OpencodeReader, locate_transcript)
