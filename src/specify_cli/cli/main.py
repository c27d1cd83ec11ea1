"""`spec-kitty`: read the command line, run one function, say what went wrong.

A command line in plain form is run by the dispatcher without loading Typer, pydantic, rich or a
YAML parser; help, completion and mistakes go to the Typer app, built from the same table.
"""

from __future__ import annotations

import gc
import json
import os
import sys

from specify_cli.cli.stored_modules import store_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from specify_cli.cli.stored_modules import StoredModules

# Whether a room answers this command line alone, as `hook`: several harnesses take an exit code for
# a refusal of the agent's own call, so nothing that goes wrong may be felt there.
_is_undisturbing = False


def script() -> NoReturn:
    """Run `main` in a process of its own: the console script.

    A command lives for some tens of milliseconds, so the collector would only walk live modules,
    and taking the interpreter apart at the end costs more than writing the record. Output is
    written unbuffered, so nothing is lost by leaving at once.

    It never returns: the process ends with the exit code.
    """
    gc.set_threshold(200_000, 20, 20)
    _fill_streams()
    modules = _ask_stored_modules()
    try:
        code = main()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if modules and "typer" not in sys.modules:
            modules.save()  # of a plain command, after its answer
    except (KeyboardInterrupt, ImportError) as error:
        if _is_undisturbing:
            os._exit(0)  # nowhere to say so: the agent goes on undisturbed
        if isinstance(error, ImportError):
            raise
        os.write(2, b"INTERRUPTED: interrupted\nnext: run the command again\n")
        code = 130
    except OSError:
        code = 1  # a stream that cannot take what Typer printed; there is nowhere to say so
    os._exit(code)


def _fill_streams() -> None:
    """Put the null device where a standard stream is closed: the next file that is opened would
    take its number, and what is told to people would be written into it.

    A closed stdin or stdout goes on to fail, since the device is opened for the other direction.
    """
    streams = (sys.stdin, os.O_WRONLY), (sys.stdout, os.O_RDONLY), (sys.stderr, os.O_WRONLY)
    for number, (stream, mode) in enumerate(streams):
        if stream is None:
            fd = os.open(os.devnull, mode)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
    if sys.stderr is None:
        sys.stderr = open(2, "w")  # a bar of progress asks it whether it is a terminal


def _ask_stored_modules() -> StoredModules | None:
    """Let imports ask the file of stored modules first; None where the system has no `pread`."""
    if not hasattr(os, "pread"):
        return None
    here = os.path.dirname(__file__)
    root = os.path.dirname(os.path.dirname(here))
    return store_modules(f"{here}/tables/compiled/modules.bin", root)


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code.

    `argv` are the words after the program's name; without it those of this process. It can be
    called many times in one process, as tests do.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.platform == "win32" and (code := _refuse_windows(words)) is not None:
        return code
    direct = _find_direct(words[0]) if words else None
    if direct is not None:
        global _is_undisturbing
        _is_undisturbing = True
        module, _, function = direct.partition(":")
        __import__(module)
        return int(getattr(sys.modules[module], function)(" ".join(words[1:])))
    from specify_cli.cli.dispatch import dispatch  # loads the table of commands

    return dispatch(words)


# What has its Windows form, by its first word.
_TRIED = (
    "do",
    "ask",
    "advise",
    "route",
    "profile-invocation",
    "invocations",
    "init",
    "setup",
    "charter",
    "profiles",
    "config",
    "hook",
    "hooks",
    "skills",
    "why",
    "report",
    "replay",
    "trail",
    "doctor",
    "show-uri",
    "schema",
    "intake",
    "import",
    "origin",
    "gate",
    "resume",
    "backtest",
    "bisect",
    "forget",
    "hold",
    "retention",
    "cold",
    "packs",
    "approve",
    "reexecute",
    "sync",
    "view",
    "mcp",
    "collector",
    "--version",
    "--help",
)


def _refuse_windows(words: list[str]) -> int | None:
    """Return the exit code of a command that is refused on Windows, where nobody has run any; None
    for one that is tried, as the user asked."""
    try:
        from doctrine.system import windows
    except ImportError as error:
        what, repair = str(error), "set SPEC_KITTY_TRY_WINDOWS=1 to try it"
    else:
        windows.prepare_console()
        if not words or words[0] in _TRIED:
            return None
        what = f"`spec-kitty {words[0]}` has no Windows form yet; these have: {', '.join(_TRIED)}"
        repair = "run it on Linux, or below WSL"
    if words[:1] == ["hook"]:
        return 0  # a harness takes another code for a refusal of its agent's own call
    value = {"error_code": "SYSTEM_UNTRIED", "message": what, "suggestion": repair}
    text = json.dumps(value) if "--json" in words else f"SYSTEM_UNTRIED: {what}\nnext: {repair}"
    os.write(2, f"{text}\n".encode())
    return 1


def _find_direct(word: str) -> str | None:
    """Return the function that answers for a first word of the command line alone; None for every
    other word.

    A hook begins here at every tool call, so nothing is loaded but one small file, and nobody asks
    whether a declaration has changed since.
    """
    try:
        with open(
            f"{os.path.dirname(__file__)}/tables/compiled/points.json", encoding="utf-8"
        ) as file:
            run: str | None = json.load(file)["DIRECT"].get(word)
    except (OSError, ValueError):
        # of a checkout where nothing was compiled yet
        from specify_cli.cli.tables.points import load_compiled

        run = load_compiled("points")["DIRECT"].get(word)
    return run
