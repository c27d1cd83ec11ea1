"""Lay out the pages of the site in a folder, as Sphinx reads them.

    python docs/site/stage.py build/site-source

The pages of docs/ are taken as they are; beside them stand the start page, the generated reference pages and an
index of the decisions. NAVIGATION gives each page its place in one of four kinds.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from reference import SECTIONS, compose_pages, name_page

SITE = Path(__file__).parent
DOCS = SITE.parent
NAVIGATION: Mapping[str, tuple[str, ...]] = {
    "Tutorial": ("tutorial",),
    "How-to": (
        *("how-to", "charter", "agents", "gate", "trail", "packs", "forget", "retention", "sync", "collector"),
        *("fleet", "questions", "capsule", "extending"),
    ),
    "Reference": (
        *("commands", "config", "errors", "findings", "json", "extension-points", "format", "verify", "replay"),
        *("hooks", "capture", "router", "api", "sync-contract", "stability", "systems", "glossary"),
    ),
    "Explanation": ("architecture", "context", "accept", "decisions"),
}
# What a page of docs/ names outside docs/, and where the site says the same.
_ELSEWHERE = {"../README.md#start": "commands.md"}


def stage(folder: Path) -> None:
    """Write the whole source of the site into a folder, which is made anew."""
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "adr").mkdir(parents=True)
    for path in list_pages():
        text = path.read_text(encoding="utf-8")
        for link, place in _ELSEWHERE.items():
            text = text.replace(f"]({link})", f"]({place})")
        (folder / path.relative_to(DOCS)).write_text(text, encoding="utf-8")
    for name, text in compose_site().items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("fleet", "schemas"):
        shutil.copytree(DOCS / name, folder / name)
    for path in (DOCS / "harnesses.json", *SITE.glob("*.webp")):
        shutil.copy(path, folder / path.name)


def list_pages() -> list[Path]:
    """Return the pages that are written by hand, decisions among them, without the start page."""
    return sorted((*DOCS.glob("*.md"), *DOCS.glob("adr/*.md")))


def compose_site() -> dict[str, str]:
    """Return every page that stands in no file of docs/: the start page, the reference, the decisions."""
    pages = compose_pages()
    sections = [name_page(section) for section in SECTIONS if name_page(section) in pages]
    pages["commands.md"] += _compose_toctree(sections, "hidden")
    pages["decisions.md"] = _compose_decisions()
    start = (SITE / "index.md").read_text(encoding="utf-8").replace("](../", "](")
    trees = (_compose_toctree(names, f"caption: {kind}", "hidden") for kind, names in NAVIGATION.items())
    pages["index.md"] = "".join((start, *trees))
    return pages


def _compose_decisions() -> str:
    lines = ["# Decisions", "", "Why it is built as it is: what was chosen, what it costs, what was measured.", ""]
    pages = sorted(DOCS.glob("adr/*.md"))
    lines += [f"- [{_read_title(path)}](adr/{path.name})" for path in pages]
    return "\n".join((*lines, "")) + _compose_toctree([f"adr/{path.name}" for path in pages], "hidden")


def _read_title(path: Path) -> str:
    found = re.search(r"^# (.*)$", path.read_text(encoding="utf-8"), re.M)
    assert found is not None, f"{path} has no title"
    return found[1]


def _compose_toctree(names: list[str] | tuple[str, ...], *options: str) -> str:
    lines: Iterator[str] = (f":{option}:" if ":" not in option else f":{option}" for option in options)
    return "\n".join(("", "```{toctree}", *lines, "", *(name.removesuffix(".md") for name in names), "```", ""))


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
