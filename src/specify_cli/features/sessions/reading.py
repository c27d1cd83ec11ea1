"""What the transcript of a whole session tells, in the words its harness tells its hooks.  [pure]

    session = read_session("claude-code", main, {"a8a4": subagent})
    for told in session.events: translate(session.harness, told.payload)

So an imported session becomes the events that hooks would have recorded (`translation`). The transcripts are the
programs' own files and undocumented: what is not there, or not in its form, is left out, and nothing here raises.
"""

from __future__ import annotations

import json
from datetime import datetime

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.features.hooks.conversation.turn_from_transcript import TurnFacts, join_texts, read_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Line = Mapping[str, Any]

# What Claude Code writes under a person's name that no person typed.
_NOT_TYPED = ("<local-command-", "<command-", "Caveat: The messages below")
_PATCH = "tools.apply_patch("
_PATCH_HEADS = {"add": "*** Add File: ", "update": "*** Update File: ", "delete": "*** Delete File: "}


class TranscriptEvent(NamedTuple):
    """One thing a transcript tells.

    `at` (ms) is its own claim of when, `payload` what a hook would have been told, `facts` what a turn was where one
    ends, `status` how a command ended where no payload of this harness says it.
    """

    at: int
    payload: dict[str, Any]
    facts: TurnFacts | None = None
    status: str | None = None


class Session(NamedTuple):
    """One session: where it worked, under which version of its program, and what was told, in the order of time."""

    harness: str
    session_id: str
    cwd: str
    version: str
    events: tuple[TranscriptEvent, ...]


def read_session(harness: str, main: bytes, others: Mapping[str, bytes], cwd: str = "") -> Session | None:
    """Return what the transcript of a session and those of its subagents, by their ids, tell; None where it is none.

    `cwd` is where it worked, for a transcript that does not say so.
    """
    read = READERS[harness]
    reader = read(harness, "", main, cwd=cwd)
    if not reader.session_id or not reader.events:
        return None
    items = list(reader.events)
    for agent, data in others.items():
        items += read(harness, agent, data, reader.agents.get(agent, ""), reader.cwd).events
    items.sort(key=lambda item: item.at)
    return Session(harness, reader.session_id, reader.cwd, reader.version, tuple(items))


