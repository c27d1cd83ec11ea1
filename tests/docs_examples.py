"""The examples that help pages show, and the project they are run in."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from specify_cli.cli.tables.command_table import list_commands
from support import CHARTER, environment, git, run_main

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
    "src/login.py": "def login(name):\n" + "    name = name.strip()\n" * 12,
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
    "spec-kitty replay ID --ab MODEL --endpoint https://models.example.org/v1/messages": "CONSENT_NEEDED",
    "spec-kitty capsule": "INVALID_VALUE",
    "spec-kitty capsule --check": "INVALID_VALUE",
    "spec-kitty cold pack 2026-10": "COLD_REFUSED",
    "spec-kitty cold unpack 2026-10": "COLD_REFUSED",
    "spec-kitty sync push": "SYNC_DISABLED",
    "spec-kitty sync push --dry-run": "SYNC_DISABLED",
    "spec-kitty sync retry": "SYNC_DISABLED",
    "spec-kitty charter synthesize": "INVALID_VALUE",
    "spec-kitty setup": "INVALID_VALUE",
    "spec-kitty approve ID --call CALL_ID": "INVALID_VALUE",
    "spec-kitty collector token revoke TOKEN_ID --db events.db": "INVALID_VALUE",
    "spec-kitty trail enroll --key ~/.ssh/id_ed25519": "INVALID_VALUE",
    "spec-kitty trail push": "TRAIL_NOT_ACCEPTED",
    "spec-kitty trail push --remote upstream": "TRAIL_NOT_ACCEPTED",
    "spec-kitty trail fetch --source ledger.sqlite": "INVALID_VALUE",
    "spec-kitty packs add ../house-rules": "PACK_NOT_FOUND",
    "spec-kitty import spec-kitty ../old-checkout": "SPEC_KITTY_NOT_FOUND",
    "spec-kitty packs update house-rules --rev v1.3 --dry-run": "PACK_NOT_FOUND",
    "spec-kitty packs remove house-rules": "PACK_NOT_FOUND",
    "spec-kitty packs add ../rules.git --rev v1.2 --dry-run": "PACK_NOT_FETCHED",
    "spec-kitty packs verify --allowed-signers team-keys": "INVALID_VALUE",
    "spec-kitty packs build . --key ~/.ssh/id_ed25519": "PACK_NOT_FOUND",
    "spec-kitty gate waive tests ID --reason 'words only' --until 2026-12-31 --key ~/.ssh/id_ed25519": "INVALID_VALUE",
}
# The extras without which a line may be refused, by words of it.
NEEDS = {
    "cold pack": "cold",
    "origin --release": "view",
    "report --since 30d --html": "view",
    "--html two.html": "view",
    "spec-kitty collector": "collector",
    "--parquet": "parquet",
    "--format otlp --endpoint": "sync",
    "--ab MODEL": "sync",
    "spec-kitty view": "view",
    "spec-kitty mcp serve": "mcp",
    "spec-kitty sync": "sync",
    "spec-kitty trail": "trail",
    "--engine dask": "fleet",
    "--source postgresql": "collector",
}
# They go on until they are stopped; tests of their own run them.
ENDLESS = ("--follow", "collector serve", "spec-kitty view")
# Whether a shell runs it: what a shell has a part in. All of them run in processes in tests/docs/test_bare_install.py.
EXAMPLES = {
    example: bool(re.search(r"[|<>&;*?$~]|^(?!spec-kitty )", example))
    for command in list_commands()
    for example in command.examples
    if not any(word in example for word in ENDLESS)
}


def name_extra(line: str) -> str | None:
    """Return the extra that a command line needs; None where it works with the default dependencies."""
    return next((name for words, name in NEEDS.items() if words in line), None)


class Prepared(NamedTuple):
    """A project with a closed run, another one, an open one with a call in doubt, and that call's id."""

    root: Path
    closed: str
    other: str
    unfinished: str
    call: str


def prepare(repository: Path, folder: Path) -> Prepared:
    """Make the project that each example gets a copy of."""
    root = Path(shutil.copytree(repository, folder / "project"))
    (root / ".kittify/charter").mkdir(parents=True)
    (root / ".kittify/charter/charter.md").write_text(CHARTER)
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    code = (
        "import os, agent\n"
        "from specify_cli.features.programs.run import open_invocation\n"
        "from specify_cli.features.programs.resume import program_digest\n"
        "program = program_digest(agent.main)\n"
        "for _ in range(2):\n"
        "    with open_invocation('.', 'implement WP03', program=program) as run:\n"
        "        agent.main(run)\n"
        "        print(run.invocation_id, flush=True)\n"
        "run = open_invocation('.', 'implement WP04', program=program).__enter__()\n"
        "run.stage('ready'); run.step('look', lambda: 'seen')\n"
        "print(run.invocation_id, flush=True)\n"
        "run.model_call('gpt', 'ask', call=agent.ask)\n"
        "run.tool('send', side_effect='idempotent', idempotency_key='k')(lambda: os._exit(0))()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment(root), capture_output=True, text=True, check=True
    )
    closed, other, unfinished = done.stdout.split()
    events = run_main(["invocations", "show", unfinished, "--json"], cwd=root, home=folder).json()["events"]
    call = next(event["call_id"] for event in reversed(events) if event["event"] == "tool_call")
    run_main(["init"], cwd=root, home=folder)
    make_releases(root, folder / "origin.git")
    run_main(["invocations", "export", closed, "-o", "exported.tar"], cwd=root, home=folder)
    run_main(["collector", "token", "create", "ada", "--db", "events.db", "--project", "all"], cwd=root, home=folder)
    return Prepared(root, closed, other, unfinished, call)


def make_releases(root: Path, remote: Path) -> None:
    """Give the project two releases and a remote."""
    for message, tag in (("start", "v1.4"), ("more", "v1.5")):
        (root / "src/login.py").write_text(f"{(root / 'src/login.py').read_text()}    # {message}\n")
        git(root, "add", "src")
        git(root, "commit", "-qm", message)
        git(root, "tag", tag)
    git(root, "clone", "-q", "--bare", ".", str(remote))
    git(root, "remote", "add", "origin", str(remote))
    git(root, "fetch", "-q", "origin")


def place_ids(prepared: Prepared, example: str) -> str:
    """Give an example what it reads, in its own copy of the project, and return it with the reader's ids in it."""
    open_one = "profile-invocation" in example or "resume" in example or "approve" in example
    if "import run.tar" in example:
        (prepared.root / "exported.tar").rename(prepared.root / "run.tar")
    (prepared.root / "call.json").write_text(
        json.dumps(HOOK) if "hooks test" in example else '{"call_id": "c2", "tool": "grep"}'
    )
    if "hooks" in example or "skills" in example:
        (prepared.root / ".claude").mkdir()
    line = re.sub(r"\bCALL_ID\b", prepared.call, example)
    line = re.sub(r"\bOTHER_ID\b", prepared.other, line)
    return re.sub(r"\bID\b", prepared.unfinished if open_one else prepared.closed, line)
