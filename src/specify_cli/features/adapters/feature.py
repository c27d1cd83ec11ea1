"""What this room brings."""

from specify_cli.room import Feature

FEATURE = Feature(
    name="adapters",
    about="Record what agents on other people's frameworks do.",
    page="docs/agents.md",
    needs=("programs",),
)
