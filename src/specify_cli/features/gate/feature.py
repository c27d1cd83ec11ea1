"""What this room brings."""

from __future__ import annotations

from specify_cli.cli.tables.params import READ
from specify_cli.room import Command, Feature, Group, argument, flag, option

_BASE = option(
    "base", "The branch to merge into; without it the default branch of origin.", metavar="REF"
)
_HEAD = option("head", "The end of the range.", "HEAD", metavar="REF")

FEATURE = Feature(
    name="gate",
    about="Judge whether a range of commits may be merged, by the rules of the base.",
    page="docs/gate.md",
    needs=("origin", "search", "witness", "what_if", "replay", "trail_ref"),
    libraries=("ssh", "work", "archive", "signed_log"),
    groups=(Group("gate", "Judge whether a range may be merged.", rank=362, section="Prove"),),
    commands=(
        Command(
            ("gate", "rules"),
            "commands:show_rules",
            "Print a whole gate.yaml with the defaults, to begin with.",
            (),
            ("spec-kitty gate rules > .kittify/gate.yaml",),
            READ,
            rank=363,
        ),
        Command(
            ("gate", "waive"),
            "commands:waive",
            "Answer for the findings of a rule with a signature, for one invocation or file.",
            (
                argument("rule", "The rule, as the findings name it.", required=True),
                argument(
                    "subject",
                    "An invocation's id, or a path: its content at the end of the range counts.",
                    required=True,
                    metavar="ID|PATH",
                ),
                option("reason", "Why; it stands in every verdict.", required=True),
                option("until", "The last day it holds, YYYY-MM-DD.", required=True),
                option("key", "Your SSH key; the base's allowed_signers names it.", required=True),
                _HEAD,
            ),
            (
                "spec-kitty gate waive tests ID --reason 'words only' --until 2026-12-31 "
                "--key ~/.ssh/id_ed25519",
            ),
            "0 written, to be committed · 1 refused · 2 usage",
            rank=364,
        ),
        Command(
            ("gate", "install"),
            "commands:install",
            "Put the gate in place: a workflow, a template or a hook, with pinned versions.",
            (
                flag("github", "A workflow that judges pull requests and keeps one comment."),
                flag("gitlab", "A job for merge requests, to be included."),
                flag("pre_push", "A hook of this clone that judges before every push."),
                option(
                    "package",
                    "What CI installs; without it this version from the package registry.",
                    metavar="SPEC",
                ),
            ),
            ("spec-kitty gate install --github", "spec-kitty gate install --pre-push"),
            "0 written, or there already · 1 another file is there · 2 usage",
            rank=365,
        ),
        Command(
            ("gate",),
            "commands:gate",
            "Judge a range by .kittify/gate.yaml as the base has it.",
            (
                _BASE,
                _HEAD,
                option(
                    "format",
                    "text, a comment (markdown), SARIF 2.1.0 or JUnit XML.",
                    "text",
                    choices=("text", "markdown", "sarif", "junit"),
                ),
                option("output", "Write it into this new file.", metavar="FILE", short="-o"),
            ),
            ("spec-kitty gate --base origin/main", "spec-kitty gate --format sarif -o gate.sarif"),
            "0 pass, warnings are shown · 1 fail · 2 usage · 3 a record of the range is damaged",
            rank=366,
            section="Prove",
        ),
    ),
    errors={"GATE_INVALID": "`.kittify/gate.yaml` at the base cannot be used."},
    shapes="shapes",
)
