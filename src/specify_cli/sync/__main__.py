"""The detached push: `python -P -m specify_cli.sync ROOT`, started by `trigger.start_push`."""

import os
import sys
import threading
import time

_LIFE = 90.0


def run(root: str) -> int:
    """Push once, out of everybody's way: lowest priority, no working folder held, ended by force if it hangs."""
    from specify_cli.sync.trigger import LOCK_FD, PAUSE, sync_folder

    folder = sync_folder(root)
    if folder is None:
        return 1

    def pause(why: str, seconds: float) -> None:
        with open(f"{folder}/{PAUSE}", "w", encoding="utf-8") as file:
            file.write(why + "\n")
        until = time.time() + seconds
        os.utime(f"{folder}/{PAUSE}", (until, until))

    def end() -> None:
        pause(f"a push was ended after {_LIFE:g} s", 300.0)
        os._exit(1)

    watch = threading.Timer(_LIFE, end)
    watch.daemon = True
    watch.start()
    os.nice(10)
    os.chdir("/")
    try:
        from specify_cli.sync.push import background
    except ImportError as error:
        pause(f"EXTRA_MISSING: {error.name} is not installed; pip install 'spec-kitty-runtime[sync]'", 3600.0)
        return 1
    background(root, folder, os.environ, LOCK_FD)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
