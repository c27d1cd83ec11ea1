"""A room of somebody else: a command, an export format, checks for doctor, and the harness of a program."""

from specify_cli.room import Command, Feature, Fill, Form, Marks, option

FEATURE = Feature(
    name="extras",
    about="Count records, and hand them over as CSV.",
    page="README.md",
    needs=("archives", "hooks", "sessions"),
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
        Fill("harness", "tern:HARNESS", "tern"),
        Fill("harness", "flightless:HARNESS", "flightless"),
        Fill("transcripts", "tern_sessions:TRANSCRIPTS", "tern"),
        Fill("after", "ledger:keep", marker="kittify/extras"),
    ),
    harnesses={"tern": Marks(session=("TERN_SESSION",), programs=("tern",))},
    masks={"extras-badge": "BADGE-[0-9]{6}"},
    backends=("extras-ledger",),
    errors={"TALLY_TOO_SMALL": "The project has fewer records than asked for."},
)
