"""docs/extending.md: the room it builds installs, works and goes; its table names every extension point."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from absent_rooms import ABSENT
from specify_cli.cli.tables.assemble import read_rooms
from specify_cli.room import POINTS, Feature
from support import environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w/.]+)`\n```\w+\n(.*?)^```", PAGE, re.M | re.S))


def test_the_room_of_the_page_works_and_goes_without_a_trace(chartered: Path, home: Path, tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / "kitty-tally" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    prefix = tmp_path / "prefix"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    [packages] = prefix.glob("lib/python3*/site-packages")
    (packages / "checkout.pth").write_text(f"{ROOT}/src\n{sysconfig.get_path('purelib')}\n")
    python = str(prefix / "bin/python")

    def pip(*argv: str) -> None:
        command = [python, "-m", "pip", "--disable-pip-version-check", "-q", *argv]
        subprocess.run(command, check=True, capture_output=True)

    def run(*argv: str) -> str:
        program = "from specify_cli.cli.main import script; script()"
        done = subprocess.run(
            [python, "-c", program, *argv], cwd=chartered, env=environment(home), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    before = run("--help")
    pip("install", "--no-index", "--no-deps", "--no-build-isolation", str(tmp_path / "kitty-tally"))
    empty = json.loads(run("doctor", "--json"))["findings"]
    invocation = json.loads(run("do", "implement WP03", "--json"))["invocation_id"]
    count = json.loads(run("tally", "--json"))
    run("invocations", "export", invocation, "--format", "csv", "-o", "rows.csv")
    pip("uninstall", "-y", "kitty-tally")

    assert "NO_RECORD_YET" in [finding["code"] for finding in empty]
    assert count == {"records": 1}
    assert (chartered / "rows.csv").read_text().startswith(f"{invocation},.kittify/")
    assert run("--help") == before


def test_the_room_of_the_page_has_at_most_forty_lines_of_code() -> None:
    lines = [line for name, text in FILES.items() if name.endswith(".py") for line in text.splitlines() if line]
    assert len(lines) <= 40


@pytest.mark.skipif(bool(ABSENT), reason="the page is of the tree with all its rooms")
def test_the_page_names_every_point_and_every_member_of_a_declaration() -> None:
    asked = {
        point
        for path in (ROOT / "src/specify_cli").rglob("*.py")
        for point in re.findall(r'list_fills\("(\w+)"\)', path.read_text(encoding="utf-8"))
    }
    filled = {fill.point for room in read_rooms() for fill in room.feature.fills}
    table = PAGE.partition("## The extension points")[2].partition("\n### ")[0]
    points = set(re.findall(r"^\| `(\w+)` \|", table, re.M))
    declaration = PAGE.partition("## The declaration")[2].partition("## The extension points")[0]

    assert points == asked | filled == POINTS
    assert [name for name in Feature._fields if f"`{name}`" not in declaration] == []
