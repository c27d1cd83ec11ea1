"""Which subagent began which: it works on the record of the one that began it, and its end leads
back to that one's stage.

Only some programs name it (`parent_agent_id`). Else it is the one agent of the session that has
called a tool which begins a subagent; where two have, it is not known. The marks lie in
`.kittify/local/begins/` and are read as hostile input.
"""

from __future__ import annotations

import os
import time

from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.invocation.bindings import (
    MARK_SECONDS,
    bind,
    binding_of,
    read_small,
    short_digest,
    unlink_below,
    unmark,
    write_small,
)
from specify_cli.record import layout

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.values import HookInput

_MAX_MARKS = 64


def note_beginning(root: str, harness: str, call: HookInput) -> None:
    """Note who has called a tool that begins a subagent; that it has begun takes the mark away."""
    event = call.events[0]
    if event.event == "tool_call" and call.session_id is not None:
        name = short_digest(str(event.payload.get("call_id"))) + ".json"
        mark = {"agent_id": call.subagent, "at": time.time_ns() // 1_000_000}
        try:
            write_small(root, _find_folder(harness, call.session_id), name, mark)
        except (OSError, InvocationError):
            return  # then it is not known who began the subagent


def follow_subagent(root: str, harness: str, call: HookInput) -> HookInput:
    """Bind a subagent that begins to the record of the one that began it; return the end of one
    with the stage that it leads back to."""
    session, agent, event = call.session_id, call.subagent, call.events[0]
    if session is None or agent is None:
        return call
    unmark(root, harness, session, agent)
    folder = _find_folder(harness, session)
    try:
        if event.phase == "pre":
            named = call.parent_agent != session and call.parent_agent
            above = named or _take_mark(root, folder)
            note = {"above": above, "stage": event.payload.get("to")}
            write_small(root, folder, _name_note(agent), note)
            bound = binding_of(root, harness, session, above) if above else None
            if bound is not None:
                to = bound.invocation_id, "above", bound.profile_id
                bind(root, harness, session, agent, *to)
            return call
        stage = _read_stage(root, folder, agent)
        unlink_below(root, folder, _name_note(agent))
    except (OSError, InvocationError):
        return call
    payload = {**event.payload, "to": stage or event.payload["to"]}
    return call._replace(events=(event._replace(payload=payload), *call.events[1:]))


def _find_folder(harness: str, session: str) -> str:
    return f"{layout.LOCAL}/begins/{short_digest(harness, session)}"


def _name_note(agent: object) -> str:
    return short_digest("subagent", str(agent)) + ".json"


def _read_stage(root: str, folder: str, agent: str) -> str | None:
    """Return the stage of the subagent that began another, while it goes on."""
    note = read_small(root, folder, _name_note(agent))
    above = note.get("above") if isinstance(note, dict) else None
    begun = read_small(root, folder, _name_note(above)) if above else None
    stage = begun.get("stage") if isinstance(begun, dict) else None
    return stage if isinstance(stage, str) else None


def _take_mark(root: str, folder: str) -> str | None:
    """Return the subagent that alone waits for one to begin, and take its oldest mark away."""
    now = time.time_ns() // 1_000_000
    marks: list[tuple[int, str, object]] = []
    with durable.folder(root, folder) as fd:
        for name in sorted(os.listdir(fd))[:_MAX_MARKS]:
            mark = read_small(root, folder, name)
            since, agent = (
                (mark.get("at"), mark.get("agent_id")) if isinstance(mark, dict) else (0, 0)
            )
            if type(since) is int and now - 1000 * MARK_SECONDS < since <= now:
                marks.append((since, name, agent))
    if len({agent for _, _, agent in marks}) != 1:
        return None
    _, name, agent = min(marks)
    unlink_below(root, folder, name)
    return agent if isinstance(agent, str) else None
