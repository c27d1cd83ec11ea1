"""What a collector keeps: every phase as received, for ever, once. The values and the rules.

`engines/sql_storage.py` keeps them in a database. It promises three things: `accept` gives its
verdicts only when what they say is durable; a key (project, invocation, phase) is stored at most
once whatever arrives at the same time; what arrived first stays. One contract suite
(tests/features/collector/test_storage.py) holds it to that on each database.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from doctrine.light_imports import hash_text
from doctrine.text import get_object
from specify_cli.libraries.signed_log.merkle import Frontier, hash_leaf
from specify_cli.libraries.signed_log.notes import Checkpoint, NoteError, parse_checkpoint
from specify_cli.libraries.wire.contract import (
    COMPLETED,
    EXTENSION,
    LIVE,
    PHASES,
    STARTED,
    canonical,
    key_of,
    same_content,
)
from specify_cli.record.event_table import ORDERS
from specify_cli.record.findings import RecordReport
from specify_cli.record.record import is_stand_in
from specify_cli.record.seal import Fields, erased_members, open_line

STORED, DUPLICATE, CONFLICT, OWNED = "stored", "duplicate", "conflict", "owned"
# What is said of a record whose events are not stored, and of leaves that do not follow those that
# are.
UNKNOWN, APART = "unknown", "apart"
# What is said of an erasure of a record under a hold; a conflict over it has ERASURE in place of a
# phase.
HELD, ERASURE = "held", "erasure"
# A conflict over a whole record has this in place of a phase.
RECORD = "record"
OPEN, CLOSED = "open", "closed"
# A list shows and finds so many characters of a text, which an index of every engine can hold; the
# event holds all.
LONGEST = 200


class StorageError(Exception):
    """The engine cannot take or give anything now; the sender keeps what it has and comes again.

    The text is logged: it says what the engine lacks, never what it was given.
    """


class StorageUnusable(StorageError):
    """What stands at the engine's place is not a collector's, or a newer one's."""


class StorageUnreachable(StorageUnusable):
    """No server answers at the engine's place: it may be starting."""


class ListPosition(NamedTuple):
    """Where an invocation stands in the order of the list: newest first by id, then by project."""

    invocation_id: str
    project_uuid: str


Event = Mapping[str, object]
"""A CloudEvent, or a part of one, as its JSON."""
Projects = frozenset[str] | None
"""The projects something is asked of; None is all of them."""


class Filter(NamedTuple):
    """Which invocations are requested. `since` and `until` bound the id from below and,
    exclusively, from above."""

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
    def place(self) -> ListPosition:
        return ListPosition(self.invocation_id, self.project_uuid)


class StoredEvent(NamedTuple):
    """One phase as it was received."""

    phase: str
    received_at: str
    event: dict[str, object]
    client: str


