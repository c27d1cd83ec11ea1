"""Install each extra alone, run what it is for, and run its feature's tests: what `make extras` and `make release` do.

    trials = try_extras(wheel, choose_extras("view mcp"), folder)

For each extra two environments are made. In the first lie the wheel, its default dependencies and this extra at the
digests of constraints.txt, and nothing else: the extra's commands run there, and every `spec-kitty` that a test starts.
The second runs the tests: it reads the first and has what tests need beside it. There our own modules are refused every
import that the first environment could not serve (`extra_alone.py`), so no package of the tests stands in for one that
an extra forgot. In an environment without any extra the same commands must name the extra and how to add it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CAPSULE = ROOT / "tests/features/capsule/requirements.txt"
# What every test needs: `conftest.py` and `support.py` load these.
TOOLS = ("pytest", "hypothesis", "jsonschema", "packaging")
_ADAPTER = "python -c 'import specify_cli.features.adapters.{}'"
_IS_MISSING = re.compile("EXTRA_MISSING|ModuleNotFoundError|INTERNAL")


class Plan(NamedTuple):
    """How an extra is tried: a command of its own, the tests of its feature, and what these tests need beside it.

    `names` is the extra that the command names where no extra is installed, if it is another.
    """

    command: str
    tests: str
    packages: tuple[str, ...] = ()
    names: str = ""


PLANS = {
    "sync": Plan(
        "spec-kitty sync push",
        "tests/features/sync/test_transport.py tests/features/sync/test_contract.py tests/features/sync/test_outbox.py "
        "tests/features/sync/test_validation.py tests/features/sync/test_consent.py",
    ),
    "trail": Plan("spec-kitty trail checkpoint", "tests/features/witness tests/specify_cli/trail", ("pymerkle",)),
    "collector": Plan(
        "spec-kitty collector token create ada --db events.db --project all",
        "tests/features/collector/test_app.py tests/features/collector/test_serve.py "
        "tests/features/collector/test_tokens.py "
        # The first three start a PostgreSQL or ask one, then one is about an editable install, and one of another
        # extra.
        "-k 'not postgres and not database_is_gone and not waits_for_a_database and not without_the_extra "
        "and not parquet'",
        ("httpx", "psycopg"),
    ),
    "cold": Plan("spec-kitty cold pack", "tests/features/cold"),
    "parquet": Plan("spec-kitty invocations export --parquet tables", "tests/features/exports/test_tables.py"),
    "postgres": Plan(
        "spec-kitty invocations verify --source postgresql://127.0.0.1:9/none",
        "tests/features/collector/test_storage.py tests/features/collector/test_tokens.py -k 'not parquet'",
        names="collector",
    ),
    "fleet": Plan(
        "spec-kitty invocations verify --all --engine dask://127.0.0.1:9",
        "tests/libraries/test_sharing.py tests/specify_cli/cli/test_many_sources.py",
    ),
    "langchain": Plan(_ADAPTER.format("langchain"), "tests/features/adapters/test_langchain.py", ("langgraph",)),
    "pydantic-ai": Plan(_ADAPTER.format("pydantic_ai"), "tests/features/adapters/test_pydantic_ai.py"),
    "openai-agents": Plan(_ADAPTER.format("openai_agents"), "tests/features/adapters/test_openai_agents.py"),
    "opentelemetry": Plan(_ADAPTER.format("opentelemetry"), "tests/features/adapters/test_opentelemetry.py"),
    "mcp": Plan("spec-kitty mcp serve", "tests/features/mcp"),
    "capsule": Plan("spec-kitty capsule", "tests/features/capsule"),
    "view": Plan(
        "spec-kitty report --since 30d --html report.html",
        "tests/features/view tests/features/compare tests/features/report",
        ("httpx",),
    ),
}


class Trial(NamedTuple):
    """What came of one extra: how many packages and megabytes it has with the default ones, its tests, its faults."""

    extra: str
    packages: int
    megabytes: float
    tests: str
    faults: tuple[str, ...]

    def describe(self) -> str:
        """Return the lines of the table."""
        line = f"{self.extra:<14} {self.packages:>3} packages  {self.megabytes:>6.1f} MB  {self.tests}\n"
        return line + "".join(f"  FAILED: {fault}\n" for fault in self.faults)


def choose_extras(words: str) -> list[str]:
    """Return the extras that `EXTRAS` names: all where it is empty, none for `none`."""
    unknown = set(words.split()) - {*PLANS, "none"}
    if unknown:
        raise SystemExit(f"extras: {', '.join(sorted(unknown))}: expected some of {', '.join(PLANS)}, or none")
    return [name for name in PLANS if name in words.split() or not words]


def close_over(wanted: Sequence[str]) -> set[str]:
    """Return the distributions that requirements need here, with what these need, as constraints.txt names them."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in wanted]
    seen: set[tuple[str, str]] = set()
    while waiting:
        need, extra = waiting.pop()
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        for asked in need.extras or {""}:
            key = (need.name, asked)
            if key not in seen:
                seen.add(key)
                found.add(re.sub(r"[._-]+", "-", need.name).lower())
                waiting += [(Requirement(text), asked) for text in distribution(need.name).requires or ()]
    return found


def pin(names: set[str]) -> str:
    """Return the lines of constraints.txt about these distributions, with their digests."""
    parts = re.split(r"^(?=[a-z0-9])", (ROOT / "constraints.txt").read_text(encoding="ascii"), flags=re.M)[1:]
    return "".join(part for part in parts if part.partition("==")[0] in names)


