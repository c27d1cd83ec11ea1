"""What nobody told of an agent's work."""

from __future__ import annotations

import pytest

from specify_cli.record.reading.coverage import list_unseen

STARTED = {"event": "started", "actor": {"actor_type": "llm", "tool": "claude-code"}}


@pytest.mark.parametrize(("event", "unseen"), [("tool_call", False), ("tool_result", False), ("prompt", True)])
def test_a_call_is_seen_by_its_beginning_or_its_result(event: str, unseen: bool) -> None:
    assert ("tool calls" in list_unseen(STARTED, [STARTED, {"event": event}])) is unseen


def test_of_a_persons_record_nothing_is_missing() -> None:
    assert list_unseen({"event": "started", "actor": {"actor_type": "human"}}, []) == []


def test_what_a_withheld_line_may_tell_is_not_called_unseen() -> None:
    stand_in = {"seq": 4, "withheld": "captured-in-full", "~": "0" * 64}

    assert "prompts" in list_unseen(STARTED, [STARTED])
    assert list_unseen(STARTED, [STARTED, stand_in]) == []
    assert list_unseen(STARTED | {"imported": {}}, [stand_in]) == ["when (a transcript claims it)"]


def test_a_mode_of_another_type_than_a_text_leaves_out_nothing() -> None:
    assert ["prompt (capture is off)"] == list_unseen({"capture": {"response": ["hash"], "prompt": "off"}}, [])
