"""One CloudEvent is as docs/sync-contract.md says, or every fault in it is named with its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_kitty_events.conformance.loader import FixtureCase, load_fixtures

from specify_cli.libraries.wire.contract import (
    COMPLETED,
    EVENT_TYPES,
    EXTENSION,
    LEVELS,
    PHASES,
    STARTED,
    canonical,
    compose,
)
from specify_cli.libraries.wire.validation import faults, pointer
from support import draws

PROJECT = "3b0b2ef2-6f2a-4d7a-9a53-7a7c1d2f8a10"
ID = "01JD4Q3S0000000000000000A1"
START: dict[str, object] = {
    "invocation_id": ID,
    "started_at": "2026-11-21T09:00:00.000Z",
    "seq": 0,
    "~": "a" * 64,
    "action": "implement",
    "profile_id": "builder",
    "actor": {"actor_id": "ann", "actor_type": "llm", "provider": "p", "model": "m", "tool": "t"},
    "verb": "do",
    "mode_of_work": "task_execution",
    "router_confidence": "exact",
    "match_reason": "names implement",
    "request_text": "implement the login",
    "trace_id": "b" * 32,
    "parent_invocation_id": ID,
    "governance_context_hash": "c" * 64,
    "governance_context_available": True,
}
END: dict[str, object] = {
    "invocation_id": ID,
    "completed_at": "2026-11-21T09:00:01.000Z",
    "seq": 7,
    "~": "d" * 64,
    "outcome": "failed",
    "closed_by": "agent",
    "evidence_ref": "e" * 64,
}


def event(phase: str = STARTED, level: str = "full", **changed: object) -> dict[str, Any]:
    made: dict[str, Any] = compose(PROJECT, level, START, END if phase == COMPLETED else None)
    return {**made, **changed}


def places(value: object) -> list[str]:
    return [fault.pointer for fault in faults(value)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("phase", PHASES)
def test_every_composed_envelope_is_without_fault(phase: str, level: str) -> None:
    assert [] == faults(event(phase, level))


Change = Callable[[dict[str, Any]], object]


def _put(path: str, value: object) -> Change:
    def change(held: dict[str, Any]) -> None:
        *inner, last = path.split(".")
        for name in inner:
            held = held[name]
        held[last] = value

    return change


def _drop(path: str) -> Change:
    def change(held: dict[str, Any]) -> None:
        *inner, last = path.split(".")
        for name in inner:
            held = held[name]
        del held[last]

    return change


def _extension(**members: object) -> Change:
    def change(held: dict[str, Any]) -> None:
        held[EXTENSION] = canonical({**json.loads(held[EXTENSION]), **members})

    return change


FAULTY: list[tuple[str, Change, str]] = [
    (STARTED, _put("extra", 1), "/extra"),
    (STARTED, _put("dataschema", "x"), "/dataschema"),
    (STARTED, _drop("specversion"), "/specversion"),
    (STARTED, _put("specversion", "1.1"), "/specversion"),
    (STARTED, _put("specversion", 1.0), "/specversion"),
    (STARTED, _put("datacontenttype", "text/plain"), "/datacontenttype"),
    (STARTED, _put("type", "ai.spec-kitty.other.v1"), "/type"),
    (STARTED, _put("type", ["x"]), "/type"),
    (STARTED, _put("source", f"/spec-kitty/projects/{PROJECT.upper()}"), "/source"),
    (STARTED, _put("source", "/spec-kitty/projects/x"), "/source"),
    (STARTED, _put("subject", ID.lower()), "/subject"),
    (STARTED, _put("subject", ID[:-1] + "B"), "/id"),
    (STARTED, _put("subject", "\ud800"), "/subject"),
    (STARTED, _put("id", "6f1b2ef2-6f2a-4d7a-9a53-7a7c1d2f8a10"), "/id"),
    (STARTED, _put("time", "2026-11-21T09:00:00Z"), "/time"),
    (STARTED, _put("time", "2026-13-21T09:00:00.000Z"), "/time"),
    (STARTED, _put("time", "2026-11-21T10:00:00.000+01:00"), "/time"),
    (STARTED, _put("time", "2026-11-21T09:00:01.000Z"), "/data/timestamp"),
    (STARTED, _put("data", []), "/data"),
    (STARTED, _put("data.team", "x"), "/data/team"),
    (STARTED, _put("data.a~/b", "x"), "/data/a~0~1b"),
    (STARTED, _drop("data.project_slug"), "/data/project_slug"),
    (STARTED, _put("data.project_slug", "x"), "/data/project_slug"),
    (STARTED, _put("data.event_id", ID), "/data/event_id"),
    (STARTED, _put("data.event_type", "ProfileInvocationFailed"), "/data/event_type"),
    (STARTED, _put("data.aggregate_id", "other"), "/data/aggregate_id"),
    (STARTED, _put("data.correlation_id", PROJECT), "/data/correlation_id"),
    (STARTED, _put("data.node_id", "host"), "/data/node_id"),
    (STARTED, _put("data.build_id", "x"), "/data/build_id"),
    (STARTED, _put("data.project_uuid", ID), "/data/project_uuid"),
    (STARTED, _put("data.causation_id", PROJECT), "/data/causation_id"),
    (COMPLETED, _put("data.causation_id", None), "/data/causation_id"),
    (STARTED, _put("data.lamport_clock", "0"), "/data/lamport_clock"),
    (STARTED, _put("data.lamport_clock", True), "/data/lamport_clock"),
    (STARTED, _put("data.lamport_clock", -1), "/data/lamport_clock"),
    (STARTED, _put("data.lamport_clock", 2**53), "/data/lamport_clock"),
    (STARTED, _put("data.schema_version", "4.0.0"), "/data/schema_version"),
    (STARTED, _put("data.data_tier", 2), "/data/data_tier"),
    (STARTED, _put("data.payload", None), "/data/payload"),
    (STARTED, _put("data.payload", {}), "/data/payload/profile_slug"),
    (STARTED, _put("data.payload.action", ""), "/data/payload/action"),
    (STARTED, _put("data.payload.request_text", "x"), "/data/payload/request_text"),
    (STARTED, _put("data.payload.governance_scope", ""), "/data/payload/governance_scope"),
    (STARTED, _put("data.payload.actor.actor_type", "cat"), "/data/payload/actor/actor_type"),
    (STARTED, _put("data.payload.actor.display_name", 1), "/data/payload/actor/display_name"),
    (STARTED, _put("data.payload.actor.secret", "x"), "/data/payload/actor/secret"),
    (COMPLETED, _put("data.payload.outcome", "done"), "/data/payload/outcome"),
    (STARTED, _drop(EXTENSION), f"/{EXTENSION}"),
    (STARTED, _put(EXTENSION, {"v": 1}), f"/{EXTENSION}"),
    (STARTED, _put(EXTENSION, "[1]"), f"/{EXTENSION}"),
    (STARTED, _put(EXTENSION, '{"v": 1}'), f"/{EXTENSION}"),
    (STARTED, _put(EXTENSION, '{"v":1,"v":1}'), f"/{EXTENSION}"),
    (STARTED, _put(EXTENSION, '{"v":NaN}'), f"/{EXTENSION}"),
    (STARTED, _put(EXTENSION, "[" * 100_000), f"/{EXTENSION}"),
    (STARTED, _extension(v=2), f"/{EXTENSION}"),
    (STARTED, _extension(v=True), f"/{EXTENSION}"),
    (STARTED, _extension(phase="completed"), f"/{EXTENSION}"),
    (STARTED, _extension(level="all"), f"/{EXTENSION}"),
    (STARTED, _extension(seal="A" * 64), f"/{EXTENSION}"),
    (STARTED, _extension(outcome="done"), f"/{EXTENSION}"),
    (STARTED, _extension(host="x"), f"/{EXTENSION}"),
    (STARTED, _extension(request_text=None), f"/{EXTENSION}"),
    (STARTED, _extension(governance_context_available="yes"), f"/{EXTENSION}"),
    (COMPLETED, _extension(outcome="good"), f"/{EXTENSION}"),
    (COMPLETED, _extension(evidence_ref="x"), f"/{EXTENSION}"),
]


@pytest.mark.parametrize(("phase", "change", "place"), FAULTY)
def test_a_fault_is_named_by_its_place(phase: str, change: Change, place: str) -> None:
    held = event(phase)
    change(held)

    assert place in places(held)


@pytest.mark.parametrize("level", ("ids", "metadata"))
def test_what_the_table_keeps_back_at_a_level_is_a_fault(level: str) -> None:
    held = event(STARTED, level)
    _extension(request_text="implement the login")(held)

    assert [(f"/{EXTENSION}", f"request_text is not sent on started at level {level}")] == faults(held)


def test_an_actor_model_is_not_sent_at_level_ids() -> None:
    held = event(STARTED, "ids")
    held["data"]["payload"]["actor"]["model"] = "m"

    assert ["/data/payload/actor/model"] == places(held)


def test_an_envelope_in_the_payloads_place_is_not_judged_by_what_is_inside() -> None:
    held = event()
    held["data"]["payload"] = {"event_type": EVENT_TYPES[STARTED], "payload": held["data"]["payload"], "leak": "x"}

    assert ["/data/payload/event_type", "/data/payload/payload"] == places(held)


def test_a_completed_with_a_payload_is_told_that_the_contract_has_none() -> None:
    held = event(COMPLETED)
    held["data"]["payload"] = {"outcome": "done"}

    assert ["the contract reserves ProfileInvocationCompleted and gives it no payload; expected an empty object"] == [
        fault.detail for fault in faults(held)
    ]


def test_faults_do_not_repeat_what_was_sent() -> None:
    held = event()
    held["data"]["causation_id"] = held["id"] = held["data"]["event_id"] = "a secret of twenty-six chars"
    held["data"]["payload"]["actor"]["actor_type"] = "a secret"
    _extension(outcome="a secret", seal="a secret")(held)

    assert "secret" not in json.dumps(faults(held))


def test_every_fault_is_named_not_only_the_first() -> None:
    held = event(extra=1, specversion="2")
    del held["data"]["payload"]["profile_slug"]

    assert ["/extra", "/specversion", "/data/payload/profile_slug"] == places(held)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=draws(300), deadline=None)
def test_any_json_value_is_answered_with_faults(value: object) -> None:
    assert faults(value)


PATHS = [
    *event(),
    *(f"data.{name}" for name in event()["data"]),
    *(f"data.payload.{name}" for name in event()["data"]["payload"]),
    *(f"data.payload.actor.{name}" for name in event()["data"]["payload"]["actor"]),
]


@given(st.sampled_from(PATHS), JSON, st.sampled_from(PHASES))
@settings(max_examples=draws(300), deadline=None)
def test_any_json_value_in_any_members_place_is_answered(path: str, value: object, phase: str) -> None:
    held = event(phase)
    try:
        _put(path, value)(held)
    except KeyError:
        return  # a Completed has no payload to change
    before = copy.deepcopy(held)

    found = faults(held)

    assert all(isinstance(fault.pointer, str) and fault.detail for fault in found)
    assert repr(before) == repr(held)


def test_a_value_nested_a_hundred_thousand_deep_is_a_fault() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]

    assert "deeper" in faults(event(data=value))[0].detail


def test_a_value_of_a_million_members_is_one_fault() -> None:
    assert [("", "holds more than 1000 values")] == faults(event(data={str(n): n for n in range(1_000_000)}))


def test_an_integer_of_four_thousand_digits_is_a_fault() -> None:
    assert ["/data/lamport_clock"] == places(event(data={**event()["data"], "lamport_clock": 10**4000}))


CATEGORIES = (
    "analytics",
    "collaboration",
    "connector",
    "decisionpoint",
    "dossier",
    "edge_cases",
    "events",
    "glossary",
    "harness_observation",
    "mission_audit",
    "mission_next",
    "profile_invocation",
    "retrospective",
    "work_observation",
)


def _cases() -> list[FixtureCase]:
    return [case for category in CATEGORIES for case in load_fixtures(category)]


def _wrapped(case: FixtureCase) -> dict[str, Any]:
    """The fixture as the payload of an Event of its own type, or as the Event, in an otherwise faultless CloudEvent."""
    held = event()
    whole = case.event_type == "Event"
    held["data"] = case.payload if whole else {**held["data"], "event_type": case.event_type, "payload": case.payload}
    return held


OURS = [case for case in _cases() if case.event_type == EVENT_TYPES[STARTED]]
OTHERS = [case for case in _cases() if case.event_type != EVENT_TYPES[STARTED]]
FIELD: Mapping[str, str] = {
    "profile-invocation-started-invalid-missing-slug": "/data/payload/profile_slug",
    "profile-invocation-started-invalid-empty-action": "/data/payload/action",
}


def test_the_package_has_fixtures_for_both_answers() -> None:
    assert {True, False} == {case.expected_valid for case in OURS}
    assert len([case for case in OTHERS if not case.expected_valid]) > 50


def test_an_invalid_fixture_of_the_package_is_refused_naming_the_field() -> None:
    invalid = [case for case in OURS if not case.expected_valid]
    assert [case.id for case in invalid if FIELD[case.id] not in places(_wrapped(case))] == []


def test_a_valid_fixture_of_the_package_is_taken() -> None:
    """Also with the members of the contract that we never send: another producer may."""
    assert [case.id for case in OURS if case.expected_valid and places(_wrapped(case))] == []


def test_another_types_fixture_is_refused_naming_the_type() -> None:
    assert [case.id for case in OTHERS if "/data/event_type" not in places(_wrapped(case))] == []


def test_pointers_are_escaped() -> None:
    assert "/a~1b/~0/0" == pointer(("a/b", "~", 0))
