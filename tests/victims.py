"""Processes that are started again and again and killed in between."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any


class Victim:
    """A process that is started again and again and killed in between."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.argv, self._start = argv, {"cwd": cwd, "env": env, "stdout": subprocess.DEVNULL}
        self.kills = 0
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {**self._start, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.argv, **options)
        return self.process

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.kills += 1
        self.process.wait()
