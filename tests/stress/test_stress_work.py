"""Many records verified by one process, two workers, and a Dask cluster of which a worker is killed: one report."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import Cluster, dask_cluster, lets_dask_leave_sockets
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import chain, genesis_tip
from support import FULL, REPORT, SPEC_KITTY, environment

RECORDS = 100_000 if FULL else 200
CALLS, EVERY = 6, 1_000 if FULL else 100
START = 1_700_000_000_000

pytestmark = [pytest.mark.stress, lets_dask_leave_sockets]


def write_record(folder: Path, number: int) -> None:
    """A closed record of a request and six calls; one byte of every thousandth is changed."""
    invocation_id, at = new_ulid(START + number, number.to_bytes(10, "big")), rfc3339(START + number)
    bodies: list[dict[str, object]] = [
        {"event": "started", "started_at": at, "profile_id": "implementer", "action": "implement", "request_text": "x"}
    ]
    for call in range(CALLS):
        bodies += [
            {"event": "tool_call", "at": at, "call_id": f"c{call}", "tool": "grep", "args": "login " * 20},
            {"event": "tool_result", "at": at, "call_id": f"c{call}", "status": "ok", "output": "found " * 40},
        ]
    bodies.append({"event": "completed", "completed_at": at, "outcome": "done", "closed_by": "agent"})
    data, _ = chain(genesis_tip(), invocation_id, bodies)
    if number % EVERY == 7:
        data = data.replace(b"login", b"logon", 1)
    (folder / layout.record_name("implementer", invocation_id)).write_bytes(data)


def verify(root: Path, home: Path, *more: str, cluster: Cluster | None = None) -> tuple[float, bytes]:
    """Return the seconds and the report of a `verify --all`; of a cluster one worker is killed at work."""
    argv = [SPEC_KITTY, "invocations", "verify", "--all", "--json", *more]
    began = time.perf_counter()
    with subprocess.Popen(argv, cwd=root, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        killed = None if cluster is None else cluster.kill_worker(at_work=True)
        out, said = ran.communicate()

    assert (ran.returncode, said) == (3, b"")
    assert cluster is None or killed
    return time.perf_counter() - began, out


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: what is compared are processors, not the disk's day."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


def test_many_records_are_judged_alike_on_every_engine(memory: Path, home: Path) -> None:
    project = memory / "project"
    folder = project / layout.RECORDS
    folder.mkdir(parents=True)
    for number in range(RECORDS):
        write_record(folder, number)
    verify(project, home)  # reads the folder into the index, and the files into memory
    alone, expected = verify(project, home)
    shared, by_two = verify(project, home, "--workers", "2")
    far, by_cluster = alone, expected
    if FULL:  # in the short version tests of sharing and of many sources ask a cluster
        with dask_cluster(2, environment(home)) as cluster:
            far, by_cluster = verify(project, home, "--engine", cluster.url, cluster=cluster)

    assert expected.count(b'"HASH_MISMATCH"') == RECORDS // EVERY
    assert f'"records": {RECORDS}'.encode() in expected
    assert by_two == expected and by_cluster == expected
    REPORT.append(
        f"{RECORDS} records of {CALLS * 2 + 2} lines verified: 1 process {alone:.1f} s; 2 workers {shared:.1f} s "
        f"({alone / shared:.2f} x); a Dask cluster of 2, one killed at work, {far:.1f} s ({alone / far:.2f} x); "
        f"one report, {len(expected)} bytes"
    )
