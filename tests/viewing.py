"""What the viewer's tests share: a real viewer in its own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from preloaded import Preloaded
from support import PATIENCE, environment


class Viewer(NamedTuple):
    """A viewer that listens: the address that opens it once, and the one its pages stand below."""

    opening: str
    base: str


@contextmanager
def viewing(project: Path, home: Path, *argv: str) -> Iterator[Viewer]:
    """Run `spec-kitty view` for a project until the end of the block."""
    process = Preloaded(["view", *argv, "--json"], project, environment(home), home / "viewer.log")
    try:
        line = process.stdout.readline()
        assert line, (home / "viewer.log").read_text()
        told = json.loads(line)
        yield Viewer(told["url"], told["url"].partition("/open?")[0])
    finally:
        process.stdout.close()
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0
