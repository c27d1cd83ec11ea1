"""Replay against today: the diff, the cause of each drift, and one child record that is whole.

A test that covers a case of the acceptance list has its name in it, with - and . as _.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from charter import selection as charter_selection
from replaying import (
    edit_manifest,
    files_below,
    invoked,
    lines_of,
    manifest_of,
    note,
    object_path,
    policy,
    ran,
    record_path,
    reseal,
    write,
)
from specify_cli.errors import InvocationError
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.replay.outcomes import Outcome
from specify_cli.features.replay.replay import replay
from specify_cli.features.what_if.claims import CLAIMS
from specify_cli.features.what_if.current import diff_of, replay_against
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.invocation.ends.opening import Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.gates import RuleRegistry, Verdict
from specify_cli.project.config import load_project
from specify_cli.record import layout, snapshot
from specify_cli.record.event_models import parse_event
from specify_cli.storage.checking import verify_all
from specify_cli.storage.queries import Filters, list_invocations
from support import Cli, accept, run_together, valid

ME = Caller(Actor("tester", "human"))
CONFIG = ".kittify/config.yaml"


def answered(root: Path, invocation_id: str, **given: Any) -> dict[str, Any]:
    project, cache = load_project(str(root))
    return replay_against(project, cache, invocation_id, caller=ME, clock=time.time_ns, **given)


def refused(root: Path, invocation_id: str, **given: Any) -> InvocationError:
    with pytest.raises(InvocationError) as caught:
        answered(root, invocation_id, **given)
    return caught.value


def causes(value: dict[str, Any]) -> list[str]:
    return [item["cause"] for item in value["causes"]]


def names(value: dict[str, Any], cause: str) -> list[str]:
    (found,) = (item for item in value["causes"] if item["cause"] == cause)
    return [f"{item['what']} {item['name']}" for item in found["changed"]]


def children(root: Path, invocation_id: str) -> list[str]:
    project, _ = load_project(str(root))
    listing = list_invocations(project, Filters(parent=invocation_id), 50)
    return [row.invocation_id for row in listing.rows]


def sound(root: Path) -> bool:
    project, _ = load_project(str(root))
    return not [item for report in verify_all(project) for item in report.findings]


EMPTY: dict[str, Any] = {
    "selected_entries": {"added": [], "removed": [], "changed": []},
    "filters_applied": {"added": [], "removed": []},
}


def entries(value: dict[str, Any], key: str) -> list[str]:
    return [item["uri"] for item in value["diff"]["selected_entries"][key]]


def test_a_rule_that_changed_is_shown_by_the_sentence_that_did(chartered: Path, cli: Cli) -> None:
    path = ".kittify/doctrine/directives/login-first.yaml"
    text = 'title: Login first\nbody: "Reproduce a failing login test. Then {}."\nkeywords: [login, failing, test]\n'
    write(chartered, path, text.format("fix it"))
    invocation_id = invoked(chartered)
    write(chartered, path, text.format("ask who owns it"))

    value = answered(chartered, invocation_id)
    told = cli("replay", invocation_id, "--against", "current", cwd=chartered)

    assert entries(value, "changed") == ["doctrine://directive/login-first"]
    diff = ["-Reproduce a failing login test. Then fix it.", "+Reproduce a failing login test. Then ask who owns it."]
    assert value["changed_rules"] == [{"uri": "doctrine://directive/login-first", "diff": diff}]
    assert [line.strip() for line in told.out.splitlines() if line.strip() in diff] == diff


def test_with_the_trail_off_today_is_answered_and_no_record_is_written(chartered: Path, cli: Cli) -> None:
    invocation_id = invoked(chartered)
    before = files_below(chartered / ".kittify")

    told = cli(
        *("replay", invocation_id, "--against", "current", "--json"), cwd=chartered, env={"SPEC_KITTY_TRAIL": "off"}
    )

    assert (told.code, told.json()["recorded"], told.json()["replay_invocation_id"]) == (0, False, None)
    assert "SPEC_KITTY_TRAIL" in told.json()["reason"]
    assert files_below(chartered / ".kittify") == before


# --- nothing changed


@pytest.mark.parametrize("verb", ["advise", "ask", "do"])
def test_replay_emits_child_receipt_with_parent_pointer(chartered: Path, verb: str) -> None:
    """beyond.replay_uses_recorded_assembler: each verb replays as what it was, with no difference."""
    policy(chartered)
    invocation_id = invoked(chartered, verb=verb)

    value = answered(chartered, invocation_id)

    child = lines_of(chartered, value["replay_invocation_id"])
    original = lines_of(chartered, invocation_id)
    assert value["original_invocation_id"] == invocation_id != value["replay_invocation_id"]
    assert value["recorded"] is True and value["reason"] is None
    assert (child[0]["run_kind"], child[0]["parent_invocation_id"]) == ("as_of_replay", invocation_id)
    for key in ("verb", "action", "profile_id", "requested_profile", "request_text", "mode_of_work", "first_load"):
        assert child[0].get(key) == original[0].get(key)
    assert [line["event"] for line in child] == [*(line["event"] for line in original[:4]), "completed"]
    assert children(chartered, invocation_id) == [value["replay_invocation_id"]]
    assert sound(chartered)
    for raw in record_path(chartered, value["replay_invocation_id"]).read_bytes().split(b"\n")[:-1]:
        parse_event(raw)


def test_replay_no_memory_changes_reports_zero_diff(chartered: Path) -> None:
    """beyond.replay_uses_recorded_budget_and_session: the recorded limits and settings, so the same context."""
    write(chartered, CONFIG, "governance: {k: 2, context_budget: 5000}\n")
    policy(chartered)
    with open_invocation(chartered, "fix the failing login test", limits={"steps": 3}) as run:
        pass

    value = answered(chartered, run.invocation_id)

    diff = value["diff"]
    assert diff["context_hash"]["original"] == diff["context_hash"]["replay"]
    assert diff["context_hash"]["changed"] is False
    assert diff["selected_entries"].pop("common") >= 1
    assert {key: diff[key] for key in EMPTY} == EMPTY
    assert value["causes"] == []
    assert lines_of(chartered, value["replay_invocation_id"])[0]["limits"] == {"steps": 3}


def test_a_child_replays_exactly_and_has_a_snapshot_of_its_own(chartered: Path) -> None:
    policy(chartered)
    invocation_id = invoked(chartered)
    note(chartered, "name")
    policy(chartered, "rules: []\n")
    value = answered(chartered, invocation_id)
    project, _ = load_project(str(chartered))

    found = replay(project, value["replay_invocation_id"])

    manifests = [manifest_of(chartered, item) for item in (invocation_id, value["replay_invocation_id"])]
    assert found.match
    assert manifests[0]["policy"] == manifests[1]["policy"]
    assert manifests[0]["corpus"] != manifests[1]["corpus"]


def test_diff_original_receipt_never_modified(chartered: Path) -> None:
    """beyond.children_of_receipt_listable, beyond.redaction_never_mutates_source: three replays, three children;
    original, doctrine, charter and context state stay as they were."""
    redact = "rules: [{id: r, match: {kind: directive}, action: redact}]\n"
    policy(chartered, redact)
    note(chartered, "name")
    write(chartered, ".kittify/charter/context-state.json", '{"version": 1, "actions": {}}')
    invocation_id = invoked(chartered)
    before = files_below(chartered)

    made = [answered(chartered, invocation_id)["replay_invocation_id"] for _ in range(3)]

    after = files_below(chartered, layout.EVENTS)
    assert {path: data for path, data in before.items() if not path.startswith(layout.EVENTS)} == after
    assert (
        files_below(chartered)[str(record_path(chartered, invocation_id).relative_to(chartered))]
        == before[str(record_path(chartered, invocation_id).relative_to(chartered))]
    )
    assert sorted(children(chartered, invocation_id)) == sorted(made) and len(set(made)) == 3


# --- one cause at a time


def test_replay_diff_captures_newly_added_memory(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    uri = note(chartered, "name")

    value = answered(chartered, invocation_id)

    assert uri in entries(value, "added")
    assert causes(value) == ["data"] and names(value, "data") == [f"artifact {uri}"]


def test_data_removed_and_changed_is_named(chartered: Path) -> None:
    uri, other = note(chartered, "name"), note(chartered, "password")
    invocation_id = invoked(chartered)
    (chartered / ".kittify/doctrine/directives/note-name.yaml").unlink()
    path = chartered / ".kittify/doctrine/directives/note-password.yaml"
    path.write_text(path.read_text() + "tags: [x]\n")

    value = answered(chartered, invocation_id)

    assert entries(value, "removed") == [uri] and entries(value, "changed") == [other]
    assert causes(value) == ["data"]


def test_a_charter_that_is_gone_is_data(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    (chartered / ".kittify/charter/charter.md").unlink()

    value = answered(chartered, invocation_id)

    assert value["diff"]["selected_entries"]["common"] == 0 and causes(value) == ["data"]
    assert sound(chartered)


def test_another_profile_is_data(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    write(
        chartered,
        ".kittify/profiles/own.agent.yaml",
        "profile-id: own\nname: Own\nroles: [implementer]\nspecialization: {domain-keywords: [login]}\n",
    )

    value = answered(chartered, invocation_id)

    assert causes(value) == ["data"]
    assert {"routing profile_id", "profile own"} <= set(names(value, "data"))
    assert lines_of(chartered, value["replay_invocation_id"])[0]["profile_id"] == "own"


def test_data_that_changes_nothing_is_no_cause(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    write(chartered, ".kittify/doctrine/toolguides/README.md", "read by nobody but people")

    assert causes(answered(chartered, invocation_id)) == []


def test_diff_original_bundle_deleted_is_irrelevant(chartered: Path) -> None:
    """beyond.replay_uses_recorded_policy_mode: the recorded policy is applied; that it differs is said apart."""
    policy(chartered)
    invocation_id = invoked(chartered)
    policy(chartered, "rules: [{id: none, match: {kind: [directive, tactic]}, action: deny}]\n")
    replaced = answered(chartered, invocation_id)
    (chartered / ".kittify/charter/policy.yaml").unlink()
    deleted = answered(chartered, invocation_id)

    for value in (replaced, deleted):
        assert value["diff"]["context_hash"]["changed"] is False
        assert {key: value["diff"][key] for key in ["filters_applied"]} == {"filters_applied": EMPTY["filters_applied"]}
        assert causes(value) == ["policy"] and value["causes"][0]["applied"] is False


def test_a_policy_laid_out_anew_is_the_same_policy(chartered: Path) -> None:
    policy(chartered, "rules: [{id: a, match: {kind: tactic}, action: deny}]\n")
    invocation_id = invoked(chartered)
    policy(chartered, "# the same\nrules:\n  - {action: deny, id: a, match: {kind: tactic}}\n")

    assert answered(chartered, invocation_id)["causes"] == []


def test_a_policy_that_cannot_be_read_today_is_policy_drift(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    policy(chartered, "rules: [\n")

    value = answered(chartered, invocation_id)

    assert causes(value) == ["policy"] and value["diff"]["context_hash"]["changed"] is False


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("governance: {k: 3}\n", ["settings k"]),
        ("governance: {weights: {graph: '0.9'}}\n", ["settings weights.graph"]),
        ("governance: {context_budget: 5000}\n", ["settings context_budget", "settings context_tokens.all"]),
        ("governance: {context_tokens: {'action:implement': 900}}\n", ["settings context_tokens.action:implement"]),
        ("redaction: {rules: {own: 'zebra[0-9]+'}}\n", ["redaction rules"]),
        ("audit: {capture_llm_io: off}\n", ["capture prompt", "capture response"]),
    ],
)
def test_another_config_is_config_drift_and_not_applied(chartered: Path, text: str, named: list[str]) -> None:
    invocation_id = invoked(chartered)
    write(chartered, CONFIG, text)

    value = answered(chartered, invocation_id)

    assert causes(value) == ["config"] and names(value, "config") == named
    assert value["diff"]["context_hash"]["changed"] is False
    child = manifest_of(chartered, value["replay_invocation_id"])
    assert child["config"] == manifest_of(chartered, invocation_id)["config"]


def test_a_run_that_kept_less_than_the_config_allows_is_no_config_drift(chartered: Path) -> None:
    executor = ProfileInvocationExecutor(chartered)
    payload = executor.invoke("implement WP03", terms=Terms(capture={"llm": "off"}))

    assert answered(chartered, payload.invocation_id)["causes"] == []


def test_other_code_is_the_cause_code(chartered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invocation_id = invoked(chartered)
    real = charter_selection.score_applies
    monkeypatch.setattr(charter_selection, "score_applies", lambda *of: (real(*of)[0] * 999 // 1000, real(*of)[1]))
    monkeypatch.setattr(snapshot, "CODE_VERSIONS", {**snapshot.CODE_VERSIONS, "retrieval": 99})

    value = answered(chartered, invocation_id)

    changed = value["causes"][0]["changed"]
    assert causes(value) == ["code"] and names(value, "code")[0] == "code retrieval"
    assert changed[0]["today"] == "99"
    # The same entries are found, so what is another is where and how near each stands.
    assert {item["what"] for item in changed[1:]} >= {"score"} <= {"rank", "score"}
    assert all(item["original"] != item["today"] for item in changed)


def test_other_code_with_the_same_result_is_no_cause(chartered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invocation_id = invoked(chartered)
    monkeypatch.setattr(snapshot, "CODE_VERSIONS", {**snapshot.CODE_VERSIONS, "retrieval": 99})

    assert answered(chartered, invocation_id)["causes"] == []


def test_all_four_causes_at_once_are_told_apart(chartered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invocation_id = invoked(chartered)
    note(chartered, "name")
    policy(chartered)
    write(chartered, CONFIG, "governance: {k: 3}\n")
    real = charter_selection.score_applies
    monkeypatch.setattr(charter_selection, "score_applies", lambda *of: (real(*of)[0] * 999 // 1000, real(*of)[1]))

    value = answered(chartered, invocation_id)

    assert causes(value) == ["code", "data", "policy", "config"]
    assert [item["applied"] for item in value["causes"]] == [True, True, False, False]


# --- the diff


def outcome(hits: list[tuple[str, str]], filters: list[tuple[str, str, str]]) -> Outcome:
    return Outcome(
        tuple({"uri": uri, "digest": name, "rank": rank} for rank, (uri, name) in enumerate(hits, 1)),
        tuple(dict(zip(("rule_id", "uri", "action"), item, strict=True)) for item in filters),
        text_hash="t",
    )


def test_diff_entries_match_by_id_not_rank() -> None:
    found = diff_of(outcome([("a", "1"), ("b", "2")], []), outcome([("b", "2"), ("a", "9")], []))

    assert found["selected_entries"] == {
        "added": [],
        "removed": [],
        "changed": [{"uri": "a", "original": "1", "replay": "9"}],
        "common": 2,
    }


def test_diff_filters_match_by_rule_memory_action() -> None:
    found = diff_of(outcome([], [("r1", "a", "deny")]), outcome([], [("r2", "a", "deny")]))

    assert found["filters_applied"] == {
        "added": [{"rule_id": "r2", "uri": "a", "action": "deny"}],
        "removed": [{"rule_id": "r1", "uri": "a", "action": "deny"}],
    }


def test_the_diff_is_sorted_whatever_order_the_hits_have() -> None:
    one = [("c", "1"), ("a", "1"), ("b", "1")]
    found = {json.dumps(diff_of(outcome([], []), outcome(list(hits), []))) for hits in itertools.permutations(one)}

    assert len(found) == 1
    assert [item["uri"] for item in diff_of(outcome(one, []), outcome([], []))["selected_entries"]["removed"]] == [
        "a",
        "b",
        "c",
    ]


# --- refusals


def test_replay_nested_replay_is_unreplayable(chartered: Path) -> None:
    """replay-of-replay: a replay is not replayed against today; its parent is named, and --from-root takes it."""
    invocation_id = invoked(chartered)
    child = answered(chartered, invocation_id)["replay_invocation_id"]

    error = refused(chartered, child)

    assert error.code == "unreplayable.nested_replay"
    assert invocation_id in error.message and error.candidates == ({"invocation_id": invocation_id},)
    assert answered(chartered, child, from_root=True)["original_invocation_id"] == invocation_id
    assert answered(chartered, invocation_id, from_root=True)["original_invocation_id"] == invocation_id
    assert len(children(chartered, invocation_id)) == 3


def _make_child(root: Path, child: str, parent: str) -> None:
    reseal(root, child, lambda lines: lines[0].update(run_kind="as_of_replay", parent_invocation_id=parent))


def test_a_ring_of_replays_is_refused(chartered: Path) -> None:
    one, two = invoked(chartered), invoked(chartered)
    for child, parent in ((one, two), (two, one)):
        _make_child(chartered, child, parent)

    assert refused(chartered, one, from_root=True).code == "unreplayable.nested_replay"


def test_refusals_come_in_their_order_and_leave_no_child(chartered: Path) -> None:
    policy(chartered)
    invocation_id = invoked(chartered)
    child = answered(chartered, invocation_id)["replay_invocation_id"]
    for name in (child, invocation_id):
        object_path(chartered, manifest_of(chartered, name)["policy"]).unlink(missing_ok=True)
    before = sorted((chartered / layout.RECORDS).iterdir())

    assert refused(chartered, "01JD4Q3S0000000000000000A1").code == "INVOCATION_NOT_FOUND"
    assert refused(chartered, child).code == "unreplayable.nested_replay"
    assert refused(chartered, invocation_id).code == "unreplayable.missing_policy_snapshot"
    path = record_path(chartered, child)
    path.write_bytes(path.read_bytes().replace(b"fix", b"mix", 1))
    assert refused(chartered, child).code == "unreplayable.tampered"
    assert refused(chartered, child, from_root=True).code == "unreplayable.tampered"
    assert sorted((chartered / layout.RECORDS).iterdir()) == before


def test_an_invalid_snapshot_is_refused(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    edit_manifest(chartered, invocation_id, lambda manifest: manifest.update(policy_state="present"))

    assert refused(chartered, invocation_id).code == "unreplayable.invalid_snapshot"


def test_a_request_nobody_takes_today_is_refused_with_the_routers_answer(chartered: Path) -> None:
    write(
        chartered,
        ".kittify/profiles/own.agent.yaml",
        "profile-id: own\nname: Own\nroles: [implementer]\n",
    )
    invocation_id = ProfileInvocationExecutor(chartered).invoke("fix it", profile="own").invocation_id
    (chartered / ".kittify/profiles/own.agent.yaml").unlink()

    error = refused(chartered, invocation_id)

    assert error.code == "PROFILE_NOT_FOUND" and "today" in error.message
    assert children(chartered, invocation_id) == []


# --- what cannot be written


def test_beyond_replay_write_failure_returns_diff(chartered: Path) -> None:
    """A folder cannot be used: the diff is real, the child is null, the reason is said; a key cannot be kept."""
    invocation_id = invoked(chartered)
    note(chartered, "name")
    whole = answered(chartered, invocation_id)
    shard = chartered / layout.LOCAL
    for path in sorted(shard.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    shard.rmdir()
    shard.symlink_to(chartered)

    value = answered(chartered, invocation_id)

    assert refused(chartered, invocation_id, key="k").code == "UNSAFE_PATH"
    assert (value["recorded"], value["replay_invocation_id"]) == (False, None)
    assert "UNSAFE_PATH" in value["reason"]
    assert value["diff"] == whole["diff"] and value["causes"] == whole["causes"]


# --- idempotency


def test_beyond_repeat_replay_is_idempotent_on_request(chartered: Path) -> None:
    """The same key gives the same child and the same answer, also after the project changed."""
    invocation_id = invoked(chartered)
    first = answered(chartered, invocation_id, key="one")
    note(chartered, "name")

    again = answered(chartered, invocation_id, key="one")
    other = answered(chartered, invocation_id, key="two")

    assert again == first
    assert other["replay_invocation_id"] != first["replay_invocation_id"] and causes(other) == ["data"]
    assert len(children(chartered, invocation_id)) == 2


def test_an_empty_key_is_refused_and_nothing_is_written(chartered: Path, cli: Cli) -> None:
    """It is what a script gives whose variable is not set: one key for everybody."""
    invocation_id = invoked(chartered)
    refused = cli("replay", invocation_id, "--against", "current", "--idempotency-key", "", "--json")

    assert (refused.code, refused.error()["error_code"]) == (1, "INVALID_VALUE")
    assert children(chartered, invocation_id) == []


def test_one_key_is_one_child_under_concurrency(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    found = run_together(lambda _: answered(chartered, invocation_id, key="k"), range(8))

    assert all(value == found[0] for value in found)
    assert children(chartered, invocation_id) == [found[0]["replay_invocation_id"]]
    assert sound(chartered)


def test_a_crash_between_claim_and_record_is_made_up_for(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    first = answered(chartered, invocation_id, key="k")
    path = record_path(chartered, first["replay_invocation_id"])
    data = path.read_bytes()
    path.unlink()

    again = answered(chartered, invocation_id, key="k")

    assert again == first and path.read_bytes() == data
    assert sound(chartered)


def _claim_of(root: Path) -> Path:
    (path,) = (root / CLAIMS).iterdir()
    return path


@pytest.mark.parametrize(
    "forge",
    [
        lambda value: value.update(profile_id="../../x"),
        lambda value: value.update(replay_invocation_id="01JD4Q3S0000000000000000A1"),
        lambda value: value.update(record=value["record"].replace("login", "logon")),
        lambda value: value.update(record=""),
        lambda value: value.update(record=7),
        lambda value: value["envelope"].update(original_invocation_id="x"),
        lambda value: value["envelope"].update(replay_invocation_id="x"),
        lambda value: value.update(envelope=[]),
        lambda value: value.clear(),
    ],
)
def test_a_forged_claim_is_refused(chartered: Path, forge: Callable[[dict[str, Any]], object]) -> None:
    invocation_id = invoked(chartered)
    answered(chartered, invocation_id, key="k")
    path = _claim_of(chartered)
    value = json.loads(path.read_bytes())
    forge(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    before = sorted(os.listdir(chartered / layout.RECORDS))

    error = refused(chartered, invocation_id, key="k")

    assert error.code == "RECORD_DAMAGED" and str(path.relative_to(chartered)) in error.message
    assert sorted(os.listdir(chartered / layout.RECORDS)) == before


def test_a_claim_of_another_record_does_not_pass_for_this_one(chartered: Path) -> None:
    one, two = invoked(chartered), invoked(chartered)
    answered(chartered, one, key="k")
    path = _claim_of(chartered)
    data = path.read_bytes()
    path.unlink()
    answered(chartered, two, key="k")
    _claim_of(chartered).write_bytes(data)

    assert refused(chartered, two, key="k").code == "RECORD_DAMAGED"


# --- where the trail is tracked


def test_a_child_in_a_committed_trail_is_published(chartered: Path) -> None:
    write(chartered, CONFIG, "trail: committed\n")
    accept(chartered)
    invocation_id = invoked(chartered)

    child = answered(chartered, invocation_id)["replay_invocation_id"]

    (copy,) = (chartered / layout.trail_folder(child)).glob(f"*{child}.jsonl")
    named = lines_of(chartered, child)[0]["snapshot"]
    assert copy.read_bytes() == record_path(chartered, child).read_bytes()
    assert object_path(chartered, named).is_file()


def test_a_run_with_later_policy_drift_is_replayed_under_its_first_policy(chartered: Path) -> None:
    policy(chartered)

    def work(run: Any) -> None:
        policy(chartered, "rules: []\n")
        run.commit("drifted")

    invocation_id = ran(chartered, work)

    value = answered(chartered, invocation_id)

    assert causes(value) == ["policy"] and value["diff"]["context_hash"]["changed"] is False


# --- gates and further retrievals


def gated(run: Any) -> None:
    run.retrieve("the login note", k=50)
    run.gate("coverage", "at-least", {"found": 1, "minimum": 2})
    run.gate("tests", "all-true", {"green": True})


def test_every_gate_and_retrieval_is_asked_again_under_what_holds_today(chartered: Path) -> None:
    rules = RuleRegistry()
    for name in ("at-least", "all-true"):
        rules.register(name, lambda _: Verdict("pass", "once"))
    invocation_id = ran(chartered, gated, rules=rules)
    uri = note(chartered, "cookie")
    value = answered(chartered, invocation_id)

    found = [(item["kind"], item["name"], item["then"], item["now"]) for item in value["transitions"]]
    assert ("gate", "coverage", "pass", "fail") in found
    assert ("rule gained", uri) in [item[:2] for item in found]
    assert not [item for item in found if item[1] == "tests"]
    assert value["not_evaluated"] == []


def test_a_gate_whose_rule_is_gone_is_said_and_not_passed_over(chartered: Path, cli: Cli) -> None:
    rules = RuleRegistry()
    rules.register("ours-alone", lambda _: Verdict("pass", "once"))
    invocation_id = ran(chartered, lambda run: run.gate("merge", "ours-alone", {}), rules=rules)
    value = answered(chartered, invocation_id)
    told = cli("replay", invocation_id, "--against", "current")

    assert [item["gate"] for item in value["not_evaluated"]] == ["merge"]
    assert "not asked again: 1, the first because no rule ours-alone is registered" in told.out
    valid(value, "replay-diff")


def test_a_module_of_rules_is_asked_also_against_today(chartered: Path, cli: Cli) -> None:
    rules = RuleRegistry()
    rules.register("of-the-module", lambda _: Verdict("pass", "once"))
    invocation_id = ran(chartered, lambda run: run.gate("merge", "of-the-module", {}), rules=rules)
    write(
        chartered,
        "rules_of_today.py",
        "from specify_cli.invocation.gates import RULES, Verdict\n"
        '@RULES.rule("of-the-module")\ndef decide(inputs):\n    return Verdict("fail", "never")\n',
    )
    value = cli("replay", invocation_id, "--against", "current", "--rules", "rules_of_today", "--json").json()

    assert [(item["name"], item["then"], item["now"]) for item in value["transitions"]] == [("merge", "pass", "fail")]
