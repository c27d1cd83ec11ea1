"""Gemini CLI: https://geminicli.com/docs/hooks/reference

A result holds `llmContent` and `returnDisplay`. How a command ended stands after its output in
`llmContent`. The question to a person comes as a notification, and no payload names its call. It
tells a compaction before every request (`PreCompress`), so none is recorded.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.calls import (
    find_command,
    find_path,
    read_tool,
    runs_command,
)
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import Payload, get_object, match_first, match_whole

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.turn_from_transcript import Turn

EVENTS = {
    "BeforeTool": "call",
    "AfterTool": "result",
    "BeforeAgent": "prompt",
    "AfterAgent": "turn_end",
    "Notification": "permission",
}
# The last lines of a command's result, after its output.
_TRAILERS = frozenset(("Process Group PGID", "Background PIDs", "Signal", "Exit Code"))
_MAX_TRAILERS = 8


class Gemini(Dialect):
    """How Gemini CLI's payloads are read."""

    input_holds_cache = True
    output_holds_thinking = False
    displays_changes = True

    def identify_call(self, payload: Payload) -> object:
        """Return what the call runs or edits, else its tool: a notification says no more."""
        tool, args = read_tool(payload)
        return find_command(payload) or find_path(args) or tool

    def identify_request(self, payload: Payload) -> object:
        details = get_object(payload, "details")
        if payload.get("notification_type") != "ToolPermission":
            return None
        server, tool = match_first(details, "serverName"), match_first(details, "toolName")
        served = f"mcp_{server}_{tool}" if server and tool else None
        return match_whole(details, "command", "filePath") or served

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        return _read_command_status(output) if runs_command(payload) else "ok"

    def read_turn(self, turn: Turn, line: Payload, number: int) -> Turn:
        content = line.get("content")
        if line.get("type") == "user":
            answers = isinstance(content, list) and any(
                "functionResponse" in part for part in content
            )
            return turn if answers else turn.begin_next()
        # in a list stand the parts of a history that is written again
        if line.get("type") == "gemini" and not isinstance(content, list):
            turn.name_model(line.get("model"))
            turn.add_usage(str(line.get("id") or number), line.get("tokens"))
            turn.add_answer(turn.join_texts(content, "text"))
            turn.add_thought(turn.join_texts(line.get("thoughts"), "subject", "description"))
        return turn


def _read_command_status(output: object) -> str:
    """Return how a command ended, by the lines that Gemini CLI writes after its output.

    It names an exit code only where that is not 0; earlier versions named it always, and signal 0.
    """
    text = output if isinstance(output, str) else match_whole(output, "llmContent")
    if text is None:
        return "unknown"
    text = text.removeprefix("<untrusted_context>\n").removesuffix("</untrusted_context>")
    if text.startswith("Command was "):
        return "error"  # cancelled, by the user or at its time-out
    has_trailer = False
    for line in reversed(text.rstrip("\n").rsplit("\n", _MAX_TRAILERS)):
        name, _, reported = line.partition(": ")
        if name not in _TRAILERS:
            break
        has_trailer = True
        if name == "Exit Code":
            return "ok" if reported == "0" else "error"
        if name == "Signal" and reported not in ("(none)", "0"):
            return "error"
    return "ok" if has_trailer else "unknown"


HARNESS = Gemini("gemini", EVENTS)
