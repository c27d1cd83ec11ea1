"""Sign the log automatically, after the answer of a command: in a process of its own, at most once
an hour.

    sign_when_due(root)        # after `do` and `complete`; costs a listing and two `stat`
    python -P -m specify_cli.features.witness.automatic ROOT

Only a log that a person has signed before (`trail checkpoint`) is signed automatically.

It runs in a process of its own, because a signature needs a large library, and reading the leaves
back waits for the disk. The time of the file `asked` is that of the last start, so a signing that
fails is not tried again before the hour is over.
"""

from __future__ import annotations

import sys
import time

from doctrine import os
from doctrine.git import find_worktree, git_directory
from specify_cli.errors import InvocationError
from specify_cli.project.config import load_project
from specify_cli.project.root import place_below
from specify_cli.trail.log.entries import TrailLog
from specify_cli.trail.log.leaves import list_generations

# How long a signed state is good enough, in seconds.
_PERIOD = 3600.0
_ASKED = "asked"


def sign_when_due(root: str, now: float | None = None) -> bool:
    """Start the signing of a project's log if it is due; return whether it was started.

    `now` is in seconds since 1970. The result is also False if nobody ever signed the log, or if
    the process cannot be started. Nothing is raised.

    `root` is the project's folder. The mark is written before the process is started, so that the
    next command starts no other.
    """
    top = find_worktree(root)
    git_dir = None if top is None else git_directory(top)
    if top is None or git_dir is None:
        return False
    home = TrailLog(root, git_dir, place_below(root, top)).homes[0]
    try:
        (*_, newest) = list_generations(home)
        last = os.stat(f"{home}/{newest}/checkpoint").st_mtime
        mark = f"{home}/{_ASKED}"
        if os.path.exists(mark):
            last = max(last, os.stat(mark).st_mtime)
        if 0 <= (time.time() if now is None else now) - last < _PERIOD:
            return False
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(mark)
        from specify_cli.libraries.processes import detached  # once an hour

        detached.start_detached("specify_cli.features.witness.automatic", root)
        return True
    except (ValueError, OSError, NotImplementedError):
        return False  # nothing was ever signed, or it cannot be: `trail checkpoint` says why


def _sign(root: str) -> None:
    """Sign once, with low priority."""
    # loads cryptography in the detached process alone
    from specify_cli.libraries.signed_log.signing import make_checkpoint

    os.nice(10)
    try:
        make_checkpoint(load_project(root)[0])
    except InvocationError:
        pass  # `trail checkpoint` and verify say it to a person


if __name__ == "__main__":
    _sign(sys.argv[1])
