"""docs/architecture.md, CONTRIBUTING.md and the docstrings of `src` name only what is there."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from absent_rooms import ABSENT
from declared import write_tables
from specify_cli.cli.tables.assemble import read_rooms
from support import parse_source, walk_statements

pytestmark = pytest.mark.skipif(bool(ABSENT), reason="the pages are of the tree with all its rooms")
ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for path in (ROOT / "src").rglob("*.py") if "compiled" not in path.parts)
PAGES = ("docs/architecture.md", "docs/extending.md", "CONTRIBUTING.md")
# Suffixes of what looks like a name in a module and is a file.
SUFFIXES = ("py", "js", "json", "jsonl", "md", "yaml", "toml", "db", "tar", "html", "sh", "txt", "ini")


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module_of(path): path for path in SOURCES}


@functools.cache
def _read_texts() -> tuple[tuple[str, str], ...]:
    return tuple(_list_texts())


def _list_texts() -> Iterator[tuple[str, str]]:
    """Yield what is read by people and names code: the pages, and every docstring of the sources."""
    for name in PAGES:
        # What stands in a block of code is run by tests of its own, or made up.
        yield name, re.sub(r"^```.*?^```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.M | re.S)
    for module, path in MODULES.items():
        if not re.search(r"`[\w-]*[./]", path.read_text("utf-8")):
            continue  # it names no code, and to parse it takes a hundred times as long
        for node in walk_statements(parse_source(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield module, text


@functools.cache
def _list_names(path: Path) -> set[str]:
    """Return what a module defines, imports or assigns."""
    names: set[str] = set()
    for node in ast.walk(parse_source(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _is_stale(name: str) -> bool:
    """Return whether a dotted name begins with one of our modules and ends in something it does not have."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        prefix = ".".join(parts[:size])
        found = [path for module, path in MODULES.items() if f".{module}".endswith(f".{prefix}")]
        if found:
            rest = parts[size:]
            return bool(rest) and not any(set(rest) <= _list_names(path) for path in found)
    return False


def test_every_path_that_is_named_is_there() -> None:
    named = {
        (place, path)
        for place, text in _read_texts()
        for path in re.findall(
            r"`((?:[\w.-]+/)*\w+\.py|(?:[\w.-]+/)+[\w-]+\.(?:json|md|sh|toml)|(?:[a-z_-]+/)+)`", text
        )
        if not path.startswith((".", "kitty_tally/"))
    }
    files = [path for top in ("src", "tests", "docs") for path in (ROOT / top).rglob("*")]
    ends = {f"/{path.relative_to(ROOT)}" for path in (*files, *ROOT.iterdir()) if "__pycache__" not in path.parts}
    known = {end[at:] for end in ends for at, letter in enumerate(end) if letter == "/"}
    missing = [(place, path) for place, path in named if f"/{path.rstrip('/')}" not in known]

    assert len(named) > 60
    wrong = sorted(missing)
    assert not wrong, "\n".join(map(str, wrong))


def test_every_function_of_a_module_that_is_named_is_there() -> None:
    named = {
        (place, name.replace(":", "."))
        for place, text in _read_texts()
        for name in re.findall(r"`([a-z_]\w*(?:\.\w+)+(?::\w+)?)(?:\(\))?`", text)
        if name.rpartition(".")[2] not in SUFFIXES
    }

    assert len(named) > 20
    wrong = sorted((place, name) for place, name in named if _is_stale(name))
    assert not wrong, "\n".join(map(str, wrong))


def test_the_functions_of_the_walk_are_in_the_files_it_names() -> None:
    """`name` in `path.py`, as the walk says it."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`([\w.]+)`\s+in\s+`(?:src/)?([\w/]+)\.py`", text)
    wrong = []
    for name, path in pairs:
        found = [source for module, source in MODULES.items() if f".{module}".endswith("." + path.replace("/", "."))]
        if len(found) != 1 or not set(name.split(".")) <= _list_names(found[0]):
            wrong.append((name, path))

    assert len(pairs) > 20
    wrong = wrong
    assert not wrong, "\n".join(map(str, wrong))


def test_the_tables_of_rooms_codes_and_findings_are_those_of_the_declarations(tmp_path: Path) -> None:
    """`make docs` writes them."""
    pages = [ROOT / "docs" / name for name in ("architecture.md", "errors.md", "verify.md", "charter.md")]
    for page in pages:
        (tmp_path / page.name).write_bytes(page.read_bytes())
    write_tables(tmp_path)

    assert [(tmp_path / page.name).read_text("utf-8") for page in pages] == [page.read_text("utf-8") for page in pages]


def test_the_page_of_every_room_is_there() -> None:
    wrong = [room.feature.name for room in read_rooms() if not (ROOT / room.feature.page).is_file()]
    assert not wrong, "\n".join(map(str, wrong))
