"""Refuse our own modules what their environment does not bring, though the tests' packages lie beside them.

A `.pth` file of the environment that runs the tests imports this module in each of its processes (`extras.py`).
`EXTRA_ALONE` lists the modules that the product's own environment has: the default dependencies and one extra.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from typing import Any

OURS = ("specify_cli", "charter", "doctrine")


def refuse_imports(allowed: frozenset[str]) -> None:
    """Make an import of ours fail that names a module outside of `allowed`, also where it is loaded already."""
    find = builtins.__import__

    def import_allowed(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        importer, top = str((globals or {}).get("__name__")), name.partition(".")[0]
        ours = importer.partition(".")[0] in OURS
        if ours and not level and top not in allowed and top not in sys.stdlib_module_names and top not in OURS:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        return find(name, globals, locals, fromlist, level)

    builtins.__import__ = import_allowed


if "EXTRA_ALONE" in os.environ:
    refuse_imports(frozenset(json.loads(os.environ["EXTRA_ALONE"])))
