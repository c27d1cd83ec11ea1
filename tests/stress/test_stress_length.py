"""Long records: verify and rehydrate cost the same a line at any length, and hold no more memory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from specify_cli.record import layout
from specify_cli.record.record import chain, genesis_tip
from specify_cli.storage.store import Body
from support import FULL, REPORT, environment

pytestmark = pytest.mark.stress
ID = "01JD4Q3S0000000000000000A1"
AT = "2024-11-20T09:00:00.000Z"
OUTPUT_HASH = hashlib.sha256(f'"{"y" * 200}"'.encode()).hexdigest()
MEASURED = """
import json, resource, sys, time
from specify_cli.storage.checking import verify_file
from specify_cli.project.config import load_project
from specify_cli.features.programs.resume import state_of
from specify_cli.storage.index import Index
project, _ = load_project(".")
place = Index(project.root).resolve(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
if sys.argv[2] == "verify":
    report = verify_file(project.root, place)
    lines, wrong = report.lines, len(report.findings)
else:
    state = state_of(project, sys.argv[1], None)
    lines, wrong = state.seq + 1, len(state.open_calls)
cost = time.process_time() - began
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({"lines": lines, "wrong": wrong, "us": 1e6 * cost / lines, "grown_kb": grown}))
"""


def write(root: Path, count: int) -> None:
    """An open record of so many lines, half of them tool calls, the other half their results."""
    folder = root / layout.RECORDS
    folder.mkdir(parents=True, exist_ok=True)
    tip = genesis_tip()
    with (folder / layout.record_name("implementer", ID)).open("wb") as file:
        started: Body = {"event": "started", "started_at": AT, "profile_id": "implementer"}
        data, tip = chain(tip, ID, [started])
        file.write(data)
        for begin in range(0, count // 2, 1000):
            bodies: list[Body] = []
            for number in range(begin, min(begin + 1000, count // 2)):
                call: Body = {"event": "tool_call", "at": AT, "call_id": f"c{number}", "tool": "grep"}
                bodies.append({**call, "side_effect": "none", "idempotency_key": f"k{number}"})
                result: Body = {"event": "tool_result", "at": AT, "call_id": f"c{number}", "status": "ok"}
                bodies.append({**result, "output": {"head": "y" * 200, "size": 202}, "output_hash": OUTPUT_HASH})
            data, tip = chain(tip, ID, bodies)
            file.write(data)


@pytest.mark.parametrize("what", ["verify", "rehydrate"])
def test_a_line_of_a_long_record_costs_what_a_line_of_a_short_one_does(project: Path, home: Path, what: str) -> None:
    found = []
    for count in (10_000, 1_000_000) if FULL else (1_000, 8_000):
        write(project, count)
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, ID, what],
            cwd=project, env=environment(home), capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(json.loads(done.stdout))
        assert (found[-1]["lines"], found[-1]["wrong"]) == (count + 1, 0)
    short, long = found
    REPORT.append(
        f"{what}: {long['lines']:,} lines at {long['us']:.1f} µs each, {long['us'] / short['us']:.2f} x a line of "
        f"{short['lines']:,}; {long['grown_kb'] / 1024:.0f} MB more memory than before, {short['grown_kb'] / 1024:.0f} "
        f"MB for the short one"
    )
    assert not FULL or long["us"] < 2 * short["us"]
    assert long["grown_kb"] < short["grown_kb"] + 30 * 1024
