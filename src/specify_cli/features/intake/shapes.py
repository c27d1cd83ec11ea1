"""The JSON that this room's commands print."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape


class Brief(Shape):
    """Printed by intake."""

    path: str
    bytes: int
    sha256: str


SHAPES = {
    "brief": Brief,
}
