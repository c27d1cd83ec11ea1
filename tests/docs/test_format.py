"""docs/format.md says what the code does: its checked line seals, its tables name what is written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from specify_cli.record.seal import MAX_LINE, open_line
from specify_cli.storage.store import SETTLED_SECONDS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


def _json_lines() -> list[str]:
    blocks = re.findall(r"```json\n(.*?)```", DOCUMENT, flags=re.S)
    return [line for block in blocks for line in block.splitlines()]


def test_every_line_in_the_document_is_whole() -> None:
    assert [open_line(line.encode()).problems for line in _json_lines()] == [()]


def test_the_shell_command_of_the_document_gives_the_seal(tmp_path: Path) -> None:
    (tmp_path / "line").write_text(_json_lines()[0] + "\n", encoding="utf-8")

    command = "head -c -73 line | sha256sum"
    shown = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert command in DOCUMENT
    assert shown.split()[0] == open_line(_json_lines()[0].encode()).seal


def test_the_limits_in_the_document_are_the_limits_of_the_code() -> None:
    assert f"{MAX_LINE:,} bytes" in DOCUMENT
    assert f"younger than {SETTLED_SECONDS:g} s" in DOCUMENT
