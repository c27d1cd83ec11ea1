"""A re-execution or a resume says that a run is the same only where it is, and where it is."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from replaying import lines_of, project_of, record_path, reseal
from specify_cli.errors import InvocationError
from specify_cli.features.programs.history import History
from specify_cli.features.programs.resume import reexecute, resume, run_program
from specify_cli.features.programs.run import Run
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.comparison.chains import run_both
from specify_cli.libraries.comparison.compare import ReplayResult, verify_replay
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from support import FULL as STRESS
from support import git

Program = Callable[[Run], Any]
FULL = {"tool": "full", "llm": "full"}


def run_whole(root: Path, program: Program, **given: Any) -> str:
    return run_program(root, "implement WP03", program, capture=FULL, **given)


def cut_to(root: Path, invocation_id: str, count: int) -> None:
    path = record_path(root, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


async def echo(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def ask_in_a_call(run: Run, asked: list[str]) -> None:
    with run.tool("look", {}, side_effect="none") as call:
        for question in asked:
            run.model_call("m", question, call=str.upper)
        call.result = 1


async def ask_in_calls(run: Run, asked: list[str]) -> None:
    async def look(number: int) -> None:
        async with run.tool("look", {"number": number}, side_effect="none") as call:
            for question in asked:
                await run.amodel_call("m", question, echo)
            call.result = 1

    await asyncio.gather(look(1), look(2))


@pytest.mark.parametrize("work", [ask_in_a_call, ask_in_calls])
def test_what_the_body_of_a_call_leaves_out_is_a_violation(
    project: Path, work: Callable[[Run, list[str]], Any]
) -> None:
    asked = ["why"]
    invocation_id = run_whole(project, lambda run: work(run, asked))
    asked.clear()

    with pytest.raises(InvocationError) as caught:
        reexecute(project, invocation_id, lambda run: work(run, asked))

    assert caught.value.code == "DETERMINISM_VIOLATION"


def look_deep(run: Run) -> None:
    def look() -> object:
        return run.step("outer", lambda: run.step("inner", lambda: run.model_call("m", "why", call=str.upper)))

    run.tool("look", side_effect="none")(look)()


def look_in_order(run: Run) -> None:
    def look() -> object:
        with run.tool("look", {}, side_effect="none") as call:
            if not call.done:
                call.result = run.step("inner", lambda: run.model_call("m", "why", call=str.upper))
                run.stage("seen")
                run.retrieve("tests", 1)
        return call.result

    run.step("outer", look)
    look()


async def look_in_parallel(run: Run) -> None:
    async def look(number: int) -> object:
        async with run.tool("look", {"number": number}, side_effect="none") as call:
            if not call.done:
                call.result = await run.amodel_call("m", f"why {number}", echo)
        return call.result

    await asyncio.gather(run.astep("one", look, 1), run.astep("two", look, 2))


@pytest.mark.parametrize("program", [look_deep, look_in_order, look_in_parallel])
def test_what_a_call_did_is_not_missed_where_its_result_is_given_back(project: Path, program: Program) -> None:
    invocation_id = run_whole(project, program)

    assert reexecute(project, invocation_id, program).comparison.match is True


def tell_a_call(run: Run) -> None:
    """What another program tells of a call: its result names the call alone, and comes after its step."""
    for number in range(2):
        with run.begin_step("work", number) as step:
            if not step.done:
                run.record("tool_call", {"tool": "look", "call_id": f"c{number}", "side_effect": "none"})
        run.record("tool_result", {"call_id": f"c{number}", "status": "ok", "output": number})


def test_a_result_that_names_its_call_alone_is_the_same_again(project: Path) -> None:
    invocation_id = run_whole(project, tell_a_call)

    assert reexecute(project, invocation_id, tell_a_call).comparison.match is True


async def pay_beside(run: Run) -> None:
    @run.tool("pay", side_effect="external")
    async def pay(ref: str) -> str:
        await asyncio.sleep(0)
        return f"paid {ref}"

    @run.tool("ask", side_effect="none")
    async def ask(ref: str) -> str:
        await asyncio.sleep(0)
        return f"asked {ref}"

    await asyncio.gather(pay("a"), ask("b"))
    await run.astep("alone", pay, "c")


@pytest.mark.parametrize("ref", ["a", "c"])
def test_a_result_that_a_person_recorded_stands_where_its_call_does(project: Path, ref: str) -> None:
    invocation_id = run_whole(project, pay_beside)
    lines = lines_of(project, invocation_id)
    call = next(line for line in lines if line["event"] == "tool_call" and f'"{ref}"' in line["args"])
    end = next(line for line in lines if line["event"] == "tool_result" and line["call_id"] == call["call_id"])
    cut_to(project, invocation_id, end["seq"])
    given = {"call_id": call["call_id"], "status": "ok", "output": f"paid {ref}"}
    ProfileInvocationExecutor(project).record(invocation_id, [("tool_result", given)])
    resume(project, invocation_id, pay_beside)

    assert reexecute(project, invocation_id, pay_beside, allow_external=True).comparison.match is True


def test_a_refusal_is_raised_whatever_the_program_makes_of_it(project: Path) -> None:
    prompts = ["one"]

    def program(run: Run) -> None:
        try:
            run.model_call("m", prompts[-1], call=str.upper)
            raise KeyError("then")
        except Exception:
            raise RuntimeError("the agent failed") from None

    with pytest.raises(RuntimeError):
        run_whole(project, program)
    (path,) = (project / ".kittify/events/profile-invocations").glob("*.jsonl")
    invocation_id = path.stem[-26:]
    prompts.append("two")

    codes = []
    for go_on in (reexecute, resume):
        with pytest.raises(InvocationError) as caught:
            go_on(project, invocation_id, program)
        codes.append(caught.value.code)
        cut_to(project, invocation_id, 5)

    assert codes == ["DETERMINISM_VIOLATION", "STATE_DIVERGENCE"]


class Told(Exception):
    """An error of a program's own whose message is a property."""

    @property
    def message(self) -> str:
        return str(self)


