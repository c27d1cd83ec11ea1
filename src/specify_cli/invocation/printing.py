"""Choose which part of a context is printed: a second `do` of a session prints only the rules that
are new to it, and names the record that printed the others.

This needs hooks that report when a session begins or is compacted, and who called `do`. Without
them, and in a subagent, no rule counts as printed before, and the whole text is printed. The
records and marks read here are hostile input: whoever plants one can shorten the printed text, but
never the record.

    printed = choose_printed(root, caller, context, "new")
    printed.text, printed.member
"""

from __future__ import annotations

import time

from charter.layout import join_page
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_text
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
from specify_cli.record.reading.printed_context import read_printed_before
from specify_cli.record.seal import read_fields

if TYPE_CHECKING:
    from charter.context import CharterContextResult
    from specify_cli.invocation.caller import Caller
    from specify_cli.storage.store import Body

_FOLDER = f"{layout.LOCAL}/bindings"
_MOST = 256 * 1024
_OPENING_LINES = 4


class PrintedContext(NamedTuple):
    """The text that a `do` prints, and the member `printed` of its record (docs/format.md §4), None
    if the whole text is printed."""

    text: str
    member: Body | None


def forget_printed(root: str, harness: str, session: str) -> None:
    """Note that a session has begun or was compacted: rules printed before no longer count.

    The mark holds the time in ms since 1970; rules in records from before that count as forgotten.

    `root` is the project's folder, `harness` and `session` name the session. Nothing is raised.
    """
    try:
        at = time.time_ns() // 1_000_000
        write_small(root, _FOLDER, _mark_name(harness, session), {"at": at})
    except (OSError, InvocationError):
        return  # without a mark no rule counts as printed before


def choose_printed(
    root: str, caller: Caller, context: CharterContextResult, show: str
) -> PrintedContext:
    """Return the printed text of a context.

    `show` is `whole`, `new` (rules that are new to the session) or `titles` (for a person at a
    terminal). The record always holds the whole context; only the printed text is shorter, to save
    space in the agent's window.

    `root` is the project's folder, and `caller` says which session asks. A rule counts as printed
    only with the same text (`digest`) in the same form.
    """
    if show == "titles":
        return PrintedContext(context.text, {"form": "titles"})
    printed_before = _list_printed(root, caller) if show == "new" and context.page else {}
    earlier = [
        {"uri": hit["uri"], "invocation_id": printed_before[key]}
        for hit in context.hits
        if (key := (str(hit["uri"]), str(hit["digest"]), str(hit["shown"]))) in printed_before
    ]
    if not earlier or not context.page:
        return PrintedContext(context.text, None)
    text = join_page(context.page, {entry["uri"]: entry["invocation_id"] for entry in earlier})
    return PrintedContext(text, {"form": "new", "held": earlier, "hash": hash_text(text)})


def _mark_name(harness: str, session: str) -> str:
    """Return the file name of a session's mark."""
    return short_digest(harness, session, "told since") + ".json"


def _list_printed(root: str, caller: Caller) -> dict[tuple[str, str, str], str]:
    """Return the rules printed for the caller's session since it began or was compacted, as
    {(uri, digest, form): id of the record that printed it first}.

    The session's mark must exist, and this call must certainly be the session's own: no other call
    may be under way. In doubt no rule counts as printed, because printing a rule twice costs little
    and a missing rule costs the work.
    """
    session = caller.session or {}
    harness, name = session.get("harness", ""), session.get("session_id", "")
    since = read_small(root, _FOLDER, _mark_name(harness, name)).get("at") if name else None
    # A mark of the hook says that this call is the session's own.
    if type(since) is not int or "agent_id" in session:
        return {}
    if list_under_way(root, harness, name) != [None]:
        return {}
    printed_before: dict[tuple[str, str, str], str] = {}
    for binding in reversed(list_bindings(root, harness, name, None)):
        if binding.profile_id is None or number_of(binding.invocation_id) >> 80 <= since:
            continue
        for key in _read_printed_rules(root, binding.profile_id, binding.invocation_id):
            printed_before.setdefault(key, binding.invocation_id)
    return printed_before


def _read_printed_rules(
    root: str, profile_id: str, invocation_id: str
) -> tuple[tuple[str, str, str], ...]:
    """Return (uri, digest, form) of each rule that the record of an earlier `do` printed itself."""
    path = f"{layout.RECORDS}/{layout.record_name(profile_id, invocation_id)}"
    try:
        lines = durable.read_below(root, path, _MOST).split(b"\n")[:_OPENING_LINES]
    except (OSError, InvocationError):
        return ()
    fields = [read_fields(line) for line in lines]
    printed = fields[0].get("printed") if fields else None
    hits = fields[-1].get("hits") if len(fields) == _OPENING_LINES else None
    if not isinstance(hits, list) or (
        "opened_by" in fields[0]  # by a hook, which prints nothing
        or (isinstance(printed, dict) and printed.get("form") == "titles")
    ):
        return ()
    earlier = read_printed_before(printed) or {}
    return tuple(
        (str(hit.get("uri")), str(hit.get("digest")), str(hit.get("shown")))
        for hit in hits
        if isinstance(hit, dict) and hit.get("uri") not in earlier
    )
