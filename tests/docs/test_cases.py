"""tests/cases.md: every test it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = (ROOT / "tests/cases.md").read_text(encoding="utf-8")


def test_every_named_test_is_defined() -> None:
    defined = set()
    for path in (*(ROOT / "tests").rglob("test_*.py"), ROOT / "tests/store_contract.py"):
        defined |= set(re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.M))
    named = set(re.findall(r"`(test_\w+)`", CASES))

    assert len(named) > 80
    assert named - defined == set()


def test_every_case_is_in_one_row_with_a_test_or_a_reason() -> None:
    rows = [line for line in CASES.split("\n") if line.startswith("| ") and not line.startswith(("| case", "|---"))]
    names = [name for row in rows for name in row.split(" | ")[0].strip("| ").split(", ")]

    assert len(names) == len(set(names))
    for row in rows:
        cell = row.split(" | ", 1)[1]
        assert "`" in cell or cell.startswith("- ") or "docs/" in cell, row
