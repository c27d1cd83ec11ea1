"""The viewer over HTTP: who is answered, what each page says, and that recorded text stays text."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from specify_cli.features.programs.run import open_invocation
from specify_cli.features.view.content import show_list, show_run
from specify_cli.libraries.timeline.run import read_run
from specify_cli.libraries.web.pictures import draw_days, draw_parts, draw_waterfall
from specify_cli.project.config import load_project
from specify_cli.record.ids import millis_of
from support import Cli, record_run_held_later
from viewing import Viewer, viewing

HOSTILE = "</textarea></svg><script>boom()</script>\u202e\x1b[31m\" onload='x'"


@pytest.fixture
def ids(chartered: Path) -> list[str]:
    """Two records of one request, the second with one call more; the newest last."""
    made = []
    for calls in (1, 2):
        with open_invocation(chartered, "fix the login test") as run:
            for number in range(calls):
                with run.tool("Bash", {"command": f"pytest -q {HOSTILE} {number}"}) as call:
                    call.result = HOSTILE
            run.error("E42", HOSTILE)
        made.append(run.invocation_id)
    return made


@pytest.fixture
def viewer(project: Path, home: Path) -> Iterator[Viewer]:
    with viewing(project, home) as running:
        yield running


@pytest.fixture
def client(viewer: Viewer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=viewer.base, follow_redirects=True, trust_env=False) as opened:
        assert opened.get(viewer.opening).status_code == 200
        yield opened


@pytest.mark.usefixtures("ids")
def test_the_address_opens_once_and_only_under_this_machines_names(viewer: Viewer) -> None:
    with httpx.Client(base_url=viewer.base, trust_env=False) as one, httpx.Client(trust_env=False) as two:
        before = one.get("/")
        one.head(viewer.opening)
        wrong = one.get("/open", params={"token": "no"})
        opened = one.get(viewer.opening)
        elsewhere = one.get("/", headers={"Host": f"evil.example:{one.base_url.port}"})
        again = two.get(viewer.opening)
        shown = one.get("/")

    assert [one.status_code for one in (before, wrong, opened, elsewhere, again, shown)] == [
        403,
        403,
        303,
        421,
        403,
        200,
    ]
    assert re.search("HttpOnly.*SameSite=strict", opened.headers["set-cookie"], re.I)
    assert "fix the login" not in before.text + elsewhere.text + again.text


def test_the_cookie_goes_to_no_path_that_another_port_can_guess(viewer: Viewer) -> None:
    """Cookies know no ports: a page of another server of this machine is sent those of its own path."""
    pages = urlsplit(viewer.base)
    with httpx.Client(trust_env=False) as browser:
        opened = browser.get(viewer.opening)
        shown = browser.get(f"{viewer.base}/")
        (cookie,) = browser.cookies.jar
        sent = [
            browser.build_request("GET", f"http://127.0.0.1:{port}{path}").headers.get("cookie")
            for port in (pages.port, 1)
            for path in ("/", "/open", "/invocations/x", "/style.css", f"{pages.path}x")
        ]
        bare = browser.get(f"http://{pages.netloc}/", headers={"Cookie": f"{cookie.name}={cookie.value}"})

    assert (opened.status_code, shown.status_code, bare.status_code) == (303, 200, 403)
    assert cookie.path == pages.path and len(pages.path) > 12
    assert sent == [None] * 10


def test_it_only_reads_and_every_answer_forbids_what_is_not_ours(client: httpx.Client, ids: list[str]) -> None:
    assert client.post("/", data={"a": "b"}).status_code == 405
    for path in ("/", f"/invocations/{ids[0]}", "/live.js", "/invocations/nothing", "/nowhere"):
        headers = client.get(path).headers
        assert (
            headers.get_list("content-security-policy") and "default-src 'none'" in headers["content-security-policy"]
        )
        assert "unsafe" not in headers["content-security-policy"], path
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer"), path
    assert "frame-ancestors 'self'" in client.get(f"/invocations/{ids[0]}/page").headers["content-security-policy"]


def test_all_pictures_are_of_the_same_invocations(
    cli: Cli, client: httpx.Client, ids: list[str], chartered: Path
) -> None:
    """A replay that wrote a record is in none of them."""
    cli("replay", ids[0], "--against", "current", cwd=chartered)

    listed = client.get("/").text

    assert "outcomes of 2 invocations by profile" in listed and "in how many of 2 invocations each rule was" in listed


def test_the_picture_of_rules_counts_those_in_front_of_agents_as_the_record_does(
    client: httpx.Client, ids: list[str], cli: Cli
) -> None:
    """A rule that was offered by its title alone was not in front of the agent."""
    drawn = client.get("/").text.partition("Rules in front of agents")[2]
    told = [cli("invocations", "show", one, "--json", "--story").json()["told"] for one in ids]
    front, offered = ({uri for one in told for uri in one[name]} for name in ("shown", "offered"))

    assert front and offered - front
    assert all(f"<title>{uri.partition('://')[2]}: " in drawn for uri in front)
    assert not [uri for uri in offered - front if uri.partition("://")[2] in drawn]


def test_list_search_filters_and_pictures(client: httpx.Client, ids: list[str]) -> None:
    listed, found = client.get("/").text, client.get("/", params={"q": "pytest", "tool": "Bash"}).text
    none = client.get("/", params={"profile": "nobody"}).text
    wrong = client.get("/", params={"since": "the day before"})

    assert all(one in listed for one in ids) and listed.count("<svg") == 3
    assert (
        "2 invocations in 30 days" in listed and "Policy Summary" not in listed and "section/policy-summary" in listed
    )
    assert "lines found" in found and ids[0] in found and "tool_call" in found
    assert "No invocation fits" in none
    assert "No invocation fits" in client.get("/", params={"until": "2000-01-01"}).text
    assert wrong.status_code == 400 and "INVALID_VALUE" in wrong.text


def test_the_list_says_what_each_run_used(client: httpx.Client, cli: Cli, chartered: Path) -> None:
    asked = cli("do", "fix the login test", "--json", cwd=chartered).json()["invocation_id"]
    used = json.dumps({"model": "m-1", "tokens": {"input": 1200, "output": 34}, "cost": "0.5"})
    cli("profile-invocation", "record", asked, "--event", "turn", "--json-payload", used, cwd=chartered)

    assert "1,234 $0.50" in client.get("/").text


def test_dates_are_utc_as_the_times_on_the_page_are(
    ids: list[str], chartered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = datetime.fromtimestamp(millis_of(ids[0]) / 1000, UTC).date()
    for zone in ("AAA-14", "BBB12", "UTC0"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        asked = {"since": str(today), "until": str(today + timedelta(days=1))}
        page = show_list(load_project(str(chartered))[0], asked)
        monkeypatch.delenv("TZ")
        time.tzset()
        assert ids[0] in page, zone


def test_the_list_names_records_that_cannot_be_read(client: httpx.Client, ids: list[str], chartered: Path) -> None:
    folder = chartered / ".kittify/events/profile-invocations"
    for number, one in enumerate(ids, 1):
        (path,) = folder.glob(f"*{one}.jsonl")
        path.write_bytes(b"gone\n")
        for params in ({}, {"tool": "Bash"}, {"q": "pytest"}):
            page = client.get("/", params=params).text
            assert page.count("no started line can be read") == number, (number, params)
    assert "There is no record yet" not in client.get("/").text


def test_how_rules_fared_is_a_page_whose_numbers_lead_to_records(
    cli: Cli, client: httpx.Client, ids: list[str], chartered: Path
) -> None:
    """A replay that wrote a record stands behind no number."""
    told = cli("charter", "effect", "--all", "--json", cwd=chartered).json()
    cli("replay", ids[0], "--against", "current", cwd=chartered)

    page = client.get("/rules").text

    assert told["effect"]["invocations"] == 2 and "Of 2 invocations" in page
    assert all(rule["uri"] in page for rule in told["effect"]["rules"]) and page.count("<svg") == 2
    assert cli("charter", "effect", "--all", "--json", cwd=chartered).json() == told
    assert all(f"/invocations/{one}" in page for one in told["effect"]["all"]["untested"])
    assert "How rules fared" in client.get("/").text


def test_recorded_text_stays_text(client: httpx.Client, ids: list[str]) -> None:
    pages = [client.get(path).text for path in ("/", f"/invocations/{ids[1]}", f"/compare?a={ids[0]}&b={ids[1]}",
                                                 "/?q=boom", f"/invocations/{quote(HOSTILE)}")]  # fmt: skip

    for page in pages:
        assert "<script>boom" not in page and "\x1b" not in page and "\u202e" not in page
        assert re.findall(r"<script[^>]*>", page) in ([], [f'<script src="{client.base_url.path}live.js" defer>'])
    assert "\\x1b" in pages[1]


def test_the_title_of_a_run_spells_what_would_reorder_it(client: httpx.Client, cli: Cli, chartered: Path) -> None:
    asked = cli("do", "fix the login \u202etest", "--json", cwd=chartered).json()

    page = client.get(f"/invocations/{asked['invocation_id']}").text

    assert "<title>fix the login \\u202etest" in page and "\u202e" not in page


def test_a_long_request_is_cut_in_the_list_and_in_the_title_of_its_run(
    client: httpx.Client, cli: Cli, chartered: Path
) -> None:
    """Forty sessions that began with a plan made a page as high as seventeen screens."""
    asked = cli("do", f"fix the login test {'as the plan says ' * 40}to the end", "--json", cwd=chartered).json()
    compared = f"/compare?a={asked['invocation_id']}&b={asked['invocation_id']}"

    for path in ("/", "/?q=login", f"/invocations/{asked['invocation_id']}", compared):
        shown = re.sub(r"<title>.*?</title>", "", client.get(path).text)
        assert "fix the login test as the plan" in shown and "to the end" not in shown, path


def test_a_run_has_a_waterfall_and_the_page_that_export_writes(
    client: httpx.Client, ids: list[str], cli: Cli, tmp_path: Path
) -> None:
    shown = client.get(f"/invocations/{ids[1][-8:]}").text
    cli("invocations", "export", ids[1], "--html", str(tmp_path / "a.html"))

    assert "3 entries over" in shown and f'src="{client.base_url.path}invocations/{ids[1]}/page"' in shown
    assert client.get(f"/invocations/{ids[1]}/page").content == (tmp_path / "a.html").read_bytes()
    assert client.get("/invocations/01JD4Q3S0000000000000000A1").status_code == 404


def test_two_runs_are_laid_side_by_side(client: httpx.Client, ids: list[str]) -> None:
    shown = client.get("/compare", params={"a": ids[0], "b": ids[1]}).text

    assert "STEP_COUNT_MISMATCH" in shown and shown.count('class="differs"') >= 1 and shown.count('class="same"') >= 3
    assert "They part at entry 6</a>" in shown and shown.count('id="parted"') == 1
    assert client.get("/compare", params={"a": ids[0], "b": "nothing"}).status_code == 404


@pytest.mark.usefixtures("ids")
def test_the_state_changes_when_a_record_does(client: httpx.Client, project: Path) -> None:
    with open_invocation(project, "fix the parser") as run:
        listed, one = client.get("/state").text, client.get("/state", params={"of": run.invocation_id}).text
        same = client.get("/state").text
        run.error("E1", "more")
        assert listed == same != client.get("/state").text
        assert one != client.get("/state", params={"of": run.invocation_id}).text
    assert client.get("/state", params={"of": "nothing"}).status_code == 404


def test_a_damaged_record_is_shown_with_its_findings(client: httpx.Client, ids: list[str], project: Path) -> None:
    (record,) = (project / ".kittify/events/profile-invocations").glob(f"*{ids[0]}.jsonl")
    record.write_text(record.read_text().replace("login", "logon", 1))

    assert ">error: " in client.get(f"/invocations/{ids[0]}").text
    assert "RECORD_DAMAGED" in client.get(f"/invocations/{ids[0]}/page").text


def test_an_id_is_opened_at_once_and_one_that_is_not_there_is_refused(
    project: Path, home: Path, ids: list[str], cli: Cli
) -> None:
    with viewing(project, home, "last") as viewer, httpx.Client(follow_redirects=True, trust_env=False) as opened:
        shown = opened.get(viewer.opening)

    assert str(shown.url) == f"{viewer.base}/invocations/{ids[1]}" and shown.status_code == 200
    assert cli("view", "nothing", "--json").error()["error_code"] in ("INVALID_ID", "INVOCATION_NOT_FOUND")


def test_a_path_that_is_too_long_for_a_picture_keeps_its_end() -> None:
    shown = draw_parts([("src/strategies/manual/commit_hooks.go", {"done": 2}), ("a model with a long name", {})], "")

    assert ">…es/manual/commit_hooks.go<" in shown and ">a model with a long name<" in shown


def test_pictures_of_nothing_and_of_too_much() -> None:
    call = {"event": "tool_call", "tool": HOSTILE, "at": "2026-11-22T10:00:00.000Z"}
    lines = [{"event": "started", "started_at": "2026-11-22T10:00:00.000Z"}]
    many = [{**call, "call_id": str(number), "seq": number + 1} for number in range(400)]

    assert "Nothing that took time" in draw_waterfall(read_run(lines))
    drawn = draw_waterfall(read_run([*lines, *many]))
    assert "and 250 more" in drawn and drawn.count("<rect") == 150 and "<script" not in drawn
    assert "None began" in draw_days({}, date(2026, 11, 22)) and "Nothing to show" in draw_parts([], "t")
    assert "50 %" in draw_parts([("a", {"share": 1})], "t", 2)


def test_the_header_gives_the_duration_that_show_gives(cli: Cli, chartered: Path, home: Path) -> None:
    """What came after the close is no part of it."""
    run = record_run_held_later(cli, chartered, home)
    page = show_run(load_project(str(chartered), str(home))[0], run)

    assert "after 5.0 s" in cli("invocations", "show", run).out
    assert "UTC · 5.0 s</p>" in page and "1 entry over 5.0 s" in page
