"""Rooms of other packages: installed, used, broken, uninstalled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import environment

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A virtual environment with this checkout's packages, to install more into."""
    prefix = tmp_path / "prefix"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    [packages] = prefix.glob("lib/python3*/site-packages")
    (packages / "checkout.pth").write_text(f"{ROOT}/src\n{sysconfig.get_path('purelib')}\n")
    return prefix


@pytest.fixture
def pip(prefix: Path) -> Callable[..., None]:
    def run(*argv: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(prefix / "bin/python"), "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, *argv], check=True, capture_output=True)

    return run


@pytest.fixture
def run(prefix: Path, chartered: Path, home: Path) -> Iterator[Run]:
    def run_one(*argv: str, cwd: Path = chartered) -> subprocess.CompletedProcess[str]:
        program = "import sys; from specify_cli.cli.main import main; sys.exit(main())"
        return subprocess.run(
            [str(prefix / "bin/python"), "-c", program, *argv],
            cwd=cwd,
            env=environment(home),
            capture_output=True,
            text=True,
            check=False,
        )

    yield run_one


def test_a_package_of_others_brings_commands_formats_checks_and_rules_and_goes_without_a_trace(
    pip: Callable[..., None], run: Run, prefix: Path, tmp_path: Path
) -> None:
    before = run("--help").stdout
    copy = tmp_path / "extras"
    subprocess.run(["cp", "-r", str(ROOT / "tests/stranger"), str(copy)], check=True)
    pip("install", "--no-index", "--no-deps", "--no-build-isolation", str(copy))
    done = run("do", "implement WP03", "--json")
    invocation = json.loads(done.stdout)["invocation_id"]

    assert json.loads(run("tally", "--json").stdout) == {"records": 1}
    few = run("tally", "--least", "5", "--json")
    assert (few.returncode, json.loads(few.stderr)["error_code"]) == (1, "TALLY_TOO_SMALL")
    assert "Count the records of this project." in run("--help").stdout
    assert "csv: one row a record." in " ".join(run("invocations", "export", "--help").stdout.split())
    assert run("invocations", "export", invocation, "--format", "csv", "-o", "rows.csv").returncode == 0
    found = {item["code"]: item["message"] for item in json.loads(run("doctor", "--json").stdout)["findings"]}
    assert "this room is broken" in found["ROOM_LEFT_OUT"]
    assert "no luck" in found["CHECK_FAILED"]
    assert "NO_RECORD_YET" not in found
    broken = run("tally", "--least", "13", "--json")
    assert (broken.returncode, json.loads(broken.stderr)["error_code"]) == (1, "ROOM_FAILED")
    event = ("profile-invocation", "record", invocation, "--event", "gate_decision", "--json-payload")
    program = "from specify_cli.invocation import gates; from kitty_extras.rules import is_even as rule; "
    asked = [str(prefix / "bin/python"), "-c", program + "print(gates.source_digest(rule), end='')"]
    digest = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    gate = {
        "rule_digest": digest,
        "gate": "pairs",
        "rule_ref": "extras-even",
        "inputs": {"number": 4},
        "blocking": True,
    }
    recorded = run(*event, json.dumps({**gate, "outcome": "pass", "reason_code": "even"}))
    assert recorded.returncode == 0, recorded.stderr
    assert run("profile-invocation", "complete", invocation).returncode == 0
    [again] = json.loads(run("replay", invocation, "--json").stdout)["gates"]
    assert (again["rule_ref"], again["replayed"]) == ("extras-even", {"outcome": "pass", "reason_code": "even"})

    pip("uninstall", "-y", "kitty-extras")

    assert run("--help").stdout == before
    assert run("tally").returncode == 2
    assert "ROOM_LEFT_OUT" not in run("doctor").stdout


def test_a_package_of_the_work_tree_runs_nothing_there(
    pip: Callable[..., None], run: Run, chartered: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "was-run"
    copy = chartered / "extras"
    subprocess.run(["cp", "-r", str(ROOT / "tests/stranger"), str(copy)], check=True)
    feature = copy / "src/kitty_extras/feature.py"
    feature.write_text(f"{feature.read_text()}\nopen({str(mark)!r}, 'w').close()\n")
    pip("install", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(copy))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    ran = [run(*argv).returncode for argv in (("do", "implement WP03"), ("tally",), ("--help",))]
    doctor = run("doctor", "--json")
    assert ran == [0, 2, 0]
    assert "developed in this work tree" in doctor.stdout
    assert not mark.exists()
    assert "records" in run("tally", cwd=elsewhere).stdout
    assert mark.exists()
    mark.unlink()
    assert [run(*argv).returncode for argv in (("do", "implement WP03"), ("tally",))] == [0, 2]
    assert not mark.exists()


def test_what_is_kept_of_rooms_is_read_by_its_owner_alone(run: Run, home: Path) -> None:
    kept = home / ".cache/spec-kitty/rooms.json"
    assert run("doctor").returncode == 0
    value = json.loads(kept.read_bytes())
    value["tables"] = {"COMMANDS": [], "GROUPS": {}, "POINTS": {}, "DIRECT": {}}
    kept.write_text(json.dumps(value))
    kept.chmod(0o622)

    assert run("route", "implement WP03").returncode == 0
    assert os.stat(kept).st_mode & 0o022
