"""Equal calls at the same moment, of harnesses that name no call: distinguished by what was
reported before them.

Copilot gives calls it makes together one time, so two equal ones have equal payloads, and so has
one call that arrives through two settings files. Each file tells a call once: its second equal
payload is a second call.
"""

from __future__ import annotations

from doctrine import os
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import list_keys
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.values import HookInput
from specify_cli.invocation.bindings import is_record_open, list_bindings, short_digest
from specify_cli.invocation.events.event_body import find_line
from specify_cli.record import layout
from specify_cli.storage.store import FileRecordStore

_REMEMBERED = 16 * 1024


def number_twin(at: Site, source: str, call: HookInput) -> HookInput:
    """Return a call with a key of its own where this source reported an equal one before it."""
    first = call.events[0]
    key = short_digest(first.phase, first.call_id)[:32].encode("ascii") + b"\n"
    name = short_digest(at.harness, call.session_id or "", source) + ".log"
    try:
        with (
            durable.folder(at.root, f"{layout.LOCAL}/twins", create=True) as folder_fd,
            durable.appended(folder_fd, name, os.O_RDWR) as fd,
        ):
            durable.lock(fd, name)
            size = os.fstat(fd).st_size
            before = os.pread(fd, _REMEMBERED, max(0, size - _REMEMBERED)).count(key)
            durable.write_all(fd, key)
    except (OSError, InvocationError):
        return call
    if not before or _is_in_closed(at, call):
        return call
    return call._replace(
        events=tuple(event._replace(call_id=f"{event.call_id}~{before}") for event in call.events)
    )


def _is_in_closed(at: Site, call: HookInput) -> bool:
    """Return whether a record of a session that is closed holds the first event of a call."""
    key = str(list_keys(at.harness, call)[0])  # that of a stand-in, which is never empty
    for binding in list_bindings(at.root, at.harness, call.session_id or "", None):
        if binding.place is None or is_record_open(at.root, binding):
            continue
        try:
            if find_line(FileRecordStore(at.root).read(binding.place), key) is not None:
                return True
        except (OSError, InvocationError):
            continue
    return False
