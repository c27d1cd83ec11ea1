"""What doctor says of erasures: those that were cut short, and those that a hold refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from doctrine.load import ParseCache
from doctrine.text import count, say
from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.features.forget import erasing
from specify_cli.libraries.archive.sealing import FOLDER, Keys
from specify_cli.project.checks import Finding
from specify_cli.project.config import Project

_MOST = 1 << 20


def check_erasures(project: Project, _: str | None) -> Iterator[Finding]:
    """Yield an erasure that is not finished, and each attempt on what is held."""
    for journal in erasing.list_journals(project):
        yield Finding(
            "ERASURE_UNFINISHED",
            "error",
            erasing.FOLDER,
            f"an erasure of {journal['at']} was cut short",
            "spec-kitty forget --resume",
        )
    keys = Keys(project.git_dir)
    with suppress(CallerError):  # without the extra nothing is opened
        if closed := keys.list_unopened():
            yield Finding(
                "SEALING_KEY_MISSING",
                "warning",
                f"{project.git_dir}/{FOLDER}",
                f"what {count(len(closed), 'key')} here were wrapped by is gone or another one: "
                "nobody opens the copies that left under them",
                "bring back the wrapping.key, and keys of subjects, that were there before",
            )
    for subject, records in keys.list_subjects().items():
        if keys.locate(subject) is None:
            yield Finding(
                "SEALING_KEY_MISSING",
                "warning",
                f"{project.git_dir}/{FOLDER}/{subject}.key",
                f"without it nobody opens the copies of {count(len(records), 'record')}, of which "
                "no other leaves",
                "bring it back from where it was kept; what destroys the key of a record: "
                "spec-kitty forget --invocation-id ID",
            )
    yield from _list_refused(project)


def _list_refused(project: Project) -> Iterator[Finding]:
    """Yield each attempt on what is held; a line that a crash left, or that another program wrote,
    hides none of the others."""
    path = f"{erasing.FOLDER}/{erasing.REFUSED}"
    try:
        lines = durable.read_below(project.root, path, _MOST).splitlines()
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, 1):
        what = _read_attempt(line) or f"line {number} of it cannot be read"
        yield Finding(
            "HELD_ERASURE_TRIED",
            "warning",
            path,
            f"somebody tried to erase what is held: {what}",
            "ask why; who holds it: spec-kitty hold list",
        )


def _read_attempt(line: bytes) -> str | None:
    """Return what a line says of an attempt; None where it is no whole line of `refuse_held`."""
    try:
        tried = json.loads(line)
        names = ", ".join(tried["held"])
        return f"{say(tried['by'])} at {say(tried['at'])}, of {say(names)}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def finish(project: Project, _: ParseCache, __: str | None) -> None:
    """Finish erasures that were cut short."""
    erasing.resume(project)
