"""Antigravity: https://antigravity.google/docs/hooks

A call is reported once, when it is over, with its arguments in `toolCall` and without its output;
`error` is there where the program says how it ended. The payload names no event.
"""

from __future__ import annotations

from specify_cli.features.hooks.payload.calls import note_command, runs_command
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import (
    HookInput,
    Members,
    Payload,
    get_object,
    match_first,
)


class Antigravity(Dialect):
    """How Antigravity's payloads are read."""

    hides_output = True

    def name_event(self, payload: Payload) -> str:
        return "PostToolUse"

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        return "unknown" if runs_command(payload) and "error" not in payload else "ok"

    def read_result(self, payload: Payload, call: HookInput) -> HookInput:
        """Return a call and its result; nothing where the payload does not say which tool it
        was."""
        reported = _restate(payload)
        if reported is None:
            return call
        call = note_command(reported, call)
        failed = payload.get("error") not in (None, "", {})
        begin = self.build_call(reported, call, keyed_by_id=False)
        result = self.build_result(reported, call.subagent, failed=failed)
        return call._replace(events=(begin, *result))


def _restate(payload: Payload) -> Members | None:
    """Return a payload in the words that the other programs share."""
    call = get_object(payload, "toolCall")
    if not call:
        return None
    step = payload.get("stepIdx")
    step_id = f"step-{step}" if type(step) is int and step < 10**9 else None
    reported = {
        "tool_name": call.get("name"),
        "tool_input": call.get("args"),
        "tool_use_id": match_first(call, "id") or step_id,
    }
    if "error" in payload:
        reported["error"] = payload["error"]
    return reported


HARNESS = Antigravity("antigravity", {})
