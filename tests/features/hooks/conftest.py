"""What the tests of hooks share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook


@pytest.fixture
def tell(chartered: Path, home: Path) -> Callable[..., None]:
    """Tell what Claude Code tells its hooks."""

    def run(event: str, **payload: Any) -> None:
        value = {"session_id": "s-1", "cwd": str(chartered), "hook_event_name": event, "prompt_id": "p", **payload}
        run_hook("claude-code", json.dumps(value).encode(), str(chartered), str(home))

    return run
