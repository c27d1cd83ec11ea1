"""Which record a call belongs to, where its session's binding does not say it at once.

The record that a `do` just gave the agent outranks a binding; without a binding the one open record
that the session began counts, and never a guess between two. A binding is read as hostile input: it
can name a record of this project, and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from doctrine.text import get_object
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import (
    awaits_end,
    ends_part,
    find_earlier,
    holds_all,
    is_same_event,
    list_bound,
    list_keys,
    open_recorder,
    read_annexes,
    read_lines,
)
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.compose import compose_events
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.transcript_end import read_started
from specify_cli.features.hooks.payload.values import Fields, HookInput
from specify_cli.invocation.bindings import (
    MARK_SECONDS,
    Binding,
    bind,
    binding_of,
    calls_folder,
    give_back,
    is_record_open,
    owned_path,
    read_small,
    short_digest,
    unlink_below,
    write_small,
)
from specify_cli.invocation.events.event_body import conflict_gap, find_line
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import millis_of
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events, read_row
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.storage.worktrees import find_worktrees

_SEARCHED = 50


class Orphan(Exception):
    """An event that belongs to no record that can take it; the text says why, `closed` names the
    session's record that was closed last."""

    def __init__(self, why: str, closed: str | None = None) -> None:
        super().__init__(why)
        self.closed = closed


class Late(Orphan):
    """An event of a call that belongs to the record which `closed` names: it ended with a part of
    the session, or holds the call's begin alone, or the subagent of the call was begun there."""


class Recorded(Exception):
    """What a payload reports was recorded before, and the record has been closed since."""


def append_call(at: Site, recorder: Recorder, call: HookInput) -> None:
    if call.events:
        recorder.append(
            compose_events(recorder, call),
            dedupe=list_keys(at, call),
            checkpoints=False,
            unnamed=call.call_id_is_synthetic,
        )


_TRAIL_OFF = "the invocation {} was begun with the trail off and takes over no session"


def find_recorder(at: Site, call: HookInput) -> Recorder:
    """Return the recorder of the record a payload belongs to. Raises Orphan, Recorded."""
    root = at.root
    if not at.session:
        raise Orphan("the payload names no session")
    # What cannot be used is said even where no record is found.
    loaded, index, read = load_project(root, at.home), Index(root), FileRecordStore(root).read
    why = "no invocation is bound to this session"
    closed, begun_in = ("", ""), ""  # when and which, and which began the subagent

    def open_place(invocation_id: str) -> Place | None:
        nonlocal why, closed, begun_in
        try:
            place = index.resolve(invocation_id)
        except InvocationError as error:
            why = f"the bound invocation {invocation_id} is not here: {error.code}"
            return None
        row = read_row(root, place)
        if row and row.status == "open" and place.folder == layout.RECORDS:
            if not read_started(root, place).get("tombstone"):
                return place
            why = _TRAIL_OFF.format(invocation_id)
            return None
        why = f"the bound invocation {invocation_id} is closed or read-only"
        closed = max(closed, ((row and row.completed_at) or "", invocation_id))
        if not call.events:
            return None
        data = read(place)
        if not list_untold(at, place, data, call):
            _refuse_recorded(open_recorder(at, place, loaded), data, at, call)
            why = f"it contradicts what the closed invocation {invocation_id} holds"
        elif not call.closes and _began_it(data, invocation_id, call):
            begun_in = begun_in or invocation_id
        return None

    # 1. What the agent just received from a `do` of its own, in this worktree.
    began = call.started_invocation
    if began is not None and (place := open_place(began)):
        above = find_above(at, call, place)
        _take_over(at, call.subagent, place)
        if above:
            _finish(at, open_recorder(at, above, loaded), call)
        return open_recorder(at, place, loaded)
    if began is None:
        _refuse_earlier(at, call)
    # 2. What is bound: to the subagent, else to its session. 3. The one open record of either.
    # A record that was closed gives the session back: what was bound before counts, too.
    for find in (Site.list_bindings, _find_by_record):
        for agent in dict.fromkeys((call.subagent, None)):
            for number, binding in enumerate(find(at, agent)):
                if place := open_place(binding.invocation_id):
                    if number or binding.profile_id is None:
                        _remember(at, agent, place, binding.source)
                    return open_recorder(at, place, loaded)
    imported = find_imported(at) if call.events else ()
    if any(not list_untold(at, one, read(one), call) for one in imported):
        raise Recorded
    if begun_in:
        raise Late(f"{begun_in} began its subagent, and is closed", begun_in)
    raise Orphan(why, closed[1] or None)


