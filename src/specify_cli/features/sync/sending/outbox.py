"""What has not been delivered yet: derived from the records and a set of acknowledged (invocation,
phase).

The set is a SQLite file in the git directory, one for each worktree and endpoint. It remembers as
well what a scan saw of each record, so a scan reads records that are new or may have changed and no
others. Deleting it delivers everything again, which a receiver takes for duplicates.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple

from ulid import ULID

from doctrine import os
from doctrine.light_imports import hash_text
from specify_cli.errors import EnvironmentFault, InvocationError, StoredDataError
from specify_cli.features.sync.consent import Consent, unavailable
from specify_cli.features.sync.sending.orders_due import LAST_ORDER, UNTIL
from specify_cli.features.sync.trigger import name_of
from specify_cli.libraries.wire.contract import (
    COMPLETED,
    GONE,
    IMPORTED,
    LIVE,
    MAX_EVENTS,
    PHASES,
    RECORDS,
    REEXECUTION,
    REPLAY,
    STARTED,
    compose,
    kind_of,
)
from specify_cli.libraries.words.content_members import list_said
from specify_cli.project.config import Project
from specify_cli.project.tracked import shipped_records
from specify_cli.record import layout
from specify_cli.record.findings import ERROR, OF_THE_LINES
from specify_cli.record.ids import rfc3339
from specify_cli.record.record import fold, split_lines
from specify_cli.record.seal import VERSIONS, erased_members, is_digest, read_fields
from specify_cli.record.verify import verify_record
from specify_cli.redaction.redact import RuleSet, redact
from specify_cli.storage.checking import add_orders, differing_copies
from specify_cli.storage.index import Index, Key
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import ANNEX, OF_INVOCATION

CURSOR_VERSION = 1
Members = dict[str, object]
"""An event, a line or an object, by its members."""

_PENDING, _DELIVERED, _REFUSED = 0, 1, 2
_STATES = {"delivered": _DELIVERED, "refused": _REFUSED}
# Why a session that was imported here has no envelopes; what others recorded and exported is
# `imported`, and stays.
IMPORTED_SESSION = "imported_session"
_COMMIT_EVERY = 500
# The invocations of the phases that were acknowledged last, the newest first; after how many of
# them an endpoint was asked that did not answer.
LAST, ASKED = "last", "asked"
_MOST_LAST = 32
# Of these kinds no envelope leaves, and at the level `records` they leave whole.
_WHOLE_ONLY = (REPLAY, REEXECUTION, IMPORTED_SESSION)
_MOVING = (
    "completed IS NULL AND (excluded IS NULL"
    f" OR excluded IN ('newer', 'damaged', 'unreadable', 'missing', '{REPLAY}', '{REEXECUTION}'))"
)
_DUE = (
    f"excluded IS NULL AND (started = {_PENDING} OR (started = {_DELIVERED} AND completed = "
    f"{_PENDING}))"
)
_RECORD_DUE = f"excluded IS NULL AND completed = {_DELIVERED} AND body IS NULL"
# What was sent is known by what a scan saw of the file then: an open record that grew is due again.
_WHOLE_DUE = (
    "(body IS NULL OR sent IS NOT seen) AND seen IS NOT NULL AND (excluded IS NULL AND started = "
    f"{_DELIVERED} AND (completed IS NULL OR completed = {_DELIVERED}) OR excluded IN "
    f"{_WHOLE_ONLY!r})"
)
# The same before its envelopes were accepted: they go first.
_RECORD_PENDING = (
    f"excluded IS NULL AND completed != {_REFUSED} AND started != {_REFUSED} AND body IS NULL"
)
_WHOLE_PENDING = (
    "(body IS NULL OR sent IS NOT seen) AND seen IS NOT NULL AND (excluded IS NULL AND started != "
    f"{_REFUSED} AND (completed IS NULL OR completed != {_REFUSED}) OR excluded IN {_WHOLE_ONLY!r})"
)
_SETTLE = {phase: f"UPDATE record SET {phase} = ? WHERE invocation_id = ?" for phase in PHASES}
# Orders, logs, and what a witness did not cosign.
_REFUSED_FACTS = "(name LIKE 'order %' AND value = 'refused' OR name LIKE 'refused %')"
_RETRY = (
    *(f"UPDATE record SET {phase} = {_PENDING} WHERE {phase} = {_REFUSED}" for phase in PHASES),
    f"UPDATE record SET body = NULL WHERE body = {_REFUSED}",
    f"DELETE FROM fact WHERE {_REFUSED_FACTS}",
)
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS record (
  invocation_id TEXT PRIMARY KEY,
  profile_id TEXT NOT NULL,
  started INTEGER NOT NULL DEFAULT {_PENDING},
  completed INTEGER,                -- NULL while the record is open
  excluded TEXT,
  seen TEXT                         -- what told the file's state when it was read; NULL: to be read
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS due ON record (invocation_id) WHERE {_DUE};
CREATE INDEX IF NOT EXISTS moving ON record (invocation_id) WHERE {_MOVING};
CREATE INDEX IF NOT EXISTS whole ON record (invocation_id) WHERE {_RECORD_DUE};
CREATE INDEX IF NOT EXISTS led ON record (invocation_id) WHERE {_WHOLE_DUE};
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {CURSOR_VERSION};
"""


