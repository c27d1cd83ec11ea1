"""Which mission and work package a request is part of, and who knows of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specify_cli.project.missions import Work, find_work, name_mission, name_packages

TASKS = {
    "042-login-form": ("WP01-model.md", "WP03-the-form.md"),
    "043-audit-log": ("WP01-model.md", "WP04.md"),
}


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """Return a project with two missions."""
    root = tmp_path / "work"
    for mission, names in TASKS.items():
        tasks = root / "kitty-specs" / mission / "tasks"
        tasks.mkdir(parents=True)
        for name in names:
            (tasks / name).write_text("# A task\n")
    return root


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("implement WP03", "WP03"),
        ("review wp04, then WP03 and WP04 again", "WP04,WP03"),
        ("WP012: the parser", "WP012"),
        ("fix the WPF dialog", None),
        ("raise SWAP03 to 5", None),
        ("use WP0345", None),
    ],
)
def test_packages_are_named_as_words_of_their_own(request_text: str, expected: str | None) -> None:
    assert expected == name_packages(request_text)


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("finish 042-login-form", "042-login-form"),
        ("finish 042-login-form.", "042-login-form"),
        ("review mission 043", "043-audit-log"),
        ("compare 042-login-form with 043-audit-log", None),
        ("fix issue 042", None),
        ("finish 042-login", None),
    ],
)
def test_a_mission_is_named_by_its_whole_name_or_its_number(request_text: str, expected: str | None) -> None:
    assert expected == name_mission(request_text, tuple(TASKS))


@pytest.mark.parametrize(
    ("request_text", "folder", "expected"),
    [
        ("implement WP03", "", Work("042-login-form", "WP03")),
        ("implement WP01", "", Work(None, "WP01")),
        ("implement WP09", "", Work(None, "WP09")),
        ("implement WP01 of mission 043", "", Work("043-audit-log", "WP01")),
        ("implement WP01", "kitty-specs/043-audit-log/tasks", Work("043-audit-log", "WP01")),
        ("fix a typo", "kitty-specs/043-audit-log", Work("043-audit-log", None)),
        ("fix a typo", "", Work(None, None)),
    ],
)
def test_what_is_not_certain_is_left_out(planned: Path, request_text: str, folder: str, expected: Work) -> None:
    assert expected == find_work(request_text, str(planned / folder), str(planned))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("042-login-form-WP03", Work("042-login-form", "WP03")),
        ("042-login-form-lane-b", Work("042-login-form", None)),
        ("043-audit-log", Work("043-audit-log", None)),
        ("044-unknown-WP03", Work(None, None)),
    ],
)
def test_a_worktree_is_named_after_its_work(planned: Path, name: str, expected: Work) -> None:
    worktree = planned.rename(planned.parent / name)

    assert expected == find_work("fix a typo", str(worktree), str(worktree))


def test_a_link_in_place_of_the_specifications_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/secret-plan").mkdir(parents=True)
    root = tmp_path / "work"
    root.mkdir()
    (root / "kitty-specs").symlink_to(tmp_path / "elsewhere")

    assert Work() == find_work("finish secret-plan", str(root), str(root))
