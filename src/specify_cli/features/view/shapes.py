"""The JSON that this room's commands print."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.view import page


class ViewListening(BaseModel):
    """view: the one line it prints once it listens; the address opens once."""

    model_config = ConfigDict(extra="forbid")

    url: str
    host: str
    port: int


SHAPES = {
    "page": shape_of(page.Page),
    "view-listening": ViewListening,
}
