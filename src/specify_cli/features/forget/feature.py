"""What this room brings."""

from specify_cli.room import Command, Feature, Fill, Group, argument, flag, option

_REASON = option("reason", "Why; it stands in the annexes and the certificate.", metavar="TEXT")
_KEY = option("key", "Sign the order with this SSH key.", metavar="FILE")
_YES = flag("yes", "Do it without asking.")
_IDS = (
    argument("ids", "Records, as for show.", multiple=True, metavar="[ID]"),
    option("profile", "Every record of this profile.", metavar="ID"),
    option("actor", "Every record of this actor.", metavar="ID"),
    option("outcome", "Every record that ended so.", metavar="OUTCOME"),
    option("since", "Every record begun since: 90d, yesterday, or a date.", metavar="TIME"),
    option("until", "Every record begun before.", metavar="TIME"),
    flag("all", "Every record that is here."),
    _REASON,
    _KEY,
)
_EXIT = "0 done · 1 refused, or something is left · 2 usage"

FEATURE = Feature(
    name="forget",
    about="Erase what must go, hold what must stay.",
    page="docs/forget.md",
    needs=("approvals", "cold", "witness"),
    libraries=("archive", "ssh", "words"),
    groups=(Group("hold", "Keep records from being erased.", 500, section="Keep"),),
    commands=(
        Command(
            ("forget",),
            "commands:forget",
            "Erase a text, a person's name, a file's content or a record's, wherever this clone "
            "holds it; seals and proofs go on holding.",
            (
                option("text_file", "A file with the text that is to go.", metavar="FILE"),
                option(
                    "subject",
                    "A name, address or other text that is to go, and a subject's key.",
                    metavar="NAME",
                ),
                option("path", "What was recorded about files of this pattern.", metavar="GLOB"),
                option(
                    "invocation_id",
                    "What was said and done in this record; names of tools and steps stay.",
                    metavar="ID",
                ),
                option(
                    "member",
                    "Of that record only this member; repeatable.",
                    multiple=True,
                    metavar="NAME",
                ),
                flag("resume", "Carry out what annexes of other clones say was erased."),
                _REASON,
                _KEY,
                _YES,
            ),
            ("spec-kitty forget --subject ada@example.org --yes",),
            _EXIT,
            rank=700,
            section="Keep",
            guesses=(
                "delete",
                "rm",
                "erase",
                "invocations delete",
                "invocations rm",
                "invocations forget",
            ),
        ),
        Command(
            ("hold", "add"),
            "commands:add_hold",
            "Hold records: nothing erases anything of them until they are released.",
            _IDS,
            ('spec-kitty hold add ID --reason "case 12/345"',),
            "0 held · 1 refused · 2 usage",
            rank=710,
        ),
        Command(
            ("hold", "list"),
            "commands:list_holds",
            "List holds, also those that are over.",
            (),
            ("spec-kitty hold list",),
            "0 listed",
            rank=720,
        ),
        Command(
            ("hold", "release"),
            "commands:release_hold",
            "Release records that are held.",
            _IDS,
            ('spec-kitty hold release ID --reason "the case is closed"',),
            "0 released · 1 refused · 2 usage",
            rank=730,
        ),
    ),
    fills=(Fill("checks", "checks:check_erasures", rank=620), Fill("sweep", "checks:finish")),
    shapes="shapes",
    errors={
        "HELD": "The record is held.",
        "ANNEX_DAMAGED": "An annex of an erasure was changed.",
    },
)
