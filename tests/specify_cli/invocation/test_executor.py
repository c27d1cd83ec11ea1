"""From a request to a durable record and its payload, and from there to its close."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.invocation import executor
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.invocation.events import links
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.event_models import parse_event
from specify_cli.record.record import fold
from specify_cli.storage import store
from specify_cli.storage.checking import verify_all
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import show_invocation
from support import accept

EMPTY = hashlib.sha256(b"").hexdigest()
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _record(root: Path) -> Path:
    (found,) = (root / layout.RECORDS).glob("*.jsonl")
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git/" not in f"{path.relative_to(root)}/"
    }


def _codes(root: Path) -> list[str]:
    project, _ = load_project(str(root))
    return [item.code for report in verify_all(project) for item in report.findings]


def test_a_request_leaves_one_record_named_by_profile_and_id(project: Path) -> None:
    payload = ProfileInvocationExecutor(project).invoke("implement WP03")

    assert _record(project).name == f"{payload.profile_id}-{payload.invocation_id}.jsonl"
    assert payload.action == "implement"
    assert payload.record_path == str(_record(project).relative_to(project))
    assert _codes(project) == []


def test_the_first_lines_are_the_four_of_the_format_and_valid_events(chartered: Path) -> None:
    ProfileInvocationExecutor(chartered).invoke("review the SQL migration")

    raw = _record(chartered).read_bytes().split(b"\n")[:-1]
    assert [parse_event(line).event for line in raw] == [
        "started",
        "policy_snapshot_ref",
        "retrieval_request",
        "retrieval_response",
    ]


def test_every_line_checks_with_standard_tools_and_a_third_party_encoder(chartered: Path) -> None:
    opened = ProfileInvocationExecutor(chartered)
    done = opened.invoke('fix the "löginn" \U0001f511 test\twith\x01control')
    opened.complete(done.invocation_id)

    for line in _record(chartered).read_bytes().split(b"\n")[:-1]:
        shown = subprocess.run(
            ["sh", "-c", "head -c -73 | sha256sum"], input=line + b"\n", capture_output=True, check=True
        ).stdout
        value = json.loads(line)
        assert shown.split()[0].decode() == value["~"]
        assert rfc8785.dumps(value) == line


def test_without_a_charter_the_context_is_empty_and_says_what_to_do(project: Path) -> None:
    payload = ProfileInvocationExecutor(project).invoke("implement WP03")

    assert payload.governance_context_text == ""
    assert payload.governance_context_hash == EMPTY
    assert not payload.governance_context_available
    assert "spec-kitty charter synthesize" in payload.warnings[0]


def test_with_a_charter_the_text_is_an_object_named_by_its_recorded_hash(chartered: Path) -> None:
    payload = ProfileInvocationExecutor(chartered).invoke("implement WP03")

    text = payload.governance_context_text.encode()
    started = _lines(_record(chartered))[0]
    assert "Every change comes with a test" in payload.governance_context_text
    assert started["governance_context_hash"] == payload.governance_context_hash == hashlib.sha256(text).hexdigest()
    assert FileObjectStore(str(chartered)).get(payload.governance_context_hash) == text


def test_what_a_decision_depended_on_is_in_the_store(chartered: Path) -> None:
    profile = chartered / ".kittify/profiles" / "house-hana.agent.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("profile-id: house-hana\nname: Hana\nroles: [IMPLEMENTER]\nrouting-priority: 99\n")
    policy = chartered / ".kittify/charter/policy.yaml"
    policy.write_text("rules:\n- id: no-sql\n  match: {tag: sql}\n  action: deny\n  reason: not here\n")
    payload = ProfileInvocationExecutor(chartered).invoke("implement WP03")

    objects = FileObjectStore(str(chartered))
    started, reference, request, _ = _lines(_record(chartered))
    manifest = json.loads(objects.get(started["snapshot"]))
    corpus = json.loads(objects.get(manifest["corpus"]))
    assert payload.profile_id == "house-hana"
    assert objects.get(manifest["profiles"]["house-hana"]) == profile.read_bytes()
    assert objects.get(manifest["policy"]) == objects.get(reference["bundle"]) == policy.read_bytes()
    assert objects.get(corpus["files"][".kittify/charter/charter.md"]).decode().startswith("# Charter")
    assert request["corpus"] == manifest["corpus"]
    assert set(manifest) == {
        "v", "profiles", "router_table", "policy", "policy_state", "graph", "shipped", "corpus", "config", "facts",
        "code", "runtime",
    }  # fmt: skip
    assert _codes(chartered) == []


def test_invocations_under_unchanged_rules_share_their_snapshot(chartered: Path) -> None:
    opened = ProfileInvocationExecutor(chartered)
    for request in ("implement WP03", "review WP03"):
        opened.invoke(request)

    started = [_lines(path)[0] for path in (chartered / layout.RECORDS).glob("*.jsonl")]
    assert len({line["snapshot"] for line in started}) == 1


def test_the_policy_hash_ignores_comments_and_key_order(chartered: Path) -> None:
    policy = chartered / ".kittify/charter/policy.yaml"
    hashes = []
    for text in (
        "rules:\n- id: a\n  match: {tag: x}\n  action: deny\n",
        "# why\nrules:\n- action: deny\n  id: a\n  match: {tag: x}\n",
    ):
        policy.write_text(text)
        done = ProfileInvocationExecutor(chartered).invoke("implement WP03")
        path = chartered / done.record_path
        hashes.append((_lines(path)[1]["policy_hash"], _lines(path)[1]["bundle_hash"]))

    assert hashes[0][0] == hashes[1][0]
    assert hashes[0][1] != hashes[1][1]


def test_a_policy_that_cannot_be_read_is_recorded_as_such(chartered: Path) -> None:
    (chartered / ".kittify/charter/policy.yaml").write_text("rules: [")
    payload = ProfileInvocationExecutor(chartered).invoke("implement WP03")

    reference, response = (_lines(_record(chartered))[number] for number in (1, 3))
    assert reference["policy_hash"] is None
    assert reference["bundle"] is not None
    assert "policy.yaml" in reference["error"]
    assert response["error"]
    assert any("policy" in warning for warning in payload.warnings)


@pytest.mark.parametrize(
    ("verb", "mode", "evidence"),
    [("do", "task_execution", True), ("ask", "task_execution", True), ("advise", "advisory", False)],
)
def test_the_verb_decides_the_mode_of_work(project: Path, verb: str, mode: str, evidence: bool) -> None:
    payload = ProfileInvocationExecutor(project).invoke("implement WP03", verb=verb)

    assert payload.mode_of_work == mode
    assert payload.close_contract.evidence_allowed == evidence
    assert payload.close_contract.argv[-1] == payload.invocation_id


def test_a_named_profile_is_taken_and_recorded_as_asked_for(project: Path) -> None:
    chosen = ProfileInvocationExecutor(project).invoke("review WP03").profile_id
    payload = ProfileInvocationExecutor(project).invoke("look at the parser", profile=chosen, verb="ask")

    started = _lines(project / payload.record_path)[0]
    assert payload.router_confidence == "exact"
    assert started["requested_profile"] == chosen


@pytest.mark.parametrize(
    ("request_text", "profile", "code"),
    [
        ("", None, "EMPTY_REQUEST"),
        (" \n\t", None, "EMPTY_REQUEST"),
        ("banana", None, "ROUTER_NO_MATCH"),
        ("implement WP03", "nobody", "PROFILE_NOT_FOUND"),
        ("implement \0", None, "REQUEST_INVALID"),
        ("implement \ud800", None, "REQUEST_INVALID"),
        ("implement " + "x" * 1024 * 1024, None, "REQUEST_TOO_LARGE"),
    ],
)
def test_what_is_refused_writes_nothing(project: Path, request_text: str, profile: str | None, code: str) -> None:
    before = _tree(project)
    with pytest.raises(InvocationError) as caught:
        ProfileInvocationExecutor(project).invoke(request_text, profile=profile)

    assert caught.value.code == code
    assert caught.value.suggestion
    assert _tree(project) == before


def test_every_candidate_names_a_command_that_picks_it(project: Path) -> None:
    with pytest.raises(InvocationError) as caught:
        ProfileInvocationExecutor(project).invoke("implement WP03", profile="nobody")

    candidates = caught.value.candidates or ()
    assert candidates
    for candidate in candidates:
        assert candidate["command"] == f"spec-kitty do --profile {candidate['profile_id']} 'implement WP03'"
        ProfileInvocationExecutor(project).invoke("implement WP03", profile=str(candidate["profile_id"]))


@pytest.mark.parametrize(
    "text", ["implement " + "\x01" * (1024 * 1024 - 20), "implement " + "é" * 500_000, "fix\r\n\x85"]
)
def test_any_unicode_up_to_a_mebibyte_is_recorded(project: Path, text: str) -> None:
    payload = ProfileInvocationExecutor(project).invoke(text)

    started = _lines(_record(project))[0]
    kept = started["request_text"]
    if "request_object" in started:
        kept = FileObjectStore(str(project)).get(started["request_object"]).decode()
    assert kept == text
    assert _codes(project) == []
    assert payload.invocation_id


def test_a_failed_write_gives_no_answer(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(durable, "create_exclusive", refuse)
    with pytest.raises(InvocationError) as caught:
        ProfileInvocationExecutor(project).invoke("implement WP03")

    assert caught.value.code == "WRITE_FAILED"
    assert list((project / layout.RECORDS).glob("*.jsonl")) == []


def test_an_id_that_is_taken_is_drawn_again(project: Path) -> None:
    draws = iter([b"a" * 10, b"a" * 10, b"b" * 10])
    opened = ProfileInvocationExecutor(
        project,
        clock=lambda: 1_732_093_200_000_000_000,
        entropy=lambda size: next(draws) if size == 10 else bytes(size),
    )
    first, second = opened.invoke("implement WP03"), opened.invoke("implement WP03")

    assert first.invocation_id != second.invocation_id
    assert first.started_at == second.started_at == "2024-11-20T09:00:00.000Z"
    assert _codes(project) == []


def test_in_the_steady_state_a_start_costs_few_fsyncs(chartered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = ProfileInvocationExecutor(chartered)
    opened.invoke("implement WP03")
    for shard in range(256):
        (chartered / layout.OBJECTS / f"{shard:02x}").mkdir(exist_ok=True)
    count = 0
    real = os.fsync

    def counting(fd: int) -> None:
        nonlocal count
        count += 1
        real(fd)

    monkeypatch.setattr(os, "fsync", counting)
    monkeypatch.setattr(store.time, "time", lambda: 9e9)
    opened.invoke("review the SQL migration")

    # context text and its folder, the name of the leaf to come, record and its folder
    assert count == 5


def test_who_asked_and_under_which_trace_is_recorded(project: Path) -> None:
    caller = Caller(Actor("codex", "llm", tool="codex"), {"harness": "codex", "session_id": "s1"}, TRACEPARENT)
    payload = ProfileInvocationExecutor(project).invoke("implement WP03", caller=caller)

    started = _lines(_record(project))[0]
    assert started["actor"] == {"actor_id": "codex", "actor_type": "llm", "tool": "codex"}
    assert started["session"] == {"harness": "codex", "session_id": "s1"}
    assert started["trace_id"] == payload.trace_id == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "traceparent", [None, "", "nonsense", "ff" + TRACEPARENT[2:], "00-" + "0" * 32 + TRACEPARENT[35:]]
)
def test_without_a_valid_traceparent_the_id_itself_is_the_trace(project: Path, traceparent: str | None) -> None:
    from ulid import ULID

    payload = ProfileInvocationExecutor(project).invoke("implement WP03", caller=Caller(traceparent=traceparent))

    assert payload.trace_id == ULID.from_str(payload.invocation_id).hex


# --- closing


def _opened(root: Path, verb: str = "do") -> tuple[ProfileInvocationExecutor, str]:
    opened = ProfileInvocationExecutor(root)
    return opened, opened.invoke("implement WP03", verb=verb).invocation_id


def test_closing_with_another_outcome_is_an_error_and_changes_nothing(project: Path) -> None:
    opened, one = _opened(project)
    opened.complete(one, outcome="done")
    before = _record(project).read_bytes()
    with pytest.raises(CallerError) as refused:
        opened.complete(one, outcome="failed")

    assert refused.value.code == "OUTCOME_DIFFERS"
    assert "as done" in refused.value.message and "not as failed" in refused.value.message
    assert _record(project).read_bytes() == before
    assert opened.complete(one, outcome="done").already_completed


def test_of_two_closes_that_race_with_other_outcomes_one_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, one = _opened(project)
    real = executor.FileRecordStore.append

    def overtaken(self: executor.FileRecordStore, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(executor.FileRecordStore, "append", real)
        opened.complete(one, outcome="abandoned")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(executor.FileRecordStore, "append", overtaken)
    with pytest.raises(CallerError) as refused:
        opened.complete(one, outcome="done")

    assert refused.value.code == "OUTCOME_DIFFERS"
    assert _lines(_record(project))[-1]["outcome"] == "abandoned"


def test_closing_writes_links_and_the_closing_line(project: Path) -> None:
    (project / "src.py").write_text("x = 1\n")
    (project / "proof.md").write_text("all tests pass\n")
    opened, one = _opened(project)
    done = opened.complete(
        one, outcome="failed", evidence=str(project / "proof.md"), artifacts=[str(project / "src.py")]
    )

    lines = _lines(_record(project))[4:]
    proof = hashlib.sha256(b"all tests pass\n").hexdigest()
    assert [line["event"] for line in lines] == ["artifact_link", "completed"]
    assert lines[0]["ref"] == "src.py"
    assert lines[1]["outcome"] == "failed"
    assert lines[1]["evidence_ref"] == proof == done.evidence_ref
    assert FileObjectStore(str(project)).get(proof) == b"all tests pass\n"
    assert (project / layout.EVIDENCE / one / "evidence.md").read_bytes() == b"all tests pass\n"
    assert json.loads((project / layout.EVIDENCE / one / "record.json").read_text())["outcome"] == "failed"
    for line in _record(project).read_bytes().split(b"\n")[:-1]:
        parse_event(line)
    assert _codes(project) == []


def test_evidence_that_is_not_text_is_described_and_kept(project: Path) -> None:
    (project / "shot.png").write_bytes(b"\x89PNG\xff")
    opened, one = _opened(project)
    done = opened.complete(one, evidence=str(project / "shot.png"))

    assert done.evidence_ref is not None
    assert FileObjectStore(str(project)).get(done.evidence_ref) == b"\x89PNG\xff"
    assert done.evidence_ref in (project / layout.EVIDENCE / one / "evidence.md").read_text()


def test_a_second_close_changes_nothing_and_says_so(project: Path) -> None:
    opened, one = _opened(project)
    opened.complete(one, outcome="failed")
    before = _tree(project)
    again = opened.complete(one, outcome="failed")

    assert again.already_completed
    assert again.outcome == "failed"
    assert "ALREADY_COMPLETED" in again.warnings[0]
    assert _tree(project) == before


def test_closing_again_makes_up_for_projections_lost_in_a_crash(project: Path) -> None:
    (project / "proof.md").write_text("proof")
    opened, one = _opened(project)
    opened.complete(one, evidence=str(project / "proof.md"))
    (project / layout.EVIDENCE / one / "record.json").unlink()
    opened.complete(one)

    assert (project / layout.EVIDENCE / one / "record.json").exists()


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"evidence": "absent.md"}, "EVIDENCE_NOT_FOUND"),
        ({"evidence": "."}, "EVIDENCE_NOT_FOUND"),
        ({"evidence": "fifo"}, "EVIDENCE_NOT_FOUND"),
        ({"evidence": "../outside.md"}, "EVIDENCE_OUTSIDE"),
        ({"evidence": "link-outside.md"}, "EVIDENCE_OUTSIDE"),
        ({"evidence": "huge"}, "FILE_TOO_LARGE"),
        ({"artifacts": ["absent.py"]}, "ARTIFACT_NOT_FOUND"),
        ({"artifacts": ["src.py", "."]}, "ARTIFACT_NOT_FOUND"),
        ({"artifacts": ["../outside.md"]}, "ARTIFACT_OUTSIDE"),
        ({"commit": "deadbeef"}, "COMMIT_NOT_FOUND"),
        ({"commit": "--all"}, "COMMIT_NOT_FOUND"),
        ({"commit": ""}, "COMMIT_NOT_FOUND"),
        ({"outcome": "maybe"}, "INVALID_VALUE"),
        ({"closed_by": "ghost"}, "INVALID_VALUE"),
    ],
)
def test_a_close_that_names_what_is_not_there_writes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], code: str
) -> None:
    (project / "src.py").write_text("x")
    (project.parent / "outside.md").write_text("x")
    (project / "link-outside.md").symlink_to(project.parent / "outside.md")
    os.mkfifo(project / "fifo")
    with (project / "huge").open("wb") as file:
        file.truncate(links.MAX_OBJECT + 1)
    opened, one = _opened(project)
    monkeypatch.chdir(project)
    before = {path: path.read_bytes() for path in (project / ".kittify").rglob("*") if path.is_file()}
    with pytest.raises(InvocationError) as caught:
        opened.complete(one, **given)

    assert caught.value.code == code
    assert {path: path.read_bytes() for path in (project / ".kittify").rglob("*") if path.is_file()} == before


def test_evidence_from_outside_is_taken_only_when_said_so(project: Path) -> None:
    (project.parent / "outside.md").write_text("proof")
    opened, one = _opened(project)
    done = opened.complete(one, evidence=str(project.parent / "outside.md"), allow_outside=True)

    assert done.evidence_ref == hashlib.sha256(b"proof").hexdigest()


def test_advice_carries_no_evidence(project: Path) -> None:
    (project / "proof.md").write_text("proof")
    opened, one = _opened(project, "advise")
    with pytest.raises(InvocationError) as caught:
        opened.complete(one, evidence=str(project / "proof.md"))

    assert caught.value.code == "EVIDENCE_NOT_ALLOWED"
    assert opened.complete(one).outcome == "done"


def test_a_commit_is_recorded_by_its_full_id(project: Path) -> None:
    env = {**os.environ, "GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@e", "GIT_COMMITTER_NAME": "T"}
    env["GIT_COMMITTER_EMAIL"] = "t@e"
    for argv in (["commit", "-q", "--allow-empty", "-m", "one"], ["rev-parse", "HEAD"]):
        out = subprocess.run(["git", *argv], cwd=project, env=env, capture_output=True, text=True, check=True).stdout
    sha = out.strip()
    opened, one = _opened(project)
    done = opened.complete(one, commit="HEAD")

    assert done.commit == sha
    assert _lines(_record(project))[4]["sha"] == sha


def test_asking_git_needs_no_network_and_runs_no_transport(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy, told = tmp_path / "bin/git", tmp_path / "told"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\necho "$1 $GIT_ALLOW_PROTOCOL" >> {told}\nexec {shutil.which("git")} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
    opened, one = _opened(project)
    with pytest.raises(InvocationError):
        opened.complete(one, commit="HEAD")

    assert told.read_text() == "-C none\n"


def test_in_committed_mode_a_closed_record_is_published_and_read_once(project: Path) -> None:
    config = project / layout.CONFIG
    config.parent.mkdir(parents=True)
    config.write_text("trail: committed\n")
    accept(project)
    opened, one = _opened(project)
    done = opened.complete(one)

    assert done.published is not None
    assert (project / done.published).read_bytes() == _record(project).read_bytes()
    _record(project).unlink()
    loaded, _ = load_project(str(project))
    assert show_invocation(loaded, one)["status"] == "closed"
    assert opened.complete(one).already_completed
    (project / done.published).write_bytes(b"tampered\n")
    assert "UNREADABLE_LINE" in _codes(project)


def test_copies_that_differ_are_found(project: Path) -> None:
    config = project / layout.CONFIG
    config.parent.mkdir(parents=True)
    config.write_text("trail: committed\n")
    accept(project)
    opened, one = _opened(project)
    done = opened.complete(one)
    copy = project / str(done.published)
    data = copy.read_bytes()
    copy.chmod(0o644)
    copy.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])

    assert _codes(project) == ["COPIES_DIFFER"]


def test_the_record_of_an_older_writer_is_read_and_never_written(project: Path) -> None:
    one = "01JD4Q3S0000000000000000A1"
    path = project / layout.OLDER_RECORDS / f"{one}.jsonl"
    path.parent.mkdir()
    path.write_text(f'{{"event": "started", "invocation_id": "{one}", "profile_id": "old", "action": "review"}}\n')
    before = path.read_bytes()
    loaded, _ = load_project(str(project))
    shown = show_invocation(loaded, one)
    with pytest.raises(InvocationError) as caught:
        ProfileInvocationExecutor(project).complete(one)

    assert (shown["sealed"], shown["status"], shown["profile_id"]) == (False, "open", "old")
    assert caught.value.code == "RECORD_UNSEALED"
    assert path.read_bytes() == before


def test_an_unknown_id_is_not_found_and_writes_nothing(project: Path) -> None:
    before = _tree(project)
    with pytest.raises(InvocationError) as caught:
        ProfileInvocationExecutor(project).complete("01JD4Q3S0000000000000000A1")

    assert caught.value.code == "INVOCATION_NOT_FOUND"
    assert _tree(project) == before


def test_an_unknown_setting_is_an_error_naming_it(project: Path) -> None:
    config = project / layout.CONFIG
    config.parent.mkdir(parents=True)
    for text, named in [
        ("memory_backend: cloud\n", "memory_backend"),
        ("trail: public\n", "trail"),
        ("audit:\n  capture_llm_io: everything\n", "audit.capture_llm_io"),
        ("audit:\n  capture_tool_io: {tool_arg: full}\n", "audit.capture_tool_io.tool_arg"),
        ("audit: loud\n", "audit"),
        ("- a list\n", "the document"),
        ("trail: [\n", "line"),
    ]:
        config.write_text(text)
        with pytest.raises(InvocationError) as caught:
            ProfileInvocationExecutor(project).invoke("implement WP03")

        assert caught.value.code == "CONFIG_INVALID"
        assert named in caught.value.message


def test_capture_is_recorded_side_by_side_as_configured(project: Path) -> None:
    config = project / layout.CONFIG
    config.parent.mkdir(parents=True)
    config.write_text("audit:\n  capture_llm_io: {prompt: hash}\n  capture_tool_io: off\n")
    ProfileInvocationExecutor(project).invoke("implement WP03")

    assert _lines(_record(project))[0]["capture"] == {
        "prompt": "hash",
        "response": "summary",
        "tool_args": "off",
        "tool_output": "off",
    }


def test_an_invocation_leaves_the_context_state_alone(chartered: Path) -> None:
    state = chartered / ".kittify/charter/context-state.json"
    ProfileInvocationExecutor(chartered).invoke("implement WP03")

    assert not state.exists()
    record = fold(_record(chartered).read_bytes())
    assert record is not None
    assert record.started["first_load"] is True


@pytest.mark.parametrize("clock", [-1_000_000, 253_402_300_800_000 * 1_000_000])
def test_a_clock_that_no_timestamp_can_hold_is_named(chartered: Path, clock: int) -> None:
    """Before 1970 there is no ULID, past 9999 no RFC 3339."""
    run = ProfileInvocationExecutor(str(chartered)).invoke("implement WP03").invocation_id
    opened = ProfileInvocationExecutor(str(chartered), clock=lambda: clock)
    for act in (
        lambda: opened.invoke("implement WP03"),
        lambda: opened.record(run, [("error", {"error_code": "E"})]),
        lambda: opened.complete(run),
    ):
        with pytest.raises(InvocationError) as refused:
            act()

        assert refused.value.code == "CLOCK_INVALID" and "date" in refused.value.suggestion
