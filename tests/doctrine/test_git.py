"""git is started without anything that a `do` would wait for, and its answer is what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from doctrine import git as asked
from support import git


@pytest.fixture
def top(tmp_path: Path) -> str:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.txt").write_text("x" * 300_000)
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-qm", "one")
    return str(tmp_path)


def test_an_answer_is_all_that_git_printed_and_a_failure_is_none(top: str) -> None:
    blob = (asked.ask_git(top, "rev-parse", "HEAD:a.txt") or "").strip()

    assert asked.read_git(top, "cat-file", "blob", blob) == b"x" * 300_000
    assert asked.read_git(top, "cat-file", "--batch-check=%(objectsize)", stdin=f"{blob}\n".encode()) == b"300000\n"
    assert asked.read_git(top, "cat-file", "blob", "0" * 40) is None
    assert asked.read_git(os.path.dirname(top), "status") is None


def test_git_has_nothing_of_a_name_that_holds_a_line_break(top: str) -> None:
    assert asked.read_contents(top, ["HEAD:a\nb", "HEAD:a.txt", "HEAD:b.txt"]) == [None, b"x" * 300_000, None]


def test_git_says_nothing_beside_what_fails(top: str) -> None:
    done = asked.run_git(top, ("push", top, "HEAD:refs/heads/main/below"), network=True)

    assert done and done.returncode and b"hint:" not in done.stderr


def test_without_git_the_caller_is_told(top: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    before = os.listdir("/proc/self/fd") if sys.platform == "linux" else []

    with pytest.raises(asked.GitNotStarted, match="No such file"):
        asked.read_git(top, "rev-parse", "HEAD")
    with pytest.raises(asked.GitNotStarted, match="No such file"):
        asked.run_git(top, ("rev-parse", "HEAD"))
    assert (os.listdir("/proc/self/fd") if sys.platform == "linux" else []) == before


def test_one_that_takes_too_long_is_ended(top: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 600\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(asked, "_SECONDS", 3)

    assert asked.read_git(top, "rev-parse", "HEAD") is None
    with pytest.raises(ProcessLookupError):
        os.kill(int(slow.with_name("git.pid").read_text()), 0)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-", ">&- 2>&-"])
def test_a_caller_without_standard_streams_gets_the_answer(top: str, tmp_path: Path, closed: str) -> None:
    told = tmp_path / "told"
    code = f"from doctrine.git import ask_git; open({str(told)!r}, 'w').write(repr(ask_git({top!r}, 'branch')))"
    subprocess.run(["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, code], check=True)

    assert told.read_text() == "'* main\\n'"


def test_a_do_that_asks_what_the_branch_changed_loads_no_subprocess(top: str) -> None:
    code = "import sys, doctrine.git as g; g.list_changed(sys.argv[1]); print('subprocess' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code, top], capture_output=True, check=True, text=True)

    assert ran.stdout == "False\n"
