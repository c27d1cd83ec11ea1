"""Run a hook in this process."""

from __future__ import annotations

from typing import Any

from specify_cli.features.hooks import handler
from support import own_millisecond


def run_hook(harness: str, data: bytes, root: str, home: str, **options: Any) -> None:
    """Run it as a harness program does, whose next hook is another process: in a later millisecond."""
    with own_millisecond():
        handler.run_hook(harness, data, root, home, **options)
