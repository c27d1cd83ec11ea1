"""What a process that goes on has of an earlier one, and the claim by which it alone does.

    past = EarlierRun(History(lines, objects.get), trace_id)
    descriptor = take_claim(root, invocation_id)

Another run of the same program is an earlier one, too: that of a re-execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.features.programs.history import History
from specify_cli.features.programs.recorded import Recorded
from specify_cli.libraries.comparison.expected import ExpectedEvents
from specify_cli.record import layout
from specify_cli.record.seal import Fields
from specify_cli.storage.store import Body


class EarlierRun(NamedTuple):
    """What an earlier process did of this run, or another run of its program, and how that is
    used.

    In a resumed run steps and calls that ended are not run again. In a re-execution (`again`, the
    URI of the original) steps are, tool and model results are given back unless `live_tools` or
    `models` say otherwise, and with `watch` every event has to be the same.
    """

    history: History
    trace_id: str
    spent_seconds: float = 0.0
    rerun: frozenset[str] = frozenset()
    again: str = ""
    live_tools: bool = False
    allow_external: bool = False
    models: Mapping[str, Callable[[Any], Any]] = {}
    watch: ExpectedEvents | None = None
    seam: Body | None = None

    def allows(self, call: Recorded) -> bool:
        """Return whether a call in doubt may run once more: this attempt was consented to, or it
        does no harm."""
        consented = call.attempt in self.rerun or (
            call.attempts == 1 and call.call_id in self.rerun
        )
        return call.safe_again or consented

    def locate(self, fields: Fields) -> Body:
        """Return the member that says whose result is given back."""
        return {"source": f"{self.again}/event/{fields.get('seq')}"}


def take_claim(root: str, invocation_id: str) -> int:
    """Return the descriptor by which a process holds a run while it lives; -1 where none can be
    open.

    Raises RUN_BUSY.
    """
    try:
        with durable.folder(root, f"{layout.LOCAL}/runs", create=True) as folder_fd:
            flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(f"{invocation_id}.lock", flags, durable.PRIVATE, dir_fd=folder_fd)
    except (OSError, InvocationError):
        return -1
    try:
        durable.lock(fd, f"run {invocation_id}", wait=0.0)
    except EnvironmentFault as error:
        os.close(fd)
        raise CallerError(
            "RUN_BUSY",
            f"{invocation_id} is being worked on by another process that is still alive",
            "wait for it to end, then resume",
        ) from error
    return fd
