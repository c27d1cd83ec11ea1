"""Make a release into `dist/`: wheel and sdist twice with equal bytes, judged by tools of others, installed and tried.

    make release                    # KEY=~/.ssh/id_ed25519 signs the attestation
    make release EXTRAS="view mcp"  # tries these extras; without it all, with EXTRAS=none none

`dist/` then holds wheel, sdist, SHA256SUMS, NOTES.md (the changelog's newest part), the tables of installs and extras,
`requirements-EXTRA.txt` for the container files, and `attestation.json`, an in-toto statement that names the files, the
commit and the tools, signed where a key is given. Nothing is published. Each interpreter found installs the wheel with
its default dependencies at the digests of constraints.txt; uv and pipx install it as a tool.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from extras import Trial, choose_extras, try_extras
from support import unpack

ROOT = Path(__file__).parents[1]
DIST, TOOLS = ROOT / "dist", ROOT / ".venv-release/bin"
INTERPRETERS = ("python3.11", "python3.12", "python3.13", "python3.14", "python3.14t")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# What the release and its default dependencies may take on the disk, in megabytes; an installer beside them is extra.
MOST_MEGABYTES = 45
INSTALLERS = ("pip", "setuptools", "wheel")
# The extras that a container is made with (docs/fleet/Containerfile).
CONTAINERS = ("postgres", "trail")
_MEASURE = """
import importlib.metadata as m, importlib.util as u, json, pathlib
sizes = {}
for one in m.distributions():
    paths = {pathlib.Path(one.locate_file(file)).resolve() for file in one.files or ()}
    # pip lists what it compiled, uv does not.
    paths |= {pathlib.Path(u.cache_from_source(path)) for path in paths if path.suffix == ".py"}
    sizes[one.name.lower()] = sum(path.stat().st_size for path in paths if path.is_file())
print(json.dumps(sizes))
"""


class Install(NamedTuple):
    """One way that installed the release: by name the bytes of each package, and whether a `do` left a sound record."""

    way: str
    sizes: dict[str, int]
    works: bool

    def sum_up(self, *, installers: bool) -> float:
        """Return the megabytes of all packages, with or without those that only install."""
        return sum(size for name, size in self.sizes.items() if installers or name not in INSTALLERS) / 1e6

    def describe(self) -> str:
        """Return one line of the table."""
        return (
            f"{self.way:<22} {len(self.sizes):>3} packages  {self.sum_up(installers=False):>5.1f} MB  "
            f"{self.sum_up(installers=True):>5.1f} MB  {'records and verifies' if self.works else 'FAILED'}\n"
        )

    def list_largest(self) -> str:
        """Return the line that names the packages which fill most of it."""
        largest = sorted(self.sizes.items(), key=lambda item: -item[1])[:10]
        return f"megabytes of {self.way}: {', '.join(f'{name} {size / 1e6:.1f}' for name, size in largest)}\n"


def run(argv: Sequence[str | Path], cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Return what a command prints. Ends the release with its words where it fails."""
    done = subprocess.run(list(map(str, argv)), cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip()[-3000:]
        raise SystemExit(f"release: {' '.join(map(str, argv))} failed in {cwd}:\n{said}")
    return done.stdout


def build(folder: Path, kind: str, out: Path) -> Path:
    """Build the sdist or wheel of a source tree and return its file."""
    run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out], folder)
    (path,) = out.iterdir()
    return path


def build_twice(work: Path) -> tuple[Path, Path]:
    """Return sdist and wheel of the last commit, once both came out alike from two checkouts and from the sdist."""
    made: list[tuple[Path, Path]] = []
    for name in ("one", "two"):
        folder = work / name
        run(["git", "clone", "-q", "--no-hardlinks", ROOT, folder])
        made.append((build(folder, "sdist", work / f"{name}-s"), build(folder, "wheel", work / f"{name}-w")))
    with tarfile.open(made[0][0]) as archive:
        unpack(archive, work / "unpacked")
    (unpacked,) = (work / "unpacked").iterdir()
    third = build(unpacked, "wheel", work / "three-w")
    for one, two in (*zip(*made, strict=True), (made[0][1], third)):
        if one.read_bytes() != two.read_bytes():
            raise SystemExit(f"release: {one.name} came out with other bytes the second time")
    return made[0]


