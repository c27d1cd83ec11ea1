"""Bad input gives one clear error, loses nothing and touches nothing outside the project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Cli, environment, git, run_obeying_modes

RECORDS = ".kittify/events/profile-invocations"


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        # what was found of installed packages is noted at the first command after an install
        if not path.is_fifo() and ".cache" not in path.relative_to(folder).parts
    }


@pytest.fixture(autouse=True)
def _nothing_outside_is_touched(home: Path, tmp_path: Path) -> Iterator[None]:
    (home / ".gitconfig").write_text("[user]\n\tname = me\n")
    bystander = tmp_path / "bystander"
    bystander.mkdir()
    (bystander / "file").write_text("untouched")
    before = _tree(home), _tree(bystander)

    yield

    assert (_tree(home), _tree(bystander)) == before


def _refused(cli: Cli, code: str, *argv: str | bytes, stdin: bytes | None = None) -> str:
    ran = cli(*argv, "--json", stdin=stdin)

    assert ran.code == 1, ran
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert ran.error()["error_code"] == code
    return str(ran.error()["message"])


def test_text_of_two_mebibytes_is_refused_with_its_size(cli: Cli, project: Path) -> None:
    message = _refused(cli, "REQUEST_TOO_LARGE", "do", "-", stdin=b"fix " + b"x" * 2 * 1024 * 1024)

    assert "1048576" in message
    assert not (project / ".kittify").exists()


def test_a_nul_is_refused(cli: Cli, project: Path) -> None:
    _refused(cli, "REQUEST_INVALID", "do", "-", stdin=b"fix the\0test")

    assert not (project / ".kittify").exists()


def test_bytes_that_are_no_text_are_refused(cli: Cli, project: Path) -> None:
    _refused(cli, "REQUEST_INVALID", "do", b"fix \xff\xfe")
    _refused(cli, "REQUEST_INVALID", "do", "-", stdin=b"fix \xed\xa0\x80")

    assert not (project / ".kittify").exists()


def test_a_charter_that_is_not_utf8_degrades_with_the_place(cli: Cli, chartered: Path) -> None:
    (chartered / ".kittify/charter/charter.md").write_bytes(b"# Charter\n\xff\n")
    ran = cli("do", "implement WP03", "--json", cwd=chartered)

    assert ran.code == 0
    assert not ran.json()["governance_context_available"]
    assert any("charter.md" in warning and "UTF-8" in warning for warning in ran.json()["warnings"])


@pytest.mark.parametrize("part", [".kittify", ".kittify/events", RECORDS])
def test_a_linked_folder_is_refused_and_never_followed(cli: Cli, project: Path, tmp_path: Path, part: str) -> None:
    path = project / part
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(tmp_path / "bystander")

    _refused(cli, "UNSAFE_PATH", "do", "implement WP03")
    _refused(cli, "UNSAFE_PATH", "invocations", "list")
    _refused(cli, "UNSAFE_PATH", "invocations", "reindex")


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_not_a_plain_file_is_no_record(cli: Cli, project: Path, tmp_path: Path, kind: str) -> None:
    good = cli("do", "implement WP03", "--json").json()["invocation_id"]
    odd = project / RECORDS / "builder-01JD4Q3S0000000000000000A1.jsonl"
    if kind == "link":
        odd.symlink_to(tmp_path / "bystander" / "file")
    elif kind == "fifo":
        os.mkfifo(odd)
    else:
        odd.mkdir()

    listed = cli("invocations", "list", "--json")
    assert [row["invocation_id"] for row in listed.json()] == [good]
    assert odd.name in listed.err
    _refused(cli, "NOT_A_REGULAR_FILE", "invocations", "show", "01JD4Q3S0000000000000000A1")
    _refused(
        cli, "NOT_A_REGULAR_FILE", "profile-invocation", "complete", "--invocation-id", "01JD4Q3S0000000000000000A1"
    )
    found = cli("invocations", "verify", "--json")
    assert found.code == 3
    assert [item["code"] for item in found.json()["findings"]] == ["NOT_A_REGULAR_FILE"]


def test_a_yaml_bomb_in_a_profile_is_named_and_blocks_nothing(cli: Cli, project: Path) -> None:
    folder = project / ".kittify/profiles"
    folder.mkdir(parents=True)
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10))
    (folder / "bomb.agent.yaml").write_text("l0: &l0 [x]\n" + layers)
    (folder / "deep.agent.yaml").write_text("a: " + "[" * 5000)
    (folder / "huge.agent.yaml").write_text("a: " + "x" * 300_000)
    ran = cli("do", "implement WP03", "--json")

    assert ran.code == 0
    for name in ("bomb", "deep", "huge"):
        assert any(f"{name}.agent.yaml" in warning for warning in ran.json()["warnings"])


@pytest.mark.parametrize(
    ("text", "named"),
    [("trail: [", "line"), ("memory_backend: cloud", "memory_backend"), ("trail: &a x", "line 1")],
)
def test_a_broken_config_is_one_error(cli: Cli, project: Path, text: str, named: str) -> None:
    (project / ".kittify").mkdir()
    (project / ".kittify/config.yaml").write_text(text)

    assert named in _refused(cli, "CONFIG_INVALID", "do", "implement WP03")
    assert not (project / ".kittify/events").exists()


def test_a_folder_in_place_of_the_config_is_one_error(cli: Cli, project: Path) -> None:
    (project / ".kittify/config.yaml").mkdir(parents=True)

    _refused(cli, "CONFIG_INVALID", "do", "implement WP03")


def test_a_file_where_the_trail_should_be_is_one_error(cli: Cli, project: Path) -> None:
    (project / ".kittify").write_text("a file where a folder should be")

    _refused(cli, "UNSAFE_PATH", "do", "implement WP03")


def test_a_folder_nobody_may_write_is_one_error(project: Path, home: Path) -> None:
    project.chmod(0o555)
    done = run_obeying_modes(["do", "implement WP03", "--json"], project, home)
    project.chmod(0o755)

    assert done.returncode == 1, done
    assert json.loads(done.stderr)["error_code"] == "WRITE_FAILED"
    assert done.stdout == ""
    assert not (project / ".kittify").exists()


def test_records_that_nobody_may_read_are_not_said_to_be_none(cli: Cli, project: Path) -> None:
    cli("do", "implement WP03")
    for path in (project / RECORDS).glob("*.jsonl"):
        path.rename(project / path.name)
        path.symlink_to(project / path.name)
    listed = cli("invocations", "list")

    assert listed.out == "none of the records could be read\n"
    assert "warning: " in listed.err


def test_a_full_disk_is_one_error_and_the_next_command_works(cli: Cli, project: Path, home: Path) -> None:
    """A file-size limit of the process refuses the write as a full disk does: half-way."""
    cli("do", "implement WP01")
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        "from specify_cli.cli.main import main\n"
        "sys.exit(main(['do', 'review WP02 and say what is missing', '--json']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=environment(home, measured=False),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert json.loads(done.stderr)["error_code"] == "WRITE_FAILED"
    assert done.stdout == ""
    assert len(cli("invocations", "list", "--json").json()) == 1
    assert cli("do", "review WP02 and say what is missing").code == 0
    assert cli("invocations", "verify").code == 0


def test_a_record_with_garbage_is_listed_as_a_problem_and_hides_no_other(cli: Cli, project: Path) -> None:
    good = cli("do", "implement WP03", "--json").json()["invocation_id"]
    (project / RECORDS / "builder-01JD4Q3S0000000000000000A1.jsonl").write_bytes(b"\x00garbage\n")
    listed = cli("invocations", "list", "--json")

    assert [row["invocation_id"] for row in listed.json()] == [good]
    assert "01JD4Q3S0000000000000000A1" in listed.err


def test_the_home_folder_is_no_project_of_folders_below_it(cli: Cli, home: Path) -> None:
    (home / ".kittify").mkdir()
    (home / ".kittify/keep").write_text("mine")
    work = home / "work"
    work.mkdir()
    before = _tree(home / ".kittify")
    ran = cli("do", "implement WP03", "--json", cwd=work)

    assert ran.code == 0
    assert (work / ".kittify").is_dir()
    assert _tree(home / ".kittify") == before
    subprocess.run(["rm", "-r", str(home / ".kittify"), str(work)], check=True)


def test_outside_git_no_folder_above_is_taken_for_the_project(cli: Cli, tmp_path: Path, project: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "deep/er").mkdir(parents=True)
    assert cli("do", "implement WP03", cwd=plain).code == 0
    below = cli("do", "implement WP03", cwd=plain / "deep/er")
    assert below.code == 0
    assert f"PROJECT_ABOVE: {plain} holds a project" in below.err
    assert len(list((plain / RECORDS).glob("*.jsonl"))) == 1
    (project / "src/app").mkdir(parents=True)
    assert cli("do", "implement WP03", cwd=project / "src/app").code == 0
    assert len(list((project / RECORDS).glob("*.jsonl"))) == 1


def test_worktrees_keep_their_own_trail(cli: Cli, chartered: Path) -> None:
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "one")
    inside = chartered / ".worktrees" / "feature"
    git(chartered, "worktree", "add", "-q", str(inside))
    assert cli("do", "implement WP03", cwd=inside).code == 0
    assert len(list((inside / RECORDS).glob("*.jsonl"))) == 1
    assert not (chartered / RECORDS).exists()


def test_what_was_found_is_said_in_the_words_of_json_and_of_no_library(chartered: Path, cli: Cli) -> None:
    run = cli("do", "fix the login", "--json").json()["invocation_id"]
    record = ("profile-invocation", "record", "--invocation-id", run, "--event")
    said = [
        cli("invocations", "list", "--limit", "x").err,
        *(
            cli(*record, "tool_call", "--json-payload", given).err
            for given in ("null", "[]", '{"tool":3}', '{"tool":{}}')
        ),
        cli(*record, "artifact_link", "--json-payload", '{"ref":1}').err,
        cli(*record, "tool_result", "--json-payload", '{"call_id":"c","status":null,"output":1,"duration_ms":"x"}').err,
    ]
    words = ("NoneType", "found list", "found int", "found dict", "['", "parse string", "Input should", "valid integer")

    assert chartered.exists() and all(said)
    assert [(word, text) for word in words for text in said if word in text] == []
