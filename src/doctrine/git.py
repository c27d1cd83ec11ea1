"""Find a worktree's git directory by reading files, and ask git safely where only git knows the
answer.

`read_git` and `run_git` start git, and nothing else does: without discovery of other repositories,
hooks, or anything the caller's environment points at, and without network unless that is asked for.

    top = find_worktree(".")
    git_directory(top)                           # shared by all worktrees; no git is started
    ask_git(top, "rev-parse", "HEAD")

A branch that is checked out can hold a config, hooks and attributes that make git run programs. So
every call is composed in one place (`_compose_command`), and its output is only read.
"""

from __future__ import annotations

import sys

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from subprocess import CompletedProcess
    from typing import TypeVar

    T = TypeVar("T")

# What the branch to merge into is called, the likeliest first.
DEFAULT_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")

# So many bytes of blobs are read at once.
_AT_ONCE = 32 * 1024 * 1024

# An empty pipe takes so many bytes before anybody reads them.
_PIPED = 4096

# So many seconds a command has, and one that may reach a remote.
_SECONDS, _SECONDS_REMOTE = 30, 300

# Settings of a user, or of a branch, that would run programs or change what git answers.
_SETTINGS = (
    "core.commentChar=#",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "safe.bareRepository=explicit",
    "core.useReplaceRefs=false",
    "diff.interHunkContext=0",
    "diff.orderFile=/dev/null",
    "diff.renameLimit=1000",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
    "trailer.separators=:",
)

# Variables of git that say where its settings are and how it reaches a remote. All others would
# make it look at another repository, or change what it answers.
_KEPT = (
    "GIT_ALLOW_PROTOCOL",
    "GIT_ASKPASS",
    "GIT_CONFIG_",
    "GIT_EXEC_PATH",
    "GIT_HTTP",
    "GIT_PROXY",
    "GIT_SS",
    "GIT_TRACE",
)


class GitNotStarted(OSError):
    """git itself could not be started: it is not installed, or may not be run."""


def find_worktree(folder: str) -> str | None:
    """Return the top level of the git worktree that a folder lies in; None outside git."""
    top = os.path.abspath(folder)
    while not os.path.lexists(f"{top}/.git"):
        above = os.path.dirname(top)
        if above == top:
            return None
        top = above
    return top


def git_directory(top: str) -> str | None:
    """Return the git directory of a worktree, shared by all worktrees of one repository.

    `top` is that of `find_worktree`. None is for a folder whose `.git` leads nowhere.
    """
    path = own_git_directory(top)
    if path is None:
        return None
    common = _read_small_text(f"{path}/commondir")
    if common is not None:
        path = os.path.normpath(os.path.join(path, common.strip()))
    return path if os.path.isdir(path) else None


def list_refs(top: str, name: str) -> list[str]:
    """Return the whole names of the branches and the tag that have a name, branches first.

    `top` is the worktree's top.
    """
    every = {f"refs/{kind}/{name}" for kind in ("heads", "remotes", "tags")}
    listed = ask_git(top, "for-each-ref", "--format=%(refname)", *every) or ""
    return sorted(every.intersection(listed.split("\n")))


def list_cut(top: str) -> frozenset[str]:
    """Return the commits of a shallow clone whose parents are not here; none of a whole clone.

    `top` is the worktree's top.
    """
    try:
        with open(f"{git_directory(top)}/shallow", encoding="ascii", errors="replace") as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()


def find_in_main(folder: str) -> str:
    """Return where a folder lies in the main worktree of its repository; the folder itself where
    that is not known."""
    top = find_worktree(folder)
    shared = None if top is None else git_directory(top)
    if top is None or shared is None or os.path.basename(shared) != ".git":
        return folder
    return os.path.normpath(os.path.join(os.path.dirname(shared), os.path.relpath(folder, top)))


def own_git_directory(top: str) -> str | None:
    """Return the git directory of this worktree alone, where its index lies.

    `top` is that of `find_worktree`. For the main worktree it is the shared one.
    """
    path = f"{top}/.git"
    if os.path.isdir(path):
        return path
    pointer = _read_small_text(path)
    if pointer is None or not pointer.startswith("gitdir: "):
        return None
    path = os.path.normpath(os.path.join(top, pointer[8:].strip()))
    return path if os.path.isdir(path) else None


