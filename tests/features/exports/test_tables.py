"""Tables of records in Parquet are read by the package that wrote them, alone."""

from __future__ import annotations

import json
from pathlib import Path

from pyarrow import parquet  # type: ignore[import-untyped]

from specify_cli.features.exports.otlp import make_otlp
from specify_cli.features.exports.tables import make_tables
from specify_cli.features.programs.run import open_invocation
from specify_cli.libraries.timeline.run import encode_document, read_run
from specify_cli.record.reading.usage import Prices, find_model, sum_usage
from support import Cli


def test_the_tables_hold_one_row_for_each_run_and_call(cli: Cli, chartered: Path) -> None:
    with open_invocation(chartered, "fix the login test") as run, run.tool("Bash", {"command": "pytest"}) as call:
        call.result = "ok"
    assert cli("invocations", "export", "--parquet", "tables").code == 0
    runs, calls = (parquet.read_table(chartered / f"tables/{name}.parquet").to_pylist() for name in ("runs", "calls"))

    assert [run.invocation_id] == [row["invocation_id"] for row in runs]
    assert [(run.invocation_id, "Bash")] == [(row["invocation_id"], row["tool"]) for row in calls]
    assert "INVALID_VALUE" in cli("invocations", "export", "--parquet", "tables").err  # never over another


def test_the_model_of_a_run_is_the_one_its_own_agent_began_with(cli: Cli, chartered: Path) -> None:
    one = cli("do", "fix the login test", "--json").json()["invocation_id"]
    turns = ({"model": "small", "agent": "helper-1"}, {"model": "big"}, {"model": "other"})
    lines = "".join(json.dumps({"event": "turn", "text": "done", **turn}) + "\n" for turn in turns)
    assert cli("profile-invocation", "record", one, stdin=lines.encode()).code == 0
    cli("invocations", "export", "--parquet", "tables")
    cli("invocations", "export", one, "--format", "otlp", "-o", "run.json")
    (row,) = parquet.read_table(chartered / "tables/runs.parquet").to_pylist()
    told = (chartered / "run.json").read_text(encoding="utf-8")

    assert find_model([{"event": "turn", **turn} for turn in turns]) == row["model"] == "big"
    assert '{"key":"gen_ai.request.model","value":{"stringValue":"big"}}' in told


def test_the_table_of_events_holds_every_line_byte_for_byte(cli: Cli, chartered: Path) -> None:
    """Whoever has the table can check seals and chain without the record."""
    with open_invocation(chartered, "fix the login test") as run, run.tool("Bash", {"command": "é"}) as call:
        call.result = "ok"
    cli("invocations", "export", "--parquet", "tables")
    (path,) = chartered.glob(".kittify/events/profile-invocations/*.jsonl")
    rows = parquet.read_table(chartered / "tables/events.parquet").to_pylist()

    assert [row["line"] for row in rows] == path.read_text(encoding="utf-8").splitlines()


def test_an_answer_that_was_given_back_took_no_tokens() -> None:
    """A re-execution is told what the first run's model answered: costs over all records count it once."""
    asked: dict[str, object] = {"event": "model_call", "model": "big", "tokens": {"input": 7, "output": 2}}
    lines = [dict[str, object](event="started", invocation_id="A"), asked, {**asked, "source": "inv://B/event/1"}]
    run = read_run(lines)
    (root, *spans) = json.loads(encode_document(make_otlp([run])))["resourceSpans"][0]["scopeSpans"][0]["spans"]

    assert [row["tokens"] for row in make_tables(run, lines)["tokens"]] == [7, 2]
    assert ["usage.input_tokens" in json.dumps(span) for span in (root, *spans)] == [False, True, False]


def test_tokens_are_of_the_agent_and_model_that_lists_count_them_for() -> None:
    """A turn that names no model went on with the one its agent named last."""
    told: list[dict[str, object]] = [
        {"model": "big"},
        {"model": "small", "agent": "a-1"},
        {},
        {"agent": "a-1"},
        {"agent": "a-2"},
    ]
    lines = [dict[str, object](event="started", invocation_id="A")]
    lines += [{"event": "turn", "tokens": {"input": 1 + at}, **one} for at, one in enumerate(told)]
    summed = {(row.agent, row.model): sum(row.tokens.values()) for row in sum_usage(lines, Prices("", ()))}

    rows = make_tables(read_run(lines), lines)["tokens"]

    assert [(row["agent"], row["model"], row["tokens"]) for row in rows] == [
        (None, "big", 1),
        ("a-1", "small", 2),
        (None, "big", 3),
        ("a-1", "small", 4),
        ("a-2", None, 5),
    ]
    assert summed == {(None, "big"): 4, ("a-1", "small"): 6, ("a-2", None): 5}


def test_a_record_of_an_older_writer_has_its_mission_and_its_end(cli: Cli, project: Path) -> None:
    one, at = "01KZRGJ0AHPBE7BYKRA5H0Y16E", "2026-08-11T13:35:30.660410+00:00"
    head = {"invocation_id": one, "profile_id": "architect-ada"}
    started = {"event": "started", **head, "action": "plan", "request_text": "Plan WP03", "started_at": at}
    ended = {"event": "completed", **head, "outcome": "failed", "completed_at": at.replace("13", "14")}
    (project / "kitty-ops").mkdir()
    (project / f"kitty-ops/{one}.jsonl").write_text(json.dumps(started) + "\n")
    (project / "kitty-ops/op-closures.jsonl").write_text(json.dumps(ended) + "\n")
    cli("invocations", "export", "--parquet", "tables")
    assert cli("invocations", "export", one, "--format", "otlp", "-o", "run.json").code == 0
    (row,) = parquet.read_table(project / "tables/runs.parquet").to_pylist()
    told = (project / "run.json").read_text(encoding="utf-8")

    assert (row["work_package"], row["outcome"]) == ("WP03", "failed")
    assert '"spec_kitty.open"' not in told and '{"key":"spec_kitty.outcome","value":{"stringValue":"failed"}}' in told


def test_tables_are_not_written_where_a_safe_export_is_asked_for(cli: Cli, chartered: Path) -> None:
    """They hold every line, so who asks for a safe export is refused and not handed all of it."""
    with open_invocation(chartered, "fix the login test"):
        pass
    refused = cli("invocations", "export", "--parquet", "tables", "--safe", "--json")

    assert (refused.code, refused.error()["error_code"]) == (2, "USAGE")
    assert not (chartered / "tables").exists()
