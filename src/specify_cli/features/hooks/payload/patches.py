"""The changes that file-editing tools made, as far as a payload says them.  [pure]

A hook loads this only for the result of such a tool.
"""

from __future__ import annotations

from specify_cli.features.hooks.payload.values import (
    MAX_PATH,
    HookEvent,
    Members,
    Payload,
    get_object,
    match_whole,
)

_KINDS = {"*** Add File: ": "create", "*** Update File: ": "modify", "*** Delete File: ": "delete"}
_MOVE = "*** Move to: "
# The first line of a diff whose hunks state no numbers.
UNNUMBERED = "@@\n"
_OLD = ("old_string", "old_str", "oldString")
_NEW = ("new_string", "new_str", "newString")
# What Gemini CLI and Qwen Code answer to the model first where there was no file before.
_NEW_FILE = ("Successfully created and wrote to new file", "Created new file")


def build_patches(result: HookEvent, changes: list[Members]) -> list[HookEvent]:
    """Return an event for each of these changes, made by the call with this result."""
    shared = {"ok": result.payload["status"] == "ok", "call_id": result.payload["call_id"]}
    if "agent" in result.payload:
        shared["agent"] = result.payload["agent"]
    return [
        HookEvent(
            "patch_apply",
            {**change, **shared},
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
    after: str | None,
    diff: str | None,
) -> Members:
    """Return the members of a change: its kind, and the texts and the diff that are known whole."""
    change: Members = {"kind": "create" if created else "modify"}
    if isinstance(before, str) and not created:
        change["before"] = before
    if after is not None:
        change["after"] = after
    if diff:
        change["diff"] = diff
    return change


def read_displayed_change(output: object, written: str | None) -> Members:
    """Return a change as Gemini CLI and Qwen Code show it to their user (`returnDisplay`).

    A new file has the mark `isNewFile`, null for its content before, or is called so.
    """
    display = get_object(output, "returnDisplay")
    before = display.get("originalContent", "")
    answer = match_whole(output, "llmContent") or ""
    return compose_change(
        created=display.get("isNewFile") is True
        or (before is None and written is not None)
        or (not before and answer.startswith(_NEW_FILE)),
        before=before if "originalContent" in display else None,
        after=match_whole(display, "newContent") if written is None else written,
        diff=match_whole(display, "fileDiff"),
    )


def spell_pieces(args: Payload) -> str | None:
    """Return the texts that an edit replaced, as a diff whose hunks state no numbers; None without
    any."""
    edits = args.get("edits")
    hunks = []
    for edit in edits if isinstance(edits, list) else [args]:
        if not isinstance(edit, dict):
            return None
        old, new = match_whole(edit, *_OLD), match_whole(edit, *_NEW)
        if old is None or new is None:
            return None
        hunks.append(UNNUMBERED + _mark_lines("-", old) + _mark_lines("+", new))
    return "".join(hunks) or None


def _mark_lines(mark: str, text: str) -> str:
    lines = text.removesuffix("\n").split("\n") if text else []
    return "".join(f"{mark}{line}\n" for line in lines)


def read_patch(args: object) -> list[Members]:
    """Return the change of each file that a patch in the form `*** Begin Patch` names, in its
    order.

    A new file comes whole, a changed one as a diff. One that is moved is deleted under its old
    path and created, with its diff, under the new one.
    """
    text = args
    if not isinstance(args, str):
        text = match_whole(args, "command", "input", "patch", "patchText")
    files = []
    current: Members | None = None
    is_whole, lines = False, []
    for line in [*(text.split("\n") if isinstance(text, str) else ()), "*** End Patch"]:
        if not line.startswith("*** ") or line == "*** End of File":
            lines.append(line)
            continue
        moved_to = line[len(_MOVE) :].strip()[:MAX_PATH] if line.startswith(_MOVE) else ""
        if moved_to and current is not None:
            current["kind"] = "delete"
            current = {"path": moved_to, "kind": "create"}
            files.append(current)
            continue
        if current is not None:
            current |= _read_whole(lines) if is_whole else _read_hunks(lines)
        current, lines = None, []
        for head, kind in _KINDS.items():
            path = line[len(head) :].strip()[:MAX_PATH]
            if line.startswith(head) and path:
                current, is_whole = {"path": path, "kind": kind}, kind == "create"
                files.append(current)
    return files


def _read_whole(lines: list[str]) -> Members:
    """Return the text of a new file, whose lines all have the mark of one that came."""
    added = [line[1:] for line in lines if line.startswith("+")]
    whole = len(added) == sum(map(bool, lines))
    return {"after": "".join(f"{line}\n" for line in added)} if whole else {}


def _read_hunks(lines: list[str]) -> Members:
    """Return the diff of a changed file.

    An empty line around the changes comes without its blank, and the first hunk without its mark.
    """
    hunks = [line or " " for line in "\n".join(lines).strip("\n").split("\n")]
    hunks = [line for line in hunks if line != "*** End of File"]
    if not any(line[:1] in ("+", "-") for line in hunks):
        return {}
    first = () if hunks[0].startswith("@@") else ("@@",)
    return {"diff": "\n".join([*first, *hunks, ""])}
