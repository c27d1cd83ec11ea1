"""What a session has been told: a second `do` prints what is new and names the rest by its record.

Nobody can be sure of it where hooks do not say when a session begins and is compacted, or whose
call a `do` is. Then, and in a subagent, nothing counts as told and the whole text is printed. The
records and marks read here are of this clone and hostile input: who plants one can shorten what is
printed, never what is recorded.
"""

from __future__ import annotations

import time

from charter.layout import join_page
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.invocation.bindings import (
    list_bindings,
    list_under_way,
    read_small,
    short_digest,
    write_small,
)
from specify_cli.record import layout
from specify_cli.record.ids import number_of
from specify_cli.record.reading.printed_context import read_held
from specify_cli.record.seal import open_line
from specify_cli.storage.store import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from charter.context import CharterContextResult
    from specify_cli.invocation.caller import Caller
    from specify_cli.storage.store import Body

_FOLDER = f"{layout.LOCAL}/bindings"
_MOST = 256 * 1024
_OPENING_LINES = 4


class PrintedContext(NamedTuple):
    """The text a `do` prints, and the member of its record that says so where it is not all.

    The member is `printed` of docs/format.md §4.
    """

    text: str
    member: Body | None


def forget_told(root: str, harness: str, session: str) -> None:
    """Note that a session has begun or was compacted: what it was told before counts no more.

    The mark's time counts in ms; what records before it printed is taken as forgotten.
    """
    try:
        at = time.time_ns() // 1_000_000
        write_small(root, _FOLDER, _mark_name(harness, session), {"at": at})
    except (OSError, InvocationError):
        return  # without a mark nothing counts as told


def choose_printed(
    root: str, caller: Caller, context: CharterContextResult, show: str
) -> PrintedContext:
    """Return what is printed of a context: `whole`, what is `new` to the session, or `titles`.

    `show` is one of the three words; `titles` is for a person at a terminal. The context itself is
    recorded whole in any case: only what is printed gets shorter, to save the agent's window. The
    member of a text that is whole is None.
    """
    if show == "titles":
        return PrintedContext(context.text, {"form": "titles"})
    told = _list_told(root, caller) if show == "new" and context.page is not None else {}
    held = [
        {"uri": hit["uri"], "invocation_id": told[key]}
        for hit in context.hits
        if (key := (str(hit["uri"]), str(hit["digest"]), str(hit["shown"]))) in told
    ]
    if not held or context.page is None:
        return PrintedContext(context.text, None)
    text = join_page(context.page, {entry["uri"]: entry["invocation_id"] for entry in held})
    return PrintedContext(text, {"form": "new", "held": held, "hash": digest(text.encode("utf-8"))})


def _mark_name(harness: str, session: str) -> str:
    return short_digest(harness, session, "told since") + ".json"


def _list_told(root: str, caller: Caller) -> dict[tuple[str, str, str], str]:
    """Return what the caller's session was told since it began or was compacted: uri, digest and
    form, each with the record that printed it first.

    The session's mark must be there, and this call must surely be the session's own: its mark
    alone is under way. In doubt nothing counts as told, because a rule printed twice costs a
    little and one that is missing costs the work.
    """
    session = caller.session or {}
    harness, name = session.get("harness", ""), session.get("session_id", "")
    since = read_small(root, _FOLDER, _mark_name(harness, name)).get("at") if name else None
    # A mark of the hook says that this call is the session's own.
    if type(since) is not int or "agent_id" in session:
        return {}
    if list_under_way(root, harness, name) != [None]:
        return {}
    told: dict[tuple[str, str, str], str] = {}
    for binding in reversed(list_bindings(root, harness, name, None)):
        if binding.profile_id is None or number_of(binding.invocation_id) >> 80 <= since:
            continue
        for key in _read_told(root, binding.profile_id, binding.invocation_id):
            told.setdefault(key, binding.invocation_id)
    return told


def _read_told(root: str, profile_id: str, invocation_id: str) -> tuple[tuple[str, str, str], ...]:
    """Return what the record of an earlier `do` says that it printed itself."""
    path = f"{layout.RECORDS}/{layout.record_name(profile_id, invocation_id)}"
    try:
        lines = durable.read_below(root, path, _MOST).split(b"\n")[:_OPENING_LINES]
    except (OSError, InvocationError):
        return ()
    fields: list[Mapping[str, object]] = [open_line(line).fields or {} for line in lines]
    printed = fields[0].get("printed") if fields else None
    hits = fields[-1].get("hits") if len(fields) == _OPENING_LINES else None
    if not isinstance(hits, list) or (
        "opened_by" in fields[0]  # by a hook, which prints nothing
        or (isinstance(printed, dict) and printed.get("form") == "titles")
    ):
        return ()
    held = read_held(printed) or {}
    return tuple(
        (str(hit.get("uri")), str(hit.get("digest")), str(hit.get("shown")))
        for hit in hits
        if isinstance(hit, dict) and hit.get("uri") not in held
    )
