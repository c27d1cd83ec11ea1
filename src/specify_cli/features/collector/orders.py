"""What a project orders of a record that is stored here: erase values of it, hold it, release it.

    order = read_order(body, invocation_id, file)      # raises Refused where it does not verify
    event = erase_event(event, [order])
    piece = erase_record(piece, [order])

An order is an annex of the record (docs/format.md §13), so whoever verifies the record later finds
it there. An erasure brings the lines as they stand afterwards: each has the seal it had, and the
digest that the annex names. What was erased is removed from what is stored and from what is sent
again.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from doctrine.text import get_object
from specify_cli.features.collector.holdings import check_record, is_digests, is_text_map
from specify_cli.features.collector.reception import Refused, parse_object
from specify_cli.features.collector.storage import (
    Event,
    Order,
    RecordPiece,
    StoredRecord,
    match_lines,
)
from specify_cli.libraries.wire.contract import EXTENSION, GONE, canonical
from specify_cli.record.event_table import ORDERS
from specify_cli.record.record import ULID_PATTERN
from specify_cli.record.seal import erased_members, open_line, read_fields
from specify_cli.record.verifying.erasures import read_rows

_FILE = re.compile(rf"{ULID_PATTERN}\.jsonl")


def read_order(body: bytes, invocation_id: str, file: str) -> Order:
    """Return an order that was sent. Raises Refused where it has not its form or does not
    verify."""
    value = parse_object(body, ("annex", "lines", "objects"))
    annex, lines, objects = value["annex"], value["lines"], value["objects"]
    if (
        not _FILE.fullmatch(file)
        or not isinstance(annex, str)
        or not is_text_map(lines)
        or not (objects is None or is_digests(objects))
    ):
        detail = "expected an annex by its name, lines by their seals, and digests or null"
        raise Refused("bad-request", detail)
    order = _decode(file, value)
    if objects is not None:
        order = order._replace(objects=tuple(objects))
    problem = _find_fault(order, invocation_id)
    if problem is not None:
        raise Refused("invalid-record", f"{file}: {problem}")
    return order


def decode_order(file: str, text: str) -> Order:
    """Return the order that `encode` wrote."""
    value = json.loads(text)
    return _decode(file, value)._replace(gone=tuple(value["gone"]))


def _decode(file: str, value: Mapping[str, Any]) -> Order:
    annex = str(value["annex"])
    fields = read_fields(annex.removesuffix("\n").encode())
    return Order(file, annex, {**fields, "~": annex[-67:-3]}, value["lines"])


def _find_fault(order: Order, invocation_id: str) -> str | None:
    """Return what is wrong with an order; None where it verifies."""
    line = open_line(order.annex.removesuffix("\n").encode())
    if line.problems or line.fields is None or not order.annex.endswith("\n"):
        return "expected one whole sealed line"
    if line.digest is not None or line.fields.get("event") not in ORDERS:
        return f"expected one of {', '.join(sorted(ORDERS))}, of which nothing was erased"
    if line.fields.get("invocation_id") != invocation_id:
        return "it is about another invocation"
    if line.fields["event"] != "erased":
        return "only an erasure brings lines" if order.lines else None
    rows = read_rows(line.fields)
    if rows is None:
        return "expected what was erased"
    by_seal = {row.seal: row for row in rows}
    for seal, text in order.lines.items():
        left, row = open_line(text.encode()), by_seal.get(seal)
        if row is None or left.seal != seal or left.problems or left.digest != row.digest:
            return f"the line {seal[:16]}… is not what it says was left"
    return None


def name_gone(order: Order, objects: Sequence[str]) -> Order:
    """Return an erasure with the objects that go with it, of those that a record led to so far.

    What a record leads to later is none of them, whatever the order said was left.
    """
    if order.event != "erased" or order.objects is None:
        return order
    return order._replace(gone=tuple(sorted(set(objects) - set(order.objects))))


def list_gone(orders: Sequence[Order]) -> dict[str, frozenset[str]]:
    """Return which members of which lines were erased, by the lines' seals."""
    gone: dict[str, frozenset[str]] = {}
    for order in orders:
        for row in read_rows(order.fields) or () if order.event == "erased" else ():
            gone[row.seal] = gone.get(row.seal, frozenset()) | frozenset(row.members)
    return gone


