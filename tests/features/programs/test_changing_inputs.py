"""Programs that give other inputs at each asking, as those on real models do: resumed, nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart
from pydantic_ai.messages import ModelResponse as Answer
from pydantic_ai.models.function import AgentInfo, FunctionModel

from replaying import lines_of, record_path
from specify_cli.errors import InvocationError
from specify_cli.features.adapters.langchain import RecordCallbacks
from specify_cli.features.adapters.pydantic_ai import RecordAgent
from specify_cli.features.programs.resume import plan_resume, reexecute, resume, run_program
from specify_cli.features.programs.run import Run
from specify_cli.invocation.executor import ProfileInvocationExecutor
from support import FULL as STRESS

FULL = {"llm": "full", "tool": "full"}
Program = Callable[[Run], Any]
# What the tools of these programs did, in order: they are the outside world.
PAID: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    PAID.clear()


def nonce() -> str:
    return uuid.uuid4().hex


def begin(root: Path, program: Program) -> str:
    return run_program(root, "implement WP03", program, capture=FULL)


def cut(root: Path, invocation_id: str, count: int) -> None:
    """Leave the first lines of a record, as a crash after them would."""
    path = record_path(root, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


def cut_before(root: Path, invocation_id: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
    cut(root, invocation_id, next(at for at, line in enumerate(lines_of(root, invocation_id)) if wanted(line)))


def assert_refused_untouched(root: Path, invocation_id: str, program: Program, *, rerun: Sequence[str] = ()) -> None:
    """The resume is refused with STATE_DIVERGENCE; nothing was done and not a byte was appended."""
    before, paid = record_path(root, invocation_id).read_bytes(), list(PAID)
    with pytest.raises(InvocationError) as caught:
        resume(root, invocation_id, program, rerun=rerun)

    assert (caught.value.code, PAID) == ("STATE_DIVERGENCE", paid)
    assert record_path(root, invocation_id).read_bytes() == before
    assert "nothing was appended" in caught.value.message


# --- steps beside others


def is_last_step(line: dict[str, Any]) -> bool:
    return bool(line["event"] == "step_started" and line["step"] == "end")


def pay_in_tasks(run: Run) -> None:
    @run.tool("pay", side_effect="external")
    async def pay(ref: str, note: str) -> str:
        PAID.append(ref)
        return note

    async def work() -> None:
        await asyncio.gather(*(run.astep(f"pay-{ref}", pay, ref, nonce()) for ref in "ab"))
        await run.astep("end", asyncio.sleep, 0)

    asyncio.run(work())


def pay_in_a_thread(run: Run) -> None:
    @run.tool("pay", side_effect="external")
    def pay(ref: str) -> str:
        PAID.append(ref)
        return ref

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run.step, "pay", pay, nonce()))
    thread.start()
    thread.join()
    run.step("end", lambda: 1)


@pytest.mark.parametrize("program", [pay_in_tasks, pay_in_a_thread])
def test_a_step_beside_others_that_is_given_another_input_is_refused_before_it_runs(
    chartered: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specify_cli.features.programs.work.course.OTHERS_COME_WITHIN", 0.05)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # the refusal is the thread's own error too
    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, is_last_step)

    assert_refused_untouched(chartered, invocation_id, program)


def test_threads_that_come_in_another_order_wait_for_what_the_record_has(chartered: Path) -> None:
    turns: list[list[int]] = [[0, 1], [2, 0, 1]]

    def program(run: Run) -> None:
        @run.tool("pay", side_effect="external")
        def pay(number: int) -> int:
            PAID.append(str(number))
            return number

        # The first process starts two of its three threads before it dies; the second starts the third one first.
        order = turns.pop(0)
        threads = [threading.Thread(target=pay, args=(number,)) for number in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run.step("end", lambda: 1)

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, is_last_step)
    resume(chartered, invocation_id, program)

    assert Counter(PAID) == Counter("012")


# --- calls in the order of the program


def test_a_recorded_call_that_the_program_passes_over_is_refused_before_anything_new_runs(chartered: Path) -> None:
    names = ["pay", "refund"]

    def program(run: Run) -> None:
        with run.tool(names[0], {"ref": 1}) as call:
            if not call.done:
                PAID.append(names[0])
                call.result = "ok"

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "completed")
    names.reverse()

    assert_refused_untouched(chartered, invocation_id, program)


def do_as_planned(run: Run, plan: list[str]) -> None:
    """Do what a plan says, part by part."""
    for part in plan:
        match part:
            case "pay":
                run.tool("pay")(lambda: PAID.append("1"))()
            case "stage":
                run.stage("checked")
            case "search":
                run.retrieve("tests", 1)
            case "raise":
                raise ValueError("no more")


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (["stage", "pay"], ["pay"], "tool_call"),
        (["stage", "pay"], ["pay", "stage"], "tool_call"),
        (["search"], ["pay", "search"], "retrieval_response"),
    ],
)
def test_a_call_that_comes_before_what_the_record_has_is_not_made(
    chartered: Path, before: list[str], after: list[str], kept: str
) -> None:
    plan = list(before)
    invocation_id = begin(chartered, lambda run: do_as_planned(run, plan))
    at = max(at for at, line in enumerate(lines_of(chartered, invocation_id)) if line["event"] == kept)
    cut(chartered, invocation_id, at + 1)
    calls = [line["call_id"] for line in lines_of(chartered, invocation_id) if line["event"] == "tool_call"]
    plan[:] = after

    assert_refused_untouched(
        chartered, invocation_id, lambda run: do_as_planned(run, plan), rerun=calls if kept == "tool_call" else ()
    )


def test_what_is_given_back_may_come_in_another_order(chartered: Path) -> None:
    """As that of threads which have ended: what comes first is not the program's to say."""
    plan = ["one", "two"]

    def program(run: Run) -> None:
        for name in plan:
            run.step(name, run.tool("pay")(PAID.append), name)
        run.step("last", run.tool("pay")(PAID.append), "last")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line.get("step") == "last")
    plan.reverse()
    PAID.clear()
    resume(chartered, invocation_id, program)

    assert PAID == ["last"]


