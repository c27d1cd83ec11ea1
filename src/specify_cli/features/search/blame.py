"""Who wrote the lines of a file, told by content: the digests that records keep of what each patch
added. [pure]

    for line, writers in zip(lines, find_writers(lines, Names({path}), edits)):
        print([edit.invocation_id for edit in writers] or "unknown", line)

No commit is looked at, so an attribution survives amend, rebase, squash and cherry-pick. A line is
given to an edit only where the lines around it agree too; where two invocations could have written
it, both are named.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from hashlib import sha256
from itertools import accumulate, groupby
from typing import NamedTuple

from specify_cli.record.ids import rfc3339
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED, LineMark, digest_line

# How many lines with words must agree in a row, and how much text one line alone must have.
_ENOUGH = 3
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
_WORD = re.compile(r"\w")
_TIMES = re.compile(rb"^(?:author|committer)-time ([0-9]+)$", re.M)
# How git is asked who wrote a line: no list of a user, or of a branch, leaves out commits.
BLAME = ("blame", "--line-porcelain", "--no-textconv", "--ignore-revs-file=")
# What that tells of a line: its commit, its number there and at the end,
# and its path there.
_BLAMED = re.compile(
    rb"^([0-9a-f]{40,64}) ([0-9]+) ([0-9]+)(?: [0-9]+)?$.*?^filename (.+?)$", re.M | re.S
)
# Lines without a word, whose text is not known any more.
_BARE = frozenset(
    digest_line(blank * depth + sign)
    for sign in ("", "}", ")", "]", "{", "};", "});")
    for blank in (" ", "\t")
    for depth in range(25)
)


# When a patch was made: the invocation's time, and the line's number in it.
Order = tuple[str, int]
# When each line was taken away, and from which file.
Removals = Mapping[str, list[tuple[Order, str]]]


def list_digests(lines: Iterable[str]) -> Set[str]:
    """Return what `after_hash` of a patch is where it left these lines, with a line end behind the
    last one or without."""
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    return {sha256(data).hexdigest() for data in (text + b"\n", text)}


class Edit(NamedTuple):
    """One patch of a record. `order` is when it was made: the invocation's time and the line's
    number in it. `fields` are the whole line of the record, where it is read for more. `is_cut`:
    the record may not keep all lines of the patch."""

    invocation_id: str
    seq: int
    order: Order
    path: str
    hunks: Sequence[Sequence[LineMark]]
    fields: Mapping[str, object] = {}
    is_cut: bool = False

    @property
    def after_hash(self) -> str:
        """The digest of the text that it left, as `list_digests` returns them; the empty text where
        the record keeps none."""
        return str(self.fields.get("after_hash") or "")

    def restore(self, versions: Iterable[Sequence[str]]) -> Edit:
        """Return the edit with all its lines, where it was cut, made a file, and left one of these
        versions of it: the digest of the text it left is kept."""
        if self.is_cut and self.fields.get("kind") == "create":
            for lines in versions:
                if self.after_hash in list_digests(lines):
                    hunks = [[LineMark(ADDED, digest_line(line)) for line in lines]]
                    return self._replace(hunks=hunks, is_cut=False)
        return self


# Who wrote lines, by their numbers.
EditsByLine = dict[int, tuple[Edit, ...]]


class Came(NamedTuple):
    """When a line came to a file, in RFC 3339: its author's time, which a rebase keeps, and that
    of the commit."""

    written: str
    committed: str = "~"  # after every time


class Names(NamedTuple):
    """The paths of a file: its own, and those of files that are gone, which it may have been."""

    own: Set[str]
    earlier: Set[str] = frozenset()

    @property
    def every(self) -> Set[str]:
        return self.own | self.earlier

    def allow(self, edit: Edit, came: Came | None) -> bool:
        """Return whether an edit can have written a line that came to the file at this time.

        An amended commit keeps the time of its author, and holds later edits of the file.
        """
        if not came:
            return True
        return edit.order[0] <= (came.committed if edit.path in self.own else came.written)


class _Claim(NamedTuple):
    """An edit's claim to a line: how many lines with words agree around it, and whether it can have
    been there before.

    An edit that wrote a line anew may have been taken back: then who wrote the line before it wrote
    it.
    """

    score: int
    edit: Edit
    sure: bool


class _Hunk(NamedTuple):
    """A hunk of an edit: its lines, and as it left the file.

    `changes` names of each line that came, and was moved from nowhere, the change it came in. Where
    that change took an equal line it was written anew: what a change keeps, a patch tells as kept;
    a digest sees no blanks behind it.
    """

    edit: Edit
    lines: Sequence[LineMark]
    after: Sequence[LineMark]
    digests: Sequence[str]  # of `after`
    kept: Set[str]  # those of lines that the edit kept
    changes: Mapping[int, int]
    anew: Set[int]


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


class _Laid(NamedTuple):
    """A hunk at a view: the first and the last of its lines that are there, and how far away."""

    hunk: _Hunk
    first: int
    last: int
    shift: int
    view: _View


_NOW = ("~", 0)  # after every time of RFC 3339


def list_times(blamed: bytes) -> list[Came]:
    """Return when each line came, from what `git blame --line-porcelain` prints: up to the end of
    these seconds."""
    times = [rfc3339(int(seconds) * 1000 + 999) for seconds in _TIMES.findall(blamed)]
    return [*map(Came, times[::2], times[1::2])]


def read_blame(blamed: bytes) -> dict[int, tuple[str, str, int]]:
    """Return from the same in which commit each line came, by its number, and its path and number
    there; no commit has only zeros."""
    return {
        int(now) - 1: (sha.decode(), path.decode("utf-8", "surrogateescape"), int(then) - 1)
        for sha, then, now, path in _BLAMED.findall(blamed)
    }


def find_writers(
    lines: Sequence[str],
    named: Names,
    edits: Iterable[Edit],
    came: Mapping[int, Came] = {},
    changed: Iterable[int] | None = None,
) -> list[tuple[Edit, ...]]:
    """Return for each line of a file the edits that may have written it, one of each invocation;
    none where no record tells.

    In a file of another name only lines that agree with many around them are from an edit, and
    none that `came` before, by its number: such an edit copied it. `changed` are the lines that
    are asked for, where that is not all.
    """
    names = named.every
    digests = [digest_line(line) for line in lines]
    whole = ((digests[at], len(_WORD.findall(line)), at) for at, line in enumerate(lines))
    claims: list[list[_Claim]] = [[] for _ in lines]
    ordered = sorted(edits, key=lambda edit: edit.order)
    hunks = [hunk for edit in reversed(ordered) for hunk in _find_hunks(edit)]
    holders: dict[str, list[int]] = defaultdict(list)
    for number, hunk in enumerate(hunks):
        for digest in {line.digest for line in hunk.after}:
            holders[digest].append(number)
    view, laid = _View(whole, _NOW, is_whole=True), list[_Laid]()
    for number in range(_MAX_VIEWS):
        # Before a later patch, a hunk without a line of words in common has nothing to tell.
        meeting = {
            one
            for digest, words, _ in view.lines
            if words >= _ENOUGH or view.is_whole
            for one in holders.get(digest, ())
        }
        laid += _lay_hunks([hunks[one] for one in sorted(meeting)], names, view, claims)
        if number == len(laid):
            break
        view = _undo(laid[number])
    removed = _find_removals(ordered)
    writers = [
        _choose([one for one in claims[at] if named.allow(one.edit, came.get(at))], digest, removed)
        for at, digest in enumerate(digests)
    ]
    _drop_equal(writers, digests)
    sought = set(range(len(lines)) if changed is None else changed)
    _match_between(lines, digests, named, ordered, came, sought, writers)
    for cut in ordered:
        if cut.is_cut and cut.path in names:
            writers = [
                () if any(_may_have_come_with(cut, edit, names) for edit in edits) else edits
                for edits in writers
            ]
    return writers


def _may_have_come_with(cut: Edit, edit: Edit, names: Set[str]) -> bool:
    """Return whether a line that another invocation wrote, in another file or before this patch
    made the file, may have come again with it: a record does not keep all of its lines."""
    is_made = cut.fields.get("kind") == "create"
    is_before = edit.path not in names or (is_made and edit.order < cut.order)
    return is_before and edit.invocation_id != cut.invocation_id


def _match_between(
    lines: Sequence[str],
    digests: Sequence[str],
    named: Names,
    edits: Iterable[Edit],
    came: Mapping[int, Came],
    changed: Collection[int],
    writers: list[tuple[Edit, ...]],
) -> None:
    """Give a line to the invocations that added it between the two lines that stand around it,
    where nothing like that stands anywhere else in the file. Equal lines in a row stand in one
    place: git and a patch can differ in which of them came, and not in how many."""
    added: dict[tuple[str, ...], list[Edit]] = defaultdict(list)
    sizes: Counter[tuple[str, ...]] = Counter()
    for edit in edits:
        for hunk in edit.hunks if edit.path in named.every else ():
            after = [line for line in hunk if line.mark != REMOVED]
            for key, row in _list_places([line.digest for line in after]):
                if new := sum(after[at].mark == ADDED for at in row):
                    added[key].append(edit)
                    sizes[key] += new
    places = _list_places(digests)
    often = Counter(key for key, _ in places)
    for key, row in places:
        given = sum(bool(writers[at]) for at in row)
        left = [at for at in row if at in changed and not writers[at] and lines[at].strip()]
        by = added.get(key, ())
        is_told = often[key] == 1 and len(left) + given <= sizes[key]
        if is_told and all(named.allow(edit, came.get(at)) for edit in by for at in left):
            last = _keep_last(by)
            for at in left:
                writers[at] = last


def _list_places(digests: Sequence[str]) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return the rows of equal lines with those around them: the three digests, empty beyond the
    end, and where the row stands."""
    rows = [[*group] for _, group in groupby(range(len(digests)), key=digests.__getitem__)]
    rows.append([])
    return [
        (tuple(digests[row[0]] if row else "" for row in three), three[1])
        for three in zip(rows, rows[1:], rows[2:], strict=False)
    ]


