"""Edits of which a payload holds the pieces alone: their whole lines, and those around them, from
the file as the tool left it.

A hook loads this only for the result of such an edit.
"""

from __future__ import annotations

from difflib import unified_diff

from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.payload.site import Site, find_name
from specify_cli.features.hooks.payload.values import HookEvent, HookInput

MAX_FILE = 256 * 1024


def complete_diffs(call: HookInput, at: Site) -> HookInput:
    """Return a call whose edits state their places, where the file in the project shows them beyond
    doubt."""
    return call._replace(events=tuple(_complete(event, at) for event in call.events))


def _complete(event: HookEvent, at: Site) -> HookEvent:
    diff, path = event.payload.get("diff"), event.path
    if (
        event.event != "patch_apply"
        or event.payload.get("ok") is not True
        or not (isinstance(diff, str) and isinstance(path, str) and diff.startswith("@@"))
    ):
        return event
    name = find_name(at, path)
    if not name:
        return event
    try:
        data = durable.read_below(at.root, name, MAX_FILE)
        after = data.decode() if len(data) <= MAX_FILE else ""
    except (OSError, InvocationError, UnicodeDecodeError):
        return event
    before = undo_pieces(after, diff)
    if before is None:
        return event
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    lines = (f"{line}\n" for line in unified_diff(old, new, lineterm=""))
    return event._replace(payload={**event.payload, "diff": "".join(lines)})


def undo_pieces(after: str, diff: str) -> str | None:
    """Return the text before a diff whose hunks state no numbers; None where one of them fits in no
    place, or in two. [pure]"""
    text = after
    for hunk in reversed(f"\n{diff}".split("\n@@")[1:]):
        lines = [line for line in hunk.split("\n")[1:] if line]
        old = "\n".join(line[1:] for line in lines if line[0] in " -")
        new = "\n".join(line[1:] for line in lines if line[0] in " +")
        if not new.strip() or text.count(new) != 1:
            return None
        text = text.replace(new, old)
    return text
