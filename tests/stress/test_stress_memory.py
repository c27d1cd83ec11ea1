"""Long records: what every command that reads one needs of memory and time, whatever its length."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from specify_cli.record import layout
from support import FULL, environment

EVENTS = int(os.environ.get("EVENTS", 1_000_000))
# In megabytes, the interpreter and every library included.
MOST = 200
# The program of a long run: steps of ten calls, every tenth a model's, all of it kept whole.
PROGRAM = """
import os
from specify_cli.features.programs.run import Run

STEPS = int(os.environ["STEPS"])

def work(run: Run) -> None:
    look = run.tool("grep", side_effect="none")(lambda text, number: f"{number}: {text} " * 8)

    def search(number: int) -> int:
        for place in range(9):
            look("session expiry", place)
        run.model_call("small-1", f"what of step {number}?", call=lambda prompt: "nothing of note, go on with the next")
        return number

    for number in range(STEPS):
        run.step("search", search, number)
        if number % 100 == 99:
            run.commit(f"after-{number}")
"""
BEGIN = """
import os, sys
from specify_cli.features.programs.identity import load_program, program_digest
from specify_cli.features.programs.resume import drive
from specify_cli.features.programs.run import open_invocation
program = load_program("long_run:work")
run = open_invocation(".", "implement WP03", program=program_digest(program), capture={"llm": "full", "tool": "full"})
with run:
    drive(program, run)
    print(run.invocation_id, flush=True)
    if sys.argv[1] == "open":
        os._exit(0)
"""
STARTER = """
import os, resource, sys
status = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)[1])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss}")
sys.exit(status)
"""


class Cost(NamedTuple):
    """What one process took: seconds of CPU, megabytes at most."""

    seconds: float
    megabytes: float
    out: Path


def measure(project: Path, home: Path, *command: str) -> Cost:
    """Run a command whose output goes to a file. It has to end well."""
    out = project / "out.txt"
    # A child begins with the memory of who starts it, so a small process does.
    starter = [sys.executable, "-S", "-c", STARTER, str(project / "cost.txt"), *command]
    with out.open("wb") as file:
        done = subprocess.run(starter, cwd=project, env=variables(home), stdout=file, stderr=subprocess.PIPE)
    assert done.returncode == 0, (command, done.stderr[-2000:].decode())
    seconds, kilobytes = map(float, (project / "cost.txt").read_text().split())
    return Cost(seconds, kilobytes / 1024, out)


def variables(home: Path) -> dict[str, str]:
    # A step is 22 lines: its two, nine calls of two, and a model's; a checkpoint now and then.
    return {**environment(home), "STEPS": str(EVENTS // 21), "PYTHONPATH": "."}


def begin(project: Path, home: Path, how: str) -> str:
    began = time.monotonic()
    (project / "long_run.py").write_text(PROGRAM)
    done = measure(project, home, sys.executable, "-c", BEGIN, how)
    sys.stderr.write(f"\n{how} run written in {time.monotonic() - began:.0f} s, {done.megabytes:.0f} MB\n")
    return done.out.read_text().split()[-1]


@pytest.mark.stress
@pytest.mark.skipif(
    not FULL, reason="takes minutes; tests/specify_cli/record/reading/test_views.py asks the same of a short one"
)
def test_no_command_needs_memory_of_a_records_length(project: Path, home: Path) -> None:
    tool = str(Path(sys.executable).with_name("spec-kitty"))
    closed, unfinished = begin(project, home, "closed"), begin(project, home, "open")
    (record,) = (project / layout.RECORDS).glob(f"*{closed}*")
    commands = {
        "invocations tail": ("invocations", "tail", closed),
        "invocations show": ("invocations", "show", closed),
        "invocations show --json": ("invocations", "show", closed, "--json"),
        "invocations compare": ("invocations", "compare", closed, closed),
        "replay": ("replay", closed),
        "replay --json": ("replay", closed, "--json"),
        "invocations export": ("invocations", "export", closed, "--output", "whole.tar"),
        "invocations export --safe": ("invocations", "export", closed, "--safe", "--output", "safe.tar"),
        "resume": ("resume", unfinished, "--program", "long_run:work"),
        "reexecute": ("reexecute", closed, "--program", "long_run:work"),
    }
    lines = [f"a record of {EVENTS:,} events, {record.stat().st_size / 1e6:.0f} MB"]
    over = []
    for name, command in commands.items():
        cost = measure(project, home, tool, *command)
        lines.append(f"{name:<26} {cost.megabytes:>5.0f} MB {cost.seconds:>7.1f} s of CPU")
        sys.stderr.write(lines[-1] + "\n")
        if cost.megabytes > MOST:
            over.append(name)
    assert not over, lines
