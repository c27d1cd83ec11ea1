"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.trail_ref.carrying import Pushed, TakenIn

SHAPES: dict[str, Any] = {"trail-pushed": shape_of(Pushed), "trail-fetched": shape_of(TakenIn)}
