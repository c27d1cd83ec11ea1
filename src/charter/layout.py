"""Lay a context out by tokens: binding rules and clearly relevant ones whole, the rest by a line.

[pure]

    page = write_page(inputs, collection, selection, profile, action, config)
    page.text, page.omitted

The first tier (who acts, the charter's summary, what is forbidden, how to test, binding rules) has
`always` tokens, the whole text `budget`. Sections that a person marked as always shown are whole,
whatever they cost; `charter lint` reports the cost.

What does not fit is never dropped without a word: a rule is shown whole, in part with the command
that prints the rest, or by a line; else the footer counts it.
"""

from __future__ import annotations

import re

from charter.inputs import CHARTER_MARKDOWN, CHARTER_YAML
from charter.parse import strip_mark
from charter.retrieval import is_denied
from charter.tokens import estimate_tokens
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.packs import split_path
from doctrine.text import get_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from charter.inputs import ContextInputs
    from charter.selection import Choice, Selection
    from doctrine.agent_profiles.profile import AgentProfile
    from doctrine.artifact import Artifact

_SMALLEST_PART = 60
_RESERVE = 400
_FOOTER = 40
_ABOUT = 600_000_000
# The places of sections: what is named for the action at hand, then the rest of the charter.
_NAMED, _REST = 3, 4
_LINE = 160
# How people name a section that forbids: by a word anywhere in its name, also of other languages,
# by how the name begins, or by all of it but the file it comes from.
_FORBIDDEN = (
    *("forbid", "never", "prohib", "off-limits", "ask-first", "must-not", "not-allowed"),
    *("verbot", "interdi", "proib", "запре", "禁", "금지"),
)
_FORBIDS_FIRST = (
    *("do-not-", "don-t-", "dont-", "don-ts-", "donts-", "do-s-and-don", "dos-and-don"),
    *("what-not-to-", "things-not-to-"),
)
_BOUNDS = ("boundaries", "guardrails", "red-lines")
# A title of at most so many words says only that its section forbids: *Not allowed here*.
_PLAIN = 3
# What a rule file says of some files only, as a first charter names its section.
_OF_FILES = r"\(from .+, for .+\)"
_TESTING = {"test", "tests", "testing"}
_OF_AN_ACTION = ("review", "plan", "specif", "implement")
_PROFILE_SIZE = 160
_HEADINGS = ("## Charter", "## Rules")
_ON_DEMAND = (
    "## On demand\n\nOpen one when what it says applies: "
    "`spec-kitty charter context --uri URI`, the MCP tool `rule`, or its file."
)


class Entry(NamedTuple):
    """One artifact as it stands in a text: always, whole, part or line.

    `text` is what stands for it. A second `do` of a session leaves out the entries it printed
    before.
    """

    uri: str
    how: str
    text: str


class Page(NamedTuple):
    """The text of a context, each choice in it with its form (always, whole, part, line), and the
    omissions."""

    text: str
    shown: tuple[tuple[Choice, str], ...]
    omitted: tuple[dict[str, Any], ...]
    opening: tuple[str, ...]
    entries: tuple[Entry, ...]
    footer: str


