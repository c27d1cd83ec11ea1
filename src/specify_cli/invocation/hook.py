"""What a harness's hook calls: one payload on stdin to run events on the record it belongs to (docs/hooks.md).

Guarantees: the agent is never disturbed (exit 0, nothing on stdout, no network, a bounded wait); an event is
bound to a record by what the harness says and never by a guess; the same physical event is recorded once; what
cannot be recorded is kept, redacted and cut, where doctor finds it. A binding is read as hostile input: it can
name a record of this project, and nothing else.
"""

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from specify_cli.invocation import durable, layout
from specify_cli.invocation.errors import CODES, InvocationError
from specify_cli.invocation.hook_payload import HookEvent, HookInput, sender, translate
from specify_cli.invocation.record import INVOCATION_ID, PROFILE_ID, dedupe_bytes
from specify_cli.invocation.root import find_root
from specify_cli.invocation.ulid import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specify_cli.invocation.project import Project
    from specify_cli.invocation.recorder import Recorder

MAX_INPUT = 64 * 1024 * 1024
MAX_ORPHANS = 1024 * 1024
MAX_ORPHAN = 8 * 1024
MAX_FAILURES = 64 * 1024
_SEARCHED = 50


class Orphan(Exception):
    """An event that belongs to no record that can take it; the text says why."""


class Binding(NamedTuple):
    """Which record a session of a harness writes to, and the profile in its file's name where that is known."""

    invocation_id: str
    source: str
    profile_id: str | None = None


def run_hook(harness: str, data: bytes, cwd: str, home: str | None) -> None:
    """Record what one hook payload tells. Never raises: a failure is left where doctor shows it."""
    root: str | None = None
    try:
        # 1. What happened, and in which project.
        payload = _parsed(data)
        harness = sender(harness, payload)
        told = translate(harness, payload)
        root = _root_of(told.cwd or cwd, home)
        if root is None or not (told.events or told.started_invocation):
            return
        told = told._replace(events=tuple(_placed(event, root) for event in told.events))
        # 2. The ordinary case: the session is bound, and nothing but its record has to be read.
        if _append_directly(root, harness, told):
            return
        # 3. Else: which record it belongs to; what the agent was just told outranks what was known before.
        try:
            recorder, agent = _bound(root, harness, told, home)
        except Orphan as why:
            if told.events:
                _keep_orphan(root, harness, told, str(why), home)
            return
        # 4. Append: each physical event once.
        try:
            _append(recorder, harness, told, agent)
        finally:
            recorder.close()
    except BaseException as error:
        if root is not None:
            note_failure(root, harness, error)


def _parsed(data: bytes) -> object:
    """The payload, however deep it is. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError:
        from specify_cli.invocation.foreign import parse_foreign

        return parse_foreign(data)


def _placed(event: HookEvent, root: str) -> HookEvent:
    """A patch by its path below the project, where it lies there."""
    path = event.payload.get("path")
    if event.event != "patch_apply" or not isinstance(path, str) or not path.startswith(root + "/"):
        return event
    return event._replace(payload={**event.payload, "path": path[len(root) + 1 :]})


def _root_of(folder: str, home: str | None) -> str | None:
    """The project's top folder if spec-kitty is used in it; a hook never begins that."""
    root, _ = find_root(folder, home)
    return root if os.path.isdir(f"{root}/{layout.EVENTS}") else None


def _append(recorder: "Recorder", harness: str, told: HookInput, agent: str | None) -> None:
    items = []
    keys: list[str | None] = []
    for event in told.events:
        payload = dict(event.payload) if agent is None else {**event.payload, "agent": agent}
        items.append(recorder.compose(event.event, payload))
        keys.append(dedupe_key(harness, told.session_id, event))
    if items:
        recorder.append(items, dedupe=keys, checkpoints=False)


