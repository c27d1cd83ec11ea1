"""What every statement of a collector's storage on a database reads and writes: phases, rows of the
list, records, objects, conflicts.

    phases = read_phases(transaction, "invocation_id = ?", [invocation_id])
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from specify_cli.features.collector.engines.database import Transaction
from specify_cli.features.collector.engines.words import list_words, place_of, prefix_of
from specify_cli.features.collector.holdings import encode_report
from specify_cli.features.collector.storage import (
    CLOSED,
    OPEN,
    Changes,
    Conflict,
    ListPosition,
    LogConflict,
    RecordPiece,
    Row,
    StorageError,
    StoredEvent,
    StoredRecord,
    compute_digest,
)
from specify_cli.libraries.wire.contract import canonical

# So many values go into one statement.
AT_ONCE = 400
OUTCOMES = ("done", "failed", "abandoned")
_COLUMNS = ", ".join(Row._fields)
_ROW = ", ".join(f"{name} = excluded.{name}" for name in (*Row._fields, "digest", "state"))


def check_text(digest: str, text: str, invocation_id: str) -> None:
    """Raise StorageError where a row is not as it was written; rows of the first SQLite schema have
    no digest."""
    if digest and digest != compute_digest(text):
        raise StorageError(
            f"the database is damaged: what is held of {invocation_id} is not as it was written"
        )


def choose_places(keys: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    """Return the condition that a row is of one of these invocations, each given with its project,
    and the condition's values.

    The ids are asked for by themselves as well: for pairs alone SQLite walks the whole table.
    """
    ids, pairs = ", ".join("?" * len(keys)), ", ".join(["(?, ?)"] * len(keys))
    return (
        f"invocation_id IN ({ids}) AND (invocation_id, project_uuid) IN (VALUES {pairs})",
        [*(key[0] for key in keys), *(text for key in keys for text in key)],
    )


def read_phases(
    transaction: Transaction, where: str, values: Sequence[str]
) -> dict[ListPosition, list[StoredEvent]]:
    """Return the phases that meet a condition, Started first. Raises StorageError."""
    phases: dict[ListPosition, list[StoredEvent]] = {}
    for invocation_id, project, phase, received_at, body, client, digest in transaction.run(
        "SELECT invocation_id, project_uuid, phase, received_at, body, client, digest FROM event "
        f"WHERE {where} ORDER BY project_uuid, phase DESC",
        values,
    ):
        check_text(digest, body, invocation_id)
        phases.setdefault(ListPosition(invocation_id, project), []).append(
            StoredEvent(phase, received_at, json.loads(body), client)
        )
    return phases


def write_changes(transaction: Transaction, changes: Changes) -> None:
    """Write what a batch of events does: phases, rows, actors, conflicts, totals."""
    bodies = [(place, one, canonical(one.event)) for place, one, _ in changes.stored]
    transaction.run_many(
        "INSERT INTO event (invocation_id, project_uuid, phase, received_at, body, client, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (invocation_id, project_uuid, phase) DO UPDATE"
        " SET received_at = excluded.received_at, body = excluded.body, client = excluded.client,"
        " digest = excluded.digest",
        [
            (*place, one.phase, one.received_at, body, one.client, compute_digest(body))
            for place, one, body in bodies
        ],
    )
    write_rows(transaction, changes.rows)
    added: dict[str, list[int]] = {}
    for row, before in changes.rows:
        counts = added.setdefault(row.project_uuid, [0, 0, 0, 0])
        counts[0] += before is None
        counts[1] += (row.status == OPEN) - (before is not None and before.status == OPEN)
    for place, _, is_other in changes.stored:
        added[place.project_uuid][2] += is_other is None
        if is_other:
            # A whole record ended as what gave way.
            gone = transaction.run(
                "DELETE FROM record WHERE invocation_id = ? AND project_uuid = ? RETURNING 1", place
            )
            transaction.run(
                "UPDATE totals SET records = records - ?, whole = whole - ?, revision = revision"
                " + 1 WHERE project_uuid = ?",
                (len(gone), len(gone), place.project_uuid),
            )
    for one in changes.conflicts:
        added.setdefault(one.project_uuid, [0, 0, 0, 0])[3] += write_conflict(transaction, one)
    transaction.run_many(
        "UPDATE totals SET invocations = invocations + ?, open = open + ?, events = events + ?,"
        " conflicts = conflicts + ? WHERE project_uuid = ?",
        [(*counts, project) for project, counts in sorted(added.items())],
    )


def write_rows(transaction: Transaction, changed: Sequence[tuple[Row, Row | None]]) -> None:
    """Write rows of the list, each given with the one that is there and whose place it takes, and
    the names of their actors."""
    rows = [row for row, _ in changed]
    transaction.changed += changed
    marks = ", ".join("?" * (len(Row._fields) + 2))
    transaction.run_many(
        f"INSERT INTO invocation ({_COLUMNS}, digest, state) VALUES ({marks})"
        f" ON CONFLICT (invocation_id, project_uuid) DO UPDATE SET {_ROW}",
        [(*row, compute_digest(repr(row)), get_state(row)) for row in rows],
    )
    actors = sorted({row.actor_id for row in rows if row.actor_id is not None})
    transaction.run_many(
        "INSERT INTO actor VALUES (?, ?) ON CONFLICT (actor_id) DO NOTHING",
        [(name, name.casefold()) for name in actors],
    )


def write_conflict(transaction: Transaction, one: Conflict) -> bool:
    """Write a conflict down; return whether it is the first time."""
    [(times,)] = transaction.run(
        f"INSERT INTO conflict ({', '.join(Conflict._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (invocation_id, project_uuid, phase, sent_sha256) DO UPDATE SET held_sha256 = "
        "excluded.held_sha256, last_at = excluded.last_at, times = conflict.times + 1, client = "
        "excluded.client RETURNING times",
        one,
    )
    return bool(times == 1)


def count_conflict(transaction: Transaction, one: Conflict) -> None:
    """Write a conflict down, and count it where it is the first time."""
    transaction.run(
        "UPDATE totals SET conflicts = conflicts + ? WHERE project_uuid = ?",
        (int(write_conflict(transaction, one)), one.project_uuid),
    )


def get_state(row: Row) -> str:
    """Return status and outcome as one value, which one index finds."""
    return OPEN if row.status == OPEN else row.outcome if row.outcome in OUTCOMES else CLOSED


def write_words(transaction: Transaction, changed: Sequence[tuple[Row, Row | None]]) -> None:
    """Write the words of all rows of a transaction in the order of their places, which makes one
    piece; delete those that ceased to hold."""
    net: dict[ListPosition, tuple[Row, Row | None]] = {}
    for row, before in changed:
        net[row.place] = (row, net.get(row.place, (row, before))[1])
    added: dict[int, set[str]] = {}
    ceased: dict[int, set[str]] = {}
    for row, before in net.values():
        place, words = place_of(row.invocation_id), _list_row_words(row)
        older = _list_row_words(before) if before else set()
        added.setdefault(place, set()).update(words - older)
        ceased.setdefault(place, set()).update(older - words)
    for place in sorted(added):
        prefix = prefix_of(place)
        siblings = "SELECT 1 FROM invocation WHERE invocation_id BETWEEN ? AND ? LIMIT 2"
        # A row next to it may still have them.
        if ceased[place] and len(transaction.run(siblings, (prefix, f"{prefix}~"))) == 1:
            transaction.run(
                "INSERT INTO word (word, rowid, words) VALUES ('delete', ?, ?)",
                (place, " ".join(ceased[place])),
            )
        if added[place]:
            transaction.run(
                "INSERT INTO word (rowid, words) VALUES (?, ?)",
                (place, " ".join(sorted(added[place]))),
            )


def _list_row_words(row: Row) -> set[str]:
    return set(list_words({**row._asdict(), "state": get_state(row)}))


def write_record(
    transaction: Transaction, project: str, piece: RecordPiece, now: str, client: str
) -> None:
    """Write a whole record, in place of the one that is stored."""
    transaction.run(
        "INSERT INTO record (project_uuid, invocation_id, received_at, client, report, body, "
        "digest) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project_uuid, invocation_id) DO UPDATE "
        "SET received_at = excluded.received_at, report = excluded.report, body = excluded.body, "
        "digest = excluded.digest",
        (
            project,
            piece.invocation_id,
            now,
            client,
            encode_report(piece.report),
            piece.body,
            compute_digest(piece.body),
        ),
    )


def read_record(transaction: Transaction, place: ListPosition) -> tuple[StoredRecord | None, str]:
    """Return the whole record that is stored of an invocation, and the digest it was written
    with."""
    for *row, digest in transaction.run(
        f"SELECT {', '.join(StoredRecord._fields)}, digest FROM record"
        " WHERE invocation_id = ? AND project_uuid = ?",
        place,
    ):
        return StoredRecord(*row), digest
    return None, ""


def expect_objects(transaction: Transaction, project: str, digests: Sequence[str]) -> list[str]:
    """Write down which objects records of a project lead to; return those that are not stored,
    sorted."""
    known = dict(find_objects(transaction, project, digests, "1 = 1", "body IS NULL"))
    fresh = sorted(set(digests) - known.keys())
    transaction.run_many(
        "INSERT INTO object VALUES (?, ?, NULL)", [(project, digest) for digest in fresh]
    )
    if fresh:
        transaction.run(
            "UPDATE totals SET missing = missing + ? WHERE project_uuid = ?", (len(fresh), project)
        )
    return sorted([*fresh, *(digest for digest, is_missing in known.items() if is_missing)])


def find_objects(
    transaction: Transaction,
    project: str,
    digests: Sequence[str],
    where: str,
    columns: str = "body",
) -> Iterator[tuple[str, Any]]:
    """Yield the digest and what is asked of each of these objects that meets a condition."""
    for at in range(0, len(digests), AT_ONCE):
        part = digests[at : at + AT_ONCE]
        yield from transaction.run(
            f"SELECT digest, {columns} FROM object WHERE project_uuid = ? AND {where}"
            f" AND digest IN ({', '.join('?' * len(part))})",
            (project, *part),
        )


def read_leaves(transaction: Transaction, project: str, text: str, where: str = "name = ?") -> str:
    """Return the leaves of a log, or of those that meet another condition on a text."""
    rows = transaction.run(
        f"SELECT body FROM leaves WHERE project_uuid = ? AND {where} ORDER BY start",
        (project, text),
    )
    return "".join(body for (body,) in rows)


def write_log_conflict(transaction: Transaction, project: str, one: LogConflict) -> None:
    """Write down a state that contradicts a log, once, and when it came last."""
    transaction.run(
        f"INSERT INTO log_conflict (project_uuid, digest, {', '.join(LogConflict._fields)}) VALUES "
        "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project_uuid, name, client, digest) DO UPDATE "
        "SET last_at = excluded.last_at, times = log_conflict.times + 1",
        (project, compute_digest(one.sent), *one),
    )
