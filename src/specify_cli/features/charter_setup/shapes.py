"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import Shape, derived, shape_of
from specify_cli.features.charter_setup import synthesize
from specify_cli.features.charter_setup.linting.findings import LintReport
from specify_cli.features.charter_setup.undo import Foreseen, Undone
from specify_cli.features.hooks.shapes import HooksChange, HooksRefusal
from specify_cli.features.skills.shapes import SkillState


@derived(synthesize.Answers)
class InterviewAnswers:
    """What a charter was synthesized from."""


class SynthesizedFile(Shape):
    """One planned file; `diff` is there where another one is in its place."""

    path: str
    state: Literal["new", "unchanged", "different", "kept", "left_out"]
    written: bool
    content: str
    diff: str | None


class CharterSynthesis(Shape):
    """Printed by charter synthesize."""

    dry_run: bool
    answers: InterviewAnswers
    files: list[SynthesizedFile]
    notes: list[str]


class SetUp(Shape):
    """Printed by setup."""

    root: str
    trail: Literal["private", "committed", "ref", "sealed"]
    config_created: bool
    charter: list[str]
    hooks: list[HooksChange]
    refused: list[HooksRefusal]
    skills: list[SkillState]


SHAPES = {
    "charter-synthesis": CharterSynthesis,
    "charter-lint": shape_of(LintReport),
    "set-up": SetUp,
    "set-up-foreseen": shape_of(Foreseen),
    "set-up-undone": shape_of(Undone),
}
