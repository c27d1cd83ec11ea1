"""The table of what was played on the real programs is that of the figures beside it."""

from __future__ import annotations

import json
from pathlib import Path

from harness.play import BEGIN, END, PAGE, PLAYED, render_table
from harness.programs import PROGRAMS

DOCS = Path(__file__).parents[2] / "docs"
TOLD = json.loads((DOCS / "harnesses.json").read_text(encoding="utf-8"))["programs"]


def test_the_table_is_made_of_the_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page.partition(BEGIN)[2].partition(END)[0].strip() == render_table(TOLD)


def test_every_program_was_played_at_the_version_that_is_pinned() -> None:
    assert {name: row["version"] for name, row in TOLD.items()} == {p.name: p.version for p in PROGRAMS.values()}
    assert {tuple(row["plays"]) for row in TOLD.values()} == {PLAYED}


def test_what_does_not_hold_of_a_program_is_what_it_does_not_tell() -> None:
    wrong = [
        (name, play, problem)
        for name, row in TOLD.items()
        for play, done in row["plays"].items()
        for problem in done.get("problems", ())
        if problem not in PROGRAMS[name].known
    ]

    assert wrong == []
