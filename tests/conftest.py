"""Projects to work in: a plain folder, a git repository, one with a charter; and the command line."""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from absent_rooms import ABSENT, OF_THE_WHOLE, asks_in_import, asks_in_text, read_text_of
from clusters import Cluster, dask_cluster
from postgres import Server, serving_postgres
from specify_cli import package_rules
from specify_cli.cli.terminal import person
from specify_cli.libraries.archive.withholding import Search
from support import CHARTER, FULL, Cli, Ran, git, run_main, run_process

# How long an example takes, or a hundred, says more of the machine than of the code. `make test` tries the same
# examples each time, `make stress` others at each run.
hypothesis.settings.register_profile(
    "tests",
    deadline=None,
    max_examples=100 if FULL else 16,
    derandomize=not FULL,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tests")

MEMORY, ENOUGH = "/dev/shm", 4 << 30
OFTEN = gc.get_threshold()
# Garbage is looked for less often: whole trees of syntax and of JSON are made and dropped here, and few of them circle.
gc.set_threshold(50_000, 20, 50)


def pytest_configure(config: pytest.Config) -> None:
    """Put the tests' thousands of small projects into memory, where there is enough of it and no disk is measured."""
    if not config.getoption("benchmark_skip", True) or FULL or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out modules that need a room which was taken out of the tree."""
    is_test = ABSENT and collection_path.suffix == ".py" and collection_path.name != "conftest.py"
    return True if is_test and asks_in_import(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have `make stress` ask each property many examples; skip tests that run a command of a room which was taken out
    of the tree, or compare the help of one it extended."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.stress)
    for item in items if ABSENT else ():
        name = getattr(item, "originalname", item.name)
        extended = any(f"[{command.replace(' ', '-')}]" in item.name for command in ABSENT["extended"])
        if OF_THE_WHOLE & {item.path.name, name}:
            item.add_marker(pytest.mark.skip(reason="it speaks of all rooms together"))
        elif extended or asks_in_text(f"{read_text_of(item.path, name)}\n{item.name}"):
            item.add_marker(pytest.mark.skip(reason=f"asks for a room that is not here: {ABSENT['rooms']}"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while tests are collected, and keep what was imported for it out of every later search: it
    stays until the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

    # At the very end packages count what they leak.
    atexit.register(gc.unfreeze)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for garbage once over all that is there: pytest does five times, for what raises when it is collected."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_harness_above() -> Iterator[None]:
    """Let the tests run below an agent's harness: what asks for a person in this process finds none above it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person, "read_ancestors", lambda: iter(()))
        yield


@pytest.fixture
def collects_often() -> Iterator[None]:
    """Collect garbage as often as Python does by itself: for what is held against a measure of memory."""
    before = gc.get_threshold()
    gc.set_threshold(*OFTEN)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="session", autouse=True)
def _equal_objects_are_judged_once() -> Iterator[None]:
    """Remember what a search says of an object under the same rules: what is shipped leaves with every safe export."""
    judge = Search.judge_object
    known: dict[tuple[bytes, str], str | None] = {}

    def judge_once(search: Search, data: bytes) -> str | None:
        key = (hashlib.sha256(data).digest(), search._rules.digest)
        if key not in known:
            known[key] = judge(search, data)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "judge_object", judge_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _packages_are_looked_through_once() -> Iterator[None]:
    """Remember whether a package brings rooms, as the cache in a user's home does: each test has a new home. When the
    folders that modules are imported from were changed is read once: a test that installs something adds one."""
    look_through, read_stamp = package_rules._is_brought, package_rules.read_stamp
    known: dict[str, bool] = {}
    path, stamp = list(sys.path), read_stamp()

    def read_stamp_once() -> list[list[object]]:
        return list(stamp) if sys.path == path else read_stamp()

    def look_through_once(stamp: list[list[object]]) -> bool:
        if [] in stamp:  # the current folder is among them
            return look_through(stamp)
        key = repr(stamp)
        if key not in known:
            known[key] = look_through(stamp)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package_rules, "_is_brought", look_through_once)
        patch.setattr(package_rules, "read_stamp", read_stamp_once)
        yield


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository as `git init` makes it, to copy from."""
    folder = tmp_path_factory.mktemp("repository") / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--template=")
    return folder


@pytest.fixture
def project(repository: Path, tmp_path: Path) -> Path:
    """A fresh git repository and nothing else."""
    return Path(shutil.copytree(repository, tmp_path / "project"))


@pytest.fixture
def chartered(project: Path) -> Path:
    """A git repository with a charter."""
    path = project / ".kittify" / "charter" / "charter.md"
    path.parent.mkdir(parents=True)
    path.write_text(CHARTER, encoding="utf-8")
    return project


@pytest.fixture
def cli(project: Path, home: Path) -> Cli:
    """Run a command line in the project, in this process."""

    def run(
        *argv: str | bytes, cwd: Path = project, stdin: bytes | None = None, env: dict[str, str] | None = None
    ) -> Ran:
        return run_main(argv, cwd=cwd, home=home, stdin=stdin or b"", env=env)

    return run


@pytest.fixture
def process(project: Path, home: Path) -> Cli:
    """Run the installed `spec-kitty` in the project, in a process of its own: for what only a process shows."""

    def run(
        *argv: str | bytes, cwd: Path = project, stdin: bytes | None = None, env: dict[str, str] | None = None
    ) -> Ran:
        return run_process(argv, cwd=cwd, home=home, stdin=stdin or b"", env=env)

    return run


@pytest.fixture
def records(project: Path) -> Callable[[], list[Path]]:
    """The record files of the project."""

    def found() -> list[Path]:
        return sorted((project / ".kittify/events/profile-invocations").glob("*.jsonl"))

    return found


@pytest.fixture(scope="module")
def whole_cluster() -> Iterator[Cluster]:
    with dask_cluster(2) as started:
        yield started


@pytest.fixture
def cluster(whole_cluster: Cluster) -> Cluster:
    """A Dask cluster of two workers, for a module whose tests let Dask leave sockets; those that a test before this
    one killed are there again."""
    whole_cluster.wait_for_workers(2)
    return whole_cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server; where none is installed the test is skipped and says so."""
    with serving_postgres() as server:
        yield server
