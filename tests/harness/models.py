"""A scripted model on loopback: Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, streaming.

The last user text that holds `PLAY:<name>` chooses the play, and how many tool results stand behind it which step is
next: no state, so retries, compaction and interrupts do no harm. `{ID}` in a step is the newest invocation that the
conversation shows.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from harness.plays import FILLED, FULL, LAST_WORDS, PLAYS, Call, Spoken, combine, speak

_PLAY = re.compile(r"PLAY:([a-z0-9]+)")
_PRINTED = re.compile(r'invocation_id"?:? *"?([0-9A-HJKMNP-TV-Z]{26})')
_AGENT = re.compile(r'agent_id": *"([0-9a-f-]{36})')


class Turn(NamedTuple):
    """What the model answers: words, calls, or an HTTP error; and how many tokens it was given, as it says."""

    text: str
    spoken: list[Spoken]
    error: int | None = None
    tokens: int = 100


class Model(ThreadingHTTPServer):
    """The server; `sent` are its calls in their order but those of our tools, and `results` what calls gave."""

    daemon_threads = True

    def __init__(self, program: str, root: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.program, self.root = program, root
        self.sent: list[Call] = []
        self.finished: list[str] = []
        self.results: list[str] = []
        # Of generated plays: how many tokens each play's answers were given and gave.
        self.used: dict[str, tuple[int, int]] = {}
        self._answered: set[tuple[str, str, int]] = set()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def make_id(self, prefix: str) -> str:
        with self._lock:
            return f"{prefix}{time.time_ns():x}{next(self._numbers):04x}"

    def decide(self, kind: str, body: Mapping[str, Any]) -> Turn:
        """Return what comes next in the play a conversation is about."""
        told = list(_read_conversation(kind, body))
        play, at = "", 0
        for number, (who, text) in enumerate(told):
            for found in _PLAY.finditer(text) if who == "user" else ():
                play, at = found[1], number
        results = [text for who, text in told[at:] if who == "result"]
        if play not in PLAYS:
            return Turn("ok", [])
        self.results = max(self.results, results, key=len)
        known = _read_tools(kind, body)
        answered = 0
        tokens = self._count(play, len(results)) if known else 100
        for number, step in enumerate(PLAYS[play]):
            if step[0].kind == "hand":
                if known and answered >= len(results):
                    self._change_by_hand(play, number, step[0])
                continue
            if step[0].kind == "fail" and answered >= len(results):
                return Turn("", [], int(step[0].words[0]))
            made = [(call, spoken) for call in step if (spoken := speak(self.program, self.root, call, known))]
            batch = combine(self.program, [spoken for _, spoken in made])
            if batch and answered >= len(results):
                self._remember(play, told[at][1], number, [call for call, _ in made])
                return Turn("", [(name, _fill(args, told, results)) for name, args in batch], tokens=tokens)
            answered += len(batch)
        self.finished.append(play)
        words = LAST_WORDS
        if not known or (told and "summary" in told[-1][1]):  # what is left of the session is this
            words = _fill(f"{LAST_WORDS} Its record has the invocation_id: {{ID}}", told, results)
        return Turn(words, [], tokens=FULL if play == FILLED else tokens)

    def _count(self, play: str, results: int) -> int:
        """Return how many tokens an answer of a generated play is given, another number each time, and count them."""
        if play[-1:].isalpha():
            return 100
        tokens = 100 + 7 * results
        with self._lock:
            given, made = self.used.get(play, (0, 0))
            self.used[play] = given + tokens, made + 10
        return tokens

    def _change_by_hand(self, play: str, number: int, call: Call) -> None:
        with self._lock:
            if (play, "by hand", number) in self._answered:
                return
            self._answered.add((play, "by hand", number))
        time.sleep(0.3)
        with open(f"{self.root}/{call.words[0]}", "a", encoding="utf-8") as file:
            file.write(f"{call.words[1]}\n")
        time.sleep(0.3)

    def _remember(self, play: str, prompt: str, number: int, calls: Iterable[Call]) -> None:
        """Note the calls of a step once, however often the program asks for it."""
        with self._lock:
            if (play, prompt, number) not in self._answered:
                self._answered.add((play, prompt, number))
                self.sent += [call for call in calls if call.kind not in ("wait", "ours")]


def _fill(value: Any, told: list[tuple[str, str]], results: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _fill(item, told, results) for name, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, told, results) for item in value]
    if not isinstance(value, str):
        return value
    mine = "\n".join(results).replace("\\", "")
    ids = _PRINTED.findall(mine) or _PRINTED.findall("\n".join(text for _, text in told).replace("\\", ""))
    agents = _AGENT.findall(mine)
    return value.replace("{ID}", ids[-1] if ids else "none").replace("{AGENT}", agents[-1] if agents else "none")


def _read_texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = [part for part in content or [] if isinstance(part, dict)]
    return [
        part[key] for part in parts for key in ("text", "input_text", "output_text") if isinstance(part.get(key), str)
    ]


def _read_conversation(kind: str, body: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield ("user", text), ("result", text) and ("assistant", text) as a conversation holds them."""
    if kind == "anthropic":
        for message in body.get("messages", []):
            content = message["content"]
            if message["role"] != "user":
                continue
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part.get("type") == "tool_result":
                    yield "result", "\n".join(_read_texts(part.get("content")))
                elif part.get("type") == "text":
                    yield "user", part["text"]
    elif kind == "responses":
        given = body.get("input", [])
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            sort = item.get("type", "message")
            if sort == "message" and item.get("role") == "user":
                yield from (("user", text) for text in _read_texts(item.get("content")))
            elif sort.endswith("call_output"):
                output = item.get("output")
                yield "result", output if isinstance(output, str) else json.dumps(output)
            elif sort == "agent_message":
                yield "user", json.dumps(item)
    elif kind == "chat":
        for message in body.get("messages", []):
            if message["role"] in ("user", "assistant"):  # a summary is what the assistant said
                yield from ((message["role"], text) for text in _read_texts(message.get("content")))
            elif message["role"] == "tool":
                yield "result", "\n".join(_read_texts(message.get("content")))
    else:
        for message in body.get("contents", []):
            for part in message.get("parts", []):
                if "functionResponse" in part:
                    yield "result", json.dumps(part["functionResponse"].get("response"))
                elif message.get("role", "user") == "user" and isinstance(part.get("text"), str):
                    yield "user", part["text"]


