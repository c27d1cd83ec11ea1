"""Which members of a line hold what people and tools said: what an erasure takes, and what leaves
encrypted. [pure]

    list_said({"event": "started", "request_text": "fix the login", "action": "implement"})
    # {"request_text"}
"""

from __future__ import annotations

from collections.abc import Set

from specify_cli.record.event_table import EVENTS
from specify_cli.record.seal import ALWAYS_LEFT, Fields

# Kinds of members that hold what people and tools said.
_SAID = frozenset(("captured", "digested", "message", "note"))
_SAID_BY_NAME = {
    "started": frozenset(("request_text", "request_object", "printed", "decisions", "mission")),
    "retrieval_request": frozenset(("query",)),
    "session_change": frozenset(("reason", "detail")),
    "approval": frozenset(("reason",)),
    "capture_gap": frozenset(("what",)),
    "policy_violation": frozenset(("message",)),
    "gate_decision": frozenset(("inputs",)),
    "patch_apply": frozenset(("path",)),
    "artifact_link": frozenset(("ref",)),
    "tool_call": frozenset(("cwd",)),
    "checkpoint": frozenset(("label",)),
    "completed": frozenset(("evidence_ref", "evidence_name", "evidence_size")),
    "replayed": frozenset(("object", "page")),
}
_OF_A_PATCH = ("before", "after", "diff", "lines")
# What follows from a member, so that it would give the member away to whoever tries guesses.
_DERIVED = {
    "request_text": ("request_object", "execution_hash", "match_reason"),
    "request_object": ("request_text", "execution_hash", "match_reason"),
    "args": ("idempotency_key",),
    **dict.fromkeys(_OF_A_PATCH, (*_OF_A_PATCH, *(f"{name}_hash" for name in _OF_A_PATCH))),
}
# What every line keeps, and what a record cannot be found and followed without.
KEPT = ALWAYS_LEFT | frozenset(
    ("call_id", "request_id", "after", "after_of", "dedupe", "profile_id", "snapshot", "salt")
)

_KEPT = {
    event: KEPT - {name for name, of in known.members.items() if of.side}
    for event, known in EVENTS.items()
}


def list_said(fields: Fields, sides: Set[str] | None = None) -> set[str]:
    """Return the members of a line that hold what people and tools said, of these capture sides.

    Texts of files that were changed are a side of their own, *files*.
    """
    event = str(fields.get("event"))
    known = EVENTS[event].members if event in EVENTS else {}
    of_files = event == "patch_apply"
    names = {
        name
        for name, of in known.items()
        if (of.kind in _SAID or of.side)
        and (sides is None or ("files" if of_files and of.side else of.side) in sides)
    }
    if sides is None or (sides & {"prompt"} and event in ("started", "retrieval_request")):
        names |= _SAID_BY_NAME.get(event, frozenset())
    stems = {*names, *(f"{name}_hash" for name in names), *(f"{name}_size" for name in names)}
    return add_derived(fields, {name for name in stems if fields.get(name) is not None})


def list_losable() -> set[str]:
    """Return the members that an erasure can take from some line."""
    return {
        f"{stem}{end}"
        for event, known in EVENTS.items()
        for stem in known.members.keys() - _KEPT[event]
        for end in ("", "_hash", "_size")
    }


def list_unknown(fields: Fields) -> set[str]:
    """Return the members of a line that this version does not know: they can hold anything."""
    event = EVENTS.get(str(fields.get("event")))
    stems = event.members if event else ()
    known = {f"{stem}{end}" for stem in stems for end in ("", "_hash", "_size")}
    return {*fields} - known - KEPT


def add_derived(fields: Fields, names: Set[str]) -> set[str]:
    """Return members with those of the line that would give them away to whoever tries guesses."""
    wider = set(names)
    for name in names:
        stem = name.removesuffix("_hash").removesuffix("_size")
        wider |= {stem, f"{stem}_hash", f"{stem}_size", *_DERIVED.get(stem, ())}
    return (wider & fields.keys()) - list_permanent(fields)


def list_permanent(fields: Fields) -> frozenset[str]:
    """Return the members that no erasure takes from a line. `after` is the links of most lines, and
    the text of a file in one of a patch."""
    return _KEPT.get(str(fields.get("event")), KEPT)
