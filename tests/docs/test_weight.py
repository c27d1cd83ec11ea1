"""What a reader takes in at once: a module of 4,000 code tokens, a function of 60 lines, a folder of 12 modules."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

from support import parse_source, walk_statements

SRC = Path(__file__).parents[2] / "src"
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
MOST = 4000


def count_code_tokens(text: str, tree: ast.Module) -> int:
    """Count the tokens of a module without comments, docstrings and blank space."""
    documented: set[int] = set()
    for node in walk_statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start[0] not in documented for token in tokens)


def has_many_words(text: str) -> bool:
    """Return whether words and signs, of which each token has at least one, come near what a module may have of
    tokens: the others need no closer look."""
    return len(re.findall(r"\w+|[^\w\s]", text)) > MOST - 200


def test_no_module_weighs_over_four_thousand_code_tokens() -> None:
    weights = {
        str(path.relative_to(SRC)): count_code_tokens(text, parse_source(path))
        for path in SRC.rglob("*.py")
        if has_many_words(text := path.read_text("utf-8"))
    }

    assert len(weights) > 20
    assert {name: weight for name, weight in weights.items() if weight > MOST} == {}


def test_no_function_has_over_sixty_lines_and_no_folder_over_twelve_modules() -> None:
    paths = list(SRC.rglob("*.py"))
    long = [
        f"{path.relative_to(SRC)}: {node.name}"
        for path in paths
        if path.read_text("utf-8").count("\n") > 60
        for node in walk_statements(parse_source(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.end_lineno or 0) - node.lineno >= 60
    ]
    folders = Counter(str(path.parent.relative_to(SRC)) for path in paths)

    assert long == []
    assert {folder: size for folder, size in folders.items() if size > 12} == {}
