"""retention status, plan, run and report: parse, call, print."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from itertools import chain
from typing import Any

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_note,
)
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, say_failure
from specify_cli.features.forget import erasing
from specify_cli.features.forget.commands import show_and_erase
from specify_cli.features.forget.finding import (
    find_holds,
    find_orders,
    list_archives,
    list_notes,
    list_objects,
)
from specify_cli.features.retention.checks import name_order
from specify_cli.features.retention.due import (
    Row,
    Survey,
    list_apart,
    measure,
    measure_copy,
    measure_objects,
    plan_rule,
    survey,
)
from specify_cli.features.retention.duty import ProjectFacts, judge_duties
from specify_cli.features.retention.rules import require_agreement
from specify_cli.features.witness.levels import verify_trail
from specify_cli.project.config import Project
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.room import Values

_LINES_SHOWN = 12


def show_status(values: Values) -> int:
    """Print how much is stored, how old it is, and what each rule would free."""
    project = shell.read_project()
    overview = _survey(project, values)
    objects = {name for name, _ in list_objects(project)}
    objects.update(*(archive.list_keys("object") for archive in list_archives(project)))
    dates = sorted(map(millis_of, overview.copies))
    copies, rules = chain.from_iterable(overview.copies.values()), []
    for rule in overview.rules:
        alone = plan_rule(project, overview, rule.name)
        rules.append(
            {
                **rule._asdict(),
                "records": len(alone.records),
                "values": sum(one.values for one in alone.records),
                "bytes": measure(project, alone),
            }
        )
    value: dict[str, Any] = {
        "records": len(overview.copies),
        "open": len(overview.copies) - len(overview.facts),
        "held": len(find_holds(project, overview.copies)),
        "record_bytes": sum(map(measure_copy, list_apart(copies))),
        "objects": len(objects),
        "object_bytes": measure_objects(project, objects),
        "beside_bytes": sum(map(os.path.getsize, list_notes(project))),
        "oldest": rfc3339(dates[0]) if dates else None,
        "newest": rfc3339(dates[-1]) if dates else None,
        "contradictions": list(overview.contradictions),
        "due": len(overview.plan.records),
        "bytes": measure(project, overview.plan),
        "rules": rules,
    }
    lines = [
        f"{count(len(overview.copies), 'record')}, {value['record_bytes']:,} bytes, "
        f"{value['open']} open, {value['held']} held; {count(len(objects), 'object')}, "
        f"{value['object_bytes']:,} bytes",
        *([f"from {value['oldest']} to {value['newest']}"] if dates else []),
        *(_say_rule(rule) for rule in rules),
        *(f"contradiction: {what}" for what in overview.contradictions),
    ]
    if value["beside_bytes"]:
        lines.append(
            f"{value['beside_bytes']:,} bytes of sessions' prompts and events, of which no rule "
            "erases anything"
        )
    if not overview.rules:
        lines.append("no rule: retention in .kittify/config.yaml, then spec-kitty config accept")
    write_answer(values, value, lines)
    return 0


def _survey(
    project: Project, values: Values, only: Mapping[str, list[str]] | None = None
) -> Survey:
    return survey(project, read_clock(time.time_ns), idle=bool(values["idle"]), only=only)


def _say_rule(rule: Mapping[str, Any]) -> str:
    about = [f"{key} {rule[key]}" for key in ("outcome", "profile", "proof") if rule[key]]
    kinds = ", ".join(rule["keep"])
    of = f" ({', '.join(about)})" if about else ""
    if rule["at_most"] is None:
        return one_line(f"{rule['name']}: {kinds} at least {rule['at_least']} days{of}")
    return one_line(
        f"{rule['name']}: {kinds} at most {rule['at_most']} days{of}: "
        f"{count(rule['values'], 'value')} of {count(rule['records'], 'record')} due, "
        f"{rule['bytes']:,} bytes"
    )


def show_plan(values: Values) -> int:
    """Print what is due, by which rule."""
    project = shell.read_project()
    overview = _survey(project, values)
    value: dict[str, Any] = {
        "rules": [rule.name for rule in overview.rules],
        "contradictions": list(overview.contradictions),
        "records": len(overview.copies),
        "due": [_row_as_value(row) for row in overview.rows],
        "objects": len(overview.plan.objects),
        "bytes": measure(project, overview.plan),
    }
    lines = [
        *(f"contradiction: {what}" for what in overview.contradictions),
        *chain.from_iterable(map(_say_row, overview.rows)),
        f"{len(overview.rows)} of {count(len(overview.copies), 'record')} due; "
        f"with them {count(len(overview.plan.objects), 'object')}, "
        f"{value['bytes']:,} bytes in all",
    ]
    write_answer(values, value, lines)
    return 1 if overview.contradictions else 0


def _row_as_value(row: Row) -> dict[str, object]:
    return {
        "invocation_id": row.invocation_id,
        "started_at": rfc3339(row.begun),
        "due": dict(row.due),
        "lines": {str(seq): dict(row.members[seq]) for seq in sorted(row.members)},
        "values": row.values,
        "bytes": row.bytes,
        "held": row.is_held,
    }


def _say_row(row: Row) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for part, rule in row.due.items():
        kinds.setdefault(rule, []).append(part)
    why = "; ".join(f"{rule}: {', '.join(parts)}" for rule, parts in kinds.items())
    hold = ", held: nothing of it goes" if row.is_held else ""
    lines = [f"by {why}"]
    rows = sorted(row.members.items())[:_LINES_SHOWN]
    lines += [f"line {seq}: {', '.join(sorted(members))}" for seq, members in rows]
    if len(row.members) > len(rows):
        lines.append(f"and {len(row.members) - len(rows)} more lines: --json")
    said = f"{row.invocation_id}: {count(row.values, 'value')}, {row.bytes:,} bytes{hold}"
    return [said, *(f"  {one_line(line)}" for line in lines)]


def run(values: Values) -> int:
    """Erase what is due; nothing where rules contradict each other, nothing of records under a
    hold."""
    project = shell.load_writable()
    erasing.resume(project)
    path = shell.get_text(values, "plan")
    only = None if path is None else _read_plan(path)
    overview = _survey(project, values, only)
    require_agreement(overview.rules)
    stay = sorted((only or {}).keys() - {one.invocation_id for one in overview.plan.records})
    if stay:
        write_note(f"named by the plan, and held, erased, not due or not here: {', '.join(stay)}")
    return show_and_erase(project, overview.plan, values, name_order(overview))


def _read_plan(path: str) -> dict[str, list[str]]:
    """Return the kinds of content that a plan named, by record. Raises CallerError PLAN_INVALID."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        return {str(row["invocation_id"]): list(map(str, row["due"])) for row in value["due"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CallerError(
            "PLAN_INVALID",
            f"--plan {path}: expected what retention plan --json prints, found: "
            f"{say_failure(error)}",
            "spec-kitty retention plan --json > plan.json",
        ) from error


