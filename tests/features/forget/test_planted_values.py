"""Values of many forms are planted in every place that can hold a text; once they are forgotten no byte holds one."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.features.cold.packing import pack_months, survey
from specify_cli.features.forget import erasing, finding
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record import layout
from support import FULL, Cli, accept, git
from trails import codes, load, make_repository, verify

# `make stress` plants 2,000.
VALUES = 2_000 if FULL else 80
# In the middle of September 2026, in nanoseconds; the month is over.
SEPTEMBER = 1_789_430_400_000_000_000
FORMS: tuple[Callable[[str], str], ...] = (
    lambda word: f"Zoë {word.title()}-Quill",
    lambda word: f"{word}@example.org",
    lambda word: f"the plan of {word}: leave at dawn",
    lambda word: f'said "{word}"\tand C:\\{word}\nthen went',
    lambda word: f"日本 {word} \U0001f98a",
)
Event = tuple[str, dict[str, Any]]
EVENTS: tuple[Callable[[str], Event], ...] = (
    lambda value: ("prompt", {"text": f"please ask {value} about it"}),
    lambda value: ("turn", {"text": f"done for {value}", "thinking": "hm"}),
    lambda value: ("turn", {"text": "done", "thinking": f"{value} will like it"}),
    lambda value: ("tool_call", {"tool": "Bash", "args": {"deep": [{"er": f"mail {value}"}]}}),
    lambda value: ("tool_call", {"tool": "Bash", "args": {value: "as a key"}}),
    lambda value: ("tool_result", {"tool": "Bash", "status": "ok", "output": f"found {value} here"}),
    lambda value: ("tool_result", {"tool": "Bash", "status": "ok", "output": {"stdout": f"{'x' * 40_000} {value}"}}),
    lambda value: ("tool_result", {"tool": "Bash", "status": "error", "output": f"{value} {'y' * 40_000}"}),
    lambda value: ("patch_apply", {"path": "a.txt", "kind": "modify", "before": f"{value}\n", "after": "gone\n"}),
    lambda value: ("patch_apply", {"path": "a.txt", "kind": "create", "after": f"one\n{value}\ntwo\n"}),
    lambda value: ("patch_apply", {"path": "a.txt", "kind": "modify", "diff": f"@@ -1 +1 @@\n-{value}\n+b\n"}),
    lambda value: ("model_call", {"model": "m", "prompt": f"who is {value}?", "response": "nobody"}),
    lambda value: ("model_call", {"model": "m", "prompt": "who?", "response": f"{value}, I think"}),
    lambda value: ("step_started", {"step": "look", "input": {"at": value}}),
    lambda value: ("step_completed", {"step": "look", "decision": "PASS", "output": [value]}),
    lambda value: ("step_failed", {"step": "look", "error_code": "E", "message": f"no {value}"}),
    lambda value: ("error", {"error_code": "E", "message": f"cannot reach {value}"}),
    lambda value: ("policy_violation", {"rule_id": "r", "message": f"{value} is not allowed"}),
    lambda value: ("session_change", {"change": "ended", "reason": f"{value} closed it"}),
    lambda value: ("capture_gap", {"reason": "lost", "what": f"a call of {value}", "message": "m"}),
    lambda value: ("capture_gap", {"reason": "lost", "what": "a call", "message": f"of {value}"}),
)


def make_values(dice: random.Random) -> list[str]:
    return [dice.choice(FORMS)(f"{dice.getrandbits(48):012x}") for _ in range(VALUES)]


def write_record(root: Path, home: Path, values: list[str], at: int, dice: random.Random) -> str:
    """Leave a record that holds the values: one in its request, one in its evidence, the rest in events."""
    executor = ProfileInvocationExecutor(root, home=str(home), clock=lambda: at)
    run = executor.invoke(f"fix the test that {values[0]} wrote").invocation_id
    for number, value in enumerate(values[2:]):
        event, fields = dice.choice(EVENTS)(value)
        named = {"call_id": f"c{number}"} if event.startswith("tool_") else {}
        if event == "tool_result":
            executor.record(run, [("tool_call", {"tool": "Bash", "args": {}, **named})])
        executor.record(run, [(event, {**fields, **named})])
    proof = root / f"proof-{run}.md"
    proof.write_text(f"# Proof\n\n{values[1]} has seen it.\n", encoding="utf-8")
    executor.complete(run, evidence=str(proof))
    proof.unlink()
    return run


def list_holding(root: Path, values: list[str]) -> set[str]:
    """Return the files below a project that hold one of the values, plain or as JSON spells it."""
    needles = {form.encode() for value in values for form in (value, json.dumps(value)[1:-1])}
    needles |= {json.dumps(value, ensure_ascii=False)[1:-1].encode() for value in values}
    found = set()
    for path in root.rglob("*"):
        if path.is_file() and "/.git/objects/" not in str(path):
            data = path.read_bytes()
            if any(needle in data for needle in needles):
                found.add(str(path.relative_to(root)))
    return found


@pytest.mark.stress
@pytest.mark.parametrize("trail", ["private", "committed"])
def test_no_planted_value_is_left_in_any_byte(cli: Cli, home: Path, tmp_path: Path, trail: str) -> None:
    dice = random.Random(f"planted in a {trail} trail")
    values = make_values(dice)
    root = make_repository(tmp_path / "p")
    (root / ".kittify/config.yaml").write_text(
        f"trail: {trail}\naudit:\n  capture_tool_io: full\n  capture_llm_io: full\n", encoding="utf-8"
    )
    accept(root)
    groups = [values[at : at + 20] for at in range(0, len(values), 20)]
    for number, group in enumerate(groups):
        old = SEPTEMBER + number * 60_000_000_000
        write_record(root, home, group, old if number % 2 else time.time_ns(), dice)
    for name, value in ((layout.ORPHANS, values[0]), (layout.HOOK_FAILURES, values[1])):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps({"what": value}) + "\n", encoding="utf-8")
    assert cli("intake", "--help").code == 0
    assert cli("invocations", "search", "plan", cwd=root).code == 0
    if trail == "private":
        project = load(root)
        pack_months(project, [month for month in survey(project, time.time_ns() // 1_000_000) if month.is_over])
    planted = list_holding(root, values)
    project = load(root)

    plan = finding.make_plan(project, Query(texts=tuple(values)))
    order = Order("ada", "asked for it")
    erasing.carry_out(project, erasing.begin(project, plan, order, time.time_ns() // 1_000_000))
    report = verify(root)

    assert len(planted) > len(groups) // 2
    assert list_holding(root, values) == set()
    assert (report.verdict, codes(report)) == ("intact", set())
    assert len(plan.records) == len(groups)
    assert git(root, "status", "--porcelain", "--", "a.txt") == ""
