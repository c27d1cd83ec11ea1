"""Exact replay: the same decisions from what a record kept, or a finding that says where they differ and why.

A test that covers a case of the acceptance list has its name in the id, with - and . as _.
"""

from __future__ import annotations

import difflib
import json
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import resealing
from charter import selection as charter_selection
from doctrine.light_imports import hash_bytes
from replaying import (
    Lines,
    edit_manifest,
    files_below,
    invoked,
    lines_of,
    manifest_of,
    note,
    object_path,
    policy,
    project_of,
    ran,
    record_path,
    reseal,
    write,
)
from specify_cli.errors import InvocationError
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.features.replay.judge import Replayed, capture_mode, judge_retrieval, parse_epsilon, plain
from specify_cli.features.replay.outcomes import Code, Finding, Outcome, Retrieval
from specify_cli.features.replay.quiet import NetworkDenied, network_denied
from specify_cli.features.replay.replay import Options, replay
from specify_cli.features.replay.reports.page import first_screen, page_of
from specify_cli.features.replay.reports.report import report_bytes, view_report
from specify_cli.invocation import gates
from specify_cli.invocation.ends.opening import Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.gates import RuleRegistry, Verdict
from specify_cli.record import snapshot
from specify_cli.record.reading.views import as_lists
from specify_cli.record.seal import digest_of
from specify_cli.storage.checking import verify_all
from specify_cli.storage.objects import FileObjectStore
from support import FULL, valid

CONTEXT = 3  # the seq of the response that gave the governance context


def replayed(root: Path, invocation_id: str, **given: Any) -> Replayed:
    return replay(project_of(root), invocation_id, Options(**given))


def codes(found: Replayed) -> list[str]:
    return [item.code for item in found.findings]


def refused(root: Path, invocation_id: str, **given: Any) -> InvocationError:
    with pytest.raises(InvocationError) as caught:
        replayed(root, invocation_id, **given)
    return caught.value


def rehash(lines: Lines, seq: int = CONTEXT) -> None:
    """Make a response's own digest fit what it holds."""
    response = lines[seq]
    response["result_hash"] = digest_of({key: response[key] for key in ("hits", "filters_applied")})


# --- the same again


@pytest.mark.parametrize("verb", ["advise", "ask", "do"])
def test_exact_replay_same_hits_for_every_verb(chartered: Path, verb: str) -> None:
    invocation_id = invoked(chartered, verb=verb)

    found = replayed(chartered, invocation_id)

    assert found.match and not found.findings
    assert found.reruns[0].expected == found.reruns[0].actual
    assert found.router[0] == found.router[1]
    assert len(found.reruns[0].actual.hits) > 3


def test_it_reads_nothing_live(chartered: Path) -> None:
    """Charter, doctrine and profiles may be gone, the policy replaced: no difference."""
    policy(chartered)
    note(chartered, "name")
    write(
        chartered,
        ".kittify/profiles/own.agent.yaml",
        "profile-id: own\nname: Own\nroles: [implementer]\nrouting-priority: 90\n"
        "specialization: {domain-keywords: [login]}\n",
    )
    invocation_id = invoked(chartered)
    before = replayed(chartered, invocation_id)
    for name in ("charter", "doctrine", "profiles"):
        shutil.rmtree(chartered / ".kittify" / name)
    policy(chartered, "rules: [{id: x, match: {kind: directive}, action: deny}]\n")

    after = replayed(chartered, invocation_id)

    assert after.match and after == before
    assert after.past.started["profile_id"] == "own"


def test_replay_writes_nothing_and_leaves_the_record_alone(chartered: Path) -> None:
    invocation_id = ran(chartered, lambda run: run.retrieve("login", k=2))
    before = files_below(chartered)

    replayed(chartered, invocation_id)

    assert files_below(chartered) == before


