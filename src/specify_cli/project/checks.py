"""The findings of doctor about a project; every room brings its own checks (docs/extending.md).

    def check_trail(project, home):
        if not os.path.isdir(f"{project.root}/.kittify/trail"):
            yield Finding("NO_TRAIL", "warning", ".kittify/trail", "it is absent", "git pull")

A check reads and changes nothing. It is called with the `Project` and the user's home folder.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import InvocationError


class Finding(NamedTuple):
    """One thing that is wrong: a code, how bad, where, what, and the command that fixes it.

    `path` is below the project's root where it can be. `message` says what was expected and found,
    and `repair` is a command or a sentence that a person can follow. An `error` makes doctor exit
    with 1.
    """

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
