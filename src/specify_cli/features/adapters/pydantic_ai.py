"""pydantic-ai: a capability that records each question to the model and each tool call, and can go
on with a run.

async with open_invocation(project, request) as run:
    agent = Agent(model, tools=[read_file], capabilities=[RecordAgent(run, {"read_file": "none"})])
    await agent.run(request)
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, to_json

from doctrine.text import as_object, get_object
from specify_cli.features.adapters.observer import count_kinds
from specify_cli.features.programs.run import Run
from specify_cli.features.programs.work.refusals import RecordedError
from specify_cli.installation import name_extra

with name_extra("pydantic-ai"):
    from pydantic_ai import RunContext, exceptions
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessagesTypeAdapter,
        ModelResponse,
        ToolCallPart,
        ToolReturn,
        ToolReturnContent,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import ToolDefinition

_RESPONSE = TypeAdapter(ModelResponse)
# What a tool gives, as the framework's messages have it, and back: pictures and returns of its own.
_TO_JSON: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_bytes="base64"))
_GIVEN: tuple[TypeAdapter[Any], ...] = TypeAdapter(ToolReturnContent), TypeAdapter(ToolReturn)
# What a tool raises where its call is decided, or made, elsewhere.
_DEFERRALS = {
    kind.__name__: kind for kind in (exceptions.CallDeferred, exceptions.ApprovalRequired)
}
# What differs when the same is asked again.
_VOLATILE = frozenset(("timestamp", "run_id", "conversation_id", "content_file_digests"))


class ToolValidationError(Exception):
    """What is recorded of a `ValidationError` of a tool: the details that the model is told."""


def _make_invalid(details: str) -> ValidationError:
    lines: Any = [
        item | {"type": PydanticCustomError(item["type"], item["msg"]), "loc": tuple(item["loc"])}
        for item in json.loads(details)
    ]
    return ValidationError.from_exception_data("tool", lines)


# What the framework makes of an error of a tool: the error that a tool raises for it.
_TOLD: Mapping[str, Callable[[str], Exception]] = {
    "ToolRetryError": exceptions.ModelRetry,
    "ToolFailedError": exceptions.ToolFailed,
    "ToolValidationError": _make_invalid,
}


class RecordAgent(AbstractCapability[Any]):
    """Records an agent's work. `effects` says by tool which of none, idempotent or external it is;
    external if unsaid.

    In a run that goes on, what was answered and done before is given back and not asked or done
    again.
    """

    def __init__(self, run: Run, effects: Mapping[str, str] | None = None) -> None:
        self._run = run
        self._effects = effects or {}

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """Ask the model, and record question and answer."""

        asked = []

        async def ask(_: object) -> object:
            asked.append(True)
            response = await handler(request_context)
            if getattr(response, "model_id", "") is None:
                # The framework adds it behind this call, and not where a recorded answer is given
                # back.
                response.model_id = request_context.model_id or request_context.model.model_id
            return _RESPONSE.dump_python(response, mode="json")

        asks, model = request_context, request_context.model
        messages = ModelMessagesTypeAdapter.dump_python(asks.messages, mode="json")
        answer = await self._run.amodel_call(
            model.model_name, [*map(_drop_volatile, messages)], ask, tokens=_count_tokens
        )
        if asks.streaming and not asked:
            # An answer that is given back is streamed by what the model would have made of these.
            _, asks.model_request_parameters = model.prepare_request(
                asks.model_settings, asks.model_request_parameters
            )
        return _RESPONSE.validate_python(answer)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Make the call, and record it with its result."""
        effect = self._effects.get(call.tool_name, "external")
        try:
            async with self._run.tool(call.tool_name, dict(args), side_effect=effect) as tool_call:
                if not tool_call.done:
                    try:
                        given = await handler(args)
                        tool_call.result = _dump_given(given)
                        return given
                    except tuple(_DEFERRALS.values()) as left:
                        tool_call.result = {"raised": type(left).__name__, "with": vars(left)}
                    except ValidationError as error:
                        details = error.errors(include_url=False, include_context=False)
                        raise ToolValidationError(
                            to_json(details, fallback=str).decode()
                        ) from error
        except RecordedError as error:
            # What a tool told the framework by an error, it is told again.
            told = _TOLD.get(type(error).__name__)
            if told is None:
                raise
            raise told(str(error)) from error
        except ToolValidationError as error:
            raise cast(ValidationError, error.__cause__) from None
        # What a tool gave is returned as the framework had it, and raised what it left its call by.
        given = as_object(tool_call.result)
        if given.get("raised") in _DEFERRALS:
            raise _DEFERRALS[given["raised"]](**given["with"])
        adapter = _GIVEN[given.get("kind") == "tool-return"]
        return adapter.validate_json(json.dumps(given.get("verbatim", tool_call.result)))


def _dump_given(value: Any) -> Any:
    """Return what a tool gave as JSON has it; `verbatim` what looks like what we make of another
    value."""
    try:
        dumped = _TO_JSON.dump_python(value, mode="json")
    except ValueError:  # the framework cannot say it either
        return value
    given = as_object(dumped)
    looks = given.keys() & {"raised", "verbatim"} or given.get("kind") == "tool-return"
    return {"verbatim": dumped} if looks and not isinstance(value, ToolReturn) else dumped


def _count_tokens(answer: Any) -> dict[str, int]:
    used = get_object(answer, "usage")
    details = get_object(used, "details")
    return count_kinds(
        used.get("input_tokens"),
        used.get("output_tokens"),
        used.get("cache_read_tokens"),
        used.get("cache_write_tokens"),
        details.get("reasoning_tokens", details.get("thoughts_tokens")),
    )


def _drop_volatile(value: dict[str, Any]) -> dict[str, Any]:
    """Return a message, or a part of one, without what says when, and in which run, it was made."""
    kept = {name: item for name, item in value.items() if name not in _VOLATILE}
    if "parts" in kept:
        kept["parts"] = [_drop_volatile(part) for part in kept["parts"]]
    return kept
