"""What a program gives that is no JSON is kept all the same, the same way every time."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from replaying import lines_of, ran
from specify_cli.features.programs.resume import reexecute
from specify_cli.features.programs.run import Run
from specify_cli.features.programs.values import make_plain


class Model(BaseModel):
    at: datetime.date


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Model(at=datetime.date(2024, 11, 20)), {"at": "2024-11-20"}),
        (Point(1, {"b", "a"}), {"x": 1, "tags": ["a", "b"]}),
        (datetime.datetime(2024, 11, 20, 9, tzinfo=datetime.UTC), "2024-11-20T09:00:00+00:00"),
        (Path("src/a.py"), "src/a.py"),
        ([Colour.RED, Level.HIGH], ["red", 3]),
        (decimal.Decimal("1.50"), "1.50"),
        (b"\x00\xff", "AP8="),
        ({3, 1, 2}, [1, 2, 3]),
        ({1: {None: (True,)}, Colour.RED: 2}, {"1": {"null": [True]}, "red": 2}),
    ],
)
def test_a_value_that_is_no_json_is_kept(chartered: Path, value: object, kept: object) -> None:
    invocation_id = ran(chartered, lambda run: run.step("give", lambda: value))
    found = lines_of(chartered, invocation_id)

    assert json.loads(found[5]["output"]) == kept
    assert "capture_gap" not in {line["event"] for line in found}


def test_a_program_says_what_stands_for_its_own_values(chartered: Path) -> None:
    def name(value: object) -> object:
        if isinstance(value, Colour):
            return value.name
        raise TypeError

    def work(run: Run) -> Any:
        run.tool("paint", {"colour": Colour.RED, "at": Path("a")}, side_effect="none").__enter__().__exit__(
            None, None, None
        )
        return run.step("paint", lambda colour: colour, Colour.RED)

    invocation_id = ran(chartered, work, default=name)
    called, _, begun, ended = lines_of(chartered, invocation_id)[4:8]

    assert json.loads(called["args"]) == {"colour": "RED", "at": "a"}
    assert (json.loads(begun["input"])["args"], ended["output"]) == (["RED"], '"RED"')
    assert reexecute(chartered, invocation_id, work, default=name).comparison.match


def test_what_nothing_speaks_for_stays_as_it_is() -> None:
    class Mute:
        pass

    around: list[object] = []
    around.append(around)
    mute = {"a": Mute()}

    assert make_plain(mute) is mute and make_plain(around) is around
