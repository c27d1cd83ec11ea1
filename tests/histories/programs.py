"""What was run to make the histories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

API = (Path(__file__).parents[2] / "docs/api.md").read_text(encoding="utf-8")


def example() -> dict[str, Any]:
    """What the first Python block of the document defines."""
    found = re.search(r"```python\n(.*?)```", API, flags=re.S)
    assert found is not None
    space: dict[str, Any] = {"__name__": "docs_api"}
    exec(compile(found.group(1), "docs/api.md", "exec"), space)
    return space


def agent_loop(project: Path) -> None:
    """The example of docs/api.md: tools, a gate, a retrieval, a limit."""
    example()["agent"](project)


PROGRAMS = {"agent-loop": agent_loop}
