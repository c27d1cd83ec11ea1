"""Transcripts of Claude Code: a file a session, and one for each of its subagents in a folder
next to it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from doctrine.text import get_object
from specify_cli.features.hooks.harnesses.claude_code import ABORTS, was_refused
from specify_cli.features.hooks.payload.outputs import join_texts, judge_exit_code
from specify_cli.features.sessions.reading import Line, SessionReader
from specify_cli.features.sessions.transcripts import (
    FIRST_BYTES,
    KeptSessions,
    Transcript,
    describe_left,
    describe_transcript,
    list_files,
    list_subagents,
    locate_with,
    name_subagent,
    read_head,
    read_whole,
)

# What Claude Code writes under a person's name that no person typed.
_NOT_TYPED = ("<local-command-", "<command-", "<bash-", "Caveat: The messages below")
# Of these a turn begins: what the model is told of a task, and by another agent of its team, and a
# command of the person's own.
_BEGINS_TURN = ("<task-notification>", "<teammate-message ", "<bash-input>")
# How the subagents are called whose transcripts begin with the conversation: that which answers a
# question beside it (`/btw`), and that which sums it up.
_COPIES = ("aside_question", "acompact")
# Versions until 2025 wrote a subagent's transcript beside its session's, which its lines name.
_SESSION = re.compile(rb'"sessionId": ?"([0-9a-f-]+)"')
# What an editor puts before a prompt.
_BESIDE = re.compile(r"\A(?:\s*<(ide_\w+)>.*?</\1>)+\s*", re.DOTALL)
# How the summary of a command that failed in the background ends.
_FAILED = re.compile(r"exit code (?!0+\b)\d+\)?\s*$")


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the transcripts below Claude Code's folder, each with those of its subagents."""
    top = environment.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude"
    sessions, below = [], dict[str, dict[str, str]]()
    for path in list_files(f"{top}/projects", 1, ".jsonl"):
        folder, name = os.path.split(path)
        if name.startswith("agent-"):
            named = _SESSION.search(read_head(path, FIRST_BYTES))
            session = named[1].decode() if named else ""
            below.setdefault(f"{folder}/{session}.jsonl", {})[name_subagent(path)] = path
        else:
            sessions.append(path)
    for path in list_files(f"{top}/projects", 3, ".jsonl"):
        session, found, _ = path.rpartition("/subagents/")
        if found:
            below.setdefault(f"{session}.jsonl", {})[name_subagent(path)] = path
    for path in sessions:
        transcript = describe_transcript(path, None, below.pop(path, {}), Path(path).stem)
        yield transcript._replace(read_part=_read_part)
    yield from describe_left(below)


def _read_part(path: str) -> bytes:
    """Return a transcript; of a subagent after a line that says its type and who began it."""
    about = read_head(path.removesuffix(".jsonl") + ".meta.json").replace(b"\n", b" ")
    return about + b"\n" + read_whole(path) if about else read_whole(path)


# Of the lines of one time so many are compared as they are.
_FEW = 20