def judge(sdist: Path, wheel: Path) -> None:
    """Have tools of others look at metadata, files and the list of components."""
    run([TOOLS / "twine", "check", "--strict", sdist, wheel])
    run([TOOLS / "check-wheel-contents", "--toplevel", "specify_cli,charter,doctrine", wheel])
    run([TOOLS / "validate-pyproject", ROOT / "pyproject.toml"])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if "/sboms/" in name)
        sbom = archive.read(name).decode()
    code = (
        "import sys; from cyclonedx.validation.json import JsonStrictValidator as V; from cyclonedx.schema import "
        "SchemaVersion as S; found = V(S.V1_6).validate_str(sys.stdin.read()); sys.exit(found and str(found))"
    )
    done = subprocess.run([TOOLS / "python", "-c", code], input=sbom, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"release: the list of components is not CycloneDX 1.6: {done.stderr[-2000:]}")


def write_requirements(target: Path, extra: str = "", wheel: Path | None = None) -> None:
    """Write the dependencies, those of an extra, and theirs, at the versions and digests of constraints.txt.

    With a wheel the file names it too, by its digest, so that pip installs all of it with `--require-hashes`.
    """
    sys.path.insert(0, str(ROOT))
    from hatch_build import _sbom

    text = (ROOT / "constraints.txt").read_text(encoding="ascii")
    markers = dict(re.findall(r"^([a-z0-9.-]+)==[^ \\\n]+ ; ([^\\\n]+?) *\\?$", text, flags=re.M))
    wanted = [*PROJECT["dependencies"], *(list_needs(extra) if extra else ())]
    lines: list[str] = []
    for item in _sbom(text, PROJECT["version"], wanted)["components"]:
        marker = f" ; {markers[item['name']]}" if item["name"] in markers else ""
        hashes = "".join(f" --hash=sha256:{part['content']}" for part in item["hashes"])
        lines.append(f"{item['name']}=={item['version']}{marker}{hashes}\n")
    if wheel is not None:
        lines.append(f"./{wheel.name} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    target.write_text("".join(lines), encoding="ascii")


def list_needs(extra: str) -> list[str]:
    """Return what an extra lists, and what the extras that it names list."""
    listed: list[str] = []
    for need in PROJECT["optional-dependencies"][extra]:
        inner = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", need)
        listed += [one for name in inner[1].split(",") for one in list_needs(name)] if inner else [need]
    return listed


def install(interpreter: str, path: str, wheel: Path, requirements: Path, work: Path) -> Install:
    """Install the release into an empty environment, and record one request with it."""
    place = work / f"env-{interpreter}"
    run([path, "-m", "venv", place])
    pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    run([*pip, "--require-hashes", "--no-deps", "-r", str(requirements)])
    run([*pip, "--no-deps", str(wheel)])
    run([place / "bin/python", "-m", "pip", "--disable-pip-version-check", "check"])
    return Install(f"pip, {interpreter}", measure(place), can_record(place / "bin", work))


def install_as_tool(tool: str, wheel: Path, requirements: Path, work: Path) -> Install:
    """Install the release as `uv tool install` or `pipx install` does, at the same versions, and record with it."""
    place, pins = work / tool, work / "pins.txt"
    pins.write_text(re.sub(r" --hash=\S+", "", requirements.read_text(encoding="ascii")), encoding="ascii")
    places = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "tools", "PIPX_BIN_DIR": "bin"}
    env = {**os.environ, **{name: str(place / folder) for name, folder in places.items()}}
    if tool == "uv":
        # Compiled as pip does it, so that the sizes compare.
        run([TOOLS / "uv", "tool", "install", "-q", "--compile-bytecode", "--python", sys.executable,
             "--constraints", pins, wheel], work, env)  # fmt: skip
    else:
        run(
            [TOOLS / "pipx", "install", "--python", sys.executable, f"--pip-args=--constraint={pins}", wheel], work, env
        )
    (made,) = place.glob(f"tools/**/{PROJECT['name']}/bin")
    return Install(f"{tool}, as a tool", measure(made.parent), can_record(place / "bin", work))


def measure(place: Path) -> dict[str, int]:
    """Return how many bytes each package of an environment takes, with what Python compiled of it."""
    return dict(json.loads(run([place / "bin/python", "-c", _MEASURE])))


