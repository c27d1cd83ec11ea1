"""What this room brings."""

from __future__ import annotations

from specify_cli.cli.tables.params import ENGINE, ID, REVOKED, SIGNERS
from specify_cli.room import ALWAYS, Command, Feature, Fill, Form, Group, argument, flag, option

FEATURE = Feature(
    name="witness",
    about="Prove to others that no record is missing.",
    page="docs/trail.md",
    needs=("approvals",),
    libraries=("archive", "processes", "signed_log", "ssh", "work"),
    extra="trail",
    groups=(Group("trail", "Prove to others that no record is missing.", 60, section="Prove"),),
    commands=(
        Command(
            ("trail", "checkpoint"),
            "commands.trail:checkpoint",
            "Sign the state of this clone's log, so that no record can go missing unseen after it.",
            (
                flag(
                    "restored",
                    "You copied this clone or restored a backup of it: its log is not continued.",
                ),
            ),
            ("spec-kitty trail checkpoint",),
            "0 signed, or nothing was added · 1 refused, nothing signed · 2 usage",
            rank=250,
        ),
        Command(
            ("trail", "enroll"),
            "commands.trail:enroll",
            "Let your SSH key vouch for this clone's log, for whoever knows your key.",
            (
                option(
                    "key",
                    "Your key, or the public half of an agent's.",
                    "~/.ssh/id_ed25519",
                    metavar="FILE",
                ),
            ),
            ("spec-kitty trail enroll --key ~/.ssh/id_ed25519",),
            "0 signed · 1 refused · 2 usage",
            rank=260,
        ),
        Command(
            ("trail", "proof"),
            "commands.trail:proof",
            "Sign the log and print the proof that a record is in it, as one C2SP tlog-proof.",
            (ID,),
            ("spec-kitty trail proof ID",),
            "0 printed · 1 not found or not logged · 2 usage",
            rank=270,
        ),
        Command(
            ("trail", "export"),
            "commands.trail:export",
            "Write the signed log as C2SP tlog-tiles: checkpoint, tiles and entries, for "
            "software that is not ours.",
            (argument("folder", "A new folder.", required=True, metavar="DIR"),),
            ("spec-kitty trail export DIR",),
            "0 written · 1 refused · 2 usage",
            rank=280,
        ),
    ),
    forms=(
        Form(
            ("invocations", "export"),
            ("format=testimony",),
            "commands.testimony:export_testimony",
            about="one record's approvals, as a Testimony Record.",
            rank=20,
        ),
        Form(
            ("invocations", "export"),
            ("allowed_signers", "revoked"),
            "commands.testimony:export_testimony",
            (SIGNERS, REVOKED),
            after="endpoint",
            rank=80,
        ),
        Form(
            ("invocations", "export"),
            params=(
                flag(
                    "proofs", "Sign the log, and take along the proofs that the records are in it."
                ),
            ),
            after="safe",
        ),
        Form(
            ("invocations", "verify"),
            ALWAYS,
            "commands.verify:verify",
            (
                option(
                    "require",
                    "Fail below this level.",
                    choices=("intact", "linked", "logged", "witnessed"),
                ),
                option(
                    "policy",
                    "Logs and witnesses you trust: a C2SP tlog-policy file.",
                    metavar="FILE",
                ),
                SIGNERS,
                REVOKED,
                option(
                    "remember",
                    "Keep the logs' states here; refuse a log that goes back.",
                    metavar="FILE",
                ),
                *ENGINE,
            ),
            after="anchor",
            examples=(
                "spec-kitty invocations verify --source . --workers 2",
                "spec-kitty invocations verify --all --require linked",
            ),
            exits="0 intact · 1 not found · 2 usage · 3 an error was found · 4 the required "
            "level is not reached",
        ),
    ),
    fills=(
        Fill("after", "automatic:sign_when_due", marker="kittify/log"),
        Fill("proofs", "log.proofs:collect_proofs"),
        Fill("record_streams", "levels:watch_trail"),
    ),
    shapes="shapes",
    findings="findings",
)
