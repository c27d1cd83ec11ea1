"""Equal calls at the same moment, of harnesses that name no call: told apart by what was told
before them.

Copilot gives calls it makes together one time, so two equal ones have equal payloads, and so has
one call that arrives through two settings files. Each file tells a call once: its second equal
payload is a second call.
"""

from __future__ import annotations

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.invocation.bindings import short_digest
from specify_cli.record import layout

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.values import HookInput

_REMEMBERED = 16 * 1024


def number_twin(root: str, harness: str, source: str, call: HookInput) -> HookInput:
    """Return a call with a key of its own where this source told an equal one before it."""
    first = call.events[0]
    key = short_digest(first.phase, first.call_id)[:32].encode("ascii") + b"\n"
    name = short_digest(harness, call.session_id or "", source) + ".log"
    try:
        with (
            durable.folder(root, f"{layout.LOCAL}/twins", create=True) as folder_fd,
            durable.appended(folder_fd, name, os.O_RDWR) as fd,
        ):
            durable.lock(fd, name)
            size = os.fstat(fd).st_size
            before = os.pread(fd, _REMEMBERED, max(0, size - _REMEMBERED)).count(key)
            durable.write_all(fd, key)
    except (OSError, InvocationError):
        return call
    if not before:
        return call
    return call._replace(
        events=tuple(event._replace(call_id=f"{event.call_id}~{before}") for event in call.events)
    )
