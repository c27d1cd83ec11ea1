"""LangChain and LangGraph: a graph is recorded by its nodes, models and tools."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from adapting import FULL, REQUEST, events, shown
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.adapters.langchain import RecordCallbacks
from specify_cli.features.programs.resume import reexecute, resume, run_program
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.features.programs.work.refusals import LimitExceeded


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
    AIMessage(
        "Done.",
        usage_metadata={
            "input_tokens": 20,
            "output_tokens": 3,
            "total_tokens": 23,
            "input_token_details": {"cache_read": 8, "cache_creation": 2},
            "output_token_details": {"reasoning": 1},
        },
    ),
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
    assert [item.get("tokens") for item in found if item["event"] == "model_call"] == [
        None,
        {"input": 10, "output": 3, "cache_read": 8, "cache_write": 2, "thinking": 1},
    ]
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


def test_a_graph_that_waits_for_a_person_or_hands_over_has_not_failed(chartered: Path) -> None:
    @tool
    def confirm(question: str) -> str:
        """Ask a person."""
        return f"{question} {interrupt(question)}"

    def ask(_: State, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [HumanMessage(confirm.invoke({"question": "sure?"}, config))]}

    def give_over(_: State) -> Command[str]:
        return Command(goto="other", graph=Command.PARENT)

    inner: Any = StateGraph(State)
    inner.add_node("give_over", give_over).add_edge(START, "give_over")
    graph: Any = StateGraph(State)
    graph.add_node("ask", ask).add_node("inner", inner.compile()).add_node("other", lambda _: {})
    graph.add_edge(START, "ask").add_edge("ask", "inner")
    compiled = graph.compile(checkpointer=InMemorySaver())
    with open_invocation(chartered, REQUEST) as run:
        config: RunnableConfig = {"callbacks": [RecordCallbacks(run)], "configurable": {"thread_id": "1"}}
        compiled.invoke({"messages": []}, config)
        compiled.invoke(Command(resume="yes"), config)

    assert [item for item in shown(events(chartered, run)) if item[0] not in ("step_started", "tool_call")][:-1] == [
        ("tool_result", "ask", "confirm", "unknown"),
        ("step_completed", "ask", "PENDING"),
        ("tool_result", "ask", "confirm", "ok"),
        ("step_completed", "ask", "PASS"),
        ("step_completed", "give_over", "PASS"),
        ("step_completed", "inner", "PASS"),
        ("step_completed", "other", "PASS"),
    ]


def test_a_limit_stops_a_graph(chartered: Path) -> None:
    with pytest.raises(LimitExceeded), open_invocation(chartered, REQUEST, limits={"tool_calls": 1}) as run:
        config = {"callbacks": [RecordCallbacks(run)]}
        asyncio.run(build_graph(list(ANSWERS)).ainvoke({"messages": [HumanMessage(REQUEST)]}, config))

    assert [item["event"] for item in events(chartered, run)].count("tool_call") == 1


def test_a_run_that_goes_on_is_not_watched(chartered: Path) -> None:
    run = open_invocation(chartered, REQUEST)
    run.release()

    def again(resumed: Run) -> None:
        RecordCallbacks(resumed)

    with pytest.raises((CallerError, InvocationError), match="framework decides itself"):
        resume(chartered, run.invocation_id, again)


class Several(GenericFakeChatModel):
    """A model that gives several answers to one question, and counts them in the form of OpenAI's service."""

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        used = {"prompt_tokens": 9, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 4}}
        generations = [ChatGeneration(message=AIMessage(text)) for text in ("one", "two")]
        return ChatResult(generations=generations, llm_output={"token_usage": used, "model_name": "some-model"})


def test_every_answer_to_one_question_is_recorded_with_what_they_used(chartered: Path) -> None:
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        Several(messages=iter(())).invoke("how?", {"callbacks": [RecordCallbacks(run)]})
    (asked, _) = events(chartered, run)

    assert [answer["data"]["content"] for answer in json.loads(asked["response"])] == ["one", "two"]
    assert (asked["model"], asked["tokens"]) == ("some-model", {"input": 5, "output": 6, "cache_read": 4})


def test_an_async_graph_is_the_same_again(project: Path) -> None:
    async def program(run: Run) -> None:
        config: RunnableConfig = {"callbacks": [RecordCallbacks(run)]}
        await build_graph(list(ANSWERS)).ainvoke({"messages": [HumanMessage(REQUEST)]}, config)

    invocation_id = run_program(project, REQUEST, program, capture=FULL)

    assert reexecute(project, invocation_id, program, allow_external=True).comparison.match is True
