"""mcp serve: the tools of agents that speak the Model Context Protocol."""

from __future__ import annotations

from specify_cli.cli.command_table import Values
from specify_cli.features.mcp.server import build_server


def serve(values: Values) -> int:
    """Answer on stdin and stdout until the client closes them."""
    del values
    build_server().run("stdio")
    return 0