def test_snapshot_null_vs_absent(chartered: Path) -> None:
    """A run without a policy on purpose replays under none; one from before snapshots is refused."""
    without = invoked(chartered)
    older = "01JD4Q3S0000000000000000A1"
    lines = [
        {"event": "started", "invocation_id": older, "profile_id": "p", "started_at": "2024-11-20T09:00:00Z"},
        {"event": "completed", "invocation_id": older, "completed_at": "2024-11-20T09:01:00Z"},
    ]
    write(chartered, f"kitty-ops/{older}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    assert replayed(chartered, without).match
    assert refused(chartered, older).code == "unreplayable.missing_policy_snapshot"


def test_a_later_unknown_event_is_passed_over_and_said(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    reseal(chartered, invocation_id, lambda lines: lines.insert(4, {"event": "mood", "at": lines[1]["at"]}))

    found = replayed(chartered, invocation_id)

    assert found.match is None
    assert [fields["event"] for fields in found.past.unknown] == ["mood"]


def test_a_record_of_a_newer_format_is_not_said_to_be_fully_evaluated(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    path = record_path(chartered, invocation_id)
    bodies = [{**line, "v": 3} for line in lines_of(chartered, invocation_id)]
    path.write_bytes(resealing.reseal(bodies))

    found = replayed(chartered, invocation_id)

    assert found.match is None and not found.findings
    assert [item.reason for item in found.not_evaluated] == ["its format is newer than this reader: v 3"]


def test_an_open_record_with_a_torn_tail_replays_and_says_so(chartered: Path) -> None:
    invocation_id = invoked(chartered, close=False)
    with record_path(chartered, invocation_id).open("ab") as file:
        file.write(b'{"at":"2024')

    found = replayed(chartered, invocation_id)

    assert found.match
    assert [code for code, *_ in found.integrity.notes] == ["TORN_TAIL"]


def test_a_request_too_long_for_a_line_replays_from_its_object(chartered: Path) -> None:
    invocation_id = invoked(chartered, "fix the login test " + "\n" * 700_000)

    found = replayed(chartered, invocation_id)

    assert "request_object" in found.past.started
    assert found.match and len(found.request) > 700_000


# --- each finding alone


def drop_hit(lines: Lines) -> None:
    del lines[CONTEXT]["hits"][-1]
    rehash(lines)


def add_hit(lines: Lines) -> None:
    hit = {**lines[CONTEXT]["hits"][-1], "uri": "doctrine://directive/forgotten", "rank": 99}
    lines[CONTEXT]["hits"].append(hit)
    rehash(lines)


def change_digest(lines: Lines) -> None:
    lines[CONTEXT]["hits"][0]["digest"] = "0" * 64
    rehash(lines)


def change_score(lines: Lines) -> None:
    lines[CONTEXT]["hits"][0]["score"] = "0.950001000"
    rehash(lines)


def change_explanation(lines: Lines) -> None:
    lines[CONTEXT]["hits"][0]["explain"]["graph"] = "0.000000123"
    rehash(lines)


def change_filter(lines: Lines) -> None:
    lines[CONTEXT]["filters_applied"].append({"rule_id": "r", "uri": "doctrine://tactic/x", "action": "deny"})
    rehash(lines)


def change_routing(lines: Lines) -> None:
    lines[0]["match_reason"] = "because"


def change_text(lines: Lines) -> None:
    lines[0]["governance_context_hash"] = "f" * 64


def change_result_hash(lines: Lines) -> None:
    lines[CONTEXT]["result_hash"] = "f" * 64


def change_query(lines: Lines) -> None:
    lines[2]["query"] = "something else"


@pytest.mark.parametrize(
    ("edit", "code", "part"),
    [
        pytest.param(add_hit, "HIT_MISSING", "retrieval", id="exact_replay_missing_hit"),
        pytest.param(drop_hit, "HIT_EXTRA", "retrieval", id="extra_hit"),
        pytest.param(change_digest, "HIT_CHANGED", "retrieval", id="changed_hit"),
        pytest.param(change_score, "SCORE_MISMATCH", "retrieval", id="exact_replay_score_outside_epsilon"),
        pytest.param(change_explanation, "EXPLAIN_MISMATCH", "retrieval", id="explanation"),
        pytest.param(change_filter, "DECISION_MISMATCH", "policy", id="policy_decision"),
        pytest.param(change_routing, "DECISION_MISMATCH", "router", id="routing"),
        pytest.param(change_text, "NOT_REPRODUCED", "context", id="governance_text"),
        pytest.param(change_result_hash, "NOT_REPRODUCED", "context", id="result_hash"),
        pytest.param(change_query, "NOT_REPRODUCED", "context", id="query"),
    ],
)
def test_one_difference_is_one_finding(chartered: Path, edit: Callable[[Lines], None], code: str, part: str) -> None:
    invocation_id = invoked(chartered)
    reseal(chartered, invocation_id, edit)

    found = replayed(chartered, invocation_id)

    assert [(item.code, item.part, item.severity) for item in found.findings] == [(code, part, "error")]
    assert not found.match


def test_a_score_mismatch_says_both_scores_and_how_far_they_are_apart(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    score = Decimal(lines_of(chartered, invocation_id)[CONTEXT]["hits"][0]["score"])
    reseal(chartered, invocation_id, change_score)

    (found,) = replayed(chartered, invocation_id).findings

    apart = plain(abs(Decimal("0.950001") - score))
    assert f"0.950001000 then, {score} now, {apart} apart" in found.message
    assert (found.expected, found.actual, found.seq) == ("0.950001000", str(score), 2)


def test_epsilon_is_the_callers(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    reseal(chartered, invocation_id, change_score)

    assert replayed(chartered, invocation_id, epsilon="1").match
    assert codes(replayed(chartered, invocation_id, epsilon="0")) == ["SCORE_MISMATCH"]
    assert refused(chartered, invocation_id, epsilon="soon").code == "INVALID_VALUE"


def test_a_gate_that_decides_otherwise_is_a_finding(chartered: Path) -> None:
    invocation_id = ran(chartered, lambda run: run.gate("merge", "at-least", {"found": 3, "minimum": 2}))
    assert replayed(chartered, invocation_id).match

    def deny(lines: Lines) -> None:
        (gate,) = (line for line in lines if line["event"] == "gate_decision")
        gate["outcome"] = "fail"

    reseal(chartered, invocation_id, deny)

    (found,) = replayed(chartered, invocation_id).findings
    assert (found.code, found.part, found.expected, found.actual) == ("DECISION_MISMATCH", "gate", "fail", "pass")
    assert found.message.endswith("gate merge: outcome")


def test_a_state_that_folds_to_another_is_not_reproduced(chartered: Path) -> None:
    invocation_id = ran(chartered, lambda run: run.commit("here"))
    reseal(chartered, invocation_id, lambda lines: lines[4].update(state_hash="0" * 64))

    assert [(item.code, item.part) for item in replayed(chartered, invocation_id).findings] == [
        ("NOT_REPRODUCED", "state")
    ]


def _other_code(root: Path, invocation_id: str) -> None:
    edit_manifest(root, invocation_id, lambda manifest: manifest["code"].update(router=0, retrieval=0, context=0))


def test_other_code_and_the_same_result_is_a_match(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    _other_code(chartered, invocation_id)

    assert not replayed(chartered, invocation_id).findings


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (change_text, ["CODE_DRIFT"]),
        (change_score, ["SCORE_MISMATCH", "CODE_DRIFT"]),
        (change_routing, ["DECISION_MISMATCH", "CODE_DRIFT"]),
    ],
)
def test_other_code_and_another_result_is_code_drift_naming_both_versions(
    chartered: Path, edit: Callable[[Lines], None], expected: list[str]
) -> None:
    invocation_id = invoked(chartered)
    _other_code(chartered, invocation_id)
    reseal(chartered, invocation_id, edit)

    found = replayed(chartered, invocation_id)

    name = "router" if edit is change_routing else "retrieval"
    assert codes(found) == expected
    assert f"{name} 0 -> {snapshot.CODE_VERSIONS[name]}" in found.findings[-1].message
    assert found.findings[-1].expected != found.findings[-1].actual


def test_a_scorer_that_changed_without_a_word_is_not_reproduced_or_drift(
    chartered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specific finding says what differs; that the code says it is another is the only proof of drift."""
    invocation_id = invoked(chartered)
    real = charter_selection.score_applies
    monkeypatch.setattr(charter_selection, "score_applies", lambda *of: (real(*of)[0] * 999 // 1000, real(*of)[1]))
    silent = codes(replayed(chartered, invocation_id))
    monkeypatch.setattr(snapshot, "CODE_VERSIONS", {**snapshot.CODE_VERSIONS, "retrieval": 99})
    told = codes(replayed(chartered, invocation_id))

    assert "SCORE_MISMATCH" in silent and "CODE_DRIFT" not in silent
    assert told == [*silent, "CODE_DRIFT"]


# --- two outcomes of one request


def hit(uri: str, score: str, **other: Any) -> dict[str, Any]:
    explain = {"lexical": score, "graph": "0.000000000", "tag": "0.000000000"}
    return {"uri": uri, "digest": hash_bytes(uri.encode()), "rank": 1, "score": score, "explain": explain, **other}


def judged(then: list[dict[str, Any]], now: list[dict[str, Any]], epsilon: str = "1e-9") -> list[Finding]:
    request = {"seq": 7, "request_id": "r1"}
    code = Code(snapshot.CODE_VERSIONS, snapshot.CODE_VERSIONS)
    one, two = (Outcome(tuple(hits), ()) for hits in (then, now))
    return judge_retrieval(Retrieval(request, None), one, two, parse_epsilon(epsilon), code)


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        pytest.param("0.950000000", "0.9500000005", [], id="exact_replay_score_within_epsilon"),
        pytest.param("0.950000000", "0.950000001", [], id="exactly_epsilon"),
        pytest.param("0.950000000", "0.950000002", ["SCORE_MISMATCH"], id="just_outside"),
        pytest.param("0.950000000", "0.950001", ["SCORE_MISMATCH"], id="exact_replay_score_outside_epsilon"),
        pytest.param("0.950000000", "none", ["SCORE_MISMATCH"], id="no_number"),
        pytest.param("123456789.123456789", "123456789.123456790", [], id="no_float_in_between"),
    ],
)
def test_scores_are_compared_exactly(then: str, now: str, expected: list[str]) -> None:
    found = judged([hit("a", then)], [{**hit("a", then), "score": now}])

    assert [item.code for item in found] == expected


def test_exact_replay_order_change() -> None:
    """Two hits within epsilon swap places: a warning, and a match."""
    a, b = hit("a", "0.500000001"), hit("b", "0.500000000")

    (found,) = judged([a, b], [b, a])

    assert (found.code, found.severity) == ("ORDER_CHANGED", "warning")
    assert (found.expected, found.actual) == (["a", "b"], ["b", "a"])


def test_an_order_that_epsilon_does_not_explain_is_an_error() -> None:
    a, b = hit("a", "0.900000000"), hit("b", "0.500000000")

    assert [(item.code, item.severity) for item in judged([a, b], [b, a])] == [("ORDER_CHANGED", "error")]


def test_an_order_that_a_changed_score_explains_is_a_warning() -> None:
    a, b, better = hit("a", "0.900000000"), hit("b", "0.500000000"), hit("b", "0.950000000")
    found = judged([a, b], [{**better, "explain": b["explain"]}, a])

    assert [(item.code, item.severity) for item in found] == [("SCORE_MISMATCH", "error"), ("ORDER_CHANGED", "warning")]


def test_every_difference_is_listed() -> None:
    found = judged([hit("a", "0.9"), hit("b", "0.8")], [hit("c", "0.7"), hit("b", "0.6")])

    assert [item.code for item in found] == ["HIT_MISSING", "SCORE_MISMATCH", "EXPLAIN_MISMATCH", "HIT_EXTRA"]


@pytest.mark.parametrize("text", ["", "x", "NaN", "-1", "2", "Infinity", "1e-9e"])
def test_what_is_no_epsilon_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a decimal"):
        parse_epsilon(text)


# --- gates


def test_gate_decision_reproduced(chartered: Path) -> None:
    """Outcome, reason and blocking flag of a recorded gate come out again from its recorded inputs."""

    def work(run: Run) -> None:
        run.gate("a", "all-true", {"tests": True, "docs": False})
        run.gate("b", "paths-within", {"paths": ["src/a"], "allowed": ["src"]}, blocking=False)

    invocation_id = ran(chartered, work)

    found = replayed(chartered, invocation_id)
    assert [(gate.status, gate.outcome, gate.reason_code, gate.fields["blocking"]) for gate in found.gates] == [
        ("reproduced", "fail", "not_true:docs", True),
        ("reproduced", "pass", "paths_within", False),
    ]


def test_a_rule_that_is_absent_or_another_is_listed_and_never_passed(chartered: Path) -> None:
    registry = RuleRegistry()
    registry.register("mine", lambda inputs: Verdict("pass", str(inputs["n"])))
    invocation_id = ran(chartered, lambda run: run.gate("g", "mine", {"n": 1}), rules=registry)
    another = RuleRegistry()
    another.register("mine", lambda inputs: Verdict("pass", "other" if inputs else "none"))

    absent, other, same = (
        replayed(chartered, invocation_id, rules=rules) for rules in (RuleRegistry(), another, registry)
    )

    assert [found.gates[0].status for found in (absent, other, same)] == [
        "not_reevaluated",
        "not_reevaluated",
        "reproduced",
    ]
    assert "no rule mine is registered" in absent.gates[0].why
    assert "another one now" in other.gates[0].why
    assert [found.match for found in (absent, other, same)] == [None, None, True]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"capture": {"tool": "hash"}}, "inputs were not kept"),
        ({"capture": {"tool": "off"}}, "inputs were not kept"),
    ],
)
def test_a_gate_whose_inputs_were_not_kept_is_listed(chartered: Path, given: dict[str, Any], why: str) -> None:
    invocation_id = ran(chartered, lambda run: run.gate("g", "all-true", {"x": True}), **given)

    (gate,) = replayed(chartered, invocation_id).gates

    assert gate.status == "not_reevaluated" and why in gate.why


def test_a_gate_recorded_without_a_rule_digest_is_listed(chartered: Path) -> None:
    executor = ProfileInvocationExecutor(chartered)
    invocation_id = invoked(chartered, close=False)
    payload = {"gate": "g", "rule_ref": "mine", "outcome": "pass", "reason_code": "all_true", "inputs": {}}
    executor.record(invocation_id, [("gate_decision", payload)])

    (gate,) = replayed(chartered, invocation_id).gates

    assert (gate.status, gate.why) == ("not_reevaluated", "no digest of rule mine was recorded")


def test_a_rule_that_raises_on_what_it_decided_before_is_a_finding(chartered: Path) -> None:
    invocation_id = ran(chartered, lambda run: run.gate("g", "at-least", {"found": 1, "minimum": 1}))
    objects = FileObjectStore(str(chartered))
    objects.put((), (b"{}",))

    def swap(lines: Lines) -> None:
        (gate,) = (line for line in lines if line["event"] == "gate_decision")
        gate["inputs"] = hash_bytes(b"{}")

    reseal(chartered, invocation_id, swap)

    found = replayed(chartered, invocation_id).findings
    assert [(item.code, item.actual) for item in found] == [
        ("DECISION_MISMATCH", "raised"),
        ("DECISION_MISMATCH", "KeyError: 'found'"),
    ]


def test_what_a_rule_prints_stands_in_no_report(
    chartered: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "replay_rules_that_print"
    source = (
        "from specify_cli.invocation import gates\n"
        "print('imported')\n"
        "@gates.RULES.rule('loud')\n"
        "def loud(inputs):\n"
        "    print('judged')\n"
        "    return gates.Verdict('pass', 'ok')\n"
    )
    (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(gates, "RULES", gates.RULES.copy())
    monkeypatch.syspath_prepend(tmp_path)
    __import__(name)
    invocation_id = ran(chartered, lambda run: run.gate("g", "loud", {"n": 4}), rules=gates.RULES)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(gates, "RULES", RuleRegistry())
    capsys.readouterr()

    named = replayed(chartered, invocation_id, rules_module=name)

    assert named.gates[0].status == "reproduced"
    assert tuple(capsys.readouterr()) == ("", "imported\njudged\n")
    monkeypatch.delitem(sys.modules, name)


def test_rules_come_from_the_module_the_user_names(
    chartered: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A record that names a rule imports nothing; the module is imported because it is named, network denied."""
    name = "replay_rules_of_a_project"
    source = (
        "from specify_cli.invocation import gates\n"
        "@gates.RULES.rule('even-number')\n"
        "def even(inputs):\n"
        "    return gates.Verdict('pass' if inputs['n'] % 2 == 0 else 'fail', 'parity')\n"
    )
    (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gates, "RULES", gates.RULES.copy())
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.path.insert(0, str(tmp_path))
    module = __import__(name)
    invocation_id = ran(chartered, lambda run: run.gate("g", "even-number", {"n": 4}), rules=gates.RULES)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(gates, "RULES", RuleRegistry())

    without = replayed(chartered, invocation_id)
    assert name not in sys.modules and without.gates[0].status == "not_reevaluated"
    named = replayed(chartered, invocation_id, rules_module=name)

    assert module.even and named.gates[0].status == "reproduced"
    assert refused(chartered, invocation_id, rules_module="no_such_module_here").code == "RULES_NOT_FOUND"
    monkeypatch.delitem(sys.modules, name)


# --- patches


def unified(before: str, after: str) -> str:
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/x", "b/x"))


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("modify", "one\ntwo\n", "one\nthree\n"),
        ("create", None, "new\n"),
        ("create", None, "no line feed at the end"),
        ("delete", "gone\n", None),
        ("modify", "x\n" * 20_000, "x\n" * 19_999 + "y\n"),
    ],
    ids=["modify", "create", "without_lf", "delete", "as_objects"],
)
def test_a_patch_whose_diff_and_before_are_held_is_applied_again(
    chartered: Path, kind: str, before: str | None, after: str | None
) -> None:
    texts = {"before": before, "after": after, "diff": unified(before or "", after or "")}
    told: dict[str, Any] = {key: text for key, text in texts.items() if text is not None}
    invocation_id = ran(chartered, lambda run: run.patch("x", kind, **told))

    found = replayed(chartered, invocation_id)
    assert found.match and [item.status for item in found.patches] == ["reproduced"]

    def forge(lines: Lines) -> None:
        (patch,) = (line for line in lines if line["event"] == "patch_apply")
        patch["after_hash"] = "0" * 64

    reseal(chartered, invocation_id, forge)
    (wrong,) = replayed(chartered, invocation_id).findings
    assert (wrong.code, wrong.part, wrong.expected) == ("PATCH_MISMATCH", "patch", "0" * 64)
    assert wrong.actual != wrong.expected


def test_a_diff_that_does_not_apply_is_a_patch_mismatch(chartered: Path) -> None:
    work: Callable[[Run], object] = lambda run: run.patch(  # noqa: E731
        "x", "modify", before="a\n", after="b\n", diff="@@ -9 +9 @@\n-z\n+b\n"
    )
    (found,) = replayed(chartered, ran(chartered, work)).findings

    assert found.code == "PATCH_MISMATCH" and "does not apply" in found.message


def test_a_new_file_whose_text_before_was_only_hashed_is_not_evaluated(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.patch("new.py", "create", before="", after="x")

    found = replayed(chartered, ran(chartered, work, capture={"tool": "hash"}))

    assert (found.match, codes(found)) == (None, [])


@pytest.mark.parametrize(
    ("told", "capture", "why"),
    [
        ({"before": "a\n"}, "full", "the diff is missing (nothing of it is kept), and so is the file after it"),
        ({"after": "b\n"}, "full", "the diff is missing (nothing of it is kept), and so is the file before it"),
        ({"diff": "@@ -1 +1 @@\n-a\n+b\n", "after": "b\n"}, "full", "the file before it is missing"),
        ({"before": "a\n" * 900, "after": "b\n", "diff": "@@ -1 +1 @@\n-a\n+b\n"}, "summary", "captured as summary"),
        ({"before": "a\n", "after": "b\n", "diff": "@@ -1 +1 @@\n-a\n+b\n"}, "hash", "captured as hash"),
        ({"before": "a\n", "after": "b\n", "diff": "@@ -1 +1 @@\n-a\n+b\n", "ok": False}, "full", "did not apply when"),
    ],
)
def test_a_patch_that_cannot_be_made_again_is_listed(
    chartered: Path, told: dict[str, Any], capture: str, why: str
) -> None:
    invocation_id = ran(chartered, lambda run: run.patch("x", "modify", **told), capture={"tool": capture})

    (patch,) = replayed(chartered, invocation_id).patches

    assert patch.status == "not_reapplied" and why in patch.why


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("modify", {"before": "a\n", "after": "b\n"}),
        ("modify", {"before": "a\n", "diff": "@@ -1 +1 @@\n-a\n+b\n"}),
        ("create", {"after": "b\n"}),
        ("create", {"diff": "@@ -0,0 +1 @@\n+b\n"}),
        ("delete", {"before": "a\n"}),
    ],
)
def test_a_patch_is_applied_again_from_whatever_of_it_is_whole(
    chartered: Path, kind: str, told: dict[str, Any]
) -> None:
    found = replayed(chartered, ran(chartered, lambda run: run.patch("x", kind, **told)))

    assert found.match and [item.status for item in found.patches] == ["reproduced"]


def test_the_patches_of_a_path_are_a_chain(chartered: Path) -> None:
    """A diff alone goes on from what the patch before it left, and a patch that begins elsewhere is noticed."""

    def work(run: Run) -> None:
        run.patch("x", "create", after="a\n")
        run.patch("y", "create", after="other\n")
        run.patch("x", "modify", diff="@@ -1 +1 @@\n-a\n+b\n")
        run.patch("x", "modify", before="b\n", after="c\n")
        run.patch("x", "modify", before="z\n", after="d\n")

    found = replayed(chartered, ran(chartered, work))

    assert [item.status for item in found.patches] == ["reproduced"] * 5
    assert [(item.code, item.severity, item.seq) for item in found.findings] == [("PATCH_GAP", "warning", 8)]
    assert found.match is None, "nothing differs, and what happened between two changes is not known"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("g", "create", {"after": "a\n"}), ("g", "create", {"after": "b\n"})),
        (("g", "create", {"after": "a\n"}), ("./g", "create", {"after": "b\n"})),
        (("g", "create", {"after": "a\n"}), ("./g", "modify", {"before": "z\n", "after": "b\n"})),
        (("s/../g", "create", {"after": "a\n"}), ("g", "modify", {"before": "z\n", "after": "b\n"})),
        (("g", "delete", {"before": "a\n"}), ("g", "modify", {"before": "a\n", "after": "b\n"})),
        (("g", "delete", {"before": "a\n"}), ("g", "delete", {"before": "a\n"})),
        (("g", "modify", {"before": "a\n" * 900, "after": "b\n" * 900}), ("g", "create", {"after": "b\n"})),
    ],
)
def test_a_change_of_what_the_change_before_it_did_not_leave_is_a_gap(
    chartered: Path, first: tuple[str, str, dict[str, Any]], second: tuple[str, str, dict[str, Any]]
) -> None:
    def work(run: Run) -> None:
        for path, kind, told in (first, second):
            run.patch(path, kind, **told)

    found = replayed(chartered, ran(chartered, work))

    assert [item.code for item in found.findings] == ["PATCH_GAP"]
    assert found.match is None


