"""Open a record that can be replayed: verify it, refuse what cannot be decided again.

    opened = open_past(root, place)
    opened.past.started, opened.frozen.profiles

Each object is read once, so what was verified is what is used (`ReadOnceObjects`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from charter.inputs import POLICY_PATH
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.load import ParseCache, parse_bundle
from doctrine.text import get_object, say, spell
from specify_cli.errors import StoredDataError
from specify_cli.features.replay.judge import Integrity, Note
from specify_cli.features.replay.outcomes import Code, Fields, SortedRecord, read_past
from specify_cli.invocation.ends.opening import build_digest
from specify_cli.record import layout, snapshot
from specify_cli.record.findings import ERROR, OF_THE_LINES, RecordReport
from specify_cli.record.reading.views import fields_of, read_file
from specify_cli.record.record import Record, reader_of, whole_lines
from specify_cli.record.verify import verify_record
from specify_cli.storage.frozen import (
    Frozen,
    frozen_decision,
    inputs_of_corpus,
    mapping_of,
    policy_hash_of,
)
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach, Reached
from specify_cli.storage.store import FileRecordStore, ObjectStore, Place

if TYPE_CHECKING:
    from specify_cli.storage.store import Blobs

# Outputs of the run: a replay makes them again or does without.
_OUTPUTS = {"governance_context_hash", "evidence_ref"}
_MEMBERS = {
    **dict.fromkeys(("router_table", "shipped", "corpus"), str),
    **dict.fromkeys(("profiles", "config", "facts", "code"), dict),
}


class ReadOnceObjects:
    """An object store read once per object: the bytes that were verified are the bytes that are
    used."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._known: dict[str, bytes] = {}

    def put(self, members: Blobs, roots: Sequence[bytes] = ()) -> None:
        """Put objects into the store."""
        self._objects.put(members, roots)

    def get(self, digest: str) -> bytes:
        """Return the bytes of an object, read once. Raises StoredDataError."""
        if digest not in self._known:
            self._known[digest] = self._objects.get(digest)
        return self._known[digest]

    def why_withheld(self, digest: str, field: str) -> str | None:
        """Return why an object was withheld; None where it was not."""
        return self._objects.why_withheld(digest, field)


class Opened(NamedTuple):
    """A record that can be replayed: sorted out, with its snapshot and everything the snapshot
    names."""

    record: Record
    past: SortedRecord
    request: str
    objects: ReadOnceObjects
    manifest: Fields
    frozen: Frozen
    profile: AgentProfile
    integrity: Integrity
    stored: frozenset[str]

    @property
    def code(self) -> Code:
        """Return the code that decided and the code that decides now."""
        current = {**snapshot.CODE_VERSIONS, "build": build_digest()}
        return Code(get_object(self.manifest, "code"), current)

    @property
    def corpus(self) -> str:
        """Return the corpus of the snapshot."""
        return str(self.manifest["corpus"])


def open_past(
    root: str, place: Place, *, against: bool = False, cache: ParseCache | None = None
) -> Opened:
    """Return a record that verifies and whose snapshot is whole, with what it names.

    Raises StoredDataError unreplayable.tampered, nested_replay (only `against` today),
    missing_policy_snapshot, invalid_snapshot, missing_input: in this order.
    """
    store = ReadOnceObjects(FileObjectStore(root))
    # 1. Nothing of it may have been changed.
    report, record = read_intact(root, place)
    reached = list(Reach(store).of(report.objects))
    _check_unaltered(reached, place.path)
    past = read_past(fields_of(record))
    # 2. A replay is not replayed against today; its origin is.
    if against:
        _check_live(past)
    # 3. What was in force has to be stored.
    missing = {item.digest: item for item in reached if item.code in ("OBJECT_MISSING", "WITHHELD")}
    named = _require_snapshot(past, missing)
    # 4. The snapshot has to agree with itself.
    manifest = _read_manifest(named, reached, store)
    _check_snapshot(past, manifest, store)
    # 5. Everything else it needs.
    _check_inputs(missing.values())
    try:
        frozen = frozen_decision(store, manifest)
        inputs_of_corpus(store, str(manifest["corpus"]), cache=cache)
    except StoredDataError as error:
        raise refuse_input(error) from error
    profile_id = past.started.get("profile_id")
    profile = next((item for item in frozen.profiles if item.profile_id == profile_id), None)
    if not profile:
        raise _invalid(f"snapshot {named}: profiles: expected {profile_id} among them")
    notes = [Note(item.code, item.severity, item.seq, item.message) for item in report.findings]
    notes += [
        Note("OBJECT_MISSING", "warning", item.seq, f"{item.field} {item.digest}")
        for item in missing.values()
    ]
    present = frozenset(item.digest for item in reached if item.code is None)
    return Opened(
        record,
        past,
        _read_request(past, store),
        store,
        manifest,
        frozen,
        profile,
        Integrity(report.tip, len(present), tuple(notes)),
        present,
    )


