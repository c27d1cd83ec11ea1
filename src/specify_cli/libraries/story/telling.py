"""Tell a record: fold its timeline into chapters of grouped deeds.  [pure]

    story = tell_story(lines, commands, root)

A prompt begins a chapter; the work of a subagent or a step is a chapter inside it. Neighbouring
acts of one deed are one group ("read 4 files"), and an edit and its patch are one act.

How a chapter is found. An entry inside a step belongs to that step's chapter. Otherwise the agent
that it names decides: the main one writes into the chapter of the last prompt, a subagent into a
chapter of its own there. A subagent gets the chapter of the call that asked for it, as soon as that
call can be told apart (`_begin_agent`).

One walk over the timeline fills the story and the remarks, because each look at an entry of a long
record reads its lines again.
"""

from __future__ import annotations

import re
from itertools import chain

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import count, get_object, say, say_member
from specify_cli.libraries.story.naming import (
    VERBS,
    describe_error,
    join_acts,
    name_event,
    pick_verb,
)
from specify_cli.libraries.story.story import (
    Bearing,
    Changed,
    Fact,
    Story,
    StoryContext,
    StoryPart,
    StoryRequest,
)
from specify_cli.libraries.story.words import (
    BAD,
    NAMELESS,
    Act,
    cut,
    describe_work,
    find_root,
    list_limits,
    make_act,
    name_call,
    name_deed,
    name_failure,
    read_outcome,
    read_printed,
    read_text,
    shorten_paths,
)
from specify_cli.record.reading.choice import explain_choice
from specify_cli.record.reading.done_note import RemarkSources
from specify_cli.record.reading.evidence import describe_outcome
from specify_cli.record.reading.printed_context import describe_printed, is_in_front
from specify_cli.record.reading.timeline import Entry, make_timeline, measure
from specify_cli.record.reading.usage import add_tokens
from specify_cli.record.reading.views import list_objects
from specify_cli.record.seal import Fields, erased_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Line = Fields

_OPENING = ("started", "policy_snapshot_ref", "retrieval_request", "checkpoint", "completed")
# Deeds that are never grouped, however many come one after another.
_ALONE = ("test", "note", "step", "subagent")
_AGENT_LENGTH = 40
# What programs call subagents that have no name.
_NAMELESS = ("", "default", "unknown")
_MOST_FACTS = 6
# How many calls that asked a subagent are searched for the one whose subagent is not known yet.
_MOST_ASKING = 100


def tell_story(
    lines: Sequence[Line],
    commands: Sequence[str] = (),
    root: str = "",
    timeline: Sequence[Entry] | None = None,
) -> Story:
    """Return the story of a record and its annexes.

    `lines` are the fields of the record's lines, each with its seq, then those of its annexes (see
    `number_lines`). `commands` are the charter's test commands. `root` is the project's folder, for
    records that do not show it themselves, and `timeline` that of the lines, where it was made. An
    open record has the outcome `open` and no duration.
    Every part cites the seqs of its lines.
    """
    started: Line = next((line for line in lines if line.get("event") == "started"), {})
    session = started.get("session")
    # In a subagent's own record its lines belong to the top, not to a chapter of a subagent.
    own = say_member(session, "agent_id") if isinstance(session, dict) else None
    root = find_root(lines, root)
    telling, sources = Telling(commands, root, own), RemarkSources(commands)
    closing_line: Line = {}
    response: Line = {}
    # Each look at an entry of a long record reads its lines again, so there is only one walk.
    for place, entry in enumerate(make_timeline(lines) if timeline is None else timeline):
        telling.take(place, entry)
        sources.take(place, entry)
        if entry.kind == "completed":
            closing_line = entry.fields
        elif entry.kind == "retrieval_response":
            response = response or entry.fields
    start = say_member(started, "started_at")
    end = say_member(closing_line, "completed_at")
    tests = sources.judge_tests()
    tested = f"{tests.state}: {tests.command}" if tests.command else tests.state
    told = _tell_rules(started, response, telling.changed)
    if told.shown:
        facts = [] if tests.state == "no change" else [f"tests after the last change: {tested}"]
        told = told._replace(judged=_say_judged([*facts, *(fact.text for fact in telling.judged)]))
    unseen = (Fact(shorten_paths(name_event(gap), root), (gap.seq,)) for gap in sources.gaps)
    notes = [Fact(remark.text, remark.seqs) for remark in sources.note_done()]
    failures = [Fact(remark.text, remark.seqs) for remark in sources.list_failures()]
    return Story(
        invocation_id=say(started.get("invocation_id") or ""),
        # An older writer could close a record without saying how it ended.
        outcome=say(closing_line.get("outcome") or "closed") if closing_line else "open",
        closed_by=say_member(closing_line, "closed_by"),
        ended_at=end,
        duration_ms=measure(start, end),
        asked=tell_asked(started),
        told=told,
        done=telling.finish(),
        changed=tuple(telling.list_changes()),
        calls=telling.calls,
        failed=telling.failed,
        tests=tested,
        left=(*_join_facts(unseen), *telling.list_open(), *failures),
        judged=(*telling.ends, *notes, *telling.judged),
    )


