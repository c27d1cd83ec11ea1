"""A run as exports need it: its timeline, each entry with a begin and an end in nanoseconds. [pure]

run = read_run(record.entries, annexes)
for span in run.spans:
    print(span.entry.name, span.end - span.begin)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from doctrine.text import get_object, say
from specify_cli.errors import CallerError
from specify_cli.record.reading.coverage import list_unseen
from specify_cli.record.reading.timeline import Entry, make_timeline, moment_of
from specify_cli.record.reading.usage import find_model
from specify_cli.record.seal import Fields

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The last nanosecond that a signed 64-bit integer counts, in the year 2262.
_LAST = 2**63 - 1
# What every export leaves out, because no other form has a place for it.
LEFT_OUT = (
    "seals and chain: nobody can check this file, only the record it was made from",
    "objects: contexts, files and outputs that stand outside the lines are named by digest",
    "approvals' signatures and the proofs of the log",
)


class Span(NamedTuple):
    """An entry of the timeline, when it began and ended in nanoseconds since 1970, and whether it
    has a duration."""

    entry: Entry
    begin: int
    end: int
    lasts: bool


class Run(NamedTuple):
    """One record for an export. `tip` is the seal of its last line, `withheld` the lines a safe
    export left out."""

    invocation_id: str
    started: Fields
    completed: Fields
    tip: str | None
    spans: tuple[Span, ...]
    not_seen: tuple[str, ...]
    withheld: int

    @property
    def begin(self) -> int:
        """Return the earliest nanosecond of the run."""
        return min((span.begin for span in self.spans), default=0)

    @property
    def ended(self) -> int:
        """Return the nanosecond of its close, which annexes come after; of an open run the
        latest."""
        closed = _read_nanos(moment_of(self.completed)) if self.completed else None
        latest = max((span.end for span in self.spans), default=0)
        return latest if closed is None else max(self.begin, closed)

    @property
    def model(self) -> str | None:
        """Return the model that the caller said it was, else the one that the run began with."""
        named = get_object(self.started, "actor").get("model")
        return say(named) if named else find_model(span.entry.fields for span in self.spans)


def read_run(
    lines: Iterable[Fields],
    annexes: Iterable[Fields] = (),
    tip: str | None = None,
) -> Run:
    """Return the run that a record's lines and its annexes report.

    Raises CallerError WITHHELD where the first line is not among them, which says whose run it is.
    """
    lines = list(lines)
    everything = [*lines, *annexes]
    present = [line for line in lines if "withheld" not in line]
    started = next((line for line in present if line.get("event") == "started"), None)
    if started is None:
        name = next((line.get("invocation_id") for line in present), None)
        problem = f"the line that begins {say(name or 'the record')} is withheld"
        raise CallerError("WITHHELD", problem, "leave it out, or get it from who has it whole")
    completed = next((line for line in reversed(present) if line.get("event") == "completed"), {})
    return Run(
        say(started.get("invocation_id")),
        started,
        completed,
        tip,
        _place(
            [line for line in everything if "withheld" not in line],
            _read_nanos(moment_of(completed)) if completed else None,
        ),
        tuple(list_unseen(started, everything)),
        len(lines) - len(present),
    )


def _place(lines: list[Fields], closed: int | None) -> tuple[Span, ...]:
    """Place each entry in time; one without a readable time comes with the one before it. What
    never ended lasts until the run was `closed`."""
    moments = [moment for line in lines if (moment := _read_nanos(moment_of(line))) is not None]
    last = max(moments, default=0) if closed is None else closed
    now = min(moments, default=0)
    spans = []
    for entry in make_timeline(lines):
        now = at if (at := _read_nanos(entry.at)) is not None else now
        took = None if entry.duration_ms is None else max(0, entry.duration_ms) * 1_000_000
        if entry.status == "open":
            spans.append(Span(entry, now, max(now, last), True))
        elif took is None:
            spans.append(Span(entry, now, now, False))
        elif entry.end_fields:
            spans.append(Span(entry, now, min(now + took, _LAST), True))
        else:  # One line that says how long it took was written at the end.
            spans.append(Span(entry, max(0, now - took), now, True))
    return tuple(spans)


def _read_nanos(moment: str | None) -> int | None:
    """Return a recorded moment in nanoseconds since 1970, within what 63 bits hold; None where it
    is none."""
    try:
        there = datetime.fromisoformat(moment or "")
        there = there if there.tzinfo else there.replace(tzinfo=UTC)
        return min(max(0, (there - _EPOCH) // timedelta(microseconds=1) * 1000), _LAST)
    except (ValueError, OverflowError):
        return None


def read_captured(value: object) -> str | None:
    """Return the text of a captured value as far as the line holds it; None where it holds none."""
    if not isinstance(value, dict):
        return None if value is None else say(value)
    head, tail = value.get("head"), value.get("tail")
    if not isinstance(head, str):
        return None
    return f"{head} […] {tail}" if isinstance(tail, str) and tail else head


def encode_document(document: object) -> bytes:
    """Return a document as JSON on one line, and bytes as they are; what UTF-8 cannot hold becomes
    a question mark."""
    if isinstance(document, bytes):
        return document
    return (
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        + b"\n"
    )


def sum_tokens(run: Run) -> dict[str, int]:
    """Return the tokens of all turns by kind."""
    total: Counter[str] = Counter()
    for span in run.spans:
        for kind, number in get_object(span.entry.fields, "tokens").items():
            if span.entry.kind == "turn" and type(number) is int:
                total[kind] += number
    return total
