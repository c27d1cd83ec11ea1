"""What links and log cost: commands with and without their leaf, verify over a project, a million leaves."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.signed_log import merkle
from specify_cli.libraries.signed_log.signing import LevelFiles
from specify_cli.trail.log.leaves import Generation
from support import environment, paired
from trails import RECORDS, make_repository, sign, verify

Say = Callable[[str], None]
# A command without its leaf, to compare with.
_WITHOUT = """
import specify_cli.invocation.executor as executor
class Nothing:
    links = {"after": [], "after_of": []}
    def announce(self, *_): return self
    def settle(self): pass
    def commit(self, *_, **__): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
executor.open_log = lambda project: Nothing()
"""
_RUN = "import specify_cli.invocation.executor\n{}\nfrom specify_cli.cli.main import script\nscript()"


@pytest.mark.parametrize("command", ["do", "complete"])
def test_a_leaf_beside_the_command_without_it(
    benchmark: Any, tmp_path: Path, home: Path, say: Say, command: str
) -> None:
    roots = {"": make_repository(tmp_path / "with"), _WITHOUT: make_repository(tmp_path / "without")}

    def cost(patch: str) -> float:
        argv = ["do", "implement WP03"]
        if command == "complete":
            invocation_id = ProfileInvocationExecutor(roots[patch]).invoke("implement WP03").invocation_id
            argv = ["profile-invocation", "complete", "--invocation-id", invocation_id]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        program = [sys.executable, "-c", _RUN.format(patch), *argv]
        subprocess.run(program, cwd=roots[patch], env=environment(home), stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    measured = benchmark.pedantic(lambda: paired(lambda: cost(""), lambda: cost(_WITHOUT), 41), rounds=1)
    say(f"{command} with its leaf / without: {measured.ratio:.3f} (at most 1.05) · {measured.ours:.1f} ms")

    assert measured.ratio <= 1.05


def test_verify_all_with_links_and_log(benchmark: Any, tmp_path: Path, say: Say) -> None:
    root = make_repository(tmp_path / "trail")
    executor = ProfileInvocationExecutor(root)
    for number in range(60):
        made = executor.invoke(f"fix the test {number}").invocation_id
        event = ("error", {"error_code": "E1", "message": "the login test fails: " + "x" * 300})
        executor.record(made, [event] * 200)
        executor.complete(made)
    sign(root)
    lines = [raw for path in (root / RECORDS).glob("*.jsonl") for raw in path.read_bytes().split(b"\n")[:-1]]

    def ours() -> float:
        began = time.process_time()
        assert verify(root).level == "logged"
        return 1000 * (time.process_time() - began)

    def reference() -> float:
        began = time.process_time()
        for line in lines:
            json.loads(line)
            hashlib.sha256(line).hexdigest()
        return 1000 * (time.process_time() - began)

    measured = benchmark.pedantic(lambda: paired(ours, reference, 9), rounds=1)
    say(
        f"verify --all with links and log / json.loads + SHA-256, {len(lines)} lines in 60 records: "
        f"{measured.ratio:.2f} (at most 2.20) · {measured.ours:.0f} ms"
    )

    assert measured.ratio <= 2.2


def test_a_million_leaves(benchmark: Any, tmp_path: Path, say: Say) -> None:
    size, dice = 1_000_000, random.Random(1)
    log = Generation(str(tmp_path), "1-00000000")
    os.mkdir(log.path)
    with open(f"{log.path}/leaves", "wb") as file:
        for number in range(size):
            file.write(f"start {number:026d} {number:064x}\n".encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    levels, began = LevelFiles(log), time.process_time()
    levels.extend(size)
    hashed = time.process_time() - began

    def prove() -> list[bytes]:
        return merkle.prove_inclusion(levels.read, dice.randrange(size), size)

    benchmark(prove)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    milliseconds = 1000 * benchmark.stats.stats.median
    say(
        f"1,000,000 leaves: a proof in {milliseconds:.2f} ms (at most 10) · hashed anew in {hashed:.1f} s of CPU · "
        f"{grown:.0f} MB more memory"
    )

    assert milliseconds <= 10
    assert grown < 50
