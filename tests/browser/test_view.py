"""The viewer in a headless Chromium: the page in it checks itself, work under way appears, nothing recorded runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.axe import find_faults
from browser.chromium import NAMES, Browser, chromium, find_chromium
from specify_cli.features.programs.run import open_invocation
from viewing import Viewer, viewing

FOUND = find_chromium()
pytestmark = pytest.mark.skipif(FOUND is None, reason=f"there is no Chromium here (looked for {', '.join(NAMES)})")
PICTURES = os.environ.get("SPEC_KITTY_PICTURES")
HOSTILE = "</title></svg><script>boom(1)</script><img src=x onerror=boom(2)>\u202egnp.exe\x1b[31m"
VERDICT = "document.querySelector('iframe').contentDocument?.documentElement?.dataset.verdict ?? ''"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    assert FOUND is not None
    with chromium(FOUND, tmp_path / "profile") as running:
        running.call("Runtime.addBinding", name="boom")
        yield running


def wait(browser: Browser, expression: str, wanted: object) -> bool:
    for _ in range(100):
        if browser.value(expression) == wanted:
            return True
        time.sleep(0.1)
    return False


def look(browser: Browser, name: str) -> None:
    if PICTURES:
        for kind, width, dark in (("light", 1200, False), ("dark", 1200, True), ("phone", 390, False)):
            browser.picture(Path(PICTURES) / f"view-{name}-{kind}.png", width=width, height=900, dark=dark)


def test_work_under_way_appears_and_nothing_recorded_runs(
    project: Path, chartered: Path, home: Path, browser: Browser
) -> None:
    with open_invocation(chartered, f"fix the login test {HOSTILE}") as run, viewing(project, home) as viewer:
        browser.open(viewer.opening)
        assert "fix the login test" in browser.text() and browser.value("location.pathname").endswith("/")
        look(browser, "list")
        browser.click("tbody th a")
        assert wait(browser, VERDICT, "checked")
        assert "Nothing that took time" in browser.value("document.body.textContent")
        with run.tool("Bash", {"command": f"pytest -q {HOSTILE}"}) as call:
            call.result = HOSTILE
        assert wait(browser, "document.querySelectorAll('#live svg rect').length", 1)
        assert wait(browser, VERDICT, "checked")
        look(browser, "run")
        _search(browser, viewer)

    assert not browser.happened("Runtime.bindingCalled") and not browser.happened("Runtime.exceptionThrown")
    assert not [params for params in browser.happened("Log.entryAdded") if params["entry"]["source"] == "security"]
    asked = [params["request"]["url"] for params in browser.happened("Network.requestWillBeSent")]
    assert all(url.startswith((viewer.base, "about:")) for url in asked)


def test_the_keys_of_a_records_page_work_as_soon_as_the_viewer_shows_it(
    project: Path, chartered: Path, home: Path, browser: Browser
) -> None:
    with open_invocation(chartered, "fix the login test") as run:
        run.error("E1", "it broke")
    with viewing(project, home) as viewer:
        browser.open(viewer.opening)
        browser.click("tbody th a")
        assert wait(browser, VERDICT, "checked")
        browser.key("f", 70)

        assert wait(browser, "document.activeElement.tagName", "IFRAME")
        assert browser.value("document.activeElement.contentWindow.location.hash").startswith("#at-")


def test_a_reader_keeps_the_place_in_a_record_that_grows(
    project: Path, chartered: Path, home: Path, browser: Browser
) -> None:
    with open_invocation(chartered, "fix the login test") as run, viewing(project, home) as viewer:
        for number in range(40):
            run.error(f"E{number}", "it broke")
            with run.tool("Bash", {"command": f"echo {number}"}) as call:
                call.result = "x"
        browser.open(viewer.opening)
        browser.click("tbody th a")
        assert wait(browser, VERDICT, "checked")
        page = "[...document.querySelectorAll('iframe')].at(-1).contentDocument"
        seen = (
            f"(page => [page.querySelector('#done details').open, page.querySelector('#all-lines').open,"
            " page.querySelectorAll('#all-lines > pre').length > 80, page.querySelector('#map details').open,"
            " page.querySelector('#search').value, page.documentElement.dataset.only, page.activeElement.id,"
            f" page.defaultView.scrollY > 500, document.querySelector('#live details').open])({page})"
        )
        browser.value(
            f"(page => {{ page.querySelector('#search').value = 'broke'; page.querySelector('#filter').value = 'bad';"
            " page.querySelector('#filter').dispatchEvent(new Event('change'));"
            " page.querySelector('#map details').open = false; document.querySelector('#live details').open = true;"
            " for (const box of page.querySelectorAll('#done details, #all-lines')) { box.fill?.(); box.open = true; }"
            " document.querySelector('iframe').focus(); page.querySelectorAll('#done .bad')[20].focus();"
            f" page.defaultView.scrollTo(0, 900); }})({page})"
        )
        before = browser.value(seen)
        focused = before[6]
        browser.value(f"{page}.documentElement.dataset.old = 'yes'")
        browser.value(
            "const old = document.querySelector('iframe'); window.ready = null;"
            " const isReady = (one) => one !== old && getComputedStyle(one).visibility === 'visible'"
            " && Boolean(one.contentDocument.documentElement.dataset.verdict);"
            " old.contentWindow.addEventListener('pagehide',"
            " () => { window.ready = [...document.querySelectorAll('iframe')].some(isReady); })"
        )
        run.error("E99", "it broke again")
        assert wait(browser, f"{page}?.documentElement.dataset.old ?? ''", "")
        assert wait(browser, f"{page}.querySelector('#search').value", "broke")

        assert focused.startswith("at-") and before == [True, True, True, False, "broke", "bad", focused, True, True]
        assert browser.value(seen) == before
        assert (
            browser.value("window.ready") is True and browser.value("document.querySelectorAll('iframe').length") == 1
        )
        browser.key("j", 74)
        assert browser.value(f"{page}.activeElement.id") != focused


def _search(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.base}/?q=pytest")
    assert "line found" in browser.text() or "lines found" in browser.text()
    browser.open(f"{viewer.base}/compare?a=last&b=last")
    assert "=" in browser.text("tbody") and "≠" not in browser.text("tbody")
    look(browser, "compare")


def test_what_a_screen_reader_needs_is_there(project: Path, chartered: Path, home: Path, browser: Browser) -> None:
    with open_invocation(chartered, "fix the login test") as run:
        run.step("look", lambda: "seen")
    with viewing(project, home) as viewer:
        browser.open(viewer.opening)
        for path in ("/", f"/invocations/{run.invocation_id}", "/compare?a=last&b=last"):
            browser.open(viewer.base + path)
            assert browser.value("document.querySelectorAll('h1').length") == 1
            for wrong in (
                "table:not(:has(caption)), iframe:not([title]), svg:not([aria-label])",
                "input:not([aria-label]):not([id]), select:not([id])",
            ):
                assert browser.value(f"document.querySelectorAll('{wrong}').length") == 0, wrong


def test_axe_finds_no_serious_fault(project: Path, chartered: Path, home: Path, browser: Browser) -> None:
    with open_invocation(chartered, "fix the login test") as run, run.tool("Bash", {"command": "pytest -q"}) as call:
        call.result = "1 failed"
    with viewing(project, home) as viewer:
        browser.open(viewer.opening)
        for path in (
            "/",
            "/?q=pytest",
            f"/invocations/{run.invocation_id}",
            "/compare?a=last&b=last",
            "/invocations/x",
        ):
            browser.open(viewer.base + path)
            assert find_faults(browser) == [], path
