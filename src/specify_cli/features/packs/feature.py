"""What this room brings."""

from specify_cli.cli.tables.params import SHOW
from specify_cli.room import Command, Feature, Group, argument, flag, option

_REV = option("rev", "A branch, tag or commit of a git repository.", metavar="REV")
_SIGNERS = option("allowed_signers", "Take only what one of these keys signed.", metavar="FILE")

FEATURE = Feature(
    name="packs",
    about="Share doctrine between projects: pinned, verified, binding where it says so.",
    page="docs/packs.md",
    needs=("what_if",),
    libraries=("ssh",),
    groups=(Group("packs", "Doctrine that organisations share.", 35, section="Set up"),),
    commands=(
        Command(
            ("packs", "add"),
            "commands:add",
            "Copy a pack into the project and pin every file of it.",
            (
                argument(
                    "source",
                    "A folder, a git repository, or package:NAME of an installed package.",
                    required=True,
                ),
                _REV,
                option("path", "The folder of the pack in there.", metavar="DIR"),
                _SIGNERS,
                SHOW,
            ),
            (
                "spec-kitty packs add ../house-rules",
                "spec-kitty packs add ../rules.git --rev v1.2 --dry-run",
            ),
            "0 pinned, or shown · 1 refused · 2 usage",
        ),
        Command(
            ("packs", "list"),
            "commands:list_packs",
            "Each pinned pack: version, licence, source, rules, what it binds.",
            (flag("rules", "Every rule of each pack too."),),
            ("spec-kitty packs list --rules",),
            "0 ok · 1 packs.lock cannot be read · 2 usage",
            rank=501,
        ),
        Command(
            ("packs", "update"),
            "commands:update",
            "Show what a newer state changes and would have decided otherwise, then take it.",
            (
                argument("id", "The pack.", required=True),
                _REV,
                _SIGNERS,
                flag("yes", "Take it without being asked."),
                SHOW,
            ),
            ("spec-kitty packs update house-rules --rev v1.3 --dry-run",),
            "0 taken, shown, or the same as before · 1 not agreed to, or refused · 2 usage",
            rank=502,
        ),
        Command(
            ("packs", "remove"),
            "commands:remove",
            "Unpin a pack and take its files away.",
            (argument("id", "The pack.", required=True),),
            ("spec-kitty packs remove house-rules",),
            "0 removed · 1 refused · 2 usage",
            rank=503,
        ),
        Command(
            ("packs", "verify"),
            "commands:verify",
            "Is every file as it was pinned, and who signed it?",
            (_SIGNERS,),
            ("spec-kitty packs verify", "spec-kitty packs verify --allowed-signers team-keys"),
            "0 all as pinned, and signed where keys are named · 1 one is not · 2 usage",
            rank=504,
        ),
        Command(
            ("packs", "build"),
            "commands:build",
            "Write the manifest of a pack you are the author of, and sign it.",
            (
                argument("folder", "The pack's folder.", required=True),
                option("key", "An SSH key to sign with.", metavar="KEY"),
            ),
            ("spec-kitty packs build . --key ~/.ssh/id_ed25519",),
            "0 written · 1 refused · 2 usage",
            rank=505,
        ),
    ),
    errors={
        "PACK_INVALID": "A pack cannot be used as it is: which file, and why.",
        "PACK_NOT_FETCHED": "git could not bring the pack.",
        "PACK_NOT_FOUND": "There is no pack of that name or at that place.",
        "PACK_UNSIGNED": "A pack is not signed by a key that was named.",
        "PACKS_BROKEN": "`.kittify/packs.lock` cannot be used.",
    },
    shapes="shapes",
)
