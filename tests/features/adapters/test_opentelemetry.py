"""OpenTelemetry: spans of generative AI are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode, use_span

from adapting import FULL, REQUEST, events, shown
from specify_cli.features.adapters.opentelemetry import RecordSpans
from specify_cli.features.programs.run import open_invocation


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
            "gen_ai.usage.cache_read.input_tokens": 3,
            "gen_ai.usage.reasoning.output_tokens": 2,
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
    assert (found[1]["tokens"], json.loads(found[1]["prompt"])) == (
        {"input": 4, "cache_read": 3, "thinking": 2},
        asked,
    )
    assert json.loads(found[3]["output"]) == "not there"


def test_a_span_that_ends_after_its_run_stops_no_program_and_is_said_to_be_lost(chartered: Path) -> None:
    provider = TracerProvider()
    tracer = provider.get_tracer("test")
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "some-model"}
    agent = {"gen_ai.operation.name": "invoke_agent"}
    with open_invocation(chartered, REQUEST) as run:
        provider.add_span_processor(RecordSpans(run))
        late = tracer.start_span("chat", attributes=chat)
    with pytest.warns(UserWarning, match=f"chat ended after {run.invocation_id}"):
        late.end()
    with pytest.warns(UserWarning, match="invoke_agent"):
        tracer.start_span("invoke_agent", attributes=agent).end()

    assert shown(events(chartered, run)) == [("completed",)]


def test_spans_that_number_their_calls_alike_are_two_calls(chartered: Path) -> None:
    act = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "gen_ai.tool.call.id": "c1"}
    with open_invocation(chartered, REQUEST) as run:
        provider = TracerProvider()
        provider.add_span_processor(RecordSpans(run))
        for _ in range(2):
            provider.get_tracer("test").start_span("execute_tool read", attributes=act).end()
    calls = [line["call_id"] for line in events(chartered, run) if line["event"] in ("tool_call", "tool_result")]

    assert calls[0] == calls[1] == "c1" != calls[2] == calls[3]


def test_calls_in_spans_of_other_kinds_belong_to_the_agent_around_them(chartered: Path) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "mender"}
    act = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "gen_ai.tool.call.arguments": "NaN"}
    with open_invocation(chartered, REQUEST, capture=FULL) as run:
        provider = TracerProvider()
        provider.add_span_processor(RecordSpans(run))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("invoke_agent mender", attributes=agent):
            late = tracer.start_span("turn")
            with use_span(late, end_on_exit=True):
                tool = tracer.start_span("execute_tool read", attributes=act)
            other = dict(agent, **{"gen_ai.agent.name": "other"})
            with tracer.start_as_current_span("invoke_agent other", attributes=other):
                tool.end()
    found = events(chartered, run)

    assert [what for what in shown(found) if what[0].startswith("tool")] == [
        ("tool_call", "mender", "read"),
        ("tool_result", "mender", "read", "ok"),
    ]
    assert [json.loads(line["args"]) for line in found if line["event"] == "tool_call"] == ["NaN"]
