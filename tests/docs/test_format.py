"""docs/format.md says what the code does: its checked line seals, its tables name what is written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from declared import write_event_rows
from specify_cli.record.event_models import class_name
from specify_cli.record.event_table import EVENTS
from specify_cli.record.seal import MAX_LINE, open_line
from specify_cli.storage.store import SETTLED_SECONDS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


def _json_lines() -> list[str]:
    blocks = re.findall(r"```json\n(.*?)```", DOCUMENT, flags=re.S)
    return [line for block in blocks for line in block.splitlines()]


def test_every_line_in_the_document_is_whole() -> None:
    assert [open_line(line.encode()).problems for line in _json_lines()] == [()]


def test_the_tables_of_events_are_those_of_the_code(tmp_path: Path) -> None:
    """`make docs` writes them."""
    folder = Path(__file__).parents[2] / "docs"
    for name in ("format.md", "api.md"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    write_event_rows(tmp_path)
    rows = (tmp_path / "api.md").read_text("utf-8") + (tmp_path / "format.md").read_text("utf-8")

    assert [name for name in EVENTS if f"| `{name}` | {EVENTS[name].known_as} |" not in rows] == []
    assert [name for name in EVENTS if class_name(name) != name.title().replace("_", "")] == []
    for name in ("format.md", "api.md"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_shell_command_of_the_document_gives_the_seal(tmp_path: Path) -> None:
    (tmp_path / "line").write_text(_json_lines()[0] + "\n", encoding="utf-8")

    command = "head -c -73 line | sha256sum"
    shown = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert command in DOCUMENT
    assert shown.split()[0] == open_line(_json_lines()[0].encode()).seal


def test_the_limits_in_the_document_are_the_limits_of_the_code() -> None:
    assert f"{MAX_LINE:,} bytes" in DOCUMENT
    assert f"younger than {SETTLED_SECONDS:g} s" in DOCUMENT
