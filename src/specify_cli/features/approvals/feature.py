"""What this room brings."""

from __future__ import annotations

from specify_cli.cli.tables.params import ID
from specify_cli.room import Command, Feature, flag, option

FEATURE = Feature(
    name="approvals",
    about="Let a person allow or deny, under a name.",
    page="docs/trail.md",
    libraries=("ssh",),
    commands=(
        Command(
            ("approve",),
            "commands:approve",
            "Allow or deny a call of an open record, or its request, under your name; signed "
            "with your SSH key.",
            (
                ID,
                option(
                    "call",
                    "The call it is about; without one it is the request.",
                    metavar="CALL_ID",
                ),
                flag("deny", "Deny it."),
                option("reason", "Why, in your own words.", metavar="TEXT"),
                option("minutes", "How long it holds.", 60, integer=True, metavar="N"),
                option(
                    "key",
                    "Your key, or the public half of an agent's.",
                    "~/.ssh/id_ed25519",
                    metavar="FILE",
                ),
                flag("unsigned", "Sign nothing: it says what git says of you, and proves nothing."),
            ),
            (
                "spec-kitty approve ID --call CALL_ID",
                'spec-kitty approve ID --call CALL_ID --deny --reason "not on a Friday" --unsigned',
            ),
            "0 recorded · 1 refused, nothing recorded · 2 usage",
            rank=130,
            section="Close",
        ),
    ),
    errors={
        "APPROVAL_REFUSED": "Only a person who did not propose it can allow or deny what has "
        "not run yet.",
    },
    findings="findings",
)