def can_record(programs: Path, work: Path) -> bool:
    """Record one request with the installed program, and return whether its record verifies."""
    shop = Path(tempfile.mkdtemp(prefix="shop-", dir=work))
    run(["git", "init", "-q", shop])
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(shop), "LANG": "C.UTF-8"}
    program = programs / "spec-kitty"
    done = json.loads(run([program, "do", "fix the login test", "--json"], shop, env))
    run([program, "profile-invocation", "complete", done["invocation_id"], "--outcome", "done"], shop, env)
    report = run([program, "invocations", "verify", "--all"], shop, env)
    return "1 of 1" in report or "intact" in report


def write_notes() -> str:
    """Return what the newest part of the changelog says in short, which has each change below."""
    parts = re.split(r"^##+ ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    title = f"# {PROJECT['name']} {PROJECT['version']}"
    return f"{title}\n\n{parts[2].partition(chr(10))[2].strip()}\n\nEach change: CHANGELOG.md.\n"


def attest(files: Sequence[Path]) -> None:
    """Write the statement of what was released, and sign it where KEY names an SSH key."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()]
    (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    statement: dict[str, object] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {"commit": run(["git", "rev-parse", "HEAD"]).strip()},
                "resolvedDependencies": [
                    {"name": "constraints.txt",
                     "digest": {"sha256": hashlib.sha256((ROOT / "constraints.txt").read_bytes()).hexdigest()}}
                ],
            },
            "runDetails": {"builder": {"id": f"hatchling on {sys.implementation.name} {sys.version.split()[0]}"}},
        },
    }  # fmt: skip
    path = DIST / "attestation.json"
    path.write_text(json.dumps(statement, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    key = os.environ.get("KEY")
    if key:
        run(["ssh-keygen", "-Y", "sign", "-q", "-f", os.path.expanduser(key), "-n", "spec-kitty-release", path])
    else:
        print("the attestation is not signed: make release KEY=~/.ssh/id_ed25519")


def main() -> None:
    """Make the release, or say what is amiss."""
    if run(["git", "status", "--porcelain"]).strip():
        raise SystemExit("release: there are changes that are not committed; a release is of a commit")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        work = Path(folder)
        sdist, wheel = build_twice(work)
        judge(sdist, wheel)
        requirements = work / "requirements.txt"
        write_requirements(requirements)
        found = {name: path for name in INTERPRETERS if (path := find_interpreter(name))}
        installs = [install(name, path, wheel, requirements, work) for name, path in found.items()]
        installs += [install_as_tool(tool, wheel, requirements, work) for tool in ("uv", "pipx")]
        extras = try_extras(wheel, choose_extras(os.environ.get("EXTRAS", "")), work)
        files = [Path(shutil.copy(path, DIST)) for path in (sdist, wheel)]
        for extra in CONTAINERS:
            write_requirements(DIST / f"requirements-{extra}.txt", extra, wheel)
    table = f"{'':<36} the release   with its installer\n" + "".join(one.describe() for one in installs)
    table += installs[0].list_largest()
    missing = [name for name in INTERPRETERS if name not in found]
    table += f"not found here, so not tried: {', '.join(missing)}\n" if missing else ""
    (DIST / "INSTALLS.txt").write_text(table)
    (DIST / "NOTES.md").write_text(write_notes(), encoding="utf-8")
    (DIST / "EXTRAS.txt").write_text("".join(one.describe() for one in extras), encoding="utf-8")
    attest(files)
    print(f"{table}{(DIST / 'EXTRAS.txt').read_text()}{(DIST / 'SHA256SUMS').read_text()}")
    refuse_faults(installs, extras)


def refuse_faults(installs: Sequence[Install], extras: Sequence[Trial]) -> None:
    """End the release where an install does not work or is too large, or an extra fails alone."""
    if not all(one.works for one in installs):
        raise SystemExit("release: an install does not work")
    if too_large := [one.way for one in installs if one.sum_up(installers=False) > MOST_MEGABYTES]:
        raise SystemExit(f"release: over {MOST_MEGABYTES} MB: {'; '.join(too_large)}; dist/INSTALLS.txt has the sizes")
    if failed := [one.extra for one in extras if one.faults]:
        raise SystemExit(f"release: these extras fail alone: {', '.join(failed)}; dist/EXTRAS.txt says how")


def find_interpreter(name: str) -> str:
    """Return an interpreter of this name that starts, on the PATH or of pyenv; nothing where there is none."""
    version = name.removeprefix("python")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (name, *map(str, sorted(pyenv.glob(f"{version}.*/bin/python3")))):
        try:
            if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                return path
        except OSError:
            continue
    return ""


if __name__ == "__main__":
    main()
