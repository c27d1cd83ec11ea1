"""What is due by the rules of a project goes, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from planting import BEGUN, NAME, plant, record_of
from specify_cli.errors import CallerError
from specify_cli.features.forget import erasing, finding
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.features.retention.due import survey
from specify_cli.features.retention.rules import Facts, Rule, find_contradictions, find_due
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record import layout
from specify_cli.record.ids import millis_of, rfc3339
from support import Cli, add_worktree
from trails import codes, load, make_repository, sign, verify

DAY = 86_400_000
NOW = BEGUN * 1000 + 40 * DAY


def state(root: Path, *rules: dict[str, Any], cli: Cli | None = None, **more: Any) -> None:
    """Write rules into the config; with a command line a person accepts them."""
    path = root / ".kittify/config.yaml"
    head = path.read_text().partition("retention:")[0] if path.exists() else ""
    path.write_text(f"{head}retention: {json.dumps(rules)}\n{json.dumps(more)[1:-1]}\n")
    if cli is not None:
        assert cli("config", "accept", "--yes", cwd=root).code == 0


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is forty days after the records were made."""
    monkeypatch.setattr("specify_cli.features.retention.commands.read_clock", lambda _: NOW)
    monkeypatch.setattr("specify_cli.features.retention.checks.read_clock", lambda _: NOW)


def weigh(root: Path) -> int:
    """Return the bytes of records and objects, without what an erasure adds."""
    folders = [root / ".kittify/events" / name for name in ("profile-invocations", "objects")]
    folders.append(root / ".kittify/local/objects")
    notes = ("withheld", ".git")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files if not path.name.startswith(notes))


def test_rules_that_contradict_each_other_are_said_first() -> None:
    short, long = Rule("short", ("tool_output",), at_most=30), Rule("long", ("all",), at_least=180)

    assert find_contradictions([short, long]) == ["short erases after 30 days what long keeps for 180"]
    assert not find_contradictions([short._replace(outcome="done"), long._replace(outcome="failed")])
    assert not find_contradictions([short._replace(keep=("files",)), long._replace(keep=("prompt",))])


def test_the_rules_of_the_page_can_be_followed_together(cli: Cli, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "p")
    page = Path(__file__).parents[3] / "docs/retention.md"
    with (root / ".kittify/config.yaml").open("a") as file:
        file.write(page.read_text().split("```yaml\n")[1].split("```")[0])
    assert cli("config", "accept", "--yes", cwd=root).code == 0

    planned = cli("retention", "plan", "--json", cwd=root)

    assert (planned.code, planned.json()["contradictions"]) == (0, [])


def test_what_another_rule_keeps_is_not_due() -> None:
    short, long = Rule("short", ("tool_output",), at_most=30), Rule("long", ("all",), at_least=180)
    facts = Facts("implementer", "done", 0)

    assert find_due([short], facts, 31 * DAY) == {"tool_output": "short"}
    assert find_due([short], facts, 30 * DAY) == {}
    assert find_due([short, long], facts, 100 * DAY) == {}
    assert find_due([short, long], facts, 181 * DAY) == {"tool_output": "short"}


def test_a_whole_record_goes_only_where_nothing_of_it_has_to_stay() -> None:
    whole, long = Rule("whole", ("record",), at_most=30), Rule("long", ("prompt",), at_least=180)
    facts = Facts("implementer", "done", 0)

    assert "record" in find_due([whole], facts, 31 * DAY)
    assert find_due([whole, long], facts, 31 * DAY).keys() == {
        "response", "tool_args", "tool_output", "files", "governance",
    }  # fmt: skip


@pytest.mark.parametrize("years", [-1, 1])
def test_a_clock_that_is_wrong_by_a_year_makes_nothing_due(tmp_path: Path, years: int) -> None:
    root = tmp_path / "p"
    plant(root)
    state(root, {"name": "r", "keep": "prompt", "at_least": 1})

    with pytest.raises(CallerError, match="this clock says") as caught:
        survey(load(root), BEGUN * 1000 + years * 365 * DAY)
    assert caught.value.code == "CLOCK_DOUBTED"
    # A person can say that it is right: also where one record came from a clock that was ahead.
    assert survey(load(root), BEGUN * 1000 + years * 365 * DAY, idle=True).rows == ()


