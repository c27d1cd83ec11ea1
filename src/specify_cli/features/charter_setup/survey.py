"""What a repository says about how it is built, checked and tested, and where its data lives.

`survey` reads names and a few well-known files: bounded, no link followed, nothing run. What it
finds are proposals for a person to take or change. The same files give the same survey in every
checkout, so nothing here looks at the name of the root folder, at times, or at what git ignores by
habit. Text of a repository is taken over only where it has the form of a name or a path.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from doctrine import os
from doctrine.languages import ENDINGS
from doctrine.text import get_object
from specify_cli.features.charter_setup.existing_rules import FOR_FOLDERS
from specify_cli.features.charter_setup.repository import (
    Manifests,
    Repository,
    Table,
    read_json,
    read_manifests,
    read_toml,
)

MAX_PACKAGES = 20
_PLAIN = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9_@+./-]{0,99}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}\Z")
_LOCKS = ("pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "package-lock.json")
_TARGET = re.compile(r"^([A-Za-z0-9][\w.-]*)[^\S\n]*:(?![=:])", re.M)
_RECIPE = re.compile(r"^@?([A-Za-z0-9][\w-]*)(?:[^\S\n][^\n:]*)?:(?!=)", re.M)
_TASK = re.compile(r"^  ([A-Za-z0-9][\w-]*):", re.M)
_RUNNERS = (
    ("Makefile", "make", _TARGET),
    ("justfile", "just", _RECIPE),
    ("Justfile", "just", _RECIPE),
    ("Taskfile.yml", "task", _TASK),
    ("Taskfile.yaml", "task", _TASK),
)
# The placeholder `npm init` writes fails by design, another runs nothing, what watches never ends.
_NO_TEST = re.compile(r"no test specified|\A *echo\b[^&|;]*\Z| --watch(?:All)?(?!\S)")
# Files that build a package of a language whose code may be few files, or lie deep.
_OTHER = re.compile(r"mvnw|pom\.xml|dune-project|CMakeLists\.txt|.*\.(?:rockspec|cabal|gemspec)")
# Purposes in the order in which a change meets them.
PURPOSES = ("build", "format", "lint", "types", "one test", "test", "docs")
with open(os.path.join(os.path.dirname(__file__), "survey.json"), encoding="utf-8") as _file:
    _KNOWN = json.load(_file)
_MIGRATION_FOLDERS = ("migrations", "migrate")
# A workflow that a push or a pull request starts, not one for tags or for what bots do.
_ON_PUSH = re.compile(
    r"""^["']?on["']?:(?:[^\n]*[^\w\n]|(?:\n(?:[ #-][^\n]*)?)*?\n[ -]+)"""
    r"""(?:push|pull_request)\b(?!:\s+tags:)""",
    re.M,
)
_NUMBERED = re.compile(r"[Vv]?(\d+)[_.-]")
# Their migrations say themselves how they are undone.
_UNDOING_TOOLS = ("alembic", "django", "rails", "knex")


Names = tuple[str, ...]


class Step(NamedTuple):
    """One command of a project: what it is for, the line to type, the language it belongs to ("" =
    any)."""

    purpose: str
    line: str
    language: str = ""


class Package(NamedTuple):
    """One package of a repository that holds several: its folder, its language, and the command
    that runs its tests there ("" where none is known)."""

    folder: str
    language: str
    test: str


