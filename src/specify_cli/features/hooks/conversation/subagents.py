"""Which subagent began which: it works on the record of the one that began it, and its end leads
back to that one's stage.

Only some programs name it (`parent_agent_id`). Else it is the one agent of the session that has
called a tool which begins a subagent; where two have, it is not known. The marks lie in
`.kittify/local/begins/` and are read as hostile input.
"""

from __future__ import annotations

import time
from contextlib import suppress

from specify_cli.errors import InvocationError
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.transcript_end import read_head
from specify_cli.features.hooks.payload.values import MAX_NAME, HookInput
from specify_cli.invocation.bindings import (
    bind,
    binding_of,
    list_marks,
    read_small,
    short_digest,
    unlink_below,
    unmark,
    write_small,
)
from specify_cli.record import layout


def note_beginning(at: Site, call: HookInput) -> None:
    """Note who has called a tool that begins a subagent; that it has begun takes the mark away."""
    event = call.events[0]
    if event.event == "tool_call" and at.session:
        name = short_digest(event.named_id) + ".json"
        mark = {"agent_id": call.subagent, "at": time.time_ns() // 1_000_000}
        # without it, it is not known who began the subagent
        with suppress(OSError, InvocationError):
            write_small(at.root, _find_folder(at), name, mark)


def follow_subagent(at: Site, call: HookInput) -> HookInput:
    """Bind a subagent that begins to the record of the one that began it; return its begin with the
    stage that it goes out from, its end with the one that it leads back to, both with its own."""
    root, harness, session = at.root, at.harness, at.session
    agent, event = call.subagent, call.events[0]
    if not session or agent is None:
        return call
    note_path = _note_path(at, agent)
    try:
        unmark(root, harness, session, agent)
        if event.phase == "pre":
            named = call.parent_agent != session and call.parent_agent
            above = named or _take_mark(root, _find_folder(at))
            begin = read_head(call.session_transcript or "")
            name = find_dialect(harness).read_agent_path(begin)
            stage = f"subagent:{name}"[:MAX_NAME] if name else event.payload.get("to")
            note = {"above": above, "stage": stage}
            write_small(root, *note_path, note)
            bound = binding_of(root, harness, session, above) if above else None
            if bound:
                to = bound.invocation_id, "above", bound.profile_id
                bind(root, harness, session, agent, *to)
        else:
            note = read_small(root, *note_path)
            unlink_below(root, *note_path)
        before = note.get("above")
        # of the one that began it, while that goes on
        stage = before and read_small(root, *_note_path(at, before)).get("stage")
    except (OSError, InvocationError):
        return call
    other, own = ("from", "to") if event.phase == "pre" else ("to", "from")
    payload = dict(event.payload)
    payload |= {other: str(stage or payload[other]), own: str(note.get("stage") or payload[own])}
    event = event._replace(payload=payload)
    return call._replace(events=(event, *call.events[1:]))


def _find_folder(at: Site) -> str:
    return f"{layout.LOCAL}/begins/{short_digest(at.harness, at.session)}"


def _note_path(at: Site, agent: object) -> tuple[str, str]:
    name = short_digest(at.harness, at.session, "subagent", str(agent))
    return f"{layout.LOCAL}/bindings", f"{name}.json"


def _take_mark(root: str, folder: str) -> str | None:
    """Return the subagent that alone waits for one to begin, and take its oldest mark away."""
    marks = list_marks(root, folder)
    if len({mark.agent_id for mark in marks}) != 1:
        return None
    unlink_below(root, folder, marks[0].name)
    return marks[0].agent_id
