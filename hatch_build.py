"""Build hook: what an installed package needs beside its sources, for wheels and editable installs
alike."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileDoctrine(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the shipped doctrine and what the rooms declare; of a wheel it names the build by
    its sources and lists what it depends on.

    The list is a CycloneDX SBOM in `*.dist-info/sboms/` (PEP 770), made from constraints.txt.

    An editable install runs sources that go on changing, so it has no build digest.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write both files before the files of the package are collected."""
        wheel = self.target_name == "wheel" and version == "standard"
        source = self._compile(for_good=wheel)
        if wheel:
            digest = source / "specify_cli" / "build.txt"
            digest.write_text(_digest_of(source) + "\n", encoding="ascii")
            sbom = Path(self.root) / "build" / "spec-kitty-recorder.cdx.json"
            sbom.parent.mkdir(exist_ok=True)
            constraints = (Path(self.root) / "constraints.txt").read_text(encoding="ascii")
            core = self.metadata.core
            extras = {
                extra: names
                for extra, names in core.optional_dependencies.items()
                if extra != "dev"
            }
            wanted = [*core.dependencies, *(name for names in extras.values() for name in names)]
            listed = _sbom(constraints, self.metadata.version, wanted)
            sbom.write_text(json.dumps(listed, indent=1) + "\n", encoding="ascii")
            build_data["sbom_files"].append("build/spec-kitty-recorder.cdx.json")

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Leave the checkout that a wheel was made from as an editable install has it.

        What holds for good in a package would hide the next change of a declaration here.
        """
        if version == "standard":
            self._compile(for_good=False)

    def _compile(self, *, for_good: bool) -> Path:
        """Write the compiled files, without a build digest, and return the folder of the
        sources."""
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        try:
            from doctrine.load import write_compiled
            from specify_cli.cli.tables.assemble import compose_tables, write_tables
            from specify_cli.cli.tables.points import read_stamp

            write_compiled(str(source / "doctrine"))
            tables = compose_tables(None if for_good else read_stamp())
            write_tables(tables)
            # Commands fill it where it is installed (cli/stored_modules.py).
            modules = source / "specify_cli" / "cli" / "tables" / "compiled" / "modules.bin"
            modules.write_bytes(b"")
        finally:
            sys.path.remove(str(source))
        # In a checkout mypy reads api.py itself.
        stub = source / "specify_cli" / "api.pyi"
        stub.unlink(missing_ok=True)
        if for_good:
            stub.write_text(_compose_stub(tables), encoding="ascii")
        (source / "specify_cli" / "build.txt").unlink(missing_ok=True)
        return source


def _compose_stub(tables: dict[str, dict[str, Any]]) -> str:
    """Return the stub that type checkers read instead of `specify_cli/api.py`: the module of each
    of its names.

    `tables` are those of `compose_tables`.
    """
    names = sorted(tables["points"]["POINTS"].get("api", ()))
    places = [(name, *run.split(":")) for name, run, _ in names]
    lines = [f"from {module} import {attribute} as {name}" for name, module, attribute in places]
    return "\n".join(lines) + "\n"


def _sbom(constraints: str, version: str, wanted: list[str]) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document of the tested versions of these requirements and of what they
    need in turn."""
    parts = re.split(r"^(?=[a-z0-9])", constraints, flags=re.M)[1:]
    packages: dict[str, tuple[str, list[str], set[str]]] = {}
    for part in parts:
        head = re.match(r"([a-z0-9.-]+)==([^ \\\n]+)", part)
        if head is not None:
            needed_by = set(re.findall(r"^ +# +(?:via )?([a-z0-9.-]+)", part, flags=re.M)) - {"via"}
            packages[head[1]] = (head[2], re.findall(r"sha256:([0-9a-f]{64})", part), needed_by)
    # PyPI's normal form of a name: `ruamel.yaml` is listed as ruamel-yaml.
    named = (re.split(r"[^A-Za-z0-9._-]", name, maxsplit=1)[0].lower() for name in wanted)
    taken = {re.sub(r"[._-]+", "-", name) for name in named} & packages.keys()
    while more := {name for name, (_, _, by) in packages.items() if by & taken} - taken:
        taken |= more
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "spec-kitty-recorder",
                "version": version,
                "purl": f"pkg:pypi/spec-kitty-recorder@{version}",
            }
        },
        "components": [
            {
                "type": "library",
                "name": name,
                "version": packages[name][0],
                "purl": f"pkg:pypi/{name}@{packages[name][0]}",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in packages[name][1]],
            }
            for name in sorted(taken)
        ],
    }


def _digest_of(source: Path) -> str:
    """SHA-256 over the names and bytes of everything the package is made from."""
    hasher = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.suffix in (".py", ".yaml", ".json", ".md", ".toml", ".ts"):
            data = path.read_bytes()
            hasher.update(f"{path.relative_to(source).as_posix()}\0{len(data)}\0".encode())
            hasher.update(data)
    return hasher.hexdigest()
