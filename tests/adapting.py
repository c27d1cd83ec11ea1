"""What the tests of adapters share: a request, what is captured, and what a run recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replaying import lines_of
from specify_cli.features.programs.run import Run
from specify_cli.project.config import load_project
from specify_cli.storage.checking import verify_all

REQUEST = "fix the failing login test"
FULL = {"tool": "full", "llm": "full"}


def events(root: Path, run: Run) -> list[dict[str, Any]]:
    """The events of a run behind its opening, without what differs each time; the record is sound."""
    project, _ = load_project(str(root))
    assert [item for report in verify_all(project) for item in report.findings if item.severity == "error"] == []
    return lines_of(root, run.invocation_id)[4:]


def shown(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("step", "tool", "status", "model", "decision")
    return [(item["event"], *(item[name] for name in names if name in item)) for item in found]
