"""A record's lines changed and chained anew, as whoever owns the clone can do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specify_cli.record.record import chain, genesis_tip


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Apply a change to a record's lines, and seal and chain them anew."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    change(lines)
    invocation_id = str(lines[0]["invocation_id"])
    bodies = [{key: value for key, value in line.items() if key not in ("v", "seq", "prev", "~")} for line in lines]
    path.write_bytes(chain(genesis_tip(lines[0]["v"]), invocation_id, bodies)[0])
