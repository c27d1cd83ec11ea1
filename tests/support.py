"""What the tests share: the command line's result, a clean environment, git, and a charter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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


def environment(home: Path) -> dict[str, str]:
    """A minimal environment whose home is a folder of the test's."""
    return {
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
