"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.capsule import filling

SHAPES: dict[str, Any] = {
    "capsule": shape_of(filling.Capsule),
}
