"""What JSON of a comparison looks like."""

from __future__ import annotations

from typing import Annotated

from specify_cli.cli.schemas.shapes import derived, one_of
from specify_cli.libraries.comparison import compare


@derived(compare.Mismatch)
class Mismatch:
    """One difference between two runs."""

    code: Annotated[str, one_of(compare.MISMATCHES)]
    expected: str | int | bool | None
    actual: str | int | bool | None


@derived(compare.Details)
class ComparisonDetails:
    """A comparison in its parts."""


@derived(compare.Warned)
class Warned:
    """What is no mismatch and should be known."""

    code: Annotated[str, one_of(compare.WARNINGS)]


@derived(compare.Difference)
class Difference:
    """What a mismatch is of, and the lines by which its texts differ."""

    code: Annotated[str, one_of(compare.MISMATCHES)]
    seqs: list[int | None]
    diff: list[str]


@derived(compare.ReplayResult)
class Comparison:
    """Printed by invocations compare; the last three members stand where both sides are records of
    ours."""

    details: ComparisonDetails
    compared: list[str] | None = None
    not_compared: list[str] | None = None
    differences: list[Difference] | None = None
