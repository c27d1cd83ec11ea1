"""Many writers, racing completes, and kill -9 at any moment; a fiftieth by default, all of it in `make stress`.

Workers are forked from a parent that has everything loaded, so a kill lands in the work and not in an import.
Each writes what it was answered to a pipe; afterwards every answer must be on disk.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from charter.context import build_charter_context
from specify_cli.errors import CallerError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.storage.checking import verify_all
from specify_cli.storage.queries import Filters, list_invocations
from support import FULL, REPORT, SPEC_KITTY, environment
from victims import drain, fork

pytestmark = pytest.mark.stress
SCALE = 1 if FULL else 80


def _checked(root: Path) -> dict[str, str]:
    """id → status of every record; every record verifies and every file is a record."""
    project, _ = load_project(str(root))
    reports = list(verify_all(project))
    errors = [item for report in reports for item in report.findings if item.severity == "error"]
    assert errors == []
    names = {path.name for path in (root / layout.RECORDS).iterdir() if not path.name.startswith(".")}
    assert len(names) == len(reports)
    rows = list_invocations(project, Filters(), 10**9)
    assert rows.problems == ()
    assert {row.invocation_id for row in rows.rows} == {report.invocation_id for report in reports}
    return {str(report.invocation_id): report.status for report in reports}


def test_many_writers_through_the_api_lose_nothing(chartered: Path) -> None:
    writers, each = (64, 50) if FULL else (4, 2)

    def work(pipe: int) -> None:
        opened = ProfileInvocationExecutor(chartered)
        for number in range(each):
            os.write(pipe, opened.invoke(f"implement WP{number}").invocation_id.encode() + b"\n")

    began = time.perf_counter()
    children = [fork(work) for _ in range(writers)]
    answered = [one for _, reading in children for one in drain(reading)]
    codes = [os.waitpid(pid, 0)[1] for pid, _ in children]

    assert codes == [0] * writers
    assert len(answered) == len(set(answered)) == writers * each
    assert set(_checked(chartered)) == set(answered)
    REPORT.append(
        f"{writers} writers x {each} through the API: {len(answered)} valid, {time.perf_counter() - began:.1f} s"
    )


def test_many_writers_through_the_command_line_lose_nothing(chartered: Path, home: Path) -> None:
    writers, each = (16, 10) if FULL else (4, 1)
    command = [SPEC_KITTY, "do", "implement WP03", "--json"]
    began = time.perf_counter()
    for _ in range(each):
        running = [
            subprocess.Popen(command, cwd=chartered, env=environment(home), stdout=subprocess.DEVNULL)
            for _ in range(writers)
        ]
        assert [child.wait(60) for child in running] == [0] * writers

    assert len(_checked(chartered)) == writers * each
    REPORT.append(f"{writers} x {each} through the command line: all valid, {time.perf_counter() - began:.1f} s")


def test_of_racing_completes_exactly_one_wins(chartered: Path) -> None:
    racers, rounds = (32, 50) if FULL else (6, 1)
    opened = ProfileInvocationExecutor(chartered)
    began = time.perf_counter()
    for _ in range(rounds):
        one = opened.invoke("implement WP03").invocation_id

        def work(pipe: int, one: str = one) -> None:
            outcome = random.choice(["done", "failed", "abandoned"])
            try:
                done = opened.complete(one, outcome=outcome)
                os.write(pipe, f"{done.already_completed} {done.outcome}\n".encode())
            except CallerError as refused:
                # Who came second with another outcome is told which one counts.
                assert refused.code == "OUTCOME_DIFFERS"
                counts = refused.message.partition(" as ")[2].partition(",")[0]
                assert counts != outcome
                os.write(pipe, f"True {counts}\n".encode())

        children = [fork(work) for _ in range(racers)]
        answers = [line.split() for _, reading in children for line in drain(reading)]
        assert [os.waitpid(pid, 0)[1] for pid, _ in children] == [0] * racers
        assert sorted(first for first, _ in answers) == ["False"] + ["True"] * (racers - 1)
        assert len({outcome for _, outcome in answers}) == 1

    assert set(_checked(chartered).values()) == {"closed"}
    REPORT.append(f"{racers} racing completes x {rounds}: one winner each, {time.perf_counter() - began:.1f} s")


def _killed(work: Callable[[int], None], kills: int, longest: float) -> list[str]:
    """What was answered by children that were killed after a random moment, two at a time."""
    answered: list[str] = []
    chance = random.Random(7)
    for _ in range(kills // 2):
        children = [fork(work) for _ in range(2)]
        time.sleep(chance.uniform(0, longest))
        for pid, _ in children:
            os.kill(pid, signal.SIGKILL)
        for pid, reading in children:
            answered += drain(reading)
            os.waitpid(pid, 0)
    return answered


def test_kill_9_during_start_and_complete_loses_no_answered_record(chartered: Path) -> None:
    kills = 2_000 // SCALE

    def work(pipe: int) -> None:
        opened = ProfileInvocationExecutor(chartered)
        while True:
            one = opened.invoke("review the SQL migration").invocation_id
            os.write(pipe, f"started {one}\n".encode())
            opened.complete(one)
            os.write(pipe, f"closed {one}\n".encode())

    began = time.perf_counter()
    work_root = ProfileInvocationExecutor(chartered)
    work_root.invoke("implement WP03")
    within = 0.06
    answered = _killed(work, kills, within)
    while len(answered) <= kills / 2 and within < 2:  # a busy machine answers later
        within *= 2
        answered += _killed(work, kills, within)
    found = _checked(chartered)
    lost = [line for line in answered if line.split()[1] not in found]
    reopened = [line for line in answered if line.startswith("closed") and found[line.split()[1]] != "closed"]

    assert len(answered) > kills / 2
    assert (lost, reopened) == ([], [])
    for one, status in found.items():
        if status == "open":
            assert work_root.complete(one).outcome == "done"
    assert set(_checked(chartered).values()) == {"closed"}
    half = sum(status == "open" for status in found.values())
    REPORT.append(
        f"{kills} kills: {len(answered)} answers, {len(found)} records, {half} open, 0 lost, 0 unreadable, "
        f"{time.perf_counter() - began:.1f} s"
    )


def test_concurrent_invocations_leave_the_context_state_alone(chartered: Path) -> None:
    build_charter_context(chartered, action="review", mark_loaded=True)
    state = chartered / ".kittify/charter/context-state.json"
    before = state.read_bytes()

    def work(pipe: int) -> None:
        payload = ProfileInvocationExecutor(chartered).invoke("implement WP03")
        os.write(pipe, f"{payload.governance_context_hash}\n".encode())

    writers = 64 if FULL else 4
    children = [fork(work) for _ in range(writers)]
    hashes = [line for _, reading in children for line in drain(reading)]

    assert [os.waitpid(pid, 0)[1] for pid, _ in children] == [0] * writers
    assert len(hashes) == writers
    assert len(set(hashes)) == 1
    assert state.read_bytes() == before


def test_the_same_harness_sees_a_plain_writer_fail(tmp_path: Path) -> None:
    """A writer that opens its final name and writes line by line leaves half files behind."""
    kills = max(40, 400 // SCALE)
    lines = 40

    def work(pipe: int) -> None:
        number = 0
        while True:
            number += 1
            path = tmp_path / f"{os.getpid()}-{number}.jsonl"
            with path.open("x", encoding="utf-8") as file:
                for line in range(lines):
                    file.write(f'{{"seq":{line}}}\n')
                    file.flush()
            os.write(pipe, f"{path.name}\n".encode())

    answered = _killed(work, kills, 0.01)
    half = [path for path in tmp_path.glob("*.jsonl") if path.read_bytes().count(b"\n") != lines]

    assert answered
    assert half
    REPORT.append(f"plain open('x') under {kills} kills: {len(half)} half files among {len(answered)} answers")