def _say_judged(facts: Sequence[str]) -> str:
    """Return that nobody judges whether rules were kept, with the first facts that bear on it."""
    shows = f"; the record shows: {'; '.join(facts[:_MOST_FACTS])}" if facts else ""
    return f"whether they were kept is not judged{shows}"


def _join_facts(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield facts; those with equal texts are joined to one that cites all their lines."""
    seqs: dict[str, list[int]] = {}
    for fact in facts:
        seqs.setdefault(fact.text, []).extend(fact.seqs)
    yield from (Fact(text, tuple(cited)) for text, cited in seqs.items())


class _Chapter:
    """A chapter while it is built.

    Neighbouring acts of one deed wait in `group`, because its title states how many there are.
    """

    def __init__(self, kind: str, title: str, entry: Entry | None = None) -> None:
        self.kind = kind
        self.title = title
        # The entry that began the chapter: a prompt, a call that asked a subagent, or a step; None
        # if nothing in the record began it.
        self.entry = entry
        self.text = ""
        self.parts: list[StoryPart | _Chapter] = []
        self.group: list[Act] = []

    def add(self, act: Act) -> None:
        """Add a deed to the group of its neighbours."""
        is_other = self.group and self.group[-1].deed != act.deed
        if is_other or act.deed in _ALONE:
            self.close_group()
        self.group.append(act)

    def put(self, part: StoryPart | _Chapter) -> None:
        """Add a part, or a chapter that is still being written, after the group."""
        self.close_group()
        self.parts.append(part)

    def close_group(self) -> None:
        """Make the neighbours so far one part."""
        if self.group:
            self.parts.append(join_acts(self.group))
            self.group = []

    def finish(self) -> StoryPart:
        """Return the chapter as a part, without chapters of subagents that are empty."""
        self.close_group()
        members = [part.finish() if isinstance(part, _Chapter) else part for part in self.parts]
        parts = tuple(
            part for part in members if part.kind != "subagent" or part.seqs or part.parts
        )
        entry, at = self.entry, parts[0].at if parts else None
        part = StoryPart(self.kind, self.title, self.text, at=at, parts=parts)
        if not entry:
            return part
        return part._replace(
            outcome=read_outcome(entry),
            at=entry.at,
            duration_ms=entry.duration_ms,
            limits=tuple(dict.fromkeys(list_limits(entry.fields) + list_limits(entry.end_fields))),
            seqs=tuple(dict.fromkeys((entry.seq, entry.end_seq))),
        )


class Telling:
    """The chapters so far, and which of them the next entry belongs to.

        telling = Telling(commands, root)
        for place, entry in enumerate(make_timeline(lines)):
            telling.take(place, entry)
        telling.finish()

    `commands` are the charter's test commands, `root` is the project's folder at the time, and
    `own` the subagent whose record it is, None for the main agent's. `changed`, `judged`, `calls`
    and `failed` grow while entries are taken.
    """

    def __init__(self, commands: Sequence[str], root: str, own: str | None = None) -> None:
        self._commands = commands
        self._root = root
        # The subagent whose record it is.
        self._own = own
        self._top: list[_Chapter] = [_Chapter("opening", "")]
        # By the id of the subagent, and by the place of the step in the timeline.
        self._agents: dict[str, _Chapter] = {}
        self._steps: dict[int, _Chapter] = {}
        # Calls that asked a subagent and have none yet.
        self._asking: list[tuple[Entry, _Chapter]] = []
        # Edits that wait for their patch, by the id of the call.
        self._edits: dict[str, tuple[_Chapter, Act]] = {}
        self._open: list[Act] = []
        # What each call did, for an approval that names it.
        self._whats: dict[str, str] = {}
        # The change of each file so far, without the lines that show it, and these.
        self.changed: dict[str, Changed] = {}
        self.changed_at: dict[str, list[int]] = {}
        self.judged: list[Fact] = []
        # How the record ended, and whose word that is.
        self.ends: list[Fact] = []
        self.calls = self.failed = 0

    def take(self, place: int, entry: Entry) -> None:
        """Add one entry to the chapter it belongs to.

        `place` is the entry's position in the timeline: entries inside a step refer to it.
        """
        if entry.kind == "completed" and "closed_by" in entry.fields:
            self.ends = [Fact(describe_outcome(entry.fields), (entry.seq,))]
        if entry.kind in _OPENING or entry.fields.get("request_id") == "context":
            return
        claimed = entry.fields.get("claimed_at")
        if isinstance(claimed, str) and entry.fields.get("witness") != "tree":
            entry = entry._replace(at=claimed)
        if entry.kind == "prompt" and entry.agent is None:
            # A subagent of an earlier prompt has a new chapter in this one's.
            begun = _Chapter("prompt", "asked", entry)
            begun.text = read_text(entry.fields.get("text"))
            self._top.append(begun)
            self._agents.clear()
            return
        chapter = self._find_chapter(entry)
        if entry.kind == "tool_call":
            self._take_call(chapter, entry)
        elif entry.kind == "tool_result":  # of a call that nobody reported
            outcome = read_outcome(entry)
            words = name_failure(read_printed(entry.fields.get("output")), outcome, self._root)
            act = make_act(entry, name_deed(entry.name), entry.name, outcome, words)
            chapter.add(act)
            self._edits[say(entry.fields.get("call_id"))] = (chapter, act)
        elif entry.kind == "step_started":
            ending = filter(None, (entry.status, describe_error(entry.end_fields)))
            inner = _Chapter("step", f"step {entry.name}: {': '.join(ending)}", entry)
            self._steps[place] = inner
            chapter.put(inner)
        elif entry.kind == "patch_apply":
            self._take_patch(chapter, entry)
        elif entry.kind in ("prompt", "turn"):
            self._take_words(chapter, entry)
        elif entry.kind == "model_call":
            answer, outcome = read_printed(entry.fields.get("response")), read_outcome(entry)
            back = "given back, not asked" if "source" in entry.fields else ""
            result = name_failure(answer, outcome, self._root) or back
            chapter.add(make_act(entry, "model", entry.name, outcome, result))
        else:
            self._take_note(chapter, entry)

    def _find_chapter(self, entry: Entry) -> _Chapter:
        """Return the chapter of the step or subagent an entry is of; else the prompt's."""
        if entry.within is not None and entry.within in self._steps:
            return self._steps[entry.within]
        if entry.agent in (None, self._own):
            return self._find_prompt(entry)
        if entry.agent not in self._agents:
            self._agents[entry.agent] = self._begin_agent(entry)
        return self._agents[entry.agent]

    def _find_prompt(self, entry: Entry) -> _Chapter:
        """Return the chapter of the newest prompt; of what a transcript reports late, the one of
        the newest prompt before it."""
        at, prompts = entry.at, self._top[1:]
        if at is None or not prompts or entry.fields.get("witness") != "transcript":
            return self._top[-1]
        before = (one for one in reversed(prompts) if one.entry and (one.entry.at or "") <= at)
        return next(before, prompts[0])

    def _begin_agent(self, entry: Entry) -> _Chapter:
        """Return the chapter of a subagent: that of the call whose result names the subagent or the
        path that is its stage, otherwise of the first call that is under way, or the only one whose
        subagent is not known, otherwise a new one. Subagents that work side by side can begin in
        any order."""
        path = say(entry.fields.get("to") or "").removeprefix("subagent:")
        names = [entry.agent or "", *([path] if path.startswith("/") else [])]
        agent = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w/-])")
        by_result = (
            pair
            for pair in self._asking
            if agent.search(read_text(pair[0].end_fields.get("output")))
        )
        under_way = (
            pair for pair in self._asking if pair[0].status == "open" or pair[0].end_seq > entry.seq
        )
        is_told_apart = path.startswith("/") or len(self._asking) > 1
        alone = [] if is_told_apart else [one for one in self._asking if one[0].status == "ok"]
        asking = next(chain(by_result, under_way, alone), None)
        name = cut(path.rpartition("/")[2], _AGENT_LENGTH)
        if asking:
            self._asking = [pair for pair in self._asking if pair is not asking]
            chapter = asking[1]
            if name not in _NAMELESS:
                chapter.title = chapter.title.replace(" a ", f" the {name} ", 1)
            return chapter
        who = cut(entry.agent or "", _AGENT_LENGTH)
        chapter = _Chapter("subagent", f"subagent {name} ({who})" if name else f"subagent {who}")
        self._top[-1].put(chapter)
        return chapter

    def _take_call(self, chapter: _Chapter, entry: Entry) -> None:
        """Put a call into a chapter; one that asks a subagent is a chapter of its own."""
        act = name_call(entry, self._commands, self._root)
        self._whats[say(entry.fields.get("call_id"))] = act.what
        self.calls += 1
        self.failed += act.outcome in BAD
        if act.outcome == "open":
            self._open.append(act)
        if act.deed == "ask":
            asked = pick_verb(act.deed, is_denied=act.outcome == "denied")
            inner = _Chapter("subagent", f"{asked} a subagent: {act.what}", entry)
            chapter.put(inner)
            self._asking = [*self._asking[-_MOST_ASKING:], (entry, inner)]
            return
        chapter.add(act)
        if act.deed == "edit":
            self._edits[say(entry.fields.get("call_id"))] = (chapter, act)

    def _take_patch(self, chapter: _Chapter, entry: Entry) -> None:
        """Put a patch in the place of the call that made it."""
        recorded_path = entry.fields.get("path")
        is_named = recorded_path is not None
        path = shorten_paths(say(recorded_path), self._root) if is_named else NAMELESS
        kind = say(entry.fields.get("kind"))
        result = "deleted" if kind == "delete" else ""
        act = make_act(entry, "edit", path, read_outcome(entry), result)
        if entry.fields.get("witness") == "tree":
            result = "created, " if kind == "create" else "deleted, " if result else ""
            result = (
                f"mode {cut(say(entry.fields['mode']), 10)}, " if "mode" in entry.fields else result
            )
            act = act._replace(deed="change", result=f"{result}seen in the work tree")
        waiting = self._edits.pop(say(entry.fields.get("call_id")), None)
        if "call_id" not in entry.fields and act.deed == "edit":
            call_of = ("edit", act.what, None)
            edits = (one for one in chapter.group if (one.deed, one.what, one.added) == call_of)
            waiting = next(((chapter, edit) for edit in edits), None)
        if waiting and waiting[1] in waiting[0].group:
            chapter, call = waiting
            act = _join_patch(call, act)
            chapter.group[chapter.group.index(call)] = act
        else:
            chapter.add(act)
        if is_named and act.outcome in ("ok", "unknown", "open"):
            self._note_change(path, kind, act, entry.seq)

    def _note_change(self, path: str, kind: str, act: Act, seq: int) -> None:
        """Add a patch to the change of its file. The file counts as created or modified by its
        first patch, and as deleted if any patch deleted it."""
        self.changed_at.setdefault(path, []).append(seq)
        previous = self.changed.get(path, Changed(path, kind, None, None, ()))
        self.changed[path] = previous._replace(
            kind=kind if "delete" in (kind, previous.kind) else previous.kind,
            added=_add(previous.added, act.added),
            removed=_add(previous.removed, act.removed),
        )

    def list_changes(self) -> Iterator[Changed]:
        """Yield the change of each file with the lines that show it."""
        for path, change in self.changed.items():
            yield change._replace(seqs=tuple(self.changed_at[path]))

    def _take_words(self, chapter: _Chapter, entry: Entry) -> None:
        """Add a prompt or an answer of the agent, with the tokens of the answer."""
        text = read_text(entry.fields.get("text"))
        limits = tuple(list_limits(entry.fields))
        is_answer = entry.kind == "turn"
        if is_answer and not text and not limits:
            return  # a transcript added only the tokens
        used = add_tokens(entry.fields.get("tokens"))
        title = "answered" if is_answer else "was asked"
        if used:
            title += f" · {used:,} tokens"
        kind = "answer" if is_answer else "asked"
        chapter.put(StoryPart(kind, title, text, at=entry.at, limits=limits, seqs=(entry.seq,)))

    def _take_note(self, chapter: _Chapter, entry: Entry) -> None:
        """Add any other event as a note. Judgements are also listed in `judged`."""
        fields = entry.fields
        text = name_event(entry)
        if not text:
            return
        text = shorten_paths(text, self._root)
        if entry.kind == "approval" and (what := self._whats.get(say(fields.get("call_id")))):
            text = f"{text}: {what}"
        if entry.kind in ("approval", "gate_decision"):
            self.judged.append(Fact(text, (entry.seq,)))
        part = StoryPart(
            "note",
            text,
            outcome=read_outcome(entry),
            at=entry.at,
            limits=tuple(list_limits(fields)),
            seqs=(entry.seq,),
        )
        chapter.put(part)

    def list_open(self) -> Iterator[Fact]:
        """Yield a fact for each call without a recorded end."""
        for act in self._open:
            yield Fact(f"{VERBS[act.deed]} {act.what}: no end is recorded", act.seqs)

    def finish(self) -> tuple[StoryPart, ...]:
        """Return the chapters; the first only where something came before the first prompt."""
        parts = [chapter.finish() for chapter in self._top]
        return tuple(part for part in parts if part.kind != "opening" or part.parts)


