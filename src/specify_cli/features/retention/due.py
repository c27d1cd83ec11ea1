"""What of the project's records is due by its rules, and what erasing it would free.

found = survey(project, now)
found.rows                          # one for each record of which something is due
measure(found.plan)                 # bytes that erasing all of it frees
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import NamedTuple

from specify_cli.errors import CallerError
from specify_cli.features.forget.finding import (
    Copy,
    Plan,
    RecordPlan,
    complete_plan,
    find_holds,
    list_archives,
    list_copies,
    list_roots,
    plan_records,
    read_annexes,
    read_copy,
)
from specify_cli.features.retention.rules import (
    Facts,
    Rule,
    choose_due,
    find_contradictions,
    find_due,
    read_rules,
)
from specify_cli.features.witness.levels import watch_trail
from specify_cli.libraries.work.records import verify_shared
from specify_cli.libraries.work.sharing import HERE
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.record.record import fold, split_lines
from specify_cli.record.seal import Fields, erase_members, open_line, read_fields
from specify_cli.storage.cold import ENDING

# How far before or past the newest record a clock is believed, and so long ago a record has to have
# begun to vouch for it, in milliseconds.
_SKEW, _IDLE, _RECENT = 600_000, 90 * 24 * 3600 * 1000, 7 * 24 * 3600 * 1000


class Row(NamedTuple):
    """What of one record is due: kinds of content and members by line, each with the rule."""

    invocation_id: str
    begun: int
    due: Mapping[str, str]
    members: Mapping[int, Mapping[str, str]]
    values: int
    bytes: int
    is_held: bool


class Survey(NamedTuple):
    """The rules in force, where they contradict each other, every record with its facts, and what
    is due. `plan` is about records that nothing holds."""

    rules: tuple[Rule, ...]
    contradictions: tuple[str, ...]
    copies: Mapping[str, list[Copy]]
    facts: Mapping[str, Facts]
    rows: tuple[Row, ...]
    plan: Plan


def survey(
    project: Project,
    now: int,
    *,
    idle: bool = False,
    only: Mapping[str, Iterable[str]] | None = None,
) -> Survey:
    """Return what is due at a time, in milliseconds since 1970.

    `only` narrows it to what a plan named: kinds of content by record. Raises CallerError
    CONFIG_INVALID, CLOCK_DOUBTED.
    """
    rules = read_rules(project.config.retention)
    copies = list_copies(project)
    if rules:
        refuse_doubtful_clock(copies, now, idle=idle)
    facts = _read_facts(project, copies, rules)
    due = {}
    for one, about in facts.items():
        parts = find_due(rules, about, now)
        if only is not None:
            parts = {part: name for part, name in parts.items() if part in only.get(one, ())}
        if parts:
            due[one] = parts
    on_hold = set(find_holds(project, due))
    records = _plan(copies, due)
    free = [one for one in records if one.invocation_id not in on_hold]
    plan = complete_plan(project, copies, free)
    # An object that something else names stays, and so do those of records under a hold.
    whole = {one.invocation_id: one for one in plan.records}
    rows = tuple(
        _describe(whole.get(one.invocation_id, one), facts, due, on_hold) for one in records
    )
    return Survey(rules, tuple(find_contradictions(rules)), copies, facts, rows, plan)


def plan_rule(project: Project, overview: Survey, rule: str) -> Plan:
    """Return what would be erased by one rule alone, of what was found to be due."""
    due = {
        row.invocation_id: parts
        for row in overview.rows
        if not row.is_held
        and (parts := {part: name for part, name in row.due.items() if name == rule})
    }
    return complete_plan(project, overview.copies, _plan(overview.copies, due))


def _plan(
    copies: Mapping[str, list[Copy]], due: Mapping[str, Mapping[str, str]]
) -> list[RecordPlan]:
    def choose(fields: Fields, one: str) -> set[str]:
        return set(choose_due(fields, due[one]))

    return plan_records(copies, {one: partial(choose, one=one) for one in due})


def refuse_doubtful_clock(copies: Mapping[str, list[Copy]], now: int, *, idle: bool) -> None:
    """Refuse to believe a clock that is far from the newest record. Raises CLOCK_DOUBTED.

    Nothing but the records themselves says whether the clock is right, so one that is far past the
    newest of them, or before it, is doubted, unless a person says with `idle` that it is right: the
    project was idle, or another clock was ahead. What began in the last days has its time from this
    clock, and cannot vouch for it while there is an older record.
    """
    times = map(millis_of, copies)
    newest = max((one for one in times if not now - _RECENT <= one <= now + _SKEW), default=now)
    if not newest - _SKEW <= now <= newest + _IDLE and not idle:
        raise CallerError(
            "CLOCK_DOUBTED",
            f"this clock says {rfc3339(now)}, and the newest record to compare it with is of "
            f"{rfc3339(newest)}",
            "set the clock; where it is right, status and plan take --idle, as does: spec-kitty "
            "retention run --idle",
        )


def _read_facts(
    project: Project, copies: Mapping[str, list[Copy]], rules: Iterable[Rule]
) -> dict[str, Facts]:
    """Return what rules ask of each closed record."""
    ranks = {}
    if any(rule.proof for rule in rules):
        watch = watch_trail(project)
        ranks = watch.rank_records(copies, watch.judge(verify_shared(project, HERE)))
    facts = {}
    for one, files in copies.items():
        record = fold(read_copy(files[0]))
        if record and record.completed is not None and record.sealed:
            outcome, profile = str(record.completed.get("outcome")), files[0].place.profile_id
            facts[one] = Facts(profile, outcome, millis_of(one), ranks.get(one, "none"))
    return facts


def _describe(
    plan: RecordPlan,
    facts: Mapping[str, Facts],
    due: Mapping[str, Mapping[str, str]],
    on_hold: set[str],
) -> Row:
    one = plan.invocation_id
    names = {
        seq: dict.fromkeys(members, " ".join(sorted(set(due[one].values()))))
        for seq, members in plan.lines.values()
    }
    for _, raw in split_lines(read_copy(plan.copies[0])):
        fields = read_fields(raw)
        if fields.get("seq") in names:
            names[int(str(fields["seq"]))] |= choose_due(fields, due[one])
    freed = _measure_lines(plan)
    return Row(one, facts[one].begun, due[one], names, plan.values, freed, one in on_hold)


def list_apart(copies: Iterable[Copy]) -> list[Copy]:
    """Return files without second names of one that is among them."""
    apart: dict[object, Copy] = {}
    for copy in copies:
        path = f"{copy.root}/{copy.place.path}"
        if not os.path.lexists(path):  # it lies in an archive, which can have a second name itself
            path = f"{copy.root}/{layout.cold_folder(copy.place.invocation_id)}{ENDING}"
        state = os.stat(path)
        apart.setdefault((state.st_dev, state.st_ino, copy.place.name), copy)
    return list(apart.values())


def measure_copy(copy: Copy) -> int:
    """Return how many bytes a record's file has, also one in an archive of a month."""
    path = f"{copy.root}/{copy.place.path}"
    return os.path.getsize(path) if os.path.lexists(path) else len(read_copy(copy))


