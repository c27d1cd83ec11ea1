"""Harnesses of other installed packages, found at the point `harness` (docs/extending.md).

Whatever such a harness does costs only itself: what it raises becomes one error that names it.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from functools import cache

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.cli.tables.points import FoundFill, is_own, list_fills, load, run_briefly
from specify_cli.errors import EnvironmentFault
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import HookInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


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


def ask_package(
    what: str,
    run: str,
    work: Callable[[], Any],
    passes: tuple[type[Exception], ...] = (),
    *,
    briefly: bool = True,
) -> Any:
    """Return what `work` returns; `briefly` of another package within a few seconds, for an agent
    waits. Raises what fails there as its failure, but for what `passes`, which says what to do;
    what fails of ours as it is. What it prints goes to stderr: an agent may read our stdout.
    Raises EnvironmentFault ROOM_FAILED."""
    if is_own(run):
        return work()
    try:
        with redirect_stdout(sys.stderr):
            return run_briefly(work) if briefly else work()
    except BaseException as error:  # an exit, or a panic of a compiled module, too
        if isinstance(error, (KeyboardInterrupt, *passes)):
            raise
        failure = f"{what}: {type(error).__name__}: {error}"
        raise EnvironmentFault(
            "ROOM_FAILED", failure[:500], "tell those who made the package, or uninstall it"
        ) from error


def call_waited(run: str, *arguments: object) -> None:
    """Call a function that an agent waits for; of another package for a few seconds. Raises what
    ours raise, EnvironmentFault ROOM_FAILED for another's."""
    ask_package(f"{run} of another package failed", run, lambda: load(run)(*arguments))


@cache  # each event of a transcript asks for it
def load_foreign(fill: FoundFill) -> Dialect:
    """Import a harness of another package. Raises EnvironmentFault ROOM_FAILED."""

    def find() -> Dialect:
        value = load(fill.run)
        if not isinstance(value, Dialect) or value.name != fill.name:
            kind = type(value).__name__
            raise TypeError(f"expected a Dialect named {fill.name!r}, found {kind}")
        return value

    what = f"the harness {fill.name} ({fill.run}) of another package failed"
    dialect: Dialect = ask_package(what, fill.run, find)
    return dialect


def translate_foreign(dialect: Dialect, payload: object, *, briefly: bool) -> HookInput:
    """Return what a harness of another package makes of a payload. Raises EnvironmentFault
    ROOM_FAILED."""

    def read() -> HookInput:
        call = dialect.translate(payload)
        if not isinstance(call, HookInput):
            raise TypeError(f"expected a HookInput, found {type(call).__name__}")
        return call

    run = type(dialect).__module__
    what = f"the harness {dialect.name} ({run}) of another package failed"
    call: HookInput = ask_package(what, run, read, briefly=briefly)
    return call


def find_row_path(fill: FoundFill) -> str:
    """Return where the settings row of another package's harness is: the JSON file next to its
    module."""
    return str(sys.modules[fill.run.partition(":")[0]].__file__).removesuffix(".py") + ".json"
