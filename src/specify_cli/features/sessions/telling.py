"""What a session's transcript reports, as the events that hooks would have recorded.

for item in iter_events(session, root):
    print(item.at, item.event.event)
"""

from __future__ import annotations

from collections.abc import Iterator

from specify_cli.features.hooks.conversation.turn import tell_moment
from specify_cli.features.hooks.harnesses import find_dialect, translate
from specify_cli.features.hooks.payload.site import Site, place_events
from specify_cli.features.hooks.payload.turn_from_transcript import Turn
from specify_cli.features.hooks.payload.values import HookEvent, compose_approval
from specify_cli.features.sessions.reading import Session, TranscriptEvent
from specify_cli.features.sessions.reconciling import ReportedEvent


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
