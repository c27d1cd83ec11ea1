"""Tell a record: fold its timeline into chapters of grouped deeds.  [pure]

    story = tell_story(lines, commands, root)

A prompt begins a chapter; what a subagent or a step did is a chapter inside. Neighbours of one kind
are one group ("read 4 files"), an edit and the patch it made are one deed.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import count, say
from specify_cli.record.reading.done_note import judge_tests, note_done
from specify_cli.record.reading.printed import describe_printed
from specify_cli.record.reading.timeline import Entry, make_timeline, measure
from specify_cli.record.reading.views import join
from specify_cli.record.seal import erased_members
from specify_cli.record.story.choice import explain_choice
from specify_cli.record.story.story import Asked, Bearing, Changed, Fact, Part, Story, Told
from specify_cli.record.story.words import (
    Act,
    cut,
    describe_work,
    find_root,
    list_limits,
    make_act,
    name_call,
    name_deed,
    read_outcome,
    read_text,
    shorten_paths,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Line = Mapping[str, object]

_OPENING = ("started", "policy_snapshot_ref", "retrieval_request", "checkpoint", "completed")
_QUIET = ("started", "ended", "instructions_loaded")
_ALONE = ("test", "note", "step", "subagent")


def tell_story(lines: Sequence[Line], commands: Sequence[str] = (), root: str = "") -> Story:
    """Return the story of a record and its annexes.

    `commands` are the charter's test commands. `root` is where the project lies, for records that
    do not tell it themselves.

    `lines` are the fields of a record, each with its seq, and those of its annexes behind
    (`number_lines`). An open record gives outcome `open` and no duration. Every part cites the seqs
    that tell it.
    """
    started: Line = next((line for line in lines if line.get("event") == "started"), {})
    ended: Line = next((line for line in reversed(lines) if line.get("event") == "completed"), {})
    telling = Telling(commands, find_root(lines, root))
    for place, entry in enumerate(make_timeline(lines)):
        telling.take(place, entry)
    begun, closed = _get_text(started, "started_at"), _get_text(ended, "completed_at")
    tests = judge_tests(lines, commands)
    notes = [Fact(remark.text, remark.seqs) for remark in note_done(lines, commands)]
    return Story(
        invocation_id=say(started.get("invocation_id") or ""),
        outcome=say(ended.get("outcome") or "open"),
        closed_by=_get_text(ended, "closed_by"),
        ended_at=closed,
        duration_ms=measure(begun, closed),
        asked=tell_asked(started),
        told=_tell_rules(started, lines, telling.changed),
        done=telling.finish(),
        changed=tuple(telling.changed.values()),
        calls=telling.calls,
        failed=telling.failed,
        tests=f"{tests.state}: {tests.command}" if tests.command else tests.state,
        left=(*telling.left, *telling.list_open()),
        judged=(*notes, *telling.judged),
    )


def number_lines(lines: Sequence[Line], annexes: Sequence[Line]) -> Sequence[Line]:
    """Return a record's lines and its annexes, which go on with the numbers: a story cites both.

    An annex has the seq it was written with, which is one for all of them; here each has its own.
    """
    numbered = [{**annex, "seq": len(lines) + at} for at, annex in enumerate(annexes)]
    return join(lines, numbered)


class _Chapter:
    """A chapter while it is written.

    Neighbours of one deed wait in `group`, for how many there are gives the group its title.
    """

    def __init__(self, kind: str, title: str, entry: Entry | None = None) -> None:
        self.kind, self.title, self.entry = kind, title, entry
        self.text = ""
        self.parts: list[Part | _Chapter] = []
        self.group: list[Act] = []

    def add(self, act: Act) -> None:
        """Add a deed to the group of its neighbours."""
        if self.group and (self.group[-1].deed != act.deed or act.deed in _ALONE):
            self.close_group()
        self.group.append(act)

    def put(self, part: Part | _Chapter) -> None:
        """Add a part, or a chapter that is still being written, behind the group."""
        self.close_group()
        self.parts.append(part)

    def close_group(self) -> None:
        """Make the neighbours so far one part."""
        if self.group:
            self.parts.append(join_acts(self.group))
            self.group = []

    def finish(self) -> Part:
        """Return the chapter as a part; a subagent's without anything in it is left out."""
        self.close_group()
        made = [part.finish() if isinstance(part, _Chapter) else part for part in self.parts]
        parts = tuple(part for part in made if part.kind != "subagent" or part.seqs or part.parts)
        entry = self.entry
        if entry is None:
            at = parts[0].at if parts else None
            return Part(self.kind, self.title, self.text, "ok", at, None, (), (), (), parts)
        seqs = (entry.seq,) if entry.seq == entry.end_seq else (entry.seq, entry.end_seq)
        limits = tuple(dict.fromkeys(list_limits(entry.fields) + list_limits(entry.end_fields)))
        return Part(
            self.kind, self.title, self.text, read_outcome(entry), entry.at, entry.duration_ms,
            limits, seqs, (), parts,
        )  # fmt: skip