def _began_it(data: bytes, invocation_id: str, call: HookInput) -> bool:
    """Return whether a closed record with this data reports work of the subagent that makes a call.
    Raises Late where it holds the call's begin."""
    if awaits_end(data, call):
        raise Late(f"{invocation_id} holds its begin, and is closed", invocation_id)
    agent = call.events[0].payload.get("agent")
    named = f'"agent":{json.dumps(agent, ensure_ascii=False)}'
    return isinstance(agent, str) and named.encode("utf-8", "replace") in data


def _refuse_earlier(at: Site, call: HookInput) -> None:
    """Raise Recorded for a call that a record holds which the session worked on before, and Late
    for the rest of one where that record has ended with a part of the session."""
    newest = next(list_bound(at, call), None)
    if not newest or not call.events:
        return
    earlier = find_earlier(at, newest.invocation_id, call)
    if earlier is None:
        return
    place = Index(at.root).resolve(earlier)
    data = FileRecordStore(at.root).read(place)
    if not list_untold(at, place, data, call):
        if call.closes:
            _annex_result(open_recorder(at, place), call)
        raise Recorded
    if ends_part(data) or (not call.closes and awaits_end(data, call)):
        raise Late(f"it is of {earlier}, which has ended", earlier)


def find_imported(at: Site) -> Iterator[Place]:
    """Yield the records among the newest that an import made of the session: what its hooks report
    after that they can hold already."""
    for place, started, owner in _list_newest(at.root, layout.is_imported):
        named = owner.get("harness"), owner.get("session_id")
        if "imported" in started and named == (at.harness, at.session):
            yield place


def _list_newest(
    root: str, is_meant: Callable[[str], bool]
) -> Iterator[tuple[Place, Fields, Fields]]:
    """Yield those of the newest records that lie in a folder which is meant and name their session:
    the place, the first line, and the session in it."""
    index = Index(root)
    for key in islice(index.newest(), _SEARCHED):
        place = index.place(key)
        if place and is_meant(place.folder):
            started = read_started(root, place)
            if owner := get_object(started, "session"):
                yield place, started, owner