class Bench:
    """Makes environments below one folder, and runs commands and tests in them."""

    def __init__(self, wheel: Path, work: Path) -> None:
        self.wheel, self.work = wheel, work

    def make(self, name: str, requirements: str = "") -> Path:
        """Return a new environment with these requirements."""
        place = self.work / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        if requirements:
            file = self.work / f"{name}.txt"
            file.write_text(requirements, encoding="ascii")
            self.install(place, "--require-hashes", "-r", str(file))
        return place

    def install(self, place: Path, *words: str) -> None:
        """Install into an environment with the pip that runs us, so that none lies in it."""
        pip = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "--disable-pip-version-check"]
        done = subprocess.run([*pip, "install", "-q", "--no-deps", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"extras: pip could not install {' '.join(words)}:\n{done.stderr[-2000:]}")

    def make_product(self, name: str, extra: str = "") -> Path:
        """Return an environment of the wheel with one extra, or none."""
        wanted = [*PROJECT["dependencies"]]
        if extra and extra != "capsule":
            wanted.append(f"{PROJECT['name']}[{extra}]")
        text = pin(close_over(wanted) - {PROJECT["name"]})
        place = self.make(name, text + (CAPSULE.read_text(encoding="ascii") if extra == "capsule" else ""))
        self.install(place, str(self.wheel))
        return place

    def make_tests(self, product: Path, packages: Sequence[str]) -> Path:
        """Return an environment that runs tests of a product's, whose `spec-kitty` is the product's own."""
        place = self.make(f"{product.name}-tests", pin(close_over([*TOOLS, *packages])))
        (site,) = place.glob("lib/python*/site-packages")
        (beside,) = product.glob("lib/python*/site-packages")
        (site / "product.pth").write_text(f"{beside}\n{ROOT / 'tests'}\nimport extra_alone\n", encoding="utf-8")
        (place / "bin/spec-kitty").symlink_to(product / "bin/spec-kitty")
        return place

    def run(self, product: Path, command: str) -> str:
        """Run a command of an environment in a project with one record; return its exit code and what it said."""
        shop = Path(tempfile.mkdtemp(prefix="shop-", dir=self.work))
        env = {"PATH": f"{product / 'bin'}:{os.environ['PATH']}", "HOME": str(shop), "LANG": "C.UTF-8"}
        for line in ("git init -q", "spec-kitty do 'fix the test'", "spec-kitty profile-invocation complete last"):
            subprocess.run(shlex.split(line), cwd=shop, env=env, check=True, capture_output=True)
        (shop / ".kittify/config.yaml").write_text("memory_backend: capsule\n")
        done = subprocess.run(
            shlex.split(command), cwd=shop, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        return f"exit {done.returncode}: {done.stderr.strip()[-600:]}"

    def test(self, product: Path, plan: Plan) -> tuple[str, str]:
        """Run a feature's tests; return the last line of pytest's report and, where it failed, more of it."""
        runner = self.make_tests(product, plan.packages)
        listing = "import importlib.metadata as m, json; print(json.dumps(sorted(m.packages_distributions())))"
        listed = subprocess.run([product / "bin/python", "-c", listing], capture_output=True, text=True, check=True)
        options = "--disable-plugin-autoload -p _hypothesis_pytestplugin --import-mode=importlib -q -p no:cacheprovider"
        argv = [str(runner / "bin/python"), "-m", "pytest", "-o", f"addopts={options}", *shlex.split(plan.tests)]
        env = {**os.environ, "EXTRA_ALONE": listed.stdout, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines() or [done.stderr[-600:]]
        return lines[-1], "" if done.returncode == 0 else "\n".join(lines[-12:])


def try_extra(extra: str, bench: Bench, bare: Path) -> Trial:
    """Install one extra alone and return what its command and its tests said, there and without it."""
    plan = PLANS[extra]
    named = rf"{PROJECT['name']}\[{plan.names or extra}\]"
    without = bench.run(bare, plan.command)
    faults = [] if re.search(rf"pip install \S*{named}", without) else [f"without it, {plan.command}: {without}"]
    product = bench.make_product(f"with-{extra}", extra)
    check = [sys.executable, "-m", "pip", "--python", str(product / "bin/python"), "check"]
    checked = subprocess.run(check, capture_output=True, text=True, check=False)
    faults += [checked.stdout.strip()] if checked.returncode else []
    alone = bench.run(product, plan.command)
    faults += [f"alone, {plan.command}: {alone}"] if _IS_MISSING.search(alone) else []
    tests, failed = bench.test(product, plan)
    faults += [failed] if failed else []
    (site,) = product.glob("lib/python*/site-packages")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    return Trial(extra, len(list(site.glob("*.dist-info"))), size / 1e6, tests, tuple(faults))


def try_extras(wheel: Path, extras: Sequence[str], work: Path) -> list[Trial]:
    """Try each of the extras by itself."""
    folder = Path(tempfile.mkdtemp(prefix="extras-", dir=work))
    bench = Bench(wheel, folder)
    bare = bench.make_product("bare")
    trials = []
    for extra in extras:
        trials.append(try_extra(extra, bench, bare))
        print(trials[-1].describe(), end="", flush=True)
    return trials


def main() -> None:
    """Try the extras that `EXTRAS` names with a wheel of this tree."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        out = Path(folder) / "wheel"
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        (wheel,) = out.iterdir()
        trials = try_extras(wheel, choose_extras(os.environ.get("EXTRAS", "")), Path(folder))
    if any(trial.faults for trial in trials):
        raise SystemExit("extras: " + ", ".join(trial.extra for trial in trials if trial.faults) + " failed")


if __name__ == "__main__":
    main()
