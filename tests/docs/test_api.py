"""docs/api.md: its example runs, what it says holds, and the record it once left is the record it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from histories.programs import example
from specify_cli.invocation import gates
from specify_cli.libraries.comparison.compare import verify_replay
from specify_cli.libraries.comparison.receipts import chain_of
from specify_cli.project.config import load_project
from specify_cli.record.record import Record, fold
from specify_cli.storage.checking import verify_all
from specify_cli.storage.queries import show_invocation

HISTORY = Path(__file__).parents[1] / "histories/agent-loop"


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "RULES", gates.RULES.copy())


@pytest.mark.usefixtures("rules")
def test_the_example_runs_and_leaves_an_intact_record_of_all_it_did(chartered: Path) -> None:
    invocation_id = example()["agent"](chartered)

    project, _ = load_project(str(chartered))
    shown: Any = show_invocation(project, invocation_id)
    events = [event["event"] for event in shown["events"]]
    assert not [item for report in verify_all(project) for item in report.findings]
    assert shown["outcome"] == "failed"
    assert {"gate_decision", "retrieval_response", "tool_result", "model_call", "patch_apply"} <= set(events)
    assert events[-2:] == ["policy_violation", "completed"]
    assert [event["label"] for event in shown["events"] if event.get("label")] == ["ready"]


@pytest.mark.usefixtures("rules")
def test_a_run_of_the_example_today_matches_the_one_kept(chartered: Path) -> None:
    kept = recorded(HISTORY)
    invocation_id = example()["agent"](chartered)
    (path,) = (chartered / ".kittify/events/profile-invocations").glob(f"*{invocation_id}.jsonl")

    def steps(record: Record) -> list[dict[str, object]]:
        """Its own work: what a retrieval finds changes with the shipped doctrine."""
        return [{**entry.fields, "~": entry.seal} for entry in record.entries]

    today = fold(path.read_bytes())
    assert today is not None
    result = verify_replay(chain_of(steps(kept)), chain_of(steps(today)))
    apart = [item for item in result.details["mismatches"] if item["code"] != "OUTPUT_MISMATCH"]
    assert apart == []
    assert result.details["steps_compared"] == 11


def recorded(folder: Path) -> Record:
    (path,) = (folder / ".kittify/events/profile-invocations").glob("*.jsonl")
    record = fold(path.read_bytes())
    assert record is not None
    return record