def _append_directly(root: str, harness: str, told: HookInput) -> bool:
    """Append to the bound record without loading the project; False where anything is not as it mostly is.

    It mostly is: bound by this session, no redaction or capture setting of the project's own, nothing so large that
    it becomes an object, nothing that depends on where the run stands.
    """
    session = told.session_id
    if session is None or told.started_invocation is not None or told.subagent is not None:
        return False
    binding = binding_of(root, harness, session, None)
    ceilings = _plain_ceilings(root)
    if binding is None or binding.profile_id is None or ceilings is None:
        return False
    from specify_cli.invocation.capture import narrower, shipped_rule_set
    from specify_cli.invocation.payload import Settings, compose_event
    from specify_cli.invocation.seal import open_line
    from specify_cli.invocation.store import FileRecordStore, Held, place_of
    from specify_cli.invocation.ulid import new_ulid

    place = place_of(binding.profile_id, binding.invocation_id)
    store = FileRecordStore(root)
    try:
        started = open_line(store.head(place))
    except FileNotFoundError:
        return False
    fields = started.fields or {}
    capture = fields.get("capture")
    if started.problems or fields.get("tombstone") or not isinstance(capture, dict) or "hash" in capture.values():
        return False
    modes = {
        side: narrower(
            str(mode), ceilings.get("capture_tool_io" if side.startswith("tool") else "capture_llm_io", "full")
        )
        for side, mode in capture.items()
    }
    settings = Settings(modes, shipped_rule_set(), None)
    millis = time.time_ns() // 1_000_000
    trace_id = str(fields.get("trace_id", ""))
    items = []
    for event in told.events:
        if event.event not in ("tool_call", "tool_result", "patch_apply", "error"):
            return False
        item = compose_event(
            event.event, event.payload, settings, new_id=lambda: new_ulid(millis, os.urandom(10)), trace_id=trace_id
        )
        if item.objects or item.gaps:
            return False
        items.append((item, dedupe_key(harness, session, event)))
    closed = False

    def compose(held: Held) -> list[dict[str, object]]:
        nonlocal closed
        closed = held.tip.event == "completed"
        if closed:
            return []
        at = rfc3339(millis)
        return [
            {**item.body, "at": at} if key is None else {**item.body, "at": at, "dedupe": key}
            for item, key in items
            if key is None or not held.holds(dedupe_bytes(key))
        ]

    store.append(place, compose, rfc3339(millis), sync=any(item.durable for item, _ in items))
    return not closed


def _plain_ceilings(root: str) -> dict[str, str] | None:
    """The capture modes a config in its usual form states, by group; None where it has to be parsed to know.

    A line of redaction, or of capture in another form, has to be; so has anything that could hide a key in escapes.
    """
    try:
        data = durable.read_below(root, layout.CONFIG)
    except FileNotFoundError:
        return {}
    found: dict[str, str] = {}
    for line in data.split(b"\n"):
        said = line.strip()
        if said.startswith(b"#"):
            continue
        name, _, value = said.decode("utf-8", "replace").partition(": ")
        if name in ("capture_llm_io", "capture_tool_io") and value in ("summary", "full") and name not in found:
            found[name] = value
        elif b"redaction" in said or b"capture" in said or b"\\" in said:
            return None
    return found


def dedupe_key(harness: str, session: str | None, event: HookEvent) -> str | None:
    """The digest of one physical event; None where the harness gives nothing to tell it by."""
    if not event.call_id:
        return None
    named = "\0".join((harness, session or "", event.call_id, event.phase, event.event))
    return hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:32]


# --- which record


def _bound(root: str, harness: str, told: HookInput, home: str | None) -> "tuple[Recorder, str | None]":
    """The recorder of the bound record, and the nested agent to name on its events. Raises Orphan."""
    from specify_cli.invocation.index import Index
    from specify_cli.invocation.invocations import read_row
    from specify_cli.invocation.project import load_project
    from specify_cli.invocation.recorder import Recorder

    project, cache = load_project(root, home)
    session = told.session_id
    if told.started_invocation is not None and session is not None:
        bind(root, harness, session, told.subagent, told.started_invocation, "tool")
    found: Binding | None = None
    agent = told.subagent
    if session is not None:
        found = binding_of(root, harness, session, told.subagent)
        if found is None and told.subagent is not None:
            found = binding_of(root, harness, session, None)
    if found is None and session is not None:
        found = _only_open(project, harness, session)
        if found is not None:
            bind(root, harness, session, None, found.invocation_id, found.source)
    if found is None:
        raise Orphan("no invocation is bound to this session")
    try:
        place = Index(root).resolve(found.invocation_id)
    except InvocationError as error:
        raise Orphan(f"the bound invocation {found.invocation_id} is not here: {error.code}") from error
    row = read_row(root, place)
    if row is None or row.status != "open" or place.folder != layout.RECORDS:
        raise Orphan(f"the bound invocation {found.invocation_id} is closed or read-only")
    return Recorder(project, place, cache=cache), agent


def _binding_path(harness: str, session: str, subagent: str | None) -> tuple[str, str]:
    named = "\0".join((harness, session, subagent or ""))
    return f"{layout.LOCAL}/bindings", hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:40] + ".json"


