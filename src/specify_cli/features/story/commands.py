"""invocations show as a story, and invocations tail.

    show({"invocation_id": "last", "json": False, "story": False, "diff": False, …})

A record is read line by line as it is printed, so a record of a million lines is shown in the
memory of a short one.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    write_json,
    write_json_lines,
    write_json_pieces,
    write_lines,
    write_warnings,
)
from specify_cli.cli.terminal.pager import write_pages
from specify_cli.cli.terminal.render import PageStory, invocation_page, read_events
from specify_cli.features.story.lines import (
    name_columns,
    render_changes,
    render_lines,
    render_story,
)
from specify_cli.libraries.story.stored import tell_invocation
from specify_cli.libraries.story.summary import pair_calls, tell_lines
from specify_cli.record.reading.checks import read_commands
from specify_cli.record.reading.views import json_pieces
from specify_cli.room import Values
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import events_from, view_invocation

_FOLLOW_PAUSE = 0.2


def show(values: Values) -> int:
    """Show one invocation whole: as a story, its lines, its changes, or as JSON. Return the exit
    code."""
    project = shell.read_project()
    value = view_invocation(project, str(values["invocation_id"]))
    if values["json"] and not values["story"]:
        write_json_pieces(json_pieces(value))
        return 0
    if values["diff"] and not values["json"]:
        events = value["events"]
        get = FileObjectStore(project.root).get
        write_pages(render_changes(events if isinstance(events, Sequence) else (), get))
        return 0
    story = tell_invocation(project, value)
    if values["json"]:
        write_json(story)
        return 0
    bad = f" ({story.failed} failed or denied)" if story.failed else ""
    calls = f"{count(story.calls, 'call')}{bad}" if story.calls else ""
    lines = render_story(story, read_events(value) if values["full"] else None)
    on_page = PageStory(story.asked.missing, story.asked.work, calls, story.told.judged, lines)
    write_pages(invocation_page(value, on_page, explain=bool(values["explain"])))
    return 0


def tail(values: Values) -> int:
    """Show the newest events, and with --follow those to come until the record is closed.

    Return 0. With --follow the file is looked at five times a second; no lock is taken.
    """
    project = shell.read_project()
    place = Index(project.root).resolve(shell.get_text(values, "invocation_id") or "last")
    lines, offset, unread, is_closed = values["lines"], 0, 0, False
    last_lines = min(lines, sys.maxsize) if isinstance(lines, int) else 0

    open_calls: dict[str, Mapping[str, object]] = {}
    started = {}

    def read_new_events() -> Iterator[dict[str, object]]:
        nonlocal offset, unread, is_closed
        for event, end in events_from(project, place, offset):
            if event is None:
                offset, unread = end, unread + 1
                continue
            started.update(event if event.get("event") == "started" and not offset else {})
            offset, is_closed = end, is_closed or event.get("event") == "completed"
            yield event

    def read_pairs() -> Iterator[Sequence[Mapping[str, object]]]:
        return pair_calls(read_new_events(), open_calls)

    def print_pairs(pairs: Iterable[Sequence[Mapping[str, object]]]) -> None:
        if values["json"]:
            write_json_lines(pair[-1] for pair in pairs)
        else:
            commands = read_commands(started, FileObjectStore(project.root).get)
            write_lines(render_lines(tell_lines(pairs, commands, os.path.realpath(project.root))))

    if not values["json"]:
        write_lines([name_columns()])
    print_pairs(deque(read_pairs(), last_lines))
    if unread or not offset:
        found = f"{count(unread, 'line')} cannot" if unread else "no line can"
        repair = f"spec-kitty invocations verify {place.invocation_id}"
        write_warnings([f"{place.path}: {found} be read; {repair}"])
    while values["follow"] and not is_closed:
        time.sleep(_FOLLOW_PAUSE)
        print_pairs(read_pairs())
    return 0
