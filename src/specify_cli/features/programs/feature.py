"""What this room brings."""

from specify_cli.cli.tables.params import ID, READ, STRICT
from specify_cli.room import Command, Feature, Fill, flag, option

_API = {
    "run": ("open_invocation", "Run", "GateResult"),
    "work.calls": ("ToolCall",),
    "work.refusals": ("LimitExceeded", "RecordedError"),
    "work.course": ("EarlierRun",),
    "resume": ("plan_resume", "resume", "reexecute", "run_program", "program_digest"),
}

FEATURE = Feature(
    name="programs",
    about="Run a Python program as an invocation; resume it, run it again.",
    page="docs/api.md",
    needs=("replay",),
    libraries=("comparison",),
    commands=(
        Command(
            ("invocations", "state"),
            "commands:state",
            "Where a run stands: stage, steps, open calls, what it spent; now, or after a line.",
            (
                ID,
                option("at", "After the line with this seq.", integer=True, metavar="SEQ"),
            ),
            ("spec-kitty invocations state ID", "spec-kitty invocations state ID --at 3"),
            READ,
            rank=300,
        ),
        Command(
            ("resume",),
            "commands:resume",
            "Go on with an unfinished run; without a program only say what that would do.",
            (
                ID,
                option("program", "The function that takes the run.", metavar="MODULE:FUNCTION"),
                option(
                    "rerun",
                    "Make this call in doubt again; repeatable.",
                    multiple=True,
                    metavar="CALL_ID:SEQ",
                ),
            ),
            ("spec-kitty resume ID", "spec-kitty resume ID --program agent:main --rerun CALL_ID"),
            "0 resumed, or can be · 1 refused, or the program failed · 2 usage",
            rank=380,
            section="Begin",
        ),
        Command(
            ("reexecute",),
            "commands:reexecute",
            "Run the program of a recorded run again, as a child of it, and hold the two "
            "against each other.",
            (
                ID,
                option(
                    "program",
                    "The function that takes the run.",
                    required=True,
                    metavar="MODULE:FUNCTION",
                ),
                flag("allow_external", "Allow calls with side effects outside the project."),
                option(
                    "tools",
                    "record: give recorded results back. live: call.",
                    "record",
                    choices=("record", "live"),
                ),
                option(
                    "model",
                    "Ask this instead of a model; repeatable.",
                    multiple=True,
                    metavar="NAME=MODULE:FUNCTION",
                ),
                STRICT,
            ),
            (
                "spec-kitty reexecute ID --program agent:main",
                "spec-kitty reexecute ID --program agent:main --model gpt=agent:ask",
            ),
            "0 the same · 1 differs or refused · 2 usage",
            rank=390,
            section="Replay",
        ),
    ),
    shapes="shapes",
    fills=(
        *(
            Fill("api", f"{module}:{name}", name)
            for module, names in _API.items()
            for name in names
        ),
    ),
    errors={
        "LIMIT_EXCEEDED": "The run has spent a limit it was opened with; nothing runs after that.",
        "IN_DOUBT": "A call began and has no result; it runs again only if it is idempotent or "
        "named by `--rerun`.",
        "PROGRAM_FAILED": "The program raised an error of its own; the run was closed as failed.",
        "NOT_RESUMABLE": "A program cannot be resumed at this place.",
        "RESULT_NOT_KEPT": "A recorded result cannot be given back as it was: it was cut, "
        "masked or not captured.",
        "STATE_DIVERGENCE": "What the program does, or the record folds to, is not what was "
        "recorded.",
        "EXECUTION_HASH_MISMATCH": "The request, policy, limits, tools or program changed since "
        "the run began.",
        "DETERMINISM_VIOLATION": "A re-execution did not do what its original did.",
        "SIDE_EFFECTS_NOT_ALLOWED": "A re-execution would cause external side effects; "
        "`--allow-external` was "
        "not given.",
        "PROGRAM_NOT_FOUND": "The program named as module:function cannot be imported.",
    },
)
