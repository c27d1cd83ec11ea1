"""Say what of an agent's work a record does not hold, so that silence does not read as nothing.
[pure]

    list_unseen(started, lines)      # ["response (captured as a digest alone)", "tokens"]

A record without a prompt may be of a run without one, or of a harness that reports no prompts. A
reader cannot see which. So this module names everything that the record of an agent's session can
hold and this one does not.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.record.reading.printed_context import UNREAD
from specify_cli.record.record import is_stand_in
from specify_cli.record.seal import Fields, is_imported

if TYPE_CHECKING:
    from collections.abc import Iterable

# What a capture mode leaves out of a side.
_LEFT_OUT = {"off": "capture is off", "hash": "captured as a digest alone"}
# Harnesses whose payloads do not say which agent of a session made a call.
_ONE_VOICE = frozenset(("gemini", "antigravity"))


def say_unseen(names: Iterable[object]) -> str:
    """Return the names of `list_unseen` in one line, as people read them: an estimated cost may
    stand beside it."""
    return ", ".join("cost as billed" if name == "cost" else str(name) for name in names)


def list_unseen(started: Fields, lines: Iterable[Fields]) -> list[str]:
    """Return what a record does not hold: sides that were not captured, and kinds of events that
    nobody reported.

    The record of a person or of the Python API has no conversation, so no events are missing. If
    lines are withheld, any event may be among them: then only the first line is used.

    `started` are the fields of the first line, and `lines` those of all lines, annexes among them.
    The names are for people and come in a fixed order: what was narrowed, sides, kinds of events.
    """
    capture = started.get("capture")
    modes = (
        capture.items()
        if isinstance(capture, dict) and started.get("tombstone") is not True
        else ()
    )
    left_out = [f"{side} ({_LEFT_OUT[mode]})" for side, mode in modes if str(mode) in _LEFT_OUT]
    narrowed = (
        [f"what the config narrowed ({started['narrowed']})"] if "narrowed" in started else []
    )
    return narrowed + left_out + _list_untold(started, lines)


def _list_untold(started: Fields, lines: Iterable[Fields]) -> list[str]:
    """Return which events of an agent's work nobody reported.

    Each has a name for people and a test. Where lines are withheld only the tests of the first line
    count, because a withheld line can be of any event.
    """
    actor = started.get("actor")
    harness = (
        str(actor.get("tool") or "")
        if isinstance(actor, dict) and actor.get("actor_type") == "llm"
        else ""
    )
    if not harness or started.get("tombstone") is True:
        return []
    events = set()
    members: set[str] = set()
    withheld = False
    for line in lines:
        withheld |= is_stand_in(line)
        event = str(line.get("event"))
        events.add(event)
        if event == "reconciled" and "agents" in line:
            members.add("agents")
        if event == "turn":
            members.update(
                name
                for name in ("text_hash", "text_size", "model", "tokens", "thinking_hash", "cost")
                if name in line
            )
    opening_facts = {
        "when (a transcript claims it)": not is_imported(started),
        UNREAD: "opened_by" not in started,
    }
    line_facts = {
        "tool calls": bool({"tool_call", "tool_result"} & events),
        "prompts": "prompt" in events,
        "answers": bool({"text_hash", "text_size"} & members),
        "model": "model" in members or "model_call" in events,
        "tokens": "tokens" in members or "model_call" in events,
        "cost": "cost" in members,
        "thinking": "thinking_hash" in members,
        "permissions": "approval" in events,
        "which agent made a call": harness not in _ONE_VOICE or "agents" in members,
    }
    return [
        name
        for name, is_present in (opening_facts if withheld else opening_facts | line_facts).items()
        if not is_present
    ]
