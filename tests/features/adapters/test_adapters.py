"""What the adapters record of agents that run on the real frameworks, with models that answer offline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from agents import Agent as OpenAgent
from agents import Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from replaying import lines_of
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.adapters.langchain import RecordCallbacks
from specify_cli.features.adapters.openai_agents import RecordHooks
from specify_cli.features.adapters.opentelemetry import RecordSpans
from specify_cli.features.adapters.pydantic_ai import RecordAgent
from specify_cli.features.programs.resume import resume
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.features.programs.work.refusals import LimitExceeded
from specify_cli.project.config import load_project
from specify_cli.storage.checking import verify_all

REQUEST = "fix the failing login test"
FULL = {"tool": "full", "llm": "full"}


def events(root: Path, run: Run) -> list[dict[str, Any]]:
    """The events of a run behind its opening, without what differs each time; the record is sound."""
    project, _ = load_project(str(root))
    assert [item for report in verify_all(project) for item in report.findings if item.severity == "error"] == []
    return lines_of(root, run.invocation_id)[4:]


def shown(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("step", "tool", "status", "model", "decision")
    return [(item["event"], *(item[name] for name in names if name in item)) for item in found]


# --- LangChain and LangGraph


@tool
def read_file(path: str) -> str:
    """Read a file."""
    if path == "nowhere":
        raise FileNotFoundError(path)
    return f"text of {path}"


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def call(name: str, path: str) -> dict[str, Any]:
    return {"name": "read_file", "args": {"path": path}, "id": name, "type": "tool_call"}


def build_graph(answers: list[AIMessage]) -> Any:
    model = GenericFakeChatModel(messages=iter(answers))

    async def ask(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def act(state: State) -> dict[str, Any]:
        async def one(asked: Any) -> ToolMessage:
            try:
                return await read_file.ainvoke(asked)  # type: ignore[no-any-return]
            except FileNotFoundError as error:
                return ToolMessage(str(error), tool_call_id=asked["id"], status="error")

        calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"messages": await asyncio.gather(*(one(asked) for asked in calls))}

    def route(state: State) -> str:
        return "act" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_node("act", act)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", route, ["act", END])
    graph.add_edge("act", "ask")
    return graph.compile()


ANSWERS = [
    AIMessage("", tool_calls=[call("c1", "a.py"), call("c2", "nowhere")]),
    AIMessage("Done.", usage_metadata={"input_tokens": 20, "output_tokens": 3, "total_tokens": 23}),
]


def test_a_graph_is_recorded_by_nodes_with_models_and_parallel_tools(chartered: Path) -> None:
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        config = {"callbacks": [RecordCallbacks(run)]}
        asyncio.run(build_graph(list(ANSWERS)).ainvoke({"messages": [HumanMessage(REQUEST)]}, config))
    found = events(chartered, run)
    calls = [item for item in found if item["event"] in ("tool_call", "tool_result")]

    told = [item for item in shown(found) if item[0] not in ("tool_call", "tool_result")]
    assert told[:-1] == [
        ("step_started", "ask"),
        ("model_call", "ask", "GenericFakeChatModel"),
        ("step_completed", "ask", "PASS"),
        ("step_started", "act"),
        ("step_completed", "act", "PASS"),
        ("step_started", "ask"),
        ("model_call", "ask", "GenericFakeChatModel"),
        ("step_completed", "ask", "PASS"),
    ]
    assert sorted((item["event"], item["call_id"], item["step"], item.get("status")) for item in calls) == [
        ("tool_call", "c1", "act", None),
        ("tool_call", "c2", "act", None),
        ("tool_result", "c1", "act", "ok"),
        ("tool_result", "c2", "act", "error"),
    ]
    assert [item.get("tokens") for item in found if item["event"] == "model_call"] == [None, {"input": 20, "output": 3}]
    assert json.loads(next(item for item in calls if item["call_id"] == "c1")["args"]) == {"path": "a.py"}


def test_parallel_nodes_keep_their_calls_apart(chartered: Path) -> None:
    def worker(_: State, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [HumanMessage(read_file.invoke({"path": config["metadata"]["langgraph_node"]}, config))]}

    graph = StateGraph(State)
    for name in ("left", "right"):
        graph.add_node(name, worker)  # type: ignore[arg-type]
        graph.add_edge(START, name)
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        graph.compile().invoke({"messages": []}, {"callbacks": [RecordCallbacks(run)]})
    calls = [item for item in events(chartered, run) if item["event"] == "tool_call"]

    assert sorted((item["step"], json.loads(item["args"])["path"]) for item in calls) == [
        ("left", "left"),
        ("right", "right"),
    ]


def test_a_node_that_fails_is_a_failed_step_and_the_error_is_the_programs(chartered: Path) -> None:
    def worker(_: State) -> dict[str, Any]:
        raise ValueError("no such thing")

    graph = StateGraph(State)
    graph.add_node("only", worker)  # type: ignore[arg-type]
    graph.add_edge(START, "only")
    with pytest.raises(ValueError, match="no such thing"), open_invocation(chartered, REQUEST) as run:
        graph.compile().invoke({"messages": []}, {"callbacks": [RecordCallbacks(run)]})

    failed = next(item for item in events(chartered, run) if item["event"] == "step_failed")
    assert (failed["step"], failed["error_code"]) == ("only", "ValueError")


def test_a_limit_stops_a_graph(chartered: Path) -> None:
    with pytest.raises(LimitExceeded), open_invocation(chartered, REQUEST, limits={"tool_calls": 1}) as run:
        config = {"callbacks": [RecordCallbacks(run)]}
        asyncio.run(build_graph(list(ANSWERS)).ainvoke({"messages": [HumanMessage(REQUEST)]}, config))

    assert [item["event"] for item in events(chartered, run)].count("tool_call") == 1


# --- pydantic-ai


def answer_twice(messages: list[ModelMessage], _: AgentInfo) -> PydanticResponse:
    if len(messages) == 1:
        return PydanticResponse([ToolCallPart("read", {"path": path}, path) for path in ("a.py", "b.py")])
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
    assert all(item["tokens"]["output"] > 0 for item in found if item["event"] == "model_call")


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


# --- OpenAI Agents SDK


class Scripted(Model):
    """A model that calls a tool and then answers."""

    def __init__(self) -> None:
        self.turns: Iterator[list[Any]] = iter(
            [
                [
                    ResponseFunctionToolCall(
                        arguments='{"path":"a.py"}', call_id="c1", name="read", type="function_call"
                    )
                ],
                [
                    ResponseOutputMessage(
                        id="m1",
                        content=[ResponseOutputText(annotations=[], text="Done.", type="output_text")],
                        role="assistant",
                        status="completed",
                        type="message",
                    )
                ],
            ]
        )

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        used = Usage(requests=1, input_tokens=9, output_tokens=2, total_tokens=11)
        return ModelResponse(output=next(self.turns), usage=used, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def test_a_run_of_the_openai_agents_sdk_is_recorded(chartered: Path) -> None:
    @function_tool
    def read(path: str) -> str:
        """Read a file."""
        return f"text of {path}"

    agent = OpenAgent(name="mender", instructions="Mend it.", model=Scripted(), tools=[read])
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
    assert found[1]["tokens"] == {"input": 9, "output": 2}


# --- OpenTelemetry


def test_spans_of_generative_ai_are_recorded_and_others_passed_over(chartered: Path) -> None:
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        provider = TracerProvider()
        provider.add_span_processor(RecordSpans(run))
        tracer = provider.get_tracer("test")
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "mender"}
        asked = [{"role": "user", "parts": [{"type": "text", "content": "go"}]}]
        chat: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "some-model",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.input.messages": json.dumps(asked),
        }
        act = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "read",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": '{"path": "a.py"}',
        }
        with tracer.start_as_current_span("invoke_agent mender", attributes=agent):
            with tracer.start_as_current_span("chat", attributes=chat):
                pass
            with tracer.start_as_current_span("GET /", attributes={"http.request.method": "GET"}):
                pass
            with tracer.start_as_current_span("execute_tool read", attributes=act) as span:
                span.set_status(Status(StatusCode.ERROR, "not there"))
    found = events(chartered, run)

    assert shown(found)[:-1] == [
        ("step_started", "mender"),
        ("model_call", "mender", "some-model"),
        ("tool_call", "mender", "read"),
        ("tool_result", "mender", "read", "error"),
        ("step_completed", "mender", "PASS"),
    ]
    assert (found[1]["tokens"], json.loads(found[1]["prompt"])) == ({"input": 7}, asked)
    assert json.loads(found[3]["output"]) == "not there"


def test_a_run_that_goes_on_is_not_watched(chartered: Path) -> None:
    run = open_invocation(chartered, REQUEST)
    run.release()

    def again(resumed: Run) -> None:
        RecordCallbacks(resumed)

    with pytest.raises((CallerError, InvocationError), match="framework decides itself"):
        resume(chartered, run.invocation_id, again)
