"""A server of the Model Context Protocol: agents ask, search and close without a shell.

    from specify_cli.features.mcp.server import build_server
    build_server()

Reading order: `server.py` (the tools, each of which runs one command of ours), `commands.py` (mcp
serve).

A tool gives back what its command prints, and an error with its next step. Commands that weaken
protection or send something still ask for a person. It needs the extra `mcp`; no room imports it.
"""