class Data(NamedTuple):
    """Where schema changes live and how they are made here; an empty text is what is not known."""

    folders: Names = ()
    scripts: Names = ()
    tool: str = ""
    dialect: str = ""
    naming: str = ""
    ways_back: str = ""  # paired · none · ""


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
    repository = Repository.open(root, _KNOWN["skipped"].split())
    known = tuple(sorted(set(root_languages)))
    manifests = read_manifests(repository)
    needs = manifests.needs | set(get_object(read_toml(repository, "Cargo.toml"), "dependencies"))
    languages = _find_languages(repository, known)
    steps = _find_steps(repository, manifests._replace(needs=needs), languages)
    # What wraps an application of scripts for a phone is generated, and tested with that.
    if needs & set(_KNOWN["wrappers"].split()) or repository.has("pubspec.yaml"):
        repository.files = [
            path for path in repository.files if not path.startswith(("android/", "ios/"))
        ]
    packages, steps = _divide(repository, steps)
    return Survey(
        name=_project_name(manifests),
        languages=languages,
        root_languages=known,
        frameworks=tuple(name for name in _KNOWN["frameworks"].split() if name in needs),
        steps=steps,
        sources=_find_sources(repository),
        tests=tuple(repository.list_test_folders()),
        ci=_find_ci(repository),
        owners=repository.find_first(".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
        changelog=repository.find_first("CHANGELOG.md", "CHANGES.md", "CHANGELOG.rst"),
        data=_find_data(repository, needs),
        packages=packages,
        more_packages=len(_list_packages(repository)[MAX_PACKAGES:]) if packages else 0,
        nested=tuple(
            path
            for path in repository.files
            if "/" in path and _PLAIN.match(path) and path.rpartition("/")[2] in FOR_FOLDERS
        )
        + tuple(
            f"{folder}/.cursor/rules"
            for folder in sorted(repository.folders)
            if _PLAIN.match(folder) and os.path.isdir(f"{root}/{folder}/.cursor/rules")
        ),
    )


def _is_aside(path: str) -> bool:
    """Return whether a path is not the project's own work: it says nothing about its data or its
    focus."""
    return not set(_KNOWN["aside"].split()).isdisjoint(path.lower().split("/"))


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
            not _is_aside(folder)
            and os.path.splitext(path)[1] in ENDINGS
            and (folder == "." or _PLAIN.match(folder))
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
        if language and not (language == "sql" and _is_aside(path)):
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
    repository: Repository, steps: tuple[Step, ...]
) -> tuple[tuple[Package, ...], tuple[Step, ...]]:
    """Return the packages of a repository, and the steps of all of it: a target of the project's
    own that tests stands for the packages', a tool only for those of its language."""
    tests = [step for step in steps if step.purpose == "test"]
    languages = {_join_scripts(step.language) for step in tests}
    folders = [] if "" in languages else _list_packages(repository)[:MAX_PACKAGES]
    packages = tuple(_read_package(repository.below(folder), folder) for folder in folders)
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
    manifests = set(_KNOWN["manifests"].split())
    packages: list[str] = []
    for path in sorted(repository.files, key=lambda path: path.rpartition("/")[0]):
        folder, _, name = path.rpartition("/")
        own = name in manifests or name.endswith(_KNOWN["manifest_ending"])
        if not own or not _PLAIN.match(folder) or _is_aside(folder):
            continue
        if not any(folder == each or folder.startswith(f"{each}/") for each in packages):
            packages.append(folder)
    return packages


def _read_package(part: Repository, folder: str) -> Package:
    languages = _find_languages(part, ())
    steps = _find_steps(part, read_manifests(part), languages)
    test = next((step for step in steps if step.purpose == "test"), Step("test", ""))
    return Package(folder, test.language or next(iter(languages), ""), test.line)


# --- commands


def _find_steps(repository: Repository, manifests: Manifests, languages: Names) -> tuple[Step, ...]:
    general = {step.purpose: step for step in _read_targets(repository)}
    typed = repository.has("tsconfig.json") or "typescript" in languages
    script = "typescript" if typed else "javascript"
    by_language = [
        *(Step(*(*step, "python")[:3]) for step in _find_python_steps(repository, manifests)),
        *(Step(*step, script) for step in _find_package_steps(repository, manifests)),
    ]
    if repository.has("Gemfile") and "spec" in repository.folders:
        by_language += [
            Step("one test", "bundle exec rspec PATH:LINE", "ruby"),
            Step("test", "bundle exec rspec", "ruby"),
        ]
    by_language += (Step(*step, "php") for step in _find_composer_steps(repository))
    pairs = {(step.language, step.purpose) for step in by_language}
    for pattern, language, lines, *when in _KNOWN["files"]:
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
    # A target of the project's own stands for what it calls, and `lint` calls what checks without
    # running.
    covered = {*general, *(("format", "types") if "lint" in general else ())}
    steps = [*general.values(), *(step for step in by_language if step.purpose not in covered)]
    order = {name: place for place, name in enumerate(("", *languages))}
    steps.sort(
        key=lambda step: (PURPOSES.index(step.purpose), order.get(step.language, len(order)))
    )
    return tuple(dict.fromkeys(steps))


def _is_lent(repository: Repository, languages: Names) -> bool:
    """Return whether a crate is built for programs of another language alone, which is seen here:
    those test it."""
    kinds = get_object(read_toml(repository, "Cargo.toml"), "lib").get("crate-type")
    named = set(map(str, kinds)) if isinstance(kinds, list) else set()
    is_seen = languages != ("rust",) or any(map(_OTHER.fullmatch, repository.names("")))
    return bool(named) and named <= {"cdylib", "staticlib"} and is_seen


def _read_targets(repository: Repository) -> Iterator[Step]:
    """Yield what the project's Makefile, justfile, task file or script for its tests offers."""
    for name, runner, pattern in _RUNNERS:
        offered = set(pattern.findall(repository.text(name)))
        for purpose, targets in _KNOWN["targets"].items():
            target = next((target for target in targets.split() if target in offered), None)
            if target:
                yield Step(purpose, f"{runner} {target}")
        if offered:
            return
    script = repository.find_first("script/test", "scripts/test", "bin/test")
    if script:
        yield Step("test", script)


def _find_python_steps(repository: Repository, manifests: Manifests) -> Iterator[Sequence[str]]:
    """Yield each purpose with the line to type; "" behind them where that is for any language."""
    tools = get_object(manifests.python, "tool")
    config = repository.text("setup.cfg")
    tested = [
        p
        for p in repository.files
        if re.search(r"(?:\A|/)(?:test_[^/]*|[^/]*_test|conftest)\.py\Z", p)
    ]
    lock = repository.find_first("uv.lock", "poetry.lock", "pdm.lock")
    prefix = f"{lock.removesuffix('.lock')} run " if lock else ""

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
    for path in ("Makefile", "justfile", "Justfile", *_find_ci(repository)):
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


