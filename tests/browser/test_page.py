"""The page of a record in a headless Chromium, from a file: it checks itself, shows any change, and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import random
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from approving import Project
from browser.axe import find_faults
from browser.chromium import NAMES, Browser, chromium, find_chromium
from gating import Shop
from mcp_client import call, play, recorded
from specify_cli.cli.terminal.output import plain
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.view.page import compose_page
from specify_cli.libraries.story.telling import tell_story
from specify_cli.libraries.web.document import make_page
from specify_cli.record.reading.views import number_lines
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.seal import seal_line
from specify_cli.storage.index import Index
from support import FULL, Cli, accept, run_main
from trails import load

PICTURES = os.environ.get("SPEC_KITTY_PICTURES")
FLIPS = 2000 if FULL else 150
RECORDS = 200 if FULL else 24
HOSTILE = (
    "<script>document.title='owned'</script>",
    "</textarea></pre><img src=x onerror=\"document.title='owned'\">",
    "\u202egnp.exe\u2066 \x1b[31mred\x1b]0;owned\x07",
    "&lt;b&gt; & &amp; ]]> <!-- --> \u2028 \ufeff \u0000",
    "javascript:document.title='owned'",
    "x" * 200_000,
    "{{constructor.constructor('document.title=`owned`')()}}",
    "' onmouseover=document.title='owned' \"",
)


FOUND = find_chromium()
pytestmark = pytest.mark.skipif(FOUND is None, reason=f"there is no Chromium here (looked for {', '.join(NAMES)})")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert FOUND is not None
    with chromium(FOUND, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(project: Path, chartered: Path, cli: Cli, tmp_path: Path) -> Path:
    """The page of a record with steps, calls, a failure, a patch, a gate and a model call."""
    with open_invocation(project, "fix the login test") as run:

        def look() -> str:
            with run.tool("Bash", {"command": "pytest -q"}) as call:
                call.result = "1 failed, 2 passed in 0.1s"
            return "seen"

        run.step("look", look)
        run.error("E42", "the parser fell over")
        run.gate("tests", "all-true", {"passed": True})
        run.model_call("some-model", "ask", "answer", tokens={"input": 1200, "output": 80})
        run.patch("src/login.py", "modify", before="a\n", after="b\n", diff="@@ -1 +1 @@\n-a\n+b\n")
        run.retrieve("tests for a login fault")
    out = tmp_path / "run.html"
    ran = cli("invocations", "export", run.invocation_id, "--html", str(out), "--json", cwd=chartered)
    assert ran.code == 0, ran.err
    return out


def check(browser: Browser, path: Path, patience: int = 200) -> tuple[str, str]:
    """Open a page and give its verdict and the lines it says are wrong; `unchecked` where its script did not run."""
    browser.open(path.as_uri())
    for _ in range(patience):
        verdict = browser.value("document.documentElement.dataset.verdict ?? ''")
        if verdict:
            return str(verdict), str(browser.value("document.documentElement.dataset.lines ?? ''"))
        if not browser.value("document.querySelector('script') !== null"):
            break
        time.sleep(0.02)
    return "unchecked", ""


def test_a_page_checks_itself_and_shows_the_work(browser: Browser, page: Path) -> None:
    verdict, lines = check(browser, page)
    folded = browser.text()
    browser.value("document.querySelectorAll('#page details').forEach((part) => { part.open = true; })")
    browser.value("new Promise((done) => setTimeout(done, 0))")
    text = browser.text()

    assert "doctrine://" not in folded
    assert (verdict, lines) == ("checked", ""), browser.text("#verdict")
    for wanted in (
        "fix the login test",
        "ran pytest -q: 1 failed",
        "E42",
        "asked the model some-model",
        "input 1200",
        "edited src/login.py +1 −1",
        "✗ an error",
    ):
        assert wanted in text, wanted
    assert "doctrine://" in text and "MATCH" in text
    assert not [
        params
        for params in browser.happened("Network.requestWillBeSent")
        if not params["request"]["url"].startswith("file:")
    ]
    assert not browser.happened("Runtime.exceptionThrown")
    if PICTURES:
        for name, width, height, dark in (
            ("light", 1200, 900, False),
            ("dark", 1200, 900, True),
            ("phone", 390, 844, False),
        ):
            browser.picture(Path(PICTURES) / f"page-{name}.png", width=width, height=height, dark=dark)


def test_files_beyond_the_eighth_are_counted_and_no_line_is_new_that_may_have_been_there(
    browser: Browser, project: Path, cli: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "run.html"
    with open_invocation(project, "change ten files") as run:
        for number in range(10):
            run.patch(f"src/file{number}.py", "create" if number else "modify", after="one\ntwo\n")
    assert cli("invocations", "export", run.invocation_id, "--html", str(out)).code == 0

    assert check(browser, out)[0] == "checked" and "src/file7.py and 2 more" in browser.text()
    browser.value("document.querySelectorAll('#page details').forEach((part) => { part.open = true; })")
    browser.value("new Promise((done) => setTimeout(done, 0))")
    texts = "[...document.querySelectorAll('pre.diff')].map((part) => part.textContent)"
    diffs = json.loads(browser.value(f"JSON.stringify({texts})"))
    assert " one\n two\n" in diffs and "+one\n+two\n" in diffs


@pytest.mark.parametrize(("old", "new"), [(b"fix the login test", b"fix the logon test"), (b"E42", b"E43")])
def test_only_the_line_that_was_changed_is_named(
    browser: Browser, page: Path, tmp_path: Path, old: bytes, new: bytes
) -> None:
    data = page.read_bytes()
    begin = data.index(b'<textarea id="lines" hidden="">') + 31
    at = data.index(old, begin)
    changed = tmp_path / "changed.html"
    changed.write_bytes(data[:at] + new + data[at + len(old) :])

    assert check(browser, changed) == ("bad", str(data[begin:at].count(b"\n")))


@pytest.mark.stress
def test_a_changed_byte_turns_the_page_red_at_its_line(browser: Browser, page: Path, tmp_path: Path) -> None:
    data = page.read_bytes()
    begin = data.index(b'<textarea id="lines" hidden="">') + 31
    end = data.index(b"</textarea>", begin)
    rng = random.Random(20261122)
    changed = tmp_path / "changed.html"
    unseen = []
    for _ in range(FLIPS):
        at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        flipped = bytearray(data)
        flipped[at] ^= bit
        changed.write_bytes(flipped)
        # A changed script does not run at all: the page stays as it begins, which is red.
        verdict, lines = check(browser, changed, 200 if begin <= at < end else 10)
        if verdict == "checked":
            unseen.append((at, bit, bytes(data[at - 20 : at + 20])))
        elif begin <= at < end:
            number = data[begin:at].count(b"\n")
            first = int(lines.split(",")[0] or -1)
            # A line end that goes makes one line of two; either is the right place to look.
            assert first in ((number, number + 1) if data[at] == 10 else (number,)), (at, bit, lines)

    # The letters of a tag's name mean the same in either case; nothing else may change unseen.
    assert [item for item in unseen if not (item[1] == 32 and _is_in_tag(data, item[0]))] == []


def _is_in_tag(data: bytes, at: int) -> bool:
    opened = data.rfind(b"<", 0, at + 1)
    tag = data[opened : data.find(b">", opened) + 1]
    return opened + len(tag) > at and re.match(rb"</?[a-zA-Z!]", tag) is not None


def make_hostile(number: int) -> str:
    """Return one hostile text: the first ones as they are, then random pieces of them."""
    if number < len(HOSTILE):
        return HOSTILE[number]
    dice = random.Random(number)
    pieces = [text[: dice.randrange(1, 400)] for text in dice.choices(HOSTILE, k=dice.randrange(1, 6))]
    return dice.choice(("", '"', "`", "-->", "]]>", "</script >")).join(pieces)


@pytest.mark.stress
@pytest.mark.parametrize("number", range(RECORDS))
def test_nothing_recorded_runs(browser: Browser, tmp_path: Path, number: int) -> None:
    hostile = make_hostile(number)
    long = hostile + "y" * 1_000_000 * (number % 20 == 0)
    key = hostile.encode("ascii", "ignore").decode()[:50]
    started = {"profile_id": hostile, "action": hostile, "match_reason": hostile, "capture": {key: hostile}}
    call = {"tool": hostile, "call_id": hostile, "args": {"head": hostile, "tail": hostile}}
    patch = {"path": hostile, "kind": hostile, "diff": {"head": hostile}, "redactions": {key: 1}}
    bodies: list[dict[str, object]] = [
        {"event": "started", "request_text": hostile, "actor": {"actor_id": hostile}, **started},
        {"event": "tool_call", "at": hostile, **call},
        {"event": "error", "at": number, "severity": hostile, "step": hostile, "within": hostile},
        {"event": hostile[:100], "at": "2026-11-22T10:00:01.000Z", "x": long, "duration_ms": 3},
        {"event": "patch_apply", **patch},
        {"event": "retrieval_response", "hits": [{"uri": hostile, "explain": {key: hostile}}, hostile, None]},
        {"event": "completed", "outcome": hostile, "completed_at": hostile},
    ]
    data, _ = chain(genesis_tip(), "01JD4Q3S0000000000000000A1", bodies)
    path = tmp_path / "hostile.html"
    path.write_bytes(
        make_page(
            data.decode().removesuffix("\n").split("\n"), [], [hostile], [], {"replay": hostile, "left_out": [hostile]}
        )
    )

    verdict, _ = check(browser, path, 1000)
    assert verdict == "checked", browser.text("#verdict")[:300]
    assert browser.value("document.title") == "A record of an agent's work"
    elements = "main script, main img, main iframe, main [onerror], main [onmouseover], main a:not([href^='#line-'])"
    assert browser.value(f"document.querySelectorAll({json.dumps(elements)}).length") == 0
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b\x07]", browser.text())


def read_story(page: Path) -> dict[str, object]:
    held = re.search('<textarea id="story" hidden="">(.*?)</textarea>', page.read_text(), re.S)
    assert held is not None
    story: dict[str, object] = json.loads(html.unescape(held[1]).rpartition("\n")[0])
    return story


def test_a_page_says_of_what_the_work_tree_shows_what_the_terminal_says(browser: Browser, tmp_path: Path) -> None:
    """A file that can have been moved has no new line; one whose mode alone changed no text; another day its date."""
    tree = {"event": "patch_apply", "after": {"head": "one\ntwo\n", "size": 8}, "ok": True, "witness": "tree"}
    bodies: list[dict[str, object]] = [
        {"event": "started", "request_text": "move it", "started_at": "2026-11-20T12:00:00.000Z"},
        {**tree, "path": "moved.py", "kind": "create", "at": "2026-11-22T12:00:00.000Z"},
        {**tree, "path": "new.py", "kind": "create", "lines": "+0123456789+0123456789"},
        {**tree, "path": "run.sh", "kind": "modify", "mode": "100755"},
        {"event": "completed", "outcome": "done", "completed_at": "2026-11-22T12:00:01.000Z"},
    ]
    data, _ = chain(genesis_tip(), "01JD4Q3S0000000000000000A1", bodies)
    path = tmp_path / "tree.html"
    path.write_bytes(make_page(data.decode().removesuffix("\n").split("\n"), [], [], [], {}))

    assert check(browser, path)[0] == "checked"
    browser.value("document.querySelectorAll('#page details').forEach((part) => { part.open = true; })")
    browser.value("new Promise((done) => setTimeout(done, 0))")
    texts = "[...document.querySelectorAll('.part pre.diff')].map((part) => part.textContent)"
    diffs = json.loads(browser.value(f"JSON.stringify({texts})"))
    assert diffs == [" one\n two\n", "+one\n+two\n", " nothing but its mode changed\n"]
    assert "22 Nov 2026" in browser.text(".part.change") and "after 48 h 0 min" in browser.text()


def test_every_rendering_states_the_facts_of_one_story(browser: Browser, tmp_path: Path) -> None:
    """Page, terminal, JSON, the gate's comment and MCP: titles, sentences, files and numbers are equal."""
    shop = Shop(tmp_path)
    one = shop.begin()
    shop.record(one, ("prompt", {"text": "fix it, please"}))
    shop.edit(one)
    shop.test(one, "1 failed, 3 passed in 0.1s", status="error")
    shop.edit(one, lines=1)
    shop.test(one)
    spent = {"model": "some-model", "tokens": {"input": 1000, "output": 100}, "cost": "0.25"}
    shop.record(
        one, ("turn", {"text": "It was the *key*.", **spent}), ("capture_gap", {"reason": "x", "what": "a <b>"})
    )
    shop.approve(one)
    shop.end(one)
    shop.commit()
    page = tmp_path / "run.html"
    shown, html_made = (
        run_main(["invocations", *words], cwd=shop.root, home=shop.home)
        for words in (("show", one), ("export", one, "--html", str(page)))
    )
    told = run_main(["invocations", "show", one, "--story", "--json"], cwd=shop.root, home=shop.home).json()
    served: list[str] = []

    async def session(client: Client) -> None:
        served.append(recorded(await call(client, "show", invocation_id=one)))

    play(shop.root, shop.home, session)
    (comment,) = [
        html.unescape(line.replace("<!---->", ""))  # what a reader sees of `ada@<!---->example.org`
        for line in shop.gate("--format", "markdown").out.splitlines()
        if line.startswith(f"- `{one}`")
    ]
    check(browser, page)
    text, screen = (" ".join(words.split()) for words in (browser.text(), shown.out))

    assert html_made.code == 0 and read_story(page) == told and served == [shown.out]
    for part in (inner for chapter in told["done"] for inner in [chapter, *chapter["parts"]]):
        assert part["title"] in text and part["title"] in screen, part["title"]
    for fact in [*told["left"], *told["judged"]]:
        assert fact["text"] in text and fact["text"] in screen and fact["text"] in comment, fact["text"]
    assert told["told"]["summary"] in text and told["told"]["summary"].partition(";")[0] in screen
    assert told["told"]["judged"][1:] in text and told["told"]["judged"] in screen
    assert told["told"]["judged"].startswith("whether they were kept is not judged; the record shows: tests after")
    assert "done (the agent's own word)" in text and "done (the agent's own word)" in screen
    assert (told["tests"], told["calls"], told["failed"]) == ("passed: pytest -q", 2, 1)
    assert "tests passed after the last change (pytest -q)" in comment and "passed: pytest -q" in text
    assert "2 calls, 1 failed or denied" in comment and "2, 1 failed or denied" in text
    assert "2 calls (1 failed or denied)" in screen
    used = "some-model: 1,000 in, 100 out, $0.25 (as the program reckons)"
    assert used in text and used in screen and "input 1000, output 100, $0.25 as the program reckons" in text
    for file in told["changed"]:
        assert f"{file['kind']} {file['path']} +{file['added']} −{file['removed']}" in text
        assert f"edited {file['path']} +{file['added']} −{file['removed']}" in comment
    assert all(
        words in where for words in ("fix the login test", "It was the *key*.") for where in (text, screen, comment)
    )


