"""profiles list and show.

list_profiles({"json": True})
show_profile({"profile": "implementer-ivan", "json": False})
"""

from __future__ import annotations

from doctrine.agent_profiles.profile import make_row
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_json,
    write_lines,
    write_note,
)
from specify_cli.cli.terminal.render import table
from specify_cli.room import Values
from specify_cli.routing.registry import ProfileRegistry


def list_profiles(values: Values) -> int:
    """Show every profile; project files that cannot be used are named on stderr. Return 0."""
    rows = [make_row(profile) for profile in _load_registry().all()]
    if values["json"]:
        write_json(rows)
        return 0
    columns = [
        [
            row.profile_id,
            row.name,
            ", ".join(row.roles).lower(),
            ", ".join(row.languages),
            row.origin + (" · never routed to" if row.sentinel else ""),
        ]
        for row in rows
    ]
    write_lines(table(["profile", "name", "roles", "languages", "from"], columns))
    return 0


def show_profile(values: Values) -> int:
    """Show one profile whole, as its file has it.

    Return 0; raises CallerError PROFILE_NOT_FOUND.
    """
    profile = _load_registry(quiet=bool(values["json"])).get(str(values["profile"]))
    value = {
        **make_row(profile)._asdict(),
        "digest": profile.digest,
        "document": dict(profile.document),
    }
    lines = [
        f"{one_line(profile.name)} ({profile.profile_id}, {profile.origin})",
        one_line(profile.description),
        "",
    ]
    lines += [
        f"{key}: {one_line(_render_value(item))}"
        for key, item in value.items()
        if key != "document" and item
    ]
    write_answer(values, value, lines)
    return 0


def _load_registry(*, quiet: bool = False) -> ProfileRegistry:
    """Return the project's profiles.

    Files that cannot be used are named on stderr unless an error may follow as JSON.
    """
    project, cache = shell.reading_project()
    registry = ProfileRegistry(project.root, cache)
    for problem in () if quiet else registry.problems:
        write_note(f"warning: PROFILE_INVALID: {problem.describe()}")
    cache.save()
    return registry


def _render_value(value: object) -> str:
    """Return a value as a person reads it."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
