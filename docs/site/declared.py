"""Write what the code declares into docs/: `python docs/site/declared.py docs`.

The JSON Schemas of every room, the rows of events in docs/format.md and docs/api.md, and the tables
of rooms, error codes and findings. Tests compare them with the folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from specify_cli.cli.schemas.shapes import read_shapes
from specify_cli.cli.tables.assemble import read_rooms
from specify_cli.cli.tables.points import load
from specify_cli.errors import CODES
from specify_cli.record.event_models import event_schema
from specify_cli.record.event_table import EVENTS, RECORDABLE, Member

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def read_errors() -> dict[str, str]:
    """Return every error code with its meaning: those of the core, then each room's."""
    codes = dict(CODES)
    for room in read_rooms():
        codes |= room.feature.errors
    return codes


def read_findings() -> dict[str, tuple[str, str, str]]:
    """Return every code that verify can find, with (severity, what it means, what to do)."""
    codes = dict(import_module("specify_cli.record.findings").FINDINGS)
    for room in read_rooms():
        if room.feature.findings:
            codes |= import_module(f"{room.package}.{room.feature.findings}").FINDINGS
    return codes


def line_row(event: str) -> str:
    """Return the row of docs/format.md for an event: what its line holds besides the envelope."""
    cells = [_render_cell(name, member) for name, member in EVENTS[event].members.items() if _is_own(name, member)]
    return f"| `{event}` | {', '.join(cells)} |"


def described_row(event: str) -> str:
    """Return the row of docs/api.md for an event: what its payload needs, else what writes it."""
    cells = [
        f"`{name}`{' ' if member.choices else ''}{'·'.join(member.choices)}"
        for name, member in EVENTS[event].recordable.items()
        if member.required
    ]
    last = ", ".join(cells) if event in RECORDABLE else EVENTS[event].command
    return f"| `{event}` | {EVENTS[event].known_as} | {last} |"


# What every run event may have is said once, above the table.
_SHARED = {
    "step",
    "ordinal",
    "agent",
    "beside",
    "within",
    "redactions",
    "export_safe",
    "digest_key",
    "truncated",
    "witness",
    "claimed_at",
}


def _is_own(name: str, member: Member) -> bool:
    return member.kind != "source" and (name not in _SHARED or member.every)


def _render_cell(name: str, member: Member) -> str:
    title = f"*{name}*" if member.kind in ("captured", "digested", "message") else f"`{name}`"
    maybe = "" if member.every or member.side else "?"
    note = "" if member.kind != "object" else "(object or null)" if member.nullable or member.side else "(object)"
    return " ".join(filter(None, (title + maybe, "·".join(member.choices), note, member.note)))


def schemas() -> dict[str, dict[str, Any]]:
    """Return every schema by name."""
    shapes = {name: {"$schema": DIALECT, **_unwrap(shape.model_json_schema())} for name, shape in read_shapes().items()}
    return shapes | {"event": _unwrap(event_schema())}


def _unwrap(schema: Any) -> Any:
    """Return a schema whose descriptions have one line a paragraph, however docstrings wrap."""
    if isinstance(schema, list):
        return [_unwrap(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    members = {name: _unwrap(value) for name, value in schema.items()}
    if isinstance(members.get("description"), str):
        members["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", members["description"])
    return members


def write_schemas(folder: Path) -> None:
    """Write one file per schema into a folder, which is made where it is absent."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_event_rows(docs: Path) -> None:
    """Bring the rows of events in docs/format.md and docs/api.md up to the table."""
    for name, row_of in (("format.md", line_row), ("api.md", described_row)):
        text = (docs / name).read_text(encoding="utf-8")
        for event in EVENTS:
            text = re.sub(rf"^\| `{event}` \|.*$", lambda _: row_of(event), text, flags=re.M)  # noqa: B023
        (docs / name).write_text(text, encoding="utf-8")


def write_tables(docs: Path) -> None:
    """Bring the tables of rooms, error codes and findings up to what is declared."""
    declared = read_rooms()
    rooms = ["| room | what it is for |", "|---|---|"]
    for feature in (room.feature for room in declared if room.feature.name != "core"):
        needs = f" Needs {', '.join(feature.needs)}." if feature.needs else ""
        page = feature.page.removeprefix("docs/")
        rooms.append(f"| [{feature.name}]({page}) | {feature.about}{needs} |")
    _replace_block(docs / "architecture.md", "rooms", rooms)
    codes = [f"- `{code}`: {text}" for code, text in read_errors().items()]
    _replace_block(docs / "errors.md", "codes", codes)
    for severity in ("error", "warning", "info"):
        rows = ["| code | means | what to do |", "|---|---|---|"]
        rows += [
            f"| `{code}` | {meaning} | {repair} |"
            for code, (graded, meaning, repair) in read_findings().items()
            if graded == severity
        ]
        _replace_block(docs / "verify.md", severity, rows)
    for room in declared:
        for fill in room.feature.fills:
            if fill.point == "page_rows":
                path = docs / room.feature.page.removeprefix("docs/")
                _replace_block(path, fill.name, load(f"{room.package}.{fill.run}")())


def _replace_block(path: Path, name: str, rows: Iterable[str]) -> None:
    """Write the lines between the two comments that name a block of a page."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(f"<!-- {name}: written by `make docs` -->\n")
    after = rest[rest.index(f"<!-- end of {name} -->") :]
    path.write_text(before + begin + "".join(f"{row}\n" for row in rows) + after, encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]) / "schemas")
    write_event_rows(Path(sys.argv[1]))
    write_tables(Path(sys.argv[1]))
