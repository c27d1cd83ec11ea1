"""Check that each annex of a record is whole and belongs to it (docs/format.md §13).  [pure]

    report = add_annexes(verify_record(lines, …), invocation_id, [(file, data)])

An annex is a file of one sealed line that says something of a closed record: a late link, an
export, an erasure. Its `prev` is the seal of the record's last line, so it belongs to this record
as it ends here and to no other. An order (`erased`, `held`, `released`) can be given of an open
record as well. Its last line is not final yet, so the `prev` of an order is then the seal of the
last line of the opening, which never changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from doctrine.text import say
from specify_cli.record.event_table import ANNEX_EVENTS, ORDERS
from specify_cli.record.findings import (
    ErasedLine,
    Finding,
    NamedObject,
    RecordReport,
    finding,
)
from specify_cli.record.reading.evidence import CONTRADICTIONS
from specify_cli.record.record import integer_at
from specify_cli.record.seal import (
    TIME_PATTERN,
    VERSIONS,
    Fields,
    erased_members,
    open_line,
    seal_at_end,
)
from specify_cli.record.verifying.erasures import judge_erasures
from specify_cli.record.verifying.named_objects import named_objects

# Bytes of the annexes that are parsed, because they change what the report says of other lines.
_READ = (
    b'"ordered_by":',
    b'"erased":',
    b'"event":"reconciled"',
    b'"event":"tool_call"',
    *(f'"reason":"{reason}"'.encode() for reason in CONTRADICTIONS),
)


def add_annexes(
    report: RecordReport,
    invocation_id: str,
    annexes: Iterable[tuple[str, bytes]],
    holds: Callable[[str], bool] | None = None,
) -> RecordReport:
    """Return the report of a record together with its annexes.

    `annexes` are (file, bytes) in any order. `holds` returns whether a line of the record has a
    seal; without it an erasure of a line that is not here counts as pending. An annex that does not
    fit is a finding and has no other effect.

    `invocation_id` is the record's. Findings of the record come first, then those of the annexes in
    the order they were given. The report of `report` itself is not changed.
    """
    closing = report.tip if report.status == "closed" else None
    findings = list(report.findings)
    all_objects = list(report.objects)
    seals = list(report.trail.annexes)
    erased = list(report.erased)
    orders = []
    lone_calls = report.trail.lone_calls
    for file, data in annexes:
        seal = seal_at_end(data)
        seals += [] if seal is None else [seal]
        line = open_line(data[:-1]) if any(mark in data for mark in _READ) else None
        fields = {} if not line or line.fields is None else line.fields
        is_order = fields.get("event") in ORDERS
        # The `prev` of an order about an open record is the seal of its start.
        on_start = is_order and fields.get("prev") == report.trail.started
        tip = report.trail.started if on_start else closing
        problems, objects = verify_annex(data, file=file, invocation_id=invocation_id, tip=tip)
        findings += problems
        all_objects += objects
        if problems:
            continue
        lone_calls += count_lone_calls(fields)
        if fields.get("event") == "capture_gap" and fields.get("reason") in CONTRADICTIONS:
            seq = integer_at(fields, "seq", 0)
            findings.append(finding("CONTRADICTION_TOLD", file, seq, 0, say(fields.get("what"))))
        if is_order:
            orders.append((file, {**fields, "~": seal}))
        elif line is not None and line.digest is not None and line.seal is not None:
            # The log holds the seal of this line, so an erasure must account for what it lost.
            members = erased_members(fields)
            seq = integer_at(fields, "seq", 0) or 0
            at = str(fields.get("at"))
            erased.append(ErasedLine(seq, line.seal, line.digest, members, at, file))
            findings.append(finding("ERASURE_UNPROVEN", file, seq, 0, ", ".join(members)))
    trail = report.trail._replace(annexes=tuple(seals), lone_calls=max(0, lone_calls))
    annex_seals = frozenset(seals)
    report = report._replace(
        findings=tuple(findings), objects=tuple(all_objects), trail=trail, erased=tuple(erased)
    )
    shows_seal = None if holds is None else lambda seal: seal in annex_seals or holds(seal)
    return judge_erasures(report, orders, shows_seal) if orders else report


def count_lone_calls(fields: Fields) -> int:
    """Return by how many an annex changes the number of calls that only one witness reported: a
    transcript that was compared with the record confirms some, or adds one of its own.

    `fields` are those of the annex. The result can be negative; the sum over a record is never
    shown below 0.
    """
    if fields.get("event") == "reconciled":
        confirmed = fields.get("confirmed")
        return -confirmed if type(confirmed) is int else 0
    return int(fields.get("event") == "tool_call" and fields.get("witness") == "transcript")


def verify_annex(
    data: bytes, *, file: str, invocation_id: str, tip: str | None
) -> tuple[tuple[Finding, ...], tuple[NamedObject, ...]]:
    """Return the findings about an annex of a record, and the objects that it names.

    `tip` is the seal of the record's closing line; None for an open record, which can have no
    annex. At most one finding is returned, because after it the rest cannot be judged. The seq must
    be a number, but need not be the next one: `prev` says where the annex belongs.

    `data` is the whole file, and `file` the name that findings state.
    """
    line = open_line(data[:-1]) if data.endswith(b"\n") and data.count(b"\n") == 1 else None
    if not line:
        return (finding("ANNEX_MISMATCH", file, None, 0, "expected one whole line"),), ()
    if line.problems or line.fields is None:
        problem = finding(line.problems[0], file, None, 0)
        return (problem._replace(repair=finding("ANNEX_MISMATCH", file, None, 0).repair),), ()
    fields = line.fields
    seq = integer_at(fields, "seq", 0)
    if line.digest is not None and fields.get("event") in ORDERS:
        return (finding("ANNEX_MISMATCH", file, seq, 0, "nothing of an order is ever erased"),), ()
    expected = {
        "event": ANNEX_EVENTS,
        "invocation_id": (invocation_id,),
        "prev": (tip,),
        "v": VERSIONS,
    }
    for key, allowed in expected.items():
        if fields.get(key) in allowed:
            continue
        required = " or ".join(sorted(map(str, allowed)))
        if key == "prev" and tip is None:
            required = "a closed record"
        detail = f"{key}: expected {required}, found {say(fields.get(key))}"
        return (finding("ANNEX_MISMATCH", file, seq, 0, detail),), ()
    if seq is None or not re.fullmatch(TIME_PATTERN, str(fields.get("at"))):
        return (finding("ANNEX_MISMATCH", file, seq, 0, "expected a seq and a time"),), ()
    return (), tuple(named_objects(fields, seq, 0))
