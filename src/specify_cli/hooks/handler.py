"""What a harness's hook calls: one payload on stdin to run events on the record it belongs to (docs/hooks.md).

Guarantees: the agent is never disturbed (exit 0, nothing on stdout, no network, a bounded wait); an event is
bound to a record by what the harness says and never by a guess; the same physical event is recorded once; what
cannot be recorded is kept, redacted and cut, where doctor finds it. A binding is read as hostile input: it can
name a record of this project, and nothing else.
"""

from __future__ import annotations

import json
import os
import time

from doctrine.git import find_worktree
from doctrine.light import TYPE_CHECKING, sha256
from specify_cli import durable
from specify_cli.errors import CODES, CallerError, InvocationError, StoredDataError
from specify_cli.hooks.payload import MAX_PATH, HookEvent, HookInput, ending_of, sender, translate
from specify_cli.invocation.bindings import (
    MARK_SECONDS,
    Binding,
    bind,
    binding_of,
    binding_path,
    calls_folder,
    digest_of_names,
    give_back,
    is_record_open,
    list_earlier,
    owned_path,
    parse_binding,
    read_small,
    short_digest,
    unlink_below,
    unmark,
    write_small,
)
from specify_cli.project.root import find_root, place_below
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.record import dedupe_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from specify_cli.invocation.payload import Composed
    from specify_cli.invocation.recorder import Recorder
    from specify_cli.project.config import Project
    from specify_cli.redaction.capture import RuleSet
    from specify_cli.storage.store import Place

    T = TypeVar("T")

MAX_INPUT = 64 * 1024 * 1024
MAX_ORPHANS = 1024 * 1024
MAX_ORPHAN = 8 * 1024
MAX_FAILURES = 64 * 1024
MAX_TRANSCRIPT = 256 * 1024
LOCK_WAIT_SECONDS = 2.0
# A harness waits 15 seconds; what is left is for everything but masking.
REDACTION_SECONDS = 8.0
# Smaller payloads are masked in a second at worst: they need neither a deadline nor a mark.
LARGE = 64 * 1024
_TEXTS = ("args", "output", "before", "after", "diff", "message")
_SEARCHED = 50
_MAX_CONFIG = 256 * 1024
_MAX_TOLD = 32
_HEX = frozenset("0123456789abcdef")


class _TooSlow(BaseException):
    """Masking a payload took longer than there is; no handler of errors on the way may take it for its own."""


class Orphan(Exception):
    """An event that belongs to no record that can take it; the text says why, `closed` names a record that is over."""

    def __init__(self, why: str, closed: str | None = None) -> None:
        super().__init__(why)
        self.closed = closed


class Recorded(Exception):
    """What a payload tells was recorded before, and the record has been closed since."""


def run_hook(harness: str, data: bytes, cwd: str, home: str | None, project: str | None = None) -> None:
    """Record what one hook payload tells. Never raises: a failure is left where doctor shows it.

    `cwd` is the folder of the hook's process and `project` the one the harness was started in, where it says so.
    """
    root: str | None = None
    git_dir: str | None = None
    try:
        # 1. What happened, and in which project: an agent may look around elsewhere.
        try:
            payload = parsed(data) if len(data) <= MAX_INPUT else None
        except ValueError:
            payload = None
        # What stands in a command line may be anything; it is written down only if it has the form of a name.
        named = harness.islower() and harness.replace("-", "").isalnum() and len(harness) <= 32
        harness = sender(harness if named else "unknown", payload)
        call = translate(harness, payload)
        folder = call.cwd or cwd
        root, git_dir = _find_root(harness, call, (folder, cwd, project), home)
        if root is not None and not call.hook_event:
            what = "is no JSON object that names its event"
            if len(data) > MAX_INPUT:
                what = f"is larger than {MAX_INPUT // 1024**2} MiB"
            raise CallerError("PAYLOAD_INVALID", f"a payload {what}", "spec-kitty hooks test")
        if root is None or not call.events:
            return
        _keep_from_git(root)
        call = _key_stand_ins(with_ending(call), git_dir)
        elsewhere = _is_elsewhere(root, folder, home)
        call = call._replace(events=tuple(_place_event(event, root, folder, elsewhere) for event in call.events))
        mark: str | None = None
        if len(data) > LARGE:
            call = call._replace(deadline=time.monotonic() + REDACTION_SECONDS)
            mark = _mark_begin(root, harness, call)
        try:
            _record(root, git_dir, harness, call, home)
        except Recorded:
            pass
        except Orphan as why:
            # The begin of a `do` is told again with its result, when there is a record to take it.
            if not (call.begins is not None and call.events[-1].event == "tool_call"):
                _keep_orphan(root, harness, call, str(why), home, closed=why.closed)
        except Exception as error:
            busy = isinstance(error, InvocationError) and error.code == "LOCK_TIMEOUT"
            if not busy:
                note_failure(root, git_dir, harness, error)
            what = error.code if isinstance(error, InvocationError) else type(error).__name__
            _keep_orphan(root, harness, call, f"{'busy' if busy else 'it could not be recorded'}: {what}", home)
        if mark is not None:
            unlink_below(root, layout.BEGUN, mark)
    except BaseException as error:
        if root is not None:
            note_failure(root, git_dir, harness, error)


