"""Records into the ref, and out of it.

    pushed = push_trail(project, "origin")
    fetched = fetch_trail(project, "origin")

A record travels as a safe export of its own, with the proofs of its log where it has some.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from doctrine.git import read_blobs
from doctrine.light_imports import hash_bytes, hash_text
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.trail_ref.git_ref import (
    NAME,
    Fetched,
    fetch_ref,
    list_files,
    name_ref,
    push_files,
    read_tip,
    refuse_rewritten,
    remember,
)
from specify_cli.features.witness.log.proofs import collect_proofs
from specify_cli.libraries.archive.archive import Leaving, export
from specify_cli.libraries.archive.unpacking import Rows, import_file
from specify_cli.libraries.work.sources import Source, iter_opened, list_items
from specify_cli.project.checks import list_names
from specify_cli.project.config import Project, load_project
from specify_cli.project.protection import COMMITTED_SEALED
from specify_cli.project.root import require_worktree
from specify_cli.record import layout
from specify_cli.record.seal import seal_at_end
from specify_cli.storage.checking import annex_files
from specify_cli.storage.index import Index
from specify_cli.storage.queries import read_row
from specify_cli.storage.store import FileRecordStore, Place, list_trail_folders
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import ANNEX

# Below the git directory: the archives that were taken in.
_TAKEN = "taken-in"
# The archive as it is laid out to be read, and how errors name it.
_FILE = "record.tar"
_LAID_OUT = re.compile(rf"\S*/{re.escape(_FILE)}")
_WHY = "there is no ref to carry records in"
# How far a work is: so many, of how many.
Progress = Callable[[int, int], None]
# An archive larger than this is not taken in.
MAX_ARCHIVE = 64 * 1024 * 1024


class RefPush(NamedTuple):
    """What a push did: records that are new in the ref, how many files it holds, and what could
    not go."""

    added: tuple[str, ...]
    files: int
    left_out: tuple[str, ...]


class RefFetch(NamedTuple):
    """What a fetch brought: records that are new here, how many were here already, what could not
    be taken in, files that the remote does not hold any more, and which projects of a source are
    others and were left alone."""

    records: tuple[str, ...]
    present: int
    refused: tuple[str, ...]
    lost: tuple[str, ...]
    rewritten: bool
    others: tuple[str, ...] = ()


def push_trail(project: Project, remote: str, progress: Progress | None) -> RefPush:
    """Add every closed record of this clone to the remote's ref, or to the folder that git tracks
    where `trail: committed` leaves encrypted, each as a safe export. `progress` is told how many
    records were looked at, of how many.

    Raises CallerError TRAIL_NOT_ACCEPTED where `trail: ref` is not in force, EnvironmentFault
    REMOTE_FAILED, StoredDataError TRAIL_REWRITTEN.
    """
    in_branch = project.config.trail == COMMITTED_SEALED
    if project.config.trail != "ref" and not in_branch:
        stated = project.config.stated.trail
        raise CallerError(
            "TRAIL_NOT_ACCEPTED",
            f"trail is {project.config.trail}: records leave in a git ref only with `trail: ref`, "
            "and sealed in a branch with `trail: committed` and `capture.sealed`",
            f"`trail: {stated}` is set and not accepted here; a person runs: "
            "spec-kitty config accept"
            if stated == "ref" or (stated == "committed" and project.config.is_sealed)
            else "set `trail: ref` in .kittify/config.yaml, then: spec-kitty config accept",
        )
    top = require_worktree(project.root, _WHY)
    ref = name_ref(top, project.root)
    known = _list_branch(project) if in_branch else fetch_ref(top, ref, remote)
    refuse_rewritten(remote, ref, known)
    added = set()
    left_out = []

    def compose_new() -> Iterator[tuple[str, bytes]]:
        leaving = Leaving(project, safe=True)
        places = list(_list_closed(project))
        for number, place in enumerate(places):
            if progress is not None:
                progress(number, len(places))
            try:
                name = _name_archive(project, place)
                if name in known.files:
                    continue
                data = _compose(leaving, project, place.invocation_id)
            except (OSError, InvocationError) as error:
                left_out.append(f"{place.invocation_id}: {error}")
                continue
            added.add(place.invocation_id)
            yield name, data

    if in_branch:
        _write_files(project, compose_new())
        state = _list_branch(project)
    else:
        state = push_files(top, ref, remote, compose_new(), known)
    return RefPush(tuple(sorted(added)), len(state.files), tuple(left_out))


def _list_branch(project: Project) -> Fetched:
    """Return the archives in the folder that git tracks; each name stands for one content."""
    names = (
        f"{folder}/{name}".removeprefix(f"{layout.TRAIL}/")
        for folder in list_trail_folders(project.root)
        for name in list_names(project.root, folder)
    )
    return Fetched(None, {name: name for name in names if NAME.fullmatch(name)}, (), False)


def _read_branch(project: Project, name: str) -> bytes | Exception | None:
    try:
        data = durable.read_below(project.root, f"{layout.TRAIL}/{name}", MAX_ARCHIVE)
    except (OSError, InvocationError) as error:
        return error
    return data if len(data) <= MAX_ARCHIVE else None


def _write_files(project: Project, files: Iterable[tuple[str, bytes]]) -> None:
    """Write archives where git tracks them, each whole or not at all."""
    FileRecordStore(project.root).shield_trail()
    for path, data in files:
        folder, _, name = f"{layout.TRAIL}/{path}".rpartition("/")
        with durable.folder(project.root, folder, create=True) as fd:
            durable.create_exclusive(fd, name, data, durable.SHARED)


def fetch_trail(project: Project, remote: str, progress: Progress | None) -> RefFetch:
    """Bring in every record of the remote's ref, or of the branch, that is not here; `progress` is
    told how many archives were, of how many. Raises EnvironmentFault REMOTE_FAILED."""
    in_branch = _list_branch(project)
    trail = project.config.trail
    if trail == COMMITTED_SEALED or (in_branch.files and trail != "ref"):
        read = partial(_read_branch, project)
        return _take_in(project, in_branch, lambda names: map(read, names), progress)
    top = require_worktree(project.root, _WHY)
    ref = name_ref(top, project.root)
    branch = fetch_ref(top, ref, remote)
    result = _take_in(project, branch, lambda blobs: read_blobs(top, blobs, MAX_ARCHIVE), progress)
    if branch.tip is not None and not branch.rewritten and not branch.lost:
        remember(top, ref, branch.tip)
    return result


def fetch_source(project: Project, sources: list[Source]) -> RefFetch:
    """Bring in this project's records of other sources, such as a collector's database."""
    records: list[str] = []
    refused = []
    present, rows = 0, _read_rows(project)
    others = [source.name for source in sources if _is_of_another(project, source)]
    for source in sources:
        for item in list_items(source) if source.name not in others else ():
            for opened in iter_opened(item):
                if opened.failure:
                    refused.append(f"{source.name}: {opened.failure.message}")
                    continue
                other = load_project(opened.root, lenient=True)[0]
                leaving = Leaving(other, safe=True)
                for place in opened.places:
                    try:
                        data = _compose(leaving, other, place.invocation_id, proofs=False)
                        new = _import(project, data, rows)
                    except (OSError, InvocationError) as error:
                        refused.append(f"{place.invocation_id}: {error}")
                        continue
                    records += new
                    present += not new
    return RefFetch(tuple(records), present, tuple(refused), (), False, tuple(others))


def _is_of_another(project: Project, source: Source) -> bool:
    """Return whether a source says that it is of another project. An archive does not say."""
    own = project.config.project_uuid
    if source.holder is not None:
        return source.name != own
    if source.is_archive or own is None:
        return False
    return load_project(source.path, lenient=True)[0].config.project_uuid not in (own, None)


def find_archive(project: Project, top: str, invocation_id: str) -> Iterator[bytes]:
    """Yield the archives of a record that the branch and the ref here hold."""
    tip = read_tip(top, name_ref(top, project.root))
    files = sorted(list_files(top, tip).items()) if tip is not None else []
    blobs = [blob for name, blob in files if name[8:34] == invocation_id]
    names = [name for name in _list_branch(project).files if name[8:34] == invocation_id]
    for data in (*read_blobs(top, blobs, MAX_ARCHIVE), *(_read_branch(project, n) for n in names)):
        if isinstance(data, bytes):  # what a branch planted is none
            yield data


def _take_in(
    project: Project,
    branch: Fetched,
    read: Callable[[Sequence[str]], Iterable[bytes | Exception | None]],
    progress: Progress | None,
) -> RefFetch:
    """Import archives, which `read` gives in order.

    The git directory remembers which this worktree took in: the tip of the ref does not tell, for a
    push moves it past archives of others that nobody read here.
    """
    records: list[str] = []
    refused = []
    present = set()
    index, folder = Index(project.root), f"{project.git_dir}/kittify"
    names = set((durable.read_own(folder, _TAKEN, MAX_ARCHIVE) or b"").decode("latin-1").split())
    pending = []
    for name, blob in sorted(branch.files.items()):
        mark = hash_bytes(os.fsencode(f"{os.path.realpath(project.root)}\0{blob}"))
        if mark in names and index.lookup(name[8:34]):
            present.add(name[8:34])
        else:
            pending.append((name, blob, mark))
    contents, rows = read([blob for _, blob, _ in pending]), _read_rows(project)
    try:
        for number, ((name, _, mark), data) in enumerate(zip(pending, contents, strict=True)):
            if progress is not None:
                progress(number, len(pending))
            try:
                if data is None:
                    refused.append(f"{name}: it is larger than {MAX_ARCHIVE} bytes")
                    continue
                records += _import(project, data, rows)
            except (OSError, InvocationError) as error:
                refused.append(f"{name}: {_LAID_OUT.sub('the archive', str(error))}")
                continue
            names.add(mark)
            present.add(name[8:34])
    finally:  # also where a person ends it: the next fetch goes on from there
        os.makedirs(folder, mode=0o700, exist_ok=True)  # private, as everything of ours there
        with durable.folder(folder) as fd:
            durable.replace(fd, _TAKEN, "\n".join(sorted(names)).encode(), durable.PRIVATE)
    return RefFetch(
        tuple(records), len(present - set(records)), tuple(refused), branch.lost, branch.rewritten
    )


def _read_rows(project: Project) -> Rows:
    """Return the rows of the records that are here, by their ids."""
    rows = Rows(list)
    for key in Index(project.root).newest():
        rows[key.invocation_id].append(key)
    return rows


def _import(project: Project, data: bytes | Exception, rows: Rows) -> tuple[str, ...]:
    """Return the records of an archive that were not here; their rows are added to `rows`. Raises
    StoredDataError, and an error in its place."""
    if isinstance(data, Exception):
        raise data
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        path = f"{folder}/{_FILE}"
        with open(path, "wb") as file:
            file.write(data)
        names = import_file(project, path, rows).records
    return tuple(ids[1] for name in names if (ids := layout.parse_record_name(name)))


def _list_closed(project: Project) -> Iterator[Place]:
    """Yield the closed records that this clone, or its branch, wrote: what was imported stays, but
    for that of which something was ordered or said here."""
    index, generations = Index(project.root), open_log(project).generations()
    leaves = chain.from_iterable(generation.read_leaves() for generation in generations)
    annexed = {leaf.invocation_id for leaf in leaves if leaf.kind == ANNEX}
    for place in index.places():
        is_foreign = layout.is_imported(place.folder) and place.invocation_id not in annexed
        if is_foreign or place.folder == layout.OLDER_RECORDS:
            continue
        row = read_row(project.root, place)
        if row and row.status == "closed":
            yield place


def _name_archive(project: Project, place: Place) -> str:
    """Return the name of a record's archive as it is now: a later annex gives another one."""
    tip = seal_at_end(FileRecordStore(project.root).read(place)) or ""
    annexes = sorted(
        os.path.basename(path) for path, _ in annex_files(project.root, place.invocation_id)
    )
    state = hash_text("\n".join((tip, *annexes)))[:16]
    month = layout.trail_folder(place.invocation_id).rpartition("/")[2]
    return f"{month}/{place.invocation_id}-{state}.tar"


def _compose(
    leaving: Leaving, project: Project, invocation_id: str, *, proofs: bool = True
) -> bytes:
    """Return a safe export of one record, with its proofs where its log can be signed."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        path = f"{folder}/record.tar"
        prove = partial(collect_proofs, project) if proofs else None
        try:
            export(project, [invocation_id], path, safe=True, prove=prove, leaving=leaving)
        except InvocationError as error:
            if prove is None or error.code not in ("NOTHING_LOGGED", "EXTRA_MISSING"):
                raise
            export(project, [invocation_id], path, safe=True, leaving=leaving)
        with open(path, "rb") as file:
            return file.read()
