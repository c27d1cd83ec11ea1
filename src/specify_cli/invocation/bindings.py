"""Which record a session of a harness writes to: bindings and marks below `.kittify/local/`, read
as hostile input.

A binding names a record of this project and nothing else. While a call that begins an invocation is
under way it has a mark, which says whose call it is: the session's own, or a subagent's.

A harness runs each hook as a process of its own, which knows the session's id and nothing else.
The binding answers which record that session writes to, in one small file. It is a shortcut: a
record names its session too, so a binding that is lost is looked for among the open records, and
one that somebody planted can name only a record of this project.

A session is bound to one record at a time, and remembers the eight before. A subagent has a
binding of its own. The difficulty is whose a new record is: a harness runs `do` in the environment
of the session, even if a subagent called it. So the hook that sees the call begin leaves a *mark*
with the agent's name, and while it is there the session's binding is not changed. A mark whose
call never ended counts for fifteen minutes.
"""

from __future__ import annotations

import json
import time

from doctrine import os
from doctrine.git import find_in_main
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.record.record import is_invocation_id, is_profile_id
from specify_cli.record.seal import open_line
from specify_cli.storage.store import FileRecordStore, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_SMALL = 4 * 1024
_BEFORE = 8
MARK_SECONDS = 15 * 60
_MAX_MARKS = 64


class Binding(NamedTuple):
    """Which record a session of a harness writes to, and the profile in its file's name where that
    is known.

    `source` says by what it is known, such as `environment`: by the variables of the command that
    began the record.
    """

    invocation_id: str
    source: str
    profile_id: str | None = None


class Nesting(NamedTuple):
    """Where in a session a `do` was called: in which subagent, and beside which open record of the
    session."""

    agent_id: str | None
    parent: str | None


def digest_of_names(*names: str) -> str:
    """Return the SHA-256 of some names, in hex; they are parted by NUL, which no name holds."""
    return sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()


def short_digest(*names: str) -> str:
    """Return 40 hex digits of the digest of some names: a file name for whatever a harness calls a
    session."""
    return digest_of_names(*names)[:40]


def binding_path(harness: str, session: str, subagent: str | None) -> tuple[str, str]:
    """Return (folder, file name) of a binding, below the root; `subagent` is None for the session
    itself."""
    return f"{layout.LOCAL}/bindings", short_digest(harness, session, subagent or "") + ".json"


def owned_path(harness: str, session: str, invocation_id: str) -> tuple[str, str]:
    """Return where it is noted that a record of a session is one of its subagents'."""
    return f"{layout.LOCAL}/bindings", short_digest(
        harness, session, "of a subagent", invocation_id
    ) + ".json"


def bind(
    root: str,
    harness: str,
    session: str,
    subagent: str | None,
    invocation_id: str,
    source: str,
    profile_id: str | None = None,
) -> None:
    """Bind a session to a record, for this clone. Raises OSError, InvocationError.

    The environment names no subagent: while one's `do` is under way the session keeps its record,
    and what the call printed tells whose the new one is.

    `source` is kept beside the id. `profile_id` is what the record's file name needs, so that a
    hook opens it without a search. The file is replaced whole and not synced, for it can be found
    again.
    """
    folder, name = binding_path(harness, session, subagent)
    value: dict[str, object] = {
        "invocation_id": invocation_id,
        "source": source,
        "profile_id": profile_id,
    }
    others = (
        list_under_way(root, harness, session)
        if source == "environment" and subagent is None
        else []
    )
    if any(agent is not None for agent in others):
        return
    chain = list_bindings(root, harness, session, subagent)
    value["before"] = [
        earlier._asdict() for earlier in chain if earlier.invocation_id != invocation_id
    ][:_BEFORE]
    write_small(root, folder, name, value)


def binding_of(root: str, harness: str, session: str, subagent: str | None) -> Binding | None:
    """Return the binding of a session, if there is one that names a record id.

    None for a file that is absent, too large, or of another form. Nothing is raised.
    """
    return parse_binding(read_small(root, *binding_path(harness, session, subagent)))


def list_bindings(root: str, harness: str, session: str, subagent: str | None) -> list[Binding]:
    """Return what a session is bound to, and what it was bound to before; the newest first.

    At most nine.
    """
    value = read_small(root, *binding_path(harness, session, subagent))
    return [
        binding for binding in (parse_binding(value), *list_earlier(value)) if binding is not None
    ]


