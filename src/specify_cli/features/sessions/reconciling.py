"""Hold what the transcript of a session tells against what its records hold, call by call.  [pure]

    owners = assign_events(records, told, session.above)
    outcome = compare_record(records[0].lines, [item for item in told if …], compose, key_of)
    outcome.additions           # the lines that the record lacks

A call is known by the id its program gave it. Where the program's hooks name no calls, the nth call
of a tool with equal arguments is the nth that the transcript tells. What a record holds is never
changed: a missing line is added, a result that said nothing is followed by one that does, and where
the two contradict each other a gap says both.
"""

from __future__ import annotations

import re
from collections import defaultdict

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.features.sessions.reading import parse_time
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.record.ids import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from specify_cli.features.hooks.payload.values import HookEvent

    Fields = Mapping[str, object]

# A moment is told by a hook and by a transcript within this time.
_TOGETHER_MILLIS = 10_000
# What stands for an id where the hooks of a program name no call (docs/hooks.md).
_STANDS_IN = re.compile(r".*:[0-9a-f]{16}(?:[#@].*)?$", re.DOTALL)
_OF_A_CALL = ("tool_call", "tool_result", "patch_apply", "approval")
_UNSURE = (None, "unknown")


class Told(NamedTuple):
    """One event that a transcript tells: when (ms) by its own claim, if it is dated, and the place
    of the entry of `Session.events` that it comes from."""

    at: int
    event: HookEvent
    place: int
    is_dated: bool = True

    @property
    def call_id(self) -> str:
        """Return the call it is of; empty for any other event."""
        if self.event.event not in _OF_A_CALL:
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


class Addition(NamedTuple):
    """A line that a record lacks, and what tells it from others like it."""

    item: Composed
    key: str | None


class Outcome(NamedTuple):
    """What comparing a record with a transcript gives. The counts are of calls, those of `filled`
    of results and turns."""

    additions: tuple[Addition, ...]
    counts: Mapping[str, int]
    until: int

    @property
    def is_worth_a_line(self) -> bool:
        """Return whether it says more than what is added."""
        return any(self.counts[name] for name in ("calls", "filled", "contradicted"))

    def describe(self) -> dict[str, object]:
        """Return the body of the line `reconciled`."""
        return {
            "event": "reconciled",
            "witness": "transcript",
            "until": rfc3339(self.until),
            **self.counts,
        }


def assign_events(
    records: Sequence[SessionRecord], told: Sequence[Told], above: Mapping[str, str]
) -> list[int | None]:
    """Return for each event the place of the record it belongs to; None where none is of its turn.

    `above` names for each subagent the one that began it, where that is one.

    A call that a record holds is that record's. Another event belongs to the newest record that was
    open then; else to the next one that began in the same turn; else to the one that was closed in
    it. A call goes whole where it begins.
    """
    holders = {
        call_id: place
        for place, record in reversed(list(enumerate(records)))
        for line in record.lines
        if isinstance(call_id := line.get("call_id"), str)
    }
    prompts = [item.at for item in told if item.event.event == "prompt" and item.agent is None]
    found: list[int | None] = []
    for item in told:
        place = holders.get(item.call_id)
        if place is None:
            place = _find_by_time(records, item, prompts, above)
            if place is not None and item.call_id:
                holders[item.call_id] = place
        found.append(place)
    return found


def _find_by_time(
    records: Sequence[SessionRecord],
    item: Told,
    prompts: Sequence[int],
    above: Mapping[str, str],
) -> int | None:
    def is_asked_between(first: int, last: int) -> bool:
        return any(first < at <= last for at in prompts)

    line = [item.agent]
    while (agent := above.get(str(line[-1]))) is not None and agent not in line:
        line.append(agent)
    if item.agent is not None:
        line.append(None)
    own = [(place, record) for place, record in enumerate(records) if record.agent in line]
    open_then = [
        (-line.index(record.agent), record.began, -place)
        for place, record in own
        if record.began <= item.at and (record.ended is None or item.at <= record.ended)
    ]
    if open_then:
        return -max(open_then)[2]
    main = [(place, record) for place, record in own if record.agent is None]
    later = [(record.began, place) for place, record in main if record.began > item.at]
    began, following = min(later, default=(0, None))
    if following is not None and not is_asked_between(item.at, began):
        return following
    closed = [
        (record.ended, -place) for place, record in main if record.ended and record.ended < item.at
    ]
    ended, last = max(closed, default=(0, None))
    return None if last is None or is_asked_between(ended, item.at) else -last


