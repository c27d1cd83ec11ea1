"""What the tests share: the command line's result, a clean environment, git, and a charter."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import functools
import itertools
import json
import os
import pty
import resource
import select
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from jsonschema import Draft202012Validator, ValidationError

from doctrine.git import git_directory
from specify_cli import durable
from specify_cli.cli.main import main
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import read_stated
from specify_cli.project.protection import write_accepted

T = TypeVar("T")
R = TypeVar("R")
CHARTER = """# Charter

## Policy Summary
- Every change comes with a test that fails without it.

## Testing
Run `pytest -q` before handing over.
"""


class Ran(NamedTuple):
    """One run of the command line."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def error(self) -> Any:
        return json.loads(self.err)


Cli = Callable[..., Ran]
# `make stress` runs what is marked `stress` in its long version.
FULL = os.environ.get("SPEC_KITTY_STRESS") == "full"
REPORT: list[str] = []  # what they found out, for its end
SCHEMAS = Path(__file__).parents[1] / "docs/schemas"
GIT_CONFIG = Path(__file__).parent / "fixtures/gitconfig"
SPEC_KITTY = str(Path(sys.executable).parent / "spec-kitty")
# How long a test waits for what must come, in seconds: only what hangs reaches it, on the slowest machine.
PATIENCE = 900

# The way of one record through the everyday commands; ID is its id, and EVENT what is recorded.
LINES = (
    ("do", "fix the login test", "--json"),
    ("profile-invocation", "record", "--invocation-id", "ID"),
    ("profile-invocation", "complete", "--invocation-id", "ID"),
    ("invocations", "list"),
    ("invocations", "verify", "--all"),
)
EVENT = b'{"event":"tool_call","call_id":"c1","tool":"pytest","args":{},"side_effect":"external"}\n'

# What a child runs first to be refused where file modes refuse others: root lays down CAP_DAC_OVERRIDE and
# CAP_DAC_READ_SEARCH, the rights to write and to read anywhere, and stays the user who owns this checkout. capset(2),
# version 3: 64 bits in two halves.
OBEY_FILE_MODES = """
import ctypes, os
if os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, sets) == 0, ctypes.get_errno()
    sets[0] &= ~(1 << 1 | 1 << 2)
    assert libc.capset(head, sets) == 0, ctypes.get_errno()
"""


def run_obeying_modes(argv: Sequence[str], folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line in a folder as somebody whom file modes refuse."""
    program = f"{OBEY_FILE_MODES}\nimport sys\nfrom specify_cli.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    return subprocess.run(
        [sys.executable, "-c", program, *argv],
        cwd=folder,
        env=environment(home, measured=False),
        capture_output=True,
        text=True,
        check=False,
    )


def draws(number: int) -> int:
    """Return how many examples a property is asked: these under `make stress`, else a fifth, the same at each run."""
    return number if FULL else max(8, number // 5)


def count_calls(act: Callable[[], T], function: object = None) -> tuple[int, T]:
    """Return how many calls and returns an act makes, or how often it calls one built-in function; and its answer."""
    number = 0

    def count(_: object, what: str, called: object) -> None:
        nonlocal number
        number += function is None or (what == "c_call" and called is function)

    sys.setprofile(count)
    try:
        answer = act()
    finally:
        sys.setprofile(None)
    return number, answer


def wait_until(holds: Callable[[], T], describe: Callable[[], str] = lambda: "it never came") -> T:
    """Ask again and again until the answer is true, and return that answer; what never holds is an error."""
    end = time.monotonic() + PATIENCE
    while not (answer := holds()):
        assert time.monotonic() < end, describe()
        time.sleep(0.01)
    return answer


class Slow:
    """What is raised while this is destroyed is dropped by Python, which says so and goes on."""

    def __del__(self) -> None:
        threading.Event().wait(5)


def wait_behind_a_destroyed_object() -> None:
    slow = Slow()
    del slow
    threading.Event().wait(30)


def run_process(
    argv: Sequence[str | bytes], *, cwd: Path, home: Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Ran:
    """Run the installed `spec-kitty` in a process of its own, as a user's shell would."""
    done = subprocess.run(
        [SPEC_KITTY, *argv],
        cwd=cwd,
        env={**environment(home), **(env or {})},
        input=stdin,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    return Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))