class RecordSummary(NamedTuple):
    """What a record's bytes say to sync: its two lines with their seals, or why no envelope of it
    is sent.

    `origin` is `merged` for a record that this worktree did not write: it lies in the tracked trail
    alone. `kind` is one of contract.KINDS.
    """

    started: Members | None
    completed: Members | None
    excluded: str | None
    origin: str | None = None
    kind: str = LIVE


class DuePhase(NamedTuple):
    """One phase that is to be delivered next for its invocation."""

    invocation_id: str
    profile_id: str
    phase: str


class Counts(NamedTuple):
    """Phases by state; whole records, orders and logs count among the refused.

    `held` wait because their Started was refused; `excluded` counts records. `records` are whole
    ones that are due with their objects, open ones as they are so far; None below that level.
    """

    pending: int
    delivered: int
    refused: int
    held: int
    excluded: dict[str, int]
    oldest_pending: str | None
    records: int | None


def look_at(root: str, place: Place) -> RecordSummary:
    """Return what one record is to sync.

    Damage is every error of its own lines but a torn tail, which a crash leaves.
    """
    store = FileRecordStore(root)
    try:
        if layout.is_imported(place.folder):
            first = read_fields(store.head(place))
            if not first.get("imported"):
                return RecordSummary(None, None, "imported")
        data = store.read(place)
    except FileNotFoundError:
        return RecordSummary(None, None, "missing")
    except (OSError, InvocationError):
        return RecordSummary(None, None, "unreadable")
    end = data.rfind(b"\n") + 1
    lines = [raw + b"\n" for _, raw in split_lines(data)]
    report = verify_record(
        [*lines, *([data[end:]] if data[end:] else [])],
        file=place.path,
        name_ids=layout.parse_record_name(place.name),
    )
    report = add_orders(report, root, place.invocation_id)
    wrong = [
        item
        for item in report.findings
        if item.severity == ERROR and item.code in OF_THE_LINES - {"TORN_TAIL"}
    ]
    record = fold(data)
    if record and not record.sealed and not wrong:
        return RecordSummary(None, None, "unsealed")
    if wrong or not record or any(differing_copies(root, place)):
        return RecordSummary(None, None, "damaged")
    if record.started.get("v") not in VERSIONS:
        return RecordSummary(None, None, "newer")
    kind = kind_of(record.started)
    excluded = None if kind == LIVE else IMPORTED_SESSION if kind == IMPORTED else kind
    if record.started.get("tombstone") is True:
        return RecordSummary(None, None, "tombstone")
    seals = {id(entry.fields): entry.seal for entry in record.entries}

    def sealed(fields: Members) -> Members:
        return {**fields, "~": seals[id(fields)]}

    completed = None if record.completed is None else sealed(record.completed)
    is_own = place.folder in (layout.RECORDS, layout.IMPORTED) or layout.is_cold(place.folder)
    origin = None if is_own else "merged"
    return RecordSummary(sealed(record.started), completed, excluded, origin, kind)


def envelope(project: Project, uuid: str, level: str, seen: RecordSummary, phase: str) -> Members:
    """Return the CloudEvent of one phase; its texts go through today's redaction once more.

    Where what was said leaves encrypted alone, none of it is in there.
    """
    assert seen.started is not None
    rules = project.config.redaction
    names = ("mission", "work_package", "match_reason")
    texts = {name: _mask_text(seen.started.get(name), rules) for name in names}
    completed = None if phase == STARTED else seen.completed
    if project.config.is_sealed:
        texts = dict.fromkeys((*names, "request_text"))
        # The digest of what was said would confirm a guess at it.
        completed = completed and {**completed, **dict.fromkeys(list_said(completed))}
    elif level in ("full", RECORDS):
        texts["request_text"] = _mask_text(_request_text(project, seen.started), rules)
    gone = erased_members(seen.started)
    started = {**seen.started, **texts, **{name: GONE[name] for name in gone if name in GONE}}
    return compose(uuid, level, started, completed, origin=seen.origin)


