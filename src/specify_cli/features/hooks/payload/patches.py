"""The changes that file-editing tools made, as far as a payload says them.  [pure]

A hook loads this only for the result of such a tool.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.values import (
    MAX_PATH,
    HookEvent,
    add_agent,
    get_object,
    match_whole,
)

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.values import Payload

_KINDS = {"*** Add File: ": "create", "*** Update File: ": "modify", "*** Delete File: ": "delete"}


def build_patches(result: HookEvent, changes: list[dict[str, object]]) -> list[HookEvent]:
    """Return an event for each of these changes, made by the call with this result."""
    agent = result.payload.get("agent")
    shared = {"ok": result.payload["status"] == "ok", "call_id": result.payload["call_id"]}
    return [
        HookEvent(
            "patch_apply",
            add_agent({**change, **shared}, agent if isinstance(agent, str) else None),
            "other",
            result.call_id if len(changes) == 1 else f"{result.call_id}#{place}",
        )
        for place, change in enumerate(changes)
    ]


def read_written_text(args: Payload) -> str | None:
    """Return the whole text that a tool wrote to its file."""
    return match_whole(args, "content", "file_text", "CodeContent")


def compose_change(
    *,
    created: bool = False,
    before: object = None,
    after: str | None = None,
    diff: str | None = None,
) -> dict[str, object]:
    """Return the members of a change: its kind, and the texts and the diff that are known whole."""
    change: dict[str, object] = {"kind": "create" if created else "modify"}
    if isinstance(before, str) and not created:
        change["before"] = before
    if after is not None:
        change["after"] = after
    if diff:
        change["diff"] = diff
    return change


def read_displayed_change(output: object, written: str | None) -> dict[str, object]:
    """Return a change as Gemini CLI and Qwen Code show it to their user (`returnDisplay`).

    A new file has the mark `isNewFile`, or null for its content before.
    """
    display = get_object(output, "returnDisplay")
    before = display.get("originalContent", "")
    return compose_change(
        created=display.get("isNewFile") is True or (before is None and written is not None),
        before=before if "originalContent" in display else None,
        after=match_whole(display, "newContent") if written is None else written,
        diff=match_whole(display, "fileDiff"),
    )


def read_patch(args: object) -> list[dict[str, object]]:
    """Return path and kind of each file that a patch in the form `*** Begin Patch` names, in its
    order."""
    text = args
    if isinstance(args, dict):
        text = match_whole(args, "command", "input", "patch", "patchText")
    files: list[dict[str, object]] = []
    for line in text.split("\n") if isinstance(text, str) else ():
        if line.startswith("*** "):
            for head, kind in _KINDS.items():
                path = line[len(head) :].strip()[:MAX_PATH]
                if line.startswith(head) and path:
                    files.append({"path": path, "kind": kind})
    return files