def test_a_change_names_the_rules_that_were_found_by_its_file_and_opens_them_in_place(
    project: Path, chartered: Path, cli: Cli, browser: Browser, tmp_path: Path
) -> None:
    rule = chartered / ".kittify/doctrine/directives/login-twice.yaml"
    rule.parent.mkdir(parents=True, exist_ok=True)
    rule.write_text("title: Login twice\nbody: Run it twice, <b>please</b>.\napplies_to:\n  files: [src/login*]\n")
    with open_invocation(project, "explain why the login runs twice in src/login.py") as run:
        for path in ("src/login.py", "src/other.py"):
            run.patch(path, "modify", before="a\n", after="b\n", diff="@@ -1 +1 @@\n-a\n+b\n")
            run.error("E1", "between them")
    page = tmp_path / "run.html"
    assert cli("invocations", "export", run.invocation_id, "--html", str(page), cwd=chartered).code == 0
    assert check(browser, page) == ("checked", "")
    edits = browser.value("[...document.querySelectorAll('.edits')].map((part) => part.innerText)")
    screen = cli("invocations", "show", run.invocation_id, cwd=chartered).out

    assert "directive/login-twice (file src/login.py" in edits[0] and "login-twice" not in edits[1]
    assert "doctrine://directive/login-twice (file src/login.py" in screen
    assert "Run it twice" not in browser.text()
    browser.press(".edits a")
    time.sleep(0.2)
    assert "Run it twice, <b>please</b>." in browser.text()
    assert browser.value("document.activeElement.id").startswith("rule-")
    for width in (1200, 390) if PICTURES else ():
        browser.picture(Path(PICTURES or "") / f"rules-{width}.png", width=width, height=1400)


