"""What this room brings."""

from specify_cli.room import Command, Feature, argument

FEATURE = Feature(
    name="intake",
    about="Keep a brief for later.",
    page="docs/how-to.md",
    commands=(
        Command(
            ("intake",),
            "commands:intake",
            "Keep a brief under .kittify/intake/ for later; nothing is routed and no record is "
            "written.",
            (argument("brief", "A text file; - reads stdin.", required=True, metavar="FILE"),),
            ("spec-kitty intake brief.md", "spec-kitty intake - < brief.md"),
            "0 kept · 1 refused · 2 usage",
            rank=610,
            section="Begin",
        ),
    ),
    shapes="shapes",
    errors={
        "BRIEF_NOT_FOUND": "The brief does not exist or is not a regular UTF-8 text file.",
    },
)
