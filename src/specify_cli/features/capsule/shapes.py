"""The JSON that this room's commands print."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.capsule import filling

SHAPES = {
    "capsule": shape_of(filling.Capsule),
}
