"""The JSON that this room's commands print."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape


class ForgetRow(Shape):
    """What goes of one record: how many values and objects, and the files it lies in."""

    invocation_id: str
    values: int
    objects: list[str]
    files: list[str]


class Forgotten(Shape):
    """Printed by forget and retention run; `left` names files of ours that hold it still, and
    `work_tree` files of people that do, or cannot be read, and stay as they are."""

    done: bool
    records: list[ForgetRow]
    objects: list[str]
    files: list[str]
    held: list[str]
    certificate: str | None
    left: list[str]
    work_tree: list[str]
    not_reached: list[str]


class HoldRow(Shape):
    """Printed by hold: one hold on one record, and the path of the annex that says so."""

    invocation_id: str
    hold: str
    ordered_by: str
    reason: str
    at: str
    in_force: bool


SHAPES = {
    "forgotten": Forgotten,
    "hold-row": HoldRow,
}
