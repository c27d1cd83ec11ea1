"""Find every place in reach that holds what is to be forgotten; nothing is written.

plan = make_plan(project, Query(texts=("ada@example.org",)))
plan.records, plan.objects, plan.files
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

from doctrine import os
from doctrine.light_imports import hash_bytes
from specify_cli.errors import CallerError
from specify_cli.features.forget.orders import read_away, read_orders
from specify_cli.features.forget.targets import (
    Query,
    find_members,
    holds_any,
    is_about_file,
    pair_passed,
)
from specify_cli.invocation.bindings import digest_of_names
from specify_cli.libraries.words.content_members import list_said
from specify_cli.project.config import Project
from specify_cli.project.protection import ACCEPTED
from specify_cli.record import layout
from specify_cli.record.event_table import ORDERS
from specify_cli.record.findings import NamedObject
from specify_cli.record.record import split_lines
from specify_cli.record.seal import Fields, erased_members, open_line
from specify_cli.record.verifying.erasures import find_hold
from specify_cli.record.verifying.named_objects import named_objects
from specify_cli.redaction.captured import read_captured_text
from specify_cli.storage.checking import read_annex_files, verify_file
from specify_cli.storage.cold import Archive, open_each
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import FileRecordStore, Place, list_folders, places
from specify_cli.storage.worktrees import find_homes, find_worktrees

_BLOCK = 1 << 20
# What a `recovered` line says of the bytes that it passes over, which go with it.
PASSING = frozenset(("skipped_bytes", "skipped_sha256"))
# Objects that come with the program, or only name others: a text in them is nobody's.
_FRAME = frozenset(("shipped", "router_table", "snapshot"))
# Derived, and made anew when they are needed: what they hold is never searched, only removed.
DERIVED = ("search", "capsule", "parse-cache.json")
# What must stay whatever it holds, below the git directory: the log, keys, and a person's word.
_STAYS = ("log", "worktrees", "keys", ACCEPTED, "sync", *DERIVED)


class Copy(NamedTuple):
    """One file of a record: the root it lies below (a worktree, or its second names), its place."""

    root: str
    place: Place


class RecordPlan(NamedTuple):
    """What is to be erased of one record: of which lines, by their seals, which members; which
    objects that its lines name; unfinished lines behind its end, by their SHA-256; and its annexes,
    whose lines are among these. By `keys` hooks know what these lines say of. What stays somewhere
    still names the objects in `named`."""

    invocation_id: str
    copies: tuple[Copy, ...]
    lines: Mapping[str, tuple[int, tuple[str, ...]]]
    objects: tuple[str, ...]
    tails: tuple[str, ...]
    annexes: tuple[Copy, ...]
    keys: frozenset[bytes] = frozenset()
    named: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        """Return how many values go, as verify counts them: members, and objects named still."""
        members = sum(len(members) for _, members in self.lines.values())
        return members + len(self.named) + len(self.tails)


class Plan(NamedTuple):
    """Everything that an erasure would change, and the records among it that are held.

    Of the objects that go, something that stays still names those in `named`. Of files in `drops`,
    which hold one thing a line, only these lines go, by their SHA-256.
    """

    records: tuple[RecordPlan, ...]
    objects: tuple[str, ...]
    named: tuple[str, ...]
    files: tuple[str, ...]
    held: tuple[str, ...]
    drops: Mapping[str, Sequence[str]] = {}


def list_roots(project: Project) -> list[str]:
    """Return where records of this project lie: here, other worktrees, and their second names."""
    roots = [project.root, *find_homes(project.root), *find_worktrees(project.root)]
    unique = {os.path.realpath(root): root for root in reversed(roots) if os.path.isdir(root)}
    own = unique.pop(os.path.realpath(project.root))
    # A worktree before its second names: what it takes out of an archive it gives them.
    return [own, *sorted(unique.values(), key=lambda root: ("/kittify/worktrees/" in root, root))]


def find_orders(project: Project, ids: Iterable[str]) -> dict[str, list[dict[str, object]]]:
    """Return what was ordered of each of these records here, in another worktree or on another
    branch."""
    roots, away = list_roots(project), read_away(project)
    return {one: read_orders(roots, one, away) for one in ids}


def find_holds(project: Project, ids: Iterable[str]) -> dict[str, Fields]:
    """Return the hold that is in force on each of these records, of those that are held here, in
    another worktree or on another branch."""
    holds = {one: find_hold(orders) for one, orders in find_orders(project, ids).items()}
    return {one: hold for one, hold in holds.items() if hold is not None}


def list_copies(project: Project) -> dict[str, list[Copy]]:
    """Return every file of every sealed record, by invocation; of one in an archive the file that
    it has once its month is laid on disk."""
    copies: dict[str, list[Copy]] = {}
    for root in list_roots(project):
        for place in places(root, list_folders(root)):
            if _is_file(f"{root}/{place.path}"):
                copies.setdefault(place.invocation_id, []).append(Copy(root, place))
        packed = chain.from_iterable(archive.list_records() for archive in open_each(root))
        for folder, name in packed:
            ids = layout.parse_record_name(name)
            if ids and not os.path.lexists(f"{root}/{folder}/{name}"):
                place = Place(folder, name, ids[1], ids[0])
                copies.setdefault(ids[1], []).append(Copy(root, place))
    return copies


def read_copy(copy: Copy) -> bytes:
    """Return the bytes of a file of a record, or of what an archive holds in place of one."""
    return FileRecordStore(copy.root).read(copy.place)


Choose = Callable[[Fields], set[str]]


def _make_reach(root: str) -> Reach:
    return Reach(FileObjectStore(root))


def make_plan(project: Project, query: Query) -> Plan:
    """Return what a query would have erased. Raises CallerError INVOCATION_NOT_FOUND."""
    objects = frozenset(_find_objects(project, query.needles)) if query.texts else frozenset()
    copies = list_copies(project)
    if query.invocation_id is not None and query.invocation_id not in copies:
        raise CallerError(
            "INVOCATION_NOT_FOUND",
            f"there is no sealed record {query.invocation_id}",
            "spec-kitty invocations list",
        )
    names = sorted(copies) if query.invocation_id is None else [query.invocation_id]
    chosen = {
        name: partial(
            find_members,
            query=query,
            objects=objects,
            calls=_find_calls(copies[name], query.path or ""),
        )
        for name in names
    }
    records = plan_records(copies, chosen, objects, query.needles)
    plan = complete_plan(project, copies, records, objects, query.needles)
    holds = find_holds(project, query.of_subject)
    files = plan.files if query.key is None else (*plan.files, query.key)
    return plan._replace(files=files, held=tuple(sorted({*plan.held, *holds})))


def _find_calls(files: Sequence[Copy], pattern: str) -> set[str]:
    """Return the calls of a record about files of a pattern, also where a later line or the object
    of their arguments alone names the file."""
    calls = set()
    for copy in files if pattern else ():
        get = FileObjectStore(copy.root).get
        for _, raw in split_lines(read_copy(copy)):
            fields = open_line(raw).fields or {}
            args = read_captured_text(fields, "args", get)[0] or fields.get("args")
            if "call_id" in fields and is_about_file({**fields, "args": args}, pattern):
                calls.add(str(fields["call_id"]))
    return calls


def complete_plan(
    project: Project,
    copies: Mapping[str, Sequence[Copy]],
    records: Sequence[RecordPlan],
    objects: Set[str] = frozenset(),
    needles: tuple[bytes, ...] = (),
) -> Plan:
    """Return a plan with what else of it lies where, and which of its records are held.

    What only erased members lead to goes with them. `objects` go whatever leads to them, but for
    what came with the program.
    """
    touched = {plan.invocation_id for plan in records}
    gone = {seal: set(row[1]) for plan in records for seal, row in plan.lines.items()}
    lost = {digest for plan in records for digest in plan.objects}
    keepers = _find_kept(copies, gone, lost | objects)
    going = lost - keepers.keys() | {one for one in objects if not keepers.get(one, set()) & _FRAME}
    records = [
        plan._replace(
            objects=tuple(name for name in plan.objects if name in going),
            named=tuple(name for name in plan.objects if name in going & keepers.keys()),
        )
        for plan in records
    ]
    records = [plan for plan in records if plan.lines or plan.tails or plan.objects]
    holds = find_holds(project, copies)
    kept_for_holds = {
        item.digest
        for one in holds
        for copy in copies[one][:1]
        for item in _make_reach(copy.root).of(verify_file(copy.root, copy.place).objects)
    }
    refused = holds.keys() if going & kept_for_holds else holds.keys() & touched
    # What came with a branch alone can state the keys of any session.
    keys = (
        one.keys
        for one in records
        if not all(copy.place.folder.startswith(layout.TRAIL) for copy in one.copies)
    )
    notes = _find_notes(project, set(chain.from_iterable(keys)))
    found = _find_files(project, needles) if needles else ()
    files = tuple(dict.fromkeys((*found, *notes)))
    return Plan(
        tuple(records),
        tuple(sorted(going)),
        tuple(sorted(going & keepers.keys())),
        files,
        tuple(sorted(refused)),
        {
            path: list_lines(path, needles) + notes.get(path, [])
            for path in files
            if path.endswith(".jsonl")
        },
    )


def _find_kept(
    copies: Mapping[str, Sequence[Copy]], gone: Mapping[str, set[str]], objects: Set[str]
) -> dict[str, set[str]]:
    """Return which of these objects something leads to that is not erased, each with the members
    that name it."""
    reach = cache(_make_reach)
    keepers: dict[str, set[str]] = {}
    for files in copies.values() if objects else ():
        copy = files[0]
        named: list[NamedObject] = []
        for _, raw in split_lines(read_copy(copy)):
            line = open_line(raw)
            less = gone.get(str(line.seal), set())
            fields = {key: value for key, value in (line.fields or {}).items() if key not in less}
            named += named_objects(fields, None, 0)
        for item in reach(copy.root).of(named):
            if item.digest in objects:
                keepers.setdefault(item.digest, set()).add(item.field)
    return keepers


def _plan_record(
    files: Sequence[Copy],
    choose: Choose,
    objects: frozenset[str],
    reach: Callable[[str], Reach],
    needles: tuple[bytes, ...],
) -> RecordPlan | None:
    """Return the plan of a record, None if nothing of it goes; its copies end up alike. Of
    `objects` it names all that the record leads to."""
    lines: dict[str, tuple[int, set[str]]] = {}
    every: list[NamedObject] = []
    led: list[NamedObject] = []
    tails = set()
    states = {}
    copied = {}
    keys = set()
    annexes = read_annexes(files)
    for data in (*map(read_copy, files), *annexes.values()):
        tail = data[data.rfind(b"\n") + 1 :]
        if needles and holds_any(tail, needles):
            tails.add(hash_bytes(tail))
        for passed, raw in pair_passed(data):
            line = open_line(raw)
            if line.problems or line.fields is None or line.seal is None:
                continue
            members = _choose_members(choose, line.fields, touched=bool(lines))
            if passed and needles and holds_any(passed, needles):
                members = members | PASSING
            every += named_objects(line.fields, None, 0) if objects else ()
            if "state_hash" in line.fields:
                states[line.seal] = line.fields.get("seq")
            if "args_hash" in line.fields:
                copied[line.seal] = (line.fields.get("of"), line.fields.get("seq"))
            if members:
                seq = line.fields.get("seq")
                known = lines.setdefault(line.seal, (seq if type(seq) is int else 0, set()))[1]
                known |= members | set(erased_members(line.fields))
                lost = {*members, "event"} & line.fields.keys()
                led += named_objects({name: line.fields[name] for name in lost}, None, 0)
                if "dedupe" in line.fields:
                    keys.add(str(line.fields["dedupe"]).encode())
    # A hash of the state after what is erased would let guesses at it be tried.
    first = min((seq for seq, _ in lines.values()), default=None)
    for seal, seq in states.items():
        if first is not None and type(seq) is int and seq > first:
            lines.setdefault(seal, (seq, set()))[1].add("state_hash")
    # So would the hash of a call's arguments that stands on its approval (docs/format.md §12).
    for seal, (of, seq) in copied.items():
        if type(seq) is int and "args_hash" in lines.get(str(of), (0, set[str]()))[1]:
            lines.setdefault(seal, (seq, set()))[1].add("args_hash")
    objects_of = reach(files[0].root).of
    named = {item.digest for item in objects_of(led) if item.code is None}
    named |= {item.digest for item in objects_of(every)} & objects
    if not (lines or named or tails):
        return None
    (invocation_id,) = {copy.place.invocation_id for copy in files}
    rows = {seal: (seq, tuple(sorted(members))) for seal, (seq, members) in lines.items()}
    gone = tuple(sorted(named)), tuple(sorted(tails)), tuple(annexes), frozenset(keys)
    return RecordPlan(invocation_id, tuple(files), rows, *gone)


def read_annexes(files: Sequence[Copy]) -> dict[Copy, bytes]:
    """Return the annexes of a record, in each root that holds it, as they lie on disk or will once
    their month is taken out."""
    annexes = {}
    for copy in files:
        for path, data in read_annex_files(copy.root, copy.place.invocation_id):
            folder, _, name = path.rpartition("/")
            annexes[Copy(copy.root, copy.place._replace(folder=folder, name=name))] = data
    return annexes


def _choose_members(choose: Choose, fields: Fields, *, touched: bool) -> set[str]:
    """Return what goes of a line. The report of a replay quotes its record, and goes with whatever
    does of that."""
    event = fields.get("event")
    if touched and event == "replayed":
        return choose(fields) | list_said(fields)
    return choose(fields) if event not in ORDERS else set()


def plan_records(
    copies: Mapping[str, Sequence[Copy]],
    choose: Mapping[str, Choose],
    objects: frozenset[str] = frozenset(),
    needles: tuple[bytes, ...] = (),
) -> list[RecordPlan]:
    """Return what goes of each of these records, by what is chosen of its lines; of `objects` all
    that it leads to."""
    reach = cache(_make_reach)
    plans = (
        _plan_record(copies[one], pick, objects, reach, needles) for one, pick in choose.items()
    )
    return [plan for plan in plans if plan]


def _find_objects(project: Project, needles: tuple[bytes, ...]) -> Iterator[str]:
    """Yield the objects that hold one of these, wherever they lie."""
    yield from (name for name, path in list_objects(project) if contains(path, needles))
    for archive in list_archives(project):
        for digest in archive.list_keys("object"):
            if holds_any(archive.read("object", digest) or b"", needles):
                yield digest


def list_archives(project: Project) -> Iterator[Archive]:
    """Yield the archives of months, in every work tree."""
    return chain.from_iterable(map(open_each, list_roots(project)))


def list_objects(project: Project) -> Iterator[tuple[str, str]]:
    """Yield the digest and the path of each object that lies on disk, in every work tree."""
    for root in list_roots(project):
        for folder in (layout.OBJECTS, layout.LOCAL_OBJECTS):
            for path in _walk(f"{root}/{folder}"):
                name = path[-65:].replace("/", "")
                if len(name) == 64:
                    yield name, path


def _find_files(project: Project, needles: tuple[bytes, ...]) -> Iterator[str]:
    """Yield what else holds one of these and can go: bindings, evidence, what hooks kept. What a
    writer that was stopped left can be of anything."""
    others = tuple(f"{root}/{name}" for root in list_roots(project) for name in _OTHERS)
    base = f"{project.git_dir}/kittify/"
    for path in dict.fromkeys(_list_all(project)):
        is_own = path.startswith(base) and path[len(base) :].split("/")[0] not in _STAYS
        is_other = path.startswith(others) and "/local/objects/" not in path
        is_left = os.path.basename(path).startswith(".tmp-")
        if (is_own or is_other or is_left) and contains(path, needles):
            yield path


def _find_notes(project: Project, keys: Set[bytes]) -> dict[str, list[str]]:
    """Return what hooks keep beside lines with these keys: a session's newest prompt, which its
    next record is given, and of the events that came before their record the lines, by their
    SHA-256."""
    found = {}
    for path in list_notes(project) if keys else ():
        with open(path, "rb") as file:
            first, *_ = lines = file.readlines() or [b""]
        key = digest_of_names(first.rstrip().decode("latin-1"), "prompt")[:32].encode()
        # the keys of the events that an orphan holds, not those that records took in since
        noted = [
            hash_bytes(line)
            for line in lines
            if keys & {*line.partition(b'"keys": ["')[2].partition(b'"]')[0].split(b'", "')}
        ]
        if noted or key in keys:
            found[path] = noted
    return found


def list_notes(project: Project) -> Iterator[str]:
    """Yield the files in which hooks keep what no record holds: the newest prompt of each session,
    and events that came without a record."""
    notes = (layout.PROMPTS, layout.ORPHANS)
    folders = (f"{root}/{name}" for root in list_roots(project) for name in notes)
    return chain.from_iterable(map(_walk, folders))


def list_lines(path: str, needles: tuple[bytes, ...]) -> list[str]:
    """Return the SHA-256 of each line of a file that holds one of these."""
    with open(path, "rb") as file:
        return [hash_bytes(line) for line in file if holds_any(line, needles)]


_OTHERS = (f"{layout.LOCAL}/", f"{layout.EVIDENCE}/", f"{layout.INTAKE}/")


def find_left(project: Project, needles: tuple[bytes, ...]) -> list[str]:
    """Return the files below every `.kittify/` and the git directory's that hold one of these, and
    the records in archives of months: their files are compressed."""
    packed = (
        f"{copy.root}/{layout.cold_folder(one, copy.place.folder)}/{copy.place.name}"
        for one, copies in list_copies(project).items()
        for copy in copies
        if not os.path.lexists(f"{copy.root}/{copy.place.path}")
        and any(
            holds_any(data, needles) for data in (read_copy(copy), *read_annexes([copy]).values())
        )
    )
    return sorted({*_search(_list_all(project), needles), *packed})


def _list_all(project: Project) -> Iterator[str]:
    """Yield every file below every `.kittify/`, and the git directory's."""
    folders = [f"{root}/{layout.KITTIFY}" for root in list_roots(project)]
    if project.git_dir is not None:
        folders.append(f"{project.git_dir}/kittify")
    return chain.from_iterable(map(_walk, folders))


