"""hooks and skills, as a user's shell runs them."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from specify_cli.cli.tables.command_table import find_command, parse_plain
from specify_cli.features.hooks.settings.harnesses import HARNESSES
from specify_cli.features.skills.skills import FILES, shipped
from support import FULL, SPEC_KITTY, Cli, environment, run_together, valid

FIXTURES = Path(__file__).parents[2] / "fixtures/hooks"
DOCS = Path(__file__).parents[3] / "docs"
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("scope", ["project", "user"])
def test_install_status_uninstall(cli: Cli, project: Path, home: Path, harness: str, scope: str) -> None:
    argv = ("--harness", harness, "--scope", scope, "--json")
    installed = valid(cli("hooks", "install", *argv).json(), "hooks-changes")
    again = cli("hooks", "install", *argv).json()
    status = valid(cli("hooks", "status", "--json").json(), "hooks-status")
    gone = valid(cli("hooks", "uninstall", *argv).json(), "hooks-changes")

    (row,) = [row for row in status["harnesses"] if row["harness"] == harness]
    assert [change["state"] for change in installed["changes"] + again["changes"]] == ["installed", "unchanged"]
    assert row["installed"] and {found["scope"]: found["state"] for found in row["places"]}[scope] == "current"
    assert status["on_path"] is True and Path(status["program"]).name == "spec-kitty"
    assert gone["changes"][0]["state"] == "deleted"
    assert not (project / HARNESSES[harness].project).exists() and not (home / HARNESSES[harness].user).exists()


def test_an_older_program_on_path_is_told_what_it_knows(cli: Cli, project: Path, tmp_path: Path) -> None:
    """When it is a newer one, the same command adds the rest."""
    program = tmp_path / "bin/claude"
    program.parent.mkdir()
    path = f"{program.parent}:{os.environ['PATH']}"
    installed = []
    for version in ("2.1.330", "2.1.0", "2.1.331"):
        program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
        program.chmod(0o755)
        assert cli("hooks", "install", "--harness", "claude-code", env={"PATH": path}).code == 0
        installed.append(set(json.loads((project / ".claude/settings.json").read_text())["hooks"]))
        (status,) = (
            place["state"]
            for row in cli("hooks", "status", "--json", env={"PATH": path}).json()["harnesses"]
            for place in row["places"]
            if (row["harness"], place["scope"]) == ("claude-code", "project")
        )
        assert status == "current"

    assert "PostModelSwitch" in installed[0] and "StopFailure" not in installed[1]
    assert installed[1] < installed[0] == installed[2]


def test_people_are_told_what_was_done_and_what_is_left_to_do(cli: Cli) -> None:
    done = cli("hooks", "install", "--harness", "codex")
    again = cli("hooks", "install", "--harness", "codex")
    status = cli("hooks", "status")

    assert done.code == 0 and done.out.startswith("Codex: installed · .codex/hooks.json\n")
    assert "until it is reviewed" in done.out
    assert again.out.startswith("Codex: unchanged")
    assert re.search(r"^Codex \(codex\) · in use here · its sessions get records by themselves$", status.out, re.M)
    assert re.search(r"^  project  current   \.codex/hooks\.json$", status.out, re.M)
    assert cli("hooks", "uninstall", "--harness", "codex").out == "Codex: deleted · .codex/hooks.json\n"


def test_a_dry_run_prints_the_diff(cli: Cli, project: Path) -> None:
    settings = project / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": "m"\n}\n')
    done = cli("hooks", "install", "--harness", "claude-code", "--dry-run")

    assert done.code == 0
    assert "--- a/.claude/settings.json\n+++ b/.claude/settings.json\n@@ -1,3" in done.out
    assert done.out.endswith("nothing was written (--dry-run)\n")
    assert settings.read_text() == '{\n  "model": "m"\n}\n'
    assert not (project / ".kittify").exists()


def test_without_a_harness_those_in_use_are_meant(cli: Cli, project: Path, home: Path) -> None:
    (project / ".claude").mkdir()
    (home / ".cursor").mkdir()
    env = {"PATH": "/nowhere"}
    done = valid(cli("hooks", "install", "--json", env=env).json(), "hooks-changes")

    assert [change["harness"] for change in done["changes"]] == ["claude-code", "cursor"]
    gone = cli("hooks", "uninstall", "--json", env=env).json()
    assert [(change["harness"], change["state"]) for change in gone["changes"]] == [
        ("claude-code", "deleted"),
        ("cursor", "deleted"),
    ]
    assert not (project / ".cursor").exists()


def test_where_no_harness_is_seen_the_names_are_listed(cli: Cli) -> None:
    done = cli("hooks", "install", "--json", env={"PATH": "/nowhere"})

    assert done.code == 1
    assert done.error()["error_code"] == "HARNESS_NOT_FOUND"
    assert [item["name"] for item in done.error()["candidates"]] == list(HARNESSES)
    assert cli("hooks", "uninstall", env={"PATH": "/nowhere"}).out == "nothing of ours is installed there\n"


def test_one_broken_file_does_not_keep_the_others_from_being_done(cli: Cli, project: Path) -> None:
    for folder in (".claude", ".cursor"):
        (project / folder).mkdir()
    (project / ".claude/settings.json").write_text('{\n  "a": 1,\n}\n')
    done = cli("hooks", "install", "--json", env={"PATH": "/nowhere"})
    value = valid(done.json(), "hooks-changes")

    assert done.code == 1
    assert [change["harness"] for change in value["changes"]] == ["cursor"]
    assert value["refused"][0]["harness"] == "claude-code"
    assert value["refused"][0]["error_code"] == "SETTINGS_INVALID"
    assert ".claude/settings.json:3: a comma before }" in value["refused"][0]["message"]
    assert (project / ".claude/settings.json").read_text() == '{\n  "a": 1,\n}\n'
    assert "invalid" in cli("hooks", "status").out


def test_a_file_that_is_named_and_broken_is_an_error(cli: Cli, project: Path) -> None:
    (project / ".claude").mkdir()
    (project / ".claude/settings.json").write_text("nope")
    done = cli("hooks", "install", "--harness", "claude-code")

    assert done.code == 1 and done.out == ""
    assert done.err.startswith("SETTINGS_INVALID: .claude/settings.json:1: expected a value")


def test_a_program_that_is_not_on_path_is_said(cli: Cli) -> None:
    env = {"PATH": "/nowhere"}

    assert "not on PATH" in cli("hooks", "install", "--harness", "codex", env=env).err
    assert "not on PATH" in cli("hooks", "status", env=env).err
    assert "HOOK_PROGRAM" in {item["code"] for item in cli("doctor", "--json", env=env).json()["findings"]}
    assert cli("hooks", "status", "--json", env=env).json()["on_path"] is False


# --- whose program runs


def stub(folder: Path, body: str) -> Path:
    """A program named spec-kitty that is not ours."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "spec-kitty"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("body", [None, "echo No such command; echo hook >&2; exit 2", "cat; exit 127"])
