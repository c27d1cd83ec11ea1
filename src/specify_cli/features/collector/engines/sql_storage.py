"""The collector's Storage on a database: events, and the rows a list shows, written together.

    storage = SqlStorage(SqliteDatabase("events.db"))

The row of a project's totals is the lock of that project: within one project batches are stored one
after another, and what a batch sees of its keys stays as it is until the batch is durable.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from specify_cli.features.collector.engines.database import Database, Rows, Transaction
from specify_cli.features.collector.engines.orders import (
    apply_order,
    erase_phases,
    read_orders,
)
from specify_cli.features.collector.engines.rows import (
    OUTCOMES,
    check_text,
    choose_places,
    count_conflict,
    expect_objects,
    find_objects,
    read_leaves,
    read_phases,
    read_record,
    write_changes,
    write_log_conflict,
    write_record,
)
from specify_cli.features.collector.engines.words import (
    compose_match,
    place_of,
    prefix_of,
)
from specify_cli.features.collector.holdings import decode_report
from specify_cli.features.collector.orders import erase_event, erase_record
from specify_cli.features.collector.storage import (
    APART,
    CLOSED,
    CONFLICT,
    DUPLICATE,
    OPEN,
    OWNED,
    RECORD,
    STORED,
    UNKNOWN,
    Conflict,
    Event,
    Filter,
    ListPosition,
    LogConflict,
    LogPiece,
    Order,
    ProjectRow,
    Projects,
    RecordPiece,
    Row,
    StorageUnusable,
    StoredEvent,
    StoredLog,
    StoredRecord,
    Totals,
    compute_digest,
    compute_edge,
    decide,
    decode_edge,
    encode_edge,
    is_whole,
    judge_leaves,
    judge_record,
    make_conflict,
    project_of,
    read_state,
)
from specify_cli.libraries.wire.contract import key_of

# An actor filter names at most so many actors one by one; with more the rows are walked newest
# first.
_ACTORS = 64
# A page is merged from at most so many lists, each read from an index; so many, and values, go into
# one statement.
_LISTS, _LISTS_AT_ONCE, _VALUES_AT_ONCE = 4_000, 400, 30_000
_PAGE = 1_000
_LOCK = (
    "INSERT INTO totals (project_uuid, invocations, open, events, conflicts) VALUES (?, 0, 0, 0, 0)"
    " ON CONFLICT (project_uuid) DO UPDATE SET open = totals.open"
)
_COLUMNS = ", ".join(Row._fields)


class SqlStorage:
    """Where a collector keeps events. Methods may be called from several threads at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _select(self, statement: str, values: Sequence[object] = ()) -> Rows:
        return self._database.read(lambda transaction: transaction.run(statement, values))

    def require_whole(self, address: str) -> None:
        """Refuse a database of an older version some of whose projects lie in others. Raises
        StorageUnusable."""
        apart = "SELECT count(*) FROM placement WHERE shard NOT IN (SELECT name FROM shard)"
        [(number,)] = self._select(apart)
        if number:
            raise StorageUnusable(
                f"{address}: {number} of its projects lie in other databases (shards), which "
                "this version does not "
                "read together; docs/adr/0017-one-database-a-ledger.md says how to merge them"
            )

    def probe(self) -> None:
        """Write what is there already, durably. Raises StorageError where nothing can be
        written, or no request's body."""

        def rewrite(transaction: Transaction) -> None:
            transaction.run("UPDATE totals SET open = open WHERE project_uuid = ''")
            transaction.run("UPDATE shard SET name = name")

        self._database.require_room()
        self._database.write(rewrite)

    def accept(self, events: Sequence[Event], now: str, client: str = "") -> list[str]:
        """Store a batch of faultless events in one step; a verdict for each, durably.

        The client that first sent a phase of an invocation owns it: what another one adds is OWNED,
        and not stored.
        """
        if not events:
            return []
        projects = sorted({project_of(event) for event in events})
        keys = sorted({(key_of(event)[0], project_of(event)) for event in events})

        def store(transaction: Transaction) -> list[str]:
            # In order, so that of two batches with the same projects neither waits for the other
            # for ever.
            transaction.run_many(_LOCK, [(project,) for project in projects])
            left, orders = events, read_orders(transaction, keys)
            # A version before can have carried out less of them.
            for place, given in orders.items():
                erase_phases(transaction, place, given)
            stored_phases = read_phases(transaction, *choose_places(keys))
            by_phase = {
                place: {one.phase: one for one in phases} for place, phases in stored_phases.items()
            }
            if orders:
                left = [
                    erase_event(one, orders.get(ListPosition(key_of(one)[0], project_of(one)), ()))
                    for one in events
                ]
            changes = decide(left, by_phase, now, client)
            write_changes(transaction, changes)
            return changes.verdicts

        return self._database.write(store)

    def rows(self, filters: Filter, limit: int, after: ListPosition | None = None) -> list[Row]:
        """At most `limit` invocations, newest first, those after a place if one is given."""

        def read(transaction: Transaction) -> list[Row]:
            actors: list[str] | None = None
            if filters.actor is not None:
                folded = (filters.actor.casefold(), _ACTORS + 1)
                matching = transaction.run(
                    "SELECT actor_id FROM actor WHERE instr(folded, ?) > 0 LIMIT ?", folded
                )
                actors = [name for (name,) in matching]
            criteria = _list_criteria(filters, actors)
            if not all(criteria.values()):
                return []
            many = actors is not None and "actor_id" not in criteria
            page = _Page(filters, criteria, many, limit, after)
            if self._database.HAS_WORDS and (match := compose_match(criteria)):
                return _read_found(transaction, page, match)
            return _read_merged(transaction, page)

        return self._database.read(read)

    def phases(self, invocation_id: str, projects: Projects = None) -> dict[str, list[StoredEvent]]:
        """Return what is stored of an invocation, Started first, by the project's uuid."""
        where, values = _restrict(projects, ["invocation_id = ?"], [invocation_id])
        stored_phases = self._database.read(
            lambda transaction: read_phases(transaction, where, values)
        )
        return {place.project_uuid: phases for place, phases in sorted(stored_phases.items())}

    def conflicts(
        self, limit: int, projects: Projects = None, invocation_id: str | None = None
    ) -> list[Conflict]:
        """Return the conflicts seen last, newest first; of one invocation where it is named."""
        named = ([], []) if invocation_id is None else (["invocation_id = ?"], [invocation_id])
        where, values = _restrict(projects, *named)
        rows = self._select(
            f"SELECT {', '.join(Conflict._fields)} FROM conflict WHERE {where} ORDER BY last_at "
            "DESC, invocation_id DESC, project_uuid DESC, phase DESC, sent_sha256 DESC LIMIT ?",
            (*values, limit),
        )
        return [Conflict(*item) for item in rows]

    def totals(self, projects: Projects = None) -> Totals:
        """Return how much there is."""
        where, values = _restrict(projects)
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in Totals._fields)
        [row] = self._select(f"SELECT {sums} FROM totals WHERE {where}", values)
        return Totals(*map(int, row))

    def keep_record(
        self, project: str, sent: RecordPiece, now: str, client: str, *, is_merged: bool = False
    ) -> tuple[str, list[str]]:
        """Store a whole record with its events, durably; STORED, DUPLICATE, CONFLICT, OWNED or
        UNKNOWN.

        A record that came before is replaced where the new one adds lines or annexes to it. The
        digests are those of the objects it leads to that are not stored yet, sorted. What a client
        has from git (`is_merged`) of another one's record can come later.
        """
        place = ListPosition(sent.invocation_id, project)

        def store(transaction: Transaction) -> tuple[str, list[str]]:
            transaction.run(_LOCK, (project,))
            where = "invocation_id = ? AND project_uuid = ?"
            phases = {
                one.phase: one for one in read_phases(transaction, where, place).get(place, ())
            }
            stored, digest = read_record(transaction, place)
            # What was erased here stays so, whoever sends the record again.
            orders = read_orders(transaction, [place]).get(place, [])
            piece = erase_record(sent, orders, stored)
            known = stored and decode_report(stored.report)
            verdict = judge_record(
                phases,
                stored,
                known,
                piece,
                client,
                orders,
                lambda: read_leaves(transaction, project, sent.invocation_id, "instr(body, ?) > 0"),
            )
            if verdict == OWNED and is_merged:
                verdict = UNKNOWN
            if verdict == STORED:
                write_record(transaction, project, piece, now, client)
                transaction.run(
                    "UPDATE totals SET records = records + ?, whole = whole + ?, revision = "
                    "revision + 1 WHERE project_uuid = ?",
                    (
                        int(not stored),
                        is_whole(phases, piece.report) - bool(known and is_whole(phases, known)),
                        project,
                    ),
                )
            elif verdict in (CONFLICT, OWNED):
                refused = compute_digest(erase_record(sent, orders).body)
                one = make_conflict(place, RECORD, digest, refused, now, client)
                count_conflict(transaction, one)
            if verdict not in (STORED, DUPLICATE):
                return verdict, []
            return verdict, expect_objects(transaction, project, piece.objects)

        return self._database.write(store)

    def keep_order(
        self, project: str, invocation_id: str, order: Order, now: str, client: str
    ) -> tuple[str, bool]:
        """Keep an order and carry it out on everything that is stored of a record, durably; STORED,
        DUPLICATE, CONFLICT or HELD, and whether nothing of what was erased is left in the tables.

        It counts for whatever is sent of the record later.
        """

        def store(transaction: Transaction) -> str:
            transaction.run(_LOCK, (project,))
            place = ListPosition(invocation_id, project)
            verdict = apply_order(transaction, place, order, now, client)
            transaction.run(
                "UPDATE totals SET revision = revision + 1 WHERE project_uuid = ?", (project,)
            )
            return verdict

        verdict = self._database.write(store)
        return verdict, order.event != "erased" or self._database.purge()

    def keep_objects(self, project: str, objects: Mapping[str, str]) -> int:
        """Store objects that records of the project name and that are missing, durably; how many
        were."""

        def store(transaction: Transaction) -> int:
            transaction.run(_LOCK, (project,))
            missing = list(find_objects(transaction, project, sorted(objects), "body IS NULL"))
            transaction.run_many(
                "UPDATE object SET body = ? WHERE project_uuid = ? AND digest = ?",
                [(objects[digest], project, digest) for digest, _ in missing],
            )
            transaction.run(
                "UPDATE totals SET objects = objects + ?, missing = missing - ?, revision = "
                "revision + ? WHERE project_uuid = ?",
                (len(missing), len(missing), int(bool(missing)), project),
            )
            return len(missing)

        return self._database.write(store) if objects else 0

    def objects(self, project: str, digests: Sequence[str]) -> dict[str, str]:
        """Return those of some objects that are stored. Raises StorageError where one is not what
        its name says."""
        rows = self._database.read(
            lambda transaction: dict(
                find_objects(transaction, project, digests, "body IS NOT NULL")
            )
        )
        for digest, body in rows.items():
            check_text(digest, body, f"object {digest}")
        return rows

    def keep_leaves(self, project: str, piece: LogPiece, now: str, client: str) -> tuple[str, int]:
        """Store leaves that follow those stored, durably; a verdict, APART where they do not
        follow, and how many are.

        What contradicts the stored log is stored as a LogConflict.
        """
        key = (project, piece.name)

        def store(transaction: Transaction) -> tuple[str, int]:
            transaction.run(_LOCK, (project,))
            rows = transaction.run(
                "SELECT client, keys, checkpoint, size, edge FROM log WHERE project_uuid = ? "
                "AND name = ?",
                key,
            )
            log, edge = None, ""
            if rows:
                owner, keys, state, size, edge = rows[0]
                # Leaves of before there was an edge are read once; a state that is older is
                # compared with them.
                back = not edge or read_state(piece.checkpoint).size < size
                leaves = read_leaves(transaction, *key) if back else ""
                log = StoredLog(piece.name, owner, keys, state, leaves)
                edge = edge or encode_edge(compute_edge(leaves))
            verdict, size, grown = judge_leaves(log, edge, piece, client)
            if verdict in (OWNED, CONFLICT):
                checkpoint = log.checkpoint if log else ""
                one = LogConflict(
                    piece.name, client, verdict, checkpoint, piece.checkpoint, now, now, 1
                )
                write_log_conflict(transaction, project, one)
            if verdict == STORED:
                before = decode_edge(edge).size
                if piece.leaves:
                    transaction.run(
                        "INSERT INTO leaves VALUES (?, ?, ?, ?)", (*key, before, piece.leaves)
                    )
                transaction.run(
                    "INSERT INTO log (project_uuid, name, client, keys, checkpoint, size, edge)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project_uuid, name) DO UPDATE SET"
                    " checkpoint = excluded.checkpoint, size = excluded.size, edge = excluded.edge",
                    (*key, client, piece.keys, piece.checkpoint, size, grown),
                )
            if verdict not in (DUPLICATE, APART):
                transaction.run(
                    "UPDATE totals SET revision = revision + 1 WHERE project_uuid = ?", (project,)
                )
            return verdict, size

        return self._database.write(store)

    def log_conflicts(self, project: str) -> list[LogConflict]:
        """Return the states that contradicted the logs of a project, the first one first."""
        rows = self._select(
            f"SELECT {', '.join(LogConflict._fields)} FROM log_conflict WHERE project_uuid = ?"
            " ORDER BY first_at, name, client, digest",
            (project,),
        )
        return [LogConflict(*row) for row in rows]

    def projects(self, projects: Projects, limit: int, after: str = "") -> list[ProjectRow]:
        """Return at most `limit` projects by their uuids, those after one if one is given."""
        where, values = _restrict(
            projects, ["project_uuid > ?", "invocations + revision > 0"], [after]
        )
        rows = self._select(
            f"SELECT {', '.join(ProjectRow._fields)} FROM totals WHERE {where} ORDER BY "
            "project_uuid LIMIT ?",
            (*values, limit),
        )
        return [ProjectRow(*row) for row in rows]

    def records(
        self, project: str, limit: int, after: str = "", *, bodies: bool = False
    ) -> list[StoredRecord]:
        """Return at most `limit` whole records of a project by their ids, those after one if one is
        given."""
        named = ", ".join(StoredRecord._fields[: None if bodies else -1])
        rows = self._select(
            f"SELECT {named}, digest FROM record"
            " WHERE project_uuid = ? AND invocation_id > ? ORDER BY invocation_id LIMIT ?",
            (project, after, limit),
        )
        for *row, digest in rows if bodies else ():
            check_text(digest, row[-1], row[0])
        return [StoredRecord(*row[:-1]) for row in rows]

    def iter_projects(self) -> Iterator[ProjectRow]:
        """Yield every project that something is stored of, by their uuids."""
        last = ""
        while rows := self.projects(None, _PAGE, last):
            yield from rows
            last = rows[-1].project_uuid

    def page_records(
        self, project: str, size: int = _PAGE, *, after: str = "", bodies: bool = False
    ) -> Iterator[list[StoredRecord]]:
        """Yield the whole records of a project by their ids, so many at a time, those after one
        if one is given."""
        while page := self.records(project, size, after, bodies=bodies):
            yield page
            after = page[-1].invocation_id

    def bodies(self, places: Sequence[ListPosition]) -> dict[ListPosition, str]:
        """Return the whole records that are stored of some invocations, as they were sent."""

        def read(transaction: Transaction) -> dict[ListPosition, str]:
            bodies = {}
            for place in places:
                stored, digest = read_record(transaction, place)
                if stored:
                    check_text(digest, stored.body, place.invocation_id)
                    bodies[place] = stored.body
            return bodies

        return self._database.read(read)

    def logs(self, project: str) -> list[StoredLog]:
        """Return the logs of a project by their names."""

        def read(transaction: Transaction) -> list[StoredLog]:
            rows = transaction.run(
                "SELECT name, client, keys, checkpoint FROM log WHERE project_uuid = ? ORDER BY "
                "name",
                (project,),
            )
            pieces: dict[str, list[str]] = {}
            for name, body in transaction.run(
                "SELECT name, body FROM leaves WHERE project_uuid = ? ORDER BY name, start",
                (project,),
            ):
                pieces.setdefault(name, []).append(body)
            return [StoredLog(name, *row, "".join(pieces.get(name, []))) for name, *row in rows]  # type: ignore[call-arg]

        return self._database.read(read)

    def close(self) -> None:
        """Let go of what the engine holds."""
        self._database.close()


