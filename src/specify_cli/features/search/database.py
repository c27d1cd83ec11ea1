"""The index of words: SQLite FTS5 in the git directory, derived from the records and deletable at
any time.

    with SearchIndex(project) as index:
        index.update()
        for hit in index.find(Query("login token", tool="Bash"), 20)[0]:
            print(hit.invocation_id, hit.seq, hit.snippet)

It holds words and places, no text: what is shown is read from the record again, so an index that
somebody forged can hide a record from a search and cannot make one say something. Outside git it is
built in memory for each search, since what lies in a work tree is anybody's. It is never touched by
a command that records.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import orjson

from doctrine.text import count, make_encodable
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.libraries.words.words import (
    cut_snippet,
    marks_of,
    match_query,
    part_signs,
    text_of,
)
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.patch_lines import ADDED, read_lines_member
from specify_cli.record.reading.usage import Spent
from specify_cli.record.reading.views import get_seq
from specify_cli.record.record import split_lines
from specify_cli.storage.checking import list_annexed
from specify_cli.storage.index import Index, Key
from specify_cli.storage.queries import (
    COUNTED,
    Filters,
    Listing,
    Row,
    annex_events,
    read_row,
    read_spent,
    tell_unstarted,
)
from specify_cli.storage.store import FileRecordStore, Place

T = TypeVar("T")
_VERSION = 14
# How many bytes of records are indexed between two commits, each of which merges words on disk, and
# after how many records a bar moves on.
_BATCH_BYTES = 32 * 1024 * 1024
_STEP = 1000
_BUSY_MILLIS = 10_000
# What SQLite says where the disk is full or takes no write.
_NO_WRITE = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN
)  # fmt: skip
# A larger record is not searched: a branch can bring a file of any size.
MAX_RECORD = 256 * 1024 * 1024
# In how many patches a line may stand to say something of one.
MANY = 200
# How many records a sentence names.
_NAMED = 3
_TABLES = """
CREATE TABLE record (
  id INTEGER PRIMARY KEY, invocation_id TEXT NOT NULL, folder TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL,
  millis INTEGER NOT NULL, open INTEGER NOT NULL, annexes INTEGER NOT NULL, last TEXT NOT NULL, UNIQUE (invocation_id, folder, name)
);
CREATE TABLE line (id INTEGER PRIMARY KEY, record INTEGER NOT NULL, seq INTEGER NOT NULL, start INTEGER NOT NULL);
CREATE TABLE mark (kind TEXT NOT NULL, value TEXT NOT NULL, record INTEGER NOT NULL);
CREATE TABLE patched (digest TEXT NOT NULL, record INTEGER NOT NULL, start INTEGER NOT NULL);
CREATE TABLE known (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', detail=full, tokenize='unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('hashsize', 33554432);
"""
# Made once the first rows are in: to sort a million values costs a third of keeping them sorted
# while they come.
_INDEXES = (
    "record_by_time ON record (millis DESC)",
    "line_of_record ON line (record)",
    "mark_by_value ON mark (kind, value)",
    "mark_of_record ON mark (record)",
    "patched_by_digest ON patched (digest)",
    "patched_of_record ON patched (record)",
)


class Query(NamedTuple):
    """What is looked for: words, what stands inside a record, and which rows. None means
    anything."""

    text: str = ""
    path: str | None = None
    tool: str | None = None
    commit: str | None = None
    rule: str | None = None
    rows: Filters = Filters()


class Hit(NamedTuple):
    """One line that was found, and the invocation it stands in. `seq` is None where the filters
    alone fit."""

    invocation_id: str
    profile_id: str | None
    action: str | None
    outcome: str | None
    started_at: str | None
    request: str | None
    uri: str
    seq: int | None
    event: str | None
    snippet: str
    spent: Spent | None


# The lines of a record that were found: seq and byte of each.
_Lines = list[tuple[int, int]]


class _ReplacedError(sqlite3.DatabaseError):
    """A record is another one than was indexed under its name, as after its deletion and a second
    import: what the index has of it is wrong."""


class SearchIndex:
    """The index of one project; a context manager."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.problems: list[str] = []
        self._records = FileRecordStore(project.root)
        # Rows that were taken from records and are not written yet, and the numbers of the last
        # record and line.
        self._taken: list[tuple[object, ...]] = []
        self._lines: list[tuple[int, int, int, int]] = []
        self._words: list[tuple[int, str]] = []
        self._marks: list[tuple[str, str, int]] = []
        self._patched: list[tuple[str, int, int]] = []
        self._last_record = self._last = 0
        self._open_record: tuple[Place | None, bytes] = (None, b"")
        self._open_annexes: tuple[Place | None, list[dict[str, object]]] = (None, [])
        self._path = ":memory:"
        if project.git_dir is not None:
            place = layout.name_place(os.path.realpath(project.root))
            self._path = f"{project.git_dir}/kittify/search/{place}.sqlite"

    def __enter__(self) -> SearchIndex:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._base.close()

    def _open(self) -> None:
        """Open the index; one that is damaged or of another version is begun anew."""
        if self._path != ":memory:":
            with suppress(OSError):
                os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        try:
            self._connect()
            # A file is of this version, and as long as it says.
            whole = self._path == ":memory:" or (
                self._ask("PRAGMA user_version") == _VERSION
                and os.path.getsize(self._path)
                >= self._ask("PRAGMA page_count") * self._ask("PRAGMA page_size")
            )
        except (sqlite3.DatabaseError, OSError):
            whole = False
        if not whole:
            self.forget()

    def _connect(self) -> None:
        self._base = sqlite3.connect(self._path, isolation_level=None, timeout=_BUSY_MILLIS / 1000)
        if self._path != ":memory:":
            os.chmod(self._path, 0o600)
        for setting in (
            "trusted_schema = OFF",
            "synchronous = NORMAL",
            "temp_store = MEMORY",
            "cache_size = -65536",
        ):
            self._base.execute(f"PRAGMA {setting}")
        if self._ask("PRAGMA user_version") != 0:
            return
        try:
            self._base.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT"
            )
        except sqlite3.OperationalError as error:
            if "fts5" in str(error):
                raise EnvironmentFault(
                    "EXTRA_MISSING",
                    "search needs SQLite with FTS5, and this Python's SQLite has none",
                    "use a Python whose sqlite3 has FTS5, as that of python.org and of Debian",
                ) from error
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            if self._ask("PRAGMA user_version") != _VERSION:
                raise

    def _ask(self, question: str, *values: object) -> Any:
        """Return the one value that a question has for an answer; None where it has none."""
        row = self._base.execute(question, values).fetchone()
        return None if row is None else row[0]

    def forget(self) -> None:
        """Delete the index and begin it anew."""
        if hasattr(self, "_base"):
            self._base.close()
        for rows in (self._taken, self._lines, self._words, self._marks, self._patched):
            rows.clear()
        try:
            for ending in ("", "-journal", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(self._path + ending)
            self._connect()
        except (sqlite3.OperationalError, OSError):
            # nothing can be written there: the search costs more, no less is found
            self._path = ":memory:"
            self._connect()

    # --- keeping it right

    def update(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Take in what was recorded since the last time: new records, and the new lines of open
        ones."""
        try:
            self._update(progress)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise EnvironmentFault(
                    "ACCESS_FAILED",
                    "another search is building the index",
                    "run the command again in a moment",
                ) from error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_WRITE:
                self._path = ":memory:"
            self.forget()
            self._update(progress)

    def _update(self, progress: Callable[[int, int], None] | None) -> None:
        index = Index(self.project.root)
        known = dict(self._base.execute("SELECT name, value FROM known"))
        rows, mark = index.rows_since(known.get("rows", ""))
        self.problems += index.problems
        followed = [
            Key(invocation_id, (layout.parse_record_name(name) or (None, ""))[0] or "")
            for invocation_id, name in self._base.execute(
                "SELECT invocation_id, name FROM record WHERE open = 1"
            )
        ]
        keys = list(dict.fromkeys([*followed, *rows]))
        waiting = 0
        for number, key in enumerate(keys, 1):
            self._begin()
            place = index.place(key)
            if place:
                waiting += self._take_record(place)
            if waiting > _BATCH_BYTES:
                self._commit()
                waiting = 0
            if progress is not None and number % _STEP == 0:
                progress(number, len(keys))
        if keys:
            self._begin()
            self._base.execute("REPLACE INTO known VALUES ('rows', ?)", (mark,))
            self._commit()
        for name in _INDEXES:  # a search that was killed may have left without
            self._base.execute(f"CREATE INDEX IF NOT EXISTS {name}")
        self._take_annexes()

    def _begin(self) -> None:
        """Begin what is committed together, unless that is under way."""
        if not self._base.in_transaction:
            self._base.execute("BEGIN IMMEDIATE")
            self._last_record, self._last = self._base.execute(
                "SELECT (SELECT coalesce(max(id), 0) FROM record), (SELECT coalesce(max(id), 0) "
                "FROM line)"
            ).fetchone()

    def _commit(self) -> None:
        """Write what was taken, one statement a table: a statement a row costs as much again."""
        for statement, rows in (
            ("REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", self._taken),
            ("INSERT INTO line VALUES (?, ?, ?, ?)", self._lines),
            ("INSERT INTO words (rowid, text) VALUES (?, ?)", self._words),
            ("INSERT INTO mark VALUES (?, ?, ?)", self._marks),
            ("INSERT INTO patched VALUES (?, ?, ?)", self._patched),
        ):
            self._base.executemany(statement, rows)
            rows.clear()
        self._base.execute("COMMIT")

    def _take_record(self, place: Place) -> int:
        """Take the lines of a record that are not in the index yet; return how many bytes they
        are."""
        try:
            size = self._records.hold(place).measure()
            if size > MAX_RECORD:
                self.problems.append(f"{place.path}: {size} bytes, at most {MAX_RECORD} are read")
                return 0
            data = self._records.read(place)
        except (InvocationError, OSError) as error:
            self.problems.append(f"{place.path}: {error}")
            return 0
        # By its name: one that was published or moved is the same record in another folder, and
        # keeps its place in the order.
        record, start, annexes, was_open, last = self._base.execute(
            "SELECT id, size, annexes, open, last FROM record WHERE invocation_id = ? AND name = ?",
            (place.invocation_id, place.name),
        ).fetchone() or (0, 0, 0, 1, "")
        if record and _digest_last(data, start) != last:
            raise _ReplacedError
        if not record:
            self._last_record += 1
            record = self._last_record
        end = data.rfind(b"\n") + 1
        first = _read_fields(data[: data.find(b"\n") + 1]) or {}
        is_started = first.get("event") == "started"
        if not is_started:
            self.problems.append(tell_unstarted(self.project.root, place))
        closed, is_unread = not was_open, False
        marks: set[tuple[str, str]] = set()
        for at, raw in split_lines(data[start:end]):
            fields = _read_fields(raw)
            if fields is None:
                continue
            closed = closed or fields.get("event") == "completed"
            is_unread = is_unread or "opened_by" in fields
            self._take_line(record, start + at, fields)
            marks.update(marks_of(fields))
        self._marks += [
            (kind, value, record) for kind, value in marks if kind != "front" or not is_unread
        ]
        names = (place.invocation_id, place.folder, place.name)
        is_open = not (closed and is_started)  # what cannot be read is named each time
        millis, last = millis_of(place.invocation_id), _digest_last(data, end)
        self._taken.append((record, *names, end, millis, is_open, annexes, last))
        return end - start

    def _take_line(self, record: int, start: int, fields: dict[str, object]) -> None:
        text = text_of(fields)
        if text:
            self._last += 1
            self._lines.append((self._last, record, get_seq(fields), start))
            self._words.append((self._last, part_signs(text)))
        if fields.get("event") == "patch_apply":
            hunks = read_lines_member(fields.get("lines"))
            added = {line.digest for hunk in hunks for line in hunk if line.mark == ADDED}
            self._patched += [
                (key, record, start) for key in (*added, f"path:{fields.get('path')}")
            ]

    def _take_annexes(self) -> None:
        """Index what was said of records after they were closed. The place of an annex is its number
        among them, counted down from -1: it has a file of its own, and no byte in the record."""
        for invocation_id, changed in list_annexed(self.project.root).items():
            record = self._ask(
                "SELECT id FROM record WHERE invocation_id = ? AND annexes <> ?",
                invocation_id,
                changed,
            )
            if record is None:
                continue
            self._begin()
            for table in ("line", "patched"):
                self._base.execute(f"DELETE FROM {table} WHERE record = ? AND start < 0", (record,))
            for number, fields in enumerate(self._read_annexes(invocation_id)):
                self._take_line(record, -1 - number, fields)
                self._marks += {(*mark, record) for mark in marks_of(fields)}
            self._base.execute("UPDATE record SET annexes = ? WHERE id = ?", (changed, record))
            self._commit()

    def _read_annexes(self, invocation_id: str) -> list[dict[str, object]]:
        """Return the annexes of a record, numbered behind its lines as a story cites them."""
        return [
            {**fields, "seq": seq + number}
            for number, fields in enumerate(annex_events(self.project.root, invocation_id))
            if isinstance(seq := fields.get("seq"), int)
        ]

    # --- asking it

    def find(self, query: Query, limit: int) -> tuple[list[Hit], int]:
        """Return at most `limit` lines that fit, those of the newest records first.

        The second value is how many records hold more of them, the last shown one too where it was
        cut; counted up to `COUNTED`, and without a look at them.
        """
        if query.text.strip() and match_query(query.text) is None:
            return [], 0

        hits, unread = self._select(query, limit, partial(self._make_hits, query.text))
        # The lines of a record that grew came in pieces, the newest first.
        hits.sort(key=lambda hit: hit.seq or 0)
        hits.sort(key=lambda hit: hit.invocation_id, reverse=True)
        return hits[:limit], unread

    def _select(
        self, query: Query, limit: int, make: Callable[[Row, Place, _Lines], Iterable[T]]
    ) -> tuple[list[T], int]:
        """Return what is made of the newest records that fit, up to `limit`, and how many more there
        are: counted up to `COUNTED`, and without a look at them."""
        rows: list[T] = []
        unread = set()
        for place, lines in self._find_places(query, match_query(query.text)):
            if len(rows) >= limit:
                unread.add(place)
                if len(unread) >= COUNTED:
                    break
                continue
            row = self._read_row(place)
            if row and query.rows.accept(row):
                rows += make(row, place, lines)
                if len(rows) > limit:
                    unread.add(place)
        return rows, len(unread)

    def count_rules(
        self, invocation_ids: Iterable[str], limit: int
    ) -> tuple[list[tuple[str, int]], int]:
        """Return the rules that were in front of most of these invocations, and how many of them
        were given any."""
        ids = orjson.dumps(list(invocation_ids)).decode()
        tables = (
            "FROM mark JOIN record ON record.id = mark.record WHERE kind = 'front' AND "
            "invocation_id IN (SELECT value FROM json_each(?))"
        )
        rows = self._base.execute(
            f"SELECT mark.value, count(DISTINCT invocation_id) AS seen {tables} "
            "GROUP BY mark.value ORDER BY seen DESC, mark.value LIMIT ?",
            (ids, limit),
        ).fetchall()
        return rows, self._ask(f"SELECT count(DISTINCT invocation_id) {tables}", ids)

    def find_patches(
        self, digests: Iterable[str], paths: Iterable[str]
    ) -> Iterator[tuple[Place, dict[str, object]]]:
        """Yield every patch of these files and every one that added a line of these digests, as the
        record has it now.

        A line that many patches added says nothing of any of them. The patches of the files that
        are found so are yielded too: in one of them a line may have been taken away again.
        """
        places: set[tuple[int, int]] = set()
        waiting, seen = [*(f"path:{path}" for path in paths), *set(digests)], set[str]()
        while waiting:
            key = waiting.pop()
            seen.add(key)
            of_file = key.startswith("path:")
            rows = self._base.execute(
                "SELECT record, start FROM patched WHERE digest = ? LIMIT ?",
                (key, -1 if of_file else MANY + 1),
            ).fetchall()
            if len(rows) > MANY and not of_file:
                continue
            new = set(rows) - places
            places |= new
            for place in () if of_file else new:
                other = self._ask(
                    "SELECT digest FROM patched WHERE record = ? AND start = ? AND digest GLOB "
                    "'path:*'",
                    *place,
                )
                if other is not None and other not in seen:
                    waiting.append(other)
        for record, starts in groupby(sorted(places), itemgetter(0)):
            row = self._base.execute(
                "SELECT folder, name, invocation_id FROM record WHERE id = ?", (record,)
            ).fetchone()
            place = row and self._locate(*row)
            for _, start in starts if row else ():
                fields = self.read_line(place, start)
                if fields is not None and fields.get("event") == "patch_apply":
                    yield place, fields

    def describe_limits(self) -> list[str]:
        """Return what no search finds, as sentences."""
        said = (
            ("erased", "were erased; no search finds them"),
            ("cut", "are longer than a line holds; only their beginning is searched"),
        )
        return [
            f"values of {named} {how}" for kind, how in said if (named := self.name_records(kind))
        ]

    def name_records(self, kind: str, event: str | None = None) -> str | None:
        """Return of which records values were `erased` or are searched in part (`cut`), of all
        lines or those of an event; None if there is no such record."""
        rows = self._base.execute(
            "SELECT DISTINCT invocation_id FROM mark JOIN record ON record.id = mark.record "
            "WHERE kind = ? AND value = ifnull(?, value) ORDER BY invocation_id DESC",
            (kind, event),
        ).fetchall()
        named = [*(one for (one,) in rows[:_NAMED]), *["…"] * (len(rows) > _NAMED)]
        return f"{count(len(rows), 'record')} ({', '.join(named)})" if rows else None

    def list_below(self, invocation_id: str) -> list[str]:
        """Return the ids of the records that hang on one, oldest first."""
        rows = self._base.execute(
            "SELECT DISTINCT invocation_id FROM mark JOIN record ON record.id = mark.record "
            "WHERE kind = 'parent' AND value = ? ORDER BY invocation_id",
            (invocation_id,),
        )
        return [one for (one,) in rows]

    def _locate(self, folder: str, name: str, invocation_id: str) -> Place:
        """Return where a record lies that was indexed in a folder; its month may have been moved
        into an archive since, or out of one."""
        profile_id = (layout.parse_record_name(name) or (None,))[0]
        place = Place(folder, name, invocation_id, profile_id)
        if os.path.lexists(f"{self.project.root}/{place.path}"):
            return place
        return Index(self.project.root).place(Key(invocation_id, profile_id or "")) or place

    def read_line(self, place: Place, start: int) -> dict[str, object] | None:
        """Return the line that stands at a byte of a record now, or its annex of a negative number;
        None where none does."""
        if start < 0:
            if self._open_annexes[0] != place:
                self._open_annexes = (place, self._read_annexes(place.invocation_id))
            return next(iter(self._open_annexes[1][-1 - start :]), None)
        if self._open_record[0] != place:
            # The lines of one record are asked for one after another, so it is read once for all of
            # them.
            try:
                self._open_record = (place, self._records.read(place))
            except (OSError, InvocationError):
                return None
        data = self._open_record[1]
        return _read_fields(data[start : data.find(b"\n", start)])

    def list_rows(self, query: Query, limit: int) -> Listing:
        """Return the rows of the records that fit, newest first: a list under the filters of a
        search."""
        rows, unread = self._select(query, limit, lambda row, _, __: (row,))
        return Listing(tuple(rows), (), unread)

    def _find_places(self, query: Query, matched: str | None) -> Iterator[tuple[Place, _Lines]]:
        """Yield records, the newest first, with the lines (seq, byte) that hold the words.

        Where words are looked for, the record that was indexed last comes first. That is the
        newest, but for records that came later from elsewhere; to sort a million matches would cost
        more than all the rest.
        """
        wheres = []
        values: list[object] = []
        for kind in ("path", "tool", "commit", "rule"):
            sought = getattr(query, kind)
            if sought is not None:
                wheres.append(
                    f"record.id IN (SELECT record FROM mark WHERE kind = '{kind}' AND "
                    f"{_COMPARED[kind]})"
                )
                values += [make_encodable(sought)] * _COMPARED[kind].count("?")
        for moment, compared in ((query.rows.since, ">="), (query.rows.until, "<")):
            if moment is not None:
                wheres.append(f"record.millis {compared} ?")
                values.append(moment)
        columns, source, order = "NULL, NULL", "record", "millis DESC, id DESC"
        if matched is not None:
            columns, order = "seq, start", "words.rowid DESC"
            source = (
                "words JOIN line ON line.id = words.rowid JOIN record ON record.id = line.record"
            )
            wheres.insert(0, "words MATCH ?")
            values.insert(0, matched)
        chosen = " AND ".join(wheres) or "1"
        sql = (
            f"SELECT folder, name, invocation_id, {columns} FROM {source} WHERE {chosen} "
            f"ORDER BY {order}"
        )
        current: Place | None = None
        lines: _Lines = []
        for folder, name, invocation_id, seq, start in self._base.execute(sql, values):
            place = self._locate(folder, name, invocation_id)
            if current and place != current:
                yield current, lines
                lines = []
            current = place
            if start is not None:
                lines.append((seq, start))
        if current:
            yield current, lines

    def _read_row(self, place: Place) -> Row | None:
        try:
            row = read_row(self.project.root, place)
        except (OSError, InvocationError):
            return None  # it is gone since
        if not row:
            self.problems.append(tell_unstarted(self.project.root, place))
        return row

    def _make_hits(self, text: str, row: Row, place: Place, lines: _Lines) -> Iterator[Hit]:
        """Yield the lines as the record has them now."""
        uri = f"inv://{row.invocation_id}/event"
        whole = Hit(
            row.invocation_id,
            row.profile_id,
            row.action,
            row.outcome or row.status,
            row.started_at,
            row.request,
            f"{uri}/0",
            None,
            None,
            "",
            read_spent(self.project.root, place),
        )
        if not lines:
            yield whole
        for seq, start in sorted(lines):
            fields = self.read_line(place, start)
            if fields is not None:
                event, snippet = str(fields.get("event")), cut_snippet(fields, text)
                yield whole._replace(uri=f"{uri}/{seq}", seq=seq, event=event, snippet=snippet)


_COMPARED = {
    "path": "(value = ? OR value GLOB ? OR substr(value, -length(?) - 1) = '/' || ?)",
    "tool": "value = ? COLLATE NOCASE",
    "commit": "substr(value, 1, length(?)) = lower(?)",
    "rule": "(value = ? OR substr(value, -length(?) - 1) = '/' || ?)",
}


def _read_fields(raw: bytes) -> dict[str, object] | None:
    """Return the members of a line; None for what is none."""
    try:
        value = orjson.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _digest_last(data: bytes, end: int) -> str:
    """Return the digest of the last line of a record up to a byte; it holds the seal of the line,
    and that holds all before it."""
    return sha256(data[data.rfind(b"\n", 0, max(0, end - 1)) + 1 : end]).hexdigest()
