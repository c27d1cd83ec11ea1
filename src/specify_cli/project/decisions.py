"""Note a person's decisions for a clone (accepted, sent, no longer recorded) until a record states
them.

    note_decision(git_dir, "config accept (trail)", at="2026-11-21T09:00:00.000Z", terminal=False)
    # for the next record, which then calls forget_untold(git_dir, text)
    text = read_untold(git_dir)

Decisions lie in the git directory, one on each line. If that cannot be written, two records may
state the same decision.

To accept a weaker setting, or to send records away, writes no line into any record. Yet a reader of
the next record must know that it was made under other rules. So each decision waits here until a
record states it (`started.decisions`, docs/format.md §4).
"""

from __future__ import annotations

import json

from doctrine import os
from doctrine.light_imports import NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError

DECISIONS, UNTOLD = "decisions.jsonl", "decisions-untold"
_MAX = 256 * 1024


class Decision(NamedTuple):
    """One decision: when (RFC 3339), a phrase for it, and whether a person made it at a
    terminal."""

    at: str
    what: str
    terminal: bool


def note_decision(git_dir: str | None, what: str, *, at: str, terminal: bool) -> None:
    """Store a decision durably. Outside git, or if the git directory cannot be written, nothing is
    stored; nothing is raised.

    `what` is a phrase, and `at` is RFC 3339.

    `git_dir` is the git directory that all worktrees share. `terminal` says whether a person
    decided at a terminal; otherwise the text says so.
    """
    if git_dir is None:
        return
    folder = f"{git_dir}/kittify"
    line = json.dumps({"at": at, "what": what, "terminal": terminal}).encode() + b"\n"
    text = "; ".join(
        filter(None, (read_untold(git_dir), what if terminal else f"{what}, without a terminal"))
    )
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with durable.folder(folder) as fd:
            # The text for the next record comes first: a crash between both writes makes it state
            # one decision too many, and never one too few.
            durable.replace(fd, UNTOLD, text.encode()[-_MAX:], durable.PRIVATE)
            older = durable.read_own(folder, DECISIONS, _MAX) or b""
            durable.replace(fd, DECISIONS, (older + line)[-_MAX:], durable.PRIVATE)
    except (OSError, InvocationError):
        return


def read_decisions(git_dir: str | None) -> list[Decision]:
    """Return the decisions of a clone, the newest last; [] if they cannot be read.

    Only the newest 256 KiB are stored. Malformed lines are left out.

    `git_dir` is as for `note_decision`.
    """
    decisions = []
    for line in _read(git_dir, DECISIONS).splitlines():
        try:
            value = json.loads(line)
            decisions.append(
                Decision(str(value["at"]), str(value["what"]), value["terminal"] is True)
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return decisions


def read_untold(git_dir: str | None) -> str | None:
    """Return the decisions that no record has stated yet, joined by semicolons, the oldest first;
    None if there are none.

    `git_dir` is as for `note_decision`.
    """
    return _read(git_dir, UNTOLD).decode("utf-8", "replace") or None


def forget_untold(git_dir: str | None, text: str | None) -> None:
    """Remove the decisions that a durable record now states.

    `text` is the result of `read_untold` before the record was made. If another decision came
    meanwhile, nothing is removed, and the next record states all of them.

    `git_dir` is as for `note_decision`.
    """
    if git_dir is None or text is None or read_untold(git_dir) != text:
        return
    try:
        os.unlink(f"{git_dir}/kittify/{UNTOLD}")
    except OSError:
        return


def _read(git_dir: str | None, name: str) -> bytes:
    """Return the bytes of a file in the git directory that is this user's; none where it is not."""
    try:
        return b"" if git_dir is None else durable.read_own(f"{git_dir}/kittify", name, _MAX) or b""
    except (OSError, InvocationError):
        return b""
