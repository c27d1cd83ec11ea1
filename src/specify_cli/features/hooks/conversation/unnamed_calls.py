"""Calls of programs that name none: which call a payload is of, where equal ones were reported.

A transcript can have reported a call before its hook does, under a name. And Copilot gives calls it
makes together one time, so two equal ones have equal payloads, and so has one call that arrives
through two settings files. Each file tells a call once: its second equal payload is a second call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctrine import os
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import (
    is_same_event,
    list_bound,
    list_keys,
    read_annexes,
    read_limits,
    read_lines,
)
from specify_cli.features.hooks.payload.site import Site, place_events
from specify_cli.features.hooks.payload.values import Fields, HookEvent, HookInput
from specify_cli.invocation.bindings import short_digest
from specify_cli.invocation.ends.activity import read_moment
from specify_cli.invocation.events.event_body import PayloadError, compose_event, find_line
from specify_cli.invocation.events.settings import settings_of
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import read_last
from specify_cli.storage.store import FileRecordStore


def name_as_reported(at: Site, call: HookInput) -> HookInput:
    """Return a call under the name by which a transcript reported it already, where a record of its
    session says so: a hook is late, or reports it again.

    The transcript reported everything until a moment. Of its calls with equal arguments the one
    that began, or ended, nearest to what the payload states is meant.
    """
    first, key = call.events[0], list_keys(at, call)[0]
    begin = first if first.event == "tool_call" else call.begin
    stamp = _read_stamp(call)
    if not begin or stamp is None:
        return call
    for lines, until in _list_reconciled(at, call):
        if stamp > until or any(line.get("dedupe") == key for line in lines):
            continue
        placed = zip(call.events, place_events(call, at).events, strict=True)
        left = tuple(event for event, there in placed if not _is_filled_in(lines, there))
        if len(left) < len(call.events):
            return call._replace(events=left)
        signs = _sign_calls(at, lines, begin)
        near = {
            str(line["call_id"]): abs(
                (read_moment(stamp) or 0)
                - (read_moment(line.get("claimed_at", line.get("at"))) or 0)
            )
            for line in lines
            if line.get("event") == first.event and line.get("call_id") in signs
        }
        if not signs:
            continue
        name = min(near, key=near.__getitem__, default=signs[0])
        events = tuple(event.rename(lambda _: name) for event in call.events)  # noqa: B023  # at once
        return call._replace(events=events, call_id_is_synthetic=False)
    return call


def _read_stamp(call: HookInput) -> str | None:
    """Return the moment (RFC 3339) that a payload states, "" of a call that begins or closes a
    record, which hardly has its equal; None where none is stated."""
    for event in call.events[::-1]:
        _, mark, stamp = event.call_id.rpartition("@")
        if mark:
            return rfc3339(int(stamp)) if stamp.isdigit() else stamp
    return "" if call.closes or call.starts_record_command else None


def _is_filled_in(lines: Sequence[Fields], event: HookEvent) -> bool:
    """Return whether a transcript reported the rest of a call whose begin or end a hook
    reported."""
    return any(
        line.get("witness") == "transcript"
        and is_same_event(
            {**line, "call_id": str(line.get("call_id")).partition("#")[0]},  # of equal calls
            event,
        )
        for line in lines
    )


def _list_reconciled(at: Site, call: HookInput) -> Iterator[tuple[list[Fields], str]]:
    """Yield the lines of each record of a session, with its annexes, that a transcript was
    compared with, and until when (RFC 3339) that reported everything."""
    from specify_cli.features.hooks.search import find_imported  # most calls need no name

    bound = [one.place for one in list_bound(at, call) if one.place]
    for place in bound or find_imported(at):
        try:
            data = FileRecordStore(at.root).read(place)
            data += read_annexes(at.root, place.invocation_id)
        except (OSError, InvocationError):
            continue
        if b'"event":"reconciled"' in data or layout.is_imported(place.folder):
            lines = read_lines(data)
            yield lines, max(str(line.get("until", line.get("completed_at", ""))) for line in lines)


def _sign_calls(at: Site, lines: Sequence[Fields], begin: HookEvent) -> list[str]:
    """Return the calls of a transcript that have the tool and the arguments of this one."""
    settings = settings_of(lines[0], *read_limits(at), at.git_dir)
    try:
        body = compose_event(
            "tool_call", begin.payload, settings, new_id=lambda: "", trace_id=""
        ).body
    except PayloadError:
        return []
    names = ("tool", "args_hash", "args_size")
    return [
        str(line.get("call_id"))
        for line in lines
        if line.get("event") == "tool_call"
        and ("imported" in lines[0] or line.get("witness") == "transcript")
        and all(line.get(name) == body.get(name) for name in names)
    ]


def number_twin(at: Site, source: str, call: HookInput) -> HookInput:
    """Return a call with a key of its own where this source reported an equal one before it."""
    first = call.events[0]
    key = short_digest(first.phase, first.call_id)[:32].encode("ascii") + b"\n"
    name = short_digest(at.harness, at.session, source) + ".log"
    try:
        with (
            durable.folder(at.root, f"{layout.LOCAL}/twins", create=True) as folder_fd,
            durable.appended(folder_fd, name, os.O_RDWR) as fd,
        ):
            durable.lock(fd, name)
            before = os.pread(fd, os.fstat(fd).st_size, 0).count(key)
            durable.write_all(fd, key)
    except (OSError, InvocationError):
        return call
    # A numbered call states no time: what a closed record holds is an equal one from before.
    if not before or (not first.is_numbered and _is_in_closed(at, call)):
        return call
    return call._replace(
        events=tuple(event._replace(call_id=f"{event.call_id}~{before}") for event in call.events)
    )


def _is_in_closed(at: Site, call: HookInput) -> bool:
    """Return whether a record of a session that is closed holds the first event of a call."""
    from specify_cli.features.hooks.search import read_bound  # Copilot's equal calls alone

    key = str(list_keys(at, call)[0])  # that of a stand-in, which is never empty
    return any(
        read_last(data).get("event") == "completed" and find_line(data, key) is not None
        for _, data, _ in read_bound(at)
    )
