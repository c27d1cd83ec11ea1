"""Past decisions under a proposed charter: every planted transition is found, and no other, by one worker or two."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replaying import lines_of, record_path, reseal, write
from specify_cli.errors import CallerError
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.what_if.backtest import Backtest, backtest
from specify_cli.features.what_if.bisect import Culprit, find_culprit
from specify_cli.features.what_if.candidates import read_candidate
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.gates import RuleRegistry, Verdict
from specify_cli.libraries.work.sharing import Engine
from specify_cli.project.config import load_project
from specify_cli.record.ids import millis_of
from support import FULL, Cli, valid

# Each kind of change has a few records of its own, whose request names what nothing else does.
RECORDS, EACH = (2000, 5) if FULL else (20, 2)
DIRECTIVE = """kind: directive
id: {word}
title: "{word}"
body: "{word} {word} {more}"
keywords: [{word}]
"""
POLICY = """rules:
  - {{id: no-{word}, match: {{uri: doctrine://directive/{word}}}, action: deny, reason: not ours to show}}
"""
PROFILE = """profile-id: {name}
name: The one for {name}
description: Does what {name} needs.
schema-version: "2"
roles: [PLANNER]
purpose: Work on {name}.
collaboration:
  canonical-verbs: [plan]
tags: [{name}]
"""
# Enough for a list of rules that is full: a rule that comes in nowhere else is not let in for want of another.
AND_MORE = "tests that prove behaviour, evidence of findings, errors that say the next step, secrets in the trail, \
dependencies, characterization tests, minimal reproduction, small steps, parallel change, history, review passes"


def directive(root: Path, word: str, more: str = "nothing else") -> None:
    write(root, f".kittify/doctrine/directives/{word}.yaml", DIRECTIVE.format(word=word, more=more))


def always_passes(_: object) -> Verdict:
    return Verdict("pass", "enough")


def record(root: Path, request: str, profile: str | None = None) -> str:
    return ProfileInvocationExecutor(root).invoke(request, profile=profile).invocation_id


def record_gate(root: Path, request: str) -> str:
    """A gate that a rule of that name let pass, which no longer does."""
    rules = RuleRegistry()
    rules.register("at-least", always_passes)
    with open_invocation(root, request, rules=rules, capture={"tool": "full"}) as run:
        run.gate("coverage", "at-least", {"found": 1, "minimum": 2})
    return run.invocation_id


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Counter[str]]]:
    """A project with records, the project that is proposed, and the records each kind of transition is in."""
    root = tmp_path_factory.mktemp("then")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    write(root, ".kittify/charter/charter.md", "# Charter\n\n## Testing\nRun the tests.\n")
    for word in ("quokka", "zeppelin", "gazebo", "marimba"):
        directive(root, word)
    write(root, ".kittify/charter/policy.yaml", POLICY.format(word="gazebo"))
    write(root, ".kittify/profiles/walrus.agent.yaml", PROFILE.format(name="walrus"))
    made: dict[str, list[str]] = {}
    for _ in range(EACH):
        made.setdefault("rule lost", []).append(record(root, "fix the quokka test"))
        made.setdefault("rule changed", []).append(record(root, "fix the zeppelin test"))
        made.setdefault("deny->allow", []).append(record(root, "fix the gazebo test"))
        made.setdefault("allow->deny", []).append(record(root, "fix the marimba test"))
        made.setdefault("rule gained", []).append(record(root, "fix the narwhal test"))
        made.setdefault("gate", []).append(record_gate(root, "fix the login test"))
        made.setdefault("refused", []).append(record(root, f"plan the login work, {AND_MORE}", "walrus"))
        made.setdefault("route", []).append(record(root, f"plan the bathysphere, {AND_MORE}"))
    for _ in range(RECORDS - 8 * EACH):
        record(root, "fix the failing login test")
    now = tmp_path_factory.mktemp("now")
    shutil.copytree(root / ".kittify/charter", now / ".kittify/charter")
    shutil.copytree(root / ".kittify/doctrine", now / ".kittify/doctrine")
    (now / ".kittify/doctrine/directives/quokka.yaml").unlink()
    directive(now, "zeppelin", "something else")
    directive(now, "narwhal")
    write(now, ".kittify/charter/policy.yaml", POLICY.format(word="marimba"))
    profile = PROFILE.format(name="diver") + "specialization-context:\n  domain-keywords: [bathysphere]\n"
    write(now, "profiles/diver.agent.yaml", profile)
    return root, now, {kind: Counter(ids) for kind, ids in made.items()}


def run(root: Path, now: Path, workers: int = 1) -> Backtest:
    project, _ = load_project(str(root))
    return backtest(project, read_candidate(str(now), str(now / "profiles")), engine=Engine(workers))


@pytest.mark.stress
def test_every_planted_transition_is_found_and_no_other(planted: Any) -> None:
    root, now, made = planted
    report = run(root, now)
    # What is put in front of an agent is a list of bounded length: a rule that comes or goes may move the last one.
    found: dict[str, Counter[str]] = {}
    for item in report.transitions:
        if item.cause != "weight":
            found.setdefault(item.kind, Counter())[item.invocation_id] += 1

    assert found == made
    assert {(item.kind, item.cause) for item in report.transitions} - {
        ("rule gained", "weight"),
        ("rule lost", "weight"),
    } == {
        ("route", "profiles"),
        ("refused", "profiles"),
        ("rule gained", "doctrine"),
        ("rule lost", "doctrine"),
        ("rule changed", "doctrine"),
        ("deny->allow", "policy"),
        ("allow->deny", "policy"),
        ("gate", "gate rule"),
    }
    assert (report.records, report.not_evaluated, report.loosened) == (RECORDS, (), True)
    assert report.log is not None
    assert (report.log.size >= RECORDS, report.log.missing) == (True, ())
    if FULL:
        print(f"{RECORDS} records, {sum(row.transitions for row in report.table)} transitions: {report.table}")


def test_two_workers_say_the_same(planted: Any) -> None:
    root, now, _ = planted
    one, two = run(root, now), run(root, now, workers=2)

    assert one._replace(log=None) == two._replace(log=None)


def test_a_candidate_that_changes_nothing_changes_nothing(planted: Any) -> None:
    root, _, _ = planted
    project, _ = load_project(str(root))
    report = backtest(project, read_candidate(str(root), str(root / ".kittify/profiles")))

    assert {item.kind for item in report.transitions} == {"gate"}


def test_a_record_left_out_shows_and_one_that_cannot_be_read_is_named(planted: Any, tmp_path: Path) -> None:
    root, now, made = planted
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    left_out, damaged = next(iter(made["gate"])), next(iter(made["route"]))
    record_path(copy, left_out).unlink()
    path = record_path(copy, damaged)
    path.write_bytes(path.read_bytes().replace(b"bathysphere", b"bathyspheer"))
    report = run(copy, now)

    assert report.log is not None
    assert report.log.missing == (left_out,)
    assert [(item.invocation_id, item.reason.partition(":")[0]) for item in report.not_evaluated] == [
        (damaged, "unreplayable.tampered")
    ]


def test_what_only_our_code_decides_otherwise_is_said_to_be_its_doing(planted: Any, tmp_path: Path) -> None:
    root, _, made = planted
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    changed = next(iter(made["route"]))
    gone = lines_of(copy, changed)[3]["hits"][-1]
    reseal(copy, changed, lambda lines: lines[3]["hits"].pop())
    project, _ = load_project(str(copy))
    report = backtest(project, read_candidate(str(root), None))

    found = [item for item in report.transitions if item.invocation_id == changed]
    assert [(item.kind, item.name, item.cause) for item in found] == [("rule gained", gone["uri"], "code")]
    culprit = find_culprit(project, changed)
    assert (culprit.cause, culprit.commit) == ("code", None)


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (".kittify/charter/policy.yaml", "rules: [{id: x}]\n", "policy.yaml"),
        (".kittify/charter/charter.md", "\udcff", "charter.md"),
        (".kittify/charter/nothing", "", "expected charter.md"),
    ],
)
def test_a_candidate_that_cannot_be_used_is_refused(tmp_path: Path, path: str, text: str, says: str) -> None:
    if not path.endswith(".md"):
        write(tmp_path, ".kittify/charter/other", "")
    if path.endswith("policy.yaml"):
        write(tmp_path, ".kittify/charter/charter.md", "# Charter\n")
    target = tmp_path / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(CallerError) as refused:
        read_candidate(str(tmp_path), None)
    assert refused.value.code == "CHARTER_INVALID"
    assert says in refused.value.message


def test_without_a_log_the_report_says_why(tmp_path: Path) -> None:
    write(tmp_path, ".kittify/charter/charter.md", "# Charter\n")
    record(tmp_path, "fix the login test")
    shutil.rmtree(tmp_path / ".kittify/local")
    report = backtest(load_project(str(tmp_path))[0], read_candidate(str(tmp_path), None))

    assert (report.records, report.log) == (1, None)
    assert report.unsigned is not None
    assert report.unsigned.startswith("NOTHING_LOGGED")


def test_the_command_exits_1_where_what_was_kept_back_would_be_shown(cli: Cli, planted: Any, tmp_path: Path) -> None:
    root, now, _ = planted
    charter = tmp_path / "charter"
    shutil.copytree(root / ".kittify/charter", charter)
    same = cli("backtest", "--charter", str(charter), cwd=root)
    loosened = cli("backtest", "--charter", str(now), "--since", "1d", cwd=root)
    value = cli("backtest", "--charter", str(now), "--json", cwd=root)

    assert (same.code, loosened.code, value.code) == (0, 1, 1)
    assert "deny->allow" in loosened.out.splitlines()[3]
    valid(value.json(), "backtest")


BY_TAG = """rules:
  - {id: hush, match: {tag: internal}, action: redact, reason: %s}
"""


def project_with_a_tagged_rule(root: Path, reason: str = "not for agents") -> str:
    write(root, ".kittify/charter/charter.md", "# Charter\n")
    directive(root, "quokka")
    path = ".kittify/doctrine/directives/quokka.yaml"
    write(root, path, (root / path).read_text() + "tags: [internal]\n")
    write(root, ".kittify/charter/policy.yaml", BY_TAG % reason)
    return record(root, "fix the quokka test")


def proposed(root: Path, tmp_path: Path) -> Path:
    shutil.copytree(root / ".kittify/charter", tmp_path / "now/.kittify/charter")
    shutil.copytree(root / ".kittify/doctrine", tmp_path / "now/.kittify/doctrine")
    return tmp_path / "now"


def test_a_rule_that_lost_the_tag_the_policy_asks_for_is_the_doctrines_doing(tmp_path: Path) -> None:
    invocation_id = project_with_a_tagged_rule(tmp_path)
    now = proposed(tmp_path, tmp_path)
    directive(now, "quokka")

    report = backtest(load_project(str(tmp_path))[0], read_candidate(str(now), None))

    assert [(item.invocation_id, item.kind, item.cause) for item in report.transitions] == [
        (invocation_id, "redact->allow", "doctrine")
    ]
    assert report.loosened


def test_another_reason_of_a_redaction_is_what_agents_read(tmp_path: Path) -> None:
    project_with_a_tagged_rule(tmp_path)
    now = proposed(tmp_path, tmp_path)
    write(now, ".kittify/charter/policy.yaml", BY_TAG % "ask the owner first")

    report = backtest(load_project(str(tmp_path))[0], read_candidate(str(now), None))

    (found,) = report.transitions
    assert (found.kind, found.cause) == ("reason changed", "policy")
    assert (found.then, found.now) == ("not for agents", "ask the owner first")


def test_a_changed_rule_is_shown_by_its_sentence_with_the_runs_it_touches(cli: Cli, planted: Any) -> None:
    root, now, made = planted
    told = cli("backtest", "--charter", str(now), cwd=root)
    value = cli("backtest", "--charter", str(now), "--json", cwd=root).json()

    (row,) = (row for row in value["table"] if row["kind"] == "rule changed")
    assert set(row["invocation_ids"]) == set(made["rule changed"])
    assert row["first"]["diff"] == ["-zeppelin zeppelin nothing else", "+zeppelin zeppelin something else"]
    assert "    +zeppelin zeppelin something else" in told.out.splitlines()
    assert all(invocation_id[-6:] in told.out for invocation_id in made["rule changed"])


def test_what_cannot_be_asked_fails_where_all_has_to_be(cli: Cli, tmp_path: Path) -> None:
    """A record that is damaged, missing or not replayable exits 1 with --strict alone."""
    root = tmp_path / "then"
    write(root, ".kittify/charter/charter.md", "# Charter\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    whole, other = record(root, "fix the login test"), record(root, "fix the quokka test")
    asked = ["backtest", "--charter", str(root / ".kittify/charter")]
    path = record_path(root, other)
    kept = path.read_bytes()
    codes = {}
    for name in ("whole", "damaged", "missing"):
        if name == "damaged":
            path.write_bytes(kept.replace(b"quokka", b"quakka"))
        elif name == "missing":
            path.unlink()
        ways: tuple[list[str], ...] = ([], ["--strict"], ["--source", str(root)], ["--source", str(root), "--strict"])
        codes[name] = [cli(*asked, *more, cwd=root).code for more in ways]

    assert whole and codes == {"whole": [0, 0, 0, 0], "damaged": [0, 1, 0, 1], "missing": [0, 1, 0, 1]}


# --- the commit that changed a decision


def test_a_commit_after_rules_that_were_not_committed_is_found_though_a_later_one_takes_it_back(tmp_path: Path) -> None:
    """Commits of the record's own second that come before one which decides as it does are older."""
    found = []
    for name, seconds in (("later", (5, 9)), ("at once", (0, 0, 7)), ("before", (0, 0))):
        root = tmp_path / name
        git(tmp_path, "init", "-q", str(root))
        write(root, ".kittify/charter/charter.md", "# Charter\n")
        write(root, "notes", "0")
        directive(root, "quokka")
        invocation_id = record(root, "fix the quokka test")
        for number, second in enumerate(seconds):
            changed = "at once" if name == "at once" and number == 2 else "" if number % 2 else name
            directive(root, "quokka", changed or "nothing else")
            commit(root, changed or "back", millis_of(invocation_id) // 1000 + second)
        culprit = find_culprit(load_project(str(root))[0], invocation_id)
        found.append((culprit.cause, culprit.commit and culprit.commit.subject, culprit.asked))

    assert found == [("commit", "later", 1), ("commit", "at once", 1), ("none", None, 0)]


def test_a_commit_that_changes_the_budget_is_found(tmp_path: Path) -> None:
    root = tmp_path / "other"
    root.mkdir()
    git(tmp_path, "init", "-q", str(root))
    directive(root, "quokka")
    write(root, ".kittify/charter/charter.md", "# Charter\n")
    write(root, ".kittify/config.yaml", "governance:\n  context_tokens: 1500\n")
    write(root, "notes", "0")
    now = int(time.time())
    git(root, "add", "-A")
    commit(root, "rules", now - 100)
    invocation_id = record(root, "fix the quokka test")
    for at, (words, text) in enumerate(
        (
            ("a comment", "governance:\n  context_tokens: 1500  # as ever\n"),
            ("less room", "governance:\n  context_tokens: 300\n"),
            ("more room", "governance:\n  context_tokens: 1500\n"),
        )
    ):
        write(root, ".kittify/config.yaml", text)
        git(root, "add", ".kittify/config.yaml")
        commit(root, words, now + at + 1)

    found = find_culprit(load_project(str(root))[0], invocation_id)

    assert (found.cause, found.commit and found.commit.subject) == ("commit", "less room")
    assert {item.cause for item in found.transitions} == {"config"}


def git(root: Path, *words: str, at: int | None = None) -> str:
    env = {} if at is None else {"GIT_COMMITTER_DATE": f"@{at} +0000", "GIT_AUTHOR_DATE": f"@{at} +0000"}
    argv = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@b.c", *words]
    return subprocess.run(argv, env={"PATH": "/usr/bin:/bin", **env}, check=True, capture_output=True, text=True).stdout


def commit(root: Path, words: str, at: int) -> str:
    git(root, "add", "-A", ".kittify/charter", ".kittify/doctrine", "notes")
    git(root, "commit", "-q", "--allow-empty", "-m", words, at=at)
    return git(root, "rev-parse", "HEAD").strip()


def plant_history(root: Path, dice: random.Random) -> tuple[str, str | None]:
    """A history with one commit that changes what a record decided, or none; its id, and that of the record."""
    now = int(time.time())
    git(root.parent, "init", "-q", str(root))
    write(root, ".kittify/charter/charter.md", "# Charter\n\n## Testing\nRun the tests.\n")
    write(root, "notes", "0")
    directive(root, "quokka", "an older word")
    commit(root, "an older rule", now - 1000)
    directive(root, "quokka")
    directive(root, "unrelated")
    commit(root, "the rule of then", now - 900)
    invocation_id = record(root, "fix the quokka test")
    culprit = None
    steps = dice.randrange(2, 6)
    changing = dice.randrange(steps + 1)
    for number in range(steps):
        at = now + 10 * (number + 1)
        if number == changing:
            kind = dice.choice(["change", "remove", "deny", "merge"])
            if kind == "merge":
                git(root, "checkout", "-q", "-b", "side")
            if kind in ("change", "merge"):
                directive(root, "quokka", f"word {dice.random()}")
            elif kind == "remove":
                (root / ".kittify/doctrine/directives/quokka.yaml").unlink()
            else:
                write(root, ".kittify/charter/policy.yaml", POLICY.format(word="quokka"))
            culprit = commit(root, kind, at)
            if kind == "merge":
                git(root, "checkout", "-q", "-")
                write(root, "notes", f"beside {number}")
                commit(root, "beside it", at + 1)
                git(root, "merge", "-q", "--no-ff", "-m", "merge", "side", at=at + 2)
        elif culprit is not None and dice.random() < 0.3:
            directive(root, "quokka")  # back to what it was
            commit(root, "back", at)
        elif dice.random() < 0.5:
            directive(root, "walrus", f"word {number}") if dice.random() < 0.1 else write(root, "notes", str(number))
            commit(root, "other work", at)
        else:
            write(root, ".kittify/charter/policy.yaml", POLICY.format(word=f"nothing-{number}"))
            if culprit is not None:
                continue
            commit(root, "a rule that decides nothing", at)
    return invocation_id, culprit


@pytest.mark.stress
def test_the_first_commit_that_changes_a_decision_is_found(tmp_path: Path) -> None:
    wrong = []
    for seed in range(100 if FULL else 2):
        root = tmp_path / str(seed)
        root.mkdir()
        invocation_id, culprit = plant_history(root, random.Random(seed))
        git(root, "checkout", "-q", "--", ".")
        found = find_culprit(load_project(str(root))[0], invocation_id)
        if (found.commit and found.commit.sha) != culprit:
            wrong.append((seed, culprit, found))
        shutil.rmtree(root)
    assert wrong == []


def test_rules_that_are_not_committed_are_the_work_trees_doing(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "other"
    root.mkdir()
    git(tmp_path, "init", "-q", str(root))
    directive(root, "quokka")
    write(root, ".kittify/charter/charter.md", "# Charter\n")
    write(root, "notes", "0")
    commit(root, "rules", int(time.time()) - 100)
    invocation_id = record(root, "fix the quokka test")
    before = find_culprit(load_project(str(root))[0], invocation_id)
    directive(root, "quokka", "something else")
    after: Culprit = find_culprit(load_project(str(root))[0], invocation_id)
    told = cli("bisect", invocation_id, cwd=root)
    value = cli("bisect", invocation_id, "--json", cwd=root)

    assert (before.cause, before.transitions) == ("none", ())
    assert (after.cause, after.base and after.base.subject) == ("work tree", "rules")
    assert [item.kind for item in after.transitions] == ["rule changed"]
    assert (told.code, told.out.splitlines()[0]) == (1, "what is not committed yet changes it (0 commits asked before)")
    valid(json.loads(value.out), "culprit")


def test_a_commit_that_only_renames_a_rule_is_to_blame_where_the_name_is_its_id(tmp_path: Path) -> None:
    """A subject can hold what ends a line for Python and not for git."""
    culprits: list[object] = []
    for named in (DIRECTIVE, DIRECTIVE.replace("id: {word}\n", "")):
        root = tmp_path / str(len(culprits))
        git(tmp_path, "init", "-q", str(root))
        rule = root / ".kittify/doctrine/directives/quokka.yaml"
        write(root, ".kittify/doctrine/directives/quokka.yaml", named.format(word="quokka", more=""))
        write(root, ".kittify/charter/charter.md", "# Charter\n")
        write(root, "notes", "0")
        commit(root, "rules\u2028of then", int(time.time()) - 100)
        invocation_id = record(root, "fix the quokka test")
        rule.rename(rule.with_name("wombat.yaml"))
        commit(root, "another\x0cname", int(time.time()) + 10)
        found = find_culprit(load_project(str(root))[0], invocation_id)
        culprits.append((found.cause, found.commit and found.commit.subject))

    assert culprits == [("none", None), ("commit", "another\x0cname")]


def test_a_file_git_cannot_read_blames_no_commit(tmp_path: Path) -> None:
    root = tmp_path / "other"
    root.mkdir()
    git(tmp_path, "init", "-q", str(root))
    directive(root, "quokka")
    write(root, ".kittify/charter/charter.md", "# Charter\n")
    write(root, "notes", "0")
    commit(root, "rules", int(time.time()) - 100)
    invocation_id = record(root, "fix the quokka test")
    blob = git(root, "rev-parse", "HEAD:.kittify/doctrine/directives/quokka.yaml").strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(CallerError) as refused:
        find_culprit(load_project(str(root))[0], invocation_id)
    assert (refused.value.code, blob in refused.value.message) == ("COMMIT_NOT_FOUND", True)


def test_git_is_asked_a_few_times_for_each_commit_however_many_rules_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, calls, wrapper = tmp_path / "shop", tmp_path / "calls", tmp_path / "bin/git"
    root.mkdir()
    git(tmp_path, "init", "-q", str(root))
    write(root, ".kittify/charter/charter.md", "# Charter\n")
    write(root, "notes", "0")
    for number in range(60):
        directive(root, f"quokka{number}")
    commit(root, "rules", int(time.time()) - 100)
    invocation_id = record(root, "fix the quokka test")
    for number in range(3):
        write(root, ".kittify/charter/charter.md", f"# Charter\n\n{number}\n")
        commit(root, str(number), int(time.time()) + 10 + number)
    write(tmp_path, "bin/git", f'#!/bin/sh\necho >> {calls}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    find_culprit(load_project(str(root))[0], invocation_id)
    assert 4 < len(calls.read_text().splitlines()) < 30


def test_without_a_repository_there_are_no_commits_to_ask(tmp_path: Path) -> None:
    write(tmp_path, ".kittify/charter/charter.md", "# Charter\n")
    invocation_id = record(tmp_path, "fix the login test")

    with pytest.raises(CallerError) as refused:
        find_culprit(load_project(str(tmp_path))[0], invocation_id)
    assert refused.value.code == "NOT_A_REPOSITORY"