def parse_time(value: object) -> int:
    """Return a moment (ms) that a transcript states: RFC 3339, or a number of ms; 0 for anything else."""
    if type(value) is int:
        return max(0, min(value, 2**47))
    try:
        return max(0, round(datetime.fromisoformat(str(value)).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return 0


class _Reader:
    """Reads one transcript, the session's or that of one of its subagents, line by line."""

    def __init__(self, harness: str, agent: str, data: bytes, agent_type: str = "", cwd: str = "") -> None:
        self.harness, self.agent, self.cwd = harness, agent, cwd
        self.session_id = self.version = ""
        self.agents: dict[str, str] = {}
        self.events: list[TranscriptEvent] = []
        self._turn: list[bytes] = []
        self._calls: dict[str, dict[str, Any]] = {}
        self._at = 0
        self._words: str | None = None
        self.begin(data)
        for raw in data.split(b"\n"):
            line = parse_json(raw)
            if not isinstance(line, dict):
                continue
            self._at = parse_time(line.get("timestamp")) or self._at
            try:
                self.read(line, raw)
            except (AttributeError, KeyError, TypeError, ValueError, IndexError):
                continue
        self.end_turn()
        if agent and self.events:
            named = {"agent_type": agent_type} if agent_type else {}
            stop = {"last_assistant_message": self._words, **named}
            first = TranscriptEvent(self.events[0].at, self._name("SubagentStart", named))
            last = TranscriptEvent(self.events[-1].at, self._name("SubagentStop", stop))
            self.events = [first, *self.events, last]

    def begin(self, data: bytes) -> None:
        """Look at the whole transcript before its lines are read."""

    def read(self, line: Line, raw: bytes) -> None:
        """Read one line."""
        raise NotImplementedError

    def tell(self, event: str, at: int | None = None, *, status: str | None = None, **payload: Any) -> None:
        self.events.append(TranscriptEvent(at or self._at, self._name(event, payload), None, status))

    def call(self, call_id: str, tool: str, args: object, at: int | None = None) -> None:
        """Tell that a tool is about to run; once for each call."""
        if call_id not in self._calls:
            self._calls[call_id] = {"tool_use_id": call_id, "tool_name": tool, "tool_input": args}
            self.tell("PreToolUse", at, **self._calls[call_id])

    def answer(
        self, event: str, call_id: str, at: int | None = None, status: str | None = None, **payload: Any
    ) -> None:
        """Tell how a call ended; once, and of a call that was told."""
        call = self._calls.get(call_id)
        if call is not None and "answered" not in call:
            self.tell(event, at, status=status, **call, **payload)
            call["answered"] = True

    def prompt(self, text: str) -> None:
        self.end_turn()
        if not self.agent:
            self.tell("UserPromptSubmit", prompt=text, prompt_id=f"{self._at}")

    def take(self, raw: bytes) -> None:
        """Count a line to the turn that is under way."""
        self._turn.append(raw)

    def end_turn(self) -> None:
        """Tell what the turn was that comes to its end here, if there was one."""
        facts = read_facts(self.harness, b"\n".join(self._turn))
        if not facts.text and not facts.requests:
            return  # what was told so far is of the turn that begins
        self._turn = []
        self._words = facts.text or self._words
        if not self.agent and facts.text and facts.error is None:  # else nobody was told an end of it
            payload = self._name("Stop", {"last_assistant_message": facts.text, "turn_id": f"{self._at}"})
            self.events.append(TranscriptEvent(self._at, payload, facts))

    def _name(self, event: str, payload: dict[str, Any]) -> dict[str, Any]:
        payload.pop("answered", None)
        named = {"hook_event_name": event, "session_id": self.session_id, "cwd": self.cwd, **payload}
        return {**named, "agent_id": self.agent} if self.agent else named


class _ClaudeReader(_Reader):
    def read(self, line: Line, raw: bytes) -> None:
        self.session_id = self.session_id or str(line.get("sessionId") or "")
        self.cwd = self.cwd or str(line.get("cwd") or "")
        self.version = self.version or str(line.get("version") or "")
        if line.get("subtype") == "compact_boundary":
            self.tell("PreCompact", trigger=(line.get("compactMetadata") or {}).get("trigger"))
        if line.get("isSidechain") is True and not self.agent:
            return  # of a subagent, by versions that gave it no file of its own
        content = (line.get("message") or {}).get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if line.get("type") == "assistant":
            self.take(raw)
            for part in parts:
                if part.get("type") == "tool_use":
                    self.call(str(part["id"]), str(part["name"]), part.get("input"))
            if line.get("isApiErrorMessage") is True:
                words = "\n".join(str(part.get("text")) for part in parts)
                self.tell("StopFailure", error=str(line.get("error") or "api_error"), last_assistant_message=words)
        elif line.get("type") == "user" and line.get("isMeta") is not True:
            results = [part for part in parts if part.get("type") == "tool_result"]
            for part in results:
                self._answer(part, line)
            if results:
                self.take(raw)
            elif (text := join_texts(parts, "text")) and line.get("isCompactSummary") is not True:
                self._read_typed(text)

    def _read_typed(self, text: str) -> None:
        if text.startswith("[Request interrupted"):
            self.tell("Interrupt", reason="user")
        elif not text.startswith(_NOT_TYPED):
            self.prompt(text)

    def _answer(self, part: Line, line: Line) -> None:
        call_id, text = str(part["tool_use_id"]), join_texts(part.get("content"), "text")
        result = line.get("toolUseResult")
        if isinstance(result, dict) and isinstance(result.get("agentId"), str):
            self.agents[result["agentId"]] = str(result.get("agentType") or "")
        if line.get("toolDenialKind") is not None:
            self.answer("PermissionDenied", call_id, reason=text)
        elif part.get("is_error") is True:
            self.answer("PostToolUseFailure", call_id, error=text)
        else:
            self.answer("PostToolUse", call_id, tool_response=part.get("content") if result is None else result)


class _CodexReader(_Reader):
    def begin(self, data: bytes) -> None:
        # Of calls that are told both as the model made them and as they ran, the latter is what hooks are told.
        self._has_items = b'"item_completed"' in data
        self._made: dict[str, list[Any]] = {}

    def prompt(self, text: str) -> None:
        before = self._turn
        super().prompt(text)
        if not read_facts(self.harness, b"\n".join(before)).text:
            self._turn = before  # a compaction before the prompt answered nobody; it names the turn's model

    def read(self, line: Line, raw: bytes) -> None:
        payload = line.get("payload") or {}
        kind = payload.get("type")
        if line.get("type") == "session_meta":
            self.session_id = self.session_id or str(payload.get("session_id") or payload.get("id"))
            self.cwd = self.cwd or str(payload.get("cwd"))
            self.version = self.version or str(payload.get("cli_version"))
            return
        if kind == "user_message" and not self._has_items:
            self.prompt(str(payload.get("message")))
        elif kind == "item_completed" and payload["item"].get("type") == "UserMessage":
            self.prompt(join_texts(payload["item"].get("content"), "text"))
        self.take(raw)
        if kind in ("task_complete", "turn_aborted"):
            self.end_turn()  # what comes before the next prompt is of its turn
        if kind == "turn_aborted":
            self.tell("Interrupt", reason=payload.get("reason"))
        elif line.get("type") == "compacted":
            self.tell("PreCompact")
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._made[str(payload["call_id"])] = [payload, 0, self._at]
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._end_made(str(payload["call_id"]), payload.get("output"))
        elif kind == "item_completed":
            self._read_item(payload["item"], payload)

    def _read_item(self, item: Line, payload: Line) -> None:
        kind, call_id = str(item.get("type")), str(item.get("id"))
        if kind == "SubAgentActivity":
            self.agents.setdefault(str(item.get("agent_thread_id")), "default")
        read = {"CommandExecution": self._read_command, "FileChange": self._read_change, "McpToolCall": self._read_mcp}
        if kind not in read:
            return
        tool, args, output = read[kind](item)
        for pending in self._made.values():
            pending[1] += 1
        self.call(call_id, tool, args, parse_time(payload.get("started_at_ms")))
        code, state = item.get("exit_code"), str(item.get("status"))
        status = {"completed": "ok", "failed": "error", "declined": "denied"}.get(state, "unknown")
        if type(code) is int:
            status = "ok" if code == 0 else "error"
        ended = parse_time(payload.get("completed_at_ms"))
        self.answer("PostToolUse", call_id, ended, status, tool_response=output)

    def _read_command(self, item: Line) -> tuple[str, object, object]:
        words = item.get("command")
        command = words[-1] if isinstance(words, list) and words else words
        return "Bash", {"command": command}, item.get("aggregated_output")

    def _read_change(self, item: Line) -> tuple[str, object, object]:
        patch = next((text for pending, _, _ in self._made.values() if (text := _find_patch(pending))), None)
        written = {"stdout": item.get("stdout"), "stderr": item.get("stderr")}
        return "apply_patch", {"command": patch or _spell_patch(item.get("changes"), self.cwd)}, written

    def _read_mcp(self, item: Line) -> tuple[str, object, object]:
        args = item.get("arguments")
        output = item.get("error") if item.get("status") == "failed" else item.get("result")
        return f"mcp__{item.get('server')}__{item.get('tool')}", args, output

    def _end_made(self, call_id: str, output: object) -> None:
        """Tell a call as the model made it, where no item said how it ran."""
        begun, items, at = self._made.pop(call_id, (None, 0, 0))
        if begun is None or items:
            return
        args = parse_json(begun["arguments"]) if "arguments" in begun else begun.get("input", begun.get("action"))
        reported = parse_json(output) if isinstance(output, str) else None
        known = reported.get("metadata") if isinstance(reported, dict) else None
        code = known.get("exit_code") if isinstance(known, dict) else None
        status = None if type(code) is not int else "ok" if code == 0 else "error"
        text = output if isinstance(output, str) else join_texts(output, "text")
        if text.startswith("Script failed"):
            status = "error"
        name = f"{begun.get('namespace') or ''}{begun.get('name') or 'shell'}"
        self.call(call_id, name, args, at)
        self.answer("PostToolUse", call_id, status=status, tool_response=text)


class _GeminiReader(_Reader):
    def begin(self, data: bytes) -> None:
        whole = parse_json(data)
        value = whole if isinstance(whole, dict) and isinstance(whole.get("messages"), list) else None
        if value is not None:  # earlier versions wrote one object
            self._read_head(value)
            for message in value["messages"]:
                self._at = parse_time(message.get("timestamp")) or self._at
                self.read(message, json.dumps(message).encode())

    def _read_head(self, line: Line) -> None:
        self.session_id = self.session_id or str(line.get("sessionId") or "")
        self.cwd = self.cwd or str(line.get("cwd") or "")

    def read(self, line: Line, raw: bytes) -> None:
        self._read_head(line)  # an answer is written again with its calls
        content = line.get("content")
        if line.get("type") == "user":
            parts = content if isinstance(content, list) else [{"text": content}]
            if not any("functionResponse" in part for part in parts):
                self.prompt(join_texts(parts, "text"))
            return
        if line.get("type") != "gemini":
            return
        self.take(raw)
        for call in line.get("toolCalls") or []:
            args = call.get("args")
            if isinstance(call.get("agentId"), str) and isinstance(args, dict):
                self.agents[call["agentId"]] = str(args.get("agent_name") or "")
            self.call(str(call["id"]), str(call["name"]), args)
            self._answer(call)

    def _answer(self, call: Line) -> None:
        results = [part.get("functionResponse") for part in call.get("result") or []]
        response: dict[str, Any] = next((result["response"] for result in results if isinstance(result, dict)), {})
        at = parse_time(call.get("timestamp"))
        if call.get("status") == "cancelled":
            self.answer("PostToolUse", str(call["id"]), at, "denied", tool_response=response)
            return
        members = {"llmContent": response.get("output"), "returnDisplay": call.get("resultDisplay")}
        if "error" in response:
            members["error"] = {"message": response["error"]}
        self.answer("PostToolUse", str(call["id"]), at, tool_response=members)


class _OpencodeReader(_Reader):
    """Reads rows of opencode's database: of its session, then its messages and their parts, each as one line."""

    _roles: dict[str, str]

    def read(self, line: Line, raw: bytes) -> None:
        table, data = line.get("table"), line.get("data") or {}
        self._at = parse_time(line.get("time_created")) or self._at
        if table == "session":
            self.session_id, self.cwd = str(line["id"]), str(line["directory"])
            self.version, self._roles = str(line.get("version")), {}
        elif table == "message":
            self._roles[str(line["id"])] = str(data.get("role"))
            if data.get("role") == "assistant":
                self.take(raw)
                if isinstance(data.get("error"), dict):
                    self.tell("session.error", error=data["error"], timestamp=line["id"])
        elif table == "part":
            self._read_part(line, data, raw)

    def _read_part(self, line: Line, data: Line, raw: bytes) -> None:
        typed = self._roles.get(str(line.get("message_id"))) == "user"
        if data.get("type") == "text" and typed and data.get("synthetic") is not True:
            self.prompt(str(data.get("text")).strip())
        elif data.get("type") == "compaction":
            self.tell("session.compacted", timestamp=line["id"])
        elif data.get("type") == "tool":
            self._read_tool(data)
        elif not typed:
            self.take(raw)

    def _read_tool(self, data: Line) -> None:
        state, call_id = data["state"], str(data["callID"])
        times = state.get("time") or {}
        metadata = state.get("metadata")
        self.call(call_id, str(data["tool"]), state.get("input"), parse_time(times.get("start")))
        ended = parse_time(times.get("end"))
        if isinstance(metadata, dict) and isinstance(metadata.get("sessionId"), str):
            self.agents[metadata["sessionId"]] = str((state.get("input") or {}).get("subagent_type") or "")
        if state.get("status") == "completed":
            output = {"title": state.get("title"), "output": state.get("output"), "metadata": metadata}
            self.answer("tool.execute.after", call_id, ended, tool_response=output)
        elif state.get("status") == "error":
            self.answer("tool.execute.failed", call_id, ended, error=state.get("error"))


READERS: Mapping[str, Callable[..., _Reader]] = {
    "claude-code": _ClaudeReader,
    "codex": _CodexReader,
    "gemini": _GeminiReader,
    "opencode": _OpencodeReader,
}


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _find_patch(call: Line) -> str | None:
    """Return the patch in a call as the model made it: its whole input, or the text a script gives to the tool."""
    text = str(call.get("input") or "")
    if call.get("name") == "apply_patch":
        return text
    at = text.find(_PATCH)
    try:
        patch = json.JSONDecoder().raw_decode(text, at + len(_PATCH))[0] if at >= 0 else None
    except ValueError:
        return None
    return patch if isinstance(patch, str) else None


def _spell_patch(changes: object, cwd: str) -> str:
    """Return changes by file as the patch that makes them."""
    lines = ["*** Begin Patch"]
    for path, change in changes.items() if isinstance(changes, dict) else ():
        kind = str(change.get("type"))
        lines.append(f"{_PATCH_HEADS.get(kind, _PATCH_HEADS['update'])}{str(path).removeprefix(f'{cwd}/')}")
        lines += [f"+{line}" for line in str(change.get("content") or "").splitlines()] if kind == "add" else []
        lines += str(change.get("unified_diff") or "").splitlines()
    return "\n".join([*lines, "*** End Patch", ""])
