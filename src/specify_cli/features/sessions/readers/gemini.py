"""Transcripts of Gemini CLI: a file a session below the folder of its project; earlier versions
wrote one object."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from doctrine.text import get_object
from specify_cli.features.hooks.payload.outputs import join_texts
from specify_cli.features.sessions.reading import Line, SessionReader, parse_json, parse_time
from specify_cli.features.sessions.transcripts import (
    KeptSessions,
    Transcript,
    describe_transcript,
    list_files,
    list_subagents,
    locate_with,
    read_head,
)

_ENDINGS = (".jsonl", ".json")


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the transcripts below Gemini CLI's folder, which has one folder for each project: named
    in it, or by earlier versions in its own name, as a digest."""
    del environment
    for path in list_files(f"{home}/.gemini/tmp", 2, *_ENDINGS):
        chats, folder = os.path.dirname(path), os.path.dirname(os.path.dirname(path))
        if chats == f"{folder}/chats":
            cwd = read_head(f"{folder}/.project_root").decode("utf-8", "replace").strip()
            cwd = cwd or os.path.basename(folder)
            yield describe_transcript(path, cwd, _find_subagents(path), _find_session(path))


def _find_session(path: str) -> str:
    match = re.search(rb'"sessionId": ?"([A-Za-z0-9_-]+)"', read_head(path, 4096))
    return match[1].decode("ascii") if match else ""


def _find_subagents(path: str) -> dict[str, str]:
    named = _find_session(path)
    return list_subagents(f"{os.path.dirname(path)}/{named}", *_ENDINGS) if named else {}


# How the text begins that the program puts in front of a history, and of what a person ran.
_CONTEXT, _BY_HAND = "<session_context>", "I ran the following shell command:\n```sh\n"
# How the end of a call reads that ran until a person stopped it; of others they allowed none.
_STOPPED = ("cancelled by user", "User cancelled tool execution.", "Operation cancelled.")


class GeminiReader(SessionReader):
    """Reads the lines of one file."""

    # Whether the lines repeat the history, as the program writes it when a person denied a call.
    _is_repeated = False

    def begin(self, data: bytes) -> None:
        whole = parse_json(data)
        if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
            for line in (whole, *whole["messages"]):  # earlier versions wrote one object
                self.at = parse_time(line.get("timestamp")) or self.at
                self.read(line)

    def read(self, line: Line) -> None:
        self.note_session(line.get("sessionId"), line.get("cwd"), line.get("version"))
        content = line.get("content")
        if line.get("type") == "user":
            parts = content if isinstance(content, list) else [{"text": content}]
            text = join_texts(parts, "text")
            self._is_repeated = self._is_repeated or text.startswith(_CONTEXT)
            is_answer = any("functionResponse" in part for part in parts)
            if not (is_answer or self._is_repeated or text.startswith(_BY_HAND)):
                self.add_prompt(text)
        elif "messages" in get_object(line, "$set"):
            self._is_repeated = False
        elif line.get("type") == "gemini" and not isinstance(content, list):
            self._is_repeated = False
            # Read an answer, which is written again with its calls.
            self.add_to_turn(line)
            for call in line.get("toolCalls") or []:
                args = call.get("args")
                if isinstance(call.get("agentId"), str) and isinstance(args, dict):
                    self.note_agent(call["agentId"], args.get("agent_name"))
                ended = parse_time(call.get("timestamp")) or self.at
                # of one that was interrupted the line is written at its end
                self.begin_call(str(call["id"]), str(call["name"]), args, min(self.at, ended))
                self._read_result(call, ended)

    def _read_result(self, call: Line, at: int) -> None:
        results = [part.get("functionResponse") for part in call.get("result") or []]
        response: dict[str, Any] = next(
            (result["response"] for result in results if isinstance(result, dict)), {}
        )
        if call.get("status") == "cancelled":
            status = "error" if str(response.get("error")).endswith(_STOPPED) else "denied"
            self.end_call("PostToolUse", str(call["id"]), at, status, tool_response=response)
            return
        members = {"llmContent": response.get("output"), "returnDisplay": call.get("resultDisplay")}
        if "error" in response:
            members["error"] = {"message": response["error"]}
        self.end_call("PostToolUse", str(call["id"]), at, tool_response=members)


TRANSCRIPTS = KeptSessions(find_transcripts, GeminiReader, locate_with(_find_subagents))
