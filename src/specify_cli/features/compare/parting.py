"""Where the stories of two runs part.  [pure]

part_stories(one, two).alike       # what both did, in the story's words
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from specify_cli.libraries.story.story import Story, StoryPart

# So many groups of a run are shown, and so many characters of a text.
_MOST, _TEXT = 2000, 4000


class Row(NamedTuple):
    """A group of a story: how deep it lies, its title and text, its deeds where it has several."""

    depth: int
    kind: str
    title: str
    text: str
    outcome: str
    deeds: tuple[str, ...]


class Parted(NamedTuple):
    """What two runs did alike from their beginning, and what each did from there."""

    alike: tuple[Row, ...]
    one: tuple[Row, ...]
    two: tuple[Row, ...]
    left_out: int


def part_stories(one: Story, two: Story) -> Parted:
    """Return where two stories part: at the first group that is not the same in both."""
    rows = [list(_list_rows(story.done)) for story in (one, two)]
    pairs = zip(*rows, strict=False)
    same = next((at for at, (left, right) in enumerate(pairs) if _key(left) != _key(right)), None)
    cut = min(map(len, rows)) if same is None else same
    left_out = max(0, cut - _MOST) + sum(max(0, len(side) - cut - _MOST) for side in rows)
    first, second = (tuple(side[cut : cut + _MOST]) for side in rows)
    return Parted(tuple(rows[0][:cut][:_MOST]), first, second, left_out)


def _list_rows(parts: Iterable[StoryPart], depth: int = 0) -> Iterator[Row]:
    for part in parts:
        inner = depth + (part.kind != "opening")
        if part.kind != "opening":
            deeds = [f"{act.what} {act.result}".strip() for act in part.acts]
            text, more = part.text[:_TEXT], "…" if len(part.text) > _TEXT else ""
            yield Row(depth, part.kind, part.title, text + more, part.outcome, tuple(deeds))
        yield from _list_rows(part.parts, inner)


def _key(row: Row) -> Row:
    """Return what of a row has to be the same; how many tokens an answer took is no difference."""
    return row._replace(title="") if row.kind in ("answer", "asked") and row.text else row
