"""What only the transcript of a session says: how a command ended, and which record a `do`
began."""

from __future__ import annotations

from collections.abc import Mapping, Set

from doctrine import os
from doctrine.light_imports import NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.outputs import list_printed_ids, parse_json
from specify_cli.features.hooks.payload.turn_from_transcript import read_facts
from specify_cli.features.hooks.payload.values import HookInput, as_object
from specify_cli.invocation.ends.activity import read_moment
from specify_cli.record.seal import read_fields
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore, Place

MAX_TRANSCRIPT = 256 * 1024
MAX_TURN = 4 * 1024 * 1024


def find_in_transcript(root: str, call: HookInput) -> str | None:
    """Return the newest record at the end of the session's transcript whose request stands in the
    command line.

    A transcript may not have come to this call yet; then the last record it names is another.
    """
    data = read_end(call.session_transcript)
    index = Index(root)
    for printed in sorted(list_printed_ids(data.decode("utf-8", "replace")), reverse=True):
        try:
            request = read_started(root, index.resolve(printed)).get("request_text")
        except (OSError, InvocationError):
            continue
        if isinstance(request, str) and request and request in call.starts_record_command:
            return printed
    return None


def read_started(root: str, place: Place) -> Mapping[str, object]:
    """Return the first line of a record; nothing where it is none. Raises OSError,
    InvocationError."""
    return read_fields(FileRecordStore(root).head(place))


def fill_exit_status(dialect: Dialect, call: HookInput) -> HookInput:
    """Return a call with how its command ended, where only the session's transcript says it."""
    if not dialect.lacks_exit_status(call):
        return call
    *before, result = call.events
    status = dialect.read_exit_status(read_end(call.session_transcript), result.named_id)
    if status is None:
        return call
    return call._replace(
        events=(*before, result._replace(payload={**result.payload, "status": status}))
    )


class Ends(NamedTuple):
    """What a transcript says of calls: which were refused, with what their model received, when
    (as it states it) it reported last a call of which it reports more than the begin, and which of
    these are over, for it says how they ended."""

    refused: Mapping[str, str]
    reported_at: Mapping[str, object]
    over: Set[str] = frozenset()


def read_ends(dialect: Dialect, path: str | None, begun: Mapping[str, int]) -> Ends:
    """Return how these calls ended, of which no hook said so, as far as a transcript says it.

    `begun` are their ids, each with when (ms) the call began.
    """
    mark, follows = dialect.unnamed_calls
    unnamed = {call_id for call_id in begun if mark and mark in call_id}
    needles = [*map(str.encode, begun), *([follows] if unnamed else [])]
    data = read_end(path, MAX_TURN) if begun else b""
    lines = [line for line in data.split(b"\n") if any(needle in line for needle in needles)]
    over = set()
    reported_at: dict[str, object] = {}
    for call_id, began in begun.items():
        own = [line for line in lines if call_id.encode() in line]
        ends = [line for line in own if dialect.read_exit_status(line, call_id) is not None]
        is_followed = call_id in unnamed and not ends
        told = [line for line in lines if follows in line] if is_followed else ends or own[1:]
        entries = [as_object(parse_json(line)) for line in told]
        stated = [line["timestamp"] for line in entries if line.get("timestamp") is not None]
        if is_followed:
            stated = [one for one in stated if (read_moment(one) or 0) >= began]
        if ends or (is_followed and stated):
            over.add(call_id)
            stated = stated[:1]
        if stated:
            reported_at[call_id] = stated[-1]
    return Ends(read_facts(dialect, b"\n".join(lines)).denied, reported_at, over)


def read_end(
    path: str | None, limit: int = MAX_TRANSCRIPT, start: int = 0, *, is_head: bool = False
) -> bytes:
    """Return the end of a transcript, what comes before `start` left out; nothing of what is no
    plain file, as a FIFO that nobody writes to. The harness alone says where it is. With `is_head`
    it is the beginning that is read."""
    if path is None or not os.path.isabs(path):
        return b""
    folder, _, name = path.rpartition("/")
    try:
        with durable.opened(folder or "/", name) as fd:
            end = 0 if is_head else os.fstat(fd).st_size
            return os.pread(fd, limit, max(start, end - limit))
    except (OSError, InvocationError, ValueError):
        return b""


def read_head(path: str, size: int = 1024 * 1024) -> bytes:
    """Return the first bytes of a plain file; none of one that cannot be read."""
    return read_end(path, size, is_head=True)
