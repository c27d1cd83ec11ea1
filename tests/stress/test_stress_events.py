"""Run events under kill -9 and under many writers; a part by default, all of it in `make stress`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.record import split_lines
from specify_cli.storage.checking import verify_all
from support import FULL, REPORT, SPEC_KITTY, environment
from victims import drain, fork

pytestmark = pytest.mark.stress
EVENTS = 500


def numbers(root: Path, invocation_id: str) -> list[str]:
    """The marks the program left, in the order of the record."""
    (path,) = (root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    found = (json.loads(raw) for _, raw in split_lines(path.read_bytes()))
    return [str(line["error_code"]) for line in found if line["event"] == "error"]


def act(run: Run, number: int) -> None:
    """One of the things a run does, leaving its number as a mark."""
    kind = number % 5
    if kind == 0:
        run.step(f"s{number}", lambda: run.error(f"E{number}"))
    elif kind == 1:
        with run.tool("t", {"n": number}, side_effect="external" if number % 2 else "none"):
            run.error(f"E{number}")
    elif kind == 2:
        run.model_call("m", "p" * 50, "r" * 50)
        run.error(f"E{number}")
    elif kind == 3 and number % 50 == 3:
        run.commit()
        run.error(f"E{number}")
    else:
        run.error(f"E{number}", "m" * 2000)


def test_kill_9_at_any_point_of_a_long_run_loses_nothing_that_was_answered(chartered: Path) -> None:
    """500 events; every one whose call returned is there, the next append works, the record verifies."""
    rng = random.Random(7)
    kills = 400 if FULL else 5
    answered = 0
    hit = 0
    for _ in range(kills):

        def work(pipe: int) -> None:
            run = open_invocation(chartered, "implement WP03")
            os.write(pipe, f"{run.invocation_id}\n".encode())
            for number in range(EVENTS // 2):
                act(run, number)
                os.write(pipe, f"E{number}\n".encode())

        pid, reading = fork(work)
        head = b""
        while not head.endswith(b"\n"):
            head += os.read(reading, 1)
        # Killed after so many answers and not after a time: how fast the machine is decides nothing.
        first, begun = rng.randrange(EVENTS // 4), b""
        while begun.count(b"\n") < first:
            begun += os.read(reading, 1)
        os.kill(pid, signal.SIGKILL)
        told = [*begun.decode().split(), *drain(reading)]
        os.waitpid(pid, 0)
        invocation_id = head.decode().strip()
        found = numbers(chartered, invocation_id)
        assert found[: len(told)] == told
        hit += len(told) < EVENTS // 2
        answered += len(told)
        ProfileInvocationExecutor(chartered).record(invocation_id, [("error", {"error_code": "NEXT"})])
        assert numbers(chartered, invocation_id)[-1] == "NEXT"
    project, _ = load_project(str(chartered))
    errors = [item for report in verify_all(project) for item in report.findings if item.severity == "error"]
    assert errors == []
    assert hit > kills // 4
    REPORT.append(
        f"kill -9 in a run of {EVENTS} events: {kills} kills, {hit} in the middle, {answered} answers, 0 lost"
    )


def test_many_processes_append_to_one_record_and_none_is_lost_doubled_or_out_of_order(chartered: Path) -> None:
    """Concurrent appends by many processes form one unbroken chain that keeps each process's order."""
    processes, each = (20, 200) if FULL else (8, 10)
    opened = ProfileInvocationExecutor(chartered)
    invocation_id = opened.invoke("implement WP03").invocation_id

    def worker(name: int) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            mine = ProfileInvocationExecutor(chartered)
            for number in range(each):
                mine.record(invocation_id, [("error", {"error_code": f"P{name}-{number}"})])
                os.write(pipe, f"P{name}-{number}\n".encode())

        return work

    children = [fork(worker(name)) for name in range(processes)]
    told = [drain(reading) for _, reading in children]
    for pid, _ in children:
        os.waitpid(pid, 0)

    found = numbers(chartered, invocation_id)
    wanted: list[list[Any]] = [[f"P{name}-{number}" for number in range(each)] for name in range(processes)]
    assert told == wanted
    assert sorted(found) == sorted(mark for marks in wanted for mark in marks)
    assert [[mark for mark in found if mark.startswith(f"P{name}-")] for name in range(processes)] == wanted
    project, _ = load_project(str(chartered))
    assert [item for report in verify_all(project) for item in report.findings] == []
    REPORT.append(f"{processes} processes x {each} appends to one record: 0 lost, 0 doubled, order kept")


def test_many_hook_processes_lose_nothing(chartered: Path, home: Path) -> None:
    """200 hooks of one session at once, each delivered twice: every event once, one chain."""
    processes = 200 if FULL else 5
    begun = {**environment(home), "CLAUDE_CODE_SESSION_ID": "s1"}
    argv = [SPEC_KITTY, "do", "implement WP03", "--json"]
    answer = subprocess.run(argv, cwd=chartered, env=begun, capture_output=True, check=True).stdout
    invocation_id = json.loads(answer)["invocation_id"]
    children = []
    for number in range(2 * processes):
        call = f"toolu_{number % processes}"
        given = {"session_id": "s1", "cwd": str(chartered), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
        payload = chartered.parent / f"payload-{number}.json"
        payload.write_text(json.dumps({**given, "tool_input": {"command": "ls"}, "tool_use_id": call}))
        with payload.open("rb") as file:
            hook = [SPEC_KITTY, "hook", "claude-code"]
            children.append(subprocess.Popen(hook, cwd=chartered, env=environment(home), stdin=file))
    assert [child.wait() for child in children] == [0] * (2 * processes)

    (path,) = (chartered / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    found = [json.loads(raw) for _, raw in split_lines(path.read_bytes())]
    calls = sorted(line["call_id"] for line in found if line["event"] == "tool_call")
    assert calls == sorted(f"toolu_{number}" for number in range(processes))
    project, _ = load_project(str(chartered))
    assert [item for report in verify_all(project) for item in report.findings] == []
    REPORT.append(f"{2 * processes} hooks, each event delivered twice: {processes} recorded, 0 lost, 0 doubled")
