"""What this room brings."""

from specify_cli.cli.tables.params import ENGINE, ID
from specify_cli.room import Command, Feature, Form, flag, option

FEATURE = Feature(
    name="what_if",
    about="Decide again under other rules: today's, or proposed ones.",
    page="docs/replay.md",
    needs=("replay",),
    libraries=("comparison", "signed_log", "work"),
    commands=(
        Command(
            ("backtest",),
            "commands:backtest",
            "What past decisions would have been under a charter that is proposed; no record is "
            "written.",
            (
                option(
                    "charter",
                    "A charter folder, or a project with its doctrine.",
                    required=True,
                    metavar="DIR",
                ),
                option("profiles", "Profiles in place of the project's own.", metavar="DIR"),
                option(
                    "since", "Only records begun since: 90d, yesterday, or a date.", metavar="TIME"
                ),
                option("rules", "Import this module for its gate rules.", metavar="MODULE"),
                flag(
                    "strict",
                    "Exit with 1 also where a record is missing, damaged or cannot be asked.",
                ),
                *ENGINE,
            ),
            ("spec-kitty backtest --charter .kittify/charter --since 90d",),
            "0 answered · 1 what was kept back would be shown, strictly not all asked, or "
            "refused · 2 usage",
            rank=410,
            section="Replay",
        ),
        Command(
            ("bisect",),
            "commands:bisect",
            "Find the commit of charter, doctrine, profiles or config that first changes what a "
            "record decided.",
            (ID,),
            ("spec-kitty bisect ID",),
            "0 nothing changes it · 1 found, or refused · 2 usage",
            rank=420,
            section="Replay",
        ),
    ),
    forms=(
        Form(
            ("replay",),
            ("against", "idempotency_key", "from_root"),
            "against_command:run_against",
            (
                option(
                    "against",
                    "Today's doctrine, profiles and code under the recorded policy; writes a "
                    "child record.",
                    choices=("current",),
                ),
                option(
                    "idempotency_key",
                    "With --against: the same key gives one child.",
                    metavar="KEY",
                ),
                flag("from_root", "With --against: of a replay, take the record it began with."),
            ),
            after="from_file",
            examples=("spec-kitty replay ID --against current",),
            help="Would a record's decisions come out the same: from what it kept, or "
            "(--against current) under "
            "today's "
            "rules.",
            exits="0 match, or --against answered · 1 differs or refused · 2 usage",
            rank=20,
        ),
    ),
    shapes="shapes",
    errors={
        "CHARTER_INVALID": "A file of the charter or profiles named for `backtest` cannot be used.",
    },
)