@pytest.mark.parametrize("instead", [[], ["raise"]])
def test_a_step_does_not_end_before_its_recorded_call_is_come_to(chartered: Path, instead: list[str]) -> None:
    rest = ["pay"]

    def program(run: Run) -> None:
        run.step("work", lambda: do_as_planned(run, rest))

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "step_completed")
    rest[:] = instead

    assert_refused_untouched(chartered, invocation_id, program)


def test_a_program_that_looks_at_the_output_of_a_step_asks_whether_it_was_done(chartered: Path) -> None:
    def program(run: Run) -> None:
        pay = run.tool("pay")(PAID.append)
        step = run.begin_step("work")
        if step.output is None:
            pay("1")
            step.end("ok")
        pay("2")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "tool_call" and "step" not in line)
    PAID.clear()
    resume(chartered, invocation_id, program)

    assert PAID == ["2"]


def test_threads_of_a_body_that_does_not_ask_are_refused_too(chartered: Path) -> None:
    def program(run: Run) -> None:
        with run.begin_step("work"):
            worker = threading.Thread(target=run_unheard, args=(run.tool("pay")(lambda: PAID.append("1")),))
            worker.start()
            worker.join()

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "completed")

    assert_refused_untouched(chartered, invocation_id, program)


def run_unheard(work: Callable[[], Any]) -> None:
    with contextlib.suppress(InvocationError):
        work()


@pytest.mark.parametrize("with_block", [True, False])
def test_a_step_whose_body_does_not_ask_is_refused_where_it_runs_once_more(chartered: Path, with_block: bool) -> None:
    def program(run: Run) -> None:
        pay = run.tool("pay")(lambda: PAID.append("1"))
        if with_block:
            with run.begin_step("work"):
                pay()
        else:
            step = run.begin_step("work")
            pay()
            step.end()

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "completed")

    assert_refused_untouched(chartered, invocation_id, program)


def overlap(run: Run) -> None:
    """Two steps of which the second begins in the first and outlives it."""
    pay = run.tool("pay")(PAID.append)
    one = run.begin_step("one")
    if not one.done:
        pay("1")
    two = run.begin_step("two")
    if not two.done:
        pay("2")
    if not one.done:
        one.end()
    if not two.done:
        pay("3")
        two.end()
    pay("4")


def test_steps_that_overlap_go_on_wherever_they_were_cut(chartered: Path) -> None:
    whole = lines_of(chartered, begin(chartered, overlap))
    for at in range(5, len(whole)):
        invocation_id = begin(chartered, overlap)
        cut(chartered, invocation_id, at)
        made = sum(line["event"] == "tool_result" for line in lines_of(chartered, invocation_id))
        open_calls = [call.call_id for call in plan_resume(chartered, invocation_id).in_doubt]
        PAID.clear()
        resume(chartered, invocation_id, overlap, rerun=open_calls)

        assert PAID == list("1234")[made:], at
        assert reexecute(chartered, invocation_id, overlap, allow_external=True).comparison.match is True


def overlap_in_a_call(run: Run) -> None:
    def work() -> None:
        overlap(run)

    run.tool("outer", side_effect="idempotent")(work)()


