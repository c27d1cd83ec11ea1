"""Which invocation a line of a file is from, on whose request, under which rules, and what was run
after it.

    explanation = explain_file(project, index, "src/login.py")
    print(explanation.origins[0].request)

Told by content alone (`blame`). What no record tells is unknown, never a guess.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, groupby
from shlex import quote
from typing import NamedTuple

from doctrine.git import find_worktree, list_cut, read_contents, read_git
from doctrine.text import count, get_object, make_encodable
from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.features.search.blame import (
    BLAME,
    find_writers,
    read_blame,
)
from specify_cli.features.search.chains import find_in_versions, split_text
from specify_cli.features.search.database import MANY, SearchIndex
from specify_cli.features.search.edits import Edit, Names, digest_lines, list_digests, list_touched
from specify_cli.features.search.patches import BARE, HARDLY, Patches
from specify_cli.libraries.story.words import describe_work
from specify_cli.project.config import Project
from specify_cli.record.reading.done_note import gather_sources
from specify_cli.record.reading.patch_lines import (
    is_cut,
    read_lines_member,
)
from specify_cli.record.reading.printed_context import describe_printed, is_in_front
from specify_cli.record.reading.timeline import Entry, make_timeline
from specify_cli.record.reading.views import get_seq, list_objects, number_lines
from specify_cli.storage.queries import read_test_commands, show_invocation
from specify_cli.storage.store import Place
from specify_cli.storage.worktrees import find_left_behind, find_worktrees, list_records
from specify_cli.trail.log.entries import describe_absent

_MAX_FILE = 8 * 1024 * 1024


class Check(NamedTuple):
    """A test run after a patch: how its command ended, what it shows, and whether files were
    changed after it.

    `shows` is `passed`, `failed`, `no tests ran` or `not known`; the exit code alone does not
    decide it.
    """

    seq: int
    command: str
    status: str | None
    shows: str
    changed_since: bool


class Origin(NamedTuple):
    """The invocation that wrote lines: who asked, which rules it was given, what was run after its
    last patch."""

    invocation_id: str
    profile_id: str | None
    action: str | None
    outcome: str | None
    started_at: str | None
    actor_id: str | None
    request: str | None
    rules: tuple[str, ...]
    checks: tuple[Check, ...]
    printed: str = ""
    work: str = ""


class Range(NamedTuple):
    """Lines `first` to `last`, counted from 1, of one origin: its invocation and the line of the
    record that tells it.

    Both are None where it is unknown, and where each of `several` can have written them.
    """

    first: int
    last: int
    invocation_id: str | None
    uri: str | None
    several: tuple[str, ...]


class Explanation(NamedTuple):
    """What is known of a file's lines: the ranges in order, and each invocation they name.

    `not_known` says what could not be looked at.
    """

    path: str
    lines: int
    unknown: int
    ranges: tuple[Range, ...]
    origins: tuple[Origin, ...]
    not_known: tuple[str, ...]


def describe_cut(top: str, commits: Iterable[str]) -> Iterator[str]:
    """Yield why more lines seem to have come in some commits than did, where a shallow clone begins
    with one of them."""
    for first in sorted(list_cut(top).intersection(commits))[:1]:
        yield (
            "this clone is shallow, so what came earlier seems to have come in "
            f"{first[:10]}: git fetch --unshallow"
        )


def list_gaps(index: SearchIndex) -> Iterator[str]:
    """Yield why it may not be known who wrote a line: what a record said of it was erased, or the
    record lies in another worktree of the repository, which is not asked."""
    root = index.project.root
    if erased := index.name_records("erased", "patch_apply"):
        yield f"what {erased} said of changed files before that was erased"
    if behind := find_left_behind(root):
        yield (
            f"{count(len(behind), 'record')} that removed worktrees left; take them in with: "
            "spec-kitty invocations reindex"
        )
    if said := describe_absent(index.project):
        yield said
    others = [one for one in find_worktrees(root) if next(list_records(one), None) is not None]
    if others:
        named = ", ".join(map(make_encodable, others))
        yield f"records that lie in other worktrees, so ask there too: {named}"


def explain_file(
    project: Project, index: SearchIndex, path: str, line: int | None = None, brief: bool = False
) -> Explanation:
    """Return where the lines of a file come from, or one of them; if `brief`, without the origins.
    Raises CallerError for a file that cannot be read."""
    place = _place_below(project, path)
    data, name = _read_text(project, place), make_encodable(place)
    lines = split_text(data)
    if line is not None and not 1 <= line <= len(lines):
        raise CallerError(
            "INVALID_VALUE",
            f"{name} has {count(len(lines), 'line')}, and no line {line}",
            f"spec-kitty why {quote(path)}",
        )
    versions = dict.fromkeys(list_digests(lines), lines)
    every = find_edits(index, {*digest_lines(lines)}, [name])
    patches = [edit.restore(versions) for edit in every]
    edits = [edit for edit in patches if edit.hunks]
    own = [edit for edit in patches if edit.path == name]
    gone = {edit.path for edit in edits if _is_gone(project.root, edit.path, [name])}
    top = find_worktree(project.root) or ""
    words = (*BLAME, "--", os.path.join(project.root, place))
    # when each line came, and where it stood
    blamed = (read_git(top, *words) if top and patches else None) or b""
    told, came = read_blame(blamed)
    found = find_writers(lines, Names({name}, gone), Patches(edits), came)
    asked = range(len(lines)) if line is None else (line - 1,)
    unsure = {at for at in asked if len(found[at]) != 1} if own else set[int]()
    # A file that git does not know stands in the work tree alone.
    places = ((at, *told.get(at, ("", place))[:2]) for at in unsure)
    came_in = {at: (sha.strip("0") and sha, path) for at, sha, path in places}
    read = partial(_read_versions, top, data)
    sure = find_in_versions(lines, came_in, read, came, own, dict(enumerate(found)))
    pairs = [(at + 1, sure.get(at, found[at])) for at in asked]
    ranges = []
    last_seq: dict[str, int] = {}
    for (ids, uri), group in groupby(pairs, lambda pair: _name_writers(pair[1])):
        numbers, writers = zip(*group, strict=True)
        for edit in chain.from_iterable(writers):
            last_seq[edit.invocation_id] = max(edit.seq, last_seq.get(edit.invocation_id, 0))
        one = ids[0] if uri else None
        ranges.append(Range(numbers[0], numbers[-1], one, uri, () if one else ids))
    origins = () if brief else tuple(_describe_origin(project, *last) for last in last_seq.items())
    unknown = sum(not writers for _, writers in pairs)
    gaps = list_gaps(index) if unknown else ()
    cut = describe_cut(top, (told[at][0] for at in asked if at in told))
    return Explanation(name, len(lines), unknown, tuple(ranges), origins, (*gaps, *cut))


def _name_writers(edits: Sequence[Edit]) -> tuple[tuple[str, ...], str | None]:
    """Return the invocations that can have written a line, and the record's line that tells it
    where one did."""
    ids = tuple(edit.invocation_id for edit in edits)
    return ids, f"inv://{ids[0]}/event/{edits[0].seq}" if len(ids) == 1 else None


def split_place(text: str, here: str) -> tuple[str, int | None]:
    """Return the file, and the line of it, that FILE[:LINE] names; a file of the whole name counts
    first. Raises CallerError INVALID_VALUE for a file with something else behind it."""
    path, colon, number = text.rpartition(":")
    is_line = colon and number.isdecimal() and len(number) < 10
    if os.path.isfile(os.path.join(here, text)):
        return text, None
    if is_line or not os.path.isfile(os.path.join(here, path)):
        return (path, int(number)) if is_line else (text, None)
    raise CallerError(
        "INVALID_VALUE",
        f"{text}: expected FILE or FILE:LINE, found {number!r}",
        f"spec-kitty why {quote(path)}:1",
    )


def _place_below(project: Project, path: str) -> str:
    """Return a path as records name it, below the project's root."""
    whole = os.path.normpath(os.path.join(os.getcwd(), path))
    root = os.path.realpath(project.root)
    name = durable.name_below(root, whole) or durable.name_below(root, os.path.realpath(whole))
    if not name:
        raise CallerError(
            "INVALID_VALUE",
            f"{path} is no file of the project {project.root}",
            "name a file of the project",
        )
    return name


