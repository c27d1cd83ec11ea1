"""The findings of doctor about a project; every room brings its own checks (docs/extending.md)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import InvocationError


class Finding(NamedTuple):
    """One thing that is wrong: a code, how bad, where, what, and the command that fixes it."""

    code: str
    severity: Literal["error", "warning", "info"]
    path: str
    message: str
    repair: str


def list_names(root: str, folder: str) -> list[str]:
    """Return the names in a folder of a project, sorted; none where it is no folder or a link is on
    the way.

    `folder` is below the root. Hidden names are among them.
    """
    try:
        with durable.folder(root, folder) as fd:
            return sorted(os.listdir(fd))
    except (FileNotFoundError, NotADirectoryError, InvocationError):
        return []
