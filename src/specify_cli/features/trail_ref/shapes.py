"""The JSON that this room's commands print."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.trail_ref.carrying import RefFetch, RefPush

SHAPES = {"trail-pushed": shape_of(RefPush), "trail-fetched": shape_of(RefFetch)}