class Telling:
    """The chapters so far, and which of them the next entry belongs to."""

    def __init__(self, commands: Sequence[str], root: str) -> None:
        self._commands, self._root = commands, root
        self._top: list[_Chapter] = [_Chapter("opening", "")]
        self._agents: dict[str, _Chapter] = {}
        self._steps: dict[int, _Chapter] = {}
        # Calls that asked a subagent and have none yet, and edits that wait for their patch.
        self._asking: list[tuple[Entry, _Chapter]] = []
        self._edits: dict[str, tuple[_Chapter, Act]] = {}
        self._open: list[Act] = []
        self.changed: dict[str, Changed] = {}
        self.left: list[Fact] = []
        self.judged: list[Fact] = []
        self.calls = self.failed = 0

    def take(self, place: int, entry: Entry) -> None:
        """Put one entry where it belongs.

        `place` is the entry's position in the timeline: what is inside a step names that.
        """
        if entry.kind in _OPENING or entry.fields.get("request_id") == "context":
            return
        if entry.kind == "prompt" and entry.agent is None:
            chapter = _Chapter("prompt", "asked", entry)
            chapter.text = read_text(entry.fields.get("text"))
            self._top.append(chapter)
            self._agents.clear()
            return
        chapter = self._find_chapter(entry)
        if entry.kind == "tool_call":
            self._take_call(chapter, entry)
        elif entry.kind == "tool_result":  # of a call that nobody told
            act = make_act(entry, name_deed(entry.name), entry.name, read_outcome(entry))
            chapter.add(act)
            self._edits[say(entry.fields.get("call_id"))] = (chapter, act)
        elif entry.kind == "step_started":
            inner = _Chapter("step", f"step {entry.name}: {entry.status}", entry)
            self._steps[place] = inner
            chapter.put(inner)
        elif entry.kind == "patch_apply":
            self._take_patch(chapter, entry)
        elif entry.kind in ("prompt", "turn"):
            self._take_words(chapter, entry)
        elif entry.kind == "model_call":
            chapter.add(make_act(entry, "model", entry.name, read_outcome(entry)))
        else:
            self._take_note(chapter, entry)

    def _find_chapter(self, entry: Entry) -> _Chapter:
        if entry.within is not None and entry.within in self._steps:
            return self._steps[entry.within]
        if entry.agent is None:
            return self._top[-1]
        if entry.agent not in self._agents:
            self._agents[entry.agent] = self._begin_agent(entry)
        return self._agents[entry.agent]

    def _begin_agent(self, entry: Entry) -> _Chapter:
        """Return the chapter of a subagent: in the call that asked it, where one is under way."""
        for at, (call, chapter) in enumerate(self._asking):
            if call.status == "open" or call.end_seq > entry.seq:
                del self._asking[at]
                return chapter
        chapter = _Chapter("subagent", f"subagent {cut(entry.agent or '', 40)}")
        self._top[-1].put(chapter)
        return chapter

    def _take_call(self, chapter: _Chapter, entry: Entry) -> None:
        act = name_call(entry, self._commands, self._root)
        self.calls += 1
        self.failed += act.outcome in ("failed", "denied")
        if act.outcome == "open":
            self._open.append(act)
        if act.deed == "ask":
            inner = _Chapter("subagent", f"asked a subagent: {act.what}", entry)
            chapter.put(inner)
            self._asking.append((entry, inner))
            return
        chapter.add(act)
        if act.deed == "edit":
            self._edits[say(entry.fields.get("call_id"))] = (chapter, act)

    def _take_patch(self, chapter: _Chapter, entry: Entry) -> None:
        """Put a patch in the place of the call that made it."""
        path = say(entry.fields.get("path"))
        kind = say(entry.fields.get("kind"))
        act = make_act(entry, "edit", path, read_outcome(entry))
        if entry.fields.get("witness") == "tree":
            act = act._replace(deed="change", result="seen in the work tree")
        waiting = self._edits.pop(say(entry.fields.get("call_id")), None)
        if waiting is not None and waiting[1] in waiting[0].group:
            chapter, call = waiting
            limits = tuple(dict.fromkeys(call.limits + act.limits))
            took, outcome = call.duration_ms, call.outcome if act.outcome == "ok" else act.outcome
            act = act._replace(
                seqs=call.seqs + act.seqs, at=call.at, duration_ms=took, limits=limits,
                outcome=outcome,
            )  # fmt: skip
            chapter.group[chapter.group.index(call)] = act
        else:
            chapter.add(act)
        if act.outcome in ("ok", "unknown", "open"):
            known = self.changed.get(path)
            first = kind if known is None else known.kind
            self.changed[path] = Changed(
                path,
                "delete" if kind == "delete" else first,
                _add(known and known.added, act.added, known is None),
                _add(known and known.removed, act.removed, known is None),
                (*(known.seqs if known else ()), entry.seq),
            )

    def _take_words(self, chapter: _Chapter, entry: Entry) -> None:
        fields = entry.fields
        text, kind = read_text(fields.get("text")), "answer" if entry.kind == "turn" else "asked"
        tokens = fields.get("tokens")
        limits = list_limits(fields)
        if entry.kind == "turn" and not text and not limits:
            return  # Tokens alone: what a transcript filled in.
        used = sum(number for number in tokens.values() if type(number) is int) if isinstance(
            tokens, dict) else 0  # fmt: skip
        title = "answered" if kind == "answer" else "was asked"
        title = f"{title} · {used:,} tokens" if used else title
        chapter.put(
            Part(kind, title, text, "ok", entry.at, None, tuple(limits), (entry.seq,), (), ())
        )

    def _take_note(self, chapter: _Chapter, entry: Entry) -> None:
        fields = entry.fields
        stage = say(fields.get("to") or "")
        if stage.startswith("subagent:") and chapter.kind == "subagent" and not chapter.entry:
            agent = cut(entry.agent or "", 40)
            chapter.title = f"subagent {cut(stage.removeprefix('subagent:'), 40)} ({agent})"
        text = _name_event(entry)
        if not text:
            return
        text = shorten_paths(text, self._root)
        outcome = read_outcome(entry)
        if entry.kind in ("approval", "gate_decision"):
            self.judged.append(Fact(text, (entry.seq,)))
        if fields.get("reason") == "unseen_change":
            self.left.append(Fact(text, (entry.seq,)))
        limits = tuple(list_limits(fields))
        chapter.put(Part("note", text, "", outcome, entry.at, None, limits, (entry.seq,), (), ()))

    def list_open(self) -> Iterable[Fact]:
        """Return the calls that nothing says the end of."""
        yield from (Fact(f"{VERBS[act.deed]} {act.what}: no end is recorded", act.seqs)
                    for act in self._open)  # fmt: skip

    def finish(self) -> tuple[Part, ...]:
        """Return the chapters; the first only where something came before the first prompt."""
        parts = [chapter.finish() for chapter in self._top]
        return tuple(part for part in parts if part.kind != "opening" or part.parts)


