"""What a person was asked to permit, and what they allowed: an approval without a name, a claim of
the harness.

A harness asks before a call runs and gives the request no id; the answer shows in that the call
then ran. So each request waits in `.kittify/local/asked/` until the result of a call that is equal
to it, or until the session goes on without one.
"""

from __future__ import annotations

from contextlib import suppress

from doctrine import os
from specify_cli import durable
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.values import (
    HookInput,
    compose_approval,
    compute_fingerprint,
)
from specify_cli.invocation.bindings import asked_folder, short_digest
from specify_cli.record import layout

_MAX_EQUAL = 16
_GOES_ON = ("prompt", "started", "ended")


def follow_request(at: Site, call: HookInput) -> HookInput:
    """Keep a request for permission; return the result of a permitted call with the approval before
    it."""
    if not at.session:
        return call
    folder = asked_folder(at.harness, at.session)
    name = short_digest(call.subagent or "", compute_fingerprint(call.asked))
    if call.asked and not call.events:
        _keep(at.root, folder, name)
    elif call.moment.kind in _GOES_ON and call.subagent is None:
        _forget(at.root, folder)
    elif call.asked and _take(at.root, folder, name):
        for place, event in enumerate(call.events):
            if event.event == "tool_result" and event.status != "denied":
                allowed = event._replace(
                    event="approval", payload=compose_approval(event.payload, "allow")
                )
                return call._replace(events=(*call.events[:place], allowed, *call.events[place:]))
    return call


def _keep(root: str, folder: str, name: str) -> None:
    with durable.folder(root, folder, create=True) as fd:
        for number in range(_MAX_EQUAL):
            with suppress(FileExistsError):
                durable.create_exclusive(fd, f"{name}-{number}", b"", durable.PRIVATE)
                return


def _take(root: str, folder: str, name: str) -> bool:
    """Take a request that waits; False where none does."""
    with suppress(FileNotFoundError), durable.folder(root, folder) as fd:
        for number in range(_MAX_EQUAL):
            with suppress(FileNotFoundError):
                os.unlink(f"{name}-{number}", dir_fd=fd)
                return True
    return False


def _forget(root: str, folder: str) -> None:
    """Drop every request of a session that waits: nobody allowed what they were asked."""
    with suppress(FileNotFoundError):
        with durable.folder(root, folder) as fd:
            for name in os.listdir(fd):
                os.unlink(name, dir_fd=fd)
        with durable.folder(root, layout.ASKED) as fd:
            os.rmdir(folder.rpartition("/")[2], dir_fd=fd)
