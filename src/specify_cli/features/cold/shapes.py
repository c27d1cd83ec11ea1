"""The JSON that this room's commands print."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape


class ColdMonth(Shape):
    """One month in `cold status`."""

    month: str
    loose: int
    annexed: int
    loose_bytes: int
    packed: int
    packed_bytes: int
    is_over: bool


class ColdPacked(Shape):
    """What `cold pack` did with one month."""

    month: str
    records: int
    objects: int
    stay: list[str]
    before: int
    after: int


class ColdUnpacked(Shape):
    """A month that `cold unpack` laid on disk."""

    month: str
    records: int


SHAPES = {
    "cold-month": ColdMonth,
    "cold-packed": ColdPacked,
    "cold-unpacked": ColdUnpacked,
}
