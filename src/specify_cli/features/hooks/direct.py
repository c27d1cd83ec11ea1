"""The ordinary case of a hook: its session is bound, and nothing but the bound record has to be
read.

What is loaded here is what an append takes (the benchmark of a hook counts it).
"""

from __future__ import annotations

import json
import os
import time

from doctrine.git import find_worktree
from doctrine.light_imports import TYPE_CHECKING, sha256
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.payload.values import Fields, HookEvent, HookInput
from specify_cli.invocation.bindings import Binding, digest_of_names
from specify_cli.invocation.events.event_body import (
    Composed,
    Settings,
    change_gap,
    compose_event,
    find_known,
    find_line,
    other_writer,
)
from specify_cli.invocation.events.settings import digest_key, settings_of
from specify_cli.package_rules import read_brought
from specify_cli.project.protection import (
    CAPTURE_SIDES,
    DEFAULTS,
    Protections,
    read_accepted,
    resolve_protections,
)
from specify_cli.project.root import place_below
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import is_tip_due
from specify_cli.record.seal import open_line, read_fields, read_last
from specify_cli.redaction.redact import RuleSet, shipped_rule_set
from specify_cli.storage.store import FileRecordStore, LockedRecord, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from doctrine.load import ParseCache
    from specify_cli.features.hooks.payload.site import Site
    from specify_cli.invocation.recorder import Recorder
    from specify_cli.project.config import Project

_MAX_CONFIG = 256 * 1024
_MAX_ANNEX = 1024 * 1024
_LAST = 4 * 1024 * 1024


def _compose_items(
    call: HookInput, settings: Settings, millis: int, trace_id: str
) -> list[Composed] | None:
    """Return the events of a call in the form of lines; None where one needs more than its line."""
    items = []
    for event in call.events:
        item = compose_event(
            event.event,
            event.payload,
            settings,
            new_id=lambda: new_ulid(millis, os.urandom(10)),
            trace_id=trace_id,
        )
        if item.objects or item.gaps:
            return None
        items.append(item)
    return items


def append_directly(at: Site, call: HookInput) -> bool:
    """Append to the bound record with nothing loaded but what an append takes; False where more is
    to be known.

    Mostly no more is: the session is bound, nothing is so large that it becomes an object, and
    nothing depends on where the run stands.
    """
    place = find_bound(at, call)
    if not place:
        return False
    store = FileRecordStore(at.root)
    try:
        started = open_line(store.head(place))
    except FileNotFoundError:
        return False
    fields = started.fields or {}
    if started.problems or fields.get("tombstone"):
        return False
    settings = settings_of(fields, *read_limits(at), at.git_dir)
    millis = durable.read_clock(time.time_ns)
    trace_id = str(fields.get("trace_id", ""))
    items = _compose_items(call, settings, millis, trace_id)
    if items is None:
        return False
    keys = list_keys(at, call)
    if find_earlier(at, place.invocation_id, call) is not None:
        return False
    other = other_writer(fields, name_writer(at.harness, at.session), settings.rules)
    by = {} if other is None else {"by": other}
    change = change_gap(fields, settings)
    closed, before = False, None

    def compose(locked: LockedRecord) -> list[dict[str, object]]:
        nonlocal closed, before
        before = locked.tip
        named = items
        if call.call_id_is_synthetic:
            # for harnesses that name no call
            from specify_cli.invocation.events.equal_calls import tell_apart

            named = tell_apart(locked.read(0), items, trace_id)
        known = find_known(locked.holds, locked.read, named, keys, change)
        bodies = [
            item.body if key is None else {**item.body, "dedupe": key}
            for item, key, there in zip(named, keys, known.events, strict=True)
            if not there
        ]
        bodies += known.conflicts
        closed = bool(bodies) and locked.tip.event == "completed"
        first = () if known.change is None or not bodies else (known.change,)
        # under the lock, so that no line is older than the one before
        at = rfc3339(durable.read_clock(time.time_ns))
        return [] if closed else [{**body, "at": at, **by} for body in (*first, *bodies)]

    tip = store.append(place, compose, rfc3339(millis), sync=any(item.durable for item in items))
    if before and is_tip_due(place.invocation_id, before, tip, ()):
        from specify_cli.trail.fixing import fix_tip  # once in fifty lines

        fix_tip(at.root, at.git_dir, _find_location(at.root), place)
    return not closed


