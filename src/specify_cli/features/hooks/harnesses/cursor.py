"""Cursor: https://cursor.com/docs/agent/hooks

A failed or refused call has an event of its own (`failure_type`), and so has each edited file. A
command's result is JSON in a text, with `exitCode`. Of a subagent the payload names its
conversation and that of the session above.
"""

from __future__ import annotations

from specify_cli.features.hooks.payload.calls import find_path
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import (
    HookEvent,
    HookInput,
    Payload,
    compute_fingerprint,
    match_first,
)

EVENTS = {"afterFileEdit": "edit"}


class Cursor(Dialect):
    """How Cursor's payloads are read."""

    def find_session(self, payload: Payload, kind: str) -> str | None:
        above = (
            match_first(payload, "parent_conversation_id")
            if kind in ("subagent_start", "subagent_end")
            else None
        )
        return above or super().find_session(payload, kind)

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        from specify_cli.features.hooks.payload import outputs  # of results alone

        if not (isinstance(output, str) and output.startswith("{") and '"exitCode"' in output):
            return "ok"
        return "error" if outputs.has_failed(outputs.parse_json(output)) else "ok"

    def is_refusal(self, payload: Payload, output: object) -> bool:
        return payload.get("failure_type") == "permission_denied"

    def list_patches(
        self, payload: Payload, result: HookEvent, tool: str, args: object, output: object
    ) -> list[HookEvent]:
        """Return nothing: `afterFileEdit` reports edits."""
        return []

    def read_edit(self, payload: Payload, call: HookInput) -> HookInput:
        """Return what Cursor says of a file its agent edited: the place and the pieces, not the
        file."""
        from specify_cli.features.hooks.payload.patches import spell_pieces  # of edits alone

        path = find_path(payload)
        if path is None:
            return call
        key = compute_fingerprint(
            (match_first(payload, "generation_id"), path, payload.get("edits"))
        )
        body = {"path": path, "kind": "modify", "ok": True}
        diff = spell_pieces(payload)
        body |= {} if diff is None else {"diff": diff}
        return call._replace(events=(HookEvent("patch_apply", body, "other", key),))


HARNESS = Cursor("cursor", EVENTS)
