"""The JSON that this room's command prints."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.from_spec_kitty.bringing import BroughtOver

SHAPES: dict[str, Any] = {"brought-over": shape_of(BroughtOver)}