VERBS = {
    "read": "read", "search": "searched", "edit": "edited", "run": "ran", "test": "ran",
    "ask": "asked", "plan": "planned:", "fetch": "fetched", "use": "used", "change": "changed",
    "model": "asked the model",
}  # fmt: skip
_MANY = {
    "read": ("file", "files"), "edit": ("file", "files"), "change": ("file", "files"),
    "run": ("command", "commands"), "test": ("test run", "test runs"),
}  # fmt: skip


def join_acts(acts: Sequence[Act]) -> Part:
    """Return a group of deeds of one kind, named by how many there are, or by the one there is.

    The acts are of one deed, in order, at least one. It failed or was denied where any of them did.
    """
    deed, first, last = acts[0].deed, acts[0], acts[-1]
    bad = [act for act in acts if act.outcome in ("failed", "denied")]
    names = list(dict.fromkeys(act.what for act in acts))
    verb = VERBS[deed]
    if len(names) == 1:
        title = f"{verb} {names[0]}" + (
            f" ×{len(acts)}" if len(acts) > 1 and deed != "edit" else ""
        )
    elif deed in _MANY:
        title = f"{verb} {count(len(names) if deed != 'run' else len(acts), *_MANY[deed])}"
    else:
        title = f"{verb} {len(acts)} times: {', '.join(cut(name, 30) for name in names[:3])}"
    changes = [(act.added or 0, act.removed or 0) for act in acts if act.added is not None]
    if changes:
        title += f" +{sum(one for one, _ in changes)} −{sum(two for _, two in changes)}"
    if len(acts) == 1 and first.result:
        title += f": {first.result}"
    elif bad and len(acts) > 1:
        title += f", {len(bad)} failed"
    elif bad:
        title += f": {first.outcome}"
    outcome = bad[0].outcome if bad else next(
        (act.outcome for act in acts if act.outcome == "open"), "ok")  # fmt: skip
    took = measure(first.at, last.at) if len(acts) > 1 else None
    took = first.duration_ms if len(acts) == 1 else (took or 0) + (last.duration_ms or 0)
    limits = tuple(dict.fromkeys(limit for act in acts for limit in act.limits))
    seqs = tuple(seq for act in acts for seq in act.seqs)
    return Part(deed, title, "", outcome, first.at, took, limits, seqs, tuple(acts), ())


