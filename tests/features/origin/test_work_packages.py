"""A request for a work package is found by it, and the lines it wrote name it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import Cli, git

PATCH = {"path": "form.py", "kind": "create", "after": "def show() -> str:\n    return 'form'\n"}
PATCHED = json.dumps(PATCH)


@pytest.fixture
def asked(chartered: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a request for WP03, which wrote a file on a branch, beside one for nothing."""
    monkeypatch.chdir(chartered)
    tasks = chartered / "kitty-specs/042-login-form/tasks"
    tasks.mkdir(parents=True)
    (tasks / "WP03-the-form.md").write_text("# The form\n")
    git(chartered, "add", "-A")
    git(chartered, "commit", "-q", "--allow-empty", "-m", "base")
    git(chartered, "branch", "base")
    asked = str(cli("do", "implement WP03", "--json").json()["invocation_id"])
    cli("do", "fix the parser", "--json")
    (chartered / "form.py").write_text(str(PATCH["after"]))
    named = ("--invocation-id", asked)
    recorded = cli(
        "profile-invocation", "record", *named, "--event", "patch_apply", "--json-payload", json.dumps(PATCH)
    )
    assert recorded.code == 0, recorded.err
    cli("profile-invocation", "complete", *named)
    git(chartered, "add", "-A")
    git(chartered, "commit", "-q", "-m", "form")
    return asked


@pytest.mark.parametrize(
    "by", [("--mission", "042"), ("--mission", "042-login-form"), ("--work-package", "wp03")], ids=" ".join
)
def test_list_and_search_find_it_by_mission_or_package(asked: str, cli: Cli, by: tuple[str, str]) -> None:
    rows = cli("invocations", "list", *by, "--json").json()
    hits = cli("invocations", "search", *by, "--json").json()

    assert [(asked, "042-login-form", "WP03")] == [
        (row["invocation_id"], row["mission"], row["work_package"]) for row in rows
    ]
    assert {asked} == {hit["invocation_id"] for hit in hits}


def test_a_part_of_a_missions_number_finds_nothing(asked: str, cli: Cli) -> None:
    assert asked
    assert [] == cli("invocations", "list", "--mission", "04", "--json").json()


@pytest.mark.parametrize("command", ["invocations show {}", "why form.py:2", "origin base..HEAD"])
def test_what_it_wrote_names_its_work_package(asked: str, cli: Cli, command: str) -> None:  # room: story
    said = cli(*command.format(asked).split())

    assert "WP03 of 042-login-form" in said.out


def test_origin_counts_the_rules_in_front_of_the_agent_as_show_does(asked: str, cli: Cli) -> None:
    """A rule that was offered by its title was not in front of it."""
    hits = cli("invocations", "show", asked, "--json").json()["context"]["hits"]
    (writer,) = cli("origin", "base..HEAD", "--json").json()["writers"]

    assert [hit["uri"] for hit in hits if hit.get("shown") != "line"] == writer["rules"]
    assert len(hits) > len(writer["rules"])


@pytest.mark.parametrize(
    ("name", "remote", "next_step"),
    [
        ("HEAD~9", "origin", "git log --oneline names those that are here"),
        ("nowhere", "origin", "git fetch origin nowhere:nowhere"),
        ("origin/main", "origin", "git fetch origin main:refs/remotes/origin/main"),
        ("up/main", "up", "git fetch up main:refs/remotes/up/main"),
        ("topic/one", "up", "git fetch up topic/one:topic/one"),
        ("0123456789abcdef", "up", "git fetch up 0123456789abcdef"),
        ("origin/main", None, "git branch --all"),
    ],
)
def test_a_commit_that_is_not_here_has_a_next_step_that_works(
    asked: str, project: Path, cli: Cli, name: str, remote: str | None, next_step: str
) -> None:
    if remote is not None:
        git(project, "remote", "add", remote, "../elsewhere.git")
    refused = cli("origin", f"{name}..HEAD", "--json")

    assert asked and 1 == refused.code
    assert refused.error()["suggestion"] == next_step


@pytest.mark.parametrize("name", ["origin/base", "base"])
def test_the_next_step_brings_a_branch_that_a_clone_of_one_branch_lacks(
    asked: str, project: Path, home: Path, tmp_path: Path, cli: Cli, name: str
) -> None:
    git(project, "branch", "-f", "base", "base", home=home)
    git(tmp_path, "clone", "-q", "--single-branch", f"file://{project}", "one", home=home)
    step = cli("origin", f"{name}..HEAD", "--json", cwd=tmp_path / "one").error()["suggestion"]
    git(tmp_path / "one", *step.split()[1:], home=home)

    assert asked and cli("origin", f"{name}..HEAD", cwd=tmp_path / "one").code == 0
