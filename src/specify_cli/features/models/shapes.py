"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import derived
from specify_cli.features.models import other_model


@derived(other_model.AnswerDiff)
class AnswerDiff:
    """How two answers differ."""


@derived(other_model.AnswerCompared)
class AnswerCompared:
    """A model call and how another model answered it; `reason` says why it was not evaluated."""

    verdict: Literal["same", "differs", "not_evaluated"]


@derived(other_model.ModelReplay)
class ModelReplay:
    """Printed by replay with --ab."""


SHAPES = {
    "model-replay": ModelReplay,
}
