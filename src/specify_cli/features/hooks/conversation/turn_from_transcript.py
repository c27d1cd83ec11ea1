"""What the end of a session's transcript says of a turn: answer, model, tokens, thinking, refusals.  [pure]

The transcripts are the programs' own files and undocumented: what is not there, or not in its form, is left out.
"""

from __future__ import annotations

import json

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

MAX_TEXT = 256 * 1024
_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cached",
    "cache_creation_input_tokens": "cache_write",
    "cached_input_tokens": "cached",
    "reasoning_output_tokens": "thinking",
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadTokens": "cached",
    "cacheWriteTokens": "cache_write",
    "reasoningTokens": "thinking",
    "input": "input",
    "output": "output",
    "cached": "cached",
    "thoughts": "thinking",
    "promptTokenCount": "input",
    "candidatesTokenCount": "output",
    "cachedContentTokenCount": "cached",
    "thoughtsTokenCount": "thinking",
}
_MAX_COUNT = 2**53 - 1


class TurnFacts(NamedTuple):
    """What a turn was. `denied` maps the id of each call that was refused to what its model was told.

    `error` is the code and the words of what ended the turn, where that was an error;
    `cost` is in US dollars.
    """

    text: str | None = None
    model: str | None = None
    tokens: Mapping[str, int] = {}
    requests: int = 0
    thinking: str = ""
    denied: Mapping[str, str] = {}
    error: tuple[str, str] | None = None
    cost: float = 0.0


class _Turn:
    """What has been read of a turn so far; a prompt begins it anew."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.model: str | None = None
        self.thinking: list[str] = []
        self.denied: dict[str, str] = {}
        self.error: tuple[str, str] | None = None
        self._used: dict[str, Mapping[str, Any]] = {}
        self.costs: dict[str, float] = {}

    def answer(self, text: object) -> None:
        """Note the words of an answer; the last ones count."""
        self.text = text if isinstance(text, str) and text else self.text

    def name_model(self, model: object) -> None:
        self.model = model if isinstance(model, str) and model else self.model

    def think(self, thought: object) -> None:
        self.thinking += [thought] if isinstance(thought, str) and thought else []

    def use(self, request: str, counts: object) -> None:
        """Note what one answer of the model used; an answer told in pieces is one."""
        if isinstance(counts, dict):
            self._used[request] = counts

    @property
    def facts(self) -> TurnFacts:
        tokens: dict[str, int] = {}
        for counts in self._used.values():
            for name, count in counts.items():
                kind = _COUNTS.get(name)
                if kind is not None and type(count) is int and 0 < count < _MAX_COUNT:
                    tokens[kind] = tokens.get(kind, 0) + count
        thinking = "\n".join(self.thinking)[:MAX_TEXT]
        return TurnFacts(
            self.text, self.model, tokens, len(self._used), thinking, self.denied, self.error, sum(self.costs.values())
        )


def read_facts(harness: str, transcript: bytes) -> TurnFacts:
    """Return what the last turn of a transcript says; nothing for a harness whose file is not known. Never raises."""
    read = _READERS.get(harness)
    turn = _Turn()
    for number, line in enumerate(_iter_lines(transcript) if read is not None else ()):
        try:
            assert read is not None
            turn = read(turn, line, number)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return turn.facts


def _iter_lines(data: bytes) -> Iterator[Mapping[str, Any]]:
    for raw in data.split(b"\n"):
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def join_texts(content: object, *keys: str) -> str:
    """Return the texts of a message's parts, one below the other."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get(key) for part in parts if isinstance(part, dict) for key in keys]
    return "\n".join(text for text in texts if isinstance(text, str))


def _read_claude(turn: _Turn, line: Mapping[str, Any], number: int) -> _Turn:
    message = line.get("message") or {}
    content = message.get("content")
    if line.get("type") == "user" and line.get("isMeta") is not True:
        results = [part for part in content if part.get("type") == "tool_result"] if isinstance(content, list) else []
        if not results:
            return _Turn()
        for part in results:
            if part.get("is_error") is True and line.get("toolDenialKind") is not None:
                turn.denied[part["tool_use_id"]] = join_texts(part.get("content"), "text")
    elif line.get("type") == "assistant":
        if message.get("model") != "<synthetic>":  # what it says itself, for example of an error
            turn.name_model(message.get("model"))
        turn.use(str(message.get("id") or number), message.get("usage"))
        text = join_texts(content, "text")
        if line.get("isApiErrorMessage") is True:
            turn.error = str(line.get("error") or "unknown"), text
            return turn
        turn.error = None
        turn.answer(text)
        turn.think(join_texts(content, "thinking"))
    return turn


