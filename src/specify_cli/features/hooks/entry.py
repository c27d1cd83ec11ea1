"""`spec-kitty hook`: what a harness calls."""

from __future__ import annotations

import os
import sys

from specify_cli import durable
from specify_cli.features.hooks.handler import LOCK_WAIT_SECONDS, MAX_INPUT, run_hook


def run_hook_command(words: str) -> int:
    """Run a harness's hook: no table, no Typer, and no failure the agent could feel."""
    harness, _, source = words.partition(" ")
    try:
        asks = harness == "-h" or words.endswith("-help")
        if asks or os.isatty(0):
            from specify_cli.features.hooks import commands as hooks  # for a person: no harness asks

            return hooks.explain_hook() if asks else hooks.refuse_person(words)
        durable.LOCK_WAIT_SECONDS = LOCK_WAIT_SECONDS
        durable.IN_BACKGROUND = True  # what is done behind an append is nothing that the agent waits for
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
