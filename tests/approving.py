"""A record that an agent opened, and a person who approves what it is about to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keys import ADA, allow, make_key
from record_lines import rewrite
from specify_cli.features.approvals.approvals import NAMESPACE, make_statement
from specify_cli.features.approvals.approving import Wish, approve
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.ssh.signatures import sign_text
from support import Ran, git, run_main
from trails import RECORDS, load, make_repository

AGENT = Caller(Actor("claude-code", "llm"), {"harness": "claude-code", "session_id": "s1"})
PERSON = Caller(Actor("ada", "human"))
START = 1_790_000_000


class Project:
    """A record that an agent opened, with calls that are open; a key, and the verifier's file that allows it."""

    def __init__(self, folder: Path, calls: Sequence[str] = ("c1", "c2")) -> None:
        self.root, self.folder = make_repository(folder / "trail"), folder
        git(self.root, "config", "user.email", ADA)
        self.home, self.now = folder / "home", START
        self.home.mkdir(exist_ok=True)
        self.key = make_key(folder, "ada")
        self.allowed = allow(folder, self.key)
        self.executor = ProfileInvocationExecutor(self.root, clock=self.clock)
        self.id = self.executor.invoke(
            "deploy the site to production", profile="builder-bea", caller=AGENT
        ).invocation_id
        for name in calls:
            self.record("tool_call", call_id=name, tool="deploy", args={"to": "production"})

    def clock(self) -> int:
        self.now += 1
        return self.now * 1_000_000_000

    def record(self, event: str, **payload: object) -> None:
        self.executor.record(self.id, [(event, payload)], caller=AGENT)

    def approve(self, caller: Caller = PERSON, **wish: Any) -> None:
        wish = {"refers_to": "call", "name": "c1", "key": str(self.key), **wish}
        approve(load(self.root), self.id, caller, Wish(**wish), clock=self.clock)

    def end(self, call: str = "c1", status: str = "ok") -> None:
        self.record("tool_result", call_id=call, status=status)

    @property
    def file(self) -> Path:
        (path,) = (self.root / RECORDS).glob(f"*{self.id}.jsonl")
        return path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_bytes().splitlines()]

    def forge(self, change: Callable[[list[dict[str, Any]]], object]) -> None:
        """Change the record's lines and chain them anew, as whoever owns the clone can."""
        rewrite(self.file, change)

    def resign(self, key: Path, **members: object) -> None:
        """Change the approval, and sign it as it then is."""

        def change(lines: list[dict[str, Any]]) -> None:
            line = next(line for line in lines if line["event"] == "approval")
            line.update(members)
            line["signature"] = sign_text(str(key), NAMESPACE, make_statement({**line, "invocation_id": self.id}))

        self.forge(change)

    def run(self, *argv: str) -> Ran:
        return run_main(list(argv), cwd=self.root, home=self.home)

    def verify(self, *more: str) -> Ran:
        return self.run("invocations", "verify", self.id, "--json", "--allowed-signers", self.allowed, *more)

    def codes(self) -> set[str]:
        return {item["code"] for item in self.verify().json()["findings"] if item["severity"] == "error"}
