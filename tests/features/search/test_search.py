"""What was recorded is found by words and by file, tool, commit and rule; the index is derived and never believed."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.features.programs.run import open_invocation
from specify_cli.features.search.database import Query, SearchIndex
from specify_cli.libraries.words.words import match_query
from specify_cli.project.config import load_project
from support import Cli, git, run_together, valid


@pytest.fixture
def worked(project: Path) -> tuple[str, str]:
    """Two records: one that ran commands and edited a file, one that failed."""
    ids = []
    for request, outcome in (("fix the login test", "done"), ("review the Überweisung parser", "failed")):
        with open_invocation(project, request) as run:
            with run.tool("Bash", {"command": "pytest -q tests/zebra_test.py"}) as call:
                call.result = "4 passed in 0.12s"
            if outcome == "done":
                run.patch("src/login.py", "modify", before="a\n", after="b\n")
            else:
                run.error("E42", "the parser fell over")
                run.close("failed")
            ids.append(run.invocation_id)
    return ids[0], ids[1]


def find(cli: Cli, *argv: str) -> list[tuple[str, int | None]]:
    return [(hit["invocation_id"], hit["seq"]) for hit in cli("invocations", "search", *argv, "--json").json()]


def test_words_lead_to_the_line_they_stand_in(cli: Cli, worked: tuple[str, str]) -> None:
    one, two = worked
    found = cli("invocations", "search", "fell", "over", "--json").json()

    valid(found[0], "search-hit")
    assert [hit["invocation_id"] for hit in found] == [two]
    assert cli("show-uri", found[0]["uri"], "--json").json()["value"]["event"] == "error"
    assert {hit for hit, _ in find(cli, "zebra*")} == {one, two}
    assert {hit for hit, _ in find(cli, '"login test"')} == {one}
    assert {hit for hit, _ in find(cli, "uberweisung")} == {two}
    assert find(cli, "test login", "absent") == []


@pytest.mark.parametrize(
    ("request_text", "sought", "other"),
    [
        ("请帮我修复登录页面的错误", "登录", "登页"),
        ("请帮我修复登录页面的错误", "修复 错误", "修复 成功"),
        ("ログインのテストを修正してください", "テスト", "スマ"),
        ("로그인 테스트를 수정해줘", "테스트", "시험"),
    ],
)
def test_words_of_languages_without_blanks_are_found(cli: Cli, request_text: str, sought: str, other: str) -> None:
    made = cli("do", request_text, "--json").json()["invocation_id"]

    found = cli("invocations", "search", sought, "--json").json()

    assert [(hit["invocation_id"], sought.split()[0] in hit["snippet"]) for hit in found] == [(made, True)]
    assert find(cli, other) == []


def test_a_word_is_found_however_its_letters_are_composed(cli: Cli) -> None:
    """A name that is pasted from macOS writes é as e and an accent, ガ as カ and a mark, 한 as its three letters."""
    written = f"fix {'what is long, ' * 20}the résumé parser, ガード and 한글"
    composed, apart = (cli("do", normalize(form, written), "--json").json()["invocation_id"] for form in ("NFC", "NFD"))

    for word in ("résumé", "résum*", "ガード", "한글"):
        for form in ("NFC", "NFD"):
            hits = cli("invocations", "search", normalize(form, word), "--json").json()
            assert {hit["invocation_id"] for hit in hits} == {composed, apart}, (word, form)
            assert all(normalize("NFC", word.rstrip("*")) in hit["snippet"] for hit in hits)


def test_a_file_is_found_whose_name_has_signs_that_arguments_escape(cli: Cli, project: Path) -> None:
    names = ['docs/q"uote.md', "a\\b.txt", "src/tab\t.py"]
    with open_invocation(project, "review the names of files") as run:
        for name in names:
            with run.tool("Read", {"file_path": name}):
                pass

    for name in names:
        assert [hit for hit, _ in find(cli, "--path", name)] == [run.invocation_id], name


def test_a_search_says_which_values_it_reads_in_part(cli: Cli, project: Path) -> None:
    (project / ".kittify").mkdir()
    (project / ".kittify/config.yaml").write_text("audit: {capture_tool_io: full}\n")
    cli("config", "accept", "--yes")
    with open_invocation(project, "fix the login test") as run, run.tool("Bash", {"command": "make"}) as call:
        call.result = "y z " * 10_000 + "zebra"
    with open_invocation(project, "fix the other test"):
        pass
    found = cli("invocations", "search", "zebra")

    assert "nothing was found" in found.out
    said = f"values of 1 record ({run.invocation_id}) are longer than a line holds; only their beginning is searched"
    assert found.err == f"note: {said}\n"


@pytest.mark.parametrize("option", ["--path", "--tool", "--commit", "--rule"])
def test_a_name_that_is_not_utf_8_is_looked_for_as_records_spell_it(cli: Cli, project: Path, option: str) -> None:
    with open_invocation(project, "fix the name") as run:
        run.patch("src/\udcff.py", "modify", before="a\n", after="b\n")
    found = cli("invocations", "search", option, "src/\udcff.py")

    assert found.code == 0, found.err
    assert (run.invocation_id[-6:] in found.out) is (option == "--path")


@pytest.mark.usefixtures("project")
def test_records_that_grow_in_turn_are_each_one_record_with_its_lines_in_order(cli: Cli) -> None:
    one, two = (cli("do", f"implement {name}", "--json").json()["invocation_id"] for name in ("one", "two"))
    for run in (one, two, one, two, one):
        call = '{"tool": "grep", "args": "needle"}'
        cli("profile-invocation", "record", "--invocation-id", run, "--event", "tool_call", "--json-payload", call)
        find(cli, "needle")  # the index takes the new line

    assert find(cli, "needle") == [(two, 4), (two, 5), (one, 4), (one, 5), (one, 6)]
    assert "; 2 records hold more" in cli("invocations", "search", "needle", "--limit", "1").err


def test_a_record_that_is_shown_in_part_is_no_further_record(cli: Cli, project: Path) -> None:
    """The only record of a project holds more; there is no other."""
    with open_invocation(project, "fix the login test") as run:
        for _ in range(3):
            with run.tool("Bash", {"command": "echo needle"}):
                pass

    cut = cli("invocations", "search", "needle", "--limit", "2")

    assert "the newest 2 lines that fit; 1 record holds more: --limit" in cut.err


@pytest.mark.parametrize(
    ("option", "value", "which"),
    [
        ("--path", "src/login.py", "one"),
        ("--path", "login.py", "one"),
        ("--path", "src/*", "one"),
        ("--tool", "bash", "both"),
        ("--outcome", "failed", "two"),
        ("--action", "review", "two"),
        ("--since", "1h", "both"),
        ("--path", "src/nothing.py", "none"),
        ("--actor", "nobody", "none"),
    ],
)
def test_a_filter_narrows_the_search_and_the_list_alike(
    cli: Cli, worked: tuple[str, str], option: str, value: str, which: str
) -> None:
    one, two = worked
    wanted = {"one": {one}, "two": {two}, "both": {one, two}, "none": set()}[which]

    assert {hit for hit, _ in find(cli, option, value)} == wanted
    assert {row["invocation_id"] for row in cli("invocations", "list", option, value, "--json").json()} == wanted


@pytest.mark.usefixtures("worked")
def test_a_list_in_which_none_fits_does_not_say_that_there_is_none(cli: Cli) -> None:
    for option in ("--tool", "--rule", "--path"):
        assert "no invocation fits" in cli("invocations", "list", option, "absent").out, option


def test_a_rule_and_a_commit_find_the_work_they_belong_to(cli: Cli, chartered: Path) -> None:
    (chartered / "a").write_text("a")
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "work")
    sha = git(chartered, "rev-parse", "HEAD").strip()
    one = cli("do", "fix the login test", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", one, "--commit", "HEAD")

    assert find(cli, "--commit", sha[:9]) == find(cli, "--rule", "policy-summary") == [(one, None)]
    assert find(cli, "--commit", sha[:9].upper()) == [(one, None)]
    assert find(cli, "--commit", "0" * 9) == find(cli, "--commit", "%") == find(cli, "--commit", "_") == []


def test_what_came_since_is_found_and_a_link_made_later_too(cli: Cli, project: Path, worked: tuple[str, str]) -> None:
    one, _ = worked
    assert find(cli, "quokka") == []
    three = cli("do", "plan the quokka release", "--json").json()["invocation_id"]
    assert {hit for hit, _ in find(cli, "quokka")} == {three}
    event = json.dumps({"error_code": "E", "message": "the wombat is late"})
    cli("profile-invocation", "record", three, "--event", "error", "--json-payload", event)
    assert {hit for hit, _ in find(cli, "wombat")} == {three}

    (project / "late.txt").write_text("x")
    link = json.dumps({"path": "late.txt"})
    assert cli("profile-invocation", "record", one, "--event", "artifact_link", "--json-payload", link).code == 0
    assert {hit for hit, _ in find(cli, "--path", "late.txt")} == {one}


def index_file(project: Path) -> Path:
    (found,) = (project / ".git/kittify/search").glob("*.sqlite")
    return found


@pytest.mark.parametrize("harm", ["deleted", "cut in half", "not a database", "zeros in the middle"])
def test_an_index_that_is_damaged_is_built_anew(cli: Cli, project: Path, worked: tuple[str, str], harm: str) -> None:
    before = find(cli, "zebra*")
    path = index_file(project)
    data = path.read_bytes()
    middle = len(data) // 2
    damaged = {
        "deleted": b"",
        "cut in half": data[:middle],
        "not a database": b"x" * 5000,
        "zeros in the middle": data[:4096] + bytes(len(data) - 4096),
    }
    path.unlink() if harm == "deleted" else path.write_bytes(damaged[harm])

    assert find(cli, "zebra*") == before
    assert len(before) >= 2 and worked


@pytest.mark.parametrize("indexed", [False, True])
def test_a_record_that_cannot_be_read_is_named_by_every_search(
    cli: Cli, project: Path, worked: tuple[str, str], indexed: bool
) -> None:
    """Whoever damages the first line of a record must not hide it from those who search."""
    if indexed:
        find(cli, "parser")
    (record,) = (project / ".kittify/events/profile-invocations").glob(f"*{worked[1]}.jsonl")
    data = record.read_bytes()
    record.write_bytes(b"X" + data[1:])
    (project / "new.py").write_text("x\n")
    asked = [("invocations", "search", "parser"), ("invocations", "list", "--tool", "Bash")]
    asked += [] if indexed else [("why", "new.py")]  # in the index it has no line of this file

    answers = [cli(*argv) for argv in asked * 2]

    for answer in answers:
        assert answer.code == 0 and worked[1] not in answer.out
        assert answer.err.count(f"{record.name}: no started line can be read") == 1


def test_no_word_of_a_masked_secret_is_found(cli: Cli, project: Path) -> None:
    token = "ghp_2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiVkQ9a"
    command = {"command": f"curl -H 'Authorization: Bearer {token}'"}
    with open_invocation(project, f"fix the login with {token}") as run, run.tool("Bash", command) as call:
        call.result = {"token": token}

    assert find(cli, "login")
    assert find(cli, token) == find(cli, f"{token[:8]}*") == []
    assert token[8:20].encode() not in index_file(project).read_bytes()


def test_a_forged_index_can_hide_and_cannot_make_a_record_say_something(
    cli: Cli, project: Path, worked: tuple[str, str]
) -> None:
    find(cli, "zebra*")
    with closing(sqlite3.connect(index_file(project))) as base, base:
        line = base.execute("SELECT max(id) FROM line").fetchone()[0]
        base.execute("INSERT INTO words (rowid, text) VALUES (?, 'forged')", (line,))
    (hit,) = cli("invocations", "search", "forged", "--json").json()

    assert hit["invocation_id"] in worked
    assert "forged" not in hit["snippet"]


def test_outside_git_the_search_leaves_nothing_behind(tmp_path: Path, cli: Cli) -> None:
    with open_invocation(_plain(tmp_path), "fix the quokka") as run:
        run.error("E", "numbat")

    assert find_in(cli, tmp_path / "plain", "numbat") == [run.invocation_id]
    assert not list((tmp_path / "plain").rglob("*.sqlite"))


def _plain(tmp_path: Path) -> Path:
    folder = tmp_path / "plain"
    (folder / ".kittify").mkdir(parents=True)
    return folder


def find_in(cli: Cli, cwd: Path, *argv: str) -> list[str]:
    return [hit["invocation_id"] for hit in cli("invocations", "search", *argv, "--json", cwd=cwd).json()]


@given(st.text(max_size=40))
def test_whatever_is_typed_is_a_query_and_no_operator(typed: str) -> None:
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    matched = match_query(typed)
    if matched is not None:
        base.execute("SELECT * FROM words WHERE words MATCH ?", (matched,)).fetchall()
    base.close()


def test_two_searches_at_once_build_one_index(project: Path, worked: tuple[str, str], process: Cli) -> None:
    runs = run_together(lambda _: process("invocations", "search", "zebra*", "--json"), range(4))

    assert {run.code for run in runs} == {0}
    assert len({run.out for run in runs}) == 1
    assert len(runs[0].json()) >= 2 and worked and project


def test_a_record_that_was_rewritten_is_shown_as_it_is_now(
    project: Path, home: Path, worked: tuple[str, str], records: Callable[[], list[Path]]
) -> None:
    loaded, _ = load_project(str(project), str(home))
    with SearchIndex(loaded) as index:
        index.update()
        for path in records():
            path.write_bytes(path.read_bytes().replace(b"fell over", b"stood up."))
        (hit,), _ = index.find(Query("fell"), 5)

    assert hit.invocation_id == worked[1]
    assert "fell" not in hit.snippet


def test_of_a_record_that_took_the_place_of_another_all_is_found_and_nothing_of_that(
    cli: Cli, worked: tuple[str, str], records: Callable[[], list[Path]]
) -> None:
    """As where records are deleted and the same sessions imported again."""
    assert find(cli, "fell") and not find(cli, "marmalade")
    (record,) = [path for path in records() if worked[1] in path.name]
    record.write_bytes(
        record.read_bytes().replace(b'"failed"', b'"done"').replace(b"fell over", b"is out of marmalade")
    )
    cli("invocations", "reindex")

    assert not find(cli, "fell")
    assert len(find(cli, "marmalade")) == 1


def test_a_search_names_the_zone_of_its_times(process: Cli, worked: tuple[str, str]) -> None:
    found = process("invocations", "search", "zebra", env={"TZ": "Asia/Kolkata"}).out

    assert re.search(rf"{worked[0][-6:]} +[0-9]{{2}}:[0-9]{{2}} IST", found)


def test_the_text_that_a_patch_gives_a_file_is_searched(cli: Cli) -> None:
    """`after` is its name, and also that of the links of other lines, which nobody looks for."""
    run = cli("do", "write the note", "--json").json()["invocation_id"]
    patch = json.dumps({"path": "note.md", "kind": "create", "after": "die uniquewordalpha Größe\n"})
    assert 0 == cli("profile-invocation", "record", run, "--event", "patch_apply", "--json-payload", patch).code

    for word in ("uniquewordalpha", "größe"):
        assert [run] == [hit["invocation_id"] for hit in cli("invocations", "search", word, "--json").json()]


@pytest.mark.parametrize("pages", [1, 16, 17, 0])
def test_a_disk_that_takes_no_index_costs_time_and_hides_nothing(
    cli: Cli, project: Path, worked: tuple[str, str], monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """The disk is full at once, full a few pages later, and no file can be opened at all."""
    found = find(cli, "login")
    path = index_file(project)
    path.unlink()
    if not pages:
        path.mkdir()
    connect: Any = sqlite3.connect

    def connect_small(place: str, **given: Any) -> sqlite3.Connection:
        base: sqlite3.Connection = connect(place, **given)
        if pages and place != ":memory:":
            base.execute(f"PRAGMA max_page_count = {pages}")
        return base

    monkeypatch.setattr(sqlite3, "connect", connect_small)
    assert worked and found and find(cli, "login") == found
