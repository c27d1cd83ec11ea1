"""Decide which invocation wrote each changed line of a file. [pure]

    stretches = join_lines(file, attribute_lines(file, names, edits, kept_texts))

A line is given by content (`search.blame`). Where a formatter changed it, the text that a record
keeps of its patch is compared without blanks, quotes and commas; such a line is *reformatted*.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from specify_cli.features.origin.report import ChangedFile, Stretch
from specify_cli.features.search.blame import find_writers, keep_last
from specify_cli.features.search.edits import (
    Came,
    Edit,
    EditsByLine,
    Names,
    Order,
    digest_line,
    digest_lines,
    list_digests,
)
from specify_cli.features.search.laying import COMMON
from specify_cli.features.search.patches import AddedLine, Patches
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED, LineMark

# What formatters change: a mark of byte order, blanks, quotes, commas and semicolons.
_FORM = re.compile(r"[\s\ufeff,;'\"`()]+")
# In prose also what marks lists, stress, headings and the lines of tables.
_PROSE_FORM = re.compile(r"[\s\ufeff,;'\"`()*_+|:=-]+")
_PROSE = (".md", ".markdown", ".mdx")
# How much text a line or a row of lines must have in common with a patch, without its form.
_ENOUGH = 16


# An edit, and how often it took away each line.
Removal = tuple[Edit, Counter[str]]
# The lines of edits, by the identity of the edit.
_LinesOf = dict[int, set[LineMark]]


class KeptText(NamedTuple):
    """A piece of text that a record keeps of the lines that an edit added."""

    edit: Edit
    text: str


def attribute_lines(
    file: ChangedFile, named: Names, patches: Patches, texts: Sequence[KeptText]
) -> EditsByLine:
    """Return for each line of a file, by its number, the edits that may have written it; `texts`
    are the texts of edits."""
    if not file.changed:
        return {}
    writers = find_writers(file.lines, named, patches, file.came, file.changed)
    digests = digest_lines(file.lines)
    _follow_commits(file, digests, writers, patches)
    left = [at for at in file.changed if not writers[at]]
    for at, by in _match_moved(file, named, patches, left).items():
        writers[at] = by
    left = [at for at in left if not writers[at]]
    known_lines: _LinesOf = {}
    by_text = {
        at: by
        for at, by in _find_by_text(file, left, texts).items()
        # What an edit took is older than it, and where it gave it again its text says nothing.
        if not _has(REMOVED, digests[at], by, known_lines)
    }
    known = dict(enumerate(writers))
    return {**known, **drop_given(file, known, by_text, patches)}


def join_lines(file: ChangedFile, writers: EditsByLine) -> tuple[Stretch, ...]:
    """Return the changed lines of a file as stretches; blank ones go with their neighbours."""
    lines: _LinesOf = {}
    digests = digest_lines(file.lines)
    reformatted = {
        at
        for at in file.changed
        if writers[at] and not _has(ADDED, digests[at], writers[at], lines)
    }
    _fill_blanks(file, writers)
    return tuple(_join(file, writers, reformatted))


def list_unknown(file: ChangedFile, writers: EditsByLine, patches: Patches) -> list[int]:
    """Return the changed lines without a writer that stood elsewhere when they came, and that an
    edit added somewhere."""
    digests = digest_lines(file.lines)
    return [
        at
        for at in file.stood
        if not writers[at] and file.lines[at].strip() and digests[at] in patches.added
    ]


def drop_given(
    file: ChangedFile, writers: EditsByLine, found: EditsByLine, patches: Patches
) -> EditsByLine:
    """Return which of some more writers `found` can be told: a line that an invocation added to a
    file is given once, so another one of the same content is somebody else's."""
    if not any(found.values()):
        return found
    digests = digest_lines(file.lines)
    lines: _LinesOf = {}

    def name(at: int, by: Sequence[Edit]) -> list[tuple[tuple[str, str], str]]:
        digest = digests[at]
        return [(edit.of_file, digest) for edit in by if _has(ADDED, digest, [edit], lines)]

    given = Counter(key for at, by in {**writers, **found}.items() for key in name(at, by))
    return {
        at: by
        for at, by in found.items()
        if all(given[key] <= patches.times_added[key] for key in name(at, by))
    }


def drop_later(file: ChangedFile, writers: EditsByLine) -> Iterator[tuple[int, tuple[Edit, ...]]]:
    """Yield the writers of each line but for what was patched after the commit it came in: that
    did not write it, however it was found."""
    now = Came("~")
    for at, by in writers.items():
        committed = file.came.get(at, now).committed
        yield at, tuple(edit for edit in by if edit.order[0] <= committed)


