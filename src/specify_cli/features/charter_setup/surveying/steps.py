"""How a repository is built, checked and tested: one `Step` for each purpose and language.

    find_steps(repository, read_manifests(repository), ("python",))
    # (Step("lint", "ruff check .", "python"), Step("test", "pytest -q", "python"))

A target or task of the project's own comes before the tool it calls. Nothing is run, and a line
holds of the repository only what has the form of a name or a path.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from doctrine.text import get_object
from specify_cli.features.charter_setup.surveying.repository import (
    KNOWN,
    PLAIN_PATH,
    Manifests,
    Names,
    Repository,
    Table,
    read_json,
    read_toml,
)

_LOCKS = ("pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "package-lock.json")
# The placeholder `npm init` writes fails by design, another runs nothing, what watches never ends.
_NO_TEST = re.compile(r"no test specified|\A *echo\b[^&|;]*\Z| --watch(?:All)?(?!\S)")
# Files that build a package of a language whose code may be few files, or lie deep.
_OTHER = re.compile(r"mvnw|pom\.xml|dune-project|CMakeLists\.txt|.*\.(?:rockspec|cabal|gemspec)")
# Purposes in the order in which a change meets them.
PURPOSES = ("build", "format", "lint", "types", "one test", "test", "docs")
# A workflow that a push or a pull request starts, not one for tags or for what bots do.
_ON_PUSH = re.compile(
    r"""^["']?on["']?:(?:[^\n]*[^\w\n]|(?:\n(?:[ #-][^\n]*)?)*?\n[ -]+)"""
    r"""(?:push|pull_request)\b(?!:\s+tags:)""",
    re.M,
)


class Step(NamedTuple):
    """One command of a project: what it is for, the line to type, the language it belongs to ("" =
    any)."""

    purpose: str
    line: str
    language: str = ""


def find_steps(repository: Repository, manifests: Manifests, languages: Names) -> tuple[Step, ...]:
    """Return the commands of a repository in the order of `PURPOSES`, for each purpose that of any
    language first, then one for each of `languages` in their order."""
    general = list(_read_targets(repository))
    typed = repository.has("tsconfig.json") or "typescript" in languages
    script = "typescript" if typed else "javascript"
    by_language = [
        *_find_python_steps(repository, manifests),
        *(Step(*step, script) for step in _find_package_steps(repository, manifests)),
    ]
    if repository.has("Gemfile") and "spec" in repository.folders:
        by_language += [
            Step("one test", "bundle exec rspec PATH:LINE", "ruby"),
            Step("test", "bundle exec rspec", "ruby"),
        ]
    composer = get_object(read_json(repository, "composer.json"), "scripts")
    by_language += (Step(kind, f"composer {name}", "php") for kind, name in _list_scripts(composer))
    pairs = {(step.language, step.purpose) for step in by_language}
    for pattern, language, lines, *when in KNOWN["files"]:
        names = fnmatch.filter(repository.names(""), pattern)
        name = pattern if repository.has(pattern) else next(iter(names), None)
        if name is None or (when and not re.search(when[0], repository.text(name))):
            continue
        lent = language == "rust" and _is_lent(repository, languages)
        for purpose, line in lines.items():
            tests_alone = lent and purpose in ("test", "one test")
            if (language, purpose) not in pairs and not tests_alone:
                pairs.add((language, purpose))
                by_language.append(Step(purpose, line, language))
    steps = _put_before(general, by_language)
    order = {name: place for place, name in enumerate(("", *languages))}
    steps.sort(
        key=lambda step: (PURPOSES.index(step.purpose), order.get(step.language, len(order)))
    )
    return tuple(dict.fromkeys(steps))


def _put_before(own: list[Step], tools: Iterable[Step]) -> list[Step]:
    """Return the project's own targets, then the tools they do not stand for: a target stands for
    what it calls, and `lint` calls what checks without running."""
    covered = {step.purpose for step in own}
    covered |= {"format", "types"} if "lint" in covered else set()
    return [*own, *(step for step in tools if step.purpose not in covered)]


