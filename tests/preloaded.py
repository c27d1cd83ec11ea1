"""Processes of `spec-kitty` forked from one that has the modules of collector and viewer loaded: most of what a start
costs.

    started = Preloaded(["collector", "serve", "--json"], folder, environment(folder), folder / "log")
    started.stdout.readline(); started.send_signal(signal.SIGKILL); started.wait(30)

They run the console script's own function. What a start itself shows (an exit at once, what is loaded, what a shell
sees) is asked of the installed program.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "specify_cli.cli.dispatch",
        "specify_cli.features.collector.server.log",
        "specify_cli.features.collector.commands.serve",
        "specify_cli.features.view.commands",
        "psycopg",
    ]
)


def _become(argv: Sequence[str], folder: Path, env: Mapping[str, str], out: Connection, log: Path) -> None:
    """Be the program: its arguments, folder, environment and streams."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(out.fileno(), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    out.close()
    sys.argv = ["spec-kitty", *argv]
    from specify_cli.cli.main import script

    script()


class Preloaded:
    """Such a process, with the members of `subprocess.Popen` that tests use."""

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> None:
        reading, writing = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(target=_become, args=(argv, folder, dict(env), writing, log), daemon=True)
        self._process.start()
        writing.close()
        self.stdout = os.fdopen(os.dup(reading.fileno()), "rb")
        reading.close()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self, timeout: float) -> int | None:
        self._process.join(timeout)
        return self.poll()