def erase_event(event: Event, orders: Sequence[Order]) -> dict[str, object]:
    """Return an event without what orders erased of the line that it is about."""
    extension = json.loads(str(event[EXTENSION]))
    members = list_gone(orders).get(str(extension.get("seal")), frozenset())
    if not members:
        return dict(event)
    left = {key: value for key, value in extension.items() if key not in members}
    changed = {**event, EXTENSION: canonical(left)}
    data = get_object(event, "data")
    payload = {**get_object(data, "payload")}
    if "actor" in members and "actor" in payload:
        payload["actor"] = dict.fromkeys(payload["actor"]) | get_object(GONE, "actor")
    if "action" in members:
        payload |= dict.fromkeys({"action", "step_id"} & payload.keys(), GONE["action"])
    return {**changed, "data": {**data, "payload": payload}}


def clear_lines(orders: Sequence[Order]) -> list[Order]:
    """Return orders without the lines that hold what another of them erased, later or in a clone
    that did not know of the first."""
    gone = list_gone(orders)
    return [
        order._replace(
            lines={seal: text for seal, text in order.lines.items() if _is_clear(text, gone)}
        )
        for order in orders
    ]


def erase_record(
    piece: RecordPiece, orders: Sequence[Order], stored: StoredRecord | None = None
) -> RecordPiece:
    """Return a record with its lines as orders left them, and with the orders and all that is
    stored of it: its lines, which another copy may withhold, annexes and objects. Where nobody sent
    a line without all that was erased of it, it is withheld whole, and such an annex is left
    out."""
    if not orders and (not stored or stored.body == piece.body):
        return piece
    sent, gone = json.loads(piece.body), list_gone(orders)
    kept = json.loads(stored.body) if stored else sent
    left = {seal: text for order in clear_lines(orders) for seal, text in order.lines.items()}
    lines, older = (one["lines"].split("\n")[:-1] for one in (sent, kept))
    lines[: len(older)] = map(match_lines, older, lines)
    annexes = {
        file: f"{text}\n"
        for file, whole in (sent["annexes"] | kept["annexes"]).items()
        if (text := _choose(whole.removesuffix("\n"), left, gone))
    }
    value = sent | kept
    value["lines"] = "".join(f"{_choose(line, left, gone) or _withhold(line)}\n" for line in lines)
    value["annexes"] = annexes | {order.file: order.annex for order in orders}
    if "objects" in value:
        lost = {digest for order in orders for digest in order.gone}
        value["objects"] = sorted({*value["objects"], *sent.get("objects", ())} - lost)
        value["withheld"] |= sent.get("withheld", {})
    body = canonical(value)
    return piece._replace(
        body=body, report=check_record(body), objects=tuple(value.get("objects", ()))
    )


def _choose(line: str, left: Mapping[str, str], gone: Mapping[str, frozenset[str]]) -> str | None:
    """Return of two states of a line the one of which more was erased; None where neither lacks all
    that was."""
    seal = str(open_line(line.encode()).seal)
    if seal not in gone:
        return line
    states = line, left.get(seal, line)
    return max(
        (one for one in states if _is_clear(one, gone)),
        key=lambda text: len(erased_members(read_fields(text.encode()))),
        default=None,
    )


def _is_clear(text: str, gone: Mapping[str, frozenset[str]]) -> bool:
    line = open_line(text.encode())
    return gone.get(str(line.seal), frozenset()).isdisjoint(line.fields or ())


def _withhold(text: str) -> str:
    """Return what stands for a line that is withheld (docs/format.md §4)."""
    line = open_line(text.encode())
    seq = (line.fields or {}).get("seq")
    return canonical({"seq": seq, "withheld": "redaction", "~": line.seal})
