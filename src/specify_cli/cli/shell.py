"""Read the environment of a command: working folder, home folder, stdin, and the caller.

    project = shell.read_project()
    ProfileInvocationExecutor(shell.here(), home=shell.home())

The library reads no environment and asks nobody: what it needs to know is read here and passed on.
So a command can be run by a program under another folder, home or caller.
"""

from __future__ import annotations

import re
import sys
import time

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from doctrine.load import ParseCache
from doctrine.text import make_encodable
from specify_cli.cli.tables.points import (
    FoundFill,
    call_fill,
    excuse_package,
    is_own,
    list_fills,
    load,
    read_harnesses,
    run_briefly,
)
from specify_cli.cli.terminal.output import write_note, write_warnings
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.invocation.bindings import list_left_open, nesting
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.project.config import Project, load_project
from specify_cli.project.root import find_root, locate
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import read_last
from specify_cli.storage.store import FileRecordStore

if TYPE_CHECKING:
    from specify_cli.room import Values


_STDIN_LIMIT = 8 * 1024 * 1024

# Said where a command that takes ids, or options in their place, is given neither.
MISSING_ID = "Missing argument 'ID': expected an id, a part of one, last or @N."


def here() -> str:
    """Return the working folder of the command. Raises EnvironmentFault ACCESS_FAILED if it was
    removed."""
    try:
        return os.getcwd()
    except OSError as error:
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"the current folder cannot be found: {error.strerror}",
            "cd into the project",
        ) from error


def reach(advice: str) -> str:
    """Return advice with the files below the project's root as they are named from here."""
    try:
        up = os.path.relpath(locate(here(), home()).root)
    except (OSError, InvocationError):
        return advice
    return advice if up == "." else re.sub(r"(?<![^ '])(?=\.kittify/)", f"{up}/", advice)


def home() -> str | None:
    """Return the user's home folder; a `.kittify/` there does not make it a project."""
    folder = os.path.expanduser("~")
    return folder if os.path.isabs(folder) else None


def reading_project() -> tuple[Project, ParseCache]:
    """Return the project for a command that only reads; a config that cannot be used is a
    warning."""
    project, cache = load_project(here(), home(), lenient=True)
    if project.config.error:
        write_note(
            f"warning: CONFIG_INVALID: {project.config.error.message}; "
            f"{project.config.error.suggestion}"
        )
    write_warnings(project.notices)
    return project, cache


def read_project() -> Project:
    """Return the project for a command that only reads, after saving the cache of parsed files."""
    project, cache = reading_project()
    cache.save()
    return project


def load_writable() -> Project:
    """Return the project for a command that writes. Raises StoredDataError CONFIG_INVALID where
    its config cannot be used."""
    return load_project(here(), home())[0]


def judge_exit(match: bool | None, values: Values) -> int:
    """Return the exit code of a verdict. If the caller requests it, anything that could not be
    evaluated counts as a difference.

    `match` is true, false, or None where nothing differed and something could not be evaluated.
    `values` has the option `strict`.
    """
    return 0 if match or (match is None and not values["strict"]) else 1


def get_text(values: Values, key: str) -> str | None:
    """Return an option's text; None if the option is absent.

    `key` is the name of the param in `values`.
    """
    value = values[key]
    return None if value is None else str(value)


def get_texts(values: Values, key: str) -> list[str]:
    """Return the texts of an option or argument that can be given repeatedly."""
    value = values[key]
    if isinstance(value, list):
        return [*map(str, value)]
    return [] if value is None else [str(value)]


def request_text(words: object) -> str:
    """Return the request from the words of the command line, or from stdin if that is `-`.

    `words` are a list, or one text. Raises CallerError REQUEST_INVALID where stdin is closed or not
    UTF-8. The length is checked later (`valid_request`).
    """
    texts = [str(word) for word in words] if isinstance(words, list) else [str(words)]
    if texts == ["-"]:
        if sys.stdin is None:
            raise CallerError("REQUEST_INVALID", "stdin is closed", "spec-kitty do - < request.txt")
        data = sys.stdin.buffer.read(_STDIN_LIMIT + 1)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CallerError(
                "REQUEST_INVALID",
                f"stdin is not UTF-8 at byte {error.start}; expected UTF-8 text",
                "convert it, for example: iconv -t UTF-8 request.txt | spec-kitty do -",
            ) from error
    return " ".join(map(_recode_utf8, texts))


def describe_off(root: str, harness: str) -> str | None:
    """Return the setting by which a harness runs no hooks in a project; None if it runs them."""
    reasons = [_ask_briefly(fill, harness, root, home()) for fill in list_fills("hooks_off")]
    return next((reason for reason in reasons if reason is not None), None)


