"""The JSON that this room's command prints."""

from specify_cli.cli.schemas.shapes import shape_of
from specify_cli.features.report.commands import RunsReport

SHAPES = {"runs-report": shape_of(RunsReport)}
