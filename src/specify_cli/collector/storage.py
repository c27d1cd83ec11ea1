"""What a collector keeps: every phase as received, for ever, once; a Protocol, and its engine on SQLite.

An engine promises three things: `accept` gives its verdicts only when what they say is durable; a key
(project, invocation, phase) is stored at most once whatever arrives at the same time; what arrived first stays.
One contract suite (tests/specify_cli/collector/test_storage.py) holds every engine to that.
"""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from specify_cli.sync.contract import COMPLETED, EXTENSION, STARTED, canonical, key_of, same_content

STORED, DUPLICATE, CONFLICT, OWNED = "stored", "duplicate", "conflict", "owned"
OPEN, CLOSED = "open", "closed"
SCHEMA_VERSION = 2
_APPLICATION_ID = 0x534B4331  # "SKC1": another program's database is never written to
_BUSY_MS = 10_000
# An actor filter names at most so many actors one by one; with more the rows are walked newest first.
_ACTORS = 16
# A list shows so much of a request; the event holds all that was sent.
_REQUEST = 200


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


class Filter(NamedTuple):
    """Which invocations are wanted. `since` and `until` bound the id from below and, exclusively, from above."""

    project: str | None = None
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


class Storage(Protocol):
    """Where a collector keeps events. Methods may be called from several threads at once."""

    def accept(self, events: Sequence[Mapping[str, object]], now: str, client: str = "") -> list[str]:
        """Store a batch of faultless events in one step; a verdict for each, durably.

        The client that first sent a phase of an invocation owns it: what another one adds is OWNED, and not stored.
        """

    def rows(self, filters: Filter, limit: int, after: Place | None = None) -> list[Row]:
        """At most `limit` invocations, newest first, those after a place if one is given."""

    def phases(self, invocation_id: str, project_uuid: str | None = None) -> dict[str, list[StoredEvent]]:
        """Return what is held of an invocation, Started first, by the project's uuid."""

    def conflicts(self, limit: int, invocation_id: str | None = None) -> list[Conflict]:
        """Return the conflicts seen last, newest first; of one invocation where it is named."""

    def totals(self) -> Totals:
        """Return how much there is."""

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
        _get_text(told.get("profile_slug")),
        _get_text(told.get("action")),
        None if started is None else _get_beginning(_get_extension(started.event).get("request_text")),
        _get_text(actor.get("actor_id")),
        _get_text(actor.get("actor_type")),
        str(_get_extension(first.event)["level"]),
        None if started is None else str(started.event["time"]),
        None if completed is None else str(completed.event["time"]),
        _get_text(said.get("outcome")),
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


def _get_text(value: object) -> str | None:
    return None if value is None else str(value)


def _get_beginning(value: object) -> str | None:
    return None if value is None else str(value)[:_REQUEST]


def compute_digest(body: str) -> str:
    """Return the SHA-256 by which a conflict names a body, and a damaged row is noticed."""
    return hashlib.sha256(body.encode("utf-8")).hexdigest()


def judge(phases: Mapping[str, StoredEvent], phase: str, event: Mapping[str, object], client: str) -> str:
    """Return the verdict on an event beside what is held of its invocation."""
    if phase in phases:
        return DUPLICATE if same_content(phases[phase].event, event) else CONFLICT
    owner = min(phases.values(), key=lambda stored: stored.received_at).client if phases else client
    return STORED if client == owner else OWNED


def get_digest(stored: StoredEvent | None) -> str:
    """Return the digest of an event that is held; empty where none is."""
    return "" if stored is None else compute_digest(canonical(stored.event))


_TABLES = """
CREATE TABLE invocation (
  project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, status TEXT NOT NULL, profile_id TEXT, action TEXT,
  request TEXT, actor_id TEXT, actor_type TEXT, level TEXT NOT NULL, started_at TEXT, completed_at TEXT, outcome TEXT,
  received_at TEXT NOT NULL, digest TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (invocation_id, project_uuid)
) WITHOUT ROWID;
CREATE TABLE event (
  invocation_id TEXT NOT NULL, project_uuid TEXT NOT NULL, phase TEXT NOT NULL, received_at TEXT NOT NULL,
  body TEXT NOT NULL, client TEXT NOT NULL DEFAULT '', digest TEXT NOT NULL DEFAULT '',
  UNIQUE (invocation_id, project_uuid, phase)
);
CREATE TABLE conflict (
  id INTEGER PRIMARY KEY, project_uuid TEXT NOT NULL, invocation_id TEXT NOT NULL, phase TEXT NOT NULL,
  held_sha256 TEXT NOT NULL, sent_sha256 TEXT NOT NULL, first_at TEXT NOT NULL, last_at TEXT NOT NULL,
  times INTEGER NOT NULL, client TEXT NOT NULL DEFAULT '', UNIQUE (invocation_id, project_uuid, phase, sent_sha256)
);
CREATE TABLE actor (actor_id TEXT PRIMARY KEY, folded TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (invocations INTEGER NOT NULL, open INTEGER NOT NULL, events INTEGER NOT NULL,
                     conflicts INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0, 0, 0);
CREATE INDEX by_project ON invocation (project_uuid, invocation_id);
CREATE INDEX by_profile ON invocation (profile_id, invocation_id, project_uuid);
CREATE INDEX by_action ON invocation (action, invocation_id, project_uuid);
CREATE INDEX by_outcome ON invocation (outcome, invocation_id, project_uuid);
CREATE INDEX by_actor ON invocation (actor_id, invocation_id, project_uuid);
CREATE INDEX by_status ON invocation (status, invocation_id, project_uuid);
"""
# From schema version 1: who sent what, and digests by which a damaged page is noticed. Older rows have neither.
_FROM_VERSION_1 = """
ALTER TABLE invocation ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE conflict ADD COLUMN client TEXT NOT NULL DEFAULT '';
"""
_COLUMNS = ", ".join(Row._fields)


