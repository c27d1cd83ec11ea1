"""What a record holds of a question is asked as it was, or refused with the reason."""

from __future__ import annotations

from typing import Any

from specify_cli.features.models.dialects import (
    CHAT,
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
