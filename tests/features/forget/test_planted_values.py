"""Values of many forms are planted in every place that can hold a text; once they are forgotten no byte holds one."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from planting import make_values, spell_values, write_record
from specify_cli.features.cold.packing import pack_months, survey
from specify_cli.features.forget import erasing, finding
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.record import layout
from support import FULL, Cli, accept, git
from trails import codes, load, make_repository, verify

# `make stress` plants 2,000.
VALUES = 2_000 if FULL else 40
# In the middle of September 2026, in nanoseconds; the month is over.
SEPTEMBER = 1_789_430_400_000_000_000


def list_holding(root: Path, values: list[str]) -> set[str]:
    """Return the files below a project that hold one of the values, plain or as JSON spells it."""
    needles, found = spell_values(values), set()
    for path in root.rglob("*"):
        if path.is_file() and "/.git/objects/" not in str(path):
            data = path.read_bytes()
            if any(needle in data for needle in needles):
                found.add(str(path.relative_to(root)))
    return found


@pytest.mark.stress
@pytest.mark.parametrize("trail", ["private", "committed"])
def test_no_planted_value_is_left_in_any_byte(cli: Cli, home: Path, tmp_path: Path, trail: str) -> None:
    dice = random.Random(f"planted in a {trail} trail")
    values = make_values(dice, VALUES)
    root = make_repository(tmp_path / "p")
    (root / ".kittify/config.yaml").write_text(
        f"trail: {trail}\naudit:\n  capture_tool_io: full\n  capture_llm_io: full\n", encoding="utf-8"
    )
    accept(root)
    groups = [values[at : at + 20] for at in range(0, len(values), 20)]
    for number, group in enumerate(groups):
        old = SEPTEMBER + number * 60_000_000_000
        write_record(root, home, group, old if number % 2 else time.time_ns(), dice)
    for name, value in ((layout.ORPHANS, values[0]), (layout.HOOK_FAILURES, values[1])):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps({"what": value}) + "\n", encoding="utf-8")
    assert cli("intake", "--help").code == 0
    assert cli("invocations", "search", "plan", cwd=root).code == 0
    if trail == "private":
        project = load(root)
        pack_months(project, [month for month in survey(project, time.time_ns() // 1_000_000) if month.is_over])
    planted = list_holding(root, values)
    project = load(root)

    plan = finding.make_plan(project, Query(texts=tuple(values)))
    order = Order("ada", "asked for it")
    erasing.erase(project, plan, order, time.time_ns() // 1_000_000)
    report = verify(root)

    assert len(planted) > len(groups) // 2
    assert list_holding(root, values) == set()
    assert (report.verdict, codes(report)) == ("intact", set())
    assert len(plan.records) == len(groups)
    assert git(root, "status", "--porcelain", "--", "a.txt") == ""
