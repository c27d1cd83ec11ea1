"""pydantic-ai: an agent is recorded, and goes on where it was interrupted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRetry, ToolFailed, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, TextPart, ToolCallPart
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from adapting import FULL, REQUEST, events
from replaying import lines_of, record_path
from specify_cli.features.adapters.pydantic_ai import RecordAgent
from specify_cli.features.programs.resume import resume, run_program
from specify_cli.features.programs.run import Run, open_invocation


def answer_twice(messages: list[ModelMessage], _: AgentInfo) -> PydanticResponse:
    if len(messages) == 1:
        calls = [ToolCallPart("read", {"path": path}, path) for path in ("a.py", "b.py")]
        details = {"reasoning_tokens": 1}
        used = RequestUsage(input_tokens=9, cache_read_tokens=4, output_tokens=2, details=details)
        return PydanticResponse(calls, usage=used)
    return PydanticResponse([TextPart("Done.")])


def build_agent(run: Run, made: list[str]) -> Agent[None, str]:
    async def read(path: str) -> dict[str, str]:
        await asyncio.sleep(0)
        made.append(path)
        return {"text": f"text of {path}"}

    effects = {"read": "none"}
    return Agent(FunctionModel(answer_twice), tools=[read], capabilities=[RecordAgent(run, effects)])


async def work(root: Path, made: list[str], run: Run | None = None) -> Run:
    async with run or open_invocation(root, REQUEST, capture=FULL) as opened:
        assert (await build_agent(opened, made).run(REQUEST)).output == "Done."
    return opened


def test_an_agent_of_pydantic_ai_is_recorded_with_parallel_tools(chartered: Path) -> None:
    made: list[str] = []
    found = events(chartered, asyncio.run(work(chartered, made)))

    names = [item["event"] for item in found]
    assert (names[0], names.count("tool_call"), names.count("tool_result"), names[-2]) == (
        "model_call",
        2,
        2,
        "model_call",
    )
    assert sorted(made) == ["a.py", "b.py"]
    assert {item["side_effect"] for item in found if item["event"] == "tool_call"} == {"none"}
    assert found[0]["tokens"] == {"input": 5, "output": 2, "cache_read": 4, "thinking": 1}


def test_an_agent_of_pydantic_ai_goes_on_where_it_was_interrupted(chartered: Path) -> None:
    made: list[str] = []
    run = open_invocation(chartered, REQUEST, capture=FULL)

    def dies(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        if len(messages) > 1:
            raise KeyboardInterrupt
        return answer_twice(messages, info)

    async def first() -> None:
        run.__enter__()
        agent = build_agent(run, made)
        with agent.override(model=FunctionModel(dies, model_name="function:answer_twice:")):
            await agent.run(REQUEST)

    with pytest.raises(BaseException):  # noqa: B017
        asyncio.run(first())
    run.release()

    async def again(resumed: Run) -> str:
        return (await build_agent(resumed, made).run(REQUEST)).output

    said = resume(chartered, run.invocation_id, lambda resumed: asyncio.run(again(resumed)))
    assert sorted(made) == ["a.py", "b.py"]  # each was read once
    assert said is not None


class Wanted(BaseModel):
    path: str
    count: int


class Doubt(BaseModel):
    raised: str = "CallDeferred"


@dataclass
class Paid:
    kind: str = "tool-return"
    return_value: int = 1


def fail(error: Exception) -> Any:
    raise error


GIVEN: dict[str, Callable[[], Any]] = {
    "what looks like a deferral": lambda: {"raised": "CallDeferred", "with": {}},
    "what looks like a picture": lambda: {"kind": "image-url", "url": "https://host.example/a.png"},
    "what looks like a return": lambda: {"kind": "tool-return", "return_value": 1},
    "what looks kept": lambda: {"verbatim": 1},
    "a model that looks like a deferral": Doubt,
    "a dataclass that looks like a return": Paid,
    "a picture in what looks kept": lambda: {"verbatim": ImageUrl("https://host.example/a.png")},
    "pictures": lambda: [ImageUrl("https://host.example/a.png"), BinaryContent(b"\xff", media_type="image/png")],
    "a return": lambda: ToolReturn({"a": None}, content=["see"], metadata={"n": 1}),
    "a model": lambda: Wanted(path="a.py", count=1),
    "what does not validate": lambda: Wanted.model_validate({"count": {"{x}": [1]}}),
    "what asks again": lambda: fail(ModelRetry("once more")),
    "what failed": lambda: fail(ToolFailed("no")),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_what_a_tool_gave_or_raised_comes_back_as_it_was(chartered: Path, given: Callable[[], Any]) -> None:
    made, told = [], []

    def act(path: str) -> Any:
        made.append(path)
        return given()

    def answer(messages: list[ModelMessage], _: AgentInfo) -> PydanticResponse:
        if len(messages) == 1:
            return PydanticResponse([ToolCallPart("act", {"path": "a.py"}, "c1")])
        told.append(messages[2])
        return PydanticResponse([TextPart("Done.")])

    async def program(run: Run) -> None:
        await Agent(FunctionModel(answer), tools=[act], capabilities=[RecordAgent(run)]).run(REQUEST)

    invocation_id = run_program(chartered, REQUEST, program, capture=FULL)
    path, events = record_path(chartered, invocation_id), lines_of(chartered, invocation_id)
    end = next(at for at, line in enumerate(events, 1) if line["event"] == "tool_result")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:end]))
    resume(chartered, invocation_id, program)

    first, second = ModelMessagesTypeAdapter.dump_python(told, mode="json")
    assert [dict(part, timestamp=None) for part in first["parts"]] == [
        dict(part, timestamp=None) for part in second["parts"]
    ]
    assert made == ["a.py"]


def test_a_streamed_answer_with_a_text_before_its_calls_comes_back_as_it_was(chartered: Path) -> None:
    made = []

    def read(path: str) -> str:
        made.append(path)
        return path

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) == 1:
            yield "I will look."
            yield {1: DeltaToolCall("read", '{"path": "a.py"}', tool_call_id="c1")}
        else:
            yield {0: DeltaToolCall(info.output_tools[0].name, '{"path": "a.py", "count": 1}', tool_call_id="c2")}

    async def program(run: Run) -> None:
        model = FunctionModel(stream_function=stream)
        agent = Agent(model, output_type=Wanted, tools=[read], capabilities=[RecordAgent(run)])
        async with agent.run_stream(REQUEST) as streamed:
            assert await streamed.get_output() == Wanted(path="a.py", count=1)

    invocation_id = run_program(chartered, REQUEST, program, capture=FULL)
    path = record_path(chartered, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    resume(chartered, invocation_id, program)

    names = [line["event"] for line in lines_of(chartered, invocation_id)[4:]]
    assert names[:4] == ["model_call", "tool_call", "tool_result", "resumed"]
    assert made == ["a.py"]


def test_what_a_model_is_asked_holds_all_that_a_tool_gave(chartered: Path) -> None:
    def clock() -> dict[str, str]:
        return {"timestamp": "noon", "run_id": "seven"}

    def answer(messages: list[ModelMessage], _: AgentInfo) -> PydanticResponse:
        return PydanticResponse([ToolCallPart("clock", {}) if len(messages) == 1 else TextPart("Done.")])

    async def program(run: Run) -> None:
        await Agent(FunctionModel(answer), tools=[clock], capabilities=[RecordAgent(run)]).run(REQUEST)

    lines = lines_of(chartered, run_program(chartered, REQUEST, program, capture=FULL))
    (part,) = json.loads([line["prompt"] for line in lines if line["event"] == "model_call"][1])[2]["parts"]

    assert part["content"] == clock()
    assert "timestamp" not in part