def test_an_error_whose_message_is_a_property_is_given_back(project: Path) -> None:
    def fail() -> None:
        raise Told("no")

    def program(run: Run) -> None:
        with pytest.raises(Told, match="no") as caught:
            run.step("fails", fail)
        run.step("tell", lambda _: None, caught.value.message)

    invocation_id = run_whole(project, program)
    cut_to(project, invocation_id, 6)

    assert resume(project, invocation_id, program) == invocation_id


@pytest.mark.parametrize("given", [{}, {"models": {"m": str.upper}}])
def test_an_answer_that_nobody_asks_for_need_not_be_kept(project: Path, given: dict[str, Any]) -> None:
    def program(run: Run) -> None:
        if given:
            run.model_call("m", "why", call=lambda _: "x" * 50_000)
        else:
            run.model_call("m", "why", "x" * 50_000)

    invocation_id = run_program(project, "implement WP03", program)

    assert reexecute(project, invocation_id, program, **given).comparison is not None


@pytest.mark.parametrize("inputs", [[(), (5,)], [(5,), ()]])
def test_an_input_that_came_or_went_is_a_divergence(project: Path, inputs: list[tuple[int, ...]]) -> None:
    left = list(inputs)

    def program(run: Run) -> None:
        run.step("a", lambda *_: 1, *left.pop(0))
        run.step("b", lambda: 2)

    invocation_id = run_whole(project, program)
    cut_to(project, invocation_id, 6)

    with pytest.raises(InvocationError) as caught:
        resume(project, invocation_id, program)

    assert caught.value.code == "STATE_DIVERGENCE"
    assert "nothing was appended" in caught.value.message


def test_a_task_in_no_step_is_not_taken_into_the_one_that_is_open(project: Path) -> None:
    async def program(run: Run) -> None:
        async def call() -> None:
            async with run.tool("look", {}, side_effect="none") as call:
                call.result = 1

        await asyncio.gather(run.astep("a", asyncio.sleep, 0), call(), asyncio.to_thread(run.error, "slow"))

    placed = [line for line in lines_of(project, run_whole(project, program)) if "step" in line]
    assert {line["event"] for line in placed} == {"step_started", "step_completed"}


