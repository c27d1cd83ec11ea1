"""Harnesses of other installed packages, found at the point `harness` (docs/extending.md).

Whatever such a harness does costs only itself: what it raises becomes one error that names it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.cli.tables.points import FoundFill, is_own, list_fills, load, run_briefly
from specify_cli.errors import EnvironmentFault
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import HookInput

if TYPE_CHECKING:
    from collections.abc import Iterator


def find_foreign(harness: str) -> Dialect:
    """Return a harness that another package brings; for an unknown name one that has only what
    programs share.

    Raises EnvironmentFault ROOM_FAILED.
    """
    for fill in list_foreign():
        if fill.name == harness:
            return load_foreign(fill)
    return Dialect(harness, {})


def list_foreign() -> Iterator[FoundFill]:
    """Yield the harnesses of other packages."""
    yield from (fill for fill in list_fills("harness") if not is_own(fill.run))


@contextmanager
def blame_package(what: str, run: str, passes: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise what fails of another package as its failure, but for what `passes`, which says what to
    do; what fails of ours as it is. What it prints goes to stderr: an agent may read our stdout.
    Raises EnvironmentFault ROOM_FAILED."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except BaseException as error:  # an exit, or a panic of a compiled module, too
        if is_own(run) or isinstance(error, (KeyboardInterrupt, *passes)):
            raise
        failure = f"{what}: {type(error).__name__}: {error}"
        raise EnvironmentFault(
            "ROOM_FAILED", failure[:500], "tell those who made the package, or uninstall it"
        ) from error


def call_waited(run: str, *arguments: object) -> None:
    """Call a function that an agent waits for; of another package for a few seconds. Raises what
    ours raise, EnvironmentFault ROOM_FAILED for another's."""
    if is_own(run):
        load(run)(*arguments)
        return
    with blame_package(f"{run} of another package failed", run):
        run_briefly(lambda: load(run)(*arguments))


def load_foreign(fill: FoundFill) -> Dialect:
    """Import a harness of another package. Raises EnvironmentFault ROOM_FAILED."""
    with blame_package(f"the harness {fill.name} ({fill.run}) of another package failed", fill.run):
        found = load(fill.run)
        if not isinstance(found, Dialect) or found.name != fill.name:
            kind = type(found).__name__
            raise TypeError(f"expected a Dialect named {fill.name!r}, found {kind}")
    return found


def translate_foreign(dialect: Dialect, payload: object) -> HookInput:
    """Return what a harness of another package makes of a payload. Raises EnvironmentFault
    ROOM_FAILED."""
    run = type(dialect).__module__
    with blame_package(f"the harness {dialect.name} ({run}) of another package failed", run):
        call = dialect.translate(payload)
        if not isinstance(call, HookInput):
            raise TypeError(f"expected a HookInput, found {type(call).__name__}")
    return call


def find_row_path(fill: FoundFill) -> str:
    """Return where the settings row of another package's harness is: the JSON file next to its
    module."""
    return str(sys.modules[fill.run.partition(":")[0]].__file__).removesuffix(".py") + ".json"
