"""What this room brings."""

from specify_cli.cli.tables.params import IMPORT
from specify_cli.room import Command, Feature, argument

FEATURE = Feature(
    name="from_spec_kitty",
    about="Come from spec-kitty: read its trails, charter, profiles and packs as they are.",
    page="docs/how-to.md",
    groups=(IMPORT,),
    commands=(
        Command(
            ("import", "spec-kitty"),
            "commands:import_spec_kitty",
            "Bring over trails of spec-kitty unchanged, and say what of it is read here.",
            (argument("folder", "Another checkout; without it this one is looked at."),),
            ("spec-kitty import spec-kitty ../old-checkout",),
            "0 told · 1 a record here has other bytes, or refused · 2 usage",
            rank=395,
        ),
    ),
    errors={"SPEC_KITTY_NOT_FOUND": "A folder holds nothing of spec-kitty."},
    shapes="shapes",
)