def _keep_from_git(root: str) -> None:
    """See that git ignores what a hook writes before it does: it may be the first to write in a clone.

    Raises StoredDataError TRACKED_PRIVATE, UNSAFE_PATH, EnvironmentFault WRITE_FAILED.
    """
    refuse_tracked_private(root)
    if all(os.path.lexists(f"{root}/{folder}/.gitignore") for folder in (layout.EVENTS, layout.RECORDS, layout.LOCAL)):
        return
    from specify_cli.storage.store import FileRecordStore

    FileRecordStore(root).shield()


def _record(root: str, git_dir: str | None, harness: str, call: HookInput, home: str | None) -> None:
    """Append a payload's events to the record they belong to. Raises Orphan, Recorded, and what a write raises."""
    if call.begins is not None:
        since = _mark_call(root, harness, call)
        if call.transcript is not None:
            call = call._replace(started_invocation=_find_in_transcript(root, call))
        elif call.printed:
            call = call._replace(started_invocation=_find_begun(root, harness, call, since))
    elif call.subagent is not None and call.session_id is not None and call.events[0].event == "stage_transition":
        unmark(root, harness, call.session_id, call.subagent)
    # 2. The ordinary case: the session is bound, and nothing but its record has to be read.
    if _append_directly(root, git_dir, harness, call, home):
        return
    # 3. Else: which record it belongs to; what the agent was just told outranks what was known before.
    recorder = _find_recorder(root, harness, call, home)
    # 4. Append: each physical event once.
    try:
        _append(recorder, harness, call)
    finally:
        recorder.close()


def parsed(data: bytes) -> object:
    """Return the payload, however deep it is and however long its numbers. Raises ValueError."""
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        from specify_cli.redaction.json_values import parse_foreign

        return parse_foreign(data)


def _place_event(event: HookEvent, root: str, folder: str, elsewhere: bool) -> HookEvent:
    """Return a patch by its path below the project, where it lies there.

    A call with its folder where that is elsewhere.

    A relative path starts where the agent works.
    """
    if event.event == "tool_call" and elsewhere:
        return event._replace(payload={**event.payload, "cwd": folder[:MAX_PATH]})
    path = event.payload.get("path")
    if event.event != "patch_apply" or not isinstance(path, str):
        return event
    whole = os.path.normpath(os.path.join(folder, path))
    if not whole.startswith(root + "/"):
        return event
    return event._replace(payload={**event.payload, "path": whole[len(root) + 1 :]})


def _key_stand_ins(call: HookInput, git_dir: str | None) -> HookInput:
    """Put what stands in for an id that a payload lacks under this clone's key.

    A bare digest would tell whoever reads the record whether a guess at the arguments is right. Outside git, where no
    key is kept, the session's id takes its place.
    """
    first = call.events[0]
    tool, _, bare = str(first.payload.get("call_id", first.call_id)).rpartition(":")
    named = tool == str(first.payload.get("tool", ""))[:64] and not (call.subagent == bare and not tool)
    if len(bare) != 16 or not _HEX.issuperset(bare) or not named:
        return call
    import hmac

    from specify_cli.invocation.settings import digest_key

    key = digest_key(git_dir)
    secret = key.secret if key is not None else (call.session_id or "").encode("utf-8", "replace")
    keyed = hmac.new(secret, bare.encode("ascii"), sha256).hexdigest()[:16]
    events = []
    for event in call.events:
        payload = event.payload
        if "call_id" in payload:
            payload = {**payload, "call_id": str(payload["call_id"]).replace(bare, keyed)}
        events.append(event._replace(payload=payload, call_id=event.call_id.replace(bare, keyed)))
    return call._replace(events=tuple(events))


