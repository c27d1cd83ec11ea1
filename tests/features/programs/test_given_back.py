"""What a call ended in is given back as it was: errors, refusals, what was broken off, prompts that grew."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    ModelRetry,
    ToolReturn,
)
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart
from pydantic_ai.messages import ModelResponse as Answer
from pydantic_ai.models.function import AgentInfo, FunctionModel

from replaying import lines_of, record_path
from specify_cli.errors import InvocationError
from specify_cli.features.adapters.pydantic_ai import RecordAgent
from specify_cli.features.programs.resume import reexecute, resume, run_program
from specify_cli.features.programs.run import Run

Program = Callable[[Run], Any]


class Unlucky(Exception):
    """An error of the program's own."""


def run_again(root: Path, program: Program) -> str:
    """Run a program, once more from its beginning, and on from before its last line; its id."""
    invocation_id = run_program(root, "implement WP03", program, capture={"tool": "full", "llm": "full"})
    reexecution = reexecute(root, invocation_id, program, allow_external=True)
    path = record_path(root, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    resume(root, invocation_id, program)

    assert reexecution.comparison.match is True
    return invocation_id


def raise_key_error() -> Any:
    raise KeyError("x")


def raise_own_error() -> Any:
    raise Unlucky("a: b")


@pytest.mark.parametrize("work", [raise_key_error, raise_own_error])
def test_a_program_that_tells_its_model_of_an_error_is_told_the_same_again(
    project: Path, work: Callable[[], Any]
) -> None:
    def program(run: Run) -> None:
        told: list[str] = []
        for call in (run.tool("fails")(work), lambda: run.step("fails", work), lambda: ask(run, work)):
            try:
                call()
            except Exception as error:
                told.append(f"{type(error).__name__}: {error}")
        run.model_call("m", told, call=len)

    def ask(run: Run, work: Callable[[], Any]) -> None:
        run.model_call("m", "what fails", call=lambda _: work())

    run_again(project, program)


def test_an_error_of_a_programs_own_fails_its_step_again(project: Path) -> None:
    def program(run: Run) -> None:
        fails = run.tool("fails")(raise_own_error)
        with pytest.raises(Unlucky, match="a: b"):
            run.step("outer", lambda: run.step("inner", fails))
        run.step("end", lambda: None)

    run_again(project, program)


def test_a_denied_call_gives_its_reason_each_time(project: Path) -> None:
    def program(run: Run) -> None:
        @run.tool("write")
        def write() -> str:
            run.call.deny("not here")
            return "denied"

        with run.tool("delete", {}) as call:
            if not call.done:
                call.deny("never")
        run.step("tell", lambda _: None, [write(), call.result])

    last = lines_of(project, run_again(project, program))[-3]
    assert last["input"] == '{"args":[["not here","never"]],"kwargs":{}}'


def test_a_call_that_its_program_cancelled_is_cancelled_again(project: Path) -> None:
    paid = []

    def program(run: Run) -> Any:
        @run.tool("wait")
        async def wait() -> None:
            await asyncio.sleep(60)

        async def work() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait(), 0.01)
            async with run.tool("pay", {}) as call:
                if not call.done:
                    paid.append(1)

        return work()

    run_again(project, program)

    assert paid == [1]


def test_a_prompt_is_recorded_as_the_model_was_given_it(project: Path) -> None:
    def program(run: Run) -> None:
        prompt = ["question"]

        def ask(messages: list[str]) -> str:
            messages.append("answer")
            return messages[-1]

        run.model_call("m", prompt, call=ask)

    asked = lines_of(project, run_again(project, program))[-2]
    assert asked["prompt"] == '["question"]'


def test_a_result_that_was_not_kept_is_the_cause_that_a_reexecution_names(project: Path) -> None:
    def program(run: Run) -> None:
        run.tool("divide", side_effect="none")(lambda: float("nan"))()

    with pytest.raises(InvocationError) as caught:
        run_again(project, program)

    assert caught.value.code == "RESULT_NOT_KEPT"


def make_agent(run: Run, tool: Callable[..., Any], calls: int) -> Agent[None, str]:
    """Return an agent of pydantic-ai that calls a tool this many times, one after the other."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> Answer:
        made = len(messages) // 2
        if made == calls:
            return Answer([TextPart("done")])
        return Answer([ToolCallPart(tool.__name__, {"count": made})])

    return Agent(FunctionModel(answer), tools=[tool], retries=3, capabilities=[RecordAgent(run)])


def test_a_tool_that_asked_its_model_to_try_again_asks_again(project: Path) -> None:
    def program(run: Run) -> Any:
        def pay(count: int) -> str:
            if count == 0:
                raise ModelRetry("not yet")
            return "paid"

        return make_agent(run, pay, 2).run("pay")

    run_again(project, program)


def test_an_agent_that_a_tool_ran_is_not_missed_where_the_tool_has_its_result(project: Path) -> None:
    def program(run: Run) -> Any:
        async def pay(count: int) -> str:
            await run.astep("book", asyncio.sleep, 0)
            return f"paid {count}"

        async def delegate(count: int) -> str:
            return (await make_agent(run, pay, 1).run(f"pay {count}")).output

        return make_agent(run, delegate, 2).run("delegate")

    lines = lines_of(project, run_again(project, program))

    calls = {line["call_id"]: line["tool"] for line in lines if line["event"] == "tool_call"}
    inner = [line for line in lines if line["event"] in ("tool_call", "step_started") and "within" in line]
    assert [calls[line["within"]] for line in inner] == ["delegate", "pay"] * 2


PICTURE = BinaryContent(b"\x89PNG\xff", media_type="image/png")


@pytest.mark.parametrize(
    "given",
    [
        datetime.datetime(2024, 11, 20, tzinfo=datetime.UTC),
        b"\xff\xfe",
        {"pictures": [PICTURE]},
        ToolReturn("one", content=["see", PICTURE], metadata={"size": 1}),
        {"return_value": 1},
    ],
)
def test_what_a_tool_gave_comes_to_the_model_as_before(project: Path, given: object) -> None:
    def program(run: Run) -> Any:
        def look(count: int) -> object:
            return given if count == 0 else None

        return make_agent(run, look, 1).run("look")

    run_again(project, program)


@pytest.mark.parametrize("left", [CallDeferred(metadata={"size": 1}, kind="question"), ApprovalRequired()])
def test_a_call_that_a_tool_deferred_is_deferred_again(project: Path, left: Exception) -> None:
    def program(run: Run) -> Any:
        def pay(count: int) -> object:
            raise left if count == 0 else ValueError

        async def work() -> None:
            output_type: Any = [str, DeferredToolRequests]
            output: Any = (await make_agent(run, pay, 1).run("pay", output_type=output_type)).output
            run.step("defer", lambda *_: None, output.metadata, len(output.calls), len(output.approvals))

        return work()

    run_again(project, program)


def test_a_call_that_made_one_like_itself_is_given_back_with_all_it_made(project: Path) -> None:
    def program(run: Run) -> Any:
        def look(depth: int) -> str:
            if depth:
                run.tool("look", side_effect="none")(lambda: look(depth - 1))()
            return run.tool("read", side_effect="none")(lambda: "found")()

        run.tool("look", side_effect="none")(lambda: look(2))()
        run.tool("read", side_effect="none")(lambda: "found")()

    run_again(project, program)
