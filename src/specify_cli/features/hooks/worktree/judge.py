"""Whose a change of a file is, and what it was.

    judge_change("a.py", moment, own, others, {"call_1": "own"}).whose     # "own"

What two could have done is claimed for neither.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.features.hooks.payload.calls import EDITING_TOOLS, PATCHING_TOOLS, WRITING_TOOLS
from specify_cli.record.reading.patch_lines import lines_of_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from specify_cli.features.hooks.worktree.known import File
    from specify_cli.invocation.ends.activity import Activity, Call

# The kinds of calls: what it changes is its own; git may bring what others wrote; it changes
# nothing itself, though others do while it runs; its payload holds what it changes.
OWN, BRINGS, WAITS, TELLS = "own", "brings", "waits", "tells"
_BRINGING = (
    r"\b(?:git|gh|jj|hg|svn)\b[^;|&\n]*\s(?:checkout|switch|restore|stash|merge|pull|rebase|"
    r"cherry-pick|revert|reset|am|apply|show|cat-file|read-tree|clone|submodule|worktree|up|update|"
    r"co|sw|cp|rb)\b"
)
# A command that appends to a record or closes it, and what would let it do more.
_ON_RECORDS, _JOINING = "spec-kitty profile-invocation ", (";", "&", "|", "\\n", "$(", "`")
_WAITING = ("agent", "task", "question", "ask_user", "plan", "fetch", "search", "skill", "todo")
EXECUTABLE = 0o100
# Of the words of arguments so many are looked at; these marks stand in none.
_MAX_WORDS, _MARKS = 1_000, dict.fromkeys(map(ord, "'\"`\\<>|;&()={}[],"), " ")
# Lines that came to a file and are as many as these prove no copy.
_FEW = 2
# A file system's clock is late by this much at most.
_TICK_MILLIS = 10


def judge_call(tool: str, args: object) -> str:
    """Return the kind of a call by its tool and arguments. [pure]"""
    word = tool.lower()
    if word in PATCHING_TOOLS | EDITING_TOOLS | WRITING_TOOLS:
        return TELLS
    if any(part in word for part in _WAITING):
        return WAITS
    try:
        spelled = str(args)
    except RecursionError:  # deeper than Python spells, so what it runs is not known
        return BRINGS
    if _ON_RECORDS in spelled and not any(mark in spelled for mark in _JOINING):
        return WAITS
    return BRINGS if re.search(_BRINGING, spelled) else OWN


def list_named(args: object, folder: str) -> set[str]:
    """Return what the first words of a call's arguments are as paths from a folder, whether
    something is there or not. [pure]"""
    words = str(args).replace("\\n", " ").translate(_MARKS).split()[:_MAX_WORDS]
    return {os.path.normpath(os.path.join(folder, word)) for word in words}


def _list_running(activity: Activity) -> list[Call]:
    """Return the calls that can have changed a file themselves: not one that waits for a subagent
    whose own calls are reported."""
    begun = [call.span.begin for call in activity.calls if call.agent is not None]
    return [
        call
        for call in activity.calls
        if not ("agent" in call.tool.lower() or call.tool.lower() == "task")
        or not any(call.span.holds(begin, 0) for begin in begun)
    ]


class ChangeOwner(NamedTuple):
    """Whose a change is: `own` of these calls, of an `edit`, of a `hand`, or `unsure`.

    `brings` says that one of the calls may have brought what others wrote, `is_named` that the
    record reports the change already, without its lines.
    """

    whose: str
    calls: tuple[Call, ...] = ()
    brings: bool = False
    is_named: bool = False


class Change(NamedTuple):
    """What a change was: its kind, the member `lines` where it is known, whether the mode is what
    changed."""

    kind: str
    lines: str | None
    is_mode: bool = False


def judge_change(
    path: str, moment: int, own: Activity, others: Iterable[Activity], calls: Mapping[str, str]
) -> ChangeOwner:
    """Return whose a change of a file at a moment (ms) is.

    `calls` are those that were seen to begin, with their kinds.
    """
    others = list(others)
    edits = own.edits.get(path, ())
    stated = [edit for edit in edits if edit.span.holds(moment, 0)]
    if any(edit.has_lines for edit in stated) or any(
        edit.span.holds(moment, 1) for other in others for edit in other.edits.get(path, ())
    ):
        return ChangeOwner("edit")
    named_edits = {edit.call_id for edit in stated}
    running = _list_running(own)
    # a call whose id is a stand-in has its number after it on the record
    kinds = {
        one.call_id: calls.get(one.call_id) or calls.get(one.call_id.partition("#")[0])
        for one in running
    }
    mine = tuple(
        call
        for call in running
        if call.span.begin - _TICK_MILLIS <= moment <= call.span.end
        and (call.call_id in named_edits or kinds[call.call_id] in (OWN, BRINGS))
    )
    theirs = [call for other in others for call in _list_running(other)]
    if mine and not any(call.span.holds(moment, _TICK_MILLIS) for call in theirs):
        brings = any(kinds[call.call_id] == BRINGS for call in mine)
        # What goes on in the background can have done it, too, so no call is named.
        behind = [one for one in running if one.call_id[:1] == "#" and one.span.holds(moment, 0)]
        return ChangeOwner("own", (*mine, *behind), brings, bool(stated))
    candidates = [*edits, *running, *theirs]
    return ChangeOwner("unsure" if any(item.span.holds(moment) for item in candidates) else "hand")


def describe_change(
    before: File,
    after: File | None,
    gone: Sequence[File],
    uses: Mapping[str, int],
    sources: Set[str],
) -> Change | None:
    """Return what a change was, `after` None for a file that is gone; None where nothing but its
    times changed.

    A new file can have been moved from one of those that are gone. Where half of its lines stand or
    stood in other files, which `uses` counts, it may be a copy, and they may be anybody's; so where
    half of what came, and more than a few lines, stands in `sources`.
    """
    if not after:
        return Change("delete", None)
    if before.changed and after.digest and before.digest == after.digest:
        is_mode = bool(before.mode) and bool((before.mode ^ after.mode) & EXECUTABLE)
        return Change("modify", None, is_mode) if is_mode else None
    source = None if before.changed else _find_source(after, gone)
    origin, lines = source or before, None
    old = origin.lines if origin.changed else None
    new = set(after.lines or ()) - set(old or ())
    copied = {line for line in new if line in sources or (uses[line] > 1 and not origin.changed)}
    is_copy = 2 * len(copied) > len(new) and len(copied) > (_FEW if origin.changed else 0)
    if after.lines is not None and origin.lines is not None and not is_copy:
        lines = lines_of_digests(old, after.lines)
    return Change("modify" if before.changed else "create", lines)


def count_uses(*files: Mapping[str, File]) -> Mapping[str, int]:
    """Return in how many of these files, by path, a line stands or stood."""
    lines_of: dict[str, set[str]] = {}
    for states in files:
        for path, file in states.items():
            lines_of.setdefault(path, set()).update(file.lines or ())
    return Counter(line for lines in lines_of.values() for line in lines)


def _find_source(after: File, gone: Sequence[File]) -> File | None:
    """Return the file among those that are gone which was moved to where this one is.

    Where one of them is not known, it may be that one: then so is the result.
    """
    if not gone or after.lines is None:
        return None
    new, best, most = set(after.lines), None, 0
    for file in gone:
        if file.lines is None:
            best = best or file
            continue
        old = set(file.lines)
        common = len(new & old)
        if 2 * common >= max(1, min(len(new), len(old))) and common > most:
            best, most = file, common
    return best
