"""What a model was asked and answered, in the two forms that endpoints speak and those that
programs record.

Pure. Chat Completions and Anthropic Messages are read and written; LangChain's and pydantic-ai's
messages, and plain texts, are read. What none of them can carry is refused with its reason, never
left out.

    question = read_question([{"role": "user", "content": "what of step 3?"}])
    body = write_question(question, "small-1", CHAT)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from doctrine.text import get_object, say

Json = dict[str, object]
CHAT, MESSAGES = "/chat/completions", "/messages"
# Anthropic's form has to say how long an answer may be; what the record does not say is this.
MAX_TOKENS = 4096
_ROLES = {"human": "user", "ai": "assistant", "developer": "system"}
_PARTS = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "user",
}
# Members of a request that have no part in the answer; those whose usual value has none; and what
# is asked again.
_SILENT = {"model", "stream", "stream_options", "user", "metadata", "store", "service_tier"}
_USUAL = {"tool_choice": "auto", "response_format": {"type": "text"}, "n": 1}
_OPTIONS = ("max_tokens", "max_completion_tokens", "temperature", "top_p")
# What a provider puts behind the name of a model it answers with, or is asked for.
_VERSION = re.compile(r"[-@:](\d{4}-\d\d-\d\d|\d{3,}|latest)$")
_LATEST = re.compile(r"[-@:]latest$")
_STOPS = {"length": "cut", "max_tokens": "cut", "content_filter": "refused", "refusal": "refused"}


class UnknownFormError(ValueError):
    """Something recorded or answered that cannot be read, or asked, in one of the forms; its text
    says why."""


class ToolUse(NamedTuple):
    """A call that a model asks for."""

    call_id: str
    name: str
    args: object


class Message(NamedTuple):
    """One message; that of a tool names the call it answers."""

    role: str  # system · user · assistant · tool
    text: str
    calls: tuple[ToolUse, ...] = ()
    answers: str = ""


class Tool(NamedTuple):
    """A tool that a model may call."""

    name: str
    description: str
    schema: object


class Question(NamedTuple):
    """Everything a model is asked with."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    options: Mapping[str, object] = {}


class Answer(NamedTuple):
    """What a model answered; `decision` is answer, call_tools, cut or refused, `tokens` what it
    used."""

    text: str
    calls: tuple[ToolUse, ...]
    decision: str
    tokens: Mapping[str, int] = {}


def find_dialect(endpoint: str) -> str | None:
    """Return how an endpoint is spoken to, by its path; None where that tells nothing."""
    return next((form for form in (CHAT, MESSAGES) if urlsplit(endpoint).path.endswith(form)), None)


def read_question(prompt: object) -> Question:
    """Return what a recorded prompt asks. Raises UnknownFormError with the reason where it cannot
    be asked again."""
    if isinstance(prompt, str):
        return Question((Message("user", prompt),))
    body: dict[str, Any] = prompt if isinstance(prompt, dict) else {"messages": prompt}
    parts = body.get("messages")
    if not isinstance(parts, list) or not parts:
        raise UnknownFormError("its prompt is no text and no list of messages")
    system = _read_blocks("system", body["system"]) if body.get("system") else ()
    messages = (*system, *(message for item in parts for message in _read_message(item)))
    options: Json = {name: body[name] for name in _OPTIONS if body.get(name) is not None}
    read = {"messages", "system", "tools", *_SILENT, *options}
    others = sorted(
        say(name)
        for name, value in body.items()
        if name not in read and value not in (None, _USUAL.get(name), {"type": "auto"})
    )
    if others:
        raise UnknownFormError(f"it was asked with {', '.join(others)}, which is not asked again")
    return Question(tuple(messages), tuple(map(_read_tool, body.get("tools") or ())), options)


