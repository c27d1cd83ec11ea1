"""Rooms can be taken out: one by turns here, each with all tests in `make rooms` (and so in `make stress`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rooms import find_dependents
from specify_cli.cli.tables.assemble import assemble, order_rooms, read_rooms
from specify_cli.room import Feature, Fill, Form, option
from support import FULL

ROOT = Path(__file__).parents[2]
NAMES = [room.feature.name for room in read_rooms() if room.feature.name != "core"]


def choose_by_turns(names: list[str], number: int) -> list[str]:
    """Return the rooms whose turn it is: so many, from another place in the list after each commit."""
    done = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    start = number * int(done.stdout or 0) % len(names)
    return [*names, *names][start : start + number]


@pytest.mark.stress
@pytest.mark.parametrize("names", [[name] for name in NAMES] if FULL else [choose_by_turns(NAMES, 1)], ids=",".join)
def test_nothing_else_breaks_without_a_room(names: list[str]) -> None:
    size = [] if FULL else ["--names"]
    done = subprocess.run(
        [sys.executable, "tests/rooms.py", *size, *names], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_rooms_need_each_other_in_no_circle_and_bring_nothing_twice() -> None:
    rooms = read_rooms()
    one = rooms[0]._replace(feature=Feature("one", "", "", needs=("two",)))
    two = rooms[0]._replace(feature=Feature("two", "", "", needs=("one",)))

    with pytest.raises(ValueError, match="circle: one → two → one"):
        order_rooms([one, two])
    with pytest.raises(ValueError, match="needs two, which is not there"):
        order_rooms([one])
    with pytest.raises(ValueError, match="declared twice"):
        assemble([*rooms, rooms[0]])
    for brought in (
        Feature("x", "", "", forms=(Form(("invocations", "export"), ("format=otlp",), "m:f"),)),
        Feature("x", "", "", forms=(Form(("invocations", "export"), (), "", (option("output", ""),)),)),
        Feature("x", "", "", fills=(Fill("harness", "m:f", name="codex"),)),
    ):
        with pytest.raises(ValueError, match="declared twice"):
            assemble([*rooms, rooms[0]._replace(feature=brought)])
    assert find_dependents(rooms, "approvals") == [
        *("approvals", "collector", "forget", "gate", "models", "origin", "retention", "sync"),
        *("trail_ref", "witness"),
    ]
