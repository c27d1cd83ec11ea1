"""The JSON that this room's commands print."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.sessions import importer

SHAPES = {
    "sessions-imported": shape_of(importer.SessionsImported),
}
