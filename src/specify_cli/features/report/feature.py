"""What this room brings."""

from specify_cli.room import Command, Feature, Form, option

FEATURE = Feature(
    name="report",
    about="Tell of many runs at once: who asked, what changed, what failed, what it cost.",
    page="docs/how-to.md",
    libraries=("archive", "story", "web"),
    commands=(
        Command(
            ("report",),
            "commands:report",
            "Tell of the runs of a time: who asked for what, what changed, failed and was mended, "
            "costs, open ends.",
            (
                option("since", "Since when: 7d, yesterday, or a date.", "7d", metavar="TIME"),
                option("until", "Before when, in the same forms.", metavar="TIME"),
                option("format", "text or markdown.", "text", choices=("text", "markdown")),
            ),
            ("spec-kitty report", "spec-kitty report --since 30d --format markdown"),
            "0 told · 1 a record is not whole, or refused · 2 usage",
            rank=305,
            section="Read",
        ),
    ),
    forms=(
        Form(
            ("report",),
            ("html",),
            "page_command:write_page",
            (option("html", "One page with pictures, into this new file.", metavar="FILE"),),
            after="format",
            examples=("spec-kitty report --since 30d --html report.html",),
        ),
    ),
    shapes="shapes",
)