def _drop_equal(writers: list[tuple[Edit, ...]], digests: Sequence[str]) -> None:
    """Take the edits from equal lines in a row, unless they wrote those around too: nothing tells
    which of them came."""
    before = [tuple(edit.invocation_id for edit in edits) for edits in writers]
    for _, group in groupby(range(len(digests)), key=digests.__getitem__):
        equal = list(group)
        around = before[max(0, equal[0] - 1) : equal[-1] + 2]
        if len(equal) > 1 and len(set(around)) > 1:
            for at in equal:
                writers[at] = ()


def _find_hunks(edit: Edit) -> list[_Hunk]:
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
    left = [[line for line in hunk if line.mark != REMOVED] for hunk in edit.hunks]
    return [
        _Hunk(
            edit,
            hunk,
            after,
            [line.digest for line in after],
            {line.digest for line in after if line.mark == KEPT},
            {place: change for place, digest, change in came if not used[digest] - {change}},
            {place for place, digest, change in came if change in used[digest]},
        )
        for hunk, after, came in zip(edit.hunks, left, added, strict=True)
    ]


def _lay_hunks(
    hunks: Iterable[_Hunk], names: Set[str], view: _View, claims: list[list[_Claim]]
) -> Iterator[_Laid]:
    """Lay hunks, the newest first, at a view; yield where what stood before is looked for.

    Where a hunk meets a newer one that is there whole, what stood there before it is looked for in
    what stood before the newer one. To look here too would double the views with each edit.
    """
    covered: dict[int, Order] = {}
    for hunk in hunks:
        order = hunk.edit.order
        if order >= view.until:
            continue
        for first, last, shift in _claim_lines(hunk, hunk.edit.path in names, view, claims):
            beside = range(first + shift - 1, last + shift + 2)
            if any(covered.get(at, order) != order for at in beside):
                continue
            if last - first + 1 == len(hunk.after):
                covered.update(dict.fromkeys(beside[1:-1], order))
            yield _Laid(hunk, first, last, shift, view)


