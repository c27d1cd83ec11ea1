"""What is installed is named with its digests, what ships says under which licence and on what it depends."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="ascii")


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel_file)


def test_the_wheel_lists_what_it_needs_and_nothing_of_its_tests(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if "/sboms/" in name)
    listed = json.loads(wheel.read(name))
    packages = {item["name"]: item for item in listed["components"]}

    assert listed["bomFormat"] == "CycloneDX"
    assert {"typer", "pydantic", "pydantic-core", "ruamel-yaml", "starlette", "h11"} <= packages.keys()
    assert not {"pytest", "hypothesis", "ruff", "mypy"} & packages.keys()
    assert all(item["hashes"] and item["purl"] for item in packages.values())


def test_the_wheel_carries_its_licence(wheel: zipfile.ZipFile) -> None:
    assert [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]


def test_every_pinned_version_has_a_digest_and_the_file_names_no_server() -> None:
    parts = re.split(r"^(?=[a-z0-9])", CONSTRAINTS, flags=re.M)[1:]

    assert len(parts) > 40
    assert [part.split()[0] for part in parts if "--hash=sha256:" not in part] == []
    assert "://" not in CONSTRAINTS


def test_what_could_break_is_bounded_from_above() -> None:
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(name for extra in extras for name in extra)]

    assert [name for name in wanted if "<" not in name and not name.startswith("spec-kitty-recorder[")] == []


def test_every_dependency_that_is_named_is_pinned() -> None:
    names = [*PROJECT["dependencies"], *(name for extra in PROJECT["optional-dependencies"].values() for name in extra)]
    wanted = {re.split(r"[^A-Za-z0-9.-]", name, maxsplit=1)[0].lower().replace(".", "-") for name in names}
    # What capsules need weighs 300 MB: `make capsule` alone installs it.
    pins = CONSTRAINTS + (ROOT / "tests/features/capsule/requirements.txt").read_text(encoding="ascii")
    pinned = {name.replace(".", "-") for name in re.findall(r"^([a-z0-9.-]+)==", pins, flags=re.M)}

    assert wanted - pinned == {"spec-kitty-recorder"}
