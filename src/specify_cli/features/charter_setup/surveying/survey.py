"""What a repository says about how it is built, checked and tested, and where its data lives.

`survey` reads names and a few well-known files: bounded, no link followed, nothing run. What it
finds are proposals for a person to take or change. The same files give the same survey in every
checkout, so nothing here looks at the name of the root folder, at times, or at what git ignores by
habit. Text of a repository is taken over only where it has the form of a name or a path.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from doctrine import os
from doctrine.languages import ENDINGS
from doctrine.text import get_object
from specify_cli.features.charter_setup.existing_rules import FOR_FOLDERS
from specify_cli.features.charter_setup.surveying.data import Data, find_data
from specify_cli.features.charter_setup.surveying.repository import (
    KNOWN,
    PLAIN_PATH,
    Manifests,
    Names,
    Repository,
    is_aside,
    read_manifests,
    read_toml,
)
from specify_cli.features.charter_setup.surveying.steps import Step, find_ci, find_steps

MAX_PACKAGES = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}\Z")


class Package(NamedTuple):
    """One package of a repository that holds several: its folder, its language, and the command
    that runs its tests there ("" where none is known)."""

    folder: str
    language: str
    test: str


class Survey(NamedTuple):
    """What a repository says about itself."""

    name: str = ""
    languages: Names = ()
    root_languages: Names = ()
    frameworks: Names = ()
    steps: tuple[Step, ...] = ()
    sources: Names = ()
    tests: Names = ()
    ci: Names = ()
    owners: str = ""
    changelog: str = ""
    data: Data | None = None
    packages: tuple[Package, ...] = ()
    more_packages: int = 0  # that nobody looked at
    nested: Names = ()  # rule files for agents that lie in a folder, and hold there


def survey(root: str, *, root_languages: Iterable[str] = ()) -> Survey:
    """Read a repository. `root_languages` are those its root folder is already known to speak
    of."""
    repository = Repository.open(root)
    known = tuple(sorted(set(root_languages)))
    manifests = read_manifests(repository)
    needs = manifests.needs | set(get_object(read_toml(repository, "Cargo.toml"), "dependencies"))
    languages = _find_languages(repository, known)
    steps = find_steps(repository, manifests._replace(needs=needs), languages)
    # What wraps an application of scripts for a phone is generated, and tested with that.
    if needs & set(KNOWN["wrappers"].split()) or repository.has("pubspec.yaml"):
        repository.files = [
            path for path in repository.files if not path.startswith(("android/", "ios/"))
        ]
    folders = _list_packages(repository)
    packages, steps = _divide(repository, folders[:MAX_PACKAGES], steps)
    return Survey(
        name=_project_name(manifests),
        languages=languages,
        root_languages=known,
        frameworks=tuple(name for name in KNOWN["frameworks"].split() if name in needs),
        steps=steps,
        sources=_find_sources(repository),
        tests=tuple(repository.list_test_folders()),
        ci=find_ci(repository),
        owners=repository.find_first(".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
        changelog=repository.find_first("CHANGELOG.md", "CHANGES.md", "CHANGELOG.rst"),
        data=find_data(repository, needs),
        packages=packages,
        more_packages=len(folders[MAX_PACKAGES:]) if packages else 0,
        nested=tuple(
            path
            for path in repository.files
            if "/" in path and PLAIN_PATH.match(path) and path.rpartition("/")[2] in FOR_FOLDERS
        )
        + tuple(
            f"{folder}/.cursor/rules"
            for folder in sorted(repository.folders)
            if PLAIN_PATH.match(folder) and os.path.isdir(f"{root}/{folder}/.cursor/rules")
        ),
    )


# --- names and languages


def _find_sources(repository: Repository) -> Names:
    """Return the folders of the project's code: only the usual ones where they hold most of it,
    else these, then packages in the root, the largest first; "." is the root where it is no
    package but holds code."""
    usual = {"src", "lib", "app", "cmd", "pkg"} & repository.folders
    counts: Counter[str] = Counter()
    for path in repository.files:
        folder = path.partition("/")[0] if "/" in path else "."
        if (
            not is_aside(folder)
            and os.path.splitext(path)[1] in ENDINGS
            and (folder == "." or PLAIN_PATH.match(folder))
        ):
            counts[folder] += 1
    in_root = counts.pop(".", 0)
    is_usual = 2 * sum(counts[folder] for folder in usual) >= counts.total()
    packages = usual if is_usual else {f for f in counts if f"{f}/__init__.py" in repository.files}
    if not packages and in_root > 2:
        counts["."] = in_root
    return tuple(
        sorted(packages or counts, key=lambda one: (one not in usual, -counts[one], one))[:3]
    )


def _project_name(manifests: Manifests) -> str:
    poetry = get_object(get_object(manifests.python, "tool"), "poetry")
    for document in (get_object(manifests.python, "project"), poetry, manifests.package):
        value = document.get("name")
        if isinstance(value, str) and _NAME.match(value):
            return value
    return ""


def _find_languages(repository: Repository, known: Names) -> Names:
    """Those of the root first, then by number of files; a stray file or two does not make a
    language."""
    counts: Counter[str] = Counter()
    for path in repository.files:
        language = ENDINGS.get(os.path.splitext(path)[1])
        if language and not (language == "sql" and is_aside(path)):
            counts[language] += 1
    languages = {
        language for language, count in counts.items() if count > 2 or language == "sql"
    } | set(known) or set(counts)
    if (
        counts["typescript"]
        and counts["javascript"] <= counts["typescript"]
        and "javascript" in languages
    ):
        # package.json speaks of JavaScript in every TypeScript project, and not every one has a
        # tsconfig.json.
        languages = languages - {"javascript"} | {"typescript"}
        known = (*known, "typescript") if "javascript" in known else known
    return tuple(
        sorted(
            languages,
            key=lambda name: (name == "sql", name not in known, -counts[name], name),
        )
    )


# --- packages


def _divide(
    repository: Repository, folders: list[str], steps: tuple[Step, ...]
) -> tuple[tuple[Package, ...], tuple[Step, ...]]:
    """Return the packages of a repository that lie in `folders`, and the steps of all of it: a
    target of the project's own that tests stands for the packages', a tool only for those of its
    language."""
    tests = [step for step in steps if step.purpose == "test"]
    languages = {_join_scripts(step.language) for step in tests}
    packages = tuple(
        _read_package(repository.below(folder), folder) for folder in folders if "" not in languages
    )
    if not tests:
        return packages, steps
    others = [
        each for each in packages if each.test and _join_scripts(each.language) not in languages
    ]
    if not others and len(tests) == 1:
        return (), steps
    top = (Package(".", step.language, step.line) for step in tests)
    return (*top, *others), tuple(step for step in steps if step.purpose != "test")


def _join_scripts(language: str) -> str:
    """Return the language of a runner of scripts, which tests TypeScript as JavaScript."""
    return "javascript" if language == "typescript" else language


def _list_packages(repository: Repository) -> list[str]:
    """Return the folders of the packages of a repository in order; a package within another is
    that one's affair."""
    manifests, endings = set(KNOWN["manifests"].split()), tuple(KNOWN["manifest_endings"])
    packages: list[str] = []
    for path in sorted(repository.files, key=lambda path: path.rpartition("/")[0]):
        folder, _, name = path.rpartition("/")
        own = name in manifests or name.endswith(endings)
        if not own or not PLAIN_PATH.match(folder) or is_aside(folder):
            continue
        if not any(folder == each or folder.startswith(f"{each}/") for each in packages):
            packages.append(folder)
    return packages


def _read_package(part: Repository, folder: str) -> Package:
    languages = _find_languages(part, ())
    steps = find_steps(part, read_manifests(part), languages)
    test = next((step for step in steps if step.purpose == "test"), Step("test", ""))
    return Package(folder, test.language or next(iter(languages), ""), test.line)