def test_changes_that_follow_one_another_are_no_gap(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.patch("g", "create", after="a\n")
        run.patch("./g", "modify", before="a\n", after="b\n")
        run.patch("g", "create", after="c\n", ok=False)
        run.patch("g", "delete", before="b\n")
        run.patch("g", "create", after="a\n")
        run.patch("h", "create", after="a\n")

    assert not replayed(chartered, ran(chartered, work)).findings


def test_what_could_not_be_recorded_is_not_evaluated(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.record("capture_gap", {"reason": "write_failed", "what": "tool_call", "count": 3, "message": "disk full"})
        run.record("capture_gap", {"reason": "capture_changed", "what": "prompt", "message": "summary, then hash"})

    found = replayed(chartered, ran(chartered, work))

    assert [(item.what, item.reason) for item in found.not_evaluated] == [("3 tool_call", "write_failed: disk full")]
    assert found.match is None


def test_what_is_not_whole_exits_alike_wherever_it_is_asked(chartered: Path, cli: Any) -> None:
    """A gap between two changes, a gap in the recording and a step without its output: 0, and 1 where strict."""

    def patch(run: Run) -> None:
        run.patch("g", "create", after="a\n")
        run.patch("g", "create", after="b\n")

    def lose(run: Run) -> None:
        run.record("capture_gap", {"reason": "write_failed", "what": "tool_call", "count": 1, "message": ""})

    ids = [ran(chartered, work) for work in (patch, lose)]
    ids.append(ran(chartered, lambda run: run.step("s", lambda: "x" * 900), capture={"tool": "summary"}))
    wrong = [
        (named, strict)
        for named in (*ids, "--all")
        for strict in (0, 1)
        if cli("replay", named, *["--strict"][:strict], cwd=chartered).code != strict
    ]

    assert not wrong


@pytest.mark.parametrize(
    ("event", "change"),
    [
        ("step_completed", {"output": '"another"'}),
        ("step_completed", {"output_hash": "0" * 64}),
        ("retrieval_request", {"query_hash": "0" * 64}),
        ("model_call", {"prompt": '"another"'}),
        ("tool_result", {"tool": "rm"}),
    ],
)
def test_a_record_that_contradicts_itself_is_no_match(chartered: Path, event: str, change: dict[str, str]) -> None:
    def work(run: Run) -> None:
        run.step("s", lambda: "done")
        run.tool("grep", side_effect="none")(lambda: "found")()
        run.model_call("small-1", "what now?", "this")

    invocation_id = ran(chartered, work)
    reseal(
        chartered, invocation_id, lambda lines: next(line for line in lines if line["event"] == event).update(change)
    )

    found = replayed(chartered, invocation_id)

    assert [item.code for item in found.findings] == ["CONTRADICTED"]
    assert found.match is False
    assert valid(json.loads(report_bytes(view_report(found))), "replay-report")


# --- checkpoints


@pytest.fixture
def three_points(chartered: Path) -> str:
    """A run with three checkpoints between which the project's doctrine grows, shrinks and changes."""

    def work(run: Run) -> None:
        run.commit("one")
        note(chartered, "name")
        run.commit("two")
        run.retrieve("login name", k=5)
        (chartered / ".kittify/doctrine/directives/note-name.yaml").unlink()
        note(chartered, "password")
        policy(chartered)
        run.commit("two", force=True)

    return ran(chartered, work)


def test_a_run_is_replayed_up_to_a_checkpoint_each_retrieval_on_its_own_corpus(chartered: Path) -> None:
    """A gate that is forged behind the point is no finding before it; a stage names the checkpoint that begins it."""

    def work(run: Run) -> None:
        run.retrieve("login name", k=5)
        run.stage("change")
        note(chartered, "name")
        run.gate("merge", "all-true", {"green": True})
        run.commit("ready")
        run.retrieve("login name", k=5)
        run.patch("x", "create", after="a")

    def forge(lines: Lines) -> None:
        next(line for line in lines if line["event"] == "gate_decision")["outcome"] = "fail"

    invocation_id = ran(chartered, work)
    reseal(chartered, invocation_id, forge)
    whole, start, stage, ready = (
        replayed(chartered, invocation_id, until=at) for at in (None, "start", "change", "ready")
    )
    parts = [
        (len(item.reruns), len(item.gates), len(item.patches), item.states) for item in (whole, start, stage, ready)
    ]

    assert parts == [(3, 1, 1, 2), (1, 0, 0, 0), (2, 0, 0, 1), (2, 1, 0, 2)]
    assert [item.match for item in (whole, start, stage, ready)] == [False, True, True, False]
    assert stage.until is not None and stage.until.stage == "change"
    assert replayed(chartered, invocation_id, as_of="change").as_of == stage.until


def test_a_call_whose_result_came_behind_the_checkpoint_is_not_in_doubt(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.record("tool_call", {"tool": "grep", "call_id": "c", "args": {}})
        run.commit("asked")
        run.record("tool_result", {"call_id": "c", "output": "found"})

    invocation_id = ran(chartered, work)

    assert replayed(chartered, invocation_id).match
    assert [item.reason for item in replayed(chartered, invocation_id, until="asked").not_evaluated] == [
        "its result came behind the checkpoint"
    ]


def uris(found: Replayed, place: int = 0) -> set[str]:
    return {str(item["uri"]) for item in found.reruns[place].actual.hits}


def test_no_leak_after_checkpoint(chartered: Path, three_points: str) -> None:
    """An artifact added after a checkpoint is never found as of it."""
    name, password = "doctrine://directive/note-name", "doctrine://directive/note-password"
    points = replayed(chartered, three_points).past.points

    assert [point.label for point in points] == ["one", "two", "two"]
    for wanted, there in [
        ("start", set()),
        ("0", set()),
        ("one", set()),
        (str(points[0].seq), set()),
        (str(points[1].seq), {name}),
        ("two", {password}),
        (f"{three_points}:{points[2].seq}", {password}),
    ]:
        found = replayed(chartered, three_points, as_of=wanted)
        assert uris(found) & {name, password} == there
        assert uris(found, 1) & {name, password} == there


def test_duplicate_label_means_its_newest(chartered: Path, three_points: str) -> None:
    found = replayed(chartered, three_points, as_of="two")

    assert found.as_of == found.past.points[2]


def test_as_of_a_checkpoint_the_policy_is_the_one_of_then(chartered: Path, three_points: str) -> None:
    found = replayed(chartered, three_points, as_of="two")

    assert [item["action"] for item in found.reruns[0].actual.filters_applied] == ["deny"]
    assert "DECISION_MISMATCH" in codes(found) and not found.match


def test_by_default_each_retrieval_sees_its_own_corpus(chartered: Path, three_points: str) -> None:
    found = replayed(chartered, three_points)

    assert found.match
    assert "doctrine://directive/note-name" in uris(found, 1) and "doctrine://directive/note-name" not in uris(found)


def test_a_missing_hit_as_of_an_earlier_checkpoint_is_named(chartered: Path, three_points: str) -> None:
    found = replayed(chartered, three_points, as_of="one")

    missing = [item for item in found.findings if item.code == "HIT_MISSING"]
    assert any("doctrine://directive/note-name" in item.message for item in missing)
    assert not {"CODE_DRIFT", "NOT_REPRODUCED"} & set(codes(found))


def test_a_profile_that_changes_during_the_run_changes_no_replay(chartered: Path) -> None:
    """A run keeps the profile it began with, so its later retrievals come out again."""
    own = "profile-id: own\nname: Own\nroles: [implementer]\nspecialization: {domain-keywords: [login%s]}\n"
    path = ".kittify/profiles/own.agent.yaml"
    write(chartered, path, own % "")

    def work(run: Run) -> None:
        write(chartered, path, own % ", bisect, minimal, regression")
        run.retrieve("why is it slow", k=5)

    found = replayed(chartered, ran(chartered, work))

    assert found.past.started["profile_id"] == "own" and len(found.reruns) == 2
    assert found.match


def test_two_checkpoints_are_held_against_each_other(chartered: Path, three_points: str) -> None:
    same = replayed(chartered, three_points, as_of="one", compare_to="start")
    other = replayed(chartered, three_points, as_of="two", compare_to="one")

    assert same.match
    assert "HIT_EXTRA" in codes(other) and not {"CODE_DRIFT", "NOT_REPRODUCED"} & set(codes(other))


def test_a_text_that_alone_differs_on_another_corpus_is_a_context_mismatch(chartered: Path) -> None:
    """How many rules are left out stands in the text, and no hit shows it."""
    write(chartered, ".kittify/config.yaml", "governance: {k: 0}\n")
    note(chartered, "name")

    with open_invocation(chartered, "implement WP03") as run:
        run.commit("same")
        write(
            chartered,
            ".kittify/doctrine/directives/more.yaml",
            "title: More\nbody: x\napplies_to: {kinds: [feature]}\n",
        )
        run.commit("one-more")
    invocation_id = run.invocation_id

    assert replayed(chartered, invocation_id, as_of="same").match
    assert codes(replayed(chartered, invocation_id, as_of="one-more")) == ["CONTEXT_MISMATCH"]


@pytest.mark.parametrize("name", ["three", "99", "4x", "01JD4Q3S0000000000000000A1:4", "start:0", ":", ""])
def test_unknown_checkpoint(chartered: Path, three_points: str, name: str) -> None:
    before = files_below(chartered)

    for asked in ({"as_of": name}, {"compare_to": name}):
        error = refused(chartered, three_points, **asked)
        assert error.code == "CHECKPOINT_NOT_FOUND"
        assert [item["name"] for item in error.candidates or ()] == ["start", "one", "two", "two"]
    assert files_below(chartered) == before


# --- refusals, in their order


def test_replay_404_for_unknown_receipt(chartered: Path) -> None:
    assert refused(chartered, "01JD4Q3S0000000000000000A1").code == "INVOCATION_NOT_FOUND"


@pytest.mark.parametrize("place", [0, 100, -200, -5])
def test_beyond_replay_verifies_before_running(chartered: Path, place: int) -> None:
    """One flipped bit anywhere in the record, and nothing is run."""
    invocation_id = invoked(chartered)
    path = record_path(chartered, invocation_id)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))

    assert refused(chartered, invocation_id).code == "unreplayable.tampered"


def test_a_tail_behind_a_closing_line_is_tampering(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    with record_path(chartered, invocation_id).open("ab") as file:
        file.write(b"x")

    assert refused(chartered, invocation_id).code == "unreplayable.tampered"


def _objects(root: Path, invocation_id: str) -> dict[str, str]:
    manifest = manifest_of(root, invocation_id)
    corpus = json.loads(object_path(root, manifest["corpus"]).read_bytes())
    return {
        "snapshot": lines_of(root, invocation_id)[0]["snapshot"],
        "context": lines_of(root, invocation_id)[0]["governance_context_hash"],
        **{name: manifest[name] for name in ("policy", "corpus", "shipped", "router_table")},
        "charter": corpus["files"][".kittify/charter/charter.md"],
    }


@pytest.mark.parametrize("what", ["snapshot", "policy", "corpus", "shipped", "router_table", "charter", "context"])
def test_snapshot_corrupt(chartered: Path, what: str) -> None:
    """An object whose bytes do not match its name is never used, whichever it is."""
    policy(chartered)
    invocation_id = invoked(chartered)
    path = object_path(chartered, _objects(chartered, invocation_id)[what])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b" ")

    error = refused(chartered, invocation_id)

    assert error.code == "unreplayable.tampered" and path.name in error.message


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("snapshot", "missing_policy_snapshot"),
        ("policy", "missing_policy_snapshot"),
        ("corpus", "missing_input"),
        ("shipped", "missing_input"),
        ("router_table", "missing_input"),
        ("charter", "missing_input"),
    ],
)
def test_snapshot_missing(chartered: Path, what: str, code: str) -> None:
    """A missing object is refused with its digest; the record itself still verifies."""
    policy(chartered)
    invocation_id = invoked(chartered)
    path = object_path(chartered, _objects(chartered, invocation_id)[what])
    path.unlink()

    error = refused(chartered, invocation_id)
    report = next(iter(verify_all(project_of(chartered))))

    assert error.code == f"unreplayable.{code}" and path.name in error.message
    assert {item.code for item in report.findings} == {"OBJECT_MISSING"}


