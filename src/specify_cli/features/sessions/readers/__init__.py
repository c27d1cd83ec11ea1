"""The programs whose sessions can be imported: one module each, with where it stores them and what
its lines mean.

    from specify_cli.features.sessions.readers import read_session
    read_session("codex", b"", {})

`codex.py` holds Codex' TRANSCRIPTS: a function that finds them, and a `SessionReader`. What
programs have in common stands in `reading.py` (pure) and `transcripts.py`. A package of others
brings one by `Fill("transcripts", "tern:TRANSCRIPTS", "tern")`; only a name that is none of ours is
searched there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from specify_cli.cli.tables.points import list_fills, load
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.strangers import ask_package
from specify_cli.features.sessions.feature import OWN
from specify_cli.features.sessions.reading import Session, read_session_with
from specify_cli.features.sessions.transcripts import KeptSessions, Transcript, TranscriptQuery

Answer = TypeVar("Answer")


def list_names() -> list[str]:
    """Return the harnesses whose sessions can be imported."""
    return [fill.name for fill in list_fills("transcripts")]


def find_transcripts(
    harness: str, home: str, environment: Mapping[str, str]
) -> Iterator[Transcript]:
    """Return the transcripts that a harness stores, of every project.

    Raises StoredDataError for an unreadable store, EnvironmentFault ROOM_FAILED where another
    package's harness fails.
    """
    sessions = _find_harness_sessions(harness)

    def list_all() -> list[Transcript]:
        # all at once: between two of them the caller works, and what it does is not theirs
        transcripts = list(sessions.find(home, environment))
        for one in transcripts:
            if not isinstance(one, Transcript):
                raise TypeError(f"expected a Transcript, found {type(one).__name__}")
        return transcripts

    return iter(_ask(harness, list_all, briefly=False))


def locate_transcript(harness: str, query: TranscriptQuery) -> Transcript | None:
    """Return the transcript of one session; None where its program stores none that is known.

    Raises StoredDataError for an unreadable store, EnvironmentFault ROOM_FAILED.
    """
    if harness not in list_names():
        return None
    sessions = _find_harness_sessions(harness)
    return _ask(harness, lambda: sessions.locate(query))


def read_session(
    harness: str,
    main: bytes,
    others: Mapping[str, bytes],
    cwd: str = "",
    *,
    is_over: bool = False,
    briefly: bool = False,
) -> Session | None:
    """Return what the transcript of a session and those of its subagents, by their ids, report;
    None where it is none.

    `cwd` is where it worked, for a transcript that does not say so; `is_over` says that it does not
    go on. With `briefly` another package has a few seconds. Raises EnvironmentFault ROOM_FAILED.
    """
    dialect, sessions = find_dialect(harness), _find_harness_sessions(harness)

    def read() -> Session | None:
        session = read_session_with(sessions.reader, dialect, main, others, cwd, is_over=is_over)
        if briefly and harness not in OWN and session:
            for item in session.events:  # that this ends, too: it is done again for each
                dialect.translate(item.payload)
        return session

    return _ask(harness, read, briefly=briefly)


def _find_harness_sessions(harness: str) -> KeptSessions:
    """Return what the module of a harness brings. Raises EnvironmentFault ROOM_FAILED."""
    run = f"{__name__}.{harness.replace('-', '_')}:TRANSCRIPTS"
    if harness not in OWN:
        runs = (fill.run for fill in list_fills("transcripts") if fill.name == harness)
        run = next(runs, "")  # where nothing brings them, that fails to load

    def find() -> KeptSessions:
        sessions = load(run)
        if not isinstance(sessions, KeptSessions):
            raise TypeError(f"expected KeptSessions, found {type(sessions).__name__}")
        return sessions

    return _ask(harness, find)


def _ask(harness: str, work: Callable[[], Answer], *, briefly: bool = True) -> Answer:
    """Return what `work` returns. Raises what fails of another package as its failure, but for
    what says what to do."""
    what, run = f"the transcripts of {harness} cannot be read", __name__ if harness in OWN else ""
    answer: Answer = ask_package(what, run, work, passes=(InvocationError,), briefly=briefly)
    return answer