def _read_codex(turn: _Turn, line: Mapping[str, Any], number: int) -> _Turn:
    payload = line.get("payload") or {}
    kind = payload.get("type")
    item = payload.get("item") or {}
    if kind == "item_completed" and item.get("type") == "UserMessage":
        begun = _Turn()
        begun.model = turn.model
        return begun
    if line.get("type") == "turn_context":
        turn.name_model(payload.get("model"))
    elif kind == "thread_settings_applied":
        turn.name_model((payload.get("thread_settings") or {}).get("model"))
    elif kind == "token_count":
        turn.use(str(number), ((payload.get("info") or {}).get("last_token_usage")))
    elif kind == "item_completed" and item.get("type") == "AgentMessage":
        turn.answer(join_texts(item.get("content"), "text"))
    elif kind == "item_completed" and item.get("status") == "declined":
        turn.denied[item["id"]] = ""
    elif kind == "reasoning":
        turn.think(join_texts(payload.get("summary"), "text") or join_texts(payload.get("content"), "text"))
    return turn


def _read_gemini(turn: _Turn, line: Mapping[str, Any], number: int) -> _Turn:
    if line.get("type") == "user":
        content = line.get("content")
        if not isinstance(content, list) or not any("functionResponse" in part for part in content):
            return _Turn()
    elif line.get("type") == "gemini":
        turn.name_model(line.get("model"))
        turn.use(str(line.get("id") or number), line.get("tokens"))
        turn.answer(join_texts(line.get("content"), "text"))
        turn.think(join_texts(line.get("thoughts"), "subject", "description"))
    return turn


def _read_qwen(turn: _Turn, line: Mapping[str, Any], number: int) -> _Turn:
    message = line.get("message") or {}
    if line.get("type") == "user":
        return _Turn()
    if line.get("type") == "assistant":
        turn.name_model(line.get("model"))
        turn.use(str(line.get("uuid") or number), line.get("usageMetadata"))
        parts = [part for part in message.get("parts") or [] if isinstance(part, dict)]
        turn.answer(join_texts([part for part in parts if not part.get("thought")], "text"))
        turn.think(join_texts([part for part in parts if part.get("thought")], "text"))
    return turn


def _read_copilot(turn: _Turn, line: Mapping[str, Any], number: int) -> _Turn:
    data = line.get("data") or {}
    if "parentToolCallId" in data or str(data.get("source", "")).startswith("agent-"):
        return turn  # a subagent's
    if line.get("type") == "user.message":
        return _Turn()
    if line.get("type") == "session.usage_record":
        usage = data.get("usage") or {}
        turn.name_model(usage.get("model"))
        turn.use(str(number), usage)
    elif line.get("type") == "assistant.message":
        turn.answer(data.get("content"))
        turn.think(data.get("reasoningText"))
    return turn


def _read_opencode(turn: _Turn, line: Mapping[str, Any], number: int) -> _Turn:
    """Read a row of opencode's database; its hooks sum this up themselves."""
    data = line.get("data") or {}
    if line.get("table") == "message":
        turn.name_model(data.get("modelID"))
        counts = data.get("tokens") or {}
        cached = (counts.get("cache") or {}).get("read")
        if isinstance(data.get("cost"), (int, float)):
            turn.costs[str(line.get("id") or number)] = data["cost"]
        turn.use(str(line.get("id") or number), {**counts, "thoughts": counts.get("reasoning"), "cached": cached})
    elif data.get("type") == "text":
        turn.answer(data.get("text"))
    elif data.get("type") == "reasoning":
        turn.think(data.get("text"))
    return turn


_READERS: Mapping[str, Callable[[_Turn, Mapping[str, Any], int], _Turn]] = {
    "claude-code": _read_claude,
    "codex": _read_codex,
    "gemini": _read_gemini,
    "qwen": _read_qwen,
    "copilot": _read_copilot,
    "opencode": _read_opencode,
}
