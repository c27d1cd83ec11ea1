"""`spec-kitty`: read the command line, run one function, say what went wrong.

A command line in plain form is run by the dispatcher without loading Typer, pydantic, rich or a YAML
parser; help, completion and mistakes go to the Typer app, built from the same table.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


_COMPLETION = "_SPEC_KITTY_COMPLETE"


def script() -> NoReturn:
    """Run `main` in a process of its own: the console script.

    A command lives for some tens of milliseconds, so the collector would only walk live modules, and taking
    the interpreter apart at the end costs more than writing the record. Output is written unbuffered, so
    nothing is lost by leaving at once.
    """
    gc.set_threshold(200_000, 20, 20)
    try:
        code = main()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except KeyboardInterrupt:
        if sys.argv[1:2] == ["hook"]:
            os._exit(0)
        os.write(2, b"INTERRUPTED: interrupted\nnext: run the command again\n")
        code = 130
    except OSError:
        code = 1  # a stream that cannot take what Typer printed; there is nowhere to say so
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command line and give its exit code (design §9)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        from specify_cli import VERSION
        from specify_cli.cli.output import write_text

        write_text(f"spec-kitty {VERSION}")
        return 0
    if words[:1] == ["hook"]:
        # Several harnesses take exit 2, the code of a usage error, for a refusal of the agent's own call.
        return _run_hook(" ".join(words[1:]))
    asked = os.environ.get(_COMPLETION)
    if asked is not None:
        from specify_cli.cli.completion import SHELLS, complete

        if asked in SHELLS:
            return _complete(complete, asked)
    from specify_cli.cli.table import parse_plain

    plain = None if asked is not None else parse_plain(words)
    if plain is not None:
        from specify_cli.cli.run import run

        return run(*plain)
    from specify_cli.cli.app import run_typer

    return run_typer(words)


def _complete(complete: Callable[[str], int], asked: str) -> int:
    """Answer a Tab; what cannot be read is no reason to write into the line a person is typing."""
    from specify_cli.errors import InvocationError

    try:
        return complete(asked)
    except (InvocationError, OSError):
        return 1


def _run_hook(words: str) -> int:
    """Run a harness's hook: no table, no Typer, and no failure the agent could feel."""
    harness, _, source = words.partition(" ")
    try:
        if harness == "-h" or words.endswith("-help"):
            from specify_cli.cli.commands.project.hooks import explain_hook

            return explain_hook()
        if os.isatty(0):
            from specify_cli.cli.commands.project.hooks import refuse_person

            return refuse_person(words)
        from specify_cli import durable
        from specify_cli.hooks.handler import LOCK_WAIT_SECONDS, MAX_INPUT, run_hook

        durable.LOCK_WAIT_SECONDS = LOCK_WAIT_SECONDS
        data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_INPUT + 1)
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = "/"  # it is gone; the payload may name another
        home = os.path.expanduser("~")
        project = os.environ.get("CLAUDE_PROJECT_DIR")
        run_hook(harness, data, cwd, home if os.path.isabs(home) else None, project, source)
    except (OSError, ImportError, KeyboardInterrupt):
        pass  # nowhere to say so: the agent goes on undisturbed
    return 0
