"""Resume and re-execute: what completed is never run again, what is in doubt never twice, and no silent difference."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replaying import reseal
from specify_cli.errors import InvocationError
from specify_cli.features.programs import resume as resuming
from specify_cli.features.programs.identity import program_digest
from specify_cli.features.programs.resume import plan_resume, reexecute, resume, run_program, spent_seconds
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.record import split_lines
from specify_cli.record.state import rehydrate
from specify_cli.storage.checking import verify_all
from support import CHARTER, git
from support import FULL as STRESS

Program = Callable[[Run], Any]
FULL = {"llm": "full", "tool": "full"}


class Crash(BaseException):
    """The process dies here."""


def path_of(root: Path, invocation_id: str) -> Path:
    (found,) = (root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    return found


def lines(root: Path, invocation_id: str) -> list[dict[str, Any]]:
    return [json.loads(raw) for _, raw in split_lines(path_of(root, invocation_id).read_bytes())]


def cut(root: Path, invocation_id: str, count: int) -> None:
    """Leave the first lines of a record, as a crash after them would."""
    path = path_of(root, invocation_id)
    path.write_bytes(b"".join(raw + b"\n" for _, raw in list(split_lines(path.read_bytes()))[:count]))


def cut_after(root: Path, invocation_id: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
    found = lines(root, invocation_id)
    cut(root, invocation_id, next(at for at, line in enumerate(found) if wanted(line)) + 1)


def intact(root: Path) -> bool:
    project, _ = load_project(str(root))
    return not [item for report in verify_all(project) for item in report.findings]


def counted(calls: list[int]) -> int:
    """One more call; how many there were."""
    calls.append(1)
    return len(calls)


class Counted:
    """A program of three steps whose work is counted."""

    def __init__(self, side_effect: str = "external") -> None:
        self.ran: list[str] = []
        self.side_effect = side_effect
        self.crash_at = ""

    def __call__(self, run: Run) -> list[Any]:
        @run.tool("send", side_effect=self.side_effect)
        def send(number: int) -> int:
            self.note(f"send{number}")
            return 10 * number

        def ask(number: int) -> int:
            self.note("model")
            return number

        def work(number: int) -> Any:
            self.note(f"work{number}")
            return send(number) + run.model_call("m", f"ask {number}", call=lambda _: ask(number))

        run.stage("one")
        given = [run.step(f"s{number}", work, number) for number in range(2)]
        run.stage("two")
        run.gate("fine", "at-least", {"found": sum(given), "minimum": 0})
        found = run.retrieve("tests", k=1)
        return [*given, run.step("s2", work, 2), [hit["uri"] for hit in found.hits]]

    def note(self, what: str) -> None:
        self.ran.append(what)
        if what == self.crash_at:
            raise Crash


def begun(root: Path, program: Program, **given: Any) -> str:
    """Run a program with its digest declared; the id of its record."""
    return run_program(root, "implement WP03", program, capture=FULL, **given)


def test_steps_that_completed_do_not_run_again_and_give_their_output(chartered: Path) -> None:
    program = Counted()
    invocation_id = begun(chartered, program)
    whole = rehydrate(lines(chartered, invocation_id))
    cut_after(chartered, invocation_id, lambda line: line["event"] == "step_started" and line["step"] == "s2")
    before = lines(chartered, invocation_id)
    program.ran.clear()
    resume(chartered, invocation_id, program)

    after = lines(chartered, invocation_id)
    assert program.ran == ["work2", "send2", "model"]
    assert after[: len(before)] == before
    assert after[len(before)]["event"] == "resumed"
    assert [line["event"] for line in after].count("resumed") == 1
    assert rehydrate(after).state_hash == whole.state_hash
    assert {line["trace_id"] for line in after if "trace_id" in line} == {before[0]["trace_id"]}
    assert intact(chartered)


def test_an_annex_that_is_damaged_stops_neither_a_resume_nor_a_re_execution(chartered: Path) -> None:
    program = Counted("none")
    invocation_id = begun(chartered, program)
    annex = chartered / layout.annex_folder(invocation_id) / "01J00000000000000000000000.jsonl"
    annex.parent.mkdir(parents=True)
    annex.write_bytes(b"no line\n")
    again = reexecute(chartered, invocation_id, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "step_started" and line["step"] == "s2")
    resume(chartered, invocation_id, program)

    assert again.comparison.match
    assert lines(chartered, invocation_id)[-1]["event"] == "completed"


def test_a_hole_is_filled_and_nothing_else(chartered: Path) -> None:
    """Steps 0 and 2 completed, step 1 not, as parallel steps leave it."""
    ran: list[int] = []

    def program(run: Run) -> None:
        for number in range(3):
            run.step(f"s{number}", lambda number=number: ran.append(number))

    with pytest.raises(Crash), open_invocation(chartered, "implement WP03", capture=FULL) as run:
        beside(lambda: run.step("s0", lambda: ran.append(0)))
        beside(lambda: run.step("s2", lambda: ran.append(2)))
        _crash(run)
    ran.clear()
    resume(chartered, run.invocation_id, program)

    assert ran == [1]


def beside(work: Callable[[], object]) -> None:
    """Do some work in a thread of its own, as a pool does it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def _crash(run: Run) -> None:
    run.closed = True
    run.recorder.close()
    run.release()
    raise Crash