def compare_record(
    lines: Sequence[Fields],
    told: Sequence[Told],
    compose: Callable[[HookEvent], Composed],
    key_of: Callable[[HookEvent], str | None],
    *,
    has_other_ids: bool = False,
) -> Outcome:
    """Return what a record lacks of what a transcript tells of it, in the order it is told.

    With `has_other_ids` the program tells its hooks other ids of calls than its transcript.

    `compose` makes the line of an event as this record keeps it; `key_of` gives its dedupe key.
    Only what is added or has no id is composed: masking a text is what costs time here.
    """
    calls: dict[str, list[Told]] = defaultdict(list)
    for item in told:
        if item.call_id:
            calls[item.call_id].append(item)
    work = _Comparison(lines, compose, key_of, calls.keys(), has_other_ids=has_other_ids)
    seen: set[tuple[int, str, str]] = set()
    for item in told:
        if not item.call_id:
            # A file that was doubled tells everything twice, at the same time.
            moment = (item.at, item.event.event, repr(item.event.payload))
            if moment not in seen:
                work.take_moment(item)
            seen.add(moment)
        elif item is calls[item.call_id][0]:
            work.take_call(item.call_id, calls[item.call_id])
    return work.finish(max((item.at for item in told), default=0))


class _Comparison:
    """A record and what a transcript tells of it, while they are compared."""

    def __init__(
        self,
        lines: Sequence[Fields],
        compose: Callable[[HookEvent], Composed],
        key_of: Callable[[HookEvent], str | None],
        told_ids: Collection[str],
        *,
        has_other_ids: bool,
    ) -> None:
        """`told_ids` are the calls that the transcript names."""
        self._compose, self._key_of = compose, key_of
        # Equal calls that stand-ins name have one id: each that begins is a call of its own.
        self._calls: dict[str, list[list[Fields]]] = defaultdict(list)
        self._moments: list[Fields] = []
        self._since = 0
        for line in lines:
            if line.get("event") in _OF_A_CALL:
                equal = self._calls[str(line.get("call_id"))]
                if not equal or (
                    line.get("event") == "tool_call" and _find(equal[-1], "tool_call")
                ):
                    equal.append([])
                equal[-1].append(line)
            elif line.get("event") == "reconciled":
                self._since = max(self._since, parse_time(line.get("until")))
            else:
                self._moments.append(line)
        # The calls whose ids the transcript does not know, by tool and arguments; where their
        # begin was lost, by tool and status. Among them are those of which no hook told an end,
        # though a transcript may have since: a program can name what it refused otherwise than
        # what ran.
        self._unnamed: dict[tuple[object, ...], list[list[Fields]]] = defaultdict(list)
        for call_id, equal in self._calls.items():
            is_named = not has_other_ids and _STANDS_IN.match(call_id) is None
            for of in equal:
                if call_id in told_ids or (is_named and _has_ended(of)):
                    continue
                if all(line.get("witness") == "transcript" for line in of):
                    continue  # its id is the transcript's
                if begin := _find(of, "tool_call"):
                    self._unnamed[_sign(begin)].append(of)
                elif result := _find(of, "tool_result"):
                    self._unnamed[result.get("tool"), result.get("status")].append(of)
        self._told_gaps = {
            str(line.get("what")) for line in lines if line.get("reason") == "contradiction"
        }
        self._additions: list[Addition] = []
        self._counts = dict.fromkeys(("calls", "confirmed", "added", "filled", "contradicted"), 0)

    def take_call(self, call_id: str, told: list[Told]) -> None:
        """Compare one call: its begin, its result, the files it changed."""
        begin = next((item for item in told if item.event.event == "tool_call"), None)
        is_new = told[0].at > self._since
        known = next(iter(self._calls.get(call_id, ())), None)
        if known is None and begin is not None and self._unnamed:
            known = self._find_unnamed(begin, told)
            call_id = call_id if known is None else str(known[0].get("call_id"))
        if known is None or all(line.get("witness") == "transcript" for line in known):
            before = len(self._additions)
            held = {(line.get("event"), line.get("path")) for line in known or ()}
            for item in told:
                event = item.event.event
                if (event, item.event.payload.get("path")) not in held:
                    self._add(item, call_id)
            is_added = known is None and len(self._additions) > before
            self._counts["added"] += is_added
            self._counts["calls"] += is_added or is_new
            return
        self._counts["calls"] += is_new
        self._counts["confirmed"] += is_new
        if begin is not None and _find(known, "tool_call") is None:
            self._add(begin, call_id)
            self._counts["filled"] += 1
        self._compare_results(call_id, known, told)
        paths = {line.get("path") for line in known if line.get("event") == "patch_apply"}
        for item in told:
            if item.event.event == "patch_apply" and item.event.payload.get("path") not in paths:
                self._add(item, call_id)
                self._counts["filled"] += 1

    def _find_unnamed(self, begin: Told, told: list[Told]) -> list[Fields] | None:
        """Return the first call with these arguments that no other was taken for."""
        statuses = (
            item.event.payload.get("status") for item in told if item.event.event == "tool_result"
        )
        tool = begin.event.payload.get("tool")
        signs = (_sign(self._compose(begin.event).body), (tool, next(statuses, None)))
        for equal in (self._unnamed.get(sign) for sign in signs):
            if equal:
                return equal.pop(0)
        return None

    def _compare_results(self, call_id: str, known: list[Fields], told: list[Told]) -> None:
        results = [line for line in known if line.get("event") == "tool_result"]
        sure = [line["status"] for line in results if line.get("status") not in _UNSURE]
        ends = [item for item in told if item.event.event == "tool_result"]
        for item in ends[-1:]:
            status = item.event.payload.get("status")
            if not results or (not sure and status not in _UNSURE):
                if any("output_hash" in line for line in results):
                    payload = {**item.event.payload}
                    payload.pop("output", None)
                    item = item._replace(event=item.event._replace(payload=payload))
                # One that was inferred has a key of its own: the hook's may still come.
                is_more = any(line.get("inferred") is not True for line in results)
                self._add(item, call_id, is_more=is_more)
                self._counts["filled"] += 1
                for denial in told:
                    if denial.event.event == "approval":
                        self._add(denial, call_id)
            elif sure and status not in (*_UNSURE, sure[-1]):
                self._contradict(f"tool_result {call_id}"[:512], f"{sure[-1]}", f"{status}")

    def _contradict(self, what: str, recorded: str, told: str) -> None:
        if what not in self._told_gaps:
            message = f"the record says {recorded}, the transcript {told}"
            body = gap("contradiction", what, message=message)
            self._additions.append(Addition(Composed(body), None))
            self._counts["contradicted"] += 1

    def take_moment(self, item: Told) -> None:
        """Compare a prompt, the end of a turn, an error, a change of the session."""
        event = item.event.event
        if event == "stage_transition":
            key, stated = self._key_of(item.event), rfc3339(item.at)
            if not any(_is_same_stage(line, item.agent, key, stated) for line in self._moments):
                self._add(item)
            return
        body = self._compose(item.event).body
        same = self._find_moment(body, item)
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
        if event == "turn" and "tokens" in missing:
            missing |= {"agent": item.agent} if item.agent is not None else {}
            self._add(item._replace(event=item.event._replace(payload=missing)))
            self._counts["filled"] += 1

    def _find_moment(self, body: Fields, item: Told) -> Fields | None:
        """Return the line that tells a moment: one with its words, before one that is only near; of
        a turn that ended without words only one that used as much."""
        text, at = body.get("text_hash"), item.at if item.is_dated else None
        lines = [line for line in self._moments if _is_same_moment(line, body, at)]
        if item.event.event == "turn" and "text" not in item.event.payload:
            lines = [line for line in lines if line.get("tokens") == body.get("tokens")]
        equal = (line for line in lines if text is not None and line.get("text_hash") == text)
        return next(equal, next(iter(lines), None))

    def _add(self, item: Told, call_id: str = "", *, is_more: bool = False) -> None:
        """Add a line; with `is_more` the record holds one of the same event and call, whose key it
        must not have."""
        event = item.event
        if call_id and event.payload.get("call_id") != call_id:
            event = event._replace(payload={**event.payload, "call_id": call_id})
        done = self._compose(event)
        marks = {"witness": "transcript"}
        marks |= {"claimed_at": rfc3339(item.at)} if item.is_dated else {}
        key = None if is_more else self._key_of(event)
        self._additions.append(Addition(done._replace(body={**done.body, **marks}), key))

    def finish(self, until: int) -> Outcome:
        return Outcome(tuple(self._additions), self._counts, max(until, self._since))


