"""OpenAI Agents SDK: a run is recorded with its agents, models and tools."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adapting import FULL, REQUEST, events, shown
from replaying import lines_of
from specify_cli.features.programs.resume import reexecute, run_program
from specify_cli.features.programs.run import Run, open_invocation

if TYPE_CHECKING:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

    from specify_cli.features.adapters.openai_agents import RecordHooks

NEEDED = {
    "agents": "Agent Model ModelResponse RunConfig Runner Usage function_tool",
    "openai.types.responses": "ResponseFunctionToolCall ResponseOutputMessage ResponseOutputText",
    "openai.types.responses.response_usage": "InputTokensDetails OutputTokensDetails",
    "specify_cli.features.adapters.openai_agents": "RecordHooks",
}


@pytest.fixture(scope="module", autouse=True)
def _load() -> None:
    """Load the SDK, which takes more than a second, where its tests are run: each process of a run collects them."""
    for module, names in NEEDED.items():
        globals().update({name: getattr(importlib.import_module(module), name) for name in names.split()})


def ask(name: str, call_id: str, **args: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(arguments=json.dumps(args), call_id=call_id, name=name, type="function_call")


def answer(text: str) -> ResponseOutputMessage:
    content: list[Any] = [ResponseOutputText(annotations=[], text=text, type="output_text")]
    return ResponseOutputMessage(id="m1", content=content, role="assistant", status="completed", type="message")


def make_model(*turns: list[Any]) -> Model:
    """Return a model that does what it is told, a list of its output for each turn."""

    class Scripted(Model):
        def __init__(self, *turns: list[Any]) -> None:
            self.turns: Iterator[list[Any]] = iter(turns)

        async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
            await asyncio.sleep(0)
            details = InputTokensDetails.model_construct(cached_tokens=4, cache_write_tokens=0)
            thought = OutputTokensDetails(reasoning_tokens=1)
            used = Usage(
                requests=1,
                input_tokens=9,
                output_tokens=2,
                total_tokens=11,
                input_tokens_details=details,
                output_tokens_details=thought,
            )
            return ModelResponse(output=next(self.turns), usage=used, response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Scripted(*turns)


def test_a_run_of_the_openai_agents_sdk_is_recorded(chartered: Path) -> None:
    @function_tool
    def read(path: str) -> str:
        """Read a file."""
        return f"text of {path}"

    model = make_model([ask("read", "c1", path="a.py")], [answer("Done.")])
    agent = Agent(name="mender", instructions="Mend it.", model=model, tools=[read])
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        config = RunConfig(tracing_disabled=True)
        # Not run_sync, which leaves its event loop open.
        done = asyncio.run(Runner.run(agent, REQUEST, hooks=RecordHooks(run), run_config=config))
        assert done.final_output == "Done."
    found = events(chartered, run)

    assert shown(found)[:-1] == [
        ("step_started", "mender"),
        ("model_call", "mender", "Scripted"),
        ("tool_call", "mender", "read"),
        ("tool_result", "mender", "read", "ok"),
        ("model_call", "mender", "Scripted"),
        ("step_completed", "mender", "PASS"),
    ]
    assert [item["call_id"] for item in found if item["event"] == "tool_call"] == ["c1"]
    assert json.loads(found[2]["args"]) == {"path": "a.py"}
    assert found[1]["tokens"] == {"input": 5, "output": 2, "cache_read": 4, "thinking": 1}


def test_an_agent_that_is_asked_twice_at_once_as_a_tool_loses_no_answer(chartered: Path) -> None:
    asked = [ask("inner", "c1", input="one"), ask("inner", "c2", input="two")]
    inner = Agent(name="inner", model=make_model([answer("1")], [answer("2")]))
    config = RunConfig(tracing_disabled=True)
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        hooks = RecordHooks(run)
        tool = inner.as_tool("inner", "Ask it.", hooks=hooks, run_config=config)
        outer = Agent(name="outer", model=make_model(asked, [answer("Done.")]), tools=[tool])
        asyncio.run(Runner.run(outer, REQUEST, hooks=hooks, run_config=config))
    found = shown(events(chartered, run))

    assert found.count(("step_completed", "inner", "PASS")) == found.count(("step_started", "inner")) == 2
    assert found.count(("model_call", "inner", "Scripted")) == 2


@pytest.mark.parametrize("shared", [True, False], ids=["hooks of both", "hooks of each"])
def test_runs_at_once_whose_model_numbers_their_calls_alike_lose_no_result(chartered: Path, shared: bool) -> None:
    waiting: list[str] = []

    @function_tool
    async def read(path: str) -> str:
        """Read a file, once every run has begun to."""
        waiting.append(path)
        while len(waiting) < 2:
            await asyncio.sleep(0)
        return f"text of {path}"

    async def work(hooks: RecordHooks, path: str) -> None:
        model = make_model([ask("read", "call_0", path=path)], [answer("Done.")])
        agent = Agent(name="mender", model=model, tools=[read])
        await Runner.run(agent, REQUEST, hooks=hooks, run_config=RunConfig(tracing_disabled=True))

    async def work_twice(one: RecordHooks, two: RecordHooks) -> None:
        await asyncio.gather(work(one, "a.py"), work(two, "b.py"))

    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        hooks = RecordHooks(run)
        asyncio.run(work_twice(hooks, hooks if shared else RecordHooks(run)))
    found = events(chartered, run)
    asked = {item["call_id"]: json.loads(item["args"])["path"] for item in found if item["event"] == "tool_call"}
    given = {item["call_id"]: json.loads(item["output"]) for item in found if item["event"] == "tool_result"}

    assert len(asked) == 2
    assert given == {call_id: f"text of {path}" for call_id, path in asked.items()}


def test_what_a_tool_of_the_program_records_belongs_to_the_turn_of_its_agent(chartered: Path) -> None:
    @function_tool
    def read(path: str) -> str:
        """Read a file."""
        run.patch(path, "modify", after="x")
        return "changed"

    model = make_model([ask("read", "c1", path="a.py")], [answer("Done.")])
    agent = Agent(name="mender", instructions="Mend it.", model=model, tools=[read])
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        config = RunConfig(tracing_disabled=True)
        asyncio.run(Runner.run(agent, REQUEST, hooks=RecordHooks(run), run_config=config))

    assert ("patch_apply", "mender") in shown(events(chartered, run))


def test_what_the_sdk_leaves_open_is_on_the_record_with_the_error_of_the_run(chartered: Path) -> None:
    @function_tool(failure_error_function=None)
    def read(path: str) -> str:
        """Read a file."""
        raise OSError(path)

    async def work(run: Run, model: Model) -> None:
        agent = Agent(name="mender", model=model, tools=[read])
        await Runner.run(agent, REQUEST, hooks=RecordHooks(run), run_config=RunConfig(tracing_disabled=True))

    shows = []
    for model in (make_model(), make_model([ask("read", "c1", path="a.py")])):
        with pytest.raises(Exception), open_invocation(chartered, REQUEST, capture=FULL) as run:  # noqa: B017
            asyncio.run(work(run, model))
        found = events(chartered, run)
        shows.append(list(zip(shown(found), (line.get("ok") for line in found), strict=True)))
        assert [line["error_code"] for line in found if line["event"] == "step_failed"] == [found[-2]["error_code"]]

    assert shows[0][:-2] == [
        (("step_started", "mender"), None),
        (("model_call", "mender", "Scripted"), False),
        (("step_failed", "mender"), None),
    ]
    assert [what for what, _ in shows[1][2:-2]] == [
        ("tool_call", "mender", "read"),
        ("tool_result", "mender", "read", "unknown"),
        ("step_failed", "mender"),
    ]


def test_a_turn_that_waits_for_a_person_is_pending_and_the_same_again(chartered: Path) -> None:
    @function_tool(needs_approval=True)
    def read(path: str) -> str:
        """Read a file."""
        return path

    async def program(run: Run) -> None:
        model = make_model([ask("read", "c1", path="a.py")], [answer("Done.")])
        agent: Any = Agent(name="mender", model=model, tools=[read])
        hooks, config = RecordHooks(run), RunConfig(tracing_disabled=True)
        state = (waits := await Runner.run(agent, REQUEST, hooks=hooks, run_config=config)).to_state()
        state.approve(waits.interruptions[0])
        await Runner.run(agent, state, hooks=hooks, run_config=config)

    invocation_id = run_program(chartered, REQUEST, program, capture=FULL)
    ends = [line["decision"] for line in lines_of(chartered, invocation_id) if line["event"] == "step_completed"]

    assert sorted(ends) == ["PASS", "PENDING"]
    assert reexecute(chartered, invocation_id, program, allow_external=True).comparison.match is True
