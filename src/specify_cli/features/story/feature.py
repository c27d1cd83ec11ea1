"""What this room brings."""

from specify_cli.cli.tables.params import ID, READ
from specify_cli.room import ALWAYS, Command, Feature, Form, flag, option

FEATURE = Feature(
    name="story",
    about="Tell a record in plain English: what was done in chapters, and each line as it comes.",
    page="docs/how-to.md",
    libraries=("story",),
    commands=(
        Command(
            ("invocations", "tail"),
            "commands:tail",
            "The newest events of an invocation (the newest one by default).",
            (
                ID._replace(required=False, metavar="[ID]"),
                option("lines", "At most so many.", 10, integer=True, metavar="N"),
                flag("follow", "Go on until the record is closed."),
            ),
            ("spec-kitty invocations tail", "spec-kitty invocations tail ID --follow"),
            READ,
            rank=230,
        ),
    ),
    forms=(
        Form(
            ("invocations", "show"),
            ALWAYS,
            "commands:show",
            (
                flag("full", "Show prompts, answers and outputs whole."),
                flag("diff", "Show only the recorded changes of files."),
                flag("story", "With --json: the story instead of the record."),
            ),
            after="explain",
            examples=("spec-kitty invocations show last --story --json",),
            help="Tell one invocation: request, outcome, evidence, what was done in chapters, the "
            "rules it was given, findings.",
        ),
    ),
    shapes="shapes",
)
