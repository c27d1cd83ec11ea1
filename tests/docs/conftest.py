"""The project that the examples of the docs are run in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs_examples import Prepared, prepare
from support import build_into, parse_source

ROOT = Path(__file__).parents[2]
SKIPPED = (".git", ".venv*", "dist", "build", "node_modules", "__pycache__", ".hypothesis", ".*_cache", ".benchmarks",
           "compiled.json", "build.txt", "api.pyi")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _trees_are_forgotten() -> Iterator[None]:
    """Keep the trees of our modules for the tests of one module: they take 150 MB, which each fork would copy."""
    yield
    parse_source.cache_clear()


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout, in which wheel and sdist were built into `dist`."""
    folder = tmp_path_factory.mktemp("built") / "checkout"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*SKIPPED))
    build_into(folder, folder / "dist", "sdist", "wheel")
    return folder


@pytest.fixture(scope="session")
def wheel_file(checkout: Path) -> Path:
    """The wheel of a copy of this checkout."""
    (path,) = (checkout / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def template(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(repository, tmp_path_factory.mktemp("template"))


@pytest.fixture
def prepared(template: Prepared, tmp_path: Path) -> Prepared:
    return template._replace(root=Path(shutil.copytree(template.root, tmp_path / "project")))
