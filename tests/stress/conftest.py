"""What stress tests measured is printed at the end of each module of a long run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from support import FULL, REPORT


@pytest.fixture(autouse=True, scope="module")
def _report() -> Iterator[None]:
    REPORT.clear()
    yield
    if FULL:
        sys.stderr.write("\n" + "\n".join(REPORT) + "\n")
