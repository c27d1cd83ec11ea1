"""What leaves is the table's, level by level; the table is the documentation's; the envelopes are the package's."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import spec_kitty_events
from hypothesis import given
from hypothesis import strategies as st
from spec_kitty_events.conformance import validate_event
from spec_kitty_events.conformance.validators import _EVENT_TYPE_TO_MODEL
from spec_kitty_events.models import Event
from spec_kitty_events.profile_invocation import PROFILE_INVOCATION_EVENT_TYPES, PROFILE_INVOCATION_RESERVED_TYPES

from specify_cli.features.sync.sending.outbox import RecordSummary, look_at
from specify_cli.libraries.wire import contract
from specify_cli.libraries.wire.contract import (
    COMPLETED,
    EXTENSION,
    FIELDS,
    LEVELS,
    PHASES,
    STARTED,
    compose,
    flat,
    same_content,
)
from specify_cli.libraries.wire.validation import faults
from specify_cli.storage.store import Place

GAPS_PAGE = "docs/adr/0014-gaps-of-the-event-contract.md"
ROOT = Path(__file__).parents[3]
HISTORIES = sorted((ROOT / "tests" / "histories").glob("*/.kittify/events/profile-invocations/*.jsonl"))
PROJECT = "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10"
STARTED_LINE: dict[str, object] = {
    "invocation_id": "01M80QXKVJDDJGS7S1GG5EDQX8",
    "seq": 0,
    "started_at": "2026-11-21T09:00:00.000Z",
    "profile_id": "builder-bea",
    "action": "implement",
    "actor": {"actor_id": "ada", "actor_type": "human", "provider": "p", "model": "m", "tool": "t"},
    "request_text": "fix the login test",
    "governance_context_hash": "a" * 64,
    "governance_context_available": True,
    "mode_of_work": "task_execution",
    "router_confidence": "canonical_verb",
    "match_reason": "fix",
    "trace_id": "b" * 32,
    "parent_invocation_id": "01M80QXKVJDDJGS7S1GG5EDQX7",
    "mission": "042-login-form",
    "work_package": "WP03",
    "verb": "do",
    "~": "c" * 64,
}
COMPLETED_LINE: dict[str, object] = {
    "seq": 9,
    "completed_at": "2026-11-21T09:05:00.000Z",
    "outcome": "failed",
    "closed_by": "agent",
    "evidence_ref": "d" * 64,
    "~": "e" * 64,
}


def test_the_gaps_name_every_member_the_producer_envelope_requires_and_ours_lacks() -> None:
    folder = Path(spec_kitty_events.__file__).parent / "producer_contract"
    schema = json.loads((folder / "envelope.schema.json").read_text(encoding="utf-8"))
    page = (ROOT / GAPS_PAGE).read_text(encoding="utf-8").partition("10. **Four more")[2]

    for event in both("full").values():
        missing = set(schema["required"]) - event.keys()
        assert missing == {"dataschema", "schemaversion", "lamportclock", "nodeid"}
        assert all(f"`{name}`" in page for name in missing)


def both(level: str) -> dict[str, dict[str, object]]:
    return {
        STARTED: compose(PROJECT, level, STARTED_LINE),
        COMPLETED: compose(PROJECT, level, STARTED_LINE, COMPLETED_LINE),
    }


def seen(path: Path) -> RecordSummary:
    root = path.parents[3]
    place = Place(".kittify/events/profile-invocations", path.name, path.name[-32:-6], None)
    return look_at(str(root), place)


def _render_levels() -> str:
    """Return the tables of docs/sync-contract.md §5 as Markdown, one for each level; members that
    hold the same share a row."""
    tables: dict[str, dict[tuple[str, str], list[str]]] = {}
    for field in contract.FIELDS:
        phase = "both" if len(field.phases) == 2 else field.phases[0]
        level = next(level for level in contract.LEVELS if level in field.levels)
        # A member leaves at this level and at all behind it, but for the pseudonym.
        alone = "" if field.levels == contract.LEVELS[contract.LEVELS.index(level) :] else f" (at {level} alone)"
        rows = tables.setdefault(level, {})
        rows.setdefault((field.source + alone, phase), []).append(f"`{field.path}`")
    head = "| members | hold | phase |\n|---|---|---|\n"
    return "\n".join(
        f"From level `{level}` on:\n\n{head}"
        + "".join(f"| {', '.join(names)} | {holds} | {phase} |\n" for (holds, phase), names in rows.items())
        for level, rows in tables.items()
    )


def test_the_documentation_holds_the_table_of_the_code() -> None:
    text = (ROOT / "docs" / "sync-contract.md").read_text(encoding="utf-8")
    assert _render_levels() in text
    gaps = (ROOT / GAPS_PAGE).read_text(encoding="utf-8")
    for gap in contract.GAPS:
        assert f"\n{gap.number}. **" in gaps, gap


def test_an_envelope_outside_a_mission_is_its_own_run() -> None:
    data: Any = both("metadata")[STARTED]["data"]
    payload = data["payload"]
    assert payload["mission_id"] == payload["run_id"] == data["aggregate_id"] == STARTED_LINE["invocation_id"]
    assert payload["step_id"] == payload["action"] == "implement"
    wanted = uuid.uuid5(uuid.UUID(PROJECT), "01M80QXKVJDDJGS7S1GG5EDQX8/started")
    assert data["event_id"] == str(wanted)


def test_failed_goes_out_as_completed_with_its_outcome() -> None:
    event = both("ids")[COMPLETED]
    assert event["data"]["event_type"] == "ProfileInvocationCompleted"  # type: ignore[index]
    assert json.loads(str(event[EXTENSION]))["outcome"] == "failed"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("phase", PHASES)
def test_what_leaves_at_a_level_is_what_the_table_says(level: str, phase: str) -> None:
    allowed = {field.path for field in FIELDS if level in field.levels and phase in field.phases}
    allowed |= {"data.payload"} if phase == COMPLETED else set()
    line = None if phase == STARTED else COMPLETED_LINE
    merged = compose(PROJECT, level, STARTED_LINE, line, origin="merged")

    assert flat(merged).keys() == allowed
    assert flat(both(level)[phase]).keys() == allowed - {f"{EXTENSION}.origin"}
    assert faults(merged) == []


def test_how_a_sender_came_by_a_record_is_no_part_of_what_it_says() -> None:
    for level in LEVELS:
        assert same_content(both(level)[STARTED], compose(PROJECT, "full", STARTED_LINE, origin="merged"))


@pytest.mark.parametrize("level", LEVELS)
def test_a_member_of_a_record_that_the_table_does_not_name_never_leaves(level: str) -> None:
    planted = {f"planted_{n}": f"PLANTED-{n}" for n in range(3)}
    actor = {**STARTED_LINE["actor"], "email": "PLANTED-mail"}  # type: ignore[dict-item]
    started = {**STARTED_LINE, **planted, "actor": actor, "session": {"id": "PLANTED-s"}, "limits": "PLANTED-l"}
    completed = {**COMPLETED_LINE, **planted, "evidence_name": "PLANTED-e", "redactions": "PLANTED-r"}
    for line in (None, completed):
        assert "PLANTED" not in json.dumps(compose(PROJECT, level, started, line))


def test_texts_leave_at_full_alone_and_a_name_not_at_ids() -> None:
    texts = {level: json.dumps(both(level)) for level in LEVELS}
    assert [("fix the login test" in texts[level]) for level in LEVELS] == [False, False, True, True]
    assert [('"ada"' in texts[level]) for level in LEVELS] == [False, True, True, True]
    assert [("d" * 64 in texts[level]) for level in LEVELS] == [False, True, True, True]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_the_package_validates_every_envelope_of_the_recorded_histories(path: Path, level: str) -> None:
    """`Event` takes both phases, the payload validator every Started; Completed has no validator yet."""
    found = seen(path)
    if found.excluded is not None:
        pytest.skip(f"never sent: {found.excluded}")
    assert found.started is not None
    for completed in (None, found.completed):
        event: Any = compose(PROJECT, level, found.started, completed)
        Event(**event["data"])
        assert faults(event) == []
        assert event["data"]["event_type"] == contract.EVENT_TYPES[STARTED if completed is None else COMPLETED]
    started: Any = compose(PROJECT, level, found.started)
    judged = validate_event(started["data"]["payload"], "ProfileInvocationStarted", strict=True)
    assert judged.valid and not judged.schema_check_skipped


def test_some_history_is_sent_with_both_phases() -> None:
    assert any(found.excluded is None and found.completed is not None for found in map(seen, HISTORIES))


def test_the_day_the_package_defines_the_missing_payloads_this_turns_red() -> None:
    """Then docs/sync-contract.md, GAPS and the Completed payload have to follow."""
    assert spec_kitty_events.__version__.startswith("11.")
    assert PROFILE_INVOCATION_EVENT_TYPES == {"ProfileInvocationStarted"}
    assert PROFILE_INVOCATION_RESERVED_TYPES == {"ProfileInvocationCompleted", "ProfileInvocationFailed"}
    for name in PROFILE_INVOCATION_RESERVED_TYPES:
        assert name not in _EVENT_TYPE_TO_MODEL
        with pytest.raises(ValueError, match="Unknown event type"):
            validate_event({}, name)
    payload = _EVENT_TYPE_TO_MODEL["ProfileInvocationStarted"]
    lacking = {"request_text", "governance_context_hash", "governance_context_available", "evidence_ref", "seal"}
    assert not lacking & payload.model_fields.keys()
    assert payload.model_config["extra"] == "forbid"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(TEXTS, TEXTS, st.sampled_from(LEVELS))
def test_an_envelope_is_a_function_of_the_record(request: str, actor: str, level: str) -> None:
    """Whoever delivers a record, whenever: the same bytes, and any text is sent as it stands."""
    started = {**STARTED_LINE, "request_text": request, "actor": {"actor_id": actor, "actor_type": "human"}}
    one, two = compose(PROJECT, level, started), compose(PROJECT.upper(), level, dict(reversed(started.items())))
    assert json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert same_content(one, two)
    if level == "full":
        assert json.loads(str(one[EXTENSION]))["request_text"] == request


@pytest.mark.parametrize("phase", PHASES)
def test_the_same_record_at_two_levels_is_the_same_content(phase: str) -> None:
    at = {level: both(level)[phase] for level in LEVELS}
    assert all(same_content(at[one], at[two]) for one in LEVELS for two in LEVELS)


@pytest.mark.parametrize("level", LEVELS)
def test_any_changed_member_is_other_content_at_the_same_level(level: str) -> None:
    event: Any = both(level)[STARTED]
    for path in flat(event):
        if path in (f"{EXTENSION}.level", f"{EXTENSION}.v"):
            continue
        changed = json.loads(json.dumps(event))
        held = changed
        *above, last = path.split(".")
        if above and above[0] == EXTENSION:
            changed[EXTENSION] = contract.canonical({**json.loads(changed[EXTENSION]), last: "other"})
        else:
            for name in above:
                held = held[name]
            held[last] = "other"
        assert not same_content(event, changed), path


@pytest.mark.parametrize("level", LEVELS[1:])
def test_a_digest_of_evidence_that_a_sender_keeps_now_is_no_other_content(level: str) -> None:
    """An older version sent it where texts leave encrypted; what was lost has to be sent again."""
    changes: dict[str, dict[str, object]] = {
        "before": {},
        "now": {"evidence_ref": None},
        "other": {"evidence_ref": "e" * 64},
        "failed": {"evidence_ref": None, "outcome": "abandoned"},
    }
    told = {
        name: compose(PROJECT, level, STARTED_LINE, {**COMPLETED_LINE, **changed}) for name, changed in changes.items()
    }
    same = {(one, two) for one in told for two in told if same_content(told[one], told[two])}

    assert same == {
        *zip(told, told, strict=True),
        ("before", "now"),
        ("now", "before"),
        ("other", "now"),
        ("now", "other"),
    }


def test_a_changed_action_is_other_content_across_levels_too() -> None:
    changed = compose(PROJECT, "ids", {**STARTED_LINE, "action": "review"})
    assert not same_content(both("full")[STARTED], changed)


def test_a_signing_secret_is_whsec_and_base64() -> None:
    assert contract.is_signing_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert contract.is_signing_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS=")
    for text in ("", "whsec_", "whsec_%%%", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_ä"):
        assert not contract.is_signing_secret(text), text
