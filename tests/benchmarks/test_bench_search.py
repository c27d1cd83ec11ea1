"""What an index of words costs beside reading the records, and a search in it beside starting Python with SQLite."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specify_cli.record.ids import new_ulid
from support import cpu_of, environment, git

# docs/adr/0012-measurements.md tells of 100,000.
RECORDS = int(os.environ.get("SPEC_KITTY_SEARCH_RECORDS", "3000"))
_PARSE = """
import glob, orjson
for path in glob.glob(".kittify/events/profile-invocations/*"):
    with open(path, "rb") as file:
        for line in file:
            orjson.loads(line)
"""


def write_records(root: Path, count: int) -> int:
    """Write records as a hook leaves them, of made-up words, one with the word zebrafish; return their bytes."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10))) for _ in range(5000)]
    folder = root / ".kittify/events/profile-invocations"
    folder.mkdir(parents=True)
    size = 0
    for number in range(count):
        invocation_id = new_ulid(1_790_000_000_000 + number * 1000, rng.randbytes(10))
        events: list[dict[str, object]] = [
            {"event": "started", "request_text": " ".join(rng.choices(words, k=8)), "profile_id": "builder-bea"},
            {
                "event": "retrieval_response",
                "hits": [{"uri": f"doctrine://directive/{words[place]}"} for place in range(8)],
            },
        ]
        for call in "abc":
            command = json.dumps(
                {"command": " ".join(rng.choices(words, k=12)), "file_path": f"src/{rng.choice(words)}.py"}
            )
            events.append({"event": "tool_call", "tool": "Bash", "call_id": call, "args": {"head": command}})
            output = " ".join(rng.choices(words, k=50)) + " zebrafish" * (number == count // 2 and call == "b")
            events.append({"event": "tool_result", "tool": "Bash", "call_id": call, "output": {"head": output}})
        events.append({"event": "completed", "outcome": "done"})
        lines = [
            json.dumps({"v": 1, "seq": seq, "invocation_id": invocation_id, "prev": "0" * 64, **event, "~": "f" * 64})
            for seq, event in enumerate(events)
        ]
        data = "\n".join(lines) + "\n"
        size += len(data)
        (folder / f"builder-bea-{invocation_id}.jsonl").write_text(data)
    return size


def test_an_index_is_built_and_searched_at_the_cost_of_reading(
    benchmark: Any, project: Path, home: Path, say: Callable[[str], None], spec_kitty: str
) -> None:
    size = write_records(project, RECORDS)
    argv = [spec_kitty, "invocations", "search", "zebrafish", "--json"]

    def measure() -> tuple[float, float, float, float]:
        subprocess.run(
            [spec_kitty, "invocations", "list"], cwd=project, env=environment(home), check=True, capture_output=True
        )
        built = cpu_of(argv, project, home)
        parse = [sys.executable, "-c", _PARSE]
        read = statistics.median(cpu_of(parse, project, home) for _ in range(3))
        searched = statistics.median(cpu_of(argv, project, home) for _ in range(9))
        bare = statistics.median(
            cpu_of([sys.executable, "-c", "import sqlite3, orjson, typing, hashlib"], project, home) for _ in range(9)
        )
        return built, read, searched, bare

    built, read, searched, bare = benchmark.pedantic(measure, rounds=1)
    say(
        f"index of {RECORDS:,} records, {size / 1e6:.0f} MB / parsing them: {built / read:.1f} (at most 15) · "
        f"{size / built / 1000:.0f} MB a second of CPU · a search in it {searched:.0f} ms CPU, "
        f"{searched / bare:.1f} x Python with SQLite (at most 5)"
    )
    assert git(project, "status", "--porcelain", ".git") == ""
    assert built <= 15 * read
    assert searched <= 5 * bare
