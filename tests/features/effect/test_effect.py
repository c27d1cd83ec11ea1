"""How rules fared is counted from records alone, with the ids behind each number."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from doctrine.artifact import Artifact
from doctrine.graph import Edge
from specify_cli.features.effect.facts import RuleUse, Use, find_edited_again, judge_rules
from specify_cli.features.effect.page import lay_out_rules
from specify_cli.features.effect.reading import measure_parts, read_use
from support import CHARTER, Cli, accept, git, run_main, valid

DAY = 24 * 3600 * 1000


def make_rule(name: str, body: str = "") -> Artifact:
    return Artifact(f"doctrine://tactic/{name}", "tactic", name, name, body or name, (), (), "0" * 64, "project")


def make_use(name: str, *rules: str, **more: Any) -> Use:
    held = tuple(RuleUse(f"doctrine://tactic/{rule}", "line", 10, False) for rule in rules)
    plain: dict[str, Any] = {"outcome": "done", "tests": "passed", "unanswered": False, "changed": (), "began": 0}
    said = plain | {"ended": 1} | more
    return Use(name, held, **{**said, "changed": frozenset(said["changed"])})


def test_each_number_has_its_invocations() -> None:
    uses = [
        make_use("a", "one", "two", outcome="failed", tests="not run", changed=["x.py"], ended=5),
        make_use("b", "one", changed=["x.py"], began=DAY),
        make_use("c", "one", unanswered=True, changed=["x.py"], began=3 * DAY, ended=3 * DAY + 1),
    ]
    found = judge_rules(uses, [make_rule("one"), make_rule("three")], [])
    one, two = found.rules
    assert (one.uri, one.shown, one.offered, one.tokens, one.median_tokens) == ("doctrine://tactic/one", 0, 3, 30, 10)
    assert one.fate == found.all and one.fate.failed == ("a",) and one.fate.untested == ("a",)
    assert one.fate.edited_again == ("a",) and one.fate.unapproved == ("c",)
    assert two.origin == "no longer in force" and two.fate.invocations == 1
    assert found.never == ("doctrine://tactic/three",) and found.always == ("doctrine://tactic/one",)


def test_a_picture_calls_no_open_run_done_and_no_abandoned_one_failed() -> None:
    ends = ("done", "failed", "abandoned", "open")
    found = judge_rules([make_use(end, "one", outcome=end) for end in ends], [make_rule("one")], [])
    drawn = str(lay_out_rules(found, {}, {})["pictures"])

    assert "tactic/one: 2 ended badly, 2 others" in drawn and "40 tokens" in drawn


def test_edited_again_agrees_with_a_plain_count_over_drawn_histories() -> None:
    drawn = random.Random(16)
    for _ in range(200):
        uses = []
        for name in range(drawn.randrange(2, 12)):
            began = drawn.randrange(6 * DAY)
            ended = drawn.choice([None, began + drawn.randrange(DAY)])
            changed = drawn.sample(["a", "b", "c"], drawn.randrange(3))
            uses.append(make_use(str(name), began=began, ended=ended, changed=changed))
        plain = {
            one.invocation_id
            for one in uses
            for two in uses
            if one is not two and one.ended is not None and one.changed & two.changed
            and one.began <= two.began and one.ended <= two.began <= one.ended + DAY
        }  # fmt: skip
        assert find_edited_again(uses) == plain


def test_rules_that_say_the_same_or_stand_against_each_other_are_named() -> None:
    text = "Run every migration twice on a copy of production before it is merged and write down how it is undone"
    rules = [make_rule("one", text), make_rule("two", f"Please: {text.lower()}."), make_rule("three", "Keep it short.")]
    edge = Edge("doctrine://tactic/one", "doctrine://tactic/three", "in_tension_with")
    found = judge_rules([], rules, [edge])
    assert [(pair.one, pair.two) for pair in found.alike] == [("doctrine://tactic/one", "doctrine://tactic/two")]
    assert [pair.relation for pair in found.apart] == ["in_tension_with"]


def test_pairs_that_are_not_shown_are_counted(cli: Cli, project: Path) -> None:
    folder = project / ".kittify/doctrine/directives"
    folder.mkdir(parents=True)
    words = "every migration names table column owner backup window rollback"
    for name in "abcde":
        text = f"id: {name}\ntitle: About {words}\nbody: |\n  {words}\n"
        (folder / f"{name}.directive.yaml").write_text(text, encoding="utf-8")

    told = cli("charter", "effect").out

    assert len(cli("charter", "effect", "--json").json()["effect"]["alike"]) == 10
    assert re.findall(r"say the same: .* and 2 more$", told, re.M)


def test_the_tokens_of_a_rule_are_those_of_its_part_of_the_text() -> None:
    text = "# Context\n\n## Rules\n\n### A\n`doctrine://tactic/a`\n\nDo this.\n\n### B\n`doctrine://tactic/b`\n\n"
    text += "Do that, and more of it.\n\n## On demand\n\n- C (when): `doctrine://tactic/c`, `.kittify/c.yaml`\n"
    found = measure_parts(text)
    assert set(found) == {f"doctrine://tactic/{name}" for name in "abc"}
    assert 0 < found["doctrine://tactic/a"] < found["doctrine://tactic/b"]


def test_a_rule_that_was_told_before_takes_no_tokens_again_and_another_ones_name_opens_none() -> None:
    text = "## Rules\n\n### A\n`doctrine://tactic/a`\n\nDo this.\n\n### B\n`doctrine://tactic/b`\n\nDo that.\n"
    hits = [{"uri": f"doctrine://tactic/{name}", "shown": "whole"} for name in "ab"]
    printed = {"form": "new", "held": [{"uri": "doctrine://tactic/a", "invocation_id": "x"}]}
    lines: list[dict[str, Any]] = [
        {"event": "started", "governance_context_hash": "0" * 64, "printed": printed},
        {"event": "retrieval_response", "hits": hits},
        {"event": "tool_call", "call_id": "c1", "tool": "Bash",
         "args": json.dumps({"command": "spec-kitty charter context --uri doctrine://tactic/a-longer-name"})},
    ]  # fmt: skip
    use = read_use("01M8HY080GN8EZ6Z1VB3FPQXZV", lines, lambda _: text.encode())

    told, new = use.rules
    assert (told.how, told.tokens, told.opened) == ("whole", 0, False)
    assert new.tokens > 0
    effect = judge_rules([use, use._replace(rules=(told._replace(tokens=7),))], [], [])
    assert {one.uri: (one.shown, one.tokens, one.median_tokens) for one in effect.rules}["doctrine://tactic/a"] == (
        2,
        7,
        7,
    )


def test_a_rule_whose_file_an_agent_reads_was_opened(tmp_path: Path) -> None:
    root, home = tmp_path / "shop", tmp_path / "home"
    home.mkdir()
    (root / ".kittify/charter").mkdir(parents=True)
    (root / ".kittify/charter/charter.md").write_text(CHARTER)
    (root / ".kittify/doctrine/directives").mkdir(parents=True)
    for name in ("sums", "sums-twice", "rates"):
        body = "Payroll numbers are looked at by two people before anything is sent to anybody."
        text = f"title: Payroll {name}\nbody: {body}\nkeywords: [payroll]\n"
        (root / f".kittify/doctrine/directives/{name}.yaml").write_text(text)
    git(root, "init", "-q")
    done = run_main(["do", "implement the payroll export", "--json"], cwd=root, home=home).json()
    assert "`.kittify/doctrine/directives/sums.yaml`" in done["governance_context_text"]
    reads = [
        {"event": "tool_call", "call_id": "c1", "tool": "Read",
         "args": {"file_path": f"{root}/.kittify/doctrine/directives/sums-twice.yaml"}},
        {"event": "tool_call", "call_id": "c2", "tool": "Bash",
         "args": {"command": "cat .kittify/doctrine/directives/rates.yaml | head"}},
    ]  # fmt: skip
    lines = "".join(json.dumps(event) + "\n" for event in reads).encode()
    ran = run_main(["profile-invocation", "record", done["invocation_id"]], cwd=root, home=home, stdin=lines)
    assert ran.code == 0, ran.err
    found = run_main(["charter", "effect", "--json"], cwd=root, home=home).json()["effect"]["rules"]
    opened = {one["uri"].rpartition("/")[2] for one in found if one["opened"]}
    assert opened == {"sums-twice", "rates"}


def test_real_records_tell_which_rules_were_opened_and_what_followed(tmp_path: Path) -> None:
    root, home = tmp_path / "shop", tmp_path / "home"
    home.mkdir()
    (root / ".kittify/charter").mkdir(parents=True)
    (root / ".kittify/charter/charter.md").write_text(CHARTER)
    (root / ".kittify/config.yaml").write_text("audit:\n  capture_tool_io: {tool_args: full}\n")
    git(root, "init", "-q")
    accept(root)

    def run(*words: str, stdin: bytes = b"") -> Any:
        return run_main(list(words), cwd=root, home=home, stdin=stdin)

    done = run("do", "fix the login crash", "--json").json()
    uri = "doctrine://directive/reproduce-before-repair"
    events = [
        {"event": "tool_call", "call_id": "c1", "tool": "Bash",
         "args": {"command": f"spec-kitty charter context --uri {uri}"}},
        {"event": "tool_result", "call_id": "c1", "status": "ok"},
        {"event": "patch_apply", "path": "login.py", "kind": "modify"},
    ]  # fmt: skip
    lines = "".join(json.dumps(event) + "\n" for event in events)
    ran = run("profile-invocation", "record", done["invocation_id"], stdin=lines.encode())
    assert ran.code == 0, ran.err
    run("profile-invocation", "complete", done["invocation_id"], "--outcome", "failed")
    run("do", "write the changelog entry", "--json")

    told = run("charter", "effect", "--json").json()
    valid(told, "charter-effect")
    found = told["effect"]
    assert found["invocations"] == 2 and found["all"]["failed"] == [done["invocation_id"]]
    assert found["all"]["untested"] == [done["invocation_id"]]
    [rule] = [one for one in found["rules"] if one["uri"] == uri]
    assert (rule["opened"], rule["fate"]["failed"]) == (1, [done["invocation_id"]]) and rule["tokens"] > 0
    assert "charter://section/policy-summary" in found["always"]
    shown = run("charter", "effect").out
    assert "counts, not causes" in shown and "reproduce-before-repair" in shown
    assert run("charter", "effect", "--since", "2099-01-01").out.startswith("0 invocations")
