"""invocations export and import."""

from __future__ import annotations

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.output import one_line, write_json, write_lines
from specify_cli.cli.table import Values
from specify_cli.project.config import load_project
from specify_cli.storage import archive as portable


def export(values: Values) -> int:
    """Write records and what they lead to into one file."""
    project, _ = load_project(shell.here(), shell.home())
    given = values["ids"]
    ids = [str(item) for item in given] if isinstance(given, list) else [str(given)]
    done = portable.export(project, ids, str(values["output"]), safe=bool(values["safe"]))
    if values["json"]:
        write_json(done.as_value())
        return 0
    held = f"{count(len(done.records), 'record')}, {count(done.objects, 'object')}"
    lines = [f"{one_line(done.path)}: {held}, {done.size} bytes"]
    lines.append(f"SHA-256 {done.sha256}")
    for row in done.records:
        withheld = row["withheld"]
        for item in withheld if isinstance(withheld, list) else []:
            why = ", ".join(item["rules"]) or item["why"]
            place = f"seq {item['seq']}" if item["file"] is None else f"annex {item['file']}"
            lines.append(f"withheld: {row['invocation_id']} {place} {one_line(item['event'])}: {why}")
    lines += [f"withheld: object {item['digest']}: {one_line(item['why'])}" for item in done.withheld_objects]
    write_lines(lines)
    return 0


def import_(values: Values) -> int:
    """Bring the records of an export in."""
    project, _ = load_project(shell.here(), shell.home())
    done = portable.import_file(project, str(values["file"]))
    if values["json"]:
        write_json(done.as_value())
        return 0
    lines = [f"imported: {name}" for name in done.records] + [f"here already: {name}" for name in done.present]
    write_lines([*lines, count(done.objects, "object")])
    return 0
