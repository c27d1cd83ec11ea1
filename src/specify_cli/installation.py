"""How this program was installed, and so how an extra of it is added.

    raise EnvironmentFault("EXTRA_MISSING", "this needs the extra `view`", advise_install("view"))

Loaded where an extra is missing, never on the way of a command that works.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

DISTRIBUTION = "spec-kitty-recorder"
# What pipx and uv leave in an environment, the command that makes it anew, and where it names the
# extras.
_NOTES = (
    ("pipx_metadata.json", "pipx install --force", r'"package_or_url": "[^"\[]*\[([^\]]*)\]'),
    ("uv-receipt.toml", "uv tool install --force", r'"spec-kitty-recorder", extras = (.*?)\]'),
)


def advise_install(extra: str) -> str:
    """Return the shell command that adds an extra to this installation.

    pipx and uv each leave a note of their own in the environments they make; `direct_url.json` (PEP
    610) says from which file or folder a package was installed.

    `extra` is a name under `optional-dependencies` of pyproject.toml. Extras that are installed
    already are named again, because pipx and uv make the environment anew.
    """
    where, is_editable = find_source()
    tool, extras = f"{shlex.quote(sys.executable)} -m pip install", extra
    for name, command, pattern in _NOTES:
        note = Path(sys.prefix) / name
        if note.exists():  # what is not named again would be gone
            match = re.search(pattern, note.read_text(encoding="utf-8"))
            tool = command
            extras = ",".join(sorted({extra, *re.findall(r"[a-z-]+", match[1] if match else "")}))
    spec = f"{DISTRIBUTION}[{extras}]"
    target = f"{spec} @ {where}" if "://" in where else f"{where}[{extras}]" if where else spec
    return f"{tool} {'--editable ' if is_editable else ''}{shlex.quote(target)}"


@contextmanager
def name_extra(extra: str) -> Iterator[None]:
    """Add to an import that fails in this block which extra brings the package.

        with name_extra("view"):
            import starlette

    `extra` is as for `advise_install`. The ImportError itself goes on.
    """
    try:
        yield
    except ImportError as error:
        error.add_note(f"this needs the extra `{extra}`; next: {advise_install(extra)}")
        raise


def list_extras(package: str) -> list[str]:
    """Return the extras that list a package, which is named as it is imported, the one with fewest
    packages first; empty where none does."""
    name = package.partition(".")[0].replace("_", "-")
    try:
        requires = distribution(DISTRIBUTION).requires or ()
    except PackageNotFoundError:
        return []
    needs = [line.split("; extra == ") for line in requires]
    sizes = Counter(extra.strip("'\"") for _, *names in needs for extra in names)
    return [
        extra
        for extra, _ in reversed(sizes.most_common())
        if extra != "dev"
        and any(line.startswith(name) and extra in line.partition(";")[2] for line in requires)
    ]


def find_source() -> tuple[str, bool]:
    """Return the URL this program was installed from, a folder's path where it is editable, or ""
    for an index."""
    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:  # run from its sources
        return str(Path(__file__).parents[2]), True
    stated = json.loads(text or "{}")
    url = str(stated.get("url", ""))
    is_editable = bool(stated.get("dir_info", {}).get("editable"))
    return (url.removeprefix("file://") if is_editable else url), is_editable
