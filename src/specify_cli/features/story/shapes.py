"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import Shape, derived, shape_of
from specify_cli.libraries.story import story, words


class StoryPart(Shape):
    """A chapter, an answer, a group of deeds or a note."""

    kind: str
    title: str
    text: str
    outcome: Literal["ok", "failed", "denied", "open", "unknown"]
    at: str | None
    duration_ms: int | None
    limits: list[str]
    seqs: list[int]
    acts: list[shape_of(words.Act)]  # type: ignore[valid-type]
    parts: list[StoryPart]


@derived(story.Story)
class Story:
    """Printed by invocations show --story."""

    done: list[StoryPart]


SHAPES = {"story": Story}