def _find(lines: Iterable[Fields], event: str) -> Fields | None:
    return next((line for line in lines if line.get("event") == event), None)


def _has_ended(lines: Iterable[Fields]) -> bool:
    """Return whether a hook's line of a call says how it ended."""
    return any(
        line.get("event") == "tool_result"
        and line.get("status") not in _UNSURE
        and line.get("witness") != "transcript"
        for line in lines
    )


def _sign(line: Fields) -> tuple[object, ...]:
    """Return what is equal in a call's line and in that of the same call from a transcript."""
    return line.get("tool"), line.get("args_hash"), line.get("args_size")


def _is_same_stage(line: Fields, agent: object, key: str | None, stated: str) -> bool:
    """Return whether a line says that the same subagent began or ended: an annex has no key."""
    if line.get("event") != "stage_transition" or line.get("agent") != agent:
        return False
    return line.get("dedupe") == key if "dedupe" in line else line.get("claimed_at") == stated


def _fills(line: Fields, item: Told) -> bool:
    """Return whether a line tells what a line before it lacks of a moment: one at its time, or with
    its tokens where no time is stated."""
    if item.is_dated:
        return line.get("claimed_at") == rfc3339(item.at)
    is_without_words = line.get("witness") == "transcript" and "text_hash" not in line
    return is_without_words and line.get("tokens") == item.event.payload.get("tokens")


def _is_same_moment(line: Fields, body: Fields, at: int | None) -> bool:
    """Return whether a line tells the moment that a transcript tells at a time (ms); where that
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
    near = at is not None and abs(parse_time(line.get("at")) - at) <= _TOGETHER_MILLIS
    return near and (line.get("event") != "prompt" or None in stated)
