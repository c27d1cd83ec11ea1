"""A story in a few words, and the lines of a record as they come.  [pure]

    summarize_story(story).done    # "12 calls, 1 failed or denied: read 4 files; edited src/a.py"
    for line in tell_lines(pair_calls(lines, {})):
        print(line.seq, line.text)

The gate's comment shows the summary, `invocations tail` the lines; both use the story's words.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import count, say
from specify_cli.libraries.story.naming import describe_session, join_acts
from specify_cli.libraries.story.story import Story, StoryPart
from specify_cli.libraries.story.telling import Telling, tell_asked, tell_story
from specify_cli.libraries.story.words import Act, cut
from specify_cli.record.reading.evidence import describe_outcome
from specify_cli.record.reading.timeline import Entry, make_timeline, moment_of
from specify_cli.record.reading.views import get_seq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Line = Mapping[str, object]

_DEEDS, _FACTS, _SENTENCE, _SAID = 12, 4, 120, 300


class Summary(NamedTuple):
    """A run in a few words: what was done, the agent's last answer, what is left, how it was
    judged."""

    done: str
    said: str
    left: tuple[str, ...]
    judged: tuple[str, ...]


class ToldLine(NamedTuple):
    """A line of a record as its story calls it; `text` is what was asked or answered.

    `seq` is -1 for a line without a number. A result has the duration of its call. `agent` is the
    subagent that the line is of, None for the main one.
    """

    seq: int
    at: str | None
    title: str
    text: str
    outcome: str
    duration_ms: int | None
    limits: tuple[str, ...]
    agent: str | None


def summarize_story(story: Story) -> Summary:
    """Return a story in a few words; acts of one deed are counted together, wherever they stand.

    It names at most twelve deeds of 120 characters, 300 characters of the answer, and four facts
    of each kind; further facts are counted.
    """
    parts = list(_walk(story.done))
    deeds: dict[str, list[Act]] = {}
    for part in parts:
        for act in part.acts:
            deeds.setdefault(act.deed, []).append(act)
    subagents = sum(part.kind == "subagent" for part in parts)
    titles = [join_acts(acts).title for acts in deeds.values()]
    titles += [f"asked {count(subagents, 'subagent')}"] if subagents else []
    bad = f", {story.failed} failed or denied" if story.failed else ""
    calls = f"{count(story.calls, 'call')}{bad}"
    answers = [part.text for part in parts if part.kind == "answer" and part.text]
    return Summary(
        f"{calls}: {'; '.join(cut(title, _SENTENCE) for title in titles[:_DEEDS])}"
        if titles
        else calls,
        cut(" ".join(answers[-1].split()), _SAID) if answers else "",
        _cut_facts([fact.text for fact in story.left]),
        _cut_facts([fact.text for fact in story.judged]),
    )


def _cut_facts(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the first four texts, each of at most 120 characters, and how many more there are."""
    more = [f"and {len(texts) - _FACTS} more"] if len(texts) > _FACTS else []
    return (*(cut(text, _SENTENCE) for text in texts[:_FACTS]), *more)


def tell_before(started: Line, above: Sequence[Line]) -> str:
    """Return what an agent did in the same turn before its `do` began a record; "" for nothing.

    A hook had begun the record above it for the session, and that record holds the earlier calls.
    `started` are the fields of the record's first line, `above` those of all lines of the record
    above.
    """
    first = above[0] if above else {}
    session, began = started.get("session"), str(started.get("started_at"))
    is_subagent = isinstance(session, dict) and "agent_id" in session
    if "opened_by" not in first or first.get("session") != session or is_subagent:
        return ""
    earlier = [line for line in above if "at" in line and str(line["at"]) < began]
    prompts = (at for at, line in enumerate(earlier) if line.get("event") == "prompt")
    turn = earlier[max(prompts, default=0) :]
    result_ids = {line.get("call_id") for line in turn if line.get("event") == "tool_result"}
    # the call of the `do` itself is under way
    over = [
        line
        for line in turn
        if line.get("event") != "tool_call" or line.get("call_id") in result_ids
    ]
    story = tell_story(over)
    if not story.calls:
        return ""
    return f"{summarize_story(story).done} (in {say(first.get('invocation_id'))})"


def _walk(parts: Iterable[StoryPart]) -> Iterator[StoryPart]:
    """Yield all parts of a story, a chapter before the parts inside it."""
    for part in parts:
        yield part
        yield from _walk(part.parts)


def pair_calls(lines: Iterable[Line], open_calls: dict[str, Line]) -> Iterator[tuple[Line, ...]]:
    """Yield each line as a tuple: (line,), or (call, result) for a result whose call is open.

    `open_calls` maps the id of a call without a result to its line. It is the caller's and changes
    while the lines are read, so that a caller can continue with lines that come later.
    """
    for line in lines:
        name = say(line.get("call_id"))
        if line.get("event") == "tool_call":
            open_calls[name] = line
        call = open_calls.pop(name, None) if line.get("event") == "tool_result" else None
        yield (line,) if call is None else (call, line)


def tell_lines(
    pairs: Iterable[Sequence[Line]], commands: Sequence[str] = (), root: str = ""
) -> Iterator[ToldLine]:
    """Yield every line in the words of the story. `pairs` come from `pair_calls`.

    `commands` are the charter's test commands. Paths below `root`, the project's folder, are
    shortened. A title depends on its own line (and its call) alone, never on later lines.
    """
    for pair in pairs:
        telling, line, entries = Telling(commands, root), pair[-1], make_timeline(pair)
        for place, entry in enumerate(entries):
            telling.take(place, entry)
        parts = telling.finish()
        part = parts[-1] if parts else None
        while part and part.kind in ("opening", "subagent") and part.parts:
            part = part.parts[-1]
        if not part or part.kind == "opening":
            part = StoryPart("note", _name_quiet(entries[-1]))
        yield ToldLine(
            get_seq(line), moment_of(line),
            part.title.removesuffix(": open"), part.text, part.outcome, part.duration_ms,
            part.limits, entries[-1].agent,
        )  # fmt: skip


def _name_quiet(entry: Entry) -> str:
    """Return a phrase for a line that is no part of a story, or stands in its head."""
    line, kind = entry.fields, entry.kind
    if kind == "started":
        ask = tell_asked(line)
        return f"{ask.by} asked: {cut(ask.request or 'its request was erased or left out', 200)}"
    if kind == "completed":
        return f"ended as {describe_outcome(line)}"
    if kind == "retrieval_response":
        hits = line.get("hits")
        return f"{count(len(hits), 'rule')} found" if isinstance(hits, list) else "rules found"
    if kind == "session_change":
        return describe_session(entry)
    phrases = {
        "policy_snapshot_ref": "the rules in force were noted", "turn": "tokens were counted",
        "retrieval_request": "rules were looked for",
    }  # fmt: skip
    return phrases.get(kind) or f"{kind.replace('_', ' ')} {' '.join(entry.about.split())}".strip()