def _claim_lines(
    hunk: _Hunk, named: bool, view: _View, claims: list[list[_Claim]]
) -> Iterator[tuple[int, int, int]]:
    """Claim every line at which this hunk, as it left the file, can be laid; yield the first and
    the last of its lines that are there, and how far away, where enough of them are."""
    after = hunk.after
    ends: dict[int, int] = {}  # of the last run that lies so far away, its last line
    told, size = view.told, len(view.digests)
    brings = view.is_file and any(line.mark == ADDED for line in after)
    for start, (mark, digest) in enumerate(after):
        places = view.places.get(digest, [])
        if mark != ADDED and brings:
            continue  # a line that came leads to the same place
        for at in places if len(places) <= COMMON else []:
            shift = at - start
            if ends.get(shift, -1) >= start:
                continue
            first, last = _extend(hunk.digests, view.digests, start, at)
            ends[shift] = last
            score = told[last + shift + 1] - told[first + shift]
            run = range(first, last + 1)
            if not score and len(run) < size:
                continue  # most are such: a blank line or bracket stands in many places
            is_all = named and len(run) == size
            is_told = score >= _ENOUGH or (is_all and score > 1)
            # A file that is as one patch made it, however short, is from that.
            is_made = is_all and view.is_whole and _makes_all(hunk, len(run))
            if not (is_told or is_made or (score and named and view.is_file)):
                continue
            for place, sure in _find_new(hunk, run, shift, view):
                digest = after[place].digest
                # Where the hunk keeps an equal one, that may be the one which is left.
                alone = (
                    view.is_file
                    and len(view.places[digest]) == 1
                    and view.words[place + shift] >= _DISTINCT
                    and digest not in hunk.kept
                )
                edge = (place == first and not _goes_on(after, view, place, shift, -1)) or (
                    place == last and not _goes_on(after, view, place, shift, 1)
                )
                if edge and not alone:
                    # beyond it the file goes on otherwise: it may be the first line of something
                    # else
                    continue
                if (
                    is_told
                    or is_made
                    or (named and alone and _is_near(after, view.places, place + shift))
                ):
                    claims[view.at[place + shift]].append(_Claim(score, hunk.edit, sure))
            if is_told:
                yield first, last, shift