def _mask_text(text: object, rules: RuleSet) -> str | None:
    return None if text is None else redact(str(text), rules).text


def _request_text(project: Project, started: Members) -> str | None:
    """Return the request a record holds, from its object where it was too long for the line."""
    named = started.get("request_object")
    if named is not None:
        if not is_digest(str(named)):
            raise StoredDataError(
                "RECORD_DAMAGED",
                f"request_object: expected a SHA-256, found {str(named)[:80]!r}",
                f"spec-kitty invocations verify {started.get('invocation_id')}",
            )
        return FileObjectStore(project.root).get(str(named)).decode("utf-8", "replace")
    text = started.get("request_text")
    return None if text is None else str(text)


class Outbox:
    """The undelivered of one worktree and one endpoint. Raises EnvironmentFault
    SYNC_UNAVAILABLE."""

    def __init__(self, project: Project, folder: str, endpoint: str) -> None:
        self._project = project
        self._index = Index(project.root)
        receiver = hash_text(endpoint)[:16]
        self.path = f"{folder}/cursor-{name_of(project.root)}-{receiver}.db"
        self._db = _open(self.path)
        self.is_anew = False

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def scan(self) -> None:
        """Take in what changed since the last scan: rows new in the index, open or doubtful records
        that changed."""
        marks = self._run("SELECT value FROM fact WHERE name = 'mark'")
        keys, mark = self._index.rows_since(str(marks[0][0]) if marks else "")
        with self._begin_transaction():
            for key in keys:
                self._db.execute(
                    "INSERT OR IGNORE INTO record (invocation_id, profile_id) VALUES (?, ?)", key
                )
            self._remember("mark", mark)
        moving = (
            f"SELECT invocation_id, profile_id, seen FROM record WHERE {_MOVING} AND "
            "invocation_id > ?"
        )
        last = ""
        while rows := self._run(f"{moving} ORDER BY invocation_id LIMIT {_COMMIT_EVERY}", (last,)):
            with self._begin_transaction():
                for invocation_id, profile_id, seen in rows:
                    self._look(Key(invocation_id, profile_id), seen)
            last = rows[-1][0]

    def _look(self, key: Key, seen: str | None) -> None:
        place = self._index.place(key)
        signature: str | None = "missing"
        if place:
            signature = _read_signature(f"{self._project.root}/{place.path}")
        if signature == seen:
            return
        before = self._read_seen(place)
        # What made a record doubtful may lie next to its file, so such a one is read each time.
        signature = None if before.excluded in ("damaged", "unreadable") else signature
        self._db.execute(
            "UPDATE record SET excluded = ?, seen = ?, completed = CASE WHEN ? THEN "
            "ifnull(completed, 0) END WHERE invocation_id = ?",
            (before.excluded, signature, before.completed is not None, key.invocation_id),
        )

    @cached_property
    def _shipped(self) -> frozenset[str]:
        return shipped_records(self._project.root)

    def _read_seen(self, place: Place | None) -> RecordSummary:
        return (
            RecordSummary(None, None, "missing")
            if not place
            else look_at(self._project.root, place)
        )

    def due(self, limit: int) -> list[DuePhase]:
        """Return the next phases to deliver, oldest first, at most one for each invocation:
        Completed after Started."""
        rows = self._run(
            f"SELECT invocation_id, profile_id, started FROM record WHERE {_DUE} ORDER BY "
            "invocation_id LIMIT ?",
            (limit,),
        )
        return [
            DuePhase(key, profile, STARTED if state == _PENDING else COMPLETED)
            for key, profile, state in rows
        ]

    def event(self, due: DuePhase, uuid: str, level: str) -> Members | None:
        """Return the CloudEvent of a phase, read from its record now; None if the record may not be
        sent any more.

        Raises InvocationError and RedactionError where a text that would leave cannot be had or
        masked.
        """
        place = self._index.place(Key(due.invocation_id, due.profile_id))
        seen = self._read_seen(place)
        if place and place.path in self._shipped:
            seen = seen._replace(origin="merged")
        if seen.excluded is None and (due.phase == STARTED or seen.completed is not None):
            return envelope(self._project, uuid, level, seen, due.phase)
        self.look_again(due.invocation_id, seen.excluded or "damaged")
        return None

    def look_again(self, invocation_id: str, excluded: str | None) -> None:
        """Have the next scan find a record as it is then; until then it is excluded, or its end is
        not due."""
        with self._begin_transaction():
            self._db.execute(
                "UPDATE record SET excluded = ?, completed = NULL, seen = NULL WHERE "
                "invocation_id = ?",
                (excluded, invocation_id),
            )

    def settle(self, outcomes: Iterable[tuple[str, str, str]]) -> None:
        """Remember (invocation id, phase, `delivered` or `refused`) for each, all or none."""
        with self._begin_transaction():
            last: list[str] = []
            for invocation_id, phase, state in outcomes:
                self._db.execute(_SETTLE[phase], (_STATES[state], invocation_id))
                if state == "delivered":
                    last.insert(0, invocation_id)
            if last:
                ids = dict.fromkeys([*last, *self.facts().get(LAST, "").split()])
                self._remember(LAST, " ".join([*ids][:_MOST_LAST]))
                self._db.execute("DELETE FROM fact WHERE name = ?", (LAST_ORDER,))

    def list_last(self) -> Iterator[DuePhase]:
        """Yield the phases that were acknowledged last, the newest first. Those that nothing is
        remembered of follow by their records' age."""
        rows = (
            f"SELECT invocation_id, profile_id, completed FROM record WHERE started = {_DELIVERED}"
        )
        for one in (*self.facts().get(LAST, "").split(), ""):
            which = "AND invocation_id = ?" if one else "AND excluded IS NULL AND ? = ''"
            for key, profile, state in self._run(
                f"{rows} {which} ORDER BY invocation_id DESC LIMIT {MAX_EVENTS}", (one,)
            ):
                if state == _DELIVERED:
                    yield DuePhase(key, profile, COMPLETED)
                yield DuePhase(key, profile, STARTED)

    def list_own(self) -> Iterable[DuePhase]:
        """Return what other clones can hardly have delivered, of what was acknowledged last: the
        newest of an open record, and of a closed one that was written here."""
        newest: dict[bool, DuePhase] = {}
        for key, profile, state in self._run(
            "SELECT invocation_id, profile_id, completed FROM json_each(?) JOIN record ON value = "
            f"invocation_id WHERE started = {_DELIVERED} AND excluded IS NULL ORDER BY key",
            (json.dumps(self.facts().get(LAST, "").split()),),
        ):
            place, closed = self._index.place(Key(key, profile)), state == _DELIVERED
            if place and place.folder == layout.RECORDS and place.path not in self._shipped:
                newest.setdefault(closed, DuePhase(key, profile, PHASES[closed]))
        return newest.values()

    def due_records(self, limit: int, after: str, *, whole: bool) -> list[Key]:
        """Return the closed records whose phases are delivered and which are not, oldest first.

        With `whole` also open ones as they are so far, replays and imported sessions, and what left
        without objects.
        """
        where = (
            f"{_WHOLE_DUE if whole else _RECORD_DUE} AND invocation_id > ? ORDER BY "
            "invocation_id LIMIT ?"
        )
        rows = self._run(
            f"SELECT invocation_id, profile_id FROM record WHERE {where}", (after, limit)
        )
        return [Key(*row) for row in rows]

    def settle_record(self, invocation_id: str, state: str | None, *, whole: bool = False) -> None:
        """Remember that a whole record was `delivered` or `refused`; None makes it due again, as
        after a new annex.

        With `whole` its objects went with it.
        """
        with self._begin_transaction():
            values = (None if state is None else _STATES[state], whole, invocation_id)
            self._db.execute(
                "UPDATE record SET body = ?, sent = CASE WHEN ? THEN seen ELSE sent END WHERE "
                "invocation_id = ?",
                values,
            )

    def begin_anew(self) -> None:
        """Forget what was acknowledged, so that everything is due after the next scan."""
        with self._begin_transaction():
            self._db.execute("DELETE FROM record")
            self._db.execute("DELETE FROM fact WHERE name != 'last_success'")
        self.is_anew = True

    def retry_refused(self) -> int:
        """Make every refused phase pending again; how many."""
        with self._begin_transaction():
            count = sum(self._db.execute(statement).rowcount for statement in _RETRY)
            # Folders of annexes are read again.
            self._db.execute("DELETE FROM fact WHERE name = ?", (UNTIL,))
            return count

    def counts(self, *, records: bool = False, whole: bool = False) -> Counts:
        """Return how many phases are in which state, as of the last scan, and of `records` that
        leave whole."""
        live = "excluded IS NULL"
        pending, delivered, refused, waiting, oldest = self._run(
            f"SELECT total({live} AND started = 0) + total({live} AND completed = 0 AND started != "
            "2), total(started = 1) + total(completed = 1), total(started = 2) + total(completed = "
            f"2) + total(body = 2) + (SELECT count(*) FROM fact WHERE {_REFUSED_FACTS}), "
            f"total({live} AND started = 2 AND completed = 0), min(CASE WHEN {_DUE} THEN "
            "invocation_id END) FROM record"
        )[0]
        excluded = dict(
            self._run(
                "SELECT excluded, count(*) FROM record WHERE excluded IS NOT NULL GROUP BY excluded"
            )
        )
        since = None if oldest is None else rfc3339(ULID.from_str(oldest).milliseconds)
        due = None
        if records:
            where = _WHOLE_PENDING if whole else _RECORD_PENDING
            [(due,)] = self._run(
                f"SELECT count(*) FROM record WHERE ({where}) OR body IS NOT NULL AND "
                "invocation_id IN (SELECT value FROM json_each(?))",
                (json.dumps(sorted(self._list_annexed())),),
            )
        return Counts(
            int(pending), int(delivered), int(refused), int(waiting), excluded, since, due
        )

    def _list_annexed(self) -> set[str]:
        """Return the records that an annex makes due again as soon as the log is delivered."""
        facts, ids = self.facts(), set()
        with suppress(InvocationError, OSError):  # the push says what is wrong with the log
            for generation in open_log(self._project).generations():
                # Before its first leaf is delivered no record is.
                if (mark := facts.get(f"leaves {generation.name}")) is not None:
                    for line in generation.read_lines(int(mark)):
                        if line.startswith(ANNEX.encode()):
                            ids.add(line[OF_INVOCATION].decode("ascii", "replace"))
        return ids

    def count_left(self, consent: Consent) -> Counts:
        """Return the same with the whole records that a consent covers."""
        return self.counts(records=consent.level == RECORDS, whole=bool(consent.whole))

    def facts(self) -> dict[str, str]:
        """Return the facts that the last pushes noted: last_success, last_failure, failing_since,
        failures, why."""
        return dict(self._run("SELECT name, value FROM fact WHERE name != 'mark'"))

    def note(self, facts: Mapping[str, str | None]) -> None:
        """Remember facts; None forgets one."""
        with self._begin_transaction():
            for name, value in facts.items():
                if value is None:
                    self._db.execute("DELETE FROM fact WHERE name = ?", (name,))
                else:
                    self._remember(name, value)

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._translate_fault(error) from error

    def _translate_fault(self, error: sqlite3.Error) -> EnvironmentFault:
        """Return the error to raise; a cursor that turns out to be damaged is set aside for the
        next command."""
        if isinstance(error, sqlite3.OperationalError) or not isinstance(
            error, sqlite3.DatabaseError
        ):
            return unavailable(self.path, error)
        self._db.close()
        _set_aside(self.path)
        return EnvironmentFault(
            "SYNC_UNAVAILABLE",
            f"{self.path}: {error}; it was set aside, and everything is delivered again, which "
            "a receiver takes once",
            "spec-kitty sync push",
        )

    def _remember(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value))

    @contextmanager
    def _begin_transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._translate_fault(error) from error


