"""The logs that Tern keeps of its sessions: one file each in `~/.tern/logs`, a line for whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specify_cli.features.sessions.reading import Line, SessionReader
from specify_cli.features.sessions.transcripts import (
    KeptSessions,
    Transcript,
    describe_transcript,
    find_cwd,
    list_files,
    read_head,
)


class TernReader(SessionReader):
    """Reads one log."""

    def read(self, line: Line) -> None:
        """Read one line."""
        if line.get("what") == "begins":
            self.session_id, self.cwd = str(line["run"]), str(line["cwd"])
        elif line.get("what") == "asked":
            self.add_prompt(str(line["says"]))
        elif line.get("what") == "answer":
            self.add_to_turn(line)
        elif line.get("what") == "tool.done":
            self.begin_call(str(line["call"]), str(line["tool"]), line.get("with"))
            self.end_call("tool.done", str(line["call"]), tool_response=line.get("gave"), code=line.get("code"))


def find(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the logs in the home folder."""
    for path in list_files(f"{environment.get('TERN_HOME') or f'{home}/.tern'}/logs", 0, ".jsonl"):
        yield describe_transcript(path, find_cwd(read_head(path)), {})


TRANSCRIPTS = KeptSessions(find, TernReader)
