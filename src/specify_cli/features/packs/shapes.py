"""The JSON that this room's commands print."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.packs.commands import Built, PackChange, PackList, PackStates, Removed

SHAPES = {
    "pack-taken": shape_of(PackChange),
    "pack-list": shape_of(PackList),
    "pack-removed": shape_of(Removed),
    "pack-states": shape_of(PackStates),
    "pack-built": shape_of(Built),
}
