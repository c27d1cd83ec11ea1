"""What a framework left open ends with the run, whatever the run came to."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapting import REQUEST, events, shown
from specify_cli.features.adapters.observer import Observer
from specify_cli.features.programs.run import Run, open_invocation


def begin_all(run: Run) -> Observer:
    """Begin an agent, two questions and a tool call, and leave them open."""
    observer = Observer(run)
    observer.begin_step("agent", "agent", None)
    observer.begin_tool("call", "read", {}, call_id="", within="agent")
    observer.begin_model("question", "m", "first", "agent")
    observer.begin_model("other", "m", "second", "agent")
    return observer


def test_a_run_whose_limit_what_is_open_exceeds_is_closed_with_its_own_error(chartered: Path) -> None:
    with pytest.raises(ValueError, match="broken"), open_invocation(chartered, REQUEST, limits={"tokens": 5}) as run:
        begin_all(run).end("question", "yes", tokens={"input": 5})
        raise ValueError("broken")

    assert shown(events(chartered, run))[2:] == [
        ("model_call", "agent", "m"),
        ("policy_violation", "agent"),
        ("step_failed", "agent"),
        ("error",),
        ("completed",),
    ]


def test_what_is_open_where_a_program_exits_well_has_not_failed(chartered: Path) -> None:
    with pytest.raises(SystemExit), open_invocation(chartered, REQUEST) as run:
        begin_all(run)
        raise SystemExit(0)

    ends = events(chartered, run)[2:]
    assert shown(ends)[-3:] == [
        ("tool_result", "agent", "read", "unknown"),
        ("step_completed", "agent", "PENDING"),
        ("completed",),
    ]
    assert ends[-1]["outcome"] == "done"
