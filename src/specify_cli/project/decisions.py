"""What was decided for a clone (accepted, sent, no longer recorded), so that the next record states
it.

    note_decision(git_dir, "config accept (trail)", at="2026-11-21T09:00:00.000Z", terminal=False)
    # for the next record, which then calls forget_untold(git_dir, text)
    text = read_untold(git_dir)

Decisions lie in the git directory, one a line. Where that cannot be written, a record may state one
that an earlier record stated too.

Accepting a weaker setting, or sending records away, leaves no line in any record by itself. Yet
whoever reads the next record has to know that it was made under other rules. So each decision
waits here until a record states it (`started.decisions`, docs/format.md §4).
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
    """One decision; `terminal` is whether somebody sat at one."""

    at: str
    what: str
    terminal: bool


def note_decision(git_dir: str | None, what: str, *, at: str, terminal: bool) -> None:
    """Keep a decision. Nothing is kept outside git, or where the git directory cannot be
    written.

    `what` is a phrase, and `at` RFC 3339. Durable where it is kept; nothing is raised.
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
            # First what the next record states: after a crash between both it states more than was
            # done.
            durable.replace(fd, UNTOLD, text.encode()[-_MAX:], durable.PRIVATE)
            older = durable.read_own(folder, DECISIONS, _MAX) or b""
            durable.replace(fd, DECISIONS, (older + line)[-_MAX:], durable.PRIVATE)
    except (OSError, InvocationError):
        return


def read_decisions(git_dir: str | None) -> list[Decision]:
    """Return the decisions of a clone, the newest last; none where they cannot be read.

    At most 256 KiB are kept, the newest. A line of another form is passed over.
    """
    found = []
    for line in _read(git_dir, DECISIONS).splitlines():
        try:
            value = json.loads(line)
            found.append(Decision(str(value["at"]), str(value["what"]), value["terminal"] is True))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


def read_untold(git_dir: str | None) -> str | None:
    """Return what no record has stated yet, as one text; None where there is nothing.

    They are joined by semicolons, the oldest first.
    """
    return _read(git_dir, UNTOLD).decode("utf-8", "replace") or None


def forget_untold(git_dir: str | None, text: str | None) -> None:
    """Forget what a durable record states now, unless more was decided meanwhile.

    `text` is what was read before the record was made: if another decision came meanwhile, both
    wait.
    """
    if git_dir is None or text is None or read_untold(git_dir) != text:
        return
    try:
        os.unlink(f"{git_dir}/kittify/{UNTOLD}")
    except OSError:
        return


def _read(git_dir: str | None, name: str) -> bytes:
    try:
        return b"" if git_dir is None else durable.read_own(f"{git_dir}/kittify", name, _MAX) or b""
    except (OSError, InvocationError):
        return b""
