"""Compare the events that a session's transcript reports with its records, call by call.  [pure]

    matched = match_unnamed(records, events, sign)
    work = Comparison(records[0].lines, compose, key_of, matched)
    work.compare([item for …])
    work.additions              # the lines that the record lacks

A call is known by the id its program gave it. Where the program's hooks name no calls, the call of
a tool with equal arguments is meant that is nearest, in its order. What a record holds is never
changed: a missing line is added, a result that said nothing is followed by one that does, and where
the two contradict each other a gap says both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter

from doctrine.light_imports import NamedTuple
from doctrine.text import get_object
from specify_cli.features.hooks.payload.calls import is_numbered
from specify_cli.features.hooks.payload.values import Fields, HookEvent
from specify_cli.features.sessions.reading import parse_time
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import erased_members

# A hook and a transcript report one moment within this time.
TOGETHER_MILLIS = 10_000
# What stands for an id where the hooks of a program name no call (docs/hooks.md).
_STANDS_IN = re.compile(r".*:[0-9a-f]{16}(?:[#@].*)?$", re.DOTALL)
_OF_A_CALL = ("tool_call", "tool_result", "patch_apply", "approval")
_UNSURE = (None, "unknown")


class ReportedEvent(NamedTuple):
    """One event that a transcript reports: when (ms) by its own claim, if it is dated, and the
    place of the entry of `Session.events` that it comes from."""

    at: int
    event: HookEvent
    place: int
    is_dated: bool

    @property
    def kind(self) -> str:
        return self.event.event

    @property
    def call_id(self) -> str:
        """Return the call it is of; empty for any other event."""
        if self.kind not in _OF_A_CALL:
            return ""
        return str(self.event.payload.get("call_id", self.event.call_id))

    @property
    def agent(self) -> object:
        return self.event.payload.get("agent")


class SessionRecord(NamedTuple):
    """A record of a session: its lines and annexes, when (ms) it began and was closed, and the
    subagent that began it."""

    invocation_id: str
    began: int
    ended: int | None
    agent: object
    lines: Sequence[Fields]

    def list_new(self, events: Iterable[ReportedEvent]) -> list[ReportedEvent]:
        """Return the events that may be compared with this record: of a kind of which something was
        erased, only those from after that. What has gone is compared with nothing, and would come
        back from the transcript. The lines of a call are of one kind."""
        lost = {_name_kind(line.get("event")) for line in self.lines if erased_members(line)}
        orders = [parse_time(line.get("at")) for line in _list_of(self.lines, "erased")]
        until = max(orders, default=0)
        return [
            item
            for item in events
            if _name_kind(item.kind) not in lost or (item.is_dated and item.at > until)
        ]


def _name_kind(event: object) -> object:
    return "call" if event in _OF_A_CALL else event


class Addition(NamedTuple):
    """A line that a record lacks, and the key that distinguishes it from others like it."""

    item: Composed
    key: str | None


class Match(NamedTuple):
    """A call that hooks name otherwise than the transcript: the place of its record, its lines."""

    place: int
    lines: Sequence[Fields]


def match_unnamed(
    records: Sequence[SessionRecord],
    events: Sequence[ReportedEvent],
    sign: Callable[[int, HookEvent], Sequence[object]],
    *,
    has_other_ids: bool,
) -> dict[str, Match]:
    """Return, by the transcript's ids, the calls that a record holds under another one.

    `sign` returns for the begin of a call what its line holds in the record at a place, as
    `sign_call` has it, and the id that stands in for it. With `has_other_ids` the program
    gives its hooks other ids of calls than its transcript.

    Of equal calls those of one agent, and the nearest in time, are matched with one another: those
    that ended alike where all did, else in their order, as hooks and transcript report a call at
    other moments. A call from before all `events` matches none of them: only a part of the
    transcript was read.
    """
    calls = _group_by_call(events)
    ids = set(calls)
    first = min((item.at if item.is_dated else 0 for item in events), default=0)
    unnamed: dict[tuple[int, object], list[Match]] = defaultdict(list)
    for place, record in enumerate(records):
        for call_id, equal in group_calls(record.lines).items():
            if call_id in ids:
                calls.pop(call_id, None)
                continue
            for of in equal:
                is_known = not has_other_ids and _is_named(call_id, of)
                if not is_known and _is_reported_by_hooks(of) and _read_time(of) >= first:
                    unnamed[place, _sign_lines(call_id, of)].append(Match(place, of))
    near = []
    places = {place for place, _ in unnamed}
    for number, (call_id, items) in enumerate(calls.items()):
        begin, result = _find_event(items, "tool_call"), _find_event(items, "tool_result")
        if not begin:
            continue
        end = (_sign_end(result.event.payload),) if result else ()
        for place in places:
            for one in (*sign(place, begin.event), *end):
                for at, match in enumerate(unnamed.get((place, one), ())):
                    same = begin if _find(match.lines, "tool_call") else result or begin
                    away = abs(_read_time(match.lines) - same.at) if same.is_dated else 0
                    is_other = match.lines[0].get("agent") != same.agent
                    near.append((is_other, away, number, at, one, call_id, match))
    matches: dict[str, Match] = {}
    claimed = set()
    equal_calls: dict[object, list[tuple[int, str]]] = defaultdict(list)
    for _, _, number, _, one, call_id, match in sorted(near, key=lambda pair: pair[:4]):
        if call_id not in matches and id(match.lines) not in claimed:
            matches[call_id] = match
            claimed.add(id(match.lines))
            equal_calls[one].append((number, call_id))
    for numbered in equal_calls.values():
        told = {one: calls[one] for _, one in sorted(numbered)}
        matches |= _keep_order(told, [matches[one] for one in told])
    return matches


def _is_named(call_id: str, lines: Sequence[Fields]) -> bool:
    """Return whether a call of a record has the id that a transcript gives it.

    That of one whose end no hook reported, though a transcript may have since, can be another: a
    program can name a call it refused otherwise than one that ran.
    """
    # Records of versions before this one have a model's numbers, too.
    is_own = _STANDS_IN.match(call_id) or is_numbered(call_id, str(lines[0].get("tool")))
    return not is_own and any(
        line.get("status") not in _UNSURE and line.get("witness") != "transcript"
        for line in _list_of(lines, "tool_result")
    )


def _keep_order(
    calls: Mapping[str, Iterable[ReportedEvent]], there: Iterable[Match]
) -> Iterable[tuple[str, Match]]:
    """Return equal calls of a transcript, by their ids in their order, each with a record's that
    has its place; where as many ended in each way, among those that ended so."""
    ends = {name: _describe_end(one.event.payload for one in calls[name]) for name in calls}
    names, there = list(ends), sorted(there, key=lambda match: _read_time(match.lines))
    if sorted(ends.values()) == sorted(_describe_end(match.lines) for match in there):
        names.sort(key=ends.__getitem__)
        there.sort(key=lambda match: _describe_end(match.lines))
    return zip(names, there, strict=True)


def group_calls(lines: Iterable[Fields]) -> dict[str, list[list[Fields]]]:
    """Return the lines of calls by their ids. Equal calls that stand-ins name have one id: each
    that begins is a call of its own."""
    calls: dict[str, list[list[Fields]]] = defaultdict(list)
    for line in lines:
        if line.get("event") in _OF_A_CALL:
            equal = calls[str(line.get("call_id"))]
            if not equal or (line.get("event") == "tool_call" and _find(equal[-1], "tool_call")):
                equal.append([])
            equal[-1].append(line)
    return calls


def _is_reported_by_hooks(lines: Iterable[Fields]) -> bool:
    """Return whether a hook reported a call: else its id is the transcript's."""
    return any(line.get("witness") != "transcript" for line in lines)


