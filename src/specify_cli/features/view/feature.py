"""What this room brings."""

from specify_cli.cli.tables.params import ID
from specify_cli.room import Command, Feature, Form, option

FEATURE = Feature(
    name="view",
    about="Show records in a browser, and as a page that checks itself.",
    page="docs/how-to.md",
    needs=("effect", "replay", "search"),
    libraries=("archive", "comparison", "signed_log", "story", "timeline", "web"),
    extra="view",
    commands=(
        Command(
            ("view",),
            "commands:view",
            "Show records in a browser of this machine: list, search, pictures, pages, two runs "
            "side by side; live.",
            (
                ID._replace(required=False, metavar="[ID]"),
                option(
                    "port", "A port of 127.0.0.1; 0 takes a free one.", 0, integer=True, metavar="N"
                ),
            ),
            ("spec-kitty view", "spec-kitty view last"),
            "0 stopped by a signal · 1 refused · 2 usage",
            rank=360,
            section="Read",
            guesses=("open", "web", "ui"),
        ),
    ),
    forms=(
        Form(
            ("invocations", "export"),
            ("html",),
            "page_command:export_page",
            (
                option(
                    "html", "One record as a page that checks itself in a browser.", metavar="FILE"
                ),
            ),
            after="output",
            examples=("spec-kitty invocations export last --html run.html",),
            rank=10,
        ),
    ),
    shapes="shapes",
    errors={"PAGE_TOO_LARGE": "The page of a record would be larger than what browsers open."},
)