def test_a_clock_that_is_wrong_by_a_year_is_not_vouched_for_by_a_record_that_it_made(cli: Cli, tmp_path: Path) -> None:
    """Once a hook had made a record at the wrong time, a sweep erased what had a year left."""
    root = tmp_path / "p"
    one, _ = plant(root)
    state(root, {"name": "r", "keep": "prompt", "at_most": 100}, cli=cli)
    wrong = BEGUN * 1000 + 365 * DAY
    ProfileInvocationExecutor(root, clock=lambda: wrong * 1_000_000).invoke("fix the plan")

    with pytest.raises(CallerError, match="this clock says") as caught:
        survey(load(root), wrong + DAY)
    assert caught.value.code == "CLOCK_DOUBTED"
    assert rfc3339(millis_of(one))[:10] in caught.value.message
    # A project that went on after a long time answers for itself a week later.
    assert len(survey(load(root), wrong + 8 * DAY).rows) == 2


@pytest.mark.usefixtures("later")
def test_a_rule_that_erases_counts_when_a_person_accepted_it_and_one_that_keeps_at_once(
    cli: Cli, tmp_path: Path
) -> None:
    root = tmp_path / "p"
    plant(root)
    short = {"name": "outputs", "keep": "tool_output", "at_most": 30}
    long = {"name": "duty", "keep": "all", "at_least": 180}
    state(root, short)
    proposed = cli("retention", "plan", "--json", cwd=root)
    state(root, short, cli=cli)
    accepted = cli("retention", "plan", "--json", cwd=root).json()
    state(root, short, long)
    kept = cli("retention", "plan", "--json", cwd=root)
    state(root, short, long, cli=cli)
    state(root, short)
    dropped = cli("retention", "plan", "--json", cwd=root)

    assert (proposed.code, proposed.json()["due"]) == (0, [])
    assert "CONFIG_WEAKENED" in proposed.err and "outputs" in proposed.err
    assert [row["due"] for row in accepted["due"]] == [{"tool_output": "outputs"}] * 2
    assert (kept.code, len(kept.json()["contradictions"])) == (1, 1)
    assert (dropped.code, dropped.json()["contradictions"]) == (1, kept.json()["contradictions"])
    assert "duty" in dropped.err


@pytest.mark.usefixtures("later")
def test_a_rule_that_keeps_longer_than_it_did_counts_at_once_beside_the_one_that_was_accepted(
    cli: Cli, tmp_path: Path
) -> None:
    """A rule with other days was refused as a second one of its name, so no rule erased anything."""
    root = tmp_path / "p"
    plant(root)
    duty = {"name": "duty", "keep": "all", "outcome": "done"}
    for before, after in ((10, 180), (180, 10)):
        state(root, {**duty, "at_least": before}, cli=cli)
        state(root, {**duty, "at_least": after})
        rules = cli("retention", "status", "--json", cwd=root).json()["rules"]
        found = cli("doctor", cwd=root).out

        assert [rule["at_least"] for rule in rules] == [10, 180]
        assert "CONFIG_INVALID" not in found


