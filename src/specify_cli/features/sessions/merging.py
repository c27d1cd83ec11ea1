"""Bring the records of a session to what its transcript reports too: missing lines on open records,
annexes of closed ones.

    merger = SessionMerger(project, cache)
    merged = merger.merge(session)
    merged.rest        # what no record of the session's turns is there for

A transcript is a file that the agent's user can write: each line that comes of it names it as its
`witness`. Merging twice adds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cached_property, partial
from itertools import chain
from math import inf

from doctrine.light_imports import NamedTuple
from doctrine.load import ParseCache
from doctrine.text import count, get_object
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.conversation.take_in import list_keys, note_adopted, read_adopted
from specify_cli.features.hooks.direct import dedupe_key, key_stand_in, name_writer
from specify_cli.features.hooks.harnesses import find_dialect, translate
from specify_cli.features.hooks.losses import list_failures, logged
from specify_cli.features.hooks.payload.calls import find_command, read_ids
from specify_cli.features.hooks.payload.values import HookEvent, TurnOver
from specify_cli.features.sessions.reading import Session, forget_told, parse_time
from specify_cli.features.sessions.reconciling import (
    Addition,
    Comparison,
    Match,
    ReportedEvent,
    SessionRecord,
    group_calls,
    match_unnamed,
    sign_call,
)
from specify_cli.features.sessions.telling import assign_events, iter_events
from specify_cli.invocation.bindings import bind, list_bindings
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.event_table import ANNEX_EVENTS
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.views import fields_of, read_file
from specify_cli.record.seal import read_fields
from specify_cli.redaction.redact import sieved
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events
from specify_cli.storage.store import FileRecordStore
from specify_cli.storage.worktrees import find_worktrees

# A `do` and the record it began are written within this time of each other.
_BEGUN_MILLIS = 60_000
# Of so many events the masking costs more than what prepares it.
_MANY = 500


class Merged(NamedTuple):
    """What a merge did: whether the session has records, how many lines were added, and the part of
    the session that belongs to none of them (None: nothing of it)."""

    has_records: bool
    added: int
    rest: Session | None


class _Beginning(NamedTuple):
    """The call that began a record, and the subagent whose call it was."""

    call_id: str
    subagent: str | None


class SessionMerger:
    """Merges sessions into the records of one project.

    `newest` bounds how many records are searched for those of a session; None is all.
    """

    def __init__(self, project: Project, cache: ParseCache, *, newest: int | None = None) -> None:
        self._project, self._cache, self._newest = project, cache, newest
        self._index = Index(project.root)
        self._store = FileRecordStore(project.root, project.config.trail)

    def merge(self, session: Session, over: TurnOver | None = None) -> Merged:
        """Compare a session with its records and write what they lack, but for what a hook is about
        to report (`over`). Raises InvocationError, OSError."""
        # One process at a time merges into a project's records.
        wait = durable.LOCK_WAIT_SECONDS
        with durable.folder(self._project.root, layout.TRANSCRIPTS, create=True, wait=wait):
            printed = dict(self._list_begun(session))
            records = list(self._read_records(session, printed))
            self._bind_printed(session, records, printed)
            recorded = chain.from_iterable(record.lines for record in records)
            forget_told(session.events, recorded, of_main=False)
            events = [
                item
                for item in iter_events(session, self._project.root)
                if not item.event.payload.get("inferred")
            ]
            if over:
                events = _leave_to_hook(events, over)
            if not records:
                return Merged(False, 0, session)
            project = _prepare_masking(self._project) if len(events) > _MANY else self._project
            with ExitStack() as stack:
                writer = name_writer(session.harness, session.session_id)
                places = [self._index.resolve(record.invocation_id) for record in records]
                recorders = [
                    stack.enter_context(
                        closing(Recorder(project, place, cache=self._cache, writer=writer))
                    )
                    for place in places
                ]
                matched = self._match_unnamed(session, records, events, recorders)
                owned: dict[int | None, list[ReportedEvent]] = defaultdict(list)
                owners = assign_events(records, events, session.above, matched)
                begun = _find_beginnings(records, printed, matched)
                for item, owner in zip(events, owners, strict=True):
                    owned[owner].append(item)
                    also = begun.get(item.call_id)
                    if also and also.place != owner:
                        owned[also.place].append(item)
                free = owned.pop(None, [])
                failed, added = self._read_failures(session), 0
                for place, (record, recorder) in enumerate(zip(records, recorders, strict=True)):
                    own = {name: one for name, one in begun.items() if one.place == place}
                    compose = partial(_compose, recorder)
                    key_of = partial(dedupe_key, session.harness, session.session_id)
                    work = Comparison(record.lines, compose, key_of, {**matched, **own})
                    work.compare(record.list_new(owned[place]))
                    until = records[place + 1].began if records[place + 1 :] else inf
                    work.additions += _count_failures(record, until, failed)
                    added += _append(recorder, record, work)
        self.forget_orphans(session, chain.from_iterable(owned.values()))
        if not any(item.kind == "tool_call" for item in free):
            return Merged(True, added, None)
        rest = {item.place for item in free}
        left = tuple(item for at, item in enumerate(session.events) if at in rest)
        return Merged(True, added, session._replace(events=left))

    def merge_elsewhere(
        self, session: Session, home: str | None, over: TurnOver | None = None
    ) -> Merged:
        """Merge a session whose agent began its record in another worktree of the repository.

        Raises InvocationError, OSError.
        """
        for other in self._find_elsewhere(session.harness, session.session_id):
            there = SessionMerger(*load_project(other, home), newest=self._newest)
            merged = there.merge(session, over)
            if merged.has_records:
                self.forget_orphans(session, iter_events(session, self._project.root))
                return merged
        return Merged(False, 0, session)

    def _find_elsewhere(self, harness: str, session_id: str) -> Iterator[str]:
        """Yield the other worktrees in which a session was bound to a record."""
        for other in self._worktrees:
            if list_bindings(other, harness, session_id, None):
                yield other

    @cached_property
    def _worktrees(self) -> list[str]:
        """The other worktrees of the repository: doctor asks for each session."""
        return find_worktrees(self._project.root)

    def forget_orphans(self, session: Session, events: Iterable[ReportedEvent]) -> None:
        """Note which of the hooks' orphans are in records now. Raises OSError, InvocationError."""
        lines = logged(self._project.root, layout.ORPHANS)
        if not lines:
            return
        recorded = {dedupe_key(session.harness, session.session_id, item.event) for item in events}
        recorded -= read_adopted(lines)
        keys = [key for line in lines for key in list_keys(line) if key in recorded]
        note_adopted(self._project.root, keys)

    def has_records(self, session: Session) -> bool:
        """Return whether a record of a session is here and can be read."""
        return any(True for _ in self._read_records(session, dict(self._list_begun(session))))

    def _find_records(self, session: Session, printed: Iterable[str]) -> list[str]:
        """Return the ids of the records that hooks or a `do` began for a session, the oldest
        first."""
        begun, _ = self._sessions
        ids = {*begun.get(session.session_id, ()), *printed}
        agents = {item.payload.get("agent_id") for item in session.events}
        for agent in (None, *(agent for agent in agents if isinstance(agent, str))):
            bound = list_bindings(self._project.root, session.harness, session.session_id, agent)
            ids |= {binding.invocation_id for binding in bound}
        return sorted(ids)

    def is_known(self, harness: str, session_id: str) -> bool:
        """Return whether a session was bound to a record, also in another worktree, or the first
        line of one names it."""
        bound = list_bindings(self._project.root, harness, session_id, None)
        begun, imported = self._sessions
        return (
            bool(bound)
            or session_id in begun
            or session_id in imported
            or any(self._find_elsewhere(harness, session_id))
        )

    @cached_property
    def _sessions(self) -> tuple[dict[str, list[str]], set[str]]:
        """The sessions that records' first lines name: those that were begun here, each with its
        records, and those that were imported."""
        begun: dict[str, list[str]] = {}
        imported: set[str] = set()
        for number, key in enumerate(self._index.newest()):
            if self._newest is not None and number >= self._newest:
                break
            place = self._index.place(key)
            fields = read_fields(self._store.head(place)) if place else {}
            named = get_object(fields, "session").get("session_id")
            if "imported" in fields:
                imported.add(str(named))
            elif named is not None:
                begun.setdefault(str(named), []).append(key.invocation_id)
        return begun, imported

    def _list_begun(self, session: Session) -> Iterator[tuple[str, _Beginning]]:
        """Yield the records that a call of the session printed and that were begun while it ran,
        each with that call: anything may stand in an output."""
        began: dict[str, int] = {}
        for item in session.events:
            text = find_command(item.payload) or ""
            if "kitty" not in text and "specify_cli" not in text:
                continue  # to translate each costs a fifth of a merge
            call = translate(session.harness, item.payload)
            for event in call.events:
                if event.event == "tool_call":
                    began.setdefault(event.named_id, item.at)
            for printed in call.printed:
                call_id = call.events[0].named_id
                first = began.get(call_id, item.at)
                if first - 1000 <= millis_of(printed) <= max(item.at, first + _BEGUN_MILLIS):
                    yield printed, _Beginning(call_id, call.subagent)

    def _bind_printed(
        self,
        session: Session,
        records: Iterable[SessionRecord],
        printed: Mapping[str, _Beginning],
    ) -> None:
        """Bind the agents of a session to the records that their calls printed and that name no
        session, so that hooks which come late find them. Raises OSError, InvocationError."""
        root, harness, named = self._project.root, session.harness, session.session_id
        for record in records:
            name = record.invocation_id
            if name not in printed or record.lines[0].get("session") is not None:
                continue
            agent = printed[name].subagent
            bound = list_bindings(root, harness, named, agent)
            if all(binding.invocation_id != name for binding in bound):
                profile = self._index.resolve(name).profile_id
                bind(root, harness, named, agent, name, "transcript", profile)
                if bound and bound[0].invocation_id > name:
                    bind(root, harness, named, agent, *bound[0])

    def _read_records(self, session: Session, printed: Iterable[str]) -> Iterator[SessionRecord]:
        for invocation_id in self._find_records(session, printed):
            try:
                place = self._index.resolve(invocation_id)
                record = read_file(self._store.hold(place))
            except (InvocationError, OSError):
                continue
            if not record or record.started.get("tombstone") or not record.sealed:
                continue
            if "imported" in record.started or layout.is_imported(place.folder):
                continue
            named = get_object(record.started, "session")
            if named.get("harness", session.harness) != session.harness:
                continue
            closed = record.completed
            yield SessionRecord(
                invocation_id,
                millis_of(invocation_id),
                None if closed is None else parse_time(closed.get("completed_at")),
                named.get("agent_id"),
                [*fields_of(record), *annex_events(self._project.root, invocation_id)],
            )

    def _read_failures(self, session: Session) -> list[int]:
        """Return when (ms) hooks of a session failed."""
        root, git_dir = self._project.root, self._project.git_dir
        failures = list_failures(root, git_dir, session.harness, session.session_id)
        return [parse_time(at) for at in failures]

    def _match_unnamed(
        self,
        session: Session,
        records: Sequence[SessionRecord],
        events: Sequence[ReportedEvent],
        recorders: Sequence[Recorder],
    ) -> dict[str, Match]:
        """Return the calls that hooks named otherwise than the transcript does."""

        def sign(place: int, begin: HookEvent) -> tuple[object, ...]:
            line = _compose(recorders[place], begin).body
            number, mark, _ = begin.named_id.partition("~")
            given = {"call_id": number} if mark else {}
            name, _ = read_ids(given, begin.tool, begin.payload.get("args"))
            tool, _, bare = name.rpartition(":")
            keyed = key_stand_in(bare, session.session_id, self._project.git_dir)
            return sign_call(line), f"{tool}:{keyed}"

        other = find_dialect(session.harness).has_other_ids_in_transcript
        return match_unnamed(records, events, sign, has_other_ids=other)


