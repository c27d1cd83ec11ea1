"""Where a run stands: the same after every prefix for whoever folds it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from specify_cli.record.state import StateFold, StepEnd, Usage, rehydrate

LINES: list[dict[str, Any]] = [
    {"seq": 0, "event": "started"},
    {"seq": 1, "event": "stage_transition", "to": "change"},
    {"seq": 2, "event": "step_started", "step": "look", "ordinal": 1},
    {"seq": 3, "event": "tool_call", "call_id": "c1"},
    {"seq": 4, "event": "tool_result", "call_id": "c1", "output_hash": "a" * 64},
    {"seq": 5, "event": "model_call", "call_id": "m1", "tokens": {"input": 3, "output": 4}, "response_hash": "b" * 64},
    {"seq": 6, "event": "step_completed", "step": "look", "ordinal": 1, "decision": "PASS", "output_hash": "c" * 64},
    {"seq": 7, "event": "step_started", "step": "mend", "ordinal": 1},
    {"seq": 8, "event": "tool_call", "call_id": "c2"},
]


def test_a_run_in_the_middle_of_a_step() -> None:
    state = rehydrate(LINES)

    assert state.seq == 8 and state.status == "open" and state.stage == "change"
    assert state.current_step == ("mend", 1)
    assert state.completed_steps == (StepEnd("look", 1, "PASS", "c" * 64, 6),)
    assert state.open_calls == ("c2",)
    assert state.usage == Usage(steps=2, tool_calls=2, tokens=7)
    assert state.last_output_hash == "c" * 64


def test_a_failed_step_can_be_tried_again_and_end_well() -> None:
    again = [
        {"seq": 9, "event": "step_failed", "step": "mend", "ordinal": 1},
        {"seq": 10, "event": "step_started", "step": "mend", "ordinal": 1},
        {"seq": 11, "event": "step_completed", "step": "mend", "ordinal": 1, "decision": "WARN"},
    ]

    assert rehydrate([*LINES, again[0]]).failed_steps == (("mend", 1),)
    assert rehydrate([*LINES, *again]).failed_steps == ()
    assert [end.step for end in rehydrate([*LINES, *again]).completed_steps] == ["look", "mend"]


def test_a_spent_limit_stops_a_run_and_another_violation_does_not() -> None:
    assert rehydrate([*LINES, {"event": "policy_violation", "rule_id": "limit:steps"}]).stopped
    assert not rehydrate([*LINES, {"event": "policy_violation", "rule_id": "no-force-push"}]).stopped


def test_the_digest_of_a_state_holds_no_time_seq_or_call_id() -> None:
    later = [{**line, "seq": line["seq"] + 5, "at": "later"} for line in LINES]
    for line in later:
        if "call_id" in line:
            line["call_id"] += "x"

    assert rehydrate(LINES).state_hash == rehydrate(later).state_hash
    assert rehydrate(LINES).state_hash != rehydrate(LINES[:-1]).state_hash


def test_unknown_events_change_nothing_but_the_place() -> None:
    state = rehydrate([*LINES, {"seq": 9, "event": "from_a_later_version", "step": "x"}])

    assert state == rehydrate(LINES)._replace(seq=9)


EVENTS = st.lists(
    st.one_of(
        st.builds(
            lambda s, o: {"event": "step_started", "step": s, "ordinal": o}, st.sampled_from("ab"), st.integers(1, 2)
        ),
        st.builds(
            lambda s, o: {"event": "step_completed", "step": s, "ordinal": o, "decision": "PASS"},
            st.sampled_from("ab"), st.integers(1, 2),
        ),
        st.builds(lambda s: {"event": "step_failed", "step": s, "ordinal": 1}, st.sampled_from("ab")),
        st.builds(lambda c: {"event": "tool_call", "call_id": c}, st.sampled_from("xyz")),
        st.builds(lambda c: {"event": "tool_result", "call_id": c}, st.sampled_from("xyz")),
        st.builds(lambda n: {"event": "model_call", "tokens": {"input": n}}, st.integers(0, 9)),
        st.just({"event": "completed", "outcome": "done"}),
    ),
    max_size=20,
)  # fmt: skip


@given(EVENTS, st.integers(0, 20))
def test_folding_in_two_goes_is_folding_in_one(lines: list[dict[str, Any]], cut: int) -> None:
    fold = StateFold()
    for line in lines[:cut]:
        fold.apply(line)
    middle = fold.state()
    for line in lines[cut:]:
        fold.apply(line)

    assert middle == rehydrate(lines[:cut])
    assert fold.state() == rehydrate(lines)
    assert set(fold.state().open_steps).isdisjoint(fold.state().failed_steps)
