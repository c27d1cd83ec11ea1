"""Whether a person asks: the one authority of every command that sends data away or lowers
protection.

    require_person(shell.caller().actor, "sending to https://…", "spec-kitty sync enable --endpoint https://…")

An agent's harness is known by the variables it sets for its commands, and by its program among the
processes above this one, so that a command cleared of those variables is known too. A process that
left its parents behind is not.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from specify_cli.cli.tables.points import read_harnesses
from specify_cli.errors import CallerError
from specify_cli.invocation.caller import Actor
from specify_cli.room import Marks

_MAX_ANCESTORS = 64


def require_person(actor: Actor, what: str, command: str) -> None:
    """Refuse what only a person may decide. Raises CallerError ACCEPT_NEEDS_PERSON.

    `what` continues "no person agreed to …", `command` is what the person runs instead.

    Where the system does not list the processes above, only the variables decide.
    """
    harness = (actor.tool or actor.actor_id) if actor.actor_type != "human" else find_harness()
    if harness is not None:
        raise CallerError(
            "ACCEPT_NEEDS_PERSON",
            f"no person agreed to {what}: the command was run below {harness}, so nothing was "
            "changed or sent",
            f"run it yourself, in a terminal of your own: {command}",
        )


def is_person(actor: Actor) -> bool:
    """Return whether nothing says that a program asks."""
    return actor.actor_type == "human" and find_harness() is None


def find_harness() -> str | None:
    """Return the harness whose program is among the processes above this one; None if there is
    none, or if the system does not list them."""
    harnesses = read_harnesses()
    return next(filter(None, (name_harness(argv, harnesses) for argv in read_ancestors())), None)


def name_harness(argv: Sequence[str], harnesses: Mapping[str, Marks]) -> str | None:
    """Return the harness whose program a command line runs, by itself or through an interpreter;
    None for any other program.

    `argv` is the command line of a process; its first two words count, without folder and ending.

    `harnesses` maps the name of each to how it is known.
    """
    for word in argv[:2]:
        name = word.rpartition("/")[2].partition(".")[0]
        for harness, marks in harnesses.items():
            if name in marks.programs:
                return harness
    return None


def read_ancestors() -> Iterator[Sequence[str]]:
    """Yield the command lines of the processes above this one, the nearest first, where the system
    tells them."""
    pid = os.getppid()
    for _ in range(_MAX_ANCESTORS):
        if pid <= 1:
            return
        process = _read_process(pid)
        if not process:
            return
        pid, argv = process
        yield argv


def _read_process(pid: int) -> tuple[int, Sequence[str]] | None:
    """Return the parent of a process and its command line: from /proc, else from ps(1)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name stands in brackets and may hold any sign: the parent is the second word
            # after the last one.
            parent = int(file.read().rpartition(b")")[2].split()[1])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            argv = file.read(65536).decode("utf-8", "replace").split("\0")
    except FileNotFoundError:
        return _ask_ps(pid)
    except (OSError, ValueError, IndexError):
        return None
    return parent, argv


def _ask_ps(pid: int) -> tuple[int, Sequence[str]] | None:
    """Return the same from ps(1): the program first, whose path may contain blanks, then the other
    words."""

    def ask(*columns: str) -> str:
        command = ["ps", "-ww", *(f"-o{column}=" for column in columns), "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    try:
        parent, line = ask("ppid", "args").split(maxsplit=1)
        program = ask("comm")
    except (OSError, ValueError):
        return None
    # `comm` is the whole path on macOS, and the name alone on Linux.
    match = re.match(rf"(.*?{re.escape(program)})(?:\s(.*))?$", line, re.S)
    argv = [match[1], *(match[2] or "").split()] if match else line.split()
    return (int(parent), argv) if parent.isdigit() else None
