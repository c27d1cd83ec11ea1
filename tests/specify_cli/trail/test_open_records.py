"""An agent can write its own open record: what of that is found, and what is said not to be proven."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from record_lines import rewrite
from specify_cli.features.witness.levels import verify_trail
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.work.records import verify_shared
from specify_cli.libraries.work.sharing import HERE
from specify_cli.record.findings import RecordReport
from specify_cli.record.record import FIX_LINES
from specify_cli.trail.log.entries import open_log
from support import Cli, run_process, wait_until
from trails import RECORDS, codes, load, make_repository, sign, verify

SECOND = 1_000_000_000


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_790_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


class Work:
    """A record that is open, and the agent that works on it."""

    def __init__(self, folder: Path) -> None:
        self.said = 0
        self.root, self.clock = make_repository(folder / "trail"), Clock()
        self.executor = ProfileInvocationExecutor(self.root, clock=self.clock)
        self.id = self.executor.invoke("fix the login test").invocation_id
        (self.path,) = (self.root / RECORDS).glob(f"*{self.id}.jsonl")

    def add(self, number: int = 1) -> None:
        for _ in range(number):
            self.said += 1
            self.executor.record(self.id, [("error", {"error_code": "E1", "message": f"curl {self.said} | sh"})])

    def rewrite_since(self, seq: int) -> None:
        """Write all lines from a seq on anew, with right seals."""

        def clean(lines: list[dict[str, Any]]) -> None:
            for fields in lines[seq:]:
                fields["message"] = "ls"

        rewrite(self.path, clean)

    def list_fixed(self) -> int:
        return sum(
            leaf.kind == "fixed" for log in open_log(load(self.root)).generations() for leaf in log.read_leaves()
        )


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def test_a_tip_is_fixed_every_fifty_lines_every_minute_and_at_a_checkpoint(work: Work) -> None:
    work.add(3)
    none = work.list_fixed()
    work.add(FIX_LINES)
    by_lines = work.list_fixed()
    work.clock.now += 59 * SECOND
    work.add()
    within = work.list_fixed()
    work.clock.now += 2 * SECOND
    work.add(2)
    by_time = work.list_fixed()
    work.executor.commit(work.id, "here")

    assert (none, by_lines, within, by_time, work.list_fixed()) == (0, 1, 1, 2, 3)
    assert codes(verify(work.root)) == set()


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize("change", ["rewrite", "cut"])
def test_whoever_changes_lines_before_a_fixed_tip_is_found(work: Work, closing: bool, change: str) -> None:
    work.add(FIX_LINES + 5)
    if change == "cut":
        work.path.write_bytes(b"".join(work.path.read_bytes().splitlines(keepends=True)[:20]))
        work.add(FIX_LINES)
    else:
        work.rewrite_since(10)
    if closing:
        work.executor.complete(work.id)
        sign(work.root)
    judged = verify(work.root)

    assert (codes(judged), judged.verdict) == ({"FIXED_TIP_MISSING"}, "not_intact")


@pytest.mark.parametrize("closing", [False, True])
def test_what_lies_behind_the_last_fixed_tip_is_said_not_to_be_proven(work: Work, closing: bool) -> None:
    work.add(FIX_LINES + 5)
    work.rewrite_since(FIX_LINES + 2)
    if closing:
        work.executor.complete(work.id)
        sign(work.root)
    judged = verify(work.root)
    said = "that 8 lines of 1 record were not changed before the close (no tip was fixed behind them)"
    cut = "that no line of 1 open record was changed or cut off (8 lines behind the last fixed tip)"

    assert codes(judged) == set()
    assert (said if closing else cut) in judged.not_proven


@pytest.mark.parametrize("closing", [False, True])
def test_one_record_by_itself_is_held_to_the_tips_that_were_fixed_of_it(work: Work, cli: Cli, closing: bool) -> None:
    work.add(FIX_LINES + 5)
    lines = work.path.read_bytes().splitlines(keepends=True)
    if closing:
        work.executor.complete(work.id)
    whole = cli("invocations", "verify", work.id, cwd=work.root)
    work.path.write_bytes(b"".join(lines[:20]))
    cut = cli("invocations", "verify", work.id, cwd=work.root)

    said = "that 8 lines of 1 record were not changed before the close (no tip was fixed behind them)"
    opened = "that no line of 1 open record was changed or cut off (8 lines behind the last fixed tip)"
    assert whole.code == 0 and (said if closing else opened) in whole.out
    assert cut.code == 3 and "FIXED_TIP_MISSING" in cut.out and "NOT INTACT" in cut.out


def test_of_a_log_that_is_damaged_one_record_is_told_that_it_was_not_held_to_it(work: Work, cli: Cli) -> None:
    work.add(FIX_LINES + 5)
    (path,) = work.root.glob(".git/kittify/log/*/*/leaves")
    path.write_bytes(path.read_bytes().replace(f"{work.id} ".encode(), f"{work.id}x".encode()))
    verified = cli("invocations", "verify", work.id, cwd=work.root)

    assert verified.code == 0 and "that its tips are those that the log fixed (the log is damaged" in verified.out


def test_a_hook_fixes_the_tip_behind_its_answer(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "trail")
    home = tmp_path / "home"
    home.mkdir()
    env = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s1"}
    opened = run_process(["do", "fix the login test", "--json"], cwd=root, home=home, env=env).json()
    executor = ProfileInvocationExecutor(root)
    executor.record(opened["invocation_id"], [("error", {"error_code": "E", "message": "m"})] * (FIX_LINES - 5))
    payload = {
        "session_id": "s1",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "cwd": str(root),
    }
    for number in range(3):
        data = json.dumps({**payload, "tool_use_id": f"t{number}"}).encode()
        run_process(["hook", "claude-code"], cwd=root, home=home, env=env, stdin=data)

    def is_fixed() -> bool:
        logs = open_log(load(root)).generations()
        return any(leaf.kind == "fixed" for log in logs for leaf in log.read_leaves())

    wait_until(is_fixed)
    assert codes(verify(root)) == set()


# --- what stands beside the records


def test_a_signed_state_that_outlived_its_log_is_found(work: Work) -> None:
    work.executor.complete(work.id)
    sign(work.root)
    shutil.rmtree(work.root / ".git/kittify/log")

    assert codes(verify(work.root)) == {"LOG_ROLLED_BACK"}


def test_a_record_that_was_forged_with_its_pending_files_is_not_logged(tmp_path: Path) -> None:
    work, other = Work(tmp_path), Work(tmp_path / "other")
    other.clock.now -= 30 * 86_400 * SECOND
    forged = other.executor.invoke("review a request that was never made").invocation_id
    other.executor.complete(forged)
    (path,) = (other.root / RECORDS).glob(f"*{forged}.jsonl")
    work.executor = ProfileInvocationExecutor(work.root)
    (log,) = open_log(load(work.root)).generations()
    begun = work.executor.invoke("fix the other test").invocation_id
    # Of a time after the log began, and before now.
    shutil.copy(path, work.root / RECORDS / path.name)
    for kind in ("start", "close"):
        Path(log.path, "pending", f"{kind}-{forged}-00000001").write_text(str(work.root))
    work.executor.complete(begun)
    leaves = [leaf.invocation_id for leaf in log.read_leaves()]

    assert forged not in leaves


def test_a_record_whose_leaves_are_pending_is_not_called_logged(work: Work) -> None:
    """A file that says a leaf is to come is no leaf: whoever writes beside the log can leave one."""
    work.executor.complete(work.id)
    sign(work.root)
    (log,) = open_log(load(work.root)).generations()
    signed = Path(log.path, "leaves").read_bytes()
    executor = ProfileInvocationExecutor(work.root)
    made = executor.invoke("fix the other test").invocation_id
    executor.complete(made)
    Path(log.path, "leaves").write_bytes(signed)
    for kind in ("start", "close"):
        Path(log.path, "pending", f"{kind}-{made}-00000001").write_text("")
    report = verify(work.root)

    assert {item.code for item in report.findings} == {"LOG_PENDING"}
    assert report.level == "linked"


def test_a_record_that_goes_on_while_others_are_verified_is_not_called_altered(work: Work) -> None:
    """Its close, and a whole new record, come after the log was read: they are newer than what is signed."""
    sign(work.root)
    project = load(work.root)

    def read_late() -> Iterator[RecordReport]:
        work.executor.complete(work.id)
        made = work.executor.invoke("fix the other test").invocation_id
        work.executor.complete(made)
        yield from verify_shared(project, HERE)

    report = verify_trail(project, reports=read_late())

    assert [item.code for item in report.findings if item.severity == "error"] == []
    assert (report.verdict, report.level) == ("intact", "linked")


def test_a_close_that_stands_before_its_start_is_found(work: Work) -> None:
    work.executor.complete(work.id)
    (log,) = open_log(load(work.root)).generations()
    file = Path(log.path, "leaves")
    start, close = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(close + start)

    assert codes(verify(work.root)) == {"LOG_ALTERED"}


def test_a_crash_leaves_start_and_close_in_their_order(work: Work) -> None:
    executor = ProfileInvocationExecutor(work.root)
    made = executor.invoke("fix the other test").invocation_id
    executor.complete(made)
    (log,) = open_log(load(work.root)).generations()
    file = Path(log.path, "leaves")
    file.write_bytes(
        b"".join(line for line in file.read_bytes().splitlines(keepends=True) if made.encode() not in line)
    )
    for kind in ("close", "start"):
        Path(log.path, "pending", f"{kind}-{made}-00000001").write_text(str(work.root))
    executor.invoke("fix the third test")
    kinds = [leaf.kind for leaf in log.read_leaves() if leaf.invocation_id == made]

    assert kinds == ["start", "close"]
    assert codes(verify(work.root)) == set()


def test_an_imported_record_is_named_in_what_is_not_proven(work: Work) -> None:
    imported = work.root / ".kittify/events/imported"
    imported.mkdir(parents=True)
    other = Work(work.root.parent.parent / "elsewhere")
    shutil.copy(other.path, imported / other.path.name)

    assert "that what was imported (1 record) is what its source holds" in verify(work.root).not_proven


def test_the_name_of_a_leaf_to_come_is_durable_before_its_line(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could leave the line alone, and nothing that says whose leaf is missing."""
    synced: list[str] = []
    for name in ("fsync", "fdatasync"):

        def sync(fd: int, real: Callable[[int], None] = getattr(os, name)) -> None:
            synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
            real(fd)

        monkeypatch.setattr(os, name, sync)
    work.executor.complete(work.id)

    assert synced.index("pending") < synced.index(work.path.name) < synced.index("leaves")
