"""Call a command's function and turn every error into a message and an exit code.

    run(*parse_plain(["invocations", "list"]))

Here is the only place where an exception of any kind ends: the library raises, and a user reads a
sentence. An error of ours that nobody expected is INTERNAL, one of another package ROOM_FAILED.
"""

from __future__ import annotations

import errno

from doctrine import os
from doctrine.git import GitNotStarted
from doctrine.light_imports import TYPE_CHECKING
from specify_cli.cli.tables.command_table import Command, choose_run
from specify_cli.cli.tables.points import is_own, load
from specify_cli.cli.terminal.output import write_error
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.room import Values

if TYPE_CHECKING:
    from typing import Any


def run(command: Command, values: Values) -> int:
    """Call a command's function; every error becomes a message and an exit code here.

    `values` are those of its params. Return what the function returned; 1 for a refusal or a fault,
    2 for wrong usage, 130 for an interruption. With SPEC_KITTY_DEBUG an unexpected error is raised.
    """
    as_json = bool(values.get("json"))

    def fail(error: InvocationError, code: int) -> int:
        from specify_cli.cli.shell import reach  # for an error only

        error.suggestion = reach(error.suggestion)
        write_error(error, as_json)
        return code

    try:
        return int(load(choose_run(command, values))(values))
    except InvocationError as error:
        return fail(error, 2 if error.code == "USAGE" else 1)
    except KeyboardInterrupt as error:
        source = _find_blamed(error) or choose_run(command, values)
        place = "" if is_own(source) else f" in {source} of another package"
        fault = EnvironmentFault("INTERRUPTED", f"interrupted{place}", "run the command again")
        return fail(fault, 130)
    except BrokenPipeError:
        # The reader took what it wanted. What was promised is on disk.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except SystemExit as error:
        blamed = _find_blamed(error)
        if blamed is None:
            raise
        return fail(blame_room(blamed, error), 1)
    except BaseException as error:  # a panic of a compiled module, too
        if os.environ.get("SPEC_KITTY_DEBUG"):
            raise
        if isinstance(error, OSError):
            return fail(explain_access(error), 1)
        missing = find_extra(error, command.path[0]) if isinstance(error, ImportError) else None
        if missing:
            return fail(missing, 1)
        blamed = _find_blamed(error) or choose_run(command, values)
        if not is_own(blamed):
            return fail(blame_room(blamed, error), 1)
        where = error.__traceback__
        while where and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_name}:{where.tb_lineno}" if where else "unknown"
        fault = EnvironmentFault(
            "INTERNAL",
            f"{type(error).__name__} in {place}: {error}",
            "run it again with SPEC_KITTY_DEBUG=1 and report what it prints",
        )
        return fail(fault, 1)


def find_extra(error: ImportError, group: str) -> EnvironmentFault | None:
    """Return the error for a package that is not installed; None where it belongs to no extra.

    Of extras that share it, the one is meant that is named like the room that imports it, or like
    the command's `group`.
    """
    # For a mistake only, and slow to load.
    from specify_cli.installation import advise_install, list_extras

    package = str(error.name)
    extras = list_extras(package)
    if not extras:
        return None
    rooms, where = [group], error.__traceback__
    while where:
        module = where.tb_frame.f_globals["__name__"]
        rooms.append(module.partition(".features.")[2].partition(".")[0])
        where = where.tb_next
    extra = next((room for room in reversed(rooms) if room in extras), extras[0])
    return EnvironmentFault(
        "EXTRA_MISSING",
        f"this needs the extra `{extra}`; {package} is not installed",
        advise_install(extra),
    )


def _find_blamed(error: BaseException) -> str | None:
    """Return the function of another package that an error came out of, or that could not be
    loaded; None where neither is so."""
    # for an error that nobody expected
    from specify_cli.cli.tables.points import read_tables

    runs = [run for fills in read_tables("points")["POINTS"].values() for _, run, _ in fills]
    packages = {run.partition(".")[0] for run in runs if not is_own(run)}
    where = error.__traceback__
    while where:
        frame, where = where.tb_frame, where.tb_next
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in packages:
            return f"{module}:{frame.f_code.co_name}"
        # A module that is missing, or is no Python, has no frame of its own.
        if frame.f_code is load.__code__ and not is_own(run := str(frame.f_locals["run"])):
            return run
    return None


def blame_room(run: str, error: BaseException) -> EnvironmentFault:
    """Return the error for a command of another package that broke.

    `run` names its function.
    """
    return EnvironmentFault(
        "ROOM_FAILED",
        f"{run} of another package failed: {type(error).__name__}: {error}",
        "report it to whoever wrote that package, or uninstall it; recording goes on without it",
    )


def call_for(kind: type, run: str, *arguments: object) -> Any:
    """Return what the function `run` at a point returns. Raises what it raises; EnvironmentFault
    ROOM_FAILED where it returns anything but a `kind`."""
    value = load(run)(*arguments)
    if not isinstance(value, kind):
        what = f"expected {kind.__name__}, found {type(value).__name__}"
        raise blame_room(run, TypeError(what))
    return value


def explain_access(error: OSError) -> EnvironmentFault:
    """Return the error for what the file system refuses on the reading side, naming what it
    refused."""
    if isinstance(error, GitNotStarted):
        why = f"git cannot be run: {error.strerror}"
        repair = "install git, or put it on PATH, then run the command again"
        return EnvironmentFault("ACCESS_FAILED", why, repair)
    what = "a file or folder" if error.filename is None else os.fsdecode(error.filename)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from specify_cli.durable import write_failed  # for a disk that is full

        return write_failed(what, error)
    from shlex import quote  # for a mistake only

    return EnvironmentFault(
        "ACCESS_FAILED",
        f"cannot read or write {what}: {error.strerror or error}",
        f"check that it is there and that you may read and write it (`ls -ld {quote(what)}`), then "
        "run the command again",
    )