def test_the_plan_names_the_first_incomplete_step_and_what_is_in_doubt_and_writes_nothing(chartered: Path) -> None:
    program = Counted()
    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "tool_call" and line["step"] == "s1")
    before = path_of(chartered, invocation_id).read_bytes()
    plan = plan_resume(chartered, invocation_id).as_value()

    doubt: Any = plan["in_doubt"]
    assert plan["first_incomplete"] == {"step": "s1", "ordinal": 1}
    assert [(item["tool"], item["step"], item["safe_again"]) for item in doubt] == [("send", "s1", False)]
    assert plan["changed"] == [] and plan["resumable"] is True
    assert path_of(chartered, invocation_id).read_bytes() == before


def test_consent_that_names_no_call_or_attempt_is_refused_with_what_is_in_doubt(chartered: Path) -> None:
    program = Counted()
    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "tool_call" and line["step"] == "s1")
    (call,) = plan_resume(chartered, invocation_id).in_doubt
    before = path_of(chartered, invocation_id).read_bytes()
    passed = []
    for wrong in ("", ":", f"{call.call_id}:", f"{call.call_id}:x", f"{call.call_id}:9999", f"{call.attempt} ", "x:1"):
        try:
            resume(chartered, invocation_id, program, rerun=[wrong])
        except InvocationError as refused:
            if (refused.code, call.attempt in refused.message) == ("INVALID_VALUE", True):
                continue
        passed.append(wrong)

    assert not passed
    assert path_of(chartered, invocation_id).read_bytes() == before


def test_a_refusal_names_every_call_that_is_in_doubt(chartered: Path) -> None:
    def program(run: Run) -> None:
        pay = run.tool("pay", side_effect="external")(str)
        charge = run.tool("charge", side_effect="external")(str)
        run.step("both", lambda: [pay("a"), charge("b")])

    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line.get("tool") == "charge")
    reseal(
        chartered,
        invocation_id,
        lambda found: found.remove(next(line for line in found if line["event"] == "tool_result")),
    )
    doubt = plan_resume(chartered, invocation_id).in_doubt

    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, program)

    assert (refused.value.code, len(doubt)) == ("IN_DOUBT", 2)
    for call in doubt:
        assert call.call_id in refused.value.message and f"--rerun {call.attempt}" in refused.value.suggestion


def test_work_that_is_still_going_on_is_no_result(chartered: Path) -> None:
    unfinished: Future[int] = Future()
    with open_invocation(chartered, "implement WP03") as run:
        wrong = []
        for what in (
            lambda: run.step("s", lambda: unfinished),
            lambda: run.tool("t", side_effect="none")(lambda: unfinished)(),
            lambda: run.model_call("m", "p", call=lambda _: unfinished),
        ):
            try:
                what()
            except InvocationError as refused:
                if refused.code == "INVALID_VALUE" and "Future" in refused.message:
                    continue
            wrong.append(what)
        with pytest.raises(InvocationError), run.tool("w", side_effect="none") as call:
            call.result = unfinished

    assert not wrong
    results = [line for line in lines(chartered, run.invocation_id) if line["event"] == "tool_result"]
    assert {line["status"] for line in results} == {"error"}


