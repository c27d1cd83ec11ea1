"""The project that the examples of the docs are run in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs_examples import Prepared, prepare

ROOT = Path(__file__).parents[2]
# What a wheel is built of.
SOURCES = ("src", "docs/schemas", "LICENSE", "README.md", "constraints.txt", "hatch_build.py", "pyproject.toml")


@pytest.fixture(scope="session")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (path,) = (folder / "out").glob("*.whl")
    return Path(path)


@pytest.fixture(scope="module")
def template(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(repository, tmp_path_factory.mktemp("template"))


@pytest.fixture
def prepared(template: Prepared, tmp_path: Path) -> Prepared:
    return template._replace(root=Path(shutil.copytree(template.root, tmp_path / "project")))
