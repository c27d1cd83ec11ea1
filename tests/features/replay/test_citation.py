"""Everything a report cites can be opened: here, and where the record was taken to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaying import files_below, note, object_path, ran
from specify_cli.features.programs.run import Run
from support import Cli, valid


def work(run: Run) -> None:
    run.stage("change")
    run.retrieve("login name", k=5)
    run.gate("merge", "all-true", {"green": True})
    run.patch("x", "create", after="a\n" * 30_000)
    run.commit("ready")


@pytest.fixture
def recorded(chartered: Path) -> str:
    note(chartered, "name")
    return ran(chartered, work)


def cited_by(report: dict[str, Any]) -> list[str]:
    hits = [hit for item in report["retrievals"] for hit in item["hits"]]
    return [item["ref"] for item in report["references"]] + [f"{h['uri']}@{h['recorded']['digest']}" for h in hits]


def test_every_uri_of_a_report_is_opened_also_where_the_record_was_taken(
    cli: Cli, chartered: Path, recorded: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The doctrine it was made under is gone meanwhile, here, and was never there."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    report = cli("replay", recorded, "--json").json()
    (chartered / ".kittify/doctrine/directives/note-name.yaml").unlink()
    cli("invocations", "export", recorded, "-o", "run.tar")
    cli("invocations", "import", str(chartered / "run.tar"), cwd=elsewhere)
    uris = cited_by(report)
    opened = {uri: [cli("show-uri", uri, "--json", cwd=root) for root in (chartered, elsewhere)] for uri in uris}

    assert {"inv", "obj", "doctrine", "charter"} == {uri.partition(":")[0] for uri in uris}
    assert {uri: [done.err for done in both] for uri, both in opened.items() if any(done.code for done in both)} == {}
    assert all(here.json() == there.json() for here, there in opened.values())
    for here, _ in opened.values():
        valid(here.json(), "cited")


def test_what_the_agent_was_told_and_the_stored_report_are_artifacts_of_a_record(
    cli: Cli, chartered: Path, recorded: str
) -> None:
    cli("replay", recorded, "--record")
    before = files_below(chartered, ".kittify/events/invocation-index")
    context = cli("invocations", "context", recorded[:20])
    request = cli("show-uri", f"inv://{recorded}/artifact/request")
    report = cli("show-uri", f"mv2://shop/artifact/{recorded}/replay_report.json", "--json").json()
    event = cli("show-uri", f"mv2://shop/event/{recorded}/0")

    assert "Governance context" in context.out and request.out == "fix the failing login test\n"
    assert json.loads(report["value"])["invocation"]["invocation_id"] == recorded
    assert object_path(chartered, report["digest"]).read_text() == report["value"]
    assert event.json()["event"] == "started"
    assert files_below(chartered, ".kittify/events/invocation-index") == before


def test_a_part_of_an_id_is_answered_with_a_uri_that_means_the_same_tomorrow(cli: Cli, recorded: str) -> None:
    context = cli("invocations", "context", "last", "--json").json()
    event = cli("show-uri", f"mv2://{recorded[-6:]}/event/{recorded[-6:]}/0", "--json").json()

    assert context["uri"] == f"inv://{recorded}/artifact/context"
    assert event["uri"] == f"mv2://{recorded[-6:]}/event/{recorded}/0"


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("http://example.org", "INVALID_VALUE"),
        ("inv://ID/event/999", "INVALID_VALUE"),
        ("inv://ID/artifact/evidence", "ARTIFACT_NOT_FOUND"),
        ("inv://01JD4Q3S0000000000000000A1/event/0", "INVOCATION_NOT_FOUND"),
        (f"obj://sha256/{'0' * 64}", "OBJECT_MISSING"),
        (f"doctrine://tactic/none@{'0' * 64}", "DOCTRINE_NOT_FOUND"),
    ],
)
def test_what_is_not_there_is_named(cli: Cli, recorded: str, uri: str, code: str) -> None:
    done = cli("show-uri", uri.replace("ID", recorded), "--json")

    assert (done.code, done.error()["error_code"]) == (1, code)
