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

# Lines are still whole that an annex says were erased.
_DUE = {"ERASURE_PENDING", "ERASURE_UNPROVEN"}


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
        if not orders:
            continue
        reports = [verify_place(project, copy.place, ()) for copy in files]
        named = {digest for report in reports for digest in report.erased_objects}
        codes = {item.code for report in reports for item in report.findings}
        differ = (differing_copies(project.root, copy.place) for copy in files)
        if not (named & here or codes & _DUE or any(map(any, differ))):
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
