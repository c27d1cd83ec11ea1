"""One table of ratios at the end of a benchmark run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from support import SPEC_KITTY

RATIOS: list[str] = []


@pytest.fixture
def say() -> Callable[[str], None]:
    """Add a line to the table of ratios."""
    return RATIOS.append


@pytest.fixture
def spec_kitty() -> str:
    return SPEC_KITTY


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if RATIOS:
        terminalreporter.section(f"ratios, CPU time, medians, python {sys.version.split()[0]}, {os.cpu_count()} cores")
        for line in RATIOS:
            terminalreporter.write_line(line)