def _until_asked(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    said = b""
    while not said.endswith((b"> ", b"] ")) and select.select([process.stderr], [], [], PATIENCE)[0]:
        piece = os.read(process.stderr.fileno(), 4096)
        if not piece:  # it is over
            break
        said += piece
    return said


def at_a_terminal(project: Path, home: Path, *argv: str, typed: bytes, interrupt: bool = False) -> Ran:
    """Run the command with its stdin, stdout and stderr on a terminal, type, and end the input."""
    main, other = pty.openpty()
    with subprocess.Popen(
        [SPEC_KITTY, *argv],
        cwd=project,
        env=environment(home),
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A suite that was itself begun in the background ignores interrupts, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(other)
        # Typed only once it is asked for: what lies in a terminal before somebody reads may be thrown away.
        asked = _until_asked(process)
        if interrupt:
            for line in typed.splitlines(keepends=True):
                os.write(main, line)
                asked += _until_asked(process)
            process.send_signal(signal.SIGINT)
        else:
            os.write(main, typed + b"\x04")
        out, err = process.communicate(timeout=PATIENCE)
    os.close(main)
    return Ran(process.returncode, out.decode(), (asked + err).decode())


_ENDED = [0]


@contextlib.contextmanager
def own_millisecond() -> Iterator[None]:
    """Begin in a later millisecond than the last of these blocks ended.

    Lines and ids are in order by their milliseconds. Two processes hardly ever write in the same one, but what runs
    in this process without a start of its own does on a fast machine.
    """
    while (now := time.time_ns()) // 1_000_000 == _ENDED[0]:
        time.sleep((1_000_000 - now % 1_000_000) / 1e9)
    try:
        yield
    finally:
        _ENDED[0] = time.time_ns() // 1_000_000


def run_main(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    home: Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    columns: int | None = None,
) -> Ran:
    """Run a command line through `main` in this process, with a folder, environment and streams of its own.

    The streams are the descriptors 0, 1 and 2, because that is where commands write. What the run leaves behind in
    the process is taken back: the modules of a program it imported, and the wait that a hook sets. With `columns` what
    it prints, on either stream, goes to a terminal as wide as that.
    """
    assert threading.current_thread() is threading.main_thread(), "runs at the same moment need processes"
    assert not {name for name in env or {} if name.startswith(("PYTHON", "LC_", "TZ"))}, "read when a process starts"
    words = [os.fsdecode(word) for word in argv]
    with ExitStack() as stack:
        # In memory: no folder is asked for them.
        files = [stack.enter_context(open(os.memfd_create(name), "w+b")) for name in ("in", "out", "err")]
        files[0].write(stdin)
        files[0].seek(0)
        screen = None if columns is None else stack.enter_context(Screen(columns))
        for number, file in enumerate(files):
            before = os.dup(number)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, number)
            os.dup2(screen.fd if screen is not None and number else file.fileno(), number)
        stack.enter_context(_surrounded({**environment(home), **(env or {})}))
        stack.enter_context(mock.patch.object(sys, "argv", [SPEC_KITTY, *words]))
        for name, mode, number in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
            stream = open(number, mode, encoding="utf-8", closefd=False)
            stack.enter_context(stream)
            stack.enter_context(mock.patch.object(sys, name, stream))
        stack.enter_context(mock.patch.object(durable, "LOCK_WAIT_SECONDS", durable.LOCK_WAIT_SECONDS))
        stack.enter_context(mock.patch.object(durable, "IN_BACKGROUND", False))
        stack.enter_context(mock.patch.object(tempfile, "tempdir", None))
        stack.enter_context(mock.patch.object(sys, "path", list(sys.path)))
        stack.callback(_forget_modules, next(reversed(sys.modules)), cwd)
        stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(own_millisecond())
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        for file in files:
            file.seek(0)
        if screen is not None:
            return Ran(code, screen.read(), "")
        return Ran(code, files[1].read().decode("utf-8"), files[2].read().decode("utf-8"))


class Screen:
    """A terminal of so many columns; `fd` is where a program writes."""

    def __init__(self, columns: int) -> None:
        self._master, self.fd = os.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._seen = bytearray()
        self._reader = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Screen:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.read()

    def _follow(self) -> None:
        while not self._seen.endswith(b"\0end"):
            try:
                self._seen += os.read(self._master, 65536)
            except OSError:
                return

    def read(self) -> str:
        """Return everything that was written, and close the terminal."""
        if self.fd >= 0:
            os.write(self.fd, b"\0end")
            self._reader.join()
            os.close(self.fd)
            os.close(self._master)
            self.fd = -1
        return self._seen.removesuffix(b"\0end").decode("utf-8").replace("\r\n", "\n")


@contextlib.contextmanager
def _surrounded(env: Mapping[str, str]) -> Iterator[None]:
    """Have this environment and no other, then the one there was: only what differs is set, thousands of times."""
    before = dict(os.environ)
    _set_environment(before, env)
    try:
        yield
    finally:
        _set_environment(dict(os.environ), before)


def _set_environment(now: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name in now.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if now.get(name) != value})