def read_answer(value: object) -> Answer:
    """Return what a model answered. Raises UnknownFormError with the reason where it has no known
    form."""
    if isinstance(value, str):
        return Answer(value, (), "answer")
    body: Any = value
    if not isinstance(body, dict):
        raise UnknownFormError("the answer is no text and no message")
    stop = body.get("stop_reason") or body.get("finish_reason")
    if isinstance(body.get("choices"), list) and body["choices"]:
        stop, body = body["choices"][0].get("finish_reason"), body["choices"][0].get("message")
    elif "tool_calls" in body or "refusal" in body or "content" in body:
        body = {"role": "assistant", "content": None, **body}
    if not isinstance(body, dict) or not ({"content", "parts", "data"} & body.keys()):
        raise UnknownFormError("it holds no message")
    refusal = body.get("refusal")
    messages = tuple(_read_message(body))
    calls = tuple(call for message in messages for call in message.calls)
    if any(message.role != "assistant" for message in messages):
        raise UnknownFormError("the answer is no text and no message")
    decision = _STOPS.get(str(stop)) or ("call_tools" if calls else "answer")
    texts = [message.text for message in messages]
    if isinstance(refusal, str) and refusal:
        decision, texts = "refused", [*texts, refusal]
    return Answer("".join(texts), calls, decision, _read_tokens(value))


def name_other_model(value: object, asked: str) -> str | None:
    """Return the model that an answer names where it is another than the one asked.

    A name with a date or version behind it is the same model: `gpt-5` answers as
    `gpt-5-2026-01-01`, and not as `gpt-5-mini`.
    """
    named = value.get("model") if isinstance(value, dict) else None
    if not isinstance(named, str) or not named:
        return None
    meant = _LATEST.sub("", asked)
    is_same = meant in (named, _VERSION.sub("", named)) or named == _VERSION.sub("", meant)
    return None if is_same else named


def read_error(value: object) -> str | None:
    """Return what an answer, or its first choice, says went wrong, in the forms of both dialects;
    None where it says nothing of the kind."""
    choices = value.get("choices") if isinstance(value, dict) else None
    for part in (value, *(choices[:1] if isinstance(choices, list) else ())):
        if isinstance(part, dict) and (part.get("error") or part.get("finish_reason") == "error"):
            error = part.get("error") or "it ended in an error"
            return str(error.get("message") or error) if isinstance(error, dict) else str(error)
    return None


def write_question(question: Question, model: str, dialect: str) -> Json:
    """Return the body of a request."""
    messages = list(_write_chat(question) if dialect == CHAT else _write_messages(question))
    body = {"model": model, "messages": messages, **question.options}
    if dialect == MESSAGES:
        body["max_tokens"] = body.get("max_tokens", body.pop("max_completion_tokens", MAX_TOKENS))
        system = "\n\n".join(
            message.text for message in question.messages if message.role == "system"
        )
        body |= {"system": system} if system else {}
    if question.tools:
        body["tools"] = [_write_tool(tool, dialect) for tool in question.tools]
    return body


def _read_message(item: Any) -> Iterator[Message]:
    if not isinstance(item, dict):
        raise UnknownFormError("a message is no object")
    if isinstance(item.get("parts"), list):  # pydantic-ai
        yield from _join_said(message for part in item["parts"] for message in _read_part(part))
        return
    if isinstance(item.get("data"), dict):  # LangChain
        item = {"role": item.get("type"), **item["data"]}
    role = _ROLES.get(str(item.get("role")), str(item.get("role")))
    if role not in ("system", "user", "assistant", "tool"):
        raise UnknownFormError(f"a message has the role {role}")
    calls = tuple(map(_read_call, item.get("tool_calls") or ()))
    answered = str(item.get("tool_call_id") or "")
    blocks = _read_blocks(role, item.get("content"), answered)
    if not calls:
        yield from blocks
        return
    # LangChain says them twice
    inside = tuple(call for message in blocks for call in message.calls)
    yield Message(role, "".join(message.text for message in blocks), calls or inside, answered)


def _read_blocks(role: str, content: Any, answered: str = "") -> tuple[Message, ...]:
    """Return the messages of a content: one, and before it one for each tool result in it."""
    texts = []
    calls = []
    messages = []
    for item in [content or ""] if content is None or isinstance(content, str) else content:
        block: Any = {"type": "text", "text": item} if isinstance(item, str) else item
        kind = block.get("type")
        if kind == "text":
            texts.append(str(block["text"]))
        elif kind == "tool_use":
            calls.append(ToolUse(str(block.get("id")), str(block.get("name")), block.get("input")))
        elif kind == "tool_result":
            inner = _read_blocks("tool", block.get("content"))
            messages.append(Message("tool", inner[0].text, (), str(block.get("tool_use_id"))))
        elif kind not in ("thinking", "redacted_thinking"):
            raise UnknownFormError(f"a message holds {kind}, not only text")
    if texts or calls or not messages:
        messages.append(Message(role, "".join(texts), tuple(calls), answered))
    return tuple(messages)


