"""invocations export and import: records with everything they lead to, as files that others verify
and replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.run import call_for
from specify_cli.cli.tables.points import list_fills
from specify_cli.cli.terminal.output import one_line, write_answer, write_json_pieces, write_lines
from specify_cli.errors import CallerError
from specify_cli.features.archives.many import archive_each
from specify_cli.libraries.archive import archive
from specify_cli.libraries.archive.options import open_export
from specify_cli.libraries.archive.unpacking import import_file
from specify_cli.libraries.work.options import list_sources, open_engine
from specify_cli.record.reading.views import json_pieces
from specify_cli.room import Values


def export(values: Values) -> int:
    """Write records and what they lead to into one file."""
    project, ids = open_export(values, "output")
    # The proofs that a room can give of these records; it brought the option too.
    fills = list_fills("proofs") if values.get("proofs") else ()
    proofs = partial(call_for, Mapping, fills[0].run, project) if fills else None
    done = archive.export(
        project, ids, str(values["output"]), safe=bool(values["safe"]), prove=proofs
    )
    if values["json"]:
        write_json_pieces(json_pieces(done.as_value()))
        return 0
    content = f"{count(len(done.records), 'record')}, {count(done.objects, 'object')}"
    write_lines(_iter_exported(done, content))
    return 0


def _iter_exported(done: archive.Exported, content: str) -> Iterator[str]:
    yield f"{one_line(done.path)}: {content}, {done.size} bytes"
    yield f"SHA-256 {done.sha256}"
    for row in done.records:
        for item in cast("Iterable[dict[str, Any]]", row["withheld"]):
            why = ", ".join(item["rules"]) or item["why"]
            place = f"seq {item['seq']}" if item["file"] is None else f"annex {item['file']}"
            yield f"withheld: {row['invocation_id']} {place} {one_line(item['event'])}: {why}"
    for item in done.withheld_objects:
        yield f"withheld: object {item['digest']}: {one_line(item['why'])}"


def export_each(values: Values) -> int:
    """Write every record as an archive of its own; name each that could not be."""
    project, ids = open_export(values, "archives", of_all=True)
    if ids or values.get("proofs") or values["format"] != "archive":
        raise CallerError(
            "USAGE",
            "--archives takes no ID, no --proofs and no --format",
            "give --output FILE instead",
        )

    folder = str(values["archives"])
    with open_engine(values, "archiving records") as engine:
        safe = bool(values["safe"])
        rows = list(archive_each(list_sources(values, project.root), folder, engine, safe=safe))
    refused = [row for row in rows if row.archive is None]
    lines = [f"{folder}: {count(len(rows) - len(refused), 'archive')}"]
    lines += [
        f"left out: {row.source} {row.invocation_id or ''}: {row.code}: {row.message}"
        for row in refused
    ]
    write_answer(values, rows, map(one_line, lines))
    return 1 if refused else 0


def import_(values: Values) -> int:
    """Bring the records of an export in."""
    done = import_file(shell.load_writable(), str(values["file"]))
    lines = [f"imported: {name}" for name in done.records] + [
        f"here already: {name}" for name in done.present
    ]
    write_answer(values, done, [*lines, count(done.objects, "object")])
    return 0
