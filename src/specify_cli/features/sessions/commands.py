"""import sessions: records of the sessions that agents' programs stored, from before the hooks."""

from __future__ import annotations

import os
from collections import Counter

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.filters import read_times
from specify_cli.cli.terminal.output import one_line, write_answer, write_warnings
from specify_cli.cli.terminal.render import progress_at_terminal
from specify_cli.errors import EnvironmentFault, InvocationError, say_failure
from specify_cli.features.sessions.importer import (
    HarnessCounts,
    ImportResult,
    SessionImporter,
    SessionsImported,
)
from specify_cli.features.sessions.readers import find_transcripts, list_names
from specify_cli.project.config import load_project
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.room import Values

# What is said of that many transcripts in each state, in the order of `HarnessCounts`.
_SAID = (
    "imported; their times are the transcripts' claims, sealed now and not then",
    "here already",
    "written to after they were imported, but tell nothing of a later time",
    "recorded already; what only the transcript tells was added to their records",
    "recorded already, and nothing was added",
    "written to in the last five minutes: import them when they are over",
    "begun before --since",
    "of other projects",
    "that told nothing",
    "of subagents alone: the transcripts of the sessions that began them are gone",
    "could not be read",
)


def import_sessions(values: Values) -> int:
    """Import the sessions of the harnesses that are named, else of all."""
    home = shell.home()
    if home is None:
        raise EnvironmentFault(
            "ACCESS_FAILED", "there is no home folder to look for transcripts in", "set HOME"
        )
    project, cache = load_project(shell.here(), home)
    refuse_tracked_private(project.root)
    begun, _ = read_times(values)
    importer = SessionImporter(project, cache, home=home, since=begun or 0)
    named = list(dict.fromkeys(shell.get_texts(values, "harness")))
    asked = named or list_names()
    done, unread = [], list[str]()
    with progress_at_terminal("importing sessions", quiet=bool(values["json"])) as progress:
        for harness in asked:
            try:
                transcripts = list(find_transcripts(harness, home, os.environ))
            except InvocationError as error:
                if named:
                    raise
                unread.append(say_failure(error))
                continue
            for number, transcript in enumerate(transcripts, 1):
                done.append((harness, importer.take(transcript, harness)))
                if progress is not None:
                    progress(number, len(transcripts))
    cache.save()
    answer = _summarize(asked, done, unread)
    told = [line for row in answer.harnesses for line in _describe(row, is_named=bool(named))]
    write_answer(values, answer, told or [f"no transcripts found of {', '.join(asked)}"])
    if not values["json"]:
        write_warnings(map(one_line, answer.refused))
    return 1 if answer.refused else 0


def _summarize(
    asked: list[str], done: list[tuple[str, ImportResult]], unread: list[str]
) -> SessionsImported:
    counts = Counter((harness, item.state) for harness, item in done)
    states = HarnessCounts._fields[1:]
    return SessionsImported(
        tuple(item.invocation_id or "" for _, item in done if item.state == "imported"),
        tuple(HarnessCounts(name, *(counts[name, state] for state in states)) for name in asked),
        (*(item.why for _, item in done if item.why is not None), *unread),
    )


def _describe(row: HarnessCounts, *, is_named: bool) -> list[str]:
    lines = [
        f"{row.harness}: {count(number, 'session')} {said}"
        for said, number in zip(_SAID, row[1:], strict=True)
        if number
    ]
    return lines or [f"{row.harness}: no transcripts found"] * is_named