def _name_event(entry: Entry) -> str:
    """Return what an event was, in words; nothing for one that tells a reader nothing."""
    fields, about = entry.fields, " ".join(entry.about.split())
    kind = entry.kind
    if kind == "session_change":
        change = say(fields.get("change"))
        why = f" ({say(fields['reason'])})" if fields.get("reason") else ""
        return "" if change in _QUIET else f"the session: {change.replace('_', ' ')}{why}"
    if kind == "reconciled":
        number = fields.get("contradicted")
        return f"the {about}" if number else ""
    if kind == "stage_transition":
        stage = say(fields.get("to"))
        return "" if "subagent:" in stage or stage == "main" else f"went on to: {stage}"
    if kind == "capture_gap":
        what, why = say(fields.get("what")), say(fields.get("reason")).replace("_", " ")
        more = f": {say(fields['message'])}" if fields.get("message") else ""
        return f"changed while no recorded tool ran: {what}" if why == "unseen change" else (
            f"not recorded: {what} ({why}{more})")  # fmt: skip
    if kind == "approval":
        verb = "allowed" if fields.get("decision") == "allow" else "denied"
        by = say(fields.get("approver") or "somebody")
        status = (entry.status or "").partition(" ")[2]
        return f"{verb} by {by} {status} {say(fields.get('reason') or '')}".strip()
    if kind == "gate_decision":
        reason = say(fields.get("reason_code")).replace("_", " ")
        return f"the rule {entry.name} was asked: {entry.status} ({reason})"
    if kind == "error":
        told = [say(fields[name]) for name in ("error_code", "message") if fields.get(name)]
        return f"an error: {': '.join(told)}"
    words = {
        "policy_violation": "a limit or rule was broken",
        "artifact_link": "linked", "commit_link": "in the commit", "resumed": "went on from line",
        "recovered": "a writer crashed here; bytes skipped:", "withheld": "withheld:",
        "replayed": "replayed:", "retrieval_response": "looked up",
        "step_completed": "a step ended:", "step_failed": "a step failed:",
    }  # fmt: skip
    if kind in ("exported", "erased"):
        return kind
    if kind not in words:
        return f"{kind.replace('_', ' ')} {about}".strip()
    name = "" if entry.name == kind or entry.name in about else f"{entry.name} "
    ended = f" ({entry.status})" if kind.startswith("step_") and entry.status else ""
    return f"{words[kind]} {name}{about}{ended}".strip()