def date_found(
    file: ChangedFile, versions: Iterable[tuple[str, Sequence[str]]], patches: Sequence[Edit]
) -> ChangedFile:
    """Return a file whose lines came before the last patch that found it as their commit has it,
    which is younger where it was rebased. `versions` are those of the file, the newest first,
    with the commit's time."""
    until: dict[str, str] = {}
    for committed, lines in versions:
        states = list_digests(lines)
        # without its Z a moment is before every patch of that moment
        found = [one.order[0][:-1] for one in patches if one.fields.get("before_hash") in states]
        # of the versions of one second the newest, which stands first
        until.setdefault(committed, min(committed, max(found, default=committed)))
    return file._replace(
        came={
            at: Came(c.written, until.get(c.committed, c.committed)) for at, c in file.came.items()
        }
    )


def list_texts(edits: Iterable[Edit]) -> Iterator[KeptText]:
    """Yield the pieces of text that records keep of the lines which their patches added."""
    for edit in edits:
        added = {line.digest for hunk in edit.hunks for line in hunk if line.mark == ADDED}
        pieces = [text.replace("\n+", "\n") for text in _read_pieces(edit.fields.get("diff"))]
        for text in (*pieces, *_read_pieces(edit.fields.get("after"))):
            lines = [line for line in text.split("\n") if digest_line(line) in added]
            yield KeptText(edit, "\n".join(lines))


