"""What this room brings."""

from specify_cli.cli.tables.params import BLOCK, SHOW
from specify_cli.room import Command, Feature, Fill, flag, option

FEATURE = Feature(
    name="charter_setup",
    about="Set a project up: a first charter, and what is wrong in one.",
    page="docs/charter.md",
    needs=("hooks", "skills"),
    commands=(
        Command(
            ("setup",),
            "setup_command:setup",
            "Set a project up: init, a first charter, hooks and skills, one question each.",
            (
                flag("yes", "Ask nothing: a private trail, and all but the block."),
                option("trail", "As of init.", choices=("private", "committed", "ref")),
                option(
                    "skip",
                    "Leave this out; repeatable.",
                    multiple=True,
                    choices=("charter", "hooks", "skills"),
                ),
                flag("no_open", "Let nothing but a do begin a record."),
                BLOCK,
                flag("undo", "Take back what setup wrote; what you edited, and records, stay."),
                SHOW,
            ),
            (
                "spec-kitty setup",
                "spec-kitty setup --yes --skip hooks --block AGENTS.md",
                "spec-kitty setup --undo",
            ),
            "0 set up, or already so · 1 something was refused and left alone · 2 usage",
            rank=10,
            section="Set up",
        ),
        Command(
            ("charter", "synthesize"),
            "commands:synthesize",
            "Write a first charter, policy, profile and doctrine from a short interview and "
            "what the repository says.",
            (
                flag(
                    "defaults",
                    "Ask nothing: take what the repository suggests, replace nothing that is "
                    "there.",
                ),
                flag("dry_run", "Show what would be written; write nothing."),
                flag(
                    "force",
                    "Replace policy, profile and doctrine files that differ; a charter never is.",
                ),
            ),
            ("spec-kitty charter synthesize", "spec-kitty charter synthesize --defaults --dry-run"),
            "0 written, or nothing to write · 1 refused · 2 usage",
            rank=110,
            guesses=("charter new", "charter init", "charter create"),
        ),
        Command(
            ("charter", "lint"),
            "lint_command:lint",
            "What is wrong in charter, policy, profiles, doctrine and governance settings: file, "
            "line, problem, repair.",
            (),
            ("spec-kitty charter lint", "spec-kitty charter lint --json"),
            "0 sound, or advice only · 1 an error was found · 2 usage",
            rank=120,
        ),
    ),
    fills=(Fill("page_rows", "linting.findings:list_rows", "lint"),),
    shapes="shapes",
)
