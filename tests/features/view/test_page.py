"""A record as one HTML file; what a browser makes of it is tried in tests/browser."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path

import pytest

from support import Cli, valid


@pytest.fixture
def closed(cli: Cli, chartered: Path) -> str:
    one: str = cli("do", "fix the <b>login</b> & test", "--json", cwd=chartered).json()["invocation_id"]
    cli("profile-invocation", "complete", one)
    return one


def test_the_page_carries_the_lines_and_loads_nothing(cli: Cli, closed: str, chartered: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    made = cli("invocations", "export", closed, "--html", str(out), "--json")
    (record,) = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    page = out.read_text(encoding="utf-8")
    lines = re.search('<textarea id="lines" hidden="">(.*?)</textarea>', page, re.S)

    valid(made.json(), "page")
    assert lines is not None and html.unescape(lines[1]) + "\n" == record.read_text(encoding="utf-8")
    assert made.json()["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert "<b>login" not in page
    assert not re.search(r"(src|href)=|url\(|https?://", page.replace(lines[0], ""))
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        body = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in page


def test_two_pages_carry_the_same_script(cli: Cli, closed: str, tmp_path: Path) -> None:
    two = cli("do", "review it", "--json").json()["invocation_id"]
    scripts = {
        cli("invocations", "export", one, "--html", str(tmp_path / f"{one}.html"), "--json").json()["script_sha256"]
        for one in (closed, two)
    }

    assert len(scripts) == 1


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["ID"], "USAGE"),
        (["ID", "--html", "a.html", "-o", "a.tar"], "USAGE"),
        (["ID", "ID", "--html", "a.html"], "USAGE"),
        (["ID", "--html", "a.html", "--safe"], "USAGE"),
    ],
)
def test_what_does_not_go_together_is_refused(cli: Cli, closed: str, argv: list[str], code: str) -> None:
    ran = cli("invocations", "export", *(closed if word == "ID" else word for word in argv), "--json")

    assert (ran.code, ran.error()["error_code"]) == (2, code)


def test_a_page_that_no_browser_would_open_is_refused_with_what_shows_the_rest(
    cli: Cli, closed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("specify_cli.features.view.page._MAX_PAGE", 10_000)
    ran = cli("invocations", "export", closed, "--html", str(tmp_path / "run.html"), "--json")

    assert ran.error()["error_code"] == "PAGE_TOO_LARGE"
    assert f"spec-kitty invocations show {closed} --full" in ran.error()["suggestion"]
    assert not (tmp_path / "run.html").exists()


def test_a_record_that_is_not_intact_has_no_page(cli: Cli, closed: str, chartered: Path, tmp_path: Path) -> None:
    (record,) = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    record.write_text(record.read_text().replace("login", "logon", 1))
    ran = cli("invocations", "export", closed, "--html", str(tmp_path / "a.html"), "--json")

    assert ran.code == 1 and ran.error()["error_code"]
    assert not (tmp_path / "a.html").exists()


def test_a_file_that_is_there_is_not_overwritten(cli: Cli, closed: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("mine")

    assert cli("invocations", "export", closed, "--html", str(tmp_path / "a.html")).code == 1
    assert (tmp_path / "a.html").read_text() == "mine"
