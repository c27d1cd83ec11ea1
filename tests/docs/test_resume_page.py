"""docs/replay.md: its program is switched off in the middle and gone on with, and does nothing twice."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from specify_cli.errors import InvocationError
from specify_cli.record import layout

PAGE = (Path(__file__).parents[2] / "docs/replay.md").read_text(encoding="utf-8")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's Python block defines, as a module of its own."""
    found = re.search(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert found is not None
    module = types.ModuleType("docs_replay")
    monkeypatch.setitem(sys.modules, "docs_replay", module)
    exec(compile(found.group(1), "docs/replay.md", "exec"), module.__dict__)
    return module.__dict__


def test_the_program_of_the_page_is_gone_on_with_and_sends_nothing_twice(chartered: Path, page: dict[str, Any]) -> None:
    assert page["story"](chartered) == ["hello", "goodbye"]
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    lines = path.read_bytes().split(b"\n")[:-1]
    # The process dies with its second call unanswered: what it wrote after that is taken away.
    kept = next(at for at, raw in enumerate(lines) if b'"event":"tool_result"' in raw and b"SystemExit" in raw)
    path.write_bytes(b"".join(raw + b"\n" for raw in lines[:kept]))
    invocation_id = json.loads(lines[0])["invocation_id"]

    (call,) = page["plan_resume"](chartered, invocation_id).in_doubt
    with pytest.raises(InvocationError, match="began and has no result"):
        page["resume"](chartered, invocation_id, page["agent"])
    page["resume"](chartered, invocation_id, page["agent"], rerun=[call.call_id])

    assert page["sent"] == ["hello", "goodbye", "goodbye"]
    assert json.loads(path.read_bytes().split(b"\n")[-2])["outcome"] == "done"
