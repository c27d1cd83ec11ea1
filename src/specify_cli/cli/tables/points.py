"""Find and call the functions that rooms put at a point.

    for fill in list_fills("after"):
        call_fill(fill, root)

It reads one compiled file. In a checkout that file is made again after a declaration has changed.
"""

from __future__ import annotations

import json
import sys

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.package_rules import read_found
from specify_cli.room import Marks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_HERE = os.path.dirname(__file__)
_FEATURES = f"{os.path.dirname(os.path.dirname(_HERE))}/features"
# So many seconds a function of another package may take where an agent or a command waits for it.
_PATIENCE = 5
_DECLARATIONS = ("core_commands.py", "params.py", "assemble.py", "../../room.py")


class FoundFill(NamedTuple):
    """What fills a point: its name, the function `module:function`, and the path that has to be
    there, if any."""

    name: str
    run: str
    marker: str


_loaded: dict[str, dict[str, Any]] = {}


def load_compiled(name: str) -> Mapping[str, Any]:
    """Return the tables of a file of `compiled/`, as they were declared when this process first
    asked.

    `name` is `commands` or `points`. In a checkout the file is made anew where a declaration is
    newer than it, so nobody has to run a command after editing one.
    """
    tables = _loaded.get(name)
    if tables is None:
        tables = _read_compiled(name)
        if tables is None or (tables["STAMP"] is not None and tables["STAMP"] != read_stamp()):
            tables = _make_anew(name)
        _loaded[name] = tables
    return tables


def _read_compiled(name: str) -> dict[str, Any] | None:
    """Return the content of a compiled file; None where it is absent or damaged."""
    try:
        with open(f"{_HERE}/compiled/{name}.json", encoding="utf-8") as file:
            tables: dict[str, Any] = json.load(file)
            return tables
    except (OSError, ValueError):
        return None


def read_stamp() -> list[list[object]]:
    """Return when each declaration of this checkout was written, in nanoseconds."""
    paths = [f"{_FEATURES}/{name}/feature.py" for name in sorted(os.listdir(_FEATURES))]
    paths += [f"{_HERE}/{name}" for name in _DECLARATIONS]
    stamp = []
    for path in paths:
        try:
            stamp.append([path.removeprefix(_FEATURES), os.stat(path).st_mtime_ns])
        except OSError:
            pass  # a folder without a declaration: it is no room
    return stamp


def _make_anew(name: str) -> dict[str, Any]:
    """Assemble the tables, write them where that is allowed, and return those of a name."""
    # reads every declaration: once after a change, in a checkout
    from specify_cli.cli.tables import assemble

    tables = assemble.compose_tables(read_stamp())
    try:
        assemble.write_tables(tables)
    except OSError:
        pass  # a folder that cannot be written: each command assembles for itself
    return dict(tables[name])


def read_tables(name: str) -> Mapping[str, Any]:
    """Return the tables `commands` or `points`, with what other installed packages bring.

    `name` is that of the file.
    """
    tables: Mapping[str, Any] | None = read_found()["tables"]
    return load_compiled(name) if tables is None else tables[name]


def list_fills(point: str) -> list[FoundFill]:
    """Return the functions that rooms put at a point, in order."""
    return [FoundFill(*row) for row in read_tables("points")["POINTS"].get(point, ())]


def read_harnesses() -> dict[str, Marks]:
    """Return how the commands of each harness are known, ours first."""
    return {name: Marks(*row) for name, row in read_tables("commands")["HARNESSES"].items()}


def call_fill(fill: FoundFill, *arguments: object) -> Any:
    """Call a function at a point. If it yields, the result is a list. If a room of another package
    fails, it is named on stderr, and the result is None.

    Raises the errors of our own rooms.
    """

    def call() -> Any:
        value = load(fill.run)(*arguments)
        return list(value) if hasattr(value, "__next__") else value

    return excuse_package(fill.run, call)


def excuse_package(run: str, work: Callable[[], Any]) -> Any:
    """Return what `work` returns. What fails in it of another package is named on stderr, and the
    result is None."""
    if is_own(run):
        return work()
    from contextlib import redirect_stdout  # for packages of others alone

    try:
        with redirect_stdout(sys.stderr):  # nothing of theirs stands among our answers
            return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an exit, or a panic of a compiled module
        text = f"warning: {run} of another package failed: {type(error).__name__}: {error}\n"
        os.write(2, text.encode("utf-8", "replace"))
        return None


def run_briefly(work: Callable[[], Any], times: int = 1) -> Any:
    """Return what `work` of another package returns. Raises what it raises, an exit or a panic as
    RuntimeError; TimeoutError where it does not end after a while, or so many `times` as long: it
    then ends with this process."""
    from threading import Thread  # for packages of others alone

    results = []
    raised = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            raised.append(error)

    running = Thread(target=run, daemon=True)
    running.start()
    running.join(_PATIENCE * times)
    if raised:
        error = raised[0]
        what = f"{type(error).__name__}: {error}"
        raise error if isinstance(error, Exception) else RuntimeError(what) from error
    if not results:
        raise TimeoutError(f"it did not end within {_PATIENCE * times} s")
    return results[0]


def is_own(run: str) -> bool:
    """Return whether a function is of spec-kitty itself.

    `run` is `module:function`. Errors of our own functions are raised, those of others only
    reported.
    """
    return run.startswith("specify_cli.")


def load(run: str) -> Any:
    """Return the function that `module:function` names. Raises ImportError where an extra is
    missing.

    `run` is as for `is_own`. The module is imported here, and at no time before.
    """
    module, _, function = run.partition(":")
    __import__(module)
    return getattr(sys.modules[module], function)
