"""Two records of our own are held against each other in everything an agent could have done differently."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import resealing
from doctrine.light_imports import hash_text
from replaying import Lines, invoked, lines_of, project_of, ran, record_path, reseal
from specify_cli.features.programs.run import Run
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.comparison.chains import run_chain
from specify_cli.libraries.comparison.compare import ReplayResult, verify_replay
from support import valid

Told = dict[str, Any]
TWIN: Told = {
    "args": "main",
    "prompt": "what now?",
    "asked": "fix it",
    "answer": "fixed",
    "path": "a.py",
    "after": "b\n",
    "name": "edit",
    "given": 1,
    "message": "no such file",
    "stage": "work",
    "found": 80,
    "effect": "none",
    "artifact": "made",
    "query": "merge review",
    "label": "half",
}
# What is told differently, the code that says it, and what its diff shows of it.
VARIATIONS = [
    ("args", "other", "ARGUMENTS_MISMATCH", '"main"'),
    ("prompt", "what then?", "PROMPT_MISMATCH", "what then?"),
    ("asked", "leave it", "PROMPT_MISMATCH", "leave it"),
    ("answer", "not fixed", "ANSWER_MISMATCH", "not fixed"),
    ("path", "c.py", "PATH_MISMATCH", "c.py"),
    ("after", "z\n", "CHANGE_MISMATCH", "z"),
    ("name", "write", "STEP_NAME_MISMATCH", "write"),
    ("given", 2, "INPUT_MISMATCH", "2"),
    ("message", "disk full", "ERROR_MISMATCH", "disk full"),
    ("stage", "review", "STAGE_MISMATCH", "review"),
    ("found", 90, "GATE_INPUT_MISMATCH", ""),
    ("effect", "idempotent", "SIDE_EFFECT_MISMATCH", "idempotent"),
    ("artifact", "made otherwise", "ARTIFACT_MISMATCH", ""),
    ("query", "login review", "SEARCH_MISMATCH", ""),
    ("label", "whole", "STAGE_MISMATCH", "whole"),
]


def program_of(root: Path, told: Told) -> Callable[[Run], None]:
    def work(run: Run) -> None:
        run.record("prompt", {"text": told["asked"]})
        run.stage(told["stage"])
        run.tool("grep", side_effect=told["effect"])(lambda _: "found")(told["args"])
        run.model_call("small-1", told["prompt"], "an answer")
        run.step(told["name"], lambda _: "done", told["given"])
        run.patch(told["path"], "modify", before="a\n", after=told["after"])
        run.gate("coverage", "at-least", {"found": told["found"], "minimum": 70})
        run.error("NOT_FOUND", told["message"])
        run.retrieve(told["query"], k=0)
        run.commit(told["label"])
        (root / "made.txt").write_text(told["artifact"])
        run.record("artifact_link", {"path": str(root / "made.txt")})
        run.record("turn", {"text": told["answer"]})

    return work


def compare(root: Path, one: str, two: str) -> ReplayResult:
    return verify_replay(run_chain(project_of(root), one, "original"), run_chain(project_of(root), two, "replay"))


def test_runs_that_did_the_same_match_and_it_is_said_what_was_held_against_what(chartered: Path) -> None:
    one, two = (ran(chartered, program_of(chartered, TWIN)) for _ in range(2))

    result = compare(chartered, one, two)

    assert (result.match, result.details["mismatches"], result.warnings) == (True, [], ())
    assert result.message == "Replay matches original"
    assert result.differences == ()
    assert {"arguments", "prompts", "changes", "artifacts"} <= set(result.compared)
    assert "times and durations" in result.not_compared


@pytest.mark.parametrize("mode", ["summary", "full", "hash"])
def test_one_thing_done_differently_is_named_with_its_step_and_a_diff(chartered: Path, mode: str) -> None:
    capture = {"tool": mode, "llm": mode}
    one = ran(chartered, program_of(chartered, TWIN), capture=capture)
    wrong = {}
    for name, value, code, shown in VARIATIONS:
        result = compare(chartered, one, ran(chartered, program_of(chartered, TWIN | {name: value}), capture=capture))
        codes = {item["code"] for item in result.details["mismatches"]}
        diffs = "\n".join(line for item in result.differences or () for line in item.diff)
        if result.match is not False or codes != {code} or (mode == "full" and shown not in diffs):
            wrong[name] = (result.match, codes, diffs)

    assert not wrong


PROMPT = ("prompt", {"text": "go on"})
ERROR = ("error", {"error_code": "E", "message": "no such file"})
GATE = {"gate": "g", "rule_ref": "own", "outcome": "pass", "reason_code": "ok"}
FAILED = {"step": "edit", "error_code": "E", "message": "no"}
APPROVAL = {"decision": "allow", "refers_to": "request"}
LONG = {"rule_id": "r", "message": "a" * 5000}
# The events of two runs, and the code that says how they differ; none where it is not known whether they do.
OTHERWISE = {
    "the tool of a call that never ended": (
        [("tool_call", {"tool": "grep"})],
        [("tool_call", {"tool": "rm"})],
        "STEP_NAME",
    ),
    "the type of a step that never ended": (
        [("step_started", {"step": "edit", "step_type": "edit"})],
        [("step_started", {"step": "edit", "step_type": "write"})],
        "STEP_NAME",
    ),
    "the rule of a gate": (
        [("gate_decision", GATE | {"rule_digest": "1" * 64})],
        [("gate_decision", GATE | {"rule_digest": "2" * 64})],
        "GATE_INPUT",
    ),
    "a rule known of one side": (
        [("gate_decision", GATE | {"rule_digest": "1" * 64})],
        [("gate_decision", GATE)],
        None,
    ),
    "how bad a broken rule is": (
        [("policy_violation", {"rule_id": "r"})],
        [("policy_violation", {"rule_id": "r", "severity": "info"})],
        "ERROR",
    ),
    "whether a step may be tried again": (
        [("step_failed", FAILED)],
        [("step_failed", FAILED | {"retryable": True})],
        "ERROR",
    ),
    "how often an approval holds": (
        [("approval", APPROVAL)],
        [("approval", APPROVAL | {"single_use": False})],
        "APPROVAL",
    ),
    "the end of a message that was cut": (
        [("policy_violation", LONG)],
        [("policy_violation", LONG | {"message": "a" * 5000 + "b"})],
        None,
    ),
    "the end of an error that was cut": (
        [("error", {"error_code": "E", "message": "a" * 5000})],
        [("error", {"error_code": "E", "message": "a" * 5000 + "b"})],
        None,
    ),
    "the order of two kinds": ([PROMPT, ERROR], [ERROR, PROMPT], "ORDER"),
    "a gate before what it judges": (
        [("patch_apply", {"path": "a", "kind": "delete"}), ("gate_decision", GATE)],
        [("gate_decision", GATE), ("patch_apply", {"path": "a", "kind": "delete"})],
        "ORDER",
    ),
    "in which step a gate was asked": (
        [("gate_decision", GATE | {"step": "edit"})],
        [("gate_decision", GATE | {"step": "write"})],
        "STEP_NAME",
    ),
    "at which of two steps of one name an error was seen": (
        [(ERROR[0], ERROR[1] | {"step": "edit", "ordinal": 1})],
        [(ERROR[0], ERROR[1] | {"step": "edit", "ordinal": 2})],
        "STEP_NAME",
    ),
    "how often a step was tried": ([("step_failed", FAILED)], [("step_failed", FAILED | {"attempt": 2})], "ERROR"),
    "what a broken limit allowed": (
        [("policy_violation", {"rule_id": "r", "allowed": 3})],
        [("policy_violation", {"rule_id": "r", "allowed": 4})],
        "ERROR",
    ),
    "the text of a rule without a digest": (
        [("gate_decision", GATE | {"rule_source": "a"})],
        [("gate_decision", GATE | {"rule_source": "b"})],
        "GATE_INPUT",
    ),
    "whether a change was made": (
        [("patch_apply", {"path": "a", "kind": "delete"})],
        [("patch_apply", {"path": "a", "kind": "delete", "ok": False})],
        "CHANGE",
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_nothing_is_said_to_be_equal_that_was_not_compared(chartered: Path, cli: Any, name: str) -> None:
    def program_of_events(events: Any) -> Callable[[Run], None]:
        def work(run: Run) -> None:
            run.gate("coverage", "at-least", {"found": 80, "minimum": 70})
            for event, payload in events:
                run.record(event, payload)

        return work

    one, two, part = OTHERWISE[name]
    ids = [ran(chartered, program_of_events(events)) for events in (one, two)]

    code, output, _ = cli("invocations", "compare", *ids, "--strict", "--json")
    value = json.loads(output)
    found = {item["code"] for item in value["details"]["mismatches"]}
    assert (code, found) == (1, {f"{part}_MISMATCH"} if part else set())
    assert value["match"] is (False if part else None)
    assert valid(value, "comparison")


def test_runs_that_kept_less_of_the_same_are_not_said_to_differ(chartered: Path) -> None:
    """What a mode leaves out is not known to be another thing: of messages it is the end, too."""

    def work(run: Run) -> None:
        program_of(chartered, TWIN)(run)
        run.error("SHORT")
        run.error("LONG", "x" * 600)
        run.record("gate_decision", GATE)
        run.record("step_started", {"step": "f", "input": "i"})
        run.record("step_failed", {"step": "f", "error_code": "E", "message": "m"})

    modes = ("off", "hash", "summary", "full")
    ids = {mode: ran(chartered, work, capture={"tool": mode, "llm": mode}) for mode in modes}

    results = {(one, two): compare(chartered, ids[one], ids[two]) for one in modes for two in modes}

    assert {pair: found.details["mismatches"] for pair, found in results.items() if found.match is False} == {}
    assert [pair for pair, found in results.items() if found.match] == [("full", "full")]


def test_a_message_is_not_said_to_be_equal_to_the_beginning_of_a_longer_one(chartered: Path) -> None:
    cut = {"tool": "summary", "llm": "full"}
    one, two, other = (
        ran(chartered, partial(Run.error, error_code="E", message=text), capture=cut)
        for text in ("a" * 500, "a" * 501, "a" * 499)
    )

    assert compare(chartered, one, two).match is None
    assert compare(chartered, two, other).match is False


def test_another_setting_of_a_search_is_another_search(chartered: Path) -> None:
    one, two = (ran(chartered, partial(Run.retrieve, query="zyx", k=k)) for k in (90, 91))

    (found,) = compare(chartered, one, two).details["mismatches"]
    assert (found["code"], found["field"]) == ("SEARCH_MISMATCH", "retrieval_request.config")


CALLS = [
    [
        ("tool_call", {"call_id": name, "tool": tool, "args": name}),
        ("tool_result", {"call_id": name, "tool": tool, "output": name}),
        ("patch_apply", {"call_id": name, "path": name, "kind": "delete"}),
    ]
    for name, tool in (("c1", "Edit"), ("c2", "Write"))
]


def test_calls_that_overlap_match_whichever_ended_first(chartered: Path) -> None:
    """Hooks of calls that a harness runs at once are told in any order; what was called first is known."""
    begin, *rest = CALLS[0]

    def told_in(order: tuple[int, ...]) -> Callable[[Run], None]:
        def work(run: Run) -> None:
            run.record(*begin)
            left = [iter(rest), iter(CALLS[1])]
            for which in order:
                run.record(*next(left[which]))
            run.record(*PROMPT)

        return work

    orders = sorted(set(permutations((0, 0, 1, 1, 1))))
    ids = [ran(chartered, told_in(order)) for order in orders]

    results = [compare(chartered, ids[0], other) for other in ids[1:]]
    assert len(results) == 9
    assert [(result.match, result.details["mismatches"]) for result in results] == [(True, [])] * 9


def test_the_order_in_which_a_harness_was_told_of_calls_at_once_says_nothing(chartered: Path) -> None:
    """In a program's own run a call can be made within another, so there it does."""

    def told_as(order: tuple[int, ...], **other: object) -> Callable[[Run], None]:
        def work(run: Run) -> None:
            for which in order:
                event, payload = CALLS[which][0]
                run.record(event, payload | (other if which else {}))
            for which in (1, 0):
                run.record(*CALLS[which][1])

        return work

    programs = told_as((0, 1)), told_as((1, 0)), told_as((1, 0), args="other")
    ids = [ran(chartered, program) for program in programs]
    results = [compare(chartered, ids[0], other) for other in ids[1:]]
    for invocation_id in ids:  # also where an agent began the program
        reseal(chartered, invocation_id, lambda lines: lines[0].update(session={"harness": "claude-code"}))
    results += [compare(chartered, ids[0], other) for other in ids[1:]]
    for invocation_id in ids:
        reseal(chartered, invocation_id, mark_as_hooks_do)
    told = [compare(chartered, ids[0], other) for other in ids[1:]]

    assert [result.match for result in results] == [False] * 4
    assert [result.match for result in told] == [True, False]
    assert [item["code"] for item in told[1].details["mismatches"]] == ["ARGUMENTS_MISMATCH"]


