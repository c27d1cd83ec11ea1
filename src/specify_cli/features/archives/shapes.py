"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import Shape, derived, shape_of
from specify_cli.features.archives import many as archives
from specify_cli.libraries.archive import archive, unpacking


class WithheldLine(Shape):
    """A line a safe export left out, or with `file` an annex."""

    seq: int
    event: str
    why: Literal["redaction", "captured-in-full", "recovered", "closing-line-withheld"]
    rules: dict[str, int]
    file: str | None


class ExportedRecord(Shape):
    """A record in an export."""

    invocation_id: str
    file: str
    lines: int
    tip: str | None
    status: Literal["open", "closed"]
    withheld: list[WithheldLine]


class WithheldObject(Shape):
    """An object an export left out."""

    digest: str
    why: str


@derived(archive.Exported)
class Exported:
    """Printed by invocations export."""

    records: list[ExportedRecord]
    withheld_objects: list[WithheldObject]


@derived(unpacking.Imported)
class Imported:
    """Printed by invocations import."""


SHAPES = {
    "archived": shape_of(archives.Archived),
    "exported": Exported,
    "imported": Imported,
}
