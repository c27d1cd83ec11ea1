"""A release: a checkout gives an sdist, and the wheel made from the sdist is the checkout's, byte for byte."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from support import unpack

ROOT = Path(__file__).parents[2]
SKIPPED = (".git", ".venv*", "dist", "build", "node_modules", "__pycache__", ".hypothesis", ".*_cache", ".benchmarks",
           "compiled.json", "build.txt")  # fmt: skip


def build(folder: Path, kind: str, out: Path) -> Path:
    """Build the sdist or wheel of a source tree as a build front end does, and return its file."""
    argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


def test_the_wheel_of_the_sdist_equals_the_wheel_of_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*SKIPPED))
    sdist = build(checkout, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        unpack(archive, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    ours = build(checkout, "wheel", tmp_path / "ours")
    theirs = build(unpacked, "wheel", tmp_path / "theirs")

    assert ours.name == theirs.name
    assert ours.read_bytes() == theirs.read_bytes()
    # The checkout goes on as one: a declaration that changes there is seen, and no build is named.
    compiled = checkout / "src/specify_cli/cli/tables/compiled/commands.json"
    assert json.loads(compiled.read_text())["STAMP"] is not None
    assert not (checkout / "src/specify_cli/build.txt").exists()