def test_a_missing_output_is_noted_and_forbids_nothing(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    object_path(chartered, _objects_without_policy(chartered, invocation_id)).unlink()

    found = replayed(chartered, invocation_id)

    assert found.match
    assert [(code, severity) for code, severity, *_ in found.integrity.notes] == [("OBJECT_MISSING", "warning")]


def _objects_without_policy(root: Path, invocation_id: str) -> str:
    return str(lines_of(root, invocation_id)[0]["governance_context_hash"])


def test_tampering_is_said_before_anything_missing(chartered: Path) -> None:
    policy(chartered)
    invocation_id = invoked(chartered)
    named = _objects(chartered, invocation_id)
    object_path(chartered, named["snapshot"]).unlink()
    assert refused(chartered, invocation_id).code == "unreplayable.missing_policy_snapshot"

    with record_path(chartered, invocation_id).open("r+b") as file:
        file.write(b"[")

    assert refused(chartered, invocation_id).code == "unreplayable.tampered"


def test_replay_pre_v09_receipt_is_unreplayable(chartered: Path) -> None:
    """A tombstone kept nothing, so there is nothing to replay."""
    payload = ProfileInvocationExecutor(chartered).invoke("implement WP03", terms=Terms(trail=False))

    error = refused(chartered, payload.invocation_id)

    assert error.code == "unreplayable.missing_policy_snapshot" and "trail was off" in error.message


def _half(key: str) -> Callable[[Lines], None]:
    def edit(lines: Lines) -> None:
        lines[1][key] = None

    return edit


def _other(key: str) -> Callable[[Lines], None]:
    def edit(lines: Lines) -> None:
        lines[1][key] = lines[0]["snapshot"]

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(_half("bundle"), id="beyond_half_null_snapshot_refused"),
        pytest.param(_half("bundle_hash"), id="beyond_half_null_snapshot_refused_hash"),
        pytest.param(_half("policy_hash"), id="half_null_parse"),
        pytest.param(_other("bundle_hash"), id="beyond_snapshot_hash_checked"),
        pytest.param(_other("policy_hash"), id="beyond_snapshot_hash_checked_parse"),
        pytest.param(_other("bundle"), id="another_bundle"),
    ],
)
def test_a_policy_reference_that_contradicts_itself_is_refused(chartered: Path, edit: Callable[[Lines], None]) -> None:
    policy(chartered)
    invocation_id = invoked(chartered)
    reseal(chartered, invocation_id, edit)

    assert refused(chartered, invocation_id).code == "unreplayable.invalid_snapshot"


