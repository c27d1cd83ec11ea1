"""The JSON that this room's command prints."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.from_spec_kitty.bringing import BroughtOver

SHAPES = {"brought-over": shape_of(BroughtOver)}
