"""The commands of this room: each parses, calls one function, renders."""

import csv
import io

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_json, write_text
from specify_cli.errors import CallerError
from specify_cli.libraries.archive.archive import create_file
from specify_cli.libraries.archive.options import open_export
from specify_cli.room import Values
from specify_cli.storage.index import Index


def tally(values: Values) -> int:
    """Print how many records there are."""
    project, _ = shell.reading_project()
    number = sum(1 for _ in Index(project.root).places())
    least = values["least"]
    if least == 13:
        raise RuntimeError("thirteen")
    if isinstance(least, int) and number < least:
        raise CallerError("TALLY_TOO_SMALL", f"expected {least} records, found {number}", "spec-kitty do …")
    write_json({"records": number}) if values["json"] else write_text(f"{number} records")
    return 0


def export_csv(values: Values) -> int:
    """Write the ids of records as CSV."""
    project, ids = open_export(values, "output")
    rows = io.StringIO()
    csv.writer(rows).writerows([place.invocation_id, place.path] for place in map(Index(project.root).resolve, ids))
    create_file(str(values["output"]), rows.getvalue().encode())
    write_text(f"{values['output']}: {len(ids)} rows")
    return 0
