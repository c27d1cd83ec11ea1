"""What this room brings."""

from __future__ import annotations

from specify_cli.room import Command, Feature, argument, option

FEATURE = Feature(
    name="origin",
    about="Tell where the lines of a range of commits came from.",
    page="docs/gate.md",
    needs=("search", "approvals"),
    libraries=("ssh", "web", "archive", "story"),
    commands=(
        Command(
            ("origin",),
            "commands:origin",
            "Tell for each line that a range of commits added or changed which invocation wrote "
            "it, who asked, how it was tested and what is proven.",
            (
                argument(
                    "range",
                    "A..B, a commit, or a file of the last commit (FILE[:LINE]). What HEAD has on "
                    "top of main where none is named.",
                    metavar="[RANGE]",
                ),
                option("release", "The same for A..B, as what a release holds.", metavar="A..B"),
                option(
                    "format",
                    "text, one row for each stretch of lines (csv), or a page with pictures.",
                    "text",
                    choices=("text", "csv", "html"),
                ),
                option("output", "Write it into this new file.", metavar="FILE", short="-o"),
            ),
            (
                "spec-kitty origin",
                "spec-kitty origin v1.4..HEAD",
                "spec-kitty origin src/login.py:12",
                "spec-kitty origin --release v1.4..v1.5 --format html -o release.html",
            ),
            "0 told, also where nothing is known · 1 no such range, or this clone is too shallow · "
            "2 usage",
            rank=360,
            section="Read",
        ),
    ),
    shapes="shapes",
)