def _read_pieces(value: object) -> Iterator[str]:
    """Yield the texts that a captured value holds: the whole, or its head and tail."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for key in ("head", "tail") if isinstance(text := value.get(key), str))


def find_copies(
    patches: Iterable[Edit], read: Callable[[], Iterable[tuple[str, Sequence[str]]]]
) -> Iterator[tuple[str, Set[str]]]:
    """Yield the invocations whose records tell that they left the file as one of its versions is
    and keep no line of it, since it may be a copy; and the lines of that version. What other
    patches added to it is left out where it is not so as a whole. `read` gives when the versions
    were committed: what was committed before is of somebody else, and was fetched."""
    made: dict[str, list[Edit]] = {}
    added: set[str] = set()
    for edit in patches:
        added.update(line.digest for hunk in edit.hunks for line in hunk if line.mark == ADDED)
        if not edit.hunks and edit.fields.get("kind") != "delete":
            made.setdefault(edit.after_hash, []).append(edit)
    for committed, lines in sorted(read(), key=itemgetter(0)) if made else ():
        left = [line for line in lines if digest_line(line) not in added]
        for held in (lines, left):
            for digest in list_digests(held) & made.keys():
                for edit in made.pop(digest):
                    if edit.order[0] <= committed:
                        yield edit.invocation_id, {*held}


def name_copiers(
    file: ChangedFile, part: Stretch, copies: Iterable[tuple[str, Set[str]]]
) -> tuple[str, ...]:
    """Return who made a version of the file that held all lines of a stretch."""
    lines = {*file.lines[part.first - 1 : part.last]}
    return tuple(sorted({name for name, held in copies if lines <= held}))


def list_removals(edits: Iterable[Edit], sought: Counter[str], is_deleted: bool) -> list[Removal]:
    """Return the edits of a file that took away some of the lines sought, in their order, and all
    that each took. What an invocation had added itself is not of it. `is_deleted`: who deleted the
    file took all."""
    removals: list[Removal] = []
    added: dict[str, Counter[str]] = {}
    for edit in sorted(edits, key=lambda edit: edit.order):
        came, went = (
            Counter(line.digest for hunk in edit.hunks for line in hunk if line.mark == mark)
            for mark in (ADDED, REMOVED)
        )
        own = added.get(edit.invocation_id, Counter())
        added[edit.invocation_id] = own - went + came
        is_all = is_deleted and edit.fields.get("kind") == "delete"
        took = sought if is_all else went - own
        if took.keys() & sought.keys():
            removals.append((edit, took))
    return removals


def stands_in(rows: tuple[str, ...], edit: Edit, *, brought: bool) -> bool:
    """Return whether what an edit changed stands in a version of its file as the edit found it. One
    that put something there counts only where other work of its invocation was `brought`."""
    if not brought and any(line.mark == ADDED for hunk in edit.hunks for line in hunk):
        return False
    if edit.fields.get("before_hash") in list_digests(rows):
        return True
    digests = digest_lines(rows)
    found = [tuple(line.digest for line in hunk if line.mark != ADDED) for hunk in edit.hunks]
    return bool(found) and all(
        any(digests[at : at + len(part)] == part for at in range(len(digests))) for part in found
    )


def name_removers(
    removals: Sequence[Removal], sought: Counter[str], groups: Iterable[Set[str]]
) -> tuple[str, ...]:
    """Return the invocations that took all of the lines sought, nobody where they did not.

    The first of the groups whose records tell of all are named, and who took some after these.
    """
    took: dict[str, Counter[str]] = {}
    last: dict[str, Order] = {}
    for edit, lines in removals:
        took.setdefault(edit.invocation_id, Counter()).update(lines)
        last[edit.invocation_id] = edit.order
    names = {*took}
    if not sought.keys() <= set().union(*took.values()):
        return ()
    for group in groups:
        if group & names and sought <= sum((took[name] for name in group & names), Counter[str]()):
            end = max(last[name] for name in group & names)
            names = {name for name in names if name in group or last[name] > end}
            break
    return tuple(sorted(names))


def _follow_commits(
    file: ChangedFile,
    digests: Sequence[str],
    writers: list[tuple[Edit, ...]],
    patches: Patches,
) -> None:
    """Give a line to the writer of the line beside it where both came in one commit, and one patch
    of that writer added both beside each other.

    A line without words, at the edge of what a patch added, says too little by its content alone.
    A line that a patch added is given once: another line of the same content is somebody else's.
    """
    changed = set(file.changed)

    def find_places(at: int, beside: int) -> set[AddedLine]:
        """Return the lines of patches that this one can be, by the one beside it."""
        if not 0 <= beside < len(digests) or len(writers[beside]) != 1:
            return set()
        one, two = sorted((at, beside))
        places = patches.find_pairs(writers[beside][0], digests[one], digests[two])
        if len(places) > COMMON:
            return set()
        return {place._replace(line=place.line + (at > beside)) for place in places}

    def find_candidates(at: int) -> tuple[set[AddedLine], tuple[Edit, ...]]:
        """Return the lines of patches that a line without a writer can be, and that writer."""
        beside = [
            other
            for other in (at - 1, at + 1)
            if other in changed and file.commits.get(at) == file.commits.get(other)
        ]
        candidates = [(find_places(at, other), writers[other]) for other in beside]
        return max(candidates, key=lambda one: len(one[0]), default=(set(), ()))

    while True:
        left = {at: find_candidates(at) for at in file.changed if not writers[at]}
        sought = {digests[at] for at, (places, _) in left.items() if places}
        # Only an equal line can be the same line of a patch.
        used = Counter(
            place
            for at, digest in enumerate(digests)
            if writers[at] and digest in sought
            for place in find_places(at, at - 1) | find_places(at, at + 1)
        )
        used.update(place for places, _ in left.values() for place in places)
        writer_of = {
            at: by
            for at, (places, by) in left.items()
            if places and all(used[place] == 1 for place in places)
        }
        if not writer_of:
            return
        for at, by in writer_of.items():
            writers[at] = by


def _match_moved(
    file: ChangedFile, named: Names, patches: Patches, left: Collection[int]
) -> EditsByLine:
    """Return who moved lines to where git says that they came."""
    digests = digest_lines(file.lines)
    sought = {digests[at] for at in left}
    moves: list[tuple[Edit, set[str]]] = []
    new = set[str]()
    taken: set[tuple[str, str]] = set()
    took = {
        order
        for digest in sought
        for path, orders in patches.removed.get(digest, {}).items()
        if path in named.every
        for order in orders
    }
    for edit in (one for one in patches.edits if one.order in took):
        lines = [line for hunk in edit.hunks for line in hunk]
        moved = {line.digest for line in lines if line.mark == REMOVED} & sought
        if any(line.mark == ADDED and line.digest in moved for line in lines):
            before = [line for line in lines if line.mark != ADDED]
            pairs = pairwise(before)
            taken.update((one.digest, two.digest) for one, two in pairs if one.mark != two.mark)
            moves.append((edit, moved))
            new |= moved
    around = [*pairwise(["", *digests, ""])]
    # Where a line stands beside what it was taken from, the move was taken back.
    left = [at for at in left if digests[at] in new and taken.isdisjoint(around[at : at + 2])]
    if not left:
        return {}
    patches = Patches(
        edit._replace(
            hunks=[
                [
                    LineMark(line.mark if line.digest in moved else KEPT, line.digest)
                    for line in hunk
                    if line.mark != REMOVED
                ]
                for hunk in edit.hunks
            ]
        )
        for edit, moved in moves
    )
    found = find_writers(file.lines, named, patches, file.came)
    return {at: found[at] for at in left if found[at]}


def _fill_blanks(file: ChangedFile, writers: EditsByLine) -> None:
    """Give blank lines without a writer to that of the lines beside them which came in the same
    commit, where that is one."""
    left = [at for at in file.changed if not writers[at] and not file.lines[at].strip()]
    changed = set(file.changed)
    for _, group in groupby(enumerate(left), key=lambda item: item[1] - item[0]):
        row = [at for _, at in group]
        commits = {file.commits.get(at) for at in row}
        beside = [
            writers[at]
            for at in (row[0] - 1, row[-1] + 1)
            if at in changed and commits == {file.commits.get(at)}
        ]
        names = {tuple(edit.invocation_id for edit in edits) for edits in beside}
        if len(names) == 1 and len(beside[0]) == 1:
            writers.update(dict.fromkeys(row, beside[0]))


def _join(
    file: ChangedFile, writers: EditsByLine, reformatted: Collection[int]
) -> Iterator[Stretch]:
    """Yield the changed lines as stretches that have the same commit and the same writers."""

    def describe(at: int) -> tuple[object, ...]:
        ids = tuple(edit.invocation_id for edit in writers[at])
        return file.commits.get(at), ids, at in reformatted

    numbered = enumerate(file.changed)
    for _, group in groupby(numbered, key=lambda item: (item[1] - item[0], describe(item[1]))):
        lines = [at for _, at in group]
        edits = writers[lines[0]]
        yield Stretch(
            lines[0] + 1,
            lines[-1] + 1,
            file.commits.get(lines[0]),
            tuple(edit.invocation_id for edit in edits),
            tuple(f"inv://{edit.invocation_id}/event/{edit.seq}" for edit in edits),
            lines[0] in reformatted,
            not any(file.lines[at].strip() for at in lines),
        )


def _has(mark: str, digest: str, edits: Sequence[Edit], known: _LinesOf) -> bool:
    """Return whether one of these edits has a line, as it is, with this mark. The lines of an edit
    are kept in `known`: a long file asks for them once a line."""
    for edit in edits:
        if id(edit) not in known:
            known[id(edit)] = {line for hunk in edit.hunks for line in hunk}
    return any(LineMark(mark, digest) in known[id(edit)] for edit in edits)


def _find_by_text(
    file: ChangedFile, left: Sequence[int], kept_texts: Sequence[KeptText]
) -> EditsByLine:
    """Return the edits whose text holds lines, perhaps in another form, the longest rows first."""
    form = _PROSE_FORM if file.path.endswith(_PROSE) else _FORM
    texts = []
    for edit, text in kept_texts:
        parts = [form.sub("", line) for line in text.split("\n")]
        texts.append((edit, "".join(parts), {0, *accumulate(map(len, parts))}))
    bare = {at: form.sub("", file.lines[at]) for at in left}
    gone = form.sub("", "\n".join(file.gone))
    writers: EditsByLine = {}
    place = 0
    while place < len(left) and texts:
        row, edits = _find_row(file.lines, left, place, bare, texts)
        # What went from the file can have come again in this form.
        if "".join(bare[at] for at in row) not in gone:
            writers |= dict.fromkeys(row, edits)
        place += len(row) or 1
    return writers


def _find_row(
    lines: Sequence[str],
    left: Sequence[int],
    start: int,
    bare: Mapping[int, str],
    texts: Sequence[tuple[Edit, str, set[int]]],
) -> tuple[Sequence[int], tuple[Edit, ...]]:
    """Return the longest row of lines from `start` in `left` that edits hold, and the edits; no
    line where that is too little to tell.

    `bare` is each line without its form; of a text, where its lines begin or end is known, too. A
    row begins where one does and does not end with a blank line, and one line alone is no part of
    a line.
    """
    sought, size, holding = "", 0, texts
    edits: tuple[Edit, ...] = ()
    for count in range(1, len(left) - start + 1):
        at = left[start + count - 1]
        sought += bare[at]
        if not sought or at != left[start] + count - 1:
            break
        holding = [item for item in holding if sought in item[1]]
        if not holding:
            break
        told = [
            edit
            for edit, text, ends in holding
            if (place := text.find(sought)) in ends and (count > 1 or place + len(sought) in ends)
        ]
        if told and lines[at].strip() and len(sought) >= _ENOUGH:
            size, edits = count, keep_last(told)
    return left[start : start + size], edits