class Conflict(NamedTuple):
    """A key that came again with other content; the same content again only moves `last_at`.

    `held_sha256` is empty where the phase is not stored: another client than the invocation's own
    sent it. `client` sent what was refused.
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


def make_conflict(
    place: ListPosition, phase: str, stored: str, sent: str, now: str, client: str
) -> Conflict:
    """Return a conflict that is seen for the first time."""
    return Conflict(
        place.project_uuid, place.invocation_id, phase, stored, sent, now, now, 1, client
    )


class Totals(NamedTuple):
    """How much there is."""

    invocations: int
    open: int
    events: int
    conflicts: int


class ProjectRow(NamedTuple):
    """How much is stored of one project; `revision` grows with everything whole that comes.

    `whole` of the `records` are of closed invocations that the list shows; the others are open, or
    replays and imports. `objects` are stored, and `missing` are those that records name and that
    did not come yet.
    """

    project_uuid: str
    invocations: int
    open: int
    events: int
    conflicts: int
    records: int
    revision: int
    whole: int
    objects: int
    missing: int


class RecordPiece(NamedTuple):
    """A record as it was sent, with the report of its bytes; `objects` are the digests of those it
    leads to.

    `body` is the JSON of one request (docs/sync-contract.md §6), `kind` one of contract.KINDS.
    """

    invocation_id: str
    body: str
    report: RecordReport
    kind: str
    objects: tuple[str, ...]


class Order(NamedTuple):
    """One order: the annex that gives it, with its fields, and of an erasure the lines as they are
    left, by their seals. `objects` are those that the record still leads to, where that was said;
    `gone` are those that went with the erasure from what was stored.
    """

    file: str
    annex: str
    fields: Fields
    lines: Mapping[str, str]
    objects: tuple[str, ...] | None = None
    gone: tuple[str, ...] = ()

    @property
    def event(self) -> str:
        """Return what is ordered: erased, held or released."""
        return str(self.fields["event"])

    def encode(self) -> str:
        """Return it as the text a database holds."""
        return canonical({"annex": self.annex, "lines": self.lines, "gone": self.gone})


class LogPiece(NamedTuple):
    """Leaves of a log from a number on, and the state its clone has signed; keys and state are the
    texts of notes."""

    name: str
    start: int
    leaves: str
    keys: str
    checkpoint: str


class StoredLog(NamedTuple):
    """A log as far as it arrived: its leaves, whose it is, its keys, its newest signed state."""

    name: str
    client: str
    keys: str
    checkpoint: str
    leaves: str


class LogConflict(NamedTuple):
    """A signed state of a log that contradicts the one that was stored; the same state again only
    moves `last_at`.

    `client` sent it, and `verdict` says why it was refused: OWNED, CONFLICT. Both states are the
    texts of notes.
    """

    name: str
    client: str
    verdict: str
    held: str
    sent: str
    first_at: str
    last_at: str
    times: int


class StoredRecord(NamedTuple):
    """A whole record as it is stored: what was sent, by whom, and what its bytes said then; `body`
    where it was asked."""

    invocation_id: str
    received_at: str
    client: str
    report: str
    body: str = ""


def project_of(event: Event) -> str:
    """Return the project's uuid of a faultless event."""
    return str(get_object(event, "data")["project_uuid"])


def row_of(started: StoredEvent | None, completed: StoredEvent | None) -> Row:
    """Return the row of an invocation from the phases that are stored."""
    first = started or completed
    assert first
    payload = get_object(started.event["data"], "payload") if started else {}
    actor = get_object(payload, "actor")
    extension = _get_extension(completed.event) if completed else {}
    return Row(
        project_of(first.event),
        str(first.event["subject"]),
        CLOSED if completed else OPEN,
        _get_beginning(payload.get("profile_slug")),
        _get_beginning(payload.get("action")),
        started and _shorten(_get_extension(started.event).get("request_text")),
        _get_beginning(actor.get("actor_id")),
        _get_beginning(actor.get("actor_type")),
        str(_get_extension(first.event)["level"]),
        started and str(started.event["time"]),
        completed and str(completed.event["time"]),
        _get_beginning(extension.get("outcome")),
        min(stored.received_at for stored in (started, completed) if stored),
    )


def _get_extension(event: Event) -> Event:
    stored: dict[str, object] = json.loads(str(event[EXTENSION]))
    return stored


def _shorten(request: object) -> str | None:
    """Return what the list shows of a request: where it is cut, an ellipsis says so."""
    beginning = _get_beginning(request)
    return f"{beginning}…" if beginning is not None and beginning != request else beginning


def _get_beginning(value: object) -> str | None:
    return None if value is None else str(value)[:LONGEST]


def compute_digest(body: str) -> str:
    """Return the SHA-256 by which a conflict names a body, and a damaged row is noticed."""
    return hash_text(body)


def judge(phases: Mapping[str, StoredEvent], phase: str, event: Event, client: str) -> str:
    """Return the verdict on an event, given what is stored of its invocation.

    What came with git stands until its owner says it: the same becomes the owner's, and what
    another client sent in place of what the owner says gives way.
    """
    stored, owner, is_own = phases.get(phase), _find_owner(phases), _is_own(event)
    if not stored:
        return STORED if owner in (None, client) else OWNED if is_own else UNKNOWN
    if not same_content(stored.event, event):
        return STORED if is_own and owner == client != stored.client else CONFLICT
    # Who sends a Started as its own goes before who sent a Completed alone.
    is_claim = is_own and not _is_own(stored.event) and (phase == STARTED or owner is None)
    return STORED if is_claim else DUPLICATE


