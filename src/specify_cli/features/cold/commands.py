"""cold status, pack and unpack: parse, call, print."""

from __future__ import annotations

import time
from collections.abc import Sequence

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError
from specify_cli.features.cold.packing import (
    Month,
    PackedMonth,
    pack_months,
    survey,
    unpack_month,
)
from specify_cli.project.config import Project
from specify_cli.room import Values


def show_status(values: Values) -> int:
    """Print the months of this project, and where each lies."""
    months = _survey(shell.read_project())
    rows = [
        {**one._asdict(), "loose": len(one.loose), "annexed": len(one.annexed)} for one in months
    ]
    write_answer(values, rows, list(map(_say_month, months)) or ["no record is here yet"])
    return 0


def pack(values: Values) -> int:
    """Move finished months into their archives."""
    project = shell.read_project()
    months = _choose(_survey(project), values)
    packed = pack_months(project, [month for month in months if month.loose or month.annexed])
    lines = [line for one in packed for line in _say_packed(one)]
    if not any(one.before for one in packed):
        lines.append("nothing was moved: no finished month has a closed record that lies loose")
    write_answer(values, [one._asdict() for one in packed], lines)
    return 0


def unpack(values: Values) -> int:
    """Lay months on disk again."""
    project, months = shell.read_project(), shell.get_texts(values, "months")
    if not months:
        raise CallerError("USAGE", "no month is named", "spec-kitty cold unpack 2026-10")
    counts = {month: unpack_month(project, month) for month in months}
    rows = [{"month": month, "records": number} for month, number in counts.items()]
    lines = (
        f"{month}: {count(number, 'record lies', 'records lie')} loose"
        for month, number in counts.items()
    )
    write_answer(values, rows, lines)
    return 0


def _survey(project: Project) -> list[Month]:
    return survey(project, read_clock(time.time_ns))


def _choose(months: Sequence[Month], values: Values) -> list[Month]:
    """Return the months that are asked for, else all that are over. Raises CallerError."""
    names = shell.get_texts(values, "months")
    over = {month.month: month for month in months if month.is_over}
    for name in names:
        if name not in over:
            raise CallerError(
                "COLD_REFUSED",
                f"{name}: expected a month that is over and has records, found "
                f"{', '.join(over) or 'none'}",
                "spec-kitty cold status",
            )
    return [over[name] for name in names] if names else list(over.values())


def _say_month(month: Month) -> str:
    parts = []
    if month.packed:
        parts.append(
            f"{count(month.packed, 'record')} in its archive, {month.packed_bytes:,} bytes"
        )
    if month.loose:
        loose = count(len(month.loose), "record")
        parts.append(f"{loose} loose, {month.loose_bytes:,} bytes without objects")
    if month.annexed:
        parts.append(f"annexes of {count(len(month.annexed), 'record')} beside it")
    return f"{month.month}  {'; '.join(parts)}{'' if month.is_over else '; not over yet'}"


def _say_packed(one: PackedMonth) -> list[str]:
    moved = f"{count(one.records, 'record')} and {count(one.objects, 'object')}"
    sizes = f"{one.before:,} bytes; its archive has {one.after:,}"
    return [
        f"{one.month}: moved {moved}, {sizes}" if one.before else f"{one.month}: moved nothing",
        *(f"  stays {one_line(why)}" for why in one.stay),
    ]
