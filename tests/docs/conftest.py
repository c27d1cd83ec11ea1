"""The project that the examples of the docs are run in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docs_examples import Prepared, prepare


@pytest.fixture(scope="module")
def template(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(repository, tmp_path_factory.mktemp("template"))


@pytest.fixture
def prepared(template: Prepared, tmp_path: Path) -> Prepared:
    return template._replace(root=Path(shutil.copytree(template.root, tmp_path / "project")))
