"""The programs whose sessions can be imported: one module each, with where it keeps them and what
its lines mean.

    from specify_cli.features.sessions.readers import read_session
    read_session("codex", b"", {})

`codex.py` holds Codex' TRANSCRIPTS: a function that finds them, and a `SessionReader`. What
programs have in common stands in `reading.py` (pure) and `transcripts.py`. A package of others
brings one by `Fill("transcripts", "tern:TRANSCRIPTS", "tern")`; only a name that is none of ours is
looked for there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from specify_cli.cli.tables.points import is_own, list_fills, load
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.sessions.feature import OWN
from specify_cli.features.sessions.reading import Session, read_session_with
from specify_cli.features.sessions.transcripts import KeptSessions, Sought, Transcript


def list_names() -> list[str]:
    """Return the harnesses whose sessions can be imported."""
    return [fill.name for fill in list_fills("transcripts")]


def find_transcripts(
    harness: str, home: str, environment: Mapping[str, str]
) -> Iterator[Transcript]:
    """Yield the transcripts that a harness keeps, of every project.

    Raises StoredDataError for an unreadable store, EnvironmentFault ROOM_FAILED where another
    package's harness fails.
    """
    kept = _find_kept(harness)
    with _explained(harness, kept.reader.__module__):
        yield from kept.find(home, environment)


def locate_transcript(harness: str, sought: Sought) -> Transcript | None:
    """Return the transcript of one session; None where its program keeps none that is known.

    Raises StoredDataError for an unreadable store, EnvironmentFault ROOM_FAILED.
    """
    if harness not in list_names():
        return None
    kept = _find_kept(harness)
    with _explained(harness, kept.reader.__module__):
        return kept.locate(sought)


def read_session(
    harness: str, main: bytes, others: Mapping[str, bytes], cwd: str = ""
) -> Session | None:
    """Return what the transcript of a session and those of its subagents, by their ids, tell; None
    where it is none.

    `cwd` is where it worked, for a transcript that does not say so. Raises EnvironmentFault
    ROOM_FAILED.
    """
    dialect, kept = find_dialect(harness), _find_kept(harness)
    with _explained(harness, kept.reader.__module__):
        return read_session_with(kept.reader, dialect, main, others, cwd)


def _find_kept(harness: str) -> KeptSessions:
    """Return what the module of a harness brings. Raises EnvironmentFault ROOM_FAILED."""
    runs = [f"{__name__}.{harness.replace('-', '_')}:TRANSCRIPTS"]
    if harness not in OWN:
        runs = [fill.run for fill in list_fills("transcripts") if fill.name == harness]
    for run in runs:
        with _explained(harness, run):
            kept = load(run)
            if not isinstance(kept, KeptSessions):
                raise TypeError(f"expected KeptSessions, found {type(kept).__name__}")
            return kept
    raise _describe_failure(harness, LookupError("nothing brings them"))


@contextmanager
def _explained(harness: str, run: str) -> Iterator[None]:
    """Raise what fails as ours to explain where it is of our own module or says what to do, else as
    the failure of its package."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if is_own(run) or isinstance(error, InvocationError):
            raise
        raise _describe_failure(harness, error) from error


def _describe_failure(harness: str, error: BaseException) -> EnvironmentFault:
    what = f"the transcripts of {harness} cannot be read: {type(error).__name__}: {error}"
    return EnvironmentFault(
        "ROOM_FAILED", what[:500], "tell those who made the package, or uninstall it"
    )
