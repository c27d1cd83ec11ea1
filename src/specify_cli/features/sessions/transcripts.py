"""The transcripts that agents' programs keep of their sessions: what a harness's module says of its
own.

Where each program keeps its own was seen with the versions in
docs/adr/0016-sessions-played-on-real-programs.md (`readers/`). They are
read as hostile input: plain files below the program's folder, and no larger than `MAX_TRANSCRIPT`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from doctrine.light_imports import NamedTuple, hash_text
from specify_cli.errors import StoredDataError
from specify_cli.features.hooks.payload.outputs import parse_json
from specify_cli.features.hooks.payload.transcript_end import read_end
from specify_cli.features.hooks.payload.transcript_end import read_head as read_head  # readers'
from specify_cli.features.sessions.reading import SessionReader

MAX_TRANSCRIPT = 256 * 1024 * 1024
DAY_MILLIS = 24 * 3600 * 1000
# Most transcripts say in their first lines of which project they are.
FIRST_BYTES = 64 * 1024
_CWD = re.compile(rb'"cwd": ?("(?:[^"\\]|\\.)*")')


def read_whole(path: str) -> bytes:
    """Return the bytes of a plain file. Raises StoredDataError for one that is too large."""
    data = read_end(path, MAX_TRANSCRIPT + 1)
    if len(data) > MAX_TRANSCRIPT:
        raise StoredDataError(
            "PAYLOAD_INVALID",
            f"{path} is larger than {MAX_TRANSCRIPT // 1024**2} MiB",
            "it was not imported",
        )
    return data


class Transcript(NamedTuple):
    """One session's transcript: where it lies, where the session worked, when (ms) it was written
    last.

    `name` is what `read_part` takes, mostly a path; `subagents` maps their ids to theirs.
    `session_id` is empty where only reading it tells. One that `is_left` is a subagent's whose
    session has none any more.
    """

    name: str
    cwd: str
    changed: int
    subagents: Mapping[str, str] = {}
    read_part: Callable[[str], bytes] = read_whole
    session_id: str = ""
    is_left: bool = False

    def is_over(self, now: int) -> bool:
        """Return whether nothing was written for a day, so that the last turn has ended. `now` is
        in milliseconds since 1970."""
        return now - self.changed > DAY_MILLIS

    def find_in(self, root: str) -> Transcript | None:
        """Return it if its session is of the project at `root`, as either is named or as it lies;
        None where its transcript does not say where it worked. Some programs name a project by its
        SHA-256."""
        if self.cwd == hash_text(root):
            return self._replace(cwd=root)
        is_within = os.path.isabs(self.cwd) and (
            f"{os.path.normpath(self.cwd)}/".startswith(f"{root}/")
            or f"{os.path.realpath(self.cwd)}/".startswith(f"{os.path.realpath(root)}/")
        )
        return self if is_within else None

    def read(self) -> tuple[bytes, dict[str, bytes]]:
        """Return the bytes of the session's transcript and of those of its subagents. Raises
        StoredDataError."""
        read = self.read_part
        return read(self.name), {agent: read(name) for agent, name in self.subagents.items()}


class TranscriptQuery(NamedTuple):
    """The transcript of one session, as a hook of it names it: by its path, or by the session
    alone."""

    session_id: str
    path: str | None
    home: str
    environment: Mapping[str, str]


def locate_with(
    find_subagents: Callable[[str], Mapping[str, str]],
    read_part: Callable[[str], bytes] = read_whole,
) -> Callable[[TranscriptQuery], Transcript | None]:
    """Return what finds the transcript at the path that a hook named, with those of its subagents;
    None where it named none."""

    def locate(query: TranscriptQuery) -> Transcript | None:
        path = query.path
        if path is None:
            return None
        return describe_transcript(path, "", find_subagents(path))._replace(read_part=read_part)

    return locate


locate_file = locate_with(lambda _: {})


class KeptSessions(NamedTuple):
    """What a harness's module brings: how its transcripts are found, and how they are read.

    `find(home, environment)` yields those of every project. Raises StoredDataError for an
    unreadable store. `locate` returns that of one session, without looking at any other.
    """

    find: Callable[[str, Mapping[str, str]], Iterator[Transcript]]
    reader: type[SessionReader]
    locate: Callable[[TranscriptQuery], Transcript | None] = locate_file


def describe_transcript(
    path: str, cwd: str | None, subagents: Mapping[str, str], session_id: str = ""
) -> Transcript:
    """Return a transcript that is a plain file, and so are those of its subagents; without a `cwd`
    its first lines say where it worked."""
    if cwd is None:  # most are of other projects, and say so soon
        cwd = find_cwd(read_head(path, FIRST_BYTES)) or find_cwd(read_head(path))
    try:
        changed = (
            max(os.stat(file).st_mtime_ns for file in (path, *subagents.values())) // 1_000_000
        )
    except OSError:
        changed = 0
    return Transcript(path, cwd, changed, subagents, session_id=session_id)


def describe_left(below: Mapping[str, Mapping[str, str]]) -> Iterator[Transcript]:
    """Yield the transcripts of subagents, by the sessions that began them, which are gone."""
    for agents in below.values():
        for path in agents.values():
            yield describe_transcript(path, None, {})._replace(is_left=True)


def list_files(folder: str, depth: int, *endings: str) -> list[str]:
    """Return the plain files with one of these endings that lie this many folders deep, by name;
    links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    if depth == 0:
        return [
            entry.path
            for entry in entries
            if entry.name.endswith(endings) and entry.is_file(follow_symlinks=False)
        ]
    folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [path for below in folders for path in list_files(below, depth - 1, *endings)]


def list_subagents(folder: str, *endings: str) -> dict[str, str]:
    """Return the transcripts of subagents in a folder, by the ids that they are named after; none
    of one that is a link, perhaps to another project's."""
    files = [] if os.path.islink(folder) else list_files(folder, 0, *endings or (".jsonl",))
    return {name_subagent(file): file for file in files}


def name_subagent(path: str) -> str:
    """Return the id of a subagent that its transcript is named after."""
    return Path(path).stem.removeprefix("agent-")


def find_cwd(head: bytes) -> str:
    """Return the first folder that JSON lines name as `cwd`; "" where they name none."""
    match = _CWD.search(head)
    return str(parse_json(match[1]) or "") if match else ""
