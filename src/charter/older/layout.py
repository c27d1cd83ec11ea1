"""Lay a context out as version 2 did, by characters: for replaying what it decided.  [pure]

    text, hits, omitted = write_page_2(inputs, collection, retrieval, profile, action, 16_000)

Not one character of what is returned here may change: a replay compares its SHA-256 with that of
the recorded context. So this module shares with `charter.layout` only pieces that both must spell
alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from charter.inputs import ContextInputs
from charter.layout import (
    describe_denied,
    describe_fetch,
    describe_omission,
    is_summary,
    list_profile,
    list_unread,
    name_action,
    render_artifact,
    truncate,
)
from charter.retrieval import Hit, Retrieval
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.artifact import Artifact
from doctrine.text import get_object

_LISTED_OMISSIONS = 8
_CHARTER_SHARE = 60
_SMALLEST_PART = 400


class _Page:
    """Parts of a text that may not grow past a number of characters."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.parts: list[str] = []

    def add(self, part: str) -> None:
        self.parts.append(part)
        self.room -= len(part) + 2

    def fits(self, part: str, room: int) -> bool:
        return len(part) + 2 <= min(room, self.room)

    def text(self) -> str:
        return "\n\n".join(part for part in self.parts if part) + "\n"


def write_page_2(
    inputs: ContextInputs,
    collection: Sequence[Artifact],
    retrieval: Retrieval,
    profile: AgentProfile | None,
    action: str,
    budget: int,
) -> tuple[str, list[Hit], list[dict[str, Any]]]:
    """Return the text of a context, the hits it shows and what had no room.

    `collection` holds all artifacts in force, and `budget` is in characters. `profile` and `action`
    are named in the opening lines.
    """
    page = _Page(budget - _reserve_footer(budget))
    page.add(_write_opening(inputs, profile, action, budget))
    denied = describe_denied(inputs, collection)
    if denied:
        page.add(denied)
    in_full, omitted = _lay_out(
        page, retrieval.hits, (budget - _reserve_footer(budget)) * _CHARTER_SHARE // 100
    )
    omitted += [describe_omission(hit.artifact, "k") for hit in retrieval.cut]
    page.parts.append(_describe_omitted(omitted, action, _reserve_footer(budget)))
    return page.text(), in_full, omitted