def test_a_program_that_is_no_digest_is_refused_with_what_makes_one(chartered: Path) -> None:
    with pytest.raises(InvocationError) as refused:
        open_invocation(chartered, "implement WP03", program="agent:main")

    assert "agent:main" in refused.value.message and "MODULE:FUNCTION" in refused.value.message
    assert "program_digest" in refused.value.suggestion


def test_a_call_in_doubt_runs_again_only_if_it_is_asked_for(chartered: Path) -> None:
    program = Counted()
    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "tool_call" and line["step"] == "s1")
    (call,) = plan_resume(chartered, invocation_id).in_doubt
    program.ran.clear()
    before = path_of(chartered, invocation_id).read_bytes()
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, program)
    untouched = path_of(chartered, invocation_id).read_bytes() == before and program.ran == []
    resume(chartered, invocation_id, program, rerun=[call.call_id])

    assert refused.value.code == "IN_DOUBT" and call.call_id in refused.value.suggestion
    assert untouched
    assert program.ran == ["work1", "send1", "model", "work2", "send2", "model"]
    sent = [line for line in lines(chartered, invocation_id) if line["event"] == "tool_call" and line["step"] == "s1"]
    assert {line["call_id"] for line in sent} == {call.call_id}
    assert len({line["idempotency_key"] for line in sent}) == 1


def test_a_call_that_took_effect_is_no_longer_in_doubt_once_its_result_is_recorded(chartered: Path) -> None:
    program = Counted()
    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "tool_call" and line["step"] == "s1")
    (call,) = plan_resume(chartered, invocation_id).in_doubt
    given = {"call_id": call.call_id, "tool": "send", "status": "ok", "output": 10, "step": "s1", "ordinal": 1}
    ProfileInvocationExecutor(chartered).record(invocation_id, [("tool_result", given)])
    program.ran.clear()
    resume(chartered, invocation_id, program)

    assert program.ran == ["work1", "model", "work2", "send2", "model"]


@pytest.mark.parametrize("side_effect", ["none", "idempotent"])
def test_a_call_that_does_no_harm_runs_again_unasked(chartered: Path, side_effect: str) -> None:
    program = Counted(side_effect)
    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "tool_call" and line["step"] == "s1")
    program.ran.clear()
    resume(chartered, invocation_id, program)

    assert program.ran[:2] == ["work1", "send1"]


def test_a_tool_polled_three_times_runs_three_times_live_and_not_once_on_resume(chartered: Path) -> None:
    polled: list[int] = []

    def program(run: Run) -> int:
        poll = run.tool("poll", side_effect="external")(lambda: counted(polled))

        def wait() -> int:
            return [poll(), poll(), poll()][-1]

        return run.step("wait", wait)

    invocation_id = begun(chartered, program)
    live = len(polled)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "tool_result" and line["output"] == "3")
    resume(chartered, invocation_id, program)

    assert (live, len(polled)) == (3, 3)
    assert lines(chartered, invocation_id)[-2]["output"] == "3"


def test_a_finished_run_is_not_resumed(chartered: Path) -> None:
    invocation_id = begun(chartered, Counted())
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, Counted())

    assert refused.value.code == "ALREADY_COMPLETED"


def other(run: Run) -> None:
    run.stage("elsewhere")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda _: {"request": "implement WP04"}, "request"),
        (lambda root: (root / ".kittify/charter/policy.yaml").write_text("rules: []\n") and {}, "policy"),
        (lambda _: {"limits": {"steps": 9}}, "limits"),
        (lambda _: {"tools": {"send": "b" * 64}}, "tools"),
        (lambda _: {"program": other}, "program"),
    ],
)
def test_what_changed_since_the_start_is_named_and_nothing_is_appended(
    chartered: Path, change: Callable[[Path], dict[str, Any]], named: str
) -> None:
    program = Counted()
    invocation_id = begun(chartered, program, limits={"steps": 10}, tools={"send": "a" * 64})
    cut(chartered, invocation_id, 8)
    before = path_of(chartered, invocation_id).read_bytes()
    changed = {"program": program, **change(chartered)}
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, **changed)

    assert refused.value.code == "EXECUTION_HASH_MISMATCH"
    assert f": {named} changed" in refused.value.message
    assert path_of(chartered, invocation_id).read_bytes() == before


