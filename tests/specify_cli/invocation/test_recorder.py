"""Run events on an open record: one batch one write, checkpoints with drift, links to what is closed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.invocation.ends.opening import PLAIN_TERMS
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.event_models import parse_event
from specify_cli.record.record import split_lines
from specify_cli.record.state import rehydrate
from specify_cli.storage.checking import verify_all
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import show_invocation

POLICY = "rules:\n- id: no-sql\n  match: {tag: sql}\n  action: deny\n"


@pytest.fixture
def opened(chartered: Path) -> ProfileInvocationExecutor:
    return ProfileInvocationExecutor(chartered)


@pytest.fixture
def run(opened: ProfileInvocationExecutor) -> str:
    return opened.invoke("implement WP03").invocation_id


def lines(root: Path) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob("*.jsonl")
    return [json.loads(raw) for _, raw in split_lines(path.read_bytes())]


def findings(root: Path) -> list[tuple[str, str]]:
    project, _ = load_project(str(root))
    return [(item.code, item.file) for report in verify_all(project) for item in report.findings]


def recorder(root: Path, invocation_id: str, **given: Any) -> Recorder:
    project, _ = load_project(str(root))
    return Recorder(project, Index(project.root).resolve(invocation_id), **given)


def test_a_batch_is_appended_in_order_as_valid_events(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    batch = opened.record(
        run,
        [
            ("tool_call", {"tool": "grep", "call_id": "c1", "args": {"q": "x"}, "side_effect": "none"}),
            ("tool_result", {"call_id": "c1", "output": "nothing"}),
            ("error", {"error_code": "E", "severity": "warning"}),
        ],
    )

    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    parsed = [parse_event(raw) for _, raw in split_lines(path.read_bytes())]
    assert [event.event for event in parsed[4:]] == ["tool_call", "tool_result", "error"]
    assert [line.seq for line in batch.lines] == [4, 5, 6]
    assert not batch.durable
    assert findings(chartered) == []


def test_one_bad_event_refuses_the_whole_batch_and_says_which(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    with pytest.raises(InvocationError, match=r"event 2: tool_call\.tool") as refused:
        opened.record(run, [("error", {"error_code": "E"}), ("tool_call", {})])

    assert refused.value.code == "PAYLOAD_INVALID"
    assert len(lines(chartered)) == 4


@pytest.mark.parametrize(
    ("event", "synced"),
    [
        (("tool_call", {"tool": "t"}), 1),
        (("tool_call", {"tool": "t", "side_effect": "idempotent"}), 0),
        (("tool_result", {"call_id": "c"}), 0),
        (("model_call", {"model": "m"}), 0),
        (("step_started", {"step": "s"}), 0),
        (("step_completed", {"step": "s"}), 1),
        (("step_failed", {"step": "s", "error_code": "E"}), 1),
        (("policy_violation", {"rule_id": "r"}), 1),
        (("gate_decision", {"gate": "g", "rule_ref": "r", "outcome": "pass", "reason_code": "ok"}), 1),
    ],
)
def test_durable_kinds_are_synced_once_and_the_others_are_not(
    opened: ProfileInvocationExecutor, run: str, monkeypatch: pytest.MonkeyPatch, event: Any, synced: int
) -> None:
    count = 0
    real = os.fdatasync

    def counted(fd: int) -> None:
        nonlocal count
        count += 1
        real(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    batch = opened.record(run, [event, ("error", {"error_code": "E"})])

    assert (count, batch.durable) == (synced, bool(synced))


@pytest.mark.parametrize("event", ["started", "completed", "checkpoint", "resumed", "replayed", "retrieval_request"])
def test_what_is_computed_is_not_recorded_by_hand(opened: ProfileInvocationExecutor, run: str, event: str) -> None:
    with pytest.raises(InvocationError) as refused:
        opened.record(run, [(event, {})])

    assert refused.value.code == "PAYLOAD_INVALID"
    assert "spec-kitty" in refused.value.suggestion or "API" in refused.value.suggestion or event == "recovered"


def test_nothing_follows_a_closed_record(chartered: Path, opened: ProfileInvocationExecutor, run: str) -> None:
    opened.complete(run)
    writes: tuple[Callable[[], Any], ...] = (
        lambda: opened.record(run, [("error", {"error_code": "E"})]),
        lambda: opened.record(run, [("stage_transition", {"to": "x"})]),
        lambda: opened.commit(run),
    )
    for write in writes:
        with pytest.raises(InvocationError) as refused:
            write()
        assert refused.value.code == "ALREADY_COMPLETED"

    assert lines(chartered)[-1]["event"] == "completed"


def test_a_link_to_a_closed_record_is_an_annex_that_show_and_verify_know(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    (chartered / "made.txt").write_text("made")
    opened.complete(run)
    before = lines(chartered)
    batch = opened.record(run, [("artifact_link", {"path": str(chartered / "made.txt")})])

    project, _ = load_project(str(chartered))
    shown: Any = show_invocation(project, run)
    (path,) = batch.annexes
    annex = json.loads((chartered / path).read_text())
    assert lines(chartered) == before
    assert annex["prev"] == before[-1]["~"]
    assert [item["ref"] for item in shown["evidence"]["artifacts"]] == ["made.txt"]
    assert [item["event"] for item in shown["annexes"]] == ["artifact_link"]
    assert findings(chartered) == []


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda data: data.replace(b"made.txt", b"mode.txt"), "HASH_MISMATCH"),
        (lambda data: data[:-1], "ANNEX_MISMATCH"),
        (lambda data: data + data, "ANNEX_MISMATCH"),
        (lambda _: b"", "ANNEX_MISMATCH"),
    ],
)
def test_a_harmed_annex_is_one_finding_at_its_file(
    chartered: Path, opened: ProfileInvocationExecutor, run: str, harm: Callable[[bytes], bytes], code: str
) -> None:
    (chartered / "made.txt").write_text("made")
    opened.complete(run)
    (path,) = opened.record(run, [("artifact_link", {"path": str(chartered / "made.txt")})]).annexes
    (chartered / path).write_bytes(harm((chartered / path).read_bytes()))

    assert findings(chartered) == [(code, path)]


def test_an_annex_of_another_record_does_not_fit(chartered: Path, opened: ProfileInvocationExecutor, run: str) -> None:
    (chartered / "made.txt").write_text("made")
    other = opened.invoke("review WP03").invocation_id
    for invocation_id in (run, other):
        opened.complete(invocation_id)
    (path,) = opened.record(run, [("artifact_link", {"path": str(chartered / "made.txt")})]).annexes
    moved = f"{layout.annex_folder(other)}/{Path(path).name}"
    (chartered / moved).parent.mkdir(parents=True)
    (chartered / path).rename(chartered / moved)

    assert findings(chartered) == [("ANNEX_MISMATCH", moved)]


def test_a_stage_transition_brings_a_checkpoint_of_the_state_before_it(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    opened.record(run, [("stage_transition", {"to": "look"})])
    batch = opened.record(run, [("step_started", {"step": "s"}), ("stage_transition", {"to": "mend"})])

    found = lines(chartered)
    last = found[-1]
    corpus = json.loads(FileObjectStore(str(chartered)).get(last["corpus"]))
    assert [line["event"] for line in found[4:]] == [
        "stage_transition", "checkpoint", "step_started", "stage_transition", "checkpoint",
    ]  # fmt: skip
    assert found[7]["from"] == "look" and found[4]["from"] is None
    assert last["state_hash"] == rehydrate(found[:-1]).state_hash
    assert not last["manual"] and ".kittify/charter/charter.md" in corpus["files"]
    assert batch.durable
    assert findings(chartered) == []


def test_a_policy_that_changed_is_referenced_before_the_checkpoint_once(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    policy = chartered / ".kittify/charter/policy.yaml"
    policy.write_text(POLICY)
    opened.record(run, [("stage_transition", {"to": "one"})])
    policy.write_text("# the same rules\n" + POLICY)
    opened.record(run, [("stage_transition", {"to": "two"})])
    policy.write_text(POLICY.replace("deny", "redact"))
    opened.commit(run)
    policy.unlink()
    opened.commit(run)

    references = [line for line in lines(chartered) if line["event"] == "policy_snapshot_ref"]
    assert [line["reason"] for line in references] == ["start", "drift", "drift", "drift"]
    assert [line.get("replaces") for line in references] == [None, None, *(r["policy_hash"] for r in references[1:3])]
    assert FileObjectStore(str(chartered)).get(references[2]["bundle"]) == POLICY.replace("deny", "redact").encode()
    assert references[3]["bundle"] is None
    events = [line["event"] for line in lines(chartered)]
    assert all(
        events[at + 1] == "checkpoint" for at, name in enumerate(events) if name == "policy_snapshot_ref" and at > 1
    )
    assert findings(chartered) == []


def test_a_policy_that_cannot_be_read_is_no_policy_withdrawn(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    (chartered / ".kittify/charter/policy.yaml").mkdir()
    for _ in range(2):
        opened.commit(run)

    references = [line for line in lines(chartered) if line["event"] == "policy_snapshot_ref"]
    assert [(line["reason"], "error" in line) for line in references] == [("start", False), ("drift", True)]


def test_a_step_without_an_ordinal_is_numbered_as_it_comes(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    for event in ("step_started", "step_completed", "step_started", "step_failed", "step_started"):
        opened.record(run, [(event, {"step": "s", **({"error_code": "E"} if event == "step_failed" else {})})])

    assert [line["ordinal"] for line in lines(chartered)[4:]] == [1, 1, 2, 2, 3]


def test_a_label_means_one_checkpoint_unless_it_is_forced(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    opened.commit(run, "ready")
    with pytest.raises(InvocationError) as refused:
        opened.commit(run, "ready")
    opened.commit(run, "ready", force=True)

    assert refused.value.code == "LABEL_TAKEN" and "seq 4" in refused.value.message
    assert [line.get("label") for line in lines(chartered)[4:]] == ["ready", "ready"]


@pytest.mark.parametrize("label", ["start", "12", "", "a b", "x" * 65, "../up", "-x", "a\nb"])
def test_a_label_is_a_name(opened: ProfileInvocationExecutor, run: str, label: str) -> None:
    with pytest.raises(InvocationError) as refused:
        opened.commit(run, label)

    assert refused.value.code == "INVALID_VALUE"


def test_a_dry_run_shows_the_masked_line_and_writes_nothing(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    before = {path: path.read_bytes() for path in chartered.rglob("*") if path.is_file()}
    batch = opened.record(run, [("tool_result", {"call_id": "c", "output": f"token {secret}"})], dry_run=True)

    (line,) = batch.lines
    assert line.seq is None and secret not in json.dumps(line.body) and line.body["redactions"]
    assert {path: path.read_bytes() for path in chartered.rglob("*") if path.is_file()} == before


def test_the_same_physical_event_is_recorded_once(chartered: Path, run: str) -> None:
    hand = recorder(chartered, run)
    items = [hand.compose("error", {"error_code": code}) for code in ("A", "B")]
    keys = ["0" * 32, "1" * 32]
    hand.append(items[:1], dedupe=keys[:1])
    batch = hand.append(items, dedupe=keys)

    assert [line["error_code"] for line in lines(chartered)[4:]] == ["A", "B"]
    assert batch.duplicates == 1


def test_two_retries_with_equal_content_are_both_kept(
    chartered: Path, opened: ProfileInvocationExecutor, run: str
) -> None:
    for _ in range(2):
        opened.record(run, [("error", {"error_code": "E"})])

    assert [line["event"] for line in lines(chartered)[4:]] == ["error", "error"]


def test_a_follower_takes_in_what_others_wrote(chartered: Path, opened: ProfileInvocationExecutor, run: str) -> None:
    hand = recorder(chartered, run, follow=True)
    hand.append([hand.compose("step_started", {"step": "mine"})])
    opened.record(run, [("step_started", {"step": "theirs"})])
    hand.append([hand.compose("step_completed", {"step": "mine"})])

    assert hand.fold.state() == rehydrate(lines(chartered))
    assert [key for key, _ in hand.fold.state().open_steps] == ["theirs"]


def test_a_torn_tail_before_an_append_is_recovered_and_followed(chartered: Path, run: str) -> None:
    hand = recorder(chartered, run, follow=True)
    hand.append([hand.compose("step_started", {"step": "one"})])
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"at":"2024-11-20T09')
    hand.append([hand.compose("step_completed", {"step": "one"})])
    hand.append([hand.compose("step_started", {"step": "two"})])

    state = hand.fold.state()
    assert [end.step for end in state.completed_steps] == ["one"]
    assert state.current_step == ("two", 1)
    assert [code for code, _ in findings(chartered)] == ["RECOVERED"]


def test_a_full_disk_leaves_the_record_as_it_was(chartered: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hand = recorder(chartered, run, follow=True)
    before = lines(chartered)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_all", full)
        with pytest.raises(InvocationError) as refused:
            hand.append([hand.compose("step_started", {"step": "one"})])
    assert refused.value.code == "WRITE_FAILED"
    assert lines(chartered) == before
    hand.append([hand.compose("step_started", {"step": "two"})])

    assert hand.fold.state() == rehydrate(lines(chartered))


def test_with_the_trail_off_the_lines_say_that_it_was_and_how_much_was_not_kept(
    chartered: Path, opened: ProfileInvocationExecutor
) -> None:
    payload = opened.invoke("fix the PLANTED test", terms=PLAIN_TERMS._replace(trail=False))
    batch = opened.record(payload.invocation_id, [("error", {"error_code": "PLANTED"})])
    (chartered / "PLANTED.txt").write_text("x")
    with pytest.raises(InvocationError) as refused:
        opened.complete(payload.invocation_id, evidence=str(chartered / "PLANTED.txt"))
    opened.complete(payload.invocation_id)

    started, swallowed, completed = lines(chartered)
    assert started["request_text"] is None and started["tombstone"] is True
    assert (swallowed["reason"], swallowed["what"], swallowed["count"]) == ("trail_off", "error", 1)
    assert completed["event"] == "completed"
    assert payload.governance_context_text and any("TRAIL_OFF" in text for text in payload.warnings)
    assert "not kept" in batch.warnings[0]
    assert refused.value.code == "EVIDENCE_NOT_ALLOWED"
    assert not any(b"PLANTED" in p.read_bytes() for p in (chartered / ".kittify/events").rglob("*") if p.is_file())
    assert not (chartered / layout.OBJECTS).exists() or not [
        path for path in (chartered / layout.OBJECTS).rglob("*") if path.is_file() and path.name != ".gitignore"
    ]
    assert findings(chartered) == []
    parse_event((next((chartered / layout.RECORDS).glob("*.jsonl"))).read_bytes().split(b"\n")[0])


def test_a_record_of_another_kind_is_not_continued(chartered: Path, opened: ProfileInvocationExecutor) -> None:
    folder = chartered / layout.RECORDS
    opened.invoke("implement WP03")
    old = "01JD4Q3S0000000000000000A1"
    (folder / f"{old}.jsonl").write_text('{"event":"started","invocation_id":"' + old + '"}\n')

    with pytest.raises(InvocationError) as refused:
        opened.record(old, [("error", {"error_code": "E"})])
    assert refused.value.code == "RECORD_UNSEALED"


def test_capture_of_a_run_can_only_narrow_what_the_config_states(chartered: Path) -> None:
    (chartered / ".kittify/config.yaml").write_text("audit: {capture_tool_io: hash}\n")
    opened = ProfileInvocationExecutor(chartered)
    terms = PLAIN_TERMS._replace(capture={"tool": "full", "prompt": "full", "response": "off"})
    invocation_id = opened.invoke("implement WP03", terms=terms).invocation_id

    assert lines(chartered)[0]["capture"] == {
        "prompt": "full", "response": "off", "tool_args": "hash", "tool_output": "hash",
    }  # fmt: skip
    (chartered / ".kittify/config.yaml").write_text("audit: {capture_tool_io: 'off'}\n")
    opened.record(invocation_id, [("tool_result", {"call_id": "c", "output": "x"})])
    assert "output_hash" not in lines(chartered)[-1]


@pytest.mark.parametrize(
    "capture", [{"tool": "Full"}, {"tools": "full"}, {"tool": None}, {"llm": ""}, {"prompt": True}]
)
def test_an_unknown_capture_is_refused(opened: ProfileInvocationExecutor, capture: Any) -> None:
    with pytest.raises(InvocationError) as refused:
        opened.invoke("implement WP03", terms=PLAIN_TERMS._replace(capture=capture))

    assert refused.value.code == "INVALID_VALUE"


def test_the_digest_key_of_a_clone_is_outside_the_work_tree_and_stays(chartered: Path) -> None:
    (chartered / ".kittify/config.yaml").write_text("audit: {capture_tool_io: hash}\n")
    opened = ProfileInvocationExecutor(chartered)
    invocation_id = opened.invoke("implement WP03").invocation_id
    for _ in range(2):
        opened.record(invocation_id, [("tool_result", {"call_id": "c", "output": "x"})])

    one, two = lines(chartered)[4:]
    key = chartered / ".git/kittify/capture.key"
    assert (one["output_hash"], one["digest_key"]) == (two["output_hash"], two["digest_key"])
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32


def test_no_line_is_older_than_the_one_before_it_whoever_waits_for_the_lock(chartered: Path, run: str) -> None:
    """A writer that looked at the clock, and then waited while another wrote, looks again."""
    now = [10**18]
    events = [("error", {"error_code": "E", "message": "m"})]
    waits = recorder(chartered, run, clock=lambda: now[0])
    overtakes = recorder(chartered, run, clock=lambda: now[0])
    append = waits._writer.append

    def wait(*given: Any, **named: Any) -> Any:
        now[0] += 10**9
        overtakes.append([overtakes.compose(*event) for event in events])
        now[0] += 10**9
        return append(*given, **named)

    waits._writer.append = wait  # type: ignore[method-assign]
    waits.append([waits.compose(*event) for event in events])
    moments = [line["at"] for line in lines(chartered) if line["event"] == "error"]

    assert moments == sorted(moments) and len(set(moments)) == 2