def _find_composer_steps(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield each purpose with the line to type."""
    scripts = get_object(read_json(repository, "composer.json"), "scripts")
    for purpose, name in _list_scripts(scripts):
        yield purpose, f"composer {name}"


def _list_scripts(scripts: Table) -> Iterator[tuple[str, str]]:
    """Yield each purpose with the first script of a package that is for it."""
    for purpose, names in _KNOWN["scripts"].items():
        name = next(filter(scripts.get, names.split()), None)
        if name is not None:
            yield purpose, name


def _find_ci(repository: Repository) -> Names:
    """Return the files that say what runs on every push."""
    paths = [".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile"]
    folder = ".github/workflows"
    paths += [
        f"{folder}/{name}"
        for name, _ in repository.list_folder(folder)
        if name.endswith((".yml", ".yaml"))
        and _PLAIN.match(name)
        and _ON_PUSH.search(repository.text(f"{folder}/{name}"))
    ]
    return tuple(filter(repository.has, paths))


# --- data


def _find_data(repository: Repository, needs: set[str]) -> Data | None:
    tool = _find_migration_tool(repository, needs)
    folders = sorted(set(_find_migration_folders(repository, tool)))
    holding = {
        path.rpartition("/")[0]
        for path in repository.files
        if path.endswith(".sql") and not _is_aside(path)
    }
    if not folders and not holding and not tool:
        return None
    drivers = _KNOWN["drivers"].items()
    dialects = (name for name, listed in drivers if needs.intersection(listed.split()))
    dialect = next(dialects, "") or _read_compose_file(repository)
    names = [name for folder in folders for name in repository.names(folder)]
    below = tuple(f"{folder}/" for folder in folders)
    scripts = [
        holder
        for holder in sorted(holding)
        if _PLAIN.match(holder) and not f"{holder}/".startswith(below)
    ]
    return Data(
        folders=tuple(folders[:4]),
        scripts=tuple(scripts[:4]),
        tool=tool,
        dialect=dialect,
        naming=_describe_naming(names),
        ways_back="" if tool in _UNDOING_TOOLS else _judge_ways_back(names),
    )


def _read_compose_file(repository: Repository) -> str:
    """Return the database a compose file starts."""
    paths = ("docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml")
    match = re.search(
        r"image:\s*[\"']?(?:[\w./-]*/)?(postg|mysql|mariadb)",
        "\n".join(map(repository.text, paths)),
    )
    return "" if not match else "PostgreSQL" if match[1] == "postg" else "MySQL"


def _judge_ways_back(names: Iterable[str]) -> str:
    scripts = {
        name.removesuffix(".sql").replace("_", ".") for name in names if name.endswith(".sql")
    }
    forward = [name for name in scripts if not name.endswith(".down")]
    paired = forward and all(f"{name.removesuffix('.up')}.down" in scripts for name in forward)
    return "paired" if paired else "none" if scripts else ""


def _find_migration_folders(repository: Repository, tool: str) -> Iterator[str]:
    """Yield the folders that hold migrations: of that name, and with a tool, SQL or numbered files
    to show for it."""
    for path in repository.files:
        folder, _, name = path.rpartition("/")
        if _is_aside(folder):
            continue
        parts = folder.split("/")
        versions = parts[-1] == "versions" and "alembic" in folder
        if (parts[-1] in _MIGRATION_FOLDERS or versions) and _PLAIN.match(folder):
            shows = tool or name.endswith(".sql") or _NUMBERED.match(name)
            is_one = name.endswith((".sql", ".py", ".rb", ".ts", ".js")) and name != "__init__.py"
            if shows and is_one:
                yield folder
        elif name == "migration.sql" and parts[-2:-1] == ["migrations"] and _PLAIN.match(folder):
            yield "/".join(parts[:-1])


def _find_migration_tool(repository: Repository, needs: set[str]) -> str:
    if repository.has("alembic.ini") or "alembic" in needs:
        return "alembic"
    if repository.has("manage.py") and "django" in needs:
        return "django"
    if repository.has("prisma/schema.prisma"):
        return "prisma"
    if repository.has("Gemfile") and any(
        path.startswith("db/migrate/") for path in repository.files
    ):
        return "rails"
    return "knex" if "knex" in needs else ""


def _describe_naming(names: Iterable[str]) -> str:
    """Return how migrations are numbered, where all of them agree."""
    digits = {len(match[1]) for match in map(_NUMBERED.match, names) if match}
    width = digits.pop() if len(digits) == 1 else 0
    if width >= 12:
        return "named by timestamp"
    return f"numbered with {width} digits" if width > 1 else "numbered" if width else ""
