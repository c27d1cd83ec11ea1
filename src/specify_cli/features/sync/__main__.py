"""The detached push: `python -P -m specify_cli.features.sync ROOT`, started by
`trigger.start_push`."""

import sys
import threading

from doctrine import os
from specify_cli.features.sync.consent import pause_for
from specify_cli.features.sync.trigger import LOCK_FD, sync_folder

_LIFE = 90.0


def run(root: str) -> int:
    """Push once, out of everybody's way: lowest priority, no working folder in use, ended by force
    if it hangs."""
    folder = sync_folder(root)
    if folder is None:
        return 1

    def end() -> None:
        try:
            pause_for(folder, 300.0, f"a push was ended after {_LIFE:g} s")
        finally:
            os._exit(1)

    watch = threading.Timer(_LIFE, end)
    watch.daemon = True
    watch.start()
    os.nice(10)
    os.chdir("/")
    try:
        # of the extra `sync`, and its absence is noted
        from specify_cli.features.sync.sending.push import background
    except ImportError as error:
        from specify_cli.installation import advise_install

        pause_for(
            folder,
            3600.0,
            f"EXTRA_MISSING: {error.name} is not installed; {advise_install('sync')}",
        )
        return 1
    background(root, folder, os.environ, LOCK_FD)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