def test_an_artifact_is_named_by_its_path_below_the_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "out.txt").write_text("done", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    invocation_id = run_whole(project, lambda run: run.artifact("out.txt"))

    assert lines_of(project, invocation_id)[-2]["ref"] == "out.txt"


def test_a_run_goes_on_where_less_is_captured_by_now(project: Path) -> None:
    def program(run: Run) -> None:
        run.step("a", lambda given: given, 1)
        run.step("b", lambda: 2)

    invocation_id = run_whole(project, program)
    cut_to(project, invocation_id, 6)
    (project / ".kittify/config.yaml").write_text("audit: {capture_tool_io: 'off'}\n", encoding="utf-8")

    assert resume(project, invocation_id, program) == invocation_id


def tell_all(run: Run) -> None:
    """Tell what a framework does, and a person; each twice, in a step and in none."""
    for text in ("go on", "with AKIAIOSFODNN7EXAMPLF", "x" * 2000):
        run.record("prompt", {"text": text})
    run.record("turn", {"text": "done", "tokens": {"output": 3}})
    run.record("approval", {"decision": "allow", "refers_to": "request", "approver": "ann"})
    run.record("session_change", {"change": "compacted"})
    run.record("policy_violation", {"rule_id": "style", "found": 2})
    run.record("capture_gap", {"reason": "write_failed", "what": "prompt"})
    call = run.record("tool_call", {"tool": "look", "side_effect": "none"})["call_id"]
    run.record("prompt", {"text": "meanwhile"})
    run.record("tool_result", {"call_id": call, "output": 1})
    run.record("step_started", {"step": "told"})
    run.record("step_completed", {"step": "told", "output": 1})


@pytest.mark.stress
def test_what_a_program_tells_stands_once_wherever_it_crashed(project: Path) -> None:
    def program(run: Run) -> None:
        tell_all(run)
        run.step("a", lambda: tell_all(run))
        tell_all(run)

    def list_told(invocation_id: str) -> Counter[str]:
        lines = [line for line in lines_of(project, invocation_id)[4:-1] if line["event"] != "resumed"]
        return Counter(f"{line['event']} {line.get('step')} {line.get('text_hash')}" for line in lines)

    whole = run_whole(project, program)
    told, data = list_told(whole), record_path(project, whole).read_bytes()
    wrong = {}
    for count in range(4, data.count(b"\n"), 1 if STRESS else 4):
        record_path(project, whole).write_bytes(data)
        cut_to(project, whole, count)
        resume(project, whole, program)
        if list_told(whole) != told:
            wrong[count] = (list_told(whole) - told, told - list_told(whole))

    assert told["step_completed told None"] == 3
    assert not wrong


def test_a_loss_can_be_told_in_a_step(project: Path) -> None:
    lost = {"reason": "write_failed", "what": "prompt"}

    invocation_id = run_whole(project, lambda run: run.step("a", lambda: run.record("capture_gap", lost) and None))

    assert lines_of(project, invocation_id)[-3]["what"] == "prompt"


def test_a_line_that_lacks_its_end_alone_is_gone_on_from(project: Path) -> None:
    ran: list[int] = []

    def program(run: Run) -> None:
        for number in range(2):
            run.step("a", ran.append, number)

    invocation_id = run_whole(project, program)
    path = record_path(project, invocation_id)
    data = path.read_bytes()
    for count in range(4, data.count(b"\n")):
        path.write_bytes(b"\n".join(data.split(b"\n")[:count]))
        resume(project, invocation_id, program)

    assert ran == [0, 1, *(0, 1), *(0, 1), 1, 1]
    assert not verify_record(project, invocation_id)


def test_a_search_that_a_crash_cut_off_from_its_answer_is_made_anew_and_counts_once(project: Path) -> None:
    def program(run: Run) -> None:
        run.retrieve("login")

    one, other = run_whole(project, program), run_whole(project, program)
    cut_to(project, one, 5)
    resume(project, one, program)

    assert lines_of(project, one)[5]["event"] == "resumed"
    assert not verify_record(project, one)
    assert hold(project, one, other).match is True


def test_what_threads_did_is_compared_whichever_of_them_came_first(project: Path) -> None:
    def work(run: Run, name: str) -> None:
        run.patch(name, "create", after=name)
        run.error(name)
        run.record("prompt", {"text": name})
        run.artifact(name)

    def work_beside(run: Run, names: str) -> None:
        for name in names:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(contextvars.copy_context().run, work, run, name).result()

    for name in "ab":
        (project / name).write_text(name)
    one = run_whole(project, lambda run: work_beside(run, "ab"))
    other = run_whole(project, lambda run: work_beside(run, "ba"))

    assert hold(project, one, other).details["mismatches"] == []


def run_beside(work: Callable[..., object], *given: object) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, work, *given).result()