def _read_part(part: Any) -> Iterator[Message]:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "tool-call":
        yield Message("assistant", "", (_read_call({**part, "name": part.get("tool_name")}),))
    elif kind == "text":
        yield Message("assistant", str(content))
    elif kind in _PARTS:
        role = "tool" if kind == "retry-prompt" and part.get("tool_name") else _PARTS[kind]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        if kind == "user-prompt" and not isinstance(content, str):
            raise UnknownFormError("a message holds more than text")
        yield Message(role, text, (), str(part.get("tool_call_id") or "") if role == "tool" else "")
    elif kind != "thinking":
        raise UnknownFormError(f"a message holds {kind}, not only text")


def _join_said(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield what a model said in a row as one message: the results of all its calls follow it."""
    for role, group in groupby(messages, lambda message: message.role):
        said = tuple(group)
        if role == "assistant":
            calls = tuple(call for message in said for call in message.calls)
            said = (Message(role, "".join(message.text for message in said), calls),)
        yield from said


def _read_call(item: Any) -> ToolUse:
    called = item.get("function") or item
    args = called.get("arguments") if "function" in item else called.get("args")
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except (ValueError, RecursionError):
            pass  # A model may write what is no JSON; then its text is what it asked for.
    return ToolUse(str(item.get("id") or item.get("tool_call_id")), str(called.get("name")), args)


def _read_tool(item: Any) -> Tool:
    tool = item.get("function") or item
    schema = tool.get("parameters", tool.get("input_schema"))
    if not isinstance(tool.get("name"), str) or not isinstance(schema, dict):
        raise UnknownFormError(
            "a tool it offered has another form than name, description and schema"
        )
    return Tool(tool["name"], str(tool.get("description") or ""), schema)


def _read_tokens(value: object) -> dict[str, int]:
    """Return what an answer used by kind (docs/hooks.md): OpenAI's form counts as asked what its
    cache gave."""
    used = get_object(value, "usage")
    cached = get_object(used, "prompt_tokens_details").get("cached_tokens")
    by_kind = {
        "input": used.get("input_tokens", used.get("prompt_tokens")),
        "output": used.get("output_tokens", used.get("completion_tokens")),
        "cache_read": used.get("cache_read_input_tokens", cached) or None,
        "cache_write": used.get("cache_creation_input_tokens") or None,
        "thinking": get_object(used, "completion_tokens_details").get("reasoning_tokens") or None,
    }
    counts = {
        name: count for name, count in by_kind.items() if type(count) is int and 0 <= count < 2**53
    }
    if "prompt_tokens" in used and "input" in counts:
        counts["input"] = max(0, counts["input"] - counts.get("cache_read", 0))
    return counts


def _write_chat(question: Question) -> Iterator[Json]:
    for message in question.messages:
        written: Json = {"role": message.role, "content": message.text}
        if message.role == "tool":
            written["tool_call_id"] = message.answers
        if message.calls:
            written["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": call.args
                        if isinstance(call.args, str)
                        else json.dumps(call.args, ensure_ascii=False),
                    },
                }
                for call in message.calls
            ]
        yield written


def _write_messages(question: Question) -> Iterator[Json]:
    """Yield user and assistant in turn: what one of them says in a row is one message."""
    due: list[Json] = []
    speaker = ""
    for message in question.messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if role != speaker and due:
            yield {"role": speaker, "content": due}
            due = []
        speaker = role
        if message.role == "tool":
            due.append(
                {"type": "tool_result", "tool_use_id": message.answers, "content": message.text}
            )
        elif message.text:
            due.append({"type": "text", "text": message.text})
        due += [
            {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.args}
            for call in message.calls
        ]
    if due:
        yield {"role": speaker, "content": due}


def _write_tool(tool: Tool, dialect: str) -> Json:
    function = {"name": tool.name, "description": tool.description}
    if dialect == MESSAGES:
        return function | {"input_schema": tool.schema}
    return {"type": "function", "function": function | {"parameters": tool.schema}}


def list_calls(calls: Sequence[ToolUse]) -> list[Json]:
    """Return calls as they are compared: names and arguments, without the ids of one answer."""
    return [{"name": call.name, "args": call.args} for call in calls]
