"""Whole sessions of every harness: what their hooks leave is the timeline that lies beside the recording."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from specify_cli.hooks.handler import run_hook
from specify_cli.hooks.settings.harnesses import HARNESSES
from specify_cli.record import layout
from support import Cli

FIXTURES = Path(__file__).parents[2] / "fixtures/hooks"
# The sessions of a harness that is told by its environment, where its documentation names the variable.
SESSION_VARIABLE = {"claude-code": "CLAUDE_CODE_SESSION_ID", "codex": "CODEX_SESSION_ID"}
# Which other harness's settings a harness reads too.
READERS = ("cursor", "copilot")
Deliver = Callable[[str, bytes], None]


class Played(NamedTuple):
    """What a session left: the story of its record, its orphans, and the record's id."""

    story: list[str]
    invocation_id: str


class Session:
    """A recorded session, played in a project: its `do` and its `complete` are really run when their turn comes."""

    def __init__(self, harness: str, root: Path, cli: Cli, deliver: Deliver) -> None:
        self.harness, self.root, self.cli, self.deliver = harness, root, cli, deliver
        self.answer = self.invocation_id = ""
        lines = (FIXTURES / harness / "session.jsonl").read_text(encoding="utf-8").splitlines()
        self.payloads = [json.loads(line) for line in lines]

    def play(self) -> Played:
        for data in self.told():
            self.deliver(self.harness, data)
        return self.played()

    def told(self) -> Iterator[bytes]:
        """The payloads as the harness sends them in this project, one by one."""
        for payload in self.payloads:
            yield json.dumps(self._here(payload)).encode()

    def _here(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._here(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._here(item) for item in value]
        if not isinstance(value, str):
            return value
        if value.startswith("{"):
            return json.dumps(self._here(json.loads(value)))
        if ("@ANSWER@" in value or value == "@TRANSCRIPT@") and not self.answer:
            self._do()
        if "closed" in value.split():
            self._complete()
        value = value.replace("/work/shop", str(self.root)).replace("@ANSWER@", self.answer)
        value = value.replace("@TRANSCRIPT@", str(self.root.parent / "transcript.jsonl"))
        if self.harness == "antigravity" and "@ID@" in value:
            self._complete()
        return value.replace("@ID@", self.invocation_id)

    def _do(self) -> None:
        variable = SESSION_VARIABLE.get(self.harness)
        env = {} if variable is None else {variable: self.payloads[0]["session_id"]}
        done = self.cli("do", "fix the login test", "--json", cwd=self.root, env=env)
        self.answer, self.invocation_id = done.out, done.json()["invocation_id"]
        (self.root.parent / "transcript.jsonl").write_text(json.dumps({"content": done.out}) + "\n")

    def _complete(self) -> None:
        self.cli("profile-invocation", "complete", "--invocation-id", self.invocation_id, cwd=self.root)

    def played(self) -> Played:
        (path,) = (self.root / layout.RECORDS).glob(f"*{self.invocation_id}.jsonl")
        events = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]][4:]
        orphans = self.root / layout.ORPHANS
        lines = [json.loads(line) for line in orphans.read_text().splitlines()] if orphans.exists() else []
        story = [_line(event) for event in events]
        for line in lines:
            why = line["why"].replace(self.invocation_id, "ID")
            story += [
                f"orphan: {_line({**json.loads(e['payload']), 'event': e['event']})} ({why})" for e in line["events"]
            ]
        return Played(story, self.invocation_id)


def _line(event: dict[str, Any]) -> str:
    """An event in a line: what it is, whose, and what it is about."""
    told = [event["event"], f"[{event['agent']}]" if "agent" in event else ""]
    told += [str(event[key]) for key in ("tool", "status", "side_effect", "kind", "path") if key in event]
    told += [str(event[key]) for key in ("to", "error_code", "outcome") if key in event]
    if event["event"] == "patch_apply":
        told.append("+".join(name for name in ("before", "after", "diff") if f"{name}_hash" in event) or "no text")
    return " ".join(part for part in told if part)


def expected(harness: str) -> list[str]:
    return (FIXTURES / harness / "session.expected").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def in_process(home: Path, chartered: Path) -> Deliver:
    """The hook as its process runs it, without the process."""
    return lambda harness, data: run_hook(harness, data, str(chartered), str(home))


def intact(cli: Cli, root: Path) -> bool:
    failures = root / layout.HOOK_FAILURES
    report = cli("invocations", "verify", "--json", cwd=root).json()
    print(report, failures.exists() and failures.read_text())
    return not failures.exists() and report["findings"] == []


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_session_leaves_the_timeline_beside_it(harness: str, cli: Cli, chartered: Path, in_process: Deliver) -> None:
    played = Session(harness, chartered, cli, in_process).play()

    if os.environ.get("SPEC_KITTY_WRITE_EXPECTED"):
        (FIXTURES / harness / "session.expected").write_text("\n".join(played.story) + "\n", encoding="utf-8")
    assert played.story == expected(harness)
    assert intact(cli, chartered)


@pytest.mark.parametrize("harness", ["claude-code", "copilot"])
def test_a_session_told_by_real_hook_processes_leaves_the_same(harness: str, cli: Cli, chartered: Path) -> None:
    def deliver(name: str, data: bytes) -> None:
        assert cli("hook", name, stdin=data) == (0, "", "")

    assert Session(harness, chartered, cli, deliver).play().story == expected(harness)
    assert intact(cli, chartered)


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_session_told_twice_leaves_the_same(harness: str, cli: Cli, chartered: Path, in_process: Deliver) -> None:
    """Every event twice in a row, then the whole session again after it was closed."""

    def twice(name: str, data: bytes) -> None:
        in_process(name, data)
        in_process(name, data)

    session = Session(harness, chartered, cli, twice)
    session.play()

    assert session.play().story == expected(harness)
    assert intact(cli, chartered)


@pytest.mark.parametrize("harness", READERS)
@pytest.mark.parametrize("lag", [0, 3])
def test_a_session_told_through_two_harness_files_leaves_the_same(
    harness: str, lag: int, cli: Cli, chartered: Path, in_process: Deliver
) -> None:
    """The second file's hooks run at the same moment, or some events behind."""
    session = Session(harness, chartered, cli, in_process)
    waiting: list[bytes] = []
    with ThreadPoolExecutor(2) as pool:
        for data in session.told():
            waiting.append(data)
            late = [waiting.pop(0)] if len(waiting) > lag else []
            for done in [pool.submit(in_process, harness, data)] + [
                pool.submit(in_process, "claude-code", other) for other in late
            ]:
                done.result()
    for data in waiting:
        in_process("claude-code", data)

    assert session.played().story == expected(harness)
    assert intact(cli, chartered)