def _find_beginnings(
    records: Sequence[SessionRecord],
    printed: Mapping[str, _Beginning],
    matched: Mapping[str, Match],
) -> dict[str, Match]:
    """Return, by the transcript's ids, the calls that began a record, as that record holds them.
    The record that was open before holds such a call as well.

    `printed` has, by the ids of records, the call that began each.
    """
    matches = {}
    for place, record in enumerate(records):
        if record.invocation_id not in printed:
            continue
        call_id = printed[record.invocation_id].call_id
        other = matched.get(call_id)
        name = str(other.lines[0].get("call_id")) if other else call_id
        lines = next(iter(group_calls(record.lines).get(name, ())), ())
        if any(line.get("event") == "tool_call" for line in lines):
            matches[call_id] = Match(place, lines)
    return matches


def _prepare_masking(project: Project) -> Project:
    """Return a project whose rules mask many texts at less cost."""
    config = project.config
    return project._replace(config=config._replace(redaction=sieved(config.redaction)))


def _compose(recorder: Recorder, event: HookEvent) -> Composed:
    try:
        return recorder.compose(event.event, event.payload)
    except InvocationError as error:
        return Composed(gap("not_recordable", event.event, message=error.message))


def _leave_to_hook(events: list[ReportedEvent], over: TurnOver) -> list[ReportedEvent]:
    """Return the events without those that the hook that called reports next."""
    answers = [item for item in events if item.kind == "turn" and item.agent is None]
    asked = max((item.at for item in events if item.kind == "prompt"), default=0)
    answer = answers[-1] if over.tells_turn and answers and answers[-1].at >= asked else None
    if answer:
        # a file that was doubled reports it twice
        events = [item for item in events if (item.at, item.event) != (answer.at, answer.event)]
    # A call that is under way is reported whole when it is over: a subagent's kind is known then,
    # too.
    ended = {item.call_id for item in events if item.kind == "tool_result"}
    return [
        item
        for item in events
        if not (over.is_closing and item.kind == "stage_transition")
        and (not over.tells_turn or not item.call_id or item.call_id in ended)
    ]


def _count_failures(
    record: SessionRecord, until: float, failed: Sequence[int]
) -> Iterator[Addition]:
    """Yield a gap for the calls of hooks that failed while a record was the newest one of its
    session, but for those that it counts already. `failed` are when hooks of the session did (ms).
    """
    number = sum(record.began <= at < until for at in failed)
    number -= sum(
        known
        for line in record.lines
        if line.get("reason") == "hook_failed" and isinstance(known := line.get("count"), int)
    )
    if number > 0:
        what = f"{count(number, 'call')} of hooks"
        yield Addition(Composed(gap("hook_failed", what, count=number)), None)


def _append(recorder: Recorder, record: SessionRecord, work: Comparison) -> int:
    additions = [
        addition
        for addition in work.additions
        if record.ended is None or addition.item.event in ANNEX_EVENTS
    ]
    added, summary = len(additions), work.describe()
    if not added and summary is None:
        return 0
    if summary is not None:
        additions.append(Addition(Composed(summary), None))
    lines, keys = zip(*additions, strict=True)
    if record.ended is None:
        recorder.append(lines, dedupe=keys, checkpoints=False)
    else:
        recorder.annex(lines)
    return added
