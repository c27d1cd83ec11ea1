"""The repository holds every profile there is; a broken file is reported and harms no other."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from doctrine.agent_profiles.repository import AgentProfileRepository
from doctrine.load import ParseCache

PROFILE = "profile-id: {id}\nname: {name}\nroles: [implementer]\n"


def _write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def _shown(repository: AgentProfileRepository) -> dict[str, tuple[str, str]]:
    return {profile.profile_id: (profile.name, profile.origin) for profile in repository.all()}


def test_without_a_project_the_shipped_profiles_are_there() -> None:
    repository = AgentProfileRepository()
    ids = [profile.profile_id for profile in repository.all()]

    assert sorted(ids) == ids
    assert 14 <= len(ids)
    assert () == repository.problems


def test_a_missing_folder_is_fine(tmp_path: Path) -> None:
    repository = AgentProfileRepository(tmp_path / "none", tmp_path / "absent" / "deep")

    assert ((), ()) == (repository.all(), repository.problems)


def test_a_project_profile_shadows_the_shipped_one(tmp_path: Path) -> None:
    _write(tmp_path / "shipped", "a.agent.yaml", PROFILE.format(id="a", name="Shipped"))
    _write(tmp_path / "shipped", "b.agent.yaml", PROFILE.format(id="b", name="Shipped"))
    _write(tmp_path / "mine", "zz.agent.yaml", PROFILE.format(id="a", name="Mine"))
    repository = AgentProfileRepository(tmp_path / "shipped", tmp_path / "mine")

    assert {"a": ("Mine", "project"), "b": ("Shipped", "shipped")} == _shown(repository)


def test_of_several_project_folders_the_last_wins(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _write(tmp_path / name, "a.agent.yaml", PROFILE.format(id="a", name=name))
    repository = AgentProfileRepository(tmp_path, [tmp_path / "one", tmp_path / "two"])

    assert {"a": ("two", "project")} == {"a": _shown(repository)["a"]}


def test_sources_are_the_bytes_of_the_project_profiles_in_use(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _write(tmp_path / name, "a.agent.yaml", PROFILE.format(id="a", name=name))
    repository = AgentProfileRepository(project_dir=("one", "two"), root=tmp_path)
    data = (tmp_path / "two" / "a.agent.yaml").read_bytes()

    assert {hashlib.sha256(data).hexdigest(): data} == repository.sources


def test_a_broken_file_is_named_by_line_and_the_others_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    _write(folder, "good.agent.yaml", PROFILE.format(id="good", name="Good"))
    _write(folder, "bomb.agent.yaml", "a: &x [1]\nb: [*x, *x]\n")
    _write(folder, "late.agent.yaml", "profile-id: late\nname: L\nroles: [x]\nrouting-priority: 900\n")
    _write(folder, "twin.agent.yaml", PROFILE.format(id="good", name="Twin"))
    (folder / "link.agent.yaml").symlink_to(folder / "good.agent.yaml")
    os.mkfifo(folder / "pipe.agent.yaml")
    repository = AgentProfileRepository(tmp_path / "none", "p", root=tmp_path)

    assert ["good"] == [profile.profile_id for profile in repository.all()]
    assert {
        "p/bomb.agent.yaml": 1,
        "p/late.agent.yaml": 4,
        "p/twin.agent.yaml": 1,
        "p/link.agent.yaml": None,
        "p/pipe.agent.yaml": None,
    } == {problem.path: problem.line for problem in repository.problems}
    assert all(problem.reason and problem.repair for problem in repository.problems)


def test_a_problem_is_named_by_the_path_the_caller_gave(tmp_path: Path) -> None:
    _write(tmp_path / "p", "x.agent.yaml", "[")
    repository = AgentProfileRepository(tmp_path / "none", tmp_path / "p")

    assert [str(tmp_path / "p" / "x.agent.yaml")] == [problem.path for problem in repository.problems]


def test_a_warm_cache_gives_the_same_profiles(tmp_path: Path) -> None:
    _write(tmp_path / "p", "a.agent.yaml", PROFILE.format(id="a", name="A"))
    path = str(tmp_path / "cache.json")
    cold = AgentProfileRepository(project_dir=tmp_path / "p", cache=ParseCache(path))
    warm = AgentProfileRepository(project_dir=tmp_path / "p", cache=ParseCache(path))

    assert cold.all() == warm.all()


def test_a_file_that_is_not_utf8_is_named_by_offset(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "x.agent.yaml").write_bytes(b"profile-id: x\nname: \xe9\n")
    repository = AgentProfileRepository(tmp_path / "none", "p", root=tmp_path)

    assert [("p/x.agent.yaml", 2, "not UTF-8: byte 0xe9 at offset 20")] == [
        (problem.path, problem.line, problem.reason) for problem in repository.problems
    ]


def test_an_unknown_id_is_none() -> None:
    assert AgentProfileRepository().get("nobody") is None
