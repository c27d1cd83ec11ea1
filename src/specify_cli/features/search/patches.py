"""The patches of records, ready to be compared with many versions of a file. [pure]

patches = Patches(edits)
patches.list_rows(3)                  # where three lines with words stand in a row
patches.find_pairs(edit, one, two)    # where its invocation added two lines beside each other
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from specify_cli.features.search.edits import Edit, Order
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED, LineMark, digest_line

# Lines without a word, whose text is not known any more.
BARE = frozenset(
    digest_line(blank * depth + sign)
    for sign in ("", "}", ")", "]", "{", "};", "});")
    for blank in (" ", "\t")
    for depth in range(25)
)
# In so many files a line stands that tells of one of them, or of what it was before it was moved.
HARDLY = 3
# A line of a patch: the number of its hunk, and its number there.
_Place = tuple[int, int]


class Hunk(NamedTuple):
    """A hunk of an edit: its lines, and as it left the file.

    `changes` names of each line that came, and was moved from nowhere, the change it came in. Where
    that change took an equal line it was written anew: what a change keeps, a patch tells as kept;
    a digest sees no blanks behind it. `added` are the lines that the edit brought.
    """

    edit: Edit
    lines: Sequence[LineMark]
    digests: Sequence[str]  # of the lines that it left
    kept: Set[str]  # those of lines that the edit kept
    added: Set[int]
    changes: Mapping[int, int]
    anew: Set[int]


class AddedLine(NamedTuple):
    """A line that a patch added: the number of the hunk, and of the line in it."""

    hunk: int
    line: int


class Patches:
    """Edits in the order in which they were made, ready to be laid at any version of any file:
    their hunks, the newest first, and where in these lines stand."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self.edits = sorted(edits, key=lambda edit: edit.order)
        self.hunks = [hunk for edit in reversed(self.edits) for hunk in _find_hunks(edit)]
        self.orders = [hunk.edit.order for hunk in reversed(self.hunks)]
        self.cuts = [edit for edit in self.edits if edit.is_cut]
        self.of_path: dict[str, list[int]] = defaultdict(list)
        self._rows: dict[int, dict[tuple[str, ...], list[_Place]]] = {}
        self._between: dict[str, dict[tuple[str, str], list[tuple[Edit, int, int]]]] = {}
        self._pairs: dict[tuple[str, str], dict[tuple[str, str], list[AddedLine]]] = {}
        # What `laying` found at stretches of lines, by their content, for the hunks of one file.
        self.laid: dict[Set[int], dict[Any, Any]] = {}
        self.whole: dict[tuple[str, ...], list[_Place]] = defaultdict(list)
        self.added: dict[str, list[_Place]] = defaultdict(list)
        self.removed: dict[str, dict[str, list[Order]]] = {}
        for number, hunk in enumerate(self.hunks):
            self.of_path[hunk.edit.path].append(number)
            if len(hunk.edit.hunks) == 1 and hunk.digests:
                self.whole[tuple(hunk.digests)].append((number, 0))
            for place in sorted(hunk.added):
                self.added[hunk.digests[place]].append((number, place))
            for mark, digest in hunk.lines:
                if mark == REMOVED:
                    by_path = self.removed.setdefault(digest, {})
                    by_path.setdefault(hunk.edit.path, []).append(hunk.edit.order)

    @cached_property
    def times_added(self) -> Counter[tuple[tuple[str, str], str]]:
        """How often each invocation added a line to a file, by both and the line's digest."""
        return Counter(
            (self.hunks[number].edit.of_file, digest)
            for digest, places in self.added.items()
            for number, _ in places
        )

    @cached_property
    def rare(self) -> dict[str, tuple[str, ...]]:
        """The lines that hardly a file got, and which paths hold each as far as patches tell: a row
        without one, as of imports, may be anybody's."""
        rare: dict[str, tuple[str, ...]] = {
            digest: ()
            for digest, places in self.added.items()
            if len({self.hunks[number].edit.path for number, _ in places}) <= HARDLY
        }
        for path, lines in self.left.items():
            for digest in lines & rare.keys():
                rare[digest] += (path,)
        return rare

    @cached_property
    def left(self) -> dict[str, set[str]]:
        """The lines with words that the edits of each path left there, as far as they tell."""
        left: dict[str, set[str]] = defaultdict(set)
        for edit in self.edits:
            lines = [line for hunk in edit.hunks for line in hunk]
            gone = {line.digest for line in lines if line.mark == REMOVED}
            told = {line.digest for line in lines if line.mark != REMOVED}
            left[edit.path] = (left[edit.path] - gone | told) - BARE
        return left

    def list_rows(self, size: int) -> Mapping[tuple[str, ...], Sequence[_Place]]:
        """Return where rows of so many lines with words stand (`list_rows`)."""
        if size not in self._rows:
            rows = self._rows[size] = defaultdict(list)
            for number, hunk in enumerate(self.hunks):
                for row, place in list_rows(hunk.digests, size):
                    rows[row].append((number, place))
        return self._rows[size]

    def find_pairs(self, edit: Edit, one: str, two: str) -> Sequence[AddedLine]:
        """Return where the invocation of an edit added two lines beside each other to the same
        file, by the first of both."""
        if (one, two) not in self._pairs:
            pairs = self._pairs[one, two] = defaultdict(list)
            rare, step = min((one, 0), (two, 1), key=lambda line: len(self.added.get(line[0], ())))
            for number, place in self.added.get(rare, ()):
                hunk, at = self.hunks[number], place - step
                if {at, at + 1} <= hunk.added and hunk.digests[at : at + 2] == [one, two]:
                    pairs[hunk.edit.of_file].append(AddedLine(number, at))
        return self._pairs[one, two].get(edit.of_file, ())

    def find_between(self, before: str, line: str, after: str) -> Sequence[tuple[Edit, int, int]]:
        """Return the edits that added a line, or a row of equal ones, between two others
        (`list_between`), how many, and how many equal ones stood there before, the newest first.
        Each line's places are looked at once."""
        if line not in self._between:
            found = self._between[line] = defaultdict(list)
            seen = (-1, -1)  # the places up to here are of a row that was looked at
            for number, place in self.added.get(line, ()):
                if (number, place) < seen:
                    continue
                hunk = self.hunks[number]
                start, end = place, place + 1
                while start and hunk.digests[start - 1] == line:
                    start -= 1
                while end < len(hunk.digests) and hunk.digests[end] == line:
                    end += 1
                seen = number, end
                if start:
                    beyond = hunk.digests[end] if end < len(hunk.digests) else ""
                    new = len(hunk.added & {*range(start, end)})
                    found[hunk.digests[start - 1], beyond].append(
                        (hunk.edit, new, end - start - new)
                    )
        return self._between[line].get((before, after), ())


