"""Close an invocation: gather evidence and links, compose the closing lines, and make the
projections of a closed record.

`gather` checks everything that a close names before anything is written, and `compose_closing`
makes the lines. The projections (evidence folder, copy in the trail) can be made again from the
record and its objects.

    contents = gather(project, place, record, evidence="proof.md", artifacts=(), commit=None,
                      allow_outside=False)
    bodies = compose_closing(contents, outcome="done", closed_by="agent", at=now)

`executor.complete` calls both and writes in between. Nothing here decides whether a record may be
closed: that depends on its last line, under its lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from doctrine import os
from doctrine.light_imports import NamedTuple, hash_bytes
from doctrine.text import say
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.invocation.events import links
from specify_cli.project.config import Project
from specify_cli.record import layout, tiers
from specify_cli.record.reading.checks import read_commands
from specify_cli.record.reading.done_note import Remark, note_done
from specify_cli.record.reading.views import fields_of
from specify_cli.record.record import Record
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import Body, FileRecordStore, Place

CLOSED_BY = ("agent", "person", "hook", "doctor")


class Completion(NamedTuple):
    """The result of `complete`; `already_completed` says that the record was closed before.

    All values are those of the record, also if another process closed it. `published` is the path
    of the copy that this call made, None where it made none. `note` are remarks about the work,
    such as edits after the last test run; they never stop a close.
    """

    invocation_id: str
    profile_id: str
    action: str
    outcome: str
    completed_at: str
    already_completed: bool
    evidence_ref: str | None
    artifacts: tuple[str, ...]
    commit: str | None
    published: str | None
    note: tuple[Remark, ...]
    warnings: tuple[str, ...]

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/completion.json`."""
        return {
            **self._asdict(),
            "artifacts": list(self.artifacts),
            "note": [{**remark._asdict(), "seqs": list(remark.seqs)} for remark in self.note],
            "warnings": list(self.warnings),
        }


class ClosingContents(NamedTuple):
    """The evidence, artifacts and commit of a close.

    `evidence` is masked. `fields` are members of `completed`: the evidence's name, size and
    redactions. `artifacts` maps paths to bodies of `artifact_link`.
    """

    evidence: bytes | None
    fields: Body
    artifacts: Mapping[str, Body]
    commit: str | None

    @property
    def evidence_ref(self) -> str | None:
        """Return the digest of the evidence."""
        return None if self.evidence is None else hash_bytes(self.evidence)


def gather(
    project: Project,
    place: Place,
    record: Record | None,
    *,
    evidence: str | None,
    artifacts: Sequence[str],
    commit: str | None,
    allow_outside: bool,
) -> ClosingContents:
    """Read and check the evidence, artifacts and commit of a close; nothing is written.

    `evidence` and `artifacts` are paths as the caller gave them; `commit` is a name git knows.
    Evidence outside the project is refused without `allow_outside`. Raises CallerError
    EVIDENCE_NOT_ALLOWED, EVIDENCE_NOT_FOUND, EVIDENCE_OUTSIDE, ARTIFACT_NOT_FOUND,
    ARTIFACT_OUTSIDE, COMMIT_NOT_FOUND, FILE_TOO_LARGE.

    `record` is the record as it stands. A file is read once: what is hashed is what is stored.
    """
    again = f"spec-kitty profile-invocation complete --invocation-id {place.invocation_id}"
    started = record.started if record else {}
    mode = started.get("mode_of_work")
    if evidence is not None and not tiers.evidence_allowed(None if mode is None else str(mode)):
        message = f"{place.invocation_id} is advisory and carries no evidence"
        raise CallerError("EVIDENCE_NOT_ALLOWED", message, again)
    if started.get("tombstone") is True and (evidence or artifacts or commit):
        message = f"{place.invocation_id} was begun with the trail off; nothing of its work is kept"
        raise CallerError("EVIDENCE_NOT_ALLOWED", message, again)
    rules = project.config.redaction
    data, fields = None, {}
    if evidence is not None:
        data, masks = links.read_evidence(project.root, evidence, allow_outside, rules)
        fields = links.masked("evidence_name", links.recordable(os.path.basename(evidence)), rules)
        fields |= {"evidence_size": len(data), **({"redactions": masks} if masks else {})}
    linked = [links.artifact_link(project.root, path, rules) for path in artifacts]
    sha = None if commit is None else links.known_commit(project.root, commit)
    return ClosingContents(data, fields, {str(body["ref"]): body for body in linked}, sha)


def compose_closing(
    contents: ClosingContents, *, outcome: str, closed_by: str, at: str
) -> list[Body]:
    """Return the bodies that close a record: its links, then the closing line.

    `at` is RFC 3339 and the same for all of them. `completed` comes last, and no line can follow
    it.

    `outcome` and `closed_by` are the words of docs/format.md §4, already checked.
    """
    bodies = [{**body, "at": at} for body in contents.artifacts.values()]
    if contents.commit is not None:
        bodies.append({"event": "commit_link", "at": at, "sha": contents.commit})
    closing = {
        "event": "completed",
        "completed_at": at,
        "outcome": outcome,
        "closed_by": closed_by,
        "evidence_ref": contents.evidence_ref,
    }
    return [*bodies, {**closing, **contents.fields}]


def check_outcome(place: Place, completed: Mapping[str, object], outcome: str) -> None:
    """Refuse to close a record again with another outcome. Raises CallerError OUTCOME_DIFFERS.

    `completed` is the fields of the closing line. The same outcome passes: closing twice is no
    error.
    """
    recorded = completed.get("outcome")
    if recorded not in (None, outcome):
        raise CallerError(
            "OUTCOME_DIFFERS",
            f"{place.invocation_id} was closed at {completed.get('completed_at')} as {recorded}, "
            f"not as {outcome}; closing is final, and nothing was changed",
            f"spec-kitty invocations show {place.invocation_id}; to begin another: spec-kitty "
            'do "REQUEST"',
        )


