"""Transcripts of opencode: rows of its database, of which each session is written out as lines."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.errors import StoredDataError
from specify_cli.features.sessions.reading import SessionReader, parse_json, parse_time
from specify_cli.features.sessions.transcripts import KeptSessions, Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from specify_cli.features.sessions.reading import Line
    from specify_cli.features.sessions.transcripts import Sought


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the sessions in opencode's database. Raises StoredDataError ACCESS_FAILED."""
    path = _find_database(home, environment)
    if not os.path.isfile(path):
        return
    rows = _ask(
        path, "SELECT id, parent_id, directory, time_updated FROM session ORDER BY time_created, id"
    )
    below: dict[str, list[str]] = {}
    for name, parent, _, _ in rows:
        below.setdefault(str(parent or ""), []).append(str(name))
    for name, parent, cwd, changed in rows:
        if not parent:
            agents = list(below.get(str(name), ()))
            for agent in agents:  # those of its subagents come behind them
                agents += below.get(agent, ())
            moment = changed if isinstance(changed, int) else 0
            parts = {agent: f"{path}#{agent}" for agent in agents}
            where = f"{path}#{name}"
            yield Transcript(where, str(cwd), moment, parts, dump_session, str(name))


def locate_transcript(sought: Sought) -> Transcript | None:
    """Return the rows of a session and its subagents; None where the database holds none of it."""
    path = _find_database(sought.home, sought.environment)
    if not os.path.isfile(path):
        return None
    waiting, agents = [sought.session_id], list[str]()
    while waiting:
        rows = _ask(path, "SELECT id FROM session WHERE parent_id = ?", waiting.pop())
        new = [str(name) for (name,) in rows if str(name) not in agents]
        agents += new
        waiting += new
    parts = {agent: f"{path}#{agent}" for agent in agents}
    return Transcript(f"{path}#{sought.session_id}", "", 0, parts, dump_session)


def _find_database(home: str, environment: Mapping[str, str]) -> str:
    data = environment.get("XDG_DATA_HOME") or f"{home}/.local/share"
    return f"{data}/opencode/opencode.db"


class OpencodeReader(SessionReader):
    """Reads rows of opencode's database: of its session, then its messages and their parts, each as
    one line."""

    _roles: dict[str, str]

    def read(self, line: Line, raw: bytes) -> None:
        table, data = line.get("table"), line.get("data") or {}
        self.at = parse_time(line.get("time_created")) or self.at
        if table == "session":
            self.session_id, self.cwd = str(line["id"]), str(line["directory"])
            self.version, self._roles = str(line.get("version")), {}
        elif table == "message":
            self._roles[str(line["id"])] = str(data.get("role"))
            if data.get("role") == "assistant":
                self.add_to_turn(raw)
                if isinstance(data.get("error"), dict):
                    self.add_event("session.error", error=data["error"], timestamp=line["id"])
        elif table == "part":
            self._read_part(line, data, raw)

    def _read_part(self, line: Line, data: Line, raw: bytes) -> None:
        typed = self._roles.get(str(line.get("message_id"))) == "user"
        if data.get("type") == "text" and typed and data.get("synthetic") is not True:
            self.add_prompt(str(data.get("text")).strip())
        elif data.get("type") == "compaction":
            self.add_event("session.compacted", timestamp=line["id"])
        elif data.get("type") == "tool":
            self._read_tool(data)
        elif not typed:
            self.add_to_turn(raw)

    def _read_tool(self, data: Line) -> None:
        state, call_id = data["state"], str(data["callID"])
        times = state.get("time") or {}
        metadata = state.get("metadata")
        self.begin_call(
            call_id, str(data["tool"]), state.get("input"), parse_time(times.get("start"))
        )
        ended = parse_time(times.get("end"))
        if isinstance(metadata, dict) and isinstance(metadata.get("sessionId"), str):
            kind = (state.get("input") or {}).get("subagent_type")
            self.note_agent(metadata["sessionId"], kind)
        if state.get("status") == "completed":
            output = {
                "title": state.get("title"),
                "output": state.get("output"),
                "metadata": metadata,
            }
            self.end_call("tool.execute.after", call_id, ended, tool_response=output)
        elif state.get("status") == "error":
            self.end_call("tool.execute.failed", call_id, ended, error=state.get("error"))


def dump_session(name: str) -> bytes:
    """Return what opencode's database holds of a session: its row, then messages and their parts,
    one JSON a line.

    `name` is the database's path with the session's id behind a `#`.
    """
    path, _, session = name.rpartition("#")
    lines: list[dict[str, object]] = []
    for row in _ask(
        path, "SELECT id, directory, version, time_created FROM session WHERE id = ?", session
    ):
        lines.append(
            dict(zip(("id", "directory", "version", "time_created"), row, strict=True))
            | {"table": "session"}
        )
    parts: dict[str, list[tuple[object, ...]]] = {}
    ordered = "WHERE session_id = ? ORDER BY time_created, id"
    for row in _ask(
        path, f"SELECT id, message_id, time_created, data FROM part {ordered}", session
    ):
        parts.setdefault(str(row[1]), []).append(row)
    for message_id, created, data in _ask(
        path, f"SELECT id, time_created, data FROM message {ordered}", session
    ):
        lines.append(
            {
                "table": "message",
                "id": message_id,
                "time_created": created,
                "data": parse_json(str(data)),
            }
        )
        for part, message, moment, text in parts.get(str(message_id), []):
            named = {"table": "part", "id": part, "message_id": message, "time_created": moment}
            lines.append({**named, "data": parse_json(str(text))})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _ask(path: str, query: str, *values: str) -> list[tuple[object, ...]]:
    try:
        database = sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)
        try:
            return database.execute(query, values).fetchall()
        finally:
            database.close()
    except sqlite3.Error as error:
        raise StoredDataError(
            "ACCESS_FAILED",
            f"{path} cannot be read: {error}",
            "look whether another version of opencode wrote it",
        ) from error


TRANSCRIPTS = KeptSessions(find_transcripts, OpencodeReader, locate_transcript)
