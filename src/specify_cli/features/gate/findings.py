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
        "lines have no record, and the commit is an agent's",
        "spec-kitty import sessions brings a session in; spec-kitty trail fetch fetches records",
    ),
    "LINES_NOT_KNOWN": Kind(
        "records",
        "what came in this file was not looked at",
        "review it by hand",
        known=False,
    ),
    "TESTS_NOT_GREEN": Kind(
        "tests",
        "tests did not end well after the last change",
        "run the tests in the session, then close its record",
    ),
    "TESTS_NOT_KNOWN": Kind(
        "tests",
        "whether tests ran after the last change is not known",
        "run the tests; audit.capture_tool_io: summary keeps command lines",
        known=False,
    ),
    "INVOCATION_OPEN": Kind(
        "ended", "the invocation is still open", "spec-kitty profile-invocation complete"
    ),
    "INVOCATION_FAILED": Kind(
        "ended", "the invocation did not end as done", "finish the work in a new invocation"
    ),
    "APPROVAL_MISSING": Kind(
        "approval",
        "nobody else than who asked has approved it under a key that the base trusts",
        "spec-kitty approve while it is open, or spec-kitty gate waive approval",
    ),
    "APPROVAL_NOT_KNOWN": Kind(
        "approval",
        "lines have no record, so no approval of them is known",
        "spec-kitty gate waive approval, signed by who read them",
        known=False,
    ),
    "CHANGE_UNSEEN": Kind(
        "unseen",
        "a file changed while no recorded tool ran",
        "read the change; spec-kitty why FILE names what is known",
    ),
    "PROOF_TOO_LOW": Kind(
        "proof",
        "the record does not reach the level of proof under keys that the base names",
        "spec-kitty trail checkpoint and enroll; keys belong into gate.yaml at the base",
    ),
    "RECORD_DAMAGED": Kind(
        "proof",
        "the record is damaged",
        "spec-kitty invocations verify names the place; restore it",
    ),
    "NO_TRAIL": Kind(
        "trail",
        "a record of this time was made without a trail: what was done is not known",
        "ask who made it; audit.no_trail says who may",
        known=False,
    ),
    "SECRET_WRITTEN": Kind(
        "secrets",
        "what is masked in records as a secret stands in a line",
        "take it out of the branch's history and revoke it; redaction.allow excepts a text",
    ),
    "DENY_BECAME_ALLOW": Kind(
        "weakened",
        "what was denied in the past would be allowed under the branch's rules",
        "spec-kitty backtest --charter . shows each",
    ),
    "RULES_WEAKENED": Kind(
        "weakened",
        "the branch weakens the gate; it was judged by the rules of the base",
        "let somebody who may decide it merge that change by itself",
    ),
    "WEAKENING_NOT_KNOWN": Kind(
        "weakened",
        "rules changed, and not every past decision could be made again",
        "spec-kitty backtest --charter . names what is missing",
        known=False,
    ),
    "NOT_ALLOWED": Kind(
        "allowed",
        "the base allows others to write this file",
        "let an allowed harness, model or profile do it",
    ),
    "CUSTOM_RULE": Kind("custom", "a rule of another package", "ask who brought the rule"),
    "CUSTOM_NOT_KNOWN": Kind(
        "custom",
        "a rule of another package could not be asked",
        "install the package that brings it",
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
