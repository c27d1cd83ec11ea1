"""The detached push: `python -P -m specify_cli.sync ROOT`, started by `trigger.start_push`."""

import os
import signal
import sys

_LIFE = 90


def run(root: str) -> int:
    """Push once, out of everybody's way: lowest priority, no working folder held, ended by force if it hangs."""
    signal.alarm(_LIFE)
    os.nice(10)
    os.chdir("/")
    from specify_cli.sync.trigger import LOCK_FD, PAUSE, sync_folder

    try:
        from specify_cli.sync.push import background
    except ImportError as error:
        folder = sync_folder(root)
        if folder is None or error.name is None or error.name.startswith("specify_cli"):
            raise
        path = f"{folder}/{PAUSE}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"EXTRA_MISSING: {error.name} is not installed; pip install 'spec-kitty-runtime[sync]'\n")
        until = os.stat(path).st_mtime + 3600
        os.utime(path, (until, until))
        return 1
    background(root, os.environ, LOCK_FD)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
