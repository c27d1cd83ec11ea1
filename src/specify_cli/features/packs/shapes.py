"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.packs.commands import Built, PackList, PackStates, Removed, Taken

SHAPES: dict[str, Any] = {
    "pack-taken": shape_of(Taken),
    "pack-list": shape_of(PackList),
    "pack-removed": shape_of(Removed),
    "pack-states": shape_of(PackStates),
    "pack-built": shape_of(Built),
}
