"""The replay verifier: two chains of receipts, every difference, and nothing but differences."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.errors import CallerError, InvocationError
from specify_cli.libraries.comparison.compare import ChainVerifier, ReplayVerifier, verify_replay
from specify_cli.libraries.comparison.receipts import Chain, Receipt, receipts_of
from specify_cli.record.record import chain, genesis_tip, split_lines

ID = "01JD4Q3S0000000000000000A1"
OTHER = "01JD4Q3S0000000000000000B2"
AT = "2024-11-20T09:00:00.000Z"
HASHES = {name: name[0] * 64 for name in ("a", "b", "c")}


def bare(step_type: str = "step", decision: str = "PASS", output: str = "a", **more: Any) -> dict[str, Any]:
    content = {"step_type": step_type, "decision": decision, "output_hash": HASHES.get(output, output), **more}
    return {"content": content}


def sealed(*steps: tuple[str, str, str], invocation_id: str = ID, at: str = AT) -> list[dict[str, Any]]:
    """The events of a record with one step_completed a step."""
    bodies: list[dict[str, Any]] = [{"event": "started", "started_at": at}]
    for number, (step_type, decision, output) in enumerate(steps, 1):
        bodies.append(
            {
                "event": "step_completed",
                "at": at,
                "step": f"s{number}",
                "ordinal": 1,
                "step_type": step_type,
                "decision": decision,
                "output_hash": HASHES[output],
            }
        )
    data, _ = chain(genesis_tip(), invocation_id, bodies)
    return [json.loads(line) for _, line in split_lines(data)]


THREE = (("plan", "PASS", "a"), ("edit", "PASS", "b"), ("test", "WARN", "c"))


def test_identical_chains_match_in_every_part() -> None:
    result = verify_replay(sealed(*THREE), sealed(*THREE))

    assert result.as_value() == {
        "match": True,
        "message": "Replay matches original",
        "details": {
            "step_count_match": True,
            "step_types_match": True,
            "decisions_match": True,
            "output_hashes_match": True,
            "timing_match": None,
            "steps_compared": 3,
            "mismatches": [],
        },
        "warnings": [],
    }


def test_ids_times_and_seals_are_ignored() -> None:
    later = sealed(*THREE, invocation_id=OTHER, at="2025-01-01T00:00:00.000Z")

    assert verify_replay(sealed(*THREE), later).match


def test_a_step_count_comes_first_and_the_common_prefix_is_still_compared() -> None:
    result = verify_replay(sealed(*THREE), sealed(THREE[0], ("edit", "FAIL", "b")))

    assert not result.match
    assert result.message == "Step count mismatch"
    assert result.details["steps_compared"] == 2
    assert result.details["mismatches"] == [
        {"code": "STEP_COUNT_MISMATCH", "step": None, "field": "step_count", "expected": 3, "actual": 2},
        {"code": "DECISION_MISMATCH", "step": 1, "field": "decision", "expected": "PASS", "actual": "FAIL"},
    ]


def test_a_decision_alone_leaves_the_other_flags_true() -> None:
    result = verify_replay(sealed(*THREE), sealed(THREE[0], ("edit", "FAIL", "b"), THREE[2]))

    assert result.message == "Decision mismatch at step 1"
    assert [value for name, value in result.details.items() if name != "mismatches"] == [
        True,
        True,
        False,
        True,
        None,
        3,
    ]


def test_all_mismatches_are_listed_by_step_and_then_by_field() -> None:
    result = verify_replay(
        [bare("x", "PASS", "a"), bare("y", "PASS", "a"), bare("z", "PASS", "a")],
        [bare("w", "PASS", "b"), bare("y", "FAIL", "a"), bare("v", "WARN", "c")],
    )

    assert [(item["step"], item["code"]) for item in result.details["mismatches"]] == [
        (0, "STEP_TYPE_MISMATCH"),
        (0, "OUTPUT_MISMATCH"),
        (1, "DECISION_MISMATCH"),
        (2, "STEP_TYPE_MISMATCH"),
        (2, "DECISION_MISMATCH"),
        (2, "OUTPUT_MISMATCH"),
    ]
    assert result.message == "Step type mismatch at step 0"


def test_outputs_that_differ_where_nobody_knows_the_rules_that_masked_them_are_said_to() -> None:
    found = verify_replay([bare(output="a")], [bare(output="b")])

    assert found.match is False
    assert [item.code for item in found.warnings if item.code == "REDACTION_UNKNOWN"] == ["REDACTION_UNKNOWN"]


def test_timing_warns_and_never_fails() -> None:
    slow = verify_replay([bare(duration_ms=10)], [bare(duration_ms=900)], tolerance_ms=100)
    unasked = verify_replay([bare(duration_ms=10)], [bare(duration_ms=900)])

    assert slow.match and slow.details["timing_match"] is False
    assert [(item.code, item.step) for item in slow.warnings if item.step is not None] == [("TIMING_DRIFT", 0)]
    assert unasked.match and unasked.details["timing_match"] is None
    assert (
        verify_replay([bare(duration_ms=10)], [bare(duration_ms=90)], tolerance_ms=100).details["timing_match"] is True
    )


def test_a_duration_that_is_not_there_is_not_within_the_tolerance_and_fractions_count() -> None:
    absent = verify_replay([bare()], [bare(duration_ms=10)], tolerance_ms=100)
    apart = verify_replay([bare(duration_ms=10.4)], [bare(duration_ms=11.9)], tolerance_ms=1)

    assert (absent.match, absent.details["timing_match"]) == (True, None)
    assert (apart.match, apart.details["timing_match"]) == (True, False)


def test_what_was_compared_in_part_is_neither_a_match_nor_a_difference() -> None:
    """A digest that one side leaves out, beside steps that agree."""
    without = [bare(), {"content": {"step_type": "step", "decision": "PASS", "output_hash": None}}]
    result = verify_replay([bare(), bare()], without)
    differs = verify_replay([bare(output="b"), bare()], without)
    nothing = verify_replay([bare()], without[1:])

    assert (result.match, result.message) == (None, "Not everything could be compared")
    assert (result.details["output_hashes_match"], result.details["steps_compared"]) == (None, 1)
    assert (differs.match, differs.details["output_hashes_match"]) == (False, False)
    assert (nothing.match, nothing.details["output_hashes_match"], nothing.details["steps_compared"]) == (
        False,
        None,
        0,
    )


def test_a_step_that_a_resume_began_again_counts_once() -> None:
    whole: list[dict[str, Any]] = [
        {"event": "step_started", "step": "s", "ordinal": 1},
        {"event": "tool_call", "call_id": "c", "tool": "t"},
        {"event": "tool_result", "call_id": "c", "tool": "t", "output_hash": "h"},
        {"event": "step_completed", "step": "s", "ordinal": 1, "decision": "PASS", "output_hash": "h"},
    ]
    interrupted = {"event": "step_failed", "step": "s", "ordinal": 1}

    assert receipts_of([*whole[:2], interrupted, *whole]) == receipts_of(whole)


def test_what_ran_beside_other_work_has_its_place_and_no_order() -> None:
    def step(name: str) -> list[dict[str, Any]]:
        place = {"step": name, "ordinal": 1}
        return [
            {"event": "step_started", **place, "beside": True},
            {"event": "tool_call", "call_id": name, "tool": "t", "args_hash": name, **place},
            {"event": "tool_result", "call_id": name, "tool": "t", "output_hash": name, **place},
            {"event": "step_completed", **place, "decision": "PASS", "output_hash": name},
        ]

    one, two = step("a"), step("b")
    between = [line for pair in zip(two, one, strict=True) for line in pair]

    assert receipts_of([*one, *two]) == receipts_of([*two, *one]) == receipts_of(between)


def test_two_empty_chains_match_with_a_warning() -> None:
    result = verify_replay([], [])

    assert result.match
    assert [item.code for item in result.warnings] == ["NOTHING_COMPARED"]


def test_two_runs_without_a_step_are_no_match() -> None:
    result = verify_replay(run()._replace(receipts=()), run()._replace(receipts=()))

    assert (result.match, result.message) == (False, "Nothing was compared")
    assert [item.code for item in result.warnings] == ["NOTHING_COMPARED"]


ABOUT = {"request": "fix the login", "profile_id": "bea", "action": "implement", "outcome": "done"}


def run(**about: str | None) -> Chain:
    return Chain((Receipt("tool:x", "PASS", "a" * 64),), True, None, None, {**ABOUT, **about})


@pytest.mark.parametrize(
    ("member", "code", "message", "decided"),
    [
        ("request", "REQUEST_MISMATCH", "Request mismatch", False),
        ("profile_id", "PROFILE_MISMATCH", "Profile mismatch", True),
        ("action", "ACTION_MISMATCH", "Action mismatch", True),
        ("outcome", "OUTCOME_MISMATCH", "Outcome mismatch", True),
    ],
)
def test_runs_of_another_request_decision_or_end_are_no_match(
    member: str, code: str, message: str, decided: bool
) -> None:
    result = verify_replay(run(), run(**{member: "another"}))

    assert run().about == ABOUT and verify_replay(run(), run()).match
    assert (result.match, result.message) == (False, message)
    assert result.details["mismatches"] == [
        {"code": code, "step": None, "field": member, "expected": ABOUT[member], "actual": "another"}
    ]
    assert result.details["decisions_match"] is not decided


def test_what_is_known_of_one_run_only_is_not_compared_and_said_to_be_so() -> None:
    result = verify_replay(run(), run(request=None)._replace(about={"request": None}))

    assert result.match is None and result.details["decisions_match"] is None
    assert [(item.code, item.step) for item in result.warnings] == [("NOT_COMPARABLE", None)]
    assert "profile_id, action, outcome" in result.warnings[0].message


def test_requests_masked_by_different_rules_are_not_comparable() -> None:
    one, two = run()._replace(redaction="r1"), run(request="fix the ⟦word⟧")._replace(redaction="r2")
    result = verify_replay(one, two)

    assert result.match is None
    assert [item.code for item in result.warnings] == ["NOT_COMPARABLE"]


def test_sealed_events_tell_what_their_run_was_about() -> None:
    def events(request: str, outcome: str) -> list[dict[str, Any]]:
        started: dict[str, object] = {
            "event": "started",
            "started_at": AT,
            "request_text": request,
            "profile_id": "a",
            "action": "b",
        }
        step: dict[str, object] = {"event": "retrieval_response", "at": AT, "result_hash": "a" * 64}
        closing: dict[str, object] = {"event": "completed", "completed_at": AT, "outcome": outcome}
        return [json.loads(line) for _, line in split_lines(chain(genesis_tip(), ID, [started, step, closing])[0])]

    result = verify_replay(events("one", "done"), events("two", "failed"))

    assert [item["code"] for item in result.details["mismatches"]] == ["REQUEST_MISMATCH", "OUTCOME_MISMATCH"]


def test_bare_receipts_say_that_their_integrity_cannot_be_checked() -> None:
    assert [item.code for item in verify_replay([bare()], [bare()]).warnings] == ["INTEGRITY_NOT_CHECKABLE"]


@pytest.mark.parametrize(
    ("harm", "element"),
    [
        (lambda events: events[2].update(output_hash="f" * 64), 2),
        (lambda events: events[2].update(prev="0" * 64), 2),
        (lambda events: events[2].update(at="2024-11-20T09:00:00.001Z"), 2),
        (lambda events: events.pop(0), 0),
        (lambda events: events.pop(1), 1),
        (lambda events: events.insert(2, dict(events[1])), 2),
        (lambda events: events.reverse(), 0),
        (lambda events: events[1].pop("~"), 1),
        (lambda events: events[1].update(duration_ms=0.5), 1),
    ],
)
@pytest.mark.parametrize("side", ["original", "replay"])
def test_a_broken_chain_is_refused_before_a_step_is_compared(harm: Any, element: int, side: str) -> None:
    good, bad = sealed(*THREE), sealed(*THREE)
    harm(bad)

    with pytest.raises(InvocationError) as refused:
        verify_replay(*((bad, good) if side == "original" else (good, bad)))

    assert refused.value.code == "CHAIN_BREAK"
    assert f"the {side} chain is not intact at element {element}" in refused.value.message


def test_another_records_line_in_the_chain_is_refused() -> None:
    mixed = [*sealed(*THREE)[:2], *sealed(*THREE, invocation_id=OTHER)[2:]]

    with pytest.raises(InvocationError, match="element 2"):
        verify_replay(mixed, sealed(*THREE))


@pytest.mark.parametrize("given", [[1], ["x"], [{}], [{"content": {}}], [{"content": {"step_type": "a"}}], "text"])
def test_what_is_no_chain_is_named(given: Any) -> None:
    with pytest.raises(InvocationError) as refused:
        verify_replay(given, [])

    assert refused.value.code == "PAYLOAD_INVALID"
    assert "original_chain" in refused.value.message


def test_digests_under_different_keys_rules_or_none_are_not_comparable() -> None:
    def one(output: str | None, key: str | None = None, rules: str | None = None) -> Chain:
        return Chain((Receipt("tool:x", "PASS", output, None, key),), True, rules)

    for was, now in (
        (one("a" * 64, "k1"), one("b" * 64, "k2")),
        (one("a" * 64), one(None)),
        (one("a" * 64), one("")),
        (one(""), one("a" * 64)),
        (one("a" * 64, rules="r1"), one("b" * 64, rules="r2")),
    ):
        result = verify_replay(was, now)
        assert not result.details["mismatches"]
        assert [item.code for item in result.warnings] == ["NOT_COMPARABLE", "NOTHING_COMPARED"]
        assert not result.match  # of no step an output was compared
        assert result.details["output_hashes_match"] is None and result.details["steps_compared"] == 0
    assert not verify_replay(one("a" * 64, "k1"), one("b" * 64, "k1")).match
    assert verify_replay(one("a" * 64, rules="r1"), one("a" * 64, rules="r2")).warnings == ()


def test_every_kind_of_event_gives_its_receipt() -> None:
    found = receipts_of(
        [
            {"event": "step_started", "step": "s"},
            {"event": "tool_call", "call_id": "c", "tool": "grep"},
            {"event": "tool_result", "call_id": "c", "status": "denied", "output_hash": "h"},
            {"event": "tool_result", "call_id": "d", "tool": "sed", "status": "error"},
            {"event": "tool_result", "call_id": "e", "tool": "sh", "status": "unknown"},
            {"event": "model_call", "model": "m", "ok": True, "response_hash": "h", "digest_key": "k"},
            {"event": "gate_decision", "gate": "merge", "outcome": "warn", "reason_code": "r", "blocking": True},
            {"event": "retrieval_response", "result_hash": "h"},
            {"event": "retrieval_response", "result_hash": "h", "error": "none"},
            {"event": "step_completed", "step": "s", "step_type": "edit", "decision": "PENDING", "duration_ms": 3},
            {"event": "step_failed", "step": "s", "step_type": "edit"},
            {"event": "checkpoint"},
        ]
    )

    assert [(item.step_type, item.decision) for item in found] == [
        ("tool:grep", "SKIP"),
        ("tool:sed", "FAIL"),
        ("tool:sh", "WARN"),
        ("model:m", "PASS"),
        ("gate:merge", "WARN"),
        ("retrieval", "PASS"),
        ("retrieval", "FAIL"),
        ("step:edit", "PENDING"),
        ("step:edit", "FAIL"),
    ]
    assert found[3].key == "k"


RECEIPTS = st.lists(
    st.builds(
        bare, st.sampled_from("xy"), st.sampled_from(["PASS", "FAIL"]), st.sampled_from("abc"),
        duration_ms=st.integers(0, 9),
    ),
    max_size=6,
)  # fmt: skip


@given(RECEIPTS, RECEIPTS)
def test_a_match_is_what_equality_of_the_compared_fields_says(one: list[Any], two: list[Any]) -> None:
    def compared(items: list[Any]) -> list[tuple[str, ...]]:
        return [tuple(item["content"][key] for key in ("step_type", "decision", "output_hash")) for item in items]

    result = verify_replay(one, two, tolerance_ms=3)
    back = verify_replay(two, one, tolerance_ms=3)
    shape = {key: type(value) for key, value in result.as_value()["details"].items()}  # type: ignore[attr-defined]

    assert result.match == (compared(one) == compared(two)) == back.match
    assert len(result.details["mismatches"]) == len(back.details["mismatches"])
    assert list(shape) == [*shape][:7] and shape["mismatches"] is list and shape["timing_match"] is bool


# --- other programs


def test_flat_receipts_are_receipts_too() -> None:
    flat = [bare()["content"], bare(output="b")["content"]]

    assert verify_replay(flat, [bare(), bare(output="b")]).match
    assert not verify_replay(flat, [bare(), bare()]).match
    with pytest.raises(CallerError, match=r"replay_chain\[0\]\.decision"):
        verify_replay(flat, [{"step_type": "step"}])


def test_a_program_may_ask_for_any_verifier() -> None:
    def judge(verifier: ReplayVerifier) -> bool | None:
        return verifier.verify_replay([bare()], [bare()]).match

    result = ChainVerifier().verify_replay([bare()], [bare(output="b")])
    assert judge(ChainVerifier()) is True
    assert isinstance(result.details, dict)
    assert result.details["mismatches"][0]["code"] == "OUTPUT_MISMATCH"
    assert json.loads(json.dumps(result.as_value()))["details"] == result.details


@pytest.mark.parametrize(
    "duration", [10**400, -(10**400), float("nan"), float("inf")], ids=("huge", "less", "nan", "inf")
)
def test_a_duration_beyond_every_clock_is_refused(duration: float) -> None:
    with pytest.raises(CallerError, match=r"replay_chain\[0\]\.content\.duration_ms"):
        verify_replay([bare(duration_ms=1.5)], [bare(duration_ms=duration)], tolerance_ms=1)


def test_an_output_that_one_side_failed_to_make_and_neither_kept_is_not_compared_whichever_side_failed() -> None:
    kept, failed = ({"step_type": "s", "decision": decision, "output_hash": None} for decision in ("PASS", "FAIL"))
    results = [verify_replay([one], [two]) for one, two in ((failed, kept), (kept, failed))]

    assert [result.details["steps_compared"] for result in results] == [0, 0]
    assert [result.details["output_hashes_match"] for result in results] == [None, None]
    assert verify_replay([failed], [failed]).details["steps_compared"] == 1
