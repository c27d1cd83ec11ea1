"""What this room brings."""

from specify_cli.cli.tables.params import BLOCK, SHOW
from specify_cli.room import Command, Feature, Group, flag

FEATURE = Feature(
    name="skills",
    about="Teach agents when to ask and when to close.",
    page="docs/hooks.md",
    needs=("hooks", "replay"),
    groups=(Group("skills", "Teach agents when to ask and when to close.", 90, section="Set up"),),
    commands=(
        Command(
            ("skills", "install"),
            "commands:install",
            "Write agent skills and the /speckit.replay command into the project; what you "
            "edited is kept.",
            (
                flag("force", "Replace what was edited too."),
                BLOCK,
                SHOW,
            ),
            ("spec-kitty skills install", "spec-kitty skills install --block AGENTS.md --dry-run"),
            "0 written, or there already · 1 refused · 2 usage",
            rank=470,
        ),
        Command(
            ("skills", "status"),
            "commands:status",
            "Which files of ours the project has: absent, unchanged or edited.",
            (),
            ("spec-kitty skills status",),
            "0 ok · 1 refused · 2 usage",
            rank=480,
        ),
        Command(
            ("skills", "uninstall"),
            "commands:uninstall",
            "Take them away, and the blocks; what you edited is kept.",
            (flag("force", "Take away what was edited too."), SHOW),
            ("spec-kitty skills uninstall", "spec-kitty skills uninstall --dry-run"),
            "0 taken away, or was not there · 1 refused · 2 usage",
            rank=490,
        ),
    ),
    shapes="shapes",
)
