"""OpenAI Agents SDK: a run is recorded with its agents, models and tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agents import Agent as OpenAgent
from agents import Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_usage import InputTokensDetails

from adapting import FULL, REQUEST, events, shown
from specify_cli.features.adapters.openai_agents import RecordHooks
from specify_cli.features.programs.run import open_invocation


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
        details = InputTokensDetails.model_construct(cached_tokens=4, cache_write_tokens=0)
        used = Usage(requests=1, input_tokens=9, output_tokens=2, total_tokens=11, input_tokens_details=details)
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
    assert found[1]["tokens"] == {"input": 5, "output": 2, "cache_read": 4}
