"""Sign the log by itself, behind the answer of a command: a process of its own, once an hour where
something was added.

    sign_when_due(root, git_dir)        # after `do` and `complete`; costs a listing and two `stat`
    python -P -m specify_cli.trail.log.automatic ROOT

Only a log that a person has signed before (`trail checkpoint`) is signed so.

A process of its own, because making a signature loads a large library, and reading the leaves back
waits for the disk. The file `asked` says when one was started last, so a signing that fails is not
tried again before the hour is over.
"""

from __future__ import annotations

import sys
import time

from doctrine import os
from doctrine.git import find_worktree
from specify_cli.errors import InvocationError
from specify_cli.project.config import load_project
from specify_cli.project.root import place_below
from specify_cli.trail.log.entries import TrailLog
from specify_cli.trail.log.leaves import list_generations

# How long a signed state is good enough, in seconds.
_PERIOD = 3600.0
_ASKED = "asked"
_NULL = [
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
]


def start_detached(module: str, root: str, descriptors: tuple[tuple[int, int], ...] = ()) -> None:
    """Start a module of ours in a process of its own, for a project; it inherits `descriptors`,
    renumbered.

    Of what this process inherited nothing goes over: somebody may be waiting for its end. Raises
    OSError.

    `descriptors` are (here, there) pairs. The process has a session of its own and no input or
    output, so that nobody who waits for this process's end of a pipe waits for it.
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


def sign_when_due(root: str, git_dir: str, now: float | None = None) -> bool:
    """Start the signing of a project's log where that is due; return whether it was started.

    `now` is in seconds since 1970. False also where nobody ever signed, or it cannot be started.
    Nothing is raised.
    """
    top = find_worktree(root)
    home = TrailLog(root, git_dir, "" if top is None else place_below(root, top)).homes[0]
    try:
        (*_, newest) = list_generations(home)
        last = os.stat(f"{home}/{newest}/checkpoint").st_mtime
        asked = f"{home}/{_ASKED}"
        if os.path.exists(asked):
            last = max(last, os.stat(asked).st_mtime)
        if 0 <= (time.time() if now is None else now) - last < _PERIOD:
            return False
        os.close(os.open(asked, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(asked)
        start_detached("specify_cli.trail.log.automatic", root)
        return True
    except (ValueError, OSError, NotImplementedError):
        return False  # nothing was ever signed, or it cannot be: `trail checkpoint` says why


def _sign(root: str) -> None:
    """Sign once, out of everybody's way."""
    # loads cryptography in the detached process alone
    from specify_cli.trail.log.signing import make_checkpoint

    os.nice(10)
    try:
        make_checkpoint(load_project(root)[0])
    except InvocationError:
        pass  # `trail checkpoint` and verify say it to a person


if __name__ == "__main__":
    _sign(sys.argv[1])
