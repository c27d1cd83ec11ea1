"""Carry an erasure out so that a crash leaves it not begun or ready to be finished.

    certificate = erase(project, plan, order, now)

Durable after each step: the journal, which holds no value that goes · an annex for each record, a
leaf of the log · the lines of each copy, each file replaced whole · the objects, each behind a note
· what is derived · the certificate. Each step can be done again; the journal goes last. Between the
steps verify says ERASURE_PENDING or COPIES_DIFFER, and `spec-kitty forget --resume` goes on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from shlex import quote
from typing import Any

from doctrine import os
from doctrine.git import find_worktree
from doctrine.light_imports import hash_bytes, hash_text
from doctrine.text import count
from specify_cli import durable
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.features.cold.packing import find_months, remove_cut_short, unpack_locked
from specify_cli.features.forget.finding import (
    DERIVED,
    PASSING,
    Copy,
    Plan,
    RecordPlan,
    find_holds,
    find_orders,
    list_roots,
)
from specify_cli.features.forget.orders import Order, compose_order
from specify_cli.features.forget.targets import pair_passed
from specify_cli.libraries.archive.sealing import FOLDER as SEALED
from specify_cli.libraries.archive.sealing import Keys
from specify_cli.project.checks import list_names
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import split_lines
from specify_cli.record.seal import Fields, erase_members, open_line, read_fields
from specify_cli.record.verifying.erasures import make_row
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.storage.worktrees import find_worktrees
from specify_cli.trail.log.entries import write_annex

FOLDER = layout.FORGET
CERTIFICATES = f"{FOLDER}/certificates"
REFUSED = "refused.jsonl"
# Of a journal; the first ones had none.
_VERSION = 1
Journal = dict[str, Any]
# By a line's seal, which members it loses, and the salt that stands there then.
Lost = Mapping[str | None, tuple[Sequence[str], str]]


def erase(project: Project, plan: Plan, order: Order, now: int) -> str:
    """Erase what a plan says, and return the certificate's path. Raises CallerError HELD.

    Months in archives that it touches are laid on disk again first. A journal states what is left
    of each line, so none is begun under the lock before the one before it is finished.
    """
    with lock(project):
        finish_each(project)
        lay_out_months(project, [one.invocation_id for one in plan.records], plan.objects)
        # Since the plan was made, and while a person was asked, another can have held it.
        holds = tuple(find_holds(project, [one.invocation_id for one in plan.records]))
        if not holds:
            return finish(project, write_journal(project, plan, order, now))
    raise refuse_held(project, holds, order, now)


def count_values(plan: Plan) -> str:
    """Return how many values of how many records go."""
    return (
        f"{count(sum(one.values for one in plan.records), 'value')} of "
        f"{count(len(plan.records), 'record')}"
    )


def lay_out_months(project: Project, ids: Sequence[str], objects: Iterable[str]) -> None:
    """Lay the months on disk whose archives hold one of these, under the lock."""
    for root in list_roots(project):
        remove_cut_short(root)
        for month in find_months(root, ids, objects):
            unpack_locked(project._replace(root=root), month)


def refuse_held(project: Project, holds: Sequence[str], order: Order, now: int) -> CallerError:
    """Keep that somebody tried to erase what is held, which doctor names; return HELD."""
    line = json.dumps({"at": rfc3339(now), "by": order.by, "held": list(holds)}) + "\n"
    with lock(project) as fd, durable.appended(fd, REFUSED) as file:
        durable.append(file, line.encode(), sync=True)
    return CallerError(
        "HELD",
        f"nothing was erased: {', '.join(holds)} is held",
        f"a person can release it: spec-kitty hold release {holds[0]} --reason …",
    )


@contextmanager
def lock(project: Project) -> Iterator[int]:
    """Keep erasures and holds of a project apart while one of them is made, in every worktree, and
    what moves months to archives and back."""
    wait = durable.LOCK_WAIT_SECONDS
    with ExitStack() as stack:
        stack.enter_context(durable.folder(*_find_journals(project), create=True, wait=wait))
        fd = stack.enter_context(durable.folder(project.root, FOLDER, create=True, wait=wait))
        for root in _find_writable(project):
            with suppress(FileNotFoundError):  # it was removed just now
                stack.enter_context(durable.folder(root, FOLDER, create=True, wait=wait))
        yield fd


def _find_writable(project: Project) -> list[str]:
    """Return the other worktrees whose records can be written: nothing moves below the rest."""
    roots = find_worktrees(project.root)
    return [one for one in roots if os.access(f"{one}/{layout.EVENTS}", os.W_OK)]


def write_journal(project: Project, plan: Plan, order: Order, now: int) -> Journal:
    """Make the journal of an erasure durable and return it, whatever is held."""
    name = new_ulid(now, os.urandom(10))
    # An order of another branch comes back with it: the erasure has to stand behind that one too.
    orders = find_orders(project, [one.invocation_id for one in plan.records])
    journal = {
        "v": _VERSION,
        "id": name,
        "root": project.root,
        "at": rfc3339(now),
        "ordered_by": order.by,
        "reason": order.reason,
        "rule": order.rule,
        "records": [_compose(one, order, now, orders[one.invocation_id]) for one in plan.records],
        "objects": plan.objects,
        "named": plan.named,
        "files": plan.files,
        "drops": plan.drops,
    }
    FileRecordStore(project.root, project.config.trail).prepare()
    where = _find_journals(project)
    with durable.folder(*where, create=True) as fd:
        durable.create_exclusive(fd, f"{name}.json", _encode(journal), durable.PRIVATE)
    return {**journal, "folder": "/".join(where)}


def _find_journals(project: Project) -> tuple[str, str]:
    """Return where journals of all worktrees lie: in the git directory, which no branch can write.

    A journal names files that are removed, so one that came with the work tree must never be
    carried out. Outside git it lies in the project and is carried out by the run that wrote it
    alone.
    """
    top = find_worktree(project.root)
    if top is None or project.git_dir is None:
        return project.root, f"{FOLDER}/journals"
    place = hash_text(os.path.relpath(project.root, top))[:16]
    return project.git_dir, f"kittify/forget/{place}"


def _compose(
    plan: RecordPlan,
    order: Order,
    now: int,
    orders: Sequence[Fields],
) -> dict[str, object]:
    """Return what a journal says of one record: its annex, and what every copy's lines become;
    `orders` were given of it before.

    The annex names only objects that something else still names: a name is the hash of what went.
    """
    first = plan.copies[0]
    data = durable.read_below(first.root, first.place.path)
    lost: Lost = {
        seal: (members, os.urandom(16).hex()) for seal, (_, members) in plan.lines.items()
    }
    said = {
        copy.place.name: durable.read_below(copy.root, copy.place.path) for copy in plan.annexes
    }
    rows = [
        make_row(open_line(_erase(raw, lost)[:-1]))
        for _, raw in split_lines(b"".join((data[: data.rfind(b"\n") + 1], *said.values())))
        if open_line(raw).seal in lost
    ]
    content = {"event": "erased", "lines": rows, "objects": list(plan.named)}
    # It stands behind the annexes, of which it may erase something, whatever their clock said.
    annexes = [read_fields(one.removesuffix(b"\n")) for one in said.values()]
    return {
        "invocation_id": plan.invocation_id,
        "annex": new_ulid(now, os.urandom(10)),
        "line": compose_order(first.place, data, content, order, now, [*orders, *annexes]).decode(),
        "paths": [[copy.root, *copy.place] for copy in (*plan.copies, *plan.annexes)],
        "lines": lost,
        "tails": plan.tails,
    }


def _erase(raw: bytes, lost: Lost) -> bytes:
    """Return a line, given without its LF, as it stands afterwards, with its LF."""
    line = open_line(raw)
    if line.problems or line.fields is None or line.seal is None or line.seal not in lost:
        return raw + b"\n"
    members, salt = lost[line.seal]
    return erase_members(line.fields, line.seal, set(members), salt)


def _erase_all(data: bytes, lost: Lost) -> bytes:
    """Return a record's whole lines as they stand afterwards; bytes that a line passed over go with
    what it said of them."""
    out, end = list[bytes](), 0
    for passed, raw in pair_passed(data):
        members, _ = lost.get(str(open_line(raw).seal), ((), ""))
        out += [b"" if PASSING & set(members) else passed, _erase(raw, lost)]
        end += len(passed) + len(raw) + 1
    return b"".join(out) + data[end : data.rfind(b"\n") + 1]


def list_journals(project: Project) -> list[Journal]:
    """Return the erasures that were begun here and not finished. Raises StoredDataError."""
    root, folder = _find_journals(project)
    if root == project.root:
        return []
    # Versions before kept those of a linked worktree in its own git directory.
    tops = [root, *(f"{root}/worktrees/{name}" for name in list_names(root, "worktrees"))]
    journals: list[Journal] = []
    for path, name in ((f"{top}/{folder}", one) for top in tops for one in list_names(top, folder)):
        data = None
        # Without the lock, another run can end one that it began before it is read here.
        with suppress(FileNotFoundError):
            data = durable.read_own(path, name, os.stat(f"{path}/{name}").st_size)
        if data is None or not name.endswith(".json"):
            continue
        try:
            journal = json.loads(data)
        except ValueError as error:
            raise StoredDataError(
                "RECORD_DAMAGED",
                f"{path}/{name}: expected the journal of an erasure that was begun, found no JSON "
                f"({error})",
                "move that file away, then forget the same again",
            ) from error
        journals.append(journal)
        if journal.get("v", _VERSION) != _VERSION:
            raise StoredDataError(
                "FORMAT_TOO_NEW",
                f"{path}/{name}: an erasure that a newer version began; v: expected {_VERSION}, "
                f"found {journal['v']!r}",
                "finish it with that version: spec-kitty forget --resume",
            )
        journal["folder"] = path
    return journals


def resume(project: Project) -> list[str]:
    """Finish the erasures that were cut short; return the certificates' paths."""
    if not list_journals(project):
        return []
    with lock(project):
        return finish_each(project)