def find_bound(at: Site, call: HookInput) -> Place | None:
    """Return the record that a session is bound to; None where more than an append is to be done,
    or none is bound."""
    is_new = call.started_invocation is not None
    if not at.session or is_new or call.deadline is not None:
        return None
    if any(
        event.event not in ("tool_call", "tool_result", "patch_apply", "error")
        for event in call.events
    ):
        return None
    binding = next(list_bound(at, call), None)
    return binding and binding.place


def list_bound(at: Site, call: HookInput) -> Iterator[Binding]:
    """Yield the bindings of a call's subagent, and then those of its session, the newest first."""
    for agent in dict.fromkeys((call.subagent, None)):
        yield from at.list_bindings(agent)


def find_earlier(at: Site, invocation_id: str, call: HookInput) -> str | None:
    """Return the record which a session worked on before this one and that may report a call: it
    holds all its events, or its begin alone, or something of the call was said after its end, or it
    ended with a part of the session, or by the call, and holds that, or ended under the call's
    prompt.

    Then a hook reports the call again, or after what came next. Of a long record the last 4 MiB are
    read: every call would wait for the rest.
    """
    keys = list_keys(at, call)
    named = json.dumps(call.events[0].payload.get("call_id"), ensure_ascii=False)
    needle = f'"call_id":{named}'.encode("utf-8", "replace")
    # an equal call can have its name, but for one that closes a record
    is_distinct = not call.starts_record_command and not call.call_id_is_synthetic
    turns = f"{at.root}/{layout.LOCAL}/turns/"
    for binding in list_bound(at, call):
        if binding.invocation_id == invocation_id or not binding.place:
            continue
        try:
            record_file = FileRecordStore(at.root).hold(binding.place)
            data = record_file(max(0, record_file.measure() - _LAST), _LAST)
            annexes = read_annexes(at.root, binding.invocation_id)
        except (OSError, InvocationError):
            continue
        is_part = ends_part(data)
        is_named = (
            needle in annexes
            or (needle in data and awaits_end(data, call))
            or ((call.closes or is_part) and needle in data)
            or (
                is_part
                and call.prompt_id is not None
                and os.path.lexists(turns + name_end(at, call, binding.invocation_id))
            )
        )
        if (is_named and (is_distinct or call.closes)) or holds_all(data, keys):
            return binding.invocation_id
    return None


def awaits_end(data: bytes, call: HookInput) -> bool:
    """Return whether a record with this data is closed and holds the begin of a call that a hook
    reports to have ended, and no end of it but one that was inferred."""
    first = call.events[0]
    if first.event == "tool_call" or call.call_id_is_synthetic:
        return False
    if read_last(data).get("event") != "completed":
        return False
    call_id = first.payload.get("call_id")
    events = [
        line.get("event")
        for line in read_lines(data, b'"event":"tool_')
        if line.get("call_id") == call_id and line.get("inferred") is not True
    ]
    return events.count("tool_call") > events.count("tool_result")


def holds_all(data: bytes, keys: Sequence[str | None]) -> bool:
    """Return whether a record with this data holds every one of these events."""
    return all(key is not None and find_line(data, key) is not None for key in keys)


def is_same_event(line: Fields, event: HookEvent) -> bool:
    """Return whether a line without a key reports an event of a call. Two ends that differ are two
    events."""
    payload = event.payload
    if line.get("event") == event.event == "stage_transition":
        return all(line.get(name) == payload.get(name) for name in ("agent", "to"))
    if line.get("event") != event.event or "call_id" not in line:
        return False
    is_end = event.event == "tool_result"
    if is_end and event.status not in (None, "unknown", line.get("status")):
        return False
    same = (payload.get("call_id", event.call_id), event.path)
    return same == (line["call_id"], line.get("path"))


def name_end(at: Site, call: HookInput, invocation_id: str) -> str:
    """Return the name of the file in `.kittify/local/turns/` that is there once a record ended with
    its session, or a part of it, under the prompt of a call."""
    named = (at.harness, at.session, call.prompt_id or "", invocation_id)
    return digest_of_names(*named, "ended")[:40]


def ends_part(data: bytes) -> bool:
    """Return whether a record ended with its session, or with a part of it."""
    last = read_last(data)
    return last.get("event") == "completed" and last.get("closed_by") == "hook"