def test_steps_that_overlap_in_a_call_go_on_wherever_they_were_cut(chartered: Path) -> None:
    whole = lines_of(chartered, begin(chartered, overlap_in_a_call))
    for at in range(5, len(whole) - 1):
        invocation_id = begin(chartered, overlap_in_a_call)
        cut(chartered, invocation_id, at)
        made = sum(
            line["event"] == "tool_result" and line["tool"] == "pay" for line in lines_of(chartered, invocation_id)
        )
        open_calls = [call.call_id for call in plan_resume(chartered, invocation_id).in_doubt]
        PAID.clear()
        resume(chartered, invocation_id, overlap_in_a_call, rerun=open_calls)

        assert PAID == list("1234")[made:], at
        assert reexecute(chartered, invocation_id, overlap_in_a_call, allow_external=True).comparison.match is True


def test_a_search_that_was_cut_off_from_its_answer_is_made_anew_and_stops_no_later_resume(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.retrieve("tests", 1)
        run.tool("pay")(PAID.append)("1")
        run.tool("pay")(PAID.append)("2")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "tool_call")
    cut(chartered, invocation_id, len(lines_of(chartered, invocation_id)) - 1)
    resume(chartered, invocation_id, program)
    at = max(at for at, line in enumerate(lines_of(chartered, invocation_id)) if line["event"] == "tool_call")
    cut(chartered, invocation_id, at)
    PAID.clear()
    resume(chartered, invocation_id, program)

    assert PAID == ["2"]


def test_a_call_in_doubt_behind_the_end_of_its_step_is_named_by_the_plan(chartered: Path) -> None:
    def program(run: Run) -> None:
        step = run.begin_step("work")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.copy_context().run, step.end).result()
        run.tool("pay")(PAID.append)("1")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "tool_result")
    calls = plan_resume(chartered, invocation_id).in_doubt

    assert [call.fields["tool"] for call in calls] == ["pay"]


def test_the_step_behind_one_that_ended_in_another_context_is_found_again(chartered: Path) -> None:
    def program(run: Run) -> None:
        step = run.begin_step("first")
        if not step.done:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(contextvars.copy_context().run, step.end).result()
        run.step("second", run.tool("pay")(PAID.append), "1")
        run.step("third", run.tool("pay")(PAID.append), "2")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line.get("step") == "third")
    PAID.clear()
    resume(chartered, invocation_id, program)

    assert PAID == ["2"]
    assert reexecute(chartered, invocation_id, program, allow_external=True).comparison.match is True


def test_what_a_person_added_from_a_shell_stops_no_resume(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.step("one", run.tool("pay")(PAID.append), "1")
        run.step("two", run.tool("pay")(PAID.append), "2")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "step_started" and line["step"] == "two")
    executor = ProfileInvocationExecutor(chartered)
    told = {"gate": "seen", "rule_ref": "by-eye", "outcome": "pass", "reason_code": "fine"}
    patch = {"path": "a.py", "kind": "modify", "before": "a", "after": "b"}
    executor.record(invocation_id, [("gate_decision", told), ("patch_apply", patch), ("error", {"error_code": "odd"})])
    executor.commit(invocation_id, "looked-at")
    PAID.clear()
    resume(chartered, invocation_id, program)

    assert PAID == ["2"]


def test_a_program_that_ends_before_a_recorded_call_is_refused(chartered: Path) -> None:
    asked = [True]

    def program(run: Run) -> None:
        if asked[0]:
            run.model_call("m", "go on?", call=lambda _: "yes")

    invocation_id = begin(chartered, program)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "completed")
    asked[0] = False

    assert_refused_untouched(chartered, invocation_id, program)


def loop_over_its_context(run: Run) -> None:
    """The loop of docs/agents.md: the context is the first thing the model is told."""

    def ask_a_model(messages: list[Any]) -> dict[str, Any]:
        return {"tool": "pay", "args": {"note": nonce()}} if len(messages) < 8 else {"text": "done"}

    messages: list[Any] = [run.context, "fix the failing login test"]
    while True:
        answer = run.model_call("my-model", messages, call=ask_a_model)
        if "text" in answer:
            return
        with run.tool(answer["tool"], answer["args"]) as call:
            if not call.done:
                PAID.append(answer["args"]["note"])
                call.result = nonce()
        messages = [*messages, answer, call.result]