@pytest.mark.parametrize(
    "work",
    [
        lambda run, name: run.patch("a", "modify", after=name),
        lambda run, name: run.error("E", name),
        lambda run, name: run.gate("safe", "all-true", {"x": True, name: True}),
        lambda run, name: run.commit(f"label-{name}"),
        lambda run, name: run.stage(name),
        lambda run, name: run.record("policy_violation", {"rule_id": name, "message": "x"}),
        lambda run, name: run.tool("same", side_effect="none")(lambda: name)(),
        lambda run, name: run.model_call("m", "same", call=lambda _: name),
    ],
)
@pytest.mark.parametrize("around", ["nothing", "call", "question"])
def test_threads_match_in_any_order_and_not_where_one_did_otherwise(
    project: Path, work: Callable[[Run, str], object], around: str
) -> None:
    def do(run: Run, name: str) -> None:
        if around == "nothing":
            work(run, name)
        elif around == "call":
            run.tool("outer", side_effect="none")(lambda _: work(run, name) and None)(name)
        else:
            run.model_call("m", f"outer {name}", call=lambda _: work(run, name) and None)

    def program(names: str) -> Program:
        return lambda run: [run_beside(do, run, name) for name in names]

    one, other, third = (run_whole(project, program(names)) for names in ("ab", "ba", "ca"))

    assert hold(project, one, other).details["mismatches"] == []
    assert hold(project, one, third).match is False


@pytest.mark.parametrize("kind", ["call", "question"])
@pytest.mark.parametrize("is_swapped", [True, False])
def test_what_moved_from_one_call_of_a_thread_into_another_differs(project: Path, kind: str, is_swapped: bool) -> None:
    def do(run: Run, name: str, paths: str) -> None:
        def patch(_: object) -> None:
            for path in paths:
                run.patch(path, "create", after=path)

        if kind == "call":
            run.tool("outer", side_effect="none")(lambda name: patch(name))(name)
        else:
            run.model_call("m", name, call=patch)

    def program(first: str, second: str) -> Program:
        return lambda run: [run_beside(do, run, name, paths) for name, paths in (("1", first), ("2", second))]

    paths = ("x", "y") if is_swapped else ("x", "")
    one, other = (run_whole(project, program(*given)) for given in (paths, paths[::-1]))
    found = hold(project, one, other)

    assert {item["code"] for item in found.details["mismatches"]} == {"ORDER_MISMATCH"}
    assert {item["field"] for item in found.details["mismatches"]} == {"patch_apply.within"}


@pytest.mark.parametrize("mode", ["off", "hash"])
def test_calls_whose_arguments_one_run_did_not_keep_are_not_said_to_be_others(project: Path, mode: str) -> None:
    """The digest of the one was held against none, or against one that a secret made."""

    def do(run: Run) -> None:
        run.tool("outer", side_effect="none")(lambda name: run.patch(name, "create", after=name))("x")
        run.model_call("m", "why", call=lambda _: run.stage("seen"))

    def program(run: Run) -> None:
        run_beside(do, run)

    one = run_whole(project, program)
    other = run_program(project, "implement WP03", program, capture={"tool": mode, "llm": mode})

    for found in (hold(project, one, other), hold(project, other, one)):
        assert (found.match, found.details["mismatches"]) == (None, [])


