"""What a hook reports beyond an ordinary call: moments of a session, a `do` that begins, calls that
no record awaits."""

from __future__ import annotations

import os
import time
from contextlib import closing

from specify_cli.errors import InvocationError
from specify_cli.features.hooks.conversation.permission import follow_request
from specify_cli.features.hooks.conversation.subagents import follow_subagent, note_beginning
from specify_cli.features.hooks.conversation.take_in import take_in
from specify_cli.features.hooks.conversation.turn import (
    give_prompt,
    is_reported_again,
    record_moment,
    record_unknown,
)
from specify_cli.features.hooks.direct import append_directly
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.losses import keep_lost
from specify_cli.features.hooks.payload import values
from specify_cli.features.hooks.payload.calls import READING_TOOLS, begins_subagent
from specify_cli.features.hooks.payload.site import Site, place_events
from specify_cli.features.hooks.payload.transcript_end import find_in_transcript
from specify_cli.features.hooks.payload.values import HookInput
from specify_cli.features.hooks.search import (
    Late,
    Orphan,
    Recorded,
    append_call,
    find_begun,
    find_elsewhere,
    find_recorder,
    mark_call,
)
from specify_cli.features.hooks.worktree.gate import look_after, look_around
from specify_cli.invocation.bindings import opens_by_itself, unlink_below, write_small
from specify_cli.invocation.printing import forget_printed
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339


def record_session(at: Site, call: HookInput, failed: Exception | None, *, large: bool) -> None:
    """Record what a payload reports of a session, and its events, whose direct append may have been
    tried, and `failed`. Raises what a write raises."""
    if call.is_unknown:
        record_unknown(at, call)
    call = follow_request(at, call)
    if call.moment.kind and not is_reported_again(at, call):
        if call.moment.kind in ("started", "compacted") and call.subagent is None:
            forget_printed(at.root, at.harness, at.session)
        has_record = record_moment(at, call)
        begins = call.moment.kind == "prompt" and not has_record
        if (begins or call.moment.kind == "ended") and opens_by_itself(at.root, at.harness):
            # loads what opens and closes records
            from specify_cli.features.hooks.conversation import session_record

            if begins:
                session_record.begin_record(at, call)
            else:
                session_record.end_records(at, call)
    if not call.events:
        return
    mark: str | None = None
    if large:
        call = call._replace(deadline=time.monotonic() + values.REDACTION_SECONDS)
        mark = _mark_begin(at, call)
    placed = place_events(call, at)
    try:
        if failed is not None:
            raise failed
        _append(at, placed)
    except Exception as error:
        _append_otherwise(error, at, call, placed)
    if mark is not None:
        unlink_below(at.root, layout.BEGUN, mark)


def _append(at: Site, call: HookInput, *, asked: Site | None = None) -> None:
    """Append a payload's events to the record they belong to, and to one that begins the prompt
    that was `asked` where the session's program was started. Raises Orphan, Recorded, and what a
    write raises."""
    since = None
    if call.starts_record_command:
        since = mark_call(at, call)
        if find_dialect(at.harness).hides_output:
            call = call._replace(started_invocation=find_in_transcript(at.root, call))
        elif call.printed:
            call = call._replace(started_invocation=find_begun(at, call, since))
    elif call.events[0].event == "stage_transition":
        call = follow_subagent(at, call)
    elif begins_subagent(call.events[0].tool):
        note_beginning(at, call)
    if append_directly(at, call):
        return
    # The id that the agent just received outranks what was known before.
    with closing(find_recorder(at, call)) as recorder:
        begun = call.started_invocation == recorder.invocation_id
        if begun and call.subagent is None:
            give_prompt(asked or at, recorder)
        append_call(at, recorder, call)
        if begun and since is not None:
            take_in(recorder, at.harness, at.session, call.subagent, since)
        if begun:
            look_after(at, recorder)


def _append_otherwise(error: Exception, at: Site, unplaced: HookInput, placed: HookInput) -> None:
    """Record a call that found no record here in another worktree, or in one that begins with it;
    else keep it.

    `unplaced` is the call before its events were placed in this project.
    """
    is_of_it = isinstance(error, Late)
    other = find_elsewhere(at, unplaced) if isinstance(error, Orphan) and not is_of_it else None
    if other:
        there, begun = other
        call = unplaced._replace(started_invocation=begun, printed=())
        if begun is None and call.events[0].tool.lower() not in READING_TOOLS:
            look_around(there, call)
        try:
            _append(there, place_events(call, there), asked=at)
        except (Orphan, Recorded) as failure:
            keep_lost(at, placed, failure)
        return
    if isinstance(error, Orphan) and (is_of_it or opens_by_itself(at.root, at.harness)):
        # loads what opens records
        from specify_cli.features.hooks.conversation.session_record import begin_record, say_late

        if error.closed is not None and say_late(at, placed, error.closed, is_of_it=is_of_it):
            return
        if begin_record(at, placed):
            _append(at, placed)
            return
    keep_lost(at, placed, error)


def _mark_begin(at: Site, call: HookInput) -> str | None:
    """Leave a mark that a large payload is being masked: what a killed hook cannot say, doctor
    finds by it."""
    name = f"{os.getpid()}-{time.time_ns()}.json"
    began, event = rfc3339(time.time_ns() // 1_000_000), call.events[-1].event
    mark = {"at": began, "harness": at.harness[:64], "event": event}
    try:
        write_small(at.root, layout.BEGUN, name, mark)
    except (OSError, InvocationError):
        return None
    return name
