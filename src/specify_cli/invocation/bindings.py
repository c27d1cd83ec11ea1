"""Bindings: which record a session of a harness writes to. They and the marks lie below
`.kittify/local/` and are read as hostile input.

A harness runs each hook as a process of its own, which knows only the id of the session. The
binding of a session is a small file that names the record the session writes to. It is a shortcut:
a record names its session too, so if a binding is lost, the hook searches the open records. A
binding that somebody planted can name only a record of this project.

A session is bound to one record at a time, and its file lists the eight records before. A subagent
has a binding of its own. But a harness runs `do` in the environment of the session, even if a
subagent called it. So the hook that sees the call begin writes a *mark* with the agent's name, and
while that mark exists the session's binding is not changed. The mark of a call that never ended
counts for fifteen minutes.

    bind(root, "claude-code", session_id, None, invocation_id, "environment", profile_id)
    binding = binding_of(root, "claude-code", session_id, None)

In every function here `root` is the project's folder, `harness` the name of a program such as
`codex`, and `session` its own id of the session. Files are replaced whole and never synced: after a
power cut a binding is the old one, the new one or lost.
"""

from __future__ import annotations

import json
import time

from doctrine import os
from doctrine.git import find_in_main
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from doctrine.text import as_object
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from specify_cli.record.record import is_invocation_id, is_profile_id
from specify_cli.record.seal import Fields, read_fields
from specify_cli.storage.store import FileRecordStore, Place, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_SMALL = 4 * 1024
_BEFORE = 8
MARK_SECONDS = 15 * 60
_MAX_MARKS = 64


class Binding(NamedTuple):
    """The record that a session of a harness writes to, and the profile in its file name if that
    is known.

    `source` says where the binding comes from. `environment` means the variables of the command
    that began the record.
    """

    invocation_id: str
    source: str
    profile_id: str | None = None

    @property
    def place(self) -> Place | None:
        """Return where the record lies; None if the profile in its file name is not known."""
        return None if self.profile_id is None else place_of(self.profile_id, self.invocation_id)


class Nesting(NamedTuple):
    """Where in a session a `do` was called: in which subagent, and while which record of the
    session was open."""

    agent_id: str | None
    parent: str | None


def digest_of_names(*names: str) -> str:
    """Return the SHA-256 of some names, in hex, joined by NUL, which no name contains."""
    return hash_bytes("\0".join(names).encode("utf-8", "replace"))


def short_digest(*names: str) -> str:
    """Return 40 hex digits of the digest of some names. They are a safe file name, whatever id a
    harness gives a session."""
    return digest_of_names(*names)[:40]


def binding_path(harness: str, session: str, subagent: str | None) -> tuple[str, str]:
    """Return (folder, file name) of a binding, below the root; `subagent` is None for the session
    itself.

    `harness` and `session` are hashed, so no id of a harness leads out of the folder.
    """
    return f"{layout.LOCAL}/bindings", short_digest(harness, session, subagent or "") + ".json"


def owned_path(harness: str, session: str, invocation_id: str) -> tuple[str, str]:
    """Return (folder, file name), below the root, of the note that a record of a session belongs to
    one of its subagents.

    While the note exists, a search for the session's own open record passes over this one.
    """
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

    The environment names no subagent. So while the `do` of a subagent is under way, a binding from
    the environment is not written: the hook reads from the output of the call whose record it is.

    `source` is stored with the id. `profile_id` completes the name of the record's file, so that
    a hook opens it without a search. The file is replaced whole and not synced, because the record
    can also be found by its session.
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

    `subagent` is None for the session itself. That the record exists is not checked.
    """
    return parse_binding(read_small(root, *binding_path(harness, session, subagent)))


def list_bindings(root: str, harness: str, session: str, subagent: str | None) -> list[Binding]:
    """Return the binding of a session and its earlier ones, the newest first; at most nine.

    The list is empty where no binding can be read.
    """
    value = read_small(root, *binding_path(harness, session, subagent))
    return [binding for binding in (parse_binding(value), *list_earlier(value)) if binding]


def find_session(root: str, harness: str, subagent: str, above: str) -> str:
    """Return the id of the session a subagent belongs to, and note it for subagents that this one
    begins.

    `above` is the id of the session or subagent that began `subagent`. If it is a subagent with a
    note, its session counts; otherwise `above` is the session itself.

    `subagent` is its id in the harness. The note is a help for subagents of subagents: without it
    their events would be looked for in a session that nobody began.
    """
    folder = f"{layout.LOCAL}/bindings"
    note = read_small(root, folder, short_digest(harness, above, "session of") + ".json")
    session = note.get("session_id")
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
    is_named = isinstance(profile_id, str) and is_profile_id(profile_id)
    return Binding(invocation_id, str(value.get("source")), profile_id if is_named else None)


def list_earlier(value: Fields) -> list[Binding]:
    """Return the earlier bindings in the value of a session's file, the newest first."""
    before = value.get("before")
    items = before[:_BEFORE] if isinstance(before, list) else []
    return [binding for item in items if (binding := parse_binding(item))]


def give_back(root: str, harness: str, session: str, invocation_id: str) -> None:
    """Remove a record of a subagent from the bindings of its session; the binding before it counts
    again.

    Nothing is raised: if the file cannot be written it stays as it is, and hooks find the record by
    its session.

    A binding that a hook made is certain and stays. One from the environment can be that of a
    subagent's `do`, because the environment names no subagent.
    """
    folder, name = binding_path(harness, session, None)
    value = read_small(root, folder, name)
    top, before = parse_binding(value), list_earlier(value)
    bound = [top, *before] if top else before
    if all(binding.invocation_id != invocation_id for binding in bound):
        return
    if not top or (top.invocation_id == invocation_id and top.source != "environment"):
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