def _check_unaltered(reached: Sequence[Reached], file: str) -> None:
    """Raise StoredDataError unreplayable.tampered for an object with other bytes than its name
    says."""
    altered = next((item for item in reached if item.code == "OBJECT_ALTERED"), None)
    if altered:
        what = (
            f"the file of its {altered.field} {altered.digest} holds other bytes than the "
            "record names"
        )
        raise refusal("tampered", f"{file}: its own lines are intact, but {what}")


def _check_live(past: SortedRecord) -> None:
    """Raise StoredDataError unreplayable.nested_replay for a record that is itself a replay."""
    kind = str(past.started.get("run_kind") or "live")
    if kind != "live":
        parent = str(past.started.get("parent_invocation_id"))
        raise refusal(
            "nested_replay",
            f"{past.invocation_id} is of kind {kind}; its parent is {parent}",
            f"give --from-root, or: spec-kitty replay {parent} --against current",
            candidates=[{"invocation_id": parent}],
        )


def _check_inputs(missing: Iterable[Reached]) -> None:
    """Raise StoredDataError unreplayable.missing_input for what is missing, unless a replay does
    without."""
    lost = next((item for item in missing if item.field not in _OUTPUTS), None)
    if lost:
        why = "is not in the store" if lost.why is None else f"was withheld: {lost.why}"
        raise refusal(
            "missing_input", f"{lost.field} {lost.digest}, named at seq {lost.seq}, {why}"
        )


def _read_request(past: SortedRecord, store: ReadOnceObjects) -> str:
    """Return the request, which a line names where it was too long for it."""
    named = past.started.get("request_object")
    if isinstance(named, str):
        return store.get(named).decode("utf-8", "replace")
    return str(past.started.get("request_text"))


def _require_snapshot(past: SortedRecord, missing: Mapping[str, Reached]) -> str:
    """Return the snapshot a record names, where it and the policy in force are not among what is
    missing."""
    named = past.started.get("snapshot")
    if not isinstance(named, str):
        why = "it was written before snapshots were"
        if past.started.get("tombstone") is True:
            why = "its trail was off"
        elif "imported" in past.started:
            why = "it was made of a transcript, which keeps no rules"
        raise refusal("missing_policy_snapshot", f"{past.invocation_id} names no snapshot: {why}")
    hidden = next((fields for fields in past.withheld if fields.get("seq") == 1), None)
    if hidden is not None:
        raise refusal(
            "missing_input", f"seq 1, its policy reference, was withheld: {hidden['withheld']}"
        )
    if not past.references:
        raise refusal(
            "missing_policy_snapshot",
            f"{past.invocation_id} holds no reference to the policy in force",
        )
    gone = next(
        (item for item in missing.values() if item.field in ("snapshot", "policy", "bundle")), None
    )
    if gone and gone.why is not None:
        raise refusal("missing_input", f"{gone.field} {gone.digest} was withheld: {gone.why}")
    if gone:
        raise refusal("missing_policy_snapshot", f"{gone.field} {gone.digest} is not in the store")
    return named


def _read_manifest(named: str, reached: Sequence[Reached], store: ReadOnceObjects) -> Fields:
    """Return what a snapshot lists. Raises StoredDataError unreplayable.invalid_snapshot."""
    wrong = next((item for item in reached if item.code == "SNAPSHOT_INVALID"), None)
    if wrong:
        raise _invalid(f"{wrong.field} {wrong.digest} does not have its form")
    try:
        return mapping_of(store.get(named), f"snapshot {named}")
    except StoredDataError as error:
        raise _invalid(error.message) from error


def read_intact(root: str, place: Place) -> tuple[RecordReport, Record]:
    """Read a record whose lines are as they were written. Raises StoredDataError
    unreplayable.tampered, missing_input.

    Where records are imported, a stand-in for a withheld line is as it was written. A torn tail of
    an open record is a crash and no line: nothing was answered for it. Behind a closing line no
    writer of ours leaves one.
    """
    data, file = FileRecordStore(root).hold(place), place.path
    name_ids = layout.parse_record_name(place.name)
    may_lack = layout.is_imported(place.folder)
    report = verify_record(whole_lines(data), file=file, name_ids=name_ids, withheld=may_lack)
    erased = [line for line in report.erased if line.members]
    for item in report.findings:
        if item.code == "ERASURE_UNPROVEN":
            continue  # verify knows the annexes; here it is enough that it cannot be decided again
        torn = item.code == "TORN_TAIL" and report.status == "open"
        if item.severity == ERROR and item.code in OF_THE_LINES and not torn:
            where = f"byte {item.offset}" if item.seq is None else f"seq {item.seq}"
            raise refusal("tampered", f"{item.file} {where}: {item.code}: {item.message}")
    if erased:
        what = ", ".join(f"{name} (seq {line.seq})" for line in erased for name in line.members)
        raise refusal("missing_input", f"{file}: erased: {what[:500]}; verify says on whose order")
    record = read_file(reader_of(data))
    hidden = next(
        (item for item in report.findings if item.code == "WITHHELD" and item.seq == 0), None
    )
    if hidden:
        raise refusal(
            "missing_input", f"{file}: seq 0, its started line, was withheld: {hidden.message}"
        )
    if not record:
        raise refusal("tampered", f"{file}: no started line can be read")
    return report, record


