"""What the tests share: the command line's result, a clean environment, git, and a charter."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from doctrine.git import git_directory
from specify_cli.project.config import stated_protections
from specify_cli.project.protection import write_accepted

CHARTER = """# Charter

## Policy Summary
- Every change comes with a test that fails without it.

## Testing
Run `pytest -q` before handing over.
"""


class Ran(NamedTuple):
    """One run of the command line."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def error(self) -> Any:
        return json.loads(self.err)


Cli = Callable[..., Ran]


def environment(home: Path, *, measured: bool = True) -> dict[str, str]:
    """A minimal environment whose home is a folder of the test's; a coverage run goes on in children.

    A child that may not write files cannot be measured and says so with `measured=False`.
    """
    return {
        **{name: value for name, value in os.environ.items() if measured and name.startswith("COVERAGE_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "USER": "tester",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "Tester",
        "GIT_AUTHOR_EMAIL": "tester@example.org",
        "GIT_COMMITTER_NAME": "Tester",
        "GIT_COMMITTER_EMAIL": "tester@example.org",
    }


def git(folder: Path, *argv: str, home: Path | None = None) -> str:
    """Run git in a folder and give its output."""
    env = environment(home or folder)
    done = subprocess.run(["git", *argv], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {argv}: {done.stdout}{done.stderr}"
    return done.stdout


def accept(root: Path) -> None:
    """Accept the project's config as a person would with `spec-kitty config accept`."""
    write_accepted(str(git_directory(str(root))), "", stated_protections(str(root)))


class Paired(NamedTuple):
    """Medians in milliseconds of two things measured alternately, and the median of their ratios."""

    ours: float
    reference: float
    ratio: float


def cpu_of(argv: Sequence[str], cwd: Path, home: Path) -> float:
    """User and system CPU of one process and its children, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(argv), cwd=cwd, env=environment(home), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def paired(ours: Callable[[], float], reference: Callable[[], float], rounds: int) -> Paired:
    """Measure both in turn."""
    ours(), reference()
    pairs = [(ours(), reference()) for _ in range(rounds)]
    ratio = statistics.median(one / other for one, other in pairs)
    return Paired(statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs), ratio)
