"""What this room brings."""

from specify_cli.cli.tables.params import STRICT
from specify_cli.room import Command, Feature, Fill, Form, argument, option

FEATURE = Feature(
    name="compare",
    about="Hold two runs against each other.",
    page="docs/replay.md",
    libraries=("archive", "comparison", "story", "web"),
    commands=(
        Command(
            ("invocations", "compare"),
            "commands:compare",
            "Do two runs match: request, profile, action, outcome, and each step; every "
            "difference is listed.",
            (
                argument(
                    "targets",
                    'Two ids or files; or - for {"original_chain": […], "replay_chain": […]} on '
                    "stdin.",
                    multiple=True,
                    required=True,
                    metavar="A B",
                ),
                option(
                    "tolerance_ms",
                    "Warn where durations differ by more.",
                    integer=True,
                    metavar="MS",
                ),
                STRICT,
            ),
            (
                "spec-kitty invocations compare ID OTHER_ID",
                "spec-kitty invocations compare - --json < chains.json",
            ),
            "0 match · 1 no match, or refused · 2 usage",
            rank=290,
            guesses=("diff",),
        ),
    ),
    forms=(
        Form(
            ("invocations", "compare"),
            ("html",),
            "page_command:write_page",
            (
                option(
                    "html",
                    "Two records on one page, from where they part, into this new file.",
                    metavar="FILE",
                ),
            ),
            after="tolerance_ms",
            examples=("spec-kitty invocations compare ID OTHER_ID --html two.html",),
        ),
    ),
    shapes="shapes",
    fills=(Fill("api", "commands:verify_replay", "verify_replay"),),
)
