"""A comparison as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line
from specify_cli.libraries.comparison.compare import ReplayResult

_LISTED = 20


def render_comparison(result: ReplayResult) -> Iterator[str]:
    """Yield a comparison for a terminal: the verdict, what differs, what could not be compared."""
    yield f"{result.message} ({count(result.details['steps_compared'], 'step')} compared)"
    if result.match:
        yield f"  {result.scope}"
    mismatches = result.list_mismatches()
    for item, difference in mismatches[:_LISTED]:
        place = "" if item["step"] is None else f" step {item['step']}"
        what = f" {one_line(difference.what)}:" if difference else ""
        values = f" expected {one_line(item['expected'])}, found {one_line(item['actual'])}"
        diff = difference.diff if difference else ()
        yield f"  {item['code']}{place}:{what}{'' if diff else values}"
        yield from (f"    {one_line(line)}" for line in diff)
    if len(mismatches) > _LISTED:
        yield f"  and {count(len(mismatches) - _LISTED, 'more difference')}: --json lists them"
    for warned in result.warnings[:_LISTED]:
        place = "" if warned.step is None else f" step {warned.step}"
        yield f"  warning: {warned.code}{place}: {one_line(warned.message)}"
    if len(result.warnings) > _LISTED:
        yield f"  and {count(len(result.warnings) - _LISTED, 'more warning')}: --json lists them"
    yield f"  not compared: {', '.join(result.not_compared)}"
