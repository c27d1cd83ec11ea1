"""schema: the JSON Schemas of every shape the CLI prints and every line it writes."""

from __future__ import annotations

from specify_cli.cli.command_table import Values
from specify_cli.cli.schemas.shapes import SHAPES, schema_of
from specify_cli.cli.terminal.output import write_json, write_lines
from specify_cli.errors import CallerError
from specify_cli.record.event_models import event_schema, schema_of_event


def schema(values: Values) -> int:
    """Show one schema by name, or the names; a single event goes by its wire name or class."""
    names = sorted((*SHAPES, "event"))
    if values["name"] is None:
        if values["json"]:
            write_json(names)
        else:
            write_lines(names)
        return 0
    name = str(values["name"])
    document = schema_of(name) if name in SHAPES else event_schema() if name == "event" else schema_of_event(name)
    if document is None:
        raise CallerError(
            "SCHEMA_NOT_FOUND",
            f"no schema has the name {name!r}",
            "spec-kitty schema",
            candidates=[{"name": item} for item in names],
        )
    write_json(document)
    return 0
