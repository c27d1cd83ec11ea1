"""The runs of a time, from their records."""

from __future__ import annotations

from collections.abc import Iterator

from specify_cli.errors import InvocationError
from specify_cli.features.report.summing import Run, make_run
from specify_cli.project.config import Project
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.views import fields_of, number_lines
from specify_cli.record.story.telling import tell_story
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events, read_record, read_spent, read_test_commands
from specify_cli.storage.store import Place, require_started


def read_runs(
    project: Project, since: int, unread: list[str], until: int | None = None
) -> Iterator[Run]:
    """Yield the runs that began at `since` (milliseconds since 1970) or later, and before `until`,
    newest first.

    A record that cannot be read is added to `unread` by its id.
    """
    for place in Index(project.root).places():
        begun = millis_of(place.invocation_id)
        if begun < since or (until is not None and begun >= until):
            continue
        try:
            run = _read_run(project, place)
        except (InvocationError, OSError) as error:
            unread.append(f"{place.invocation_id}: {error}")
            continue
        if run is not None:
            yield run


def _read_run(project: Project, place: Place) -> Run | None:
    record = require_started(read_record(project.root, place), place)
    # A replay is a question about a run, as in a list, and no run.
    if (record.started.get("run_kind") or "live") != "live":
        return None
    annexes = annex_events(project.root, place.invocation_id)
    lines = number_lines(list(fields_of(record)), annexes)
    commands = read_test_commands(project.root, record.started)
    story = tell_story(lines, commands, project.root)
    run = make_run(story, lines, read_spent(project.root, place))
    return run._replace(invocation_id=place.invocation_id)
