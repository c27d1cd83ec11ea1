"""Whole sessions of every harness: what their hooks leave is the story that lies beside the recording."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook
from specify_cli.record import layout
from support import Cli

FIXTURES = Path(__file__).parents[2] / "fixtures/sessions"
SESSIONS = sorted(str(path.relative_to(FIXTURES).with_suffix("")) for path in FIXTURES.glob("*/*.jsonl"))
# A session of each harness: the whole job where its program could be run, else what its documentation says.
WHOLE = [name for name in SESSIONS if name.rpartition("/")[2] in ("job", "documented")]
# Which other harness's settings a harness reads too.
READERS = ("cursor/documented", "copilot/job")
Deliver = Callable[[str, bytes], None]


class Session:
    """A recorded session, played in a project: each `do` and `complete` is really run before its result is told."""

    def __init__(self, name: str, root: Path, cli: Cli, deliver: Deliver) -> None:
        self.name, self.root, self.cli, self.deliver = name, root, cli, deliver
        self.harness = name.partition("/")[0]
        self.answers: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.closed: set[str] = set()
        cli("init", cwd=root)
        text = (FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8")
        self.payloads = [json.loads(line) for line in text.splitlines()]

    def play(self) -> list[str]:
        for data in self.told():
            self.deliver(self.harness, data)
        return self.story()

    def told(self) -> Iterator[bytes]:
        """The payloads as the harness sends them in this project, one by one."""
        for payload in self.payloads:
            text = json.dumps(payload)
            for number in dict.fromkeys(re.findall(r"@ANSWER(\d*)@", text)):
                self._do(number, payload)
            for number in dict.fromkeys(re.findall(r"@ID(\d*)@ closed", text)):
                self._complete(number, payload)
            if self.harness in ("cursor", "antigravity") and ("@TRANSCRIPT@" in text or "closed" in text.split()):
                self._do("", payload)
            if self.harness == "antigravity" and "@ID@" in text:
                self._complete("", payload)
            yield json.dumps(self._here(payload)).encode()

    def _here(self, value: Any) -> Any:
        root, home = str(self.root), str(self.root.parent / "home")
        places = {"/home/dev/shop": root, "/work/shop": root, "/home/dev/home": home}
        for number, answer in self.answers.items():
            places |= {f"@ANSWER{number}@": answer, f"@ID{number}@": self.ids[number]}
        return self._put(value, places | {"@TRANSCRIPT@": str(self.root.parent / "transcript.jsonl")})

    def _put(self, value: Any, places: Mapping[str, str]) -> Any:
        """Return a payload with what stands for places, answers and ids replaced in order."""
        if isinstance(value, dict):
            return {key: self._put(item, places) for key, item in value.items()}
        if isinstance(value, list):
            return [self._put(item, places) for item in value]
        if not isinstance(value, str):
            return value
        if value.startswith("{") and self.harness == "cursor":  # its results are JSON in JSON
            return json.dumps(self._put(json.loads(value), places))
        for there, here in places.items():
            value = value.replace(there, here)
        return value

    def _environment(self, payload: Mapping[str, Any]) -> dict[str, str]:
        """What the harness sets for the commands it runs."""
        session, agent = payload.get("session_id", ""), payload.get("agent_id")
        return {
            "claude-code": {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": session},
            "codex": {
                "CODEX_SESSION_ID": session,
                "CODEX_THREAD_ID": agent or session,
                "CODEX_TOOL_CALL_ID": payload.get("tool_use_id", ""),
            },
            "gemini": {"GEMINI_CLI": "1"},
            "copilot": {"COPILOT_CLI": "1", "COPILOT_AGENT_SESSION_ID": self.payloads[0].get("session_id", "")},
            "opencode": {
                "OPENCODE": "1",
                "SPEC_KITTY_OPENCODE_SESSION": session,
                "SPEC_KITTY_OPENCODE_CALL": payload.get("tool_use_id", ""),
            },
            "qwen": {"QWEN_CODE": "1"},
        }.get(self.harness, {})

    def _do(self, number: str, payload: Mapping[str, Any]) -> None:
        if number in self.answers:
            return
        request = re.search(r'spec-kitty do \\+"(.*?)\\+"', json.dumps(payload))
        env = self._environment(payload)
        done = self.cli("do", request[1] if request else "fix the login test", "--json", cwd=self.root, env=env)
        self.answers[number], self.ids[number] = done.out, done.json()["invocation_id"]
        (self.root.parent / "transcript.jsonl").write_text(json.dumps({"content": done.out}) + "\n")

    def _complete(self, number: str, payload: Mapping[str, Any]) -> None:
        if number not in self.closed:
            self.closed.add(number)
            words = ("profile-invocation", "complete", "--invocation-id", self.ids[number])
            assert self.cli(*words, cwd=self.root, env=self._environment(payload)).code == 0

    def story(self) -> list[str]:
        """What the session left: its records in their order, a line an event, and what found no record."""
        story = []
        for number, invocation_id in self.ids.items():
            (path,) = (self.root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
            lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
            story.append(f"record @ID{number}@ {self._describe_start(lines[0])}")
            story += [self._describe(event) for event in lines[4:]]
            for annex in sorted((self.root / layout.annex_folder(invocation_id)).glob("*.jsonl")):
                story.append(f"annex: {self._describe(json.loads(annex.read_text()))}")
        orphans = self.root / layout.ORPHANS
        told = [json.loads(line) for line in orphans.read_text().splitlines()] if orphans.exists() else []
        taken = {key for line in told for key in line.get("taken", ())}
        for line in (line for line in told if "events" in line and taken.isdisjoint(line.get("keys", ()))):
            story += [f"orphan: {event['event']} ({self._name(line['why'])})" for event in line["events"]]
        return story

    def _describe_start(self, started: dict[str, Any]) -> str:
        session, parent = started.get("session") or {}, started.get("parent_invocation_id")
        said = [started["actor"]["actor_type"], "in its session" if "session_id" in session else "of no session"]
        said += ["in a subagent"] if "agent_id" in session else []
        return ", ".join([*said, *([] if parent is None else [f"for {self._name(parent)}"])])

    def _describe(self, event: dict[str, Any]) -> str:
        """An event in a line: what it is, whose, and what it is about."""
        told = [event["event"], "[of a subagent]" if "agent" in event else ""]
        told += [str(event[key]) for key in ("tool", "status", "side_effect", "kind", "path") if key in event]
        told += [str(event[key]) for key in ("to", "error_code", "outcome", "closed_by", "change") if key in event]
        told += ["by another" if "by" in event else "", "inferred" if event.get("inferred") else ""]
        if event["event"] == "patch_apply":
            told.append("+".join(name for name in ("before", "after", "diff") if f"{name}_hash" in event) or "no text")
        kept = event.get("args" if event["event"] == "tool_call" else "text")
        if kept is not None:
            told.append(self._name(str(kept.get("text", kept.get("head"))))[:90])
        return self._name(" ".join(part for part in told if part)).rstrip()

    def _name(self, text: str) -> str:
        for number, invocation_id in self.ids.items():
            text = text.replace(invocation_id, f"@ID{number}@")
        return text.replace(str(self.root), "/home/dev/shop")


def expected(name: str) -> list[str]:
    return (FIXTURES / f"{name}.expected").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def in_process(home: Path, chartered: Path) -> Deliver:
    """The hook as its process runs it, without the process."""
    return lambda harness, data: run_hook(harness, data, str(chartered), str(home))


def intact(cli: Cli, root: Path) -> bool:
    failures = root / layout.HOOK_FAILURES
    report = cli("invocations", "verify", "--json", cwd=root).json()
    print(report, failures.exists() and failures.read_text())
    return not failures.exists() and [item for item in report["findings"] if item["severity"] != "info"] == []


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_leaves_the_story_beside_it(name: str, cli: Cli, chartered: Path, in_process: Deliver) -> None:
    session = Session(name, chartered, cli, in_process)
    story = session.play()

    if os.environ.get("SPEC_KITTY_WRITE_EXPECTED"):
        (FIXTURES / f"{name}.expected").write_text("\n".join(story) + "\n", encoding="utf-8")
    assert story == expected(name)
    assert intact(cli, chartered)
    if name in WHOLE and not name.endswith("documented"):
        see_the_closing_call_ended(session, cli)


def see_the_closing_call_ended(session: Session, cli: Cli) -> None:
    """The call that closed its record is shown as ended."""
    for run in session.ids.values():
        shown = cli("invocations", "show", run, cwd=session.root).out
        closing = [line for line in shown.splitlines() if "profile-invocation complete" in line]
        assert closing and not [line for line in closing if " open " in f"{line} "], closing
        assert "in doubt" not in cli("replay", run, cwd=session.root).out


@pytest.mark.parametrize("name", ["claude-code/job", "copilot/job"])
def test_a_session_told_by_real_hook_processes_leaves_the_same(name: str, cli: Cli, chartered: Path) -> None:
    def deliver(harness: str, data: bytes) -> None:
        assert cli("hook", harness, stdin=data) == (0, "", "")

    assert Session(name, chartered, cli, deliver).play() == expected(name)
    assert intact(cli, chartered)


@pytest.mark.parametrize("name", WHOLE)
def test_a_session_told_twice_leaves_the_same(
    name: str, cli: Cli, chartered: Path, home: Path, in_process: Deliver
) -> None:
    """Every event twice in a row, then the whole session again after it was closed.

    Copilot's equal payloads from one settings file are two calls, so the second of each comes from another.
    """

    def twice(harness: str, data: bytes) -> None:
        in_process(harness, data)
        run_hook(harness, data, str(chartered), str(home), source="user" if harness == "copilot" else "")

    session = Session(name, chartered, cli, twice)
    story = session.play()

    assert story == expected(name)
    assert session.harness == "copilot" or session.play() == expected(name)
    assert intact(cli, chartered)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("lag", [0, 3])
def test_a_session_told_through_two_harness_files_leaves_the_same(
    name: str, lag: int, cli: Cli, chartered: Path, in_process: Deliver
) -> None:
    """The second file's hooks run at the same moment, or some events behind."""
    session = Session(name, chartered, cli, in_process)
    waiting: list[bytes] = []
    with ThreadPoolExecutor(2) as pool:
        for data in session.told():
            waiting.append(data)
            late = [waiting.pop(0)] if len(waiting) > lag else []
            for done in [pool.submit(in_process, session.harness, data)] + [
                pool.submit(in_process, "claude-code", other) for other in late
            ]:
                done.result()
    for data in waiting:
        in_process("claude-code", data)

    assert session.story() == expected(name)
    assert intact(cli, chartered)
