"""Every command once, as a user's shell runs it: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import specify_cli
from declared import read_errors, read_findings, schemas
from specify_cli.cli.tables.command_table import list_commands
from support import PATIENCE, SPEC_KITTY, Cli, environment, git, valid

DOCS = Path(__file__).parents[3] / "docs"


def test_a_request_is_answered_with_the_payload(cli: Cli, records: Callable[[], list[Path]]) -> None:
    ran = cli("do", "implement WP03", "--json")

    valid(ran.json(), "invocation-payload")
    assert ran.code == 0
    assert [path.name for path in records()] == [f"{ran.json()['profile_id']}-{ran.json()['invocation_id']}.jsonl"]


def test_people_read_the_same_answer(cli: Cli, chartered: Path) -> None:
    ran = cli("do", "implement WP03", cwd=chartered)

    assert ran.code == 0
    assert "Every change comes with a test" in ran.out
    assert "close it with: spec-kitty profile-invocation complete --invocation-id 01" in ran.out


def test_a_missing_charter_is_a_warning_that_names_the_way_in(cli: Cli) -> None:
    ran = cli("do", "implement WP03")

    assert ran.code == 0
    assert "spec-kitty charter synthesize" in ran.err


def test_the_request_may_come_from_stdin(cli: Cli) -> None:
    ran = cli("do", "-", "--json", stdin="fix the l\u00f6gin test".encode())

    assert ran.json()["action"] == "implement"


def test_ask_names_the_profile_and_advise_is_advisory(cli: Cli) -> None:
    chosen = cli("route", "review the parser", "--json").json()["profile_id"]

    assert cli("ask", chosen, "look at the parser", "--json").json()["router_confidence"] == "exact"
    assert cli("advise", "review the parser", "--json").json()["mode_of_work"] == "advisory"


def test_routing_writes_nothing(cli: Cli, project: Path) -> None:
    ran = cli("route", "review the SQL migration", "--explain", "--json")

    valid(ran.json(), "route-decision")
    assert ran.json()["action"] == "review"
    assert cli("route", "review the SQL migration").out.startswith(ran.json()["profile_id"])
    assert not (project / ".kittify").exists()


@pytest.mark.parametrize(
    ("argv", "code", "exit_code"),
    [
        (["do", "   "], "EMPTY_REQUEST", 1),
        (["do", ""], "EMPTY_REQUEST", 1),
        (["do", "banana"], "ROUTER_NO_MATCH", 1),
        (["route", "banana"], "ROUTER_NO_MATCH", 1),
        (["do", "implement it", "--profile", "nobody"], "PROFILE_NOT_FOUND", 1),
        (["ask", "nobody", "implement it"], "PROFILE_NOT_FOUND", 1),
        (["profiles", "show", "nobody"], "PROFILE_NOT_FOUND", 1),
        (["invocations", "show", "../../x"], "INVALID_ID", 1),
        (["invocations", "show", "01JD4Q3S0000000000000000A1"], "INVOCATION_NOT_FOUND", 1),
        (["invocations", "show", "last"], "INVOCATION_NOT_FOUND", 1),
        (["invocations", "verify", "01JD4Q3S0000000000000000A1"], "INVOCATION_NOT_FOUND", 1),
        (["invocations", "verify", "absent.jsonl"], "INVOCATION_NOT_FOUND", 1),
        (["invocations", "verify", "01J", "--all"], "USAGE", 2),
        (["profile-invocation", "complete", "--invocation-id", "../../x"], "INVALID_ID", 1),
        (["schema", "nothing"], "SCHEMA_NOT_FOUND", 1),
        (["do"], "USAGE", 2),
        (["do", "x", "--nope"], "USAGE", 2),
        (["nonsense"], "USAGE", 2),
        (["profile-invocation", "complete", "--invocation-id", "x", "--outcome", "great"], "USAGE", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_refusal_is_one_error_with_the_next_step(
    cli: Cli, project: Path, argv: list[str], code: str, exit_code: int
) -> None:
    for_people, for_programs = cli(*argv), cli(*argv, "--json")

    valid(for_programs.error(), "error")
    assert (for_people.code, for_programs.code) == (exit_code, exit_code)
    assert for_programs.error()["error_code"] == code
    assert for_programs.error()["suggestion"]
    assert for_people.err.startswith(f"{code}: ")
    assert "Traceback" not in for_people.err
    assert for_people.out == for_programs.out == ""
    assert not (project / ".kittify").exists()


def test_the_config_that_init_writes_names_every_value_that_can_stand_there(cli: Cli, project: Path) -> None:
    cli("init")
    written = project / ".kittify/config.yaml"
    first = written.read_text()
    for key in ("trail", "memory_backend"):
        comment = first.partition(f"\n{key}:")[0].rpartition("\n")[2]
        written.write_text(f"{key}: nonsense\n")
        expected = cli("do", "fix it", "--json").error()["message"].partition("expected ")[2].partition(",")[0]

        assert all(value in comment for value in expected.split(" or ")), (comment, expected)


@pytest.mark.parametrize(
    ("argv", "help_of"),
    [(["do", "x", "--profile"], "do"), (["invocations", "list", "--since"], "invocations list"), (["--nope"], "")],
)
def test_a_usage_error_leads_to_the_help_of_its_command(cli: Cli, argv: list[str], help_of: str) -> None:
    expected = " ".join(f"next: spec-kitty {help_of} --help".split())

    assert cli(*argv).err.splitlines()[-1] == expected


def test_a_record_is_closed_once(cli: Cli) -> None:
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    first = cli("profile-invocation", "complete", "--invocation-id", one, "--json")
    second = cli("profile-invocation", "complete", "--invocation-id", one[:12])
    other = cli("profile-invocation", "complete", "--invocation-id", one, "--outcome", "failed", "--json")

    valid(first.json(), "completion")
    assert (first.code, second.code, other.code) == (0, 0, 1)
    assert other.error()["error_code"] == "OUTCOME_DIFFERS"
    assert "closed as done" in second.out
    assert "ALREADY_COMPLETED" in second.err


def test_a_second_close_that_brings_more_is_refused_and_names_what_is_not_held(cli: Cli, project: Path) -> None:
    (project / "app.py").write_text("x = 1\n")
    (project / "proof.md").write_text("it works\n")
    git(project, "add", "app.py")
    git(project, "commit", "-q", "-m", "app")
    head = git(project, "rev-parse", "HEAD").strip()
    brought = ["--evidence", "proof.md", "--artifact", "app.py", "--commit", "HEAD"]
    one, other = (cli("do", "implement WP03", "--json").json()["invocation_id"] for _ in range(2))
    cli("profile-invocation", "complete", "--invocation-id", one)
    cli("profile-invocation", "complete", "--invocation-id", other, *brought)
    refused = cli("profile-invocation", "complete", "--invocation-id", one, *brought, "--json")
    same = cli("profile-invocation", "complete", "--invocation-id", other, *brought)
    (project / "app.py").write_text("x = 2\n")
    changed = cli("profile-invocation", "complete", "--invocation-id", other, *brought, "--json")

    assert (refused.code, same.code, changed.code) == (1, 0, 1)
    assert refused.error()["error_code"] == "ALREADY_COMPLETED"
    assert refused.error()["message"].endswith(f": the evidence, artifact app.py, commit {head}")
    assert changed.error()["message"].endswith(": artifact app.py")


def test_evidence_artifacts_and_a_commit_are_shown_afterwards(cli: Cli, project: Path) -> None:  # room: story
    (project / "app.py").write_text("x = 1\n")
    (project / "proof.md").write_text("4 passed\n")
    git(project, "add", "app.py")
    git(project, "commit", "-qm", "work")
    sha = git(project, "rev-parse", "HEAD").strip()
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    closed = cli(
        *("profile-invocation", "complete", "--invocation-id", one, "--evidence", "proof.md"),
        *("--artifact", "app.py", "--commit", sha[:10]),
    )
    shown = cli("invocations", "show", one)
    value = cli("invocations", "show", one, "--json").json()

    valid(value, "invocation")
    assert "evidence: .kittify/evidence/" in closed.out
    for text in (one, "app.py", sha, "proof.md", "what was done", "outcome:  done (a person's word) at "):
        assert text in shown.out
    assert value["evidence"]["commits"] == [sha]
    assert [event["event"] for event in value["events"]][-3:] == ["artifact_link", "commit_link", "completed"]
    assert value["findings"] == []


def test_lists_are_arrays_newest_first_and_filtered(cli: Cli) -> None:
    ids = [cli("do", text, "--json").json()["invocation_id"] for text in ("implement WP01", "review WP02", "plan WP03")]
    cli("profile-invocation", "complete", "--invocation-id", ids[0])
    rows = cli("invocations", "list", "--json").json()

    for row in rows:
        valid(row, "invocation-row")
    assert [row["invocation_id"] for row in rows] == ids[::-1]
    assert [row["action"] for row in cli("invocations", "list", "--action", "review", "--json").json()] == ["review"]
    assert len(cli("invocations", "list", "--limit", "2", "--json").json()) == 2
    assert cli("invocations", "list", "--limit", "0", "--json").json() == []
    closed = cli("invocations", "list", "--status", "closed", "--json").json()
    assert [(row["invocation_id"], row["outcome"]) for row in closed] == [(ids[0], "done")]
    assert cli("invocations", "list", "--since", "2999", "--json").json() == []
    assert len(cli("invocations", "list", "--since", rows[1]["started_at"], "--json").json()) == 2
    assert cli("invocations", "list", "--parent", ids[0], "--json").json() == []
    profile = rows[0]["profile_id"]
    assert cli("invocations", "list", "--profile", profile, "--json").json() == [rows[0]]
    assert ids[0] in cli("invocations", "list").out


def test_lists_searches_and_pages_say_what_models_used(cli: Cli) -> None:
    """As the program told it, else estimated with the prices of a day; nothing where a cost is not known of all."""
    told, estimated, unpriced, none = (
        str(cli("do", text, "--json").json()["invocation_id"])
        for text in ("implement WP01", "implement WP02", "implement WP03", "implement WP04")
    )
    for run, model, more in (
        (told, "m-1", {"cost": "0.25"}),
        (estimated, "claude-sonnet-4-5", {}),
        (unpriced, "claude-sonnet-4-5", {}),
        (unpriced, "m-1", {}),
    ):
        body = {"model": model, "tokens": {"input": 1_000_000, "cache_read": 5, "output": 1, "thinking": 1}, **more}
        payload = json.dumps(body)
        assert cli("profile-invocation", "record", run, "--event", "turn", "--json-payload", payload).code == 0
    rows = {row["invocation_id"]: row for row in cli("invocations", "list", "--json").json()}
    listed, searched = cli("invocations", "list"), cli("invocations", "search", "implement", "--json").json()
    spent = {run: row["spent"] for run, row in rows.items()}
    day = spent[estimated]["estimated_at"]

    for row in rows.values():
        valid(row, "invocation-row")
    assert spent[told] == {"tokens": 1_000_006, "cost": "0.25", "estimated_at": None}
    assert float(spent[estimated]["cost"]) > 1 and re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert spent[unpriced] == {"tokens": 2_000_012, "cost": None, "estimated_at": None}
    assert spent[none] is None
    models = [rows[run]["model"] for run in (told, estimated, unpriced, none)]
    assert models == ["m-1", "claude-sonnet-4-5", "claude-sonnet-4-5", None]
    assert "1,000,006 $0.25" in listed.out and "1,000,006 ~$3.00 " in listed.out
    assert f"~ is estimated with the prices of {day}" in listed.err
    assert {hit["invocation_id"]: hit["spent"] for hit in searched} == spent
    assert "1,000,006 $0.25 tokens" in cli("invocations", "search", "implement").out
    shown = cli("invocations", "show", estimated, "--json").json()
    assert (shown["spent"], shown["model"]) == (spent[estimated], "claude-sonnet-4-5")


def test_an_empty_project_lists_nothing_and_says_how_to_start(cli: Cli) -> None:
    assert cli("invocations", "list", "--json").json() == []
    assert "spec-kitty do" in cli("invocations", "list").out


def test_an_empty_list_leads_to_verify_where_the_log_names_records(cli: Cli, project: Path) -> None:
    cli("do", "implement WP03")
    git(project, "commit", "-qm", "start", "--allow-empty")
    git(project, "worktree", "add", "-q", "../beside")
    beside = cli("invocations", "list", cwd=project.parent / "beside").out
    git(project, "clean", "-ffdxq")
    listed = cli("invocations", "list")
    advised = cli(*shlex.split(listed.out.partition("spec-kitty ")[2]))

    assert "no invocations yet" in beside
    assert listed.code == 0 and "no invocations yet" not in listed.out
    assert advised.code == 3 and "LOGGED_RECORD_MISSING" in advised.out


def test_the_newest_events_are_shown_and_followed_to_the_close(cli: Cli, project: Path, home: Path) -> None:
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    newest = cli("invocations", "tail", "--lines", "1").out.split("\n")
    assert (newest[0].split()[1:], len(newest)) == ([time.strftime("%Z"), "what", "happened"], 3)
    assert cli("invocations", "tail", "--lines", "9" * 30).out == cli("invocations", "tail", "--lines", "999").out
    follower = subprocess.Popen(
        [SPEC_KITTY, "invocations", "tail", one, "--follow", "--json"],
        cwd=project,
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    first = [json.loads(follower.stdout.readline()) for _ in range(4)]
    cli("profile-invocation", "complete", "--invocation-id", one)
    out, _ = follower.communicate(timeout=PATIENCE)

    assert first[0]["event"] == "started"
    assert json.loads(out.strip())["event"] == "completed"
    assert follower.returncode == 0


@pytest.mark.parametrize("unread", [0, 1])
def test_tail_says_what_it_cannot_read(cli: Cli, chartered: Path, unread: int) -> None:
    """Nothing printed would read as a record in which nothing happened."""
    one = cli("do", "fix the login test", "--json").json()["invocation_id"]
    (record,) = chartered.rglob(f"*{one}.jsonl")
    record.write_bytes(b"\xff\n" + record.read_bytes() if unread else b"")
    told = cli("invocations", "tail", one)

    found = f"warning: {record.relative_to(chartered)}: "
    found += "1 line cannot be read" if unread else "no line can be read"
    assert (told.code, told.err) == (0, f"{found}; spec-kitty invocations verify {one}\n")
    assert (told.out.count("\n") > 3) is bool(unread)


def test_interrupting_a_follower_exits_130(cli: Cli, project: Path, home: Path) -> None:
    cli("do", "implement WP03")
    follower = subprocess.Popen(
        [SPEC_KITTY, "invocations", "tail", "--follow"],
        cwd=project,
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that was itself begun in the background ignores interrupts, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert follower.stdout is not None
    follower.stdout.readline()
    time.sleep(0.2)
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=PATIENCE)

    assert follower.returncode == 130
    assert "INTERRUPTED" in err
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_error(cli: Cli, project: Path, home: Path) -> None:
    cli("do", "implement WP03")
    command = f"{shlex.quote(SPEC_KITTY)} invocations show 01 --json | head -c 1"
    done = subprocess.run(["sh", "-c", command], cwd=project, env=environment(home), capture_output=True, check=True)

    assert done.stderr == b""


def test_an_intact_project_verifies(cli: Cli) -> None:
    for text in ("implement WP01", "review WP02"):
        cli("do", text)
    ran = cli("invocations", "verify", "--all", "--json")

    valid(ran.json(), "verify-report")
    assert ran.code == 0
    assert (ran.json()["ok"], ran.json()["records"], ran.json()["findings"]) == (True, 2, [])
    assert "not proven" in cli("invocations", "verify").out


def test_a_tampered_record_exits_3_and_names_the_place(cli: Cli, records: Callable[[], list[Path]]) -> None:
    cli("do", "implement WP03")
    (path,) = records()
    path.write_bytes(path.read_bytes().replace(b"WP03", b"WP04", 1))
    by_all, by_id = cli("invocations", "verify", "--json"), cli("invocations", "verify", path.stem[-26:], "--json")
    by_file = cli("invocations", "verify", str(path), "--json")

    assert (by_all.code, by_id.code, by_file.code) == (3, 3, 3)
    for ran in (by_all, by_id, by_file):
        (found,) = ran.json()["findings"]
        assert (found["code"], found["seq"], found["offset"]) == ("HASH_MISMATCH", 0, 0)
        assert path.name in found["file"]
    assert "NOT INTACT" in cli("invocations", "verify").out


@pytest.mark.parametrize(("harm", "code"), [("delete", "OBJECT_MISSING"), ("alter", "OBJECT_ALTERED")])
def test_a_harmed_object_is_found(cli: Cli, chartered: Path, harm: str, code: str) -> None:
    answer = cli("do", "implement WP03", "--json").json()
    name = answer["governance_context_hash"]
    path = chartered / ".kittify/events/objects" / name[:2] / name[2:]
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes(b"other")
    ran = cli("invocations", "verify", "--json")

    assert ran.code == 3
    assert [(item["code"], item["seq"]) for item in ran.json()["findings"]] == [(code, 0)]


def test_an_objects_file_that_holds_other_bytes_is_nothing_against_the_records_own_lines(
    cli: Cli, chartered: Path
) -> None:
    answer = cli("do", "implement WP03", "--json").json()
    name = answer["governance_context_hash"]
    (chartered / ".kittify/events/objects" / name[:2] / name[2:]).write_bytes(b"other")

    assert "that is nothing against the record's own lines" in cli("invocations", "verify").out
    assert "its own lines are intact, but the file of its" in cli("replay", answer["invocation_id"]).err
    assert "1 file stood under the name" in cli("do", "implement WP03").err


def test_a_snapshot_that_is_none_is_found(cli: Cli, chartered: Path) -> None:
    import hashlib

    from specify_cli.record.record import chain, genesis_tip
    from specify_cli.record.seal import open_line

    cli("do", "implement WP03")
    (path,) = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    fields = open_line(path.read_bytes().split(b"\n")[0]).fields or {}
    for bad in (b"not json", b"[]", b'{"v":1}'):
        name = hashlib.sha256(bad).hexdigest()
        target = chartered / ".kittify/events/objects" / name[:2] / name[2:]
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(bad)
        path.write_bytes(chain(genesis_tip(), path.stem[-26:], [{**fields, "snapshot": name}])[0])
        found = cli("invocations", "verify", "--json").json()["findings"]

        assert [item["code"] for item in found] == ["SNAPSHOT_INVALID", "LOGGED_LINE_MISSING"]


def test_the_index_can_be_made_anew(cli: Cli, project: Path) -> None:
    cli("do", "implement WP03")
    ran = cli("invocations", "reindex", "--json")

    valid(ran.json(), "reindexed")
    assert ran.json()["rows"] == 1
    assert (project / ran.json()["index"]).read_text().count("\n") == 1


def test_profiles_are_listed_and_shown(cli: Cli) -> None:
    rows = cli("profiles", "list", "--json").json()
    one = cli("profiles", "show", rows[0]["profile_id"], "--json").json()

    for row in rows:
        valid(row, "profile-row")
    valid(one, "profile")
    roles = {role for row in rows for role in row["roles"]}
    assert roles >= {"IMPLEMENTER", "REVIEWER", "ARCHITECT", "DESIGNER", "PLANNER", "RESEARCHER", "CURATOR", "MANAGER"}
    assert {"python", "typescript"} <= {language for row in rows for language in row["languages"]}
    assert rows[0]["name"] in cli("profiles", "list").out
    assert rows[0]["name"] in cli("profiles", "show", rows[0]["profile_id"]).out


def test_project_profiles_shadow_and_broken_ones_are_named(cli: Cli, project: Path) -> None:
    shadowed = cli("profiles", "list", "--json").json()[0]["profile_id"]
    folder = project / ".kittify/profiles"
    folder.mkdir(parents=True)
    (folder / "mine.agent.yaml").write_text(f"profile-id: {shadowed}\nname: Mine\nroles: [implementer]\n")
    (folder / "broken.agent.yaml").write_text("profile-id: x\nname: [\n")
    (folder / "bomb.agent.yaml").write_text("a: &a [x, x]\nb: [*a, *a]\n")
    ran = cli("profiles", "list", "--json")

    (mine,) = [row for row in ran.json() if row["profile_id"] == shadowed]
    assert (mine["name"], mine["origin"]) == ("Mine", "project")
    assert ran.code == 0
    assert "broken.agent.yaml:" in ran.err
    assert "bomb.agent.yaml:1" in ran.err
    answer = cli("do", "implement WP03", "--json").json()
    assert any("broken.agent.yaml" in warning for warning in answer["warnings"])


def test_a_sentinel_is_listed_and_a_broken_profile_is_named_when_it_is_asked_for(cli: Cli, project: Path) -> None:
    folder = project / ".kittify/profiles"
    folder.mkdir(parents=True)
    (folder / "human.agent.yaml").write_text("profile-id: human\nname: A person\nsentinel: true\n")
    (folder / "odd.agent.yaml").write_text("profile-id: odd\nname: [\n")
    refused = cli("profiles", "show", "odd", "--json")

    assert "never routed to" in cli("profiles", "list").out
    assert "odd.agent.yaml" in refused.error()["message"]
    assert refused.error()["suggestion"] == "spec-kitty doctor"


def test_a_context_is_ranked_against_stdin_and_needs_an_action(cli: Cli, chartered: Path) -> None:
    given = ("charter", "context", "--action", "review", "--json", "--request")
    by_stdin = cli(*given, "-", stdin=b"the SQL migration", cwd=chartered)

    assert by_stdin.json()["hits"] == cli(*given, "the SQL migration", cwd=chartered).json()["hits"]
    assert cli("charter", "context", "--action", " ", "--json").error()["error_code"] == "INVALID_VALUE"
    assert "did you mean review?" in cli("charter", "context", "--action", "revew").err
    assert "did you mean" not in cli("charter", "context", "--action", "review").err


def test_a_context_can_be_looked_at_without_recording(cli: Cli, chartered: Path) -> None:
    ran = cli("charter", "context", "--action", "review", "--request", "the SQL migration", "--json")
    explained = cli("charter", "context", "--action", "review", "--request", "the SQL migration", "--explain")

    valid(ran.json(), "charter-context")
    assert ran.json()["hits"][0]["uri"] in explained.out
    assert not (chartered / ".kittify/events").exists()


def test_init_is_idempotent_and_follows_a_new_trail_setting(cli: Cli, project: Path) -> None:
    first, second = cli("init", "--json"), cli("init", "--json")
    config = project / ".kittify/config.yaml"
    config.write_text(config.read_text() + "# a note of mine\n")
    third = cli("init", "--trail", "committed", "--json")

    for ran in (first, second, third):
        valid(ran.json(), "initialised")
    assert (first.json()["created"], second.json()["created"]) == (True, False)
    assert first.json()["project_uuid"] == second.json()["project_uuid"] == third.json()["project_uuid"]
    assert (third.json()["changed"], third.json()["trail"]) == (True, "committed")
    assert "# a note of mine" in config.read_text()
    assert "already initialised" in cli("init").out


@pytest.mark.parametrize(
    ("word", "told", "next_command"),
    [
        ("list", "Did you mean 'invocations list' or 'profiles list'", "spec-kitty invocations list --json"),
        ("verify", "Did you mean 'invocations verify' or 'packs verify'", "spec-kitty invocations verify --json"),
        ("sweep", "No such command 'sweep'", "spec-kitty --help"),
        ("lint", "Did you mean 'charter lint'?", "spec-kitty charter lint --help"),
        ("lisst", "No such command 'lisst'", "spec-kitty invocations list --json"),
        ("zzz", "No such command 'zzz'", "spec-kitty --help"),
    ],
)
def test_a_command_of_a_group_is_found_by_its_own_name(cli: Cli, word: str, told: str, next_command: str) -> None:
    ran = cli(word, "--json")

    assert ran.code == 2 and told in ran.error()["message"] and ran.error()["suggestion"] == next_command


def test_a_missing_choice_is_one_sentence(cli: Cli) -> None:
    ran = cli("hooks", "test")

    assert ran.code == 2 and "\\x0a" not in ran.err and "Choose from: claude-code, codex," in ran.err


def test_the_id_of_a_profile_that_nobody_has_is_quoted_as_it_can_be_typed(cli: Cli) -> None:
    said = [cli(*words, "a\nb").err for words in (("profiles", "show"), ("do", "fix it", "--profile"))]

    assert all("'a\\nb'" in text for text in said), said


def test_schemas_are_printed_and_committed(cli: Cli) -> None:
    found = schemas()

    assert {path.stem: json.loads(path.read_text()) for path in (DOCS / "schemas").iterdir()} == found
    assert cli("schema", "event").json() == found["event"]
    assert cli("schema").out.split() == sorted(found)
    assert cli("schema", "--json").json() == sorted(found)
    for schema in found.values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("command", list(list_commands()), ids=lambda command: " ".join(command.path))
def test_help_shows_examples_and_exit_codes(cli: Cli, command: Any) -> None:
    ran = cli(*command.path, "--help")

    assert ran.code == 0
    assert command.examples[0].split("“")[0][:40].strip() in " ".join(ran.out.split())
    assert "Exit codes: 0" in ran.out


def test_without_a_command_the_help_is_shown_outside_a_project(cli: Cli, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()

    assert cli(cwd=bare).code == 2
    assert "Begin:" in cli(cwd=bare).out
    assert cli("--version").out.startswith("spec-kitty ")


def test_help_lists_every_command_in_a_section(cli: Cli) -> None:
    shown = cli("--help").out
    words = {command.path[0] for command in list_commands()}
    heads = [line[:-1] for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]

    assert heads == ["Options", "Begin", "Close", "Read", "Prove", "Replay", "Share", "Keep", "Set up"]
    assert [word for word in words if f"\n  {word} " not in shown] == []


def test_a_word_less_command_says_in_ten_lines_what_is_open_and_what_ended_badly(cli: Cli) -> None:
    ids = [cli("do", f"fix number {number}", "--json").json()["invocation_id"] for number in range(12)]
    for one in ids[:5]:
        cli("profile-invocation", "complete", one, "--outcome", "failed")
    full = cli()
    for one in ids[5:]:
        cli("profile-invocation", "complete", one)

    assert full.code == 0 and len(full.out.splitlines()) <= 10
    assert "open: 7 records" in full.out and "ended badly since yesterday: 5 records" in full.out
    assert f"next:  spec-kitty invocations show {ids[-1][-6:]}" in full.out
    assert "open: none" in cli().out and "complete" not in cli().out


def test_none_is_said_of_no_more_records_than_were_looked_at(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open record older than those is not denied."""
    monkeypatch.setattr("specify_cli.cli.commands.records.today._READ", 1)
    cli("do", "fix number 1")
    newest = cli("do", "fix number 2", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", newest)

    assert "open: none among the newest 200" in cli().out


def test_it_is_said_of_how_many_records_the_tests_are_known(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specify_cli.cli.commands.records.today._TESTED", 1)
    for number in range(2):
        begun = cli("do", f"fix number {number}", "--json").json()["invocation_id"]
        cli("profile-invocation", "complete", begun)

    assert "ended badly since yesterday: none, tests of the newest 1 looked at" in cli().out


def test_a_record_whose_tests_failed_at_the_end_is_among_those_that_ended_badly(cli: Cli) -> None:
    """Done is what the agent said; what its last tests said stands beside it."""
    events = [
        ("patch_apply", {"path": "a.py", "kind": "modify", "before": "a", "after": "b"}),
        ("tool_call", {"call_id": "1", "tool": "Bash", "args": {"command": "pytest -q"}}),
        ("tool_result", {"call_id": "1", "tool": "Bash", "status": "error", "output": "1 failed in 0.1s"}),
    ]
    ids = [cli("do", f"fix number {number}", "--json").json()["invocation_id"] for number in range(2)]
    for event, fields in events:
        payload = ("--event", event, "--json-payload", json.dumps(fields))
        assert cli("profile-invocation", "record", ids[0], *payload).code == 0
    for one in ids:
        cli("profile-invocation", "complete", one)
    shown = cli().out

    assert "ended badly since yesterday: 1 record" in shown
    assert f"{ids[0][-6:]}" in shown and "done, tests failed" in shown and ids[1][-6:] not in shown


def test_the_last_tests_also_count_before_the_last_change_and_without_one(cli: Cli) -> None:
    edit = {"event": "patch_apply", "path": "a.py", "kind": "modify", "before": "a", "after": "b"}
    call = {"event": "tool_call", "call_id": "1", "tool": "Bash", "args": {"command": "pytest -q"}}
    failed = {"event": "tool_result", "call_id": "1", "tool": "Bash", "status": "error", "output": "1 failed in 0.1s"}
    again = [{**call, "call_id": "2"}, {**failed, "call_id": "2", "status": "ok", "output": "1 passed in 0.1s"}]
    ids = []
    for events in ([call, failed, edit], [call, failed], [call, failed, edit, *again], [call, failed, *again, edit]):
        ids.append(cli("do", "fix it", "--json").json()["invocation_id"])
        lines = "".join(json.dumps(event) + "\n" for event in events).encode()
        assert cli("profile-invocation", "record", ids[-1], stdin=lines).code == 0
        cli("profile-invocation", "complete", ids[-1])
    shown = cli().out

    assert [one[-6:] in shown for one in ids] == [True, True, False, False], shown


def test_completion_is_offered(process: Cli) -> None:
    ran = process(env={"_SPEC_KITTY_COMPLETE": "complete_bash", "COMP_WORDS": "spec-kitty inv", "COMP_CWORD": "1"})

    assert "invocations" in ran.out


def test_recorded_text_never_reaches_the_terminal_as_control(cli: Cli) -> None:
    hostile = "fix \x1b[31mred\x1b]0;title\x07 \u202eevil \x9b2J the test"
    cli("do", hostile)
    shown = [
        cli("invocations", "list"),
        cli("invocations", "show", "01"),
        cli("invocations", "tail"),
        cli("do", hostile),
    ]

    for ran in shown:
        assert ran.code == 0
        assert not any(character in ran.out for character in "\x1b\x07\x9b\u202e")
    assert json.loads(cli("invocations", "list", "--json").out)[0]["request"] == hostile


def test_the_harness_that_asks_is_recorded(cli: Cli, records: Callable[[], list[Path]]) -> None:
    cli("do", "implement WP03", env={"CLAUDE_CODE_SESSION_ID": "s-1"})
    cli("do", "implement WP03")

    actors = [json.loads(path.read_bytes().split(b"\n")[0]) for path in records()]
    assert {line["actor"]["actor_id"] for line in actors} == {"claude-code", "tester"}
    assert {json.dumps(line.get("session")) for line in actors} == {
        "null",
        '{"harness": "claude-code", "session_id": "s-1"}',
    }


def test_the_error_and_finding_tables_of_the_docs_are_the_codes() -> None:
    errors = (DOCS / "errors.md").read_text(encoding="utf-8")
    findings = (DOCS / "verify.md").read_text(encoding="utf-8")

    assert [line for line in errors.splitlines() if line.startswith("- `")] == [
        f"- `{code}`: {text}" for code, text in read_errors().items()
    ]
    for heading, severity in (("## Errors", "error"), ("## Warnings", "warning"), ("## Notes", "info")):
        table = findings.partition(heading)[2].partition("\n## ")[0]
        assert [line for line in table.splitlines() if line.startswith("| `")] == [
            f"| `{code}` | {meaning} | {repair} |"
            for code, (graded, meaning, repair) in read_findings().items()
            if graded == severity
        ]


def test_a_locale_without_utf8_changes_no_output(process: Cli) -> None:
    if not sys.prefix.isascii():
        pytest.skip("Python itself does not start below a folder whose name is not ASCII in such a locale")
    ran = process("do", "fix the l\u00f6gin test", "--json", env={"LC_ALL": "C", "PYTHONUTF8": "0"})

    assert ran.code == 0
    assert os.fsencode(ran.json()["match_reason"])


def test_values_of_files_are_spelled_as_json_and_not_as_python_does(cli: Cli, project: Path) -> None:
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    record = next((project / ".kittify/events/profile-invocations").glob(f"*{one}.jsonl"))
    local = project / ".kittify/local"
    local.mkdir(exist_ok=True)
    (local / "hook-orphans.jsonl").write_text("not JSON\n")
    (local / "hook-failures.jsonl").write_text("[]\n{}\n")
    record.write_bytes(record.read_bytes() + b'garbage\n{"at":null,"event":{"a":null}}\n')
    said = [cli("invocations", "compare", one, one), cli("invocations", "show", one), cli("doctor")]

    assert "UNREADABLE_LINE at byte " in said[0].err
    assert [line for ran in said for line in (ran.out + ran.err).splitlines() if "None" in line] == []


def test_an_empty_trail_proves_nothing_and_says_so(cli: Cli, project: Path) -> None:
    ran = cli("invocations", "verify", "--all")
    value = cli("invocations", "verify", "--all", "--json").json()

    assert not (project / ".kittify/events").exists()
    assert ran.out.startswith("empty: no record is here, so nothing was checked") and "who wrote" not in ran.out
    assert (value["verdict"], value["level"], value["proven"]) == ("empty", "none", "nothing")


def test_the_name_that_spec_kitty_has_for_do_is_understood(cli: Cli) -> None:
    assert cli("dispatch", "review the change", "--json").json()["action"] == "review"


def test_an_environment_shared_with_spec_kitty_cli_is_named(tmp_path: Path, home: Path) -> None:
    """Both are installed into one folder: the package of ours, and a module that only the other brings."""
    site = tmp_path / "site"
    shutil.copytree(Path(specify_cli.__file__).parent, site / "specify_cli", ignore=shutil.ignore_patterns("*.pyc"))
    code = "from specify_cli.cli.main import main; raise SystemExit(main(['--version']))"
    env = {**environment(home), "PYTHONPATH": str(site)}

    def start() -> str:
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        return ran.stderr

    assert start() == ""
    (site / "specify_cli/manifest.py").write_text("")
    assert "SHARED_ENVIRONMENT" in start()
