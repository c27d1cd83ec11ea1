"""Long output for a person at a terminal: in the pager they name, or `less`.

    write_pages(invocation_page(value, story))

Lines are written as they are made, so the first page of a long record stands there at once.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable
from itertools import chain, islice

from specify_cli.cli.terminal.output import dress_lines, terminal_width, write_lines
from specify_cli.cli.terminal.person import find_harness


def write_pages(lines: Iterable[str]) -> None:
    """Write lines to stdout; where a person reads them and they fill more than the screen, through
    `$PAGER`, or `less -R`. An agent gets them as they are: it could not leave a pager."""
    rest = iter(lines)
    rows = _count_rows()
    first = [] if rows is None else list(islice(rest, rows))
    if rows is None or len(first) < rows or find_harness() is not None:
        write_lines(chain(first, rest))
        return
    stated = os.environ.get("PAGER")
    try:
        command = shlex.split(stated) if stated is not None else ["less", "-R", "-F", "-X"]
        pager = subprocess.Popen(command, stdin=subprocess.PIPE)
    except (OSError, ValueError, IndexError):
        write_lines(chain(first, rest))
        return
    assert pager.stdin is not None
    try:
        with pager.stdin as stream:
            for line in dress_lines(chain(first, rest)):
                stream.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    except BrokenPipeError:
        pass  # The reader has seen enough.
    pager.wait()


def _count_rows() -> int | None:
    """Return how many lines a screen holds; None where nobody pages: no terminal on both sides, or
    `PAGER` is empty."""
    if terminal_width() is None or not os.isatty(0) or os.environ.get("PAGER") == "":
        return None
    try:
        return max(5, os.get_terminal_size(1).lines - 1)
    except OSError:
        return None
