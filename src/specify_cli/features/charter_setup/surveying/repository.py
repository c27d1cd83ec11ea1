"""The names of a repository and the text of a few files: bounded, and no link is followed.

    repository = Repository.open(root)
    repository.has("Makefile"), repository.text("Makefile"), repository.folders
    read_manifests(repository).needs                       # {"django", "pytest"}

Nothing is run. A repository that is too large to walk is cut alike in every checkout.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from doctrine import os
from doctrine.git import find_worktree
from doctrine.load import SourceError, read_source
from doctrine.text import as_object, get_object

Table = Mapping[str, Any]
Names = tuple[str, ...]

with open(os.path.join(os.path.dirname(__file__), "survey.json"), encoding="utf-8") as _stream:
    KNOWN = json.load(_stream)
_SKIPPED = KNOWN["skipped"].split()

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# A test by its name, as RSpec, Busted and Vitest have it.
_SPEC = re.compile(r"(?:[._-](?:spec|test)|Spec|Test)\.(?!ya?ml\Z|json\Z|md\Z)\w+\Z")
PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9_@+./-]{0,99}\Z")
MAX_ENTRIES = 20_000
MAX_DEPTH = 6


class Repository:
    """The names of a repository, nearest first, and the text of the few files asked for."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: list[str] = []
        self.folders: set[str] = set()

    @classmethod
    def open(cls, root: str) -> Repository:
        """Return a repository whose names were read, but for those of what is built or vendored."""
        repository = cls(root)
        repository._walk()
        return repository

    def below(self, folder: str) -> Repository:
        """Return one folder of it as if that were all of it."""
        part, start = Repository(f"{self.root}/{folder}"), f"{folder}/"
        part.files = [path.removeprefix(start) for path in self.files if path.startswith(start)]
        part.folders = {path.removeprefix(start) for path in self.folders if path.startswith(start)}
        return part

    def _walk(self) -> None:
        level, entries = [""], 0
        for _ in range(MAX_DEPTH):
            below = []
            for folder in level:
                for name, is_folder in self.list_folder(folder):
                    # Nearest first, in order of names: a repository too large to walk is cut alike
                    # everywhere.
                    entries += 1
                    if entries > MAX_ENTRIES:
                        return
                    path = f"{folder}/{name}" if folder else name
                    if not is_folder:
                        self.files.append(path)
                    elif name.lower() not in _SKIPPED and not name.endswith(".egg-info"):
                        self.folders.add(path)
                        below.append(path)
            level = below

    def list_folder(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, each with whether it is a folder; links are left out."""
        try:
            with os.scandir(f"{self.root}/{folder}" if folder else self.root) as entries:
                return sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if not entry.is_symlink() and not entry.name.startswith(".")
                )
        except OSError:
            return []

    def has(self, path: str) -> bool:
        """Return whether a plain file is there."""
        full = self.root
        for part in path.split("/"):
            full = f"{full}/{part}"
            if os.path.islink(full):
                return False
        return os.path.isfile(full)

    def find_first(self, *paths: str) -> str:
        """Return the first of some plain files that is there; empty where none is."""
        return next(filter(self.has, paths), "")

    def find_above(self, *names: str) -> str:
        """Return the first of some plain files that is in this folder, else in the nearest one
        above it that has one, within the same git worktree; empty where none has."""
        here, top = self.root, find_worktree(self.root)
        while True:
            name = Repository(here).find_first(*names)
            if name or top is None or here == top or os.path.dirname(here) == here:
                return name
            here = os.path.dirname(here)

    def list_test_folders(self) -> Iterator[str]:
        """Yield the folders of tests. In `spec` may lie what an API promises, so a test must lie
        there."""
        for folder in ("tests", "test", "spec", "e2e"):
            names = (path for path in self.files if path.startswith(f"{folder}/"))
            if folder in self.folders and (folder != "spec" or any(map(_SPEC.search, names))):
                yield folder

    def text(self, path: str) -> str:
        """Return the text of a small file; empty where there is none that can be read."""
        try:
            source = read_source(self.root, path)
        except SourceError:
            return ""
        return source.data.decode("utf-8", "replace") if source else ""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in one folder."""
        return [path.rpartition("/")[2] for path in self.files if path.rpartition("/")[0] == folder]


class Manifests(NamedTuple):
    """What pyproject.toml and package.json say, and the names of what both depend on."""

    python: Table
    package: Table
    needs: set[str]


def read_manifests(repository: Repository) -> Manifests:
    """Return what the manifests in the root of a repository say."""
    python, package = read_toml(repository, "pyproject.toml"), read_json(repository, "package.json")
    needs = _collect_python_needs(repository, python)
    for table in ("dependencies", "devDependencies"):
        needs |= {name.lower() for name in get_object(package, table)}
    return Manifests(python, package, needs)


def read_toml(repository: Repository, path: str) -> Table:
    """Return the table that a TOML file holds; an empty one where it cannot be read."""
    try:
        return tomllib.loads(repository.text(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def read_json(repository: Repository, path: str) -> Table:
    """Return the object that a JSON file holds; an empty one where it cannot be read."""
    try:
        document = json.loads(repository.text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return as_object(document)


def _collect_python_needs(repository: Repository, python: Table) -> set[str]:
    """Return the names of what a Python project depends on, groups and extras included."""
    project = get_object(python, "project")
    poetry = get_object(get_object(python, "tool"), "poetry")
    listed: list[Any] = [project.get("dependencies")]
    listed += get_object(project, "optional-dependencies").values()
    listed += get_object(python, "dependency-groups").values()
    all_items = [item for items in listed if isinstance(items, list) for item in items]
    lines = [item for item in all_items if isinstance(item, str)]
    for name in repository.names(""):
        if re.fullmatch(r"requirements[\w.-]*\.txt", name):
            lines += repository.text(name).split("\n")
    names = {match.group(1) for line in lines if (match := _REQUIREMENT.match(line))}
    groups = get_object(poetry, "group").values()
    for table in (poetry, *(group for group in groups if isinstance(group, dict))):
        names |= get_object(table, "dependencies").keys()
        names |= get_object(table, "dev-dependencies").keys()
    return {name.lower().replace("_", "-") for name in names}


def is_aside(path: str) -> bool:
    """Return whether a path is not the project's own work: it says nothing about its data or its
    focus."""
    return not set(KNOWN["aside"].split()).isdisjoint(path.lower().split("/"))
