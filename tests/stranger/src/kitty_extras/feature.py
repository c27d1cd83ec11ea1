"""A room of somebody else: a command, an export format, a check for doctor, and something after each command."""

from specify_cli.room import Command, Feature, Fill, Form, option

FEATURE = Feature(
    name="extras",
    about="Count records, and hand them over as CSV.",
    page="README.md",
    needs=("archives",),
    commands=(
        Command(
            ("tally",),
            "commands:tally",
            "Count the records of this project.",
            (option("least", "Fail below so many.", 0, integer=True, metavar="N"),),
            ("spec-kitty tally",),
            "0 counted · 1 fewer than --least · 2 usage",
        ),
    ),
    forms=(Form(("invocations", "export"), ("format=csv",), "commands:export_csv", about="one row a record."),),
    fills=(
        Fill("checks", "checks:check_requests"),
        Fill("checks", "checks:fail"),
        Fill("gate_rules", "rules:register"),
    ),
    errors={"TALLY_TOO_SMALL": "The project has fewer records than asked for."},
)
