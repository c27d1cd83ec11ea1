"""Take a room out and see that nothing else breaks: `python tests/rooms.py [ROOM…]`, all of them without one.

In a copy of the tree without the room, its tests and the rooms that need it: lint and types are clean, all other tests
pass, and no help, schema or completion names it. `--quick` runs what stands in `QUICK` instead of all tests,
`--names` imports what is left and looks at its names alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from specify_cli.cli.tables.assemble import Room, read_rooms

ROOT = Path(__file__).parents[1]
# What a quick run asks for: the record, the router, the store, and that every command line parses and explains itself.
QUICK = (
    "tests/specify_cli/record",
    "tests/specify_cli/cli/test_dispatch.py",
    "tests/specify_cli/storage/test_store.py",
)


def find_dependents(rooms: list[Room], name: str) -> list[str]:
    """Return a room and the rooms that cannot be there without it."""
    gone = {name}
    while more := {room.feature.name for room in rooms if gone & set(room.feature.needs)} - gone:
        gone |= more
    return sorted(gone)


def describe_absence(rooms: list[Room], gone: list[str]) -> dict[str, list[Any]]:
    """Return what tests may not use in a tree without these rooms: commands, options, commands that lost options
    and which, and codes of errors and findings."""
    absent = [room for room in rooms if room.feature.name in gone]
    commands = [" ".join(command.path) for room in absent for command in room.feature.commands]
    forms = [form for room in absent for form in room.feature.forms]
    kept = {
        param.option
        for room in rooms
        if room.feature.name not in gone
        for params in (*(one.params for one in room.feature.commands), *(one.params for one in room.feature.forms))
        for param in params
    }
    options = {param.option for form in forms for param in form.params} - kept
    values = {by.partition("=")[2] for form in forms for by in form.by if "=" in by}
    return {
        "rooms": gone,
        "commands": commands + [word for room in absent for word in room.feature.direct],
        "options": sorted(options | values),
        "extended": sorted({" ".join(form.path) for form in forms}),
        "pairs": sorted({(form.path[-1], param.option) for form in forms for param in form.params if param.option}),
        "codes": sorted({code for room in absent for code in (*room.feature.errors, *name_findings(room))}),
        "api": [fill.name for room in absent for fill in room.feature.fills if fill.point == "api"],
    }


def name_findings(room: Room) -> list[str]:
    """Return the codes of the findings that a room declares."""
    if not room.feature.findings:
        return []
    return list(importlib.import_module(f"{room.package}.{room.feature.findings}").FINDINGS)


def copy_without(gone: list[str], folder: Path, *tops: str) -> None:
    """Copy what git knows of this checkout, or of folders of it, without the rooms and their tests."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard", *tops], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    left_out = tuple(f"{parent}/{name}/" for name in gone for parent in ("src/specify_cli/features", "tests/features"))
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(left_out):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
            if name.endswith(".py"):
                copy_bytecode(ROOT / name, target)
    shutil.copy2(ROOT / "src/doctrine/compiled.json", folder / "src/doctrine/compiled.json")
    # Tests of a checkout ask git about it.
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)


def copy_bytecode(source: Path, copy: Path) -> None:
    """Give a copy of a module its bytecode, which holds for a source of the same size and time, wherever that lies."""
    bytecode = importlib.util.cache_from_source(str(source))
    if os.path.exists(bytecode):
        shutil.copystat(source, copy)
        (copy.parent / "__pycache__").mkdir(exist_ok=True)
        shutil.copy2(bytecode, copy.parent / "__pycache__")


def make_environment(folder: Path) -> Path:
    """Make a virtual environment whose packages are this one's, with the copy in place of this checkout."""
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python3*/site-packages")
    (packages / "copy.pth").write_text(f"{folder}/src\n{sysconfig.get_path('purelib')}\n")
    script = environment / "bin/spec-kitty"
    script.write_text(
        f"#!{environment}/bin/python\nimport sys\nfrom specify_cli.cli.main import script\nsys.exit(script())\n"
    )
    script.chmod(0o755)
    return environment / "bin/python"