class SqliteStorage:
    """The Protocol on one SQLite file: write-ahead log, synced before anything is acknowledged.

    Any number of processes may have the file open; SQLite lets one of them write at a time. Reading has a
    connection of its own, so that a long list never holds up what arrives.
    Raises StorageUnusable for a file that is not a collector's, StorageError where the disk refuses.
    """

    def __init__(self, path: str) -> None:
        try:
            # Created for its owner alone; SQLite gives the log beside it the same mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageUnusable(f"{path}: {error.strerror}") from error
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._writer, self._reader = _open_connection(path), _open_connection(path)
        try:
            self._open(path)
            # Acknowledged means on the disk: every commit waits for it.
            self._writer.execute("PRAGMA synchronous = FULL")
            self._reader.execute("PRAGMA query_only = 1")
        except sqlite3.DatabaseError as error:
            self.close()
            raise StorageUnusable(f"{path}: {error}") from error
        except StorageUnusable:
            self.close()
            raise

    def _open(self, path: str) -> None:
        writer = self._writer
        with _begin_transaction(writer):
            version = int(writer.execute("PRAGMA user_version").fetchone()[0])
            mark = int(writer.execute("PRAGMA application_id").fetchone()[0])
            empty = writer.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
            if mark != _APPLICATION_ID and not empty:
                raise StorageUnusable(f"{path} is a database of another program")
            if version > SCHEMA_VERSION:
                raise StorageUnusable(f"{path} has schema version {version}, this collector knows {SCHEMA_VERSION}")
            if empty or version < SCHEMA_VERSION:
                for statement in (_TABLES if empty else _FROM_VERSION_1).split(";"):
                    writer.execute(statement)
                writer.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        writer.execute("PRAGMA journal_mode = WAL")

    def accept(self, events: Sequence[Mapping[str, object]], now: str, client: str = "") -> list[str]:
        if not events:
            return []
        with self._write_lock, _translate_faults(), _begin_transaction(self._writer):
            return [self._accept(event, now, client) for event in events]

    def _accept(self, event: Mapping[str, object], now: str, client: str) -> str:
        invocation_id, phase = key_of(event)
        key = (invocation_id, project_of(event))
        body = canonical(event)
        run = self._writer.execute
        stored = {one.phase: one for one in self._read_phases(self._writer, *key).get(key[1], ())}
        verdict = judge(stored, phase, event, client)
        if verdict == STORED:
            run(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*key, phase, now, body, client, compute_digest(body)),
            )
            before = row_of(stored.get(STARTED), stored.get(COMPLETED)) if stored else None
            stored[phase] = StoredEvent(phase, now, dict(event), client)
            self._show(row_of(stored.get(STARTED), stored.get(COMPLETED)), before)
        if verdict in (STORED, DUPLICATE):
            return verdict
        kept, sent = get_digest(stored.get(phase)), compute_digest(body)
        seen = run(
            "DELETE FROM conflict WHERE invocation_id = ? AND project_uuid = ? AND phase = ? AND sent_sha256 = ?"
            " RETURNING first_at, times",
            (*key, phase, sent),
        ).fetchone()
        first_at, times = seen or (now, 0)
        run(
            "INSERT INTO conflict VALUES ((SELECT coalesce(max(id), 0) + 1 FROM conflict), ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key[1], invocation_id, phase, kept, sent, first_at, now, times + 1, client),
        )
        run("UPDATE totals SET conflicts = conflicts + ?", (int(seen is None),))
        return verdict

    def _show(self, row: Row, before: Row | None) -> None:
        """Bring the list up to date after a phase was stored."""
        run = self._writer.execute
        marks = ", ".join("?" * (len(row) + 1))
        run(
            f"INSERT OR REPLACE INTO invocation ({_COLUMNS}, digest) VALUES ({marks})",
            (*row, compute_digest(repr(row))),
        )
        if row.actor_id is not None:
            run("INSERT OR IGNORE INTO actor VALUES (?, ?)", (row.actor_id, row.actor_id.casefold()))
        run(
            "UPDATE totals SET events = events + 1, invocations = invocations + ?, open = open + ?",
            (int(before is None), (row.status == OPEN) - (before is not None and before.status == OPEN)),
        )

    def rows(self, filters: Filter, limit: int, after: Place | None = None) -> list[Row]:
        where, values = _build_conditions(filters)
        if after is not None:
            where.append("(invocation_id, project_uuid) < (?, ?)")
            values += after
        with self._read_lock, _translate_faults():
            actors: list[str] | None = None
            if filters.actor is not None:
                found = self._reader.execute(
                    "SELECT actor_id FROM actor WHERE instr(folded, ?)", (filters.actor.casefold(),)
                )
                actors = [str(name) for (name,) in found]
            if actors is not None and len(actors) <= _ACTORS:
                # Each actor's newest rows come from the index; sorting all rows of all of them would not.
                each = [self._read_page([*where, "actor_id = ?"], [*values, name], limit) for name in actors]
                rows = [row for page in each for row in page]
                return sorted(rows, key=lambda row: row.place, reverse=True)[:limit]
            if actors is not None:
                where.append("+actor_id IN (SELECT actor_id FROM actor WHERE instr(folded, ?))")
                values.append(str(filters.actor).casefold())
            return self._read_page(where, values, limit)

    def _read_page(self, where: Sequence[str], values: Sequence[str], limit: int) -> list[Row]:
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        found = self._reader.execute(
            f"SELECT {_COLUMNS}, digest FROM invocation {condition}"
            " ORDER BY invocation_id DESC, project_uuid DESC LIMIT ?",
            (*values, limit),
        )
        rows = [(Row(*item[:-1]), str(item[-1])) for item in found]
        for row, digest in rows:
            _check(digest, repr(row), row.invocation_id)
        return [row for row, _ in rows]

    def phases(self, invocation_id: str, project_uuid: str | None = None) -> dict[str, list[StoredEvent]]:
        with self._read_lock, _translate_faults():
            return self._read_phases(self._reader, invocation_id, project_uuid)

    @staticmethod
    def _read_phases(
        connection: sqlite3.Connection, invocation_id: str, project_uuid: str | None
    ) -> dict[str, list[StoredEvent]]:
        one, values = ("", ()) if project_uuid is None else (" AND project_uuid = ?", (project_uuid,))
        found: dict[str, list[StoredEvent]] = {}
        for project, phase, received_at, body, client, digest in connection.execute(
            f"SELECT project_uuid, phase, received_at, body, client, digest FROM event WHERE invocation_id = ?{one}"
            " ORDER BY project_uuid, phase DESC",
            (invocation_id, *values),
        ):
            _check(digest, body, invocation_id)
            found.setdefault(project, []).append(StoredEvent(phase, received_at, json.loads(body), client))
        return found

    def conflicts(self, limit: int, invocation_id: str | None = None) -> list[Conflict]:
        where, values = ("", ()) if invocation_id is None else ("WHERE invocation_id = ?", (invocation_id,))
        with self._read_lock, _translate_faults():
            found = self._reader.execute(
                f"SELECT {', '.join(Conflict._fields)} FROM conflict {where} ORDER BY id DESC LIMIT ?", (*values, limit)
            )
            return [Conflict(*item) for item in found]

    def totals(self) -> Totals:
        with self._read_lock, _translate_faults():
            return Totals(*self._reader.execute("SELECT invocations, open, events, conflicts FROM totals").fetchone())

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


def _check(digest: str, text: str, invocation_id: str) -> None:
    """Raise StorageError where a row is not as it was written; rows of schema version 1 have no digest."""
    if digest and digest != compute_digest(text):
        raise StorageError(f"the database is damaged: what is held of {invocation_id} is not as it was written")


def _build_conditions(filters: Filter) -> tuple[list[str], list[str]]:
    columns = (
        ("project_uuid = ?", filters.project),
        ("profile_id = ?", filters.profile),
        ("action = ?", filters.action),
        ("outcome = ?", filters.outcome),
        ("status = ?", filters.status),
        ("invocation_id >= ?", filters.since),
        ("invocation_id < ?", filters.until),
    )
    given = [(condition, value) for condition, value in columns if value is not None]
    return [condition for condition, _ in given], [value for _, value in given]


def _open_connection(path: str) -> sqlite3.Connection:
    # isolation_level None: transactions begin and end where they are written.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000)


@contextmanager
def _begin_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE, so that of two processes one waits; durable once this has ended without an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _translate_faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error
