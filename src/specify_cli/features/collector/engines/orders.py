"""Orders of a project on a database: stored, and carried out on everything that is stored of a
record.

    verdict = apply_order(transaction, place, order, now, client)

What an erasure takes out: members of both phases, the row of the list with its words and its actor,
lines of the whole record, objects that no record of the project names any more, and digests of
what was refused.
"""

import json
import secrets
from collections.abc import Sequence

from specify_cli.features.collector.engines.database import Transaction
from specify_cli.features.collector.engines.rows import (
    AT_ONCE,
    choose_places,
    count_conflict,
    find_objects,
    read_phases,
    read_record,
    write_record,
    write_rows,
)
from specify_cli.features.collector.holdings import decode_report
from specify_cli.features.collector.orders import (
    clear_lines,
    decode_order,
    erase_event,
    erase_record,
    name_gone,
)
from specify_cli.features.collector.storage import (
    CONFLICT,
    DUPLICATE,
    ERASURE,
    HELD,
    STORED,
    ListPosition,
    Order,
    RecordPiece,
    compute_digest,
    make_conflict,
    row_of,
)
from specify_cli.libraries.wire.contract import canonical
from specify_cli.record.verifying.erasures import find_hold


def read_orders(
    transaction: Transaction, keys: Sequence[tuple[str, str]]
) -> dict[ListPosition, list[Order]]:
    """Return the orders of some invocations, each given with its project, the first one first."""
    orders: dict[ListPosition, list[Order]] = {}
    for at in range(0, len(keys), AT_ONCE):
        where, values = choose_places(keys[at : at + AT_ONCE])
        for invocation_id, project, file, body in transaction.run(
            "SELECT invocation_id, project_uuid, file, body FROM record_order"
            f" WHERE {where} ORDER BY file",
            values,
        ):
            place = ListPosition(invocation_id, project)
            orders.setdefault(place, []).append(decode_order(file, body))
    return orders


def apply_order(
    transaction: Transaction, place: ListPosition, order: Order, now: str, client: str
) -> str:
    """Keep an order and carry it out: STORED, DUPLICATE, CONFLICT, or HELD where a hold forbids
    it."""
    known = read_orders(transaction, [place]).get(place, [])
    before = {one.file: one.annex for one in known}
    if order.file in before:
        return DUPLICATE if before[order.file] == order.annex else CONFLICT
    if order.event == "erased" and find_hold([one.fields for one in known]) is not None:
        tried = make_conflict(place, ERASURE, "", compute_digest(order.annex), now, client)
        count_conflict(transaction, tried)
        return HELD
    record, _ = read_record(transaction, place)
    named = tuple(json.loads(record.body).get("objects", ())) if record else ()
    *older, order = clear_lines([*known, name_gone(order, named)])
    transaction.run(
        "INSERT INTO record_order (project_uuid, invocation_id, file, received_at, client, body)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (place.project_uuid, place.invocation_id, order.file, now, client, order.encode()),
    )
    transaction.run_many(
        "UPDATE record_order SET body = ?"
        " WHERE invocation_id = ? AND project_uuid = ? AND file = ?",
        [
            (new.encode(), *place, new.file)
            for new, old in zip(older, known, strict=True)
            if new != old
        ],
    )
    orders = sorted([*older, order], key=lambda one: one.file)
    if order.event == "erased":
        erase_phases(transaction, place, orders)
        _hide_digests(transaction, place)
    if record:
        report = decode_report(record.report)
        piece = RecordPiece(place.invocation_id, record.body, report, "", named)
        left = erase_record(piece, orders)
        write_record(transaction, place.project_uuid, left, record.received_at, record.client)
        _drop_objects(transaction, place, set(named) - set(left.objects))
    return STORED


def erase_phases(transaction: Transaction, place: ListPosition, orders: Sequence[Order]) -> None:
    """Take out of what is stored of an invocation what orders erased of it."""
    where = "invocation_id = ? AND project_uuid = ?"
    stored = read_phases(transaction, where, place).get(place, [])
    left = [one._replace(event=erase_event(one.event, orders)) for one in stored]
    if left == stored:
        return
    for one in left:
        body = canonical(one.event)
        transaction.run(
            f"UPDATE event SET body = ?, digest = ? WHERE {where} AND phase = ?",
            (body, compute_digest(body), *place, one.phase),
        )
    older, newer = ({one.phase: one for one in phases} for phases in (stored, left))
    before, row = (row_of(one.get("started"), one.get("completed")) for one in (older, newer))
    write_rows(transaction, [(row, before)])
    transaction.run(
        "DELETE FROM actor WHERE actor_id = ? AND NOT EXISTS"
        " (SELECT 1 FROM invocation WHERE invocation.actor_id = actor.actor_id)",
        (before.actor_id,),
    )


def _hide_digests(transaction: Transaction, place: ListPosition) -> None:
    """Take away the digests of what was refused, which would confirm a guess at it."""
    where = "invocation_id = ? AND project_uuid = ?"
    for phase, sent in transaction.run(
        f"SELECT phase, sent_sha256 FROM conflict WHERE {where} AND phase <> ?", (*place, ERASURE)
    ):
        transaction.run(
            f"UPDATE conflict SET held_sha256 = '', sent_sha256 = ? WHERE {where}"
            " AND phase = ? AND sent_sha256 = ?",
            (secrets.token_hex(32), *place, phase, sent),
        )


def _drop_objects(transaction: Transaction, place: ListPosition, candidates: set[str]) -> None:
    """Delete objects that no record of the project names any more."""
    if not candidates:
        return
    for (named,) in transaction.run(
        f"SELECT {transaction.OBJECTS} FROM record WHERE project_uuid = ? AND invocation_id <> ?",
        (place.project_uuid, place.invocation_id),
    ):
        candidates -= set(json.loads(named or "[]"))
    project, gone = place.project_uuid, sorted(candidates)
    stored = dict(find_objects(transaction, project, gone, "1 = 1", "body IS NULL"))
    transaction.run_many(
        "DELETE FROM object WHERE project_uuid = ? AND digest = ?",
        [(project, digest) for digest in stored],
    )
    missing = sum(map(bool, stored.values()))
    transaction.run(
        "UPDATE totals SET objects = objects - ?, missing = missing - ? WHERE project_uuid = ?",
        (len(stored) - missing, missing, project),
    )
