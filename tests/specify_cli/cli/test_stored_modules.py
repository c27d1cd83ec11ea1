"""Modules of everyday commands come from one file, and always as their sources have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import specify_cli.cli
from support import FULL, SPEC_KITTY, environment

HAS_PREAD = hasattr(os, "pread")
pytestmark = pytest.mark.skipif(not HAS_PREAD, reason="this system cannot read at a place of an open file")

# Imports modules of a package below another root, and says how each was loaded and what it holds.
PROGRAM = """
import inspect, json, sys
from specify_cli.cli.stored_modules import store_modules
root, path, *names = sys.argv[1:]
modules = store_modules(path, root)
sys.path.insert(0, root)
rows = {}
for name in names:
    module = __import__(name, fromlist=["VALUE"])
    loader = type(module.__loader__).__name__
    rows[name] = [loader, module.VALUE, module.__file__, inspect.getsource(module)]
modules.save()
print(json.dumps(rows))
"""


class Project:
    """A folder with a package `charter` of one module, and a file for stored modules."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "sources"
        self.file = folder / "modules.bin"
        self.part = self.root / "charter/part.py"
        self.part.parent.mkdir(parents=True)
        (self.root / "charter/__init__.py").write_text("VALUE = 'package'\n")
        self.part.write_text("VALUE = 'first'\n")
        self.file.touch()

    def load(self, *names: str, flags: tuple[str, ...] = ()) -> dict[str, list[str]]:
        """Import modules in a process of their own: {name: [loader, VALUE, file, source]}."""
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        argv = [sys.executable, *flags, "-c", PROGRAM, str(self.root), str(self.file)]
        result = subprocess.run([*argv, *(names or ("charter.part",))], env=env, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        rows: dict[str, list[str]] = json.loads(result.stdout)
        return rows

    def values(self, *flags: str) -> list[str]:
        """Import the one module: how it was loaded, and its value."""
        return self.load(flags=flags)["charter.part"][:2]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_next_process_takes_from_the_file_what_python_loaded(project: Project) -> None:
    first = project.load("charter", "charter.part")
    second = project.load("charter", "charter.part")

    assert [row[0] for row in first.values()] == ["SourceFileLoader", "SourceFileLoader"]
    assert [row[0] for row in second.values()] == ["_Loader", "_Loader"]
    assert [row[1:] for row in second.values()] == [row[1:] for row in first.values()]


def test_a_source_that_was_changed_is_loaded_and_stored_anew(project: Project) -> None:
    project.load()
    before = project.part.stat()
    project.part.write_text("VALUE = 'other'\n")
    # Python's own compiled files tell seconds apart.
    os.utime(project.part, ns=(before.st_atime_ns, before.st_mtime_ns + 2_000_000_000))

    assert project.values() == ["SourceFileLoader", "other"]
    assert project.values() == ["_Loader", "other"]


def test_a_module_that_is_gone_is_gone(project: Project) -> None:
    project.load()
    project.part.unlink()

    with pytest.raises(AssertionError, match="ModuleNotFoundError"):
        project.load()


@pytest.mark.stress
@pytest.mark.parametrize("part", range(0, 12, 1 if FULL else 3))
def test_a_damaged_file_costs_time_and_nothing_else(project: Project, part: int) -> None:
    project.load("charter", "charter.part")
    stored = project.file.read_bytes()
    place = len(stored) * part // 12
    for damaged in (
        stored[:place],
        stored[:place] + bytes(len(stored) - place),
        stored[:place] + b"\xff" * (len(stored) - place),
    ):
        project.file.write_bytes(damaged)

        assert project.values()[1] == "first"
    project.file.write_bytes(stored[:place])
    project.load()

    assert project.values() == ["_Loader", "first"]


def test_what_another_python_or_folder_stored_is_not_taken(project: Project, tmp_path: Path) -> None:
    project.load()
    moved = Project(tmp_path / "moved")
    moved.file.write_bytes(project.file.read_bytes())

    assert project.values("-O") == ["SourceFileLoader", "first"]
    assert moved.values() == ["SourceFileLoader", "first"]
    assert moved.load()["charter.part"][2] == str(moved.part)


def test_nothing_is_written_where_python_writes_no_compiled_files(project: Project) -> None:
    assert project.values("-B") == ["SourceFileLoader", "first"]
    assert project.file.read_bytes() == b""


def test_where_there_is_no_file_none_is_made(project: Project) -> None:
    project.file.unlink()

    assert project.values() == ["SourceFileLoader", "first"]
    assert not project.file.exists()


def test_what_other_packages_bring_is_not_stored(project: Project) -> None:
    (project.root / "charter_of_others.py").write_text("VALUE = 'others'\n")

    for _ in range(2):
        rows = project.load("charter_of_others", "charter.part")
        assert rows["charter_of_others"][:2] == ["SourceFileLoader", "others"]


def test_the_list_of_modules_may_be_long(project: Project) -> None:
    names = [f"charter.{'long_' * 40}{number}" for number in range(400)]
    for name in names:
        (project.root / f"{name.replace('.', '/')}.py").write_text(f"VALUE = {name[-3:]!r}\n")
    project.load(*names)
    rows = project.load(*names)

    assert {row[0] for row in rows.values()} == {"_Loader"}
    assert [row[1] for row in rows.values()] == [name[-3:] for name in names]


def test_a_plain_command_takes_its_modules_from_the_file(tmp_path: Path, home: Path) -> None:
    """Other tests store modules at the same time, and the last to write counts: so it may take a few."""
    stored = Path(specify_cli.cli.__file__).parent / "tables/compiled/modules.bin"
    if not stored.exists():
        pytest.skip(f"{stored} is not there: this package was not installed by a build")
    env = {**environment(home), "PYTHONVERBOSE": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    argv = [SPEC_KITTY, "route", "fix the login test", "--json"]
    for _ in range(20):
        result = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
        if "import 'specify_cli.routing.router' # <specify_cli.cli.stored_modules._Loader" in result.stderr:
            break
    else:
        pytest.fail("no command of twenty took its modules from the file")

    assert json.loads(result.stdout)["action"] == "implement"
