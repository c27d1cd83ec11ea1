"""Negate every branch of the core, one at a time, and expect a red test each time (`make mutants`).

A branch is the condition of an `if`, a `while`, a conditional expression or a comprehension filter. Each mutant
runs in a copy of the source tree against the tests of its module; a run that does not end in time counts as red.
`python tests/mutants.py [MODULE…]` limits the run.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src/specify_cli"
_OF_VERIFY = ["tests/vectors", "tests/specify_cli/record", "tests/specify_cli/storage/test_queries.py"]
_OF_THE_ROUTER = ["tests/specify_cli/routing/test_router.py", "tests/specify_cli/routing/test_router_profiles.py"]
TESTS = {
    "record/seal": ["tests/specify_cli/record/test_seal.py", "tests/vectors"],
    "record/record": ["tests/specify_cli/record/test_record.py", "tests/specify_cli/storage/test_store.py"],
    "record/verify": _OF_VERIFY,
    "record/verifying/contents": _OF_VERIFY,
    "record/verifying/annexes": _OF_VERIFY,
    "record/verifying/named_objects": _OF_VERIFY,
    "storage/store": ["tests/specify_cli/storage", "tests/specify_cli/test_durable.py"],
    "redaction/redact": ["tests/specify_cli/redaction"],
    "redaction/capture": ["tests/specify_cli/redaction/test_capture.py", "tests/specify_cli/invocation"],
    "features/replay/judge": ["tests/features/replay"],
    "routing/router": _OF_THE_ROUTER,
    "routing/parser": _OF_THE_ROUTER,
    "routing/request_text": _OF_THE_ROUTER,
    "routing/questions": _OF_THE_ROUTER,
    "routing/clauses": _OF_THE_ROUTER,
    "routing/sentences": _OF_THE_ROUTER,
    "routing/statements": _OF_THE_ROUTER,
    "routing/choice": _OF_THE_ROUTER,
    "routing/tokens": _OF_THE_ROUTER,
}
TIMEOUT = 120


class _Negate(ast.NodeTransformer):
    """Negates the branch with a given number, counting in reading order."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.line = 0

    def _maybe(self, test: ast.expr) -> ast.expr:
        self.count += 1
        if self.count - 1 != self.wanted:
            return test
        self.line = test.lineno
        return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        node.test = self._maybe(node.test)
        return self.generic_visit(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        if not isinstance(node.test, ast.Constant):
            node.test = self._maybe(node.test)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._maybe(node.test)
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.ifs = [self._maybe(test) for test in node.ifs]
        return self.generic_visit(node)


def _branches(source: str) -> int:
    counter = _Negate(-1)
    counter.visit(ast.parse(source))
    return counter.count


def _run(module: str, number: int) -> tuple[str, int, int, bool]:
    path = CORE / f"{module}.py"
    source = path.read_text(encoding="utf-8")
    negate = _Negate(number)
    tree = ast.fix_missing_locations(negate.visit(ast.parse(source)))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "specify_cli" / f"{module}.py").write_text(ast.unparse(tree), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-o", f"pythonpath={copy} tests", *TESTS[module]]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/hypothesis"}
        try:
            done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=TIMEOUT, check=False)
            red = done.returncode != 0
        except subprocess.TimeoutExpired:
            red = True
    return module, number, negate.line, red


def main(modules: list[str]) -> int:
    work = [
        (module, number)
        for module in modules
        for number in range(_branches((CORE / f"{module}.py").read_text(encoding="utf-8")))
    ]
    survivors: list[tuple[str, int]] = []
    totals = dict.fromkeys(modules, 0)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for module, _, line, red in pool.map(lambda item: _run(*item), work):
            totals[module] += 1
            if not red:
                survivors.append((module, line))
                print(f"survived: {module}.py line {line}", flush=True)
    for module, total in totals.items():
        lived = sum(name == module for name, _ in survivors)
        print(f"{module}: {total - lived} of {total} negated branches turned a test red")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(TESTS)))
