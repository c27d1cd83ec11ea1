"""docs/fleet/Containerfile: a linter finds nothing, its steps install the release by digests, what they make serves.

Where a builder of images and its base can be had, both images are built. `SPEC_KITTY_BASE` names another base:
any image with Python 3.11 or newer, its `venv` and pip, on Debian.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from postgres import free_port
from specify_cli.cli.tables.command_table import parse_plain
from support import FULL, PATIENCE, environment, git, wait_until

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs/fleet/Containerfile"
TEXT = re.sub(r"\\\n\s*", "", FILE.read_text(encoding="utf-8"))
HADOLINT = ROOT / ".venv-judges/bin/hadolint"
BUILDERS = ("podman", "buildah", "docker")


def read_stage(name: str) -> dict[str, list[str]]:
    """Return the instructions of a stage, each with its arguments in order."""
    [part] = re.findall(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM|\Z)", TEXT, flags=re.M | re.S)
    stage: dict[str, list[str]] = {}
    for line in part.splitlines():
        word, _, rest = line.partition(" ")
        if word.isupper():
            stage.setdefault(word, []).append(rest)
    return stage


def read_words(instruction: str) -> list[str]:
    """Return the words of an instruction in its JSON form."""
    words: list[str] = json.loads(instruction[instruction.index("[") :])
    return words


def test_a_linter_of_container_files_finds_nothing() -> None:
    if not HADOLINT.exists():
        pytest.skip("hadolint is not installed, so the container file was only read: make judges")
    found = subprocess.run([HADOLINT, FILE], capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_images_run_our_commands_as_nobody_special_from_a_release_pinned_by_digests() -> None:
    collector, gate = read_stage("collector"), read_stage("gate")
    installs = [line for line in TEXT.splitlines() if "pip " in line and line.startswith("RUN")]
    [compose] = [YAML(typ="safe").load(ROOT / "docs/fleet/compose.yaml")["services"]["collector-1"]]

    assert parse_plain(read_words(collector["CMD"][0])[1:]) is not None  # room: collector
    assert parse_plain([*read_words(gate["ENTRYPOINT"][0])[1:], "--base", "main"]) is not None  # room: gate
    assert [["1000"], ["1000"]] == [collector["USER"], gate["USER"]]
    assert 2 == len(installs) and all("--require-hashes --no-deps" in line for line in installs)
    assert re.search(r"^ARG BASE=\S+:\d+\.\d+\.\d+-slim-\w+$", TEXT, flags=re.M)
    assert compose["build"] == {
        "context": "../../dist", "dockerfile": "../docs/fleet/Containerfile", "target": "collector"
    }  # fmt: skip
    assert read_words(collector["HEALTHCHECK"][0]) == compose["healthcheck"]["test"][1:]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release` leaves for a build: the wheel, and what each image installs."""
    from release import CONTAINERS, build, write_requirements

    if not FULL:
        pytest.skip("make stress takes the steps of the container file, which reach the package registry")
    folder = tmp_path_factory.mktemp("dist")
    wheel = build(ROOT, "wheel", folder)
    for extra in CONTAINERS:
        write_requirements(folder / f"requirements-{extra}.txt", extra, wheel)
    return folder


def take_steps(stage: str, dist: Path, work: Path) -> Path:
    """Run what a stage runs in an empty folder with the files that it copies; return the environment that it made."""
    told, place = read_stage(stage), work / "opt"
    folder = work / "release"
    folder.mkdir(parents=True)
    for pattern in told["COPY"][0].split()[:-1]:
        [path] = dist.glob(pattern)
        shutil.copy(path, folder)
    for line in told["RUN"]:
        here = line.replace("/opt/spec-kitty", str(place)).replace("python3 -m venv", f"{sys.executable} -m venv")
        here = re.sub(r"(?<=&& )pip ", f"{sys.executable} -m pip ", here)
        subprocess.run(["sh", "-ec", here], cwd=folder, check=True, capture_output=True)
    return place


@pytest.mark.stress
def test_the_steps_in_an_empty_folder_make_a_collector_that_is_ready_and_a_gate(dist: Path, project: Path) -> None:
    place, port = take_steps("collector-packages", dist, project.parent / "collector"), free_port()
    told, data = read_stage("collector"), project.parent / "data"
    data.mkdir()
    env = {**environment(data), "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    words = [word.replace("0.0.0.0:8742", f"127.0.0.1:{port}").replace("/data", str(data))
             for word in read_words(told["CMD"][0])]  # fmt: skip
    health = [word.replace(":8742", f":{port}") for word in read_words(told["HEALTHCHECK"][0])]
    with subprocess.Popen(words, env=env, cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: subprocess.run(health, env=env, capture_output=True, check=False).returncode == 0)
        process.terminate()

        assert process.wait(timeout=PATIENCE) == 0
    gate = take_steps("gate-packages", dist, project.parent / "gate")
    git(project, "commit", "-q", "--allow-empty", "-m", "start")
    argv = [str(gate / "bin/spec-kitty"), "gate", "--base", "HEAD"]
    assert 0 == subprocess.run(argv, cwd=project, env=environment(data), capture_output=True, check=False).returncode


@pytest.mark.stress
def test_a_builder_makes_both_images(dist: Path) -> None:
    builder = next(filter(shutil.which, BUILDERS), None)
    base = os.environ.get("SPEC_KITTY_BASE")
    if builder is None:
        pytest.skip(f"none of {', '.join(BUILDERS)} is installed, so no image was built; the steps were taken by hand")
    options = [*(["--format", "docker"] if builder != "docker" else []),
               *(["--build-arg", f"BASE={base}"] if base else [])]  # fmt: skip

    def build_target(target: str) -> subprocess.CompletedProcess[str]:
        argv = [
            builder,
            "build",
            *options,
            "-f",
            str(FILE),
            "--target",
            target,
            "-t",
            f"spec-kitty-{target}",
            str(dist),
        ]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    begun = build_target("base")
    if begun.returncode:
        pytest.skip(f"{builder} has no base to begin with, so no image was built: {begun.stderr.strip()[-300:]}")
    made = [build_target(target) for target in ("collector", "gate")]

    assert [(0, ""), (0, "")] == [(one.returncode, one.stderr[-2000:] if one.returncode else "") for one in made]