def _read_time(lines: Sequence[Fields]) -> int:
    return parse_time(lines[0].get("at"))


def _sign_lines(call_id: str, lines: Sequence[Fields]) -> object:
    """Return what is equal in a call's lines and what `sign` says of it; where its begin was lost,
    the id that stands in for it, else its tool and status."""
    begin, result = _find(lines, "tool_call"), _find(lines, "tool_result")
    if begin is not None:
        return sign_call(begin)
    if result is None or _STANDS_IN.match(call_id):
        return call_id.partition("#")[0]
    return _sign_end(result)


def _describe_end(lines: Iterable[Fields]) -> tuple[str, ...]:
    """Return the agents of lines of a call, and the statuses that they state."""
    told = [(line.get("agent"), line.get("status")) for line in lines]
    return tuple(sorted(str(one) for one in told if one[1] not in _UNSURE))


def _sign_end(fields: Fields) -> tuple[object, ...]:
    return fields.get("tool"), fields.get("status")


class Comparison:
    """A record and what a transcript reports of it, to be compared once.

    Then `additions` are the lines that the record lacks, and `counts` are of calls, those of
    `filled` of results and turns. `compose` makes the line of an event as this record stores it;
    `key_of` gives its dedupe key. Only what is added or has no id is composed: masking a text is
    what costs time here.
    """

    def __init__(
        self,
        lines: Sequence[Fields],
        compose: Callable[[HookEvent], Composed],
        key_of: Callable[[HookEvent], str | None],
        matched: Mapping[str, Match],
    ) -> None:
        self._compose, self._key_of, self._matched = compose, key_of, matched
        self._calls = group_calls(lines)
        self._moments = [line for line in lines if line.get("event") not in _OF_A_CALL]
        before = _list_of(self._moments, "reconciled")
        # until when all is compared
        self._since = max((parse_time(line.get("until")) for line in before), default=0)
        named = (str(seqs) for line in before for seqs in get_object(line, "agents").values())
        self._named = set(" ".join(named).split())
        self._agents: dict[str, str] = defaultdict(str)
        self._recorded_gaps = {
            str(line.get("what")) for line in lines if line.get("reason") == "contradiction"
        }
        # of the events that are of no call, by their identity, and the digests of their words
        self._bodies: dict[int, Fields] = {}
        self._words: set[object] = set()
        self.additions: list[Addition] = []
        self.counts = dict.fromkeys(("calls", "confirmed", "added", "filled", "contradicted"), 0)

    def compare(self, events: Sequence[ReportedEvent]) -> None:
        """Find what the record lacks of these events, in their order."""
        calls = _group_by_call(events)
        self._bodies = {
            id(item): self._compose(item.event).body
            for item in events
            if not item.call_id and item.kind != "stage_transition"
        }
        self._words = {body.get("text_hash") for body in self._bodies.values()} - {None}
        seen = set()
        for item in events:
            if not item.call_id:
                # A file that was doubled reports each event twice, at the same time.
                moment = (item.at, item.kind, repr(item.event.payload))
                if moment not in seen:
                    self._take_moment(item)
                seen.add(moment)
            elif item is calls[item.call_id][0]:
                self._take_call(item.call_id, calls[item.call_id])
        self._since = max([self._since, *(item.at for item in events)])

    def describe(self) -> dict[str, object] | None:
        """Return the body of the line `reconciled`; None where the additions say it all."""
        if not any(self.counts[name] for name in ("calls", "filled", "contradicted")):
            return None
        until = rfc3339(self._since)
        body = {"event": "reconciled", "witness": "transcript", "until": until, **self.counts}
        return {**body, "agents": self._agents} if self._agents else body

    def _take_call(self, call_id: str, events: list[ReportedEvent]) -> None:
        """Compare one call: its begin, its result, the files it changed."""
        begin = _find_event(events, "tool_call")
        is_new = events[0].at > self._since
        known: Sequence[Fields] | None = next(iter(self._calls.get(call_id, ())), None)
        if known is None and call_id in self._matched:
            known = self._matched[call_id].lines
            call_id = str(known[0].get("call_id"))
        if known is None or not _is_reported_by_hooks(known):
            before = len(self.additions)
            recorded = {(line.get("event"), line.get("path")) for line in known or ()}
            for item in events:
                if (item.kind, item.event.path) not in recorded:
                    self._add(item, call_id)
            is_added = known is None and len(self.additions) > before
            self.counts["added"] += is_added
            self.counts["calls"] += is_added or is_new
            return
        self.counts["calls"] += is_new
        self.counts["confirmed"] += is_new
        if begin and _find(known, "tool_call") is None:
            self._add(begin, call_id)
            self.counts["filled"] += 1
        self._compare_results(call_id, known, events)
        if begin and begin.agent:
            agent = str(self._compose(begin.event).body.get("agent"))
            # Lines of annexes, which have a seal here, have no number of their own.
            bare = {str(line.get("~") or line["seq"]) for line in known if "agent" not in line}
            for name in sorted(bare - self._named, key=lambda name: (len(name), name)):
                self._agents[agent] += f" {name}"
                self.counts["filled"] += 1
        paths = {line.get("path") for line in _list_of(known, "patch_apply")}
        for item in events:
            if item.kind == "patch_apply" and item.event.path not in paths:
                self._add(item, call_id)
                self.counts["filled"] += 1

    def _compare_results(
        self, call_id: str, known: Sequence[Fields], events: list[ReportedEvent]
    ) -> None:
        results = _list_of(known, "tool_result")
        sure = [line["status"] for line in results if line.get("status") not in _UNSURE]
        ends = [item for item in events if item.kind == "tool_result"]
        for item in ends[-1:]:
            status = item.event.status
            if not results or (not sure and status not in _UNSURE):
                if any("output_hash" in line for line in results):
                    payload = {**item.event.payload}
                    payload.pop("output", None)
                    item = item._replace(event=item.event._replace(payload=payload))
                # One that was inferred has a key of its own: the hook's may still come.
                is_more = any(line.get("inferred") is not True for line in results)
                self._add(item, call_id, is_more=is_more)
                self.counts["filled"] += 1
                for denial in events:
                    if denial.kind == "approval":
                        self._add(denial, call_id)
            elif (
                sure
                and status not in (*_UNSURE, sure[-1])
                and (what := f"tool_result {call_id}"[:512]) not in self._recorded_gaps
            ):
                message = f"the record says {sure[-1]}, the transcript {status}"
                body = gap("contradiction", what, message=message)
                self.additions.append(Addition(Composed(body), None))
                self.counts["contradicted"] += 1

    def _take_moment(self, item: ReportedEvent) -> None:
        """Compare a prompt, the end of a turn, an error, a change of the session."""
        if item.kind == "stage_transition":
            key, stated = self._key_of(item.event), rfc3339(item.at)
            if not any(  # an annex has no key
                line.get("dedupe") == key if "dedupe" in line else line.get("claimed_at") == stated
                for line in _list_of(self._moments, "stage_transition")
                if line.get("agent") == item.agent
            ):
                self._add(item)
            return
        same = self._find_moment(self._bodies[id(item)], item)
        if same is None:
            self._add(item)
            return
        self._moments.remove(same)
        again = [line for line in self._moments if _fills(line, item)]
        missing = {
            name: value
            for name, value in item.event.payload.items()
            if name in ("model", "tokens", "requests", "cost")
            and not any(name in line for line in (same, *again))
        }
        if item.kind == "turn" and "tokens" in missing:
            missing |= {"agent": item.agent} if item.agent is not None else {}
            self._add(item._replace(event=item.event._replace(payload=missing)))
            self.counts["filled"] += 1

    def _find_moment(self, body: Fields, item: ReportedEvent) -> Fields | None:
        """Return the line that reports a moment: one with its words, before one that is only near
        and has the words of no other; of a turn that ended without words only one that used as
        much."""
        text, at = body.get("text_hash"), item.at if item.is_dated else None
        lines = [line for line in self._moments if _is_same_moment(line, body, at)]
        if item.kind == "turn" and "text" not in item.event.payload:
            used = [line for line in lines if line.get("tokens") == body.get("tokens")]
            lines = used or self._list_next(item)
        equal = (line for line in lines if text is not None and line.get("text_hash") == text)
        near = (line for line in lines if line.get("text_hash") not in self._words)
        return next(equal, next(near, None))

    def _list_next(self, item: ReportedEvent) -> list[Fields]:
        """Return the turn that was recorded next, if nothing was asked before it: the transcript
        was cut in the middle of it."""
        later = (
            (parse_time(line.get("claimed_at", line.get("at"))), line)
            for line in self._moments
            if line.get("event") in ("prompt", "turn") and line.get("agent") == item.agent
        )
        _, line = min(
            (one for one in later if one[0] >= item.at), key=itemgetter(0), default=(0, {})
        )
        return [line] if line.get("event") == "turn" else []

    def _add(self, item: ReportedEvent, call_id: str = "", *, is_more: bool = False) -> None:
        """Add a line; with `is_more` the record holds one of the same event and call, whose key it
        must not have."""
        event = item.event
        if call_id and event.payload.get("call_id") != call_id:
            event = event._replace(payload={**event.payload, "call_id": call_id})
        done = self._compose(event)
        marks = {"witness": "transcript"}
        marks |= {"claimed_at": rfc3339(item.at)} if item.is_dated else {}
        key = None if is_more else self._key_of(event)
        self.additions.append(Addition(done._replace(body={**done.body, **marks}), key))


