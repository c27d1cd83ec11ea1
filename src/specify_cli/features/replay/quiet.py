"""No network and no writing while a record is replayed: what is refused, and in which threads. [an
audit hook]"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_DENIED = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostby",
    "socket.getnameinfo",
    "socket.sendto",
    "socket.sendmsg",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
)


_denials = 0
_hooked = False
_guard = threading.Lock()
_spared: frozenset[threading.Thread] = frozenset()


class NetworkDenied(RuntimeError):
    """Something asked for the network, or for another process, during a replay."""


@contextmanager
def network_denied() -> Iterator[None]:
    """Deny the whole process the network, and starting other processes, meanwhile.

    An audit hook stays for the life of a process, so it is added once and asks whether a replay is
    going on.
    """
    global _denials, _hooked
    with _guard:
        if not _hooked:
            sys.addaudithook(_deny)
            _hooked = True
        _denials += 1
    try:
        yield
    finally:
        with _guard:
            _denials -= 1


def spare_running_threads() -> None:
    """Let the threads go on that a Dask worker speaks to its cluster with; those that run its tasks
    are denied."""
    global _spared
    with _guard:
        if not _spared:
            _spared = frozenset(
                thread
                for thread in threading.enumerate()
                if not thread.name.startswith("Dask-Default-Threads")
            )


def _deny(event: str, _: object) -> None:
    if _denials and event.startswith(_DENIED) and threading.current_thread() not in _spared:
        raise NetworkDenied(f"{event} during a replay, which runs on what was recorded alone")
