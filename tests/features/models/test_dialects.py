"""What a record holds of a question is asked as it was, or refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from specify_cli.features.models.dialects import (
    CHAT,
    MESSAGES,
    UnknownFormError,
    name_other_model,
    read_answer,
    read_question,
    write_question,
)

ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "and now?"}]}
PARALLEL = [
    {"parts": [{"part_kind": "user-prompt", "content": "read both"}]},
    {
        "parts": [
            {"part_kind": "text", "content": "I look."},
            {"part_kind": "tool-call", "tool_name": "read", "args": {"path": "a"}, "tool_call_id": "c1"},
            {"part_kind": "tool-call", "tool_name": "read", "args": {"path": "b"}, "tool_call_id": "c2"},
        ]
    },
    {
        "parts": [
            {"part_kind": "tool-return", "tool_name": "read", "content": "1", "tool_call_id": "c1"},
            {"part_kind": "tool-return", "tool_name": "read", "content": "2", "tool_call_id": "c2"},
        ]
    },
]


def test_calls_that_one_answer_of_pydantic_ai_made_stay_in_one_message() -> None:
    messages: Any = write_question(read_question(PARALLEL), "new-2", CHAT)["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1]["content"] == "I look."
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["c1", "c2"]


def test_what_a_request_asked_for_is_carried_or_the_question_is_refused() -> None:
    plain = {"top_p": 0.5, "max_completion_tokens": 9, "stream": True, "tool_choice": "auto", "n": 1, "stop": None}
    chat, messages = (write_question(read_question(ASKED | plain), "new-2", form) for form in (CHAT, MESSAGES))

    assert (chat["top_p"], chat["max_completion_tokens"]) == (0.5, 9)
    assert (messages["top_p"], messages["max_tokens"], "max_completion_tokens" in messages) == (0.5, 9, False)
    for name, value in {"tool_choice": "required", "response_format": {"type": "json_object"}, "stop": ["END"]}.items():
        with pytest.raises(UnknownFormError, match=f"it was asked with {name}, "):
            read_question(ASKED | {name: value})


def test_the_tokens_of_an_answer_are_told_by_kind_and_none_twice() -> None:
    said = {"role": "assistant", "content": "yes"}
    chat = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    messages = {
        "input_tokens": 30,
        "output_tokens": 20,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 10,
    }

    assert read_answer({"choices": [{"message": said}], "usage": chat}).tokens == {
        "input": 40,
        "output": 20,
        "cache_read": 60,
        "thinking": 7,
    }
    assert read_answer(said | {"usage": messages}).tokens == {
        "input": 30,
        "output": 20,
        "cache_read": 60,
        "cache_write": 10,
    }


def test_a_name_with_more_than_a_date_or_version_behind_it_is_another_model() -> None:
    same = [("gpt-5", "gpt-5-2026-01-01"), ("gpt-4", "gpt-4-0613"), ("claude-4-5", "claude-4-5-20250929"), ("m", "m")]
    same += [("gpt-5-2026-01-01", "gpt-5"), ("large-latest", "large-2411"), ("gemini", "gemini-001")]
    others = [("gpt-5", "gpt-5-mini"), ("gpt-5-mini", "gpt-5"), ("gpt-4", "gpt-4.1"), ("opus-4", "opus-4-5")]

    assert [name_other_model({"model": named}, asked) for asked, named in same] == [None] * len(same)
    assert [name_other_model({"model": named}, asked) for asked, named in others] == [named for _, named in others]
