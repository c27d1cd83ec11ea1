"""Many runs are told at once, and each number leads to its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specify_cli.features.report.summing import Run, add_up_runs
from support import Cli, valid

TRICK = "fix <img src=x onerror=alert(1)> | [a](javascript:1) `x` \x1b[31m \u202e"


def make_run(name: str, **more: Any) -> Run:
    plain: dict[str, Any] = {
        "request": "fix it",
        "by": "ada",
        "profile": "builder-bea",
        "model": None,
        "outcome": "done",
        "tests": "passed: pytest -q",
        "calls": 1,
        "failed": 0,
        "unseen": (),
        "changed": (),
        "tokens": None,
        "cost": None,
        "estimated": False,
    }
    return Run(name, **{**plain, **more})


def test_each_number_is_the_records_behind_it() -> None:
    runs = [
        make_run("a", outcome="failed", failed=2, tests="failed: pytest -q", changed=(("x.py", 3, 1),)),
        make_run("b", failed=1, tokens=100, cost="0.10", changed=(("x.py", None, None), ("y.py", 1, 0))),
        make_run("c", by="bob", outcome="open", tests="not run", tokens=50, cost="0.05", estimated=True),
        make_run("d", unseen=("z.py",), profile="critic-cato", model="m"),
    ]
    found = add_up_runs(runs)
    assert (found.bad, found.open, found.untested, found.mended, found.unseen) == (
        ("a",), ("c",), ("a", "c"), ("b",), ("d",),
    )  # fmt: skip
    assert [(one.name, one.runs, one.bad, one.cost) for one in found.people] == [
        ("ada", 3, 1, "0.10"),
        ("bob", 1, 0, "0.05"),
    ]
    assert [(one.path, one.runs, one.added, one.removed) for one in found.files] == [
        ("x.py", 2, 3, 1),
        ("y.py", 1, 1, 0),
    ]
    assert (found.tokens, found.cost, found.estimated) == (150, "0.15", True)
    assert sum(share.runs for share in found.models) == sum(share.runs for share in found.profiles) == 4


def test_text_markdown_and_json_tell_the_same_of_real_records_and_nothing_in_them_runs(cli: Cli, project: Path) -> None:
    first = cli("do", TRICK, "--json").json()["invocation_id"]
    events = [
        {"event": "tool_call", "call_id": "c", "tool": "Bash", "args": {"command": "pytest -q"}},
        {"event": "tool_result", "call_id": "c", "status": "error"},
        {"event": "patch_apply", "path": "src/<b>.py", "kind": "create", "after": "one\ntwo\n"},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    assert cli("profile-invocation", "record", first, stdin=lines.encode()).code == 0
    cli("profile-invocation", "complete", first, "--outcome", "failed")
    cli("do", "review the change")
    told = valid(cli("report", "--json").json(), "runs-report")["report"]
    text, markdown = cli("report").out, cli("report", "--format", "markdown").out

    assert len(told["runs"]) == 2 and told["bad"] == [first] and len(told["open"]) == 1
    assert told["files"][0]["path"] == "src/<b>.py" and told["untested"] == [first]
    assert "2 runs since 7d: 1 closed, 1 open" in text and "ended badly: 1" in text and first[-6:] in text
    assert "## Ended badly &#40;1&#41;" in markdown or "## Ended badly (1)" in markdown
    assert "<img" not in markdown and "](javascript" not in markdown and "src/<b>" not in markdown
    assert "\x1b" not in text + markdown and "\u202e" not in text + markdown
    assert cli("report", "--since", "2099-01-01").out.startswith("0 runs")
    assert project.is_dir()
