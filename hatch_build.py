"""Build hook: what an installed package needs beside its sources, for wheels and editable installs alike."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileDoctrine(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the shipped doctrine, so that no shipped YAML is parsed, and names the build by its sources.

    An editable install runs sources that go on changing, so it has no build digest.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write both files before the files of the package are collected."""
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        try:
            from doctrine.load import write_compiled

            write_compiled(str(source / "doctrine"))
        finally:
            sys.path.remove(str(source))
        digest = source / "specify_cli" / "build.txt"
        digest.unlink(missing_ok=True)
        if version == "standard":
            digest.write_text(_digest_of(source) + "\n", encoding="ascii")


def _digest_of(source: Path) -> str:
    """SHA-256 over the names and bytes of everything the package is made from."""
    hasher = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.suffix in (".py", ".yaml", ".json"):
            data = path.read_bytes()
            hasher.update(f"{path.relative_to(source).as_posix()}\0{len(data)}\0".encode())
            hasher.update(data)
    return hasher.hexdigest()