def test_threads_of_two_clones_match_in_any_order(project: Path) -> None:
    """What they asked was put in the order of digests, each made with the secret of its clone."""

    def do(run: Run, name: str) -> None:
        with contextlib.suppress(ValueError):
            run.tool("same", side_effect="none")(int)(name)

    def program(names: list[str]) -> Program:
        return lambda run: [run_beside(do, run, name) for name in names]

    names = [digit * number for digit in "1x" for number in range(1, 7)]
    asked = []
    for given in (names, names[::-1]):
        shutil.rmtree(project / ".git/kittify", ignore_errors=True)
        capture = {"tool": "hash", "llm": "hash"}
        asked.append(run_program(project, "implement WP03", program(given), capture=capture))

    assert hold(project, *asked).details["mismatches"] == []


def test_a_labelled_checkpoint_of_a_thread_stands_once_wherever_a_crash_came(project: Path) -> None:
    """It said nothing of the thread, so the program that went on was refused with LABEL_TAKEN."""

    def program(run: Run) -> None:
        for name in "ab":
            run_beside(lambda name: [run.tool("t", side_effect="none")(str)(name), run.commit(name)], name)

    invocation_id = run_whole(project, program)
    data = record_path(project, invocation_id).read_bytes()
    for count in range(4, data.count(b"\n")):
        record_path(project, invocation_id).write_bytes(data)
        cut_to(project, invocation_id, count)
        resume(project, invocation_id, program)

        assert [line["label"] for line in lines_of(project, invocation_id) if "label" in line] == ["a", "b"]


def hold(root: Path, one: str, other: str) -> ReplayResult:
    original, replay = run_both(project_of(root), [one, other])
    return verify_replay(original, replay)


def verify_record(root: Path, invocation_id: str) -> list[str]:
    """Return what is wrong with a record."""
    place = Index(str(root)).resolve(invocation_id)
    return [item.code for item in verify_place(project_of(root), place).findings if item.severity == "error"]


def test_a_re_execution_is_the_same_beside_its_original_whatever_the_given_back_calls_did(project: Path) -> None:
    """What was done otherwise is named, also behind such a call."""

    def program(run: Run) -> None:
        def work(number: int) -> None:
            tell_all(run)
            run.stage(f"stage {number}")
            run.tool("inner", side_effect="none")(str)(number)
            run.model_call("m", "why", call=str.upper)
            run.step("inner", str, number)
            run.error("E")

        run.record("step_started", {"step": "other"})
        run.record("step_completed", {"step": "other", "output": 1})
        run.tool("outer", side_effect="none")(work)(1)
        run.stage("end")
        run.step("last", lambda: tell_some(run))

    def tell_some(run: Run) -> None:
        run.record("prompt", {"text": "more"})
        run.tool("after", side_effect="none")(str)(2)

    invocation_id = run_whole(project, program)
    again = reexecute(project, invocation_id, program)
    results = [hold(project, invocation_id, again.invocation_id)]
    for edit in (
        lambda lines: lines[-4].update(args_hash="0" * 64),
        lambda lines: lines[-5].update(text_hash="0" * 64),
        lambda lines: lines.pop(-5),
    ):
        before = record_path(project, again.invocation_id).read_bytes()
        reseal(project, again.invocation_id, without_texts(edit))
        results.append(hold(project, invocation_id, again.invocation_id))
        record_path(project, again.invocation_id).write_bytes(before)

    assert again.comparison.match is True
    assert [result.match for result in results] == [True, False, False, False]
    assert [[item["code"] for item in result.details["mismatches"]] for result in results[1:]] == [
        ["ARGUMENTS_MISMATCH"],
        ["PROMPT_MISMATCH"],
        ["EVENT_COUNT_MISMATCH"],
    ]


