"""What this room brings."""

from specify_cli.room import Command, Feature, flag, option

FEATURE = Feature(
    name="effect",
    about="Tell how each rule fared: shown, opened, at what cost, before which outcomes.",
    page="docs/context.md",
    libraries=("web",),
    commands=(
        Command(
            ("charter", "effect"),
            "commands:effect",
            "How each rule fared: how often shown and opened, its cost, how the work ended.",
            (
                option(
                    "since", "Only records begun since: 90d, yesterday, or a date.", metavar="TIME"
                ),
                flag("all", "Every rule, not only the costliest twenty."),
            ),
            ("spec-kitty charter effect --since 90d",),
            "0 told · 1 a record could not be read, or refused · 2 usage",
            rank=215,
        ),
    ),
    shapes="shapes",
)
