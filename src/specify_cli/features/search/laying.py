"""Lay the patches of records at a file, and at what stood there before later ones. [pure]

    claims = lay_patches(Patches(edits), lines, list(map(digest_line, lines)), {"src/login.py"})
    [claim.edit.invocation_id for claim in claims[11]]    # who may have written line 12

Patches are made ready once for all versions of a file. A run of lines is looked at only where three
lines with words in a row stand in it as in the patch, since fewer tell nothing, or one that stands
nowhere else in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from specify_cli.features.search.edits import Edit, Order, keep_answers
from specify_cli.features.search.patches import BARE, Hunk, Patches, list_rows
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED

# How many lines with words must agree in a row, in a file of another name too, where three or four
# are often written alike; and how much text one line alone must have.
_ENOUGH = 3
_ELSEWHERE = 4
_DISTINCT = 12
# How far from a line the rest of its hunk may stand, beyond the hunk's own length.
_NEAR = 20
# How many lines of a hunk may be gone between two that stand beside each other now.
_SOON = 6
# A line that stands so often in a file tells nothing about a place.
COMMON = 64
# How many stretches of lines are looked at, and how much of what stands around a patch belongs to
# each.
_MAX_VIEWS = 400
_AROUND = 8
# What was found at a stretch is kept for other versions of the file unless its lines, the claims to
# them and the hunks laid there are more than this together: that is rare, and takes much memory.
_MAX_KEPT = 200
_WORD = re.compile(r"\w")
_count_words = keep_answers(lambda line: len(_WORD.findall(line)))
_NOW = ("~", 0)  # after every time of RFC 3339


class Claim(NamedTuple):
    """An edit's claim to a line: how many lines with words agree around it, and whether it can have
    been there before.

    An edit that wrote a line anew may have been taken back: then who wrote the line before it wrote
    it.
    """

    score: int
    edit: Edit
    sure: bool


# The claims to the lines of a stretch, by their numbers in it.
_Claims = list[tuple[int, Claim]]


class _View:
    """A stretch of lines that patches are laid at: the file, or what stood there before a later
    patch.

    Of each line it has the digest, how many words it holds, and the file's line behind it, -1 for
    one that is gone. Only edits before `until` can have left it; `is_whole` where it is all of the
    file.
    """

    def __init__(
        self, lines: Iterable[tuple[str, int, int]], until: Order, *, is_whole: bool
    ) -> None:
        self.lines = list(lines)
        self.digests = [digest for digest, _, _ in self.lines]
        self.words = [words for _, words, _ in self.lines]
        # how many lines before each hold enough words
        self.told = [0, *accumulate(words >= _ENOUGH for words in self.words)]
        self.at = [at for _, _, at in self.lines]
        self.until = until
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, digest in enumerate(self.digests):
            self.places[digest].append(place)
        self.is_file, self.is_whole = until == _NOW, is_whole

    def is_alone(self, at: int) -> bool:
        """Return whether a line stands nowhere else in the file, and holds enough text to tell."""
        is_one = self.is_file and len(self.places[self.digests[at]]) == 1
        return is_one and self.words[at] >= _DISTINCT


class _Laid(NamedTuple):
    """A hunk at a view: the first and the last of its lines that are there, and how far away."""

    hunk: Hunk
    first: int
    last: int
    shift: int


def lay_patches(
    patches: Patches, lines: Sequence[str], digests: Sequence[str], names: Set[str]
) -> list[list[Claim]]:
    """Return for each line of a file the claims of the patches that are laid at it, and at what
    stood there before others; `digests` are those of the lines, and `names` those of the file."""
    words = map(_count_words, lines)
    view = _View(zip(digests, words, range(len(lines)), strict=True), _NOW, is_whole=True)
    own = frozenset(number for name in names for number in patches.of_path.get(name, ()))
    claims: list[list[Claim]] = [[] for _ in lines]
    laid: list[tuple[_Laid, _View]] = []
    # Versions of a file have most of their views in common, so what was found in them is kept for
    # the next version; it begins anew where that would take ever more memory.
    kept = patches.laid.get(own, {})
    if len(kept) > _MAX_VIEWS:
        kept = {}
    patches.laid = {own: kept}
    for number in range(_MAX_VIEWS):
        content: Any = None
        if len(view.lines) <= _MAX_KEPT:
            in_file = (at >= 0 for at in view.at)
            content = view.until, view.is_whole, *view.digests, *view.words, *in_file
        if (told := kept.get(content)) is None:
            found: _Claims = []
            told = found, [*_lay_hunks(patches, own, view, found)]
            if len(view.lines) + len(found) + len(told[1]) <= _MAX_KEPT:
                kept[content] = told
        found, hunks = told
        for place, claim in found:
            claims[view.at[place]].append(claim)
        laid += [(hunk, view) for hunk in hunks]
        if number == len(laid):
            break
        view = _undo(*laid[number])
    return claims


def _lay_hunks(patches: Patches, own: Set[int], view: _View, claims: _Claims) -> Iterator[_Laid]:
    """Lay hunks, the newest first, at a view; yield where what stood before is looked for. `own`
    are the numbers of those of this file.

    Where a hunk meets a newer one that is there whole, what stood there before it is looked for in
    what stood before the newer one. To look here too would double the views with each edit.
    """
    covered: dict[int, Order] = {}
    places = sorted(_find_places(patches, view, own))
    for number, group in groupby(places, key=itemgetter(0)):
        hunk = patches.hunks[number]
        order = hunk.edit.order
        starts = ((start, at) for _, start, alike in group for at in alike)
        rare = None if number in own else patches.rare.keys()
        for first, last, shift in _claim_lines(hunk, starts, rare, view, claims):
            beside = range(first + shift - 1, last + shift + 2)
            if any(covered.get(at, order) != order for at in beside):
                continue
            if last - first + 1 == len(hunk.digests):
                covered.update(dict.fromkeys(beside[1:-1], order))
            yield _Laid(hunk, first, last, shift)


def _find_places(
    patches: Patches, view: _View, own: Set[int]
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield where hunks that are old enough may be laid at a view: the number of the hunk, a line
    of it, and the lines of the view that are alike. What this leaves out tells nothing."""
    # The hunks of the edits that came before, in `hunks`.
    first = len(patches.hunks) - bisect_left(patches.orders, view.until)
    rare = (patches.added[digest] for digest in patches.rare.keys() & view.digests)
    every = own | {number for places in rare for number, _ in places}
    asked = {number for number in every if number >= first}
    at_rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    size = min(_ENOUGH, sum(digest not in BARE for digest in view.digests))
    for row, at in list_rows(view.digests, size) if size > 1 else ():
        at_rows[row].append(at)
    rows = patches.list_rows(size) if at_rows else {}
    for row in rows.keys() & at_rows.keys():
        if len(at_rows[row]) <= COMMON:
            yield from [(*place, at_rows[row]) for place in _select(rows[row], asked)]
    if view.is_whole:
        whole = patches.whole.get(tuple(view.digests), [])
        yield from [(*place, [0]) for place in _select(whole, asked)]
    for at, digest in enumerate(view.digests if view.is_file else ()):
        if digest in patches.added and view.is_alone(at):
            yield from [(*place, [at]) for place in _select(patches.added[digest], own)]


