"""Which tests ask for a room that was taken out of the tree (`tests/rooms.py`): found in their text, and skipped.

A test asks for a room where it, or a function of the tests that it calls, imports the room, runs one of its commands,
names one of its codes, or says so (`# room: witness`).
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
# Tests of pages, tables and schemas of all rooms together, and of what is installed beside this checkout.
OF_THE_WHOLE = frozenset(
    (
        "test_extending.py",
        "test_readme.py",
        "test_rooms.py",
        "test_strangers.py",
        "test_schemas_are_printed_and_committed",
        "test_commands_of_the_rooms_do_their_ordinary_work_as_on_windows",
        "test_packs_approvals_programs_and_sync_do_their_ordinary_work_as_on_windows",
        "test_the_error_and_finding_tables_of_the_docs_are_the_codes",
        "test_the_names_of_schemas_are_completed_without_the_models_they_are_made_of",
        "test_help_lists_every_command_in_a_section",
        "test_every_line_of_the_readme_and_the_skill_works_or_names_its_extra",
        "test_every_command_stands_in_the_golden_copy",
        "test_every_named_test_is_defined",
        "test_the_commands_of_the_page_its_compose_file_and_its_unit_are_ours",
        "test_each_extra_is_tried_alone_by_tests_that_are_there",
        "test_clean_code_has_at_most_twelve_false_masks_in_ten_megabytes",
    )
)
ABSENT: dict[str, list[Any]] = json.loads(os.environ.get("SPEC_KITTY_WITHOUT", "{}"))


@functools.cache
def _read_functions(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return each top-level name of a module with its text and the names that text uses; "" is all other statements."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    functions: dict[str, tuple[str, frozenset[str]]] = {}
    rest: list[ast.stmt] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            functions[node.name] = ("\n".join(lines[node.lineno - 1 : node.end_lineno]), _names(node))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            functions[node.targets[0].id] = ("\n".join(lines[node.lineno - 1 : node.end_lineno]), _names(node))
        else:
            rest.append(node)
    functions[""] = ("\n".join(ast.unparse(node) for node in rest), frozenset())
    return functions


def _names(node: ast.AST) -> frozenset[str]:
    named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    named |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    decorators = [part for one in getattr(node, "decorator_list", ()) for part in ast.walk(one)]
    fixtures = {one.value for one in decorators if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return frozenset(named | fixtures)


@functools.cache
def _read_imports(path: Path) -> dict[str, tuple[Path, str]]:
    """Return the names that a module takes from other modules of the tests."""
    found: dict[str, tuple[Path, str]] = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = TESTS / f"{node.module.replace('.', '/')}.py"
            if module.is_file():
                found |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    return found


@functools.cache
def read_text_of(path: Path, name: str) -> str:
    """Return the text of a function and of everything in the tests that it uses, by name or as a fixture."""
    texts: list[str] = []
    seen: set[tuple[Path, str]] = set()
    waiting = [(path, name)]
    while waiting:
        where, one = waiting.pop()
        if (where, one) in seen:
            continue
        seen.add((where, one))
        functions, imports = _read_functions(where), _read_imports(where)
        if one in functions:
            text, names = functions[one]
            texts.append(text)
            waiting += [(where, other) for other in names if other in functions or other in imports]
            for conftest in _list_conftests(where):
                waiting += [(conftest, other) for other in names if other in _read_functions(conftest)]
        elif one in imports:
            waiting.append(imports[one])
    return "\n".join(texts)


def _list_conftests(path: Path) -> list[Path]:
    return [folder / "conftest.py" for folder in path.parents if (folder / "conftest.py").is_file()]


@functools.cache
def asks_in_import(path: Path) -> bool:
    """Return whether a module cannot be imported without the absent rooms, by itself or by what it imports."""
    text = path.read_text("utf-8")
    if any(re.search(rf"^\s*(from|import) (specify_cli\.)?features\.{room}\b", text, re.M) for room in ABSENT["rooms"]):
        return True
    if any(re.search(rf"^from specify_cli\.api import .*\b{name}\b", text, re.M) for name in ABSENT["api"]):
        return True
    modules = {module for module, _ in _read_imports(path).values()}
    modules |= {
        TESTS / f"{name}.py" for name in re.findall(r"^import (\w+)$", text, re.M) if (TESTS / f"{name}.py").is_file()
    }
    return any(asks_in_import(module) for module in modules - {path})


def asks_in_text(text: str) -> bool:
    """Return whether a text runs a command or takes an option of an absent room, names one of its codes, or says that
    it asks for one: `# room: witness`."""
    if any(f'"{word}"' in text and re.search(rf"{option}(?![\w-])", text) for word, option in ABSENT["pairs"]):
        return True
    words = [re.escape(command).replace(r"\ ", r"[\", ']+") for command in ABSENT["commands"]]
    words += map(re.escape, ABSENT["options"] + ABSENT["codes"])
    pattern = "|".join(rf"(?<![\w.-]){word}(?![\w-])" for word in words)
    pattern = "|".join(filter(None, [pattern, rf"# room: ({'|'.join(ABSENT['rooms'])})\b"]))
    return re.search(pattern, text) is not None
