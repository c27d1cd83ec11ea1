"""spec-kitty without a word, in a project: what is open, what ended badly, what to do next.

    show_today({})

It costs at most 200 rows and the tests of 20 records, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import paint, say_request, write_lines
from specify_cli.cli.terminal.render import local_time, read_local, shown_width
from specify_cli.project.config import Project
from specify_cli.room import Values
from specify_cli.storage.queries import (
    Filters,
    Row,
    has_failed_tests,
    list_invocations,
    parse_moment,
)

# So many of the newest records are looked at, of so many it is seen how their tests ended, and so
# many of a kind are named.
_READ, _TESTED, _NAMED = 200, 20, 3


def show_today(_: Values) -> int:
    """Print at most ten lines. Return 0."""
    project = shell.read_project()
    listing = list_invocations(project, Filters(replays=False), _READ)
    start = parse_moment("yesterday") / 1000
    still = [row for row in listing.rows if row.status == "open"]
    closed_rows = [row for row in listing.rows if row.outcome and _read_end(row) >= start]
    bad = list(_find_bad(project, closed_rows))
    more = " among the newest 200" if listing.unread else ""
    tested = f", tests of the newest {_TESTED} looked at" if len(closed_rows) > _TESTED else ""
    lines = [*_name("open", still, more)]
    lines += _name("ended badly since yesterday", bad, f"{more}{tested}")
    if still:
        newest = still[0].invocation_id[-6:]
        close = f"spec-kitty profile-invocation complete {newest}"
        steps = [f"spec-kitty invocations show {newest}", close]
    elif bad:
        steps = [f"spec-kitty invocations show {bad[0].invocation_id[-6:]}"]
    else:
        steps = ['spec-kitty do "…"', "spec-kitty --help"]
    write_lines([*lines, f"next:  {'  ·  '.join(steps)}"])
    return 0


def _find_bad(project: Project, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the records that ended as failed or abandoned, or whose tests failed at their end; of
    the last kind only the newest are looked at."""
    for number, row in enumerate(rows):
        if row.outcome in ("failed", "abandoned"):
            yield row
        elif number < _TESTED and has_failed_tests(project, row):
            yield row._replace(outcome=f"{row.outcome}, tests failed")


def _name(what: str, rows: Sequence[Row], more: str) -> Iterator[str]:
    """Yield a heading with a number, then the newest rows of a kind."""
    newest = f", the newest {_NAMED}:" if len(rows) > _NAMED else ""
    number = count(len(rows), "record") if rows else "none"
    yield paint(f"{what}: {number}{more}{newest}", "head")
    for row in rows[:_NAMED]:
        head = f"  {row.invocation_id[-6:]}  {local_time(row.started_at)}  {row.outcome or 'open'}"
        room = max(20, shown_width() - len(head) - 2)
        yield f"{head}  {say_request(row.request, room)}"


def _read_end(row: Row) -> float:
    """Return when a record ended, in seconds since 1970; 0 where it does not say."""
    there = read_local(row.completed_at)
    return there.timestamp() if there else 0.0
