"""Tell by whole versions of a file who made one of the other: a commit that holds nothing but what
an invocation's patches tell. [pure]

    find_makers(("one",), ("one", "two"), edits)    # the last edit of each that can have been it

A short line, a blank at a line's end or a line among equal ones says too little by its content
(`blame`). The file as a whole says more: where the patches of one invocation, taken back one
by one from the version of a commit, give the version before, nobody else changed it in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from specify_cli.features.search.blame import Came, Edit, list_digests
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED, LineMark, digest_line

# So many patches of one invocation are taken back, of so many the last can have come after the
# commit, and so many states of a file are looked at.
_MAX_EDITS = 40
_MAX_LATER = 8
_MAX_STATES = 16

_Digests = tuple[str, ...]
# A commit and the path that a file had in it; no commit stands for the work tree.
VersionName = tuple[str, str]


def find_in_versions(
    lines: Mapping[VersionName, Sequence[int]],
    texts: Mapping[VersionName, tuple[bytes | None, bytes | None]],
    came: Mapping[int, Came],
    patches: Sequence[Edit],
) -> dict[int, tuple[Edit, ...]]:
    """Return by their numbers who wrote lines that came with a version of a file: who made all that
    is new in it.

    `texts` are the version before and the version itself, None for one that is not there or cannot
    be read.
    """
    found: dict[int, tuple[Edit, ...]] = {}
    for name, numbers in lines.items():
        before, after = texts[name]
        until = max((came[at].committed for at in numbers if at in came), default="~")
        edits = [edit for edit in patches if edit.order[0] <= until]
        if after is not None:
            makers = find_makers(split_text(before or b""), split_text(after), edits)
            found |= dict.fromkeys(numbers, makers) if makers else {}
    return found


def split_text(data: bytes) -> tuple[str, ...]:
    """Return the lines of a file's bytes."""
    text = data.decode("utf-8", "surrogateescape")
    return tuple(text.removesuffix("\n").split("\n")) if text else ()


def find_makers(
    before: Sequence[str], after: Sequence[str], edits: Iterable[Edit]
) -> tuple[Edit, ...]:
    """Return the last edit of each invocation whose patches make the lines `before` those `after`.

    `edits` are those of the file that can have been committed with it.
    """
    by_invocation: dict[str, list[Edit]] = {}
    for edit in sorted(edits, key=lambda edit: edit.order):
        by_invocation.setdefault(edit.invocation_id, []).append(edit)
    old, new = (tuple(map(digest_line, lines)) for lines in (before, after))
    if old == new:  # blanks at the ends of lines alone
        left = list_digests(after)
        made = [
            [e for e in group if e.fields.get("after_hash") in left and _keeps_words(e)]
            for group in by_invocation.values()
        ]
        return tuple(group[-1] for group in made if group)
    makers = (_find_last(old, new, group[-_MAX_EDITS:]) for group in by_invocation.values())
    return tuple(edit for edit in makers if edit is not None)


def _keeps_words(edit: Edit) -> bool:
    """Return whether a patch changed blanks at the ends of lines alone."""
    marks = Counter(mark for hunk in edit.hunks for mark in hunk if mark.mark != KEPT)
    return all(
        marks[LineMark(ADDED, one.digest)] == marks[LineMark(REMOVED, one.digest)] for one in marks
    )


def _find_last(old: _Digests, new: _Digests, edits: Sequence[Edit]) -> Edit | None:
    """Return the last of the edits with which the old lines became the new ones."""
    for count in range(len(edits), max(0, len(edits) - _MAX_LATER), -1):
        states = {new}
        for edit in reversed(edits[:count]):
            taken = (state for one in states for state in _take_back(one, edit.hunks))
            states = set(islice(taken, _MAX_STATES))
            if old in states:
                return edits[count - 1]
    return None


def _take_back(lines: _Digests, hunks: Sequence[Sequence[LineMark]]) -> Iterator[_Digests]:
    """Yield what the lines can have been before a patch, by the places where its hunks fit."""
    if not hunks:
        yield lines
        return
    came = tuple(line.digest for line in hunks[0] if line.mark != REMOVED)
    went = tuple(line.digest for line in hunks[0] if line.mark != ADDED)
    for at in _find_places(lines, came):
        for rest in _take_back(lines[at + len(came) :], hunks[1:]):
            yield lines[:at] + went + rest


def _find_places(lines: _Digests, row: _Digests) -> Iterator[int]:
    """Yield where a row of lines stands; an empty one stands where there is no line."""
    if not row:
        yield from (() if lines else (0,))
        return
    at = -1
    for _ in range(lines.count(row[0])):
        at = lines.index(row[0], at + 1)
        if lines[at : at + len(row)] == row:
            yield at
