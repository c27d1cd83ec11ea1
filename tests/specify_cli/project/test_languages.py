"""The languages a project's root speaks of."""

from __future__ import annotations

from pathlib import Path

import pytest

from specify_cli.project.languages import detect_facts


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("pyproject.toml", "python"),
        ("tool.py", "python"),
        ("package.json", "javascript"),
        ("tsconfig.json", "typescript"),
        ("Cargo.toml", "rust"),
        ("go.mod", "go"),
        ("pom.xml", "java"),
        ("Gemfile", "ruby"),
        ("composer.json", "php"),
        ("App.sln", "csharp"),
        ("Package.swift", "swift"),
        ("CMakeLists.txt", "cpp"),
        ("mix.exs", "elixir"),
        ("train.lua", "lua"),
        ("deps.edn", "clojure"),
        ("rebar.config", "erlang"),
        ("build.zig", "zig"),
        ("shard.yml", "crystal"),
        ("Solve.jl", "julia"),
        ("dune-project", "ocaml"),
        ("App.fsproj", "fsharp"),
        ("Makefile.PL", "perl"),
        ("model.R", "r"),
    ],
)
def test_a_marker_file_names_its_language(tmp_path: Path, name: str, language: str) -> None:
    (tmp_path / name).touch()

    assert (language,) == detect_facts(str(tmp_path)).languages


def test_languages_are_sorted_and_named_once(tmp_path: Path) -> None:
    for name in ("setup.py", "requirements.txt", "Cargo.toml", "notes.md"):
        (tmp_path / name).touch()

    assert detect_facts(str(tmp_path)).languages == ("python", "rust")


def test_folders_and_symlinks_are_not_markers(tmp_path: Path) -> None:
    (tmp_path / "go.mod").mkdir()
    (tmp_path / "Cargo.toml").symlink_to("/etc/hosts")

    assert detect_facts(str(tmp_path)).languages == ()


@pytest.mark.parametrize("root", ["/does/not/exist", "/etc/hosts", "nul\0byte"])
def test_a_root_that_cannot_be_listed_has_no_known_languages(root: str) -> None:
    assert detect_facts(root).languages == ()
