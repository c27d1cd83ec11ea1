"""A release: a checkout gives an sdist, and the wheel made from the sdist is the checkout's, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path

from specify_cli import api
from support import build_into, unpack


def test_the_wheel_of_the_sdist_equals_that_of_the_checkout_and_names_its_build(
    checkout: Path, wheel_file: Path, tmp_path: Path
) -> None:
    ours, (sdist,) = wheel_file, (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        unpack(archive, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    [theirs] = build_into(unpacked, tmp_path / "theirs", "wheel")

    assert ours.name == theirs.name
    assert ours.read_bytes() == theirs.read_bytes()
    # The checkout goes on as one: a declaration that changes there is seen, and no build is named.
    compiled = checkout / "src/specify_cli/cli/tables/compiled/commands.json"
    assert json.loads(compiled.read_text())["STAMP"] is not None
    assert not (checkout / "src/specify_cli/build.txt").exists()
    # Type checkers read the names of the API there; api.py looks them up when it runs.
    with zipfile.ZipFile(ours) as wheel:
        stub = wheel.read("specify_cli/api.pyi").decode()
    assert sorted(line.rpartition(" ")[2] for line in stub.splitlines()) == dir(api)
    for _, module, _, attribute, _, name in map(str.split, stub.splitlines()):
        assert getattr(import_module(module), attribute) is getattr(api, name)
    assert not (checkout / "src/specify_cli/api.pyi").exists()

    shutil.unpack_archive(ours, tmp_path / "installed", "zip")
    asked = "from specify_cli.invocation.ends.opening import build_digest; print(build_digest())"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    named = subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True)

    assert named.stdout == (tmp_path / "installed/specify_cli/build.txt").read_text(encoding="utf-8")