def _select(places: Sequence[tuple[int, int]], numbers: Set[int]) -> Iterator[tuple[int, int]]:
    """Yield the places in hunks of these numbers. What stands in each of many files is asked for
    with each, so that not all of its places are looked at."""
    if len(places) <= len(numbers):
        yield from [place for place in places if place[0] in numbers]
        return
    for number in numbers:
        yield from places[bisect_left(places, (number,)) : bisect_left(places, (number + 1,))]


def _claim_lines(
    hunk: Hunk,
    starts: Iterable[tuple[int, int]],
    rare: Set[str] | None,
    view: _View,
    claims: _Claims,
) -> Iterator[tuple[int, int, int]]:
    """Claim every line at which this hunk, as it left the file, can be laid; yield the first and
    the last of its lines that are there, and how far away, where enough of them are.

    `starts` are lines of the hunk, with lines of the view that are alike. A hunk of another file
    needs one of the `rare` lines; for one of this file they are None."""
    named = rare is None
    ends: dict[int, int] = {}  # of the last run that lies so far away, its last line
    told, size = view.told, len(view.digests)
    brings = view.is_file and bool(hunk.added)
    for start, at in starts:
        shift = at - start
        if ends.get(shift, -1) >= start:
            continue
        first, last = _extend(hunk.digests, view.digests, start, at)
        ends[shift] = last
        score = told[last + shift + 1] - told[first + shift]
        run = range(first, last + 1)
        is_whole = len(run) == size
        is_all = named and is_whole
        is_told = score >= (_ENOUGH if named or is_whole else _ELSEWHERE) or (is_all and score > 1)
        # A file that is as one patch made it, however short, is from that.
        is_made = is_all and view.is_whole and _makes_all(hunk, len(run))
        if not (is_told or is_made or (score and named and view.is_file)):
            continue
        # Lines that all stand in many places lead to none, and kept ones to no new line.
        if not any(
            len(view.places[hunk.digests[place]]) <= COMMON
            for place in run
            if place in hunk.added or not brings
        ):
            continue
        if rare is not None and rare.isdisjoint(
            hunk.digests[place] for place in run if place in hunk.added
        ):
            continue
        for place, sure in _find_new(hunk, run, shift, view):
            alone = view.is_alone(place + shift) and hunk.digests[place] not in hunk.kept
            edge = (place == first and not _goes_on(hunk, view, place, shift, -1)) or (
                place == last and not _goes_on(hunk, view, place, shift, 1)
            )
            if edge and not alone:
                # beyond it the file goes on otherwise: it may be the first line of something
                # else
                continue
            if is_told or is_made or (named and alone and _is_near(hunk, view, place + shift)):
                claims.append((place + shift, Claim(score, hunk.edit, sure)))
        if is_told:
            yield first, last, shift