def _forget_modules(last: str, folder: Path) -> None:
    """Forget the modules imported since the last one from anywhere but this installation."""
    for name in list(itertools.takewhile(lambda name: name != last, reversed(sys.modules))):
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


def environment(home: Path, *, measured: bool = True) -> dict[str, str]:
    """A minimal environment whose home is a folder of the test's; a coverage run goes on in children.

    A child that may not write files cannot be measured and says so with `measured=False`; nor may it write bytecode,
    which Python leaves truncated where a limit cuts it off.
    """
    return {
        **{name: value for name, value in os.environ.items() if measured and name.startswith("COVERAGE_")},
        **({} if measured else {"PYTHONDONTWRITEBYTECODE": "1"}),
        **({"PYTHONPATH": os.environ["SPEC_KITTY_FAST_CLOCK"]} if "SPEC_KITTY_FAST_CLOCK" in os.environ else {}),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "USER": "tester",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": str(GIT_CONFIG),
        "GIT_AUTHOR_NAME": "Tester",
        "GIT_AUTHOR_EMAIL": "tester@example.org",
        "GIT_COMMITTER_NAME": "Tester",
        "GIT_COMMITTER_EMAIL": "tester@example.org",
    }


def git(folder: Path, *argv: str, home: Path | None = None) -> str:
    """Run git in a folder and give its output."""
    env = environment(home or folder)
    done = subprocess.run(["git", *argv], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {argv}: {done.stdout}{done.stderr}"
    return done.stdout


@functools.cache
def parse_source(path: Path) -> ast.Module:
    """Return the tree of a module of ours, parsed once for all that ask of it."""
    return ast.parse(path.read_text("utf-8"))


def walk_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree and all statements in it, without the expressions, which are nine tenths of its nodes."""
    yield tree
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(tree, name, ())
        for node in inner if isinstance(inner, list) else ():
            yield from walk_statements(node)


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of ours; Python before 3.11.4 knows no filter for it."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)


def build_into(folder: Path, out: Path, *kinds: str) -> list[Path]:
    """Build the sdist or wheel of a source tree as a build front end does, and return the files there are then."""
    chosen = [word for kind in kinds for word in ("-t", kind)]
    argv = [sys.executable, "-m", "hatchling", "build", *chosen, "-d", str(out)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(out.iterdir())


def valid(value: Any, shape: str) -> Any:
    """Return a value that has the documented shape; a test of its own holds docs/schemas against the models."""
    try:
        _validator(shape).validate(value)
    except ValidationError as error:
        error.add_note("where the shape was changed, docs/schemas is old: make schemas")
        raise
    return value


@functools.cache
def _validator(shape: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{shape}.json").read_text(encoding="utf-8")))


def run_together(act: Callable[[T], R], items: Collection[T]) -> list[R]:
    """Call `act` with each item, in a thread of its own and at the same moment; raise what one of them raised."""
    ready = threading.Barrier(len(items))

    def run(item: T) -> R:
        ready.wait()
        return act(item)

    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(run, items))


def accept(root: Path, place: str = "") -> None:
    """Accept the config of a project, in a folder of the worktree where that is given, as a person would with
    `spec-kitty config accept`."""
    write_accepted(str(git_directory(str(root))), place, read_stated(str(root / place)).stated)


def add_worktree(root: Path, path: Path) -> Path:
    """Return a linked worktree of a project, whose config a person accepted."""
    git(root, "add", ".kittify/config.yaml")
    git(root, "commit", "-q", "-m", "start")
    git(root, "worktree", "add", "-q", str(path))
    accept(path)
    return path


class Paired(NamedTuple):
    """Medians in milliseconds of two things measured alternately, and the median of their ratios."""

    ours: float
    reference: float
    ratio: float


def cpu_of(argv: Sequence[str], cwd: Path, home: Path) -> float:
    """User and system CPU of one process and its children, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(argv), cwd=cwd, env=environment(home), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def paired(ours: Callable[[], float], reference: Callable[[], float], rounds: int) -> Paired:
    """Measure both in turn."""
    ours(), reference()
    pairs = [(ours(), reference()) for _ in range(rounds)]
    ratio = statistics.median(one / other for one, other in pairs)
    return Paired(statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs), ratio)


def record_run_held_later(cli: Cli, root: Path, home: Path) -> str:
    """Leave a record of five seconds with a call that has no end, closed long ago and held today; return its id."""
    at = 1_789_430_400_000_000_000
    executor = ProfileInvocationExecutor(root, home=str(home), clock=lambda: at)
    run = executor.invoke("fix the login test").invocation_id
    executor.record(run, [("tool_call", {"tool": "Bash", "call_id": "1", "args": {"command": "make"}})])
    at += 5_000_000_000
    executor.complete(run)
    assert cli("hold", "add", run, "--reason", "case 12").code == 0
    return run