def find_session(root: str, harness: str, subagent: str, above: str) -> str:
    """Return the session a subagent belongs to: that of the subagent which began it, else who began
    it is the session.

    It is kept for the subagents that this one begins.

    `above` is the session, or the subagent, that the harness names as the one it stands in.
    """
    folder = f"{layout.LOCAL}/bindings"
    known = read_small(root, folder, short_digest(harness, above, "session of") + ".json")
    session = known.get("session_id")
    session_id = session if isinstance(session, str) else above
    name = short_digest(harness, subagent, "session of") + ".json"
    if not os.path.lexists(f"{root}/{folder}/{name}"):
        try:
            write_small(root, folder, name, {"session_id": session_id})
        except (OSError, InvocationError):
            pass
    return session_id


def parse_binding(value: object) -> Binding | None:
    """Return the binding a parsed value is; None where it names no invocation id."""
    if not isinstance(value, dict):
        return None
    invocation_id = value.get("invocation_id")
    if not isinstance(invocation_id, str) or not is_invocation_id(invocation_id):
        return None
    profile_id = value.get("profile_id")
    known = isinstance(profile_id, str) and is_profile_id(profile_id)
    return Binding(invocation_id, str(value.get("source")), profile_id if known else None)


def list_earlier(value: Mapping[str, object]) -> list[Binding]:
    """Return what a session was bound to before; the newest first."""
    before = value.get("before")
    items = before[:_BEFORE] if isinstance(before, list) else []
    return [binding for item in items if (binding := parse_binding(item)) is not None]


def give_back(root: str, harness: str, session: str, invocation_id: str) -> None:
    """Take a record that turned out to be a subagent's out of the session's bindings; the one
    before it counts again.

    Nothing is raised: what cannot be written stays, and then the record is found by its session.
    """
    folder, name = binding_path(harness, session, None)
    value = read_small(root, folder, name)
    top, before = parse_binding(value), list_earlier(value)
    bound = before if top is None else [top, *before]
    if all(binding.invocation_id != invocation_id for binding in bound):
        return
    if top is None or (top.invocation_id == invocation_id and top.source != "environment"):
        return
    others = [binding for binding in bound if binding.invocation_id != invocation_id]
    try:
        if others:
            write_small(
                root,
                folder,
                name,
                {**others[0]._asdict(), "before": [item._asdict() for item in others[1:]]},
            )
        else:
            unlink_below(root, folder, name)
    except (OSError, InvocationError):
        return


def write_small(root: str, folder: str, name: str, value: Mapping[str, object]) -> None:
    """Write a value as a small JSON file, mode 0600, replaced whole. Raises OSError,
    StoredDataError."""
    with durable.folder(root, folder, create=True) as fd:
        durable.replace(fd, name, json.dumps(value).encode("ascii"), durable.PRIVATE, sync=False)