def check_recorded(place: Place, record: Record, contents: ClosingContents) -> None:
    """Refuse to close a record again with evidence or links that it does not hold. Raises
    CallerError ALREADY_COMPLETED.

    Evidence is compared by digest, artifacts by path and digest, the commit by id. A second close
    can name less than the first.
    """
    assert record.completed is not None
    refs = contents.artifacts
    lines = fields_of(record) if refs else ()
    linked = {
        (line["ref"], say(line.get("digest"))) for line in lines if isinstance(line.get("ref"), str)
    }
    lacking = (
        []
        if contents.evidence_ref in (None, record.completed.get("evidence_ref"))
        else ["the evidence"]
    )
    lacking += [
        f"artifact {ref}" for ref, body in refs.items() if (ref, say(body["digest"])) not in linked
    ]
    if contents.commit is not None and all(
        entry.fields.get("sha") != contents.commit for entry in record.entries
    ):
        lacking.append(f"commit {contents.commit}")
    if lacking:
        raise CallerError(
            "ALREADY_COMPLETED",
            f"{place.invocation_id} was closed at {record.completed.get('completed_at')}, and "
            f"closing is final; not added, as the record does not hold it: {', '.join(lacking)}",
            f"what it holds: spec-kitty invocations show {place.invocation_id}; to record more, "
            'begin another: spec-kitty do "REQUEST"',
        )


def describe_closed(
    project: Project,
    records: FileRecordStore,
    objects: FileObjectStore,
    place: Place,
    record: Record,
    *,
    already: bool,
) -> Completion:
    """Make the projections of a closed record and return its completion.

    A projection that fails is only a warning, because the record is closed. `already` says that it
    was closed before this call. `record` was read after its closing line was durable.
    """
    completion = _read_completion(place, record, objects, already=already)
    try:
        published, kept_back = make_projections(project, records, objects, place, record)
        return completion._replace(published=published, warnings=(*completion.warnings, *kept_back))
    except (InvocationError, OSError) as error:
        warning = (
            f"the record is closed, but its projection failed: {error}; run the same "
            "command again to make it"
        )
        return completion._replace(warnings=(*completion.warnings, warning))


def _read_completion(
    place: Place, record: Record, objects: FileObjectStore, *, already: bool
) -> Completion:
    """Return what the closing line and the links of a record say."""
    assert record.completed is not None
    completed = record.completed
    warnings = (
        f"ALREADY_COMPLETED: {place.invocation_id} was closed at {completed.get('completed_at')} "
        f"as {completed.get('outcome')}; nothing was changed",
    )
    artifacts_linked, commits = list[str](), list[str]()
    for entry in record.entries:
        if entry.event == "artifact_link":
            artifacts_linked.append(str(entry.fields.get("ref")))
        elif entry.event == "commit_link":
            commits.append(str(entry.fields.get("sha")))
    evidence = completed.get("evidence_ref")
    return Completion(
        invocation_id=place.invocation_id,
        profile_id=str(record.started.get("profile_id")),
        action=str(record.started.get("action")),
        outcome=str(completed.get("outcome")),
        completed_at=str(completed.get("completed_at")),
        already_completed=already,
        evidence_ref=None if evidence is None else str(evidence),
        artifacts=tuple(artifacts_linked),
        commit=commits[-1] if commits else None,
        published=None,
        note=note_done(fields_of(record), read_commands(record.started, objects.get)),
        warnings=warnings if already else (),
    )


def make_projections(
    project: Project,
    records: FileRecordStore,
    objects: FileObjectStore,
    place: Place,
    record: Record,
) -> tuple[str | None, tuple[str, ...]]:
    """Make the evidence folder (tier 2) and the trail copy of a closed record, where they are
    missing.

    Return the path of the copy if it was published now (else None), and warnings about objects that
    were not published. Files whose content the policy denies or redacts are not published; a note
    in their place says so.
    """
    if record.completed is not None and record.sealed:
        evidence = record.completed.get("evidence_ref")
        if evidence is not None and not _has_evidence(project.root, place.invocation_id):
            name = str(record.completed.get("evidence_name", "evidence"))
            data = objects.get(str(evidence))
            documents = {
                "evidence.md": tiers.evidence_document(data, str(evidence), name),
                "record.json": tiers.record_document(record),
            }
            _write_evidence(project.root, records, place.invocation_id, documents)
        if project.config.trail == "committed":
            # loads what verifies a record
            from specify_cli.invocation.ends.publish import publish_record

            return publish_record(project, records, objects, place)
    return None, ()


def _has_evidence(root: str, invocation_id: str) -> bool:
    """Return whether both files of the evidence folder are there; their content is not looked
    at."""
    folder = f"{root}/{layout.evidence_folder(invocation_id)}"
    return all(os.path.lexists(f"{folder}/{name}") for name in ("evidence.md", "record.json"))


def _write_evidence(
    root: str, records: FileRecordStore, invocation_id: str, documents: Mapping[str, bytes]
) -> None:
    """Write the evidence folder's files that are missing, each whole. Raises EnvironmentFault."""
    with durable.Writing(layout.evidence_folder(invocation_id)):
        records.hide_folder(layout.EVIDENCE)
        with durable.folder(root, layout.evidence_folder(invocation_id), create=True) as fd:
            for name, data in documents.items():
                try:
                    durable.create_exclusive(fd, name, data, durable.PRIVATE)
                except FileExistsError:
                    continue