def list_rows(digests: Sequence[str], size: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Return each row of so many lines that may hold words, leaving out those between them that
    hold none, with the number of its first line."""
    places = [at for at, digest in enumerate(digests) if digest not in BARE]
    worded = [digests[at] for at in places]
    rows = zip(*(worded[start:] for start in range(size)), strict=False)
    return zip(rows, places, strict=False)


def list_between(digests: Sequence[str]) -> list[tuple[tuple[str, str, str], list[int]]]:
    """Return the rows of equal lines behind another line, with those around them: the three
    digests, empty beyond the end, and where the row stands."""
    rows = [[*group] for _, group in groupby(range(len(digests)), key=digests.__getitem__)]
    kinds = [*(digests[row[0]] for row in rows), ""]
    return [*zip(zip(kinds, kinds[1:], kinds[2:], strict=False), rows[1:], strict=True)]


def _find_hunks(edit: Edit) -> list[Hunk]:
    """Return the hunks of an edit. A line it took in one change and gave in another was moved: it
    is no new one."""
    used: dict[str, set[int]] = defaultdict(set)
    added: list[list[tuple[int, str, int]]] = []
    change = 0
    for hunk in edit.hunks:
        added.append([])
        place = 0
        for mark, digest in hunk:
            change += mark == KEPT
            if mark == REMOVED:
                used[digest].add(change)
            elif mark == ADDED:
                added[-1].append((place, digest, change))
            place += mark != REMOVED
        change += 1
    return [
        Hunk(
            edit,
            hunk,
            [line.digest for line in hunk if line.mark != REMOVED],
            {line.digest for line in hunk if line.mark == KEPT},
            {place for place, _, _ in came},
            {place: change for place, digest, change in came if not used[digest] - {change}},
            {place for place, digest, change in came if change in used[digest]},
        )
        for hunk, came in zip(edit.hunks, added, strict=True)
    ]
