"""What a collector keeps: every phase as received, for ever, once. The values, the rules, and a Protocol of engines.

An engine promises three things: `accept` gives its verdicts only when what they say is durable; a key
(project, invocation, phase) is stored at most once whatever arrives at the same time; what arrived first stays.
One contract suite (tests/specify_cli/collector/test_storage.py) holds every engine to that. `sql.py` is the engine on
a database, `shards.py` several of them as one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from specify_cli.record.verify import RecordReport
from specify_cli.sync.contract import COMPLETED, EXTENSION, STARTED, canonical, key_of, same_content

STORED, DUPLICATE, CONFLICT, OWNED = "stored", "duplicate", "conflict", "owned"
# What is said of a record whose events are not held, and of leaves that do not follow those that are.
UNKNOWN, APART = "unknown", "apart"
# A conflict over a whole record has this in place of a phase.
RECORD = "record"
OPEN, CLOSED = "open", "closed"
# A list shows and finds so many characters of a text, which an index of every engine can hold; the event holds all.
LONGEST = 200


class StorageError(Exception):
    """The engine cannot take or give anything now; the sender keeps what it has and comes again.

    The text is logged: it says what the engine lacks, never what it was given.
    """


class StorageUnusable(StorageError):
    """What stands at the engine's place is not a collector's, or a newer one's."""


class Place(NamedTuple):
    """Where an invocation stands in the order of the list: newest first by id, then by project."""

    invocation_id: str
    project_uuid: str


Projects = frozenset[str] | None
"""The projects something is asked of; None is all of them."""


class Filter(NamedTuple):
    """Which invocations are wanted. `since` and `until` bound the id from below and, exclusively, from above."""

    projects: Projects = None
    profile: str | None = None
    action: str | None = None
    outcome: str | None = None
    status: str | None = None
    actor: str | None = None
    since: str | None = None
    until: str | None = None


class Row(NamedTuple):
    """One invocation as a list shows it. What no phase has said yet is None."""

    project_uuid: str
    invocation_id: str
    status: str
    profile_id: str | None
    action: str | None
    request: str | None
    actor_id: str | None
    actor_type: str | None
    level: str
    started_at: str | None
    completed_at: str | None
    outcome: str | None
    received_at: str

    @property
    def place(self) -> Place:
        return Place(self.invocation_id, self.project_uuid)


class StoredEvent(NamedTuple):
    """One phase as it was received."""

    phase: str
    received_at: str
    event: dict[str, object]
    client: str = ""


class Conflict(NamedTuple):
    """A key that came again with other content; the same content again only moves `last_at`.

    `held_sha256` is empty where the phase is not held: another client than the invocation's own sent it. `client` sent
    what was refused.
    """

    project_uuid: str
    invocation_id: str
    phase: str
    held_sha256: str
    sent_sha256: str
    first_at: str
    last_at: str
    times: int
    client: str = ""


class Totals(NamedTuple):
    """How much there is."""

    invocations: int
    open: int
    events: int
    conflicts: int


class ProjectRow(NamedTuple):
    """How much is held of one project; `revision` grows with every record and every leaf that comes."""

    project_uuid: str
    invocations: int
    open: int
    events: int
    conflicts: int
    records: int
    revision: int


class RecordPiece(NamedTuple):
    """A record as it was sent, with the report of its bytes. `body` is the JSON of name, lines and annexes."""

    invocation_id: str
    body: str
    report: RecordReport


class LogPiece(NamedTuple):
    """Leaves of a log from a number on, and the state its clone has signed; keys and state are the texts of notes."""

    name: str
    start: int
    leaves: str
    keys: str
    checkpoint: str


class HeldLog(NamedTuple):
    """A log as far as it arrived: its leaves, whose it is, its keys, its newest signed state."""

    name: str
    client: str
    keys: str
    checkpoint: str
    leaves: str


