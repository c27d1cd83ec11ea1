"""Read by every Python process that a test starts below `-p fast_clock`: its clocks run too fast as well."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("fast_clock", Path(__file__).parents[1] / "fast_clock.py")
assert _spec is not None and _spec.loader is not None
_spec.loader.exec_module(importlib.util.module_from_spec(_spec))