def _write_opening(
    inputs: ContextInputs, profile: AgentProfile | None, action: str, budget: int
) -> str:
    """Return what this is and for whom; a small budget leaves less of it, so that the charter has
    its room."""
    action, size = truncate(action, 60), min(400, budget // 40)
    lines = [f"# Governance context: {action}", ""]
    if profile:
        name = truncate(profile.name, 80)
        lines.append(
            f"You act as {name} (profile `{profile.profile_id}`); the action is `{action}`."
        )
        document = profile.document
        part = get_object(document, "specialization")
        parts = (
            ("Purpose", document.get("purpose") or profile.description),
            ("Focus", part.get("primary-focus")),
            ("Stay out of", part.get("avoidance-boundary")),
            ("Done when", part.get("success-definition")),
        )
        lines += [*list_profile(parts, size), ""]
    lines.append(
        "The charter is what this project demands: it binds, and wins where anything below it "
        "disagrees."
        " The doctrine after it is ranked by how much it bears on the action and the request."
    )
    return "\n".join([*lines, *list_unread(inputs)])


def _lay_out(
    page: _Page, hits: tuple[Hit, ...], share: int
) -> tuple[list[Hit], list[dict[str, Any]]]:
    """Fill the page. Return the hits shown, in rank order, and what had no room."""
    sections = [hit for hit in hits if hit.artifact.origin == "charter"]
    others = [hit for hit in hits if hit.artifact.origin != "charter"]
    # The summary of the policy outranks any score: it is what an agent must not miss.
    sections.sort(key=lambda hit: not is_summary(hit.artifact))
    texts = {}
    omitted = []
    headings = ["## Charter", "## Doctrine"]
    page.room -= sum(len(heading) + 2 for heading in headings)
    share = min(share, page.room) if others else page.room

    def place(hit: Hit, room: int, *, opened: bool = False) -> bool:
        part = render_artifact(hit.artifact)
        if not page.fits(part, room):
            if not opened or min(room, page.room) < _SMALLEST_PART:
                return False
            # What is too long on its own still opens: an agent with half a rule knows that there is
            # one.
            part, rest = _clip_to_room(hit.artifact, min(room, page.room))
            omitted.append({**describe_omission(hit.artifact, "budget"), "chars": rest})
        texts[hit.artifact.uri] = part
        page.room -= len(part) + 2
        return True

    waiting = []
    for hit in sections:
        before = page.room
        # The summary takes whatever room there is, the others their share of it.
        if not place(
            hit, page.room if is_summary(hit.artifact) else share, opened=is_summary(hit.artifact)
        ):
            waiting.append(hit)
        share -= before - page.room
    if waiting and place(waiting[0], share, opened=True):
        waiting.pop(0)
    for position, hit in enumerate((*others, *waiting)):
        # What bears most on the request is opened rather than left out, however long it is.
        if not place(hit, page.room, opened=position == 0 and bool(others)):
            omitted.append(describe_omission(hit.artifact, "budget"))
    in_full = [hit for hit in hits if hit.artifact.uri in texts]
    # The charter's sections in the order of a page: the policy summary first, the rest by rank.
    charter_hits = [hit for hit in in_full if hit.artifact.origin == "charter"]
    charter_hits.sort(key=lambda hit: not is_summary(hit.artifact))
    charter_texts = [texts[hit.artifact.uri] for hit in charter_hits]
    doctrine_texts = [
        texts[hit.artifact.uri] for hit in in_full if hit.artifact.origin != "charter"
    ]
    for heading, parts in zip(headings, (charter_texts, doctrine_texts), strict=True):
        if parts:
            page.parts += [heading, *parts]
    return in_full, omitted


def _describe_omitted(omitted: list[dict[str, Any]], action: str, room: int) -> str:
    """Return what is not shown, as much of the list as has room, and the command that shows it."""
    if not omitted:
        return ""
    lines = [
        "## Left out",
        "",
        "To keep this readable, the following is not shown; "
        f"`{describe_fetch(omitted[0]['uri'])}` prints it whole:",
    ]
    more = (
        f"- and {len(omitted)} more: `spec-kitty charter context --action {name_action(action)} "
        "--explain` lists them"
    )
    room -= len("\n".join(lines)) + len(more) + 3
    count = 0
    for entry in omitted[:_LISTED_OMISSIONS]:
        line = f"- `{entry['uri']}`: {truncate(entry['title'], 60)} ({entry['chars']} characters)"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
        count += 1
    if len(omitted) > count:
        lines.append(more.replace(f"and {len(omitted)} more", f"and {len(omitted) - count} more"))
    return "\n".join(lines)


def _clip_to_room(artifact: Artifact, room: int) -> tuple[str, int]:
    """Return as many whole paragraphs, lines or words as fit, with the command that prints the
    rest, and how long that rest is."""
    head = f"### {artifact.title}\n`{artifact.uri}`\n\n"
    tail = f"more characters are left out: `{describe_fetch(artifact.uri)}`]"
    size = max(0, room - len(head) - len(tail) - 14)
    body = artifact.body[:size]
    for gap in ("\n\n", "\n", " "):
        end = body.rfind(gap)
        if end > size // 2:
            body = body[:end]
            break
    rest = len(artifact.body) - len(body)
    return f"{head}{body.rstrip()}\n\n[{rest} {tail}", rest


def _reserve_footer(budget: int) -> int:
    """Return how many characters the list of omissions has."""
    return min(1_500, budget // 8)
