"""Records that hold a person's name, or values of many forms, in every kind of line."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record import layout
from support import accept
from trails import RECORDS, Clock, make_repository

NAME = "zoe.quill@example.org"
BIG = f"{'x' * 40_000} {NAME} {'y' * 9000}"
BEGUN = 1_700_000_000


def plant(root: Path, records: int = 2, trail: str = "private", every: int = 2, more: str = "") -> list[str]:
    """Add closed records; every second one holds the name in its request, a call, a result, a patch and an error."""
    config = make_repository(root, trail) / layout.CONFIG
    config.write_text(config.read_text() + more)
    accept(root)
    executor = ProfileInvocationExecutor(root, clock=Clock(random.Random(1), BEGUN), entropy=random.Random(2).randbytes)
    made = []
    for number in range(records):
        who = NAME if number % every == 0 else "nobody"
        one = executor.invoke(f"fix the login test for {who}").invocation_id
        executor.record(
            one,
            [
                ("tool_call", {"tool": "sh", "call_id": "c", "args": {"to": who, "inner": json.dumps({"a": who})}}),
                ("tool_result", {"call_id": "c", "status": "ok", "output": BIG.replace(NAME, who)}),
                ("patch_apply", {"path": "src/a.py", "kind": "modify", "diff": f"@@ -1 +1 @@\n-a\n+{who}\n"}),
                ("error", {"error_code": "E1", "message": f"{who} is unknown"}),
            ],
        )
        executor.complete(one)
        made.append(one)
    return made


def record_of(root: Path, invocation_id: str) -> Path:
    (path,) = (root / RECORDS).glob(f"*{invocation_id}.jsonl")
    return path


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


def make_values(dice: random.Random, number: int) -> list[str]:
    """Return texts of many forms, each with a word of its own."""
    return [dice.choice(FORMS)(f"{dice.getrandbits(48):012x}") for _ in range(number)]


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


def spell_values(values: list[str]) -> set[bytes]:
    """Return the values plain, and as JSON spells them."""
    spelled = {form for value in values for form in (value, json.dumps(value)[1:-1])}
    return {form.encode() for form in spelled | {json.dumps(value, ensure_ascii=False)[1:-1] for value in values}}