def _restrict(
    projects: Projects, conditions: Sequence[str] = (), values: Sequence[str] = ()
) -> tuple[str, Sequence[str]]:
    """Return a condition that also names the projects it is about."""
    if projects is None:
        return " AND ".join(conditions) or "1 = 1", values
    marks = ", ".join("?" * len(projects))
    return " AND ".join([*conditions, f"project_uuid IN ({marks})" if marks else "1 = 0"]), [
        *values,
        *sorted(projects),
    ]


def _list_criteria(filters: Filter, actors: Sequence[str] | None) -> dict[str, Sequence[str]]:
    """Return the values a row may have in each column that is asked for; actors that are too many
    are left out."""
    states: Sequence[str] | None = None
    if filters.outcome is not None:
        states = () if filters.status == OPEN else (filters.outcome,)
    elif filters.status is not None:
        states = (OPEN,) if filters.status == OPEN else (*OUTCOMES, CLOSED)
    criteria = {
        "profile_id": None if filters.profile is None else [filters.profile],
        "action": None if filters.action is None else [filters.action],
        "state": states,
        "actor_id": None if actors is None or len(actors) > _ACTORS else actors,
        "project_uuid": None if filters.projects is None else sorted(filters.projects),
    }
    return {column: values for column, values in criteria.items() if values is not None}


