"""Calls of a turn that were reported before its `do` began a record: orphans until then."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing

from specify_cli.errors import InvocationError
from specify_cli.features.hooks.conversation.turn import give_prompt, read_prompt_time
from specify_cli.features.hooks.direct import name_writer
from specify_cli.features.hooks.losses import LogLine, log_line, logged
from specify_cli.features.hooks.payload.site import Site
from specify_cli.invocation.bindings import calls_folder, list_marks
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.redaction.redact import redact
from specify_cli.storage.index import Index

# Hooks of calls made together start within this time of each other, also on a busy machine.
_TOGETHER_MILLIS = 5000


def take_in_calls(
    start: str, home: str | None, session: Mapping[str, str], invocation_id: str
) -> None:
    """Give a record that this session's `do` has just begun the calls reported together with it,
    and before them the prompt that they followed; never raises."""
    harness, named, agent = session["harness"], session["session_id"], session.get("agent_id")
    try:
        project, cache = load_project(start, home)
        marks = list_marks(project.root, calls_folder(harness, named))
        since = max((mark.since for mark in marks if mark.agent_id == agent), default=None)
        if since is None:
            return
        writer = name_writer(harness, named)
        place = Index(project.root).resolve(invocation_id)
        with closing(Recorder(project, place, cache=cache, writer=writer)) as recorder:
            if agent is None:
                at = Site(project.root, project.git_dir, harness, home, start, session=named)
                give_prompt(at, recorder)
            take_in(recorder, harness, named, agent, since)
    except (OSError, InvocationError):
        return  # they stay orphans, which doctor counts


def take_in(recorder: Recorder, harness: str, session: str, agent: str | None, since: int) -> None:
    """Append the orphans of this turn to the record that the turn's `do` began.

    `since` (ms) is when the call of the `do` was reported. The turn began with the session's newest
    prompt; where no prompt is known, a call reported just before the `do` that is open then was
    made together with it. A subagent's `do` takes in that subagent's calls alone. One whose texts
    the log of orphans holds cut stays there. Raises InvocationError.
    """
    root = recorder.project.root
    named = redact(session, recorder.project.config.redaction).text[:200]
    lines = logged(root, layout.ORPHANS)
    gone = read_adopted(lines)
    asked = read_prompt_time(root, harness, session)
    is_turn_known = asked is not None and asked <= since
    begun = rfc3339(since)
    first = rfc3339(asked if asked is not None and is_turn_known else since - _TOGETHER_MILLIS)
    over = {
        payload.get("call_id")
        for line in lines
        if str(line.get("at")) < begun
        for event, payload in _read_events(line)
        if event == "tool_result"
    }
    adopted = []
    for line in lines:
        keys, events, at = list_keys(line), list(_read_events(line)), str(line.get("at"))
        if line.get("harness") != harness or line.get("session") != named or at < first:
            continue
        is_over = any(payload.get("call_id") in over for _, payload in events)
        if at < begun and is_over and not is_turn_known:
            continue
        if not keys or len(keys) != len(events) or not gone.isdisjoint(keys):
            continue
        own = {payload.get("agent") for _, payload in events} == {agent}
        if not own and not (agent is None and is_turn_known):
            continue
        items = [recorder.compose(event, payload) for event, payload in events]
        marked = [item._replace(body={**item.body, "claimed_at": at}) for item in items]
        recorder.append(marked, dedupe=keys, checkpoints=False)
        adopted += keys
    note_adopted(root, adopted)


def note_adopted(root: str, keys: Collection[str]) -> None:
    """Note that records hold the orphans with these keys now. Raises OSError, InvocationError."""
    if keys:
        now = rfc3339(time.time_ns() // 1_000_000)
        log_line(root, layout.ORPHANS, {"at": now, "taken": list(keys)})


def list_keys(line: LogLine, member: str = "keys") -> list[str]:
    """Return what distinguishes the events of an orphan from others."""
    keys = line.get(member)
    return [str(key) for key in keys] if isinstance(keys, list) else []


def read_adopted(lines: Iterable[LogLine]) -> set[str]:
    """Return the keys of the orphans that records took in, as the log of orphans says."""
    return {key for line in lines for key in list_keys(line, "taken")}


def _read_events(line: LogLine) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events of an orphan that the log holds whole."""
    events = line.get("events")
    for event in events if isinstance(events, list) and "more" not in line else []:
        try:
            payload = json.loads(event["payload"])
        except (KeyError, TypeError, ValueError, RecursionError):
            continue
        if isinstance(payload, dict):
            yield str(event.get("event")), payload
