"""Linux behaves as macOS does: other calls, names that differ in case or accents are one name, no /proc, no O_TMPFILE.

Nobody has run it on macOS; these are stand-ins. Those that mount a file system need root and /dev/fuse, or skip.
"""

from __future__ import annotations

import ast
import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from doctrine import load
from doctrine.system import macos
from folding import MISSING, Folding
from specify_cli import durable
from specify_cli.cli.terminal import person
from specify_cli.errors import InvocationError
from specify_cli.record import layout
from support import EVENT, LINES, Ran, environment, git, run_main, run_process

SOURCES = Path(__file__).parents[2] / "src"
# Runs commands in a process that takes itself for one on macOS, without what only Linux has; prints what each did, and
# how often a file was brought to stable storage.
AS_ON_MACOS = """
import builtins, fcntl, json, os, shutil, signal, subprocess, sys, tempfile

for name in ("O_TMPFILE", "fdatasync", "preadv", "posix_fallocate", "memfd_create"):
    delattr(os, name)
sys.platform, full, real, real_open = "darwin", [], fcntl.fcntl, builtins.open

def control(fd, command, argument=0):
    if command != 51:
        return real(fd, command, argument)
    full.append(fd)
    return os.fsync(fd)

def no_proc(path, *rest, **named):
    if str(path).startswith("/proc"):
        raise FileNotFoundError(2, "no such file", path)
    return real_open(path, *rest, **named)

fcntl.fcntl, builtins.open = control, no_proc
from specify_cli.cli.main import main
for words in json.load(real_open(sys.argv[1])):
    before, records = len(full), ".kittify/events/profile-invocations"
    code = main([max(os.listdir(records))[-32:-6] if word == "ID" else word for word in words])
    os.write(2, f"{words[0]}: {code}, {len(full) - before}\\n".encode())
    assert code == 0, words
from doctrine import os as chosen
assert chosen.__name__ == "doctrine.system.macos"
"""


def run_lines(program: str, project: Path, home: Path) -> Ran:
    """Run the record's path through commands in a process that a program makes another system's."""
    (home / "lines.json").write_text(json.dumps(LINES))
    argv = [sys.executable, "-c", program, str(home / "lines.json")]
    done = subprocess.run(argv, cwd=project, env=environment(home), input=EVENT, capture_output=True, check=False)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_sync_on_macos_empties_the_drives_cache_and_falls_back_where_that_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def control(_: int, command: int) -> None:
        calls.append(command)
        if codes:
            raise OSError(codes[0], "refused")

    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(durable, "os", macos)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    codes: list[int] = []
    durable.sync_data(fd)
    for code in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY):
        codes = [code]
        durable.sync_data(fd)
    codes = [errno.EIO]
    with pytest.raises(OSError, match="refused"):
        durable.sync_data(fd)
    os.close(fd)

    assert calls == [51, *([51, "fsync"] * 4), 51]


def test_a_record_is_made_closed_and_verified_without_what_only_linux_has(chartered: Path, home: Path) -> None:
    done = run_lines(AS_ON_MACOS, chartered, home)

    assert done.code == 0, done.err
    synced = [int(line.split(", ")[1]) for line in done.err.splitlines() if ": 0, " in line]
    assert min(synced[:3]) > 0 and synced[3:] == [0, 0]
    assert "intact" in done.out


def test_without_preadv_bytes_are_found_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x" * 262_140 + b"needle")
    monkeypatch.delattr(os, "preadv")
    monkeypatch.setattr(durable, "os", macos)
    with (tmp_path / "file").open("rb") as file:
        assert durable.holds(file.fileno(), b"needle") and not durable.holds(file.fileno(), b"needles")


def test_where_no_link_can_be_made_macos_renames_without_replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def renameatx_np(*given: object) -> int:
        asked.append(given)
        return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameatx_np=renameatx_np))
    durable.rename_exclusive(7, ".tmp-é", "name")

    assert asked == [(7, ".tmp-é".encode(), 7, b"name", 4)]


