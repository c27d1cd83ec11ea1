"""What this room brings."""

from specify_cli.cli.tables.params import IMPORT
from specify_cli.room import Command, Feature, Fill, option

# The harnesses with a module of ours in `readers/`.
OWN = ("claude-code", "codex", "copilot", "gemini", "opencode", "qwen")

FEATURE = Feature(
    name="sessions",
    about="Make records of sessions that agents' programs kept.",
    page="docs/hooks.md",
    needs=("hooks",),
    groups=(IMPORT,),
    commands=(
        Command(
            ("import", "sessions"),
            "commands:import_sessions",
            "Make records of the sessions an agent's program kept of this project, read-only and "
            "marked imported; their times are what the transcripts claim. Twice changes nothing.",
            (
                option(
                    "harness",
                    "Whose sessions; repeatable. All where none is named.",
                    multiple=True,
                    choices=("*transcripts",),
                ),
                option(
                    "since", "Only those begun since: 2h, 7d, yesterday, or a date.", metavar="TIME"
                ),
            ),
            (
                "spec-kitty import sessions",
                "spec-kitty import sessions --harness codex --harness gemini --since 30d",
            ),
            "0 imported, or here already · 1 a transcript could not be read · 2 usage",
            rank=330,
        ),
    ),
    fills=(
        *(
            Fill("transcripts", f"readers.{name.replace('-', '_')}:TRANSCRIPTS", name)
            for name in OWN
        ),
        Fill("closed", "turn_end:merge_unreported"),
        Fill("turn_over", "turn_end:merge_turn"),
        Fill("checks", "checks:check_sessions", rank=510),
        Fill("sweep", "checks:merge_sessions"),
    ),
    shapes="shapes",
)
