"""Transcripts of Qwen Code: a file a session below the folder of its project, one for each
background subagent next to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from doctrine.text import get_object
from specify_cli.features.hooks.payload.outputs import join_texts, judge_exit_code
from specify_cli.features.sessions.reading import Line, SessionReader
from specify_cli.features.sessions.transcripts import (
    KeptSessions,
    Transcript,
    describe_transcript,
    list_files,
    list_subagents,
    locate_with,
)


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the transcripts below Qwen Code's folder."""
    del environment
    for path in list_files(f"{home}/.qwen/projects", 2, ".jsonl"):
        if path.split("/")[-2] == "chats":
            yield describe_transcript(path, None, _find_subagents(path), Path(path).stem)


def _find_subagents(path: str) -> dict[str, str]:
    return list_subagents(f"{os.path.dirname(os.path.dirname(path))}/subagents/{Path(path).stem}")


class QwenReader(SessionReader):
    """Reads the lines of one file."""

    def read(self, line: Line) -> None:
        self.note_session(line.get("sessionId"), line.get("cwd"), line.get("version"))
        parts = get_object(line, "message").get("parts") or []
        kind = line.get("type")
        if kind == "user" and line.get("subtype") == "notification":
            self.end_turn()  # a subagent's end is reported as if a person had asked again
        elif kind == "user":
            self.add_prompt(join_texts(parts, "text"))
        elif kind == "assistant":
            self.add_to_turn(line)
            for part in parts:
                call = part.get("functionCall")
                if isinstance(call, dict):
                    self.begin_call(str(call["id"]), str(call["name"]), call.get("args"))
        elif kind == "tool_result":
            self._read_result(get_object(line, "toolCallResult"), parts)

    def _read_result(self, result: Line, parts: list[Line]) -> None:
        response = next(
            (part["functionResponse"].get("response") or {} for part in parts), dict[str, object]()
        )
        display = get_object(result, "resultDisplay")
        call_id, status = str(result["callId"]), judge_exit_code(display.get("exitCode"))
        if isinstance(display.get("subagentName"), str):
            name = f"{display['subagentName']}-{call_id}"
            self.note_agent(name, display["subagentName"])
        never_ran = result.get("executionStatus", "not_started") == "not_started"
        if (
            (result.get("status") == "cancelled" and never_ran)
            or "denied" in str(result.get("errorType"))
            or str(response.get("error")).endswith("The tool call was denied.")
        ):
            self.end_call("PostToolUse", call_id, None, "denied", tool_response=response)
        elif "error" in response:
            self.end_call(
                "PostToolUseFailure", call_id, None, status or "error", error=response["error"]
            )
        else:
            members = {
                "llmContent": response.get("output"),
                "returnDisplay": result.get("resultDisplay"),
            }
            self.end_call("PostToolUse", call_id, None, status, tool_response=members)


TRANSCRIPTS = KeptSessions(find_transcripts, QwenReader, locate_with(_find_subagents))
