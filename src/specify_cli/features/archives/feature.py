"""What this room brings."""

from specify_cli.cli.tables.params import ENGINE, ID
from specify_cli.room import Command, Feature, Form, argument, flag, option

FEATURE = Feature(
    name="archives",
    about="Carry records with all they lead to into another project, or a file each.",
    page="docs/replay.md",
    libraries=("archive", "work"),
    commands=(
        Command(
            ("invocations", "export"),
            "commands:export",
            "Write records and every object they lead to into one file that can be verified and "
            "replayed elsewhere.",
            (
                ID._replace(name="ids", multiple=True, metavar="[ID…]", required=False),
                option("output", "The new file.", metavar="FILE", short="-o"),
                flag(
                    "safe",
                    "Withhold and list what redaction would change, policy keeps back or was "
                    "captured in full.",
                ),
                option(
                    "archives",
                    "Every record, each as an archive of its own, in a new folder.",
                    metavar="DIR",
                ),
                option("format", "archive: everything.", "archive", choices=("archive",)),
                *ENGINE,
            ),
            ("spec-kitty invocations export ID OTHER_ID --safe -o runs.tar",),
            "0 written · 1 refused, nothing written · 2 usage",
            rank=310,
            guesses=("html",),
        ),
        Command(
            ("invocations", "import"),
            "commands:import_",
            "Bring the records of an export in, read-only; everything is checked first, nothing "
            "is overwritten.",
            (argument("file", "The export.", required=True, metavar="FILE"),),
            ("spec-kitty invocations import run.tar",),
            "0 imported, or here already · 1 refused, nothing written · 2 usage",
            rank=320,
        ),
    ),
    forms=(Form(("invocations", "export"), ("archives",), "commands:export_each"),),
    shapes="shapes",
)
