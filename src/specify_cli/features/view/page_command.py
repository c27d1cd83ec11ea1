"""invocations export --html: one record as a page that checks itself."""

from __future__ import annotations

from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError
from specify_cli.features.view.page import write_page
from specify_cli.libraries.archive.options import open_export, require_one
from specify_cli.room import Values
from specify_cli.storage.index import Index


def export_page(values: Values) -> int:
    """Write the page of one record."""
    project, _ = open_export(values, "html", in_clear=True)
    if values["format"] != "archive":
        raise CallerError(
            "USAGE", "--html and --format exclude each other", "leave one of them out"
        )
    place = Index(project.root).resolve(require_one(values, "--html", "safe"))
    page = write_page(project, place, str(values["html"]), proofs=bool(values.get("proofs")))
    lines = [
        f"{one_line(page.path)}: the page of {page.invocation_id}, {page.size} bytes",
        f"SHA-256 {page.sha256}",
        f"its script: SHA-256 {page.script_sha256}, the same in every page of this version",
    ]
    left_out = (f"left out: object {one_line(item)}" for item in page.left_out)
    write_answer(values, page, [*lines, *left_out])
    return 0
