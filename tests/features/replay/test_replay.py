"""`spec-kitty replay`, as a shell runs it: verdicts, exit codes, files, annexes, children."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doctrine.light_imports import hash_bytes
from replaying import invoked, lines_of, note, object_path, policy, ran, record_path, reseal, write
from specify_cli.features.programs.run import Run
from specify_cli.record import layout
from support import SPEC_KITTY, Cli, accept, environment, run_together, valid


def work(run: Run) -> None:
    run.stage("change")
    run.retrieve("login", k=3)
    run.gate("merge", "all-true", {"green": True})
    run.model_call("some-model", "ask", "answer")
    run.commit("ready")


@pytest.fixture
def recorded(chartered: Path) -> str:
    return ran(chartered, work, capture={"tool": "full"})


def test_a_match_is_told_first_and_exits_0(cli: Cli, recorded: str) -> None:
    done = cli("replay", recorded[:20])
    value = cli("replay", recorded, "--json")

    assert (done.code, done.err, value.code) == (0, "", 0)
    assert done.out == "MATCH: routing, 2 retrievals, 1 gate come out as recorded\n"
    assert value.json()["match"] is True
    valid(value.json(), "replay-report")


def cut_values(run: Run) -> None:
    """Values that capture mode summary cuts: a prompt, a tool's result, the output of a step."""
    run.model_call("some-model", "ask " * 300, "answer")
    with run.tool("read", {}, side_effect="none") as call:
        call.result = "page " * 300
    run.step("think", lambda: "word " * 300)


def test_what_could_not_be_evaluated_is_listed_first_and_is_no_match(cli: Cli, chartered: Path) -> None:
    invocation_id = ran(chartered, cut_values, capture={})
    done, strict = cli("replay", invocation_id), cli("replay", invocation_id, "--strict")
    value = cli("replay", invocation_id, "--json").json()

    assert (done.code, strict.code, value["match"]) == (0, 1, None)
    assert done.out == strict.out
    assert done.out.startswith(
        "NOT FULLY EVALUATED: routing, 1 retrieval come out as recorded; 1 model step cannot be reconstructed exactly; "
        "2 not evaluated again\n"
        "model steps that cannot be reconstructed exactly:\n  seq 4 some-model: prompt (mode summary)"
    )
    assert [(item["seq"], item["what"]) for item in value["not_reevaluated"]] == [
        (6, "result of tool read"),
        (8, "output of step think (1)"),
    ]
    valid(value, "replay-report")


@pytest.mark.usefixtures("chartered")
def test_a_gate_told_from_a_shell_is_asked_again(cli: Cli) -> None:
    run = cli("do", "fix the login test", "--json").json()["invocation_id"]
    told = {"gate": "cover", "rule_ref": "at-least", "outcome": "pass", "reason_code": "enough"}
    event = json.dumps({**told, "inputs": {"found": 60, "minimum": 70}})
    cli("profile-invocation", "record", "--invocation-id", run, "--event", "gate_decision", "--json-payload", event)
    done = cli("replay", run, "--json")

    assert (done.code, [item["code"] for item in done.json()["findings"]]) == (1, ["DECISION_MISMATCH"] * 2)


def test_a_run_is_replayed_up_to_a_checkpoint(cli: Cli, recorded: str) -> None:
    done, value = cli("replay", recorded, "--until", "change"), cli("replay", recorded, "--until", "change", "--json")

    assert (done.code, done.out) == (0, "MATCH: routing, 1 retrieval come out as recorded up to change\n")
    assert value.json()["until"]["stage"] == "change"
    valid(value.json(), "replay-report")


def test_a_difference_is_told_with_both_values_and_exits_1(cli: Cli, chartered: Path, recorded: str) -> None:
    reseal(chartered, recorded, lambda lines: lines[0].update(match_reason="because"))

    done, value = cli("replay", recorded), cli("replay", recorded, "--json")

    assert (done.code, value.code) == (1, 1)
    assert done.out.startswith("DIFFERS: 1 difference (DECISION_MISMATCH)")
    assert "    recorded: because\n" in done.out
    assert [item["code"] for item in value.json()["findings"]] == ["DECISION_MISMATCH"]


def test_an_empty_epsilon_is_no_epsilon(cli: Cli, recorded: str) -> None:
    done = cli("replay", recorded, "--epsilon", "", "--json")

    assert (done.code, done.error()["error_code"]) == (1, "INVALID_VALUE")