def ask_git(top: str, *words: str) -> str | None:
    """Return the output of a git command for the worktree at `top` as text; None if it fails.
    Raises GitNotStarted without git.

    `top` is the worktree's top, and `words` are the command and its arguments. Bytes that are not
    UTF-8 become lone surrogates, so a name comes back as `os.fsencode` wants it.
    """
    output = read_git(top, *words)
    return None if output is None else output.decode("utf-8", "surrogateescape")


def list_changed(top: str, most: int = 50) -> list[str]:
    """Return the names of at most `most` files that a branch has changed, committed or not.

    The branch is compared with the commit where it left the default branch. Raises GitNotStarted
    without git.

    `top` is the worktree's top. Names are below it and sorted; those with unprintable characters
    are left out.
    """
    words = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules", "-z")
    for base in filter(_find_refs(top).__contains__, DEFAULT_BASES):
        output = ask_git(top, *words, "--merge-base", base, "--")
        if output is not None:
            break
    else:
        output = ask_git(top, *words, "HEAD", "--") or ""
    return sorted(path for path in output.split("\0") if path.isprintable() and path)[:most]


def _find_refs(top: str) -> frozenset[str]:
    """Return which of the default bases may be there: to start git for each costs more than a
    `do` has to spend (`tests/benchmarks/test_bench_retrieval.py`)."""
    directory = git_directory(top)
    if directory is None or os.path.isdir(f"{directory}/reftable"):
        return frozenset(DEFAULT_BASES)
    try:
        with open(f"{directory}/packed-refs", encoding="utf-8", errors="replace") as file:
            packed = file.read()
    except OSError:
        packed = ""
    refs = set()
    for base in DEFAULT_BASES:
        name = f"refs/{'remotes' if '/' in base else 'heads'}/{base}"
        if os.path.lexists(f"{directory}/{name}") or f" {name}\n" in packed:
            refs.add(base)
    return frozenset(refs)


def read_git(top: str, *words: str, stdin: bytes = b"") -> bytes | None:
    """Return the output of a git command as bytes, as `ask_git` does. The command reads `stdin`."""
    if sys.platform != "win32" and len(stdin) <= _PIPED:
        command = _compose_command(top, words)
        return None if command is None else _read_output(*command, stdin)
    try:
        answer = run_git(top, words, stdin=stdin)
    except TimeoutError:
        return None
    return answer.stdout if answer is not None and answer.returncode == 0 else None


def _read_output(argv: list[str], variables: dict[str, str], stdin: bytes) -> bytes | None:
    """Return the output of a program that reads at most `_PIPED` bytes; None if it fails or takes
    too long. Raises GitNotStarted without the program.

    `subprocess` does the same, but to load it takes a `do` longer than git takes to answer
    (`tests/benchmarks/test_bench_retrieval.py`).
    """
    import select
    import time

    pid, output = _start_program(argv, variables, stdin)
    chunks: list[bytes] = []
    status = None
    ends_at = time.monotonic() + _SECONDS
    try:
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while status is None and poll.poll(max(0, 1000 * (ends_at - time.monotonic()))):
            chunk = os.read(output, 1 << 16)
            chunks.append(chunk)
            status = None if chunk else _wait_for(pid)
    finally:
        os.close(output)
        if status is None:
            os.kill(pid, 9)
            _wait_for(pid)
    return b"".join(chunks) if status == 0 else None