@pytest.mark.parametrize("harness", [name for name, found in HARNESSES.items() if found.form != "plugin"])
def test_no_answer_of_any_program_of_that_name_reaches_the_agent(
    cli: Cli, project: Path, tmp_path: Path, harness: str, body: str | None, shell: str
) -> None:
    """Exit 2 of a hook before a tool means "block" to most harnesses, 127 and any output to some."""
    (change,) = cli("hooks", "install", "--harness", harness, "--json").json()["changes"]
    (command,) = set(re.findall(r'"command": "(.*)"', (project / change["path"]).read_text()))
    if body is not None:
        stub(tmp_path / "bin", body)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    done = subprocess.run([shell, "-c", command], input=b"{}", env={"PATH": path}, capture_output=True, check=False)

    says = b"{}\n" if harness == "antigravity" else b""
    assert (done.returncode, done.stdout, done.stderr) == (0, says, b"")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_program_that_is_killed_is_no_refusal(tmp_path: Path, shell: str) -> None:
    stub(tmp_path / "bin", "kill -9 $$")
    argv = [shell, "-c", HARNESSES["gemini"].command]
    done = subprocess.run(argv, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (0, b"")


def test_a_hook_that_outlives_its_shell_holds_no_pipe_of_the_harness(tmp_path: Path) -> None:
    """At a time-out only the shell dies; whoever waits for the end of its output would wait for the program too."""
    stub(tmp_path / "bin", f"echo begun > {shlex.quote(str(tmp_path))}/begun; exec sleep 600")
    child = subprocess.Popen(
        ["sh", "-c", HARNESSES["gemini"].command],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        while not (tmp_path / "begun").exists():
            assert child.poll() is None
        child.kill()

        assert child.stdout.read() == b""
    finally:
        os.killpg(child.pid, 9)
        child.communicate()


def test_a_stranger_of_the_same_name_is_said_to_be_none_of_ours(cli: Cli, tmp_path: Path) -> None:
    theirs = stub(tmp_path / "bin", "echo \"No such command 'hook'.\" >&2; exit 2")
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    status = valid(cli("hooks", "status", "--json", env=env).json(), "hooks-status")
    shown = cli("hooks", "status", env=env)

    assert (status["program"], status["ours"]) == (str(theirs), False)
    assert f"program  {theirs}" in shown.out
    assert "another program" in shown.err and "spec-kitty-cli" in shown.err
    assert "another program" in cli("hooks", "install", "--harness", "codex", env=env).err


def test_a_program_below_the_project_is_warned_of_and_not_run(cli: Cli, project: Path, tmp_path: Path) -> None:
    """A branch can bring it, and a link to it hides where it lies."""
    inside = stub(project / "node_modules/.bin", f"touch {shlex.quote(str(tmp_path))}/ran")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/spec-kitty").symlink_to(inside)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    status = valid(cli("hooks", "status", "--json", env=env).json(), "hooks-status")

    assert (status["resolved"], status["below_project"], status["ours"]) == (str(inside), True, None)
    assert "HOOK_PROGRAM" in {item["code"] for item in cli("doctor", "--json", env=env).json()["findings"]}
    assert "below this project" in cli("hooks", "status", env=env).err
    assert not (tmp_path / "ran").exists()


def test_a_link_of_the_project_to_a_program_outside_is_warned_of_as_well(cli: Cli, project: Path) -> None:
    (project / "bin").mkdir()
    (project / "bin/spec-kitty").symlink_to(Path(sys.executable).parent / "spec-kitty")
    env = {"PATH": f"{project}/bin:/usr/bin:/bin"}
    status = cli("hooks", "status", "--json", env=env).json()

    assert (status["below_project"], status["ours"]) == (True, True)
    assert "below this project" in cli("hooks", "status", env=env).err


def test_our_own_program_is_known_from_wherever_it_is_linked(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/spec-kitty").symlink_to(SPEC_KITTY)
    wrapper = stub(tmp_path / "wrapped", f'exec {shlex.quote(SPEC_KITTY)} "$@"')
    for folder in (tmp_path / "bin", wrapper.parent):
        done = cli("hooks", "status", "--json", env={"PATH": f"{folder}:/usr/bin:/bin"})

        assert (done.json()["ours"], done.err) == (True, "")


# --- a person at a terminal


@pytest.mark.parametrize("words", [["--help"], ["claude-code", "--help"], ["-h"]])
def test_the_hook_explains_itself_and_records_nothing(cli: Cli, chartered: Path, words: list[str]) -> None:
    cli("do", "implement WP03")
    done = cli("hook", *words)

    assert done.code == 0 and done.out.startswith("Usage: spec-kitty hook HARNESS")
    assert not (chartered / ".kittify/local/hook-failures.jsonl").exists()


@pytest.mark.parametrize("words", [["nonsense"], [], ["claude-code"]])
def test_a_person_who_runs_the_hook_is_told_what_it_is_for(project: Path, home: Path, words: list[str]) -> None:
    ours, theirs = pty.openpty()
    argv = [SPEC_KITTY, "hook", *words]
    done = subprocess.run(argv, cwd=project, env=environment(home), stdin=theirs, capture_output=True, check=False)
    os.close(ours)
    os.close(theirs)

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"USAGE: " in done.stderr and b"claude-code" in done.stderr


# --- settings elsewhere


def test_a_moved_settings_folder_is_followed(cli: Cli, tmp_path: Path) -> None:
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "moved"), "XDG_STATE_HOME": str(tmp_path / "state")}
    argv = ("--harness", "claude-code", "--scope", "user", "--json")
    cli("hooks", "install", *argv, env=env)

    assert (tmp_path / "moved/settings.json").is_file()
    assert cli("hooks", "uninstall", *argv, env=env).json()["changes"][0]["state"] == "deleted"
    assert not (tmp_path / "moved").exists()


def test_settings_belong_to_the_project_whatever_folder_it_is_asked_from(cli: Cli, project: Path) -> None:
    (project / "deep/er").mkdir(parents=True)
    cli("hooks", "install", "--harness", "claude-code", cwd=project / "deep/er")

    assert (project / ".claude/settings.json").is_file()


# --- test


def test_a_payload_shows_what_it_would_record_and_writes_nothing(cli: Cli, project: Path) -> None:
    path = FIXTURES / "claude-code/post-edit.json"
    done = cli("hooks", "test", "--harness", "claude-code", "--payload", str(path), "--json")
    value = valid(done.json(), "hooks-test")

    assert (done.code, value["session_id"], value["hook_event"]) == (0, "9f1c2a6e-0001", "PostToolUse")
    assert [event["body"]["event"] for event in value["events"]] == ["tool_result", "patch_apply"]
    assert len(value["events"][1]["body"]["diff_hash"]) == 64
    assert not (project / ".kittify").exists()


@pytest.mark.parametrize(
    ("hook", "event", "told"),
    [
        ({"hook_event_name": "UserPromptSubmit", "prompt": f"fix it {SECRET}"}, "prompt", '"fix it ⟦'),
        ({"hook_event_name": "Stop", "last_assistant_message": "the end"}, "turn", '"the end"'),
        ({"hook_event_name": "SessionEnd", "reason": "exit"}, "session_change", '"ended"'),
    ],
)
def test_what_a_payload_tells_of_the_conversation_is_shown_too(
    cli: Cli, hook: dict[str, object], event: str, told: str
) -> None:
    data = json.dumps({"session_id": "s1", "cwd": "/x", **hook}).encode()
    done = cli("hooks", "test", "--harness", "claude-code", "--json", stdin=data)
    shown = [row["body"] for row in valid(done.json(), "hooks-test")["events"]]

    assert [event] == [body["event"] for body in shown]
    assert told in json.dumps(shown, ensure_ascii=False) and SECRET not in done.out


def test_secrets_in_a_payload_are_shown_masked_only(cli: Cli, project: Path) -> None:
    (project / ".kittify").mkdir()
    (project / ".kittify/config.yaml").write_text("redaction: {rules: {ticket: 'TICKET-[0-9]+'}}\n")
    hook = {
        "hook_event_name": "PostToolUse",
        "session_id": f"s-{SECRET}",
        "tool_use_id": f"t-{SECRET}",
        "tool_name": "Bash",
        "tool_input": {"command": f"export TOKEN={SECRET}"},
        "tool_response": {"stdout": f"{SECRET} TICKET-77"},
        "cwd": f"/x/{SECRET}",
    }
    for shape in ("--json", ""):
        argv = ("hooks", "test", "--harness", "claude-code", *([shape] if shape else []))
        done = cli(*argv, stdin=json.dumps(hook).encode())

        assert done.code == 0
        assert SECRET not in done.out + done.err and "TICKET-77" not in done.out
        assert "⟦ticket⟧" in done.out


def test_people_see_the_events_and_the_session_that_is_bound(cli: Cli) -> None:
    path = FIXTURES / "claude-code/post-do.json"
    done = cli("hooks", "test", "--harness", "claude-code", "--payload", str(path))
    nothing = cli("hooks", "test", "--harness", "claude-code", stdin=b"[]")

    assert "tool_result" in done.out and "the session belongs to 01K6Z3Q8R00000000000000ABC" in done.out
    assert "records nothing" in nothing.out and "nothing was written" in nothing.err


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[1,]"])
def test_what_is_no_json_is_an_error_of_the_one_who_asked(cli: Cli, data: bytes) -> None:
    done = cli("hooks", "test", "--harness", "codex", "--json", stdin=data)

    assert done.code == 1 and done.error()["error_code"] == "PAYLOAD_INVALID"
    assert cli("hooks", "test", "--harness", "codex", "--payload", "no.json").code == 1
    assert cli("hooks", "test", stdin=data).code == 2


# --- skills


def test_skills_are_written_once_and_kept_when_edited(cli: Cli, project: Path) -> None:
    first = valid(cli("skills", "install", "--json").json(), "skills-installed")
    again = cli("skills", "install", "--json").json()
    skill = project / ".claude/skills/spec-kitty/SKILL.md"
    skill.write_text(skill.read_text() + "\nOurs.\n")
    kept = cli("skills", "install")
    shown = cli("skills", "install", "--dry-run")

    assert {file["state"] for file in first["files"]} == {"new"}
    assert {file["state"] for file in again["files"]} == {"unchanged"}
    assert skill.read_text().endswith("Ours.\n")
    assert "edited    .claude/skills/spec-kitty/SKILL.md" in kept.out and "--force" in kept.out
    assert "-Ours." in shown.out
    assert "replaced" in cli("skills", "install", "--force").out
    assert skill.read_text() == shipped("spec-kitty/SKILL.md")


def test_commands_of_other_harnesses_come_where_these_are_in_use(cli: Cli, project: Path) -> None:
    cli("skills", "install", env={"PATH": "/nowhere"})
    plain = {path for path, _, _ in FILES if (project / path).is_file()}
    for folder in (".gemini", ".opencode", ".cursor", ".github/hooks"):
        (project / folder).mkdir(parents=True)
    cli("skills", "install", env={"PATH": "/nowhere"})

    assert plain == {path for path, _, harness in FILES if harness is None}
    assert all((project / path).is_file() for path, _, _ in FILES)


def test_a_dry_run_of_skills_writes_nothing_and_a_link_is_refused(cli: Cli, project: Path) -> None:
    foreseen = cli("skills", "install", "--dry-run")

    assert foreseen.code == 0 and "\n+# Governed work with spec-kitty\n" in foreseen.out
    assert not (project / ".claude").exists() and not (project / ".agents").exists()
    (project / ".agents").symlink_to(project / "elsewhere")
    assert cli("skills", "install", "--json").error()["error_code"] == "UNSAFE_PATH"


def test_skills_are_shown_and_taken_away_but_for_what_was_edited(cli: Cli, project: Path) -> None:
    cli("skills", "install")
    (project / FILES[0][0]).write_text("mine")
    shown = {
        file["path"]: file["state"]
        for file in valid(cli("skills", "status", "--json").json(), "skills-installed")["files"]
    }
    cli("skills", "uninstall", "--dry-run")
    still = (project / FILES[1][0]).is_file()
    gone = {file["path"]: file["state"] for file in cli("skills", "uninstall", "--json").json()["files"]}

    assert (shown[FILES[0][0]], shown[FILES[1][0]], shown["AGENTS.md"]) == ("edited", "unchanged", "absent")
    assert still and (gone[FILES[0][0]], gone[FILES[1][0]]) == ("edited", "removed")
    assert (project / FILES[0][0]).read_text() == "mine" and not (project / ".agents").exists()
    assert cli("skills", "uninstall", "--force").code == 0 and not (project / ".claude").exists()


@pytest.mark.parametrize("before", [b"# Ours\n\nBe kind.\n", b"# Ours\r\n\r\nBe kind.\r\n", b"caf\xe9\n", b"", None])
def test_a_block_comes_and_goes_and_every_other_byte_stays(cli: Cli, project: Path, before: bytes | None) -> None:
    file = project / "AGENTS.md"
    if before is not None:
        file.write_bytes(before)
        file.chmod(0o640)
    cli("skills", "install", "--block", "AGENTS.md")
    with_block = file.read_bytes()
    cli("skills", "install", "--block", "AGENTS.md")
    again = file.read_bytes()
    cli("skills", "uninstall")

    assert with_block.startswith(before or b"<!-- spec-kitty: begin") and b"spec-kitty do" in with_block
    assert again == with_block and with_block.count(b"\r\n") in (0, with_block.count(b"\n"))
    if before:
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (before, 0o640)
    else:
        assert not file.exists()


def test_an_edited_block_is_kept_and_text_around_it_too(cli: Cli, project: Path) -> None:
    file = project / "CLAUDE.md"
    cli("skills", "install", "--block", "CLAUDE.md")
    file.write_text(f"above\n{file.read_text().replace('Governed work', 'Our work')}below\n")
    edited = file.read_text()
    cli("skills", "install")
    cli("skills", "uninstall")
    kept = file.read_text()
    cli("skills", "uninstall", "--force")

    assert kept == edited
    assert file.read_text() == "above\nbelow\n"


@pytest.mark.parametrize("source", sorted({source for _, source, _ in FILES}))
def test_every_command_a_skill_names_is_one_of_ours(source: str) -> None:
    text = shipped(source)
    commands = re.findall(r"spec-kitty ((?:[a-z-]+ ?)+[^`\n|]*)", re.sub(r"name: spec-kitty\n", "", text))

    assert len(commands) >= 2
    for command in commands:
        words = command.replace('"REQUEST"', "REQUEST").split(" <")[0].split()
        if words[0] in ("picks", "command") or not words[0].isascii():
            continue
        found = find_command(words)
        assert found is not None, command
        options = {param.option for param in found[0].params}
        assert all(word in options for word in words if word.startswith("--")), command


def test_a_skill_begins_with_its_name_and_when_to_use_it() -> None:
    head = shipped("spec-kitty/SKILL.md").split("---")[1].strip().splitlines()

    assert head[0] == "name: spec-kitty"
    assert head[1].startswith("description: ") and len(head[1]) < 1024
    assert "$ARGUMENTS" in shipped("speckit.replay.md") and "{{args}}" in shipped("speckit.replay.toml")


def test_every_form_of_the_replay_command_says_the_same() -> None:
    import tomllib

    toml = tomllib.loads(shipped("speckit.replay.toml"))
    head, _, body = shipped("speckit.replay.md").removeprefix("---\n").partition("---\n")

    assert toml["prompt"].strip() == body.strip().replace("$ARGUMENTS", "{{args}}")
    plain = shipped("speckit.replay.plain.md").partition("---\n\n")[2].split("\n", 1)[1]
    assert plain == body.lstrip().replace("$ARGUMENTS", "RUN_ID").split("\n", 1)[1]
    assert toml["description"] == head.removeprefix("description: ").strip()


def test_the_command_line_knows_every_harness_by_its_name() -> None:
    for name in HARNESSES:
        assert parse_plain(["hooks", "install", "--harness", name]) is not None
    assert parse_plain(["hooks", "install", "--harness", "other"]) is None


def test_the_page_names_every_harness_its_file_and_its_source() -> None:
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")

    for harness in HARNESSES.values():
        for text in (harness.name, harness.project, harness.user, harness.source):
            assert text in page, text
        # One form is in the page, and what is special about two of them.
        command = harness.command.replace(f"hook {harness.name}", "hook HARNESS", 1)
        silent, _, answer = command.partition(" || true")
        if harness.form != "plugin":
            assert f"`{silent} || true`" in page
            assert not answer or f"`{answer}`" in page
        else:
            assert f"`{harness.command}`" in page
        assert harness.form == "plugin" or all(f"`{event}`" in page for event in harness.events)


@pytest.mark.stress
def test_installs_at_the_same_moment_all_give_the_bytes_back(cli: Cli, process: Cli, project: Path) -> None:
    """What one remembers of its file no other forgets."""
    names = [name for name, harness in HARNESSES.items() if harness.form != "plugin"]
    for _ in range(3 if FULL else 1):
        done = run_together(lambda name: process("hooks", "install", "--harness", name).code, names)
        assert done == [0] * len(names)
        for name in names:
            assert cli("hooks", "uninstall", "--harness", name).code == 0
        left = [path for path in project.rglob("*") if path.is_file() and ".git/" not in str(path)]
        assert [path for path in left if ".kittify" not in path.parts] == []