def read_lines(data: bytes, *needles: bytes) -> list[Fields]:
    """Return the lines of a record; with needles those that hold one of them, for most lines are of
    calls."""
    return [
        read_fields(raw)
        for raw in data.split(b"\n")
        if not needles or any(needle in raw for needle in needles)
    ]


def read_annexes(root: str, invocation_id: str) -> bytes:
    """Return the bytes of what was said of a record after its end."""
    folder = layout.annex_folder(invocation_id)
    names = os.listdir(f"{root}/{folder}") if os.path.isdir(f"{root}/{folder}") else []
    return b"".join(durable.read_below(root, f"{folder}/{name}", _MAX_ANNEX) for name in names)


def _find_location(root: str) -> str:
    """Return where in its worktree a project lies."""
    return place_below(root, find_worktree(root) or root)


def key_stand_in(bare: str, session: str, git_dir: str | None) -> str:
    """Return the digest that stands in for an id under this clone's key; outside git, where no key
    is stored, under the session's id."""
    import hmac  # for harnesses that name no call

    key = digest_key(git_dir)
    secret = key.secret if key else session.encode("utf-8", "replace")
    return hmac.new(secret, bare.encode("ascii"), sha256).hexdigest()[:16]


def name_writer(harness: str, session: str) -> dict[str, str]:
    """Return who writes for a session, in the form of a line's `by`."""
    return {"harness": harness, "session_id": session}


def open_recorder(
    at: Site, place: Place, loaded: tuple[Project, ParseCache] | None = None
) -> Recorder:
    """Return the recorder of a record, which writes for the session; the project is read, unless it
    was `loaded` before. Raises InvocationError."""
    # for what takes more than an append
    from specify_cli.invocation.recorder import Recorder
    from specify_cli.project.config import load_project

    project, cache = loaded or load_project(at.root, at.home)
    return Recorder(project, place, cache=cache, writer=name_writer(at.harness, at.session))


def read_limits(at: Site) -> tuple[Mapping[str, str], RuleSet]:
    """Return the capture modes in force that the config states, by side, and the redaction rules in
    force."""
    plain = _read_plain_modes(at.root)
    if plain is not None:
        accepted = read_accepted(at.git_dir, _find_location(at.root)) or DEFAULTS
        if not accepted.rules and not read_brought().masks:
            stated = {side: mode for key, mode in plain.items() for side in CAPTURE_SIDES[key]}
            protections, _ = resolve_protections(Protections(capture=stated), accepted)
            return protections.capture, shipped_rule_set()
    from specify_cli.project.config import load_project  # a config of another form has to be parsed

    project, cache = load_project(at.root, at.home)
    cache.save()
    return project.config.capture_ceiling, project.config.redaction


def _read_plain_modes(root: str) -> dict[str, str] | None:
    """Return the capture modes a config in its usual form states, by key; None where it has to be
    parsed to know.

    A line of redaction, or of capture in another form, has to be; so has anything that could hide a
    key in escapes.
    """
    try:
        data = durable.read_below(root, layout.CONFIG, _MAX_CONFIG)
    except FileNotFoundError:
        return {}
    # Where YAML ends a line and bytes do not, a key could hide after a comment (YAML 1.1 §4.2).
    if len(data) > _MAX_CONFIG or any(
        mark in data for mark in (b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
    ):
        return None
    modes = {}
    for line in data.split(b"\n"):
        stripped = line.strip()
        if stripped.startswith(b"#"):
            continue
        name, _, value = stripped.decode("utf-8", "replace").partition(": ")
        if (
            name in ("capture_llm_io", "capture_tool_io")
            and value in ("summary", "full")
            and name not in modes
        ):
            modes[name] = value
        elif b"redaction" in stripped or b"capture" in stripped or b"\\" in stripped:
            return None
    return modes


def list_keys(at: Site, call: HookInput) -> list[str | None]:
    """Return the digests of a call's events, each None where nothing distinguishes it from
    others."""
    return [dedupe_key(at.harness, at.session, event) for event in call.events]


def dedupe_key(harness: str, session: str, event: HookEvent) -> str | None:
    """Return the digest of one physical event; None where the harness gives nothing to distinguish
    it by."""
    if not event.call_id:
        return None
    return digest_of_names(harness, session, event.call_id, event.phase, event.event)[:32]
