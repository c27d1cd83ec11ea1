"""The timeline as a browser shows it: list, filter, open; and recorded text that never executes."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.axe import find_faults
from browser.chromium import NAMES, Browser, chromium, find_chromium, wait_for
from collecting import Collector, serving
from envelopes import TOKEN, completed, id_of, started
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.sync.consent import TOKEN_VARIABLE
from support import Cli, git

FOUND = find_chromium()
pytestmark = pytest.mark.skipif(FOUND is None, reason=f"there is no Chromium here (looked for {', '.join(NAMES)})")

HOSTILE = (
    "<script>boom(1)</script>",
    '"><img src=x onerror=boom(2)>',
    "'><svg onload=boom(3)>",
    "javascript:boom(4)",
    "</pre></code><iframe srcdoc='<script>parent.boom(5)</script>'></iframe>",
    "<a href=javascript:boom(6)>press</a><style>*{display:none}</style>",
    "{{ 7 * 7 }}{% raw %}<meta http-equiv=refresh content='0;url=javascript:boom(7)'>",
    "admin\u202e\u2066txt.exe\u2069 \x1b]8;;x\x07 nul:\x00 zero\u200bwidth",
)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    assert FOUND is not None
    with chromium(FOUND, tmp_path / "profile") as running:
        running.authorize(f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}")
        # Whatever runs in a page and calls boom is heard here.
        running.call("Runtime.addBinding", name="boom")
        yield running


def home_of(collector: Collector) -> str:
    return f"http://{collector.host}:{collector.port}/"


def fill(collector: Collector) -> None:
    collector.post([started(n) for n in range(60)])
    collector.post(
        [
            *(completed(n, outcome="done" if n % 3 else "failed") for n in range(40)),
            started(70, profile_id="reviewer", action="review", request_text="look at the parser change"),
            started(71, level="metadata", actor={"actor_id": "claude-code", "actor_type": "llm", "model": "m-1"}),
            completed(72),
            completed(70, outcome="abandoned"),
        ]
    )


def harmless(browser: Browser) -> bool:
    """Nothing called boom, asked anything, or was fetched from elsewhere."""
    assert [] == browser.happened("Runtime.bindingCalled")
    assert [] == browser.happened("Page.javascriptDialogOpening")
    assert [] == browser.value("[...document.querySelectorAll('script,iframe,img,svg,meta[http-equiv]')].map(String)")
    return True


def test_the_list_is_paged_newest_first(browser: Browser, collector: Collector) -> None:
    fill(collector)
    browser.open(home_of(collector))

    first = browser.value("[...document.querySelectorAll('tbody tr')].map(r => r.innerText)")
    browser.click("nav a[rel=next]")
    second = browser.value("[...document.querySelectorAll('tbody tr')].map(r => r.innerText)")

    assert (50, 13) == (len(first), len(second))
    assert "its Started has not arrived" in first[0]
    assert "not shared (level metadata)" in first[1]
    assert "look at the parser change" in first[2]
    assert "implement number 0" in second[-1]
    assert harmless(browser)


def test_a_filter_is_typed_and_sent(browser: Browser, collector: Collector) -> None:
    fill(collector)
    browser.open(home_of(collector))
    browser.type("#profile", "reviewer")
    browser.click("form button")

    assert 1 == browser.value("document.querySelectorAll('tbody tr').length")
    assert "look at the parser change" in browser.text("tbody")
    assert "reviewer" == browser.value("document.querySelector('#profile').value")
    browser.type("#actor", "nobody at all")
    browser.click("form button")
    assert "No invocation matches" in browser.text()
    browser.click(".empty a")
    assert 50 == browser.value("document.querySelectorAll('tbody tr').length")


def test_an_invocation_is_opened_from_the_list_and_shows_both_events(browser: Browser, collector: Collector) -> None:
    fill(collector)
    browser.open(home_of(collector) + "?profile=reviewer")
    browser.click("tbody a")

    text = browser.text()
    assert f"/invocations/{id_of(70)}" == browser.value("location.pathname")
    assert all(part in text for part in (id_of(70), "look at the parser change", "abandoned", "Started", "Completed"))
    assert "sent at level full" in text
    browser.press("section:last-of-type details:last-of-type summary")
    assert completed(70)["id"] in browser.text("section:last-of-type pre")
    browser.click("nav a")
    assert "/" == browser.value("location.pathname")


def test_recorded_text_is_seen_and_never_executes(browser: Browser, collector: Collector) -> None:
    for number, text in enumerate(HOSTILE):
        actor = {"actor_id": text, "actor_type": "human", "model": text, "tool": text}
        event = started(number, profile_id=text, action=text, actor=actor, request_text=text, match_reason=text)
        answer = collector.post([event])
        assert "stored" == answer.json()["results"][0]["status"]
    browser.open(home_of(collector))
    listed = browser.text("tbody")

    assert all(text in listed for text in HOSTILE[:-1])
    assert "admin\\u202e\\u2066txt.exe\\u2069 \\x1b]8;;x\\x07 nul:\\x00 zero\\u200bwidth" in listed
    assert harmless(browser)
    for number in range(len(HOSTILE)):
        browser.open(f"{home_of(collector)}invocations/{id_of(number)}")
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert "display" not in browser.value("getComputedStyle(document.body).display + ''")
        assert harmless(browser)
        links = browser.value("[...document.querySelectorAll('a')].map(a => a.protocol)")
        assert {"http:"} == set(links)


def test_pictures_waterfall_page_and_comparison_of_whole_records(
    browser: Browser, collector: Collector, cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    """Records of a real project, hostile text in them: nothing of theirs runs, the page in the frame proves itself."""
    git(chartered, "init", "-q")
    env = {TOKEN_VARIABLE: TOKEN}
    assert cli("init").code == 0
    argv = ("sync", "enable", "--endpoint", f"{home_of(collector)}v1/events", "--level", "records", "--yes")
    assert cli(*argv, env=env).code == 0
    ids = []
    for hostile in HOSTILE[:2]:
        with (
            open_invocation(chartered, f"fix the login {hostile}") as run,
            run.tool("Bash", {"command": hostile}) as call,
        ):
            call.result = hostile
        ids.append(run.invocation_id)
        assert cli("profile-invocation", "complete", run.invocation_id).code in (0, 1)
    assert cli("sync", "push", env=env).code == 0
    browser.open(home_of(collector))
    browser.value("document.querySelector('form[action=\"/compare\"] button').click()")
    wait_for(browser, "document.title.startsWith('Two runs')")
    faults = find_faults(browser)
    keep(browser, tmp_path, "compare")
    browser.open(f"{home_of(collector)}pictures")
    keep(browser, tmp_path, "pictures")
    faults += find_faults(browser)
    browser.open(f"{home_of(collector)}invocations/{ids[0]}")
    faults += find_faults(browser)
    keep(browser, tmp_path, "run")
    page = browser.value("document.querySelector('iframe').getAttribute('src')")
    browser.open(f"{home_of(collector)}{str(page)[1:]}")
    wait_for(browser, "document.documentElement.dataset.verdict === 'checked'")
    keep(browser, tmp_path, "page")

    assert faults == [] == browser.happened("Runtime.bindingCalled")


def keep(browser: Browser, tmp_path: Path, name: str) -> None:
    folder = Path(os.environ.get("SPEC_KITTY_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    browser.picture(folder / f"whole-{name}.png", width=1200, height=900)
    browser.picture(folder / f"whole-{name}-phone.png", width=390, height=844, dark=True)


def test_a_hostile_filter_stays_text(browser: Browser, collector: Collector) -> None:
    fill(collector)
    browser.open(home_of(collector))
    browser.type("#actor", HOSTILE[1])
    browser.click("form button")

    assert HOSTILE[1] == browser.value("document.querySelector('#actor').value")
    assert harmless(browser)


def test_a_script_that_did_get_in_would_not_run(browser: Browser, collector: Collector) -> None:
    """The policy is the second wall: inline scripts, handlers and styles put into the page do nothing."""
    browser.open(home_of(collector))
    browser.value(
        "document.body.insertAdjacentHTML('beforeend', `<img src=data:, onerror='boom(1)'>`);"
        "const s = document.createElement('script'); s.text = 'boom(2)'; document.body.append(s); 0"
    )
    browser.value("new Promise(r => setTimeout(r, 0)); 0")

    assert [] == browser.happened("Runtime.bindingCalled")


def test_the_page_is_used_by_keyboard_and_named_for_a_screen_reader(browser: Browser, collector: Collector) -> None:
    fill(collector)
    browser.open(home_of(collector))
    browser.key("Tab", 9)

    assert "Skip to content" == browser.value("document.activeElement.innerText")
    assert 0 <= browser.value("document.activeElement.getBoundingClientRect().left")
    unnamed = "[...document.querySelectorAll('input,select')].filter(e => !e.labels.length && !e.ariaLabel).length"
    assert 0 == browser.value(unnamed)
    assert 7 == browser.value("document.querySelectorAll('th[scope=col]').length")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
    assert {"main", "search", "table", "columnheader", "heading", "navigation"} <= set(roles)


def test_nothing_is_wider_than_a_phone(browser: Browser, collector: Collector, tmp_path: Path) -> None:
    fill(collector)
    long = "x" * 300
    collector.post([started(80, request_text=long, profile_id=long, actor={"actor_id": long, "actor_type": "human"})])
    for path in ("", f"invocations/{id_of(80)}", "?profile=nobody", "invocations/none"):
        browser.open(home_of(collector) + path)
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.picture(tmp_path / "phone.png", width=360, height=740)

        assert 360 >= browser.value("document.documentElement.scrollWidth")


def test_pictures_of_every_page_can_be_looked_at(browser: Browser, collector: Collector, tmp_path: Path) -> None:
    """With SPEC_KITTY_PICTURES=FOLDER they are kept there."""
    folder = Path(os.environ.get("SPEC_KITTY_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    home = home_of(collector)
    browser.open(home)
    browser.picture(folder / "empty.png", width=1200, height=700)
    fill(collector)
    collector.post([started(90, request_text=HOSTILE[-1], actor={"actor_id": HOSTILE[0], "actor_type": "human"})])
    collector.post([started(90, action="review")])
    for name, path in (("list", "?limit=12"), ("detail", f"invocations/{id_of(70)}"), ("missing", "invocations/none")):
        browser.open(home + path)
        browser.value("document.querySelector('section:last-of-type details:last-of-type')?.setAttribute('open', '')")
        browser.picture(folder / f"{name}-light.png", width=1200, height=800)
        browser.picture(folder / f"{name}-dark.png", width=1200, height=800, dark=True)
        browser.picture(folder / f"{name}-phone.png", width=390, height=844)

    assert all(path.stat().st_size > 5_000 for path in folder.glob("*.png"))
