"""A record as a Testimony Record, judged by the validator in the wheel `testimony-openai-agents`.

The wheel is installed by `make judges`; without it these tests skip and say so.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from approving import Project
from keys import allow, make_key
from specify_cli.features.witness.testimony import make_testimony
from specify_cli.record.record import chain, fold, genesis_tip
from support import FULL, Cli, count_calls, git, valid

JUDGE = next(Path(__file__).parents[3].glob(".venv-judges/lib/python3*/site-packages/testimony_validate.py"), None)


class Case(Project):
    """A record of one call that changed production, whatever was approved of it."""

    def level(self) -> str | None:
        """Export the record as it is and return the level that the judge sees."""
        path = self.folder / "testimony.jsonl"
        path.unlink(missing_ok=True)
        argv = ["--format", "testimony", "--allowed-signers", self.allowed, "-o", str(path)]
        self.said = self.run("invocations", "export", self.id, *argv)
        return judge(path) if self.said.code == 0 else None


def judge(path: Path) -> str | None:
    if JUDGE is None:
        pytest.skip("the outside judge is not here: make judges")
    done = subprocess.run(["python3", str(JUDGE), str(path), "--json"], capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert said["spec"] == "testimony-record/0.2"
    return None if said["level"] is None else str(said["level"])


@functools.cache
def load_judge() -> Any:
    """Return the judge as a module of this process: what it says as a program is asked by every other test."""
    spec = importlib.util.spec_from_file_location("testimony_validate", str(JUDGE))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A record whose one outside call was approved by Ada, and ran."""
    made = Case(tmp_path, calls=("c1",))
    made.approve(reason="the tests are green")
    made.end()
    made.executor.complete(made.id)
    return made


def test_a_record_with_a_signed_approval_reaches_the_highest_level(case: Case) -> None:
    assert case.level() == "TR-4"
    assert case.said.out.endswith("with 1 signed approval\n")


def test_without_its_approval_it_does_not(tmp_path: Path) -> None:
    case = Case(tmp_path, calls=("c1",))
    case.end()

    assert case.level() == "TR-2"


def _approval(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return next(line for line in lines if line["event"] == "approval")


def _move(lines: list[dict[str, Any]]) -> None:
    """The agent asks for another call with other arguments, and shows the approval of the first for it."""
    call = next(line for line in lines if line["event"] == "tool_call")
    lines.insert(lines.index(_approval(lines)), {**call, "call_id": "c2", "args_hash": "0" * 64})
    lines[-2]["call_id"] = "c2"
    _approval(lines)["call_id"] = "c2"


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines.remove(_approval(lines)),
        _move,
        lambda lines: _approval(lines).update(expires_at=_approval(lines)["signed_at"]),
        lambda lines: _approval(lines).update(reason="the tests are greem"),
        lambda lines: _approval(lines).update(identity="claim"),
        lambda lines: _approval(lines).update(approver="claude-code"),
    ],
    ids=["removed", "moved", "expiry", "one bit", "claimed", "by the agent"],
)
def test_a_record_whose_approval_was_tampered_with_drops(
    case: Case, change: Callable[[list[dict[str, Any]]], object]
) -> None:
    case.forge(change)

    assert case.level() == "TR-2"


def test_one_signed_by_the_agents_key_drops(case: Case) -> None:
    case.resign(make_key(case.folder, "agent"))

    assert case.level() == "TR-2"


def test_one_that_had_expired_when_the_call_ended_drops(tmp_path: Path) -> None:
    case = Case(tmp_path, calls=("c1",))
    case.approve(minutes=1)
    case.now += 100
    case.end()

    assert case.level() == "TR-2"


def test_one_that_nobody_trusts_drops(case: Case) -> None:
    allow(case.folder, make_key(case.folder, "eve"))

    assert case.level() == "TR-2"


@pytest.mark.stress
def test_every_bit_of_what_the_testimony_covers_counts(case: Case) -> None:
    assert case.level() == "TR-4"
    path = case.folder / "testimony.jsonl"
    data = path.read_bytes()
    assert load_judge().validate(data.decode()).level == "TR-4"
    covered = data[:-1].rfind(b"\n")
    for bit in range(0, 8 * covered, 101 if FULL else 4001):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            text = changed.decode()
        except UnicodeDecodeError:
            continue  # no text any more
        assert load_judge().validate(text).level != "TR-4", bit


def test_what_ssh_keygen_needs_stands_in_the_testimony(case: Case) -> None:
    case.level()
    entries = [json.loads(line) for line in (case.folder / "testimony.jsonl").read_text().splitlines()]
    approval = next(entry for entry in entries if entry["type"] == "approval")
    (case.folder / "signature").write_text(approval["signature"])
    argv = ["-Y", "verify", "-f", case.allowed, "-I", approval["approver"]["id"], "-n", "spec-kitty-approval"]
    done = subprocess.run(
        ["ssh-keygen", *argv, "-s", str(case.folder / "signature")],
        input=approval["statement"],
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_a_denied_call_that_ran_does_not_pass(tmp_path: Path) -> None:
    case = Case(tmp_path, calls=("c1",))
    case.approve(allow=False, reason="not on a Friday")
    case.end(status="denied")
    assert case.level() == "TR-4"

    case.forge(lambda lines: lines[-1].update(status="ok"))
    assert case.level() == "TR-2"


def test_what_is_not_whole_or_not_alone_is_no_testimony(case: Case) -> None:
    git(case.root, "config", "user.name", "Ada")
    argv = ["invocations", "export", case.id, "--format", "testimony", "-o", str(case.folder / "out.jsonl")]
    assert "no approval counts without --allowed-signers" in case.run(*argv, "--json").err
    assert case.run(*argv, "--safe").code == 2
    (case.folder / "out.jsonl").unlink()
    assert valid(case.run(*argv, "--json").json(), "testimony-written")["approvals"] == 0
    case.file.write_bytes(case.file.read_bytes().replace(b"green", b"GREEN"))
    assert case.run(*argv[:-1], str(case.folder / "damaged.jsonl")).code == 1


@pytest.mark.parametrize("form", [(), ("--format", "otlp"), ("--html", "run.html")], ids=" ".join)
def test_whose_keys_count_is_asked_of_a_testimony_alone(cli: Cli, project: Path, form: tuple[str, ...]) -> None:
    cli("do", "implement WP03")
    refused = cli("invocations", "export", "last", *form, "-o", "out", "--allowed-signers", "keys")

    assert refused.code == 2 and "--allowed-signers" in refused.err
    assert not (project / "out").exists() and not (project / "run.html").exists()


def test_a_record_of_many_calls_is_testified_in_work_that_grows_with_it() -> None:
    """The result of each call was looked for from the first line on."""

    def count_steps(number: int) -> int:
        at = "2026-11-21T09:00:00.000Z"
        started: dict[str, object] = {
            "event": "started",
            "started_at": at,
            "profile_id": "coder",
            "action": "implement",
        }
        calls: list[dict[str, object]] = [
            {"event": event, "at": at, "tool": "Bash", "call_id": f"c{place}"}
            for place in range(number)
            for event in ("tool_call", "tool_result")
        ]
        data, _ = chain(genesis_tip(), "0" * 26, [started, *calls])
        record = fold(data)
        assert record is not None
        steps, text = count_calls(lambda: make_testimony(record, ()))
        assert text.count('"action_type":"Bash"') == number
        return steps

    assert count_steps(400) < 3 * count_steps(200)
