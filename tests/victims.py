"""Processes that are killed: forked from one that has everything loaded, or started again and again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from preloaded import Preloaded
from support import PATIENCE


class Victim:
    """A process that is started again and again and killed in between; `preloaded` it is a fork of one that has
    loaded what a collector needs."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str], *, preloaded: bool = False) -> None:
        self.argv, self.cwd, self.env, self.preloaded = argv, cwd, env, preloaded
        self.kills = 0
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes] | Preloaded:
        if self.preloaded:
            self.process = Preloaded(self.argv[1:], self.cwd, self.env, Path(os.devnull), heard=False)
        else:
            nowhere = subprocess.DEVNULL
            self.process = subprocess.Popen(self.argv, cwd=self.cwd, env=self.env, stdout=nowhere, stderr=nowhere)
        return self.process

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.kills += 1
        self.process.wait(PATIENCE)


def fork(work: Callable[[int], None]) -> tuple[int, int]:
    """A child that runs `work` with the writing end of a pipe; (pid, reading end)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        os.close(reading)
        work(writing)
        code = 0
    finally:
        os._exit(code)


def drain(reading: int) -> list[str]:
    with os.fdopen(reading, "rb") as file:
        lines = file.read().split(b"\n")
    return [line.decode() for line in lines[:-1]]
