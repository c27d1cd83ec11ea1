"""Records that hold a person's name in every kind of line."""

from __future__ import annotations

import json
import random
from pathlib import Path

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
