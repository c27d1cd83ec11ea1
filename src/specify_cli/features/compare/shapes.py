"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.libraries.comparison.shapes import Comparison

SHAPES: dict[str, Any] = {
    "comparison": Comparison,
}
