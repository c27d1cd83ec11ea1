"""What a session's transcript reports, as the events that hooks would have recorded, and the record
that each belongs to.

events = list(iter_events(session, root))
owners = assign_events(records, events, session.above, matched)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specify_cli.features.hooks.conversation.turn import tell_moment
from specify_cli.features.hooks.harnesses import find_dialect, translate
from specify_cli.features.hooks.payload.site import Site, place_events
from specify_cli.features.hooks.payload.turn_from_transcript import Turn
from specify_cli.features.hooks.payload.values import HookEvent, compose_approval
from specify_cli.features.sessions.reading import Session, TranscriptEvent
from specify_cli.features.sessions.reconciling import Match, ReportedEvent, SessionRecord


def iter_events(session: Session, root: str) -> Iterator[ReportedEvent]:
    """Yield the events that hooks would have recorded in the project at `root`; at the end a result
    for each call that has none."""
    unanswered = {}
    begun = set()
    for place, item in enumerate(session.events):
        for event in _translate(session, item, root):
            call_id = event.named_id
            if event.event == "tool_call":
                if call_id in begun:
                    continue  # the begin of a `do` is reported again with its result
                begun.add(call_id)
                unanswered[call_id] = event
            elif event.event == "tool_result":
                unanswered.pop(call_id, None)
            yield ReportedEvent(item.at, event, place, item.is_dated and item.at > 0)
    for call_id, call in unanswered.items():
        payload = {"call_id": call_id, "status": "unknown", "inferred": True}
        payload |= {name: call.payload[name] for name in ("tool", "agent") if name in call.payload}
        result = HookEvent("tool_result", payload, "post", call_id)
        yield ReportedEvent(item.at, result, place, item.is_dated and item.at > 0)


def _translate(session: Session, item: TranscriptEvent, root: str) -> Iterator[HookEvent]:
    call = translate(session.harness, item.payload)
    call = place_events(call, Site(root, None, session.harness, None, call.cwd or session.cwd))
    facts = item.facts or Turn(find_dialect(session.harness))
    yield from tell_moment(session.harness, call, facts)
    for event in call.events:
        if item.status == "denied" and event.event == "patch_apply":
            continue  # nothing was tried
        if item.status is None or event.event not in ("tool_result", "patch_apply"):
            yield event
            continue
        stated = (
            {"status": item.status} if event.event == "tool_result" else {"ok": item.status == "ok"}
        )
        yield event._replace(payload={**event.payload, **stated})
        if item.status == "denied":
            yield HookEvent("approval", compose_approval(event.payload), event.phase, event.call_id)


def assign_events(
    records: Sequence[SessionRecord],
    events: Sequence[ReportedEvent],
    above: Mapping[str, str],
    matched: Mapping[str, Match],
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
    } | {call_id: match.place for call_id, match in matched.items()}
    prompts = [item.at for item in events if item.kind == "prompt" and item.agent is None]
    begins = {item.call_id: item for item in events if item.kind == "tool_call"}
    places = []
    for item in events:
        place = holders.get(item.call_id)
        if place is None:
            place = _find_by_time(records, begins.get(item.call_id, item), prompts, above)
            if place is not None and item.call_id:
                holders[item.call_id] = place
        places.append(place)
    return places


def _find_by_time(
    records: Sequence[SessionRecord],
    item: ReportedEvent,
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