def make_png(width: int, noise: bool = False) -> bytes:
    """Return a grey PNG, or one that no compression makes small."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    chance = random.Random(1)
    row = b"\0" + (chance.randbytes(width) if noise else b"\x80" * width)
    head = struct.pack(">IIBBBBB", width, width, 8, 0, 0, 0, 0)
    data = b"".join(b"\0" + chance.randbytes(width) for _ in range(width)) if noise else row * width
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def test_those_who_worked_beside_each_other_have_a_lane_each(
    project: Path, chartered: Path, cli: Cli, browser: Browser, tmp_path: Path, page: Path
) -> None:
    """Each bar leads to what was done; where one agent worked alone, there is no such picture."""
    with open_invocation(project, "look at the parser and the docs") as run:
        for agent in (None, "a1", "a2"):
            fields = {} if agent is None else {"agent": agent}
            for number in range(3):
                call = {
                    "tool": "Bash",
                    "call_id": f"{agent}{number}",
                    "args": {"command": f"ls {agent}{number}"},
                    **fields,
                }
                run.record("tool_call", call)
                status = "error" if number == 2 and agent == "a2" else "ok"
                run.record("tool_result", {"tool": "Bash", "call_id": f"{agent}{number}", "status": status, **fields})
    out = tmp_path / "lanes.html"
    assert cli("invocations", "export", run.invocation_id, "--html", str(out), cwd=chartered).code == 0
    assert check(browser, out) == ("checked", "")
    lanes = browser.value("document.querySelectorAll('.lanes .name').length")
    bars = browser.value("document.querySelectorAll('.lanes a').length")
    dead = browser.value(
        "[...document.querySelectorAll('.lanes a')].filter(a => !document.querySelector(a.getAttribute('href'))).length"
    )
    bad = browser.value("document.querySelectorAll('.lanes rect.bad').length")
    faults = find_faults(browser)
    for width in (1200, 390) if PICTURES else ():
        browser.picture(Path(PICTURES or "") / f"lanes-{width}.png", width=width, height=900)
    check(browser, page)

    assert (3, 9, 0, 1, []) == (lanes, bars, dead, bad, faults)
    assert browser.value("document.querySelector('.lanes')") is None


def test_images_of_known_types_are_shown_and_what_is_left_out_says_so(
    project: Path, chartered: Path, cli: Cli, browser: Browser, tmp_path: Path
) -> None:
    config = chartered / ".kittify/config.yaml"
    config.write_text(f"{config.read_text() if config.exists() else ''}\naudit:\n  capture_tool_io: full\n")
    accept(chartered)
    svg = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>" * 3).decode()
    shots = {
        "small.png": base64.b64encode(make_png(40)).decode(),
        "large.png": base64.b64encode(make_png(300, noise=True)).decode(),
        "huge.png": base64.b64encode(make_png(1100, noise=True)).decode(),
        "not.png": "iVBORw0KGgo" + "A" * 40,
        "a.svg": svg,
    }
    with open_invocation(project, "look at the pictures") as run:
        for name, data in shots.items():
            with run.tool("Read", {"file_path": name}) as call:
                call.result = {"type": "image", "source": {"type": "base64", "data": data}}
    page = tmp_path / "run.html"
    assert cli("invocations", "export", run.invocation_id, "--html", str(page), cwd=chartered).code == 0
    assert check(browser, page) == ("checked", "")
    browser.value("document.querySelectorAll('#page details').forEach((part) => { part.open = true; })")
    time.sleep(0.5)
    seen = browser.value("[...document.images].map((one) => [one.src.slice(0, 15), one.naturalWidth])")

    assert seen == [["data:image/png;", 40], ["data:image/png;", 300]]
    text = browser.text("#done")
    assert text.count("An image stands here in the record: it is left out of this page for its size") == 1
    assert text.count("An image stands here in the record: no browser can draw its bytes") == 1
    assert shots["small.png"] not in text and len(page.read_bytes()) < 1_000_000
    for width in (1200, 390) if PICTURES else ():
        browser.picture(Path(PICTURES or "") / f"images-{width}.png", width=width, height=1400)


def test_an_object_that_is_an_image_is_shown_under_its_digest(browser: Browser, tmp_path: Path) -> None:
    image = make_png(50)
    bodies: list[dict[str, object]] = [
        {"event": "started", "request_text": "look"},
        {"event": "tool_call", "tool": "Shot", "call_id": "c", "args": {"head": "{}"}},
        {"event": "tool_result", "call_id": "c", "output": {"object": hashlib.sha256(image).hexdigest(), "head": ""}},
    ]
    data, _ = chain(genesis_tip(), "01JD4Q3S0000000000000000A1", bodies)
    path = tmp_path / "shot.html"
    for held in (image, make_png(51)):
        path.write_bytes(make_page(data.decode().removesuffix("\n").split("\n"), [], [held], [], {}))
        assert check(browser, path)[0] == "checked"
        browser.value("document.querySelectorAll('#page details').forEach((part) => { part.open = true; })")
        time.sleep(0.3)
        seen = browser.value("[...document.images].map((one) => one.naturalWidth)")
        assert seen == ([50] if held is image else [])


def tell(page: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the story of a page, sealed anew as its writer would."""
    story = read_story(page)
    change(story)
    forge(page, "story", json.dumps(story))