def _is_lent(repository: Repository, languages: Names) -> bool:
    """Return whether a crate is built for programs of another language alone, which is seen here:
    those test it."""
    kinds = get_object(read_toml(repository, "Cargo.toml"), "lib").get("crate-type")
    named = set(map(str, kinds)) if isinstance(kinds, list) else set()
    is_seen = languages != ("rust",) or any(map(_OTHER.fullmatch, repository.names("")))
    return bool(named) and named <= {"cdylib", "staticlib"} and is_seen


def _read_targets(repository: Repository) -> Iterator[Step]:
    """Yield what the project's Makefile, justfile, task file or script for its tests offers."""
    for name, runner, pattern in KNOWN["runners"]:
        if name.endswith(".toml"):
            offered = set(get_object(read_toml(repository, name), pattern))
        else:
            offered = set(re.findall(pattern, repository.text(name), re.M))
        yield from _choose_targets(runner, offered)
        if offered:
            return
    script = repository.find_first("script/test", "scripts/test", "bin/test")
    if script:
        yield Step("test", script)


def _choose_targets(runner: str, offered: Collection[str], language: str = "") -> Iterator[Step]:
    """Yield for each purpose the first usual target that is offered."""
    for purpose, targets in KNOWN["targets"].items():
        target = next((target for target in targets.split() if target in offered), None)
        if target:
            yield Step(purpose, f"{runner} {target}", language)


def _find_python_steps(repository: Repository, manifests: Manifests) -> list[Step]:
    """Return the tasks that pyproject.toml lists, then the tools they do not stand for."""
    lock = repository.find_first("uv.lock", "poetry.lock", "pdm.lock")
    prefix = f"{lock.removesuffix('.lock')} run " if lock else ""
    tasks: list[Step] = []
    for runner, *path in KNOWN["python_tasks"]:
        table = reduce(get_object, path, get_object(manifests.python, "tool"))
        own = {name for name, task in table.items() if not _NO_TEST.search(str(task))}
        # What manages the environment itself needs no other program before it.
        before = "" if " " in runner else prefix
        tasks += _choose_targets(f"{before}{runner}", own, "python")
    tools = _find_python_tools(repository, manifests, prefix)
    return _put_before(tasks, (Step(*(*tool, "python")[:3]) for tool in tools))


def _find_python_tools(
    repository: Repository, manifests: Manifests, prefix: str
) -> Iterator[Sequence[str]]:
    """Yield each purpose with the line to type; "" behind them where that is for any language."""
    tools = get_object(manifests.python, "tool")
    config = repository.text("setup.cfg")
    tested = [
        p
        for p in repository.files
        if re.search(r"(?:\A|/)(?:test_[^/]*|[^/]*_test|conftest)\.py\Z", p)
    ]

    def uses(tool: str, *files: str) -> bool:
        section = f"[{tool}]" in config or f"[tool:{tool}]" in config
        named = tool in tools or tool in manifests.needs or section
        return named or any(map(repository.has, files))

    # Without a file that lists hooks both programs fail, though a project depends on one.
    if repository.find_first("prek.toml", ".pre-commit-config.yaml"):
        program = "prek" if uses("prek", "prek.toml") else "pre-commit"
        yield "lint", f"{prefix}{program} run --all-files", ""
    elif uses("ruff", "ruff.toml", ".ruff.toml"):
        if "format" in get_object(tools, "ruff"):
            yield "format", f"{prefix}ruff format --check ."
        yield "lint", f"{prefix}ruff check ."
    elif uses("flake8", ".flake8"):
        yield "lint", f"{prefix}flake8"
    if uses("black"):
        yield "format", f"{prefix}black --check ."
    if uses("mypy", "mypy.ini"):
        named = "files" in get_object(tools, "mypy") or "packages" in get_object(tools, "mypy")
        command = "mypy" if named else _find_command(repository, "mypy")
        # Which files it is for is the project's to say: all of them may never have been clean.
        if command:
            yield "types", f"{prefix}{command}"
    elif uses("pyright", "pyrightconfig.json"):
        yield "types", f"{prefix}pyright"
    if repository.has("manage.py") and not uses("pytest", "pytest.ini"):
        yield "test", f"{prefix}python manage.py test"
    elif uses("pytest", "pytest.ini", "conftest.py") or (tested and _is_python_root(repository)):
        yield "one test", f"{prefix}pytest -q PATH::NAME"
        yield "test", f"{prefix}pytest -q"
    elif repository.has("tox.ini"):
        yield "test", f"{prefix}tox"
    if uses("mkdocs", "mkdocs.yml"):
        yield "docs", f"{prefix}mkdocs build --strict"
    elif repository.has("docs/conf.py"):
        own = repository.has("docs/Makefile")
        line = "make -C docs html" if own else f"{prefix}sphinx-build docs docs/_build"
        yield "docs", line