def read_small(root: str, folder: str, name: str) -> dict[str, object]:
    """Return the object in a small JSON file; an empty one where there is none, or it is larger
    than any of ours.

    At most 4 KiB are taken. Nothing is raised.
    """
    try:
        data = durable.read_below(root, f"{folder}/{name}", _MAX_SMALL)
        value = json.loads(data) if len(data) <= _MAX_SMALL else None
    except (OSError, InvocationError, ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def unlink_below(root: str, folder: str, name: str) -> None:
    """Remove a file below the root, no link followed on the way. Raises OSError,
    StoredDataError."""
    with durable.folder(root, folder) as fd:
        os.unlink(name, dir_fd=fd)


def calls_folder(harness: str, session: str) -> str:
    """Return the folder of a session's marks, below the root."""
    return f"{layout.LOCAL}/calls/{short_digest(harness, session)}"


def asked_folder(harness: str, session: str) -> str:
    """Return where what a session's person was asked waits for an answer; it is there only while
    something does."""
    return f"{layout.ASKED}/{short_digest(harness, session)}"


def opens_by_itself(root: str, harness: str) -> bool:
    """Return whether sessions of a harness get records by themselves in this clone: a linked
    worktree does as the main one."""
    return any(
        os.path.lexists(f"{place}/{layout.OPEN}/{harness}") for place in (root, find_in_main(root))
    )


class Mark(NamedTuple):
    """A call that is under way: since when (ms), the name of its mark, whose it is."""

    since: int
    name: str
    agent_id: str | None


def list_marks(root: str, folder: str) -> list[Mark]:
    """Return the calls of a session that have a mark, the oldest first.

    A call that was refused or killed never ends, so a mark counts for a while only; it is removed
    then.

    At most 64 are read: more calls than that do not run at once.
    """
    marks: list[Mark] = []
    try:
        with durable.folder(root, folder) as fd:
            for name in sorted(os.listdir(fd))[:_MAX_MARKS]:
                mark = read_small(root, folder, name)
                state = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if abs(time.time() - state.st_mtime) > MARK_SECONDS:
                    os.unlink(name, dir_fd=fd)
                elif type(since := mark.get("at")) is int:
                    agent = mark.get("agent_id")
                    marks.append(Mark(since, name, agent if isinstance(agent, str) else None))
    except (OSError, InvocationError):
        pass
    return sorted(marks)


def list_under_way(root: str, harness: str, session: str) -> list[str | None]:
    """Return whose calls that begin an invocation are under way: the session's own, or a
    subagent's.

    None stands for the session's own call.
    """
    return [mark.agent_id for mark in list_marks(root, calls_folder(harness, session))]


def unmark(root: str, harness: str, session: str, subagent: str) -> None:
    """Remove the marks of a subagent that begins or ends: it has no call under way.

    Raises OSError, StoredDataError.
    """
    folder = calls_folder(harness, session)
    for mark in list_marks(root, folder):
        if mark.agent_id == subagent:
            unlink_below(root, folder, mark.name)


def nesting(root: str, harness: str, session: str, call_id: str | None = None) -> Nesting:
    """Return the subagent whose `do` is under way and the open record its session works on.

    No subagent where that is unsure; it is sure where the harness tells its commands the id of
    their call. Of the session's own `do` the record is the one that its first prompt began.

    `call_id` is what the harness's variable names (`Marks.call` of `specify_cli.room`). A record
    that is closed is no parent.
    """
    named = short_digest(call_id) + ".json" if call_id else ""
    mark = read_small(root, calls_folder(harness, session), named) if named else {}
    agents = [mark.get("agent_id")] if mark else list_under_way(root, harness, session)
    subagent = agents[0] if len(agents) == 1 and isinstance(agents[0], str) else None
    above = None if subagent is None else binding_of(root, harness, session, subagent)
    if above is None or above.source != "above":
        above = binding_of(root, harness, session, None)
    if above is None or (subagent is None and not _is_begun_by_hook(root, above)):
        return Nesting(subagent, None)
    return Nesting(subagent, above.invocation_id if is_record_open(root, above) else None)


def _is_begun_by_hook(root: str, binding: Binding) -> bool:
    """Return whether a session's prompt began a record, and no `do`."""
    if binding.profile_id is None:
        return False
    try:
        head = FileRecordStore(root).head(place_of(binding.profile_id, binding.invocation_id))
    except (OSError, InvocationError):
        return False
    return (open_line(head).fields or {}).get("opened_by") == "hook"


def remember_left_open(root: str, binding: Binding, harness: str, session: str) -> None:
    """Note that a session ended and left a record open that its agent began.

    A session that ends closes the records its hooks began; those of a `do` are its agent's to
    close. Raises OSError, StoredDataError.
    """
    value = {"profile_id": binding.profile_id, "session": short_digest(harness, session)}
    write_small(root, layout.LEFT_OPEN, f"{binding.invocation_id}.json", value)


def list_left_open(root: str, harness: str, session: str) -> Iterator[str]:
    """Yield the open records that sessions which ended left behind, other than this one; forget
    those closed since.

    `session` is the harness's own id of the session that asks. Ids of invocations come, at most
    one for each mark; nothing where the marks cannot be read.
    """
    if not os.path.lexists(f"{root}/{layout.LEFT_OPEN}"):
        return
    try:
        with durable.folder(root, layout.LEFT_OPEN) as fd:
            names = sorted(os.listdir(fd))[:_MAX_MARKS]
        for name in names:
            mark = read_small(root, layout.LEFT_OPEN, name)
            if not mark:
                continue
            binding = Binding(name.removesuffix(".json"), "left open", str(mark.get("profile_id")))
            if not is_record_open(root, binding):
                unlink_below(root, layout.LEFT_OPEN, name)
            elif mark.get("session") != short_digest(harness, session):
                yield binding.invocation_id
    except (OSError, InvocationError):
        return


def is_record_open(root: str, binding: Binding) -> bool:
    """Return whether a binding's record is there and open; False where that cannot be told."""
    from specify_cli.storage.queries import read_row  # loads what verifies; a hook does without

    if binding.profile_id is None:
        return False
    try:
        row = read_row(root, place_of(binding.profile_id, binding.invocation_id))
    except (OSError, InvocationError):
        return False
    return row is not None and row.status == "open"
