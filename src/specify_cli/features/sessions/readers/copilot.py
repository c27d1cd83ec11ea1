"""Transcripts of Copilot's command line: a folder a session, whose one file holds its subagents
too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from specify_cli.features.hooks.harnesses.copilot import was_typed
from specify_cli.features.hooks.payload.outputs import judge_exit_code, parse_json
from specify_cli.features.hooks.payload.values import as_object, get_object
from specify_cli.features.sessions.reading import Line, SessionReader
from specify_cli.features.sessions.transcripts import (
    KeptSessions,
    Transcript,
    describe_transcript,
    list_files,
)

# What the program's hooks call its tools.
_TOOLS = {
    "bash": "Bash",
    "view": "Read",
    "edit": "Edit",
    "create": "Write",
    "task": "Agent",
    "grep": "Grep",
    "glob": "Glob",
}


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the transcripts below Copilot's folder."""
    top = environment.get("COPILOT_HOME") or f"{home}/.copilot"
    for path in list_files(f"{top}/session-state", 1, "events.jsonl"):
        named = os.path.basename(os.path.dirname(path))
        yield describe_transcript(path, None, {}, named)


class CopilotReader(SessionReader):
    """Reads the lines of one agent; those of a subagent name it."""

    def begin(self, data: bytes) -> None:
        self._tells_requests = b'"session.usage_record"' in data
        self._read = set[object]()

    def split(self, data: bytes) -> dict[str, bytes]:
        named = {"type": "session.start", "data": {"sessionId": self.session_id}}
        parts = {agent: [json.dumps(named).encode()] for agent in self.agents}
        for raw in data.split(b"\n") if parts else ():
            agent = as_object(parse_json(raw)).get("agentId")
            parts.get(str(agent), []).append(raw)
        return {agent: b"\n".join(lines) for agent, lines in parts.items()}

    def read(self, line: Line) -> None:
        data, kind, name = get_object(line, "data"), line.get("type"), line.get("id")
        if name is not None and name in self._read:
            return  # the file was doubled
        self._read.add(name)
        if kind == "session.start" or (kind == "session.resume" and not self.session_id):
            context = get_object(data, "context")
            self.note_session(data.get("sessionId"), context.get("cwd"), data.get("copilotVersion"))
        agent = str(line.get("agentId") or "")
        if kind == "subagent.started" and agent:
            self.note_agent(agent, data.get("agentName"), str(data.get("parentId") or ""))
        if agent != self.agent or (kind == "user.message" and (self.agent or not was_typed(data))):
            return
        if kind == "user.message":
            self.add_prompt(str(data.get("content") or ""))
        elif kind in ("assistant.message", "session.usage_record"):
            # a line of a subagent is read as if it were the session's own
            own = {name: value for name, value in data.items() if name != "parentToolCallId"}
            self.add_to_turn({**line, "agentId": None, "data": own} if self.agent else line)
        elif kind == "system.notification":
            # the model may answer how a command in the background ended
            self.end_turn(is_over=True)
        elif kind == "session.shutdown" and not self._tells_requests:
            self._read_sums(get_object(data, "modelMetrics"))
        elif kind == "abort":
            self.add_event("Interrupt", reason=data.get("reason"))
        elif kind == "permission.completed" and data["result"]["kind"] == "cancelled":
            self.end_call("PermissionDenied", str(data["toolCallId"]))
        elif kind == "session.compaction_start":
            self.add_event("PreCompact", trigger=data.get("trigger"))
        elif kind == "tool.execution_start":
            tool = str(data["toolName"])
            self.begin_call(str(data["toolCallId"]), _TOOLS.get(tool, tool), data.get("arguments"))
        elif kind == "tool.execution_complete":
            self._read_result(data)

    def _read_sums(self, models: Mapping[str, Line]) -> None:
        """Add what each model used since the session began or was resumed: versions until 1.0.60
        say it where it ends, with its subagents."""
        for model, metrics in models.items():
            usage = metrics["usage"]
            self.turn.name_model(model)
            given = {"inputTokens": usage["inputTokens"] - usage.get("cacheWriteTokens", 0)}
            self.turn.add_usage(model, usage | given)
            self._turn_at = self.at
            self.end_turn(is_over=True)

    def _read_result(self, data: Line) -> None:
        call_id, error = str(data["toolCallId"]), get_object(data, "error")
        if error.get("code") in ("denied", "rejected"):
            self.end_call("PermissionDenied", call_id, reason=error.get("message"))
        elif data.get("success") is False:
            self.end_call("PostToolUseFailure", call_id, error=error.get("message"))
        else:
            text = get_object(data, "result").get("content")
            result = {"result_type": "success", "text_result_for_llm": text}
            status = judge_exit_code(get_object(data, "shellExecution").get("exitCode"))
            self.end_call("PostToolUse", call_id, None, status, tool_result=result)


TRANSCRIPTS = KeptSessions(find_transcripts, CopilotReader)
