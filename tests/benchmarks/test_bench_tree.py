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

from specify_cli.features.hooks.worktree.known import KnownTree
from specify_cli.features.hooks.worktree.listing import find_moved, read_index
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
