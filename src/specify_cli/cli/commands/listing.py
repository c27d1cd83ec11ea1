"""invocations list: an everyday command, so it loads nothing that the others need."""

from __future__ import annotations

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.output import one_line, write_json, write_note, write_text
from specify_cli.cli.render import table
from specify_cli.cli.table import Values
from specify_cli.storage import queries as invocations
from specify_cli.storage.worktrees import find_left_behind


def list_rows(values: Values) -> int:
    """List rows, newest first; records that cannot be read are named on stderr."""
    filters = invocations.Filters(
        profile=shell.get_text(values, "profile"),
        action=shell.get_text(values, "action"),
        status=shell.get_text(values, "status"),
        since=None if values["since"] is None else invocations.parse_moment(str(values["since"])),
        parent=shell.get_text(values, "parent"),
    )
    limit = values["limit"]
    project, cache = shell.reading_project()
    cache.save()
    listing = invocations.list_invocations(project, filters, limit if isinstance(limit, int) else 50)
    for problem in listing.problems:
        write_note(f"warning: {problem}")
    left = len(find_left_behind(project.root))
    if left:
        write_note(
            f"{count(left, 'record')} of removed worktrees kept in the git directory; "
            "take them in with: spec-kitty invocations reindex"
        )
    if values["json"]:
        write_json([row.as_value() for row in listing.rows])
        return 0
    if not listing.rows:
        narrowed = limit == 0 or any(value is not None for value in filters)
        write_text("no invocation fits" if narrowed else 'no invocations yet; start with: spec-kitty do "…"')
        return 0
    shown = [
        [
            row.invocation_id,
            (row.started_at or "")[:16].replace("T", " "),
            row.profile_id or "",
            row.action or "",
            row.outcome or row.status,
            _describe_actor(row),
            one_line(row.request or "", 60),
        ]
        for row in listing.rows
    ]
    write_text(
        table(["invocation", "started (UTC)", "profile", "action", "state", "by", "request"], shown), styled=True
    )
    return 0


def _describe_actor(row: invocations.Row) -> str:
    """Return who asked, and of the session as much as tells it from others of the day."""
    session = (row.session or {}).get("session_id", "")
    return one_line(f"{row.actor_id or ''} {session[:8]}", 30)
