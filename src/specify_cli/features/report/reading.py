"""The runs of a time, from their records."""

from __future__ import annotations

from collections.abc import Iterator

from specify_cli.features.report.summing import Run, make_run
from specify_cli.libraries.story.telling import tell_story
from specify_cli.project.config import Project
from specify_cli.project.prices import read_prices
from specify_cli.record.reading.usage import sum_usage
from specify_cli.record.reading.views import number_lines
from specify_cli.record.record import Record
from specify_cli.storage.queries import (
    Annexes,
    Times,
    read_live_runs,
    read_test_commands,
)
from specify_cli.storage.store import Place


def read_runs(project: Project, times: Times, unread: list[str]) -> Iterator[Run]:
    """Yield the runs of a time (`read_live_runs`), newest first; a record that cannot be read, or
    has a line that is not as it was written, is added to `unread` by its id."""

    def tell(place: Place, record: Record, annexes: Annexes) -> Run:
        entries = list(record.entries)
        problems = dict.fromkeys(problem for entry in entries for problem in entry.problems)
        if problems and record.sealed:
            verify = f"spec-kitty invocations verify {place.invocation_id}"
            unread.append(f"{place.invocation_id}: {', '.join(problems)}: {verify}")
        lines = number_lines([entry.fields for entry in entries], annexes)
        commands = read_test_commands(project.root, record.started)
        story = tell_story(lines, commands, project.root)
        run = make_run(story, lines, sum_usage(lines, read_prices()))
        return run._replace(invocation_id=place.invocation_id)

    return read_live_runs(project, times, unread, tell)