def _read_tools(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tools a program offers, and the schema of each one's arguments."""
    tools = list(body.get("tools") or [])
    if kind == "anthropic":
        return {tool["name"]: tool.get("input_schema") for tool in tools}
    if kind == "chat":
        return {tool["function"]["name"]: tool["function"].get("parameters") for tool in tools}
    if kind == "gemini":
        declared = [one for tool in tools for one in tool.get("functionDeclarations", [])]
        return {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") for one in declared}
    items = body.get("input") or []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and item.get("type") == "additional_tools":
            tools += item["tools"]
    found: dict[str, Any] = {}
    for tool in tools:
        if tool.get("type") == "namespace":
            found |= {f"{tool['name']}.{one['name']}": one.get("parameters") for one in tool.get("tools", [])}
        else:
            found[tool.get("name") or tool.get("type")] = tool.get("parameters") or tool.get("format")
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def do_HEAD(self) -> None:
        self._answer({})

    def do_GET(self) -> None:
        if "models" in self.path:
            names = ("fake-1", "gpt-6-sol", "claude-sonnet-5-5")
            rows = [{"id": name, "object": "model", "type": "model", "display_name": name} for name in names]
            self._answer({"object": "list", "data": rows, "models": []})
        else:
            self._answer({})

    def do_POST(self) -> None:
        body = self._read_body()
        path = self.path.split("?")[0]
        kind = next((kind for end, kind in _KINDS.items() if path.endswith(end)), None)
        if "enerateContent" in path:
            kind = "gemini"
        if kind is None:
            self._answer({"input_tokens": 100, "totalTokens": 100} if "ount" in path else {})
            return
        turn = self.server.decide(kind, body)
        if turn.error is not None:
            message = {"type": "overloaded_error", "message": "Overloaded, said the scripted model", "code": turn.error}
            self._answer({"type": "error", "error": message}, turn.error)
            return
        getattr(self, f"_answer_{kind}")(body, turn)

    def _read_body(self) -> dict[str, Any]:
        size = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(size) if size else self._read_chunks()
        coding = self.headers.get("content-encoding")
        if coding == "zstd":
            raw = subprocess.run(["zstd", "-dc"], input=raw, capture_output=True, check=True).stdout
        elif coding == "gzip":
            raw = gzip.decompress(raw)
        try:
            return dict(json.loads(raw or b"{}"))
        except ValueError:
            return {}

    def _read_chunks(self) -> bytes:
        data = b""
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return data
        while True:
            size = int(self.rfile.readline().split(b";")[0] or b"0", 16)
            data += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return data

    def _answer(self, value: Any, code: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterable[Any], *, named: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            if named:
                self.wfile.write(f"event: {event['type']}\n".encode())
            self.wfile.write(b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n")
            self.wfile.flush()
        self.close_connection = True

    def _answer_anthropic(self, body: Mapping[str, Any], turn: Turn) -> None:
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text or not turn.spoken else []
        for name, args in turn.spoken:
            content.append({"type": "tool_use", "id": self.server.make_id("toolu_"), "name": name, "input": args})
        usage = {
            "input_tokens": turn.tokens,
            "output_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        message = {
            "id": self.server.make_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "fake"),
            "content": content,
            "stop_reason": "tool_use" if turn.spoken else "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            self._answer(message)
            return
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
        ]
        for index, part in enumerate(content):
            start: dict[str, Any]
            if part["type"] == "text":
                start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": part["text"]}
            else:
                start = dict(part, input={})
                delta = {"type": "input_json_delta", "partial_json": json.dumps(part["input"])}
            events += [
                {"type": "content_block_start", "index": index, "content_block": start},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}},
            {"type": "message_stop"},
        ]
        self._stream(events)

    def _answer_responses(self, body: Mapping[str, Any], turn: Turn) -> None:
        items: list[dict[str, Any]] = []
        if turn.text or not turn.spoken:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            item_id = self.server.make_id("msg_")
            items.append(
                {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [part]}
            )
        for name, args in turn.spoken:
            ids = {"id": self.server.make_id("fc_"), "call_id": self.server.make_id("call_"), "status": "completed"}
            if isinstance(args, str):
                items.append({"type": "custom_tool_call", "name": name, "input": args, **ids})
                continue
            space, _, plain = name.rpartition(".")
            inside = {"namespace": space} if space else {}
            items.append({"type": "function_call", "name": plain, "arguments": json.dumps(args), **inside, **ids})
        whole = {
            "id": self.server.make_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "model": body.get("model"),
            "output": items,
            "usage": {
                "input_tokens": turn.tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 10,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": turn.tokens + 10,
            },
            **dict.fromkeys(("error", "incomplete_details", "instructions", "metadata")),
        }
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
        ]
        for index, item in enumerate(items):
            start = {**item, "status": "in_progress"}
            for name in ("content", "arguments"):
                if name in start:
                    start[name] = type(start[name])()
            events.append({"type": "response.output_item.added", "output_index": index, "item": start})
            if item["type"] == "message":
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                delta = item["content"][0]["text"]
                events.append({"type": "response.output_text.delta", **place, "delta": delta})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": whole})
        self._stream({**event, "sequence_number": number} for number, event in enumerate(events))

    def _answer_chat(self, body: Mapping[str, Any], turn: Turn) -> None:
        calls = [
            {
                "index": index,
                "id": self.server.make_id("call_"),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
            }
            for index, (name, args) in enumerate(turn.spoken)
        ]
        base = {"id": self.server.make_id("chatcmpl-"), "created": int(time.time()), "model": body.get("model")}
        usage = {"prompt_tokens": turn.tokens, "completion_tokens": 10, "total_tokens": turn.tokens + 10}
        reason = "tool_calls" if calls else "stop"
        if not body.get("stream"):
            message = {"role": "assistant", "content": turn.text or None, **({"tool_calls": calls} if calls else {})}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._answer({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": turn.text}]
        deltas += [{"tool_calls": [call]} for call in calls]
        base["object"] = "chat.completion.chunk"
        choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        events: list[Any] = [{**base, "choices": [choice]} for choice in choices]
        self._stream([*events, {**base, "choices": [], "usage": usage}, "[DONE]"], named=False)

    def _answer_gemini(self, body: Mapping[str, Any], turn: Turn) -> None:
        config = body.get("generationConfig") or {}
        parts: list[dict[str, Any]] = [{"text": turn.text}] if turn.text or not turn.spoken else []
        if (config.get("responseJsonSchema") or config.get("responseSchema")) and not turn.spoken:
            small = {"reasoning": "done", "next_speaker": "user", "complexity_reasoning": "x"}
            parts = [{"text": json.dumps({**small, "complexity_score": 10, "model_choice": "flash"})}]
        parts += [{"functionCall": {"name": name, "args": args}} for name, args in turn.spoken]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        counts = {"promptTokenCount": turn.tokens, "candidatesTokenCount": 10, "totalTokenCount": turn.tokens + 10}
        whole = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "fake"}
        if "stream" in self.path:
            self._stream([whole], named=False)
        else:
            self._answer(whole)


_KINDS: Mapping[str, str] = {"/messages": "anthropic", "/responses": "responses", "/chat/completions": "chat"}
