"""Many runs are told at once, and each number leads to its records."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from specify_cli.features.report.commands import RunsReport
from specify_cli.features.report.page import make_page
from specify_cli.features.report.rendering import render_markdown, render_report
from specify_cli.features.report.summing import Run, add_up_runs
from specify_cli.record.reading.usage import UsageRow
from support import Cli, valid

SINCE = "--since 7d"
TRICK = "fix <img src=x onerror=alert(1)> | [a](javascript:1) `x` \x1b[31m \u202e"


def make_run(name: str, **more: Any) -> Run:
    plain: dict[str, Any] = {
        "request": "fix it",
        "by": "ada",
        "profile": "builder-bea",
        "model": None,
        "outcome": "done",
        "tests": "passed: pytest -q",
        "calls": 1,
        "failed": 0,
        "unseen": (),
        "changed": (),
        "tokens": None,
        "cost": None,
        "estimated": False,
        "rules": (),
    }
    return Run(name, **{**plain, **more})


def test_each_number_is_the_records_behind_it() -> None:
    runs = [
        make_run("a", outcome="failed", failed=2, tests="failed: pytest -q", changed=(("x.py", 3, 1),)),
        make_run("b", failed=1, tokens=100, cost="0.10", changed=(("x.py", None, None), ("y.py", 1, 0))),
        make_run("c", by="bob", outcome="open", tests="not run", tokens=50, cost="0.05", estimated=True),
        make_run("d", unseen=("z.py",), profile="critic-cato", model="m", rules=("doctrine://d/a", "doctrine://d/b")),
        make_run("e", rules=("doctrine://d/a",), outcome="failed"),
    ]
    found = add_up_runs(runs)
    assert (found.bad, found.open, found.untested, found.mended, found.unseen) == (
        ("a", "e"), ("c",), ("a", "c"), ("b",), ("d",),
    )  # fmt: skip
    assert [(one.name, one.runs, one.bad, one.cost) for one in found.people] == [
        ("ada", 4, 2, "0.10"),
        ("bob", 1, 0, "0.05"),
    ]
    assert [(one.path, one.runs, one.added, one.removed) for one in found.files] == [
        ("x.py", 2, 3, 1),
        ("y.py", 1, 1, 0),
    ]
    assert (found.tokens, found.cost, found.estimated) == (150, "0.15", True)
    assert sum(share.runs for share in found.models) == sum(share.runs for share in found.profiles) == 5
    assert [(one.name, one.runs, one.bad, one.invocation_ids) for one in found.rules] == [
        ("doctrine://d/a", 2, 1, ("d", "e")),
        ("doctrine://d/b", 1, 0, ("d",)),
    ]


def test_each_number_leads_to_its_records_by_a_command_or_a_link(cli: Cli) -> None:
    found = add_up_runs([make_run("a", by="ada", tokens=1200, cost="0.10", rules=("r",), changed=(("x.py", 3, 1),))])
    asked = RunsReport("7d", "2026-12-01", found, ())
    told = list(render_report(found, asked.say_time(), asked.spell_options()))
    page = make_page(found, "7d", ())

    commands = [re.sub(r"^  each: spec-kitty ", "", line) for line in told if line.startswith("  each: ")]
    when = "--since 7d --until 2026-12-01"
    options = ("--actor", "--profile", "--rule", "--path")
    listed = [f"invocations list {option} {'FILE' if option == '--path' else 'NAME'} {when}" for option in options]
    assert commands == [*listed[:2], f"report --json {when}", *listed[2:]]
    for command in commands:
        assert cli(*command.split()).code == 0
    whole = re.findall(r"<details><summary>([^<]+)</summary><ul class=\"ids\"><li><a href=\"#a\">", page)
    assert whole[:4] == [
        "1 run since 7d: 1 closed, 0 open",
        "green tests after the last change: 1 of 1 run",
        "1,200 tokens, told by 1 of 1 run",
        "$0.10, known of 1 of 1 run",
    ]
    assert page.count("<summary>1,200</summary>") == page.count("<summary>$0.10</summary>") == 2  # a rule has none


def test_what_a_run_used_is_told_of_each_of_its_models() -> None:
    """A run that began with one model and went on with another is one of both, with the tokens and the cost of each."""
    used = (
        UsageRow(None, "m-1", {"input": 70}, 1, "0.7", None),
        UsageRow("agent-7", "m-1", {"input": 20}, 1, "0.2", None),
        UsageRow("agent-7", "m-2", {"input": 10}, 1, None, None),
    )
    mixed = make_run("a", model="m-1", tokens=100, usage=used, outcome="failed")
    alone = make_run("b", model="m-2", tokens=5, usage=(UsageRow(None, "m-2", {"input": 5}, 1, None, None),))

    found = add_up_runs([mixed, alone, make_run("c", model="m-3")])

    assert [(one.name, one.runs, one.bad, one.tokens, one.cost) for one in found.models] == [
        ("m-2", 2, 1, 15, None),
        ("m-1", 1, 1, 90, "0.9"),
        ("m-3", 1, 0, 0, None),
    ]
    assert sum(one.tokens for one in found.models) == found.tokens == 105


def test_a_picture_of_some_says_of_how_many() -> None:
    runs = [make_run(f"01M8NJYC07VB4E1SZFRDSZ2XN{number:X}", by=f"p{number}") for number in range(13)]

    some, every = (make_page(add_up_runs(shown), "7d", ()) for shown in (runs, runs[:12]))

    assert "how 13 runs ended, the first 12 of 13" in some and "the first 12" not in every


def test_a_cost_that_was_estimated_is_marked_on_the_page_as_in_lists() -> None:
    one, two = "01M8NJYC07VB4E1SZFRDSZ2XN1", "01M8NJYC07VB4E1SZFRDSZ2XN2"
    runs = [make_run(one, tokens=1, cost="0.25"), make_run(two, tokens=1, cost="0.75", estimated=True)]

    page = make_page(add_up_runs(runs), "7d", ())

    assert 'data-label="Cost">$0.25<' in page and 'data-label="Cost">~$0.75<' in page


def test_a_report_says_of_how_many_runs_the_cost_is_known() -> None:
    runs = [make_run("a", tokens=100, cost="0.1"), make_run("b", tokens=900), make_run("c")]

    told = "\n".join(render_report(add_up_runs(runs), "7d", SINCE))
    only_cost = "\n".join(render_report(add_up_runs([make_run("a", tokens=0, cost="1.5")]), "7d", SINCE))

    assert "1,000 tokens, told by 2 of 3 runs\n$0.10, known of 1 of 3 runs\n" in told
    assert "$1.50, known of 1 of 1 run\n" in only_cost


def test_a_file_whose_lines_no_record_tells_did_not_change_by_no_line() -> None:
    changed = (("logo.png", None, None), ("y.py", 1, 0), ("empty.py", 0, 0))
    found = add_up_runs([make_run("a", changed=changed)])
    told = "\n".join([*render_report(found, "7d", SINCE), *render_markdown(found, "7d")])

    assert "logo.png  1 run, lines not known" in told and "| 1 | lines not known |" in told
    assert "y.py  1 run, +1 −0" in told and "empty.py  1 run, +0 −0" in told
    assert [(one.path, one.added) for one in found.files] == [("y.py", 1), ("empty.py", 0), ("logo.png", None)]


def test_a_run_that_tells_no_tokens_did_not_use_none() -> None:
    markdown = list(render_markdown(add_up_runs([make_run("a", tokens=None)]), "7d"))

    assert "| ada | 1 | 0 |  |  |" in markdown


def test_how_many_runs_that_changed_files_ended_with_green_tests_is_said() -> None:
    changed = (("y.py", 1, 0),)
    green = make_run("a", tests="passed: pytest -q", changed=changed)
    found = add_up_runs([green, make_run("b", tests="not run", changed=changed), make_run("c", changed=())])

    assert "green tests after the last change: 1 of 2 runs" in list(render_report(found, "7d", SINCE))
    assert "- green tests after the last change: 1 of 2 runs" in list(render_markdown(found, "7d"))


def test_text_markdown_and_json_tell_the_same_of_real_records_and_nothing_in_them_runs(cli: Cli, project: Path) -> None:
    first = cli("do", TRICK, "--json").json()["invocation_id"]
    events = [
        {"event": "tool_call", "call_id": "c", "tool": "Bash", "args": {"command": "pytest -q"}},
        {"event": "tool_result", "call_id": "c", "status": "error"},
        {"event": "patch_apply", "path": "src/<b>.py", "kind": "create", "after": "one\ntwo\n"},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    assert cli("profile-invocation", "record", first, stdin=lines.encode()).code == 0
    cli("profile-invocation", "complete", first, "--outcome", "failed")
    cli("do", "review the change")
    told = valid(cli("report", "--json").json(), "runs-report")["report"]
    text, markdown = cli("report").out, cli("report", "--format", "markdown").out

    assert len(told["runs"]) == 2 and told["bad"] == [first] and len(told["open"]) == 1
    assert told["files"][0]["path"] == "src/<b>.py" and told["untested"] == [first]
    assert "2 runs since 7d: 1 closed, 1 open" in text and "ended badly: 1" in text and first[-6:] in text
    assert "## Ended badly &#40;1&#41;" in markdown or "## Ended badly (1)" in markdown
    assert "<img" not in markdown and "](javascript" not in markdown and "src/<b>" not in markdown
    assert "\x1b" not in text + markdown and "\u202e" not in text + markdown
    assert cli("report", "--since", "2099-01-01").out.startswith("0 runs")
    assert project.is_dir()


@pytest.mark.parametrize(
    ("commands", "is_untested"),
    [
        ([("rm src/gone.py", "error")], False),
        ([("rm src/gone.py", "error"), ("pytest -q", "error")], False),
        ([("rm src/old.py", "ok"), ("rm src/gone.py", "error")], True),
        ([("rm src/old.py", "ok")], True),
    ],
)
def test_a_run_of_which_only_a_failed_command_would_have_changed_files_is_not_said_to_have(
    cli: Cli, project: Path, commands: list[tuple[str, str]], *, is_untested: bool
) -> None:
    run = cli("do", "tidy up", "--json").json()["invocation_id"]
    events: list[dict[str, Any]] = []
    for number, (command, status) in enumerate(commands):
        call = {"call_id": f"c{number}"}
        events.append({"event": "tool_call", **call, "tool": "Bash", "args": {"command": command}})
        events.append({"event": "tool_result", **call, "status": status, "output": "1 failed"})
    lines = "".join(json.dumps(event) + "\n" for event in events)
    assert cli("profile-invocation", "record", run, stdin=lines.encode()).code == 0
    told = cli("report", "--json").json()["report"]

    assert (told["untested"] == [run], told["files"]) == (is_untested, [])
    assert project.is_dir()


def test_a_report_ends_where_it_is_asked_to_end(cli: Cli, tmp_path: Path) -> None:
    first = cli("do", TRICK, "--json").json()["invocation_id"]
    begun = cli("invocations", "list", "--json").json()[0]["started_at"]
    told = valid(cli("report", "--until", "2099-01-01", "--json").json(), "runs-report")
    assert [run["invocation_id"] for run in told["report"]["runs"]] == [first] and told["until"] == "2099-01-01"
    assert cli("report", "--until", "2099-01-01").out.startswith("1 run since 7d until 2099-01-01: 0 closed, 1 open")
    assert cli("report", "--until", begun).out.startswith("0 runs")
    refused = cli("report", "--since", "2h", "--until", "3h", "--json")
    assert (refused.code, refused.error()["error_code"]) == (1, "INVALID_VALUE")
    page = tmp_path / "report.html"
    cli("report", "--until", "2099-01-01", "--html", str(page))
    assert "since 7d until 2099-01-01" in page.read_text(encoding="utf-8")


def test_the_page_is_one_file_whose_numbers_lead_to_the_records(cli: Cli, tmp_path: Path) -> None:
    first = cli("do", TRICK, "--json").json()["invocation_id"]
    patch = json.dumps({"event": "patch_apply", "path": "src/<b>.py", "kind": "create", "after": "one\n"})
    turn = json.dumps({"event": "turn", "text": "x", "model": "m<1>", "tokens": {"output": 9}, "cost": "1.25"})
    assert cli("profile-invocation", "record", first, stdin=f"{patch}\n{turn}\n".encode()).code == 0
    cli("profile-invocation", "complete", first, "--outcome", "failed")
    out = tmp_path / "report.html"
    ran = cli("report", "--html", str(out), "--json")
    page = out.read_text()
    told = valid(ran.json(), "runs-report")["report"]

    assert page.count(f'id="{first}"') == 1 and page.count(f'href="#{first}"') >= 5
    assert set(re.findall(r'href="([^"]*)"', page)) <= {f"#{first}", "#content"}
    assert not re.search(r"<(script|img|iframe|link)|javascript:1\)\"|\x1b|\u202e", page)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert (
        "Cost: models" in page
        and ">$1.25<" in page
        and "US cents" not in page
        and "Hot files" in page
        and "src/&lt;b&gt;.py" in page
    )
    for share in [*told["people"], *told["profiles"], *told["models"], *told["rules"]]:
        assert f"<bdi>{html.escape(share['name'])}</bdi>" in page
    assert cli("report", "--html", str(out)).code != 0, "a file that is there is not written over"


def test_a_replay_is_no_run_of_the_report(cli: Cli) -> None:
    """What a list leaves out, the report does not count."""
    run = cli("do", "fix the login test", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", run)
    assert 0 == cli("replay", run, "--against", "current").code

    assert "1 run since 1d: 1 closed, 0 open" in cli("report", "--since", "1d").out
    assert 1 == len(cli("invocations", "list", "--json").json())


def test_a_list_that_is_cut_says_how_many_more_there_are() -> None:
    changed = tuple((f"f{number}.py", 1, 0) for number in range(40))
    runs = [make_run(f"{number}", by=f"dev{number}", changed=changed) for number in range(12)]
    told = list(render_report(add_up_runs(runs), "7d", SINCE))
    markdown = "\n".join(render_markdown(add_up_runs(runs), "7d"))

    assert "  and 2 more: --json names all" in told[told.index("asked by") :][:12]
    assert told[-2] == "  and 30 more: --json names all"
    assert markdown.endswith("\n\nand 10 more: --json names all")
    many = add_up_runs([make_run("a", changed=tuple((f"f{number}.py", 1, 0) for number in range(201)))])
    assert "<p>and 1 more</p>" in make_page(many, "7d", ())


@pytest.mark.parametrize("command", [("report", "--since", "7d"), ("charter", "effect", "--since", "7d")])
def test_a_record_without_a_first_line_is_named_as_not_read(cli: Cli, project: Path, command: tuple[str, ...]) -> None:
    for _ in range(2):
        cli("do", "fix the login test")
    damaged = max((project / ".kittify/events/profile-invocations").glob("*.jsonl"))
    damaged.write_text("nothing\n")
    ran = cli(*command)

    assert ran.code == 1
    assert f"{damaged.stem[-26:]}: " in ran.out + ran.err


def test_a_record_with_a_line_that_was_changed_is_named_and_counted(cli: Cli, project: Path) -> None:
    for _ in range(2):
        cli("do", "fix the login test")
    damaged = max((project / ".kittify/events/profile-invocations").glob("*.jsonl"))
    damaged.write_bytes(damaged.read_bytes().replace(b"fix the login test", b"fix the Login test"))
    ran = cli("report", "--since", "7d")

    assert (ran.code, ran.err) == (
        1,
        f"not whole: {damaged.stem[-26:]}: HASH_MISMATCH: spec-kitty invocations verify {damaged.stem[-26:]}\n",
    )
    assert "2 runs since 7d" in ran.out


def test_a_page_is_no_markdown(cli: Cli, project: Path) -> None:
    refused = cli("report", "--html", "r.html", "--format", "markdown")

    assert refused.code == 2 and "--html and --format markdown exclude each other" in refused.err
    assert not (project / "r.html").exists()
