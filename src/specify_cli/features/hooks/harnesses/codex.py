"""Codex: https://developers.openai.com/codex/hooks

No payload says how a command ended. Only the session's transcript does, in the `item_completed` of
the call. A patch is the text of `apply_patch`, and what it printed begins with its exit code.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.calls import PATCHING_TOOLS, runs_command
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import Payload, get_object, match_first

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.turn_from_transcript import Turn

# The status of an item in the transcript → that of the call.
_ITEM_STATUS = {"completed": "ok", "failed": "error", "declined": "denied"}


class Codex(Dialect):
    """How Codex' payloads are read."""

    input_holds_cache = True
    hides_exit_status = True
    # its model's id for a call, where the item is gone that says how it ran
    has_other_ids_in_transcript = True
    amid_calls = ("prompt", "end")
    # a call within a script that did not come to run, or failed there
    unnamed_calls = ("exec-", b'"output":[{"type":"input_text","text":"Script failed')

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        if tool.lower() in PATCHING_TOOLS:
            failed = isinstance(output, str) and output.startswith("Exit code: ")
            return "error" if failed and not str(output).startswith("Exit code: 0\n") else "ok"
        return "unknown" if runs_command(payload) else "ok"

    def read_exit_status(self, transcript: bytes, call_id: str) -> str | None:
        """Return how a call ended by the newest `item_completed` with its id; None without one."""
        from specify_cli.features.hooks.payload.outputs import parse_json  # of results alone

        needle = call_id.encode("utf-8", "replace")
        for line in reversed(transcript.split(b"\n")):
            if needle in line and b"item_completed" in line:
                event = get_object(parse_json(line), "payload")
                item = get_object(event, "item")
                if event.get("type") == "item_completed" and item.get("id") == call_id:
                    return judge_item(item)
        return None

    def read_agent_path(self, transcript: bytes) -> str | None:
        """Return the `agent_path` of a subagent: its hooks name the kind alone."""
        from specify_cli.features.hooks.payload.outputs import parse_json  # as above

        begin = parse_json(transcript.partition(b"\n")[0])
        return match_first(get_object(begin, "payload"), "agent_path")

    def read_turn(self, turn: Turn, line: Payload, number: int) -> Turn:
        payload = get_object(line, "payload")
        kind = payload.get("type")
        item = get_object(payload, "item")
        # Older versions do not say that a turn begins; a prompt does it then.
        is_prompt = kind == "item_completed" and item.get("type") == "UserMessage"
        if kind == "task_started" or (is_prompt and not turn.is_begun):
            begun = turn.begin_next()
            begun.model, begun.is_begun = turn.model, not is_prompt
            return begun
        if line.get("type") == "turn_context":
            turn.name_model(payload.get("model"))
        elif kind == "thread_settings_applied":
            turn.name_model(get_object(payload, "thread_settings").get("model"))
        elif kind == "token_count":
            info = get_object(payload, "info")
            total = info.get("total_token_usage")
            if total is None or total != turn.counted:  # else it is told again
                turn.add_usage(str(number), info.get("last_token_usage"))
            turn.counted = total or turn.counted
        elif line.get("type") == "token_usage_record":
            turn.add_request(str(payload.get("response_id") or number), payload.get("usage"))
        elif kind == "item_completed" and item.get("type") == "AgentMessage":
            turn.add_answer(turn.join_texts(item.get("content"), "text"))
        elif kind == "agent_message":  # as older versions report it
            turn.add_answer(payload.get("message"))
        elif kind == "item_completed" and item.get("status") == "declined":
            turn.denied[item["id"]] = ""
        elif kind == "reasoning":
            summary = turn.join_texts(payload.get("summary"), "text")
            turn.add_thought(summary or turn.join_texts(payload.get("content"), "text"))
        return turn


def judge_item(item: Payload) -> str:
    """Return how a call ended by its item in a transcript: by its exit code, else by its status."""
    from specify_cli.features.hooks.payload.outputs import judge_exit_code  # of results alone

    by_code = judge_exit_code(item.get("exit_code"))
    return by_code or _ITEM_STATUS.get(str(item.get("status")), "unknown")


HARNESS = Codex("codex", {})
