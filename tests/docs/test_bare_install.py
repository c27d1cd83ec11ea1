"""What README, SKILL.md, tutorial and help show works from a wheel with the default dependencies and nothing else.

What an extra is needed for says so, with the command that installs it the way the program was installed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from docs_examples import EXAMPLES, REFUSED, Prepared, name_extra, place_ids
from forked import forking
from rooms import copy_bytecode
from specify_cli.installation import advise_install
from support import CHARTER, PATIENCE, environment, git

ROOT = Path(__file__).parents[2]
NAME = "spec-kitty-recorder"
Run = Callable[..., tuple[int, str]]


def _close_over(names: list[str]) -> set[str]:
    """Return the distributions that these need, with those, and what they need in turn."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            needs = [Requirement(text) for text in distribution(name).requires or ()]
            names += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def prefix(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment as pipx makes it: our wheel, its default dependencies, and pipx's own note beside them."""
    folder = tmp_path_factory.mktemp("bare")
    prefix = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    (packages,) = (prefix / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel_file) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    needs = [Requirement(line.removeprefix("Requires-Dist: ")) for line in lines if line.startswith("Requires-Dist: ")]
    for name in _close_over([need.name for need in needs if need.marker is None]):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    # As `pip --python` does it itself, which takes a second start.
    pip = [str(prefix / "bin/python"), str(distribution("pip").locate_file("pip")), "install", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--no-compile", "--disable-pip-version-check", str(wheel_file)], check=True)
    for module in (file for name in ("charter", "doctrine", "specify_cli") for file in (packages / name).rglob("*.py")):
        copy_bytecode(ROOT / "src" / module.relative_to(packages), module)
    (prefix / "pipx_metadata.json").write_text("{}")
    return prefix


@pytest.fixture(scope="module")
def run(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a command line of the installed program in a folder; its exit code and what it says on stderr."""
    home = tmp_path_factory.mktemp("home")
    env = {**environment(home), "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    with forking(prefix / "bin/python", env) as run_one:

        def run(*argv: str, cwd: Path) -> tuple[int, str]:
            done = run_one(*argv, cwd=cwd)
            return done.code, done.err

        yield run


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project of a few files with a charter and a commit."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/login.py").write_text("def login(name):\n" + "    name = name.strip()\n" * 12)
    (tmp_path / ".kittify/charter").mkdir(parents=True)
    (tmp_path / ".kittify/charter/charter.md").write_text(CHARTER)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "start")
    return tmp_path


def _judge(line: str, code: int, said: str, allowed: set[int]) -> str:
    """Return what is wrong with an answer: an error without its extra, or an advice that does not fit; or nothing."""
    extra = name_extra(line)
    if "INTERNAL" in said or "ModuleNotFoundError" in said:
        return f"{line}: {said}"
    if "EXTRA_MISSING" in said:
        fits = extra is not None and f"{NAME}[{extra}]" in said and "pipx install --force" in said
        return "" if fits else f"{line}: {said}"
    return "" if code in allowed else f"{line}: exit {code}: {said}"


def _list_lines(page: str, pattern: str) -> list[str]:
    return [line.split("   #")[0].strip() for line in re.findall(pattern, page, flags=re.M)]


def test_every_line_of_the_readme_and_the_skill_works_or_names_its_extra(run: Run, work: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    skill = (ROOT / "src/specify_cli/features/skills/texts/spec-kitty/SKILL.md").read_text("utf-8")
    lines = [*_list_lines(readme, r"^(spec-kitty .*)$"), *_list_lines(skill, r"`(spec-kitty [^`]*)`")]
    wrong = []
    for line in lines:
        words = shlex.split(line.replace("REQUEST", "review it").replace("PROFILE", "critic-cato"))[1:]
        if "<" in words or "-" in words or "setup" in words:
            continue  # these ask, or read what is typed
        code, said = run(*[word.replace("ID", "last") for word in words], cwd=work)
        wrong += [text] if (text := _judge(line, code, said, {0, 1})) else []
        if "EXTRA_MISSING" in said and "(extra: " not in next(one for one in readme.splitlines() if line in one):
            wrong.append(f"{line}: the README does not say that it needs an extra")

    assert len(lines) > 12
    assert wrong == []


def test_every_schema_is_shown(prefix: Path, work: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "docs/schemas").iterdir())
    failed = "[name for name in sys.argv[1:] if main(['schema', name])]"
    show = f"import sys; from specify_cli.cli.main import main; sys.exit(str({failed}))"
    argv = [str(prefix / "bin/python"), "-c", show, *names, "tool_call"]
    done = subprocess.run(argv, cwd=work, env=environment(work), capture_output=True, text=True, check=False)

    assert done.stderr == "[]\n"


def test_every_example_of_the_help_works_or_names_its_extra(run: Run, prepared: Prepared, tmp_path: Path) -> None:
    wrong = []
    for number, example in enumerate(EXAMPLES):
        if EXAMPLES[example]:
            continue  # a shell's
        root = Path(shutil.copytree(prepared.root, tmp_path / str(number), symlinks=True))
        line = place_ids(prepared._replace(root=root), example)
        code, said = run(*shlex.split(line)[1:], cwd=root)
        refused = REFUSED.get(example)
        if refused is None or "EXTRA_MISSING" in said:
            wrong += [text] if (text := _judge(line, code, said, {0})) else []
        elif not code or refused not in said:
            wrong.append(f"{line}: exit {code}, not {refused}: {said}")

    assert wrong == []


def test_a_command_without_its_extra_names_it(run: Run, work: Path) -> None:
    for line in (
        "spec-kitty view",
        "spec-kitty mcp serve",
        "spec-kitty collector serve --db x.db",
        "spec-kitty invocations verify --source postgresql://127.0.0.1/x",
        "spec-kitty invocations verify --all --engine dask://127.0.0.1:9",
    ):
        code, said = run(*shlex.split(line)[1:], cwd=work)

        assert code == 1 and "EXTRA_MISSING" in said
        assert _judge(line, code, said, set()) == ""


def test_an_adapter_without_its_framework_names_the_extra(prefix: Path) -> None:
    for name in ("langchain", "pydantic_ai", "openai_agents", "opentelemetry"):
        argv = [str(prefix / "bin/python"), "-c", f"import specify_cli.features.adapters.{name}"]  # room: adapters
        said = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
        extra = name.replace("_", "-")

        assert f"this needs the extra `{extra}`; next: pipx install --force" in said
        assert f"{NAME}[{extra}]" in said


def test_the_advice_names_the_extras_that_making_the_environment_anew_would_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    pipx, uv = tmp_path / "pipx_metadata.json", tmp_path / "uv-receipt.toml"
    pipx.write_text(json.dumps({"main_package": {"package_or_url": f"{NAME}[trail,sync]", "pinned": [1]}}, indent=4))

    assert "[sync,trail,view]" in advise_install("view") and "pipx install --force" in advise_install("view")
    pipx.unlink()
    uv.write_text(f'[tool]\nrequirements = [{{ name = "{NAME}", extras = ["trail", "view"], path = "/x.whl" }}]\n')
    assert "[trail,view]" in advise_install("view") and "uv tool install --force" in advise_install("view")
    uv.write_text(f'[tool]\nrequirements = [{{ name = "{NAME}", path = "/x.whl" }}]\npython = "[trail]"\n')
    assert "[view]" in advise_install("view")


def test_the_installed_script_answers(prefix: Path, work: Path) -> None:
    done = subprocess.run(
        [prefix / "bin/spec-kitty", "do", "review it", "--json"],
        cwd=work, env=environment(work), capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    answer: Any = json.loads(done.stdout)

    assert (done.returncode, answer["action"]) == (0, "review")
