"""What looks at the work tree cost a call: ratios of CPU time to an interpreter that loads three modules."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hooking import run_hook
from specify_cli.features.hooks.worktree.known import KnownTree
from specify_cli.features.hooks.worktree.listing import find_moved, read_index
from specify_cli.invocation.executor import ProfileInvocationExecutor
from support import cpu_of, environment, git, paired

FILES = 5000
REFERENCE = [sys.executable, "-c", "import json,re,hashlib"]
Say = Callable[[str], None]


def fill(project: Path, home: Path) -> None:
    for number in range(FILES):
        path = project / f"d{number % 50}/s{number % 4}/file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"x = {number}\n")
    git(project, "add", "-A", home=home)
    git(project, "commit", "-qm", "start", home=home)


def test_a_look_at_a_tree_in_which_nothing_moved_costs_less_than_an_interpreter(
    benchmark: Any, project: Path, home: Path, say: Say
) -> None:
    fill(project, home)
    known = KnownTree(time.time_ns() + 10**9, "", "", {}, [], [], {})
    root = str(project)

    def look() -> float:
        began = time.process_time()
        index = read_index(root, root)
        moved = find_moved(index, known)
        assert index.total >= FILES and not moved.files
        return 1000 * (time.process_time() - began)

    measured = benchmark.pedantic(lambda: paired(look, lambda: cpu_of(REFERENCE, project, home), 15), rounds=1)
    say(
        f"a look at {FILES:,} files / import json,re,hashlib: {measured.ratio:.2f} (at most 0.68) · "
        f"{measured.ours:.1f} ms / {measured.reference:.1f} ms"
    )
    assert measured.ratio <= 0.68


def test_a_hook_that_looks_at_the_tree_costs_little_more_than_one_that_does_not(
    benchmark: Any, chartered: Path, home: Path, spec_kitty: str, say: Say
) -> None:
    fill(chartered, home)
    begun = {**environment(home), "CLAUDE_CODE_SESSION_ID": "s1"}
    subprocess.run(
        [spec_kitty, "do", "implement WP03", "--json"], cwd=chartered, env=begun, capture_output=True, check=True
    )
    count = 0

    def hook(tool: str) -> float:
        nonlocal count
        count += 1
        given = {"session_id": "s1", "cwd": str(chartered), "hook_event_name": "PreToolUse", "tool_name": tool}
        payload = {**given, "tool_input": {"command": "make"}, "tool_use_id": f"toolu_{count}"}
        data = json.dumps(payload).encode()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [spec_kitty, "hook", "claude-code"], cwd=chartered, env=environment(home), input=data, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    hook("Bash")
    measured = benchmark.pedantic(lambda: paired(lambda: hook("Bash"), lambda: hook("Grep"), 15), rounds=1)
    say(
        f"hook before a shell at {FILES:,} files / before a tool that reads: {measured.ratio:.2f} (at most 1.80) · "
        f"{measured.ours:.1f} ms / {measured.reference:.1f} ms"
    )
    assert measured.ratio <= 1.8


def test_a_change_in_a_long_session_beside_two_others_costs_little_more_than_to_parse_them(
    benchmark: Any, chartered: Path, home: Path, spec_kitty: str, say: Say
) -> None:
    git(chartered, "add", "-A", home=home)
    git(chartered, "commit", "-qm", "start", home=home)
    executor = ProfileInvocationExecutor(chartered, home=str(home))
    begun = {**environment(home), "CLAUDE_CODE_SESSION_ID": "s1"}
    done = subprocess.run(
        [spec_kitty, "do", "implement WP03", "--json"], cwd=chartered, env=begun, capture_output=True, check=True
    )
    own = str(json.loads(done.stdout)["invocation_id"])
    for name in (own, *(executor.invoke("fix the login test").invocation_id for _ in range(2))):
        for number in range(1500):
            call = {"tool": "Read", "call_id": f"{number}"}
            asked = {**call, "args": {"file_path": f"src/file{number}.py"}}
            answer = {**call, "status": "ok", "output": "x = 1\n" * 20}
            executor.record(name, [("tool_call", asked), ("tool_result", answer)])
    lines = [
        line
        for path in chartered.glob(".kittify/events/profile-invocations/*.jsonl")
        for line in path.read_bytes().splitlines()
    ]
    count = 0

    def hook(event: str, **more: object) -> float:
        given = {"session_id": "s1", "cwd": str(chartered), "hook_event_name": event, "tool_name": "Bash"}
        payload = {**given, "tool_input": {"command": "make"}, "tool_use_id": f"toolu_{count}", **more}
        began = time.process_time()
        run_hook("claude-code", json.dumps(payload).encode(), str(chartered), str(home))
        return 1000 * (time.process_time() - began)

    def change() -> float:
        nonlocal count
        count += 1
        hook("PreToolUse")
        (chartered / "made.txt").write_text(f"{count}\n")
        return hook("PostToolUse", tool_response={"stdout": "", "stderr": "", "interrupted": False})

    def parse() -> float:
        began = time.process_time()
        assert len([json.loads(line) for line in lines]) > 9000
        return 1000 * (time.process_time() - began)

    measured = benchmark.pedantic(lambda: paired(change, parse, 15), rounds=1)
    say(
        f"a change beside two sessions of 1,500 calls / parse: {measured.ratio:.2f} (at most 1.70) · "
        f"{measured.ours:.1f} ms / {measured.reference:.1f} ms"
    )
    assert measured.ratio <= 1.7
