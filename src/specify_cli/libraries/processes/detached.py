"""Start one of our modules in a process that outlives this one."""

from __future__ import annotations

import sys

from doctrine import os

_NULL = [
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
]


def start_detached(module: str, root: str, descriptors: tuple[tuple[int, int], ...] = ()) -> None:
    """Start one of our modules for a project, in a detached process. Raises OSError.

    `descriptors` are (number here, number there) pairs that the new process gets. It inherits
    nothing else, has a session of its own, and no input or output. So a program that waits until
    this process closes a pipe does not wait for the new one.

    `root` is the project's folder and the only argument. The process outlives this one; nobody
    waits for it and nobody sees how it ended.
    """
    closing = []
    for name in os.listdir("/dev/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                closing.append((os.POSIX_SPAWN_CLOSE, int(name)))
        except OSError:
            continue  # the listing's own
    actions = [*_NULL, *closing, *((os.POSIX_SPAWN_DUP2, *pair) for pair in descriptors)]
    argv = [sys.executable, "-P", "-m", module, root]
    os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions, setsid=True)
