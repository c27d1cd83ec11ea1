"""OpenAI Agents SDK: hooks of a run that record its agents, models, tools and handoffs.

with open_invocation(project, request) as run:
    Runner.run_sync(agent, request, hooks=RecordHooks(run))
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from specify_cli.features.adapters.observer import Observer, count_kinds, parse_text
from specify_cli.features.programs.run import Run
from specify_cli.installation import name_extra

with name_extra("openai-agents"):
    from agents import Agent, ModelResponse, RunContextWrapper, RunHooks, Tool
    from agents.items import TResponseInputItem
    from agents.tool_context import ToolContext


class RecordHooks(RunHooks[Any]):
    """Records what the agents of a run do. An agent's turn is a step, a handoff a stage."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._observer = Observer(run)

    async def on_agent_start(self, context: RunContextWrapper[Any], agent: Any) -> None:
        """Begin the step of an agent."""
        self._observer.begin_step(_name_agent(context, agent), agent.name, None)

    async def on_agent_end(self, context: RunContextWrapper[Any], agent: Any, output: Any) -> None:
        """End the step of an agent with its answer."""
        self._observer.end_step(_name_agent(context, agent), output)

    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Any, to_agent: Any
    ) -> None:
        """Record that another agent takes over."""
        self._observer.end_step(_name_agent(context, from_agent), {"handoff": to_agent.name})
        self._run.stage(to_agent.name)

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Keep what a model is asked."""
        key = _name_agent(context, agent)
        prompt = {"system": system_prompt, "input": input_items}
        self._observer.begin_model(("model", key), _name_model(agent), prompt, key)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Record the model's answer and what it used."""
        used = response.usage
        tokens = count_kinds(
            used.input_tokens,
            used.output_tokens,
            getattr(used.input_tokens_details, "cached_tokens", None),
            getattr(used.input_tokens_details, "cache_write_tokens", None),
            getattr(used.output_tokens_details, "reasoning_tokens", None),
        )
        answer = [item.model_dump(mode="json", exclude_unset=True) for item in response.output]
        self._observer.end(("model", _name_agent(context, agent)), answer, tokens=tokens)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Any, tool: Tool) -> None:
        """Record a tool call before it is made."""
        args, call_id = None, ""  # of a tool of the service they stand in the model's answer
        if isinstance(context, ToolContext):
            args, call_id = parse_text(context.tool_arguments), context.tool_call_id
        within, key = _name_agent(context, agent), _name_call(context, agent, tool)
        self._observer.begin_tool(key, tool.name, args, call_id=call_id, within=within)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Any, tool: Tool, result: object
    ) -> None:
        """Record what a tool gave. The SDK gives a tool's error as its result, so a failed call
        looks done."""
        self._observer.end(_name_call(context, agent, tool), result)


def _name_agent(context: RunContextWrapper[Any], agent: Any) -> Hashable:
    """Return what tells the turn of an agent from those of other runs that go on meanwhile, also of
    one agent that is a tool of another: all contexts of a run share their approvals."""
    return id(getattr(context, "_approvals", context.usage)), agent.name


def _name_call(context: RunContextWrapper[Any], agent: Any, tool: Tool) -> Hashable:
    """Return what tells a call from those of other runs too: some models number theirs anew in
    each."""
    call = context.tool_call_id if isinstance(context, ToolContext) else id(context)
    return _name_agent(context, agent), call, tool.name


def _name_model(agent: Agent[Any]) -> str:
    model = agent.model
    return (
        model
        if isinstance(model, str)
        else str(getattr(model, "model", None) or type(model).__name__)
    )
