"""The lines of a patch by their digests: which a file got, lost and had around them (docs/format.md
§4). [pure]

    lines_of_patch(diff="@@ -1 +1 @@\\n-x\\n+y\\n")    # "-2d711642b7+a1fce4363d"

With these digests a record shows which lines of a file an invocation wrote, also where it holds the
text in part or not at all.

Ten digits are 40 bits: enough to tell the lines of a project apart, too few to be worth guessing a
long line from, and short enough that 1,000 lines stand in a record's line. Blanks at the end are
left out, because formatters and line-end conversions change these and not who wrote the line.
"""

from __future__ import annotations

from itertools import chain, groupby, islice, takewhile

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    _Hunk = list[tuple[str, str]]

KEPT, ADDED, REMOVED = "=", "+", "-"
_DIGITS = 10
# Longer patches are cut after a whole number of lines; what was cut is attributed to nobody.
MAX_LINES = 1000
_MAX_COMPARED = 25_000_000
_AROUND = 3
_MARKS = {" ": KEPT, "+": ADDED, "-": REMOVED}


class LineMark(NamedTuple):
    """One line of a patch: `=` was and is there, `+` came, `-` went; and its digest.

    `digest` is what `digest_line` returns: ten hex digits. Compare it with that of a line of a
    file.
    """

    mark: str
    digest: str


def digest_line(line: str) -> str:
    """Return the first 10 hex digits of the SHA-256 of a line without trailing blanks and line
    end."""
    return sha256(line.rstrip().encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def lines_of_patch(
    *,
    diff: str | None = None,
    before: str | None = None,
    after: str | None,
    created: bool = False,
) -> str | None:
    """Return the member `lines` of a `patch_apply`; None if the lines are not known.

    If `diff` is given it counts: a unified diff, or one without line numbers as models write them.
    Otherwise `before` and `after` are compared, unless the numbers of lines that differ,
    multiplied, exceed 25 million. `created` says that there was no file before. The form is that of
    docs/format.md §4: hunks separated by commas, at most 1,000 lines.
    """
    if diff is not None:
        hunks = _read_diff(diff)
    elif after is not None and (before is not None or created):
        hunks = _compare(before, after)
    else:
        return None
    return _spell(((mark, digest_line(text)) for mark, text in hunk) for hunk in hunks)


def lines_of_digests(before: list[str] | None, after: list[str]) -> str | None:
    """Return the member `lines` of a change, from the digests of a file's lines before and after.

    The digests are in the order of the lines; `before` is None for a new file. The result is None
    if nothing changed, or if the comparison would take too long.
    """
    if before is None:
        return _spell([[(ADDED, digest) for digest in after]])
    return _spell(_match_narrowed(before, after))


def _spell(hunks: Iterable[Iterable[tuple[str, str]]]) -> str | None:
    """Return hunks as the member `lines`, cut after 1,000 lines; None where no line is left."""
    room, lines = MAX_LINES, []
    for hunk in hunks:
        part = list(islice(hunk, room))
        lines.append("".join(f"{mark}{digest}" for mark, digest in part))
        room -= len(part)
        if room <= 0:
            break
    return ",".join(filter(None, lines)) or None


def read_lines_member(value: object) -> list[list[LineMark]]:
    """Return the hunks of a member `lines`; what is none of that form is left out.

    A value that is no text gives no hunks. A part of a mark at a hunk's end is dropped.
    """
    hunks = []
    for part in value.split(",") if isinstance(value, str) else []:
        size = _DIGITS + 1
        hunk = [
            LineMark(part[at], part[at + 1 : at + size])
            for at in range(0, len(part) - size + 1, size)
        ]
        if all(line.mark in (KEPT, ADDED, REMOVED) for line in hunk):
            hunks.append(hunk)
    return hunks


def is_cut(value: object) -> bool:
    """Return whether a member `lines` is as long as one can be: lines of its patch may be left
    out."""
    return isinstance(value, str) and len(value) - value.count(",") >= MAX_LINES * (_DIGITS + 1)


def _read_diff(diff: str) -> Iterator[_Hunk]:
    """Yield the hunks of a unified diff, or of one whose hunks state no numbers."""
    hunk: _Hunk = []
    numbered = "\n@@" in f"\n{diff}"
    inside = not numbered
    for line in diff.split("\n"):
        if numbered and line.startswith("@@"):
            yield _settle(hunk)
            hunk, inside = [], True
        elif (
            inside
            and line[:1] in _MARKS
            and not (not numbered and not hunk and line.startswith(("--- ", "+++ ")))
        ):
            hunk.append((_MARKS[line[:1]], line[1:]))
    yield _settle(hunk)


def _settle(hunk: _Hunk) -> _Hunk:
    """Return a hunk in which an unchanged line is not both removed and added, as it often is in a
    model's diff.

    Otherwise the line would be attributed to the invocation that merely repeated it.
    """
    settled = []
    for in_both, group in groupby(hunk, key=lambda line: line[0] == KEPT):
        change = list(group)
        old, new = ([text for mark, text in change if mark == side] for side in (REMOVED, ADDED))
        if in_both or set(old).isdisjoint(new) or len(old) * len(new) > _MAX_COMPARED:
            settled += change
            continue
        settled += [*chain.from_iterable(_match(old, new, len(new)))] or [
            (KEPT, text) for text in new
        ]
    return settled


def _compare(before: str | None, after: str) -> Iterator[_Hunk]:
    """Yield the changes between two texts, each with three lines around it; without a text before,
    all of it."""
    new = _split(after)
    if before is None:
        yield [(ADDED, line) for line in new]
        return
    yield from _match_narrowed(_split(before), new)


def _match_narrowed(old: list[str], new: list[str]) -> Iterator[_Hunk]:
    """Yield the changes between two lists of lines. If both together are too long, their common
    beginning and end are left out; if the rest is still too long, nothing is yielded."""
    if len(old) * len(new) > _MAX_COMPARED:
        begin = _count_equal(old, new)
        end = min(_count_equal(reversed(old), reversed(new)), min(len(old), len(new)) - begin)
        begin, end = max(0, begin - _AROUND), max(0, end - _AROUND)
        old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(old) * len(new) <= _MAX_COMPARED:
        yield from _match(old, new)


def _count_equal(old: Iterable[str], new: Iterable[str]) -> int:
    """Return how many lines two texts have in common before the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _match(old: list[str], new: list[str], around: int = _AROUND) -> Iterator[_Hunk]:
    """Yield the changes between two lists of lines, each with some lines around it."""
    # for texts of a program and diffs of a model: most edits come as exact diffs
    from difflib import SequenceMatcher

    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(around):
        hunk = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                hunk += [(KEPT, line) for line in new[j1:j2]]
            else:
                hunk += [(REMOVED, line) for line in old[i1:i2]] + [
                    (ADDED, line) for line in new[j1:j2]
                ]
        yield hunk


def _split(text: str) -> list[str]:
    """Return the lines of a text without their LF. A LF at the very end begins no further line."""
    return text.removesuffix("\n").split("\n") if text else []
