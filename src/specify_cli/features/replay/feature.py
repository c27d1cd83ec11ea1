"""What this room brings."""

from specify_cli.cli.tables.params import ENGINE, ID, READ, STRICT
from specify_cli.room import Command, Feature, argument, flag, option

FEATURE = Feature(
    name="replay",
    about="Decide again, exactly, from what a record kept.",
    page="docs/replay.md",
    libraries=("archive", "work"),
    commands=(
        Command(
            ("invocations", "context"),
            "commands.citation:context",
            "The governance context an invocation was given, as it was.",
            (ID,),
            ("spec-kitty invocations context ID",),
            READ,
            rank=210,
        ),
        Command(
            ("show-uri",),
            "commands.citation:show_uri",
            "Open what a report cites: an event, an object, an artifact of a record, doctrine "
            "as it was.",
            (
                argument(
                    "uri",
                    "inv://ID/event/SEQ, inv://ID/artifact/NAME, obj://sha256/DIGEST or "
                    "doctrine://KIND/ID@DIGEST.",
                    required=True,
                    metavar="URI",
                ),
            ),
            (
                "spec-kitty show-uri inv://ID/event/0",
                "spec-kitty show-uri inv://ID/artifact/context --json",
            ),
            READ,
            rank=220,
            section="Read",
        ),
        Command(
            ("replay",),
            "commands.replay:replay",
            "Would a record's decisions come out the same: from what it kept.",
            (
                ID._replace(required=False, metavar="[ID]"),
                flag("all", "Every record, exactly."),
                option("as_of", "Retrieve on the corpus of this checkpoint.", metavar="CHECKPOINT"),
                option(
                    "until", "Replay only what came up to this checkpoint.", metavar="CHECKPOINT"
                ),
                option(
                    "compare_to",
                    "Hold against this checkpoint, not the record.",
                    metavar="CHECKPOINT",
                ),
                STRICT,
                option("epsilon", "How far scores may be apart; 1e-9 if not given.", metavar="E"),
                option(
                    "report", "Write replay_report.md and replay_report.json there.", metavar="DIR"
                ),
                flag("record", "Note the result beside the closed record, and keep the report."),
                option("rules", "Import this module for its gate rules.", metavar="MODULE"),
                option(
                    "from_file",
                    "Take the record from an export, outside any project.",
                    metavar="FILE",
                ),
                *ENGINE,
            ),
            (
                "spec-kitty replay ID",
                "spec-kitty replay --all --workers 2",
                "spec-kitty replay ID --as-of start --report out",
            ),
            "0 match · 1 differs or refused · 2 usage",
            rank=400,
            section="Replay",
        ),
    ),
    shapes="shapes",
    errors={
        "RULES_NOT_FOUND": "The module named by `--rules` cannot be imported.",
        "CHECKPOINT_NOT_FOUND": "The record has no such checkpoint. Nothing was written.",
        "RECORD_OPEN": "The record is still open; an annex stands beside a closed one.",
        "unreplayable.tampered": "The record or an object it leads to is not as it was written.",
        "unreplayable.nested_replay": "The record is itself a replay or a re-execution.",
        "unreplayable.missing_policy_snapshot": "No snapshot of what was in force is kept, or "
        "its policy is gone.",
        "unreplayable.invalid_snapshot": "The snapshot contradicts itself or does not load.",
        "unreplayable.missing_input": "The store does not hold an object the replay needs.",
    },
)