@pytest.mark.parametrize("code", ["ELOOP", "EMLINK", "ENOTDIR"])
def test_a_link_is_named_whatever_the_system_answers_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    (tmp_path / "folder").mkdir()
    number = getattr(errno, code)

    class Answering:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def open(self, path: str, flags: int, *rest: Any, **named: Any) -> int:
            if named.get("dir_fd") is not None:
                raise OSError(number, os.strerror(number))
            return os.open(path, flags, *rest, **named)

    monkeypatch.setattr(durable, "os", Answering())
    monkeypatch.setattr(load, "os", Answering())
    with pytest.raises(InvocationError) as caught:
        durable.open_folder(str(tmp_path), ["folder"])
    with pytest.raises(load.SourceError, match="symbolic link"):
        load.read_source(str(tmp_path), "folder/a.yaml")

    assert caught.value.code == "UNSAFE_PATH"


def test_without_proc_the_processes_above_are_asked_of_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    real_open, known = open, person._read_process(os.getpid())

    def no_proc(path: Any, *rest: Any, **named: Any) -> Any:
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "no such file", path)
        return real_open(path, *rest, **named)

    monkeypatch.setattr("builtins.open", no_proc)
    asked = person._read_process(os.getpid())

    assert known is not None and asked is not None and known[0] == asked[0] == os.getppid()
    assert Path(asked[1][0]).name == Path(known[1][0]).name


def test_a_program_whose_path_holds_a_blank_is_known_by_ps(tmp_path: Path) -> None:
    program = tmp_path / "My Apps/claude"
    program.parent.mkdir()
    shutil.copy2(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "600"]) as process:
        asked = person._ask_ps(process.pid)
        process.kill()

    assert asked is not None and [Path(asked[1][0]).name, *asked[1][1:]] == ["claude", "600"]


# What only POSIX systems have in `os` and `signal`, by the documentation of Python ("Availability: Unix"), and what is
# less durable or means another thing where they have it.
OF_POSIX = (
    "O_NOFOLLOW O_DIRECTORY O_CLOEXEC O_NONBLOCK O_NOCTTY O_TMPFILE O_PATH O_SYNC O_DSYNC POSIX_SPAWN_OPEN "
    "POSIX_SPAWN_CLOSE POSIX_SPAWN_DUP2 MFD_CLOEXEC chroot chown confstr copy_file_range fchdir fchmod fchown "
    "fdatasync fork forkpty fpathconf fstatvfs fsync getegid geteuid getgid getgroups getloadavg getpgid getpgrp "
    "getpriority getsid getuid getxattr initgroups kill killpg lchmod lchown link listxattr lockf memfd_create "
    "mkfifo mknod nice openpty pathconf pidfd_open posix_fadvise posix_fallocate posix_spawn posix_spawnp pread "
    "preadv pwrite pwritev readv register_at_fork rename replace sched_getaffinity sched_yield sendfile "
    "set_blocking setgid setpgid setsid setuid setxattr splice statvfs sync sysconf ttyname uname wait wait3 "
    "wait4 waitid waitpid writev"
)
OF_POSIX_SIGNALS = (
    "SIGKILL SIGHUP SIGALRM SIGPIPE SIGCHLD SIGUSR1 SIGUSR2 SIGSTOP SIGCONT SIGQUIT alarm setitimer pause sigwait "
    "pthread_sigmask siginterrupt"
)
OF_POSIX_MODULES = "fcntl pwd grp resource termios tty pty syslog readline spwd crypt"
BELOW_DESCRIPTORS = "dir_fd src_dir_fd dst_dir_fd preexec_fn start_new_session pass_fds process_group"
# What stands outside the seam, and what becomes of it where a system does not have it.
ALLOWED = {
    ("doctrine/git.py", "os.posix_spawnp"): "below a condition: on Windows `subprocess` starts git",
    ("doctrine/git.py", "os.waitpid"): "as posix_spawnp",
    ("cli/stored_modules.py", "os.pread"): "below a condition: Python loads each module where it is missing",
    ("cli/shell.py", "pwd"): "where it is missing the environment names the user",
    ("cli/terminal/person.py", "/proc/"): "asked of ps where it is missing",
    ("durable.py", "fcntl"): "below a condition: Windows has locks of its own",
    ("durable.py", "os.memfd_create"): "a temporary file where it is missing",
    ("durable.py", "os.MFD_CLOEXEC"): "as memfd_create",
    ("durable.py", "/proc/self/fd/"): "of an unnamed file, which only Linux has",
    ("features/hooks/payload/compose.py", "signal.SIGALRM"): "without an alarm masking is not stopped",
    ("features/hooks/payload/compose.py", "signal.setitimer"): "as SIGALRM",
    ("features/hooks/settings/install.py", "/dev/null"): "the name of no file in a unified diff",
    ("features/sync/consent.py", "/proc/net/tcp"): "not known where it is missing",
    ("features/sync/consent.py", "/proc/net/tcp6"): "as /proc/net/tcp",
    ("features/sync/sending/transport.py", "signal.setitimer"): "without an alarm the socket's time-out is the end",
    ("record/reading/checks.py", "/dev/"): "a word of a recorded command line",
    ("record/reading/checks.py", "/tmp/"): "a word of a recorded command line",
    ("trail/fixing.py", "os.fork"): "the harness waits where it is missing",
    ("trail/fixing.py", "os.setsid"): "as fork",
    ("libraries/processes/detached.py", "/dev/fd"): "nothing is signed by itself where it is missing",
    ("libraries/signed_log/signing.py", "os.posix_fadvise"): "advice, given where it is taken",
}


