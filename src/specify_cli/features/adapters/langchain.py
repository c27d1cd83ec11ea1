"""LangChain and LangGraph: a callback handler that records models, tools, retrievers and the nodes
of a graph.

with open_invocation(project, request) as run:
    graph.invoke({"messages": [request]}, config={"callbacks": [RecordCallbacks(run)]})
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from doctrine.text import get_object
from specify_cli.features.adapters.observer import Observer, count_kinds
from specify_cli.features.programs.run import Run
from specify_cli.installation import name_extra

with name_extra("langchain"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import BaseMessage, messages_to_dict

_DRAWN_ID = re.compile(r"((lc_)?run-+)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\d+)?")


class RecordCallbacks(BaseCallbackHandler):
    """Records what a chain, an agent or a graph does. A node of a graph is a step; calls in it
    belong to that step."""

    run_inline = True  # in the task that does the work, so that what it calls knows its step
    raise_error = True  # what could not be recorded is not passed over

    def __init__(self, run: Run) -> None:
        self._observer = Observer(run)

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        """Begin a step where a node begins."""
        if name is not None and name == (metadata or {}).get("langgraph_node"):
            self._observer.begin_step(run_id, name, _make_plain(inputs))
        self._observer.place(run_id, parent_run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """End the step of a node."""
        self._observer.end_step(run_id, _make_plain(outputs))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Fail the step of a node, unless it waits for a person or hands over."""
        left = _read_leave(error)
        self._observer.end_step(run_id, None, None if left else error, left or "PASS")

    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[BaseMessage]], **given: Any
    ) -> None:
        """Keep the messages a model is asked with."""
        prompts: list[Any] = [_dump_messages(batch) for batch in messages]
        self.on_llm_start(serialized, prompts, **given)

    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **given: Any,
    ) -> None:
        """Keep the texts a model is asked with."""
        asked, metadata = given.get("invocation_params") or {}, given.get("metadata") or {}
        names = (
            asked.get("model"),
            asked.get("model_name"),
            metadata.get("ls_model_name"),
            ((serialized or {}).get("id") or [None])[-1],
        )
        model = next((name for name in names if isinstance(name, str) and name), "unknown")
        prompt = prompts[0] if len(prompts) == 1 else prompts
        self._observer.begin_model(run_id, model, prompt, parent_run_id)

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the model's answer, or all of them where it gave several, and what it used."""
        generations = [item for batch in response.generations for item in batch]
        messages = [getattr(item, "message", None) for item in generations]
        answers = [
            item.text if message is None else _dump_messages([message])[0]
            for item, message in zip(generations, messages, strict=True)
        ]
        first = next(iter(messages), None)
        output = response.llm_output or {}
        metadata = getattr(first, "response_metadata", None) or {}
        self._observer.end(
            run_id,
            answers if len(answers) > 1 else next(iter(answers), None),
            model=metadata.get("model_name") or output.get("model_name"),
            tokens=_count_tokens(
                getattr(first, "usage_metadata", None) or output.get("token_usage") or {}
            ),
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record that a model or a search gave no answer."""
        self._observer.end(run_id, None, error=error)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        name: str | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """Record a tool call before it is made."""
        tool = name or (serialized or {}).get("name") or "tool"
        args = input_str if inputs is None else _make_plain(inputs)
        self._observer.begin_tool(
            run_id, tool, args, call_id=tool_call_id or "", within=parent_run_id
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record what a tool gave; a message that says so is an error."""
        failed = getattr(output, "status", None) == "error"
        result = output.content if isinstance(output, BaseMessage) else _make_plain(output)
        self._observer.end(run_id, result, error=str(result) if failed else None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record that a tool failed; of one that waits for a person nothing says how it ends."""
        if (left := _read_leave(error)) is None:
            self._observer.end(run_id, None, error=error)
        else:
            self._observer.end(run_id, None, status="ok" if left == "PASS" else "unknown")

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        name: str | None = None,
        **given: Any,
    ) -> None:
        """Record a search in the program's own documents as a tool call."""
        tool = name or (serialized or {}).get("name") or "retriever"
        self.on_tool_start(serialized, query, inputs={"query": query}, name=tool, **given)

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **_: Any) -> None:
        """Record what was found."""
        self._observer.end(run_id, _make_plain(documents))

    on_retriever_error = on_llm_error


def _dump_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages as JSON has them, without the ids that LangChain and LangGraph draw anew in
    each run.

    The id that a provider gave its answer stays.
    """
    dumped = messages_to_dict(messages)
    for message in dumped:
        if _DRAWN_ID.fullmatch(str(message["data"].get("id"))):
            message["data"]["id"] = None
    return dumped


def _count_tokens(used: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of an answer by kind, of LangChain's own form or of OpenAI's."""
    return count_kinds(
        used.get("input_tokens", used.get("prompt_tokens")),
        used.get("output_tokens", used.get("completion_tokens")),
        get_object(used, "input_token_details").get("cache_read")
        or get_object(used, "prompt_tokens_details").get("cached_tokens"),
        get_object(used, "input_token_details").get("cache_creation"),
        get_object(used, "output_token_details").get("reasoning")
        or get_object(used, "completion_tokens_details").get("reasoning_tokens"),
    )


def _read_leave(error: BaseException) -> str | None:
    """Return the decision of a node that LangGraph leaves by raising: PENDING where it waits for a
    person and runs again, PASS where it hands over to another; None for an error."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "GraphBubbleUp" not in names:
        return None
    return "PASS" if "ParentCommand" in names else "PENDING"


def _make_plain(value: Any) -> object:
    """Return a value with the messages in it as JSON has them."""
    if isinstance(value, BaseMessage):
        return _dump_messages([value])[0]
    if isinstance(value, Mapping):
        return {str(name): _make_plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_make_plain(item) for item in value]
    return value
