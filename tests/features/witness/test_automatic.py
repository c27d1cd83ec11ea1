"""A log that a person signed once is signed by itself from then on, behind the answers and not too often."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specify_cli.features.witness.automatic import sign_when_due
from specify_cli.libraries.processes import detached
from specify_cli.libraries.signed_log.signing import read_checkpoint
from specify_cli.trail.log.entries import open_log
from support import run_main
from trails import grow, load, make_repository, sign

HOUR = 3600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "trail")
    grow(root, random.Random(1), 2)
    return root


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that were started in a process of their own."""
    found: list[str] = []
    monkeypatch.setattr(detached, "start_detached", lambda module, _: found.append(module))
    return found


def test_a_log_that_nobody_signed_is_left_alone(root: Path, started: list[str]) -> None:
    assert not sign_when_due(str(root), time.time() + 2 * HOUR)
    assert started == []


def test_it_is_signed_once_an_hour(root: Path, started: list[str]) -> None:
    sign(root)
    now = time.time()
    said = [sign_when_due(str(root), now + after) for after in (1, HOUR - 1, HOUR + 1, HOUR + 2)]

    # The second of the last two comes an hour after the checkpoint too, but the first has just asked.
    assert said[:3] == [False, False, True]
    assert sign_when_due(str(root), time.time() + 10) is False
    assert started[:1] == ["specify_cli.features.witness.automatic"]


def test_a_command_asks_for_it_where_it_is_due(root: Path, home: Path, started: list[str]) -> None:
    sign(root)
    (log,) = open_log(load(root)).generations()
    os.utime(f"{log.path}/checkpoint", (time.time() - 2 * HOUR,) * 2)
    done = run_main(["do", "fix the login test"], cwd=root, home=home)

    assert (done.code, started) == (0, ["specify_cli.features.witness.automatic"])


def test_the_process_behind_an_answer_signs_what_was_added(root: Path) -> None:
    sign(root)
    (log,) = open_log(load(root)).generations()
    grow(root, random.Random(2), 2)
    argv = [sys.executable, "-P", "-m", "specify_cli.features.witness.automatic", str(root)]
    subprocess.run(argv, check=True, cwd="/")
    state = read_checkpoint(log)

    assert state is not None
    assert state.size == log.count_leaves()