def test_a_drifted_policy_reference_is_checked_too(chartered: Path, three_points: str) -> None:
    def edit(lines: Lines) -> None:
        (drift,) = (line for line in lines if line.get("reason") == "drift")
        drift["bundle_hash"] = None

    reseal(chartered, three_points, edit)

    assert refused(chartered, three_points).code == "unreplayable.invalid_snapshot"


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest.pop(name)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (_without("policy"), "missing_policy_snapshot"),
        (_without("policy_state"), "missing_policy_snapshot"),
        *((_without(name), "invalid_snapshot") for name in ("router_table", "shipped", "corpus", "config", "code")),
        (lambda manifest: manifest.update(policy=None), "invalid_snapshot"),
        (lambda manifest: manifest.update(policy_state="none"), "invalid_snapshot"),
        (lambda manifest: manifest.update(policy_state="unreadable"), "invalid_snapshot"),
        (lambda manifest: manifest.update(policy=manifest["shipped"]), "invalid_snapshot"),
        (lambda manifest: manifest.update(router_table=manifest["corpus"]), "invalid_snapshot"),
        (lambda manifest: manifest.update(shipped=manifest["corpus"]), "invalid_snapshot"),
        *(
            (lambda manifest, member=member: manifest.update(member), "invalid_snapshot")
            for name in ("router_table", "shipped", "corpus", "config", "facts", "code")
            for member in ({name: None}, {name: 5})
        ),
        (lambda manifest: manifest["profiles"].pop("builder-bea"), "invalid_snapshot"),
        (lambda manifest: manifest["profiles"].update(x=manifest["corpus"]), "invalid_snapshot"),
        (lambda manifest: manifest.update(v=2), "invalid_snapshot"),
        (lambda manifest: manifest.update(corpus="0" * 64), "missing_input"),
        (lambda manifest: manifest["profiles"].update(x="0" * 64), "missing_input"),
        (lambda manifest: manifest["profiles"].update(x="no digest"), "missing_input"),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_refused(
    chartered: Path, edit: Callable[[dict[str, Any]], object], code: str
) -> None:
    policy(chartered)
    invocation_id = invoked(chartered)
    edit_manifest(chartered, invocation_id, edit)

    assert refused(chartered, invocation_id).code == f"unreplayable.{code}"


