"""What this room brings."""

from specify_cli.cli.tables.params import SCOPE, SHOW
from specify_cli.room import Command, Feature, Fill, Group, Marks, flag, option

_HARNESS = option(
    "harness",
    "This one, or all that are in use here; repeatable.",
    multiple=True,
    choices=("*harness", "all-detected"),
)
# Our harnesses by name, and how their commands are known: `claude-code` is the module
# `harnesses/claude_code.py` and the JSON file next to it.
_HARNESSES = {
    "claude-code": Marks(("CLAUDE_CODE_SESSION_ID",), ("CLAUDECODE",), programs=("claude",)),
    "codex": Marks(
        ("CODEX_SESSION_ID", "CODEX_THREAD_ID"), call="CODEX_TOOL_CALL_ID", programs=("codex",)
    ),
    "cursor": Marks(("CURSOR_SESSION_ID",), ("CURSOR_AGENT",), programs=("cursor-agent",)),
    "copilot": Marks(("COPILOT_AGENT_SESSION_ID",), ("COPILOT_CLI",), programs=("copilot",)),
    "gemini": Marks(("GEMINI_SESSION_ID",), ("GEMINI_CLI",), programs=("gemini",)),
    "antigravity": Marks(programs=("agy",)),
    "opencode": Marks(
        ("SPEC_KITTY_OPENCODE_SESSION",),
        ("OPENCODE",),
        "SPEC_KITTY_OPENCODE_CALL",
        ("opencode",),
    ),
    "qwen": Marks(("QWEN_CODE_SESSION_ID",), ("QWEN_CODE",), programs=("qwen",)),
}
HARNESS_NAMES = tuple(_HARNESSES)

FEATURE = Feature(
    name="hooks",
    about="Let agents' harnesses fill the record by themselves.",
    page="docs/hooks.md",
    groups=(
        Group(
            "hooks", "Let agents' harnesses fill the record by themselves.", 70, section="Set up"
        ),
    ),
    commands=(
        Command(
            ("hooks", "install"),
            "commands:install",
            "Put the hook into harnesses' own settings; what else is there is kept; twice is as "
            "once.",
            (
                _HARNESS,
                SCOPE,
                flag(
                    "open",
                    "Let the first prompt of a session begin a record, in this clone: so it is "
                    "where hooks are new.",
                ),
                flag("no_open", "Let nothing but a do begin a record, in this clone."),
                SHOW,
            ),
            (
                "spec-kitty hooks install",
                "spec-kitty hooks install --harness claude-code --scope user --dry-run",
                "spec-kitty hooks install --no-open",
            ),
            "0 installed, or was already · 1 a settings file was refused and left alone · 2 usage",
            rank=430,
            guesses=("install", "hooks add"),
        ),
        Command(
            ("hooks", "status"),
            "commands:status",
            "Which harnesses are in use here, and whether the hook is in their settings.",
            (),
            ("spec-kitty hooks status", "spec-kitty hooks status --json"),
            "0 ok · 2 usage",
            rank=440,
        ),
        Command(
            ("hooks", "uninstall"),
            "commands:uninstall",
            "Take the hook out; every other line stays as its owner wrote it.",
            (
                _HARNESS._replace(
                    help="This one, or all that have it; repeatable. Where its package is gone: "
                    "install that again, or take what runs `spec-kitty hook NAME` out of "
                    "the program's settings by hand."
                ),
                SCOPE,
                SHOW,
            ),
            ("spec-kitty hooks uninstall", "spec-kitty hooks uninstall --harness cursor"),
            "0 taken out, or was not there · 1 a settings file was refused and left alone · 2 "
            "usage",
            rank=450,
            guesses=("hooks remove",),
        ),
        Command(
            ("hooks", "test"),
            "commands:test",
            "Show what one hook call would record, masked and cut as it would be; writes nothing.",
            (
                option("harness", "Whose payload it is.", required=True, choices=("*harness",)),
                option(
                    "payload",
                    "A file with the JSON of one hook call; - reads stdin.",
                    "-",
                    metavar="FILE",
                ),
            ),
            ("spec-kitty hooks test --harness claude-code --payload call.json",),
            "0 shown · 1 not JSON · 2 usage",
            rank=460,
        ),
    ),
    direct={"hook": "handler:run_hook_command"},
    fills=(
        Fill("record_checks", "checks:watch_silence"),
        Fill("checks", "checks:check_hooks"),
        Fill("hooks_off", "settings.detection:describe_off"),
        Fill("closed", "silence:warn_of_silence"),
        Fill(
            "opened",
            "conversation.take_in:take_in_calls",
            marker=".kittify/local/hook-orphans.jsonl",
        ),
        *(
            Fill("harness", f"harnesses.{name.replace('-', '_')}:HARNESS", name)
            for name in HARNESS_NAMES
        ),
    ),
    shapes="shapes",
    harnesses=_HARNESSES,
    errors={
        "HARNESS_NOT_FOUND": "No harness is in use here, or it has no place for its settings.",
        "SETTINGS_INVALID": "A harness's settings file does not have its form, or is not ours; "
        "it was left alone.",
    },
)
