"""Power is cut while ext4 and XFS hold the trail: nothing that was answered is lost, and the harness can see loss.

Each cut is one of the images that a disk with a volatile cache can leave (tests/disk.py), mounted by the kernel, whose
journal is played back. Needs root, /dev/fuse, loop devices and mkfs; without them these tests skip and say so.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from disk import Event
from power import MISSING, SYSTEMS, Work, do_work
from specify_cli.errors import InvocationError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.signed_log.signing import make_checkpoint, read_checkpoint
from specify_cli.trail.log.entries import open_log
from support import FULL
from trails import RECORDS, codes, grow, load, make_repository, verify

CUTS = 200 if FULL else 4
RUNS = 9
pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(bool(MISSING), reason=f"power cannot be cut here without {', '.join(MISSING)}"),
]
WORK = """
    import json, os, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[3])
    if sys.argv[4] == "unsynced":
        os.fsync = os.fdatasync = lambda fd: None
    from disk import write_mark
    from specify_cli.invocation.executor import ProfileInvocationExecutor
    from specify_cli.libraries.signed_log.signing import make_checkpoint
    from trails import load
    root, folder = Path(sys.argv[1]), Path(sys.argv[2])
    executor = ProfileInvocationExecutor(root)
    def say(kind, what):
        write_mark(folder, json.dumps([kind, what]).encode())
    for number in range(int(sys.argv[5])):
        made = executor.invoke("fix the login test").invocation_id
        say("start", made)
        executor.record(made, [("step_completed", {"step": "look", "ordinal": 1})])
        say("step", made)
        if number % 3:
            executor.complete(made)
            say("close", made)
        if number % 3 == 2:
            say("signed", make_checkpoint(load(root)).size)
"""


def _work(folder: Path, system: str, mode: str = "synced") -> Work:
    """Do some work on a file system whose disk remembers."""

    def prepare(root: Path) -> None:
        grow(make_repository(root), random.Random(2), 2)

    return do_work(folder, system, prepare, WORK, mode, str(RUNS))


def _answered(events: list[Event]) -> list[tuple[str, object]]:
    return [tuple(json.loads(event.data)) for event in events if event.kind == "m"]


def _find_losses(root: Path, answered: list[tuple[str, object]]) -> list[str]:
    """Return what was answered and is not there after a power cut; what is there heals with the next command."""
    try:
        logs = open_log(load(root)).generations()
        leaves = {(leaf.kind, leaf.invocation_id) for log in logs for leaf in log.read_leaves()}
        records = {path.name[-32:-6]: path.read_bytes() for path in (root / RECORDS).glob("*.jsonl")}
    except (OSError, ValueError, InvocationError) as error:
        return [f"unreadable: {error}"]
    lost = []
    for kind, what in answered:
        data = records.get(str(what), b"")
        if kind in ("start", "close") and (kind, what) not in leaves:
            lost.append(f"leaf {kind} {what}")
        if kind == "signed" and all((read_checkpoint(log) or (0, 0))[1] < int(str(what)) for log in logs):
            lost.append(f"checkpoint {what}")
        wanted = {"start": b'"retrieval_response"', "step": b'"step_completed"', "close": b'"completed"'}.get(kind)
        if wanted is not None and wanted not in data:
            lost.append(f"{kind} of {what}")
    return lost


def _heal(root: Path) -> set[str]:
    """Go on as a user would; return what verify then finds wrong."""
    executor = ProfileInvocationExecutor(root)
    executor.invoke("fix the next test")
    for path in (root / RECORDS).glob("*.jsonl"):
        executor.complete(path.name[-32:-6]) if b'"event":"completed"' not in path.read_bytes() else None
    make_checkpoint(load(root))
    return codes(verify(root))


def _cut(work: Work, folder: Path, dice: random.Random, *, flushes: bool = True) -> tuple[list[str], set[str]]:
    """Cut the power at a random moment of the work; return what was lost, and what is found after going on."""
    after = work.cut(folder, dice, flushes=flushes)
    try:
        with work.mounted(folder) as root:
            lost = _find_losses(root, _answered(work.events[:after]))
            return lost, set() if lost else _heal(root)
    except (OSError, InvocationError) as error:
        return [f"unusable: {error}"], set()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_power_cut_takes_nothing_that_was_answered(tmp_path: Path, system: str) -> None:
    work = _work(tmp_path, system)
    dice = random.Random(system)
    for number in range(CUTS):
        lost, found = _cut(work, tmp_path, dice)
        assert (lost, found) == ([], set()), number
    answered = _answered(work.events)
    writes = sum(event.kind == "w" for event in work.events)
    flushes = sum(event.kind == "f" for event in work.events)
    print(f"{system}: {CUTS} cuts in {writes} writes and {flushes} flushes, {len(answered)} answers, nothing lost")

    assert len(answered) == RUNS * 2 + 6 + 3


@pytest.mark.parametrize("system", ["ext4, data=ordered", "xfs"])
@pytest.mark.parametrize("control", ["unsynced", "a disk that ignores flushes"])
def test_the_harness_sees_loss_where_there_is_some(tmp_path: Path, system: str, control: str) -> None:
    work = _work(tmp_path, system, control)
    dice = random.Random(control)
    cuts = max(CUTS // 4, 8)
    losses = sum(bool(_cut(work, tmp_path, dice, flushes=control == "unsynced")[0]) for _ in range(cuts))
    print(f"{system}, {control}: loss seen in {losses} of {cuts} cuts")

    assert losses > 0
