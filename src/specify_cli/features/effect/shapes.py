"""The JSON that this room's command prints."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.effect.commands import EffectReport

SHAPES = {"charter-effect": shape_of(EffectReport)}
