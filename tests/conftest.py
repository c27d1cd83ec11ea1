"""Projects to work in: a plain folder, a git repository, one with a charter; and the real command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import CHARTER, Cli, Ran, environment, git


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh git repository and nothing else."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def chartered(project: Path) -> Path:
    """A git repository with a charter."""
    path = project / ".kittify" / "charter" / "charter.md"
    path.parent.mkdir(parents=True)
    path.write_text(CHARTER, encoding="utf-8")
    return project


@pytest.fixture
def cli(project: Path, home: Path) -> Cli:
    """Run the installed `spec-kitty` in the project, as a user's shell would."""

    def run(
        *argv: str | bytes, cwd: Path = project, stdin: bytes | None = None, env: dict[str, str] | None = None
    ) -> Ran:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "spec-kitty"), *argv],
            cwd=cwd,
            env={**environment(home), **(env or {})},
            input=stdin if stdin is not None else b"",
            capture_output=True,
            check=False,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    return run


@pytest.fixture
def records(project: Path) -> Callable[[], list[Path]]:
    """The record files of the project."""

    def found() -> list[Path]:
        return sorted((project / ".kittify/events/profile-invocations").glob("*.jsonl"))

    return found
