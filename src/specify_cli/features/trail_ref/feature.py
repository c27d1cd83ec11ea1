"""What this room brings."""

from specify_cli.room import Command, Feature, option

_REMOTE = option("remote", "The git remote.", "origin", metavar="NAME")

FEATURE = Feature(
    name="trail_ref",
    about="Carry records in a git ref of their own, beside the branches.",
    page="docs/gate.md",
    needs=("witness",),
    libraries=("archive", "work"),
    commands=(
        Command(
            ("trail", "push"),
            "commands:push",
            "Add this clone's closed records, as safe exports, to refs/kittify/trail of a remote, "
            "or sealed to the branch.",
            (_REMOTE,),
            ("spec-kitty trail push", "spec-kitty trail push --remote upstream"),
            "0 all are there · 1 refused, or some could not go · 2 usage",
            rank=281,
        ),
        Command(
            ("trail", "fetch"),
            "commands:fetch",
            "Bring in, read-only, the records that others pushed.",
            (
                _REMOTE,
                option(
                    "source",
                    "Not from git: a folder of projects or archives, or a collector's database.",
                    metavar="DIR",
                ),
            ),
            ("spec-kitty trail fetch", "spec-kitty trail fetch --source ledger.sqlite"),
            "0 all are here · 1 some could not be taken in, or the ref was rewritten or cut · "
            "2 usage",
            rank=282,
        ),
    ),
    errors={
        "REMOTE_FAILED": "git could not reach or change the remote.",
        "TRAIL_NOT_ACCEPTED": "Records leave in a git ref only where a person accepted "
        "`trail: ref`.",
        "TRAIL_REWRITTEN": "The remote's ref lost records that were seen there before.",
    },
    shapes="shapes",
)
