"""Several changes of one file as one, as the page of a record joins them.  [pure]

    join_changes([first, second], read)    # ["@@ -1 +1 @@", "-a", "+c"], or None

`libraries/web/page.js` does the same in a browser, from lines that it has checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import unified_diff

from specify_cli.record.seal import Fields

Read = Callable[[object], str | None]

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
# Of a file that is not known whole, so many lines can lie before a change.
_MOST_UNKNOWN = 200_000


class _Line:
    """A line of a file: whether it was there before the first change, and is there now.

    A line that no change shows has None as its text.
    """

    def __init__(self, text: str | None, *, was: bool, is_now: bool) -> None:
        self.text, self.was, self.is_now = text, was, is_now


def join_changes(changes: Sequence[Fields], read: Read) -> list[str] | None:
    """Return the rows of one diff of all changes of a file; None if too little of it is kept.

    `changes` are the fields of its `patch_apply` lines in order. `read` returns a captured text if
    it is kept whole, otherwise None.
    """
    lines: list[_Line] = []
    is_whole = False
    for number, change in enumerate(changes):
        before, after, diff = (read(change.get(name)) for name in ("before", "after", "diff"))
        is_new = change.get("kind") == "create"
        if number == 0:
            is_whole = before is not None or (is_new and after is not None)
            rows = [] if before is None else before.split("\n")
            lines = [_Line(row, was=True, is_now=True) for row in rows]
            # What the work tree shows as new can have been moved there.
            marks = str(change.get("lines", ""))
            if is_new and change.get("witness") == "tree" and not re.fullmatch(r"(\+\w+)+", marks):
                return None
        if "mode" in change:
            continue
        if change.get("kind") == "delete":
            if not is_whole:
                return None
            lines = [line for line in lines if line.was]
            for line in lines:
                line.is_now = False
            continue
        rows = (diff or "").split("\n")
        if is_whole and after is not None:
            now = [line.text or "" for line in lines if line.is_now]
            rows = list(unified_diff(now, after.split("\n"), lineterm=""))
        if rows and not _apply_rows(lines, rows, is_whole=is_whole):
            return None
    return _list_rows(lines)


def _apply_rows(lines: list[_Line], rows: Sequence[str], *, is_whole: bool) -> bool:
    """Change lines by the rows of a unified diff; return whether it has hunks and all of it fits.

    Unless the lines are the whole file, those that no change shows are added as unknown ones.
    """
    at = -1

    def find_present(at: int) -> int:
        while at < len(lines) and not lines[at].is_now:
            at += 1
        if at == len(lines):
            if is_whole or at > _MOST_UNKNOWN:
                return -1
            lines.append(_Line(None, was=True, is_now=True))
        return at

    for row in rows:
        sign, text = row[:1], row[1:]
        if hunk := _HUNK.match(row):
            at = 0
            for _ in range(int(hunk[1]) - (hunk[2] != "0")):
                at = find_present(at) + 1
                if at == 0:
                    return False
        elif at >= 0 and sign == "+":
            lines.insert(at, _Line(text, was=False, is_now=True))
            at += 1
        elif at >= 0 and sign in ("-", " "):
            at = find_present(at)
            if at < 0:
                return False
            line = lines[at]
            line.text = text if line.text is None else line.text
            if line.text != text:
                return False
            line.is_now = sign == " "
            if line.is_now or line.was:
                at += 1
            else:
                del lines[at]
    return at >= 0


def _list_rows(lines: Sequence[_Line]) -> list[str]:
    """Return the changed lines as rows, each with three known ones around it."""
    # A line that is not known is the same before and after; no text has a NUL before its number.
    names = (f"\0{at}" if line.text is None else line.text for at, line in enumerate(lines))
    named = list(zip(names, lines, strict=True))
    before = [name for name, line in named if line.was]
    after = [name for name, line in named if line.is_now]
    rows = list(unified_diff(before, after, lineterm=""))[2:]
    # Of a file that came or went whole, what stands behind its last end of a line is no line.
    if rows and rows[-1] in ("+", "-") and all(row[:1] in ("@", rows[-1]) for row in rows):
        del rows[-1]
    return [row for row in rows if not row.startswith(" \0")]
