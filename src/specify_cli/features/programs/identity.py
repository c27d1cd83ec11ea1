"""What a program is: its digest over the sources it is made of, and its loading by module and
function."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from doctrine.light_imports import hash_text
from specify_cli.errors import CallerError
from specify_cli.features.programs.run import Run
from specify_cli.invocation import gates
from specify_cli.record.seal import digest_of

Program = Callable[[Run], Any]


def program_digest(program: Program) -> str:
    """Return the digest of a program: its module's source and those it imports from next to it, its
    name, its closure.

    Of a closure what cannot change counts: numbers, texts, functions. A list may hold what the
    program itself puts in.
    """
    return digest_of(_describe_program(program, frozenset()))


def _describe_program(program: Any, seen: frozenset[int]) -> dict[str, object]:
    bound: list[object] = []
    while isinstance(program, functools.partial):
        bound += [program.args, tuple(sorted(program.keywords.items()))]
        program = program.func
    module = sys.modules.get(getattr(program, "__module__", ""))
    path = getattr(module, "__file__", None)
    sources = {} if path is None else _read_sources(path, str(getattr(module, "__name__", "")))
    described: dict[str, object] = {
        "source": sources.pop("", None) or gates.source_digest(program),
        "name": getattr(program, "__qualname__", ""),
    }
    values = [_describe_value(value, seen) for value in bound]
    for cell in getattr(program, "__closure__", None) or ():
        try:
            values.append(_describe_value(cell.cell_contents, seen | {id(program)}))
        except ValueError:
            pass  # nothing has been put into it yet
    parts = {"modules": sources, "bound": [item for item in values if item is not None]}
    return described | {name: part for name, part in parts.items() if part}


def _describe_value(value: object, seen: frozenset[int]) -> object:
    if isinstance(value, (str, int, float, bytes)):
        return repr(value)
    if isinstance(value, tuple):
        return [_describe_value(item, seen) for item in value]
    if isinstance(value, (types.FunctionType, functools.partial)) and id(value) not in seen:
        return _describe_program(value, seen | {id(value)})
    return None


def _read_sources(path: str, name: str) -> dict[str, object]:
    """Return the source of a module under "", and the digests of the modules it imports from the
    folder it lies in."""
    base = path
    for _ in range(1 + name.count(".") + os.path.basename(path).startswith("__init__.")):
        base = os.path.dirname(base)
    # Of an installed package its own modules, not all that are installed.
    top = f"{name.partition('.')[0]}." if base.endswith(("-packages", "/lib-dynload")) else ""
    sources: dict[str, object] = {}
    due, known = [(path, name)], {path}
    while due:
        file, module = due.pop()
        try:
            with open(file, encoding="utf-8") as source:
                text = source.read()
            is_package = os.path.basename(file) == "__init__.py"
            imports = _list_imports(text, module if is_package else module.rpartition(".")[0])
        except (OSError, UnicodeDecodeError, SyntaxError):
            continue
        if file == path:
            sources[""] = text
        else:
            sources[os.path.relpath(file, base)] = hash_text(text)
        for imported in imports:
            stem = os.path.join(base, *imported.split("."))
            for candidate in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                is_ours = f"{imported}.".startswith(top) and candidate not in known
                if is_ours and os.path.isfile(candidate):
                    known.add(candidate)
                    due.append((candidate, imported))
    return sources


@functools.lru_cache(512)
def _list_imports(text: str, package: str) -> tuple[str, ...]:
    """Return every module that a source may import, by its full name. Raises SyntaxError.

    A process that opens many runs parses each source once.
    """
    return tuple(_walk_imports(ast.parse(text), package))


def _walk_imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".") if package else []
            parts = above[: len(above) - node.level + 1] if node.level else []
            start = ".".join([*parts, *([node.module] if node.module else [])])
            names = [start, *(f"{start}.{alias.name}".lstrip(".") for alias in node.names)]
        else:
            continue
        for name in filter(None, names):
            pieces = name.split(".")
            yield from (".".join(pieces[: end + 1]) for end in range(len(pieces)))


def load_program(name: str) -> Program:
    """Return the function a user names as module:function. Raises CallerError PROGRAM_NOT_FOUND."""

    module_name, _, function = name.partition(":")
    if os.getcwd() not in sys.path:
        # last, so that nothing there takes the place of an installed module
        sys.path.append(os.getcwd())
    try:
        if not module_name or not function:
            raise ValueError("expected module:function")
        program = getattr(importlib.import_module(module_name), function)
        if not callable(program):
            raise TypeError("it is no function that takes the run")
    # it is a caller's module: whatever it raises is why it cannot be used
    except (Exception, SystemExit) as error:
        raise CallerError(
            "PROGRAM_NOT_FOUND",
            f"{name!r} cannot be loaded: {type(error).__name__}: {error}",
            "name it as module:function, from its folder",
        ) from error
    return program  # type: ignore[no-any-return]
