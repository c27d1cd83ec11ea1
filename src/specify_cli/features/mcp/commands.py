"""mcp serve: the tools of agents that speak the Model Context Protocol."""

from __future__ import annotations

from specify_cli.features.mcp.server import build_server
from specify_cli.room import Values


def serve(values: Values) -> int:
    """Answer on stdin and stdout until the client closes them."""
    del values
    build_server().run("stdio")
    return 0