class HeldRecord(NamedTuple):
    """A whole record as it is held: what was sent, by whom, and what its bytes said then; `body` where it was asked."""

    invocation_id: str
    received_at: str
    client: str
    report: str
    body: str = ""


class Storage(Protocol):
    """Where a collector keeps events. Methods may be called from several threads at once."""

    def accept(self, events: Sequence[Mapping[str, object]], now: str, client: str = "") -> list[str]:
        """Store a batch of faultless events in one step; a verdict for each, durably.

        The client that first sent a phase of an invocation owns it: what another one adds is OWNED, and not stored.
        """

    def rows(self, filters: Filter, limit: int, after: Place | None = None) -> list[Row]:
        """At most `limit` invocations, newest first, those after a place if one is given."""

    def phases(self, invocation_id: str, projects: Projects = None) -> dict[str, list[StoredEvent]]:
        """Return what is held of an invocation, Started first, by the project's uuid."""

    def conflicts(self, limit: int, projects: Projects = None, invocation_id: str | None = None) -> list[Conflict]:
        """Return the conflicts seen last, newest first; of one invocation where it is named."""

    def totals(self, projects: Projects = None) -> Totals:
        """Return how much there is."""

    def keep_record(self, project: str, piece: RecordPiece, now: str, client: str) -> str:
        """Store a whole record beside its events, durably; STORED, DUPLICATE, CONFLICT, OWNED or UNKNOWN.

        A record that came before is replaced where the new one adds annexes to the same lines.
        """

    def keep_leaves(self, project: str, piece: LogPiece, client: str) -> tuple[str, int]:
        """Store leaves that follow those held, durably; a verdict, APART where they do not follow, and how many are."""

    def projects(self, projects: Projects, limit: int, after: str = "") -> list[ProjectRow]:
        """Return at most `limit` projects by their uuids, those after one if one is given."""

    def records(self, project: str, limit: int, after: str = "", *, bodies: bool = False) -> list[HeldRecord]:
        """Return at most `limit` whole records of a project by their ids, those after one if one is given."""

    def bodies(self, places: Sequence[Place]) -> dict[Place, str]:
        """Return the whole records that are held of some invocations, as they were sent."""

    def logs(self, project: str) -> list[HeldLog]:
        """Return the logs of a project by their names."""

    def close(self) -> None:
        """Let go of what the engine holds."""


def project_of(event: Mapping[str, object]) -> str:
    """Return the project's uuid of a faultless event."""
    return str(_get_member(event, "data")["project_uuid"])


def row_of(started: StoredEvent | None, completed: StoredEvent | None) -> Row:
    """Return the row of an invocation from the phases that are held."""
    first = started or completed
    assert first is not None
    told = _get_member(started.event, "data", "payload") if started is not None else {}
    actor = _get_member(told, "actor")
    said = _get_extension(completed.event) if completed is not None else {}
    return Row(
        project_of(first.event),
        str(first.event["subject"]),
        OPEN if completed is None else CLOSED,
        _get_beginning(told.get("profile_slug")),
        _get_beginning(told.get("action")),
        None if started is None else _get_beginning(_get_extension(started.event).get("request_text")),
        _get_beginning(actor.get("actor_id")),
        _get_beginning(actor.get("actor_type")),
        str(_get_extension(first.event)["level"]),
        None if started is None else str(started.event["time"]),
        None if completed is None else str(completed.event["time"]),
        _get_beginning(said.get("outcome")),
        min(stored.received_at for stored in (started, completed) if stored is not None),
    )


def _get_member(value: Mapping[str, object], *path: str) -> Mapping[str, object]:
    for name in path:
        inner = value.get(name)
        value = inner if isinstance(inner, dict) else {}
    return value


def _get_extension(event: Mapping[str, object]) -> Mapping[str, object]:
    stored: dict[str, object] = json.loads(str(event[EXTENSION]))
    return stored


def _get_beginning(value: object) -> str | None:
    return None if value is None else str(value)[:LONGEST]


