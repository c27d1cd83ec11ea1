"""The suite never judges by a clock: speed is measured in tests/benchmarks, as a ratio, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
          "thread_time", "thread_time_ns", "getrusage"}  # fmt: skip
# What plays real programs, drives a browser or prints what a long run took, and what waits for a condition.
MAY_READ = {"benchmarks", "browser", "harness", "stress", "support.py", "fast_clock.py", "secrets_measure.py"}


def _read_clocks(path: Path) -> list[str]:
    """Return where a module names a clock that measures how long something took."""
    text = path.read_text("utf-8")
    if not any(clock in text for clock in CLOCKS):
        return []
    tree = ast.parse(text)
    named = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in CLOCKS]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [node.lineno for node in imports if CLOCKS & {one.name for one in node.names}]
    return [f"{path.relative_to(TESTS)}:{line}" for line in named]


def test_no_test_of_the_suite_reads_a_clock_that_measures() -> None:
    read = [place for path in sorted(TESTS.rglob("*.py")) if path.relative_to(TESTS).parts[0] not in MAY_READ
            for place in _read_clocks(path)]  # fmt: skip

    assert read == []


def test_no_stress_test_asserts_how_long_something_took_in_its_short_version() -> None:
    """`make test` runs their short versions: what they say of time they report, or ask under `make stress`."""
    judged = []
    for path in sorted((TESTS / "stress").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Assert) and "FULL" not in (text := ast.unparse(node)):
                names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                if names & {"stall", "seconds", "taken", "cost", "ratio", "ratios"} or "'us'" in text:
                    judged.append(f"{path.name}:{node.lineno}")

    assert judged == []


def test_what_is_larger_under_make_stress_is_marked_so() -> None:
    """`make stress` runs what is marked: a test that asks for its size and is not would never be run in full."""
    paths = set(TESTS.rglob("test_*.py")) - set((TESTS / "benchmarks").iterdir())

    assert [place for path in sorted(paths) for place in _list_unmarked(path)] == []


def _list_unmarked(path: Path) -> list[str]:
    """Return the tests of a module without the mark that ask how large they are, or a value or function that does."""
    unmarked: list[str] = []
    sizes: set[str] = set()
    source = path.read_text("utf-8")
    for node in ast.parse(source).body if "FULL" in source else ():
        text, names = ast.unparse(node), {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        if isinstance(node, ast.ImportFrom) and node.module == "support":
            sizes |= {one.asname or one.name for one in node.names if one.name == "FULL"}
        elif "mark.stress" in text:
            if text.startswith("pytestmark"):
                return []
        elif names & sizes and isinstance(node, ast.Assign):
            sizes |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif names & sizes and isinstance(node, ast.FunctionDef) and "pytest.fixture" not in text:
            if node.name.startswith("test"):
                unmarked.append(f"{path.relative_to(TESTS)}:{node.lineno} {node.name}")
            sizes.add(node.name)
    return unmarked


def test_make_bench_runs_every_benchmark() -> None:
    """Told to run benchmarks only, pytest-benchmark skips each test that measures a ratio without its fixture."""
    recipe = (TESTS.parent / "Makefile").read_text("utf-8").partition("\nbench:")[2].partition("\n\n")[0]
    alone = {word for word in recipe.split() if word.startswith("tests/benchmarks/")}

    assert "pytest tests/benchmarks " in recipe and "--benchmark-only" not in recipe
    assert {f"--ignore={path}" for path in alone} == {word for word in recipe.split() if word.startswith("--ignore=")}