def _open(path: str) -> sqlite3.Connection:
    """Return the cursor.

    One that cannot be used is set aside and begun anew, which delivers again and loses nothing.
    """
    for attempt in range(2):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                version = db.execute("PRAGMA user_version").fetchone()[0]
                if version not in (0, CURSOR_VERSION):
                    raise sqlite3.DatabaseError(f"it has version {version}")
                db.executescript(_SCHEMA.partition("CREATE INDEX")[0])
                columns = {row[1] for row in db.execute("PRAGMA table_info(record)")}
                if "body" not in columns:
                    # whole records came later
                    db.execute("ALTER TABLE record ADD COLUMN body INTEGER")
                if "sent" not in columns:
                    # and with objects later still
                    db.execute("ALTER TABLE record ADD COLUMN sent TEXT")
                    db.execute(
                        "UPDATE record SET seen = NULL, excluded = NULL, completed = NULL"
                        f" WHERE excluded IN ('{REPLAY}', '{REEXECUTION}', 'imported')"
                    )
                db.executescript(_SCHEMA)
                db.execute("SELECT count(*) FROM (SELECT 1 FROM record LIMIT 1)").fetchone()
                return db
            except BaseException:
                db.close()
                raise
        except sqlite3.OperationalError as error:
            raise unavailable(path, error) from error
        except sqlite3.DatabaseError as error:
            if attempt:
                raise unavailable(path, error) from error
            _set_aside(path)
        except OSError as error:
            raise unavailable(path, error) from error
    raise AssertionError


def _set_aside(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(path + suffix, f"{path}{suffix}.broken")


def _read_signature(path: str) -> str:
    try:
        state = os.stat(path, follow_symlinks=False)
    except OSError:
        return "missing"
    return f"{state.st_ino}:{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}"