def _is_elsewhere(root: str, folder: str, home: str | None) -> bool:
    """Return whether a folder lies outside a project, or in another project within it."""
    if folder == root:
        return False
    if not f"{os.path.normpath(folder)}/".startswith(f"{root}/"):
        try:
            return not f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(root)}/")
        except (OSError, ValueError):
            return True
    projects = _find_projects(folder, home)
    return bool(projects) and projects[0][0] != root


def _find_root(
    harness: str, call: HookInput, folders: Sequence[str | None], home: str | None
) -> tuple[str | None, str | None]:
    """Return the project a payload belongs to, and its git directory.

    The one whose open record the session is bound to.

    Whoever can make a folder, a branch or the agent itself, can make it look like a project. So the projects around
    these folders are asked for the session's binding first: those of the folder the harness was started in, which is
    the last, before the others, and each from the outside in. Only a session that is bound to no open record goes by
    its folder. A hook begins no project.
    """
    around = [
        [] if folder is None or folder in folders[:place] else _find_projects(folder, home)
        for place, folder in enumerate(folders)
    ]
    found = list(dict.fromkeys(project for group in around for project in group))
    if len(found) > 1 and call.session_id is not None:
        for group in (around[-1], *around[:-1]):
            for root, git_dir in reversed(group):
                for agent in dict.fromkeys((call.subagent, None)):
                    binding = binding_of(root, harness, call.session_id, agent)
                    if binding is not None and is_record_open(root, binding):
                        return root, git_dir
    return found[0] if found else (None, None)


def _find_projects(folder: str, home: str | None) -> list[tuple[str, str | None]]:
    """Return the projects in which spec-kitty is used around a folder within its git worktree, the nearest first.

    Within another project one counts only where a person accepted it (`root.locate`).
    """
    found: list[tuple[str, str | None]] = []
    here = folder
    try:
        while os.path.isabs(here):
            root, git_dir = find_root(here, home)
            if os.path.isdir(f"{root}/{layout.EVENTS}"):
                found.append((root, git_dir))
            if git_dir is None or os.path.lexists(f"{root}/.git"):
                break
            here = os.path.dirname(root)
    except (OSError, ValueError, InvocationError):
        pass
    return found


def _append(recorder: Recorder, harness: str, call: HookInput) -> None:
    keys = [dedupe_key(harness, call.session_id, event) for event in call.events]
    if keys:
        recorder.append(_compose_events(recorder, call), dedupe=keys, checkpoints=False)


def _compose_events(recorder: Recorder, call: HookInput) -> list[Composed]:
    """Return the bodies of a payload's events.

    Where masking their texts took too long they come without these and say so.
    """
    try:
        return _run_in_time(call, lambda: [recorder.compose(event.event, event.payload) for event in call.events])
    except _TooSlow:
        return [_compose_without_texts(recorder, event) for event in call.events]


def _compose_without_texts(recorder: Recorder, event: HookEvent) -> Composed:
    from specify_cli.invocation.payload import gap

    payload, lost = _split_texts(event)
    done = recorder.compose(event.event, payload)
    said = f"masking took longer than {REDACTION_SECONDS:g} seconds"
    return done._replace(gaps=(*(gap("redaction_too_slow", f"{event.event}.{name}", message=said) for name in lost),))


def _split_texts(event: HookEvent) -> tuple[dict[str, object], list[str]]:
    """Return an event's payload without the texts that may be long, and the names of those."""
    lost = [name for name in _TEXTS if name in event.payload]
    return {name: value for name, value in event.payload.items() if name not in lost}, lost