def test_a_changed_profile_is_a_changed_execution(chartered: Path) -> None:
    profile = chartered / ".kittify/profiles" / "house-hana.agent.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("profile-id: house-hana\nname: Hana\nroles: [IMPLEMENTER]\nrouting-priority: 99\n")
    invocation_id = begun(chartered, Counted(), profile="house-hana")
    cut(chartered, invocation_id, 8)
    profile.write_text("profile-id: house-hana\nname: Other\nroles: [IMPLEMENTER]\nrouting-priority: 99\n")
    with pytest.raises(InvocationError, match="profile changed"):
        resume(chartered, invocation_id, Counted())


def test_the_digest_of_a_program_covers_its_source_and_holds_no_address(tmp_path: Path) -> None:
    import importlib.util

    digests = []
    for text in ("def main(run):\n    return 1\n", "def main(run):\n    return 2\n", "def main(run):\n    return 1\n"):
        (tmp_path / "agent.py").write_text(text)
        spec = importlib.util.spec_from_file_location("agent_of_a_test", tmp_path / "agent.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        import sys

        sys.modules["agent_of_a_test"] = module
        digests.append(program_digest(module.main))

    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize(
    "diverging",
    [
        lambda run: run.stage("elsewhere"),
        lambda run: (run.stage("one"), run.step("s0", lambda number: number, 7)),
        lambda run: (run.stage("one"), run.step("s0", lambda number: number, 0, step_type="other")),
        lambda run: run.gate("fine", "at-least", {"found": 0, "minimum": 5}),
        lambda run: run.retrieve("something else"),
    ],
)
def test_a_program_that_deviates_from_the_record_appends_not_a_byte(chartered: Path, diverging: Program) -> None:
    invocation_id = run_program(chartered, "implement WP03", Counted(), capture=FULL)
    found = lines(chartered, invocation_id)
    cut_after(chartered, invocation_id, lambda line: line.get("request_id") == "r1" and "hits" in line)
    path = path_of(chartered, invocation_id)
    # A run whose program was not declared, so that the program itself is what is put to the test.
    assert found[0]["program"]
    text = path.read_bytes()
    with pytest.raises(InvocationError) as refused:
        _resume_undeclared(chartered, invocation_id, diverging)

    assert refused.value.code == "STATE_DIVERGENCE"
    assert path.read_bytes() == text


def _resume_undeclared(root: Path, invocation_id: str, program: Program) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resuming, "program_digest", lambda _: lines(root, invocation_id)[0]["program"])
        resume(root, invocation_id, program)


def _cut_program(root: Path, program: Program) -> str:
    """A run of a program that loses everything behind its first completed step."""
    invocation_id = begun(root, program)
    cut_after(root, invocation_id, lambda line: line["event"] == "step_completed")
    return invocation_id


def first(run: Run) -> None:
    run.stage("one")
    run.step("a", lambda: run.model_call("m", "ask", call=lambda _: "answer"))
    run.step("b", lambda: 2)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda run: (run.stage("one"), run.step("zz", lambda: 1)), "step a"),
        (lambda run: run.step("a", lambda: 1), "stage one"),
        (lambda run: run.stage("one"), "step a"),
    ],
)
def test_a_program_that_leaves_out_what_the_record_has_is_found_out_at_its_end(
    chartered: Path, other: Program, says: str
) -> None:
    invocation_id = _cut_program(chartered, first)
    with pytest.raises(InvocationError) as refused:
        _resume_undeclared(chartered, invocation_id, other)

    assert refused.value.code == "STATE_DIVERGENCE" and says in refused.value.message
    assert ("nothing was appended" in refused.value.message) == ("resumed" not in _events(chartered, invocation_id))
    assert "completed" not in _events(chartered, invocation_id)


