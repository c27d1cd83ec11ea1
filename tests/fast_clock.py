"""A clock that runs five times too fast, as one that a slow machine's tests seem to have.

`PYTHONPATH=tests python -m pytest -p fast_clock` lets every clock that measures how long something takes run five times
too fast, in the tests and in the processes they start. What a file's time is compared with, the time of day, stays.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

SPEED = 5
STARTED = "SPEC_KITTY_FAST_CLOCK"
CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time")


def _quicken(name: str) -> None:
    read = getattr(time, name)
    first = read()

    def read_fast() -> float:
        return first + SPEED * (read() - first)  # type: ignore[no-any-return]

    # pytest-benchmark finds its timer by these names.
    read_fast.__module__, read_fast.__name__ = "time", name
    setattr(time, name, read_fast)


for _name in (*CLOCKS, *(f"{name}_ns" for name in CLOCKS)):
    _quicken(_name)

# Children find this folder's `sitecustomize` first, by the variable that `support.environment` hands on.
os.environ[STARTED] = str(Path(__file__).parent / "fast_clock_site")