class ClaudeReader(SessionReader):
    """Reads the lines of one file."""

    def begin(self, data: bytes) -> None:
        del data
        self._read = dict[str, list[object]]()
        self._tasks = dict[object, str]()  # the calls of commands in the background

    def read(self, line: Line) -> None:
        self.note_session(line.get("sessionId"), line.get("cwd"), line.get("version"))
        if self.agent and isinstance(line.get("agentType"), str):
            self.note_agent(self.agent, line["agentType"], str(line.get("parentAgentId") or ""))
        if "forkedFrom" in line or line.get("requestSessionId", self.session_id) != self.session_id:
            self.drop_copy()  # of another session, whose fork this one is
            return
        if line.get("subtype") == "compact_boundary":
            self.add_event("PreCompact", trigger=get_object(line, "compactMetadata").get("trigger"))
        if line.get("type") == "queue-operation":  # amid a turn
            self._read_notification(str(line.get("content")))
        if line.get("isSidechain") is True and not self.agent:
            return  # of a subagent, by versions that gave it no file of its own
        content = get_object(line, "message").get("content")
        before = self._read.setdefault(str(line.get("timestamp")), [])
        # Few lines have one time, and to compare them takes less than to spell them.
        stated = content if len(before) < _FEW else hash(str(content))
        if content and (content in before[:_FEW] or stated in before[_FEW:]):
            return  # written again when the session was resumed
        before.append(stated)
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if line.get("type") == "assistant":
            self.add_to_turn(line)
            for part in parts:
                if part.get("type") == "tool_use":
                    self.begin_call(str(part["id"]), str(part["name"]), part.get("input"))
            if line.get("isApiErrorMessage") is True:
                self.add_event(
                    "StopFailure",
                    error=str(line.get("error") or "api_error"),
                    last_assistant_message="\n".join(str(part.get("text")) for part in parts),
                )
        elif line.get("type") == "user" and line.get("isMeta") is not True:
            results = [part for part in parts if part.get("type") == "tool_result"]
            for part in results:
                self._read_result(part, line)
            if results:
                self.add_to_turn(line)
            elif line.get("isCompactSummary") is not True:
                self._read_typed(_BESIDE.sub("", join_texts(parts, "text")))

    def _read_typed(self, text: str) -> None:
        if not text or text.startswith(_BEGINS_TURN):  # an image alone has no text
            self._read_notification(text)
            if text.startswith("<teammate"):
                self.add_event("TeammateMessage", prompt=text)  # what a member was asked first
            self.add_prompt("")
        elif text.startswith("[Request interrupted"):
            self.add_event("Interrupt", reason="user")
        elif text.startswith("<command-message>") and "<command-name>/" in text:
            # one that the model is told, unlike those of the program, which begin with the name
            typed = (_read_tag(text, name) for name in ("command-name", "command-args"))
            self.add_prompt(" ".join(typed).strip())
        elif not text.startswith(_NOT_TYPED):
            if self._has_prompt and self.agent.startswith(_COPIES):
                self.drop_copy()  # what stands before the last question is the conversation's
            self.add_prompt(text)

    def _read_notification(self, text: str) -> None:
        """Read how a command in the background ended; nothing of another agent's, nor of a
        subagent: its call was over when it had begun. One without a status still runs."""
        text = text.partition("</task-notification>")[0]  # what it printed can follow
        status = _read_tag(text, "status")
        if not status or not text.startswith("<task-notification>"):
            return
        # versions until 2.1.42 name the task alone
        call_id = _read_tag(text, "tool-use-id") or self._tasks.get(_read_tag(text, "task-id"), "")
        has_failed = status != "completed" or _FAILED.search(_read_tag(text, "summary")[-40:])
        self.end_call("PostToolUse", call_id, status="error" if has_failed else "ok")

    def _read_result(self, part: Line, line: Line) -> None:
        call_id, text = str(part["tool_use_id"]), join_texts(part.get("content"), "text")
        result, members = line.get("toolUseResult"), get_object(line, "toolUseResult")
        if isinstance(members.get("agentId"), str):
            self.note_agent(members["agentId"], members.get("agentType"))
        if was_refused(line, part):
            self.end_call("PermissionDenied", call_id, reason=text)
        elif part.get("is_error") is True:
            status = "unknown" if line.get("toolDenialKind", result) in ABORTS else None
            self.end_call("PostToolUseFailure", call_id, status=status, error=text)
        else:
            response = part.get("content") if result is None else result
            self.end_call("PostToolUse", call_id, tool_response=response)
            if self.dialect.goes_on(response):
                self._answered.discard(call_id)
                self._tasks[members.get("backgroundTaskId")] = call_id
            elif self.calls.get(call_id, {}).get("tool_name") == "TaskOutput":
                task = get_object(members, "task")  # that it waited for
                call_id, code = self._tasks.get(task.get("task_id"), ""), task.get("exitCode")
                if status := judge_exit_code(code):
                    self.end_call("PostToolUse", call_id, status=status)


def _read_tag(text: str, name: str) -> str:
    """Return what stands in the first element of this name; empty where there is none."""
    return text.partition(f"<{name}>")[2].partition(f"</{name}>")[0]


TRANSCRIPTS = KeptSessions(
    find_transcripts,
    ClaudeReader,
    locate_with(
        lambda path: list_subagents(f"{path.removesuffix('.jsonl')}/subagents"), _read_part
    ),
)
