"""A range is judged by the rules and keys of the base; what is not known is said, and nothing made up is proven."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import pytest

from approving import AGENT
from gating import ADA, ALL_FAIL, CHARTER, GREEN, Shop, draw_clean_branch, read_record
from hooking import run_hook
from keys import make_key
from rendering_markdown import read_markdown, spell_plainly
from specify_cli.features.approvals.approving import Wish
from specify_cli.features.forget.erasing import erase, finish, write_journal
from specify_cli.features.forget.finding import make_plan
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.features.gate import evidence
from specify_cli.features.gate.findings import KINDS, GateFinding
from specify_cli.features.gate.judging import Judged
from specify_cli.features.gate.rendering import make_comment
from specify_cli.features.gate.rules import Level
from specify_cli.features.origin import git_range, origin
from specify_cli.features.origin.report import LineCounts, Origin
from specify_cli.features.search.database import SearchIndex
from specify_cli.features.what_if.backtest import Answer, Skipped
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.project.config import load_project
from specify_cli.storage.store import Place
from support import FULL, accept, at_a_terminal, count_calls, environment, git, run_main, valid, wait_until

CLEAN = 2000 if FULL else 3
SIGNED = "work\n\nCo-Authored-By: Claude <noreply@anthropic.com>"
KEYS = "keys:\n  allowed_signers: .kittify/allowed_signers\n"


def test_what_was_recorded_tested_and_ended_well_passes(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ALL_FAIL)
    writer = shop.work()
    ran = shop.gate()
    value = shop.judge()

    valid(value, "gate")
    assert ran.code == 0 and ran.out.startswith("PASS")
    assert value["origin"]["lines"] == {"changed": 3, "recorded": 3, "several": 0, "unrecorded": 0}
    assert [one["invocation_id"] for one in value["origin"]["writers"]] == [writer]
    assert "nothing is proven: the base names no keys" in ran.out


def test_how_many_files_are_traced_is_told_while_a_range_is_judged(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ALL_FAIL)
    shop.work()
    project, _ = load_project(str(shop.root), str(shop.home))
    told: list[tuple[int, int]] = []
    with SearchIndex(project) as index:
        index.update()
        asked = evidence.GateRange(str(shop.root), "main")
        evidence.judge_project(project, index, asked, "2026-11-25", lambda *counts: told.append(counts))
    assert told == [(number, told[0][1]) for number in range(1, told[0][1] + 1)]


@pytest.mark.stress
def test_clean_branches_never_fail(tmp_path: Path) -> None:
    for seed in range(CLEAN):
        (tmp_path / str(seed)).mkdir()
        shop = Shop(tmp_path / str(seed), ALL_FAIL)
        draw_clean_branch(shop, random.Random(seed))
        judged = shop.judge()

        assert judged["verdict"] == "pass" and not judged["findings"], (seed, judged["findings"])


def test_a_branch_that_weakens_the_rules_is_judged_by_the_old_ones_and_told_so(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: fail\n  weakened: fail\n  ended: fail")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.end(invocation_id)
    shop.set_rules("  tests: off\n  weakened: off\n  ended: {level: fail, not_known: warn}")
    shop.commit()

    findings = shop.judge()["findings"]
    weaker = [item["message"] for item in findings if item["code"] == "RULES_WEAKENED"]
    assert shop.gate().code == 1
    assert "TESTS_NOT_GREEN" in {item["code"] for item in findings}
    assert any("tests: fail becomes off" in text for text in weaker) and len(weaker) == 3
    assert "gate.yaml: tests: fail becomes off" in shop.gate("--format", "markdown").out


@pytest.mark.parametrize("how", ["moved", "behind many files"])
def test_rules_and_hooks_that_a_branch_moves_away_or_hides_behind_files_are_weaker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    shop = Shop(tmp_path, "  records: off\n  tests: fail\n  weakened: fail")
    hooks = '{"hooks": ["spec-kitty hook claude-code"]}\n'
    shop.on_base(lambda: shop.write(".claude/settings.json", hooks))
    if how == "moved":
        for name in (".kittify/gate.yaml", ".claude/settings.json"):
            git(shop.root, "mv", name, f"{Path(name).name}.old")
    else:
        monkeypatch.setattr(git_range, "MAX_FILES", 2)
        shop.set_rules("  records: off\n  weakened: fail")
        shop.write(".claude/settings.json", "{}\n")
        for number in range(120):
            shop.write(f"!{number}.settings", f"{number}\n")
    shop.commit()

    told = [item["detail"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    assert "tests: fail becomes warn" in told
    assert "hooks: .claude/settings.json runs 0 of 1 handlers as before" in told


HANDLER = {"type": "command", "command": "spec-kitty hook claude-code >/dev/null 2>&1 || true", "timeout": 15}
OTHER = {"type": "command", "command": "make format"}


def spell_settings(matcher: str = "*", handler: dict[str, object] = HANDLER, **more: object) -> str:
    return json.dumps({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [handler]}]}, **more})


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (".claude/settings.json", spell_settings("NoSuchTool"), "runs 0 of 1 handlers as before"),
        (".claude/settings.json", spell_settings(handler={**HANDLER, "command": "true # spec-kitty hook claude-code"}),
         "runs 0 of 1 handlers as before"),
        (".claude/settings.json", spell_settings().replace("PreTool", "SomeTool"), "runs 0 of 1 handlers as before"),
        (".claude/settings.json", spell_settings(disableAllHooks=True), "sets disableAllHooks"),
        (".claude/settings.json", spell_settings(env={"SPEC_KITTY_TRAIL": "off"}), "sets env.SPEC_KITTY_TRAIL"),
        (".claude/settings.local.json", '{"disableAllHooks": true}', "sets disableAllHooks"),
        (".gemini/settings.json", '{"hooksConfig": {"enabled": false}}', "sets hooksConfig.enabled"),
        (".codex/config.toml", "[features]\nhooks = false\n", "sets features.hooks"),
        (".opencode/plugins/spec-kitty.ts", "// spec-kitty\nexport {}\n", "runs 0 of 1 handlers as before"),
        (".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [
            {"matcher": "Edit", "hooks": [OTHER]}, {"matcher": "*", "hooks": [OTHER, HANDLER]}]}, "model": "m"}), None),
    ],
)  # fmt: skip
def test_hooks_that_a_branch_leaves_in_place_and_lets_never_run_are_weaker(
    tmp_path: Path, path: str, text: str, said: str | None
) -> None:
    shop = Shop(tmp_path, "  weakened: fail")
    shop.write(".claude/settings.json", spell_settings())
    shop.write(".opencode/plugins/spec-kitty.ts", 'spawn("spec-kitty", ["hook", "opencode"])\n')
    shop.on_base(lambda: None)
    shop.write(path, text)
    shop.commit()

    told = [item["detail"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    assert told == ([] if said is None else [f"hooks: {path} {said}"])


def test_a_config_that_nobody_can_use_is_weaker(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  weakened: fail")
    shop.write(".kittify/config.yaml", "trail: committed\naudit: {capture_tool_io: off}\naudit: {}\n")
    shop.commit()

    (found,) = shop.judge()["findings"]
    assert found["detail"] == "config: the branch's file cannot be used"


def test_keys_that_a_branch_adds_or_no_longer_revokes_are_told(tmp_path: Path) -> None:
    keys = "  allowed_signers: .kittify/allowed_signers\n  revoked: .kittify/revoked\n  policy: .kittify/policy"
    shop = Shop(tmp_path, f"  weakened: fail\nkeys:\n{keys}")
    signers = shop.root / ".kittify/allowed_signers"
    (public,) = [line.split(" ", 1)[1] for line in signers.read_text().splitlines()]
    policy = "quorum none\n"
    shop.on_base(lambda: shop.write(".kittify/revoked", f"{public}\n"))
    shop.on_base(lambda: shop.write(".kittify/policy", policy))
    shop.write(".kittify/allowed_signers", f"# whom we trust\n{signers.read_text()}")
    shop.write(".kittify/revoked", f"{public}\n{public} again\n")
    shop.write(".kittify/policy", f"# of ours\n\n{policy}")
    shop.commit("nobody more")
    stricter = shop.judge()["findings"]
    shop.write(".kittify/allowed_signers", f"{signers.read_text()}mallory@example.org {public}\n")
    shop.write(".kittify/revoked", "")
    shop.write(".kittify/policy", "log mine+1a2b3c4d+AQ\nquorum none\n")
    shop.commit("whom I trust")

    assert [stricter, [item["path"] for item in shop.judge()["findings"]]] == [
        [],
        [".kittify/allowed_signers", ".kittify/policy", ".kittify/revoked"],
    ]


@pytest.mark.parametrize("is_touched", [False, True])
def test_what_the_base_made_stricter_since_a_branch_left_it_is_nothing_that_the_branch_weakens(
    tmp_path: Path, is_touched: bool
) -> None:
    """git keeps it when it merges the branch, also where the branch has other lines of the same files."""
    keys = "  allowed_signers: .kittify/allowed_signers\n  revoked: .kittify/revoked"
    shop = Shop(tmp_path, f"  records: off\n  weakened: fail\nkeys:\n{keys}")
    files = {
        name: shop.root / f".kittify/{name}" for name in ("allowed_signers", "revoked", "gate.yaml", "config.yaml")
    }
    public = files["allowed_signers"].read_text().split(" ", 1)[1]
    shop.on_base(
        lambda: shop.write(".kittify/allowed_signers", f"{files['allowed_signers'].read_text()}bo@x.org {public}")
    )
    if is_touched:
        for path in files.values():
            path.write_text(f"# of the branch\n{path.read_text() if path.exists() else ''}")
    shop.write("src/new.py", "import os\n")
    shop.commit()
    git(shop.root, "switch", "-q", "main")
    shop.write(".kittify/allowed_signers", files["allowed_signers"].read_text().splitlines()[0] + "\n")
    shop.write(".kittify/revoked", public)
    shop.write(
        ".kittify/gate.yaml", f"version: 1\nrules:\n  records: off\n  weakened: fail\n  tests: fail\nkeys:\n{keys}\n"
    )
    shop.write(
        ".kittify/config.yaml",
        "trail: committed\nredaction: {rules: {ticket: 'TICKET-[0-9]{9}'}}\n",
    )
    shop.commit("stricter")
    git(shop.root, "switch", "-q", "topic")

    assert shop.judge()["findings"] == []


def test_keys_that_a_branch_adds_to_a_file_that_the_base_has_moved_since_are_told(tmp_path: Path) -> None:
    """git carries them into the file that the gate trusts from then on."""
    shop = Shop(tmp_path, f"  weakened: fail\n{KEYS}")
    signers = shop.root / ".kittify/allowed_signers"
    more = "".join(f"{name}@x.org {signers.read_text().split(' ', 1)[1]}" for name in ("bo", "cy", "di"))
    shop.on_base(lambda: signers.write_text(f"{signers.read_text()}{more}"))
    signers.write_text(f"mallory@x.org {signers.read_text().split(' ', 1)[1]}")
    shop.commit()
    git(shop.root, "switch", "-q", "main")
    git(shop.root, "mv", ".kittify/allowed_signers", "signers")
    shop.set_rules(f"  weakened: fail\n{KEYS.replace('.kittify/allowed_signers', 'signers')}")
    shop.commit("moved")
    git(shop.root, "switch", "-q", "topic")

    told = [item["path"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    git(shop.root, "merge", "-q", "--no-edit", "main")
    assert "mallory@x.org" in (shop.root / "signers").read_text()
    assert told == [".kittify/allowed_signers"]


@pytest.mark.parametrize(("keys", "said"), [(KEYS, "approved by ada"), ("", "approved by ada (not proven)")])
def test_a_comment_says_of_an_approval_what_the_keys_of_the_base_show(tmp_path: Path, keys: str, said: str) -> None:
    shop = Shop(tmp_path, f"  tests: warn\n{keys}")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.approve(invocation_id)
    shop.end(invocation_id)
    shop.commit()
    comment = spell_plainly(shop.gate("--format", "markdown").out).replace("@example.org", "")

    assert f", {said}<br>" in comment
    assert "allowed by ada" in comment and ("signature not checked" in comment) == (not keys)


def test_a_comment_says_of_each_approval_for_itself_whether_its_signature_was_checked(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  tests: warn\n{KEYS}")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.approve(invocation_id)
    shop.approve(invocation_id, make_key(tmp_path, "mallory"), Wish(reason="(signature not checked)"))
    shop.end(invocation_id)
    shop.commit()
    comment = spell_plainly(shop.gate("--format", "markdown").out)

    said = re.findall("allowed by ada@example.org ([^;\n]*)", comment)
    assert said == ["(signed by a trusted key)", "(signature not checked) (signature not checked)"]


def test_the_verdict_says_where_one_witness_alone_told_of_a_session(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    invocation_id = shop.begin(caller=Caller(Actor("claude-code", "llm", tool="claude-code")))
    shop.edit(invocation_id)
    shop.test(invocation_id)
    shop.end(invocation_id)
    shop.commit()
    said = f"one witness alone, in 1 of 1 record: {invocation_id[-6:]}: hooks told 1 call"

    assert shop.judge()["verdict"] == "pass"
    assert f"{said}, no transcript was held against them" in shop.gate().out
    assert said in spell_plainly(shop.gate("--format", "markdown").out)
    assert "told by: hooks told 1 call" in shop.origin()


@pytest.mark.parametrize("how", ["sparse", "removed", "another"])
def test_the_command_that_brings_records_into_the_work_tree_brings_them(tmp_path: Path, how: str) -> None:
    shop = Shop(tmp_path, "  records: {level: fail, of: all}")
    shop.work()
    git(tmp_path, "clone", "-q", str(shop.root), "clone")
    shop.root, head = tmp_path / "clone", "HEAD"
    git(shop.root, "branch", "-q", "main", "origin/main")
    if how == "sparse":
        git(shop.root, "sparse-checkout", "set", "--no-cone", "/*", "!/.kittify/trail")
    elif how == "removed":
        git(shop.root, "rm", "-qr", ".kittify/trail")
        git(shop.root, "reset", "-q")
    else:
        git(shop.root, "switch", "-q", "main")
        head = "origin/topic"
    absent = shop.gate("--head", head, "--json")
    (said,) = (text for text in absent.json()["origin"]["not_known"] if "not checked out" in text)
    git(shop.root, *said.partition(": git ")[2].split(" "))
    present = shop.gate("--head", head, "--json")

    assert [absent.code, present.code] == [1, 0], said


def test_a_shallow_clone_says_that_earlier_lines_seem_to_have_come_in_its_first_commit(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.work(path="src/login.py")
    shop.work("add a step")
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=topic", f"file://{shop.root}", "clone")
    shop.root = tmp_path / "clone"
    commands = ["origin", "src/login.py"], ["why", "src/login.py:1"], ["why", "src/login.py"]
    ask = partial(run_main, cwd=shop.root, home=shop.home)
    shallow = [(ask(argv).out, ask([*argv, "--json"]).json()["not_known"]) for argv in commands]
    git(shop.root, "fetch", "-q", "--unshallow")
    whole = [ask([*argv, "--json"]).json()["not_known"] for argv in commands]

    for text, (said,) in shallow:
        assert said.endswith(": git fetch --unshallow") and f"not known: {said}" in text
    assert whole == [[], [], []]


def test_a_bare_repository_is_judged_where_the_command_named_checks_it_out(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.work()
    git(tmp_path, "clone", "-q", "--bare", str(shop.root), "shop.git")
    shop.root = tmp_path / "shop.git"
    refused = shop.gate("--json").error()
    command, _, _ = refused["suggestion"].partition(", ")
    _, *argv = shlex.split(command)
    git(shop.root, *argv)
    shop.root = Path(argv[-1])

    assert (refused["error_code"], "bare repository" in refused["message"]) == ("NOT_A_REPOSITORY", True)
    assert shop.judge()["origin"]["lines"]["recorded"] == 3


def test_records_that_a_sparse_checkout_took_away_are_said_to_be_missing(tmp_path: Path) -> None:
    shop = Shop(tmp_path, trail="private")
    shop.work()
    git(shop.root, "sparse-checkout", "set", "src")
    said = "no record is here, and the log here names some: spec-kitty invocations verify"
    told = [run_main([*argv, "src/new.py"], cwd=shop.root, home=shop.home).out for argv in (["why"], ["origin"])]

    assert not (shop.root / ".kittify").exists()
    assert all(f"not known: {said}" in text for text in (*told, shop.gate().out))


def test_the_command_that_closes_open_work_closes_it_as_typed(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: off\n  ended: fail", trail="private")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.commit()
    (finding,) = shop.judge()["findings"]
    command = finding["next"].partition(",")[0].replace("ID", invocation_id).split(" ")[1:]
    closed = run_main(command, cwd=shop.root, home=shop.home)

    assert (closed.code, shop.codes()) == (0, []), closed.err


def test_what_is_weaker_is_told_of_the_file_that_says_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  weakened: fail", trail="private")
    shop.write(".kittify/config.yaml", "trail: ref\n")
    shop.commit()

    (finding,) = shop.judge()["findings"]
    assert (finding["path"], finding["message"].count("config: trail: ref")) == (".kittify/config.yaml", 1)


@pytest.mark.parametrize(
    ("output", "status", "code"),
    [
        ("1 failed, 3 passed in 0.1s", "error", "TESTS_NOT_GREEN"),
        ("no tests ran in 0.01s", "ok", "TESTS_NOT_GREEN"),
        ("4 passed in 0.01s", "error", "TESTS_NOT_GREEN"),
        ("it went well", "ok", "TESTS_NOT_KNOWN"),
    ],
)
def test_only_a_green_run_after_the_last_edit_counts(tmp_path: Path, output: str, status: str, code: str) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    command = "pytest -q | cat" if code == "TESTS_NOT_KNOWN" else "pytest -q"
    shop.test(invocation_id, output, command, status)
    shop.end(invocation_id)
    shop.commit()

    assert shop.codes() == [code]


def test_tests_before_the_last_edit_do_not_count(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.test(invocation_id)
    shop.edit(invocation_id)
    shop.end(invocation_id)
    shop.commit()

    assert shop.codes() == ["TESTS_NOT_GREEN"]


def test_a_record_that_the_branch_lacks_is_named_where_it_lies(tmp_path: Path) -> None:
    """The session went on when its work was committed, and its record was published behind that."""
    shop = Shop(tmp_path, "  tests: fail")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.test(invocation_id)
    shop.commit()
    shop.end(invocation_id)
    before = shop.judge()["origin"]["not_known"]
    git(shop.root, "add", ".kittify/trail")
    git(shop.root, "commit", "-qm", "its record")

    assert before == [
        f"a clone does not see 1 record of this work (first {invocation_id}): git add :/.kittify/trail, and commit"
    ]
    assert shop.judge()["origin"]["not_known"] == []


@pytest.mark.parametrize("edits", ["above", "below"])
@pytest.mark.parametrize(
    ("output", "status", "codes"),
    [(GREEN, "ok", []), ("1 failed, 3 passed in 0.1s", "error", ["TESTS_NOT_GREEN"])],
)
def test_tests_count_that_ran_in_the_record_above_or_below_of_the_session(
    tmp_path: Path, edits: str, output: str, status: str, codes: list[str]
) -> None:
    """The first prompt began the one, a `do` of the agent the other."""
    shop = Shop(tmp_path, "  tests: fail")
    above = shop.begin()
    below = shop.begin("fix the login test now", above)
    editor, tester = (above, below) if edits == "above" else (below, above)
    shop.edit(editor)
    shop.test(tester, output, status=status)
    shop.end(below)
    shop.end(above)
    shop.commit()
    (writer,) = shop.judge()["origin"]["writers"]

    assert shop.codes() == codes
    assert (writer["invocation_id"], writer["tests"]["record"]) == (editor, tester)
    state = "passed" if status == "ok" else "failed"
    assert f"tests {state} after the last change (pytest -q) in {tester[-6:]}, of the same session" in shop.origin()


def test_tests_count_that_a_subagent_ran_in_a_record_of_its_own(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    above = shop.begin()
    shop.edit(above)
    subagent = AGENT._replace(session={"harness": "claude-code", "session_id": "s1", "agent_id": "a1"})
    below = shop.begin("run the tests", above, subagent)
    shop.test(below, caller=subagent)
    shop.end(below)
    shop.end(above)
    shop.commit()

    assert shop.codes() == []


def test_the_newest_of_many_records_that_hang_on_one_counts(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    above = shop.begin()
    shop.edit(above)
    for _ in range(51):
        below = shop.begin("look at it", above)
    shop.test(below)
    shop.end(below)
    shop.end(above)
    shop.commit()

    assert shop.codes() == []


def test_tests_of_another_session_or_before_the_change_or_of_no_relation_do_not_count(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    above = shop.begin()
    below = shop.begin("fix the login test now", above)
    shop.test(below)
    shop.end(below)
    shop.edit(above)
    beside = shop.begin("fix it again")
    shop.test(beside)
    shop.end(beside)
    elsewhere = AGENT._replace(session={"harness": "claude-code", "session_id": "s2"})
    other = shop.begin("fix it elsewhere", above, elsewhere)
    shop.test(other, caller=elsewhere)
    shop.end(other)
    shop.end(above)
    shop.commit()

    assert shop.codes() == ["TESTS_NOT_GREEN"]


def test_how_many_other_records_there_are_is_nothing_to_untested_changes(tmp_path: Path) -> None:
    """For each writer without a test run all records of the project were read."""
    shop = Shop(tmp_path)
    for number in range(8):
        writer = shop.begin()
        shop.edit(writer, f"src/file{number}.py")
        shop.end(writer)
    shop.commit()

    def count_opened() -> int:
        # The first takes in what is new, and what was written just now is listed once more.
        return min(count_calls(shop.origin, os.open)[0] for _ in range(4))

    few = count_opened()
    for _ in range(20):
        shop.end(shop.begin("fix something else"))
    more = count_opened() - few

    # One look at each of them; eight looks opened a thousand files.
    assert more < 200


def test_the_charter_of_the_base_names_the_test_commands_and_not_that_of_the_branch(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    shop.write(".kittify/charter/charter.md", "# Charter\n\n## Testing\n\nRun `true`.\n")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.test(invocation_id, "", "true")
    shop.end(invocation_id)
    shop.commit()
    other = shop.begin("fix the other test")
    shop.edit(other, "src/other.py")
    shop.test(other, "", "scripts/check")
    shop.end(other)
    shop.commit()

    findings = shop.judge()["findings"]
    assert [(item["code"], item["invocation_id"]) for item in findings if item["rule"] == "tests"] == [
        ("TESTS_NOT_GREEN", invocation_id)
    ]


@pytest.mark.parametrize(
    ("outcome", "code", "how"),
    [(None, "INVOCATION_OPEN", "begun at 2"), ("failed", "INVOCATION_FAILED", "ended as failed")],
)
def test_an_invocation_that_is_open_or_failed_is_found_and_how_is_said(
    tmp_path: Path, outcome: str | None, code: str, how: str
) -> None:
    shop = Shop(tmp_path, "  ended: fail\n  proof: off")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.test(invocation_id)
    if outcome is not None:
        shop.end(invocation_id, outcome)
    shop.commit()
    (found,) = shop.judge()["findings"]

    assert (found["code"], found["detail"][: len(how)]) == (code, how)


def test_lines_of_a_commit_that_an_agent_signed_need_a_record(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  records: fail")
    shop.write("src/new.py", "def nobody_knows_who_wrote_it(order):\n")
    shop.commit("new\n\nCo-Authored-By: Claude <noreply@anthropic.com>")
    shop.write("src/hand.py", "def written_by_a_person(order):\n")
    shop.commit("by hand")

    (found,) = shop.judge()["findings"]
    assert (found["code"], found["path"], found["first"]) == ("LINES_UNRECORDED", "src/new.py", 1)


def test_a_picture_that_a_person_adds_needs_no_record_where_agents_do(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  records: fail")
    (shop.root / "src/cart.png").write_bytes(b"\x89PNG\0\0")
    shop.commit("a picture")
    by_hand = shop.codes()
    shop.write("src/new.py", "def one():\n    pass\n")
    shop.commit(SIGNED)
    beside = shop.codes()
    (shop.root / "src/cart.png").write_bytes(b"\x89PNG\0\1")
    shop.commit(SIGNED)

    assert (by_hand, beside) == ([], ["LINES_UNRECORDED"])
    assert shop.codes() == ["LINES_NOT_KNOWN", "LINES_UNRECORDED"]


@pytest.mark.parametrize("end", ["done", "failed"])
def test_a_picture_or_a_link_that_an_agent_made_has_the_record_which_tells_how_it_was_left(
    tmp_path: Path, end: str
) -> None:
    shop = Shop(tmp_path, ALL_FAIL)
    run = shop.begin()
    shop.write("src/cart.png", "PNG\0\0")
    (shop.root / "src/link.py").symlink_to("login.py")
    for name, left in (("cart.png", "PNG\0\0"), ("link.py", "login.py")):
        patch = {"path": f"src/{name}", "kind": "create", "after": left, "ok": True}
        shop.record(run, ("patch_apply", patch))
    shop.test(run)
    shop.end(run, end)
    shop.commit(SIGNED)

    assert shop.codes() == ([] if end == "done" else ["INVOCATION_FAILED"])
    assert f"src/cart.png: created by {run[-6:]}" in shop.origin()
    (shop.root / "src/cart.png").write_bytes(b"\x89PNG\0\1")
    shop.commit(SIGNED)
    assert "LINES_NOT_KNOWN" in shop.codes()


def test_of_many_pictures_no_more_is_read_than_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path, "  records: fail")
    run = shop.begin()
    for name in ("one", "two"):
        picture = f"{name}\0" * 900
        shop.write(f"src/{name}.png", picture)
        shop.record(run, ("patch_apply", {"path": f"src/{name}.png", "kind": "create", "after": picture}))
    shop.commit(SIGNED)
    told = shop.codes()
    monkeypatch.setattr(git_range, "_MAX_BYTES", 6000)

    assert {*shop.codes()} - {*told} == {"LINES_NOT_KNOWN", "SECRETS_NOT_KNOWN"}


@pytest.mark.parametrize("how", ["moved", "made of a file of the same text"])
def test_a_link_at_a_new_place_is_told_by_a_record_alone(tmp_path: Path, how: str) -> None:
    shop = Shop(tmp_path, "  records: fail")
    old, new = shop.root / "old/link", shop.root / ("link" if how == "moved" else "old/link")
    old.parent.mkdir()
    shop.on_base(lambda: old.symlink_to("../../x") if how == "moved" else shop.write("old/link", "../../x"))
    old.unlink()
    new.symlink_to("../../x")
    shop.commit(SIGNED)
    untold = shop.codes()
    run, path = shop.begin(), str(new.relative_to(shop.root))
    shop.record(run, ("patch_apply", {"path": path, "kind": "create", "after": "../../x"}))
    shop.commit()

    assert untold == ["LINES_NOT_KNOWN"] and "LINES_NOT_KNOWN" not in shop.codes()


KEY = 'api_key = "sk-ant-api03-Xq7Lm2Rt9Vb4Nc8Wd1Yf6Zh3Kj5Pg0Sa7Ue2Io4Qw9Er1Ty6Ui8Op3As5Df"'


@pytest.mark.parametrize(
    "how", ["larger than is read by its lines", "with a NUL byte", "no text", "UTF-16", "too large", "link"]
)
def test_what_is_not_read_by_its_lines_is_read_for_secrets_or_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    shop, path = Shop(tmp_path, "  records: fail\n  secrets: fail"), "data/rows.csv"
    before = {"UTF-16": "\ufeffrow\n", "with a NUL byte": "row\0\n", "link": "", "no text": "\xff\0\xd8\n\0"}.get(how)
    if before is None:
        before = "".join(f"row {number} of many\n" for number in range(130_000))
    coding = {"UTF-16": "utf-16-le", "no text": "latin-1"}.get(how, "utf-8")
    shop.on_base(lambda: shop.write(path, (before + KEY.replace("Xq7", "Old") + "\n").encode(coding).decode("latin-1")))
    after = before + KEY.replace("Xq7", "Old") + "\n" + KEY + "\n"
    (shop.root / path).write_bytes(after.encode(coding))
    if how == "link":
        (shop.root / path).unlink()
        (shop.root / path).symlink_to(KEY)
    if how == "too large":
        monkeypatch.setattr(origin, "_MAX_CONTENT", 2 * 1024 * 1024)
    shop.commit()
    found = [(item["code"], item["level"], item["first"]) for item in shop.judge()["findings"]]

    if how == "too large":
        shop.on_base(lambda: shop.set_rules("  secrets: {level: fail, not_known: warn}"))
        assert found == [("SECRETS_NOT_KNOWN", "fail", None)]
        assert shop.gate().code == 0 and shop.codes() == ["SECRETS_NOT_KNOWN"]
    else:
        line = 1 if how == "link" else before.count("\n") + 2
        assert found == [("SECRET_WRITTEN", "fail", line)]


def test_a_picture_of_the_base_that_only_moved_is_nothing_that_came(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ALL_FAIL)
    shop.on_base(lambda: (shop.root / "cart.png").write_bytes(b"\x89PNG\0\0"))
    git(shop.root, "mv", "cart.png", "src/cart.png")
    shop.commit(SIGNED)

    assert shop.codes() == []


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Shop]:
    """A folder with a shop whose history each setting of git shows in another way, to copy from."""
    folder = tmp_path_factory.mktemp("settled")
    shop = Shop(folder, "  records: fail")
    lines = [f"step_{number} = take(order, {number})\n" for number in range(40)]
    for name in ("one", "two", "three"):
        shop.on_base(partial(shop.write, f"src/{name}.py", "".join(lines).replace("order", name)))
    git(shop.root, "config", "gpg.format", "ssh")
    git(shop.root, "config", "user.signingkey", str(shop.key))
    git(shop.root, "config", "commit.gpgsign", "true")
    git(shop.root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},other")
    (shop.root / "other").mkdir()
    git(shop.root, "commit", "-qm", SIGNED)
    shop.author = "zoë@example.org"
    for name in ("one", "two", "three"):
        text = (shop.root / f"src/{name}.py").read_text().replace("step_3 ", "here ").replace("step_9 ", "there ")
        (shop.root / f"src/{name}.py").unlink()
        shop.write(f"src/{name}_of_them.py", text)
    git(shop.root, "add", "src")
    git(shop.root, "commit", "-qm", SIGNED, "--author", "Zoë <zoë@example.org>")
    shop.write("ignored", git(shop.root, "rev-parse", "HEAD"))
    shop.write("src/one_of_them.py", (shop.root / "src/one_of_them.py").read_text().replace("here ", "  here "))
    git(shop.root, "commit", "-qam", "by hand")
    shop.write(".git/info/ends", git(shop.root, "rev-parse", "HEAD~1"))
    return folder, shop


@pytest.mark.parametrize(
    "setting",
    [
        "diff.interHunkContext=9",
        "diff.renameLimit=1",
        "i18n.logOutputEncoding=latin1",
        "log.showSignature=true",
        "trailer.separators==",
        "blame.ignoreRevsFile=ignored",
        "diff.ignoreSubmodules=all",
        "diff.orderFile=nowhere",
        "core.commentChar=C",
        "GIT_DIFF_OPTS=-u9",
        "GIT_LITERAL_PATHSPECS=1",
        "GIT_SHALLOW_FILE=.git/info/ends",
        "GIT_GRAFT_FILE=.git/info/ends",
    ],
)
def test_the_verdict_is_the_same_under_each_persons_settings_of_git(
    settled: tuple[Path, Shop], tmp_path: Path, setting: str
) -> None:
    folder, begun = settled
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    shop = begun.move(folder, tmp_path)
    accept(shop.root)  # what a person accepted holds for one place
    before = shop.gate("--json")
    name, _, value = setting.partition("=")
    if "GIT_" not in name:
        git(shop.root, "config", name, value)
    argv, env = ["gate", "--base", "main", "--json"], {name: value}

    assert run_main(argv, cwd=shop.root, home=shop.home, env=env).out == before.out
    assert {"LINES_NOT_KNOWN", "LINES_UNRECORDED"} <= {item["code"] for item in before.json()["findings"]}


@pytest.mark.parametrize("words", [("--base", "nowhere"), ("--head", "nowhere"), ("--base", "main..nowhere")])
def test_a_range_that_is_not_there_is_no_verdict(tmp_path: Path, words: tuple[str, str]) -> None:
    shop = Shop(tmp_path, "  records: warn")
    asked = run_main(["gate", "--base", "main", *words, "--json"], cwd=shop.root, home=shop.home)

    assert (asked.code, asked.error()["error_code"]) == (2, "USAGE")
    assert asked.error()["message"] == "'nowhere' is no commit of this repository"


@pytest.mark.parametrize("kinds", [("tags", "heads"), ("tags", "remotes")])
def test_a_tag_of_the_name_of_the_base_is_not_taken_for_it(tmp_path: Path, kinds: tuple[str, str]) -> None:
    shop = Shop(tmp_path, "  records: {level: fail, of: all}")
    shop.write("src/new.py", "print('by hand, and no record tells')\n")
    shop.commit()
    for kind, commit in zip(kinds, ("topic", "main"), strict=True):
        git(shop.root, "update-ref", f"refs/{kind}/base", commit)
    asked = run_main(["gate", "--base", "base", "--json"], cwd=shop.root, home=shop.home)
    error = asked.error()
    named = error["suggestion"].rpartition(": ")[2]
    judged = run_main(["gate", "--base", named, "--json"], cwd=shop.root, home=shop.home)

    assert (asked.code, error["error_code"], named) == (2, "USAGE", f"refs/{kinds[1]}/base")
    assert error["message"] == f"'base' names refs/{kinds[1]}/base and refs/tags/base" and judged.code == 1


def test_a_branch_hides_no_move_of_a_submodule(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  records: fail")
    shop.write(".gitmodules", '[submodule "other"]\n\tpath = other\n\turl = ./other\n\tignore = all\n')
    shop.commit("by hand")
    git(shop.root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},other")
    git(shop.root, "commit", "-qm", SIGNED)

    assert shop.codes() == ["LINES_NOT_KNOWN"]


def test_an_approval_of_somebody_else_under_a_key_of_the_base_counts(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  approval: [{{level: fail, paths: ['src/*']}}]\n{KEYS}")
    unapproved, approved, own = shop.begin(), shop.begin("fix another"), shop.begin("fix a third")
    for name, path in ((unapproved, "src/a.py"), (approved, "src/b.py"), (own, "src/c.py")):
        shop.edit(name, path)
        shop.test(name)
    shop.approve(approved)
    shop.approve(own, make_key(tmp_path, "stranger"))
    for name in (unapproved, approved, own):
        shop.end(name)
    shop.commit()

    found = {item["invocation_id"]: item["message"] for item in shop.judge()["findings"] if item["rule"] == "approval"}
    assert approved not in found
    assert "there is none" in found[unapproved] and "APPROVAL_UNVERIFIED" in found[own]


def test_who_made_the_commit_does_not_approve_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  approval: fail\n{KEYS}")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.approve(invocation_id)
    shop.end(invocation_id)
    shop.author = ADA
    shop.commit()

    found = [item for item in shop.judge()["findings"] if item["rule"] == "approval"]
    assert [item["code"] for item in found] == ["APPROVAL_MISSING"] and "made its commit" in found[0]["message"]


@pytest.mark.parametrize("wishes", [[Wish("call", "c")], [Wish(), Wish(allow=False)]])
def test_the_approval_of_one_call_or_one_that_was_taken_back_is_none_of_the_work(
    tmp_path: Path, wishes: list[Wish]
) -> None:
    shop = Shop(tmp_path, f"  approval: fail\n{KEYS}")
    invocation_id = shop.begin()
    shop.record(invocation_id, ("tool_call", {"call_id": "c", "tool": "Bash", "args": {"command": "ls"}}))
    for wish in wishes:
        shop.approve(invocation_id, wish=wish)
    shop.edit(invocation_id)
    shop.end(invocation_id)
    shop.commit()

    found = [item for item in shop.judge()["findings"] if item["rule"] == "approval"]
    assert [item["code"] for item in found] == ["APPROVAL_MISSING"]
    assert ("of a call" if len(wishes) == 1 else "it denies") in found[0]["message"]
    assert "approved by nobody" in run_main(["origin", "main..HEAD"], cwd=shop.root, home=shop.home).out


def test_the_permission_that_a_harness_tells_without_a_name_is_of_nobody_known(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  approval: fail\n{KEYS}")
    invocation_id = shop.begin()
    shop.record(
        invocation_id,
        ("tool_call", {"call_id": "c", "tool": "Bash", "args": {"command": "ls"}}),
        ("approval", {"decision": "allow", "refers_to": "call", "call_id": "c"}),
    )
    shop.edit(invocation_id)
    shop.end(invocation_id)
    shop.commit()

    (found,) = (item for item in shop.judge()["findings"] if item["rule"] == "approval")
    assert "that of unknown is signed by no key" in found["message"]


@pytest.mark.parametrize(
    ("listed", "author"),
    [
        ("ada@example.org,ada@corp.example {key}", "ada@corp.example"),
        ("{ada}\nada@corp.example {key}", "Ada@Corp.Example"),
        ("ada@example.org,ada@corp.example {key}", "ADA@example.org"),
    ],
)
def test_nobody_approves_their_own_commit_under_another_name_of_their_key(
    tmp_path: Path, listed: str, author: str
) -> None:
    shop = Shop(tmp_path, f"  approval: fail\n{KEYS}")
    ada = (shop.root / ".kittify/allowed_signers").read_text().strip()
    lines = listed.format(ada=ada, key=ada.partition(" ")[2])
    shop.on_base(lambda: shop.write(".kittify/allowed_signers", f"{lines}\n"))
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.approve(invocation_id)
    shop.end(invocation_id)
    shop.author = author
    shop.commit()
    waive(shop, "approval", invocation_id)
    value = shop.judge()

    (found,) = (item for item in value["findings"] if item["rule"] == "approval")
    assert (found["waived_by"], value["waivers"]) == (None, []) and "made its commit" in found["message"]
    assert "made its commit" in value["refused_waivers"][0]


@pytest.mark.parametrize("path", ["migrations/1.sql", "migrations/@acme/1.sql"])
def test_nobody_answers_for_a_file_that_they_committed_themselves(tmp_path: Path, path: str) -> None:
    shop = Shop(tmp_path, f"  approval: fail\n{KEYS}")
    shop.write(path, "drop table users;\n")
    shop.author = ADA
    shop.commit("by hand")
    waive(shop, "approval", path)
    value = shop.judge()

    assert (value["waivers"], [item["waived_by"] for item in value["findings"]]) == ([], [None])
    assert "made its commit" in value["refused_waivers"][0]


def test_lines_without_a_record_in_a_guarded_folder_are_not_known_to_be_approved(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  approval: {{level: fail, not_known: warn, paths: ['migrations/*']}}\n{KEYS}")
    shop.write("migrations/1.sql", "drop table users;\n")
    shop.commit("by hand")

    (found,) = shop.judge()["findings"]
    assert (found["code"], found["level"], found["known"]) == ("APPROVAL_NOT_KNOWN", "warn", False)


def waive(shop: Shop, *argv: str, key: Path | None = None, until: str = "2999-12-31") -> None:
    ran = run_main(
        ["gate", "waive", *argv, "--reason", "words only", "--until", until, "--key", str(key or shop.key), "--json"],
        cwd=shop.root,
        home=shop.home,
    )
    assert ran.code == 0, ran.err
    valid(ran.json(), "gate-files")
    shop.commit("waive")


def test_a_waiver_that_the_base_trusts_answers_for_one_invocation_and_stands_in_the_verdict(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  tests: fail\n{KEYS}")
    names = [shop.begin(), shop.begin("fix another")]
    for name in names:
        shop.edit(name, f"src/{name}.py")
        shop.end(name)
    shop.commit()
    waive(shop, "tests", names[0][-6:])  # as the verdict names it
    value, page = shop.judge(), shop.gate().out

    left = [item["invocation_id"] for item in value["findings"] if item["waived_by"] is None]
    assert left == [names[1]] and value["verdict"] == "fail"
    assert value["waivers"] == [
        {"rule": "tests", "by": ADA, "reason": "words only", "until": "2999-12-31", "findings": 1}
    ]
    assert f"waived by {ADA} until 2999-12-31" in page


@pytest.mark.parametrize("rule", ["tests", "ended"])
def test_what_a_finding_says_to_do_about_a_closed_record_does_it(tmp_path: Path, rule: str) -> None:
    shop = Shop(tmp_path, f"  {rule}: fail\n{KEYS}")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.end(invocation_id, "failed")
    shop.commit()
    shop.work("run the tests and finish it", "src/other.py")
    (finding,) = (item for item in shop.judge()["findings"] if item["rule"] == rule)
    command = re.search(r"spec-kitty gate (waive \w+ )ID", finding["next"])

    assert command, finding["next"]
    waive(shop, *command[1].split()[1:], finding["invocation_id"])
    assert shop.judge()["verdict"] == "pass"


@pytest.mark.parametrize("fault", ["stranger", "ended", "edited"])
def test_a_waiver_that_does_not_hold_counts_for_nothing_and_is_named(tmp_path: Path, fault: str) -> None:
    shop = Shop(tmp_path, f"  tests: fail\n{KEYS}")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.end(invocation_id)
    shop.commit()
    key = make_key(tmp_path, "stranger") if fault == "stranger" else None
    waive(shop, "tests", invocation_id, key=key, until="2020-01-01" if fault == "ended" else "2999-12-31")
    if fault == "edited":
        (path,) = (shop.root / ".kittify/gate-waivers").iterdir()
        path.write_text(path.read_text().replace("words only", "anything"))
        shop.commit("edit it")
    value = shop.judge()

    assert value["verdict"] == "fail" and value["waivers"] == []
    assert len(value["refused_waivers"]) == 1


@pytest.mark.parametrize("until", ["2030-02-30", "2030-99-99", "30d"])
def test_a_waiver_ends_on_a_day_that_there_is(tmp_path: Path, until: str) -> None:
    shop = Shop(tmp_path, f"  tests: fail\n{KEYS}")
    invocation_id = shop.work()
    options = ["--reason", "words only", "--until", until, "--key", str(shop.key), "--json"]
    ran = run_main(["gate", "waive", "tests", invocation_id, *options], cwd=shop.root, home=shop.home)

    assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert until in ran.error()["message"] and not (shop.root / ".kittify/gate-waivers").exists()


def test_a_waiver_for_a_file_ends_with_its_content(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  approval: fail\n{KEYS}")
    shop.write("src/new.py", "def by_hand(order):\n")
    shop.commit("by hand")
    waive(shop, "approval", "src/new.py")
    first = shop.codes()
    shop.write("src/new.py", "def by_hand(order):\ndef and_more_of_it(order):\n")
    shop.commit("more")

    assert first == [] and shop.codes() == ["APPROVAL_NOT_KNOWN"]


def test_a_waiver_that_names_what_no_finding_of_its_rule_is_about_is_told(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  allowed: {{level: fail, profiles: [critic-cato]}}\n{KEYS}")
    invocation_id = shop.work(path="src/pay.py")
    waive(shop, "allowed", "src/pay.py")
    value = shop.judge()

    (told,) = value["refused_waivers"]
    assert value["verdict"] == "fail" and "src/pay.py" in told and invocation_id in told
    waive(shop, "allowed", invocation_id)
    assert shop.judge()["refused_waivers"] == []


def test_a_secret_and_a_record_without_a_trail_and_an_unseen_change_are_found(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  secrets: fail\n  trail: fail\n  unseen: fail")
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    gap = {"reason": "unseen_change", "what": "src/new.py", "count": 1, "message": "it changed between tools"}
    shop.record(invocation_id, ("capture_gap", gap))
    shop.test(invocation_id)
    shop.end(invocation_id)
    shop.write("src/key.py", "TOKEN = 'ghp_2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiVkQ9a'\n")
    run_main(["do", "fix the login test", "--no-trail"], cwd=shop.root, home=shop.home)
    shop.commit()

    assert {"CHANGE_UNSEEN", "SECRET_WRITTEN", "NO_TRAIL"} <= set(shop.codes())


def test_a_secret_is_found_whose_name_stands_in_another_line_than_its_value(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  secrets: fail")
    empty = "env:\n  - name: DB_PASSWORD\n    valueFrom: {secretKeyRef: {name: db}}\n"
    shop.on_base(lambda: shop.write("deploy.yaml", empty))
    shop.write("deploy.yaml", "env:\n  - name: DB_PASSWORD\n    value: Harbor-stone3375\n")
    shop.write("app.yaml", "database:\n  password: >-\n    Quartz_River6308!\n")
    shop.write("user.json", '{"password":\n  "otter-Tango8960"}\n')
    shop.commit()
    findings = [one for one in shop.judge()["findings"] if one["code"] == "SECRET_WRITTEN"]

    assert {(one["path"], one["first"]) for one in findings} == {
        ("deploy.yaml", 3),
        ("app.yaml", 3),
        ("user.json", 2),
    }


def test_only_allowed_profiles_and_harnesses_write_a_guarded_file(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  allowed: {level: fail, paths: ['src/pay/*'], profiles: [critic-cato], harnesses: [codex]}")
    shop.work(path="src/pay/a.py")
    shop.work("fix another", path="src/free.py")

    messages = [item["message"] for item in shop.judge()["findings"]]
    assert len(messages) == 2 and "builder-bea" in messages[1] and "claude-code" in messages[0]
    assert all("src/pay/a.py, " in message for message in messages)


def test_a_policy_that_allows_what_it_denied_is_found_by_past_decisions(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  weakened: fail")
    policy = "rules: [{id: none, match: {kind: [directive, tactic]}, action: deny}]\n"
    shop.on_base(lambda: shop.write(".kittify/charter/policy.yaml", policy))
    shop.work()
    shop.write(".kittify/charter/policy.yaml", "rules: []\n")
    shop.commit("loosen")

    assert "DENY_BECAME_ALLOW" in shop.codes()


def test_what_a_policy_of_the_base_denied_since_a_branch_left_it_is_not_allowed_by_the_branch(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  weakened: fail", trail="private")
    shop.write(".kittify/charter/charter.md", f"{CHARTER}\n## Style\n\nNames say what they mean.\n")
    shop.commit()
    git(shop.root, "switch", "-q", "main")
    policy = "rules: [{id: none, match: {kind: [directive, tactic]}, action: deny}]\n"
    shop.write(".kittify/charter/policy.yaml", policy)
    shop.commit("deny")
    shop.work()
    git(shop.root, "switch", "-q", "topic")

    assert "DENY_BECAME_ALLOW" not in shop.codes()


def test_a_folder_where_the_base_has_a_file_since_is_named_as_what_was_not_asked(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  weakened: fail")
    shop.write(".kittify/doctrine/own/a.yaml", "id: a\n")
    shop.commit()
    git(shop.root, "switch", "-q", "main")
    shop.write(".kittify/doctrine/own", "id: own\n")
    shop.commit()
    git(shop.root, "switch", "-q", "topic")

    (found,) = [item["detail"] for item in shop.judge()["findings"] if item["code"] == "WEAKENING_NOT_KNOWN"]
    assert found == "the branch and the base give one name to a file and a folder"


def test_what_could_not_be_asked_again_beyond_those_named_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def skip(_root: str, place: Place, _sights: object) -> Answer:
        return Answer(skipped=(Skipped(place.invocation_id, "its objects are gone"),))

    monkeypatch.setattr(evidence, "_MOST_NAMED", 1)
    monkeypatch.setattr(evidence, "judge_place", skip)
    shop = Shop(tmp_path, "  weakened: fail")
    for number in range(3):
        shop.work(f"fix number {number}", path=f"src/{number}.py")
    shop.write(".kittify/charter/policy.yaml", "rules: []\n")
    shop.commit("loosen")

    said = [item["detail"] for item in shop.judge()["findings"] if item["code"] == "WEAKENING_NOT_KNOWN"]
    assert len(said) == 2 and said[1] == "2 more", said


def test_a_rule_that_is_one_only_where_case_is_folded_is_a_weakened_rule(tmp_path: Path) -> None:
    for number, name in enumerate(
        (".Kittify/charter/policy.yaml", ".kittify/GATE.yaml", ".kitti\u200cfy./config.yaml")
    ):
        (tmp_path / str(number)).mkdir()
        shop = Shop(tmp_path / str(number), "  weakened: fail")
        shop.write(name, "rules: []\n")
        shop.commit("write it otherwise")

        assert f"{name} is .kittify/" in shop.judge()["findings"][0]["message"]


def test_a_record_that_was_changed_is_damage_and_nobody_can_waive_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  tests: fail\n{KEYS}")
    invocation_id = shop.work()
    path, _ = read_record(shop, invocation_id)
    path.chmod(0o644)
    path.write_text(path.read_text().replace("fix the login test", "fix the login Test"))
    (shop.root / ".kittify/events/profile-invocations" / path.name).unlink()
    shop.commit("change")
    waive(shop, "proof", invocation_id)
    ran = shop.gate("--json")

    assert ran.code == 3 and ran.json()["verdict"] == "damaged"


def test_the_same_inputs_give_the_same_bytes_in_every_form(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ALL_FAIL)
    shop.work("fix <b>it</b> \x1b[31m| `x` [y](http://z) \u202e")
    for form in ("text", "markdown", "sarif", "junit"):
        assert shop.gate("--format", form).out == shop.gate("--format", form).out
    comment = shop.gate("--format", "markdown").out
    sarif = json.loads(shop.gate("--format", "sarif").out)

    assert ET.fromstring(shop.gate("--format", "junit").out.split("?>", 1)[1]).get("failures") == "0"
    assert sarif["version"] == "2.1.0" and sarif["runs"][0]["tool"]["driver"]["name"] == "spec-kitty gate"
    assert "<b>" not in comment and "\x1b" not in comment and "](" not in comment and "\u202e" not in comment


def test_a_comment_tells_each_invocations_story_in_a_few_words(tmp_path: Path) -> None:
    """The facts are those of the story; nothing recorded means anything to Markdown."""
    hostile = "</details><img src=x> [y](http://z) | `q` @everyone \x1b[31m \u202e\n# PASS"
    shop = Shop(tmp_path)
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.test(invocation_id, "1 failed, 3 passed in 0.1s", status="error")
    shop.test(invocation_id)
    shop.record(invocation_id, ("turn", {"text": hostile}), ("capture_gap", {"reason": "x", "what": hostile}))
    shop.end(invocation_id)
    shop.commit()
    (entry,) = [
        spell_plainly(line)
        for line in shop.gate("--format", "markdown").out.splitlines()
        if line.startswith(f"- `{invocation_id}`")
    ]
    story = run_main(["invocations", "show", invocation_id, "--story", "--json"], cwd=shop.root, home=shop.home).json()
    facts = dict(part.partition(": ")[::2] for part in entry.split("<br>")[2:])

    assert story["asked"]["request"] in entry and f"asked by {story['asked']['by']}" in entry
    assert facts["done"].startswith("2 calls, 1 failed or denied: edited src/new.py +3 −0; ran pytest -q ×2, 1 failed")
    assert (story["calls"], story["failed"], story["changed"][0]["path"]) == (2, 1, "src/new.py")
    assert "tests passed after the last change (pytest -q)" in entry and story["tests"] == "passed: pytest -q"
    assert facts["said"].startswith("</details><img src=x> [y](http://z)")
    assert all(fact["text"] in facts.get("judged", "") for fact in story["judged"][:3])
    comment = shop.gate("--format", "markdown").out
    for sign in ("<img", "](http", "\n# PASS", "@everyone", "\x1b", "\u202e", "</details> "):
        assert sign not in comment


def test_a_comment_of_many_hostile_stories_keeps_its_limits(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    for number in range(40):
        invocation_id = shop.begin("fix " + "<" * 500)
        shop.edit(invocation_id, f"src/f{number}.py", 1)
        call = ("tool_call", {"call_id": "c", "tool": f"<{number}", "args": {"q": "<" * 500}})
        shop.record(invocation_id, *[call] * 5)
        shop.record(invocation_id, ("turn", {"text": "<" * 5000}))
    shop.commit()
    comment = shop.gate("--format", "markdown").out

    assert len(comment) <= 60_000 and "40 invocations of this range" in comment and "more: --json names all" in comment


def test_a_comment_has_at_most_sixty_lines_beside_what_is_folded(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  records: {level: fail, of: all}")
    for number in range(60):
        shop.write(f"src/f{number}.py", f"def by_hand_{number}(order):\n")
    shop.commit("by hand")
    comment = shop.gate("--format", "markdown").out

    shown, folded = [], False
    for line in comment.splitlines():
        folded = folded or line.startswith("<details>")
        shown += [] if folded else [line]
        folded = folded and line != "</details>"
    assert len(shown) <= 60 and "55 more places" in comment


def test_rules_that_cannot_be_read_name_the_place(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.on_base(lambda: shop.set_rules("  tests: sometimes"))
    ran = shop.gate("--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "GATE_INVALID")
    assert "rules.tests.level" in ran.error()["message"] and "sometimes" in ran.error()["message"]


def test_a_shallow_clone_names_the_command_that_fetches_the_rest(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.work()
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{shop.root}", "clone")
    ran = run_main(
        ["gate", "--base", "origin/main", "--head", "origin/topic", "--json"], cwd=tmp_path / "clone", home=shop.home
    )

    error = json.loads(ran.err[ran.err.index("{") :])
    assert ran.code == 1 and error["suggestion"] == "git fetch --unshallow"


@pytest.mark.parametrize("path", ["src/login.py", "src/new.py"])
def test_a_partial_clone_names_the_command_that_fetches_the_rest(tmp_path: Path, path: str) -> None:
    shop = Shop(tmp_path)
    for _ in range(2):
        shop.work(path=path)
    git(shop.root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "-b", "topic", f"file://{shop.root}", "clone")
    argv, cwd = ["gate", "--base", "origin/main", "--json"], tmp_path / "clone"
    before = run_main(argv, cwd=cwd, home=shop.home)
    git(cwd, "fetch", "-q", "--refetch", "--no-filter")

    assert "git fetch --refetch --no-filter" in before.out + before.err
    assert "LINES_NOT_KNOWN" not in run_main(argv, cwd=cwd, home=shop.home).out


def test_the_defaults_are_a_file_that_can_be_used(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    text = run_main(["gate", "rules"], cwd=shop.root, home=shop.home).out
    shop.on_base(lambda: shop.write(".kittify/gate.yaml", text))

    assert shop.gate().code == 0


@pytest.mark.parametrize("size", [300 * 1024, 1100 * 1024])
def test_a_gate_file_that_is_too_large_is_no_missing_one(tmp_path: Path, size: int) -> None:
    """A base without a gate file is judged by rules that only warn."""
    shop = Shop(tmp_path, "  records: fail")
    padded = f"version: 1\nrules:\n  records: fail\n#{'x' * size}\n"
    shop.on_base(lambda: shop.write(".kittify/gate.yaml", padded))
    ran = shop.gate("--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "GATE_INVALID")


def test_a_secret_is_found_in_a_name_and_in_a_file_that_lies_among_records_and_is_none(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  secrets: fail")
    token = "ghp_2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiVkQ9a"
    junk = [
        ".kittify/trail/2026-11/secret.jsonl",
        ".kittify/trail/.git-keys",
        ".kittify/trail/log/1-8be7c47d/more.txt",
        ".kittify/events/annexes/more/more.jsonl",
    ]
    names = [f"src/{token}", f".kittify/trail/2026-11/{token}-01JD4Q3S0000000000000000A1.jsonl"]
    for name in junk:
        shop.write(name, f"token = '{token}'\n")
    for name in names:
        shop.write(name, "x = 1\n")
    git(shop.root, "add", "-Af")
    shop.commit()
    told = {(one["path"], one["first"]) for one in shop.judge()["findings"] if one["code"] == "SECRET_WRITTEN"}

    assert told == {*((name, 1) for name in junk), *((name, None) for name in names)}


def test_records_in_the_branch_are_evidence_and_no_work_that_could_hold_a_secret(tmp_path: Path) -> None:
    """A digest in a record can look like anything; what is in it was masked when it was written."""
    shop = Shop(tmp_path, "  secrets: fail\n  records: {level: fail, of: all}")
    path, _ = read_record(shop, shop.work())
    other = path.with_name(path.name.replace("builder-bea", "critic-cato"))
    other.write_text("token = 'ghp_2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiVkQ9a'\n")
    shop.commit("more")

    assert not {"SECRET_WRITTEN", "LINES_UNRECORDED"} & set(shop.codes())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rm src/login.py", "it was deleted"),
        ("sed -i 2d src/login.py", "1 line went"),
        ("chmod +x src/login.py", "its name, mode or last end of line changed"),
        ("mkdir free; mv src/login.py free/login.py", "its name, mode or last end of line changed"),
    ],
)
def test_what_goes_from_a_guarded_folder_has_to_be_approved_by_somebody_else(
    tmp_path: Path, change: str, said: str
) -> None:
    shop = Shop(tmp_path, f"  approval: {{level: fail, paths: ['src/*']}}\n{KEYS}")
    subprocess.run(["sh", "-c", change], cwd=shop.root, check=True)
    shop.commit("take it out")
    (found,) = (item for item in shop.judge()["findings"] if item["rule"] == "approval")
    verdicts = [shop.judge()["verdict"]]
    waive(shop, "approval", found["path"])
    verdicts.append(shop.judge()["verdict"])
    git(shop.root, "reset", "-q", "--hard", "HEAD~1")
    git(shop.root, "commit", "-q", "--amend", "-m", "mine", "--author", f"Ada <{ADA}>")
    waive(shop, "approval", found["path"])

    assert (found["code"], found["message"].rpartition(": ")[2]) == ("APPROVAL_NOT_KNOWN", said)
    assert verdicts == ["fail", "pass"]
    assert "made its commit" in shop.judge()["refused_waivers"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("git mv src/login.py away.py && echo 'x = by_hand()' >> away.py", "it was src/login.py"),
        ("sed -i '/^step_0/d' src/login.py", "2 lines went"),
    ],
)
def test_what_goes_by_hand_from_a_guarded_file_beside_approved_lines_is_not_known_to_be_approved(
    tmp_path: Path, change: str, said: str
) -> None:
    shop = Shop(tmp_path, f"  approval: {{level: fail, paths: ['src/*']}}\n{KEYS}")
    lines = "".join(f"step_{number} = take(order, {number})\n" for number in range(12))
    shop.on_base(lambda: shop.write("src/login.py", lines))
    run = shop.begin()
    shop.cut(run, "src/login.py", 1)
    shop.edit(run, "src/login.py", 1)
    shop.approve(run)
    shop.end(run)
    shop.commit("work")
    before = [item["code"] for item in shop.judge()["findings"] if item["rule"] == "approval"]
    subprocess.run(["sh", "-c", change], cwd=shop.root, check=True)
    shop.commit("by hand")
    found = [item for item in shop.judge()["findings"] if item["rule"] == "approval"]

    assert before == []
    assert [item["message"].rpartition(": ")[2] for item in found] == [said]


def make_projects(folder: Path, rules: str) -> list[Shop]:
    """Return two projects of one person, with the same rules and keys."""
    shops = []
    for name, uuid in (
        ("theirs", "0b0e2a5e-6a3c-4d55-9b1c-0d5b7f4d2a10"),
        ("ours", "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10"),
    ):
        (folder / name).mkdir()
        shop = Shop(folder / name, f"{rules}\n{KEYS}")
        config = f"trail: committed\nproject: {{uuid: {uuid}}}\n"
        shop.on_base(partial(shop.write, ".kittify/config.yaml", config))
        shops.append(shop)
    return shops


def take_all(theirs: Shop, ours: Shop) -> None:
    """Bring all that one project has of work and evidence into another."""
    for name in (".kittify/trail", ".kittify/events/objects", ".kittify/gate-waivers", "src"):
        if (theirs.root / name).exists():
            shutil.copytree(theirs.root / name, ours.root / name, dirs_exist_ok=True)
    ours.commit("as ours")


def test_an_approval_of_another_project_of_the_same_person_is_none_here(tmp_path: Path) -> None:
    theirs, ours = make_projects(tmp_path, "  approval: fail")
    run = theirs.begin()
    theirs.approve(run)
    theirs.edit(run)
    theirs.end(run)
    theirs.commit()
    take_all(theirs, ours)

    assert theirs.judge()["verdict"] == "pass"
    (found,) = (item for item in ours.judge()["findings"] if item["rule"] == "approval")
    assert found["message"].endswith(f"that of {ADA}: OF_ANOTHER_PROJECT")


def test_a_waiver_of_another_project_of_the_same_person_is_none_here(tmp_path: Path) -> None:
    theirs, ours = make_projects(tmp_path, "  tests: fail")
    run = theirs.begin()
    theirs.edit(run)
    theirs.end(run)
    theirs.commit()
    waive(theirs, "tests", run)
    take_all(theirs, ours)
    judged = ours.judge()

    assert theirs.judge()["verdict"] == "pass" and judged["verdict"] == "fail"
    assert judged["refused_waivers"] == [
        f"tests for {run}: it names 0b0e2a5e-6a3c-4d55-9b1c-0d5b7f4d2a10, not this one: sign it here"
    ]


def test_an_approval_and_a_waiver_from_before_they_named_a_project_say_so(tmp_path: Path) -> None:
    shop = make_projects(tmp_path, "  approval: fail\n  tests: fail")[1]
    config = (shop.root / ".kittify/config.yaml").read_text()
    shop.write(".kittify/config.yaml", "trail: committed\n")
    run = shop.begin()
    shop.approve(run)
    shop.edit(run)
    shop.end(run)
    shop.commit()
    waive(shop, "tests", run)
    shop.write(".kittify/config.yaml", config)
    shop.commit()
    judged = shop.judge()

    assert [item["message"].rpartition(": ")[2] for item in judged["findings"] if item["rule"] == "approval"] == [
        "NAMES_NO_PROJECT"
    ]
    assert judged["refused_waivers"] == [f"tests for {run}: it names no project, not this one: sign it here"]


def test_a_log_that_a_person_vouches_for_proves_nothing_of_another_project_of_theirs(tmp_path: Path) -> None:
    theirs, ours = make_projects(tmp_path, "  proof: {level: fail, reach: logged}")
    run = theirs.work()
    run_main(["trail", "enroll", "--key", str(theirs.key)], cwd=theirs.root, home=theirs.home)
    run_main(["trail", "checkpoint"], cwd=theirs.root, home=theirs.home)
    theirs.commit("the log")
    take_all(theirs, ours)

    assert theirs.judge()["proven"] == {run: "logged"} and theirs.judge()["verdict"] == "pass"
    assert ours.judge()["proven"] == {run: "linked"} and ours.codes() == ["PROOF_TOO_LOW"]


def test_a_blank_line_without_a_record_is_no_finding(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  records: {{level: fail, of: all}}\n  approval: {{level: fail, paths: ['src/*']}}\n{KEYS}")
    shop.write("src/login.py", (shop.root / "src/login.py").read_text().replace("\n", "\n\n", 1))
    shop.commit("a line between")

    assert shop.judge()["verdict"] == "pass" and shop.codes() == []


@pytest.mark.parametrize("kind", ["delete", "modify"])
def test_what_a_record_tells_to_have_gone_is_judged_as_the_lines_that_came(tmp_path: Path, kind: str) -> None:
    shop = Shop(tmp_path, f"  approval: {{level: fail, paths: ['src/*']}}\n  tests: fail\n{KEYS}")
    run = shop.begin("take it out")
    shop.cut(run, "src/login.py", 1 if kind == "modify" else None)
    shop.commit("take it out")
    unapproved = shop.codes()
    shop.approve(run)
    shop.test(run)
    shop.end(run)
    shop.commit("records")
    (file,) = shop.judge()["origin"]["files"]

    assert unapproved == ["APPROVAL_MISSING", "INVOCATION_OPEN", "TESTS_NOT_GREEN"]
    assert shop.judge()["verdict"] == "pass" and file["removed_by"] == [run]
    assert f"went by {run[-6:]}" in run_main(["origin", "main..HEAD"], cwd=shop.root, home=shop.home).out


def test_who_took_away_the_same_lines_before_and_was_undone_is_not_judged(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n  tests: fail\n{KEYS}")
    tried = shop.begin("take it out")
    shop.cut(tried, "src/login.py", 1)
    shop.end(tried, "failed")
    git(shop.root, "checkout", "-q", "--", "src/login.py")
    shop.commit("records of what was tried")
    run = shop.begin("take it out, and say why")
    shop.cut(run, "src/login.py", 1)
    shop.edit(run, "src/login.py")
    shop.test(run)
    shop.end(run)
    shop.commit("take it out, and say why")
    judged = shop.judge()

    assert (judged["verdict"], judged["findings"]) == ("pass", [])
    assert [file["removed_by"] for file in judged["origin"]["files"] if file["removed"]] == [[run]]


def test_who_took_away_again_what_another_had_put_back_is_judged(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n  tests: fail\n{KEYS}")
    start = (shop.root / "src/login.py").read_text()
    tried = shop.begin("take it out")
    shop.cut(tried, "src/login.py", 1)
    shop.write("src/login.py", start)
    shop.edit(tried, "src/new.py")
    shop.test(tried)
    shop.end(tried)
    shop.commit("something else")
    run = shop.begin("take it out after all")
    shop.cut(run, "src/login.py", 1)
    shop.end(run, "failed")
    shop.commit("take it out")

    assert shop.codes() == ["INVOCATION_FAILED", "TESTS_NOT_GREEN"]


@pytest.mark.parametrize("kind", ["delete", "modify"])
def test_who_tells_to_have_taken_away_what_a_commit_before_had_not_is_no_excuse(tmp_path: Path, kind: str) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n  tests: fail\n{KEYS}")
    shop.on_base(lambda: shop.write("src/login.py", "".join(f"step_{number}(order)\n" for number in range(9))))
    before, run = (shop.root / "src/login.py").read_text(), shop.begin("take it out")
    shop.cut(run, "src/login.py", 1 if kind == "modify" else None)
    shop.end(run, "failed")
    shop.commit("take it out")
    committed = time.time()
    wait_until(lambda: time.time() > committed + 1)  # git counts whole seconds
    later = shop.begin("add a step")
    patch = {"path": "src/login.py", "kind": kind, "before": before, "ok": True}
    after = "".join(before.splitlines(keepends=True)[:-1])
    shop.record(later, ("patch_apply", patch | ({"after": after} if kind == "modify" else {})))
    shop.edit(later, "src/login.py" if kind == "modify" else "src/new.py")
    shop.test(later)
    shop.end(later)
    shop.commit("add a step")
    judged = shop.judge()

    assert {item["invocation_id"] for item in judged["findings"]} == {run}
    assert [file["removed_by"] for file in judged["origin"]["files"] if file["removed"]] == [[run]]


def test_all_who_copied_the_same_file_are_judged(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n{KEYS}")
    text = (shop.root / "src/login.py").read_text()
    shop.write("src/second.py", text)
    runs = [shop.begin("copy the login"), shop.begin("copy the login")]
    patch = {"path": "src/second.py", "kind": "modify", "ok": True, "after": text}
    for run in runs:
        shop.record(run, ("patch_apply", patch))
        shop.end(run)
    shop.commit("copy it")
    (file,) = (file for file in shop.judge()["origin"]["files"] if file["path"] == "src/second.py")

    assert [part["copied_by"] for part in file["stretches"]] == [sorted(runs)]


def test_what_the_base_has_of_the_same_lines_excuses_nobody(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n{KEYS}")
    start = (shop.root / "src/login.py").read_text()

    def add_and_revert() -> None:
        run = shop.begin("add the steps")
        shop.edit(run, "src/login.py")
        shop.end(run)
        shop.commit("add the steps")
        shop.write("src/login.py", start)

    shop.on_base(add_and_revert)
    shop.number -= 1
    run = shop.begin("add the steps again")
    shop.edit(run, "src/login.py")
    shop.end(run, "failed")
    shop.commit("add the steps again")

    assert "INVOCATION_FAILED" in shop.codes()


def test_of_two_that_may_have_written_the_same_lines_each_with_a_fault_none_excuses_the_other(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n  tests: fail\n{KEYS}")
    tested = shop.begin("add the steps")
    shop.edit(tested, "src/login.py")
    shop.number -= 1
    shop.test(tested)
    git(shop.root, "checkout", "-q", "--", "src/login.py")
    ended = shop.begin("add the steps again")
    shop.number -= 1
    shop.edit(ended, "src/login.py")
    shop.end(ended)
    shop.commit("add the steps")

    assert shop.codes() == ["INVOCATION_OPEN", "TESTS_NOT_GREEN"]


def test_of_two_that_may_have_written_the_same_lines_one_whose_tests_ran_is_enough(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  ended: fail\n  tests: fail\n{KEYS}")
    tried = shop.begin("add the steps")
    shop.edit(tried, "src/login.py")
    shop.number -= 1
    shop.end(tried, "failed")
    git(shop.root, "checkout", "-q", "--", "src/login.py")
    shop.commit("records of what was tried")
    run = shop.begin("add the steps again")
    shop.edit(run, "src/login.py")
    shop.commit("add the steps")
    untested = shop.codes()
    shop.test(run)
    shop.end(run)
    shop.commit("records")
    judged = shop.judge()

    assert untested == ["INVOCATION_FAILED", "INVOCATION_OPEN", "TESTS_NOT_GREEN"]
    assert (judged["verdict"], judged["findings"]) == ("pass", [])
    assert {
        name for file in judged["origin"]["files"] for part in file["stretches"] for name in part["invocation_ids"]
    } == {
        tried,
        run,
    }


def test_a_file_that_a_command_copied_has_a_record(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  records: fail\n  ended: fail\n{KEYS}")

    def tell(event: str, **members: object) -> None:
        told = {"session_id": "s1", "cwd": str(shop.root), "hook_event_name": event, **members}
        run_hook("claude-code", json.dumps(told).encode(), str(shop.root), str(shop.home))

    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "cp src/login.py src/second.py"}}
    run_main(["do", "add a second login"], cwd=shop.root, home=shop.home, env={"CLAUDE_CODE_SESSION_ID": "s1"})
    tell("PreToolUse", **call)
    shutil.copy(shop.root / "src/login.py", shop.root / "src/second.py")
    tell("PostToolUse", **call, tool_response={"stdout": "", "stderr": "", "interrupted": False})
    tell("Stop", last_assistant_message="Done.")
    tell("SessionEnd", reason="other")
    shutil.copy(shop.root / "src/login.py", shop.root / "src/third.py")
    shop.commit("copy it\n\nCo-Authored-By: Claude <noreply@anthropic.com>")
    judged = shop.judge()
    files = {file["path"]: file["stretches"] for file in judged["origin"]["files"]}

    # Who copied is judged as who wrote.
    assert [(item["code"], item["path"]) for item in judged["findings"]] == [
        ("INVOCATION_OPEN", None),
        ("LINES_UNRECORDED", "src/third.py"),
        ("TESTS_NOT_GREEN", None),
    ]
    assert [(part["invocation_ids"], len(part["copied_by"])) for part in files["src/second.py"]] == [([], 1)]


def test_a_copy_that_got_lines_before_its_commit_is_told_as_a_copy_and_these_lines(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  records: fail")
    run, text = shop.begin(), (shop.root / "src/login.py").read_text()
    shop.write("src/second.py", text)
    shop.record(run, ("patch_apply", {"path": "src/second.py", "kind": "modify", "after": text, "ok": True}))
    shop.edit(run, "src/second.py")
    shop.commit(SIGNED)
    (file,) = shop.judge()["origin"]["files"]
    parts = [(part["invocation_ids"], part["copied_by"]) for part in file["stretches"]]

    assert parts == [([], [run]), ([run], [])] and "LINES_UNRECORDED" not in shop.codes()


def test_what_was_committed_before_a_command_fetched_it_is_not_copied_by_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  records: {{level: fail, of: all}}\n{KEYS}")
    shop.write("src/theirs.py", (shop.root / "src/login.py").read_text() + "# by a person\n")
    shop.commit("by a person")
    before = environment(shop.root) | {"GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    subprocess.run(["git", "commit", "-q", "--amend", "--no-edit"], cwd=shop.root, env=before, check=True)
    run_main(["do", "look at it"], cwd=shop.root, home=shop.home, env={"CLAUDE_CODE_SESSION_ID": "s1"})
    for number, command in enumerate(["rm src/theirs.py", "git checkout -- src/theirs.py"]):
        call = {"tool_name": "Bash", "tool_use_id": f"t{number}", "tool_input": {"command": command}}
        for event in ("PreToolUse", "PostToolUse"):
            told = {"session_id": "s1", "cwd": str(shop.root), "hook_event_name": event, **call}
            if event == "PostToolUse":
                subprocess.run(command, shell=True, cwd=shop.root, check=True)
                told["tool_response"] = {"stdout": "", "stderr": "", "interrupted": False}
            run_hook("claude-code", json.dumps(told).encode(), str(shop.root), str(shop.home))
    (file,) = shop.judge()["origin"]["files"]

    assert shop.codes() == ["LINES_UNRECORDED"]
    assert [(part["invocation_ids"], part["copied_by"]) for part in file["stretches"]] == [([], [])]


def test_a_binary_file_in_a_guarded_folder_is_not_known_to_be_approved_until_somebody_signs(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  approval: {{level: fail, paths: ['vendor/*']}}\n{KEYS}")
    (shop.root / "vendor").mkdir()
    (shop.root / "vendor/tool.bin").write_bytes(b"\x7fELF\0\0")
    shop.commit("vendored")

    (found,) = (item for item in shop.judge()["findings"] if item["rule"] == "approval")
    assert (found["code"], found["path"], found["level"]) == ("APPROVAL_NOT_KNOWN", "vendor/tool.bin", "fail")
    waive(shop, "approval", "vendor/tool.bin")
    assert shop.judge()["verdict"] == "pass"


def test_records_of_another_branch_that_are_not_checked_out_are_not_known(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.work()
    git(shop.root, "switch", "-q", "main")
    (shop.root / ".kittify/events/profile-invocations").rename(tmp_path / "elsewhere")

    told = shop.gate("--head", "topic", "--json").json()["origin"]["not_known"]

    assert any("1 record of" in text and "not checked out" in text for text in told)


def test_an_erasure_in_spite_of_a_hold_is_damage_and_an_ordered_one_is_none(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"  tests: fail\n{KEYS}")
    invocation_id = shop.work()
    project, _ = load_project(str(shop.root), str(shop.home))
    query = Query(invocation_id=invocation_id, members=("match_reason",))
    plan = make_plan(project, query)
    erase(project, plan, Order("ada", "asked"), time.time_ns() // 10**6)
    shop.commit("forget")
    ordered = shop.gate("--json")
    plan = make_plan(project, query._replace(members=("request_text",)))
    hold = run_main(["hold", "add", invocation_id, "--reason", "case 7"], cwd=shop.root, home=shop.home)
    finish(project, write_journal(project, plan, Order("mallory", "none"), time.time_ns() // 10**6 + 1))
    shop.commit("forget what is held")
    ran = shop.gate("--json")

    assert (ordered.code, hold.code) == (0, 0)
    assert ran.code == 3 and ran.json()["verdict"] == "damaged" and "HELD_ERASED" in ran.out


def test_nothing_on_a_hostile_branch_makes_a_comment_that_links_or_tells_somebody(tmp_path: Path) -> None:
    """Names, issues, addresses and signs of requests, paths, subjects, commands and reasons stay plain text."""
    said = "ask @octocat of #12, GH-3, ada@e.vil, https://e.vil, www.e.vil, :shipit: | `x` <b>"
    shop = Shop(tmp_path, "  records: {level: fail, of: all}\n  tests: fail\n  ended: fail")
    invocation_id = shop.begin(said)
    shop.edit(invocation_id, "src/@octocat/#12|`x`.py")
    shop.test(invocation_id, "1 failed", command=f"pytest {said}", status="error")
    shop.record(invocation_id, ("turn", {"text": said}))
    shop.write("src/@ada/www.e.vil/:shipit:.py", "def by_hand_of_somebody(order):\n")
    shop.commit(said)
    reading = read_markdown(shop.gate("--format", "markdown").out)

    assert reading.references == [] and set(reading.rows) == {4}
    assert "ask @octocat of #12, GH-3" in reading.text and "src/@ada/www.e.vil/:shipit:.py" in reading.text
    assert not {"a", "img", "b", "em", "pre"} & set(reading.tags)


def test_a_comment_fits_however_long_the_places_are() -> None:
    finding = GateFinding("", "", "fail", True, "`" * 200, None, None, None, "", "`" * 200, "do it", "")
    levels: tuple[Level, ...] = ("fail", "warn")
    findings = [finding._replace(code=code, level=level) for code in KINDS for level in levels for _ in range(9)]
    origin = Origin("a" * 40, "b" * 40, LineCounts(0, 0, 0, 0), (), (), (), ())
    judged = Judged("fail", "a" * 40, "b" * 40, "c" * 40, "the base", "", {}, tuple(findings), (), (), origin)
    comment = make_comment(judged)

    assert len(comment) <= 60_000 and all(code in comment for code in KINDS) and "| 9 places |" in comment


def test_a_range_that_is_typed_as_git_takes_it_is_judged_by_the_command_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    for _ in range(2):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    refused = run_main(["gate", "HEAD~1..HEAD", "--json"], cwd=tmp_path, home=tmp_path).error()
    argv = shlex.split(refused["suggestion"])
    told = run_main(argv[1:], cwd=tmp_path, home=tmp_path)

    assert argv[1:3] == ["gate", "--base"] and told.code == 0, told
    assert told.json()["origin"]["base"] == git(tmp_path, "rev-parse", "HEAD~1").strip()


@pytest.mark.parametrize("command", [("gate", "--base", "main"), ("origin", "main..HEAD")])
def test_a_file_that_is_written_at_a_terminal_holds_no_style_and_json_stays_on_stdout(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    shop = Shop(tmp_path, "  records: fail")
    shop.work()
    shop.write("src/hand.py", "by_hand = 1\n")
    shop.commit(SIGNED)
    at_a_terminal(shop.root, shop.home, *command, "-o", "out.txt", typed=b"")
    ran = run_main([*command, "--json", "-o", "more.txt"], cwd=shop.root, home=shop.home)

    piped = run_main(command, cwd=shop.root, home=shop.home).out
    assert (shop.root / "out.txt").read_text() == (shop.root / "more.txt").read_text() == piped
    valid(ran.json(), command[0])


def test_a_name_with_a_line_break_is_judged_like_another(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  records: fail")
    run = shop.begin()
    shop.edit(run, "src/of two\nlines.py")
    shop.record(run, ("patch_apply", {"path": "src/of two\nlines.py", "kind": "modify", "ok": True}))
    shop.test(run)
    shop.end(run)
    shop.commit()
    shop.write("src/of two\nlines.py", (shop.root / "src/of two\nlines.py").read_text() + "x = 1\n")
    shop.commit(SIGNED)
    shop.write("src/of two\nlines.py", "# by hand\n" + (shop.root / "src/of two\nlines.py").read_text())
    shop.commit("by hand")

    assert shop.codes() == ["LINES_UNRECORDED"]
