"""What this room brings."""

from specify_cli.room import Command, Feature, Group

FEATURE = Feature(
    name="mcp",
    about="Serve agents that speak the Model Context Protocol.",
    page="docs/how-to.md",
    extra="mcp",
    needs=("search",),
    groups=(
        Group("mcp", "Serve agents that speak the Model Context Protocol.", 100, section="Share"),
    ),
    commands=(
        Command(
            ("mcp", "serve"),
            "commands:serve",
            "Answer an agent's client on stdin and stdout with the tools advise, complete, do, "
            "rule, search, show, verify and why.",
            (),
            ("spec-kitty mcp serve",),
            "0 the client went away · 1 refused · 2 usage",
            rank=600,
        ),
    ),
)
