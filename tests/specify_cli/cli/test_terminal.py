"""What a person at a terminal types and sees: ids, lists, the short answer, completion."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.cells import cell_len

from declared import schemas
from specify_cli.cli.completion import find_items
from specify_cli.features.story.lines import render_lines
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.story.summary import ToldLine
from support import Cli, run_main


@pytest.fixture
def seen(project: Path, home: Path) -> Callable[..., str]:
    """Run a command line at a terminal of 80 columns and give what stands there."""

    def run(*argv: str, columns: int = 80, **env: str) -> str:
        return run_main(argv, cwd=project, home=home, env={"NO_COLOR": "1", **env}, columns=columns).out

    return run


def begin(cli: Cli, *requests: str) -> list[str]:
    return [cli("do", request, "--json").json()["invocation_id"] for request in requests]


def test_an_id_is_named_by_its_place_or_by_any_part_that_is_unique(cli: Cli) -> None:
    one, two, three = begin(cli, "implement WP01", "review WP02", "plan WP03")

    for text, found in {
        "last": three,
        "@1": three,
        "@2": two,
        "@3": one,
        one[-6:].lower(): one,
        two[8:24]: two,
    }.items():
        assert cli("invocations", "show", text, "--json").json()["invocation_id"] == found, text
    for text, code in {"@4": "INVOCATION_NOT_FOUND", "01": "INVOCATION_AMBIGUOUS", "@0": "INVALID_ID"}.items():
        assert cli("invocations", "show", text, "--json").error()["error_code"] == code


@pytest.mark.usefixtures("chartered")
def test_last_is_the_first_of_the_list_which_holds_no_replay(cli: Cli) -> None:
    (one,) = begin(cli, "implement WP01")
    child = cli("replay", one, "--against", "current", "--json").json()["replay_invocation_id"]

    assert [row["invocation_id"] for row in cli("invocations", "list", "--json").json()] == [one]
    assert {row["invocation_id"] for row in cli("invocations", "list", "--all", "--json").json()} == {one, child}
    assert [row["invocation_id"] for row in cli("invocations", "list", "--parent", one, "--json").json()] == [child]
    assert cli("invocations", "show", "last", "--json").json()["invocation_id"] == one


@pytest.mark.parametrize("form", [("last",), ("--invocation-id", "last"), ("--invocation-id=last",)])
def test_the_id_of_what_is_closed_stands_alone_or_after_its_option(cli: Cli, form: tuple[str, ...]) -> None:
    begin(cli, "implement WP01")

    assert cli("profile-invocation", "complete", *form).code == 0
    assert cli("profile-invocation", "complete").code == 2


@pytest.mark.usefixtures("chartered")
def test_a_request_is_answered_in_fifteen_lines(seen: Callable[..., str]) -> None:
    short = seen("do", "fix the login test")
    whole = seen("do", "fix the login test", "--context")

    assert len(short.splitlines()) <= 15
    for text in ("implement", "why: ", "record: 01", "Policy Summary", "complete ", "--outcome done"):
        assert text in short
    assert "Every change comes with a test" in whole and "Every change comes with a test" not in short


def test_a_row_of_the_list_is_one_line_however_long_the_request(seen: Callable[..., str], cli: Cli) -> None:
    begin(cli, "fix the login test " + "which is so very long " * 20, "fix 日本語の" + "長い" * 60)
    for columns in (60, 80, 120, 200):
        rows = seen("invocations", "list", columns=columns).splitlines()
        assert len(rows) == 3
        assert all(len(row) <= columns for row in rows)


def test_no_number_of_the_list_is_cut(seen: Callable[..., str], cli: Cli) -> None:
    """`1,778…` is no number, and `~$1…` could be ten times less: where there is no room, tokens are told in short."""
    tokens = {"input": 1_700_000, "output": 78_527}
    begin(cli, "fix the login test")
    payload = json.dumps({"model": "m-1", "tokens": tokens, "cost": "17.631917"})
    assert cli("profile-invocation", "record", "last", "--event", "turn", "--json-payload", payload).code == 0

    rows = {columns: seen("invocations", "list", columns=columns).splitlines()[1] for columns in (70, 80, 100, 120)}

    assert " 1.8M " in rows[80] and " 1,778,527 $17.63 " in rows[120]
    assert not any(re.search(r"[0-9]…", row) for row in rows.values())


def test_a_name_that_is_none_is_said_with_what_it_resembles(cli: Cli) -> None:
    begin(cli, "implement WP01")

    assert "did you mean builder-bea?" in cli("invocations", "list", "--profile", "builder-be").err
    assert "no action is called banana" in cli("invocations", "list", "--action", "banana").err


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        ([], "inv", "invocations"),
        (["invocations"], "sh", "show"),
        (["invocations", "list"], "--st", "--status"),
        (["invocations", "list", "--status"], "", "closed"),
        (["invocations", "list", "--action"], "rev", "review"),
        (["do", "x", "--profile"], "cri", "critic-cato"),
        (["ask"], "cri", "critic-cato"),
        (["schema"], "invocation-p", "invocation-payload"),
        (["invocations", "show"], "la", "last"),
    ],
)
def test_tab_completes(
    words: list[str], begun: str, found: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)

    assert found in [value for value, _ in find_items(words, begun)]


def test_tab_completes_an_id_that_is_not_among_the_newest(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = ProfileInvocationExecutor(project, clock=lambda: 1_700_000_000_000_000_000)
    old = executor.invoke("fix the login test").invocation_id
    cli("do", "fix the login test")
    monkeypatch.setattr("specify_cli.cli.completion._IDS", 1)
    monkeypatch.chdir(project)

    assert [value for value, _ in find_items(["invocations", "show"], old[:6])] == [old]


def test_what_closes_and_appends_completes_open_records_alone(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, still_open = begin(cli, "fix the login test", "review the parser")
    cli("profile-invocation", "complete", closed)
    monkeypatch.chdir(project)

    for verb in ("complete", "record", "commit"):
        assert [id_ for id_, _ in find_items(["profile-invocation", verb], "")][1:] == [still_open]
    assert [id_ for id_, _ in find_items(["invocations", "show"], "")][1:] == [still_open, closed]


def test_tab_looks_for_open_records_among_the_newest_alone(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among 10,000 closed ones it took more than a second."""
    monkeypatch.setattr("specify_cli.cli.completion._IDS", 1)
    monkeypatch.chdir(project)
    older, *closed = begin(cli, *["fix the login test"] * 11)
    for one in closed:
        cli("profile-invocation", "complete", one)

    assert [id_ for id_, _ in find_items(["profile-invocation", "complete"], "")] == ["last"]
    assert [id_ for id_, _ in find_items(["profile-invocation", "complete"], older)] == [older]


