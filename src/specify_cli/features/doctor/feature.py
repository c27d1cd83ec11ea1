"""What this room brings."""

from specify_cli.room import Command, Feature, flag

FEATURE = Feature(
    name="doctor",
    about="Say what is wrong in a project, and the command that fixes it.",
    page="docs/how-to.md",
    commands=(
        Command(
            ("doctor",),
            "commands:doctor",
            "What is wrong in this project, and the command that fixes it; changes nothing but "
            "the derived "
            "index, and with "
            "--sweep closes records that agents left open.",
            (flag("sweep", "Close the records of agents in which nothing happened for a day."),),
            ("spec-kitty doctor", "spec-kitty doctor --sweep"),
            "0 no error · 1 an error was found · 2 usage",
            rank=620,
            section="Set up",
        ),
    ),
    shapes="shapes",
)
