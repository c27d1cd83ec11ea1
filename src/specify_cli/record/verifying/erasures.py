"""Check that annexes account for all members that lines lost by erasure (docs/format.md §13).
[pure]

    report = judge_erasures(report, [(file, fields)])     # annexes that fit their record

An erasure leaves the seal of the line in place, so the chain still holds, but the line no longer
hashes to its seal. By itself that looks like tampering: ERASURE_UNPROVEN. An annex clears it if it
names the line's seal, the erased members, and the SHA-256 of the line as it is now. If an annex
names members that are still there, the finding is ERASURE_PENDING.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from doctrine.text import count, say
from specify_cli.record import layout
from specify_cli.record.findings import ErasedLine, RecordReport, finding
from specify_cli.record.seal import Fields, Line, erased_members, is_digest


class Row(NamedTuple):
    """One line in the list of an annex: which of its members were erased.

    `members` are sorted, `digest` is the SHA-256 of the line after the erasure.
    """

    seq: int
    seal: str
    members: tuple[str, ...]
    digest: str


def read_rows(fields: Fields) -> tuple[Row, ...] | None:
    """Return a row for each line that an annex lists as erased; None if the list is malformed.

    `fields` are those of the annex. `seal` and `digest` of a row must have the form of digests;
    nothing else is checked about them.
    """
    lines, rows = fields.get("lines"), []
    for item in lines if isinstance(lines, list) else [None]:
        if not isinstance(item, dict) or item.keys() != {"seq", "seal", "members", "digest"}:
            return None
        seq, members = item["seq"], item["members"]
        if type(seq) is not int or not isinstance(members, list) or not members:
            return None
        if not is_digest(str(item["seal"])) or not is_digest(str(item["digest"])):
            return None
        rows.append(Row(seq, str(item["seal"]), tuple(map(str, members)), str(item["digest"])))
    return tuple(rows)


def make_row(line: Line) -> dict[str, object]:
    """Return the row of an annex for a line after an erasure, in the form that `read_rows` reads.

    The row names all members that the line has lost, also by earlier erasures: an annex accounts
    for a line only if it names exactly those.
    """
    fields = line.fields or {}
    return {
        "seq": fields.get("seq"),
        "seal": line.seal,
        "members": list(erased_members(fields)),
        "digest": line.digest,
    }


def judge_erasures(
    report: RecordReport,
    annexes: Sequence[tuple[str, Fields]],
    holds: Callable[[str], bool] | None,
) -> RecordReport:
    """Return the report of a record after its annexes account for erased members.

    An annex accounts for a line if it names the line's seal, exactly its missing members, and the
    digest of the rest. Members that other annexes name for that line must be missing too. `holds`
    returns whether a line of the record has a seal: an annex of another record names lines that are
    not there. Without it, a line that is not among the erased ones counts as whole.

    `annexes` are (file, fields with the seal under `~`) that fit the record. An erasure with a time
    before a line it erases has no effect. One during a hold is HELD_ERASED.
    """
    by_seal = {line.seal: line for line in report.erased}
    proven, objects = set[str](), set[str]()
    findings = list(report.findings)
    orders = [fields for _, fields in annexes]
    is_own = report.file.startswith((f"{layout.RECORDS}/", f"{layout.TRAIL}/"))
    for file, fields in annexes:
        if fields.get("event") != "erased":
            continue
        # This annex encrypted a copy that left the project; the record elsewhere lost nothing.
        is_copy = "sealed" in fields and not is_own
        if not is_copy and find_hold(orders, str(fields.get("at"))) is not None:
            findings.append(finding("HELD_ERASED", file, None, 0, _say_order(fields)))
        rows, digests = read_rows(fields), fields.get("objects")
        if rows is None or not isinstance(digests, list):
            findings.append(finding("ANNEX_MISMATCH", file, None, 0, "expected what was erased"))
            continue
        late = [line.at for row in rows if (line := by_seal.get(row.seal))]
        if late and str(fields.get("at")) < max(late):
            what = f"it says {say(fields.get('at'))}, before the line it erases was written"
            findings.append(finding("ANNEX_MISMATCH", file, None, 0, what))
            continue
        objects.update(map(str, digests))
        proven |= {row.seal for row in rows if _proves(row, by_seal.get(row.seal))}
        for row in rows:
            line = by_seal.get(row.seal)
            if not line and holds is not None and not holds(row.seal):
                what = f"it erases a line, seq {row.seq}, that the record does not hold"
                findings.append(finding("ANNEX_MISMATCH", file, None, 0, what))
            elif not is_copy and _is_pending(row, line):
                what = f"{', '.join(row.members)}, says {file}"
                findings.append(finding("ERASURE_PENDING", report.file, row.seq, 0, what))
        counted_rows = [row for row in rows if row.seal in by_seal or not is_copy]
        values = sum(len(row.members) for row in counted_rows) + len(digests)
        if values:
            why = f"{count(values, 'value')}, {_say_order(fields)}"
            findings.append(finding("ERASED", file, None, 0, why))
    sound = {(line.file or report.file, line.seq) for line in report.erased if line.seal in proven}
    remaining = [
        i for i in findings if i.code != "ERASURE_UNPROVEN" or (i.file, i.seq) not in sound
    ]
    return report._replace(
        findings=tuple(remaining),
        erased_objects=tuple(sorted(objects)),
        trail=report.trail._replace(backdated=tuple(_list_backdated(orders))),
    )


def _list_backdated(orders: Sequence[Fields]) -> Iterator[tuple[str, str, str]]:
    """Yield the seals of each erasure that says it was before a hold, of the hold, and of its
    release."""
    ends = {one.get("hold"): str(one["~"]) for one in orders if one.get("event") == "released"}
    for hold in orders:
        for one in orders if hold.get("event") == "held" else ():
            if one.get("event") == "erased" and str(one.get("at")) < str(hold.get("at")):
                yield str(one["~"]), str(hold["~"]), ends.get(hold["~"], "")


def find_hold(annexes: Sequence[Fields], at: str = "9999-12-31T23:59:59.999Z") -> Fields | None:
    """Return a hold that is in force on a record at a time; None where none is.

    `annexes` and `at` are as for `list_in_force`.
    """
    return next(iter(list_in_force(annexes, at)), None)


def list_in_force(annexes: Sequence[Fields], at: str = "9999-12-31T23:59:59.999Z") -> list[Fields]:
    """Return the holds that are in force on a record at a time; there can be several, one from each
    clone.

    `annexes` are fields with their seals under `~`; `at` is RFC 3339, and without it every hold
    counts as begun. A release counts by the seal of the hold it names.
    """
    holds = [one for one in annexes if one.get("event") == "held" and str(one.get("at")) <= at]
    over = {
        one.get("hold")
        for one in annexes
        if one.get("event") == "released" and str(one.get("at")) <= at
    }
    return [one for one in holds if one.get("~") not in over]


def _say_order(fields: Fields) -> str:
    """Return who ordered an erasure and why, as findings say it."""
    rule = fields.get("rule")
    by = f"rule {say(rule)}" if rule is not None else say(fields.get("ordered_by"))
    at = fields.get("clock", fields.get("at"))
    return f"{say(at)}, by {by}: {say(fields.get('reason'))}"


def _is_pending(row: Row, line: ErasedLine | None) -> bool:
    """Return whether a line still has a member that an annex names as erased.

    A line without a digest was withheld whole, so nothing of it can be pending.
    """
    if not line:
        return True
    return bool(line.digest) and not set(row.members) <= set(line.members)


def _proves(row: Row, line: ErasedLine | None) -> bool:
    """Return whether a row accounts for a line: for its seal, exactly its lost members, and the
    rest."""
    return (
        line is not None
        and row.digest == line.digest
        and row.members == line.members
        and row.seq == line.seq
    )
