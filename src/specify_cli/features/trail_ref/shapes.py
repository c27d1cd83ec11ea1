"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.trail_ref.carrying import RefFetch, RefPush

SHAPES: dict[str, Any] = {"trail-pushed": shape_of(RefPush), "trail-fetched": shape_of(RefFetch)}