def _check_snapshot(past: SortedRecord, manifest: Fields, objects: ReadOnceObjects) -> None:
    """Everything is there; the policy of snapshot, references and corpus is one and loads as they
    say."""
    if "policy" not in manifest or "policy_state" not in manifest:
        raise refusal("missing_policy_snapshot", "the snapshot never captured a policy")
    if manifest.get("v") != snapshot.MANIFEST_VERSION:
        raise _invalid(f"v: expected {snapshot.MANIFEST_VERSION}, found {say(manifest.get('v'))}")
    invalid = [name for name, kind in _MEMBERS.items() if type(manifest.get(name)) is not kind]
    if invalid:
        raise _invalid(f"the snapshot has no valid {', '.join(invalid)}")
    policy, state = manifest["policy"], manifest["policy_state"]
    fitting = {"none": policy is None, "present": policy is not None, "unreadable": True}
    if not fitting.get(str(state)):
        raise _invalid(f"policy_state {spell(state)} with policy {say(policy)}")
    for reference in past.references:
        _check_reference(reference, objects)
    for retrieval in past.retrievals:
        if not isinstance(retrieval.request.get("corpus"), str):
            raise _invalid(f"retrieval {retrieval.request_id} names no corpus")
    first = past.references[0]
    if first.get("bundle") != policy:
        raise _invalid(
            f"policy: the snapshot has {say(policy)}, the record {say(first.get('bundle'))}"
        )
    if (first.get("policy_hash") is not None) != (state == "present"):
        raise _invalid(
            f"policy_state {spell(state)} with policy_hash {say(first.get('policy_hash'))}"
        )
    try:
        bundle, corpus = (objects.get(str(manifest[name])) for name in ("shipped", "corpus"))
    except StoredDataError:
        return  # said as a missing input
    try:
        parse_bundle(bundle)
        files = mapping_of(corpus, "corpus").get("files")
    except StoredDataError as error:
        raise _invalid(error.message) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(f"shipped {manifest['shipped']} is no bundle: {error}") from error
    in_corpus = files.get(POLICY_PATH) if isinstance(files, dict) else None
    if in_corpus != policy:
        raise _invalid(f"policy: the snapshot has {say(policy)}, its corpus {say(in_corpus)}")


def _check_reference(reference: Fields, objects: ReadOnceObjects) -> None:
    bundle, named, parsed = (reference.get(key) for key in ("bundle", "bundle_hash", "policy_hash"))
    described = ", ".join(
        f"{key} {say(reference.get(key))}" for key in ("bundle", "bundle_hash", "policy_hash")
    )
    where = f"policy reference at seq {reference.get('seq')}"
    if (bundle is None) != (named is None) or (bundle is None and parsed is not None):
        raise _invalid(f"{where} is half null: {described}")
    if bundle != named:
        raise _invalid(f"{where}: bundle and bundle_hash differ: {described}")
    if parsed is not None:
        actual = policy_hash_of(objects.get(str(bundle)))
        if actual is None:
            raise _invalid(f"{where}: policy {bundle} does not load")
        if actual != parsed:
            raise _invalid(f"{where}: policy {bundle} hashes to {actual}, not to {parsed}")


def _invalid(why: str) -> StoredDataError:
    return refusal("invalid_snapshot", why)


def refuse_input(error: StoredDataError) -> StoredDataError:
    """Return the refusal for an input that cannot be read."""
    code = "missing_input" if error.code == "OBJECT_MISSING" else "invalid_snapshot"
    return refusal(code, error.message)


def refusal(
    kind: str,
    message: str,
    suggestion: str = "spec-kitty invocations verify --all",
    *,
    candidates: list[dict[str, object]] | None = None,
) -> StoredDataError:
    """Return the error that says why a record cannot be replayed; its code is
    unreplayable.<kind>."""
    return StoredDataError(f"unreplayable.{kind}", message, suggestion, candidates=candidates)