def bind(
    root: str,
    harness: str,
    session: str,
    subagent: str | None,
    invocation_id: str,
    source: str,
    profile_id: str | None = None,
) -> None:
    """Bind a session to a record, for this clone. Raises OSError, InvocationError."""
    folder, name = _binding_path(harness, session, subagent)
    value = {"invocation_id": invocation_id, "source": source, "profile_id": profile_id}
    with durable.folder(root, folder, create=True) as fd:
        durable.replace(fd, name, json.dumps(value).encode("ascii"), durable.PRIVATE, sync=False)


def binding_of(root: str, harness: str, session: str, subagent: str | None) -> Binding | None:
    """The binding of a session, if there is one that names a record id."""
    folder, name = _binding_path(harness, session, subagent)
    try:
        value = json.loads(durable.read_below(root, f"{folder}/{name}"))
    except (OSError, InvocationError, ValueError):
        return None
    invocation_id = value.get("invocation_id") if isinstance(value, dict) else None
    if not isinstance(invocation_id, str) or INVOCATION_ID.fullmatch(invocation_id) is None:
        return None
    profile_id = value.get("profile_id")
    known = isinstance(profile_id, str) and PROFILE_ID.fullmatch(profile_id) is not None
    return Binding(invocation_id, str(value.get("source")), profile_id if known else None)


def _only_open(project: "Project", harness: str, session: str) -> Binding | None:
    """The one open record among the newest that this session began; none where there are two."""
    from specify_cli.invocation.index import Index
    from specify_cli.invocation.invocations import read_row
    from specify_cli.invocation.seal import open_line
    from specify_cli.invocation.store import FileRecordStore

    index, store = Index(project.root), FileRecordStore(project.root)
    found: list[str] = []
    for number, key in enumerate(index.newest()):
        if number >= _SEARCHED or len(found) > 1:
            break
        place = index.place(key)
        if place is None or place.folder != layout.RECORDS:
            continue
        fields = open_line(store.head(place)).fields or {}
        told = fields.get("session")
        if not isinstance(told, dict) or (told.get("harness"), told.get("session_id")) != (harness, session):
            continue
        row = read_row(project.root, place)
        if row is not None and row.status == "open":
            found.append(place.invocation_id)
    return Binding(found[0], "only-open") if len(found) == 1 else None


# --- what could not be recorded


def _keep_orphan(root: str, harness: str, told: HookInput, why: str, home: str | None) -> None:
    """Keep an event that has no record: redacted, cut, and in a log of bounded size."""
    from specify_cli.invocation.capture import redact
    from specify_cli.invocation.foreign import foreign_text
    from specify_cli.invocation.project import load_project

    rules = load_project(root, home)[0].config.redaction
    events = [
        {"event": event.event, "payload": foreign_text(event.payload, rules).text[:2000]} for event in told.events
    ]
    line = {
        "at": rfc3339(time.time_ns() // 1_000_000),
        "harness": harness,
        "session": redact(told.session_id or "", rules).text[:200],
        "hook_event": redact(told.hook_event, rules).text[:200],
        "why": why,
        "events": events,
    }
    _log(root, layout.ORPHANS, line, MAX_ORPHANS)


def note_failure(root: str, harness: str, error: BaseException) -> None:
    """Leave a hook's own failure where doctor shows it. What cannot even be noted is lost."""
    code = error.code if isinstance(error, InvocationError) and error.code in CODES else type(error).__name__
    line = {"at": rfc3339(time.time_ns() // 1_000_000), "harness": harness, "code": code}
    if isinstance(error, InvocationError):
        line["message"] = error.message[:500]
    try:
        _log(root, layout.HOOK_FAILURES, line, MAX_FAILURES)
    except (OSError, InvocationError):
        return


def _log(root: str, path: str, value: "Mapping[str, object]", limit: int) -> None:
    """Append one line to a log that stops growing at its limit; the last line says that it did."""
    folder, _, name = path.rpartition("/")
    data = json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")[:MAX_ORPHAN] + b"\n"
    with durable.folder(root, folder, create=True) as folder_fd:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, durable.PRIVATE, dir_fd=folder_fd)
        try:
            if os.fstat(fd).st_size + len(data) <= limit:
                durable.write_all(fd, data)
        finally:
            os.close(fd)


def logged(root: str, path: str) -> "Sequence[Mapping[str, object]]":
    """The lines of a log that can be read, oldest first."""
    try:
        data = durable.read_below(root, path)
    except (OSError, InvocationError):
        return ()
    found = []
    for raw in data.split(b"\n"):
        try:
            value = json.loads(raw)
        except ValueError:
            value = {"code": "UNREADABLE"} if raw.strip() else None
        if isinstance(value, dict):
            found.append(value)
    return found