class _Page(NamedTuple):
    """A page of the list: at most `limit` rows, those after a place if one is given.

    `criteria` are the values that a row may have in each column that is asked for. With
    `many_actors` the filter fits more of them than are named there.
    """

    filters: Filter
    criteria: dict[str, Sequence[str]]
    many_actors: bool
    limit: int
    after: ListPosition | None

    def bound(self, order: str) -> tuple[list[str], list[str]]:
        """Return the conditions that no column of equal values states, many actors and the ends of
        the page, and their values."""
        filters = self.filters
        where, values = [], []
        if self.many_actors:
            where.append(
                "(actor_id || '') IN (SELECT actor_id FROM actor WHERE instr(folded, ?) > 0)"
            )
            values.append(str(filters.actor).casefold())
        if filters.since is not None:
            where.append(f"{order} >= ?")
            values.append(filters.since)
        ends = [
            end for end in (self.after, filters.until and ListPosition(filters.until, "")) if end
        ]
        if ends:
            # One bound: of two an engine begins at either, and walks from there to the other.
            where.append(f"({order}, project_uuid) < (?, ?)")
            values += min(ends)
        return where, values


def _read_merged(transaction: Transaction, page: _Page) -> list[Row]:
    """Return the rows of a page, merged from lists.

    Each list is one range of an index in the order of the page: an index for each pair of columns
    makes that so for every pair of filters. What would be too many lists is a condition, which no
    index is used for.
    """
    where = []
    values: list[str] = []
    lists: list[tuple[tuple[str, str], ...]] = [()]
    for column, chosen in page.criteria.items():
        if column in ("profile_id", "action"):
            where.append(f"{column} = ?")
            values += chosen
        elif len(lists) * len(chosen) <= _LISTS:
            lists = [(*one, (column, value)) for one, value in product(lists, chosen)]
        else:
            where.append(f"({column} || '') IN ({', '.join('?' * len(chosen))})")
            values += chosen
    # What is walked newest first, whatever it holds, follows the primary key.
    has_index = lists != [()] or page.criteria.keys() & {"profile_id", "action"}
    order = "ordinal" if has_index else "invocation_id"
    conditions, more = page.bound(order)
    where, values = where + conditions, values + more
    rows = []
    at_once = max(1, min(_LISTS_AT_ONCE, _VALUES_AT_ONCE // (len(values) + 4)))
    for first in range(0, len(lists), at_once):
        parts = []
        parameters: list[object] = []
        for number, one in enumerate(lists[first : first + at_once]):
            met = " AND ".join([*where, *(f"{column} = ?" for column, _ in one)]) or "1 = 1"
            parts.append(
                f"SELECT * FROM (SELECT {_COLUMNS}, digest FROM invocation WHERE {met}"
                f" ORDER BY {order} DESC, project_uuid DESC LIMIT ?) AS list_{number}"
            )
            parameters += [*values, *(value for _, value in one), page.limit]
        rows += _check_rows(transaction.run(" UNION ALL ".join(parts), parameters))
    return sorted(rows, key=lambda row: row.place, reverse=True)[: page.limit]


def _read_found(transaction: Transaction, page: _Page, match: str) -> list[Row]:
    """Return the newest rows at places whose words answer a question, as far as they meet it."""
    where, values = page.bound("invocation_id")
    for column, chosen in page.criteria.items():
        where.append(f"{column} IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(chosen))
    last = (page.after and page.after.invocation_id, page.filters.until)
    low = place_of(page.filters.since or "")
    high = min((place_of(end) for end in last if end), default=2**63 - 1)
    rows: list[Row] = []
    while len(rows) < page.limit:
        places = transaction.run(
            "SELECT rowid FROM word WHERE word MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid "
            "DESC LIMIT ?",
            (match, low, high, page.limit),
        )
        if not places:
            break
        high = places[-1][0] - 1
        prefixes = json.dumps([prefix_of(place) for (place,) in places])
        rows += _check_rows(
            transaction.run(
                f"SELECT {_COLUMNS}, digest FROM json_each(?) AS found CROSS JOIN invocation ON "
                "invocation_id BETWEEN found.value AND found.value || '~' WHERE "
                f"{' AND '.join(where)} ORDER BY invocation_id DESC, project_uuid DESC LIMIT ?",
                (prefixes, *values, page.limit - len(rows)),
            )
        )
    return rows


def _check_rows(found: Sequence[tuple[Any, ...]]) -> list[Row]:
    rows = []
    for *row, digest in found:
        rows.append(Row(*row))
        check_text(digest, repr(rows[-1]), rows[-1].invocation_id)
    return rows