def test_replay_invalid_snapshot_yaml_returns_422(chartered: Path) -> None:
    """A policy text that does not load though the snapshot says it did is refused, without a crash."""
    policy(chartered)
    invocation_id = invoked(chartered)
    broken = b"rules: [\n"
    objects = FileObjectStore(str(chartered))
    manifest = manifest_of(chartered, invocation_id)
    corpus = json.loads(objects.get(manifest["corpus"]))
    corpus["files"][".kittify/charter/policy.yaml"] = hash_bytes(broken)
    data = json.dumps(corpus, sort_keys=True, separators=(",", ":")).encode()
    objects.put((), (broken, data))
    edit_manifest(
        chartered, invocation_id, lambda found: found.update(policy=hash_bytes(broken), corpus=hash_bytes(data))
    )
    reseal(
        chartered,
        invocation_id,
        lambda lines: lines[1].update(bundle=hash_bytes(broken), bundle_hash=hash_bytes(broken)),
    )

    error = refused(chartered, invocation_id)

    assert error.code == "unreplayable.invalid_snapshot" and "does not load" in error.message


def test_a_policy_that_could_not_be_read_then_replays_as_one(chartered: Path) -> None:
    policy(chartered, "rules: [\n")
    invocation_id = invoked(chartered)
    policy(chartered)

    found = replayed(chartered, invocation_id)

    assert found.match and found.reruns[0].actual.error is not None


