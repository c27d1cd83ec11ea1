"""Who may switch the recorder: a branch proposes, a person accepts; private files and foreign folders are refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from specify_cli.record import layout
from support import Cli, accept, environment, git

SECRET = "ghp_" + "a1B2c3D4e5" * 4
WEAK = """\
redaction: {allow: ['hunter2hunter2']}
audit: {capture_llm_io: full, capture_tool_io: full, no_trail: anyone}
trail: committed
"""
AGENT = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "11111111-2222-3333-4444-555555555555"}


def _configure(project: Path, text: str) -> None:
    (project / ".kittify").mkdir(exist_ok=True)
    (project / ".kittify/config.yaml").write_text(text)


def _tracked(project: Path, path: str, data: bytes) -> None:
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_bytes(data)
    git(project, "add", "-f", path)


def test_a_branch_cannot_weaken_masking_capture_or_the_trail(cli: Cli, chartered: Path) -> None:
    _configure(chartered, WEAK)
    ran = cli("do", "implement the login with password=hunter2hunter2", "--json")
    one = ran.json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", one)
    git(chartered, "add", "-A")

    started = cli("invocations", "show", one, "--json").json()["events"][0]
    assert "hunter2hunter2" not in json.dumps(started)
    assert set(started["capture"].values()) == {"summary"}
    assert "kittify/trail" not in git(chartered, "status", "--porcelain", "-uall")
    assert sum("CONFIG_WEAKENED" in warning for warning in ran.json()["warnings"]) == 7
    assert "CONFIG_WEAKENED" in {item["code"] for item in cli("doctor", "--json").json()["findings"]}


def test_what_a_person_accepted_counts_in_this_clone_and_in_no_other(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    _configure(chartered, WEAK)
    said = cli("config", "accept", "--yes")
    ran = cli("do", "implement it with password=hunter2hunter2", "--json").json()
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "all")
    git(tmp_path, "clone", "-q", str(chartered), str(tmp_path / "clone"))
    elsewhere = cli("do", "implement it", "--json", cwd=tmp_path / "clone").json()

    assert "capture of prompt: full instead of summary" in said.out
    assert ran["warnings"] == []
    assert "hunter2hunter2" in cli("invocations", "show", ran["invocation_id"]).out
    assert any("CONFIG_WEAKENED" in warning for warning in elsewhere["warnings"])


def test_work_in_a_clone_of_a_committed_trail_that_nobody_accepted_leaves_git_nothing_to_commit(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    cli("init", "--trail", "committed")
    first = cli("do", "implement it", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", first)
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "trail")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(chartered), str(clone))
    one = cli("do", "implement it", "--json", cwd=clone).json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", one, cwd=clone)
    late = ("--event", "artifact_link", "--json-payload", '{"path": ".kittify/charter/charter.md"}')
    cli("profile-invocation", "record", "--invocation-id", one, *late, cwd=clone)

    assert git(clone, "status", "--porcelain", "-uall") == ""
    assert cli("invocations", "verify", "--all", cwd=clone).code == 0


def test_what_is_closed_once_the_trail_is_accepted_leaves_with_all_it_names(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    cli("init", "--trail", "committed")
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "trail")
    clone, other = tmp_path / "clone", tmp_path / "other"
    git(tmp_path, "clone", "-q", str(chartered), str(clone))
    before = cli("do", "implement it", "--json", cwd=clone).json()["invocation_id"]
    assert cli("profile-invocation", "complete", before, cwd=clone).code == 0
    one = cli("do", "implement the other", "--json", cwd=clone).json()["invocation_id"]
    assert cli("config", "accept", "--yes", cwd=clone).code == 0
    assert cli("profile-invocation", "complete", one, cwd=clone).code == 0
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "one")
    git(tmp_path, "clone", "-q", str(clone), str(other))

    assert before not in git(clone, "ls-files")
    assert cli("invocations", "verify", one, cwd=other).code == 0


def test_an_agent_a_pipe_or_nobody_accepts_nothing(cli: Cli, chartered: Path) -> None:
    _configure(chartered, WEAK)

    for argv, env in ((["--yes"], AGENT), ([], {}), (["--json"], {})):
        refused = cli("config", "accept", *argv, env=env)
        assert (refused.code, "ACCEPT_NEEDS_PERSON" in refused.err) == (1, True)
    assert any("CONFIG_WEAKENED" in warning for warning in cli("do", "implement it", "--json").json()["warnings"])


def test_every_harness_that_says_so_is_known_for_an_agent(cli: Cli, chartered: Path) -> None:
    _configure(chartered, WEAK)
    for name in ("CLAUDECODE", "CODEX_THREAD_ID", "CURSOR_AGENT", "GEMINI_CLI", "COPILOT_CLI", "OPENCODE", "QWEN_CODE"):
        refused = cli("config", "accept", "--yes", "--json", env={name: "1"})
        assert refused.error()["error_code"] == "ACCEPT_NEEDS_PERSON", name


def test_outside_git_there_is_no_place_to_accept(cli: Cli, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / ".kittify").mkdir(parents=True)
    _configure(plain, WEAK)

    assert cli("config", "accept", "--yes", "--json", cwd=plain).error()["error_code"] == "NOT_A_REPOSITORY"


def test_init_by_a_person_accepts_the_trail_and_nothing_else(cli: Cli, chartered: Path) -> None:
    _configure(chartered, "audit: {capture_tool_io: full}\n")
    cli("init", "--trail", "committed")
    warnings = cli("do", "implement it", "--json").json()["warnings"]

    assert [warning for warning in warnings if "trail" in warning] == []
    assert len([warning for warning in warnings if "capture of tool_" in warning]) == 2


def test_a_catch_all_allow_pattern_is_refused(cli: Cli, chartered: Path) -> None:
    _configure(chartered, "redaction: {allow: ['re:(?s).*']}\n")

    assert cli("do", "implement it", "--json").error()["error_code"] == "CONFIG_INVALID"


def test_init_by_an_agent_does_not_say_that_records_are_published(cli: Cli, chartered: Path) -> None:
    assert chartered and cli("do", "fix the login test").code == 0

    done = cli("init", "--trail", "committed", env={"CLAUDECODE": "1"})

    assert "(trail: private)" in done.out and "published" not in done.out


def test_an_agent_leaves_no_trail_only_where_a_person_allowed_it(cli: Cli, chartered: Path) -> None:
    _configure(chartered, "audit: {no_trail: anyone}\n")
    refused = cli("do", "--no-trail", "implement it", "--json", env=AGENT)
    by_variable = cli("do", "implement it", "--json", env={**AGENT, "SPEC_KITTY_TRAIL": "off"})
    cli("config", "accept", "--yes")

    assert refused.error()["error_code"] == by_variable.error()["error_code"] == "NO_TRAIL_REFUSED"
    assert cli("do", "--no-trail", "implement it", "--json", env=AGENT).code == 0


def test_a_person_may_always_leave_no_trail(cli: Cli) -> None:
    assert cli("do", "--no-trail", "implement it", "--json").code == 0


def test_a_project_inside_a_project_counts_once_it_was_accepted(cli: Cli, chartered: Path) -> None:
    inner = chartered / "src"
    (inner / ".kittify/events").mkdir(parents=True)
    diverted = cli("do", "implement it", "--json", cwd=inner).json()
    accepted = cli("config", "accept", "--yes", cwd=inner)
    taken = cli("do", "implement it", "--json", cwd=inner).json()

    assert (chartered / diverted["record_path"]).is_file()
    assert any(f"{inner} holds a project inside this one" in warning for warning in diverted["warnings"])
    assert accepted.code == 0
    assert (inner / taken["record_path"]).is_file()


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize(
    "path",
    [
        ".kittify/local/hook-orphans.jsonl",
        ".kittify/local/capture.key",
        ".kittify/events/invocation-index.jsonl",
        ".kittify/events/profile-invocations/builder-bea-01M81A4Z000000000000000000.jsonl",
    ],
)
def test_private_files_that_a_branch_ships_tracked_are_refused(
    cli: Cli, chartered: Path, path: str, version: str
) -> None:
    git(chartered, "config", "index.version", version)
    _tracked(chartered, path, b"{}\n")
    refused = cli("do", "implement it", "--json")

    assert refused.error()["error_code"] == "TRACKED_PRIVATE"
    assert path in refused.error()["message"]
    assert path in {item["path"] for item in cli("doctor", "--json").json()["findings"]}
    subprocess.run(refused.error()["suggestion"].split(), cwd=chartered, check=True, capture_output=True)
    assert cli("do", "implement it", "--json").code == 0


def test_a_tracked_private_file_is_found_in_a_split_index(cli: Cli, chartered: Path) -> None:
    _tracked(chartered, ".kittify/local/hook-orphans.jsonl", b"{}\n")
    git(chartered, "update-index", "--split-index")

    assert cli("do", "implement it", "--json").error()["error_code"] == "TRACKED_PRIVATE"


def test_files_of_that_name_elsewhere_are_nobodys_business(cli: Cli, chartered: Path) -> None:
    _tracked(chartered, "docs/.kittify/local/notes.txt", b"x")
    _tracked(chartered, "docs/x.kittify/local/notes.txt", b"x")

    assert cli("do", "implement it", "--json").code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("what", [".kittify", ".git", ""])
def test_a_folder_of_another_user_is_never_taken_for_the_project(
    cli: Cli, chartered: Path, home: Path, what: str
) -> None:
    work = chartered / "victim"
    work.mkdir()
    os.chown(chartered / what, 65534, 65534)
    below = cli("do", "implement it", "--json", cwd=work)
    within = cli("do", "implement it", "--json")

    assert (work / below.json()["record_path"]).is_file()
    assert below.json()["governance_context_available"] is False
    assert within.error()["error_code"] == "FOREIGN_OWNER"
    # What the user told git counts here too.
    config = home / "gitconfig"
    config.write_text(f"[safe]\n\tdirectory = {chartered}\n")
    assert cli("do", "implement it", "--json", env={"GIT_CONFIG_GLOBAL": str(config)}).code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_parse_cache_of_another_user_is_not_read(cli: Cli, chartered: Path) -> None:
    _configure(chartered, "redaction: {rules: {orchid: 'ORCHID-[0-9]+'}}\n")
    cli("do", "implement it")
    cache = chartered / ".git/kittify/parse-cache.json"
    cache.write_text(cache.read_text().replace("ORCHID-[0-9]+", "NEVER-[0-9]+"))
    os.chown(cache, 65534, 65534)

    one = cli("do", "implement ORCHID-17", "--json").json()["invocation_id"]
    assert "ORCHID-17" not in cli("invocations", "show", one).out


def test_a_key_outside_git_or_tracked_is_no_key(cli: Cli, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / ".kittify/local").mkdir(parents=True)
    (plain / ".kittify/local/capture.key").write_bytes(b"k" * 32)
    _configure(plain, "audit: {capture_tool_io: hash}\n")
    one = cli("do", "implement it", "--json", cwd=plain).json()["invocation_id"]
    payload = json.dumps({"call_id": "c", "tool": "t", "args": {"pin": "0815"}})
    argv = ("profile-invocation", "record", "--invocation-id", one, "--event", "tool_call", "--json-payload", payload)
    cli(*argv, cwd=plain)

    call = cli("invocations", "show", one, "--json", cwd=plain).json()["events"][-1]
    assert (call["event"], "args_size" in call, "args_hash" in call) == ("tool_call", True, False)


def test_git_runs_nothing_a_repository_inside_the_branch_says(cli: Cli, project: Path, tmp_path: Path) -> None:
    (project / "app.py").write_text("x = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "one")
    head = git(project, "rev-parse", "HEAD").strip()
    inner = project / "sub"
    subprocess.run(["git", "init", "-q", "--bare", str(inner)], check=True, env=environment(tmp_path))
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    git(inner, "config", "core.bare", "false")
    git(inner, "config", "core.worktree", str(inner))
    git(inner, "config", "core.fsmonitor", str(evil))
    (inner / ".kittify").mkdir()
    one = cli("do", "implement it", "--json", cwd=inner).json()["invocation_id"]
    argv = ("profile-invocation", "complete", "--invocation-id", one)

    for name in (":a", "HEAD:app.py", "HEAD@{0}", "HEAD^{/one}", "--all", "a b"):
        assert cli(*argv, "--commit", name, "--json", cwd=inner).error()["error_code"] == "COMMIT_NOT_FOUND"
    assert cli(*argv, "--commit", "HEAD", "--json", cwd=inner).json()["commit"] == head
    assert not (tmp_path / "ran").exists()


RULE = "redaction: {rules: {ticket: 'TICKET-[0-9]+'}}\n"


def test_what_the_first_use_masked_stays_masked_whatever_a_branch_says(cli: Cli, chartered: Path) -> None:
    _configure(chartered, "audit: {capture_tool_io: 'off'}\n" + RULE)
    cli("do", "implement TICKET-1")
    _configure(chartered, "trail: private\n")
    ran = cli("do", "implement TICKET-2", "--json").json()

    shown = cli("invocations", "show", ran["invocation_id"], "--json").json()["events"][0]
    assert "TICKET-2" not in json.dumps(shown)
    assert shown["capture"]["tool_output"] == "off"
    assert sum("CONFIG_WEAKENED" in warning for warning in ran["warnings"]) == 3


def test_rules_of_a_branch_and_those_remembered_count_together(cli: Cli, chartered: Path) -> None:
    _configure(chartered, RULE)
    one = cli("do", "implement it", "--json").json()["invocation_id"]
    _configure(chartered, "redaction:\n  rules:\n" + "".join(f"    r{n}: zzz{n}\n" for n in range(200)))

    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    ran = cli("do", "implement TICKET-7 zzz199", "--json").json()
    assert "TICKET-7" not in str(ran) and "zzz199" not in str(ran)


def test_a_rule_that_masks_plain_words_is_refused(cli: Cli, chartered: Path) -> None:
    _configure(chartered, "redaction: {rules: {all: '(?s).+'}}\n")

    refused = cli("do", "implement it", "--json").error()
    assert (refused["error_code"], "rule all masks plain words" in refused["message"]) == ("CONFIG_INVALID", True)


def test_a_memory_that_cannot_be_read_is_an_error_until_a_person_accepts_anew(cli: Cli, chartered: Path) -> None:
    _configure(chartered, RULE)
    cli("do", "implement it")
    (chartered / ".git/kittify/accepted.json").write_text('{"": ')

    refused = cli("do", "implement it", "--json").error()
    assert (refused["error_code"], "accepted.json" in refused["message"]) == ("CONFIG_INVALID", True)
    assert "CONFIG_INVALID" in {item["code"] for item in cli("doctor", "--json").json()["findings"]}
    assert cli("config", "accept", "--yes").code == 0
    assert cli("do", "implement it", "--json").code == 0


def test_a_branch_that_moves_the_project_into_a_folder_moves_nothing(cli: Cli, chartered: Path) -> None:
    _configure(chartered, RULE)
    cli("do", "implement it")
    inner = chartered / "app"
    _configure_new(inner, "trail: private\n")
    (chartered / ".kittify").rename(chartered / "elsewhere")
    ran = cli("do", "implement TICKET-3", "--json", cwd=inner).json()

    assert (chartered / ran["record_path"]).is_file()
    assert "TICKET-3" not in str(ran)


def test_a_project_put_around_this_one_takes_nothing_over(cli: Cli, project: Path) -> None:
    inner = project / "app"
    _configure_new(inner, RULE)
    one = cli("do", "implement it", "--json", cwd=inner).json()["invocation_id"]
    _configure_new(project, "trail: private\n")
    (project / ".kittify/events").mkdir()

    assert cli("profile-invocation", "complete", "--invocation-id", one, cwd=inner).code == 0
    ran = cli("do", "implement TICKET-4", "--json", cwd=inner).json()
    assert (inner / ran["record_path"]).is_file()
    assert "TICKET-4" not in str(ran)


def _configure_new(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    _configure(folder, text)


def test_nothing_is_appended_to_a_record_that_became_tracked(cli: Cli, chartered: Path) -> None:
    one = cli("do", "implement it", "--json").json()
    git(chartered, "add", "-f", one["record_path"])
    before = (chartered / one["record_path"]).read_bytes()
    named = ("--invocation-id", one["invocation_id"], "--json")
    recorded = cli("profile-invocation", "record", *named, "--event", "error", "--json-payload", '{"error_code": "E"}')
    closed = cli("profile-invocation", "complete", *named)

    assert [answer.error()["error_code"] for answer in (recorded, closed)] == ["TRACKED_PRIVATE"] * 2
    assert (chartered / one["record_path"]).read_bytes() == before


def test_what_a_branch_has_less_recorded_is_seen_on_the_record_and_in_the_verdict(cli: Cli, project: Path) -> None:
    cli("do", "implement WP01")
    _configure(
        project,
        "audit:\n  capture_tool_io: off\nredaction:\n  rules:\n    hide-curl: 'curl [^ ]*'\n",
    )
    ran = cli("do", "implement WP02", "--json").json()
    shown = cli("invocations", "show", ran["invocation_id"], "--json").json()
    judged = [cli("invocations", "verify", of, "--json").json() for of in ("--all", ran["invocation_id"])]

    narrowed = [warning for warning in ran["warnings"] if warning.startswith("CONFIG_NARROWED")]
    assert len(narrowed) == 3 and "redaction rule hide-curl" in narrowed[2]
    assert shown["events"][0]["narrowed"].startswith("capture of tool_args: off instead of summary; ")
    assert "tool_output (capture is off)" in shown["not_seen"]
    for verdict in judged:
        assert "what the config kept out of 1 record (show says what)" in verdict["not_proven"]
    assert "CONFIG_NARROWED" in {item["code"] for item in cli("doctor", "--json").json()["findings"]}


def test_what_the_first_use_states_or_a_person_accepts_is_not_narrowed(cli: Cli, project: Path) -> None:
    _configure(project, "audit:\n  capture_tool_io: off\n")
    first, second = (cli("do", f"implement WP0{number}", "--json").json() for number in range(2))
    _configure(project, "audit:\n  capture_tool_io: off\n  capture_llm_io: hash\n")
    third = cli("do", "implement WP03", "--json").json()
    accept(project)
    fourth = cli("do", "implement WP04", "--json").json()
    told = ["CONFIG_NARROWED" in " ".join(payload["warnings"]) for payload in (first, second, third, fourth)]

    assert told == [False, False, True, False]


def test_what_was_decided_stands_on_the_next_record_and_on_no_other(cli: Cli, chartered: Path) -> None:
    _configure(chartered, f"{WEAK}project: {{uuid: 00000000-0000-4000-8000-000000000001}}\n")
    cli("do", "implement it", "--json")
    accepted = cli("config", "accept", "--yes")
    enabled = cli("sync", "enable", "--endpoint", "http://127.0.0.1:9/", "--level", "metadata", "--yes")
    ids = [cli("do", "implement it", "--json").json()["invocation_id"] for _ in range(2)]
    first, second = (cli("invocations", "show", one, "--json").json()["events"][0] for one in ids)
    found = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "NO_TERMINAL"]

    assert (accepted.code, enabled.code) == (0, 0)
    assert "without a terminal" in accepted.out
    assert "config accept (audit.no_trail, capture of prompt, " in first["decisions"]
    assert "hunter2" not in first["decisions"]
    assert "sync enable (http://127.0.0.1:9/, metadata), without a terminal" in first["decisions"]
    assert "decisions" not in second
    assert ["config accept", "sync enable"] == [item["message"].partition(" (")[0] for item in found]
    assert "http://127.0.0.1:9/" in cli("invocations", "show", ids[0]).out


@pytest.mark.parametrize("words", [("init",), ("setup", "--yes")])
def test_where_a_project_was_set_up_this_clone_works_whatever_is_recorded_above(
    cli: Cli, project: Path, words: tuple[str, ...]
) -> None:
    inner = project / "packages/web"  # room: charter_setup
    (inner / ".kittify").mkdir(parents=True)
    assert cli(*words, cwd=inner).code == 0
    above = cli("do", "fix the login test", "--json", cwd=project).json()["invocation_id"]
    within = cli("do", "fix the login test", "--json", cwd=inner).json()["invocation_id"]

    folders = [project / layout.RECORDS, inner / layout.RECORDS]
    assert [[path.stem[-26:] for path in folder.glob("*.jsonl")] for folder in folders] == [[above], [within]]
