"""Where a project begins: the nearest `.kittify/` upwards, within the git worktree (docs/adr/0001)."""

from __future__ import annotations

import os

from doctrine.git import git_directory
from specify_cli.invocation import layout


def find_root(start: str, home: str | None = None) -> tuple[str, str | None]:
    """(project root, git directory) for a folder: design §4. `home` itself is no project's ancestor."""
    here = os.path.abspath(start)
    first = here
    kittify: str | None = None
    while True:
        if kittify is None and (here == first or here != home) and os.path.isdir(f"{here}/{layout.KITTIFY}"):
            kittify = here
        if os.path.lexists(f"{here}/.git"):
            return kittify or here, git_directory(here)
        parent = os.path.dirname(here)
        if parent == here:
            return kittify or first, None
        here = parent
