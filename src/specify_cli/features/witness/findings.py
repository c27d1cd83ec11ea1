"""What can be wrong with the links between records, with logs, and with proofs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from specify_cli.record.findings import ERROR, INFO, WARNING, make_finding

if TYPE_CHECKING:
    from specify_cli.record.findings import Finding, FindingKind

# code → (severity, what it means, what to do)
FINDINGS: Mapping[str, FindingKind] = {
    "FIXED_TIP_MISSING": (
        ERROR,
        "a tip that was fixed in the log while the record was open is not on it",
        "lines were cut off or written anew while it was open: do not rely on it; restore a "
        "copy from before",
    ),
    "PROOF_INVALID": (
        ERROR,
        "a proof does not show that its line is in the log it names",
        "ask whoever sent it for a new one; something was changed",
    ),
    "LINK_MISSING": (
        ERROR,
        "a record that this one cites is not here",
        "it was deleted or stashed, or its branch is not here: git stash pop, fetch all branches "
        "or restore it from a backup",
    ),
    "LINK_BROKEN": (
        ERROR,
        "a line that this record cites is not in the record it was in",
        "lines were cut off or rewritten: restore the record it names",
    ),
    "LINK_ELSEWHERE": (
        INFO,
        "the very line that this one cites stands in another place: a worktree or a branch",
        "nothing to do; merge the branch or look in the worktree to see it",
    ),
    "LINK_UNPUBLISHED": (
        INFO,
        "a record that this one cites is not here, and no log here says that it was published",
        "nothing to do if it was open or private where it was written; else restore it",
    ),
    "CLOCK_WENT_BACK": (
        WARNING,
        "a record says that it began before one that it cites",
        "look at the clock of the machine that wrote it",
    ),
    "NOT_LOGGED": (
        ERROR,
        "a line is no leaf of this clone's log, though the log had begun",
        "it was put there or written anew by something else: compare it with another clone",
    ),
    "NOT_OF_THIS_CLONE": (
        INFO,
        "the record lies among the imported ones: no log here holds it, and whoever put it there "
        "claims what it says",
        "nothing to do; an export made with --proofs shows that its sender's log holds it",
    ),
    "LOG_PENDING": (
        INFO,
        "its command is running, or died before it logged the line",
        "nothing to do; the next do or complete adds the leaf",
    ),
    "LOGGED_RECORD_MISSING": (
        ERROR,
        "the log holds a line of a record that is not here",
        "it was deleted or stashed, or its branch is not here: git stash pop, fetch all branches "
        "or restore it from a backup",
    ),
    "LOGGED_ELSEWHERE": (
        INFO,
        "logged lines of a record stand in another place: a worktree or a branch",
        "nothing to do; merge the branch or look in the worktree to see it",
    ),
    "LOGGED_LINE_MISSING": (
        ERROR,
        "the log holds a line that is not in its record",
        "the record was cut off, rewritten or put back from an old copy, or a copy of this clone "
        "closed it too: restore it",
    ),
    "LOG_ALTERED": (
        ERROR,
        "the leaves of a log do not give the root that was signed for them",
        "the log was changed: restore it from a backup",
    ),
    "LOG_ROLLED_BACK": (
        ERROR,
        "a log has fewer leaves than a checkpoint of it says",
        "leaves were removed, or an old copy was put back: restore the log; a new checkpoint "
        "begins a new one",
    ),
    "LOG_RESTARTED": (
        WARNING,
        "a log was copied or put back to an older copy, and its clone noticed that and began a new "
        "one, or will when it records",
        "ask whether the clone was copied or a backup restored; then what was logged in between "
        "and not published is lost",
    ),
    "LOG_FORKED": (
        ERROR,
        "two states of one log contradict each other",
        "keep both: one of them is forged, or two copies of one clone went on; if you copied this "
        "clone or restored a backup of it: spec-kitty trail checkpoint --restored",
    ),
    "LOG_UNVERIFIED": (
        ERROR,
        "a signature of a checkpoint does not verify",
        "the checkpoint was changed: restore it",
    ),
}


def finding(code: str, file: str, detail: str, seq: int | None = None) -> Finding:
    """Return a finding of this room, about a file or a line of it."""
    return make_finding(FINDINGS, code, file, seq, 0, detail)
