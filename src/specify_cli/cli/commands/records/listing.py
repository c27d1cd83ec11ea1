"""invocations list: an everyday command, so it loads nothing that the others need.

    list_rows({"limit": 20, "json": True, "status": "open", …})

Rows go to stdout and everything about them to stderr: records that cannot be read, records that
were not looked at, names that no profile has. So a pipe gets rows alone.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.filters import read_filters, say_number
from specify_cli.cli.run import blame_room
from specify_cli.cli.tables.points import list_fills, load
from specify_cli.cli.terminal.output import (
    one_line,
    paint,
    say_request,
    terminal_width,
    write_json,
    write_lines,
    write_note,
    write_text,
    write_warnings,
)
from specify_cli.cli.terminal.render import (
    Column,
    ledger,
    local_time,
    name_kind,
    name_zone,
    read_local,
    shown_width,
)
from specify_cli.room import Values
from specify_cli.storage import queries as invocations
from specify_cli.storage.index import Index
from specify_cli.storage.worktrees import find_left_behind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from doctrine.load import ParseCache
    from specify_cli.project.config import Project


def list_rows(values: Values) -> int:
    """List rows, newest first; records that cannot be read are named on stderr.

    Return 0, also where no row fits.
    """
    filters = read_filters(values)
    limit = values["limit"]
    project, cache = shell.reading_project()
    cache.save()
    filters = _resolve_parent(project, filters)
    listing = _find_rows(project, values, filters, limit if isinstance(limit, int) else 50)
    listing = listing._replace(rows=invocations.add_spent(project, listing.rows))
    write_warnings(listing.problems)
    in_worktrees = len(find_left_behind(project.root))
    if in_worktrees:
        write_note(
            f"{count(in_worktrees, 'record')} of removed worktrees kept in the git directory; "
            "take them in with: spec-kitty invocations reindex"
        )
    if listing.unread and limit != 0:
        write_note(
            f"note: the newest {count(len(listing.rows), 'record')} that fit; "
            f"{say_number(listing.unread)} older "
            f"{'record was' if listing.unread == 1 else 'records were'} not looked at: --limit, "
            "--until"
        )
    if values["json"]:
        write_json([row.as_value() for row in listing.rows])
        return 0
    if listing.rows:
        _print_ledger(listing.rows)
    elif limit == 0:
        write_text("--limit 0 shows nothing")
    else:
        for name in ("profile", "action"):
            _note_unknown(name, shell.get_text(values, name), project, cache)
        write_text(_say_none(project, listing))
    return 0


def _say_none(project: Project, listing: invocations.Listing) -> str:
    """Return why a list has no rows: there is none, none is here, none can be read, or none
    fits."""
    if next(Index(project.root).newest(), None) is None:
        from specify_cli.trail.log.entries import describe_absent  # for a list without rows only

        return describe_absent(project) or 'no invocations yet; start with: spec-kitty do "…"'
    return "none of the records could be read" if listing.problems else "no invocation fits"


def _print_ledger(rows: Sequence[invocations.Row]) -> None:
    """Print rows as a table, with a note where a cost is estimated."""
    ids = [row.invocation_id for row in rows]
    size = 26 if terminal_width() is None else _short_size(ids)
    spent = [row.spent.describe() if row.spent else "" for row in rows]
    if max(map(len, spent)) > shown_width() - _BESIDE:
        spent = [row.spent.shorten() if row.spent else "" for row in rows]
    # A number is never cut.
    columns = [*_COLUMNS[:-1], Column("tokens", max(map(len, spent))), _COLUMNS[-1]]
    newest = read_local(rows[0].started_at)
    described = [_describe_row(*each, size, newest) for each in zip(rows, spent, strict=True)]
    widest = max(len(cells[1]) for cells in described)
    columns[1] = Column(f"begun{name_zone(newest)}", max(11, widest))
    cells = ledger(columns, described, shown_width())
    lines = [paint("  ".join(cells[0]).rstrip(), "head")]
    for row, line in zip(rows, cells[1:], strict=True):
        lines.append("  ".join(_paint_cells(row, line)).rstrip())
    write_lines(lines)
    days = {row.spent.estimated_at for row in rows if row.spent} - {None}
    if any("~" in text for text in spent):
        write_note(f"~ is estimated with the prices of {one_line(max(map(str, days)))}")


def _resolve_parent(project: Project, filters: invocations.Filters) -> invocations.Filters:
    """Return filters with the whole id of the parent that they ask for."""
    # A whole id may be of a record that is not here; a part, `last` and @N are of one that is.
    if filters.parent is None or len(filters.parent) == 26:
        return filters
    return filters._replace(parent=Index(project.root).resolve(filters.parent).invocation_id)


def _find_rows(
    project: Project, values: Values, filters: invocations.Filters, limit: int
) -> invocations.Listing:
    """Return the rows that fit; where a filter asks for what stands inside records, those the index
    of words finds."""
    for fill in list_fills("list_filters"):
        if values.get(fill.name) is not None:
            listing: invocations.Listing = load(fill.run)(project, values, limit)
            rows = listing.rows if isinstance(listing, invocations.Listing) else (listing,)
            for row in rows:
                if not isinstance(row, invocations.Row):
                    what = f"expected a Listing of rows, found {type(row).__name__}"
                    raise blame_room(fill.run, TypeError(what))
            return listing
    return invocations.list_invocations(project, filters, limit)


def _note_unknown(name: str, value: str | None, project: Project, cache: ParseCache) -> None:
    """Say that a filter names no profile or action of this project, and which one it resembles."""
    if value is None:
        return
    from difflib import get_close_matches  # for a mistake only

    from specify_cli.routing.registry import ProfileRegistry, shipped_table  # as above

    if name == "profile":
        names = [each.profile_id for each in ProfileRegistry(project.root, cache).all()]
    else:
        names = list(shipped_table().action_roles)
    if value not in names:
        near = get_close_matches(value, names, 1)
        write_note(
            f"warning: no {name} is called "
            f"{one_line(value)}{f'; did you mean {near[0]}?' if near else ''}"
        )


_COLUMNS = (
    Column("id", 6),
    Column("begun", 11),
    Column("profile", 8),
    Column("action", 9),
    Column("state", 6),
    Column("kind", 6),
    Column("by", 4),
    Column("request", 16),
)
# How wide the columns beside the tokens are at least.
_BESIDE = 82


def _short_size(ids: list[str]) -> int:
    """Return how many of their last letters tell these ids apart, six at the least."""
    return next(
        size
        for size in range(6, 27)
        if size == 26 or len({each[-size:] for each in ids}) == len(set(ids))
    )


def _describe_row(
    row: invocations.Row, spent: str, size: int, newest: datetime | None
) -> list[str]:
    """Return what the list says of one invocation, column by column; its time names its zone where
    that is not the `newest` one's."""
    return [
        row.invocation_id[-size:],
        local_time(row.started_at, newest),
        row.profile_id or "",
        row.action or "",
        row.outcome or row.status,
        name_kind(row.path, row.mode_of_work, row.run_kind),
        one_line(row.actor_id or "", 30),
        spent,
        say_request(row.request, 300),
    ]


def _paint_cells(row: invocations.Row, cells: list[str]) -> list[str]:
    """Return the cells of a row with its state in colour; a replay stands back as a whole."""
    if row.run_kind != "live":
        return [paint(cell, "dim") for cell in cells]
    state = row.outcome or row.status
    return [paint(cell, state) if cell.strip() == state else cell for cell in cells]