def _find_command(repository: Repository, program: str) -> str:
    """Return how the project itself calls a program: a whole line of a recipe or of what runs on
    every push; "" where none is found."""
    before = r"^[ \t]*(?:- )?(?:run: *)?@?(?:(?:uv|poetry|pdm|hatch) run )?"
    line = re.compile(rf"{before}({program}(?: [\w./-]+)*)[ \t]*$", re.M)
    for path in ("Makefile", "justfile", "Justfile", *find_ci(repository)):
        match = line.search(repository.text(path))
        if match and match[1] != program:
            return match[1]
    return ""


def _is_python_root(repository: Repository) -> bool:
    """Return whether the root folder is a Python project of its own: it has a manifest, code or
    tests. Tests deep in a folder of it may need what only that folder has."""
    names = (*repository.names(""), *(f"tests/{name}" for name in repository.names("tests")))
    manifest = re.compile(
        r".*\.py|pyproject\.toml|setup\.cfg|requirements[\w.-]*\.txt|tox\.ini|pytest\.ini"
    )
    return any(manifest.fullmatch(name) for name in names)


def _find_package_steps(repository: Repository, manifests: Manifests) -> Iterator[tuple[str, str]]:
    """Yield each purpose with the line to type."""
    if not manifests.package:
        return
    scripts, needs = get_object(manifests.package, "scripts"), manifests.needs
    # A workspace has one lock for its packages.
    lock = repository.find_above(*_LOCKS)
    runner = re.split("[-.]", lock.removeprefix("package"))[0] or "npm"
    kinds = set()
    for purpose, name in _list_scripts(scripts):
        if not _NO_TEST.search(str(scripts[name])):
            kinds.add(purpose)
            short = name == "test" and runner != "bun"
            # It watches for ever where CI is not set, at no terminal too.
            watches = re.search(r"react-scripts test(?!.*--watch)", str(scripts[name]))
            line = f"{runner} {name}" if short else f"{runner} run {name}"
            yield purpose, f"CI=true {line}" if watches else line
    if "lint" not in kinds and "eslint" in needs:
        yield "lint", "npx eslint ."
    if "types" not in kinds and repository.has("tsconfig.json"):
        yield "types", "npx tsc --noEmit"
    for name, line in (("vitest", "npx vitest run"), ("jest", "npx jest")):
        if name in needs:
            yield "one test", f"{line} PATH -t NAME"
            if "test" not in kinds:
                yield "test", line
            break


def _list_scripts(scripts: Table) -> Iterator[tuple[str, str]]:
    """Yield each purpose with the first script of a package that is for it."""
    for purpose, names in KNOWN["scripts"].items():
        name = next(filter(scripts.get, names.split()), None)
        if name is not None:
            yield purpose, name


def find_ci(repository: Repository) -> Names:
    """Return the files that say what runs on every push."""
    paths = [".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile"]
    folder = ".github/workflows"
    paths += [
        f"{folder}/{name}"
        for name, _ in repository.list_folder(folder)
        if name.endswith((".yml", ".yaml"))
        and PLAIN_PATH.match(name)
        and _ON_PUSH.search(repository.text(f"{folder}/{name}"))
    ]
    return tuple(filter(repository.has, paths))