def _join_patch(call: Act, patch: Act) -> Act:
    """Return a call and the patch it made as one deed, at the time and of the length of the
    call."""
    return patch._replace(
        seqs=call.seqs + patch.seqs,
        at=call.at,
        duration_ms=call.duration_ms,
        limits=tuple(dict.fromkeys(call.limits + patch.limits)),
        outcome=call.outcome if patch.outcome == "ok" else patch.outcome,
    )


def tell_asked(started: Line) -> StoryRequest:
    """Return the request in the fields of `started`; missing members give None or empty texts."""
    actor = started.get("actor")
    actor = actor if isinstance(actor, dict) else {"actor_id": actor}
    session = get_object(started, "session")
    return StoryRequest(
        request=say_member(started, "request_text"),
        missing="erased" if "request_text" in erased_members(started) else "",
        by=say(actor.get("actor_id") or "unknown"),
        model=say_member(actor, "model"),
        harness=say_member(session, "harness"),
        session=say_member(session, "session_id"),
        profile=say_member(started, "profile_id"),
        action=say_member(started, "action"),
        why=explain_choice(say(started.get("match_reason") or "")),
        at=say_member(started, "started_at"),
        parent=say_member(started, "parent_invocation_id"),
        work=describe_work(started.get("mission"), started.get("work_package")),
    )