def tell_asked(started: Line) -> Asked:
    """Return who asked for what, of the fields of `started`; a member that is not there is None or
    empty."""
    actor = started.get("actor")
    actor = actor if isinstance(actor, dict) else {"actor_id": actor}
    session = started.get("session")
    session = session if isinstance(session, dict) else {}
    return Asked(
        request=_get_text(started, "request_text"),
        missing="erased" if "request_text" in erased_members(started) else "",
        by=say(actor.get("actor_id") or "unknown"),
        model=_get_text(actor, "model"),
        harness=_get_text(session, "harness"),
        session=_get_text(session, "session_id"),
        profile=_get_text(started, "profile_id"),
        action=_get_text(started, "action"),
        why=explain_choice(say(started.get("match_reason") or "")),
        at=_get_text(started, "started_at"),
        parent=_get_text(started, "parent_invocation_id"),
        work=describe_work(started.get("mission"), started.get("work_package")),
    )


def _tell_rules(started: Line, lines: Iterable[Line], changed: Iterable[str]) -> Told:
    response: Line = next((line for line in lines if line.get("event") == "retrieval_response"), {})
    hits = [hit for hit in _list(response.get("hits")) if isinstance(hit, dict)]
    filtered = [item for item in _list(response.get("filters_applied")) if isinstance(item, dict)]
    shown = tuple(say(hit.get("uri")) for hit in hits if hit.get("shown") != "line")
    offered = tuple(say(hit.get("uri")) for hit in hits if hit.get("shown") == "line")
    back = tuple(f"{say(item.get('uri'))} ({say(item.get('rule_id'))})" for item in filtered)
    bearing = tuple(_list_bearing(hits, tuple(changed)))
    if not started.get("governance_context_available"):
        summary = "no rules: there was no charter, or it is not kept"
        return Told(summary, shown, offered, back, bearing)
    summary = f"{count(len(shown), 'rule')} in front of the agent"
    summary += f", {len(offered)} on demand" if offered else ""
    printed = describe_printed(started.get("printed"))
    summary = f"{summary}; {printed}" if printed else summary
    return Told(summary, shown, offered, back, bearing)


def _list_bearing(hits: Iterable[Line], changed: Sequence[str]) -> Iterator[Bearing]:
    """Yield the rules that a file or the kind of work brought, as far as the record says it. A file
    the request names without its folder is each changed file of that name."""
    for hit in hits:
        because = [say(one) for one in _list(hit.get("because"))]
        named = [one.removeprefix("file ").lower() for one in because if one.startswith("file ")]
        kinds = any(one.startswith("kind ") for one in because)
        files = [
            path for path in changed if any(f"/{path.lower()}".endswith(f"/{one}") for one in named)
        ]
        if named or kinds:
            yield Bearing(say(hit.get("uri")), tuple(because), tuple(files), kinds)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _get_text(fields: Line, name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else say(value)


def _add(one: int | None, two: int | None, first: bool) -> int | None:
    """Return a sum of counts; not known where one of them is not."""
    return two if first else None if one is None or two is None else one + two