def finish_each(project: Project) -> list[str]:
    """Do the same under the lock, before another erasure begins or a hold is put: an erasure has
    stated what it leaves of each line, and stands before what is ordered later."""
    journals = list_journals(project)
    for journal in journals:
        # Since it was cut short, months can have been packed.
        ids = [record["invocation_id"] for record in journal["records"]]
        lay_out_months(project, ids, journal["objects"])
    return [finish(project, journal) for journal in journals]


def finish(project: Project, journal: Journal) -> str:
    """Do what a journal says, from wherever it was left, under the lock; return the certificate's
    path. It lies in the worktree that began the erasure, while that one can be written."""
    store, name = FileRecordStore(project.root, project.config.trail), f"{journal['id']}.json"
    for record in journal["records"]:
        _write_annex(project, store, record)
        _rewrite(record)
    _remove_objects(project, journal)
    _remove_derived(project, journal)
    begun = journal.get("root")
    root = begun if begun in _find_writable(project) else project.root
    with durable.folder(root, CERTIFICATES, create=True) as fd:
        durable.replace(fd, name, _certify(journal), durable.PRIVATE)
    with durable.folder(journal["folder"]) as fd:
        os.unlink(name, dir_fd=fd)
        os.fsync(fd)
    return f"{'' if root == project.root else f'{root}/'}{CERTIFICATES}/{name}"


