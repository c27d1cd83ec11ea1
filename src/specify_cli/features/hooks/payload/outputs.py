"""What the results of all programs have in common: the output, how it says that a call failed,
printed ids. [pure]

What stands in the text that a tool printed says nothing of how the call ended. A program writes
that into members of its own, or after the output; its module says which.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.values import Payload, as_object, get_object

if TYPE_CHECKING:
    from typing import Any


_OUTPUTS = (
    "tool_response",
    "tool_output",
    "tool_result",
    "toolResult",
    "output",
    "error",
    "error_message",
)
_TEXTS = (
    "stdout",
    "output",
    "text_result_for_llm",
    "textResultForLlm",
    "llmContent",
    "text",
    "content",
)
_ULID = "([0-7][0-9A-HJKMNP-TV-Z]{25})"
_NAMED = re.compile(rf'(?:"invocation_id": ?"|--invocation-id ){_ULID}|-{_ULID}\.jsonl')
_MAX_PRINTED = 200
_MAX_PARTS = 32
_MAX_DEPTH = 4


def read_output(payload: Payload) -> tuple[bool, object]:
    """Return whether a payload holds a result, and the result, with every text in it in one
    piece."""
    for name in _OUTPUTS:
        if name in payload:
            return True, join_pieces(payload[name])
    return False, None


def join_pieces(value: object, depth: int = 0) -> object:
    """Return a result with every terminal screen in it as one text.

    A secret that spans lines is found only in that.
    """
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            name: join_pieces(item, depth + 1) if isinstance(item, (dict, list)) else item
            for name, item in value.items()
        }
    if isinstance(value, list) and value and isinstance(value[0], list):
        lines = _read_screen_lines(value)
        return value if lines is None else _join_screen(lines)
    return value


def _read_screen_lines(value: list[object]) -> list[str] | None:
    """Return the lines of a screen, each a list of cells with a `text`; None for any other list."""
    lines = []
    for line in value:
        texts = [as_object(cell).get("text") for cell in line] if isinstance(line, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            return None
        lines.append("".join(map(str, texts)))
    return lines if any(lines) else None


def _join_screen(lines: list[str]) -> str:
    """Return the text on a screen: a line that fills the width goes on in the next."""
    padded = any(line.endswith(" ") for line in lines)
    width = max(map(len, lines))
    parts = []
    for line in lines:
        # Of a padded screen a full line is one without padding, however wide its characters are.
        full = line != "" and (line[-1] != " " if padded else len(line) == width)
        parts.append(line if full else line.rstrip(" ") + "\n")
    return "".join(parts).rstrip("\n")


# --- how a call ended


def read_stated_status(output: object) -> str | None:
    """Return `error` where a result says so in a member that programs share; None where none says
    anything."""
    output = as_object(output)
    # A subagent did not reach its goal, as Gemini CLI and Qwen Code say it.
    reason = get_object(output, "returnDisplay").get("terminateReason")
    is_error = (
        has_failed(output)
        or has_failed(output.get("metadata"))
        or output.get("success") is False
        or output.get("is_error") is True
        or output.get("isError") is True
        or output.get("error") not in (None, "", False)
        or (isinstance(reason, str) and reason != "GOAL")
    )
    return "error" if is_error else None


def judge_exit_code(code: object) -> str | None:
    """Return how a command with this exit code ended; None for what is no exit code."""
    return None if type(code) is not int else "ok" if code == 0 else "error"


def has_failed(reported: object) -> bool:
    """Return whether a command's result names an exit code that is not 0: `exitCode` or `exit`."""
    codes = map(as_object(reported).get, ("exitCode", "exit"))
    return any(judge_exit_code(code) == "error" for code in codes)


# --- which records an output names


def find_printed(payload: Payload) -> tuple[str, ...]:
    """Return the invocations that a call's output names, each once."""
    texts = _collect_texts(read_output(payload)[1])
    return tuple(dict.fromkeys(named for text in texts for named in list_printed_ids(text)))


def list_printed_ids(text: str) -> tuple[str, ...]:
    """Return the invocations that a text names, as it stands or as JSON strings hold it, each
    once."""
    for spelled in (text, text.replace("\\", "")):
        ids = dict.fromkeys(named[1] or named[2] for named in _NAMED.finditer(spelled))
        if ids:
            return tuple(ids)[-_MAX_PRINTED:]  # an output may be anything
    return ()


def _collect_texts(output: object, depth: int = 0) -> list[str]:
    """Return what a tool printed, wherever its result holds it."""
    if isinstance(output, str):
        return [output]
    if depth > _MAX_DEPTH:
        return []
    parts = output[:_MAX_PARTS] if isinstance(output, list) else map(as_object(output).get, _TEXTS)
    return [text for part in parts if part for text in _collect_texts(part, depth + 1)]


def join_texts(content: object, *keys: str) -> str:
    """Return the texts of a message's parts, one below the other."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get(key) for part in parts if isinstance(part, dict) for key in keys]
    return "\n".join(text for text in texts if isinstance(text, str))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; None where it is none."""
    import json  # few payloads hold JSON within JSON

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