def test_tab_completes_an_id_by_any_part_and_evaluates_nothing_recorded(cli: Cli) -> None:
    (one,) = begin(cli, "fix \"$(touch owned)\" `id` 'quoted'")
    bash = cli(
        env={"_SPEC_KITTY_COMPLETE": "complete_bash", "COMP_WORDS": f"x invocations show {one[-6:]}", "COMP_CWORD": "3"}
    )
    zsh = cli(env={"_SPEC_KITTY_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "spec-kitty invocations show "})
    fish = cli(env={"_SPEC_KITTY_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "spec-kitty invocations show "})

    assert bash.out == one
    assert zsh.out.startswith('_arguments \'*: :(("last"') and one in zsh.out
    assert not set("$`\\") & set(zsh.out) and zsh.out.count("'") == 2
    assert fish.out.splitlines()[1].startswith(f"{one}\t")


def test_the_names_of_schemas_are_completed_without_the_models_they_are_made_of() -> None:
    code = (
        "import sys; from specify_cli.cli.completion import find_items; find_items(['schema'], ''); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name, _ in find_items(["schema"], "")] == sorted(schemas())
    assert "pydantic" not in loaded and "specify_cli.cli.schemas.shapes" not in loaded


def test_a_hit_of_a_search_has_one_line_at_any_width(cli: Cli, seen: Callable[..., str]) -> None:
    begin(cli, f"fix the login test {'very ' * 30}long")
    for columns in (80, 120):
        lines = seen("invocations", "search", "login", columns=columns).splitlines()
        assert "fix the login" in lines[0] and max(map(len, lines)) <= columns, lines


def test_a_check_of_many_records_shows_how_far_it_is(
    cli: Cli, seen: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(cli, "implement WP01", "review WP02")
    quiet = seen("invocations", "verify", "--all")  # room: witness
    monkeypatch.setattr("specify_cli.cli.terminal.render._PATIENCE", 0.0)
    told = seen("invocations", "verify", "--all", TERM="xterm")

    assert "checking records" not in quiet
    assert "checking records" in told and "2/2" in told


def test_a_coloured_line_breaks_between_words_at_every_width(project: Path, home: Path, cli: Cli) -> None:
    """A style takes no cell, and a wide character two; a word that is wider than the terminal stays whole."""
    (one,) = begin(cli, "fix the login test")
    failed = "the login 日本語 of ada was refused because no name was folded, " * 4 + "x" * 90
    calls = [
        {"event": "tool_call", "call_id": "c", "tool": "Bash", "args": {"command": "make login --json"}},
        {"event": "tool_result", "call_id": "c", "status": "error", "output": failed},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in calls).encode()
    assert cli("profile-invocation", "record", "--invocation-id", one, stdin=lines).code == 0

    for width in range(50, 110):
        shown = run_main(["invocations", "show", one], cwd=project, home=home, columns=width).out
        rows = re.sub(r"\x1b\[[0-9;]+m", "", shown).splitlines()
        assert "\x1b[1;31m" in shown
        assert [row for row in rows if cell_len(row) > width and len(row.split()) > 1] == [], width


def test_a_line_of_a_record_of_another_day_has_its_date() -> None:
    moments = ("2001-02-03T12:00:00.000Z", datetime.now(UTC).isoformat())
    lines = [ToldLine(0, at, "asked", "", "", None, (), None) for at in moments]
    old, new = render_lines(lines)

    assert "02-03 " in old and "-" not in new
