"""Every example that a help page shows works as it stands, with an id of the reader's own for ID.

Here are those that a shell runs or that need an extra; test_bare_install.py runs all others, each in a process of a
program that was installed without extras. Where rooms were taken out of the tree, all of them are run here.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

import docs_examples
from absent_rooms import ABSENT
from docs_examples import EXAMPLES, REFUSED, Prepared, list_commands, place_ids
from support import Ran, environment, run_main


def test_each_command_has_an_example() -> None:
    assert [command.path for command in list_commands() if not command.examples and command.path != ("hook",)] == []


# Through its module: a function of the tests by its own name would have these tests ask for each room it names.
HERE = [one for one in EXAMPLES if EXAMPLES[one] or docs_examples.name_extra(one) or ABSENT]


@pytest.mark.parametrize("example", HERE)
def test_an_example_of_the_help_works(prepared: Prepared, home: Path, example: str) -> None:
    line = place_ids(prepared, example)
    if EXAMPLES[example]:
        ran = subprocess.run(
            ["sh", "-c", line], cwd=prepared.root, env=environment(home), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        done = Ran(ran.returncode, ran.stdout, ran.stderr)
    else:
        done = run_main(shlex.split(line)[1:], cwd=prepared.root, home=home)

    refused = REFUSED.get(example)
    assert (refused is None) == (done.code == 0), done.err
    assert refused is None or refused in done.err
