"""What an answer advises runs as it stands, from where it was asked."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from support import Cli, git

RECORDS = ".kittify/events/profile-invocations"


def _follow(advice: str, cwd: Path) -> None:
    subprocess.run(advice, shell=True, cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def below(project: Path) -> Path:
    folder = project / "sub dir/deep"
    folder.mkdir(parents=True)
    return folder


def test_from_a_folder_of_the_project_the_advice_untracks_what_is_private(cli: Cli, project: Path, below: Path) -> None:
    cli("do", "implement WP03")
    git(project, "add", "-f", RECORDS)
    refused = cli("do", "implement WP04", "--json", cwd=below)
    [found] = [row for row in cli("doctor", "--json", cwd=below).json()["findings"] if row["severity"] == "error"]
    _follow(found["repair"], below)
    git(project, "add", "-f", RECORDS)
    _follow(refused.error()["suggestion"], below)

    assert refused.error()["error_code"] == found["code"] == "TRACKED_PRIVATE"
    assert git(project, "ls-files", RECORDS) == ""
    assert cli("do", "implement WP04", cwd=below).code == 0


def test_a_brief_is_begun_from_the_folder_it_was_given_in(cli: Cli, below: Path) -> None:
    (below / "brief.md").write_text("implement WP03\n")
    kept = cli("intake", "brief.md", cwd=below).out

    assert (below / kept.rpartition(" < ")[2].strip()).read_text() == "implement WP03\n"


@pytest.mark.parametrize("verb", ["why", "origin"])
def test_a_line_that_a_file_lacks_leads_to_the_file_whatever_it_is_called(
    cli: Cli, project: Path, below: Path, verb: str
) -> None:
    (below / "it's a file.txt").write_text("one\n")
    git(project, "add", "sub dir")
    git(project, "commit", "-qm", "a file")
    refused = cli(verb, "it's a file.txt:9", "--json", cwd=below).error()

    assert "has 1 line" in refused["message"] and "1 lines" not in refused["message"]
    assert cli(*shlex.split(refused["suggestion"])[1:], cwd=below).code == 0


def test_names_with_blanks_stand_quoted_in_what_is_advised(cli: Cli, project: Path, below: Path) -> None:
    for argv, name in (
        (("why", "no such file"), "sub dir/deep/no such file"),
        (("invocations", "compare", "a b"), "a b"),
        (("charter", "context", "--uri", "a b", "--explain"), "a b"),
        (("collector", "token", "revoke", "x", "--db", "a b"), "a b"),
    ):
        if argv[0] == "collector":
            cli("collector", "token", "create", "ada", "--db", "a b", "--project", "all", cwd=below)
        advice = cli(*argv, "--json", cwd=below).error()["suggestion"]
        assert name in shlex.split(advice), advice
    assert project
