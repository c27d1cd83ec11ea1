"""What this room brings."""

from __future__ import annotations

from specify_cli.cli.tables.params import NARROW, READ, WHICH
from specify_cli.room import Command, Feature, Fill, Form, argument, flag, option

FEATURE = Feature(
    name="search",
    about="Find records by what stands in them, and who wrote a line.",
    page="docs/how-to.md",
    libraries=("story", "words"),
    commands=(
        Command(
            ("invocations", "search"),
            "commands:search",
            "Find what was recorded: words, and by file, tool, commit or rule; newest first.",
            (
                argument(
                    "text",
                    'Words that stand in one line; "…" is a phrase, a word that ends in * a '
                    "beginning.",
                    multiple=True,
                    metavar="[TEXT]",
                ),
                *NARROW,
                option(
                    "outcome", "Only this outcome.", choices=("open", "done", "failed", "abandoned")
                ),
                *WHICH,
                flag("all", "Search replays and re-executions too."),
                option("limit", "Maximum number of hits.", 20, integer=True, metavar="N"),
            ),
            (
                "spec-kitty invocations search login token",
                "spec-kitty invocations search --path src/login.py --since 7d",
            ),
            READ,
            rank=190,
            guesses=("find", "grep"),
        ),
        Command(
            ("why",),
            "why_command:why",
            "Tell which invocation wrote the lines of a file, on whose request, under which rules, "
            "and what was run after.",
            (
                argument(
                    "place", "A file, or one line of it.", required=True, metavar="FILE[:LINE]"
                ),
            ),
            ("spec-kitty why src/login.py", "spec-kitty why src/login.py:12"),
            "0 told, also where nothing is known · 1 no such file or line · 2 usage",
            rank=350,
            section="Read",
            guesses=("blame",),
        ),
    ),
    fills=tuple(Fill("list_filters", "commands:list_rows", param.name) for param in NARROW),
    forms=(Form(("invocations", "list"), params=NARROW, after="outcome"),),
    shapes="shapes",
)
