"""trail push and fetch: records beside the branches."""

from __future__ import annotations

from collections.abc import Iterator

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.cli.terminal.render import bar_when_long
from specify_cli.features.trail_ref.carrying import (
    RefFetch,
    fetch_source,
    fetch_trail,
    push_trail,
)
from specify_cli.libraries.work.options import list_sources
from specify_cli.room import Values


def push(values: Values) -> int:
    """Add this clone's closed records to the remote's ref; 1 where one could not go."""
    project = shell.load_writable()
    with bar_when_long("pushing records") as tell:
        done = push_trail(project, str(values["remote"]), tell)
    added = f"{count(len(done.added), 'record')} added, {count(done.files, 'archive')} in all"
    left_out = (f"left out: {one_line(text)}" for text in done.left_out)
    write_answer(values, done, [added, *left_out])
    return 1 if done.left_out else 0


def fetch(values: Values) -> int:
    """Bring records in; 1 where one cannot be, or the ref was rewritten or cut."""
    project = shell.load_writable()
    if values["source"] is not None:
        done = fetch_source(project, list_sources(values, project.root))
    else:
        with bar_when_long("taking records in") as tell:
            done = fetch_trail(project, str(values["remote"]), tell)
    write_answer(values, done, _render(done))
    return 1 if done.refused or done.lost or done.rewritten else 0


def _render(done: RefFetch) -> Iterator[str]:
    yield f"{count(len(done.records), 'record')} came, {done.present} were here already"
    yield from (f"refused: {one_line(text)}" for text in done.refused)
    if done.others:
        named = ", ".join(map(one_line, done.others[:5]))
        yield f"left alone: {count(len(done.others), 'other project')} of the source ({named})"
    if done.rewritten:
        yield "TRAIL_REWRITTEN: the ref does not continue the state that was seen here before"
    yield from (f"gone from the ref, or changed there: {one_line(name)}" for name in done.lost)