def _events(root: Path, invocation_id: str) -> list[str]:
    return [line["event"] for line in lines(root, invocation_id)]


def test_another_prompt_or_other_gate_inputs_or_another_patch_are_not_taken_for_the_recorded_ones(
    chartered: Path,
) -> None:
    def program(prompt: str, found: int, after: str) -> Program:
        def run_it(run: Run) -> None:
            run.model_call("m", prompt, call=lambda _: "answer")
            run.gate("g", "at-least", {"found": found, "minimum": 0})
            run.patch("p", "create", after=after)
            run.step("s", lambda: 1)

        return run_it

    for changed in (("other", 1, "x"), ("ask", 2, "x"), ("ask", 1, "y")):
        invocation_id = begun(chartered, program("ask", 1, "x"))
        cut_after(chartered, invocation_id, lambda line: line["event"] == "patch_apply")
        with pytest.raises(InvocationError) as refused:
            _resume_undeclared(chartered, invocation_id, program(*changed))
        assert refused.value.code == "STATE_DIVERGENCE" and "nothing was appended" in refused.value.message


def test_a_step_that_failed_and_was_caught_fails_again_without_running(chartered: Path) -> None:
    ran: list[str] = []

    def fail() -> None:
        ran.append("fail")
        raise ValueError("not yet")

    def program(run: Run) -> None:
        try:
            run.step("try", fail)
        except ValueError as error:
            assert str(error) == "not yet"
        run.step("try", lambda: ran.append("again"))
        run.step("last", lambda: ran.append("last"))

    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "step_started" and line["step"] == "last")
    ran.clear()
    assert plan_resume(chartered, invocation_id).first_incomplete == ("last", 1)
    resume(chartered, invocation_id, program)

    assert ran == ["last"]


def test_a_run_whose_process_lives_is_not_resumed_by_another(chartered: Path) -> None:
    run = open_invocation(chartered, "implement WP03", capture=FULL)
    with pytest.raises(InvocationError) as refused:
        resume(chartered, run.invocation_id, lambda _: None)
    run.step("s", lambda: 1)
    run.close()

    assert refused.value.code == "RUN_BUSY"
    assert "resumed" not in _events(chartered, run.invocation_id)


def test_of_two_that_go_on_at_once_one_does(chartered: Path) -> None:
    invocation_id = _cut_program(chartered, first)
    ran: list[str] = []

    def slow(run: Run) -> None:
        run.stage("one")
        run.step("a", lambda: 1)
        run.step("b", lambda: ran.append("b"))
        with pytest.raises(InvocationError) as refused:
            _resume_undeclared(chartered, invocation_id, first)
        assert refused.value.code == "RUN_BUSY"

    _resume_undeclared(chartered, invocation_id, slow)
    assert ran == ["b"]
    assert _events(chartered, invocation_id).count("resumed") == 1


def test_a_policy_that_can_no_longer_be_read_is_a_changed_policy(chartered: Path) -> None:
    invocation_id = _cut_program(chartered, first)
    (chartered / ".kittify/charter/policy.yaml").write_text("rules: [")
    with pytest.raises(InvocationError, match="policy changed"):
        resume(chartered, invocation_id, first)


def test_a_record_whose_state_is_not_the_one_it_recorded_is_not_resumed(chartered: Path) -> None:
    from specify_cli.record.record import chain, genesis_tip

    invocation_id = begun(chartered, Counted())
    cut(chartered, invocation_id, 8)
    path = path_of(chartered, invocation_id)
    bodies = [{key: value for key, value in line.items() if key != "~"} for line in lines(chartered, invocation_id)]
    bodies[5]["state_hash"] = "f" * 64
    assert bodies[5]["event"] == "checkpoint"
    data, _ = chain(genesis_tip(), invocation_id, bodies)
    path.write_bytes(data)
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, Counted())

    assert refused.value.code == "STATE_DIVERGENCE"
    assert path.read_bytes() == data


