"""opencode: https://opencode.ai/docs/plugins, as our plug-in sends it (`settings/opencode.ts`)

A command's exit code stands in the result's `metadata`; it is null where the command was aborted or
goes on. A refused call is a failed one whose error says so. The plug-in tells what a person
allowed, by the id of the call.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.calls import runs_command
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import (
    Members,
    Payload,
    get_object,
    match_first,
    match_whole,
)

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.turn_from_transcript import Turn

EVENTS = {
    "chat.message": "prompt",
    "permission.asked": "nothing",
    "permission.allowed": "permission",
    "session.compacted": "compacted",
    "session.error": "error",
    "session.idle": "turn_end",
    "tool.execute.before": "call",
    "tool.execute.after": "result",
    "tool.execute.failed": "failure",
}
# How it says that a person, or a rule of theirs, refused a call.
_REFUSED = ("The user rejected permission", "The user has specified a rule which prevents")


class Opencode(Dialect):
    """How opencode's payloads are read."""

    output_holds_thinking = False

    amid_calls = ("prompt", "interrupted")
    tells_ends = True

    def judge_kind(self, payload: Payload, kind: str) -> str:
        is_abort = get_object(payload, "error").get("name") == "MessageAbortedError"
        return "interrupted" if kind == "error" and is_abort else kind

    def identify_call(self, payload: Payload) -> object:
        return match_first(payload, "tool_use_id")

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        metadata = get_object(output, "metadata")
        if "exit" in metadata and isinstance(output, dict):
            text = output.get("output")
            if metadata["exit"] is not None:
                return "ok"
            return (
                "error"
                if isinstance(text, str) and text.endswith("</shell_metadata>")
                else "unknown"
            )
        if tool == "invalid":
            # what it answers to a tool that is not there, or arguments that do not fit
            return "error"
        return "unknown" if runs_command(payload) else "ok"

    def is_refusal(self, payload: Payload, output: object) -> bool:
        return isinstance(output, str) and output.startswith(_REFUSED)

    def read_change(self, args: Payload, output: object, written: str | None) -> Members:
        from specify_cli.features.hooks.payload.patches import compose_change  # of edits alone

        metadata = get_object(output, "metadata")
        created = metadata.get("exists") is False
        return compose_change(created=created, after=written, diff=match_whole(metadata, "diff"))

    def read_turn(self, turn: Turn, line: Payload, number: int) -> Turn:
        """Read a row of opencode's database; its hooks sum a turn up themselves."""
        data = line.get("data") or {}
        if line.get("table") == "message":
            turn.name_model(data.get("modelID"))
            counts = get_object(data, "tokens")
            request = str(line.get("id") or number)
            turn.add_cost(request, data.get("cost"))
            turn.add_usage(request, {**counts, **get_object(counts, "cache")})
        elif data.get("type") == "text":
            turn.add_answer(data.get("text"))
        elif data.get("type") == "reasoning":
            turn.add_thought(data.get("text"))
        return turn


HARNESS = Opencode("opencode", EVENTS)