def _read_text(project: Project, name: str) -> bytes:
    whole = os.path.join(project.root, name)
    try:
        if not os.path.isfile(whole):
            raise FileNotFoundError
        with open(whole, "rb") as file:
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise CallerError(
            "INVALID_VALUE",
            f"{name}: expected a file of the work tree, found {error.strerror or 'none'}",
            f"spec-kitty invocations search --path {quote(name)}",
        ) from error
    if len(data) > _MAX_FILE or b"\0" in data[:8192]:
        found = "a binary file" if b"\0" in data[:8192] else "more"
        raise CallerError(
            "INVALID_VALUE",
            f"{name}: expected a text of at most {_MAX_FILE} bytes, found {found}",
            f"spec-kitty invocations search --path {quote(name)}",
        )
    return data


def _read_versions(top: str, data: bytes, names: list[str]) -> dict[str, bytes | None]:
    """Return the bytes of files by `commit:path`, None for one that is not there; those of the work
    tree, without a commit, are `data`."""
    asked = [name for name in names if not name.startswith(":")]
    contents = read_contents(top, asked) or [None] * len(asked)
    return dict.fromkeys(names, data) | dict(zip(asked, contents, strict=True))


def find_edits(index: SearchIndex, digests: Set[str], paths: Collection[str]) -> Iterator[Edit]:
    """Yield the edits of files of these paths, also those that tell no line, and the edits of other
    files that brought or took a line of one of these digests which few others did; all of a file
    that is gone where one of its lines stands hardly anywhere else."""
    found: list[tuple[Place, dict[str, object], Set[str]]] = []
    for place, fields in index.find_patches(digests, paths):
        if fields.get("ok") is not False:
            found.append((place, fields, digests & {*list_touched(fields.get("lines"))}))
    often = Counter(digest for *_, touched in found for digest in touched)
    few = {digest for digest, times in often.items() if times <= MANY} - BARE
    holders: dict[str, set[str]] = defaultdict(set)
    for _, fields, touched in found:
        for digest in touched & few:
            holders[digest].add(str(fields.get("path")))
    # Only a file that was moved has a line that hardly another one has.
    own = set[str]().union(*(held for held in holders.values() if len(held) <= HARDLY))
    own = {path for path in own if _is_gone(index.project.root, path, paths)}.union(paths)
    for place, fields, touched in found:
        is_told = is_cut(fields.get("lines")) or not few.isdisjoint(touched)
        if is_told or str(fields.get("path")) in own:
            yield _read_edit(place, fields)


