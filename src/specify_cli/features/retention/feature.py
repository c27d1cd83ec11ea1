"""What this room brings."""

from specify_cli.room import Command, Feature, Fill, Group, flag, option

_IDLE = flag(
    "idle", "The clock is right: nothing was recorded for 90 days, or by one that was ahead."
)

FEATURE = Feature(
    name="retention",
    about="Keep content as long as the project says, and erase what is due.",
    page="docs/retention.md",
    needs=("forget", "witness"),
    libraries=("words", "work"),
    groups=(Group("retention", "Keep content as long as the project says.", 510, section="Keep"),),
    commands=(
        Command(
            ("retention", "status"),
            "commands:show_status",
            "Show how much is kept, how old it is, and what each rule would free.",
            (_IDLE,),
            ("spec-kitty retention status",),
            "0 shown · 1 refused · 2 usage",
            rank=735,
        ),
        Command(
            ("retention", "plan"),
            "commands:show_plan",
            "Show each record and member that is due, by which rule, and what contradicts.",
            (_IDLE,),
            ("spec-kitty retention plan", "spec-kitty retention plan --json"),
            "0 shown · 1 rules contradict each other, or refused · 2 usage",
            rank=740,
        ),
        Command(
            ("retention", "run"),
            "commands:run",
            "Erase what is due, and nothing else.",
            (
                option(
                    "plan", "Only what this plan named, of `retention plan --json`.", metavar="FILE"
                ),
                _IDLE,
                flag("yes", "Do it without asking."),
            ),
            ("spec-kitty retention run --yes",),
            "0 done · 1 refused, or something is left · 2 usage",
            rank=750,
        ),
        Command(
            ("retention", "report"),
            "commands:report",
            "Say what AI Act, GDPR and an auditor ask of the records, and where it is met here.",
            (),
            ("spec-kitty retention report", "spec-kitty retention report --json"),
            "0 told · 1 refused · 2 usage",
            rank=760,
        ),
    ),
    fills=(
        Fill("checks", "checks:check_rules", rank=630),
        Fill("sweep", "checks:erase_due"),
        Fill("config_keys", "rules:judge_rules", "retention"),
        Fill("config_keys", "rules:judge_sweep", "retention_on_sweep"),
    ),
    shapes="shapes",
    errors={
        "CLOCK_DOUBTED": "The clock is far from the newest record.",
        "RETENTION_CONTRADICTS": "One rule erases what another keeps.",
        "PLAN_INVALID": "The file is not what `retention plan --json` prints.",
    },
)
