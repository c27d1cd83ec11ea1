"""docs/replay.md: its program dies in the middle and is gone on with, and does nothing twice unasked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from support import PATIENCE, Cli, environment

PAGE = (Path(__file__).parents[2] / "docs/replay.md").read_text(encoding="utf-8")


def test_the_program_of_the_page_is_gone_on_with_and_sends_nothing_twice(
    chartered: Path, process: Cli, home: Path
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert found is not None
    (chartered / "story.py").write_text(found.group(1), encoding="utf-8")
    died = subprocess.run(
        [sys.executable, "story.py"], cwd=chartered, env=environment(home), check=False, timeout=PATIENCE
    )
    (named,) = re.findall(r"--rerun (\S+)", process("resume", "last").out)
    refused = process("resume", "last", "--program", "story:agent", "--json")
    sent = (chartered / "sent.txt").read_text().split()
    resumed = process("resume", "last", "--program", "story:agent", "--rerun", named)
    lines = next((chartered / ".kittify/events/profile-invocations").glob("*.jsonl")).read_bytes().splitlines()

    assert (died.returncode, refused.error()["error_code"], sent) == (1, "IN_DOUBT", ["hello", "goodbye"])
    assert resumed.code == 0, resumed.err
    assert (chartered / "sent.txt").read_text().split() == ["hello", "goodbye", "goodbye"]
    assert json.loads(lines[-1])["outcome"] == "done"