def test_a_result_that_was_not_kept_whole_is_not_made_up(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.step("big", lambda: "x" * 5000)
        run.step("next", lambda: 1)

    invocation_id = run_program(chartered, "implement WP03", program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "step_completed")
    before = path_of(chartered, invocation_id).read_bytes()
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, program)

    assert refused.value.code == "RESULT_NOT_KEPT" and "step_completed at seq 5" in refused.value.message
    assert "audit.capture_tool_io" in refused.value.suggestion
    assert path_of(chartered, invocation_id).read_bytes() == before


def test_where_an_answer_of_a_model_was_cut_its_own_side_is_to_be_captured_in_full(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.model_call("m", "ask", call=lambda _: "x" * 5000)
        run.step("next", lambda: 1)

    invocation_id = run_program(chartered, "implement WP03", program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "model_call")
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, program)

    assert (refused.value.code, "audit.capture_llm_io" in refused.value.suggestion) == ("RESULT_NOT_KEPT", True)


@pytest.mark.parametrize("value", ["text", '"quoted"', "7", 7, [1, {"a": None}], "x" * 400, {"b": 1.5}, None, ""])
def test_what_a_summary_holds_whole_comes_back_exactly(chartered: Path, value: Any) -> None:
    back: list[Any] = []

    def program(run: Run) -> None:
        back.append(run.step("give", lambda: value))
        run.step("next", lambda: 1)

    invocation_id = run_program(chartered, "implement WP03", program)
    cut_after(chartered, invocation_id, lambda line: line["event"] == "step_completed")
    resume(chartered, invocation_id, program)

    assert back == [value, value]


def test_limits_go_on_from_what_was_spent(chartered: Path) -> None:
    def program(run: Run) -> None:
        for number in range(4):
            run.step(f"s{number}", lambda: 1)

    with pytest.raises(InvocationError):
        begun(chartered, program, limits={"steps": 3})
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    invocation_id = json.loads(path.read_bytes().split(b"\n")[0])["invocation_id"]
    cut_after(chartered, invocation_id, lambda line: line["event"] == "step_completed" and line["step"] == "s1")
    with pytest.raises(InvocationError) as refused:
        resume(chartered, invocation_id, program)

    found = lines(chartered, invocation_id)
    assert refused.value.code == "LIMIT_EXCEEDED"
    assert [line["step"] for line in found if line["event"] == "step_completed"] == ["s0", "s1", "s2"]
    assert found[-1]["outcome"] == "failed"


def test_the_time_between_two_processes_is_not_spent() -> None:
    from specify_cli.record.record import Entry, fold_entries

    def at(event: str, time: str) -> Entry:
        key = "started_at" if event == "started" else "at"
        return Entry({"event": event, key: f"2024-11-20T{time}.000Z"}, "x", 0, ())

    record = fold_entries(
        [
            at("started", "09:00:00"),
            at("error", "09:00:07"),
            at("resumed", "17:00:00"),
            at("error", "17:00:05"),
        ]
    )
    assert record is not None
    assert spent_seconds(record) == 12


@pytest.mark.stress
@settings(max_examples=200 if STRESS else 8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_wherever_a_run_crashes_a_resume_ends_as_if_it_had_not(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """For any program of steps, any crash point: each effect at most once beyond those in doubt, the same end state."""
    root = tmp_path_factory.mktemp("run")
    git(root, "init", "-q")
    (root / ".kittify/charter").mkdir(parents=True)
    (root / ".kittify/charter/charter.md").write_text(CHARTER)
    plan = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", "c"]),
                st.lists(st.sampled_from(["external", "idempotent", "none", "model", "error", "patch"]), max_size=3),
                st.booleans(),
            ),
            min_size=1,
            max_size=4,
        ),
        label="steps",
    )
    effects: dict[tuple[int, int], int] = {}

    def program(run: Run) -> None:
        def act(at: int, number: int, kind: str) -> int:
            if kind == "error":
                run.error("E")
            elif kind == "patch":
                run.patch("p", "create", after="x")
            elif kind == "model":
                run.model_call("m", "p", call=lambda _: _count(effects, (at, number)), tokens={"input": 2})
            else:
                run.tool("t", side_effect=kind)(lambda: _count(effects, (at, number)))()
            return number

        for at, (name, kinds, staged) in enumerate(plan):
            if staged:
                run.stage(f"stage{at}")
            run.step(name, lambda at=at, kinds=kinds: [act(at, n, kind) for n, kind in enumerate(kinds)])

    invocation_id = begun(root, program)
    whole = lines(root, invocation_id)
    point = data.draw(st.integers(4, len(whole) - 1), label="crash after")
    cut(root, invocation_id, point)
    done_before = dict(effects)
    kept = whole[:point]
    before = dict.fromkeys(done_before, 1)
    doubt = plan_resume(root, invocation_id).in_doubt
    resume(root, invocation_id, program, rerun=[call.call_id for call in doubt])

    after = lines(root, invocation_id)
    results = [line for line in kept if line["event"] == "tool_result"]
    ran_again = {key for key, count in effects.items() if count > before[key]}
    assert all(count <= 2 for count in effects.values())
    # What the crash took from the record ran again; what the record held did not.
    held = sum(line["event"] == "model_call" for line in kept) + len(results)
    assert len(effects) - held == len(ran_again)
    assert rehydrate(after).state_hash == rehydrate(whole).state_hash
    assert after[:point] == kept
    assert [line["event"] for line in after].count("resumed") == (
        after[point:] != [] and after[point]["event"] == "resumed"
    )
    assert intact(root)


