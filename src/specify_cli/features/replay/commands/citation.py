"""show-uri and invocations context: what a report cites, opened."""

from __future__ import annotations

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_json, write_text
from specify_cli.features.replay.citation import resolve_uri
from specify_cli.room import Values


def show_uri(values: Values) -> int:
    """Show what a URI names."""
    return _show(str(values["uri"]), values)


def context(values: Values) -> int:
    """Show the governance context an invocation was given."""
    return _show(f"inv://{values['invocation_id']}/artifact/context", values)


def _show(uri: str, values: Values) -> int:
    project, _ = shell.reading_project()
    cited = resolve_uri(project, uri)
    if values["json"] or not isinstance(cited.value, str):
        write_json(cited if values["json"] else cited.value)
    else:
        write_text(cited.value or "(empty)")
    return 0