class _Room:
    """The tokens that remain of a budget and of its first tier, the parts shown so far, and the
    omissions."""

    def __init__(self, budget: int, always: int) -> None:
        self.all, self.always = budget, min(budget, always)
        self.reserve = min(_RESERVE, budget // 3)
        self.shown: dict[str, tuple[str, str]] = {}
        self.omitted: list[dict[str, Any]] = []

    def take(self, part: str) -> None:
        spent = estimate_tokens(part) + 1
        self.all -= spent
        self.always -= spent

    def show(self, artifact: Artifact, how: str, part: str) -> None:
        self.take(part)
        self.shown[artifact.uri] = (how, part)

    def omit(self, artifact: Artifact, reason: str = "budget", chars: int | None = None) -> None:
        omission = describe_omission(artifact, reason)
        self.omitted.append(omission if chars is None else {**omission, "chars": chars})

    def clip(self, artifact: Artifact, tokens: int) -> bool:
        """Show as much of an artifact as fits; return False if that is nothing of its text."""
        part, rest = _clip(artifact, tokens)
        if rest == len(strip_mark(artifact.body)):
            return False
        self.show(artifact, "part", part)
        self.omit(artifact, chars=rest)
        return True


def write_page(
    inputs: ContextInputs,
    collection: Sequence[Artifact],
    selection: Selection,
    profile: AgentProfile | None,
    action: str,
    config: Mapping[str, Any],
) -> Page:
    """Return the text of a context within its budget, with the parts it shows and the omissions.

    `collection` holds all artifacts, and `selection` the chosen ones, best first. `config` has
    `budget` and `always`, in estimated tokens (`charter.tokens`): the first tier can fill `always`,
    and the whole text `budget`.

    `inputs` are those of the context, and `profile` and `action` are named in its opening lines.
    """
    room = _Room(config["budget"], config["always"])
    opening = [_write_opening(inputs, profile, action), describe_denied(inputs, collection)]
    for part in (*filter(None, opening), _ON_DEMAND, *_HEADINGS):
        room.take(part)
    # 1. What always binds, in the order of what must not be missed.
    testing = find_testing(one.hit.artifact for one in selection.choices if _is_charter(one))
    places = {id(one): _order(one, action, testing) for one in selection.choices if _is_first(one)}
    first = sorted(filter(_is_first, selection.choices), key=lambda one: places[id(one)])
    rest = [one for one in selection.choices if not _is_first(one)]
    for one in first:
        _place_first(one, places[id(one)][0], room)
    # 2. Everything else by a line, and whole, from the best, where the request is clearly about it.
    _place_rest(rest, room)
    for hit in selection.cut:
        room.omit(hit.artifact, "k")
    parts = room.shown
    uris = [one.hit.artifact.uri for one in (*first, *rest)]
    entries = tuple(Entry(uri, *parts[uri]) for uri in uris if uri in parts)
    explain = f"spec-kitty charter context --action {name_action(action)} --explain"
    footer = f"{len(room.omitted)} left out: `{explain}` lists them." if room.omitted else ""
    by_rank = [(one, parts[one.hit.artifact.uri][0]) for one in selection.choices
               if one.hit.artifact.uri in parts]  # fmt: skip
    bare = Page(
        "", tuple(by_rank), tuple(room.omitted), tuple(filter(None, opening)), entries, footer
    )
    return bare._replace(text=join_page(bare))


def join_page(page: Page, holders: Mapping[str, str] = {}) -> str:
    """Return the text of a page. `holders` maps the uris of entries that were printed earlier in
    the session to the record that printed them; such an entry is only named."""
    new = [entry for entry in page.entries if entry.uri not in holders]
    full = [entry for entry in new if entry.how != "line"]
    parts = list(page.opening)
    for heading, ours in zip(_HEADINGS, (True, False), strict=True):
        texts = [entry.text for entry in full if entry.uri.startswith("charter:") is ours]
        parts += _join_part(heading, texts)
    lines = [entry.text for entry in new if entry.how == "line"]
    parts += _join_part(_ON_DEMAND, ["\n".join(lines)] if lines else [])
    for record in dict.fromkeys(
        holders[entry.uri] for entry in page.entries if entry.uri in holders
    ):
        uris = [f"`{uri}`" for uri, holder in holders.items() if holder == record]
        parts.append(
            "Told before in this session and still in force: "
            f"{', '.join(uris)}; `spec-kitty invocations context {record}` prints them."
        )
    return "\n\n".join((*parts, *filter(None, (page.footer,)))) + "\n"


def _join_part(heading: str, texts: list[str]) -> list[str]:
    """Return a heading and the texts below it; nothing where there are none."""
    return [heading, *texts] if texts else []


def _is_charter(choice: Choice) -> bool:
    """Return whether a choice is a section of the charter."""
    return choice.hit.artifact.origin == "charter"


def _is_first(choice: Choice) -> bool:
    """Return whether a choice belongs to the first tier: it binds, or is of the charter."""
    return choice.always or _is_charter(choice)


def _order(choice: Choice, action: str, testing: str) -> tuple[int, int]:
    """Return the place of what binds: summary, marked, forbidden, testing, what is named for the
    action, the rest of the charter.

    Of several sections that forbid, the one whose title says least else comes first, and
    those that say more come after how to test, whose uri is `testing`. The rest goes by how much
    the request is about it; what is for another action comes last.
    """
    artifact, lexical = choice.hit.artifact, choice.hit.lexical
    other = next((name for name in _OF_AN_ACTION if artifact.id.startswith(name)), "")
    if is_summary(artifact):
        return 0, 0
    if choice.always:
        return 1, -choice.hit.score
    if artifact.uri == testing:
        return 2, _PLAIN + 1
    if _is_forbidding(artifact):
        words = len(_name_words(artifact))
        return 2, words if words <= _PLAIN else words + 1
    if other:
        return _NAMED if action.startswith(other) else _REST + 1, -lexical
    return _REST, -lexical


def _is_forbidding(section: Artifact) -> bool:
    """Return whether a section says what is not allowed, in general and not for some files only."""
    name = "-".join(_name_words(section))
    return not re.search(_OF_FILES, section.title) and (
        any(word in name for word in _FORBIDDEN)
        or f"{name}-".startswith(_FORBIDS_FIRST)
        or name.partition("-from-")[0] in _BOUNDS
    )


def _name_words(section: Artifact) -> list[str]:
    """Return the words of a section's name, without the pack it comes from."""
    return section.id.partition("@")[0].split("-")


def find_testing(sections: Iterable[Artifact]) -> str:
    """Return the uri of the section that says how to test, or nothing: the one whose title says
    least else, so *Testing* before *Testing conventions (from AGENTS.md)*.

    `sections` are in the order of the charter. Of two with as short a title the first counts.
    """
    sections = [one for one in sections if not re.search(_OF_FILES, one.title)]
    names = {one.uri: _name_words(one) for one in sections}
    tests = [uri for uri, words in names.items() if not _TESTING.isdisjoint(words)]
    return min(tests, key=lambda uri: len(names[uri]), default="")


def list_first_tier(sections: Sequence[Artifact]) -> list[Artifact]:
    """Return the sections that every context begins with.

    They come in the order they are given, not in that of a page.
    """
    testing = find_testing(sections)
    return [one for one in sections if is_summary(one) or _is_forbidding(one) or one.uri == testing]


def _place_first(choice: Choice, order: int, room: _Room) -> None:
    """Place a choice of the first tier: whole, in part, by a line, or as an omission."""
    artifact = choice.hit.artifact
    part = _render(artifact)
    about = choice.hit.lexical >= _ABOUT
    free = max(room.always if order <= _REST else 0, room.all - room.reserve if about else 0)
    if choice.always or estimate_tokens(part) + 1 <= free:
        room.show(artifact, "always", part)
        return
    # An agent with half a rule knows that there is one.
    half = (order < _NAMED or about or not room.shown) and free >= _SMALLEST_PART
    if half and room.clip(artifact, free):
        return
    line = write_line(artifact)
    if estimate_tokens(line) + 1 <= room.all - room.reserve:
        room.show(artifact, "line", line)
    else:
        room.omit(artifact)


def _place_rest(choices: Sequence[Choice], room: _Room) -> None:
    """Offer every other choice by a line, then show the best whole while there is room."""
    for one in choices:
        line = write_line(one.hit.artifact)
        if estimate_tokens(line) + 1 > room.all - _FOOTER:
            room.omit(one.hit.artifact)
            continue
        room.show(one.hit.artifact, "line", line)
    for place, one in enumerate(choices):
        artifact = one.hit.artifact
        if not one.whole or artifact.uri not in room.shown:
            continue
        part = _render(artifact)
        free = room.all - _FOOTER + estimate_tokens(room.shown[artifact.uri][1])
        fits = estimate_tokens(part) <= free
        # What bears most on the request is opened as far as it goes; the others keep their line.
        if not fits and (place or free < 2 * _SMALLEST_PART):
            continue
        room.all = free + _FOOTER
        if fits:
            room.show(artifact, "whole", part)
        elif not room.clip(artifact, free):
            room.show(artifact, *room.shown[artifact.uri])


def _render(artifact: Artifact) -> str:
    """Return an artifact whole, without the mark that it is always shown."""
    return render_artifact(artifact._replace(body=strip_mark(artifact.body)))


def write_line(artifact: Artifact) -> str:
    """Return the line that offers a rule: its title, when it applies, and how it is opened."""
    applies = artifact.applies
    when = applies.when or ", ".join((*applies.kinds, *applies.files[:2], *applies.words[:3]))
    condition = f" ({truncate(when, 80)})" if when else ""
    file = f", `{artifact.path}`" if artifact.origin != "shipped" and artifact.path else ""
    return f"- {truncate(artifact.title, _LINE)}{condition}: `{artifact.uri}`{file}"


def _clip(artifact: Artifact, room: int) -> tuple[str, int]:
    """Return as much as fits, with the command that prints the rest, and how long that is."""
    head = f"### {artifact.title}\n`{artifact.uri}`\n\n"
    body = strip_mark(artifact.body)
    tail = f"more characters are left out: `{describe_fetch(artifact.uri)}`]"
    size = room - estimate_tokens(f"{head}\n\n[{len(body)} {tail}") - 1
    end = 0
    for match in re.finditer(r"\S+\s*", body):
        size -= estimate_tokens(match.group()) + 1
        if size < 0:
            break
        end = match.end()
    line = body.rfind("\n", 0, end)
    end = line if line > end // 2 else end
    rest = len(body) - end
    return f"{head}{body[:end].rstrip()}\n\n[{rest} {tail}", rest


def _write_opening(inputs: ContextInputs, profile: AgentProfile | None, action: str) -> str:
    """Return the opening lines: the action, the profile, and what the charter is."""
    action = truncate(action, 60)
    lines = [f"# Governance context: {action}", ""]
    if profile:
        name = truncate(profile.name, 80)
        lines.append(f"You act as {name} (profile `{profile.profile_id}`); action `{action}`.")
        part = get_object(profile.document, "specialization")
        parts = (
            ("Stay out of", part.get("avoidance-boundary")),
            ("Done when", part.get("success-definition")),
        )
        lines += [*list_profile(parts, _PROFILE_SIZE), ""]
    lines.append(
        "The charter is what this project demands: it binds, and wins where a rule below disagrees."
    )
    return "\n".join([*lines, *list_unread(inputs)])


# --- pieces of a text that version 2 has, too


def describe_withheld(action: str, inputs: ContextInputs) -> str:
    """Return the notice that stands for a context where the policy cannot be read.

    `action` is the routed one. The agent must not take the silence for a project without rules.
    """
    return (
        f"# Governance context: {action}\n\nThis project has a charter and a policy on what of it "
        f"may be shown, and the policy cannot be read: {inputs.policy_error}.\n\nSo the charter "
        "and all doctrine are withheld. This does not mean that there are no rules. Do nothing "
        "that is hard to undo; ask for the policy to be mended (`spec-kitty charter lint` names "
        "file, line and repair), then ask for this context again.\n"
    )


def describe_denied(inputs: ContextInputs, collection: Sequence[Artifact]) -> str:
    """Return a notice if the policy withholds the whole charter or all doctrine.

    `collection` holds all artifacts in force. The result is empty where something can be shown.
    """
    if not inputs.policy.rules:
        return ""
    sentences = []
    for what, ours in (("the charter", True), ("the doctrine", False)):
        of_it = [artifact for artifact in collection if (artifact.origin == "charter") is ours]
        if of_it and all(is_denied(inputs.policy, artifact) for artifact in of_it):
            sentences.append(what)
    if not sentences:
        return ""
    return (
        f"The policy denies all of {' and '.join(sentences)}. This does not mean that there are "
        "no rules: ask for them."
    )


def list_unread(inputs: ContextInputs) -> list[str]:
    """Return a notice for a charter that could be read only in part."""
    lines = []
    if any(problem.path in (CHARTER_MARKDOWN, CHARTER_YAML) for problem in inputs.problems):
        lines.append(
            "One of the charter's files could not be read: rules may be missing here. Say so "
            "when you report."
        )
    if any(split_path(problem.path)[0] for problem in inputs.problems):
        lines.append(
            "A file of a pack is not used: rules may be missing here. Say so when you report."
        )
    if inputs.charter_error:
        lines.append("It is the one that says which doctrine is in force, so none is shown.")
    return lines


def list_profile(parts: Iterable[tuple[str, object]], size: int) -> list[str]:
    """Return the parts of a profile that are texts, a line each of at most `size` characters."""
    return [
        f"- {label}: {truncate(' '.join(value.split()), size)}"
        for label, value in parts
        if isinstance(value, str) and value.strip()
    ]


def render_artifact(artifact: Artifact) -> str:
    """Return an artifact whole, under its title and uri."""
    return f"### {artifact.title}\n`{artifact.uri}`\n\n{artifact.body}"


def describe_fetch(uri: str) -> str:
    """Return the command that prints one artifact whole.

    `uri` is the artifact's.
    """
    return f"spec-kitty charter context --uri {uri}"


def is_summary(artifact: Artifact) -> bool:
    """Return whether an artifact is the section an agent must not miss."""
    return artifact.id.startswith("policy-summary")


def truncate(text: str, size: int) -> str:
    """Return a text, cut to at most `size` characters.

    The last character is an ellipsis then, and counts.
    """
    return text if len(text) <= size else text[: size - 1].rstrip() + "\u2026"


def name_action(text: str) -> str:
    """Return an action as a word of a command line, or a placeholder for one.

    `text` may come from a request, so it is never printed as part of a command unless it is one
    word.
    """
    return text if text.isidentifier() and len(text) <= 40 else "ACTION"


def describe_omission(artifact: Artifact, reason: str) -> dict[str, Any]:
    """Return the omission of an artifact that is not shown, or not whole.

    `reason` is `budget` or `k`. The value is an item of `omitted` in a context's JSON.
    """
    return {
        "uri": artifact.uri,
        "title": artifact.title,
        "chars": len(artifact.body),
        "reason": reason,
    }
