"""report --html: the report as one page."""

from __future__ import annotations

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError
from specify_cli.features.report.commands import gather_runs, name_unread
from specify_cli.features.report.page import make_page
from specify_cli.libraries.archive.archive import create_file
from specify_cli.room import Values


def write_page(values: Values) -> int:
    """Write the page of the runs since a moment; 1 where a record is not whole."""
    if values["format"] != "text":
        raise CallerError(
            "USAGE", "--html and --format markdown exclude each other", "spec-kitty report --help"
        )
    report, output = gather_runs(values), str(values["html"])
    text = make_page(report.report, report.say_time(), report.unread)
    page = text.encode("utf-8", "surrogateescape")
    create_file(output, page)
    said = f"{one_line(output)}: {count(len(report.report.runs), 'run')}, {len(page)} bytes"
    write_answer(values, report, [said])
    return name_unread(report)
