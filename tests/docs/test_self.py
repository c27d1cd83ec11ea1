"""This repository governs itself: its own `.kittify/` loads, and no trail of its own is committed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.routing.registry import ProfileRegistry

ROOT = Path(__file__).parents[2]


def test_the_config_profiles_and_charter_of_this_repository_load(tmp_path: Path) -> None:
    work = tmp_path / "self"
    for part in ("config.yaml", "charter", "profiles"):
        source, target = ROOT / ".kittify" / part, work / ".kittify" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    project, cache = load_project(str(work))
    registry = ProfileRegistry(project.root, cache)
    payload = ProfileInvocationExecutor(work).invoke("review the torn tail handling in docs/format.md")

    assert project.config.trail == "private"
    assert registry.problems == ()
    assert [profile.profile_id for profile in registry.all() if profile.origin == "project"] == [
        "format-keeper",
        "hot-path-hand",
    ]
    assert payload.profile_id == "format-keeper"
    assert payload.warnings == ()
    assert "docs/format.md" in payload.governance_context_text


def test_no_trail_of_its_own_is_committed() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", ".kittify"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()

    assert [path for path in tracked if "/events/" in path or "/trail/" in path] == []
