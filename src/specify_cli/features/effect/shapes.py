"""The JSON that this room's command prints."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.effect.commands import EffectReport

SHAPES: dict[str, Any] = {"charter-effect": shape_of(EffectReport)}
