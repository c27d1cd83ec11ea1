"""What only the transcript of a session says: how a command ended, and which record a `do` began."""

from __future__ import annotations

import os

from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.payload.translation import HookInput, ending_of, printed_ids
from specify_cli.record.seal import open_line
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore

MAX_TRANSCRIPT = 256 * 1024


def find_in_transcript(root: str, call: HookInput) -> str | None:
    """Return the newest record at the end of the session's transcript whose request stands in the command line.

    A transcript may not have come to this call yet; then the last record it names is another.
    """
    data = read_end(str(call.transcript))
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
    status = ending_of(read_end(call.ending), str(call.events[-1].payload["call_id"]))
    if status is None:
        return call
    *before, result = call.events
    return call._replace(events=(*before, result._replace(payload={**result.payload, "status": status})))


def read_end(path: str, limit: int = MAX_TRANSCRIPT) -> bytes:
    """Return the end of a transcript, nothing of what is no plain file; the harness alone says where it is."""
    folder, _, name = path.rpartition("/")
    if not os.path.isabs(path):
        return b""
    try:
        with durable.folder(folder or "/") as folder_fd:
            fd = durable.open_regular(folder_fd, name, os.O_RDONLY, name)
        try:
            return os.pread(fd, limit, max(0, os.fstat(fd).st_size - limit))
        finally:
            os.close(fd)
    except (OSError, InvocationError, ValueError):
        return b""
