"""A process that is killed at any step of a merge, and run again, leaves what one run leaves: nothing twice or lost.

The child is forked with everything loaded. Before its nth call that changes a file it kills itself with SIGKILL, and of
a write it leaves the first half.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from features.sessions.test_import_sessions import play_with_transcript
from features.sessions.test_merging import list_calls, lose, read_all
from features.sessions.test_witnesses import Agent
from harness.importing import reduce
from support import FULL, Cli

pytestmark = pytest.mark.stress
_CHANGING = ("write", "link", "rename", "replace", "unlink", "open")


def _kill_at(step: int, work: Callable[[], object]) -> bool:
    """Run work in a forked child that dies at a step; return whether it came to that step."""
    child = os.fork()
    if child == 0:
        numbers = itertools.count(1)
        for name in _CHANGING:
            setattr(os, name, partial(_die_or_do, getattr(os, name), numbers, step))
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _die_or_do(act: Callable[..., Any], numbers: Iterator[int], step: int, *args: Any, **more: Any) -> Any:
    creates = act.__name__ != "open" or (len(args) > 1 and args[1] & os.O_CREAT)
    if creates and next(numbers) == step:
        if act.__name__ == "write":
            act(args[0], bytes(args[1])[: len(args[1]) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return act(*args, **more)


class Places:
    """Folders that are put back as they were."""

    def __init__(self, aside: Path, *folders: Path) -> None:
        self._kept = {folder: aside / str(number) for number, folder in enumerate(folders)}
        for folder, kept in self._kept.items():
            shutil.copytree(folder, kept, symlinks=True)

    def restore(self) -> None:
        for folder, kept in self._kept.items():
            shutil.rmtree(folder)
            shutil.copytree(kept, folder, symlinks=True)


@pytest.mark.parametrize("harness", ["claude-code", "gemini"])
def test_an_import_that_was_killed_and_run_again(
    harness: str, chartered: Path, cli: Cli, home: Path, tmp_path: Path
) -> None:
    """The payloads of the second half were lost, and the record is closed: what it lacks are annexes."""
    play_with_transcript(harness, chartered, cli, home, partial(lose, "second half"), now=True)
    places = Places(tmp_path / "aside", chartered, home)
    words = ("import", "sessions", "--harness", harness)
    cli(*words)
    whole = read_all(chartered)
    for step in itertools.count(1, 1 if FULL else 41):
        places.restore()
        was_killed = _kill_at(step, lambda: cli(*words))
        done, report = cli(*words), cli("invocations", "verify", "--all", "--json").json()
        found = read_all(chartered)

        assert (done.code, list_calls(found)) == (0, list_calls(whole)), step
        assert reduce(harness, found) == reduce(harness, whole), step
        assert len([line for line in found if line["event"] != "reconciled"]) == len(
            [line for line in whole if line["event"] != "reconciled"]
        ), step
        assert [item["code"] for item in report["findings"] if item["severity"] == "error"] == [], step
        if not was_killed:
            break
    assert step > 9


def test_the_end_of_a_turn_that_was_killed_and_told_again(
    chartered: Path, cli: Cli, home: Path, tmp_path: Path
) -> None:
    """No hook told the calls of the turn, and the record is open."""
    agent = Agent(chartered, home, cli)
    agent.ask("fix it", hooks=False)
    for number in range(3):
        agent.call(f"t{number}", f"make {number}", "made", hooks=False, error=number == 1)
    agent.write("assistant", [{"type": "text", "text": "Done."}], usage={"input_tokens": 5})
    places = Places(tmp_path / "aside", chartered, home)

    def stop() -> None:
        agent.tell("Stop", last_assistant_message="Done.", prompt_id="p1")

    def read() -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = cli("invocations", "show", agent.run, "--json").json()["events"]
        return events

    stop()
    whole = read()
    for step in itertools.count(1, 1 if FULL else 4):
        places.restore()
        was_killed = _kill_at(step, stop)
        stop()
        report = cli("invocations", "verify", "--all", "--json").json()
        found = read()

        assert reduce("claude-code", found) == reduce("claude-code", whole), step
        assert list_calls(found) == list_calls(whole), step
        assert [item["code"] for item in report["findings"] if item["severity"] == "error"] == [], step
        if not was_killed:
            break
    assert step > 3
