"""The recorded runs: each verifies as it did, folds to the state it had, and replays exactly without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from histories.programs import PROGRAMS
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.event_models import parse_event
from specify_cli.record.record import split_lines
from specify_cli.record.state import StateFold
from specify_cli.storage.checking import verify_all
from support import environment, git

HERE = Path(__file__).parent
# What verify says of each; the others are intact.
FINDINGS = {"crashed": ["TORN_TAIL"]}
# The name of a run, how many of its steps completed, what its retrievals are.
STEPS = {"agent-loop": 4, "crashed": 1, "resumed": 3, "policy-drift": 0, "three-checkpoints": 0}
REPLAY = """
import sys
def deny(event, args):
    if event.startswith("socket."):
        raise RuntimeError("the network was asked for: " + event)
sys.addaudithook(deny)
from specify_cli.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(params=sorted(PROGRAMS))
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a history as a project whose live charter, profiles and doctrine are gone."""
    folder = tmp_path / str(request.param)
    shutil.copytree(HERE / str(request.param) / ".kittify/events", folder / ".kittify/events")
    git(folder, "init", "-q")
    return folder


def lines(root: Path) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob("*.jsonl")
    for _, raw in split_lines(path.read_bytes()):
        parse_event(raw)
    return [json.loads(raw) for _, raw in split_lines(path.read_bytes())]


def test_it_verifies_as_it_did(history: Path) -> None:
    project, _ = load_project(str(history))
    found = [item.code for report in verify_all(project) for item in report.findings]

    assert found == FINDINGS.get(history.name, [])


def test_every_state_it_recorded_is_the_state_it_folds_to(history: Path) -> None:
    fold = StateFold()
    for line in lines(history):
        if line["event"] in ("checkpoint", "resumed"):
            assert fold.state().state_hash == line["state_hash"]
        fold.apply(line)

    assert len(fold.state().completed_steps) == STEPS[history.name]


def test_it_replays_exactly_from_its_objects_alone(history: Path, tmp_path: Path) -> None:
    invocation_id = lines(history)[0]["invocation_id"]
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, "replay", invocation_id, "--json"],
        cwd=history, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    report = json.loads(done.stdout)
    # A rule that the history's own program had is not registered here, and nobody says that it was asked.
    assert report["match"] is (None if report["not_reevaluated"] else True)
    assert report["findings"] == []
