"""What this room brings."""

from specify_cli.room import Command, Feature, Group, argument

FEATURE = Feature(
    name="cold",
    about="Move finished months into one compressed archive each.",
    page="docs/retention.md",
    groups=(Group("cold", "Keep finished months in little space.", 520, section="Keep"),),
    commands=(
        Command(
            ("cold", "status"),
            "commands:show_status",
            "Show the months of this project's records, and which lie in archives.",
            (),
            ("spec-kitty cold status",),
            "0 shown · 1 refused · 2 usage",
            rank=765,
        ),
        Command(
            ("cold", "pack"),
            "commands:pack",
            "Move finished months into one compressed archive each; list, show, verify and replay "
            "read them there.",
            (argument("months", "Months as 2026-10; else all that are over.", multiple=True),),
            ("spec-kitty cold pack", "spec-kitty cold pack 2026-10"),
            "0 done · 1 refused · 2 usage",
            rank=766,
        ),
        Command(
            ("cold", "unpack"),
            "commands:unpack",
            "Lay months on disk again, a file a record.",
            (argument("months", "Months as 2026-10.", multiple=True, metavar="MONTH"),),
            ("spec-kitty cold unpack 2026-10",),
            "0 done · 1 refused · 2 usage",
            rank=767,
        ),
    ),
    errors={
        "COLD_REFUSED": "A month cannot be moved into an archive, or there is none of it.",
    },
    shapes="shapes",
)
