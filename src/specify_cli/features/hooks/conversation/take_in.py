"""Calls made together with a `do`: orphans until it had begun its record, which they belong to."""

from __future__ import annotations

import json
import os
import time

from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import name_writer
from specify_cli.features.hooks.losses import log_line, logged
from specify_cli.invocation.bindings import MARK_SECONDS, calls_folder, read_small
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.redaction.capture import redact
from specify_cli.storage.index import Index

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_MARKS = 64
# Hooks of calls made together start within this time of each other, also on a busy machine.
_TOGETHER_MILLIS = 5000


def take_in_beside(
    start: str, home: str | None, session: Mapping[str, str], invocation_id: str
) -> None:
    """Give a record that this session's `do` has just begun what was told beside it; never
    raises."""
    harness, named, agent = session["harness"], session["session_id"], session.get("agent_id")
    try:
        project, cache = load_project(start, home)
        since = _read_begin(project.root, harness, named, agent)
        if since is None:
            return
        writer = name_writer(harness, named)
        recorder = Recorder(
            project, Index(project.root).resolve(invocation_id), cache=cache, writer=writer
        )
        try:
            take_in(recorder, harness, named, agent, since)
        finally:
            recorder.close()
    except (OSError, InvocationError):
        return  # they stay orphans, which doctor counts


def _read_begin(root: str, harness: str, session: str, agent: str | None) -> int | None:
    """Return when (ms) the newest call of this agent that begins an invocation was told to be under
    way."""
    folder = calls_folder(harness, session)
    now = time.time_ns() // 1_000_000
    begun = []
    with durable.folder(root, folder) as fd:
        for name in sorted(os.listdir(fd))[:_MAX_MARKS]:
            mark = read_small(root, folder, name)
            since = (
                mark.get("at") if isinstance(mark, dict) and mark.get("agent_id") == agent else None
            )
            if type(since) is int and now - 1000 * MARK_SECONDS < since <= now:
                begun.append(since)
    return max(begun, default=None)


def take_in(recorder: Recorder, harness: str, session: str, agent: str | None, since: int) -> None:
    """Append the orphans of the calls that ran while this agent's `do` did to the record it began.

    `since` (ms) is when the call of the `do` was told; one made together with it can have been told
    just before, and is open then. One whose texts the log of orphans holds cut stays there. Raises
    InvocationError.
    """
    root = recorder.project.root
    named = redact(session, recorder.project.config.redaction).text[:200]
    lines = logged(root, layout.ORPHANS)
    gone = {key for line in lines for key in list_taken(line)}
    begun, just_before = rfc3339(since), rfc3339(since - _TOGETHER_MILLIS)
    over = {
        payload.get("call_id")
        for line in lines
        if str(line.get("at")) < begun
        for event, payload in _read_events(line)
        if event == "tool_result"
    }
    adopted: list[str] = []
    for line in lines:
        keys, events = line.get("keys"), list(_read_events(line))
        if (
            line.get("harness") != harness
            or line.get("session") != named
            or str(line.get("at")) < just_before
        ):
            continue
        if str(line.get("at")) < begun and any(
            payload.get("call_id") in over for _, payload in events
        ):
            continue
        if not isinstance(keys, list) or len(keys) != len(events) or set(map(str, keys)) & gone:
            continue
        if any(payload.get("agent") != agent for _, payload in events):
            continue
        items = [recorder.compose(event, payload) for event, payload in events]
        recorder.append(items, dedupe=[str(key) for key in keys], checkpoints=False)
        adopted += map(str, keys)
    if adopted:
        log_line(
            root, layout.ORPHANS, {"at": rfc3339(time.time_ns() // 1_000_000), "taken": adopted}
        )


def list_taken(line: Mapping[str, object]) -> list[str]:
    """Return the keys of the orphans that a line of their log says a record took in."""
    keys = line.get("taken")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _read_events(line: Mapping[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events of an orphan that the log holds whole."""
    events = line.get("events")
    for event in events if isinstance(events, list) and "more" not in line else []:
        try:
            payload = json.loads(event["payload"])
        except (KeyError, TypeError, ValueError, RecursionError):
            continue
        if isinstance(payload, dict):
            yield str(event.get("event")), payload