def test_a_refusal_names_its_code_and_writes_nothing(cli: Cli, chartered: Path, recorded: str) -> None:
    unknown = cli("replay", recorded, "--as-of", "nowhere", "--report", "out", "--record", "--json")
    path = record_path(chartered, recorded)
    path.write_bytes(path.read_bytes().replace(b"fix", b"mix", 1))
    tampered = cli("replay", recorded, "--report", "out", "--json")
    current = cli("replay", recorded, "--against", "current", "--json")

    assert (unknown.code, unknown.error()["error_code"]) == (1, "CHECKPOINT_NOT_FOUND")
    assert [item["name"] for item in unknown.error()["candidates"]] == ["start", "5", "ready"]
    for done in (tampered, current):
        assert (done.code, done.error()["error_code"]) == (1, "unreplayable.tampered")
        assert done.out == ""
    assert not (chartered / "out").exists() and not (chartered / layout.ANNEXES).exists()


@pytest.mark.parametrize(
    "argv",
    [
        ("--from-root",),
        ("--idempotency-key", "k"),
        ("--against", "current", "--as-of", "start"),
        ("--against", "current", "--record"),
        ("--against", "yesterday"),
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(cli: Cli, recorded: str, argv: tuple[str, ...]) -> None:
    assert cli("replay", recorded, *argv).code == 2


def test_report_deterministic_in_another_process_with_another_hash_seed(
    cli: Cli, process: Cli, chartered: Path, recorded: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(chartered, elsewhere, ignore=shutil.ignore_patterns("charter", "local"))
    made = []
    for seed, cwd in (("1", chartered), ("2", elsewhere)):
        folder = tmp_path / f"out{seed}"
        env = {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo" if seed == "2" else "UTC"}
        assert process("replay", recorded, "--report", str(folder), cwd=cwd, env=env).code == 0
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})

    assert made[0] == made[1]
    assert sorted(made[0]) == ["replay_report.json", "replay_report.md"]
    assert json.loads(made[0]["replay_report.json"]) == cli("replay", recorded, "--json").json()


def test_a_report_takes_the_place_of_an_older_one_and_only_that(cli: Cli, chartered: Path, recorded: str) -> None:
    folder = chartered / "out"
    write(chartered, "out/replay_report.md", "old")
    write(chartered, "out/mine.md", "mine")
    cli("replay", recorded, "--report", "out")

    assert (folder / "mine.md").read_text() == "mine"
    assert (folder / "replay_report.md").read_text().startswith("# Replay of")
    assert sorted(path.name for path in folder.iterdir()) == ["mine.md", "replay_report.json", "replay_report.md"]


def test_record_notes_the_replay_beside_the_record_and_keeps_both_renderings(
    cli: Cli, chartered: Path, recorded: str
) -> None:
    before = record_path(chartered, recorded).read_bytes()

    done = cli("replay", recorded, "--record", "--report", "out")

    (path,) = (chartered / layout.ANNEXES / recorded).glob("*.jsonl")
    annex = json.loads(path.read_bytes())
    kept = [object_path(chartered, name).read_bytes() for name in (annex["object"], annex["page"]["object"])]
    assert done.code == 0 and path.name in done.err
    assert (annex["event"], annex["match"]) == ("replayed", True)
    assert kept == [(chartered / "out" / name).read_bytes() for name in ("replay_report.json", "replay_report.md")]
    assert record_path(chartered, recorded).read_bytes() == before
    assert cli("invocations", "verify", "--all").code == 0
    assert "DANGLING" not in cli("doctor").out
    assert cli("replay", recorded, "--json").json() == json.loads(kept[0])


def test_an_open_record_is_replayed_and_not_noted(cli: Cli, chartered: Path) -> None:
    invocation_id = invoked(chartered, close=False)

    refused = cli("replay", invocation_id, "--record", "--json")

    assert cli("replay", invocation_id).code == 0
    assert (refused.code, refused.error()["error_code"]) == (1, "RECORD_OPEN")
    assert not (chartered / layout.ANNEXES).exists()


def test_a_noted_replay_in_a_committed_trail_is_tracked(cli: Cli, chartered: Path) -> None:
    write(chartered, ".kittify/config.yaml", "trail: committed\n")
    accept(chartered)
    invocation_id = invoked(chartered)
    cli("replay", invocation_id, "--record")

    (path,) = (chartered / layout.ANNEXES / invocation_id).glob("*.jsonl")
    annex = json.loads(path.read_bytes())
    assert hash_bytes(object_path(chartered, annex["object"]).read_bytes()) == annex["object"]


def test_rules_are_found_beside_the_user(cli: Cli, chartered: Path, recorded: str) -> None:
    write(
        chartered,
        "team_rules.py",
        "from specify_cli.invocation import gates\n\n@gates.RULES.rule('team')\ndef team(inputs):\n"
        "    return gates.Verdict('pass', 'ok')\n",
    )
    missing = cli("replay", recorded, "--rules", "no_such_rules", "--json")

    assert cli("replay", recorded, "--rules", "team_rules").code == 0
    assert (missing.code, missing.error()["error_code"]) == (1, "RULES_NOT_FOUND")


# --- against today


def test_against_current_answers_with_a_diff_and_exits_0(cli: Cli, chartered: Path) -> None:
    """replay.admin_shim_returns_same_shape: the answer has the shape of the schema, whatever it says."""
    invocation_id = invoked(chartered)
    uri = note(chartered, "name")

    done = cli("replay", invocation_id, "--against", "current")
    value = cli("replay", invocation_id, "--against", "current", "--json")

    assert (done.code, value.code) == (0, 0)
    assert done.out.startswith("another context than then; ") and f"  + {uri}\n" in done.out
    assert "cause data: " in done.out
    valid(value.json(), "replay-diff")
    rows = cli("invocations", "list", "--parent", invocation_id, "--json").json()
    assert len(rows) == 2 and {row["run_kind"] for row in rows} == {"as_of_replay"}
    for name in ("last", "@1", invocation_id[-9:]):
        assert cli("invocations", "list", "--parent", name, "--json").json() == rows, name
    assert cli("invocations", "list", "--parent", "@7", "--json").code == 1
    assert cli("invocations", "verify", "--all").code == 0


def test_replay_admin_shim_surfaces_422_codes(cli: Cli, chartered: Path) -> None:
    invocation_id = invoked(chartered)
    child = cli("replay", invocation_id, "--against", "current", "--json").json()["replay_invocation_id"]

    refused = cli("replay", child, "--against", "current", "--json")
    root = cli("replay", child, "--against", "current", "--from-root", "--json")

    assert (refused.code, refused.error()["error_code"]) == (1, "unreplayable.nested_replay")
    assert root.json()["original_invocation_id"] == invocation_id
    assert cli("replay", child).code == 0


def test_the_diff_is_the_same_bytes_in_every_process(process: Cli, chartered: Path) -> None:
    policy(chartered)
    invocation_id = invoked(chartered)
    note(chartered, "name"), note(chartered, "password")
    policy(chartered, "rules: []\n")

    told = set()
    for seed in ("1", "2", "3"):
        value = process("replay", invocation_id, "--against", "current", "--json", env={"PYTHONHASHSEED": seed}).json()
        told.add(json.dumps([value["diff"], value["causes"]]))

    assert len(told) == 1


def test_one_key_is_one_child_from_many_processes(cli: Cli, process: Cli, chartered: Path) -> None:
    invocation_id = invoked(chartered)
    argv = ("replay", invocation_id, "--against", "current", "--idempotency-key", "k", "--json")

    done = run_together(lambda _: process(*argv), range(6))

    assert {ran.code for ran in done} == {0} and len({ran.out for ran in done}) == 1
    assert len(cli("invocations", "list", "--parent", invocation_id, "--json").json()) == 1


def test_beyond_replay_write_failure_returns_diff_and_says_so(
    cli: Cli, chartered: Path, project: Path, home: Path
) -> None:
    """A disk that takes no byte more: the diff is real, no child is left, the exit is 0, the warning is said."""
    invocation_id = invoked(chartered)
    note(chartered, "name")
    whole = cli("replay", invocation_id, "--against", "current", "--json").json()
    before = sorted((chartered / layout.RECORDS).iterdir())
    argv = [SPEC_KITTY, "replay", invocation_id, "--against", "current", "--idempotency-key", "k", "--json"]

    done = subprocess.run(
        argv,
        cwd=project,
        env=environment(home, measured=False),
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )

    value = json.loads(done.stdout)
    assert done.returncode == 0
    assert (value["recorded"], value["replay_invocation_id"]) == (False, None)
    assert value["reason"].startswith("WRITE_FAILED") and b"could not be written" in done.stderr
    assert value["diff"] == whole["diff"]
    assert sorted((chartered / layout.RECORDS).iterdir()) == before


# --- in a process that cannot reach anything; tests/histories replays older runs in one

_BLOCKED = """
import sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError("a socket was touched: " + event)

sys.addaudithook(refuse)
from specify_cli.cli.main import main
sys.exit(main())
"""


def test_a_run_recorded_now_replays_with_sockets_blocked(chartered: Path, home: Path, recorded: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, "replay", recorded],
        cwd=chartered,
        env=environment(home),
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0 and done.stdout.startswith(b"MATCH")
    assert lines_of(chartered, recorded)[-1]["event"] == "completed"
    assert os.path.isdir(chartered / layout.RECORDS)
