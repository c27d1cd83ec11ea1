"""invocations verify: what an anchor proves, and many records shared out among processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from specify_cli.libraries.comparison import compare
from specify_cli.libraries.work.records import verify_shared
from specify_cli.libraries.work.sharing import Engine
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import chain, genesis_tip
from specify_cli.storage.checking import verify_all
from support import Cli

START = 1_700_000_000_000


def test_an_anchor_shows_a_tail_that_was_cut_off(cli: Cli, chartered: Path, records: Callable[[], list[Path]]) -> None:
    assert chartered
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", run)
    tip = cli("invocations", "verify", run, "--json").json()["reports"][0]["tip"]
    whole = cli("invocations", "verify", run, "--anchor", tip, "--json")
    (path,) = records()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    unanchored = cli("invocations", "verify", run)
    cut = cli("invocations", "verify", run, "--anchor", tip, "--json")

    assert whole.code == 0 and not any("cut off" in line for line in whole.json()["not_proven"])
    assert unanchored.code == 0 and "that no line was cut off the end of 1 open record" in unanchored.out
    assert cut.code == 3
    assert [item["code"] for item in cut.json()["findings"]] == ["ANCHOR_MISMATCH"]
    assert cli("invocations", "verify", str(path), "--anchor", tip).code == 3
    assert cli("invocations", "verify", run, "--anchor", "abc", "--json").error()["error_code"] == "INVALID_VALUE"
    assert cli("invocations", "verify", "--anchor", tip).code == 2


def test_many_records_shared_out_among_processes_are_judged_as_by_one(project: Path) -> None:
    folder = project / layout.RECORDS
    folder.mkdir(parents=True)
    for number in range(450):
        invocation_id = new_ulid(START + number, bytes(10))
        body: dict[str, object] = {
            "event": "started",
            "started_at": rfc3339(START + number),
            "profile_id": "implementer",
        }
        data, _ = chain(genesis_tip(), invocation_id, [body])
        if number % 50 == 7:
            data = data.replace(b"implementer", b"implementor", 1)
        (folder / layout.record_name("implementer", invocation_id)).write_bytes(data)
    found, _ = load_project(str(project))
    alone = list(verify_all(found))
    shared = list(verify_shared(found, Engine(workers=2)))

    assert [(report.file, report.findings) for report in shared] == [(report.file, report.findings) for report in alone]
    assert sum(bool(report.findings) for report in alone) == 9


def test_what_lies_among_the_records_and_belongs_to_none_is_found(cli: Cli, chartered: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()
    (chartered / "made.txt").write_text("made")
    cli("profile-invocation", "complete", "--invocation-id", run["invocation_id"])
    argv = ("profile-invocation", "record", "--invocation-id", run["invocation_id"], "--event", "artifact_link")
    cli(*argv, "--json-payload", '{"path":"made.txt"}')
    path = chartered / run["record_path"]
    path.rename(path.with_name("foo.jsonl"))
    found = cli("invocations", "verify", "--json")

    assert found.code == 3
    assert [(item["code"], item["file"]) for item in found.json()["findings"]] == [
        ("NAME_MISMATCH", f"{layout.RECORDS}/foo.jsonl"),
        ("RECORD_NOT_HERE", f"{layout.ANNEXES}/{run['invocation_id']}"),
        ("LOGGED_RECORD_MISSING", found.json()["findings"][-1]["file"]),
    ]


OLDER = (
    '{"event":"started","invocation_id":"01JD4Q3S0000000000000000A1","profile_id":"implementer","started_at":"2024"}\n'
)


def _older(root: Path, last: str) -> None:
    folder = root / layout.OLDER_RECORDS
    folder.mkdir(exist_ok=True)
    name = f"01JD4Q3S0000000000000000A{last}"
    (folder / f"{name}.jsonl").write_text(OLDER.replace("01JD4Q3S0000000000000000A1", name))


def _last_line(out: str) -> list[str]:
    """The verdict, and what is proven."""
    lines = out.splitlines()
    at = lines.index("not proven:")
    return [lines[at - 3], lines[at - 1]]


def test_what_is_found_wrong_is_not_called_proven(cli: Cli, chartered: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()
    path = chartered / run["record_path"]
    path.write_bytes(path.read_bytes().replace(b"WP03", b"WP04", 1))
    told = cli("invocations", "verify", run["invocation_id"])
    value = cli("invocations", "verify", run["invocation_id"], "--json").json()

    assert told.code == 3
    assert _last_line(told.out)[0] == "NOT INTACT: 1 record, 1 error, 0 warnings"
    assert _last_line(told.out)[1] == "proven: nothing"
    assert (value["verdict"], value["proven"]) == ("not_intact", "nothing")
    assert [(item["verdict"], item["proven"]) for item in value["reports"]] == [("not_intact", "nothing")]


def test_an_object_that_is_gone_says_nothing_against_seals_and_chain(cli: Cli, chartered: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()
    digest = run["governance_context_hash"]
    (chartered / layout.OBJECTS / digest[:2] / digest[2:]).unlink()
    value = cli("invocations", "verify", run["invocation_id"], "--json").json()

    assert (value["verdict"], value["proven"]) == ("not_intact", "seals and chain")


def test_records_without_seals_are_not_called_intact(cli: Cli, project: Path) -> None:
    _older(project, "1")
    told = cli("invocations", "verify", "--all")
    value = cli("invocations", "verify", "--all", "--json").json()

    assert told.code == 0
    assert _last_line(told.out)[0] == "UNSEALED: 1 record, 0 errors, 1 warning"
    assert _last_line(told.out)[1].startswith("proven: nothing")
    assert value["verdict"] == "unsealed"
    assert value["verdicts"] == {"intact": 0, "not_intact": 0, "unsealed": 1}


def test_a_set_says_of_how_many_records_what_is_proven(cli: Cli, chartered: Path) -> None:
    first = cli("do", "implement WP03", "--json").json()
    cli("do", "review WP03")
    _older(chartered, "1")
    mixed = cli("invocations", "verify", "--all")
    path = chartered / first["record_path"]
    path.write_bytes(path.read_bytes()[:-9])
    torn = cli("invocations", "verify", "--all")
    value = cli("invocations", "verify", "--all", "--json").json()

    assert _last_line(mixed.out)[0] == "intact: 2 of 3 records (1 unsealed), 0 errors, 1 warning"
    assert _last_line(mixed.out)[1].startswith("proven: seals and chain of 2 of 3 records")
    assert _last_line(torn.out)[0] == "NOT INTACT: 1 of 3 records (1 unsealed), 1 error, 1 warning"
    assert _last_line(torn.out)[1].startswith("proven: seals and chain of 1 of 3 records")
    assert (value["verdict"], value["proven"]) == ("not_intact", "seals and chain of 1 of 3 records")
    assert value["verdicts"] == {"intact": 1, "not_intact": 1, "unsealed": 1}


def test_unrelated_runs_and_runs_without_steps_are_no_match(cli: Cli, project: Path) -> None:
    runs = [cli("do", request, "--json").json()["invocation_id"] for request in ("fix the login", "review the release")]
    for run, outcome in zip(runs, ("done", "failed"), strict=True):
        cli("profile-invocation", "complete", "--invocation-id", run, "--outcome", outcome)
    unrelated = cli("invocations", "compare", *runs, "--json")
    _older(project, "1")
    _older(project, "2")
    older = cli("invocations", "compare", "01JD4Q3S0000000000000000A1", "01JD4Q3S0000000000000000A2")

    assert unrelated.code == 1
    assert unrelated.json()["message"] == "Request mismatch"
    assert [item["code"] for item in unrelated.json()["details"]["mismatches"]] == [
        "REQUEST_MISMATCH",
        "PROFILE_MISMATCH",
        "ACTION_MISMATCH",
        "OUTCOME_MISMATCH",
    ]
    assert unrelated.json()["details"]["decisions_match"] is False
    assert (older.code, older.out.splitlines()[0]) == (1, "Nothing was compared (0 steps compared)")


def test_the_documentation_names_every_code_of_a_comparison() -> None:
    page = (Path(__file__).parents[3] / "docs/replay.md").read_text(encoding="utf-8")
    mismatches, _, notes = page.partition("**No match**")[2].partition("\n\n")

    assert list(compare.MISMATCHES) == re.findall(r"`([A-Z_]+)`", mismatches)
    assert list(compare.WARNINGS) == re.findall(r"^\| `([A-Z_]+)` \|", notes.partition("\n\n")[0], re.MULTILINE)