# A module without any of this uses nothing of the above.
_MAY_BE_POSIX = re.compile(
    rf"\b(?:os\.(?:{'|'.join(OF_POSIX.split())})|signal\.(?:{'|'.join(OF_POSIX_SIGNALS.split())})"
    rf"|{'|'.join([*OF_POSIX_MODULES.split(), *BELOW_DESCRIPTORS.split()])})\b|/(?:proc|dev|etc|tmp|bin|usr|sys)\b"
)


def find_posix(path: Path, forms: frozenset[str]) -> Iterator[str]:
    """Yield what a module uses that Windows has not: of the standard library's `os` everything, of ours what it has no
    form for (`forms`)."""
    text = path.read_text("utf-8")
    if not _MAY_BE_POSIX.search(text):
        return  # to parse a module takes a hundred times as long
    nodes = list(ast.walk(ast.parse(text)))
    plain = any(isinstance(node, ast.Import) and any(each.name == "os" for each in node.names) for node in nodes)
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from {*OF_POSIX_MODULES.split()}.intersection(each.name for each in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            ours = frozenset() if plain else forms
            known = {"os": {*OF_POSIX.split()} - ours, "signal": {*OF_POSIX_SIGNALS.split()}}
            if node.attr in known.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and plain:
            yield from {*BELOW_DESCRIPTORS.split()}.intersection(str(each.arg) for each in node.keywords)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from [node.value] if re.match(r"/(?:proc|dev|etc|tmp|bin|usr|sys)\b", node.value) else []


def test_what_only_posix_systems_have_is_asked_of_one_os_by_every_module_or_has_a_reason_here() -> None:
    """`import os` alone would fail, or be less durable, where a module opens, syncs, renames or asks for a user."""
    tree = ast.parse((SOURCES / "doctrine/system/windows.py").read_text("utf-8"))
    forms = frozenset(
        node.name if isinstance(node, ast.FunctionDef) else node.id
        for top in tree.body
        for node in ([top] if isinstance(top, ast.FunctionDef) else ast.walk(top))
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    found = {
        (str(path.relative_to(SOURCES / "specify_cli" if "specify_cli" in path.parts else SOURCES)), what)
        for path in SOURCES.rglob("*.py")
        if path.parent.name != "system"
        for what in find_posix(path, forms)
    }

    assert {"fsync", "pread", "pwrite", "rename", "replace", "geteuid", "O_NOFOLLOW", "uname", "nice"} <= forms
    assert found - ALLOWED.keys() == set()
    assert {key for key in ALLOWED if (SOURCES / "specify_cli" / key[0]).exists()} - found == set()


# --- names


def test_a_path_that_spells_the_projects_folder_otherwise_names_a_file_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "tmp").symlink_to(tmp_path / "private")
    root = f"{tmp_path}/private"

    assert durable.name_below(root, f"{tmp_path}/tmp/src/a.py") == "src/a.py"
    assert durable.name_below(f"{tmp_path}/tmp", f"{root}/src/a.py") == "src/a.py"
    assert durable.name_below(root, f"{root}/SRC/a.py") == "SRC/a.py"
    assert durable.name_below(root, f"{tmp_path}/other/a.py") is None
    assert durable.name_below(root, "/") is None


SYSTEMS = {
    "names as written (APFS)": {"decompose": False},
    "names decomposed (HFS+)": {"decompose": True},
    "no links (FAT)": {"decompose": False, "links": False},
}
folded = pytest.mark.skipif(MISSING, reason="no file system can be mounted here without root and /dev/fuse")


@pytest.fixture(params=SYSTEMS)
def folding(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A project below a folder with an accent, on a file system as macOS has them."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "on").mkdir()
    with Folding(tmp_path / "on", tmp_path / "kept", **SYSTEMS[request.param]) as top:
        project = top / "Café"
        (project / "src").mkdir(parents=True)
        git(project, "init", "-q")
        git(project, "config", "core.precomposeunicode", "true")
        (project / "src/Übung.py").write_text("one\n")
        yield project


@folded
def test_the_file_system_that_stands_in_for_macos_folds_names(folding: Path) -> None:
    assert (folding / "SRC/übung.PY").read_text() == "one\n"
    assert [unicodedata.normalize("NFC", path.name) for path in (folding / "src").iterdir()] == ["Übung.py"]
    assert durable.is_case_folded(str(folding)) and not durable.is_case_folded(str(folding.parents[2]))


@folded
def test_where_case_is_folded_a_file_has_one_name_however_it_is_spelled(folding: Path) -> None:
    root = str(folding)
    spellings = ("src/Übung.py", "SRC/übung.py", unicodedata.normalize("NFD", "src/ÜBUNG.py"))

    assert {durable.name_below(root, f"{root}/{name}") for name in spellings} == {"src/Übung.py"}
    assert durable.name_below(root, f"{folding.parent}/CAFÉ/Src/new/Ü.py") == "src/new/Ü.py"
    assert durable.name_below(root, f"{folding.parent}/cafe/src/a.py") is None


@folded
def test_a_change_is_recorded_found_by_any_spelling_and_verified_where_case_is_folded(
    folding: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()

    def run(*argv: str, stdin: str = "", cwd: Path = folding) -> Ran:
        ran = run_main(argv, cwd=cwd, home=home, stdin=stdin.encode())
        assert ran.code == 0, (argv, ran.err)
        return ran

    git(folding, "add", ".")
    git(folding, "commit", "-qm", "begin", home=home)
    run("init")
    session = {"session_id": "s1", "cwd": f"{folding.parent}/CAFÉ"}
    agent = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s1"}
    run_main(["do", "fix the login test"], cwd=folding, home=home, env=agent)
    (folding / "src/Übung.py").write_text("one\ntwo\n")
    told = {"file_path": f"{folding.parent}/café/SRC/übung.py", "old_string": "one\n", "new_string": "one\ntwo\n"}
    piece = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": [" one", "+two"]}
    edit = {
        "hook_event_name": "PostToolUse",
        "tool_name": "Edit",
        "tool_use_id": "t1",
        "tool_input": told,
        "tool_response": {"filePath": told["file_path"], "structuredPatch": [piece]},
    }
    run("hook", "claude-code", stdin=json.dumps({**session, **edit}))
    rows = run("invocations", "list", "--json").json()
    run("profile-invocation", "complete", "--invocation-id", rows[0]["invocation_id"])
    (record,) = (folding / layout.RECORDS).glob("*.jsonl")
    lines = [json.loads(line) for line in record.read_bytes().splitlines()]
    explained = run("why", unicodedata.normalize("NFD", "SRC/ÜBUNG.py"), "--json").json()

    assert len(rows) == 1
    assert {line["path"] for line in lines if line["event"] == "patch_apply"} == {"src/Übung.py"}
    assert explained["path"] == "src/Übung.py" and explained["unknown"] == 1
    assert "intact" in run("invocations", "verify", "--all").out


@folded
def test_private_files_that_a_branch_brings_in_another_case_stop_the_recorder(folding: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    planted = folding / ".Kittify/LOCAL/x.json"
    planted.parent.mkdir(parents=True)
    planted.write_text("{}")
    git(folding, "add", "-f", ".")
    ran = run_process(["do", "fix the login test", "--json"], cwd=folding, home=home)

    assert ran.code == 1 and ran.error()["error_code"] == "TRACKED_PRIVATE"