def write_small(root: str, folder: str, name: str, value: Fields) -> None:
    """Write a value as a small JSON file, mode 0600, replaced whole. Raises OSError,
    StoredDataError.

    `folder` is below the root and made where it is absent. A reader sees the old file or the new
    one.
    """
    with durable.folder(root, folder, create=True) as fd:
        durable.replace(fd, name, json.dumps(value).encode("ascii"), durable.PRIVATE, sync=False)


def read_small(root: str, folder: str, name: str) -> dict[str, object]:
    """Return the object in a JSON file of at most 4 KiB; an empty one if the file is absent, larger
    or malformed. Nothing is raised.

    "Absent" and "malformed" are one answer here, because both mean the same to a hook: it must find
    its record in another way.
    """
    try:
        data = durable.read_below(root, f"{folder}/{name}", _MAX_SMALL)
        value = json.loads(data) if len(data) <= _MAX_SMALL else None
    except (OSError, InvocationError, ValueError, RecursionError):
        value = None
    return as_object(value)


def unlink_below(root: str, folder: str, name: str) -> None:
    """Remove a file below the root, no link followed on the way. Raises OSError,
    StoredDataError.

    Raises FileNotFoundError where the file or its folder is absent.
    """
    with durable.folder(root, folder) as fd:
        os.unlink(name, dir_fd=fd)


def calls_folder(harness: str, session: str) -> str:
    """Return the folder of a session's marks, below the root."""
    return f"{layout.LOCAL}/calls/{short_digest(harness, session)}"


def asked_folder(harness: str, session: str) -> str:
    """Return the folder, below the root, of questions that a session's person has not answered yet.
    It exists only while there are such questions."""
    return f"{layout.ASKED}/{short_digest(harness, session)}"


def opens_by_itself(root: str, harness: str) -> bool:
    """Return whether hooks begin records for the sessions of a harness in this clone. A linked
    worktree follows the main one.

    A file of the harness's name below `.kittify/local/open` says so.
    """
    return any(
        os.path.lexists(f"{place}/{layout.OPEN}/{harness}") for place in (root, find_in_main(root))
    )


class Mark(NamedTuple):
    """A call that is under way: its begin (ms since 1970), the file name of its mark, and the
    subagent that made it (None for the session itself)."""

    since: int
    name: str
    agent_id: str | None


def list_marks(root: str, folder: str) -> list[Mark]:
    """Return the marks of a session's calls, the oldest first; at most 64 are read.

    A call that was refused or killed never ends, so marks older than fifteen minutes are removed.

    `folder` is that of `calls_folder`. The age is taken from the file's own time, not from `at`: a
    mark with a wrong clock must not count for ever.
    """
    marks = []
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
    """Return who made the calls under way that begin an invocation: the id of a subagent, or None
    for the session itself.

    Equal ids come once for each call.
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


def nesting(root: str, harness: str, session: str, call_id: str | None) -> Nesting:
    """Return the subagent whose `do` is under way, and the open record its session works on.

    `call_id` is the id in the harness's variable (`Marks.call` of `specify_cli.room`); with it the
    subagent is certain. Without it there is a subagent only if exactly one call is under way. For
    the session's own `do` the parent is the record that a hook began for its prompt. A closed
    record is no parent.
    """
    mark_name = short_digest(call_id) + ".json" if call_id else ""
    mark = read_small(root, calls_folder(harness, session), mark_name) if mark_name else {}
    agents = [mark.get("agent_id")] if mark else list_under_way(root, harness, session)
    subagent = agents[0] if len(agents) == 1 and isinstance(agents[0], str) else None
    above = None if subagent is None else binding_of(root, harness, session, subagent)
    if not above or above.source != "above":
        above = binding_of(root, harness, session, None)
    if not above or (subagent is None and not _is_begun_by_hook(root, above)):
        return Nesting(subagent, None)
    return Nesting(subagent, above.invocation_id if is_record_open(root, above) else None)


def _is_begun_by_hook(root: str, binding: Binding) -> bool:
    """Return whether a hook began the record for a session's prompt, and not a `do`."""
    try:
        head = FileRecordStore(root).head(binding.place) if binding.place else b""
    except (OSError, InvocationError):
        return False
    return read_fields(head).get("opened_by") == "hook"


def remember_left_open(root: str, binding: Binding, harness: str, session: str) -> None:
    """Note that a session ended without closing a record that its agent had begun.

    At the end of a session the hooks close the records they began; the agent itself must close the
    record of a `do`. Raises OSError, StoredDataError.

    `binding` names the record. One note a record: a second session that leaves it writes it anew.
    """
    value = {"profile_id": binding.profile_id, "session": short_digest(harness, session)}
    write_small(root, layout.LEFT_OPEN, f"{binding.invocation_id}.json", value)


def list_left_open(root: str, harness: str, session: str) -> Iterator[str]:
    """Yield the ids of open records that other sessions left behind when they ended.

    `session` is the harness's id of the session that asks. Notes about records that were closed
    since are removed. Nothing is yielded if the notes cannot be read.
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
    """Return whether a binding's record is there and open; False where that is not known.

    Only the first and last line are read, as for a list.
    """
    from specify_cli.storage.queries import read_row  # loads what verifies; a hook does without

    try:
        row = binding.place and read_row(root, binding.place)
    except (OSError, InvocationError):
        return False
    return row is not None and row.status == "open"
