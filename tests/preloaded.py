"""Processes of `spec-kitty` forked from one that has the modules of collector and viewer loaded: most of what a start
costs.

    started = Preloaded(["collector", "serve", "--json"], folder, environment(folder), folder / "log")
    started.stdout.readline(); started.send_signal(signal.SIGKILL); started.wait(30)

They run the console script's own function. What a start itself shows (an exit at once, what is loaded, what a shell
sees) is asked of the installed program.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

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


def _become(argv: Sequence[str], folder: Path, env: Mapping[str, str], out: Connection | None, log: Path) -> None:
    """Be the program: its arguments, folder, environment and streams."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_WRONLY) if out is None else out.fileno(), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    if out is not None:
        out.close()
    sys.argv = ["spec-kitty", *argv]
    from specify_cli.cli.main import script

    script()


class Preloaded:
    """Such a process, with the members of `subprocess.Popen` that tests use; what it prints is lost if it is not
    `heard`."""

    def __init__(
        self, argv: Sequence[str], folder: Path, env: Mapping[str, str], log: Path, *, heard: bool = True
    ) -> None:
        reading, writing = _FORKS.Pipe(duplex=False)
        given = (argv, folder, dict(env), writing if heard else None, log)
        self._process = _FORKS.Process(target=_become, args=given, daemon=True)
        self._process.start()
        writing.close()
        self.stdout: IO[bytes] = os.fdopen(os.dup(reading.fileno()), "rb") if heard else io.BytesIO()
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
