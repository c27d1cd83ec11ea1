"""What docs/trail.md tells a sceptical auditor to type works on a machine without spec-kitty, and sees a forgery."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import environment, run_main
from trails import RECORDS, grow, make_repository

PAGE = (Path(__file__).parents[2] / "docs/trail.md").read_text(encoding="utf-8")
STEPS = re.findall(r"```bash\n(.*?)```", PAGE[PAGE.index("## Check it without") :], re.S)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """The auditor's folder: a proof, the record and the key, and no spec-kitty."""
    root = make_repository(tmp_path / "trail")
    home = tmp_path / "home"
    home.mkdir()
    ids = grow(root, random.Random(7), 9)
    run_main(["profile-invocation", "complete", "--invocation-id", ids[3]], cwd=root, home=home)
    desk = tmp_path / "desk"
    desk.mkdir()
    signed = run_main(["trail", "checkpoint", "--json"], cwd=root, home=home).json()
    (desk / "key").write_text(signed["keys"][0], encoding="utf-8")
    (desk / "record.tlog-proof").write_text(run_main(["trail", "proof", ids[3]], cwd=root, home=home).out)
    (path,) = (root / RECORDS).glob(f"*{ids[3]}.jsonl")
    shutil.copy(path, desk / "record.jsonl")
    return desk


def _audit(desk: Path) -> str:
    (desk / "audit.sh").write_text("\n".join(STEPS), encoding="utf-8")
    env = {**environment(desk), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(["bash", "audit.sh"], cwd=desk, env=env, capture_output=True, text=True, check=False)
    return done.stdout


def test_the_steps_of_an_auditor_hold(desk: Path) -> None:
    assert _audit(desk).split("\n")[:3] == ["seal holds", "the record is in the log", "Signature Verified Successfully"]


@pytest.mark.parametrize(
    ("file", "old", "new", "gone"),
    [
        ("record.jsonl", b'"event":"completed"', b'"event":"Completed"', "seal holds"),
        ("record.tlog-proof", b"index ", b"index 1", "the record is in the log"),
        ("record.tlog-proof", b"\nspec-kitty/", b"\nSpec-kitty/", "Signature Verified Successfully"),
    ],
)
def test_a_forgery_fails_its_step(desk: Path, file: str, old: bytes, new: bytes, gone: str) -> None:
    path = desk / file
    path.write_bytes(path.read_bytes().replace(old, new, 1))

    assert gone not in _audit(desk)
