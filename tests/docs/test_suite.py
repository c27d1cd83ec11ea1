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
    """`make stress` runs what is marked: a module that asks for its size and is not would never be run in full."""
    unmarked = []
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        asks = any(one.name == "FULL" for node in imports if node.module == "support" for one in node.names)
        if asks and "benchmarks" not in path.parts and "mark.stress" not in text:
            unmarked.append(str(path.relative_to(TESTS)))

    assert unmarked == []
