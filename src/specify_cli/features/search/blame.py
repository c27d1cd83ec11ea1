"""Who wrote the lines of a file, told by content: the digests that records keep of what each patch
added. [pure]

    for line, writers in zip(lines, find_writers(lines, Names({path}), Patches(edits))):
        print([edit.invocation_id for edit in writers] or "unknown", line)

No commit is looked at, so an attribution survives amend, rebase, squash and cherry-pick. A line is
given to an edit only where the lines around it agree too; where two invocations could have written
it, both are named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import groupby

from specify_cli.features.search.edits import Came, Edit, Names, Removals, digest_lines
from specify_cli.features.search.laying import Claim, lay_patches
from specify_cli.features.search.patches import Patches, list_between
from specify_cli.record.ids import rfc3339

_LAST_SECOND = 253_402_300_799  # of the year 9999, in seconds since 1970
# How git is asked who wrote a line: no list of a user, or of a branch, leaves out commits.
BLAME = ("blame", "--porcelain", "--no-textconv", "--ignore-revs-file=")
# What that tells of a line: its commit, its number there and at the end; and only once of each
# commit the times of author and committer, and the path. To tell all of it with each line takes git
# longer than to find it.
_BLAMED = re.compile(
    rb"^([0-9a-f]{40,64}) ([0-9]+) ([0-9]+).*\n"
    rb"(?:author .*\n.*\nauthor-time (.*)\n.*\n.*\n.*\ncommitter-time (.*)\n)?"
    rb"(?:[^\t\n].*\n)*?(?:filename (.+)\n)?\t",
    re.M,
)


def end_second(seconds: bytes | str) -> str:
    """Return the end of a second in RFC 3339; `seconds` is how git writes it, counted from 1970.
    The year has four digits: a later time, which a commit may name, becomes the last of 9999.
    Where a commit names no time that git can read, `seconds` is empty or 0.
    """
    return rfc3339(min(int(seconds or 0), _LAST_SECOND) * 1000 + 999)


def read_blame(blamed: bytes) -> tuple[dict[int, tuple[str, str, int]], dict[int, Came]]:
    """Return what git's blame printed, by the numbers of the lines, which count from 0 here: the
    commit in which each line came, with its path and number there, and when it came. The id of the
    commit has only zeros where there is none yet."""
    told, came = dict[int, tuple[str, str, int]](), dict[int, Came]()
    times, paths = dict[bytes, Came](), dict[bytes, str]()
    for sha, then, now, written, committed, path in _BLAMED.findall(blamed):
        if written:
            times[sha] = Came(end_second(written), end_second(committed))
        if path:
            paths[sha] = path.decode("utf-8", "surrogateescape")
        came[int(now) - 1] = times[sha]
        told[int(now) - 1] = sha.decode(), paths[sha], int(then) - 1
    return told, came


def find_writers(
    lines: Sequence[str],
    named: Names,
    patches: Patches,
    came: Mapping[int, Came] = {},
    changed: Iterable[int] | None = None,
) -> list[tuple[Edit, ...]]:
    """Return for each line of a file the edits that may have written it, one of each invocation;
    none where no record tells.

    In a file of another name only lines that agree with many around them are from an edit, and
    none that `came` before, by its number: such an edit copied it. `changed` are the lines that
    are asked for, where that is not all.
    """
    digests = digest_lines(tuple(lines))
    # A file that is gone may have been this one if half of what it held stands here, and something
    # of it that hardly another file has.
    holding = (patches.rare[digest] for digest in patches.rare.keys() & digests)
    earlier = {
        path
        for path in named.earlier & set[str]().union(*holding)
        if 2 * len(patches.left[path].intersection(digests)) >= len(patches.left[path])
    }
    named = named._replace(earlier=earlier)
    names = named.every
    claims = [
        [one for one in laid if named.allow(one.edit, came.get(at))]
        for at, laid in enumerate(lay_patches(patches, lines, digests, names))
    ]
    writers = [
        _choose(claimed, digest, patches.removed) if claimed else ()
        for claimed, digest in zip(claims, digests, strict=True)
    ]
    _drop_equal(writers, digests)
    sought = set(range(len(lines)) if changed is None else changed)
    _match_between(lines, digests, named, patches, came, sought, writers)
    # One that is gone holds lines back only if what is known of it stands here.
    standing = {claim.edit.order for claimed in claims for claim in claimed}
    cuts = [
        cut
        for cut in patches.cuts
        if cut.path in named.own or (cut.path in names and cut.order in standing)
    ]
    for at, edits in enumerate(writers if cuts else ()):
        if any(
            named.allow(cut, came.get(at)) and _may_have_come_with(cut, edit, names)
            for edit in edits
            for cut in cuts
        ):
            writers[at] = ()
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
    patches: Patches,
    came: Mapping[int, Came],
    changed: Collection[int],
    writers: list[tuple[Edit, ...]],
) -> None:
    """Give a line to the invocations that added it between the two lines that stand around it,
    where nothing like that stands anywhere else in the file. Equal lines in a row stand in one
    place: git and a patch can differ in which of them came, and not in how many."""
    names, places = named.every, list_between(digests)
    often = Counter(key for key, _ in places)
    for key, row in places:
        if key[1] not in patches.added:
            continue
        left = [at for at in row if at in changed and not writers[at] and lines[at].strip()]
        if not left or often[key] > 1:
            continue
        # Where no more are left than stood there before, those that came may have gone again.
        told = [
            (edit, new)
            for edit, new, before in patches.find_between(*key)
            if edit.path in names and before < len(row)
        ]
        by = [edit for edit, _ in reversed(told)]
        is_told = len(left) <= sum(new for _, new in told)
        if is_told and all(named.allow(edit, came.get(at)) for edit in by for at in left):
            last = keep_last(by)
            for at in left:
                writers[at] = last


def _drop_equal(writers: list[tuple[Edit, ...]], digests: Sequence[str]) -> None:
    """Take the edits from equal lines in a row, unless they wrote those around too: nothing tells
    which of them came."""
    before = writers[:]
    for _, group in groupby(range(len(digests)), key=digests.__getitem__):
        equal = list(group)
        around = before[max(0, equal[0] - 1) : equal[-1] + 2] if len(equal) > 1 else ()
        if len({tuple(edit.invocation_id for edit in edits) for edits in around}) > 1:
            for at in equal:
                writers[at] = ()


def _choose(claims: Sequence[Claim], digest: str, removed: Removals) -> tuple[Edit, ...]:
    """Return the edit that the lines around speak for most; one of each invocation where they
    speak for several alike."""
    best = max((claim.score for claim in claims if claim.sure), default=0)
    edits = [claim.edit for claim in claims if claim.sure and claim.score == best]
    if not edits:
        return ()
    last = edits[-1]
    unsure = [claim.edit for claim in claims if not claim.sure and claim.edit.order > last.order]
    if unsure:
        return keep_last([*edits, *unsure])
    # The line was taken away after all but the last of them had written it.
    gone = [
        any(edit.order < order < last.order for order in removed.get(digest, {}).get(edit.path, ()))
        for edit in edits
        if edit.invocation_id != last.invocation_id
    ]
    return (last,) if all(gone) else keep_last(edits)


def keep_last(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the last edit of each invocation, in the order of the invocations."""
    return tuple(edit for _, edit in sorted({edit.invocation_id: edit for edit in edits}.items()))
