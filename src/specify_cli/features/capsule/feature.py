"""What this room brings."""

from specify_cli.room import Command, Feature, Fill, flag

FEATURE = Feature(
    name="capsule",
    about="Keep records beside the files, in capsules of memvid's.",
    page="docs/capsule.md",
    libraries=("processes", "words"),
    needs=("replay",),
    extra="capsule",
    commands=(
        Command(
            ("capsule",),
            "commands:capsule",
            "Fill memvid's capsule beside the files with what it does not hold, for "
            "`memory_backend: capsule`.",
            (
                flag(
                    "check",
                    "Then hold both against each other: bytes, and what recorded queries find.",
                ),
            ),
            ("spec-kitty capsule", "spec-kitty capsule --check"),
            "0 filled, and the same · 1 refused, or they differ · 2 usage",
            rank=370,
            section="Share",
        ),
    ),
    fills=(Fill("after", "background:start_filling", marker="kittify/capsule", rank=20),),
    shapes="shapes",
)
