"""Deliver what was ordered of records: values erased, holds, their ends (docs/sync-contract.md §7).

done = deliver_orders(to)
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from specify_cli.errors import InvocationError
from specify_cli.features.sync.sending.orders_due import (
    LAST_ORDER,
    UNTIL,
    list_due,
    list_folders,
    name_order,
)
from specify_cli.features.sync.sending.records import (
    Receiver,
    Sending,
    describe_answer,
    describe_failure,
    read_parts,
)
from specify_cli.features.sync.sending.transport import Answer, parse_answer
from specify_cli.libraries.archive.archive import Leaving
from specify_cli.libraries.wire.contract import canonical
from specify_cli.record.seal import Fields, open_line
from specify_cli.record.verifying.erasures import read_rows
from specify_cli.storage.index import Index


class OrdersDelivered(NamedTuple):
    """How many orders an endpoint took and how many it refused; of how many it cannot say yet that
    nothing is left in its tables; what ended it."""

    delivered: int = 0
    refused: int = 0
    unpurged: int = 0
    why: str | None = None


def deliver_orders(to: Receiver) -> OrdersDelivered:
    """Deliver each order that was not settled yet.

    Where lines leave, an erasure brings them as they stand now, and where objects do, the names of
    those that the record still leads to: both only where whole records are sent.
    """
    facts = to.outbox.facts()
    done, newest, leaving = OrdersDelivered(), 0, Leaving(to.project, safe=True)
    if last := facts.get(LAST_ORDER):
        # No envelope tells of a hold: an endpoint that was put back stores the order once more. One
        # that says so of whatever comes is not believed.
        one, file = last.split("/")
        for name, body in _compose(to, leaving, one, list_due(to.project.root, one, {})):
            puts = (_put(to, one, file, body)[1] for _ in range(2) if name == file)
            if [parse_answer(put).get("status") for put in puts] == ["stored", "duplicate"]:
                to.outbox.begin_anew()
                return done
    for changed, invocation_id in list_folders(to.project.root, facts):
        due = list_due(to.project.root, invocation_id, facts)
        for file, body in _compose(to, leaving, invocation_id, due):
            done = _deliver(done, to, invocation_id, file, body)
            if done.why is not None:
                return done
        newest = max(newest, changed)
    if newest and not done.unpurged:
        to.outbox.note({UNTIL: str(newest)})
    return done


def _put(to: Receiver, invocation_id: str, file: str, body: str | None) -> Answer:
    if body is None:
        return 422, b"it would quote what is withheld"
    return to.put(f"orders/{invocation_id}/{file}", body)


def _deliver(
    done: OrdersDelivered, to: Receiver, invocation_id: str, file: str, body: str | None
) -> OrdersDelivered:
    status, answer = _put(to, invocation_id, file, body)
    value = parse_answer(answer) if status == 200 else {}
    if value.get("status") in ("stored", "duplicate") and "purged" in value:
        # Until the endpoint says that nothing is left in its tables, the order is due again.
        purged = bool(value["purged"])
        if purged:
            to.outbox.note(
                {
                    name_order(invocation_id, file): "delivered",
                    LAST_ORDER: f"{invocation_id}/{file}",
                }
            )
        delivered, unpurged = done.delivered + 1, done.unpurged + (not purged)
        return done._replace(delivered=delivered, unpurged=unpurged)
    # A token that may not erase, a receiver of before orders, a hold: the rest goes on.
    if status in (403, 404, 405, 409, 413, 422):
        to.refuse(invocation_id, "order", status, describe_answer(answer))
        to.outbox.note({name_order(invocation_id, file): "refused"})
        return done._replace(refused=done.refused + 1)
    return done._replace(why=describe_failure(status, "an order", describe_answer(answer)))


def _compose(
    to: Receiver, leaving: Leaving, invocation_id: str, due: Mapping[str, Fields]
) -> Iterator[tuple[str, str | None]]:
    """Yield the request of each order; None for one that must not leave."""
    if not due:
        return
    try:
        place = Index(to.project.root).resolve(invocation_id)
    except InvocationError:
        return  # an annex of a record that is not here
    for _, sending in read_parts(leaving, [place], objects=to.objects):
        if not isinstance(sending, Sending):
            return
        value = json.loads(sending.body)
        for file, fields in due.items():
            rows = {row.seal: row.digest for row in read_rows(fields) or ()}
            left = {}
            for text in (*value["lines"].split("\n")[:-1], *value["annexes"].values()):
                line = open_line(text.removesuffix("\n").encode())
                if to.lines and line.seal in rows and rows[line.seal] == line.digest:
                    left[line.seal] = text.removesuffix("\n")
            annex = value["annexes"].get(file)
            request = {"annex": annex, "lines": left, "objects": value.get("objects")}
            yield file, None if annex is None else canonical(request)
