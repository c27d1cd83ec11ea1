"""The runs of a time, from their records."""

from __future__ import annotations

from collections.abc import Iterator

from doctrine.text import say
from specify_cli.errors import InvocationError
from specify_cli.features.report.summing import Run
from specify_cli.project.config import Project
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.checks import read_commands
from specify_cli.record.reading.usage import find_model
from specify_cli.record.reading.views import fields_of
from specify_cli.record.story.telling import number_lines, tell_story
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import annex_events, read_record, read_spent
from specify_cli.storage.store import Place


def read_runs(project: Project, since: int, unread: list[str]) -> Iterator[Run]:
    """Yield the runs that began at `since` (milliseconds since 1970) or later, newest first.

    A record that cannot be read is added to `unread` by its id.
    """
    for place in Index(project.root).places():
        if millis_of(place.invocation_id) < since:
            continue
        try:
            run = _read_run(project, place)
        except (InvocationError, OSError) as error:
            unread.append(f"{place.invocation_id}: {error}")
            continue
        if run is not None:
            yield run


def _read_run(project: Project, place: Place) -> Run | None:
    record = read_record(project.root, place)
    if record is None:
        return None
    annexes = annex_events(project.root, place.invocation_id)
    lines = number_lines(list(fields_of(record)), annexes)
    commands = read_commands(record.started, FileObjectStore(project.root).get)
    story = tell_story(lines, commands, project.root)
    spent = read_spent(project.root, place)
    return Run(
        place.invocation_id,
        story.asked.request or story.asked.missing or None,
        story.asked.by,
        story.asked.profile or "none",
        story.asked.model or find_model(lines),
        story.outcome,
        story.tests,
        story.calls,
        story.failed,
        tuple(
            say(line.get("what"))
            for line in lines
            if line.get("event") == "capture_gap" and line.get("reason") == "unseen_change"
        ),
        tuple((one.path, one.added, one.removed) for one in story.changed),
        None if spent is None else spent.tokens,
        None if spent is None else spent.cost,
        spent is not None and spent.estimated_at is not None,
    )
