"""What a person or a rule orders of a record, as an annex: erased, held, released (docs/format.md
§13).

    order = Order("ada", "leaves the company", key="~/.ssh/id_ed25519")
    line = compose_order(place, data, {"event": "held"}, order, now, [])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from doctrine.git import find_worktree, read_blobs
from specify_cli.features.approvals.orders import NAMESPACE, make_order_statement
from specify_cli.features.witness.elsewhere import list_added
from specify_cli.invocation.ends.activity import read_moment
from specify_cli.libraries.archive.orders import place_order
from specify_cli.libraries.ssh.signatures import sign_text
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import MAX_LINE, Fields, add_seal, open_line, seal_line
from specify_cli.storage.checking import read_annex_files
from specify_cli.storage.store import Place

# The last moment (ms) that a line can state.
_LATEST = 253_402_300_799_999


class Order(NamedTuple):
    """Who orders something, why, and by which key; or the rule that does."""

    by: str
    reason: str
    key: str | None = None
    rule: str | None = None


def compose_order(
    place: Place,
    data: bytes,
    content: Fields,
    order: Order,
    now: int,
    orders: Sequence[Fields],
) -> bytes:
    """Return the annex's line for a record with these bytes; `content` holds its event.

    Its time is not before the record's newest line, and behind `orders`, those that were given of
    the record before. Where this clock (`now`, in ms) says an earlier time, because it or another
    one was wrong, `at` is the first that follows, and `clock` is what this one said.

    Raises StoredDataError RECORD_DAMAGED.
    """
    fields = place_order(place, data, content)
    times = (read_moment(one.get("at")) for one in orders)
    earliest = max(
        read_moment(fields["at"]) or 0, *(one + 1 for one in times if one is not None), 0
    )
    if now < earliest:
        fields["clock"] = rfc3339(now)
    fields |= {
        "at": rfc3339(min(max(now, earliest), _LATEST)),
        "ordered_by": order.by,
        "reason": order.reason,
        "identity": "rule" if order.rule else "ssh" if order.key else "claim",
    }
    if order.rule:
        fields["rule"] = order.rule
    elif order.key:
        fields["signature"] = sign_text(order.key, NAMESPACE, make_order_statement(fields))
    return seal_line(fields)


def read_away(project: Project) -> Mapping[str, Sequence[bytes]]:
    """Return the annexes in commits of any branch, by record, where git tracks them: an order that
    is not here now comes back with its branch."""
    top = find_worktree(project.root)
    if project.config.trail != "committed" or top is None:
        return {}
    files = [
        (invocation_id, f"{commit}:{path}")
        for invocation_id, added in list_added(project.root, "--all").items()
        for commit, path in added
        if f"/{layout.ANNEXES}/" in f"/{path}"
    ]
    lines: dict[str, list[bytes]] = {}
    contents = read_blobs(top, [name for _, name in files], MAX_LINE + 1)
    for (invocation_id, _), data in zip(files, contents, strict=True):
        lines.setdefault(invocation_id, []).append(data or b"")
    return lines


def read_orders(
    roots: Sequence[str], invocation_id: str, away: Mapping[str, Sequence[bytes]] = {}
) -> list[dict[str, object]]:
    """Return what was ordered of a record in any of these places, each with its seal, once; `away`
    are the annexes that commits brought."""
    orders = {}
    files = (data for root in roots for _, data in read_annex_files(root, invocation_id))
    for data in chain(files, away.get(invocation_id, ())):
        if b'"ordered_by":' in data:
            line = open_line(data.rstrip(b"\n"))
            if not line.problems and line.fields is not None:
                orders[line.seal] = add_seal(line.fields, line.seal)
    return list(orders.values())