def find_in_work_trees(project: Project, needles: tuple[bytes, ...]) -> list[str]:
    """Return the files of people, in every work tree, that hold one of these or cannot be read;
    nothing erases them: sources, and exports that were written there."""
    tops = [root for root in list_roots(project) if "/kittify/worktrees/" not in root]
    return _search((path for top in tops for path in _walk(top, _NOT_SEARCHED)), needles)


_NOT_SEARCHED = (layout.KITTIFY, ".git")


def _search(paths: Iterable[str], needles: tuple[bytes, ...]) -> list[str]:
    return sorted(one for one in set(map(os.path.realpath, paths)) if _may_contain(one, needles))


def _may_contain(path: str, needles: tuple[bytes, ...]) -> bool:
    try:
        return contains(path, needles)
    except OSError:
        return True


def _walk(folder: str, without: Sequence[str] = ()) -> Iterator[str]:
    """Yield a file, or the files below a folder; no symbolic link."""
    if _is_file(folder):
        yield folder
    for top, folders, names in os.walk(folder):
        folders[:] = sorted({*folders} - {*without})
        yield from filter(_is_file, (f"{top}/{name}" for name in sorted(names)))


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def contains(path: str, needles: tuple[bytes, ...]) -> bool:
    """Return whether a file holds one of these; it is read a part at a time."""
    longest, tail = max(map(len, needles)), b""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        while block := file.read(_BLOCK):
            if holds_any(tail + block, needles):
                return True
            tail = (tail + block)[-longest:]
    return False
