"""Which orders of records an endpoint has not settled yet; needs no network.

    for changed, invocation_id in list_folders(root, facts):
        due = list_due(root, invocation_id, facts)

An order is an annex. One that was settled is known by a fact of the outbox under its name; a folder
of annexes is read again when it was changed.
"""

import time
from collections.abc import Mapping

from specify_cli.record.event_table import ORDERS
from specify_cli.record.seal import Fields, read_fields
from specify_cli.storage.checking import list_annexed, read_annex_files

# The newest change of a folder of annexes that was read, in nanoseconds.
UNTIL = "orders until"
# The order that was acknowledged behind everything else.
LAST_ORDER = "last order"


def name_order(invocation_id: str, file: str) -> str:
    """Return the name of the fact that says how an order was settled."""
    return f"order {invocation_id}/{file}"


def list_folders(root: str, facts: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the folders of annexes that were changed since they were read, each with when,
    the oldest first; all of them where that is to come, since a clock went back."""
    until = int(facts.get(UNTIL, "0"))
    until = until if until <= time.time_ns() else 0
    changed = ((at, name) for name, at in list_annexed(root).items())
    return sorted(one for one in changed if one[0] >= until)


def list_due(root: str, invocation_id: str, facts: Mapping[str, str]) -> dict[str, Fields]:
    """Return the orders of a record that were not settled, by the names of their files."""
    due: dict[str, Fields] = {}
    for path, data in read_annex_files(root, invocation_id):
        file = path.rpartition("/")[2]
        if name_order(invocation_id, file) not in facts:
            fields = read_fields(data.removesuffix(b"\n"))
            if fields.get("event") in ORDERS:
                due[file] = fields
    return due


def count_due(root: str, facts: Mapping[str, str]) -> int:
    """Return how many orders wait; what the last push read and left, such as an order of a
    record of others, does not."""
    until = facts.get(UNTIL)
    folders = (one for changed, one in list_folders(root, facts) if str(changed) != until)
    return sum(len(list_due(root, one, facts)) for one in folders)
