"""The site of the documentation in a headless Chromium, from files: offline search, both schemes, a phone, axe."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.axe import find_faults
from browser.chromium import NAMES, Browser, chromium, find_chromium, wait_for
from building_site import build_site
from specify_cli.features.programs.run import open_invocation
from specify_cli.invocation.caller import Actor, Caller
from support import Cli, git

FOUND = find_chromium()
pytestmark = pytest.mark.skipif(FOUND is None, reason=f"there is no Chromium here (looked for {', '.join(NAMES)})")
PICTURES = os.environ.get("SPEC_KITTY_PICTURES")
ADA = Caller(Actor("ada", "human"))
DESKTOP, PHONE = (1280, 900), (390, 844)
LOOKED_AT = ("index", "tutorial", "commands-begin", "hooks", "verify", "findings", "json", "format", "fleet")
DIFF = "@@ -1,2 +1,2 @@\n def login(name):\n-    return name.strip()\n+    return name.strip().lower()\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("built"))


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    assert FOUND is not None
    with chromium(FOUND, tmp_path / "profile") as opened:
        opened.call("Emulation.setScrollbarsHidden", hidden=True)
        yield opened


def show(browser: Browser, path: Path, size: tuple[int, int], *, dark: bool = False, query: str = "") -> None:
    """Open a page at a size, in a scheme."""
    scheme = "dark" if dark else "light"
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    width, height = size
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    browser.open(path.as_uri() + query)


def test_no_page_is_wider_than_a_screen_or_a_phone_fails_or_asks_a_host(browser: Browser, site: Path) -> None:
    wide = []
    for path in sorted(site.rglob("*.html")):
        for size in (DESKTOP, PHONE):
            show(browser, path, size)
            if browser.value("document.documentElement.scrollWidth") > size[0]:
                wide.append((path.name, size))
    asked = [params["request"]["url"] for params in browser.happened("Network.requestWillBeSent")]

    assert wide == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert browser.happened("Runtime.exceptionThrown") == []
    assert [one for one in browser.happened("Log.entryAdded") if one["entry"]["level"] == "error"] == []


def test_axe_finds_no_serious_fault_on_any_page(browser: Browser, site: Path) -> None:
    """In both schemes, at both sizes: each page in one of the four, those that are looked at in all."""
    ways = [(size, dark) for size in (DESKTOP, PHONE) for dark in (False, True)]
    faults = []
    for number, path in enumerate(sorted(site.rglob("*.html"))):
        for size, dark in ways if path.stem in LOOKED_AT else [ways[number % len(ways)]]:
            show(browser, path, size, dark=dark)
            faults += [(path.stem, size[0], dark, fault) for fault in find_faults(browser)]

    assert faults == []


def test_search_finds_offline_what_is_meant(browser: Browser, site: Path) -> None:
    show(browser, site / "index.html", DESKTOP)
    browser.type("input.sidebar-search", "TRACKED_PRIVATE")
    browser.value("document.querySelector('form[role=search]').requestSubmit()")
    wait_for(browser, "location.pathname.endsWith('search.html')")
    for query, page in (("TRACKED_PRIVATE", "findings.html"), ("retention", "retention.html"), ("seal", "format.html")):
        show(browser, site / "search.html", PHONE, query=f"?q={query}")
        found = "[...document.querySelectorAll('#search-results li a')].map((a) => a.getAttribute('href'))"
        wait_for(browser, f"{found}.some((href) => href.includes('{page}'))")

        assert not browser.value(f"{found}[0].startsWith('adr/')")

    assert browser.happened("Runtime.exceptionThrown") == []


def test_light_and_dark_follow_the_system_and_the_reader(browser: Browser, site: Path) -> None:
    color = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for dark in (False, True):
        show(browser, site / "index.html", DESKTOP, dark=dark)
        seen.append(browser.value(color))
    browser.press(".theme-toggle-content button, .content-icon-container .theme-toggle")
    seen.append(browser.value(color))

    assert seen[0] != seen[1] != seen[2]


def test_what_scrolls_sideways_can_be_reached_with_the_keyboard(browser: Browser, site: Path) -> None:
    show(browser, site / "hooks.html", PHONE)
    scrolling = "[...document.querySelectorAll('article pre, article .table-wrapper')]"
    scrolling += ".filter((part) => part.scrollWidth > part.clientWidth)"
    wait_for(browser, f"{scrolling}.length > 1 && {scrolling}.every((part) => part.tabIndex === 0)")


def test_pages_can_be_looked_at(browser: Browser, site: Path, tmp_path: Path) -> None:
    """With SPEC_KITTY_PICTURES=FOLDER the pictures are kept there."""
    folder = Path(PICTURES or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*LOOKED_AT, "search"):
        for (width, height), dark in ((size, dark) for size in (DESKTOP, PHONE) for dark in (False, True)):
            query = "?q=seal" if name == "search" else ""
            show(browser, site / f"{name}.html", (width, height), dark=dark, query=query)
            shot = browser.call("Page.captureScreenshot", format="png")
            path = folder / f"site-{name}-{width}{'-dark' if dark else ''}.png"
            path.write_bytes(base64.b64decode(shot["data"]))

            assert path.stat().st_size > 5_000


def test_the_picture_of_the_start_page_shows_a_recorded_session(
    browser: Browser, project: Path, chartered: Path, cli: Cli, tmp_path: Path
) -> None:
    """With SPEC_KITTY_PICTURES=FOLDER it is kept there: docs/site/session.webp is made by this test."""
    git(chartered, "init", "-q")
    with open_invocation(project, "fix the failing login test", caller=ADA) as run:
        with run.tool("Read", {"file_path": "src/login.py"}) as call:
            call.result = "def login(name):\n    return name.strip()\n"
        with run.tool("Bash", {"command": "pytest -q"}) as call:
            call.result = "1 failed, 3 passed in 0.14s"
        run.patch("src/login.py", "modify", before="a\n", after="b\n", diff=DIFF)
        with run.tool("Bash", {"command": "pytest -q"}) as call:
            call.result = "4 passed in 0.12s"
    page = tmp_path / "run.html"
    assert cli("invocations", "export", run.invocation_id, "--html", str(page), cwd=chartered).code == 0
    browser.call("Emulation.setDeviceMetricsOverride", width=1180, height=1330, deviceScaleFactor=1.5, mobile=False)
    browser.open(page.as_uri())
    wait_for(browser, "document.documentElement.dataset.verdict === 'checked'")
    shown = browser.text()
    shot = browser.call("Page.captureScreenshot", format="webp", quality=60)
    path = Path(PICTURES or tmp_path) / "session.webp"
    path.write_bytes(base64.b64decode(shot["data"]))

    assert path.stat().st_size < 150_000
    for told in (
        "fix the failing login test",
        "read src/login.py",
        "1 failed",
        "edited src/login.py +1 −1",
    ):
        assert told in shown
