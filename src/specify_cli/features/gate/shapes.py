"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.schemas.shapes import Shape, shape_of
from specify_cli.features.gate.judging import Judged


class GateFiles(Shape):
    """The files that a command of the gate wrote, below the project."""

    files: list[str]


SHAPES: dict[str, Any] = {"gate": shape_of(Judged), "gate-files": GateFiles}