def _find_owner(phases: Mapping[str, StoredEvent]) -> str | None:
    """Return who sent the Started of an invocation first as its own, or else its Completed; None
    where nobody did: what came with git belongs to whoever wrote it."""
    own = [one for one in map(phases.get, PHASES) if one and _is_own(one.event)]
    return own[0].client if own else None


def _is_own(event: Event) -> bool:
    return "origin" not in _get_extension(event)


def judge_record(
    phases: Mapping[str, StoredEvent],
    current: StoredRecord | None,
    known: RecordReport | None,
    piece: RecordPiece,
    client: str,
    orders: Sequence[Order],
    read_leaves: Callable[[], str],
) -> str:
    """Return the verdict on a whole record, given its events and the one that is stored, whose
    report is `known`; `orders` are held of it, and `read_leaves` returns those that name it."""
    closed = piece.report.status == CLOSED
    if piece.kind == LIVE and not phases.keys() >= ({STARTED, COMPLETED} if closed else {STARTED}):
        return UNKNOWN
    owner = current.client if current else None
    newer = read_lines(piece.body)
    if phases:
        owner = _find_owner(phases)
        begun = _get_seal(phases, STARTED)
        if (newer and begun not in (None, json.loads(newer[0])["~"])) or (
            closed and COMPLETED in phases and not is_whole(phases, piece.report)
        ):
            return CONFLICT
        if owner is None and not closed:
            return UNKNOWN  # neither a Completed nor an owner vouches for its lines
    added = set(piece.report.trail.annexes) - {one.fields["~"] for one in orders}
    if current and known:
        older = read_lines(current.body)
        added -= set(known.trail.annexes)
        if not added and len(newer) <= len(older) and _continue(newer, older):
            return DUPLICATE
        if not _continue(older, newer):
            return CONFLICT
    # The owner's Completed stated the seal of the last line, so whoever brings these bytes brings
    # the owner's record; what clones said of it later they signed in their logs. An order of
    # another one counts where its token may give it, and is then among `orders`.
    said = map(json.loads, json.loads(piece.body)["annexes"].values())
    if owner in (None, client) or (
        is_whole(phases, piece.report)
        and not any(line["~"] in added and line["event"] in ORDERS for line in said)
        and (not added or all(map(read_leaves().__contains__, added)))
    ):
        return STORED
    return OWNED


def read_lines(body: str) -> list[str]:
    """Return the lines of a record as it was sent; a line may hold what other readers take for the
    end of one."""
    lines: list[str] = json.loads(body)["lines"].split("\n")[:-1]
    return lines


def is_whole(phases: Mapping[str, StoredEvent], report: RecordReport) -> bool:
    """Return whether a record ends with the line whose seal its Completed stated."""
    return COMPLETED in phases and _get_seal(phases, COMPLETED) == report.tip


def _get_seal(phases: Mapping[str, StoredEvent], phase: str) -> object:
    return _get_extension(phases[phase].event).get("seal") if phase in phases else None


def _continue(older: Sequence[str], newer: Sequence[str]) -> bool:
    """Return whether a copy of a record holds the lines of an older one."""
    return len(older) <= len(newer) and [*map(match_lines, older, newer)] == [
        *map(match_lines, newer, older)
    ]


def match_lines(stored: str, sent: str) -> str:
    """Return the stored one of a line in two copies, or the sent one where that is another line, or
    was withheld in what is stored; a line that lost members in both is one."""
    first, second = open_line(stored.encode()), open_line(sent.encode())
    fields = (first.fields or {}, second.fields or {})
    # A copy that leaves encrypted anew, once its key was destroyed, has salts of its own.
    if first.seal == second.seal and (is_stand_in(fields[1]) or all(map(erased_members, fields))):
        return stored
    return sent


class Grown(NamedTuple):
    """A log with the leaves of a request: the verdict on them, how many leaves there are then,
    their right edge."""

    verdict: str
    size: int
    edge: str


