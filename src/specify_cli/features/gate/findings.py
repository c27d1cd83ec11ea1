"""What the gate can find: each code with its rule, what it means and what to do. [pure]"""

from __future__ import annotations

from typing import NamedTuple

from specify_cli.features.gate.rules import Level


class Kind(NamedTuple):
    """One kind of finding. `known` is False where it says that something cannot be known."""

    rule: str
    meaning: str
    next: str
    known: bool = True


KINDS: dict[str, Kind] = {
    "LINES_UNRECORDED": Kind(
        "records",
        "these lines have no record of who wrote them",
        "If an agent wrote them: spec-kitty import sessions, or spec-kitty trail fetch.",
    ),
    "LINES_NOT_KNOWN": Kind(
        "records",
        "this was not looked at",
        "Review it by hand; for a file sign that: spec-kitty gate waive records FILE.",
        known=False,
    ),
    "TESTS_NOT_GREEN": Kind(
        "tests",
        "the tests did not pass after the agent's last change",
        "Run them in the agent's session while it is open; else run them by hand and sign that: "
        "spec-kitty gate waive tests ID.",
    ),
    "TESTS_NOT_KNOWN": Kind(
        "tests",
        "whether the tests passed after the agent's last change is not known",
        "Run them by hand and sign that: spec-kitty gate waive tests ID. Which commands run is "
        "kept with audit.capture_tool_io: summary.",
        known=False,
    ),
    "INVOCATION_OPEN": Kind(
        "ended",
        "the agent's work is not closed",
        "spec-kitty profile-invocation complete ID --outcome done, then push the record.",
    ),
    "INVOCATION_FAILED": Kind(
        "ended",
        "the agent's work did not end as done",
        "Take its lines out, or sign that they may stay: spec-kitty gate waive ended ID.",
    ),
    "APPROVAL_MISSING": Kind(
        "approval",
        "nobody but who asked for it has approved it with a key that this repository trusts",
        "Somebody else signs: spec-kitty approve ID while the record is open, else spec-kitty gate "
        "waive approval ID.",
    ),
    "APPROVAL_NOT_KNOWN": Kind(
        "approval",
        "no line of this leads to a record, so nobody is known to have approved it",
        "Read them, then sign that: spec-kitty gate waive approval FILE.",
        known=False,
    ),
    "CHANGE_UNSEEN": Kind(
        "unseen",
        "this file changed during an agent's session while no recorded tool ran",
        "Read the change; spec-kitty why FILE names what is known.",
    ),
    "PROOF_TOO_LOW": Kind(
        "proof",
        "the record is not proven as far as this repository asks",
        "spec-kitty trail checkpoint signs it; the keys that count stand in gate.yaml at the base.",
    ),
    "RECORD_DAMAGED": Kind(
        "proof",
        "the record is not what was written",
        "spec-kitty invocations verify names the place; restore the record.",
    ),
    "NO_TRAIL": Kind(
        "trail",
        "somebody had an agent work without a record while this was made",
        "Ask who did; audit.no_trail says who may.",
        known=False,
    ),
    "TRAIL_NOT_KNOWN": Kind(
        "trail",
        "there are too many records of the time in which this was made to look at each",
        "spec-kitty invocations list names them.",
        known=False,
    ),
    "SECRET_WRITTEN": Kind(
        "secrets",
        "a line, or a name, looks like a password, key or token",
        "Take it out of the branch's history and revoke it; redaction.allow excepts a text.",
    ),
    "SECRETS_NOT_KNOWN": Kind(
        "secrets",
        "whether this holds a password, key or token is not known",
        "Look at it by hand, and sign that: spec-kitty gate waive secrets FILE.",
        known=False,
    ),
    "DENY_BECAME_ALLOW": Kind(
        "weakened",
        "what agents were not allowed to see would be shown to them",
        "spec-kitty backtest --charter . shows each past decision.",
    ),
    "RULES_WEAKENED": Kind(
        "weakened",
        "the branch weakens a rule; it was judged by the old one",
        "Take that change out of this branch; whoever owns the rules merges it in one of its own.",
    ),
    "WEAKENING_NOT_KNOWN": Kind(
        "weakened",
        "the rules changed, and not every past decision could be made again",
        "spec-kitty backtest --charter . names what is missing.",
        known=False,
    ),
    "NOT_ALLOWED": Kind(
        "allowed",
        "this repository lets others write these files",
        "Have an allowed harness, model or profile do it.",
    ),
    "CUSTOM_RULE": Kind(
        "custom", "a rule of an installed package is broken", "Ask who brought the rule."
    ),
    "CUSTOM_NOT_KNOWN": Kind(
        "custom",
        "a rule of another package could not be asked",
        "Install the package that brings it.",
        known=False,
    ),
}


class GateFinding(NamedTuple):
    """One thing that a rule found: where, what, and what to do.

    `level` is warn or fail. `first` and `last` are lines of `path`, counted from 1. `subject` is
    what a waiver has to name: the invocation, or the path with the digest of its content.
    """

    code: str
    rule: str
    level: Level
    known: bool
    path: str | None
    first: int | None
    last: int | None
    invocation_id: str | None
    message: str
    detail: str
    next: str
    subject: str
    waived_by: str | None = None

    @property
    def place(self) -> str:
        """Return where it is: a file with lines, an invocation, or the range."""
        if self.path is None:
            return self.invocation_id or "the range"
        if self.first is None:
            return self.path
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")
