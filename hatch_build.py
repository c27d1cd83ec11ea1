"""Build hook: compile the shipped doctrine into the package, for wheels and editable installs alike."""

from __future__ import annotations

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileDoctrine(BuildHookInterface):  # type: ignore[type-arg]
    """Writes `src/doctrine/compiled.json`, so that an installed package parses no shipped YAML."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile before the files of the package are collected."""
        source = os.path.join(self.root, "src")
        sys.path.insert(0, source)
        try:
            from doctrine.load import write_compiled

            write_compiled(os.path.join(source, "doctrine"))
        finally:
            sys.path.remove(source)
