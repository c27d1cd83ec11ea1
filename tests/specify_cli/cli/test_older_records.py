"""Records of older writers are shown as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import Cli

ONE, TWO = "01KZRGJ0AHPBE7BYKRA5H0Y16E", "01M1VXP7D4P42AJRTXEWW7JB42"


@pytest.fixture
def older(project: Path) -> Path:
    folder = project / "kitty-ops"
    folder.mkdir()
    for one in (ONE, TWO):
        started = {
            "event": "started",
            "invocation_id": one,
            "profile_id": "architect-alphonso",
            "action": "plan",
            "request_text": "Plan the release",
            "actor": "claude",
            "model_id": "claude-opus-4-6",
            "governance_context_hash": "18b94565b855d089",
            "governance_context_available": True,
            "started_at": "2026-08-11T13:35:30.660410+00:00",
        }
        link = {"event": "artifact_link", "invocation_id": one, "ref": "docs/plan.md"}
        (folder / f"{one}.jsonl").write_text(f"{json.dumps(started)}\n{json.dumps(link)}\n")
    closing = {
        "event": "completed",
        "invocation_id": TWO,
        "completed_at": "2026-10-03T04:25:45.779298+00:00",
        "outcome": "abandoned",
        "closed_by": "doctor_sweep",
    }
    (folder / "op-closures.jsonl").write_text(f"not JSON {TWO}\n{json.dumps(closing)}\n")
    return folder


def test_who_asked_and_the_model_are_listed_and_shown(cli: Cli, older: Path) -> None:
    row = next(row for row in cli("invocations", "list", "--json").json() if row["invocation_id"] == ONE)

    assert (row["actor_id"], row["model"], row["status"]) == ("claude", "claude-opus-4-6", "open")
    assert "asked by: claude (claude-opus-4-6)" in cli("invocations", "show", ONE).out
    assert older.is_dir()


def test_a_closing_line_beside_the_record_closes_it(cli: Cli, older: Path) -> None:
    row = next(row for row in cli("invocations", "list", "--json").json() if row["invocation_id"] == TWO)
    shown = cli("invocations", "show", TWO, "--json").json()

    assert (row["status"], row["outcome"]) == ("closed", "abandoned")
    assert (shown["status"], shown["completed_at"]) == ("closed", "2026-10-03T04:25:45.779298+00:00")
    assert b"abandoned" not in (older / f"{TWO}.jsonl").read_bytes()


@pytest.mark.usefixtures("older")
def test_a_hash_of_another_width_is_not_called_sha_256_and_each_line_has_its_own_uri(cli: Cli) -> None:
    shown = cli("invocations", "show", ONE)
    events = cli("invocations", "show", ONE, "--json").json()["events"]

    assert "hash 18b94565b855d089" in shown.out
    assert "None" not in shown.out and "SHA-256" not in shown.out
    assert [event["uri"] for event in events] == [f"inv://{ONE}/event/0", f"inv://{ONE}/event/1"]
    assert "after its last line" in cli("invocations", "state", TWO).out
