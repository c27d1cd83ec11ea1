"""schema: the JSON Schemas of every shape the CLI prints and every line it writes.

    schema({"name": "invocation-row", "json": False})

They are files of the package, made by `make schemas`; that of a single event is made when it is
asked for.
"""

from __future__ import annotations

import json

from specify_cli.cli.schemas import DOCUMENTS, list_schemas
from specify_cli.cli.terminal.output import write_answer, write_json
from specify_cli.errors import CallerError
from specify_cli.room import Values


def schema(values: Values) -> int:
    """Show one schema by name, or the names; a single event goes by its wire name or class.

    Return 0; raises CallerError SCHEMA_NOT_FOUND, which lists the names.
    """
    names = list_schemas()
    if values["name"] is None:
        write_answer(values, names, names)
        return 0
    name = str(values["name"])
    if name in names:
        write_json(json.loads((DOCUMENTS / f"{name}.json").read_bytes()))
        return 0
    # pydantic's models load for the time of a command
    from specify_cli.record.event_models import schema_of_event

    document = schema_of_event(name)
    if document is None:
        raise CallerError(
            "SCHEMA_NOT_FOUND",
            f"no schema has the name {name!r}",
            "spec-kitty schema",
            candidates=[{"name": item} for item in names],
        )
    write_json(document)
    return 0