def compute_digest(body: str) -> str:
    """Return the SHA-256 by which a conflict names a body, and a damaged row is noticed."""
    return hashlib.sha256(body.encode("utf-8")).hexdigest()


def judge(phases: Mapping[str, StoredEvent], phase: str, event: Mapping[str, object], client: str) -> str:
    """Return the verdict on an event beside what is held of its invocation."""
    if phase in phases:
        return DUPLICATE if same_content(phases[phase].event, event) else CONFLICT
    owner = min(phases.values(), key=lambda stored: stored.received_at).client if phases else client
    return STORED if client == owner else OWNED


def judge_record(phases: Mapping[str, StoredEvent], held: RecordReport | None, piece: RecordPiece, client: str) -> str:
    """Return the verdict on a whole record beside its events and the report of the one that is held."""
    if phases.keys() != {STARTED, COMPLETED}:
        return UNKNOWN
    annexes, known = set(piece.report.trail.annexes), set(held.trail.annexes) if held is not None else set()
    # The owner's Completed told the seal of the last line, so whoever brings these bytes brings the owner's record.
    if _get_extension(phases[COMPLETED].event).get("seal") != piece.report.tip:
        return CONFLICT
    if held is not None and annexes <= known:
        return DUPLICATE
    owner = min(phases.values(), key=lambda stored: stored.received_at).client
    if annexes and client != owner:
        return OWNED
    return STORED if known <= annexes else CONFLICT


def judge_leaves(held: HeldLog | None, size: int, piece: LogPiece, client: str) -> str:
    """Return the verdict on leaves beside what is held of their log, `size` leaves."""
    if held is not None and held.client != client:
        return OWNED
    if held is not None and (held.keys != piece.keys or _get_size(piece.checkpoint) < _get_size(held.checkpoint)):
        return CONFLICT
    if piece.start != size:
        return APART
    return STORED if piece.leaves or held is None or held.checkpoint != piece.checkpoint else DUPLICATE


def _get_size(checkpoint: str) -> int:
    """Return how many leaves a checkpoint speaks of: its second line (c2sp.org/tlog-checkpoint)."""
    size = checkpoint.split("\n")[1:2]
    return int(size[0]) if size and size[0].isdigit() else 0


def get_digest(stored: StoredEvent | None) -> str:
    """Return the digest of an event that is held; empty where none is."""
    return "" if stored is None else compute_digest(canonical(stored.event))


class Changes(NamedTuple):
    """What a batch of events does: a verdict for each, what is stored, and each row with the one it replaces."""

    verdicts: list[str]
    stored: list[tuple[Place, StoredEvent]]
    rows: list[tuple[Row, Row | None]]
    conflicts: list[Conflict]


def decide(
    events: Sequence[Mapping[str, object]], held: Mapping[Place, Mapping[str, StoredEvent]], now: str, client: str
) -> Changes:
    """Return what a batch does to what is held of its invocations, phases by their names."""
    changes = Changes([], [], [], [])
    after: dict[Place, dict[str, StoredEvent]] = {}
    changed: dict[Place, None] = {}
    for event in events:
        invocation_id, phase = key_of(event)
        place = Place(invocation_id, project_of(event))
        phases = after.setdefault(place, dict(held.get(place, {})))
        verdict = judge(phases, phase, event, client)
        changes.verdicts.append(verdict)
        if verdict == STORED:
            phases[phase] = StoredEvent(phase, now, dict(event), client)
            changes.stored.append((place, phases[phase]))
            changed[place] = None
        elif verdict != DUPLICATE:
            kept, sent = get_digest(phases.get(phase)), compute_digest(canonical(event))
            changes.conflicts.append(
                Conflict(place.project_uuid, invocation_id, phase, kept, sent, now, now, 1, client)
            )
    for place in changed:
        before = held.get(place)
        row = row_of(after[place].get(STARTED), after[place].get(COMPLETED))
        changes.rows.append((row, row_of(before.get(STARTED), before.get(COMPLETED)) if before else None))
    return changes
