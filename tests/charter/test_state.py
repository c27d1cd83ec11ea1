"""First loads are remembered once, atomically; a corrupt memory is an empty one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from charter.state import STATE_PATH, is_first_load, loaded_actions, mark_loaded, state_problem
from support import git, run_together

AT = "2024-01-02T03:04:05Z"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".kittify" / "charter").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(("action", "first"), [("implement", True), ("specify", True), ("analyze", False)])
def test_only_four_actions_have_a_first_load(root: Path, action: str, first: bool) -> None:
    assert first is is_first_load(str(root), action)


def test_a_mark_ends_the_first_load_of_that_action_alone(root: Path) -> None:
    mark_loaded(str(root), "plan", at=AT)

    assert (False, True) == (is_first_load(str(root), "plan"), is_first_load(str(root), "review"))
    assert {"schema_version": "1.0", "actions": {"plan": {"first_loaded_at": AT}}} == json.loads(
        (root / STATE_PATH).read_text()
    )


def test_a_second_mark_keeps_the_first_time(root: Path) -> None:
    mark_loaded(str(root), "plan", at=AT)
    mark_loaded(str(root), "plan", at="later")

    assert {"plan": {"first_loaded_at": AT}} == loaded_actions(str(root))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"actions": []}', "\x00", "[" * 60_000])
def test_a_corrupt_state_is_empty(root: Path, text: str) -> None:
    (root / STATE_PATH).write_text(text)

    found = state_problem(str(root))

    assert {} == loaded_actions(str(root))
    assert found is not None
    assert (STATE_PATH, f"rm {STATE_PATH}") == (found.path, found.repair)


def test_a_state_that_can_be_read_or_is_not_there_is_no_problem(root: Path) -> None:
    before = state_problem(str(root))
    mark_loaded(str(root), "plan", at=AT)

    assert (None, None) == (before, state_problem(str(root)))


def test_git_does_not_see_the_state_and_a_gitignore_that_is_there_stays(root: Path) -> None:
    git(root, "init", "-q")
    mark_loaded(str(root), "plan", at=AT)
    unseen = git(root, "status", "--porcelain", "--untracked-files=all")
    (root / ".kittify/charter/.gitignore").write_text("mine\n")
    mark_loaded(str(root), "review", at=AT)

    assert "" == unseen
    assert "mine\n" == (root / ".kittify/charter/.gitignore").read_text()


def test_a_linked_state_is_not_read(root: Path) -> None:
    (root / "other.json").write_text('{"actions": {"plan": {}}}')
    (root / STATE_PATH).symlink_to(root / "other.json")

    assert is_first_load(str(root), "plan")


def test_a_linked_folder_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".kittify").mkdir()
    (tmp_path / ".kittify" / "charter").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        mark_loaded(str(tmp_path), "plan", at=AT)

    assert [] == os.listdir(tmp_path / "elsewhere")


def test_marks_made_at_once_are_all_kept(root: Path) -> None:
    actions = [f"a{number}" for number in range(16)]
    run_together(lambda action: mark_loaded(str(root), action, at=AT), actions)

    assert sorted(actions) == sorted(loaded_actions(str(root)))


def test_a_failed_replacement_leaves_the_old_state_and_no_scratch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_loaded(str(root), "plan", at=AT)
    before = (root / STATE_PATH).read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError):
        mark_loaded(str(root), "review", at=AT)

    assert before == (root / STATE_PATH).read_bytes()
    assert [".gitignore", "context-state.json"] == sorted(os.listdir(root / ".kittify" / "charter"))
    assert "*\n" == (root / ".kittify/local/.gitignore").read_text()
