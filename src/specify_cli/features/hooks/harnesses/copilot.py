"""GitHub Copilot, on the command line and in VS Code:
https://docs.github.com/en/copilot/reference/hooks-reference

The command line's result says in `result_type` whether a call was refused or failed, and ends with
how a command ended. No payload names its call, and calls that are made together have one time. A
subagent's start names no event.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.calls import runs_command
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import Members, Payload, as_object, match_whole

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.turn_from_transcript import Turn

EVENTS = {
    "ErrorOccurred": "error",
    # It reports each call so, before it knows whether it will ask anybody.
    "PermissionRequest": "nothing",
}


class Copilot(Dialect):
    """How Copilot's payloads are read."""

    input_holds_cache = True

    sends_equal_payloads = True
    hides_sessions_of_commands = True

    def name_event(self, payload: Payload) -> str:
        return "SubagentStart" if "agentName" in payload else ""

    def judge_kind(self, payload: Payload, kind: str) -> str:
        # what it reports to its model of a task in the background, as its transcript says, too
        is_own = kind == "prompt" and str(payload.get("prompt")).startswith("<system_notification>")
        return "nothing" if is_own else kind

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        kind = match_whole(output, "result_type", "resultType")
        if kind in ("denied", "rejected"):
            return "denied"
        if kind not in (None, "success"):
            return "error"
        return _read_command_status(output) if runs_command(payload) else "ok"

    def read_change(self, args: Payload, output: object, written: str | None) -> Members:
        # of edits alone
        from specify_cli.features.hooks.payload.patches import compose_change, spell_pieces

        # Its tool `create` makes no file where there is one.
        created = "text_result_for_llm" in as_object(output) and "file_text" in args
        diff = None if written else spell_pieces(args)
        return compose_change(created=created, after=written, diff=diff)

    def read_turn(self, turn: Turn, line: Payload, number: int) -> Turn:
        data = line.get("data") or {}
        if line.get("agentId") or "parentToolCallId" in data or not was_typed(data):
            return turn  # a subagent's, or what the program says amid a turn
        if line.get("type") in ("user.message", "system.notification"):
            return turn.begin_next()
        if line.get("type") == "session.usage_record":
            usage = data.get("usage") or {}
            turn.name_model(usage.get("model"))
            turn.add_usage(str(number), usage)
        elif line.get("type") == "assistant.message":
            turn.name_model(data.get("model"))
            turn.add_answer(data.get("content"))
            turn.add_thought(data.get("reasoningText"))
        return turn


def was_typed(data: Payload) -> bool:
    """Return whether a message can be a person's own, as by a command or at a time they set: what
    skills, instructions and other agents say in their name has another source."""
    return str(data.get("source") or "user").startswith(("user", "command", "schedule"))


def _read_command_status(output: object) -> str:
    """Return how a command ended, by the last line, which Copilot writes after its output."""
    text = output
    if not isinstance(text, str):
        text = match_whole(output, "text_result_for_llm", "textResultForLlm")
    if text is None:
        return "unknown"
    shell, _, code = text.rstrip("\n").rpartition("\n")[2].partition(" with exit code ")
    # the second until 1.0.20
    if not shell.startswith(("<shellId: ", "<exited")) or not code.endswith(">"):
        return "unknown"
    return "ok" if code == "0>" else "error"


HARNESS = Copilot("copilot", EVENTS)
