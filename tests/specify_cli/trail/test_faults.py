"""Every call that writes fails once, is cut short, or is the last: what was answered is there, the rest heals."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.errors import InvocationError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.signed_log.signing import make_checkpoint
from specify_cli.trail.log.entries import open_log
from support import FULL, accept
from trails import RECORDS, Clock, codes, load, make_repository, verify

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CALLS = ("open", "write", "fsync", "fdatasync", "link", "rename", "unlink", "mkdir", "ftruncate")
FAULTS = ("EIO", "ENOSPC", "EDQUOT", "SIGKILL", "short")


class Faults:
    """Counts the calls that write, and has the one of a number go wrong."""

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind, self.count = at, kind, 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in _CALLS:
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not (len(args) > 1 and args[1] & _WRITING):
                return real(*args, **kwargs)
            self.count += 1
            if self.count != self.at:
                return real(*args, **kwargs)
            if self.kind == "SIGKILL":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "short":
                return real(args[0], args[1][: max(1, len(args[1]) // 2)]) if name == "write" else real(*args, **kwargs)
            raise OSError(getattr(errno, self.kind), os.strerror(getattr(errno, self.kind)))

        return call


def _run(root: Path, act: Callable[[Path], None], at: int, kind: str) -> int:
    """Run a command in which one call goes wrong: 0 answered, 1 refused, 2 not reached, -9 killed, in a child."""
    if kind != "SIGKILL":
        return _try(root, act, Faults(at, kind))
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = _try(root, act, Faults(at, kind))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _try(root: Path, act: Callable[[Path], None], faults: Faults) -> int:
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        try:
            act(root)
        except (InvocationError, OSError):
            return 1
        return 0 if faults.count >= faults.at else 2


def _executor(root: Path) -> ProfileInvocationExecutor:
    dice = random.Random(5)
    # The clock of the machine: what a crash left is logged if it was written when its pending file was.
    return ProfileInvocationExecutor(root, clock=Clock(dice, int(time.time())), entropy=dice.randbytes)


def _do(root: Path) -> None:
    _executor(root).invoke("fix the other test")


def _complete(root: Path) -> None:
    (path,) = (root / RECORDS).glob("*.jsonl")
    _executor(root).complete(path.name[-32:-6])


def _checkpoint(root: Path) -> None:
    make_checkpoint(load(root))


def _leaves(root: Path) -> list[tuple[str, str]]:
    found = open_log(load(root)).generations()
    return [(leaf.kind, leaf.invocation_id) for log in found for leaf in log.read_leaves()]


def _check(root: Path, act: Callable[[Path], None], code: int) -> None:
    """What was answered is there and logged; after the next command nothing is wrong, whatever happened."""
    records = sorted(path.name[-32:-6] for path in (root / RECORDS).glob("*.jsonl"))
    if code == 0:
        kinds = {"start": 1 + (act is _do), "close": int(act is _complete)}
        for kind, number in kinds.items():
            assert sum(item[0] == kind for item in _leaves(root)) == number
    assert codes(verify(root)) == set()
    ProfileInvocationExecutor(root).invoke("fix one more")
    if act is _complete:
        _complete_again(root, records[0])
    _checkpoint(root)
    found = verify(root)
    assert (found.level, codes(found)) == ("logged", set())
    assert {item[1] for item in _leaves(root)} >= set(records)


def _complete_again(root: Path, invocation_id: str) -> None:
    _executor(root).complete(invocation_id)
    assert ("close", invocation_id) in _leaves(root)


@pytest.mark.stress
@pytest.mark.parametrize("trail", ["private", "committed"])
@pytest.mark.parametrize("act", [_do, _complete, _checkpoint], ids=["do", "complete", "checkpoint"])
def test_no_fault_loses_what_was_answered(tmp_path: Path, act: Callable[[Path], None], trail: str) -> None:
    begun = make_repository(tmp_path / "begun", trail)
    accept(begun)
    _executor_of_the_past(begun)
    dice = random.Random(trail)
    tried = answered = 0
    # The more calls write, the longer the steps from one that fails to the next.
    stride = (6, 18) if trail == "private" else (20, 60) if act is _complete else (6, 20)
    for kind in FAULTS:
        at = 1 if FULL else dice.randrange(1, 5)
        while True:
            root = tmp_path / "root"
            shutil.copytree(begun, root)
            accept(root)  # what a person accepted counts in the folder it was accepted in
            code = _run(root, act, at, kind)
            if code == 2:
                shutil.rmtree(root)
                break
            assert code in (0, 1, -9), (kind, at, code)
            tried, answered = tried + 1, answered + (code == 0)
            try:
                _check(root, act, code)
            except AssertionError as error:
                raise AssertionError(f"{kind} at call {at}, exit {code}") from error
            shutil.rmtree(root)
            at += 1 if FULL else dice.randrange(*stride)

    print(f"{trail} {act.__name__[1:]}: {tried} faults, {answered} answered, the rest refused or killed; nothing lost")

    assert tried > 10
    assert answered > 0


def _executor_of_the_past(root: Path) -> None:
    ProfileInvocationExecutor(root, clock=lambda: 1_790_000_000 * 10**9).invoke("fix the login test")
