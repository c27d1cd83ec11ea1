"""mcp serve: the tools of agents that speak the Model Context Protocol."""

from __future__ import annotations

from specify_cli.cli import shell
from specify_cli.cli.table import Values


def serve(values: Values) -> int:
    """Answer on stdin and stdout until the client closes them."""
    del values
    try:
        from specify_cli.mcp.server import build_server
    except ModuleNotFoundError as error:
        raise shell.extra_missing("mcp", str(error.name)) from error
    build_server().run("stdio")
    return 0
