"""docs/questions.md: each question is asked of tables made from real records, and its answer is the right one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collecting import record_of
from envelopes import BEGIN, OTHER_PROJECT, PROJECT, completed, started
from specify_cli.features.collector.engines.ledger import open_ledger
from specify_cli.record.ids import rfc3339
from support import CHARTER, Cli

PAGE = (Path(__file__).parents[2] / "docs/questions.md").read_text(encoding="utf-8")
QUESTIONS = dict(re.findall(r"\*\*([^*]+)\*\*[^`]*```sql\n(.*?)```", PAGE, flags=re.S))
EVENTS = [
    {"event": "tool_call", "call_id": "c1", "tool": "Bash"},
    {"event": "tool_result", "call_id": "c1", "status": "denied"},
    {"event": "turn", "model": "m", "tokens": {"cache_read": 2_000_000, "thinking": 50}},
    {"event": "model_call", "model": "m", "tokens": {"input": 1_000_000, "output": 100_000}},
    {"event": "gate_decision", "gate": "tests", "rule_ref": "r", "outcome": "fail", "reason_code": "RED"},
]


def _query(question: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        return database.execute(question).fetchall()


@pytest.fixture
def ask(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Ask a question by its beginning, in a project with two records and a ledger with three."""
    (project / ".kittify/charter").mkdir(parents=True)
    (project / ".kittify/charter/charter.md").write_text(CHARTER, encoding="utf-8")
    ids = [
        cli("ask", profile, "implement the login test", "--json").json()["invocation_id"]
        for profile in ("builder-bea", "critic-cato")
    ]
    lines = "\n".join(map(json.dumps, EVENTS)).encode()
    assert 0 == cli("profile-invocation", "record", ids[0], stdin=lines).code
    assert 0 == cli("profile-invocation", "complete", ids[0]).code
    made = cli("invocations", "export", "--parquet", "tables", "--json")
    assert (0, 2) == (made.code, made.json()["tables"]["runs"])
    ledger = open_ledger(str(project / "events.db"))
    ledger.storage.accept([started(1), completed(1), started(2), started(90_000, project=OTHER_PROJECT)], "now", "ada")
    piece, events = record_of(3)
    ledger.storage.accept(events, "now", "ada")
    assert ledger.storage.keep_record(PROJECT, piece, "now", "ada")[0] == "stored"
    ledger.storage.close()
    held = cli("collector", "export", "--db", "events.db", "--parquet", "held", "--json")
    assert {"path": "held", "invocations": 4, "records": 1, "files": 8, "left_out": []} == held.json()
    of_records = "SELECT event, seq FROM 'held/day=*/project=*/events.parquet' ORDER BY seq"
    monkeypatch.chdir(project)
    assert _query(of_records) == [("started", 0), ("completed", 1)]

    def run(beginning: str) -> list[Any]:
        [question] = [sql for title, sql in QUESTIONS.items() if title.startswith(beginning)]
        return [tuple(map(str, row)) for row in _query(question)]

    yield run, ids


def test_the_days_since_one_are_written_anew_in_a_folder_that_is_there(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger(str(project / "events.db"))
    later = 90_000  # seconds: a day and an hour
    ledger.storage.accept([started(1), started(later)], "now", "ada")
    monkeypatch.chdir(project)
    export = ("collector", "export", "--db", "events.db", "--parquet", "held", "--json")
    whole = cli(*export).json()
    [earlier, _] = sorted(Path("held").iterdir())
    before = earlier.stat().st_ino
    ledger.storage.accept([completed(later), started(later + 1)], "now", "ada")
    ledger.storage.close()
    more = cli(*export, "--since", rfc3339(BEGIN + 1000 * (later + 1))).json()
    again = cli(*export)

    assert (whole["invocations"], whole["files"]) == (2, 2)
    assert (more["invocations"], more["files"]) == (2, 1)
    states = "SELECT invocation_id, status FROM 'held/day=*/project=*/invocations.parquet' ORDER BY 1"
    assert [status for _, status in _query(states)] == ["open", "closed", "open"]
    assert earlier.stat().st_ino == before
    ledger = open_ledger(str(project / "events.db"))
    gone = "DELETE FROM invocation WHERE started_at >= '2026-11-22'"  # a project that is forgotten, on its days
    ledger.home.write(lambda transaction: transaction.run(gone))
    ledger.storage.close()
    Path("held.part").mkdir()
    blocked = cli(*export, "--since", rfc3339(BEGIN + 1000 * later))
    Path("held.part").rmdir()
    none = cli(*export, "--since", rfc3339(BEGIN + 1000 * later)).json()
    assert (blocked.code, "held.part" in blocked.error()["message"]) == (1, True)
    assert (none["files"], [path.name for path in Path("held").iterdir()]) == (0, [earlier.name])
    assert (again.code, again.error()["error_code"]) == (1, "INVALID_VALUE")
    assert not list(Path().glob("held.*"))


def test_each_question_is_answered(ask: Any) -> None:
    run, (closed, opened) = ask
    first, other = "builder-bea", "critic-cato"
    answers: dict[str, list[tuple[str, ...]]] = {
        "What does each profile cost": [
            (first, "input", "1000000", "3.0"),
            (first, "output", "100000", "1.5"),
            (first, "cache_read", "2000000", "0.6"),
        ],
        "Which requests": [("implement the login test", "2")],
        "Which records were never closed": [(opened, other)],
        "Which calls were denied": [(closed, first, "Bash", "1")],
        "Which gates": [("tests", "RED", "1", "0")],
        "How much happens": [("2026-11-21", "1", "3", "1"), ("2026-11-22", "1", "1", "1")],
    }
    found = {beginning: [row[: len(rows[0])] for row in run(beginning)] for beginning, rows in answers.items()}

    assert answers == found
    directives = run("Which directives")
    assert directives and all(0 < float(score) <= 1 for _, _, score in directives)
    assert len(QUESTIONS) == len(answers) + 1


def test_a_damaged_record_is_left_out_and_named(project: Path, cli: Cli) -> None:
    sound, damaged = (cli("do", "implement WP03", "--json").json()["invocation_id"] for _ in range(2))
    [path] = project.glob(f".kittify/events/profile-invocations/*{damaged}.jsonl")
    path.write_bytes(path.read_bytes().replace(b"WP03", b"WP04"))
    ran = cli("invocations", "export", "--parquet", "tables", "--json")
    table = _query(f"SELECT invocation_id FROM '{project}/tables/runs.parquet'")

    assert (1, [damaged], [(sound,)]) == (ran.code, [one["invocation_id"] for one in ran.json()["left_out"]], table)
    again = cli("invocations", "export", "--parquet", "tables", "--json")
    assert (1, "INVALID_VALUE") == (again.code, again.error()["error_code"])
    assert 2 == cli("invocations", "export").code == cli("invocations", "export", "-o", "x.tar").code
    assert not (project / "tables.part").exists()
