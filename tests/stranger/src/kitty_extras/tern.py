"""Tern: a program that exists nowhere. It tells its hooks everything in words of its own."""

from __future__ import annotations

from typing import Any

from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import HookInput, Payload

EVENTS = {"asked": "prompt", "tool.starts": "call", "tool.done": "result", "tool.broke": "failure", "over": "ended"}
# Tern's words → those that programs share.
WORDS = {
    "what": "hook_event_name",
    "run": "session_id",
    "dir": "cwd",
    "says": "prompt",
    "call": "tool_use_id",
    "tool": "tool_name",
    "with": "tool_input",
    "gave": "tool_response",
}


class Tern(Dialect):
    """How Tern's payloads are read."""

    def translate(self, payload: object) -> HookInput:
        """Return what a payload says, after it was restated in shared words."""
        if not isinstance(payload, dict):
            return super().translate(payload)
        if payload.get("what") == "tool.explodes":
            raise RuntimeError("tern cannot fly")
        return super().translate({WORDS.get(name, name): value for name, value in payload.items()})

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        """Return how a call ended: Tern gives each an exit code."""
        return "ok" if payload.get("code") == 0 else "error"

    def read_turn(self, turn: Any, line: Payload, number: int) -> Any:
        """Read an answer of the model from the log of a session."""
        if line.get("what") == "asked":
            return turn.begin_next()
        if line.get("what") == "answer":
            turn.add_answer(line.get("says"))
            turn.add_usage(str(number), {"input_tokens": line.get("read"), "output_tokens": line.get("wrote")})
        return turn


HARNESS = Tern("tern", EVENTS)