def _run_in_time(call: HookInput, make: Callable[[], T]) -> T:
    """Return what `make` gives, if it does so before the payload's deadline. Raises _TooSlow."""
    if call.deadline is None:
        return make()
    import signal

    def stop(*_: object) -> None:
        raise _TooSlow

    try:
        before = signal.signal(signal.SIGALRM, stop)
    except ValueError:
        return make()  # a thread of a program that embeds this has no alarm
    try:
        signal.setitimer(signal.ITIMER_REAL, max(0.05, call.deadline - time.monotonic()))
        return make()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _mark_begin(root: str, harness: str, call: HookInput) -> str | None:
    """Leave a mark that a large payload is being masked: what a killed hook cannot say, doctor finds by it."""
    name = f"{os.getpid()}-{time.time_ns()}.json"
    at = rfc3339(time.time_ns() // 1_000_000)
    try:
        write_small(root, layout.BEGUN, name, {"at": at, "harness": harness[:64], "event": call.events[-1].event})
    except (OSError, InvocationError):
        return None
    return name


def _append_directly(root: str, git_dir: str | None, harness: str, call: HookInput, home: str | None) -> bool:
    """Append to the bound record with nothing loaded but what an append takes; False where more is to be known.

    Mostly no more is: the session is bound, nothing is so large that it becomes an object, and nothing depends on
    where the run stands.
    """
    session = call.session_id
    if session is None or call.started_invocation is not None or call.deadline is not None:
        return False
    if any(event.event not in ("tool_call", "tool_result", "patch_apply", "error") for event in call.events):
        return False
    binding = binding_of(root, harness, session, call.subagent)
    if binding is None and call.subagent is not None:
        binding = binding_of(root, harness, session, None)
    if binding is None or binding.profile_id is None:
        return False
    from specify_cli.invocation.payload import change_gap, compose_event, find_known, other_writer
    from specify_cli.invocation.settings import settings_of
    from specify_cli.record.ids import new_ulid
    from specify_cli.record.seal import open_line
    from specify_cli.storage.store import FileRecordStore, LockedRecord, place_of

    place = place_of(binding.profile_id, binding.invocation_id)
    store = FileRecordStore(root)
    try:
        started = open_line(store.head(place))
    except FileNotFoundError:
        return False
    fields = started.fields or {}
    if started.problems or fields.get("tombstone"):
        return False
    settings = settings_of(fields, *_read_limits(root, git_dir, home), git_dir)
    millis = durable.read_clock(time.time_ns)
    trace_id = str(fields.get("trace_id", ""))
    items = []
    for event in call.events:
        item = compose_event(
            event.event, event.payload, settings, new_id=lambda: new_ulid(millis, os.urandom(10)), trace_id=trace_id
        )
        if item.objects or item.gaps:
            return False
        items.append(item)
    keys = [dedupe_key(harness, session, event) for event in call.events]
    other = other_writer(fields, _name_writer(harness, session), settings.rules)
    by = {} if other is None else {"by": other}
    at = rfc3339(millis)
    change = change_gap(fields, settings)
    closed = False

    def compose(locked: LockedRecord) -> list[dict[str, object]]:
        nonlocal closed
        known = find_known(locked.holds, locked.read, items, keys, change)
        new = zip(items, keys, known.events, strict=True)
        bodies = [item.body if key is None else {**item.body, "dedupe": key} for item, key, there in new if not there]
        bodies += known.conflicts
        closed = bool(bodies) and locked.tip.event == "completed"
        first = () if known.change is None or not bodies else (known.change,)
        return [] if closed else [{**body, "at": at, **by} for body in (*first, *bodies)]

    store.append(place, compose, at, sync=any(item.durable for item in items))
    return not closed


def _name_writer(harness: str, session: str | None) -> dict[str, str]:
    """Return who writes for a session, in the form of a line's `by`."""
    return {"harness": harness, "session_id": session or ""}


def _read_limits(root: str, git_dir: str | None, home: str | None) -> tuple[Mapping[str, str], RuleSet]:
    """Return the capture modes in force that the config states, by side, and the redaction rules in force."""
    from specify_cli.project.protection import CAPTURE_SIDES, DEFAULTS, Protections, read_accepted, strengthen
    from specify_cli.redaction.capture import shipped_rule_set

    plain = _read_plain_modes(root)
    if plain is not None:
        accepted = read_accepted(git_dir, place_below(root, find_worktree(root) or root)) or DEFAULTS
        if not accepted.rules:
            stated = {side: mode for key, mode in plain.items() for side in CAPTURE_SIDES[key]}
            return strengthen(Protections(capture=stated), accepted)[0].capture, shipped_rule_set()
    from specify_cli.project.config import load_project

    project, cache = load_project(root, home)
    cache.save()
    return project.config.capture_ceiling, project.config.redaction


def _read_plain_modes(root: str) -> dict[str, str] | None:
    """Return the capture modes a config in its usual form states, by key; None where it has to be parsed to know.

    A line of redaction, or of capture in another form, has to be; so has anything that could hide a key in escapes.
    """
    try:
        data = durable.read_below(root, layout.CONFIG, _MAX_CONFIG)
    except FileNotFoundError:
        return {}
    # Where YAML ends a line and bytes do not, a key could hide behind a comment (YAML 1.1 §4.2).
    if len(data) > _MAX_CONFIG or any(mark in data for mark in (b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")):
        return None
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
    """Return the digest of one physical event; None where the harness gives nothing to tell it by."""
    if not event.call_id:
        return None
    return digest_of_names(harness, session or "", event.call_id, event.phase, event.event)[:32]


# --- which record


def _find_recorder(root: str, harness: str, call: HookInput, home: str | None) -> Recorder:
    """Return the recorder of the record a payload belongs to. Raises Orphan, Recorded."""
    from specify_cli.invocation.recorder import Recorder
    from specify_cli.project.config import load_project
    from specify_cli.record.seal import open_line
    from specify_cli.storage.index import Index
    from specify_cli.storage.queries import read_row
    from specify_cli.storage.store import FileRecordStore

    session, subagent = call.session_id, call.subagent
    if session is None:
        raise Orphan("the payload names no session")
    writer = _name_writer(harness, session)
    project, cache = load_project(root, home)
    index, store = Index(root), FileRecordStore(root)
    why = "no invocation is bound to this session"
    closed: str | None = None

    def open_place(invocation_id: str) -> Place | None:
        nonlocal why, closed
        try:
            place = index.resolve(invocation_id)
        except InvocationError as error:
            why = f"the bound invocation {invocation_id} is not here: {error.code}"
            return None
        row = read_row(root, place)
        if row is not None and row.status == "open" and place.folder == layout.RECORDS:
            if not (open_line(store.head(place)).fields or {}).get("tombstone"):
                return place
            why = f"the invocation {invocation_id} was begun with the trail off and takes over no session"
            return None
        why, closed = f"the bound invocation {invocation_id} is closed or read-only", invocation_id
        if call.events and _has_all(root, place, _list_keys_in_closed(harness, call)):
            if not call.closes and _is_contradicted(Recorder(project, place, cache=cache), harness, call):
                why = f"it contradicts what the closed invocation {invocation_id} holds"
                return None
            raise Recorded
        return None

    # 1. What the agent was just told by a `do` of its own; a record of another worktree is none of this one's.
    began = call.started_invocation
    place = None if began is None else open_place(began)
    if place is not None:
        above = _find_above(root, harness, session, subagent, place)
        _take_over(root, harness, session, subagent, place)
        if above is not None:
            _finish(Recorder(project, above, cache=cache, writer=writer), harness, call)
        return Recorder(project, place, cache=cache, writer=writer)
    # 2. What is bound: to the subagent, else to the session it works in.
    # 3. Else the one open record that this agent, or the session, began.
    agents = (subagent, None) if subagent is not None else (None,)
    for find in (_find_by_binding, _find_by_record):
        for agent in agents:
            found = find(project, harness, session, agent)
            place = None if found is None else open_place(found.invocation_id)
            if found is None or place is None:
                continue
            if found.profile_id is None:
                _remember(root, harness, session, agent, place, found.source)
            return Recorder(project, place, cache=cache, writer=writer)
    raise Orphan(why, closed)


def _list_keys_in_closed(harness: str, call: HookInput) -> list[str | None]:
    """Return the keys a closed record holds if nothing of a payload is missing.

    Of the call that closed it that is the begin alone.
    """
    events = call.events
    if call.closes:
        begin = events[0]._replace(event="tool_call", phase="pre", call_id=str(events[0].payload.get("call_id")))
        events = (begin,)
    return [dedupe_key(harness, call.session_id, event) for event in events]


def _is_contradicted(recorder: Recorder, harness: str, call: HookInput) -> bool:
    """Return whether a record holds one of these events with another body."""
    from specify_cli.invocation.payload import conflict_gap
    from specify_cli.storage.store import FileRecordStore

    data = FileRecordStore(recorder.project.root).read(recorder.place)
    for event, item in zip(call.events, _compose_events(recorder, call), strict=True):
        key = dedupe_key(harness, call.session_id, event)
        if key is not None and conflict_gap(data, key, item.body) is not None:
            return True
    return False


def _has_all(root: str, place: Place, keys: Sequence[str | None]) -> bool:
    """Return whether a record holds every one of these events."""
    with durable.folder(root, place.folder) as folder_fd:
        fd = durable.open_regular(folder_fd, place.name, os.O_RDONLY, place.path)
        try:
            return all(key is not None and durable.holds(fd, dedupe_bytes(key)) for key in keys)
        finally:
            os.close(fd)


def _find_by_binding(project: Project, harness: str, session: str, agent: str | None) -> Binding | None:
    return binding_of(project.root, harness, session, agent)


def _find_by_record(project: Project, harness: str, session: str, agent: str | None) -> Binding | None:
    """Return the one open record among the newest that this agent of the session began; none where there are two."""
    from specify_cli.record.seal import open_line
    from specify_cli.storage.index import Index
    from specify_cli.storage.queries import read_row
    from specify_cli.storage.store import FileRecordStore

    index, store = Index(project.root), FileRecordStore(project.root)
    found: list[str] = []
    for number, key in enumerate(index.newest()):
        if number >= _SEARCHED or len(found) > 1:
            break
        place = index.place(key)
        if place is None or place.folder != layout.RECORDS:
            continue
        started = open_line(store.head(place)).fields or {}
        call = started.get("session")
        if not isinstance(call, dict) or started.get("tombstone"):
            continue
        if (call.get("harness"), call.get("session_id"), call.get("agent_id")) != (harness, session, agent):
            continue
        if agent is None and read_small(project.root, *owned_path(harness, session, place.invocation_id)) is not None:
            continue  # a subagent's `do` began it, which its first line did not know
        row = read_row(project.root, place)
        if row is not None and row.status == "open":
            found.append(place.invocation_id)
    return Binding(found[0], "only-open") if len(found) == 1 else None


def _find_above(root: str, harness: str, session: str, subagent: str | None, new: Place) -> Place | None:
    """Return the open record that holds the begin of the `do` that began another."""
    from specify_cli.storage.store import place_of

    folder, name = binding_path(harness, session, None)
    value = read_small(root, folder, name)
    for binding in (binding_of(root, harness, session, subagent), parse_binding(value), *list_earlier(value)):
        if binding is not None and binding.invocation_id != new.invocation_id and is_record_open(root, binding):
            return place_of(str(binding.profile_id), binding.invocation_id)
    return None


def _finish(recorder: Recorder, harness: str, call: HookInput) -> None:
    """Give a record the result of a call whose begin it holds."""
    begin, *rest = call.events
    key = dedupe_key(harness, call.session_id, begin)
    try:
        if key is not None and _has_all(recorder.project.root, recorder.place, [key]):
            _append(recorder, harness, call._replace(events=tuple(rest)))
    except InvocationError:
        return  # it is closed meanwhile
    finally:
        recorder.close()


def _take_over(root: str, harness: str, session: str, subagent: str | None, place: Place) -> None:
    """Bind who began a record to it; what its `do` took the whole session's binding from gets that back."""
    if subagent is not None:
        give_back(root, harness, session, place.invocation_id)
        owned: dict[str, object] = {"invocation_id": place.invocation_id, "source": "subagent"}
        try:
            write_small(root, *owned_path(harness, session, place.invocation_id), owned)
        except (OSError, InvocationError):
            pass
    _remember(root, harness, session, subagent, place, "tool")


def _remember(root: str, harness: str, session: str, subagent: str | None, place: Place, source: str) -> None:
    try:
        bind(root, harness, session, subagent, place.invocation_id, source, place.profile_id)
    except (OSError, InvocationError):
        return  # the record is found without it, only later


# --- bindings, read as hostile input


# --- whose `do` it is: a call that begins an invocation is marked from its pre-tool event to its end


def _mark_call(root: str, harness: str, call: HookInput) -> int | None:
    """Note that a call which begins an invocation is under way, or that it is over; since when (ms) it was."""
    if call.session_id is None or not call.events:
        return None
    folder = calls_folder(harness, call.session_id)
    name = short_digest(str(call.events[0].payload.get("call_id"))) + ".json"
    now = time.time_ns() // 1_000_000
    mark = read_small(root, folder, name)
    since = mark.get("at") if isinstance(mark, dict) else None
    if type(since) is not int or not now - 1000 * MARK_SECONDS < since <= now:
        since = None
    try:
        if call.events[-1].event != "tool_call":
            unlink_below(root, folder, name)
        elif since is None:  # told twice, it began the first time
            write_small(root, folder, name, {"agent_id": call.subagent, "at": now})
    except (OSError, InvocationError):
        pass
    return since


def _find_begun(root: str, harness: str, call: HookInput, since: int | None) -> str | None:
    """Return which of the records that a call's output names that call began; None where that is not sure.

    Anything may stand in an output. A record of another session is not meant, nor one that was there before the call.
    """
    from specify_cli.record.ids import millis_of
    from specify_cli.record.seal import open_line
    from specify_cli.storage.index import Index
    from specify_cli.storage.store import FileRecordStore

    session = call.session_id
    if session is None:
        return None
    index, store = Index(root), FileRecordStore(root)
    found: list[str] = []
    for printed in call.printed:
        try:
            started = open_line(store.head(index.resolve(printed))).fields or {}
        except (OSError, InvocationError):
            continue  # of another worktree, or of none
        owner = started.get("session")
        if isinstance(owner, dict):
            named = owner.get("session_id")
            masked = isinstance(named, str) and "\u27e6" in named
            if owner.get("harness") != harness or not (named is None or masked or named == session[:200]):
                continue
        if since is None or millis_of(printed) >= since:
            found.append(printed)
    if len(found) == 1:
        return found[0]
    bound = binding_of(root, harness, session, None)
    return bound.invocation_id if bound is not None and bound.invocation_id in found else None


def _find_in_transcript(root: str, call: HookInput) -> str | None:
    """Return the newest record at the end of the session's transcript whose request stands in the command line.

    A transcript may not have come to this call yet; then the last record it names is another.
    """
    from specify_cli.hooks.payload import printed_ids
    from specify_cli.record.seal import open_line
    from specify_cli.storage.index import Index
    from specify_cli.storage.store import FileRecordStore

    data = _read_end(str(call.transcript))
    index, store = Index(root), FileRecordStore(root)
    for printed in sorted(printed_ids(data.decode("utf-8", "replace")), reverse=True):
        try:
            request = (open_line(store.head(index.resolve(printed))).fields or {}).get("request_text")
        except (OSError, InvocationError):
            continue
        if isinstance(request, str) and request and request in str(call.begins):
            return printed
    return None


def with_ending(call: HookInput) -> HookInput:
    """Fill in how a command ended where only the session's transcript says it."""
    if call.ending is None:
        return call
    status = ending_of(_read_end(call.ending), str(call.events[-1].payload["call_id"]))
    if status is None:
        return call
    *before, result = call.events
    return call._replace(events=(*before, result._replace(payload={**result.payload, "status": status})))


def _read_end(path: str) -> bytes:
    """Return the end of a transcript, nothing of what is no plain file; the harness alone says where it is."""
    folder, _, name = path.rpartition("/")
    if not os.path.isabs(path):
        return b""
    try:
        with durable.folder(folder or "/") as folder_fd:
            fd = durable.open_regular(folder_fd, name, os.O_RDONLY, name)
        try:
            return os.pread(fd, MAX_TRANSCRIPT, max(0, os.fstat(fd).st_size - MAX_TRANSCRIPT))
        finally:
            os.close(fd)
    except (OSError, InvocationError, ValueError):
        return b""


# --- what could not be recorded


def _keep_orphan(
    root: str, harness: str, call: HookInput, why: str, home: str | None, *, closed: str | None = None
) -> None:
    """Keep an event that has no record: redacted, its texts cut, and in a log of bounded size."""
    from specify_cli.project.config import load_project
    from specify_cli.redaction.capture import redact
    from specify_cli.redaction.json_values import foreign_text

    # A config that cannot be used names no rules: then the shipped ones.
    config = load_project(root, home, lenient=True)[0].config
    rules = config.redaction
    shown = call.events[:_MAX_TOLD]
    if {"off", "hash"} & set(config.capture.values()):
        shown = tuple(event._replace(payload=_split_texts(event)[0]) for event in shown)
    try:
        texts = _run_in_time(call, lambda: [(event.event, foreign_text(event.payload, rules).text) for event in shown])
    except _TooSlow:
        texts = [(event.event, foreign_text(_split_texts(event)[0], rules).text) for event in shown]
        why = f"{why[:120]}; its texts took too long to mask"
    line: dict[str, object] = {
        "at": rfc3339(time.time_ns() // 1_000_000),
        "harness": harness[:64],
        "session": redact(call.session_id or "", rules).text[:200],
        "hook_event": redact(call.hook_event, rules).text[:200],
        "why": why[:200],
    }
    if closed is not None:
        line["closed"] = closed
    if len(call.events) > len(texts):
        line["more"] = len(call.events) - len(texts)
    keys = [key for event in call.events if (key := dedupe_key(harness, call.session_id, event)) is not None]
    if len(keys) == len(call.events):
        line["keys"] = keys if len(keys) <= _MAX_TOLD else [digest_of_names(*keys)[:32]]
    limit = 2000
    while True:
        line["events"] = [{"event": event, "payload": text[:limit]} for event, text in texts]
        if limit == 0 or len(_encode_line(line)) <= MAX_ORPHAN:
            break
        limit //= 2
    _log(root, layout.ORPHANS, line, MAX_ORPHANS)


def note_failure(root: str, git_dir: str | None, harness: str, error: BaseException) -> None:
    """Leave a hook's own failure where doctor shows it: in the project, else in the git directory, else nowhere."""
    code = error.code if isinstance(error, InvocationError) and error.code in CODES else type(error).__name__
    line = {"at": rfc3339(time.time_ns() // 1_000_000), "harness": harness, "code": code}
    if isinstance(error, InvocationError):
        line["message"] = error.message[:500]
    places = [(root, layout.HOOK_FAILURES), *([] if git_dir is None else [(git_dir, layout.LOST_IN_GIT)])]
    # What git tracks would be published with the next commit.
    for top, path in places[1:] if code == "TRACKED_PRIVATE" else places:
        try:
            _log(top, path, line, MAX_FAILURES)
            return
        except (OSError, InvocationError):
            continue


def _encode_line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") + b"\n"


def _log(root: str, path: str, value: Mapping[str, object], limit: int) -> None:
    """Append one line to a log that says so and stops at its limit; what its `keys` tell from others it holds once."""
    folder, _, name = path.rpartition("/")
    data = _encode_line(value)
    with durable.folder(root, folder, create=True) as folder_fd:
        flags = os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, durable.PRIVATE, dir_fd=folder_fd)
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                raise StoredDataError("FOREIGN_OWNER", f"{path} belongs to another user", f"remove {path}")
            durable.lock(fd, path, LOCK_WAIT_SECONDS)
            size = os.fstat(fd).st_size
            last = os.pread(fd, 512, max(0, size - 512))
            if size + len(data) > limit:
                if b'"full": true' in last:
                    return
                data = _encode_line({"at": value["at"], "full": True, "why": "the log is full; no later event is kept"})
            elif "keys" in value and json.dumps(value["keys"]).encode("ascii") in os.pread(fd, limit, 0):
                return
            if last and not last.endswith(b"\n"):
                data = b"\n" + data
            durable.write_all(fd, data)
        finally:
            os.close(fd)


def logged(root: str, path: str) -> Sequence[Mapping[str, object]]:
    """Return the lines of a log that can be read, oldest first; the last of a full one says so."""
    limit = MAX_ORPHANS + MAX_ORPHAN
    try:
        data = durable.read_below(root, path, limit)
    except (OSError, InvocationError):
        return ()
    found = []
    for raw in data[:limit].split(b"\n"):
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            value = {"code": "UNREADABLE"} if raw.strip(b"\0 \t\r") else None
        if isinstance(value, dict):
            found.append(value)
    return [*found, {"full": True}] if len(data) > limit else found