def without_texts(edit: Callable[[list[dict[str, Any]]], object]) -> Callable[[list[dict[str, Any]]], None]:
    """Return an edit after which no text contradicts its digest."""

    def change(lines: list[dict[str, Any]]) -> None:
        for line in lines[-6:-1]:
            for name in ("args", "text"):
                line.pop(name, None)
        edit(lines)

    return change


@pytest.mark.stress
def test_what_is_told_in_equal_words_stands_as_often_as_it_was_told(project: Path) -> None:
    """What was told in a call or for a model whose result is given back stands for nothing that is told elsewhere."""

    def tell(run: Run) -> None:
        run.record("prompt", {"text": "go on"})
        run.record("turn", {"text": "done", "tokens": {"output": 3, "input": 5}})

    def program(run: Run) -> None:
        def ask(prompt: object) -> object:
            tell(run)
            return prompt

        for number in range(3):
            run.tool("look", side_effect="none")(lambda _: tell(run))(number)
            run.model_call("m", "why", call=ask)
            tell(run)

    check_at_each_crash(project, program)


@pytest.mark.stress
def test_a_told_call_that_holds_a_call_and_told_steps_that_are_tried_again_go_on(project: Path) -> None:
    def program(run: Run) -> None:
        outer = run.record("tool_call", {"tool": "outer", "side_effect": "none"})["call_id"]
        run.tool("look", side_effect="none")(str)(1)
        run.record("prompt", {"text": "go on"})
        run.record("tool_result", {"call_id": outer, "output": 1})
        for ordinal in (1, 2):
            run.record("step_started", {"step": "a"})
            run.record("step_failed", {"step": "a", "ordinal": ordinal, "error_code": "E", "retryable": True})
        run.step("last", str, 1)

    check_at_each_crash(project, program)


@pytest.mark.stress
def test_told_steps_of_one_name_that_overlap_and_what_is_in_them_go_on(project: Path) -> None:
    def program(run: Run) -> None:
        for first, second in ((1, 2), (4, 3)):
            for _ in range(2):
                run.record("step_started", {"step": "a"})
            run.record(
                "tool_call", {"tool": "x", "call_id": f"{first}", "step": "a", "ordinal": first, "side_effect": "none"}
            )
            run.record("tool_result", {"call_id": f"{first}", "output": 2})
            run.tool("look", side_effect="none")(str)(1)
            run.record("step_completed", {"step": "a", "ordinal": first, "output": first})
            run.step("inside", str, 1)
            run.record("step_completed", {"step": "a", "output": second})
        run.step("last", str, 1)

    check_at_each_crash(project, program)
    assert reexecute(project, run_whole(project, program), program, allow_external=True).comparison.match is True


def test_a_crash_between_a_stage_and_its_checkpoint_takes_neither(project: Path) -> None:
    def program(run: Run) -> None:
        run.stage("one")
        run.record("stage_transition", {"to": "two"})
        run.error("E")

    invocation_id = run_whole(project, program)
    events, data = [line["event"] for line in lines_of(project, invocation_id)], record_path(project, invocation_id)
    whole, ended = data.read_bytes(), []
    for count in range(4, len(events)):
        data.write_bytes(whole)
        cut_to(project, invocation_id, count)
        resume(project, invocation_id, program)
        lines = lines_of(project, invocation_id)
        ended.append([line["event"] for line in lines if line["event"] != "resumed"])

    assert events[4:8] == ["stage_transition", "checkpoint"] * 2
    assert ended == [events] * (len(events) - 4)


def test_a_commit_can_be_told_in_a_step_and_stands_once(committed: Path) -> None:
    def program(run: Run) -> None:
        def tell_commit(name: str) -> None:
            run.record("commit_link", {"commit": name})
            run.error("E")

        run.step("a", tell_commit, "HEAD")

    invocation_id = run_whole(committed, program)
    cut_to(committed, invocation_id, 7)
    resume(committed, invocation_id, program)

    assert [line["event"] for line in lines_of(committed, invocation_id)[4:-1]] == [
        *("step_started", "commit_link", "error", "resumed", "step_completed")
    ]