def has_terminal() -> bool:
    """Return whether somebody can answer at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def note_decision(git_dir: str | None, what: str) -> None:
    """Store a decision for the next record to state.

    `git_dir` is the git directory that all worktrees share, None outside git, and `what` a phrase.
    """
    from specify_cli.project.decisions import note_decision as keep  # rarer commands decide

    keep(git_dir, what, at=rfc3339(read_clock(time.time_ns)), terminal=has_terminal())


def asks_yes(question: str, *, as_json: bool) -> bool:
    """Ask at the terminal and return whether a person said yes; anything else is no.

    `question` is printed to stderr. With `as_json` nobody is asked: a program reads the output.
    """
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        return False
    os.write(2, f"{question} [y/N] ".encode())
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def stdin_bytes(limit: int = 64 * 1024 * 1024) -> bytes:
    """Return everything on stdin. Raises CallerError PAYLOAD_INVALID if stdin is closed, or holds
    too much.

    `limit` is in bytes.
    """
    data = None if sys.stdin is None else sys.stdin.buffer.read(limit + 1)
    if data is None or len(data) > limit:
        actual = "a closed stream" if data is None else "more"
        raise CallerError(
            "PAYLOAD_INVALID",
            f"stdin: expected at most {limit} bytes, found {actual}",
            "send it in parts",
        )
    return data


def _recode_utf8(word: str) -> str:
    """Return an argument as UTF-8 whatever the locale took it for; bytes that are not stay visible
    as surrogates."""
    try:
        return os.fsencode(word).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word


def caller() -> Caller:
    """Return the caller, from the environment variables of the harness."""
    environment = os.environ
    for harness, marks in read_harnesses().items():
        session = next((environment[name] for name in marks.session if environment.get(name)), None)
        if session is not None or any(environment.get(name) for name in marks.marks):
            actor = Actor(harness, "llm", tool=harness)
            bound = (
                None
                if session is None
                else {"harness": harness, "session_id": make_encodable(session)[:200]}
            )
            return Caller(actor, bound, environment.get("TRACEPARENT"))
    client = environment.get("SPEC_KITTY_MCP_CLIENT")
    if client:
        return Caller(
            Actor(make_encodable(client)[:200], "llm", tool="mcp"),
            None,
            environment.get("TRACEPARENT"),
        )
    name = environment.get("USER") or environment.get("LOGNAME") or _login_name()
    return Caller(Actor(make_encodable(name)[:200], "human"), None, environment.get("TRACEPARENT"))


def _login_name() -> str:
    """Return the account's name, for a shell that does not state it: a container, a scheduled
    job."""
    try:
        import pwd  # Windows has none

        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, ImportError):
        return os.environ.get("USERNAME") or "unknown"


def nested(caller: Caller, start: str, home: str | None) -> tuple[Caller, str | None]:
    """Return the caller with its subagent, and the parent invocation.

    Both are known only if the harness's hooks report them.

    `start` is any folder of the project, and `home` the user's home folder.
    """
    if caller.session is None:
        return caller, None

    harness = caller.session["harness"]
    marks = read_harnesses().get(harness)
    call_id = os.environ.get(marks.call) if marks else None
    where = nesting(find_root(start, home)[0], harness, caller.session["session_id"], call_id)
    if where.agent_id is None:
        return caller, where.parent
    return caller._replace(
        session={**caller.session, "agent_id": make_encodable(where.agent_id)}
    ), where.parent


def trail() -> bool:
    """Return whether SPEC_KITTY_TRAIL lets the request be recorded. Raises CallerError for a value
    it does not know."""
    value = os.environ.get("SPEC_KITTY_TRAIL", "on")
    if value not in ("on", "off"):
        raise CallerError(
            "INVALID_VALUE",
            f"SPEC_KITTY_TRAIL: expected on or off, found {value!r}",
            "unset it, or set it to off",
        )
    return value == "on"


def deliver() -> None:
    """Work after the answer: call the rooms whose folder the project has in its git directory."""
    root, git_dir = find_root(here(), home())
    if git_dir is None:
        return
    for fill in list_fills("after"):
        if os.path.isdir(f"{git_dir}/{fill.marker}"):
            _call_briefly(fill, root)


def announce_opened(caller: Caller, invocation_id: str) -> None:
    """Call the rooms that want to know of a new record. A room whose path does not exist is not
    called.

    `invocation_id` is that of the record. A room of another package
    is waited for five seconds at most.
    """
    root, _ = find_root(here(), home())
    if caller.session is None:
        return
    for fill in list_fills("opened"):
        if os.path.lexists(f"{root}/{fill.marker}"):
            _call_briefly(fill, root, home(), caller.session, invocation_id)


def _ask_briefly(fill: FoundFill, *arguments: object) -> str | None:
    """Return the text that a function at a point has; None where it has none, or of another package
    fails."""
    answer = _call_briefly(fill, *arguments)
    if answer is None or isinstance(answer, str):
        return answer
    what = f"expected a text or None, found {type(answer).__name__}"
    write_note(f"warning: {fill.run} of another package failed: {what}")
    return None


def _call_briefly(fill: FoundFill, *arguments: object) -> object:
    """Return what a function at a point returns; of another package within a few seconds."""
    if is_own(fill.run):
        return call_fill(fill, *arguments)
    return excuse_package(fill.run, lambda: run_briefly(lambda: load(fill.run)(*arguments)))


def find_left_open(caller: Caller) -> tuple[str, ...]:
    """Return a warning for each record that an agent left open in a session that is over."""
    root, _ = find_root(here(), home())
    session = caller.session or {}
    return tuple(
        f"LEFT_OPEN: {name} was left open by a session that is over; close it with: "
        f"spec-kitty profile-invocation complete {name} --outcome abandoned"
        for name in list_left_open(root, session.get("harness", ""), session.get("session_id", ""))
    )


def warn_closing(caller: Caller, name: str) -> tuple[str, ...]:
    """Return the warnings of rooms about a record that an agent closes and whose close no hook has
    just told. What cannot be read the close says.

    `name` is the record's id, or the begin of one.
    """
    if caller.actor.actor_type != "llm":
        return ()
    from specify_cli.storage.index import Index  # most commands need none

    root, _ = find_root(here(), home())
    try:
        place = Index(root).resolve(name)
        last = read_last(FileRecordStore(root).read(place)).get("event")
        if last in ("tool_call", "completed"):
            return ()
        warnings = [_ask_briefly(fill, root, home(), place) for fill in list_fills("closed")]
    except (InvocationError, OSError):
        return ()
    return tuple(warning for warning in warnings if warning is not None)
