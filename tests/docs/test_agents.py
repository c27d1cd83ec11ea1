"""The agents of docs/agents.md run as they stand there, and leave records that verify and replay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from replaying import lines_of
from specify_cli.features.replay.replay import replay
from specify_cli.project.config import load_project
from specify_cli.storage.checking import verify_all
from specify_cli.storage.queries import Filters, list_invocations

PAGE = (Path(__file__).parents[2] / "docs/agents.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE, re.M | re.S))


@pytest.mark.parametrize(
    ("name", "answer", "calls"),
    [
        ("A plain loop", "login folds names to lower case", ["read", "write"]),
        ("LangGraph", "It strips the name.", ["read"]),
        ("pydantic-ai, async, with parallel tools", "Both were read.", ["read", "read"]),
    ],
)
def test_an_agent_of_the_page_is_recorded_in_eight_lines(
    chartered: Path, name: str, answer: str, calls: list[str]
) -> None:
    program = PROGRAMS[name]
    names: dict[str, Any] = {"__name__": "agent"}
    exec(compile(program, name, "exec", dont_inherit=True), names)  # room: adapters
    assert names["agent"](str(chartered), "fix the failing login test") == answer

    project, _ = load_project(str(chartered))
    (row,) = list_invocations(project, Filters(), 5).rows
    lines = lines_of(chartered, row.invocation_id)
    asked = [line for line in lines if line["event"] == "model_call"]
    results = [line for line in lines if line["event"] == "tool_result"]
    assert (row.outcome, [line["tool"] for line in lines if line["event"] == "tool_call"]) == ("done", calls)
    assert [line["status"] for line in results] == ["ok"] * len(calls)
    assert len(asked) == len(calls) + 1 if len(set(calls)) == len(calls) else 2
    assert [item for report in verify_all(project) for item in report.findings if item.severity == "error"] == []
    assert replay(project, row.invocation_id).match is not False
    # Every line that has to do with recording is marked with its number.
    marked = [line for line in program.splitlines() if re.search(r"  # \d", line)]
    rest = [line for line in program.splitlines() if line not in marked]
    assert len(marked) <= 8
    assert not [line for line in rest if re.search(r"specify_cli|Record|\brun\.(context|tool|model_call|step)", line)]