def mark_as_hooks_do(lines: Lines) -> None:
    lines[0]["session"] = {"harness": "claude-code"}
    for line in lines[4:-1]:
        line["dedupe"] = f"{line['seq']:032x}"


def test_calls_at_once_keep_their_order_where_their_digests_were_made_with_other_keys(chartered: Path) -> None:
    def work(run: Run) -> None:
        for which in ("a", "b", "c", "d"):
            run.record("tool_call", {"call_id": which, "tool": "Bash", "args": which})
        for which in ("a", "b", "c", "d"):
            status = "error" if which == "c" else "ok"
            run.record("tool_result", {"call_id": which, "status": status, "output": which})

    def change_key(key: str, lines: Lines) -> None:
        mark_as_hooks_do(lines)
        for line in lines[4:7]:
            line.update(args_hash=hash_text(f"{key} {line['args_hash']}"), digest_key=key)
            line.pop("args", None)

    ids = [ran(chartered, work) for _ in range(5)]
    for key, invocation_id in zip("abcde", ids, strict=True):
        reseal(chartered, invocation_id, partial(change_key, key))

    assert [compare(chartered, ids[0], other).details["mismatches"] for other in ids[1:]] == [[]] * 4


def test_a_stage_that_was_left_for_another_is_a_difference(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.stage("one")
        run.stage("two")

    one, two = ran(chartered, work), ran(chartered, work)
    reseal(chartered, two, lambda lines: lines[6].update({"from": "elsewhere"}))

    assert [item["field"] for item in compare(chartered, one, two).details["mismatches"]] == ["stage_transition.from"]


def test_of_what_another_witness_told_later_the_order_is_not_known(chartered: Path) -> None:
    one, two = (ran(chartered, lambda run: [run.record(*told) for told in (PROMPT, ERROR)]) for _ in range(2))

    def tell_later(lines: list[Told]) -> None:
        at = next(at for at, line in enumerate(lines) if line["event"] == "prompt")
        lines.insert(-1, lines.pop(at) | {"witness": "transcript"})

    reseal(chartered, two, tell_later)

    result = compare(chartered, one, two)
    assert (result.match, result.details["mismatches"]) == (None, [])
    assert [warned.message.partition(":")[0] for warned in result.warnings] == ["order of 1 event"]


def test_other_evidence_is_another_artifact(chartered: Path) -> None:
    ids = []
    for name, text in (("proof.md", "seen"), ("proof.md", "seen"), ("proof.md", "not seen"), ("other.md", "seen")):
        (chartered / name).write_text(text)
        ids.append(invoked(chartered, close=False))
        ProfileInvocationExecutor(chartered).complete(ids[-1], evidence=str(chartered / name))

    results = [compare(chartered, ids[0], other) for other in ids[1:]]

    assert [result.match for result in results] == [True, False, False]
    assert [[(item["code"], item["field"]) for item in result.details["mismatches"]] for result in results[1:]] == [
        [("ARTIFACT_MISMATCH", "evidence")],
        [("ARTIFACT_MISMATCH", "evidence_name")],
    ]


def test_what_a_broken_rule_found_is_compared_but_for_measured_limits(chartered: Path) -> None:
    def compare_found(rule: str) -> list[str]:
        def tell(found: int) -> str:
            body = {"rule_id": rule, "allowed": 1, "found": found}
            return ran(chartered, lambda run: run.record("policy_violation", body))

        one, two = tell(2), tell(3)
        return [item["field"] for item in compare(chartered, one, two).details["mismatches"]]

    assert [compare_found(rule) for rule in ("style", "limit:steps", "limit:seconds", "limit:tokens")] == [
        ["policy_violation.found"],
        ["policy_violation.found"],
        [],
        [],
    ]


def test_a_call_that_was_made_in_a_step_is_another_than_one_before_it(chartered: Path) -> None:
    def program_with(*, inside: bool) -> Callable[[Run], None]:
        def work(run: Run) -> None:
            look = run.tool("look", side_effect="none")(lambda: "done")
            if not inside:
                look()
            run.step("check", lambda: look() if inside else "done")

        return work

    one, two = (ran(chartered, program_with(inside=inside)) for inside in (False, True))

    mismatches = compare(chartered, one, two).details["mismatches"]
    assert [(item["code"], item["expected"], item["actual"]) for item in mismatches] == [
        ("STEP_NAME_MISMATCH", None, "check"),
        ("ORDER_MISMATCH", "tool_call", "step_started"),
    ]


def test_what_was_not_captured_is_no_match(chartered: Path) -> None:
    one, two = (ran(chartered, program_of(chartered, TWIN), capture={"tool": "off"}) for _ in range(2))

    result = compare(chartered, one, two)

    assert result.match is None
    assert "arguments" in " ".join(warned.message for warned in result.warnings if warned.code == "NOT_COMPARABLE")


def test_a_call_more_is_counted(chartered: Path) -> None:
    plain = program_of(chartered, TWIN)

    def more(run: Run) -> None:
        plain(run)
        run.record("prompt", {"text": "and now?"})

    result = compare(chartered, ran(chartered, plain), ran(chartered, more))

    (found,) = result.details["mismatches"]
    assert (found["code"], found["field"], found["expected"], found["actual"]) == (
        "EVENT_COUNT_MISMATCH",
        "prompt",
        1,
        2,
    )


def test_another_output_is_shown_as_a_diff_beside_its_digests(chartered: Path) -> None:
    one, two = (
        ran(chartered, partial(Run.step, name="s", function=partial("first\n{}\nlast".format, text)))
        for text in ("green", "red")
    )

    result = compare(chartered, one, two)

    (found,) = result.details["mismatches"]
    (shown,) = result.differences or ()
    assert (found["code"], found["step"]) == ("OUTPUT_MISMATCH", 1)
    assert (shown.code, shown.step, shown.what) == ("OUTPUT_MISMATCH", 1, "output of step s")
    assert [line for line in shown.diff if line.startswith(("-", "+"))] == ["-green", "+red"]


def test_receipts_keep_their_contract_and_say_what_is_not_held_against_what() -> None:
    receipt = {"step_type": "tool:grep", "decision": "PASS", "output_hash": "a" * 64}
    result = verify_replay([receipt], [receipt])

    assert "wider" not in result.as_value()
    assert (result.match, result.message) == (True, "Replay matches original")
    assert result.compared == ("steps", "decisions", "outputs")
    assert {"arguments", "prompts", "answers", "changes"} <= set(result.not_compared)


def test_the_command_says_what_matches_what_was_not_compared_and_how_many_were(chartered: Path, cli: Any) -> None:
    one, two = (ran(chartered, program_of(chartered, TWIN)) for _ in range(2))
    other = ran(chartered, program_of(chartered, TWIN | {"args": "other"}))

    same = cli("invocations", "compare", one, two, "--strict", cwd=chartered)
    differs = cli("invocations", "compare", one, other, "--strict", cwd=chartered)

    assert same.code == 0
    assert "steps, decisions and outputs match: 6 compared" in same.out
    assert "not compared: " in same.out
    assert differs.code == 1
    assert "Arguments mismatch at step 1" in differs.out
    assert "arguments of tool grep" in differs.out


def test_what_only_a_newer_version_knows_is_not_said_to_match(chartered: Path) -> None:
    one, two = (ran(chartered, program_of(chartered, TWIN)) for _ in range(2))
    reseal(chartered, two, lambda lines: lines.insert(4, {"event": "mood", "at": lines[1]["at"]}))
    path = record_path(chartered, one)
    newer = resealing.reseal([{**line, "v": 3} for line in lines_of(chartered, one)])

    odd = compare(chartered, one, two)
    path.write_bytes(newer)
    new = compare(chartered, one, one)

    assert (odd.match, new.match) == (None, None)
    assert [warned.message for warned in odd.warnings] == ["1 event of a kind that this version does not know"]
    assert {warned.message for warned in new.warnings} == {"a format newer than this reader: v 3"}