def _makes_all(hunk: _Hunk, length: int) -> bool:
    """Return whether a hunk of this many lines is all that its edit did, and all of it came."""
    return (
        len(hunk.edit.hunks) == 1
        and len(hunk.lines) == length
        and all(line.mark == ADDED for line in hunk.lines)
    )


def _find_new(hunk: _Hunk, run: Sequence[int], shift: int, view: _View) -> list[tuple[int, bool]]:
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


def _is_near(after: Sequence[LineMark], places: Mapping[str, list[int]], at: int) -> bool:
    """Return whether half of a hunk stands near a line of the file: what has gone as a whole gives
    it nothing."""
    reach = len(after) + _NEAR
    near = sum(
        any(abs(place - at) <= reach for place in places.get(line.digest, ())) for line in after
    )
    return 2 * near >= len(after)


def _goes_on(after: Sequence[LineMark], view: _View, place: int, shift: int, step: int) -> bool:
    """Return whether the file ends beside a line, or goes on as the hunk does a little later: lines
    between went."""
    at = place + shift + step
    beyond = (
        after[place + 1 : place + 1 + _SOON]
        if step > 0
        else after[max(0, place - _SOON) : place][::-1]
    )
    coming = [line.digest for line in beyond]
    if coming[:1] == [after[place].digest]:
        return False  # of two equal lines in a row the other one may be here
    if not 0 <= at < len(view.digests):
        return True
    gone = coming[: coming.index(view.digests[at])] if view.digests[at] in coming else None
    return view.words[at] >= _ENOUGH and gone is not None and after[place].digest not in gone


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


def _undo(laid: _Laid) -> _View:
    """Return the lines around a laid hunk as they were before it."""
    hunk, first, last, shift, view = laid
    begin, end = first + shift, last + shift + 1
    lines = view.lines[max(0, begin - _AROUND) : begin]
    # A line that went and came again in one patch was moved: what stood there before is the same
    # line of the file.
    came = {
        hunk.after[place].digest: view.at[place + shift]
        for place in range(first, last + 1)
        if hunk.after[place].mark == ADDED and view.words[place + shift] >= _DISTINCT
    }
    number = -1
    for mark, digest in hunk.lines:
        number += mark != REMOVED
        if mark == REMOVED:
            if first - 1 <= number <= last:
                lines.append((digest, 0 if digest in _BARE else _ENOUGH, came.pop(digest, -1)))
        elif mark == KEPT and first <= number <= last:
            lines.append((digest, *view.lines[number + shift][1:]))
    is_whole = view.is_whole and begin == 0 and end == len(view.lines)
    lines += view.lines[end : end + _AROUND]
    return _View(lines, hunk.edit.order, is_whole=is_whole)


def _find_removals(edits: Sequence[Edit]) -> Removals:
    """Return when each line was taken away, and from which file."""
    removed: dict[str, list[tuple[Order, str]]] = defaultdict(list)
    for edit in edits:
        for hunk in edit.hunks:
            for mark, digest in hunk:
                if mark == REMOVED:
                    removed[digest].append((edit.order, edit.path))
    return removed


def _choose(claims: Sequence[_Claim], digest: str, removed: Removals) -> tuple[Edit, ...]:
    """Return the edit that the lines around speak for most; one of each invocation where they
    speak for several alike."""
    best = max((claim.score for claim in claims if claim.sure), default=0)
    edits = [claim.edit for claim in claims if claim.sure and claim.score == best]
    if not edits:
        return ()
    last = edits[-1]
    unsure = [claim.edit for claim in claims if not claim.sure and claim.edit.order > last.order]
    if unsure:
        return _keep_last([*edits, *unsure])
    # The line was taken away after all but the last of them had written it.
    gone = [
        any(
            edit.order < order < last.order and path == edit.path
            for order, path in removed.get(digest, ())
        )
        for edit in edits
        if edit.invocation_id != last.invocation_id
    ]
    return (last,) if all(gone) else _keep_last(edits)


def _keep_last(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the last edit of each invocation, in the order of the invocations."""
    return tuple(edit for _, edit in sorted({edit.invocation_id: edit for edit in edits}.items()))
