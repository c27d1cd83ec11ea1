"""why: from a line of a file to the invocation, the request and the rules behind it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, paint, say_request, write_json, write_lines
from specify_cli.cli.terminal.render import zoned_time
from specify_cli.features.search.commands import open_index
from specify_cli.features.search.why import (
    Explanation,
    Origin,
    explain_file,
    split_place,
)
from specify_cli.room import Values

_RULES = 6


def why(values: Values) -> int:
    """Tell where a file's lines come from."""
    project = shell.read_project()
    path, line = split_place(str(values["place"]), shell.here())
    with open_index(project) as index:
        explanation = explain_file(project, index, path, line)
    if values["json"]:
        write_json(explanation)
        return 0
    write_lines(_render(explanation, whole=line is None))
    write_lines(f"not known: {one_line(text)}" for text in explanation.not_known)
    return 0


def _render(explanation: Explanation, *, whole: bool) -> Iterator[str]:
    """Yield the ranges with what asked for them; of a single line everything that is known."""
    origins = {origin.invocation_id: origin for origin in explanation.origins}
    # What several lines of one record tell is one row.
    for _, group in groupby(explanation.ranges, lambda part: (part.invocation_id, part.several)):
        part, *more = group
        last = more[-1].last if more else part.last
        place = f"{part.first}" if part.first == last else f"{part.first}-{last}"
        if part.invocation_id is None:
            names = ", ".join(name[-6:] for name in part.several)
            said = f"one of {names}" if names else "unknown: no record tells who wrote it"
            yield f"{place:>11}  {paint(said, 'dim')}"
            continue
        origin = origins[part.invocation_id]
        head = (
            f"{origin.invocation_id[-6:]}  {zoned_time(origin.started_at)}  "
            f"{one_line(origin.profile_id or '')}"
        )
        yield f"{place:>11}  {head}  {say_request(origin.request, 60)}"
        if not whole:
            yield from _render_origin(origin, part.uri or "")
    if whole:
        known = explanation.lines - explanation.unknown
        yield (
            f"{known} of {count(explanation.lines, 'line')} from "
            f"{count(len(origins), 'invocation')}"
        )


def _render_origin(origin: Origin, uri: str) -> Iterator[str]:
    yield ""
    yield f"request:  {one_line(origin.request or 'not kept', 400)}"
    yield f"asked by: {one_line(origin.actor_id or 'unknown')} at {zoned_time(origin.started_at)}"
    yield from [f"part of:  {one_line(origin.work)}"] if origin.work else []
    did = filter(None, (origin.profile_id, origin.action, origin.outcome))
    yield f"done by:  {' · '.join(map(one_line, did))}"
    yield f"told by:  {uri}"
    yield f"rules:    {count(len(origin.rules), 'rule')} in front of the agent"
    yield from [f"  {origin.printed}"] if origin.printed else []
    yield from (f"  {one_line(rule)}" for rule in origin.rules[:_RULES])
    if len(origin.rules) > _RULES:
        yield (
            f"  and {len(origin.rules) - _RULES} more: spec-kitty invocations context "
            f"{origin.invocation_id[-6:]}"
        )
    yield f"tested:   {'no test run is known after it' if not origin.checks else ''}".rstrip()
    for check in origin.checks:
        shows = f"{check.shows}, and changed since" if check.changed_since else check.shows
        yield f"  {check.seq:>4}  {shows}  {one_line(check.command, 100)}"