def judge_leaves(log: StoredLog | None, edge: str, piece: LogPiece, client: str) -> Grown:
    """Return the verdict on leaves, given their log, whose right edge `edge` is as `encode_edge`
    wrote it.

    A state of as many leaves as there are then has to have their root; one of fewer has to have
    been theirs.
    """
    frontier = decode_edge(edge)
    size = frontier.size
    if log and log.client != client:
        return Grown(OWNED, size, edge)
    if log and log.keys != piece.keys:
        return Grown(CONFLICT, size, edge)
    checkpoint = read_state(piece.checkpoint)
    if log and checkpoint.size < size:
        same = compute_edge(log.leaves, checkpoint.size).root() == checkpoint.root
        return Grown(APART if same else CONFLICT, size, edge)
    if piece.start != size:
        return Grown(APART, size, edge)
    for line in piece.leaves.split("\n")[:-1]:
        frontier.add(hash_leaf(line.encode("ascii")))
    if frontier.size >= checkpoint.size and (
        frontier.size > checkpoint.size or frontier.root() != checkpoint.root
    ):
        return Grown(CONFLICT, size, edge)
    fresh = piece.leaves or log is None or log.checkpoint != piece.checkpoint
    return Grown(STORED if fresh else DUPLICATE, frontier.size, encode_edge(frontier))


def read_state(note: str) -> Checkpoint:
    """Return the state that a note signs. Raises StorageError."""
    try:
        return parse_checkpoint(note.encode())
    except NoteError as error:
        raise StorageError(f"the database is damaged: a state of a log is none: {error}") from error


def compute_edge(leaves: str, count: int | None = None) -> Frontier:
    """Return the right edge of the first `count` leaves, or of all."""
    frontier = Frontier()
    for line in leaves.split("\n")[:-1][:count]:
        frontier.add(hash_leaf(line.encode("ascii")))
    return frontier


def encode_edge(frontier: Frontier) -> str:
    """Return a right edge as the text a database holds."""
    return " ".join([str(frontier.size), *(peak.hex() for peak in frontier.peaks)])


def decode_edge(text: str) -> Frontier:
    """Return the right edge that `encode_edge` wrote; of an empty text that of no leaves."""
    size, *peaks = text.split() or ["0"]
    return Frontier(int(size), map(bytes.fromhex, peaks))


class Changes(NamedTuple):
    """What a batch of events does: a verdict for each, what is stored, and each row with the one it
    replaces.

    What is stored comes with whether it is other than what it replaces; None where it is the first.
    """

    verdicts: list[str]
    stored: list[tuple[ListPosition, StoredEvent, bool | None]]
    rows: list[tuple[Row, Row | None]]
    conflicts: list[Conflict]


def decide(
    events: Sequence[Event],
    stored: Mapping[ListPosition, Mapping[str, StoredEvent]],
    now: str,
    client: str,
) -> Changes:
    """Return what a batch does to what is stored of its invocations, phases by their names."""
    changes = Changes([], [], [], [])
    after: dict[ListPosition, dict[str, StoredEvent]] = {}
    changed: dict[ListPosition, None] = {}
    for event in events:
        invocation_id, phase = key_of(event)
        place = ListPosition(invocation_id, project_of(event))
        phases = after.setdefault(place, dict(stored.get(place, {})))
        verdict = judge(phases, phase, event, client)
        changes.verdicts.append(verdict)
        stays, sent = phases.get(phase), StoredEvent(phase, now, dict(event), client)
        is_other = stays and not same_content(stays.event, event)
        refused = sent
        if verdict == STORED:
            refused, stays = stays or sent, sent
            phases[phase] = sent
            changes.stored.append((place, sent, is_other))
            changed[place] = None
        if is_other or verdict == OWNED:
            digest = compute_digest(canonical(stays.event)) if stays else ""
            lost = compute_digest(canonical(refused.event))
            changes.conflicts.append(make_conflict(place, phase, digest, lost, now, refused.client))
    for place in changed:
        before = stored.get(place)
        row = row_of(after[place].get(STARTED), after[place].get(COMPLETED))
        changes.rows.append(
            (row, row_of(before.get(STARTED), before.get(COMPLETED)) if before else None)
        )
    return changes