@pytest.mark.usefixtures("later")
def test_status_says_how_many_bytes_a_run_frees(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    other = add_worktree(root, tmp_path / "other")
    shutil.copytree(root / ".kittify/events/objects", other / ".kittify/events/objects")
    rules = [
        {"name": "outputs", "keep": "tool_output", "at_most": 30},
        {"name": "files", "keep": "files", "at_most": 30},
        {"name": "rules", "keep": "governance", "at_most": 30},
    ]
    state(root, *rules, cli=cli)
    status = cli("retention", "status", "--json", cwd=root).json()
    before = weigh(root) + weigh(other)
    done = cli("retention", "run", "--yes", "--json", cwd=root)
    after = cli("retention", "status", "--json", cwd=root).json()

    assert done.code == 0
    assert before - weigh(root) - weigh(other) == status["bytes"] == sum(rule["bytes"] for rule in status["rules"])
    assert (
        status["record_bytes"] + status["object_bytes"] - status["bytes"]
        == after["record_bytes"] + after["object_bytes"]
    )
    assert (after["due"], after["bytes"], after["records"]) == (0, 0, 2)
    assert codes(verify(root)) == set()


@pytest.mark.usefixtures("later")
def test_an_object_that_records_share_goes_when_the_last_lets_go(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, other = plant(root, every=1)
    state(root, {"name": "rules", "keep": "governance", "at_most": 30}, cli=cli)
    shared = json.loads(record_of(root, one).read_bytes().splitlines()[0])["snapshot"]
    path = next(root.rglob(shared[2:]))
    assert cli("hold", "add", other, "--reason", "case 7", cwd=root).code == 0
    first = cli("retention", "run", "--yes", "--json", cwd=root)
    held = path.exists()
    cli("hold", "release", other, "--reason", "closed", cwd=root)
    second = cli("retention", "run", "--yes", "--json", cwd=root)

    assert (first.code, [row["invocation_id"] for row in first.json()["records"]]) == (0, [one])
    assert (second.code, [row["invocation_id"] for row in second.json()["records"]]) == (0, [other])
    assert (held, path.exists()) == (True, False)
    assert codes(verify(root)) == set()


@pytest.mark.usefixtures("later")
def test_of_a_whole_record_nothing_is_left_but_that_it_was(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, other = plant(root)
    state(root, {"name": "whole", "keep": "record", "at_most": 30}, cli=cli)
    done = cli("retention", "run", "--yes", "--json", cwd=root)
    lines = [json.loads(raw) for raw in record_of(root, one).read_bytes().splitlines()]
    sign(root)
    judged = verify(root)

    assert done.code == 0
    assert [line["event"] for line in lines][::8] == ["started", "completed"]
    assert lines[0].keys() - {"erased", "after", "after_of"} == {
        "v", "seq", "event", "invocation_id", "prev", "started_at", "profile_id", "action", "verb", "run_kind", "~",
    }  # fmt: skip
    assert (judged.verdict, codes(judged), judged.level) == ("intact", set(), "logged")
    assert not [path for path in (root / ".kittify/events/objects").rglob("*") if len(path.name) == 62]
    shown = [
        cli(*words, cwd=root).code
        for words in (
            ("invocations", "list"), ("invocations", "show", one), ("invocations", "show", one, "--json"),
            ("invocations", "tail", one), ("invocations", "state", one), ("invocations", "search", NAME),
            ("report", "--since", "2000-01-01"),
            ("invocations", "compare", one, other), ("charter", "effect"), ("doctor",),
            ("invocations", "export", one, "--html", str(tmp_path / "page.html")),
            ("invocations", "export", one, "--output", str(tmp_path / "a.tar")),
        )
    ]  # fmt: skip
    assert shown == [0] * len(shown)
    assert cli("replay", one, cwd=root).code == 1


@pytest.mark.usefixtures("later")
def test_a_run_does_what_the_plan_said_and_not_more(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    state(root, {"name": "outputs", "keep": "tool_output", "at_most": 30}, cli=cli)
    plan = cli("retention", "plan", "--json", cwd=root).out
    (root / "plan.json").write_text(plan)
    state(root, {"name": "everything", "keep": "all", "at_most": 1}, cli=cli)
    done = cli("retention", "run", "--plan", "plan.json", "--yes", "--json", cwd=root)
    left = cli("retention", "plan", "--json", cwd=root).json()["due"]
    wrong = cli("retention", "run", "--plan", "config.yaml", "--yes", "--json", cwd=root)

    assert done.code == 0 and len(done.json()["records"]) == 2
    assert {part for row in left for part in row["due"]} >= {"prompt", "tool_args", "files", "governance"}
    assert all("output" not in members for row in left for members in row["lines"].values())
    assert (wrong.code, wrong.error()["error_code"]) == (1, "PLAN_INVALID")


@pytest.mark.usefixtures("later")
def test_a_run_counts_as_the_plan_did_and_says_what_of_it_stays(cli: Cli, tmp_path: Path) -> None:
    """Objects that others name do not go; what is held since the plan was made is named."""
    root = tmp_path / "p"
    one, other = plant(root)
    state(root, {"name": "old", "keep": "record", "at_most": 30}, cli=cli)
    plan = cli("retention", "plan", "--json", cwd=root)
    (root / "plan.json").write_text(plan.out)
    cli("hold", "add", other, "--reason", "case 12", cwd=root)
    held = cli("retention", "plan", "--json", cwd=root).json()["due"]
    done = cli("retention", "run", "--plan", "plan.json", "--yes", "--json", cwd=root)

    counted = {row["invocation_id"]: row["values"] for row in held}
    assert [(row["invocation_id"], row["values"]) for row in done.json()["records"]] == [(one, counted[one])]
    assert other in done.err and one not in done.err


@pytest.mark.usefixtures("later")
def test_a_rule_about_what_is_logged_waits_until_it_is(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    state(root, {"name": "outputs", "keep": "tool_output", "at_most": 30, "proof": "logged"}, cli=cli)
    unsigned = survey(load(root), NOW).rows
    sign(root)

    assert (len(unsigned), len(survey(load(root), NOW).rows)) == (0, 2)


@pytest.mark.usefixtures("later")
def test_doctor_erases_what_is_due_only_where_the_config_says_so(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    plant(root)
    rule = {"name": "outputs", "keep": "tool_output", "at_most": 30}
    state(root, rule, cli=cli)
    cli("doctor", "--sweep", cwd=root)
    first = len(survey(load(root), NOW).rows)
    state(root, rule, cli=cli, retention_on_sweep=True)
    swept = cli("doctor", "--sweep", cwd=root)
    monkeypatch.setattr("specify_cli.features.retention.checks.read_clock", lambda _: NOW + 400 * DAY)
    idle = cli("doctor", "--sweep", cwd=root)

    assert "retention run --idle" in idle.err and "NO_CHARTER" in idle.out, "doctor goes on"
    assert "retention erased " in swept.err and " of 2 records; certificate: " in swept.err
    assert (first, len(survey(load(root), NOW).rows)) == (2, 0)
    assert codes(verify(root)) == set()


def test_a_rule_that_nobody_can_accept_is_named_before_anybody_tries(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    state(root, {"name": "one", "keep": "content", "at_most": 9})
    lint = cli("charter", "lint", cwd=root)

    assert "retention rule one, keep: expected some of prompt" in cli("doctor", cwd=root).out
    assert lint.code == 1 and "retention rule one, keep: expected some of prompt" in lint.out


@pytest.mark.usefixtures("later")
def test_a_rule_that_cannot_be_used_is_named_by_doctor_and_its_repair_works(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    state(root, {"after": "1d"})
    refused = cli("config", "accept", "--yes", cwd=root)
    assert refused.code == 1 and "CONFIG_INVALID" in refused.err and '{"after": "1d"}' in refused.err
    state(root, *({"name": "one", "keep": kind, "at_most": 9} for kind in ("files", "prompt")))
    assert "one: expected a name that no other rule has" in cli("config", "accept", "--yes", cwd=root).err
    state(root, {"after": "1d"})
    told = cli("doctor", "--json", cwd=root).json()["findings"]

    assert [item["code"] for item in told if "retention" in item["message"]] == ["CONFIG_INVALID"]
    assert '{"after": "1d"}' in str(told) and "then spec-kitty config accept" in str(told)
    state(root, {"name": "duty", "keep": "all", "at_least": 180, "outcome": "faild"})
    told = cli("doctor", "--json", cwd=root).json()["findings"]
    assert "duty, outcome: expected done or failed or abandoned" in str(told)  # else it keeps nothing
    state(root, {"name": "duty", "keep": "all", "at_least": 180}, cli=cli)
    assert cli("retention", "plan", cwd=root).code == 0
    assert "CONFIG_INVALID" not in cli("doctor", cwd=root).out
    state(root, rule := {"name": "outputs", "keep": "tool_output", "at_most": 60}, cli=cli)
    assert "RETENTION_CONTRADICTS" not in cli("doctor", cwd=root).out
    state(root, rule, {"name": "duty", "keep": "all", "at_least": 180}, cli=cli)
    told = cli("doctor", cwd=root)
    state(root, rule, retention_on_sweep="yes")
    assert "retention_on_sweep" in cli("config", "accept", "--yes", cwd=root).err
    assert 'retention_on_sweep: expected true or false, found "yes"' in cli("doctor", cwd=root).out
    assert told.code == 1 and "RETENTION_CONTRADICTS" in told.out  # else a sweep erases nothing, and nobody is told


def test_the_report_says_which_duty_is_met_by_the_rules_in_force(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    sign(root)

    def judge() -> dict[str, str]:
        rows = cli("retention", "report", "--json", cwd=root).json()
        return {row["source"].partition(", ")[2] or row["source"]: row["state"] for row in rows}

    bare = judge()
    state(root, {"name": "short", "keep": "all", "at_most": 30}, cli=cli)
    short = judge()
    state(root, {"name": "long", "keep": "all", "at_most": 400}, cli=cli)
    long = judge()
    record = record_of(root, one)
    record.write_bytes(record.read_bytes().replace(b"login", b"logon"))
    altered = judge()
    text = cli("retention", "report", cwd=root).out

    six, limit = "Articles 19(1) and 26(6)", "Article 5(1)(e)"
    assert (bare[six], bare[limit]) == ("met", "not met")
    assert (short[six], short[limit]) == ("not met", "met")
    assert (long[six], long[limit]) == ("met", "met")
    assert (long["ISA 500 and ISA 530"], altered["ISA 500 and ISA 530"]) == ("met", "not met")
    assert "no legal advice" in text and max(map(len, text.splitlines())) < 400
    assert os.path.exists(root / ".kittify")


def test_the_command_that_the_report_names_lists_every_record(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    assert (
        cli("do", "fix the login test", cwd=root).code == cli("replay", one, "--against", "current", cwd=root).code == 0
    )
    told = cli("retention", "report", cwd=root).out
    command = re.findall("the population: spec-kitty (.*)", told)[0].split()

    listed = cli(*command, cwd=root).json()

    assert f"- {len(listed)} records: intact" in told and len(listed) > 2


def test_an_erasure_that_was_not_carried_out_here_is_no_duty_met(cli: Cli, tmp_path: Path) -> None:
    """Another clone erased, its annex came, and the values are here still."""
    root, other = tmp_path / "p", make_repository(tmp_path / "other")
    one, _ = plant(root)

    def judge() -> str:
        rows = cli("retention", "report", "--json", cwd=other).json()
        (row,) = [row for row in rows if row["source"].endswith("Article 17(1)")]
        return str(row["state"])

    for name in ("whole.tar", "erased.tar"):
        cli("invocations", "export", one, "-o", str(tmp_path / name), cwd=root)
        assert cli("invocations", "import", str(tmp_path / name), cwd=other).code == 0
        cli("forget", "--invocation-id", one, "--yes", cwd=root)
    pending = judge()
    cli("forget", "--resume", "--yes", cwd=other)

    assert (pending, judge()) == ("not met", "met")


def test_the_report_counts_as_erased_for_somebody_what_somebody_ordered(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what a rule erased, nor what left another clone encrypted."""
    root = tmp_path / "p"
    plant(root)
    state(root, {"name": "old", "keep": "all", "at_most": 400}, cli=cli)
    monkeypatch.setattr("specify_cli.features.retention.commands.read_clock", lambda _: NOW + 400 * DAY)

    def judge() -> tuple[str, str, list[str]]:
        rows = {row["source"]: row for row in cli("retention", "report", "--json", cwd=root).json()}
        (asked,) = [row for source, row in rows.items() if source.endswith("Article 17(1)")]
        (six,) = [row for source, row in rows.items() if source.endswith("19(1) and 26(6)")]
        return str(asked["state"]), str(asked["facts"][0]), list(six["facts"])

    assert cli("retention", "run", "--idle", "--yes", cwd=root).code == 0
    by_rule = judge()
    one = cli("do", "fix the login test", "--json", cwd=root).json()["invocation_id"]
    assert cli("forget", "--invocation-id", one, "--yes", cwd=root).code == 0

    rule = ["rule old erases all after 400 days"]

    assert by_rule == ("not known", "on the records: 0 erasures that somebody ordered", rule)
    assert judge() == ("met", "on the records: 1 erasure that somebody ordered", rule)


def test_an_erasure_of_what_was_held_is_no_duty_met(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    project = load(root)
    plan = finding.make_plan(project, Query(texts=(NAME,)))
    cli("hold", "add", one, "--reason", "case 1", cwd=root)
    now = time.time_ns() // 1_000_000
    erasing.finish(project, erasing.write_journal(project, plan, Order("mallory", "no reason"), now))
    rows = cli("retention", "report", "--json", cwd=root).json()
    (row,) = [row for row in rows if "17(3)" in row["source"]]

    assert row["state"] == "not met" and row["facts"][0].startswith(
        "erased while it was held: .kittify/events/annexes/"
    )


def test_one_record_is_one_record(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "p"
    make_repository(root)
    state(root, {"name": "rules", "keep": "prompt", "at_most": 30}, cli=cli)
    begun = cli("do", "fix the login test", "--json", cwd=root).json()["invocation_id"]
    cli("profile-invocation", "complete", begun, cwd=root)
    later = millis_of(begun) * 1_000_000 + 40 * 24 * 3600 * 10**9
    monkeypatch.setattr("specify_cli.features.retention.commands.read_clock", lambda _: later)

    told = cli("retention", "status", "--idle", cwd=root).out + cli("retention", "plan", "--idle", cwd=root).out

    assert not re.search(r"\b1 (?:records|values|objects)\b", told), told
    assert " of 1 record due, " in told


def test_status_names_what_no_rule_reaches(cli: Cli, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "p")
    prompt = root / layout.PROMPTS / "a"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("key\nfix the login", encoding="utf-8")

    status = cli("retention", "status", cwd=root)

    assert "17 bytes of sessions' prompts and events, of which no rule erases anything" in status.out