def run_tests(absence: dict[str, list[str]], folder: Path, size: str) -> list[str]:
    """Return the names of the checks that fail in a copy without these rooms; their output goes to this process's."""
    environment = {**os.environ, "SPEC_KITTY_WITHOUT": json.dumps(absence)}
    tools = Path(sys.executable).parent
    checks = {"lint": [str(tools / "ruff"), "check", "-q", "src"]}
    if size != "names":
        python = str(make_environment(folder))
        checks["names"] = [python, "-c", NAMES]
    if size == "whole":
        checks["types"] = [python, "-m", "mypy", "src"]
        checks["tests"] = [python, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "--assert=plain"]
    elif size == "quick":
        checks["tests"] = [python, "-m", "pytest", "-q", "-x", "--assert=plain", *QUICK]
    return [
        name
        for name, command in checks.items()
        if subprocess.run(command, cwd=folder, env=environment, check=False).returncode not in (0, 5)
    ]


def check_names(absences: dict[str, dict[str, list[str]]]) -> list[str]:
    """Return the folders of which a module cannot be imported or a name of an absent room is left.

    The packages of others take most of the time: for several folders one process imports them once, with this checkout,
    which it forgets before it begins a process of its own for each.
    """
    asked = [sys.executable, "-c", LOADED, NAMES]
    done = subprocess.run(asked, input=json.dumps(absences), stdout=subprocess.PIPE, text=True, check=True)
    return list(json.loads(done.stdout))


LOADED = """
import gc, importlib, json, os, pkgutil, sys, traceback
gc.set_threshold(200_000, 20, 20)
import specify_cli, charter, doctrine
ours = (specify_cli, charter, doctrine)
sources = {os.path.dirname(os.path.dirname(package.__file__)) for package in ours}
absences = json.load(sys.stdin)
for module in pkgutil.walk_packages(specify_cli.__path__, "specify_cli.") if len(absences) > 1 else ():
    importlib.import_module(module.name)
names = [package.__name__ for package in ours]
for name in [name for name in sys.modules if name.partition(".")[0] in names]:
    del sys.modules[name]
gc.freeze()
failed = []
for folder, absence in absences.items():
    child = os.fork()
    if not child:
        code = 1
        try:
            sys.path[:] = [f"{folder}/src", *(path for path in sys.path if path not in sources)]
            importlib.invalidate_caches()
            os.environ["SPEC_KITTY_WITHOUT"] = json.dumps(absence)
            os.chdir(folder)
            exec(sys.argv[1])
            assert specify_cli.__file__.startswith(folder), specify_cli.__file__
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        failed.append(folder)
print(json.dumps(failed))
"""
# Imports everything that is left, and looks for a room's commands and schemas in what the command line says of itself.
NAMES = """
import importlib, json, os, pkgutil, sys
import specify_cli
from specify_cli.cli.completion import find_items
from specify_cli.cli.schemas.shapes import read_shapes
from specify_cli.cli.tables.command_table import list_commands
for module in pkgutil.walk_packages(specify_cli.__path__, "specify_cli."):
    importlib.import_module(module.name)
absence = json.loads(os.environ["SPEC_KITTY_WITHOUT"])
here = {" ".join(command.path) for command in list_commands()}
offered = {item for item, _ in find_items([], "")}
assert not here & set(absence["commands"]), here & set(absence["commands"])
assert not offered & {name for name in absence["commands"] if " " not in name}, offered
options = {param.option for command in list_commands() for param in command.params}
assert not options & set(absence["options"]), options & set(absence["options"])
assert read_shapes()
"""


def main() -> int:
    """Take out each room that is named, or every one; return 1 where something else breaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", dest="size", action="store_const", const="quick", default="whole")
    sizes.add_argument("--names", dest="size", action="store_const", const="names")
    options = parser.parse_args()
    rooms = read_rooms()
    names = options.rooms or [room.feature.name for room in rooms if room.feature.name != "core"]
    failures: dict[str, list[str]] = {}
    with ExitStack() as stack:
        absences = {}
        for name in names:
            gone = find_dependents(rooms, name)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rooms-"))
            copy_without(gone, Path(folder), *(("src", "pyproject.toml") if options.size == "names" else ()))
            print(f"=== without {', '.join(gone)}", flush=True)
            absence = describe_absence(rooms, gone)
            failures[name] = run_tests(absence, Path(folder), options.size)
            if options.size == "names":
                absences[folder] = (name, absence)
            else:
                stack.close()
        for folder in check_names({folder: absence for folder, (_, absence) in absences.items()}) if absences else ():
            failures[absences[folder][0]].append("names")
    for name, failed in failures.items():
        if failed:
            print(f"without {name}: {', '.join(failed)} failed")
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
