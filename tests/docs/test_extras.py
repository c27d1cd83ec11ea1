"""Each extra has a plan by which it is tried alone (tests/extras.py), and nothing of the tests stands in for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from extras import PLANS, choose_extras, close_over

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_each_extra_is_tried_alone_by_tests_that_are_there() -> None:
    paths = [word for plan in PLANS.values() for word in plan.tests.split() if word.startswith("tests/")]

    assert set(PLANS) == set(PROJECT["optional-dependencies"]) - {"dev"}
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert choose_extras("") == list(PLANS) and choose_extras("none") == [] and choose_extras("mcp") == ["mcp"]
    with pytest.raises(SystemExit, match="pigeon: expected some of sync"):
        choose_extras("pigeon")


def test_an_extra_brings_what_the_extras_that_it_names_bring() -> None:
    alone, both = (close_over([f"{PROJECT['name']}[{extra}]"]) for extra in ("collector", "postgres"))

    assert {"starlette", "h11", "ruamel-yaml"} <= alone < both
    assert {"psycopg", "psycopg-binary"} <= both - alone


def test_our_modules_get_nothing_that_only_the_tests_have() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); import httpx, extra_alone\n"
        "import specify_cli.libraries.wire.contract\n"
        "try:\n    import specify_cli.features.sync.sending.transport\n"
        "except ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    said = {}  # room: sync
    for allowed in (["orjson"], ["orjson", "httpx", "standardwebhooks"]):
        env = {**os.environ, "EXTRA_ALONE": json.dumps(allowed)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        said[len(allowed)] = done.stdout.strip()

    assert said == {1: "httpx", 3: ""}
