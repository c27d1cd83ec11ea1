"""What the viewer's tests share: a real viewer in its own process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support import PATIENCE, SPEC_KITTY, environment


class Viewer(NamedTuple):
    """A viewer that listens: the address that opens it once, and the one its pages stand below."""

    opening: str
    base: str


@contextmanager
def viewing(project: Path, home: Path, *argv: str) -> Iterator[Viewer]:
    """Run `spec-kitty view` for a project until the end of the block."""
    command = [SPEC_KITTY, "view", *argv, "--json"]
    with subprocess.Popen(command, cwd=project, env=environment(home), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            yield Viewer(told["url"], told["url"].partition("/open?")[0])
        finally:
            process.terminate()
            assert process.wait(timeout=PATIENCE) == 0
