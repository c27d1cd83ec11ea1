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

from doctrine.light import TYPE_CHECKING, sha256
from specify_cli.errors import CallerError, InvocationError
from specify_cli.hooks import translation
from specify_cli.hooks.translation import MAX_PATH, HookEvent, HookInput, sender, translate
from specify_cli.invocation.bindings import (
    asked_folder,
    binding_of,
    find_session,
    is_record_open,
    opens_by_itself,
    unlink_below,
    unmark,
    write_small,
)
from specify_cli.project.root import find_root
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_INPUT = 64 * 1024 * 1024
LOCK_WAIT_SECONDS = 2.0
# Smaller payloads are masked in a second at worst: they need neither a deadline nor a mark.
LARGE = 64 * 1024
_HEX = frozenset("0123456789abcdef")


def run_hook(
    harness: str, data: bytes, cwd: str, home: str | None, project: str | None = None, source: str = ""
) -> None:
    """Record what one hook payload tells. Never raises: a failure is left where doctor shows it.

    `cwd` is the folder of the hook's process and `project` the one the harness was started in, where it says so.
    `source` tells the settings files of one harness apart.
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
        source = f"{harness} {source}"
        harness = sender(harness if named else "unknown", payload)
        call = translate(harness, payload)
        folder = call.cwd or cwd
        root, git_dir = _find_root(harness, call, (folder, cwd, project), home)
        if root is not None and call.above is not None and call.subagent is not None:
            call = call._replace(session_id=find_session(root, harness, call.subagent, call.above))
            root, git_dir = _find_root(harness, call, (folder, cwd, project), home)
        if root is not None and not call.hook_event:
            what = "is no JSON object that names its event"
            if len(data) > MAX_INPUT:
                what = f"is larger than {MAX_INPUT // 1024**2} MiB"
            raise CallerError("PAYLOAD_INVALID", f"a payload {what}", "spec-kitty hooks test")
        if root is not None and call.unknown:
            from specify_cli.hooks.turn import record_unknown

            record_unknown(root, harness, call, home)
        if root is None or not (call.events or call.moment or call.asks):
            return
        _keep_from_git(root)
        if call.ending is not None:
            from specify_cli.hooks.transcript import with_ending

            call = with_ending(call)
        call = _key_stand_ins(call, git_dir) if call.events else call
        if call.asks or os.path.lexists(f"{root}/{asked_folder(harness, call.session_id or '')}"):
            from specify_cli.hooks.permission import follow_request

            call = follow_request(root, harness, call)
        if call.moment is not None:
            from specify_cli.hooks.turn import record_moment

            record_moment(root, harness, call, call.moment, home)
            if call.moment.kind == "ended" and opens_by_itself(root, harness):
                from specify_cli.hooks.session_record import end_records

                end_records(root, harness, call.session_id or "", home)
        if not call.events:
            return
        if call.stand_in and harness == "copilot" and call.events[-1].phase == "pre" and call.begins is None:
            from specify_cli.hooks.twins import number_twin

            call = number_twin(root, harness, source, call)
        mark: str | None = None
        if len(data) > LARGE:
            call = call._replace(deadline=time.monotonic() + translation.REDACTION_SECONDS)
            mark = _mark_begin(root, harness, call)
        told, call = call, place_events(call, root, folder, home)
        try:
            _record(root, git_dir, harness, call, home)
        except Exception as error:
            _record_otherwise(error, (root, git_dir, harness, home), told, call, folder)
        if mark is not None:
            unlink_below(root, layout.BEGUN, mark)
    except BaseException as error:
        if root is not None:
            from specify_cli.hooks.losses import note_failure

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
    since = None
    if call.begins is not None:
        from specify_cli.hooks.search import find_begun, mark_call

        since = mark_call(root, harness, call)
        if call.transcript is not None:
            from specify_cli.hooks.transcript import find_in_transcript

            call = call._replace(started_invocation=find_in_transcript(root, call))
        elif call.printed:
            call = call._replace(started_invocation=find_begun(root, harness, call, since))
    elif call.subagent is not None and call.session_id is not None and call.events[0].event == "stage_transition":
        unmark(root, harness, call.session_id, call.subagent)
    # 2. The ordinary case: the session is bound, and nothing but its record has to be read.
    from specify_cli.hooks.direct import append_directly

    if append_directly(root, git_dir, harness, call, home):
        return
    # 3. Else: which record it belongs to; what the agent was just told outranks what was known before.
    from specify_cli.hooks.search import append_call, find_recorder

    recorder = find_recorder(root, harness, call, home)
    # 4. Append: each physical event once.
    try:
        if call.started_invocation == recorder.invocation_id and call.subagent is None:
            from specify_cli.hooks.turn import give_prompt

            give_prompt(recorder, harness, str(call.session_id))
        append_call(recorder, harness, call)
        if call.started_invocation == recorder.invocation_id and since is not None:
            from specify_cli.hooks.take_in import take_in

            take_in(recorder, harness, str(call.session_id), call.subagent, since)
    finally:
        recorder.close()


def _record_otherwise(
    error: Exception,
    place: tuple[str, str | None, str, str | None],
    told: HookInput,
    call: HookInput,
    folder: str,
) -> None:
    """Record a call that found no record here in another worktree, or in one that begins with it; else keep it.

    `told` is the call before its events were placed in this project.
    """
    from specify_cli.hooks.losses import keep_lost
    from specify_cli.hooks.search import Orphan, find_elsewhere

    root, git_dir, harness, home = place
    other = find_elsewhere(root, harness, told) if isinstance(error, Orphan) else None
    if other is not None:
        told = place_events(told._replace(started_invocation=other[1], printed=()), other[0], folder, home)
        _record(other[0], git_dir, harness, told, home)
        return
    if isinstance(error, Orphan) and opens_by_itself(root, harness):
        from specify_cli.hooks.session_record import begin_record

        if begin_record(root, harness, call, home):
            _record(root, git_dir, harness, call, home)
            return
    keep_lost(root, git_dir, harness, call, error, home)


def parsed(data: bytes) -> object:
    """Return the payload, however deep it is and however long its numbers. Raises ValueError."""
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        from specify_cli.redaction.json_values import parse_foreign

        return parse_foreign(data)


def place_events(call: HookInput, root: str, folder: str, home: str | None) -> HookInput:
    elsewhere = _is_elsewhere(root, folder, home)
    return call._replace(events=tuple(_place_event(event, root, folder, elsewhere) for event in call.events))


def _place_event(event: HookEvent, root: str, folder: str, elsewhere: bool) -> HookEvent:
    """Return an event placed in the project.

    A patch gets its path below the project where it lies there; a relative path starts where the agent works. A call
    made in a folder elsewhere names that folder.
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
    return call._replace(events=tuple(events), stand_in=True)


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


def _mark_begin(root: str, harness: str, call: HookInput) -> str | None:
    """Leave a mark that a large payload is being masked: what a killed hook cannot say, doctor finds by it."""
    name = f"{os.getpid()}-{time.time_ns()}.json"
    at = rfc3339(time.time_ns() // 1_000_000)
    try:
        write_small(root, layout.BEGUN, name, {"at": at, "harness": harness[:64], "event": call.events[-1].event})
    except (OSError, InvocationError):
        return None
    return name
