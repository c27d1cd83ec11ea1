"""Qwen Code: https://qwenlm.github.io/qwen-code-docs/en/users/features/hooks

It names calls, subagents and failures as Claude Code does, and describes results as Gemini CLI
does.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from specify_cli.features.hooks.payload.turn_from_transcript import Turn
    from specify_cli.features.hooks.payload.values import Payload

_PASSED = (
    *("PostCompact", "PostToolBatch", "UserPromptExpansion"),
    *("TodoCreated", "TodoCompleted", "MessageDisplay"),
)
EVENTS = {
    "PreToolUse": "call",
    "PostToolUse": "result",
    "PostToolUseFailure": "failure",
    "Notification": "nothing",
    "UserPromptSubmit": "prompt",
    "SessionStart": "started",
    "SessionEnd": "ended",
    "Stop": "main_turn_end",
    "SubagentStart": "subagent_start",
    "SubagentStop": "subagent_end",
    "PreCompact": "compacted",
    "PermissionRequest": "permission",
    "PermissionDenied": "denial",
    "StopFailure": "error",
    "SessionDelete": "session_deleted",
    "InstructionsLoaded": "instructions_loaded",
    **dict.fromkeys(_PASSED, "nothing"),
}


class Qwen(Dialect):
    """How Qwen Code's payloads are read."""

    input_holds_cache = True
    has_other_ids_in_transcript = True

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        from specify_cli.features.hooks.payload.outputs import has_unfinished_agent  # of results

        return "error" if has_unfinished_agent(output) else "ok"

    def read_change(self, args: Payload, output: object, written: str | None) -> dict[str, object]:
        # of edits alone
        from specify_cli.features.hooks.payload.patches import read_displayed_change

        return read_displayed_change(output, written)

    def read_turn(self, turn: Turn, line: Mapping[str, Any], number: int) -> Turn:
        message = line.get("message") or {}
        if line.get("type") == "user":
            return turn.begin_next()
        if line.get("type") == "assistant":
            turn.name_model(line.get("model"))
            turn.add_usage(str(line.get("uuid") or number), line.get("usageMetadata"))
            parts = [part for part in message.get("parts") or [] if isinstance(part, dict)]
            turn.add_answer(
                turn.join_texts([part for part in parts if not part.get("thought")], "text")
            )
            turn.add_thought(
                turn.join_texts([part for part in parts if part.get("thought")], "text")
            )
        return turn


HARNESS = Qwen("qwen", EVENTS)
