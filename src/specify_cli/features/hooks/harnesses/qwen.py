"""Qwen Code: https://qwenlm.github.io/qwen-code-docs/en/users/features/hooks

It names calls, subagents and failures as Claude Code does, and describes results as Gemini CLI
does.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.dialect import Dialect

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.turn_from_transcript import Turn
    from specify_cli.features.hooks.payload.values import Payload

EVENTS = {
    "SessionDelete": "session_deleted",
    "InstructionsLoaded": "instructions_loaded",
}


class Qwen(Dialect):
    """How Qwen Code's payloads are read."""

    input_holds_cache = True
    has_other_ids_in_transcript = True
    displays_changes = True

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        return "ok"

    def read_turn(self, turn: Turn, line: Payload, number: int) -> Turn:
        message = line.get("message") or {}
        if line.get("type") == "user":
            return turn.begin_next()
        if line.get("type") == "assistant":
            turn.name_model(line.get("model"))
            turn.add_usage(str(line.get("uuid") or number), line.get("usageMetadata"))
            parts = [part for part in message.get("parts") or [] if isinstance(part, dict)]
            thoughts = [part for part in parts if part.get("thought")]
            words = [part for part in parts if not part.get("thought")]
            turn.add_answer(turn.join_texts(words, "text"))
            turn.add_thought(turn.join_texts(thoughts, "text"))
        return turn


HARNESS = Qwen("qwen", EVENTS)
