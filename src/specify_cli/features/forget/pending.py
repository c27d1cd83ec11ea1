"""Carry out here what annexes of other clones say was erased, and make copies alike again.

plan, waiting = plan_pending(project)
"""

from __future__ import annotations

from collections.abc import Mapping

from specify_cli.features.forget.finding import (
    Plan,
    complete_plan,
    find_holds,
    list_copies,
    list_objects,
    plan_records,
)
from specify_cli.features.forget.orders import read_orders
from specify_cli.project.config import Project
from specify_cli.record.seal import Fields, erased_members
from specify_cli.record.verifying.erasures import read_rows
from specify_cli.storage.checking import differing_copies, verify_place
from specify_cli.storage.store import Place


def plan_pending(project: Project) -> tuple[Plan, list[str]]:
    """Return what annexes say was erased and is still here, of records that are not held, and the
    held ones of which that is said too."""
    copies = list_copies(project)
    chosen, holds = {}, find_holds(project, copies)
    waiting = []
    objects = set()
    here = {name for name, _ in list_objects(project)}
    for invocation_id, files in copies.items():
        orders = [o for o in read_orders([project.root], invocation_id) if o["event"] == "erased"]
        named = {str(one) for order in orders for one in _read_objects(order)}
        is_due = bool(named & here) or _is_due(project, [copy.place for copy in files])
        if not orders or not is_due:
            continue
        if invocation_id in holds:
            waiting.append(invocation_id)
            continue
        gone: dict[object, set[str]] = {}
        objects |= named
        for order in orders:
            for row in read_rows(order) or ():
                gone.setdefault(row.seq, set()).update(row.members)

        def choose(fields: Fields, gone: Mapping[object, set[str]] = gone) -> set[str]:
            members = gone.get(fields.get("seq"), set())
            return members if erased_members(fields) else members & fields.keys()

        chosen[invocation_id] = choose
    return complete_plan(project, copies, plan_records(copies, chosen), objects), waiting


def _read_objects(order: Fields) -> list[object]:
    """Return the objects that an order says went whole."""
    named = order.get("objects")
    return named if isinstance(named, list) else []


def _is_due(project: Project, places: list[Place]) -> bool:
    """Return whether lines are still whole that an annex says were erased, or copies differ."""
    codes = {"ERASURE_PENDING", "ERASURE_UNPROVEN"}
    return any(
        any(differing_copies(project.root, place))
        or any(item.code in codes for item in verify_place(project, place, ()).findings)
        for place in places
    )
