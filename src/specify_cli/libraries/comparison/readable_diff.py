"""Two texts as the lines by which they differ, short enough to be read at a terminal.  [pure]

show_difference("first\\ngreen\\nlast", "first\\nred\\nlast") # (" first", "-green", "+red", "
last")
"""

from __future__ import annotations

from difflib import unified_diff

_LINES, _WIDTH, _AROUND = 20, 160, 30
# So many lines of each text, from the first that differs on, are compared with each other.
_COMPARED = 200


def show_difference(old: str, new: str) -> tuple[str, ...]:
    """Return what of two texts differs: lines that went with `-`, lines that came with `+`, one
    line around them."""
    if old == new:
        return ()
    before, after = old.split("\n"), new.split("\n")
    start = max(_count_common(before, after) - 1, 0)
    before, after = before[start : start + _COMPARED], after[start : start + _COMPARED]
    # The first two lines name files.
    lines = [
        line
        for line in [*unified_diff(before, after, lineterm="", n=1)][2:]
        if not line.startswith("@@")
    ]
    went, came = (
        [at for at, line in enumerate(lines) if line.startswith(sign)] for sign in ("-", "+")
    )
    if len(went) == len(came) == 1:
        # One line that became another: each is cut to where they differ.
        old, new = lines[went[0]][1:], lines[came[0]][1:]
        is_long = max(len(old), len(new)) > _WIDTH
        start = max(_count_common(old, new) - _AROUND, 0) if is_long else 0
        lines[went[0]], lines[came[0]] = f"-{_cut(old, start)}", f"+{_cut(new, start)}"
    more = [f"… {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return (*(line[: _WIDTH + 3] for line in lines[:_LINES]), *more)


def _cut(text: str, start: int) -> str:
    end = start + _WIDTH
    return "…" * (start > 0) + text[start:end] + "…" * (len(text) > end)


def _count_common(one: str | list[str], two: str | list[str]) -> int:
    """Return how many items two sequences begin with alike."""
    shorter = min(len(one), len(two))
    return next((at for at in range(shorter) if one[at] != two[at]), shorter)