def read_bound(at: Site, *more: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the records that the session is bound to, and more of it, as far as they can be read:
    the id of each, its bytes, and those of what was said of it after its end."""
    bound = (one.invocation_id for one in at.list_bindings())
    for invocation_id in dict.fromkeys((*bound, *more)):
        with suppress(OSError, InvocationError):
            data = FileRecordStore(at.root).read(Index(at.root).resolve(invocation_id))
            yield invocation_id, data, read_annexes(at.root, invocation_id)


def find_elsewhere(at: Site, call: HookInput) -> tuple[Site, str | None] | None:
    """Return the other worktree of the repository in which the session works, and the record it has
    just begun there.

    A harness stays in the worktree it was started in, while its agent may begin its record in
    another.
    """
    for other in find_worktrees(at.root) if at.session else ():
        there = at._replace(root=other)
        begun = find_begun(there, call, None) if call.printed else None
        bound = list_bound(there, call)
        if begun is not None or any(call.closes or is_record_open(other, one) for one in bound):
            return there, begun
    return None


def list_untold(at: Site, place: Place, data: bytes, call: HookInput) -> list[int]:
    """Return the places of a call's events that neither a closed record with this data nor an annex
    of it reports.

    What a transcript reported after the close, or by an import, has no key. Of the call that closed
    its record the begin alone is expected.
    """
    if call.closes:
        first = call.events[0]
        begin = first._replace(event="tool_call", phase="pre", call_id=first.named_id)
        call = call._replace(events=(begin,))
    keys = list_keys(at, call)
    untold = [number for number, key in enumerate(keys) if not holds_all(data, [key])]
    lines: list[Fields] = [*annex_events(at.root, place.invocation_id)] if untold else []
    if untold and layout.is_imported(place.folder):
        lines += read_lines(data)
    return [
        number
        for number in untold
        if not any(is_same_event(line, call.events[number]) for line in lines)
    ]


def _refuse_recorded(recorder: Recorder, data: bytes, at: Site, call: HookInput) -> None:
    """Raise Recorded for a call of which a closed record with this data holds each event, unless
    one has another body there. The end of the call that closed it becomes an annex."""
    if call.closes:
        _annex_result(recorder, call)
    elif any(
        key is not None
        and find_line(data, key) is not None
        and conflict_gap(data, key, item.body) is not None
        for key, item in zip(list_keys(at, call), compose_events(recorder, call), strict=True)
    ):
        return
    raise Recorded


def _annex_result(recorder: Recorder, call: HookInput) -> None:
    """Say as an annex how the call ended that closed its own record; once."""
    root, lines = recorder.project.root, annex_events(recorder.project.root, recorder.invocation_id)
    for event in call.events:
        key = short_digest(recorder.invocation_id, event.named_id)
        if event.event != "tool_result" or any(is_same_event(line, event) for line in lines):
            continue
        if is_first_telling(root, key):
            recorder.annex([recorder.compose(event.event, event.payload)])


def is_first_telling(root: str, key: str) -> bool:
    """Return whether nobody has asked this of a key before: what hooks report of a closed record is
    recorded once. Raises OSError, InvocationError."""
    with durable.folder(root, f"{layout.LOCAL}/turns", create=True) as fd:
        try:
            durable.create_exclusive(fd, key, b"", durable.PRIVATE)
        except FileExistsError:
            return False
    return True


def _find_by_record(at: Site, agent: str | None) -> list[Binding]:
    """Return the one open record among the newest that this agent of the session began; none where
    there are two."""
    root, ids = at.root, []
    for place, started, owner in _list_newest(root, lambda folder: folder == layout.RECORDS):
        named = tuple(owner.get(name) for name in ("harness", "session_id", "agent_id"))
        if started.get("tombstone") or named != (at.harness, at.session, agent):
            continue
        if agent is None and read_small(
            root, *owned_path(at.harness, at.session, place.invocation_id)
        ):
            continue  # a subagent's `do` began it, which its first line did not know
        row = read_row(root, place)
        if row and row.status == "open":
            ids.append(place.invocation_id)
    return [Binding(ids[0], "only-open")] if len(ids) == 1 else []


def find_above(at: Site, call: HookInput, new: Place) -> Place | None:
    """Return the open record a session worked on before another, which holds the begin of its
    `do`."""
    for binding in list_bound(at, call):
        if binding.invocation_id != new.invocation_id and is_record_open(at.root, binding):
            return binding.place
    return None


def _finish(at: Site, recorder: Recorder, call: HookInput) -> None:
    """Give a record the result of a call whose begin it holds."""
    try:
        if holds_all(FileRecordStore(at.root).read(recorder.place), list_keys(at, call)[:1]):
            append_call(at, recorder, call._replace(events=call.events[1:]))
    except InvocationError:
        return  # it is closed meanwhile
    finally:
        recorder.close()


def _take_over(at: Site, subagent: str | None, place: Place) -> None:
    """Bind who began a record to it; what its `do` took the whole session's binding from gets that
    back."""
    if subagent is not None:
        give_back(at.root, at.harness, at.session, place.invocation_id)
        note = owned_path(at.harness, at.session, place.invocation_id)
        owned = {"invocation_id": place.invocation_id, "source": "subagent"}
        with suppress(OSError, InvocationError):
            write_small(at.root, *note, owned)
    _remember(at, subagent, place, "tool")


def _remember(at: Site, agent: str | None, place: Place, source: str) -> None:
    to = place.invocation_id, source, place.profile_id
    with suppress(OSError, InvocationError):  # the record is found without it, only later
        bind(at.root, at.harness, at.session, agent, *to)


def mark_call(at: Site, call: HookInput) -> int | None:
    """Note that a call which begins an invocation is under way, or that it is over; since when (ms)
    it was."""
    if not at.session or not call.events:
        return None
    folder = calls_folder(at.harness, at.session)
    name = short_digest(call.events[0].named_id) + ".json"
    now = time.time_ns() // 1_000_000
    since = read_small(at.root, folder, name).get("at")
    if type(since) is not int or not now - 1000 * MARK_SECONDS < since <= now:
        since = None
    with suppress(OSError, InvocationError):
        if call.events[-1].event != "tool_call":
            unlink_below(at.root, folder, name)
        elif since is None:  # reported twice, it began the first time
            write_small(at.root, folder, name, {"agent_id": call.subagent, "at": now})
    return since


def find_begun(at: Site, call: HookInput, since: int | None) -> str | None:
    """Return which of the records that a call's output names that call began; None where that is
    not sure.

    Anything may stand in an output. A record of another session is not meant, nor one that was
    there before the call.
    """
    if not at.session:
        return None
    index = Index(at.root)
    ids = []
    for printed in call.printed:
        try:
            owner = get_object(read_started(at.root, index.resolve(printed)), "session")
        except (OSError, InvocationError):
            continue  # of another worktree, or of none
        if owner:
            named = owner.get("session_id")
            masked = isinstance(named, str) and "\u27e6" in named
            hidden = since is not None and find_dialect(at.harness).hides_sessions_of_commands
            own = named is None or masked or named == at.session[:200] or hidden
            if owner.get("harness") != at.harness or not own:
                continue
        if since is None or millis_of(printed) >= since:
            ids.append(printed)
    if len(ids) == 1:
        return ids[0]
    bound = binding_of(at.root, at.harness, at.session, None)
    return bound.invocation_id if bound and bound.invocation_id in ids else None