@pytest.mark.parametrize("forged", ["a failure ends well", "a deed is left out", "a line is made up"])
def test_a_story_that_the_lines_do_not_bear_out_is_named(
    browser: Browser, cli: Cli, project: Path, tmp_path: Path, forged: str
) -> None:
    with open_invocation(project, "fix it") as run, suppress(ValueError), run.tool("Bash", {"command": "x"}):
        raise ValueError("it fell over")
    page = tmp_path / "run.html"
    assert cli("invocations", "export", run.invocation_id, "--html", str(page)).code == 0

    def change(story: dict[str, Any]) -> None:
        (chapter,) = story["done"]
        if forged == "a deed is left out":
            chapter["parts"] = []
        elif forged == "a failure ends well":
            chapter["parts"][0]["acts"][0]["outcome"] = "ok"
        else:
            chapter["parts"][0]["acts"][0]["seqs"].append(77)

    assert check(browser, page)[0] == "checked"
    tell(page, change)

    assert check(browser, page)[0] == "bad"
    assert "the story" in browser.text("#verdict")


def test_a_thousand_events_fit_into_a_megabyte(project: Path, cli: Cli, tmp_path: Path, browser: Browser) -> None:
    with open_invocation(project, "fix it") as run:
        for number in range(498):
            with run.tool("Bash", {"command": f"echo {number}"}) as call:
                call.result = f"{number}"
    out = tmp_path / "long.html"
    size = cli("invocations", "export", run.invocation_id, "--html", str(out), "--json").json()["size"]

    assert size <= 1_048_576
    assert check(browser, out) == ("checked", "")


def make_long(path: Path, calls: int) -> bytes:
    """Write the page of a record with so many calls, and return it."""
    bodies: list[dict[str, object]] = [{"event": "started", "request_text": "a long run"}]
    for number in range(calls):
        if number % 50 == 0:
            bodies.append({"event": "prompt", "text": {"head": f"prompt {number}"}})
        args = {"head": json.dumps({"command": f"echo {number}"})}
        bodies += [
            {"event": "tool_call", "call_id": f"c{number}", "tool": "Bash", "args": args},
            {"event": "tool_result", "call_id": f"c{number}", "status": "ok", "output": {"head": "x" * 100}},
        ]
    data, _ = chain(genesis_tip(), "01JD4Q3S0000000000000000A1", bodies)
    page = make_page(data.decode().removesuffix("\n").split("\n"), [], [], [], {})
    path.write_bytes(page)
    return page


def write_run(path: Path, *bodies: dict[str, object]) -> None:
    """Write the page of a record with these lines behind its first."""
    data, _ = chain(
        genesis_tip(), "01JD4Q3S0000000000000000A1", [{"event": "started", "request_text": "a run"}, *bodies]
    )
    path.write_bytes(make_page(data.decode().removesuffix("\n").split("\n"), [], [], [], {}))


def tell_call(number: int, command: str, output: str, status: str = "ok") -> list[dict[str, object]]:
    """Return the lines of one command, captured as JSON that a program wraps around it."""
    call = {"call_id": f"c{number}", "tool": "Bash"}
    return [
        {"event": "tool_call", **call, "args": {"head": json.dumps({"command": command})}},
        {
            "event": "tool_result",
            **call,
            "status": status,
            "output": {"head": json.dumps({"stderr": "", "stdout": output})},
        },
    ]


def search(browser: Browser, query: str) -> tuple[str, str]:
    """Search in a page; return what it says was found, and the address of the first find."""
    browser.value("document.querySelector('#search').value = ''")
    browser.type("#search", query)
    browser.key("Enter", 13)
    return browser.text("#map [role=status]"), str(browser.value("location.hash"))