def _write_annex(project: Project, store: FileRecordStore, record: Journal) -> None:
    """Write the annex here, where it becomes a leaf, and wherever else the record lies: each place
    vouches for its own files, and what is kept of a worktree is taken in elsewhere. It leaves with
    a published copy, which the erasure changes."""
    invocation_id, name = str(record["invocation_id"]), str(record["annex"])
    line, seconds = str(record["line"]).encode(), f"{project.git_dir}/kittify/worktrees/"
    others = {str(root) for root, *_ in record["paths"]} - {project.root}
    # A worktree links what it writes to its second name, which is there before its turn comes.
    for root in (project.root, *sorted(others, key=lambda one: (one.startswith(seconds), one))):
        try:
            if root == project.root:
                write_annex(project, store, invocation_id, name, line, with_record=True)
            elif os.path.isdir(root):
                elsewhere = FileRecordStore(root, project.config.trail)
                elsewhere.annex(invocation_id, name, line, with_record=True)
        except FileExistsError:
            path = f"{layout.annex_folder(invocation_id)}/{name}.jsonl"
            if durable.read_below(root, path) != line:
                raise StoredDataError(
                    "ANNEX_DAMAGED",
                    f"{root}/{path} is not what was written",
                    f"rm {quote(f'{root}/{path}')}",
                ) from None


def _rewrite(record: Journal) -> None:
    """Replace each copy of a record whole. Second names of one file stay second names of it."""
    done: dict[tuple[int, int], Copy] = {}
    for root, *parts in record["paths"]:
        copy = Copy(str(root), Place(*parts))
        # Its worktree can have been removed meanwhile.
        with suppress(FileNotFoundError), durable.folder(copy.root, copy.place.folder) as folder:
            fd = durable.open_regular(folder, copy.place.name, os.O_RDWR, copy.place.path)
            try:
                state = os.fstat(fd)
                # A writer that waits for the lock looks afterwards which file has the name.
                durable.lock(fd, copy.place.path)
                twin = done.get((state.st_dev, state.st_ino))
                if twin:
                    temp, path = f".tmp-{os.urandom(8).hex()}", f"{twin.root}/{twin.place.path}"
                    os.link(path, temp, dst_dir_fd=folder, follow_symlinks=False)
                    os.rename(temp, copy.place.name, src_dir_fd=folder, dst_dir_fd=folder)
                    os.fsync(folder)
                    continue
                data = durable.read_all(fd)
                changed = _erase_all(data, record["lines"])
                tail = data[data.rfind(b"\n") + 1 :]
                changed += b"" if hash_bytes(tail) in record.get("tails", ()) else tail
                if changed != data:
                    mode = state.st_mode & 0o777
                    durable.replace(folder, copy.place.name, changed, mode)
                    done[state.st_dev, state.st_ino] = copy
            finally:
                os.close(fd)


