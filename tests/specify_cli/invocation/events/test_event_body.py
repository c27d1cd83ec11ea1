"""Raw payloads become lines: checked, masked, captured as far as the mode says and no further."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.invocation.events.event_body import (
    PayloadError,
    Settings,
    compose_event,
    without_objects,
)
from specify_cli.record.event_models import parse_event
from specify_cli.record.event_table import EVENTS, RECORDABLE
from specify_cli.record.record import chain, genesis_tip, split_lines
from specify_cli.redaction.capture import MODES, DigestKey
from specify_cli.redaction.redact import rule_set, shipped_rule_set

ID = "01JD4Q3S0000000000000000A1"
AT = "2024-11-20T09:00:00.000Z"
KEY = DigestKey("k" * 16, b"secret" * 6)
SIDES = ("prompt", "response", "tool_args", "tool_output")
SAMPLES: dict[str, dict[str, Any]] = {
    "prompt": {"text": "PLANTED"},
    "turn": {"text": "PLANTED", "thinking": "PLANTED", "model": "m", "tokens": {"input": 3}, "requests": 1},
    "session_change": {"change": "ended", "reason": "exit"},
    "stage_transition": {"to": "change"},
    "step_started": {"step": "look", "ordinal": 1, "input": {"path": "PLANTED"}},
    "step_completed": {"step": "look", "ordinal": 1, "output": "PLANTED", "duration_ms": 3},
    "step_failed": {"step": "look", "ordinal": 1, "error_code": "ValueError", "message": "PLANTED"},
    "tool_call": {"tool": "grep", "args": {"q": ["PLANTED", 1.5, None]}},
    "tool_result": {"call_id": "c1", "output": {"lines": "PLANTED"}},
    "patch_apply": {"path": "a.py", "kind": "modify", "before": "PLANTED", "after": "PLANTED", "diff": "+PLANTED"},
    "gate_decision": {
        "gate": "g", "rule_ref": "at-least", "outcome": "pass", "reason_code": "r", "inputs": {"x": "PLANTED"},
    },
    "approval": {"decision": "deny", "refers_to": "call", "call_id": "c1", "args": {"q": "PLANTED"}, "approver": "Ada"},
    "model_call": {"model": "m", "prompt": "PLANTED", "response": "PLANTED", "tokens": {"input": 3}},
    "error": {"error_code": "E", "message": "PLANTED"},
    "policy_violation": {"rule_id": "limit:steps", "allowed": 1, "found": 2},
    "capture_gap": {"reason": "r", "what": "w"},
}  # fmt: skip


def settings(mode: str = "summary", **more: Any) -> Settings:
    return Settings(dict.fromkeys(SIDES, mode), more.get("rules", shipped_rule_set()), more.get("key", KEY))


def compose(event: str, payload: dict[str, Any], mode: str = "summary", **more: Any) -> Any:
    return compose_event(event, payload, settings(mode, **more), new_id=lambda: ID, trace_id="0" * 32)


def line(body: dict[str, Any]) -> bytes:
    data, _ = chain(genesis_tip(), ID, [{**body, "at": AT}])
    return data[:-1]


def test_every_event_is_recorded_by_hand_or_has_a_command_of_its_own() -> None:
    assert {*SAMPLES, "artifact_link", "commit_link"} == set(RECORDABLE)
    assert all(EVENTS[name].command for name in EVENTS.keys() - {*RECORDABLE})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("event", SAMPLES)
def test_what_a_payload_becomes_is_a_valid_event(event: str, mode: str) -> None:
    parsed = parse_event(line(compose(event, SAMPLES[event], mode).body))

    extra = parsed.model_extra
    assert parsed.event == event
    assert extra == {}


@pytest.mark.parametrize("event", [name for name in SAMPLES if "PLANTED" in json.dumps(SAMPLES[name])])
@pytest.mark.parametrize("mode", ["off", "hash"])
def test_in_the_narrow_modes_no_text_is_left(event: str, mode: str) -> None:
    composed = compose(event, SAMPLES[event], mode)

    kept = json.dumps(composed.body) + "".join(blob.decode() for blob in composed.objects)
    assert "PLANTED" not in kept
    assert ("_hash" in kept) == (mode == "hash")


def test_off_leaves_no_digest_and_no_size() -> None:
    assert compose("tool_result", SAMPLES["tool_result"], "off").body == {
        "event": "tool_result", "call_id": "c1", "status": "ok",
    }  # fmt: skip


def test_a_digest_is_that_of_the_canonical_redacted_value() -> None:
    value: Any = {"b": [1.5, "x"], "a": None}
    body = compose("tool_call", {"tool": "t", "args": value}, "full").body

    assert body["args"] == rfc8785.dumps(value).decode()
    assert body["args_hash"] == hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def test_without_a_key_mode_hash_keeps_a_size_alone() -> None:
    body = compose("tool_result", {"call_id": "c", "output": "abc"}, "hash", key=None).body

    assert {"output_size": 5}.items() <= body.items()
    assert "output_hash" not in body and "digest_key" not in body


def test_a_large_output_is_an_object_with_digest_size_and_media_type() -> None:
    text = "line\n" * 20_000
    composed = compose("tool_result", {"call_id": "c", "output": text}, "full")

    (blob,) = composed.objects
    kept = composed.body["output"]
    assert json.loads(blob) == text
    assert kept["object"] == hashlib.sha256(blob).hexdigest() == composed.body["output_hash"]
    assert (kept["size"], kept["media_type"]) == (len(blob), "application/json")
    assert composed.body["export_safe"] is False


def test_an_object_that_cannot_be_stored_leaves_its_digest_a_mark_and_a_gap() -> None:
    composed: Any = without_objects(
        compose("tool_result", {"call_id": "c", "output": "x" * 40_000}, "full"), "cannot write: No space left"
    )

    assert composed.objects == ()
    assert {"truncated": True, "kept": 0, "size": 40_002}.items() <= composed.body["output"].items()
    assert len(composed.body["output_hash"]) == 64
    assert [(gap["reason"], gap["what"]) for gap in composed.gaps] == [("object_not_stored", "tool_result.output")]
    assert parse_event(line(composed.gaps[0])).event == "capture_gap"


def test_what_a_payload_says_of_an_approval_is_a_claim() -> None:
    payload = SAMPLES["approval"]

    assert compose("approval", payload).body["identity"] == "claim"
    with pytest.raises(PayloadError, match="identity"):
        compose("approval", {**payload, "identity": "ssh"})


def test_gate_inputs_are_one_whole_object() -> None:
    composed = compose("gate_decision", SAMPLES["gate_decision"], "summary")

    assert composed.objects == (b'{"x":"PLANTED"}',)
    assert composed.body["inputs"] == hashlib.sha256(composed.objects[0]).hexdigest()


@pytest.mark.parametrize(
    ("event", "payload", "names"),
    [
        ("tool_call", {}, "tool_call.tool"),
        ("tool_call", {"tool": ""}, "tool_call.tool"),
        ("tool_call", {"tool": "x" * 513}, "tool_call.tool"),
        ("tool_call", {"tool": 3}, "tool_call.tool"),
        ("tool_call", {"tool": "t", "args_hash": "0" * 64}, "tool_call.args_hash"),
        ("tool_call", {"tool": "t", "seq": 3}, "tool_call.seq"),
        ("tool_call", {"tool": "t", "at": AT}, "tool_call.at"),
        ("tool_call", {"tool": "t", "~": "x"}, "tool_call.~"),
        ("tool_call", {"tool": "t", "redactions": {}}, "tool_call.redactions"),
        ("tool_call", {"tool": "t", "argz": 1}, "argz"),
        ("tool_call", {"tool": "t", "side_effect": "maybe"}, "tool_call.side_effect"),
        ("tool_result", {"status": "ok"}, "tool_result.call_id"),
        ("tool_result", {"call_id": "c", "duration_ms": -1}, "tool_result.duration_ms"),
        ("tool_result", {"call_id": "c", "duration_ms": 1.5}, "tool_result.duration_ms"),
        ("tool_result", {"call_id": "c", "duration_ms": True}, "tool_result.duration_ms"),
        ("step_started", {"step": "s", "ordinal": 2**53}, "step_started.ordinal"),
        ("step_started", {"step": "s", "ordinal": 0}, "step_started.ordinal"),
        (
            "gate_decision",
            {"gate": "g", "rule_ref": "r", "outcome": "pass", "reason_code": "x", "rule_digest": "zz"},
            "gate_decision.rule_digest",
        ),
        ("model_call", {"model": "m", "tokens": {f"k{n}": 1 for n in range(65)}}, "model_call.tokens"),
        ("step_completed", {"step": "s", "decision": "MAYBE"}, "step_completed.decision"),
        ("patch_apply", {"path": "p", "kind": "rename"}, "patch_apply.kind"),
        ("patch_apply", {"path": "p", "kind": "modify", "diff": {"a": 1}}, "patch_apply.diff"),
        ("model_call", {"model": "m", "tokens": [1]}, "model_call.tokens"),
        ("model_call", {"model": "m", "tokens": {"in": "3"}}, "model_call.tokens.in"),
        ("model_call", {"model": "m", "ok": "yes"}, "model_call.ok"),
    ],
)
def test_a_wrong_payload_is_refused_naming_the_member(event: str, payload: dict[str, Any], names: str) -> None:
    with pytest.raises(PayloadError, match=names.replace(".", r"\.").replace("~", ".")):
        compose(event, payload)


@pytest.mark.parametrize("event", SAMPLES)
def test_a_secret_is_masked_in_every_text_of_every_event(event: str) -> None:
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    payload = dict(SAMPLES[event])
    for name, field in EVENTS[event].recordable.items():
        if field.kind in ("name", "note", "message", "path", "captured", "object") and name not in ("call_id",):
            payload[name] = f"see {secret} there"
    composed = compose(event, payload, "full")

    kept = json.dumps(composed.body, ensure_ascii=False) + "".join(blob.decode() for blob in composed.objects)
    assert secret not in kept
    assert "⟦" in kept and composed.body["redactions"]


def test_redaction_that_fails_leaves_the_text_out_and_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    from specify_cli.invocation.events import event_body as module

    def fail(*_: Any, **__: Any) -> Any:
        raise module.RedactionError("rule x took too long")

    monkeypatch.setattr(module, "apply_mode", fail)
    composed = compose("tool_result", {"call_id": "c", "output": "PLANTED"})

    assert "PLANTED" not in json.dumps(composed.body)
    assert [(gap["reason"], gap["what"]) for gap in composed.gaps] == [("redaction_failed", "tool_result.output")]


def test_our_own_ids_and_digests_are_never_masked() -> None:
    body = compose("tool_call", {"tool": "t", "call_id": ID, "args": {"sha": "f" * 64, "id": ID}}, "full").body

    assert body["call_id"] == ID and "redactions" not in body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from(MODES))
def test_any_json_is_taken_and_the_line_is_whole(value: Any, mode: str) -> None:
    composed = compose("tool_result", {"call_id": "c", "output": value}, mode, rules=rule_set(()))

    (pair,) = split_lines(line(composed.body) + b"\n")
    assert parse_event(pair[1]).event == "tool_result"
