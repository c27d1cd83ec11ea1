"""schema: the JSON Schemas of every shape the CLI prints and every line it writes."""

from __future__ import annotations

from specify_cli.cli.output import write_json, write_lines
from specify_cli.cli.shapes import schemas
from specify_cli.cli.table import Values
from specify_cli.errors import CallerError
from specify_cli.record.event_models import schema_of_event


def schema(values: Values) -> int:
    """Show one schema by name, or the names; a single event goes by its wire name or class."""
    known = schemas()
    name = values["name"]
    if name is None:
        if values["json"]:
            write_json(sorted(known))
        else:
            write_lines(sorted(known))
        return 0
    found = known.get(str(name)) or schema_of_event(str(name))
    if found is None:
        raise CallerError(
            "SCHEMA_NOT_FOUND",
            f"no schema has the name {name!r}",
            "spec-kitty schema",
            candidates=[{"name": item} for item in sorted(known)],
        )
    write_json(found)
    return 0