def _read_edit(place: Place, fields: Mapping[str, object]) -> Edit:
    # The id tells when the invocation began; the line when the patch was made, or seen.
    moment = str(fields.get("claimed_at") or fields.get("at") or "")
    number, member = get_seq(fields, 0), fields.get("lines")
    path, order = str(fields.get("path")), (moment, number)
    hunks = read_lines_member(member)
    return Edit(place.invocation_id, number, order, path, hunks, fields, is_cut(member))


def _is_gone(root: str, path: str, names: Iterable[str]) -> bool:
    """Return whether a file is gone, which may be one of these before it was moved; one of a whole
    name elsewhere, or below a worktree in this one, may be that in another worktree."""
    tops = [path.removesuffix(name) for name in names if path.endswith(f"/{name}")]
    is_elsewhere = any(os.path.isabs(top) or os.path.isfile(f"{root}/{top}.git") for top in tops)
    return is_elsewhere or not os.path.lexists(os.path.join(root, path))


def _describe_origin(project: Project, invocation_id: str, seq: int) -> Origin:
    value = show_invocation(project, invocation_id)
    context, events = get_object(value, "context"), list_objects(value.get("events"))
    entries = make_timeline(number_lines(events, list_objects(value.get("annexes"))))
    started = next(iter(events), {})
    hits = (hit for hit in list_objects(context.get("hits")) if is_in_front(started, hit))
    commands = read_test_commands(project.root, started)

    def text(key: str) -> str | None:
        member = value.get(key)
        return member if isinstance(member, str) else None

    return Origin(
        invocation_id,
        text("profile_id"),
        text("action"),
        text("outcome") or text("status"),
        text("started_at"),
        text("actor_id"),
        text("request"),
        tuple(str(hit["uri"]) for hit in hits if "uri" in hit),
        tuple(find_checks(entries, seq, commands)),
        describe_printed(context.get("printed")),
        describe_work(value.get("mission"), value.get("work_package")),
    )


def find_checks(entries: Sequence[Entry], seq: int, commands: Sequence[str]) -> Iterator[Check]:
    """Yield the test runs after a line of the record; `commands` are the charter's."""
    sources = gather_sources(entries, commands)
    places = {change.seq: change.place for change in sources.changes}
    last = max((change.place for change in sources.changes), default=-1)
    for entry, shows, place in sources.checks:
        if place > places.get(seq, -1):
            yield Check(entry.seq, entry.about or entry.name, entry.status, shows, place <= last)
