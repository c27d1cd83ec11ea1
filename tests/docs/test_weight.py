"""A module holds what a reader takes in at once: at most 4,000 code tokens."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
MOST = 4000


def count_code_tokens(text: str) -> int:
    """Count the tokens of a module without comments, docstrings and blank space."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start[0] not in documented for token in tokens)


def test_no_module_weighs_over_four_thousand_code_tokens() -> None:
    weights = {str(path.relative_to(SRC)): count_code_tokens(path.read_text("utf-8")) for path in SRC.rglob("*.py")}

    assert {name: weight for name, weight in weights.items() if weight > MOST} == {}
