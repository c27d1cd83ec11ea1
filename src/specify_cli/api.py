"""The Python API: what rooms offer to programs, by its name and loaded when it is asked for.

    from specify_cli.api import open_invocation

    with open_invocation(project, "fix the failing login test") as run:
        ...

`dir(specify_cli.api)` lists the names. A name of a room that is not here is an ImportError.
"""

from __future__ import annotations

from typing import Any

from specify_cli.cli.tables.points import list_fills, load


def __getattr__(name: str) -> Any:
    """Return what a room offers under this name. Raises AttributeError where no room does."""
    for fill in list_fills("api"):
        if fill.name == name:
            return load(fill.run)
    raise AttributeError(f"no room offers {name!r}; there are {', '.join(__dir__())}")


def __dir__() -> list[str]:
    return sorted(fill.name for fill in list_fills("api"))
