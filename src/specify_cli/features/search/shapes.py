"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.search import database, why

SHAPES: dict[str, Any] = {
    "search-hit": shape_of(database.Hit),
    "explanation": shape_of(why.Explanation),
}
