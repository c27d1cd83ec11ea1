"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.origin.report import Origin

SHAPES: dict[str, Any] = {"origin": shape_of(Origin)}