def _measure_lines(plan: RecordPlan) -> int:
    """Return how many bytes shorter the files of a record become; second names count once."""
    files = {**{copy: read_copy(copy) for copy in plan.copies}, **read_annexes(plan.copies)}
    freed = 0
    for _, raw in chain.from_iterable(split_lines(files[copy]) for copy in list_apart(files)):
        line = open_line(raw)
        _, members = plan.lines.get(str(line.seal), (0, ()))
        if members and line.fields is not None and line.seal is not None:
            left = erase_members(line.fields, line.seal, set(members), "0" * 32)
            freed += len(raw) + 1 - len(left)
    return freed


def measure(project: Project, plan: Plan) -> int:
    """Return how many bytes an erasure frees: of lines, and of objects that nothing needs then."""
    return sum(map(_measure_lines, plan.records)) + measure_objects(project, plan.objects)


def measure_objects(project: Project, objects: Iterable[str]) -> int:
    """Return how many bytes some objects have, wherever they lie; second names count once, and one
    in an archive as it was."""
    roots = list_roots(project)
    archives = {}
    for archive in list_archives(project):
        state = os.stat(archive.path)
        archives[state.st_dev, state.st_ino] = archive
    size = 0
    for digest in objects:
        places = [layout.object_path(digest, at) for at in (layout.OBJECTS, layout.LOCAL_OBJECTS)]
        paths = (f"{root}/{place}" for root in roots for place in places)
        states = [os.stat(path) for path in paths if os.path.lexists(path)]
        size += sum({(one.st_dev, one.st_ino): one.st_size for one in states}.values())
        size += sum(archive.measure(digest) or 0 for archive in archives.values())
    return size