def test_a_retrieval_without_a_corpus_is_an_invalid_snapshot(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    reseal(chartered, invocation_id, lambda lines: lines[CONTEXT - 1].update(corpus=None))

    assert refused(chartered, invocation_id).code == "unreplayable.invalid_snapshot"


def _drop_context(lines: Lines) -> None:
    del lines[CONTEXT - 1 : CONTEXT + 1]


@pytest.mark.parametrize(
    ("edit", "what"),
    [(_drop_context, "governance text"), (lambda lines: lines[0].pop("execution_hash"), "what it was bound to")],
)
def test_what_a_record_does_not_hold_is_no_match(chartered: Path, edit: Callable[[Lines], object], what: str) -> None:
    invocation_id = invoked(chartered)
    reseal(chartered, invocation_id, edit)

    found = replayed(chartered, invocation_id)

    assert found.match is None and not found.findings
    assert [item.what for item in found.not_evaluated] == [what]


def test_a_manifest_that_is_none_is_refused(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    FileObjectStore(str(chartered)).put((), (b"[]",))
    reseal(chartered, invocation_id, lambda lines: lines[0].update(snapshot=hash_bytes(b"[]")))

    assert refused(chartered, invocation_id).code == "unreplayable.invalid_snapshot"


def test_missing_gate_inputs_are_missing_input(chartered: Path) -> None:
    invocation_id = ran(chartered, lambda run: run.gate("g", "all-true", {"x": True}))
    (gate,) = (line for line in lines_of(chartered, invocation_id) if line["event"] == "gate_decision")
    object_path(chartered, gate["inputs"]).unlink()

    assert refused(chartered, invocation_id).code == "unreplayable.missing_input"


def _members(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every member of a value; of a list only its first."""
    keys = list(value) if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ()
    for key in keys:
        yield (*way, key)
        yield from _members(value[key], (*way, key))


@pytest.mark.stress
def test_a_sealed_line_with_anything_in_any_member_is_refused_or_replayed_and_never_a_crash(chartered: Path) -> None:
    """Whoever has our tools can seal nonsense; it is data like any other."""

    def work(run: Run) -> None:
        run.retrieve("login", k=2)
        run.patch("x", "modify", before="a\n", after="b\n", diff="@@ -1 +1 @@\n-a\n+b\n")
        run.gate("g", "all-true", {"x": True})
        run.model_call("m", "p", "r")
        run.commit("here")

    invocation_id = ran(chartered, work)
    whole = record_path(chartered, invocation_id).read_bytes()
    envelope = {"v", "seq", "prev", "~", "invocation_id", "event"}
    asked = 0
    for number, line in enumerate(lines_of(chartered, invocation_id)):
        for place, way in enumerate(_members({key: line[key] for key in line if key not in envelope})):
            asked += 1
            if not FULL and asked % 3:
                continue
            odd = ([None, 7], {"a": 1}, None, "x")[place % 4]

            def put(lines: Lines, number: int = number, way: tuple[Any, ...] = way, odd: object = odd) -> None:
                inner: Any = lines[number]
                for key in way[:-1]:
                    inner = inner[key]
                inner[way[-1]] = odd

            reseal(chartered, invocation_id, put)
            try:
                value = as_lists(view_report(replayed(chartered, invocation_id)))
                assert page_of(value) and first_screen(value) and report_bytes(value)
            except InvocationError as error:
                assert error.code.startswith("unreplayable.")
            record_path(chartered, invocation_id).write_bytes(whole)
    assert asked > 100


# --- model and tool steps


def test_capture_modes_decide_what_can_be_reconstructed(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.model_call("m", "short", "short")
        run.model_call("m", "long " * 1000, {"answer": 1})

    told = {
        mode: [[(gap["side"], gap["mode"]) for gap in gaps] for _, gaps in found.models]
        for mode in ("off", "hash", "summary", "full")
        if (found := replayed(chartered, ran(chartered, work, capture={"llm": mode})))
    }

    both = [("prompt", "off"), ("response", "off")]
    assert told["off"] == [both, both]
    assert told["hash"] == [[(side, "hash") for side, _ in both]] * 2
    assert told["summary"] == [[], [("prompt", "summary")]]
    assert told["full"] == [[], []]


def test_a_masked_secret_forbids_reconstruction(chartered: Path) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    found = replayed(chartered, ran(chartered, lambda run: run.model_call("m", f"use {token}", "done")))

    ((_, (gap,)),) = found.models
    assert "masked" in str(gap["reason"])


def test_a_mode_is_read_from_the_line(chartered: Path) -> None:
    assert chartered
    assert capture_mode({"prompt": "x"}, "prompt", {}) == "full"
    assert capture_mode({"prompt": {"object": "0"}}, "prompt", {}) == "full"
    assert capture_mode({"prompt": {"head": ""}}, "prompt", {}) == "summary"
    assert capture_mode({"prompt_size": 1}, "prompt", {}) == "hash"
    assert capture_mode({}, "prompt", {"prompt": "full"}) == "full"


def test_tools_are_taken_from_the_record_and_never_run(chartered: Path) -> None:
    def work(run: Run) -> None:
        with run.tool("rm", {"path": "a"}) as call:
            call.result = "gone"
        with run.tool("cat", {}, side_effect="none") as call:
            call.result = "x" * 100_000

    invocation_id = ran(chartered, work)
    executor = ProfileInvocationExecutor(chartered)
    doubtful = invoked(chartered, close=False)
    executor.record(doubtful, [("tool_call", {"tool": "deploy", "call_id": "c"})])

    assert [why for _, _, why in replayed(chartered, invocation_id).tools] == ["", ""]
    assert "in doubt" in replayed(chartered, doubtful).tools[0][2]


# --- no network


@pytest.fixture
def listener() -> Iterator[tuple[str, int]]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()


def test_the_network_is_denied_during_a_replay_and_not_after(chartered: Path, listener: tuple[str, int]) -> None:
    registry = RuleRegistry()

    def dial(inputs: Any) -> Verdict:
        socket.create_connection((inputs["host"], inputs["port"])).close()
        return Verdict("pass", "connected")

    registry.register("dial", dial)
    host, port = listener
    invocation_id = ran(chartered, lambda run: run.gate("g", "dial", {"host": host, "port": port}), rules=registry)

    (gate,) = replayed(chartered, invocation_id, rules=registry).gates

    assert gate.status == "differs" and "NetworkDenied" in str(gate.reason_code)
    socket.create_connection(listener).close()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: socket.getaddrinfo("localhost", 80),
        lambda: socket.gethostbyname("localhost"),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("127.0.0.1", 9)),
        lambda: __import__("subprocess").run(["true"], check=False),
        lambda: __import__("os").system("true"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_every_way_out_is_denied(attempt: Callable[[], object]) -> None:
    with network_denied(), network_denied(), pytest.raises(NetworkDenied):
        attempt()
