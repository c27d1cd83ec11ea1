"""The JSON that this room's commands print."""

from specify_cli.libraries.comparison.shapes import Comparison

SHAPES = {
    "comparison": Comparison,
}
