"""The site of the documentation builds without a warning, no link of it is dead, and it loads nothing from anywhere."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from building_site import build_site
from stage import list_pages


class _Links(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        names_a_page = tag == "link" and values.get("rel") in ("index", "search", "next", "prev", "canonical")
        if "href" in values and (tag == "a" or names_a_page):
            self.links.append(values["href"])
        else:
            loaded = (values.get(name) for name in ("src", "srcset", "href", "data", "poster"))
            self.loaded += [value for value in loaded if value and not value.startswith(("#", "data:"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site that `make docs` has just built, or one of its own."""
    built = os.environ.get("SPEC_KITTY_SITE")
    return Path(built) if built else build_site(tmp_path_factory.mktemp("built"))


def test_the_site_builds_without_a_warning_and_no_link_of_it_is_dead_nor_loads_from_a_host(site: Path) -> None:
    pages = {path: _Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    dead, foreign = [], []
    for path, page in pages.items():
        foreign += [(path.name, target) for target in page.loaded if "//" in target]
        for link in (*page.links, *page.loaded):
            if re.match(r"[a-z]+:|//", link):
                continue
            name, _, place = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            there = target.is_file() and (not place or target not in pages or place in pages[target].places)
            dead += [] if there else [(path.name, link)]
    for path in site.rglob("*.css"):
        asked = re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]*)", path.read_text(encoding="utf-8"))
        foreign += [(path.name, target) for target in asked]

    assert len(pages) > len(list_pages())
    assert dead == []
    assert foreign == []
    assert (site / "searchindex.js").stat().st_size > 100_000