def _start_program(argv: list[str], variables: dict[str, str], stdin: bytes) -> tuple[int, int]:
    """Start a program; return the id of its process, and a descriptor of its output."""
    # Where the caller closed standard streams, pipes have their numbers, the lowest first: in this
    # order none is replaced in the child before it was used.
    reads, feed = os.pipe()
    output, writes = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, reads, 0),
        (os.POSIX_SPAWN_DUP2, writes, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        os.write(feed, stdin)
        return os.posix_spawnp(argv[0], argv, variables, file_actions=actions), output
    except OSError as error:
        os.close(output)
        raise GitNotStarted(*error.args) from error
    finally:
        for end in (reads, feed, writes):
            os.close(end)


def _wait_for(pid: int) -> int:
    """Return the exit status of a child as `os.waitpid` gives it."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # where SIGCHLD is ignored the system keeps no status
        return 0


def read_contents(top: str, names: Sequence[str]) -> list[bytes | None] | None:
    """Return the contents of objects by id or `commit:path`, in order, None for one that is not
    there; None for all where git fails. Raises GitNotStarted without git.

    git is asked once. `top` is the worktree's top.
    """
    data = read_git(top, "cat-file", "--batch", stdin=_spell_names(names)) if names else b""
    if data is None:
        return None
    contents: list[bytes | None] = []
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        head = data[at:end].split(b" ")
        at = end + 1
        if len(head) == 3 and head[2].isdigit():
            size = int(head[2])
            contents.append(data[at : at + size])
            at += size + 1
        else:
            contents.append(None)
    return contents


def _spell_names(names: Sequence[str]) -> bytes:
    """Return the names of objects as git reads them. One with a line break would be two: git is
    asked for none, and has none."""
    return os.fsencode("".join("\n" if "\n" in name else f"{name}\n" for name in names))


def read_blobs(
    top: str, names: Sequence[str], limit: int, most: float = float("inf")
) -> Iterator[bytes | None]:
    """Yield the contents of blobs by id or `commit:path` in order, many read at once; None for one
    that is no blob here, larger than `limit` bytes, or with those before it than `most`. Raises
    TimeoutError where git fails, GitNotStarted without git.

    `top` is the worktree's top, and `names` are in the order of the result. At most 32 MiB are in
    memory at a time, or one blob.
    """
    sizes: list[int] = []
    check = "--batch-check=%(objecttype) %(objectsize)"
    listed = read_git(top, "cat-file", check, stdin=_spell_names(names)) if names else b""
    for row in _require(listed).split(b"\n")[: len(names)]:
        kind, _, size = row.rpartition(b" ")
        is_read = kind == b"blob" and int(size) <= min(limit, most)
        sizes.append(int(size) if is_read else -1)
        most -= max(0, sizes[-1])
    at = 0
    while at < len(names):
        end, total = at, 0
        while end < len(names) and (end == at or total + sizes[end] <= _AT_ONCE):
            total += max(0, sizes[end])
            end += 1
        there = [number for number in range(at, end) if sizes[number] >= 0]
        data = _require(read_contents(top, [names[number] for number in there]))
        contents = dict(zip(there, data, strict=True))
        yield from map(contents.get, range(at, end))
        at = end


def _require(answer: T | None) -> T:
    """Return what git answered. Raises TimeoutError where it did not."""
    if answer is None:
        raise TimeoutError("git cat-file failed or took more than 30 seconds")
    return answer


def run_git(
    top: str,
    words: Sequence[str],
    *,
    stdin: bytes = b"",
    more: Mapping[str, str] | None = None,
    network: bool = False,
) -> CompletedProcess[bytes] | None:
    """Run a git command for the worktree at `top`; None where it is no worktree.

    `more` are variables for git. With `network` it may reach remotes by the user's own access, and
    has five minutes instead of half of one. Raises TimeoutError, GitNotStarted without git.

    `words` are the command and its arguments, and `stdin` is what it reads. The exit code is not
    judged: that is the caller's.
    """
    import subprocess  # slow to load, and most commands ask git nothing

    command = _compose_command(top, words, network)
    if command is None:
        return None
    argv, variables = command
    try:
        return subprocess.run(
            argv,
            env=variables | dict(more or {}),
            input=stdin,
            capture_output=True,
            timeout=_SECONDS_REMOTE if network else _SECONDS,
            check=False,
        )
    except OSError as error:
        raise GitNotStarted(*error.args) from error
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"git {words[0]} took more than {error.timeout:.0f} seconds") from error


def _compose_command(
    top: str, words: Sequence[str], network: bool = False
) -> tuple[list[str], dict[str, str]] | None:
    """Return a git command and its variables; None where `top` is no worktree."""
    directory = own_git_directory(top)
    if directory is None:
        return None
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    # Of a file of grafts that is there, even an empty one, git says that there will be none.
    variables |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_GRAFT_FILE": "",
    }
    variables |= {} if network else {"GIT_ALLOW_PROTOCOL": "none"}
    argv = ["git", "-C", top, f"--git-dir={directory}", f"--work-tree={top}"]
    argv += [word for setting in _SETTINGS for word in ("-c", setting)]
    argv += ["-c", "core.hooksPath=/dev/null"] if network else []  # a push has hooks
    return [*argv, *words], variables


def _read_small_text(path: str) -> str | None:
    """Return the first 4 KiB of a file as text; None where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 4096).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(descriptor)
