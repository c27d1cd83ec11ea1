"""Tell the story of a record that lies in a project.

tell_invocation(project, view_invocation(project, "last")).done
"""

from __future__ import annotations

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from specify_cli.errors import InvocationError
from specify_cli.libraries.story.summary import tell_before
from specify_cli.libraries.story.telling import tell_story
from specify_cli.libraries.story.words import describe_work
from specify_cli.record.reading.views import View, fields_of, number_lines
from specify_cli.storage.index import Index
from specify_cli.storage.queries import read_record, read_test_commands

if TYPE_CHECKING:
    from specify_cli.libraries.story.story import Story
    from specify_cli.project.config import Project
    from specify_cli.record.seal import Fields


def tell_invocation(project: Project, value: Fields) -> Story:
    """Return the story of an invocation that `view_invocation` or `show_invocation` gave.

    The charter's test commands are read from the record's own context object.

    `value` must be whole, as those two functions return it.
    """
    events, annexes = value["events"], value["annexes"]
    assert isinstance(events, View | list) and isinstance(annexes, list)
    lines = number_lines(events, annexes)
    started = next(iter(lines), {})
    commands = read_test_commands(project.root, started)
    story = tell_story(lines, commands, os.path.realpath(project.root))
    # An older writer's lines do not state the work package, but the row does.
    work = describe_work(value.get("mission"), value.get("work_package"))
    request = story.asked._replace(work=work)
    return story._replace(asked=request, before=tell_above(project, started))


def tell_above(project: Project, started: Fields) -> str:
    """Return what the agent did before this record in the same turn, from the parent record, as
    `tell_before` does; "" if the parent is not here.

    `started` are the fields of the record's first line.
    """
    above = started.get("parent_invocation_id")
    if not isinstance(above, str):
        return ""
    try:
        record = read_record(project.root, Index(project.root).resolve(above))
    except (OSError, InvocationError):
        return ""
    return tell_before(started, fields_of(record)) if record else ""
