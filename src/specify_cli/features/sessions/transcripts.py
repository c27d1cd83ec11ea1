"""The transcripts that agents' programs keep of their sessions: where they lie, and which belong to a project.

Where each program keeps its own was seen with the versions in docs/hooks.md. They are read as hostile input: plain
files below the program's folder, and no larger than `MAX_TRANSCRIPT`.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.errors import StoredDataError
from specify_cli.features.hooks.payload.transcript_end import read_end
from specify_cli.features.sessions.reading import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_TRANSCRIPT = 256 * 1024 * 1024
_FIRST, _HEAD = 64 * 1024, 1024 * 1024
_CWD = re.compile(rb'"cwd": ?("(?:[^"\\]|\\.)*")')
_PARENT = re.compile(rb'"parent_thread_id": ?"([^"]+)"')


class Transcript(NamedTuple):
    """One session's transcript: where it lies, where the session worked, when (ms) it was written last.

    `name` is the path, for opencode with the session behind it; `subagents` maps their ids to their files.
    """

    name: str
    cwd: str
    changed: int
    subagents: Mapping[str, str] = {}

    def read(self) -> tuple[bytes, dict[str, bytes]]:
        """Return the bytes of the session's transcript and of those of its subagents. Raises StoredDataError."""
        path, _, session = self.name.partition("#")
        if session:
            return _dump_rows(path, session), {name: _dump_rows(path, name) for name in self.subagents}
        return _read_whole(path), {name: _read_whole(file) for name, file in self.subagents.items()}


def find_transcripts(harness: str, home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the transcripts that a harness keeps, of every project. Raises StoredDataError for an unreadable store."""
    yield from _FINDERS[harness](home, environment)


def _find_claude(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    top = environment.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude"
    for path in _list_files(f"{top}/projects", 1, ".jsonl"):
        agents = {
            Path(file).stem.removeprefix("agent-"): file
            for file in _list_files(f"{path.removesuffix('.jsonl')}/subagents", 0, ".jsonl")
        }
        # Most are of other projects, and say so in their first lines.
        yield _describe(path, _find_cwd(_read_head(path, _FIRST)) or _find_cwd(_read_head(path)), agents)


def _find_codex(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    top = environment.get("CODEX_HOME") or f"{home}/.codex"
    below: dict[str, dict[str, str]] = {}
    transcripts = []
    for path in [*_list_files(f"{top}/sessions", 3, ".jsonl"), *_list_files(f"{top}/archived_sessions", 0, ".jsonl")]:
        head = _read_head(path, _FIRST)
        head = (head if b"\n" in head else _read_head(path)).partition(b"\n")[0]
        own, parent = path.removesuffix(".jsonl")[-36:], _PARENT.search(head)
        if parent is None:
            transcripts.append((path, own, _find_cwd(head)))
        else:
            below.setdefault(parent[1].decode("utf-8", "replace"), {})[own] = path
    for path, own, cwd in transcripts:
        agents: dict[str, str] = {}
        waiting = [own]
        while waiting:  # a subagent's own subagents name it, not the session
            new = {name: file for name, file in below.pop(waiting.pop(), {}).items() if name not in agents}
            agents |= new
            waiting += new
        yield _describe(path, cwd, agents)


def _find_gemini(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    del environment
    for marker in _list_files(f"{home}/.gemini/tmp", 1, ".project_root"):
        folder = os.path.dirname(marker)
        cwd = _read_head(marker).decode("utf-8", "replace").strip()
        for path in [*_list_files(f"{folder}/chats", 0, ".jsonl"), *_list_files(f"{folder}/chats", 0, ".json")]:
            match = re.search(rb'"sessionId": ?"([A-Za-z0-9_-]+)"', _read_head(path, 4096))
            named = "" if match is None else match[1].decode("ascii")
            files = _list_files(f"{folder}/chats/{named}", 0, ".jsonl") if named else []
            yield _describe(path, cwd, {Path(file).stem: file for file in files})


def _find_opencode(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    data = environment.get("XDG_DATA_HOME") or f"{home}/.local/share"
    path = f"{data}/opencode/opencode.db"
    if not os.path.isfile(path):
        return
    rows = _ask(path, "SELECT id, parent_id, directory, time_updated FROM session ORDER BY time_created, id")
    below: dict[str, list[str]] = {}
    for name, parent, _, _ in rows:
        below.setdefault(str(parent or ""), []).append(str(name))
    for name, parent, cwd, changed in rows:
        if not parent:
            agents = list(below.get(str(name), ()))
            for agent in agents:  # those of its subagents come behind them
                agents += below.get(agent, ())
            moment = changed if isinstance(changed, int) else 0
            yield Transcript(f"{path}#{name}", str(cwd), moment, dict.fromkeys(agents, path))


_FINDERS: Mapping[str, Callable[[str, Mapping[str, str]], Iterator[Transcript]]] = {
    "claude-code": _find_claude,
    "codex": _find_codex,
    "gemini": _find_gemini,
    "opencode": _find_opencode,
}


def _describe(path: str, cwd: str, subagents: Mapping[str, str]) -> Transcript:
    try:
        changed = max(os.stat(file).st_mtime_ns for file in (path, *subagents.values())) // 1_000_000
    except OSError:
        changed = 0
    return Transcript(path, cwd, changed, subagents)


def _list_files(folder: str, depth: int, ending: str) -> list[str]:
    """Return the plain files with an ending that lie this many folders deep, by name; links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    if depth == 0:
        return [entry.path for entry in entries if entry.name.endswith(ending) and entry.is_file(follow_symlinks=False)]
    folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [path for below in folders for path in _list_files(below, depth - 1, ending)]


def _read_head(path: str, size: int = _HEAD) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _find_cwd(head: bytes) -> str:
    match = _CWD.search(head)
    try:
        return "" if match is None else str(json.loads(match[1]))
    except ValueError:
        return ""


def _read_whole(path: str) -> bytes:
    data = read_end(path, MAX_TRANSCRIPT + 1)
    if len(data) > MAX_TRANSCRIPT:
        raise StoredDataError(
            "PAYLOAD_INVALID", f"{path} is larger than {MAX_TRANSCRIPT // 1024**2} MiB", "it was not imported"
        )
    return data


def _dump_rows(path: str, session: str) -> bytes:
    """Return what opencode's database holds of a session: its row, then messages and their parts, one JSON a line."""
    lines: list[dict[str, object]] = []
    for row in _ask(path, "SELECT id, directory, version, time_created FROM session WHERE id = ?", session):
        lines.append(dict(zip(("id", "directory", "version", "time_created"), row, strict=True)) | {"table": "session"})
    parts: dict[str, list[tuple[object, ...]]] = {}
    ordered = "WHERE session_id = ? ORDER BY time_created, id"
    for row in _ask(path, f"SELECT id, message_id, time_created, data FROM part {ordered}", session):
        parts.setdefault(str(row[1]), []).append(row)
    for name, created, data in _ask(path, f"SELECT id, time_created, data FROM message {ordered}", session):
        lines.append({"table": "message", "id": name, "time_created": created, "data": parse_json(str(data))})
        for part, message, moment, text in parts.get(str(name), []):
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
            "ACCESS_FAILED", f"{path} cannot be read: {error}", "look whether another version of opencode wrote it"
        ) from error