@pytest.fixture
def committed(project: Path) -> Path:
    (project / "a").write_text("x")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "a")
    return project


def check_at_each_crash(root: Path, program: Program) -> None:
    """Assert that a run that goes on from its lines tells all that one without a crash does."""
    whole = run_whole(root, program)
    data, told = record_path(root, whole).read_bytes(), count_told(root, whole)
    wrong = {}
    for count in range(4, data.count(b"\n"), 1 if STRESS else 3):
        record_path(root, whole).write_bytes(data)
        cut_to(root, whole, count)
        resume(root, whole, program)
        if count_told(root, whole) != told:
            wrong[count] = (count_told(root, whole) - told, told - count_told(root, whole))

    assert not wrong


def count_told(root: Path, invocation_id: str) -> Counter[str]:
    """Return what a run says, but for calls, which are made once more where a crash broke them off."""
    lines = lines_of(root, invocation_id)[4:-1]
    names = ("event", "step", "ordinal", "text_hash", "output_hash", "model")
    return Counter(
        " ".join(str(line.get(name)) for name in names)
        for line in lines
        if line["event"] not in ("resumed", "tool_call")
    )


def test_equal_things_that_are_told_often_are_found_in_linear_work(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Counter[int]()
    has = History._has

    def count(history: History, number: int, mark: int) -> bool:
        looked[0] += 1
        return has(history, number, mark)

    def program(run: Run) -> None:
        for _ in range(200):
            run.record("turn", {})

    invocation_id = run_whole(project, program)
    cut_to(project, invocation_id, 204)
    monkeypatch.setattr(History, "_has", count)
    resume(project, invocation_id, program)

    assert 200 < looked[0] < 4000


def test_a_run_whose_end_is_torn_is_executed_again_and_compared(project: Path) -> None:
    def program(run: Run) -> None:
        run.step("a", str, 1)

    invocation_id = run_whole(project, program)
    path = record_path(project, invocation_id)
    path.write_bytes(path.read_bytes()[:-100])
    compared = reexecute(project, invocation_id, program).comparison

    assert [item["code"] for item in compared.details["mismatches"]] == ["OUTCOME_MISMATCH"]
    assert compared.details["steps_compared"] == 2


@pytest.mark.parametrize("member", ["call_id", "within", "tool", "step", "ordinal"])
@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_member_of_another_type_breaks_no_comparison_with_a_re_execution(
    project: Path, member: str, value: object
) -> None:
    def program(run: Run) -> None:
        run.tool("look", side_effect="none")(str)(1)

    invocation_id = run_whole(project, program)
    again = reexecute(project, invocation_id, program).invocation_id
    reseal(project, invocation_id, lambda lines: lines[4].update({member: value}))
    with contextlib.suppress(InvocationError):  # verify may say that it is not intact
        assert hold(project, invocation_id, again).details["steps_compared"] == 2


def test_a_re_execution_is_compared_with_its_original_whichever_is_named_first(project: Path) -> None:
    def program(run: Run) -> None:
        run.tool("outer", side_effect="none")(lambda: run.stage("inner"))()
        run.stage("end")

    invocation_id = run_whole(project, program)
    again = reexecute(project, invocation_id, program).invocation_id

    assert hold(project, invocation_id, again).match is True
    assert hold(project, again, invocation_id).match is True


def test_a_search_without_its_answer_in_a_run_that_a_person_closed_contradicts_nothing(project: Path) -> None:
    invocation_id = run_whole(project, lambda run: run.retrieve("login") and None)
    cut_to(project, invocation_id, 5)
    ProfileInvocationExecutor(project).complete(invocation_id, outcome="abandoned")

    assert [line["event"] for line in lines_of(project, invocation_id)[4:]] == ["retrieval_request", "completed"]
    assert not verify_record(project, invocation_id)
