"""Fill the capsule behind a command, in a process of its own."""

from __future__ import annotations

from specify_cli.libraries.processes.detached import start_detached


def start_filling(root: str) -> None:
    """Start to fill the capsule of a project with what it does not hold."""
    start_detached("specify_cli.features.capsule.filling", root)