def report(values: Values) -> int:
    """Print each duty, whether it is met, and the facts that say so."""
    duties = judge_duties(_gather(shell.read_project()))
    lines = []
    for duty in duties:
        lines += [f"{duty.state.upper()}  {duty.asks}", f"  {duty.source}"]
        lines += [*(f"  - {one_line(fact)}" for fact in duty.facts), ""]
    lines.append("Facts from this clone's records and config; no legal advice.")
    write_answer(values, [duty._asdict() for duty in duties], lines)
    return 0


def _gather(project: Project) -> ProjectFacts:
    overview = survey(project, read_clock(time.time_ns), idle=True)
    judged = verify_trail(project)
    dates = sorted(map(millis_of, overview.copies))
    holds = [
        f"{one} is held by {hold.get('ordered_by')}: {hold.get('reason')}"
        for one, hold in find_holds(project, overview.copies).items()
    ]
    orders = chain.from_iterable(find_orders(project, overview.copies).values())
    # What a rule erased nobody asked for, nor what left another clone encrypted.
    erased = sum(one["event"] == "erased" and one.get("identity") != "rule" for one in orders)
    pending = sum(item.code == "ERASURE_PENDING" for item in judged.findings)
    return ProjectFacts(
        overview.rules,
        overview.contradictions,
        project.config.capture,
        len(overview.copies),
        len(overview.copies) - len(overview.facts),
        rfc3339(dates[0]) if dates else None,
        rfc3339(dates[-1]) if dates else None,
        judged.verdict,
        judged.level,
        judged.not_proven,
        erased,
        len(erasing.list_journals(project)) + pending,
        holds,
        [item.file for item in judged.findings if item.code == "HELD_ERASED"],
        project.config.is_sealed,
    )