def _tell_rules(started: Line, response: Line, changed: Iterable[str]) -> StoryContext:
    """Return the rules that the agent was shown, from the `response` of a record's first retrieval;
    `changed` are the paths of files that changed."""
    hits = list_objects(response.get("hits"))
    filtered = list_objects(response.get("filters_applied"))
    uris = tuple(say(hit.get("uri")) for hit in hits if is_in_front(started, hit))
    offered = tuple(say(hit.get("uri")) for hit in hits if hit.get("shown") == "line")
    back = tuple(f"{say(item.get('uri'))} ({say(item.get('rule_id'))})" for item in filtered)
    bearing = tuple(_list_bearing(hits, tuple(changed)))
    if not started.get("governance_context_available"):
        summary = "no rules: there was no charter, or it is not kept"
        return StoryContext(summary, uris, offered, back, bearing)
    if "opened_by" in started:
        summary = "no rules: a hook began the record, and its context was given to nobody"
        return StoryContext(summary, (), (), back, bearing)
    summary = f"{count(len(uris), 'rule')} in front of the agent"
    if offered:
        summary += f", {len(offered)} on demand"
    printed = describe_printed(started.get("printed"))
    if printed:
        summary += f"; {printed}"
    return StoryContext(summary, uris, offered, back, bearing)


def _list_bearing(hits: Iterable[Line], changed: Sequence[str]) -> Iterator[Bearing]:
    """Yield the rules that a file or the kind of work brought, as far as the record says so. If the
    request names a file without its folder, every changed file of that name counts."""
    for hit in hits:
        reasons = hit.get("because")
        because = tuple(map(say, reasons if isinstance(reasons, list) else ()))
        by_kind = any(reason.startswith("kind ") for reason in because)
        suffixes = tuple(
            f"/{reason.removeprefix('file ').lower()}"
            for reason in because
            if reason.startswith("file ")
        )
        if not suffixes and not by_kind:
            continue
        files = [path for path in changed if f"/{path.lower()}".endswith(suffixes)]
        yield Bearing(say(hit.get("uri")), because, tuple(files), by_kind)


def _add(one: int | None, two: int | None) -> int | None:
    """Return the sum of the counts that are known; None if neither is."""
    return two if one is None else one + (two or 0)
