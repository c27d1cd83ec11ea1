"""Records that open and close by themselves, where a person did not say no: `hooks install`.

The first prompt of a session that works on no record begins one: advice, for no agent read its
context. A `do` in it begins a record of its own; when that is closed, this one goes on. It ends
with the session. Whoever removes the mark switches this off, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial

from doctrine import os
from doctrine.light_imports import hash_text
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.hooks.conversation.turn import give_prompt, name_prompt, read_prompt
from specify_cli.features.hooks.direct import (
    ends_part,
    name_end,
    name_writer,
    open_recorder,
    read_lines,
)
from specify_cli.features.hooks.payload.compose import compose_events
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.values import HookInput
from specify_cli.features.hooks.search import (
    Orphan,
    find_imported,
    find_recorder,
    is_first_telling,
    list_untold,
    read_bound,
)
from specify_cli.features.hooks.worktree.gate import look_after
from specify_cli.invocation.bindings import opens_by_itself, remember_left_open
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.invocation.ends.opening import Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.event_table import ANNEX_EVENTS
from specify_cli.record.reading.done_note import judge_end
from specify_cli.record.reading.views import fields_of, read_file
from specify_cli.storage.index import Index
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import FileRecordStore

_NO_PROMPT = "work of a session whose prompts are not kept"


def set_mark(project: Project, harness: str, *, on: bool) -> None:
    """Let sessions of a harness get records by themselves in this clone, or no more. Raises
    InvocationError."""
    if on:
        prepare(FileRecordStore(project.root, project.config.trail))
    elif not opens_by_itself(project.root, harness):
        return
    with durable.folder(project.root, layout.OPEN, create=True) as fd, suppress(FileExistsError):
        if on:
            durable.create_exclusive(fd, harness, b"", durable.PRIVATE)
        else:
            os.unlink(harness, dir_fd=fd)


def begin_record(at: Site, call: HookInput) -> bool:
    """Begin a record for a session that works on none; False where this call is no reason to.
    Raises InvocationError.

    A prompt is one, and a call that is about to run, where no prompt was reported: what comes after
    a record is no work of its own.
    """
    is_asked = call.moment.kind == "prompt" and call.subagent is None
    works = (
        bool(call.events)
        and call.events[0].event == "tool_call"
        and not call.starts_record_command
        and not call.closes
    )
    if not at.session or not (works or is_asked) or not opens_by_itself(at.root, at.harness):
        return False
    call = call._replace(events=call.events if works else ())
    # Calls made together ask for a record at the same moment: the first begins it.
    with durable.folder(at.root, layout.OPEN, create=True, wait=durable.LOCK_WAIT_SECONDS):
        try:
            find_recorder(at, call).close()
            return True
        except Orphan:
            if is_asked and _is_prompt_recorded(at):
                return False
            _open(at)
    with closing(find_recorder(at, call)) as recorder:
        give_prompt(at, recorder)
        if is_asked:  # nothing runs yet: what changes before the first call is not the agent's
            look_after(at, recorder)
    return True


def say_late(at: Site, call: HookInput, closed: str, *, is_of_it: bool) -> bool:
    """Say a call that a hook reports after the end of its record as annexes of that record, each
    event once; False where the session goes on, or its end is not known.

    A session that goes on begins with a prompt; `is_of_it` says that the record reports the call,
    and then it does not matter who closed it.
    Raises OSError, InvocationError.
    """
    place = Index(at.root).resolve(closed)
    data = FileRecordStore(at.root).read(place)
    if call.starts_record_command or call.closes or not (is_of_it or ends_part(data)):
        return False
    if not is_of_it and not _is_prompt_recorded(at):
        return False
    # Where transcripts are compared with records, they report the call too.
    with (
        durable.folder(at.root, layout.TRANSCRIPTS, create=True, wait=durable.LOCK_WAIT_SECONDS),
        closing(open_recorder(at, place)) as recorder,
    ):
        items = compose_events(recorder, call)
        untold = [items[number] for number in list_untold(at, place, data, call)]
        late = [item for item in untold if item.event in ANNEX_EVENTS]
        if late:
            recorder.annex(late)
    return True


def _is_prompt_recorded(at: Site) -> bool:
    """Return whether a closed record of the session holds its newest prompt: then a hook reports
    that one again, or after the transcript, which gives it no key. Calls that are new begin a
    record anyway."""
    prompt = read_prompt(at)
    if not prompt:
        return False
    key, text = name_prompt(prompt[0]), prompt[1]
    digest = hash_text(text) if text else None
    imported = [place.invocation_id for place in find_imported(at)]
    for invocation_id, data, annexes in read_bound(at, *imported):
        for line in read_lines(data + annexes):
            is_without_key = line.get("witness") == "transcript" or invocation_id in imported
            is_equal = digest is not None and line.get("text_hash") == digest
            is_prompt = line.get("event") == "prompt"
            if line.get("dedupe") == key or (is_prompt and is_without_key and is_equal):
                return True
    return False


def _name_caller(at: Site) -> Caller:
    """Return the agent of the session as who asks."""
    return Caller(Actor(at.harness, "llm", tool=at.harness), name_writer(at.harness, at.session))


def _open(at: Site) -> None:
    executor = ProfileInvocationExecutor(at.root, home=at.home)
    caller, terms = _name_caller(at), Terms(opened_by="hook")
    _, text = read_prompt(at) or ("", "")
    begin = partial(executor.invoke, verb="advise", caller=caller, terms=terms)
    try:
        begin(text or _NO_PROMPT)
    except CallerError:  # a text that no record can hold
        begin(_NO_PROMPT)


def end_records(at: Site, call: HookInput) -> None:
    """Close what hooks began for a session that is over; what its agent began stays open, and the
    next `do` says so."""
    index, store = Index(at.root), FileRecordStore(at.root)
    left: list[Mapping[str, object]] = []
    for binding in at.list_bindings():
        try:
            record = read_file(store.hold(index.resolve(binding.invocation_id)))
        except (InvocationError, OSError):
            continue
        if not record or record.completed is not None:
            continue
        if record.started.get("opened_by") != "hook":
            remember_left_open(at.root, binding, at.harness, at.session)
            left = [*fields_of(record), *left]
            continue
        ProfileInvocationExecutor(at.root, home=at.home).complete(
            binding.invocation_id,
            # What the session reported last may stand on what it began in this one and left open.
            outcome=judge_end([*fields_of(record), *left]),
            closed_by="hook",
            caller=_name_caller(at),
        )
        if call.prompt_id is not None:
            is_first_telling(at.root, name_end(at, call, binding.invocation_id))