def test_a_search_finds_what_a_reader_sees_and_every_line_has_an_address(browser: Browser, tmp_path: Path) -> None:
    """Texts stand in a record with the escapes of JSON, some of them cut; a reader types what the page shows."""
    path = tmp_path / "run.html"
    cut = {"head": '{"stdout": "a \\"long\\" way\\nfrom home, and', "tail": "there", "size": 900}
    write_run(
        path,
        *tell_call(1, "python3 -c \"print('hi')\"", 'File "src/a.py", line 6'),
        *tell_call(2, "pytest -q", "2 failed, 1 passed in 0.1s", "error"),
        {"event": "tool_call", "call_id": "c3", "tool": "Read", "args": {"head": '{"file_path": "b.py"}'}},
        {"event": "tool_result", "call_id": "c3", "status": "ok", "output": cut},
    )
    assert check(browser, path) == ("checked", "")

    for query, where in (
        ("-c \"print('hi')\"", "#at-1"),
        ('File "src/a.py", line 6', "#at-1"),
        ("ran pytest -q: 2 FAILED", "#at-3"),
        ('a "long" way', "#at-5"),
        ("a run", "#line-0"),
    ):
        assert search(browser, query) == ("1 of 1 lines", where), query
    assert search(browser, "no such word")[0] == "Nothing holds it."
    for address, focused in (("line-5", "line-5"), ("at-4", "at-3"), ("at-0", "line-0")):
        browser.value(f"location.hash = '{address}'")
        assert wait_until_focused(browser, focused), address
    assert browser.value("[...document.querySelectorAll('#at-3 .act a')].map((link) => link.hash)") == [
        "#line-3",
        "#line-4",
    ]


