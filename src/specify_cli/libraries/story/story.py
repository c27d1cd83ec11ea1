"""A story as values: its chapters, who asked, which rules were shown, what changed.  [pure]

    story.done[0].title, story.changed[0].path, story.asked.request

`telling.py` makes one of a record; whoever shows it needs these values alone.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from specify_cli.libraries.story.words import Act


class StoryPart(NamedTuple):
    """A part of the story: a chapter (`prompt`, `subagent`, `step`), an `answer`, a group of deeds
    of one kind (`read`, `edit`, `run`, `test`, …) or a `note`.

    `text` is what was asked or answered, in full as far as it is kept. `outcome` is failed where
    anything in a group failed.

    `at` is RFC 3339, `duration_ms` None where an end is missing. `limits` say what of it is masked,
    cut or withheld. `seqs` are the lines that show it. `acts` are those of a group, `parts` those
    of a chapter: a part has one of them at most.
    """

    kind: str
    title: str
    text: str = ""
    outcome: str = "ok"
    at: str | None = None
    duration_ms: int | None = None
    limits: tuple[str, ...] = ()
    seqs: tuple[int, ...] = ()
    acts: tuple[Act, ...] = ()
    parts: tuple[StoryPart, ...] = ()


class StoryRequest(NamedTuple):
    """Who asked for what, and who was chosen for it and why; `missing` says why no request is
    there, where that is known, `work` which work package of which mission it is.

    All members but `missing`, `by` and `work` are None where the line does not state them. `by` is
    the id of the actor. `why` is the router's reason for `profile` and `action` in plain English.
    """

    request: str | None
    missing: str
    by: str
    model: str | None
    harness: str | None
    session: str | None
    profile: str | None
    action: str | None
    why: str
    at: str | None
    parent: str | None
    work: str


class Bearing(NamedTuple):
    """A rule that was found by what the work is about: its `because` as the record says it, the
    changed `files` it was found by, and whether by the kind of work.

    `uri` is that of the rule. A rule with neither `files` nor `by_kind` was found by words alone
    and is no `Bearing`.
    """

    uri: str
    because: tuple[str, ...]
    files: tuple[str, ...]
    by_kind: bool


class StoryContext(NamedTuple):
    """The rules that were put before the agent: their uris, those in front first; `bearing` are
    those of which the record says that a file or the kind of work brought them.

    `summary` is one line for people. `shown` were printed to the agent, `offered` are titles that
    it could open, and `kept_back` were denied or redacted by a policy, each with the rule's id.
    `judged` says that nobody judges whether they were kept, and which facts the record has; "" if
    no rule was shown.
    """

    summary: str
    shown: tuple[str, ...]
    offered: tuple[str, ...]
    kept_back: tuple[str, ...]
    bearing: tuple[Bearing, ...]
    judged: str = ""


class Changed(NamedTuple):
    """A file that changed: how, and how many lines came and went where that is known.

    `path` is below the project's root. `kind` is create, modify, delete or what else the patch
    states. `added` and `removed` are None where no patch of the file states its lines.
    """

    path: str
    kind: str
    added: int | None
    removed: int | None
    seqs: tuple[int, ...]


class Story(NamedTuple):
    """A record as a story. `outcome` is open where it is not closed; `tests` says how the work was
    tested after its last change. `left` and `judged` are sentences with the lines they cite.
    `before` says what the agent did in the same turn before the record began, where the record
    above it holds that."""

    invocation_id: str
    outcome: str
    closed_by: str | None
    ended_at: str | None
    duration_ms: int | None
    asked: StoryRequest
    told: StoryContext
    done: tuple[StoryPart, ...]
    changed: tuple[Changed, ...]
    calls: int
    failed: int
    tests: str
    left: tuple[Fact, ...]
    judged: tuple[Fact, ...]
    before: str = ""


class Fact(NamedTuple):
    """A sentence, and the lines that show it, by their numbers (`seqs`)."""

    text: str
    seqs: tuple[int, ...]
