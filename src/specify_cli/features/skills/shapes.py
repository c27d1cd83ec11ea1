"""The JSON that this room's commands print."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape, shape_of
from specify_cli.features.skills import skills


class SkillState(Shape):
    """A file of ours in a project."""

    path: str
    state: skills.State


SHAPES = {
    "skills-installed": shape_of(skills.SkillsInstalled),
}
