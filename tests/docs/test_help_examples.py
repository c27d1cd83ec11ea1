"""Every example that a help page shows works as it stands, with an id of the reader's own for ID."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from specify_cli.cli.table import COMMANDS
from specify_cli.invocation.run import open_invocation
from specify_cli.replay.resume import program_digest
from support import Cli, environment

AGENT = """
def main(run):
    run.stage("ready")
    run.step("look", lambda: "seen")
    run.model_call("gpt", "ask", call=ask)
    run.tool("send", side_effect="idempotent", idempotency_key="k")(lambda: 1)()

def ask(prompt):
    return "answer"
"""
RECEIPT = {"content": {"step_type": "step:a", "decision": "PASS", "output_hash": "0" * 64}}
FILES = {
    "agent.py": AGENT,
    "notes.md": "what was done\n",
    "brief.md": "# A brief\nDo this.\n",
    "error.json": '{"error_code": "E", "message": "m", "severity": "error"}',
    "events.jsonl": '{"event": "tool_call", "call_id": "c1", "tool": "grep"}\n',
    "chains.json": json.dumps({"original_chain": [RECEIPT], "replay_chain": [RECEIPT]}),
}
HOOK = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}, "tool_use_id": "1"}
# What is refused in the project prepared here, as the help says it is.
REFUSED = {
    "spec-kitty sync enable --endpoint https://collector.example.org/v1/events": "CONSENT_NEEDED",
    "spec-kitty sync push": "SYNC_DISABLED",
    "spec-kitty sync push --dry-run": "SYNC_DISABLED",
    "spec-kitty sync retry": "SYNC_DISABLED",
    "spec-kitty charter synthesize": "INVALID_VALUE",
}
# They go on until they are stopped; tests of their own run them.
ENDLESS = ("--follow", "collector serve")
EXAMPLES = [example for command in COMMANDS for example in command.examples]


class Prepared(NamedTuple):
    """A project with a closed run, another one, an open one with a call in doubt, and that call's id."""

    root: Path
    closed: str
    other: str
    unfinished: str
    call: str


@pytest.fixture
def prepared(chartered: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prepared]:
    for name, text in FILES.items():
        (chartered / name).write_text(text)
    monkeypatch.syspath_prepend(str(chartered))
    sys.modules.pop("agent", None)
    import agent  # type: ignore[import-not-found]

    program = program_digest(agent.main)
    ids = []
    for _ in range(2):
        with open_invocation(chartered, "implement WP03", program=program) as run:
            agent.main(run)
            ids.append(run.invocation_id)
    code = (
        "import os, agent\n"
        "from specify_cli.invocation.run import open_invocation\n"
        "from specify_cli.replay.resume import program_digest\n"
        "run = open_invocation('.', 'implement WP04', program=program_digest(agent.main)).__enter__()\n"
        "run.stage('ready'); run.step('look', lambda: 'seen')\n"
        "print(run.invocation_id, flush=True)\n"
        "run.model_call('gpt', 'ask', call=agent.ask)\n"
        "run.tool('send', side_effect='idempotent', idempotency_key='k')(lambda: os._exit(0))()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=chartered,
        env=environment(chartered),
        capture_output=True,
        text=True,
        check=False,
    )
    unfinished = done.stdout.strip()
    events = cli("invocations", "show", unfinished, "--json").json()["events"]
    call = next(event["call_id"] for event in reversed(events) if event["event"] == "tool_call")
    cli("init")
    cli("invocations", "export", ids[0], "-o", "exported.tar")
    yield Prepared(chartered, ids[0], ids[1], unfinished, call)
    sys.modules.pop("agent", None)


def test_each_command_has_an_example() -> None:
    assert [command.path for command in COMMANDS if not command.examples and command.path != ("hook",)] == []


@pytest.mark.parametrize("example", [text for text in EXAMPLES if not any(word in text for word in ENDLESS)])
def test_an_example_of_the_help_works(prepared: Prepared, home: Path, example: str) -> None:
    open_one = "profile-invocation" in example or "resume" in example
    if "import run.tar" in example:
        (prepared.root / "exported.tar").rename(prepared.root / "run.tar")
    (prepared.root / "call.json").write_text(
        json.dumps(HOOK) if "hooks test" in example else '{"call_id": "c2", "tool": "grep"}'
    )
    if "hooks" in example or "skills" in example:
        (prepared.root / ".claude").mkdir()
    line = re.sub(r"\bCALL_ID\b", prepared.call, example)
    line = re.sub(r"\bOTHER_ID\b", prepared.other, line)
    line = re.sub(r"\bID\b", prepared.unfinished if open_one else prepared.closed, line)
    done = subprocess.run(
        ["sh", "-c", line], cwd=prepared.root, env=environment(home), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip

    refused = REFUSED.get(example)
    assert (refused is None) == (done.returncode == 0), done.stderr
    assert refused is None or refused in done.stderr