def _makes_all(hunk: Hunk, length: int) -> bool:
    """Return whether a hunk of this many lines is all that its edit did, and all of it came."""
    return (
        len(hunk.edit.hunks) == 1
        and len(hunk.lines) == length
        and all(line.mark == ADDED for line in hunk.lines)
    )


def _find_new(hunk: Hunk, run: Sequence[int], shift: int, view: _View) -> list[tuple[int, bool]]:
    """Return the lines of a run that came with the edit, for each line of the file, and whether
    that is sure.

    One that was written anew stood there before too: something else that came in its change must
    stand there as well.
    """
    came = [place for place in run if place in hunk.changes and view.at[place + shift] >= 0]
    new = {
        hunk.changes[place]
        for place in came
        if place not in hunk.anew and view.words[place + shift] >= _ENOUGH
    }
    return [(place, place not in hunk.anew or hunk.changes[place] in new) for place in came]


def _is_near(hunk: Hunk, view: _View, at: int) -> bool:
    """Return whether half of a hunk stands near a line of the file: what has gone as a whole gives
    it nothing."""
    reach = len(hunk.digests) + _NEAR
    near = {*view.digests[max(0, at - reach) : at + reach + 1]}
    return 2 * sum(map(near.__contains__, hunk.digests)) >= len(hunk.digests)


def _goes_on(hunk: Hunk, view: _View, place: int, shift: int, step: int) -> bool:
    """Return whether the file ends beside a line, or goes on as the hunk does a little later: lines
    between went."""
    at = place + shift + step
    after = hunk.digests
    coming = (
        after[place + 1 : place + 1 + _SOON]
        if step > 0
        else after[max(0, place - _SOON) : place][::-1]
    )
    if coming[:1] == [after[place]]:
        return False  # of two equal lines in a row the other one may be here
    if not 0 <= at < len(view.digests):
        return True
    gone = coming[: coming.index(view.digests[at])] if view.digests[at] in coming else None
    return view.words[at] >= _ENOUGH and gone is not None and after[place] not in gone


def _extend(after: Sequence[str], digests: Sequence[str], start: int, at: int) -> tuple[int, int]:
    """Return the first and last line of the hunk that agree with the file around one that does."""
    first = last = start
    shift = at - start
    while first and first + shift and after[first - 1] == digests[first - 1 + shift]:
        first -= 1
    end = min(len(after), len(digests) - shift) - 1
    while last < end and after[last + 1] == digests[last + 1 + shift]:
        last += 1
    return first, last


def _undo(laid: _Laid, view: _View) -> _View:
    """Return the lines around a laid hunk as they were before it."""
    hunk, first, last, shift = laid
    begin, end = first + shift, last + shift + 1
    lines = view.lines[max(0, begin - _AROUND) : begin]
    # A line that went and came again in one patch was moved: what stood there before is the same
    # line of the file.
    came = {
        hunk.digests[place]: view.at[place + shift]
        for place in range(first, last + 1)
        if place in hunk.added and view.words[place + shift] >= _DISTINCT
    }
    number = -1
    for mark, digest in hunk.lines:
        number += mark != REMOVED
        if mark == REMOVED:
            if first - 1 <= number <= last:
                lines.append((digest, 0 if digest in BARE else _ENOUGH, came.pop(digest, -1)))
        elif mark == KEPT and first <= number <= last:
            lines.append((digest, *view.lines[number + shift][1:]))
    is_whole = view.is_whole and begin == 0 and end == len(view.lines)
    lines += view.lines[end : end + _AROUND]
    return _View(lines, hunk.edit.order, is_whole=is_whole)