def agent_of_pydantic_ai(run: Run) -> None:
    """An agent whose model puts a nonce into the arguments of each payment."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> Answer:
        number = sum(isinstance(message, Answer) for message in messages)
        if number == 2:
            return Answer([TextPart(f"done {nonce()}")])
        return Answer([ToolCallPart("pay", {"ref": f"{number}.{part}", "note": nonce()}) for part in range(2)])

    async def pay(ref: str, note: str) -> str:
        """Pay an invoice."""
        PAID.append(ref)
        await asyncio.sleep(0)
        return f"{note} {nonce()}"

    async def work() -> None:
        agent = Agent(FunctionModel(answer), tools=[pay], instructions=run.context, capabilities=[RecordAgent(run)])
        await agent.run("pay the invoices")

    asyncio.run(work())


@pytest.mark.stress
@pytest.mark.parametrize("program", [loop_over_its_context, agent_of_pydantic_ai])
def test_an_agent_goes_on_wherever_it_was_killed_and_pays_once(chartered: Path, program: Program) -> None:
    whole = lines_of(chartered, begin(chartered, program))
    payments = sum(line["event"] == "tool_call" for line in whole)
    for point in range(5, len(whole), 1 if STRESS else 3):
        PAID.clear()
        invocation_id = begin(chartered, program)
        cut(chartered, invocation_id, point)
        kept = lines_of(chartered, invocation_id)
        made = Counter(line["event"] for line in kept)
        open_calls = [
            line["call_id"]
            for line in kept
            if line["event"] == "tool_call"
            and not any(one["event"] == "tool_result" and one["call_id"] == line["call_id"] for one in kept)
        ]
        del PAID[made["tool_result"] :]
        resume(chartered, invocation_id, program, rerun=open_calls)

        assert len(PAID) == payments, point
        assert lines_of(chartered, invocation_id)[-1]["outcome"] == "done"


# --- executed again


async def ask_two_at_once(run: Run) -> None:
    """Two questions beside each other; the second is answered, and on the record, before the first."""

    async def answer(asked: Any) -> str:
        await asyncio.sleep(0 if asked == 2 else 0.05)
        return nonce()

    @run.tool("pay", side_effect="external")
    async def pay(note: str) -> str:
        PAID.append(note)
        return note

    async def work(number: int) -> None:
        await pay(str(await run.amodel_call("m", number, answer)))

    await asyncio.gather(work(1), work(2))


def test_a_question_waits_for_the_recorded_one_beside_it(chartered: Path) -> None:
    invocation_id = begin(chartered, ask_two_at_once)
    cut_before(chartered, invocation_id, lambda line: line["event"] == "tool_result")
    call_id = lines_of(chartered, invocation_id)[-1]["call_id"]
    cut(chartered, invocation_id, 5)
    PAID.clear()
    resume(chartered, invocation_id, ask_two_at_once)

    assert (len(PAID), len(set(PAID)), bool(call_id)) == (2, 2, True)


def graph_of_langchain(run: Run) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("first"), AIMessage("second")]))
    said: list[Any] = ["hello"]
    for _ in range(2):
        said.append(model.invoke(said, {"callbacks": [RecordCallbacks(run)]}))


@pytest.mark.parametrize("program", [loop_over_its_context, agent_of_pydantic_ai, graph_of_langchain])
def test_a_program_that_does_the_same_is_executed_again_without_an_alarm(chartered: Path, program: Program) -> None:
    invocation_id = begin(chartered, program)

    assert reexecute(chartered, invocation_id, program, allow_external=True).comparison.match


def test_a_program_whose_framework_decides_what_it_does_again_is_refused_untouched(chartered: Path) -> None:
    invocation_id = begin(chartered, graph_of_langchain)
    cut(chartered, invocation_id, len(lines_of(chartered, invocation_id)) - 1)
    before = record_path(chartered, invocation_id).read_bytes()
    with pytest.raises(InvocationError) as caught:
        resume(chartered, invocation_id, graph_of_langchain)

    assert caught.value.code == "NOT_RESUMABLE"
    assert record_path(chartered, invocation_id).read_bytes() == before


def test_a_task_is_not_taken_for_one_that_has_ended(chartered: Path) -> None:
    """A framework begins a step in one task and asks in the next, which may get the id of the first."""

    async def begin_step(run: Run, name: str) -> None:
        run.begin_step(name)

    async def ask(run: Run, prompt: str) -> None:
        run.model_call("m", prompt, call=len)

    async def work(run: Run) -> None:
        context = contextvars.copy_context()
        await asyncio.create_task(begin_step(run, "step"), context=context)
        for number in range(20):
            await asyncio.create_task(ask(run, f"question {number}"), context=context)

    lines = lines_of(chartered, begin(chartered, work))
    assert [line.get("beside") for line in lines if line["event"] == "model_call"] == [True] * 20
