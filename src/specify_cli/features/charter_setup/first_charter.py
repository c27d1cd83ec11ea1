"""Write the files of a first charter beside what a project has: nothing that is there is lost.

    drafts, notes = plan_drafts(root, files, facts)
    written, kept = write_drafts(root, [draft for draft in drafts if draft.path in chosen])

`synthesize.py` decides what the files say; asking a person is the command line's.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from charter.inputs import CHARTER_BYTES
from doctrine import os
from doctrine.agent_profiles.profile import parse_profile
from doctrine.load import SourceError, read_source
from doctrine.yaml_reader import read_yaml
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, StoredDataError
from specify_cli.features.charter_setup.synthesize import PROFILE, PROFILE_ID, PlannedFile
from specify_cli.record import layout
from specify_cli.routing.registry import ProfileRegistry, shipped_table
from specify_cli.routing.router import ProjectFacts, RouterDecision, route
from specify_cli.storage.store import FileRecordStore

_CHARTERS = (".kittify/charter/charter.md", ".kittify/charter/charter.yaml")
# What must have one answer before and after a project gets a profile of its own.
_ROUTED = (
    "fix the login test",
    "review the change",
    "review the SQL migration",
    "plan the release",
)
_REPLACED = f"{layout.LOCAL}/replaced"


def has_charter(root: str) -> bool:
    """Return whether a project has a charter, of either form, whatever it is."""
    return any(os.path.lexists(f"{root}/{charter}") for charter in _CHARTERS)


class Draft(NamedTuple):
    """A planned file beside what is there.

    new, unchanged, different; kept: it is never replaced; left_out: another file is there in its
    stead.
    """

    path: str
    data: bytes
    there: bytes | None
    state: str
    note: str = ""

    @property
    def diff(self) -> str:
        """Return what would change in the file that is there; empty where nothing would."""
        if self.there is None or self.there == self.data:
            return ""
        old, new = self.there.decode("utf-8", "replace").split("\n"), self.data.decode().split("\n")
        lines = difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}", lineterm="")
        return "\n".join(lines) + "\n"


def plan_drafts(
    root: str, files: tuple[PlannedFile, ...], facts: ProjectFacts
) -> tuple[list[Draft], list[str]]:
    """Return the files that may be written, beside what is there, and notes on those that are left
    out.

    Raises StoredDataError where something else than a plain file stands in a file's place.
    """
    files, notes = _drop_unroutable(root, files, facts)
    return [_compare_with_file(root, file) for file in files], notes


def write_drafts(root: str, drafts: Sequence[Draft]) -> tuple[set[str], list[str]]:
    """Write in the order planned; return the paths written, and notes on files that were there.

    A crash leaves whole files; without the charter, which comes last, none is in use. Raises
    EnvironmentFault WRITE_FAILED.
    """
    written: set[str] = set()
    notes = []
    for draft in drafts:
        folder, _, name = draft.path.rpartition("/")
        try:
            with durable.folder(root, folder, create=True) as fd:
                if draft.there is None:
                    durable.create_exclusive(fd, name, draft.data, durable.SHARED)
                else:
                    backup = _keep_replaced(root, draft.path, draft.there)
                    durable.replace(fd, name, draft.data, durable.SHARED)
                    notes.append(f"what {draft.path} held before is kept in {backup}")
        except FileExistsError:
            notes.append(f"{draft.path} is kept: it was written while you were asked")
            continue
        except OSError as error:
            raise EnvironmentFault(
                "WRITE_FAILED",
                f"cannot write {draft.path}: {error.strerror or error}; {len(written)} files "
                "were written before it",
                "make the folder writable, then run the same command again; what is there is kept",
            ) from error
        written.add(draft.path)
    return written, notes


def _drop_unroutable(
    root: str, files: tuple[PlannedFile, ...], facts: ProjectFacts
) -> tuple[tuple[PlannedFile, ...], list[str]]:
    """Leave out a profile that would take the place of another, or give a request two answers."""
    mine = next((file for file in files if file.path == PROFILE), None)
    if not mine:
        return files, []
    others = [p for p in ProfileRegistry(root).all() if p.profile_id != PROFILE_ID]
    # A sentinel is no agent: nothing is routed to it.
    rest = tuple(file for file in files if file is not mine)
    for own in others:
        if own.origin == "project" and "IMPLEMENTER" in own.roles and not own.sentinel:
            said = f"the project has an implementer of its own, {own.profile_id}"
            return rest, [f"no profile is written: {said}"]
    candidate = parse_profile(read_yaml(mine.data, name=PROFILE), digest="", origin="project")
    table = shipped_table()
    for request in _ROUTED:
        before = route(request, others, table, facts)
        after = route(request, [*others, candidate], table, facts)
        if isinstance(before, RouterDecision) and not isinstance(after, RouterDecision):
            said = f'"{request}" would have two answers with one more implementer'
            return rest, [f"no profile is written: {said}"]
    return files, []


def _compare_with_file(root: str, file: PlannedFile) -> Draft:
    """Return a planned file and what stands in its place. Raises StoredDataError where that is no
    plain file."""
    for charter in _CHARTERS if file.path in _CHARTERS else ():
        if not os.path.lexists(f"{root}/{charter}"):
            continue
        if charter == file.path:
            note = f"{charter} is kept: a charter is never rewritten; move it away to begin anew"
            return Draft(file.path, file.data, None, "kept", note)
        note = (
            f"{file.path} is left out: {charter} is there and stays the charter, which "
            "is never rewritten"
        )
        return Draft(file.path, file.data, None, "left_out", note)
    try:
        source = read_source(root, file.path, max_bytes=CHARTER_BYTES)
    except SourceError as error:
        problem = error.problem
        code = "NOT_A_REGULAR_FILE" if problem.path == file.path else "UNSAFE_PATH"
        raise StoredDataError(
            code, f"{problem.path}: {problem.reason}; nothing was written", problem.repair
        ) from error
    if not source:
        return Draft(file.path, file.data, None, "new")
    state = "unchanged" if source.data == file.data else "different"
    return Draft(file.path, file.data, source.data, state)


def _keep_replaced(root: str, path: str, data: bytes) -> str:
    """Keep the bytes a file held before it is replaced; return where, below the root."""
    FileRecordStore(root).hide_folder(layout.LOCAL)
    stem = path.removeprefix(f"{layout.KITTIFY}/").replace("/", ".")
    with durable.folder(root, _REPLACED, create=True) as fd:
        names = set(os.listdir(fd))
        name = next(
            name for number in itertools.count(1) if (name := f"{stem}.{number}") not in names
        )
        durable.create_exclusive(fd, name, data, durable.PRIVATE)
    return f"{_REPLACED}/{name}"