def test_a_line_end_of_windows_is_no_sign_and_of_a_line_written_over_the_last_state_is_shown(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "run.html"
    bar = "".join(f"\r\x1b[K{part} %" for part in (10, 50, 100))
    patch: dict[str, object] = {"event": "patch_apply", "path": "a.py", "kind": "modify"}
    write_run(
        path,
        *tell_call(1, "build", f"\x1b[01;31m\x1b[Kone\x1b[m\x1b[K\r\ntwo\r\n{bar}\r\nend \x1b]0;x\x07"),
        {"event": "turn", "text": {"head": "it\r\nis done"}},
        {**patch, "diff": {"head": "@@ -1,2 +1,2 @@\n one\r\n-two\r\n+three\r\n"}},
        {**patch, "diff": {"head": "@@ -1,2 +1,2 @@\n one\r\n-three\r\n+three\n"}},
    )
    assert check(browser, path) == ("checked", "")
    browser.value("document.querySelectorAll('#done details').forEach((part) => { part.fill?.(); part.open = true; })")

    said = "[earlier states of lines, written over and only in the raw line: 2]\n"
    assert browser.value("document.querySelector('#done .run pre').textContent") == (
        f"{said}one\ntwo\n100 %\nend \\u{{1b}}]0;x\\u{{7}}"
    )
    assert browser.text("#done .said-text") == "it\nis done"
    assert browser.value("[...document.querySelectorAll('#done .diff')].map((one) => one.textContent)") == [
        "@@ -1,2 +1,2 @@\n one\n-two\n+three\n",
        "@@ -1,2 +1,2 @@\n one\\u{d}\n-three\\u{d}\n+three\n",
    ]


def test_a_diff_is_shown_without_its_head_and_with_each_of_its_lines(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    diff = "Index: a.sql\n====\n--- a.sql\tOld\n+++ a.sql\tNew\n@@ -1,2 +1,2 @@\n--- a comment\n+++ more\n one\n"
    tokens = {"input": 300, "output": 30}
    turn: dict[str, object] = {
        "event": "turn",
        "model": "some-model",
        "tokens": tokens,
        "agent": "general-purpose-" * 4,
    }
    write_run(path, {"event": "patch_apply", "path": "a.sql", "kind": "modify", "diff": {"head": diff}}, turn)
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
    assert check(browser, path) == ("checked", "")

    assert browser.value("document.querySelector('#done .diff').textContent") == (
        "@@ -1,2 +1,2 @@\n--- a comment\n+++ more\n one\n"
    )
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_several_changes_of_a_file_are_one_diff_as_far_as_they_can_be_joined(browser: Browser, tmp_path: Path) -> None:
    """Some programs keep the text before, some that after, some the diffs alone."""
    path = tmp_path / "run.html"
    many = [f"line {number}" for number in range(1, 31)]

    def make(path: str, kind: str = "modify", **members: str) -> dict[str, object]:
        texts = {name: {"head": text} for name, text in members.items() if name != "witness"}
        return {
            "event": "patch_apply",
            "path": path,
            "kind": kind,
            **texts,
            **({"witness": "tree"} if "witness" in members else {}),
        }

    first = "@@ -2,3 +2,4 @@\n line 2\n-line 3\n+line three\n+more\n line 4\n"
    # The first change is taken back but for a line; the second hunk stands one line lower than at first.
    second = "@@ -3,2 +3,1 @@\n-line three\n-more\n+line 3\n@@ -21,2 +20,3 @@\n line 20\n+new\n line 21\n"
    write_run(
        path,
        make("sparse.py", diff=first),
        make("sparse.py", diff=second),
        make("whole.py", before="\n".join(many) + "\n", diff=first),
        make("whole.py", diff=second),
        make("made.py", "create", after="a\nb\n"),
        make("made.py", after="a\nc\n"),
        make("gone.py", "create", after="a\n"),
        make("gone.py", "delete"),
        make("lost.py", after="a\n", witness="tree"),
        make("lost.py", before="a\n", diff="@@ -1 +1 @@\n-a\n+b\n"),
        make("other.py", diff=first),
        make("other.py", diff="@@ -2 +2 @@\n-not this\n+that\n"),
    )
    assert check(browser, path) == ("checked", "")
    for folded in ("details.file", "details.file details"):
        browser.value(f"document.querySelectorAll('{folded}').forEach((part) => part.fill())")
    rows = "[...document.querySelectorAll('details.file')]"
    said = browser.value(f"{rows}.map((one) => one.querySelector(':scope > p')?.textContent ?? '')")
    diffs = browser.value(f"{rows}.map((one) => one.querySelector(':scope > .diff')?.textContent ?? '')")
    after = browser.value(f"{rows}.map((one) => one.querySelector('details:last-of-type').textContent)")

    lost = "2 changes, one after the other: too little of the file is kept to join them to one."
    one = "@@\n line 20\n+new\n line 21\n"
    assert said == ["2 changes as one: +1 −0"] * 2 + ["2 changes as one: +2 −0", "2 changes as one: +0 −0", lost, lost]
    assert diffs[:4] == [one, "@@\n line 18\n line 19\n line 20\n+new\n line 21\n line 22\n line 23\n", "+a\n+c\n", ""]
    assert "After" + "\n".join([*many[:20], "new", *many[20:]]) in after[1] and after[2].endswith("Aftera\nc\n")
    assert after[4].endswith("Afterb\n") and after[5].endswith("After: its text was not kept whole.")


def wait_until_focused(browser: Browser, name: str) -> bool:
    for _ in range(100):
        if browser.value("document.activeElement.id") == name:
            return True
        time.sleep(0.02)
    return False


def test_keys_lead_to_the_next_prompt_failure_edit_and_part(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    patch: dict[str, object] = {
        "event": "patch_apply",
        "path": "a.py",
        "kind": "modify",
        "diff": {"head": "@@ -1 +1 @@"},
    }
    prompts: list[dict[str, object]] = [{"event": "prompt", "text": {"head": text}} for text in ("one", "two")]
    write_run(path, prompts[0], *tell_call(1, "ls", ""), patch, prompts[1], *tell_call(2, "false", "", "error"), patch)
    assert check(browser, path) == ("checked", "")

    for key, where in (("p", 1), ("p", 5), ("f", 6), ("k", 5), ("e", 8), ("j", 1), ("j", 2), ("e", 4)):
        browser.key(key, ord(key.upper()))
        assert browser.value("location.hash") == f"#at-{where}", key
    browser.key("/", 191)
    assert browser.value("document.activeElement.id") == "search"

    # What the filter hides is passed over; a search that finds something there shows it again.
    filtering = "(e => { e.value = 'bad'; e.dispatchEvent(new Event('change')); })(document.querySelector('#filter'))"
    browser.value(f"{filtering}; document.activeElement.blur(); document.querySelector('#at-1').focus()")
    for _ in range(2):
        browser.key("j", 74)
        hidden = browser.value("getComputedStyle(document.querySelector(location.hash)).display === 'none'")
        assert not hidden, browser.value("location.hash")
    assert search(browser, "ran ls") == ("1 of 1 lines", "#at-2")
    assert browser.value("getComputedStyle(document.querySelector('#at-2')).display") != "none"
    assert browser.value("document.querySelector('#filter').value") == ""


def test_colours_end_where_the_program_ended_them(browser: Browser, tmp_path: Path) -> None:
    """Also 39 and 22 end them, and the numbers behind 38 and 48 are no colours of their own."""
    path = tmp_path / "run.html"
    printed = "\x1b[31mred\x1b[39m plain \x1b[1mbold\x1b[22m thin \x1b[1;38;5;33mown\x1b[0m \x1b[48;2;1;31;32mback"
    write_run(path, *tell_call(1, "node x.js", printed, "error"))
    assert check(browser, path) == ("checked", "")

    spans = "[...document.querySelectorAll('#at-1 pre span')].map((one) => [one.className, one.textContent])"
    assert browser.value(spans) == [["colour-1", "red"], ["bold", "bold"], ["bold", "own"]]
    assert browser.text("#at-1 pre") == "red plain bold thin own back"


def test_a_diff_marks_whole_characters_and_lines_that_became_two(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    diff = "@@ -1,3 +1,4 @@\n-a = '\U0001f600'\n+a = '\U0001f601'\n b = 1\n"
    diff += "-total = count(one)\n+total = count(one, two)\n+c = '\u202e'\n"
    before = {"head": "a = '\U0001f600'\nb = 1\ntotal = count(one)\n", "size": 40}
    write_run(
        path,
        {"event": "patch_apply", "path": "a.py", "kind": "modify", "diff": {"head": diff}, "before": before},
    )
    assert check(browser, path) == ("checked", "")
    rows = "[...document.querySelectorAll('#at-1 .diff > span')].map((row) => row.innerText.trimEnd())"
    marks = "[...document.querySelectorAll('#at-1 .diff b')].map((mark) => mark.textContent)"
    browser.value(
        "document.querySelectorAll('#changes ~ details').forEach((part) => { part.fill(); part.open = true; })"
    )
    browser.value("document.querySelectorAll('.file details').forEach((part) => { part.fill(); part.open = true; })")

    assert browser.value(rows)[1:] == [
        "-a = '\U0001f600'",
        "+a = '\U0001f601'",
        " b = 1",
        "-total = count(one)",
        "+total = count(one, two)",
        "+c = '\\u{202e}'",
    ]
    assert browser.value(marks) == ["\U0001f600", "\U0001f601", ", two"]
    sides = browser.value("[...document.querySelectorAll('.file details pre')].map((side) => side.textContent)")
    assert sides == [before["head"], "a = '\U0001f601'\nb = 1\ntotal = count(one, two)\nc = '\\u{202e}'\n"]


def test_the_map_says_how_many_there_are_of_what_it_shows_in_part(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    tests = (line for number in range(70) for line in tell_call(number, f"pytest -q t{number}.py", "1 failed", "error"))
    write_run(path, *tests)
    assert check(browser, path) == ("checked", "")

    heads = browser.value("[...document.querySelectorAll('#map summary')].map((one) => one.textContent)")
    assert heads == ["Failures (the first 60 of 70)"]


def test_a_page_says_what_a_first_reader_looks_for(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    edits = [{"event": "patch_apply", "path": "src/of/a.py", "kind": "modify", "ok": True, "lines": "+"}] * 3
    write_run(
        path,
        {"event": "prompt", "text": {"head": "do it"}},
        *tell_call(1, "ls nowhere", "no such file", "error"),
        *tell_call(2, "cat missing", "no such file", "error"),
        *tell_call(3, "ls", "a.py"),
        *edits,
        *[{**edits[0], "path": "b.py", "ok": False}] * 2,
        {"event": "capture_gap", "reason": "unseen_change", "what": "b.py"},
        *tell_call(4, "pytest -q", "1 failed", "error"),
        {"event": "completed", "outcome": "done", "closed_by": "agent"},
    )
    assert check(browser, path) == ("checked", "")

    head, whole = browser.text("main dl"), browser.text()
    assert "done (the agent's own word)" in head
    assert "src/of/a.py; changed while no recorded tool ran: b.py" in head
    assert "changed while no recorded tool ran: b.py: what changed in it is not recorded (line 13)" in whole
    heads = browser.value("[...document.querySelectorAll('#map summary')].map((one) => one.textContent)")
    assert heads == ["Chapters (1)", "Failures (5)", "Edits (1)"]
    links = browser.value("[...document.querySelectorAll('#map .bad')].map((one) => one.textContent)")
    assert links == ["ls nowhere", "cat missing", "b.py", "b.py", "ran pytest -q: 1 failed"]
    assert browser.value("document.querySelector('#map details:last-of-type li').textContent") == "a.py"
    assert whole.count("sealed only") == 1 and "lines 2, 3" in whole
    ink = "getComputedStyle(document.querySelector('.bad summary')).color"
    assert browser.value(ink) != browser.value(ink.replace(".bad summary", ".bad details.quiet summary"))


def test_a_page_and_the_terminal_say_of_an_erased_change_that_it_was_erased(
    browser: Browser, tmp_path: Path, cli: Cli
) -> None:
    run = cli("do", "fix the login test", "--json").json()["invocation_id"]
    patch = {"event": "patch_apply", "path": "a.py", "kind": "modify", "diff": "@@ -1 +1 @@\n-a\n+b\n"}
    assert cli("profile-invocation", "record", run, stdin=json.dumps(patch).encode() + b"\n").code == 0
    cli("profile-invocation", "complete", run)
    assert cli("forget", "--path", "a.py", "--reason", "asked to", "--yes").code == 0
    out = tmp_path / "run.html"
    cli("invocations", "export", run, "--html", str(out))

    assert check(browser, out)[0] == "checked"
    assert "1 change of a file whose name is not kept" in browser.text("main dl")
    assert "The text of this change was erased." in browser.text()
    assert "1 change of a file whose name is not kept (line 4)" in browser.text()
    assert "its text was erased" in cli("invocations", "show", run, "--diff").out


def test_what_is_copied_as_markdown_holds_no_markup_of_the_record(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    write_run(
        path,
        {"event": "prompt", "text": {"head": "~~~~\n# not a heading\n~~~~~\n\u202eend"}},
        *tell_call(1, "echo '![x](http://example.org/x.png)'\n# neither\n<b>", ""),
    )
    assert check(browser, path) == ("checked", "")
    clipboard = "{value: {writeText: async (text) => { window.copied = text; }}}"
    browser.value(f"Object.defineProperty(navigator, 'clipboard', {clipboard}) && 0")
    browser.press("#map button")
    copied = browser.value("window.copied")

    assert "  ~~~~~~\n  ~~~~\n  # not a heading\n  ~~~~~\n  \\u{202e}end\n  ~~~~~~\n" in copied
    assert r"ran echo '\!\[x\](http://example.org/x.png)' \# neither \<b\>" in copied


@pytest.mark.stress
def test_a_hundred_thousand_events_are_checked_and_shown_a_part_at_a_time(browser: Browser, tmp_path: Path) -> None:
    calls = 50_000 if FULL else 5_000
    page = make_long(tmp_path / "long.html", calls)

    assert len(page) <= 100_000_000
    assert check(browser, tmp_path / "long.html", 3000) == ("checked", ""), browser.text("#verdict")[:300]
    assert browser.value("document.querySelectorAll('.part.prompt').length") == calls // 50
    assert browser.value("document.querySelectorAll('*').length") < calls * 3
    browser.value("(e => { e.fill(); e.open = true; })(document.querySelector('#all-lines'))")
    assert browser.value("document.querySelectorAll('#all-lines details').length") == -(
        -(2 * calls + calls // 50 + 1) // 1000
    )
    assert browser.value("document.querySelectorAll('#all-lines pre').length") == 0


@pytest.mark.stress
def test_a_long_text_goes_on_in_other_areas_and_no_byte_between_them_changes_unseen(
    browser: Browser, tmp_path: Path
) -> None:
    data = make_long(tmp_path / "long.html", 1500)
    between = b'</textarea><textarea hidden="">'
    at = data.index(between)

    assert check(browser, tmp_path / "long.html") == ("checked", "")
    for place in range(0, len(between), 1 if FULL else 4):
        changed = bytearray(data)
        changed[at + place] ^= 1
        (tmp_path / "changed.html").write_bytes(changed)
        assert check(browser, tmp_path / "changed.html", 400)[0] != "checked", between[:place]
    (tmp_path / "changed.html").write_bytes(data.replace(between, between + between, 1))
    assert check(browser, tmp_path / "changed.html")[0] == "checked", "an empty area adds nothing"


def test_of_a_text_of_two_million_characters_the_beginning_is_shown(browser: Browser, tmp_path: Path) -> None:
    texts = ["x" * 2_000_000, make_hostile(3) * 8_000]
    bodies: list[dict[str, object]] = [{"event": "started", "request_text": "long"}]
    bodies += [{"event": "prompt", "text": {"head": text[:1_400_000]}} for text in texts]
    bodies += [{"event": "turn", "text": {"head": texts[0]}}]
    data, _ = chain(genesis_tip(), "01JD4Q3S0000000000000000A1", bodies)
    path = tmp_path / "text.html"
    path.write_bytes(make_page(data.decode().removesuffix("\n").split("\n"), [], [], [], {}))

    assert check(browser, path, 3000)[0] == "checked"
    assert "more characters are in this file and not shown" in browser.text(".part.prompt")
    assert len(browser.text()) < 1_500_000


def test_the_heading_of_a_long_request_is_its_beginning_and_opens_the_whole(browser: Browser, tmp_path: Path) -> None:
    request = f"fix the login test {'as the plan says ' * 40}to the end"
    data, _ = chain(genesis_tip(), "01JD4Q3S0000000000000000A1", [{"event": "started", "request_text": request}])
    path = tmp_path / "plan.html"
    path.write_bytes(make_page(data.decode().removesuffix("\n").split("\n"), [], [], [], {}))

    assert check(browser, path)[0] == "checked"
    assert browser.text("h1") == f"{request[:160]}…" and request not in browser.text()
    browser.value("(part => { part.fill(); part.open = true; })(document.querySelector('h1 + details'))")
    assert request in browser.text("h1 + details")


def test_proofs_and_the_logs_signature_are_checked_in_the_browser(cli: Cli, tmp_path: Path, browser: Browser) -> None:
    for number in range(5):
        one = cli("do", f"fix number {number}", "--json").json()["invocation_id"]
        cli("profile-invocation", "complete", one)
    out = tmp_path / "proven.html"
    assert cli("invocations", "export", "@3", "--html", str(out), "--proofs").code == 0

    assert check(browser, out) == ("checked", "")
    assert "signed by the key in this page" in browser.text()
    text = out.read_text()
    held = html.unescape(re.search('<textarea id="proofs" hidden="">(.*?)</textarea>', text, re.S).group(1))  # type: ignore[union-attr]
    body = held.rpartition("\n")[0]
    proof = json.loads(body.split("\n")[0])
    lines = proof["text"].split("\n")
    spoilt = "A" if lines[2][0] != "A" else "B"
    proof["text"] = "\n".join([*lines[:2], spoilt + lines[2][1:], *lines[3:]])
    changed = "\n".join([json.dumps(proof), *body.split("\n")[1:]])
    sealed = f"{changed}\n{hashlib.sha256(changed.encode()).hexdigest()}"
    out.write_text(text.replace(html.escape(held, quote=False), html.escape(sealed, quote=False)))
    assert check(browser, out)[0] == "bad"


def test_a_reader_with_a_keyboard_and_a_screen_reader_finds_everything(browser: Browser, page: Path) -> None:
    """What axe calls serious is looked at by hand: names, headings in order, table headers, contrast of the palette."""
    check(browser, page)
    levels = browser.value("[...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])")
    assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.value("document.documentElement.lang") == "en"
    assert browser.value("document.querySelectorAll('table:not(:has(caption))').length") == 0
    assert browser.value("document.querySelectorAll('tbody tr:not(:has(th[scope=row]))').length") == 0
    assert browser.value("[...document.querySelectorAll('summary')].every(e => e.innerText.trim())") is True
    assert browser.value("document.querySelector('#verdict').getAttribute('role')") == "status"
    ids = browser.value("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_the_number_of_lines_of_a_model_leads_to_them(browser: Browser, page: Path) -> None:
    check(browser, page)
    told = browser.value("document.querySelector('#lines').value").splitlines()
    (number,) = (at for at, line in enumerate(told) if json.loads(line)["event"] == "model_call")
    box = "[...document.querySelectorAll('caption')].find((one) => one.innerText.startsWith('tokens')).parentNode"
    browser.value(f"{box}.querySelector('details')?.fill()")

    assert browser.value(f"[...{box}.querySelectorAll('a')].map((link) => link.hash)") == [f"#line-{number}"]


def test_axe_finds_no_serious_fault(browser: Browser, page: Path) -> None:
    check(browser, page)
    browser.value("document.querySelectorAll('details').forEach((part) => { part.open = true; })")

    assert find_faults(browser) == []


def test_without_its_script_a_page_says_that_it_is_not_checked(browser: Browser, page: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked.html"
    blocked.write_bytes(page.read_bytes().replace(b"script-src 'sha256-", b"script-src 'sha256-A"))

    assert check(browser, blocked)[0] == "unchecked"
    assert "Not checked" in browser.text("#verdict")


def forge(page: Path, name: str, body: str) -> None:
    """Put another text into what stands beside the record, closed by its own digest as every such part is."""
    text = page.read_text()
    held = re.search(f'<textarea id="{name}" hidden="">(.*?)</textarea>', text, re.S)
    assert held is not None
    sealed = f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}" if name != "annexes" else body
    page.write_text(text[: held.start(1)] + html.escape(sealed, quote=False) + text[held.end(1) :])


def forge_annex(page: Path, annex: bytes) -> None:
    """Put an annex into a page, and the story that tells of it."""
    held = re.search('<textarea id="lines" hidden="">(.*?)</textarea>', page.read_text(), re.S)
    assert held is not None
    lines = [json.loads(line) for line in html.unescape(held[1]).split("\n")]
    forge(page, "annexes", annex.decode().removesuffix("\n"))
    forge(page, "story", json.dumps(plain(tell_story(number_lines(lines, [json.loads(annex)])))))


def make_proven(cli: Cli, tmp_path: Path) -> Path:
    invocation_id = cli("do", "fix the login test", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", invocation_id)
    out = tmp_path / "proven.html"
    assert cli("invocations", "export", invocation_id, "--html", str(out), "--proofs").code == 0
    return out


def test_a_record_with_erased_values_is_checked_by_what_its_annex_says(
    cli: Cli, tmp_path: Path, browser: Browser
) -> None:
    invocation_id = cli("do", "fix the login of ada@example.org", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", invocation_id)
    assert cli("forget", "--subject", "ada@example.org", "--reason", "asked to", "--yes").code == 0
    page = tmp_path / "erased.html"
    assert cli("invocations", "export", invocation_id, "--html", str(page)).code == 0
    assert check(browser, page) == ("checked", "")
    assert "with erased values, as an annex says" in browser.text("#verdict")
    assert "Its request was erased" in browser.text() and "ada@example.org" not in page.read_text()

    page.write_text(page.read_text().replace("builder-bea", "builder-bob"))
    assert check(browser, page)[0] == "bad", "what is left of an erased line is what its annex says, and nothing else"
    forge(page, "annexes", "")
    assert check(browser, page)[0] == "bad"


def test_what_is_only_said_stands_apart_under_the_pages_own_caveat(cli: Cli, tmp_path: Path, browser: Browser) -> None:
    page = make_proven(cli, tmp_path)
    forge(page, "said", json.dumps({"replay": "MATCH 12 of 12. CERTIFIED BY THE AUDITOR", "keys": [], "note": []}))
    verdict, _ = check(browser, page)
    above = browser.text().partition("Said by whoever made this page")

    assert verdict == "checked"
    assert "CERTIFIED" not in above[0] and "Nothing here is checked" in above[2].partition("CERTIFIED")[0]
    assert "✓" not in browser.text("#verdict") and "certified" not in browser.text("#verdict").lower()


def test_an_annex_without_a_proof_of_its_own_is_sealed_only(cli: Cli, tmp_path: Path, browser: Browser) -> None:
    page = make_proven(cli, tmp_path)
    text = page.read_text()
    tip = html.unescape(text.partition('<textarea id="lines" hidden="">')[2].partition("</textarea>")[0]).split("\n")[
        -1
    ]
    last = json.loads(tip)
    forged = {
        "event": "approval",
        "at": "2026-11-24T10:00:00.000Z",
        "decision": "allow",
        "approver": "ada@example.org",
        "identity": "ssh",
        "refers_to": "request",
    }
    annex = seal_line({**forged, "v": 1, "seq": 0, "invocation_id": last["invocation_id"], "prev": last["~"]})
    forge_annex(page, annex)
    verdict, _ = check(browser, page)

    assert verdict == "bad"  # it claims a signature and has none
    claimed = seal_line(
        {**forged, "identity": "claim", "v": 1, "seq": 0, "invocation_id": last["invocation_id"], "prev": last["~"]}
    )
    forge_annex(page, claimed)
    verdict, _ = check(browser, page)

    assert verdict == "checked"
    assert "annexes: 1 sealed only; 1 of them only claim what they say" in browser.text("#verdict")
    assert "allowed by ada@example.org (claimed); nobody signed it" in browser.text()
    assert "sealed only, a claim" in browser.text()


def test_a_page_without_proofs_says_that_its_lines_are_sealed_only(browser: Browser, page: Path) -> None:
    check(browser, page)

    assert "sealed only" in browser.text("#verdict") and "in a log" not in browser.text("#verdict")


def test_an_approvals_signature_is_checked_by_its_own_key(tmp_path: Path, browser: Browser) -> None:
    given = Project(tmp_path)
    given.approve()
    place = Index(str(given.root)).resolve(given.id)
    data, _ = compose_page(load(given.root), place, proofs=False)
    out = tmp_path / "approved.html"
    out.write_bytes(data)

    assert check(browser, out)[0] == "checked"
    assert "signed by the key SHA256:" in browser.text() and "whose key that is was not checked" in browser.text()
