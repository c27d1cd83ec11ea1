"""Tell by whole versions of a file who made one of the other: a commit that holds nothing but what
an invocation's patches tell. [pure]

    find_makers(("one",), ("one", "two"), edits)    # the last edit of each that can have been it

A short line, a blank at a line's end or a line among equal ones says too little by its content
(`blame`). The file as a whole says more: where the patches of one invocation, taken back one
by one from the version of a commit, give the version before, nobody else changed it in between.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice

from specify_cli.features.search.edits import (
    Came,
    Edit,
    EditsByLine,
    digest_line,
    list_digests,
)
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED, LineMark

# So many patches of one invocation are taken back, of so many the last can have come after the
# commit; a patch has at most so many hunks, and so many places of them are looked at.
_MAX_EDITS = 40
_MAX_LATER = 8
_MAX_HUNKS = 60
_MAX_STATES = 8

# So many versions of a file are read beside the one that is asked for.
MAX_VERSIONS = 32

_Digests = tuple[str, ...]
# A commit and the path that a file had in it; no commit stands for the work tree.
VersionName = tuple[str, str]


def find_in_versions(
    rows: Sequence[str],
    versions: Mapping[int, VersionName],
    read: Callable[[list[str]], Mapping[str, bytes | None]],
    came: Mapping[int, Came],
    patches: Sequence[Edit],
    known: Mapping[int, Sequence[Edit]],
) -> EditsByLine:
    """Return by their numbers who wrote lines that came with a version of a file: who made all that
    is new in it. Where several are `known` to have written a line, it is one of these.

    A line that came only by blanks at its end, as where line ends were converted, is of who made
    these: no other patch added it. Nor did patches write more of a line than they added, unless
    they left this very version: git and a patch can differ in which of equal lines came. `rows` are
    the lines of the file, and `versions` names of some the one they came with. `read` returns files
    by `commit:path`, None for one that is not there or cannot be read; `:path` is the work tree's.
    """
    found: EditsByLine = {}
    lines: dict[VersionName, list[int]] = {}
    for at, name in versions.items():
        lines.setdefault(name, []).append(at)
    lines = dict(islice(lines.items(), MAX_VERSIONS))
    texts = read([name for version in lines for name in _name_texts(version)])
    sure = known.keys() - versions.keys() if versions else set[int]()
    given = Counter((e.invocation_id, digest_line(rows[at])) for at in sure for e in known[at])
    times = {
        name: max((came[at].committed for at in numbers if at in came), default="~")
        for name, numbers in lines.items()
    }
    for name in sorted(lines, key=times.__getitem__):
        before, after = map(texts.get, _name_texts(name))
        if after is None:
            continue
        version = split_text(after)
        edits = [edit for edit in patches if edit.order[0] <= times[name]]
        makers = find_makers(split_text(before or b""), version, edits)
        if not makers:
            continue
        added, left = _list_added(makers, edits), list_digests(version)
        exact = {edit.invocation_id for edit in makers if edit.after_hash in left}
        for at in lines[name]:
            digest, several = digest_line(rows[at]), {edit.invocation_id for edit in known[at]}
            own = [
                max(added[edit.invocation_id, digest], key=lambda one: one.order, default=edit)
                for edit in makers
                if added[edit.invocation_id, digest]
                or (edit.invocation_id in exact and not edit.hunks)
            ]
            if several:
                named = tuple(edit for edit in own if edit.invocation_id in several)
                found[at] = named or tuple(known[at])
                continue
            keys = [(edit.invocation_id, digest) for edit in own if edit.invocation_id not in exact]
            # An earlier commit has what they added: this is one line more.
            is_more = any(given[key] >= len(added[key]) for key in keys)
            found[at] = () if is_more else tuple(own)
            given.update(keys)
    return found


def _name_texts(version: VersionName) -> tuple[str, str]:
    """Return by which names a file is read before a version and in it."""
    sha, path = version
    return f"{sha}^:{path}" if sha else f"HEAD:{path}", f"{sha}:{path}"


def _list_added(
    makers: Iterable[Edit], edits: Iterable[Edit]
) -> Mapping[tuple[str, str], list[Edit]]:
    """Return the patches of those who made a version that added a line, by its digest, once for
    each time they did."""
    names = {maker.invocation_id for maker in makers}
    added: dict[tuple[str, str], list[Edit]] = defaultdict(list)
    for edit in edits:
        for one in chain.from_iterable(edit.hunks if edit.invocation_id in names else ()):
            if one.mark == ADDED:
                added[edit.invocation_id, one.digest].append(edit)
    return added


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
            [edit for edit in group if edit.after_hash in left and _keeps_words(edit)]
            for group in by_invocation.values()
        ]
        return tuple(group[-1] for group in made if group)
    # Of lines that are new in the file, or gone from it, each has to be told: most tell of none.
    told = {LineMark(ADDED, digest) for digest in {*new} - {*old}}
    told |= {LineMark(REMOVED, digest) for digest in {*old} - {*new}}
    left = list_digests(before)
    groups = (_drop_made(group[-_MAX_EDITS:], left) for group in by_invocation.values())
    makers = (
        _find_last(old, new, group)
        for group in groups
        if told <= {mark for edit in group for hunk in edit.hunks for mark in hunk}
    )
    return tuple(edit for edit in makers if edit)


def _drop_made(edits: Sequence[Edit], left: Set[str]) -> Sequence[Edit]:
    """Return the edits behind the last that left the file as it was before a commit: what went
    before is in it."""
    made = (at for at, edit in enumerate(edits, 1) if edit.after_hash in left)
    return edits[max(made, default=0) :]


def _keeps_words(edit: Edit) -> bool:
    """Return whether a patch changed blanks at the ends of lines alone."""
    marks = Counter(mark for hunk in edit.hunks for mark in hunk if mark.mark != KEPT)
    return all(
        marks[LineMark(ADDED, one.digest)] == marks[LineMark(REMOVED, one.digest)] for one in marks
    )


def _find_last(old: _Digests, new: _Digests, edits: Sequence[Edit]) -> Edit | None:
    """Return the last of the edits with which the old lines became the new ones."""
    # What the lines can have been before the edits that were taken back, and the last of these.
    states: dict[_Digests, Edit] = {}
    for number, edit in enumerate(reversed(edits)):
        if number < _MAX_LATER:
            states.setdefault(new, edit)
        before: dict[_Digests, Edit] = {}
        for state, last in states.items():
            for taken in _take_back(state, edit.hunks):
                before.setdefault(taken, last)
        if old in before:
            return before[old]
        states = dict(islice(before.items(), _MAX_STATES))
    return None


def _take_back(lines: _Digests, hunks: Sequence[Sequence[LineMark]]) -> Iterator[_Digests]:
    """Yield what the lines can have been before a patch, by the first places where its hunks
    fit."""
    if len(hunks) > _MAX_HUNKS:
        return
    came = [tuple(line.digest for line in hunk if line.mark != REMOVED) for hunk in hunks]
    went = [tuple(line.digest for line in hunk if line.mark != ADDED) for hunk in hunks]
    for places in islice(_list_places(lines, came, 0), _MAX_STATES):
        taken, end = _Digests(), 0
        for at, row, old in zip(places, came, went, strict=True):
            taken += lines[end:at] + old
            end = at + len(row)
        yield taken + lines[end:]


def _list_places(lines: _Digests, rows: Sequence[_Digests], start: int) -> Iterator[list[int]]:
    """Yield where rows of lines stand behind each other, from `start` on."""
    if not rows:
        yield []
        return
    at = _find_row(lines, rows[0], start)
    # Where the others do not fit behind the first place, they fit behind no later one.
    while at >= 0 and _fit(lines, rows[1:], at + len(rows[0])):
        for rest in _list_places(lines, rows[1:], at + len(rows[0])):
            yield [at, *rest]
        at = _find_row(lines, rows[0], at + 1)


def _fit(lines: _Digests, rows: Sequence[_Digests], start: int) -> bool:
    """Return whether rows of lines stand behind each other, from `start` on."""
    for row in rows:
        at = _find_row(lines, row, start)
        if at < 0:
            return False
        start = at + len(row)
    return True


def _find_row(lines: _Digests, row: _Digests, start: int) -> int:
    """Return where a row of lines stands first, from `start` on, or -1; an empty one stands where
    there is no line."""
    if not row:
        return -1 if lines or start else 0
    try:
        while True:
            start = lines.index(row[0], start)
            if lines[start : start + len(row)] == row:
                return start
            start += 1
    except ValueError:
        return -1
