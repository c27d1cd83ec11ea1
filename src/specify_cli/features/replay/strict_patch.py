"""A unified diff applied to a text, strictly: every line where the diff says it is, or not at all.
[pure]

Guarantees: the result is what the diff describes, byte for byte, or PatchError names the line of
the diff that does not fit. Nothing is searched for and no context is forgiven: this decides whether
a recorded change is reproduced.
"""

from __future__ import annotations

import re

# More digits number no line of any file, and Python refuses to read thousands of them as one
# number.
_HUNK = re.compile(r"@@ -([0-9]{1,18})(?:,([0-9]{1,18}))? \+([0-9]{1,18})(?:,([0-9]{1,18}))? @@")
_NO_NEWLINE = "\\"


class PatchError(ValueError):
    """A diff that does not fit its text; the message names the line of the diff."""


def apply_diff(before: str, diff: str) -> str:
    """Return the text a unified diff of one file makes of `before`. Raises PatchError."""
    lines, _ = _split_lines(diff)
    old, ended = _split_lines(before)
    out = []
    copied = at = files = hunks = 0
    marked_old = marked_new = False
    while at < len(lines):
        match = _HUNK.match(lines[at])
        if not match:
            files += _begins_file(lines, at)
            if files > 1:
                raise PatchError(
                    f"line {at + 1}: a second file begins; expected the diff of one file"
                )
            at += 1
            continue
        hunks += 1
        start, size = int(match[1]), int(match[2] or "1")
        expected = left = size, int(match[4] or "1")
        # A hunk that takes no line stands after line `start`, any other begins with it.
        begin = start if size == 0 else start - 1
        if not copied <= begin <= len(old):
            why = f"the hunk begins at line {start}, the text has {len(old)} lines"
            raise PatchError(f"line {at + 1}: {why}")
        out += old[copied:begin]
        copied = begin
        at += 1
        while at < len(lines) and left != (0, 0):
            kind, text = (lines[at][:1] or " "), lines[at][1:]
            if kind == _NO_NEWLINE:
                at += 1
                continue
            if kind not in " +-":
                break
            if kind != "+":
                _check_line(text, old, copied, at)
                copied += 1
            if kind != "-":
                out.append(text)
            left = (left[0] - (kind != "+"), left[1] - (kind != "-"))
            at += 1
            if at < len(lines) and lines[at].startswith(_NO_NEWLINE):
                marked_old |= kind != "+"
                marked_new |= kind != "-"
                at += 1
        if left != (0, 0):
            raise PatchError(
                f"line {at + 1}: the hunk says {expected[0]} and {expected[1]} lines and has others"
            )
    if not hunks:
        raise PatchError("it holds no hunk")
    if marked_old and (copied != len(old) or ended):
        raise PatchError("it says that the text ends without a line feed, and it does not")
    rest = old[copied:]
    # Where no line of the end is touched, or a writer left the mark out, the end stays as it was.
    ended_after = not marked_new if not rest and (marked_old or marked_new) else ended or not before
    text = "\n".join([*out, *rest])
    return text + "\n" if ended_after and (out or rest) else text


def _begins_file(lines: list[str], at: int) -> bool:
    """Return whether the two lines that name a file stand here."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _check_line(text: str, old: list[str], copied: int, at: int) -> None:
    """Raise PatchError where the next line of the old text is not what line `at` of the diff
    says."""
    if copied >= len(old) or old[copied] != text:
        found_there = repr(old[copied]) if copied < len(old) else "the end"
        raise PatchError(
            f"line {at + 1}: expected {text!r} at line {copied + 1}, found {found_there}"
        )


def _split_lines(text: str) -> tuple[list[str], bool]:
    """Return the lines of a text without their line feeds, and whether the last one has its own."""
    lines = text.split("\n")
    if lines[-1]:
        return lines, False
    return lines[:-1], True