def _group_by_call(events: Iterable[ReportedEvent]) -> dict[str, list[ReportedEvent]]:
    """Return the events of calls by the ids that the transcript gives them."""
    calls: dict[str, list[ReportedEvent]] = defaultdict(list)
    for item in events:
        if item.call_id:
            calls[item.call_id].append(item)
    return calls


def _find_event(events: Iterable[ReportedEvent], event: str) -> ReportedEvent | None:
    return next((item for item in events if item.kind == event), None)


def _list_of(lines: Iterable[Fields], event: str) -> list[Fields]:
    """Return the lines that are of this event."""
    return [line for line in lines if line.get("event") == event]


def _find(lines: Iterable[Fields], event: str) -> Fields | None:
    return next(iter(_list_of(lines, event)), None)


def sign_call(line: Fields) -> tuple[object, ...]:
    """Return what is equal in a call's line and in that of the same call from a transcript."""
    return line.get("tool"), line.get("args_hash"), line.get("args_size")


def _fills(line: Fields, item: ReportedEvent) -> bool:
    """Return whether a line reports what a line before it lacks of a moment: one at its time, or
    with its tokens where no time is stated."""
    if item.is_dated:
        return line.get("claimed_at") == rfc3339(item.at)
    is_without_words = line.get("witness") == "transcript" and "text_hash" not in line
    return is_without_words and line.get("tokens") == item.event.payload.get("tokens")


def _is_same_moment(line: Fields, body: Fields, at: int | None) -> bool:
    """Return whether a line reports the moment that a transcript reports at a time (ms); where that
    states none, by its words alone."""
    if line.get("event") != body.get("event") or line.get("agent") != body.get("agent"):
        return False
    if line.get("event") == "session_change" and line.get("change") != body.get("change"):
        return False
    if "claimed_at" in line and at is not None:
        return parse_time(line["claimed_at"]) == at
    stated = [fields.get("text_hash") for fields in (line, body)]
    if None not in stated and stated[0] == stated[1]:
        return True
    near = at is not None and abs(parse_time(line.get("at")) - at) <= TOGETHER_MILLIS
    return near and (line.get("event") != "prompt" or None in stated)