def _remove_objects(project: Project, journal: Journal) -> None:
    why = f"erased at {journal['at']}: {journal['reason']}"
    note = dict.fromkeys(_list_named(journal), why[:900])
    store = FileObjectStore(project.root)
    store.withhold(note, tracked=False)
    paths = (path for record in journal["records"] for path in record["paths"])
    published = any(folder.startswith(f"{layout.TRAIL}/") for _, folder, *_ in paths)
    if published or project.config.trail == "committed":
        store.withhold(note, tracked=True)
    for root in list_roots(project):
        for digest in journal["objects"]:
            shard, rest = layout.object_parts(digest)
            for folder in (layout.OBJECTS, layout.LOCAL_OBJECTS):
                with suppress(FileNotFoundError), durable.folder(root, f"{folder}/{shard}") as fd:
                    os.unlink(rest, dir_fd=fd)
                    os.fsync(fd)


def _list_named(journal: Journal) -> list[str]:
    """Return the objects that go and are still named; a journal of before tells all that go."""
    return [*(journal["named"] if "named" in journal else journal["objects"])]


def _remove_derived(project: Project, journal: Journal) -> None:
    """Remove what is made anew from the records, and other files that held a text."""
    roots = list_roots(project)
    paths = [*journal["files"]]
    if project.git_dir is not None:
        paths += [f"{project.git_dir}/kittify/{name}" for name in DERIVED]
    keys = Keys(project.git_dir)
    for record in journal["records"]:
        paths += [f"{root}/{layout.evidence_folder(record['invocation_id'])}" for root in roots]
        # Copies that left encrypted are erased with their key, wherever they are.
        keys.destroy(record["invocation_id"])
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder == f"{project.git_dir}/{SEALED}":
            keys.destroy(name.removesuffix(".key"))
        elif path in journal.get("drops", {}):
            _drop_lines(path, frozenset(journal["drops"][path]))
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


def _drop_lines(path: str, digests: frozenset[str]) -> None:
    """Take lines out of a file that holds one thing a line."""
    folder, _, name = path.rpartition("/")
    with (
        suppress(FileNotFoundError),
        durable.folder(folder) as fd,
        durable.opened(folder, name, path) as file,
    ):
        durable.lock(file, path)
        lines = durable.read_all(file).splitlines(keepends=True)
        left = [line for line in lines if hash_bytes(line) not in digests]
        if left != lines:
            durable.replace(fd, name, b"".join(left), os.fstat(file).st_mode & 0o777)


NOT_REACHED = (
    "what is named as left in a file: ids of calls, keys of events and profiles' names in records, "
    "who ordered what and why; records of an older writer; settings, and waivers of the gate",
    "git objects and remotes, where it was committed (git log --all -S TEXT names the commits): "
    "git filter-repo --replace-text FILE, then git push --force, and every clone anew",
    "archives in refs/kittify/trail (of a project in a folder refs/kittify/trail-of-FOLDER) and "
    "the same name with -incoming: git update-ref -d both, git push origin :REF, then in every "
    "clone spec-kitty trail push",
    "other clones, and worktrees that are not mounted: once the annexes have arrived there, "
    "spec-kitty forget --resume",
    "a collector, until spec-kitty sync push reached it; its backups, and PostgreSQL's own log",
    "archives and exports that were handed out: tell whoever has them, unless they left encrypted "
    "(capture.sealed): their key is destroyed with what is erased here",
    "stores of other packages (memory_backend) that compress what they hold, or lie elsewhere",
    "what agents' programs keep of their sessions (transcripts in the home folder)",
    "backups, snapshots of the file system, and blocks that a disk has not overwritten",
)


def _certify(journal: Journal) -> bytes:
    """Return the certificate: what was erased, when, by whom and why; no value of it."""
    records = [
        {
            "invocation_id": record["invocation_id"],
            "annex": f"{layout.annex_folder(record['invocation_id'])}/{record['annex']}.jsonl",
            "erased": json.loads(record["line"])["lines"],
        }
        for record in journal["records"]
    ]
    return _encode(
        {
            **{key: journal[key] for key in ("id", "at", "ordered_by", "reason", "rule", "files")},
            "objects": _list_named(journal),
            "records": records,
            "not_reached": NOT_REACHED,
        }
    )


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"
