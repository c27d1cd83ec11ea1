"""The docstring of every folder of `src`: 8 to 20 lines, files that are there, and a way in that runs."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from doctrine.load import project_cache
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.record.record import fold

SRC = Path(__file__).parents[2] / "src"
FOLDERS = sorted(path.parent for path in SRC.rglob("__init__.py") if "compiled" not in path.parts)
DOCSTRINGS = {
    str(folder.relative_to(SRC)): ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    for folder in FOLDERS
}


def test_the_docstring_of_a_folder_has_8_to_20_lines_and_names_files_that_are_there() -> None:
    lengths = {name: len(text.splitlines()) for name, text in DOCSTRINGS.items()}
    missing = [
        (name, file)
        for name, text in DOCSTRINGS.items()
        for file in re.findall(
            r"`([\w/.]+\.(?:py|json|js)|\w+/)`", text.partition("Reading order:")[2].partition("\n\n")[0]
        )
        if not any((SRC / base / file).exists() for base in (name, "specify_cli"))
        and not list((SRC / name).glob(f"*/{file}"))
    ]

    assert {name: length for name, length in lengths.items() if not 8 <= length <= 20} == {}
    assert missing == []


def test_the_way_into_every_folder_runs(chartered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a project, and the id, the bytes and the fold of a closed record of it, as names."""
    monkeypatch.chdir(chartered)
    monkeypatch.setenv("HOME", str(chartered.parent / "home"))
    executor = ProfileInvocationExecutor(chartered)
    opened = executor.invoke("implement WP03")
    executor.complete(opened.invocation_id)
    data = (chartered / opened.record_path).read_bytes()
    project, _ = load_project(str(chartered))
    failed = {}
    for name, text in DOCSTRINGS.items():
        names: dict[str, Any] = {
            "root": str(chartered),
            "project": project,
            "project_cache": project_cache,
            "invocation_id": opened.invocation_id,
            "data": data,
            "record": fold(data),
        }
        code = textwrap.dedent("\n".join(re.findall(r"^    .*$", text, flags=re.M)))
        try:
            exec(compile(code, name, "exec"), names)
        except BaseException as error:  # the commands of an extra that is missing exit
            failed[name] = f"{type(error).__name__}: {error}"

    assert not failed, "\n".join(map(str, failed.items()))
