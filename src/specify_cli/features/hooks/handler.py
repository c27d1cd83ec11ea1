"""What a harness's hook calls: one payload on stdin to run events on the record it belongs to
(docs/hooks.md).

Guarantees: the agent is never disturbed (exit 0, nothing on stdout, no network, a bounded wait); an
event is bound to a record by what the harness says and never by a guess; the same physical event is
recorded once; what cannot be recorded is stored, redacted and cut, where doctor finds it. A binding
is read as hostile input: it can name a record of this project, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys

from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.features.hooks.direct import append_directly, key_stand_in
from specify_cli.features.hooks.harnesses import find_dialect, find_sender, translate
from specify_cli.features.hooks.payload.calls import READING_TOOLS, begins_subagent
from specify_cli.features.hooks.payload.site import Site, find_site, place_events
from specify_cli.features.hooks.payload.values import NOTHING, HookInput
from specify_cli.invocation.bindings import asked_folder, find_session
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.record import layout
from specify_cli.redaction.json_values import parse_foreign
from specify_cli.storage.store import FileRecordStore

MAX_INPUT = 64 * 1024 * 1024
LOCK_WAIT_SECONDS = 2.0
# Smaller payloads are masked in a second at worst: they need neither a deadline nor a mark.
LARGE = 64 * 1024


def run_hook_command(words: str) -> int:
    """Run `spec-kitty hook`: no table, no Typer, and no failure the agent could feel."""
    harness, _, source = words.partition(" ")
    try:
        asks = harness == "-h" or words.endswith("-help")
        if asks or os.isatty(0):
            from specify_cli.features.hooks import rehearsal  # for a person: no harness asks

            return rehearsal.explain_hook() if asks else rehearsal.refuse_person(words)
        durable.LOCK_WAIT_SECONDS = LOCK_WAIT_SECONDS
        # what is done after an append is nothing that the agent waits for
        durable.IN_BACKGROUND = True
        data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_INPUT + 1)
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = "/"  # it is gone; the payload may name another
        home = os.path.expanduser("~")
        project = os.environ.get("CLAUDE_PROJECT_DIR")
        run_hook(harness, data, cwd, home if os.path.isabs(home) else None, project, source)
    except (OSError, ImportError, KeyboardInterrupt):
        pass  # nowhere to say so: the agent goes on undisturbed
    return 0


def run_hook(
    harness: str,
    data: bytes,
    cwd: str,
    home: str | None,
    project: str | None = None,
    source: str = "",
) -> None:
    """Record what one hook payload reports. Never raises: a failure is left where doctor shows it.

    `cwd` is the folder of the hook's process and `project` the one the harness was started in,
    where it says so. `source` tells the settings files of one harness apart.
    """
    at: Site | None = None
    source = f"{harness} {source}"
    harness = _check_name(harness)
    try:
        # 1. What happened, and in which project: an agent may look around elsewhere.
        payload = _parse_payload(data)
        harness = find_sender(harness, payload)
        call = translate(harness, payload, briefly=True)
        at = find_site(harness, call, (cwd, project), home)
        if at is not None and call.parent_agent is not None and call.subagent is not None:
            session = find_session(at.root, harness, call.subagent, call.parent_agent)
            call = call._replace(session_id=session)
            at = find_site(harness, call, (cwd, project), home)
        if not at:
            return
        if not call.hook_event:
            size = f"is larger than {MAX_INPUT // 1024**2} MiB"
            what = size if len(data) > MAX_INPUT else "is no JSON object that names its event"
            raise CallerError("PAYLOAD_INVALID", f"a payload {what}", "spec-kitty hooks test")
        if not (call.events or call.moment.kind or call.asked or call.is_unknown):
            return
        _keep_from_git(at.root)
        # 2. What only this harness makes necessary.
        call = _complete_call(at, source, call)
        # 3. The ordinary case: a call in a session that is bound, and nothing but its record has to
        # be read.
        large, failed = len(data) > LARGE, None
        if not large and _is_ordinary(at, call):
            try:
                if append_directly(at, place_events(call, at)):
                    return
            except Exception as error:
                failed = error
        # 4. Else what the session does, and which record a call belongs to.
        # a third of what an ordinary call costs
        from specify_cli.features.hooks.conversation.session import record_session

        record_session(at, call, failed, large=large)
    except BaseException as error:
        # A harness of another package fails before its payload says where it belongs.
        at = at or find_site(harness, NOTHING, (cwd, project), home)
        if at:
            from specify_cli.features.hooks.losses import note_failure  # rare, and as heavy

            note_failure(at, error)


def _check_name(harness: str) -> str:
    """Return the name of a harness, `unknown` where it has not the form of one.

    What stands in a command line may be anything, and the name is written down.
    """
    named = harness.islower() and harness.replace("-", "").isalnum() and len(harness) <= 32
    return harness if named else "unknown"


def _complete_call(at: Site, source: str, call: HookInput) -> HookInput:
    """Return a call with what its payload alone does not say, and look at what calls changed."""
    if call.events:
        call = _tell_apart(at, source, call)
    if call.events:
        _look_around(at, call)
    if any(str(event.payload.get("diff")).startswith("@@") for event in call.events):
        # edits whose payload states no places
        from specify_cli.features.hooks.worktree.pieces import complete_diffs

        call = complete_diffs(call, at)
    return call


def _parse_payload(data: bytes) -> object:
    """Return the payload; None for one that is no JSON or too large."""
    try:
        return parsed(data) if len(data) <= MAX_INPUT else None
    except ValueError:
        return None


def _is_ordinary(at: Site, call: HookInput) -> bool:
    """Return whether a payload reports a call and nothing else."""
    if call.is_unknown or call.moment.kind or not call.events:
        return False
    first = call.events[0]
    begins = first.event == "tool_call" and begins_subagent(first.tool)
    if begins or first.event == "stage_transition" or call.starts_record_command:
        return False
    return not os.path.lexists(f"{at.root}/{asked_folder(at.harness, at.session)}")


def _tell_apart(at: Site, source: str, call: HookInput) -> HookInput:
    """Return a call whose events are distinct from others like it, and end as the harness noted
    elsewhere."""
    dialect = find_dialect(at.harness)
    if dialect.lacks_exit_status(call):
        # Codex alone
        from specify_cli.features.hooks.payload.transcript_end import fill_exit_status

        call = fill_exit_status(dialect, call)
    call = _key_stand_ins(at, call)
    if not call.call_id_is_synthetic:
        return call
    # for harnesses that name no call
    from specify_cli.features.hooks.conversation import unnamed_calls

    call = unnamed_calls.name_as_reported(at, call)
    if not call.events or call.starts_record_command:
        return call
    if call.events[0].is_numbered or (
        call.events[-1].phase == "pre" and dialect.sends_equal_payloads
    ):
        call = unnamed_calls.number_twin(at, source, call)
    return call


def _look_around(at: Site, call: HookInput) -> None:
    """Find what calls changed, before and after one that can change files."""
    begins, ends = call.events[-1].event == "tool_call", call.events[0].event == "tool_result"
    reads = call.events[0].tool.lower() in READING_TOOLS
    if reads or not (begins or (ends and os.path.isdir(f"{at.root}/{layout.TREE}"))):
        return
    # not for calls that only read
    from specify_cli.features.hooks.worktree.gate import look_around

    look_around(at, call)


def _keep_from_git(root: str) -> None:
    """See that git ignores what a hook writes before it does: it may be the first to write in a
    clone.

    Raises StoredDataError TRACKED_PRIVATE, UNSAFE_PATH, EnvironmentFault WRITE_FAILED.
    """
    refuse_tracked_private(root)
    if all(
        os.path.lexists(f"{root}/{folder}/.gitignore")
        for folder in (layout.EVENTS, layout.RECORDS, layout.LOCAL)
    ):
        return
    FileRecordStore(root).shield()


def parsed(data: bytes) -> object:
    """Return the payload, however deep it is and however long its numbers. Raises ValueError."""
    try:
        return json.loads(data, parse_float=_read_double)
    except (RecursionError, ValueError):
        return parse_foreign(data)


def _read_double(digits: str) -> float:
    """Return a fraction; ValueError where no double holds it, as `1e400`, and its spelling
    stays."""
    value = float(digits)
    if value - value:  # of an infinity no number
        raise ValueError(digits)
    return value


def _key_stand_ins(at: Site, call: HookInput) -> HookInput:
    """Put what stands in for an id that a payload lacks under this clone's key.

    A bare digest would show whoever reads the record whether a guess at the arguments is right.
    """
    first = call.events[0]
    # What stands in for an id: the tool, if there is one, and a digest.
    named = str(first.payload.get("call_id", first.call_id))
    tool, _, bare = named.rpartition(":")
    is_digest = len(bare) == 16 and not bare.strip("0123456789abcdef")
    if not is_digest or tool != first.tool[:64] or named == call.subagent:
        return call
    keyed = key_stand_in(bare, at.session, at.git_dir)
    events = tuple(event.rename(lambda name: name.replace(bare, keyed)) for event in call.events)
    return call._replace(events=events, call_id_is_synthetic=True)