@pytest.mark.stress
@settings(max_examples=100 if STRESS else 6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_steps_are_missing_a_resume_does_those_and_each_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Steps that ran beside each other leave any hole: whichever are done, in whatever order, the others are done."""
    root = tmp_path_factory.mktemp("run")
    git(root, "init", "-q")
    names = data.draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True), label="steps")
    done = data.draw(
        st.permutations(names).flatmap(lambda p: st.integers(0, len(p)).map(lambda n: p[:n])), label="done"
    )
    ran: list[str] = []

    def work(run: Run, name: str) -> str:
        return run.step(name, run.tool("act", side_effect="external")(lambda: ran.append(name) or name))  # type: ignore[func-returns-value]

    run = open_invocation(root, "implement WP03", capture=FULL)
    for name in done:
        beside(functools.partial(work, run, name))
    with pytest.raises(Crash):
        _crash(run)
    assert ran == done
    resume(root, run.invocation_id, lambda again: [work(again, name) for name in names])

    state = rehydrate(lines(root, run.invocation_id))
    assert sorted(ran) == sorted(names)
    assert ran[len(done) :] == [name for name in names if name not in done]
    assert {end.step for end in state.completed_steps} == set(names)
    assert state.outcome == "done" and state.usage.steps == len(names) == state.usage.tool_calls


def _count(effects: dict[tuple[int, int], int], key: tuple[int, int]) -> int:
    effects[key] = effects.get(key, 0) + 1
    return 5


# --- re-execution


def calm(run: Run) -> Any:
    """A program without external effects."""
    fetch = run.tool("fetch", side_effect="none")(lambda: "fetched")
    run.stage("one")

    def work() -> Any:
        return fetch() + run.model_call("m", "ask", call=lambda _: "answer", tokens={"input": 1})

    return run.step("work", work)


def test_a_program_run_again_does_the_same_and_is_a_child(chartered: Path) -> None:
    invocation_id = begun(chartered, calm)
    before = path_of(chartered, invocation_id).read_bytes()
    done = reexecute(chartered, invocation_id, calm)

    child = lines(chartered, done.invocation_id)
    assert done.comparison.match
    assert (child[0]["run_kind"], child[0]["parent_invocation_id"]) == ("reexecution", invocation_id)
    assert child[-1]["outcome"] == "done"
    assert path_of(chartered, invocation_id).read_bytes() == before
    assert intact(chartered)


def test_external_effects_are_refused_unless_they_are_allowed(chartered: Path) -> None:
    program = Counted()
    invocation_id = begun(chartered, program)
    count = len(list((chartered / layout.RECORDS).glob("*.jsonl")))
    program.ran.clear()
    with pytest.raises(InvocationError) as refused:
        reexecute(chartered, invocation_id, program)
    nothing = list(program.ran)
    recorded = reexecute(chartered, invocation_id, program, allow_external=True)
    from_record = [what for what in program.ran if what.startswith("send")]
    reexecute(chartered, invocation_id, program, allow_external=True, tools="live")

    assert refused.value.code == "SIDE_EFFECTS_NOT_ALLOWED" and nothing == []
    assert recorded.comparison.match and from_record == []
    assert [what for what in program.ran if what.startswith("send")] == ["send0", "send1", "send2"]
    assert len(list((chartered / layout.RECORDS).glob("*.jsonl"))) == count + 2


@pytest.mark.parametrize(
    ("again", "says"),
    [
        (lambda run: (run.stage("one"), run.step("work", lambda: "other")), "tool_call"),
        (lambda run: (run.stage("other"),), "to: expected one, found other"),
        (lambda run: (run.stage("one"),), "it ended, and its original had"),
        (lambda run: (calm(run), run.step("more", lambda: 1)), "the run had ended there"),
    ],
)
def test_another_sequence_is_a_violation_at_the_first_differing_step(
    chartered: Path, again: Program, says: str
) -> None:
    invocation_id = begun(chartered, calm)
    with pytest.raises(InvocationError) as refused:
        reexecute(chartered, invocation_id, again)

    child = max((chartered / layout.RECORDS).glob("*.jsonl"), key=lambda path: path.name[-30:])
    assert refused.value.code == "DETERMINISM_VIOLATION" and says in refused.value.message
    assert json.loads(child.read_bytes().split(b"\n")[-2])["outcome"] == "failed"


def test_the_first_difference_is_told_and_not_the_error_it_led_to(chartered: Path) -> None:
    invocation_id = begun(chartered, calm)
    with pytest.raises(InvocationError, match="now comes step_started"):
        reexecute(chartered, invocation_id, lambda run: (calm(run), run.step("more", lambda: 1)))


def test_a_model_that_was_never_asked_cannot_be_replaced_and_the_others_are_not_asked_live(chartered: Path) -> None:
    asked: list[str] = []

    def ask(name: str) -> Callable[[Any], str]:
        def answer(_: Any) -> str:
            asked.append(name)
            return name

        return answer

    def program(run: Run) -> None:
        for name in ("m1", "m2"):
            run.model_call(name, "ask", call=ask(name))

    invocation_id = begun(chartered, program)
    asked.clear()
    with pytest.raises(InvocationError) as refused:
        reexecute(chartered, invocation_id, program, models={"m3": lambda _: "x"})
    reexecute(chartered, invocation_id, program, models={"m1": lambda _: "x"})

    assert refused.value.code == "INVALID_VALUE" and "m1, m2" in refused.value.message
    assert asked == []


@pytest.mark.parametrize("limits", [None, {"steps": 1}])
def test_a_run_that_failed_fails_again_in_the_same_way_and_matches(chartered: Path, limits: Any) -> None:
    def program(run: Run) -> None:
        run.step("one", lambda: 1)
        run.step("two", lambda: 2)
        raise ValueError("as ever")

    with pytest.raises((ValueError, InvocationError)):
        begun(chartered, program, limits=limits)
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    invocation_id = json.loads(path.read_bytes().split(b"\n")[0])["invocation_id"]

    assert reexecute(chartered, invocation_id, program).comparison.match

    def other(run: Run) -> None:
        run.step("one", lambda: 1)
        raise KeyError("another")

    with pytest.raises((InvocationError, KeyError)):
        reexecute(chartered, invocation_id, other)


def test_a_clock_in_a_step_is_found(chartered: Path) -> None:
    ticks: list[int] = []

    def program(run: Run) -> None:
        run.step("now", lambda: counted(ticks))

    invocation_id = begun(chartered, program)
    with pytest.raises(InvocationError, match=r"in step now \(1\), at its step_completed: output_hash"):
        reexecute(chartered, invocation_id, program)


def test_another_model_is_compared_and_not_refused(chartered: Path) -> None:
    invocation_id = begun(chartered, calm)
    done = reexecute(chartered, invocation_id, calm, models={"m": lambda _: "something else"})

    assert not done.comparison.match
    assert [(item["code"], item["step"]) for item in done.comparison.details["mismatches"]] == [
        ("OUTPUT_MISMATCH", 2),
        ("OUTPUT_MISMATCH", 3),
    ]
